//! Keys: named key material with versions and validity dates.

use serde::{Deserialize, Serialize};

use crate::name::Name;
use crate::noun::{FieldError, Kind, Noun};
use crate::secret::{Sealed, Secret};
use crate::time::Timestamp;

/// What a key is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeyType {
    /// Proves a listener's identity to SSH clients.
    SshHost,
    /// Lets an account log in over SSH (`account` names it); or, with a private half, lets us log
    /// in to an endpoint.
    SshUser,
}

/// Named key material. The private half is sealed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// Its name.
    pub name: Name,
    /// What it is for.
    #[serde(rename = "type")]
    pub key_type: KeyType,
    /// The account that may log in with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<Name>,
    /// One line of OpenSSH form: `ssh-ed25519 AAAA… comment`.
    pub public: String,
    /// The private half, sealed (OpenSSH PEM inside).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub private_sealed: Option<Sealed>,
    /// Accepted in documents and requests only: sealed on the way in, never stored or shown.
    #[serde(default, skip_serializing)]
    pub private: Option<Secret>,
    /// Of a host key: a certificate of it, one line of OpenSSH form, shown to clients that trust
    /// its authority (`ssh-keygen -s CA -h -I ID -n NAMES KEY.pub`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
    /// Not valid before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    /// Not valid from this moment on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_after: Option<Timestamp>,
    /// Free text for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

impl Key {
    /// True if `now` lies within its dates.
    pub fn is_valid_at(&self, now: Timestamp) -> bool {
        self.not_before.is_none_or(|from| from <= now) && self.not_after.is_none_or(|to| now < to)
    }
}

impl Noun for Key {
    const KIND: Kind = Kind::Key;
    fn name(&self) -> &Name {
        &self.name
    }
    fn references(&self) -> Vec<(Kind, Name)> {
        self.account.iter().map(|name| (Kind::Account, name.clone())).collect()
    }
    fn check(&self) -> Result<(), FieldError> {
        let mut words = self.public.split_whitespace();
        let (kind, blob) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        if !(kind.contains("ssh-") || kind.starts_with("ecdsa-")) || blob.is_empty() {
            return Err(FieldError::new(
                "public",
                "give one line of a .pub file, such as 'ssh-ed25519 AAAA… comment'",
            ));
        }
        let private = self.private.is_some() || self.private_sealed.is_some();
        if self.key_type == KeyType::SshHost && !private {
            return Err(FieldError::new("private", "a host key needs its private half"));
        }
        if self.certificate.is_some() && self.key_type != KeyType::SshHost {
            return Err(FieldError::new("certificate", "only a host key has one here"));
        }
        Ok(())
    }
}
