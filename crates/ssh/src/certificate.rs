//! OpenSSH certificates of users (OpenSSH's PROTOCOL.certkeys), as plain data for whoever decides.

use russh::keys::ssh_key::PublicKey;
use russh::keys::ssh_key::public::KeyData;

use crate::SshError;

/// A certificate whose signature by the key that it names was verified. That says nothing yet:
/// anybody can sign one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The key that is certified, in wire form (RFC 4253 §6.6).
    pub key: Vec<u8>,
    /// The key that signed, in wire form.
    pub authority: Vec<u8>,
    /// How it signed, such as `rsa-sha2-512`.
    pub signature_algorithm: String,
    /// Of a user; else of a host.
    pub is_user: bool,
    /// Number that the signer gave it.
    pub serial: u64,
    /// Name that the signer gave it.
    pub key_id: String,
    /// Whom it is good for.
    pub principals: Vec<String>,
    /// Good from this second since 1970 on.
    pub valid_after: u64,
    /// Good until before this second.
    pub valid_before: u64,
    /// Options that must be understood, name and value.
    pub critical: Vec<(String, String)>,
}

impl Certificate {
    /// Takes over what russh read.
    ///
    /// # Errors
    /// The signature is not that of the key it names, or a key cannot be written.
    pub(crate) fn verified(read: &russh::keys::Certificate) -> Result<Self, SshError> {
        read.verify_signature().map_err(unusable)?;
        let options = read.critical_options().iter();
        Ok(Certificate {
            key: wire(read.public_key())?,
            authority: wire(read.signature_key())?,
            signature_algorithm: read.signature().algorithm().as_str().to_owned(),
            is_user: read.cert_type().is_user(),
            serial: read.serial(),
            key_id: read.key_id().to_owned(),
            principals: read.valid_principals().to_vec(),
            valid_after: read.valid_after(),
            valid_before: read.valid_before(),
            critical: options.map(|(name, value)| (name.clone(), value.clone())).collect(),
        })
    }
}

fn wire(key: &KeyData) -> Result<Vec<u8>, SshError> {
    PublicKey::new(key.clone(), "").to_bytes().map_err(unusable)
}

#[allow(clippy::needless_pass_by_value, reason = "a function for map_err")]
fn unusable(error: russh::keys::ssh_key::Error) -> SshError {
    SshError::Key(error.to_string())
}
