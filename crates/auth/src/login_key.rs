//! Which public keys can log in, or sign certificates that can: asked when a key is configured, so
//! that a key which no login would accept is refused before it disappoints a partner.

use entrepot_ssh::{keys, wire};

use crate::limits::RSA_BITS;
use crate::ssh_key::key_blob;

/// Types of key that can log in. RSA keys are measured as well.
const KEY_TYPES: [&str; 7] = [
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
    "ssh-rsa",
];

/// Why no login with a key can succeed. No policy changes that.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnusableKey {
    /// An RSA key that is too short.
    #[error(
        "an RSA key of {bits} bits is too weak to log in with, {RSA_BITS} are the least; \
         ask for a new one, made with 'ssh-keygen -t ed25519'"
    )]
    ShortRsa {
        /// Length of its modulus.
        bits: usize,
    },
    /// DSA, which SSH allows with 1024 bits and SHA-1 only.
    #[error(
        "DSA keys are too weak to log in with; ask for a new one, made with \
         'ssh-keygen -t ed25519'"
    )]
    Dsa,
    /// No signature of such a key is understood.
    #[error(
        "keys of the type '{key_type}' cannot log in here; ask for another one, made with \
         'ssh-keygen -t ed25519'"
    )]
    UnknownType {
        /// As the key names it.
        key_type: String,
    },
    /// The line was cut or changed on its way.
    #[error("the key cannot be read ({problem}); copy the whole line of the .pub file")]
    Unreadable {
        /// What the parser found.
        problem: String,
    },
}

/// Checks one line of OpenSSH form.
///
/// # Errors
/// Why no login with this key can succeed.
pub fn check_login_key(public: &str) -> Result<(), UnusableKey> {
    let unreadable = |problem: String| UnusableKey::Unreadable { problem };
    let blob = key_blob(public).ok_or_else(|| unreadable("it is no base64".to_owned()))?;
    check_blob(&blob)?;
    let parsed = keys::public(public).map_err(|error| unreadable(error.to_string()))?;
    let named = public.split_whitespace().next().unwrap_or_default();
    if named == parsed.algorithm().as_str() {
        Ok(())
    } else {
        Err(unreadable(format!("it is named '{named}' and is another type")))
    }
}

/// Checks type and length of a key in the form that SSH sends (RFC 4253 §6.6; of RSA: string
/// "ssh-rsa", mpint e, mpint n).
pub(crate) fn check_blob(blob: &[u8]) -> Result<(), UnusableKey> {
    let cut = || UnusableKey::Unreadable { problem: "it is cut".to_owned() };
    let mut rest = blob;
    let key_type = wire::take(&mut rest).ok_or_else(cut)?;
    if key_type == b"ssh-dss" {
        return Err(UnusableKey::Dsa);
    }
    if !KEY_TYPES.iter().any(|known| known.as_bytes() == key_type) {
        let key_type = String::from_utf8_lossy(key_type).escape_default().to_string();
        return Err(UnusableKey::UnknownType { key_type });
    }
    if key_type != b"ssh-rsa" {
        return Ok(());
    }
    let _exponent = wire::take(&mut rest).ok_or_else(cut)?;
    match bits(wire::take(&mut rest).ok_or_else(cut)?) {
        bits if bits < RSA_BITS => Err(UnusableKey::ShortRsa { bits }),
        _ => Ok(()),
    }
}

/// Length of a positive mpint (RFC 4251 §5).
fn bits(number: &[u8]) -> usize {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    let significant = number.get(zeros..).unwrap_or_default();
    let spare = significant.first().map_or(0, |first| first.leading_zeros() as usize);
    significant.len() * 8 - spare
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_can_log_in_and_keys_that_never_can() {
        assert_eq!(check_login_key(include_str!("../fixtures/rsa2048.pub")), Ok(()));
        let short = check_login_key(include_str!("../fixtures/rsa1024.pub"));
        assert_eq!(short, Err(UnusableKey::ShortRsa { bits: 1024 }));
        assert_eq!(check_login_key(include_str!("../fixtures/dsa.pub")), Err(UnusableKey::Dsa));
        let ed25519 =
            "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBMq5LdC0q0aWkq4M1gAAAAAAAAAAAAAAAAAAAAAAAAA a";
        assert_eq!(check_login_key(ed25519), Ok(()));
        for bad in [
            "ssh-ed25519",
            "ssh-ed25519 AAAA",
            "ssh-ed25519 not-base64!",
            "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBMq5LdC0q0aWkq4M1gA",
            &ed25519.replace("ssh-ed25519 ", "ssh-rsa "),
        ] {
            let refused = check_login_key(bad);
            assert!(matches!(refused, Err(UnusableKey::Unreadable { .. })), "{bad}: {refused:?}");
        }
        // The type `ssh-xmss@openssh.com`.
        let other = check_login_key("ssh-xmss@openssh.com AAAAFHNzaC14bXNzQG9wZW5zc2guY29t");
        let key_type = "ssh-xmss@openssh.com".to_owned();
        assert_eq!(other, Err(UnusableKey::UnknownType { key_type }));
    }

    #[test]
    fn bits_of_a_number() {
        assert_eq!(bits(&[]), 0);
        assert_eq!(bits(&[0, 0x80]), 8);
        assert_eq!(bits(&[0x01, 0]), 9);
    }
}
