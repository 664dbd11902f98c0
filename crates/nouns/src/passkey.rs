//! The public half of a passkey (Web Authentication, W3C) as a key holds it: one line, as of keys
//! of SSH.

use std::fmt;
use std::str::FromStr;

/// Longest identifier of a credential, in letters of base64url (WebAuthn §5.8.3: 1,023 bytes).
const CREDENTIAL_LETTERS: usize = 1_364;
/// Longest public key, in letters of base64url: RSA of 8,192 bits with room.
const KEY_LETTERS: usize = 2_048;

/// How a passkey signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PasskeyAlgorithm {
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// Ed25519 (RFC 8032).
    EdDsa,
    /// RSA with PKCS #1 v1.5 and SHA-256.
    Rs256,
}

impl PasskeyAlgorithm {
    /// In the order in which authenticators are asked for them.
    pub const ALL: [PasskeyAlgorithm; 3] =
        [PasskeyAlgorithm::Es256, PasskeyAlgorithm::EdDsa, PasskeyAlgorithm::Rs256];

    /// Its number in the registry of COSE (RFC 9053, RFC 8812).
    pub fn number(self) -> i32 {
        match self {
            PasskeyAlgorithm::Es256 => -7,
            PasskeyAlgorithm::EdDsa => -8,
            PasskeyAlgorithm::Rs256 => -257,
        }
    }

    /// The word that the line of a key begins with.
    pub fn word(self) -> &'static str {
        match self {
            PasskeyAlgorithm::Es256 => "webauthn-es256",
            PasskeyAlgorithm::EdDsa => "webauthn-eddsa",
            PasskeyAlgorithm::Rs256 => "webauthn-rs256",
        }
    }
}

/// The public half of a passkey: `webauthn-es256 HOST CREDENTIAL KEY`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PasskeyPublic {
    /// How it signs.
    pub algorithm: PasskeyAlgorithm,
    /// The host that it was made at, in small letters, and the only one that it signs in at (its
    /// relying party, WebAuthn §4).
    pub host: String,
    /// What authenticators know it by, in base64url without padding.
    pub credential: String,
    /// The key as SubjectPublicKeyInfo (RFC 5280 §4.1.2.7), in base64url without padding.
    pub key: String,
}

impl fmt::Display for PasskeyPublic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PasskeyPublic { algorithm, host, credential, key } = self;
        write!(f, "{} {host} {credential} {key}", algorithm.word())
    }
}

/// The text is no public half of a passkey.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is the public half of a passkey, which its owner adds at /account")]
pub struct NoPasskey;

impl FromStr for PasskeyPublic {
    type Err = NoPasskey;

    fn from_str(text: &str) -> Result<Self, NoPasskey> {
        let words: Vec<&str> = text.split(' ').collect();
        let [word, host, credential, key] = words.as_slice() else { return Err(NoPasskey) };
        let algorithm = PasskeyAlgorithm::ALL.into_iter().find(|known| known.word() == *word);
        let algorithm = algorithm.ok_or(NoPasskey)?;
        let is_host = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_');
        let is_coded = |text: &str, most: usize| {
            let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
            (1..=most).contains(&text.len()) && text.bytes().all(is_letter)
        };
        let is_good = (1..=253).contains(&host.len())
            && host.bytes().all(is_host)
            && is_coded(credential, CREDENTIAL_LETTERS)
            && is_coded(key, KEY_LETTERS);
        if !is_good {
            return Err(NoPasskey);
        }
        let [host, credential, key] = [host, credential, key].map(|word| (*word).to_owned());
        Ok(PasskeyPublic { algorithm, host, credential, key })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_line_is_read_as_it_is_written() {
        let line = "webauthn-es256 files.example aGVsbG8 MFkwEwYHKoZI-_zj";
        let public: PasskeyPublic = line.parse().unwrap();
        assert_eq!(
            (public.algorithm, public.host.as_str()),
            (PasskeyAlgorithm::Es256, "files.example")
        );
        assert_eq!(public.to_string(), line);
        for bad in [
            "",
            "webauthn-es256 files.example aGVsbG8",
            "webauthn-es257 files.example aGVsbG8 MFkw",
            "webauthn-es256 Files.example aGVsbG8 MFkw",
            "webauthn-es256 https://files.example aGVsbG8 MFkw",
            "webauthn-es256 files.example aGVs+G8 MFkw",
            "webauthn-es256 files.example  MFkw",
            "webauthn-es256 files.example aGVsbG8 MFkw more",
        ] {
            assert_eq!(bad.parse::<PasskeyPublic>(), Err(NoPasskey), "{bad}");
        }
    }
}
