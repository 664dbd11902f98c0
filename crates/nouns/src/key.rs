//! Keys: named key material with versions and validity dates.

use serde::{Deserialize, Serialize};

use crate::document::{OnByDefault, is_default};
use crate::limits::REVOKED;
use crate::name::Name;
use crate::noun::{FieldError, Kind, Noun, Reference};
use crate::secret::{Sealed, Secret};
use crate::source::Source;
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
    /// Signs the certificates of users: whose certificate names `account` (or one of
    /// `principals`) may log in as that account; without `account`, as the account whose own name
    /// the certificate has among its principals.
    SshUserCa,
    /// Proves a listener's identity to clients of TLS: `public` is the certificate chain as PEM,
    /// the own certificate first, `private` its key as unencrypted PEM.
    Tls,
}

/// Named key material. The private half is sealed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// Unique among the keys of its site; never changes.
    pub name: Name,
    /// What it is for.
    #[serde(rename = "type")]
    pub key_type: KeyType,
    /// The account that may log in with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<Name>,
    /// A disabled key counts for nothing.
    #[serde(default = "OnByDefault::on", skip_serializing_if = "OnByDefault::is_on")]
    pub enabled: bool,
    /// One line of OpenSSH form: `ssh-ed25519 AAAA… comment`; of a key for TLS, certificates.
    pub public: String,
    /// The private half, sealed (PEM inside).
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
    /// Where a login with it may come from; empty: anywhere. A pattern with `!` refuses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub from: Vec<Source>,
    /// Who logs in with it may list and read only, whatever the mounts grant.
    #[serde(default, skip_serializing_if = "is_default")]
    pub read_only: bool,
    /// Of the key that signs certificates for an account: principals that mean the account.
    /// Empty: its name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub principals: Vec<String>,
    /// Serial numbers of certificates signed by it that count no longer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub revoked_serials: Vec<u64>,
    /// Key ids of certificates signed by it that count no longer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub revoked_key_ids: Vec<String>,
    /// Free text for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

impl Key {
    /// A key of this name and public half with every default.
    pub fn new(name: Name, key_type: KeyType, public: String) -> Self {
        Key {
            name,
            key_type,
            account: None,
            enabled: true,
            public,
            private_sealed: None,
            private: None,
            certificate: None,
            not_before: None,
            not_after: None,
            from: Vec::new(),
            read_only: false,
            principals: Vec::new(),
            revoked_serials: Vec::new(),
            revoked_key_ids: Vec::new(),
            note: String::new(),
        }
    }
}

impl Noun for Key {
    const KIND: Kind = Kind::Key;
    fn name(&self) -> &Name {
        &self.name
    }
    fn references(&self) -> Vec<Reference> {
        let account = self.account.iter();
        account.map(|name| Reference::new("account", Kind::Account, name)).collect()
    }
    fn check(&self) -> Result<(), FieldError> {
        if self.key_type == KeyType::Tls {
            return self.check_tls();
        }
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
        self.check_certification()
    }
}

impl Key {
    /// A key for TLS: whether both halves belong together is seen when a listener uses it.
    fn check_tls(&self) -> Result<(), FieldError> {
        if !self.public.contains("-----BEGIN CERTIFICATE-----") {
            let problem = "give the certificate chain as PEM, the server's own certificate first";
            return Err(FieldError::new("public", problem));
        }
        if self.private.is_none() && self.private_sealed.is_none() {
            return Err(FieldError::new("private", "a key for TLS needs its private half"));
        }
        if self.account.is_some() {
            return Err(FieldError::new("account", "nobody logs in with a key for TLS"));
        }
        Ok(())
    }

    /// Fields that only a key that signs certificates has.
    fn check_certification(&self) -> Result<(), FieldError> {
        let signs = self.key_type == KeyType::SshUserCa;
        if !self.principals.is_empty() && (!signs || self.account.is_none()) {
            let problem = "only a key of type ssh-user-ca that belongs to an account has them";
            return Err(FieldError::new("principals", problem));
        }
        let revoked = [
            ("revoked_serials", self.revoked_serials.len()),
            ("revoked_key_ids", self.revoked_key_ids.len()),
        ];
        for (field, count) in revoked {
            if count > 0 && !signs {
                return Err(FieldError::new(field, "only a key of type ssh-user-ca revokes"));
            }
            if count > REVOKED {
                let problem = format!("more than {REVOKED}: use a new key for signing instead");
                return Err(FieldError::new(field, problem));
            }
        }
        if signs && (self.private.is_some() || self.private_sealed.is_some()) {
            let problem = "only the public half is needed to check certificates, keep the other";
            return Err(FieldError::new("private", problem));
        }
        Ok(())
    }
}
