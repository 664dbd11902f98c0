//! SSH keys: made, read, shown.

use std::path::Path;

use entrepot_model::{Env, Secret};
use russh::keys::ssh_key::LineEnding;
use russh::keys::ssh_key::private::{Ed25519Keypair, KeypairData};
use russh::keys::{HashAlg, PrivateKey, PublicKey};

use crate::NetError;

/// A key pair, ready to be stored.
#[derive(Debug)]
pub struct KeyPair {
    /// OpenSSH PEM, not encrypted.
    pub private: Secret,
    /// One line: `ssh-ed25519 AAAA… comment`.
    pub public: String,
    /// `SHA256:…`.
    pub fingerprint: String,
}

/// Makes an Ed25519 key pair with the randomness of `env`.
///
/// # Errors
/// Only if the comment cannot be encoded.
pub fn generate(env: &Env, comment: &str) -> Result<KeyPair, NetError> {
    let mut seed = [0; 32];
    env.fill_random(&mut seed);
    let pair = KeypairData::from(Ed25519Keypair::from_seed(&seed));
    let key = PrivateKey::new(pair, comment).map_err(unreadable)?;
    let pem = key.to_openssh(LineEnding::LF).map_err(unreadable)?;
    Ok(KeyPair {
        private: Secret::new(pem.as_bytes()),
        public: key.public_key().to_openssh().map_err(unreadable)?,
        fingerprint: fingerprint(key.public_key()),
    })
}

/// Reads a private key in OpenSSH form.
///
/// # Errors
/// Not such a key, or one that is encrypted with a passphrase.
pub fn private(pem: &Secret) -> Result<PrivateKey, NetError> {
    let key = PrivateKey::from_openssh(pem.expose()).map_err(unreadable)?;
    if key.is_encrypted() {
        return Err(NetError::Key("it is encrypted with a passphrase".to_owned()));
    }
    Ok(key)
}

/// Reads the one line of a `.pub` file.
///
/// # Errors
/// Not such a line.
pub fn public(line: &str) -> Result<PublicKey, NetError> {
    PublicKey::from_openssh(line.trim()).map_err(unreadable)
}

/// The public line of a private key.
///
/// # Errors
/// As [`private`].
pub fn public_of(pem: &Secret) -> Result<String, NetError> {
    private(pem)?.public_key().to_openssh().map_err(unreadable)
}

/// Keys of a host in a `known_hosts` file, one line each; none if there is no such file.
///
/// # Errors
/// A line of the host holds no key.
pub fn known_hosts(file: &Path, host: &str, port: u16) -> Result<Vec<String>, NetError> {
    let found = russh::keys::known_hosts::known_host_keys_path(host, port, file);
    let found = found.map_err(|error| NetError::Key(error.to_string()))?;
    found.iter().map(|(_, key)| key.to_openssh().map_err(unreadable)).collect()
}

/// `SHA256:…`, as every SSH program shows it.
pub fn fingerprint(key: &PublicKey) -> String {
    key.fingerprint(HashAlg::Sha256).to_string()
}

/// A line for a `known_hosts` file (sshd(8), SSH_KNOWN_HOSTS FILE FORMAT).
///
/// # Errors
/// `public` is no key.
pub fn known_hosts_line(host: &str, port: u16, public_line: &str) -> Result<String, NetError> {
    let mut key = public(public_line)?;
    key.set_comment("");
    let line = key.to_openssh().map_err(unreadable)?;
    Ok(match port {
        22 => format!("{host} {line}"),
        port => format!("[{host}]:{port} {line}"),
    })
}

#[allow(clippy::needless_pass_by_value, reason = "a function for map_err")]
fn unreadable(error: russh::keys::ssh_key::Error) -> NetError {
    NetError::Key(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_made_key_can_be_read_again_and_a_seed_repeats() {
        let pair = generate(&Env::simulated(3), "sftp-ed25519").unwrap();
        assert!(pair.public.starts_with("ssh-ed25519 AAAA"));
        assert!(pair.public.ends_with(" sftp-ed25519"));
        assert!(pair.fingerprint.starts_with("SHA256:"));
        let read = private(&pair.private).unwrap();
        assert_eq!(fingerprint(read.public_key()), pair.fingerprint);
        assert_eq!(public_of(&pair.private).unwrap(), pair.public);
        assert_eq!(generate(&Env::simulated(3), "x").unwrap().fingerprint, pair.fingerprint);
        assert_ne!(generate(&Env::simulated(4), "x").unwrap().fingerprint, pair.fingerprint);
        assert!(!format!("{pair:?}").contains("PRIVATE"));
    }

    #[test]
    fn known_hosts_lines_name_a_port_that_is_not_22() {
        let pair = generate(&Env::simulated(3), "comment").unwrap();
        let (blob, _) = pair.public.rsplit_once(' ').unwrap();
        assert_eq!(known_hosts_line("h", 22, &pair.public).unwrap(), format!("h {blob}"));
        assert_eq!(known_hosts_line("h", 2022, &pair.public).unwrap(), format!("[h]:2022 {blob}"));
    }

    #[test]
    fn what_is_no_key_is_told() {
        assert_eq!(private(&Secret::new("nothing")).unwrap_err().code(), "EP0234");
        assert_eq!(public("ssh-ed25519 AAAA").unwrap_err().code(), "EP0234");
    }
}
