//! SSH keys: made, read, shown.

use std::convert::Infallible;
use std::path::Path;

use entrepot_nouns::{Env, Secret};
use russh::keys::ssh_key::LineEnding;
use russh::keys::ssh_key::certificate::CertType;
use russh::keys::ssh_key::private::{EcdsaKeypair, Ed25519Keypair, KeypairData, RsaKeypair};
use russh::keys::ssh_key::rand_core::{TryCryptoRng, TryRng};
use russh::keys::{Certificate, EcdsaCurve, HashAlg, PrivateKey, PublicKey};

use crate::SshError;
use crate::algorithms::Preset;

/// A key pair, ready to be stored.
#[derive(Debug)]
pub struct KeyPair {
    /// OpenSSH PEM, not encrypted.
    pub private: Secret,
    /// One line: `ssh-ed25519 AAAA… comment`.
    pub public: String,
    /// SHA-256 of the public key as OpenSSH shows it: `SHA256:` and unpadded base64.
    pub fingerprint: String,
}

/// A kind of key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyKind {
    /// Ed25519 (RFC 8709).
    #[default]
    Ed25519,
    /// ECDSA on NIST P-256 (RFC 5656).
    EcdsaP256,
    /// RSA of 3072 bits, signing with SHA-2 (RFC 8332).
    Rsa3072,
}

impl KeyKind {
    /// A word for names: `ed25519`, `ecdsa`, `rsa`.
    pub fn as_str(self) -> &'static str {
        match self {
            KeyKind::Ed25519 => "ed25519",
            KeyKind::EcdsaP256 => "ecdsa",
            KeyKind::Rsa3072 => "rsa",
        }
    }

    /// The kinds of host key that a preset wants.
    pub fn of(preset: Preset) -> &'static [KeyKind] {
        match preset {
            Preset::Modern => &[KeyKind::Ed25519],
            Preset::Compatible => &[KeyKind::Ed25519, KeyKind::EcdsaP256, KeyKind::Rsa3072],
            Preset::Fips => &[KeyKind::EcdsaP256, KeyKind::Rsa3072],
        }
    }
}

/// Makes an Ed25519 key pair with the randomness of `env`.
///
/// # Errors
/// Only if the comment cannot be encoded.
pub fn generate(env: &Env, comment: &str) -> Result<KeyPair, SshError> {
    generate_kind(env, KeyKind::Ed25519, comment)
}

/// Makes a key pair of any kind; RSA takes about a second.
///
/// # Errors
/// As [`generate`].
pub fn generate_kind(env: &Env, kind: KeyKind, comment: &str) -> Result<KeyPair, SshError> {
    let mut random = Random(env);
    let pair = match kind {
        KeyKind::Ed25519 => {
            let mut seed = [0; 32];
            env.fill_random(&mut seed);
            KeypairData::from(Ed25519Keypair::from_seed(&seed))
        }
        KeyKind::EcdsaP256 => {
            let pair = EcdsaKeypair::random(&mut random, EcdsaCurve::NistP256);
            KeypairData::from(pair.map_err(unreadable)?)
        }
        KeyKind::Rsa3072 => {
            let pair = RsaKeypair::random(&mut random, 3072).map_err(unreadable)?;
            KeypairData::from(pair)
        }
    };
    let key = PrivateKey::new(pair, comment).map_err(unreadable)?;
    let pem = key.to_openssh(LineEnding::LF).map_err(unreadable)?;
    Ok(KeyPair {
        private: Secret::new(pem.as_bytes()),
        public: key.public_key().to_openssh().map_err(unreadable)?,
        fingerprint: fingerprint(key.public_key()),
    })
}

/// The randomness of an [`Env`] in the form that key makers take.
struct Random<'a>(&'a Env);

impl TryRng for Random<'_> {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        let mut bytes = [0; 4];
        self.0.fill_random(&mut bytes);
        Ok(u32::from_le_bytes(bytes))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        let mut bytes = [0; 8];
        self.0.fill_random(&mut bytes);
        Ok(u64::from_le_bytes(bytes))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        self.0.fill_random(bytes);
        Ok(())
    }
}

impl TryCryptoRng for Random<'_> {}

/// Reads a host certificate (OpenSSH form) of one of `keys`.
///
/// # Errors
/// No certificate, one for users, or of another key.
pub fn certificate(line: &str, keys: &[PrivateKey]) -> Result<Certificate, SshError> {
    let certificate = Certificate::from_openssh(line.trim()).map_err(unreadable)?;
    if certificate.cert_type() != CertType::Host {
        return Err(SshError::Key("it is a certificate for users, not for a host".to_owned()));
    }
    if !keys.iter().any(|key| key.public_key().key_data() == certificate.public_key()) {
        return Err(SshError::Key("the certificate is of none of the host keys".to_owned()));
    }
    Ok(certificate)
}

/// Reads a private key in OpenSSH form.
///
/// # Errors
/// Not such a key, or one that is encrypted with a passphrase.
pub fn private(pem: &Secret) -> Result<PrivateKey, SshError> {
    let key = PrivateKey::from_openssh(pem.expose()).map_err(unreadable)?;
    if key.is_encrypted() {
        return Err(SshError::Key("it is encrypted with a passphrase".to_owned()));
    }
    Ok(key)
}

/// Reads the one line of a `.pub` file.
///
/// # Errors
/// Not such a line.
pub fn public(line: &str) -> Result<PublicKey, SshError> {
    PublicKey::from_openssh(line.trim()).map_err(unreadable)
}

/// The public line of a private key.
///
/// # Errors
/// As [`private`].
pub fn public_of(pem: &Secret) -> Result<String, SshError> {
    private(pem)?.public_key().to_openssh().map_err(unreadable)
}

/// Keys of a host in a `known_hosts` file, one line each; none if there is no such file.
///
/// # Errors
/// A line of the host holds no key.
pub fn known_hosts(file: &Path, host: &str, port: u16) -> Result<Vec<String>, SshError> {
    let found = russh::keys::known_hosts::known_host_keys_path(host, port, file);
    let found = found.map_err(|error| SshError::Key(error.to_string()))?;
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
pub fn known_hosts_line(host: &str, port: u16, public_line: &str) -> Result<String, SshError> {
    let mut key = public(public_line)?;
    key.set_comment("");
    let line = key.to_openssh().map_err(unreadable)?;
    Ok(match port {
        22 => format!("{host} {line}"),
        port => format!("[{host}]:{port} {line}"),
    })
}

#[allow(clippy::needless_pass_by_value, reason = "a function for map_err")]
fn unreadable(error: russh::keys::ssh_key::Error) -> SshError {
    SshError::Key(error.to_string())
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
    fn keys_of_every_kind_are_made_from_a_seed() {
        for kind in [KeyKind::EcdsaP256, KeyKind::Rsa3072] {
            let pair = generate_kind(&Env::simulated(3), kind, "x").unwrap();
            let read = private(&pair.private).unwrap();
            assert_eq!(fingerprint(read.public_key()), pair.fingerprint);
            assert!(pair.public.contains(kind.as_str()));
        }
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
