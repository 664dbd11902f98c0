//! Keys: named key material with versions and validity dates.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::{OnByDefault, is_default};
use crate::limits::{HOOK_KEY_BYTES, REVOKED};
use crate::name::Name;
use crate::noun::{FieldError, Kind, Noun, Reference, check_users, users};
use crate::passkey::PasskeyPublic;
use crate::secret::{Sealed, Secret};
use crate::source::Source;
use crate::time::Timestamp;
use crate::token::TokenScope;

/// What the hash of an API token begins with in [`Key::public`].
pub const TOKEN_HASH: &str = "blake3:";

/// What a key is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
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
    /// Proves a listener's identity to clients of TLS, or ours to servers of endpoints that name
    /// it: `public` is the certificate chain as PEM, the own certificate first, `private` its key
    /// as unencrypted PEM.
    Tls,
    /// Lets an account log in by showing a secret that only its owner has: `public` is the hash of
    /// the token, which `entrepot token create` shows once.
    ApiToken,
    /// A secret of a share link, for everybody who has the link or for one person: `public` is its
    /// hash, `account` the link. `entrepot link create` shows the secret once.
    Link,
    /// Encrypts and signs files of rules, OpenPGP: `public` is the armored public key of a partner
    /// or of ours, `private` of ours the armored private key without a passphrase.
    #[serde(rename = "openpgp")]
    OpenPgp,
    /// Proves that a web hook comes from who knows it: `private` is the key, of Standard Webhooks
    /// with `whsec_` in front; `public` is left out.
    WebHook,
    /// Signs and encrypts messages of AS2: `public` is a certificate as PEM, `private` of ours its
    /// key as unencrypted PEM (PKCS #8). Endpoints of kind `as2` name it.
    As2,
    /// Lets an account sign in with a browser: `public` is the host that it was made at and the
    /// public half, as the browser gave them when its owner added it at `/account`.
    Passkey,
}

/// Named key material. The private half is sealed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    #[serde(default = "bool::on", skip_serializing_if = "OnByDefault::is_on")]
    pub enabled: bool,
    /// One line of OpenSSH form: `ssh-ed25519 AAAA… comment`; of a key for TLS, certificates; of an
    /// API token, `blake3:` and the hash of it as 64 hexadecimal digits; of a passkey,
    /// `webauthn-es256 HOST CREDENTIAL KEY`; of a key of web hooks left out.
    #[serde(default, skip_serializing_if = "String::is_empty")]
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
    /// Of an API token: what it may be used for. Empty: nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<TokenScope>,
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
    /// Accounts of type admin, or groups, who may change the key and whatever names it: rules,
    /// endpoints and listeners. Empty: everybody who may change the configuration. Commands on the
    /// machine of a node may always.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<Name>,
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
            scopes: Vec::new(),
            principals: Vec::new(),
            revoked_serials: Vec::new(),
            revoked_key_ids: Vec::new(),
            users: Vec::new(),
            note: String::new(),
        }
    }
}

impl Key {
    /// Why it does not count at `now`, as the rest of a sentence that begins with its name.
    pub fn why_unusable(&self, now: Timestamp) -> Option<&'static str> {
        if !self.enabled {
            Some("is disabled")
        } else if self.not_before.is_some_and(|from| now < from) {
            Some("is not valid yet")
        } else if self.not_after.is_some_and(|until| now >= until) {
            Some("is not valid any more")
        } else {
            None
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
        let account = account.map(|name| Reference::new("account", Kind::Account, name));
        account.chain(users("users", &self.users)).collect()
    }
    fn check(&self) -> Result<(), FieldError> {
        if self.key_type != KeyType::ApiToken && !self.scopes.is_empty() {
            return Err(FieldError::new("scopes", "only a key of type api-token has them"));
        }
        check_users("users", &self.users)?;
        let is_of_login = self.account.is_some() || self.key_type == KeyType::SshUserCa;
        if is_of_login && !self.users.is_empty() {
            let text = "no rule and no endpoint names a key that lets somebody log in";
            return Err(FieldError::new("users", text));
        }
        match self.key_type {
            KeyType::Tls => return self.check_tls(),
            KeyType::ApiToken => return self.check_api_token(),
            KeyType::Link => return self.check_link_secret(),
            KeyType::Passkey => return self.check_passkey(),
            KeyType::OpenPgp => return self.check_openpgp(),
            KeyType::WebHook => return self.check_web_hook(),
            KeyType::As2 => return self.check_as2(),
            KeyType::SshHost | KeyType::SshUser | KeyType::SshUserCa => {}
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
    /// The hash of an API token or of the secret of a share link, as 64 hexadecimal digits; `None`
    /// for keys of other types.
    pub fn token_hash(&self) -> Option<&str> {
        match self.key_type {
            KeyType::ApiToken | KeyType::Link => self.public.strip_prefix(TOKEN_HASH),
            KeyType::SshHost
            | KeyType::SshUser
            | KeyType::SshUserCa
            | KeyType::Tls
            | KeyType::OpenPgp
            | KeyType::WebHook
            | KeyType::As2
            | KeyType::Passkey => None,
        }
    }

    /// The public half of a passkey; `None` for keys of other types.
    pub fn passkey(&self) -> Option<PasskeyPublic> {
        (self.key_type == KeyType::Passkey).then(|| self.public.parse().ok()).flatten()
    }

    /// A passkey: whom it signs in, and the public half.
    fn check_passkey(&self) -> Result<(), FieldError> {
        if let Err(error) = self.public.parse::<PasskeyPublic>() {
            return Err(FieldError::new("public", error.to_string()));
        }
        if self.account.is_none() {
            return Err(FieldError::new("account", "name the account that it signs in"));
        }
        if self.private.is_some() || self.private_sealed.is_some() || self.certificate.is_some() {
            let problem = "the private half of a passkey stays with its owner";
            return Err(FieldError::new("private", problem));
        }
        self.check_certification()
    }

    fn has_token_hash(&self) -> bool {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        self.token_hash().is_some_and(|hash| hash.len() == 64 && hash.bytes().all(is_digit))
    }

    /// The secret of a share link: which link, and a hash to know it by.
    fn check_link_secret(&self) -> Result<(), FieldError> {
        if !self.has_token_hash() {
            let problem = "it is the hash of a secret: make one by 'entrepot link create'";
            return Err(FieldError::new("public", problem));
        }
        if self.account.is_none() {
            return Err(FieldError::new("account", "name the account of the link"));
        }
        if self.private.is_some() || self.private_sealed.is_some() || self.certificate.is_some() {
            return Err(FieldError::new("private", "the secret of a link has no other half"));
        }
        self.check_certification()
    }

    /// An API token: whom it lets in, until when, and a hash to know it by.
    fn check_api_token(&self) -> Result<(), FieldError> {
        if !self.has_token_hash() {
            let problem = "it is the hash of a token: make one by 'entrepot token create'";
            return Err(FieldError::new("public", problem));
        }
        if self.account.is_none() {
            return Err(FieldError::new("account", "name the account that the token lets in"));
        }
        if self.not_after.is_none() {
            return Err(FieldError::new("not_after", "an API token needs an end"));
        }
        if self.private.is_some() || self.private_sealed.is_some() {
            return Err(FieldError::new("private", "an API token has no private half"));
        }
        if self.certificate.is_some() {
            return Err(FieldError::new("certificate", "only a host key has one here"));
        }
        let mut seen = HashSet::new();
        if let Some(scope) = self.scopes.iter().find(|scope| !seen.insert(**scope)) {
            return Err(FieldError::new("scopes", format!("'{scope}' stands twice, remove one")));
        }
        self.check_certification()
    }

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

    /// A key of OpenPGP: whether it can be used, and both halves belong together, is seen by the
    /// step that uses it.
    fn check_openpgp(&self) -> Result<(), FieldError> {
        if !self.public.trim_start().starts_with("-----BEGIN PGP PUBLIC KEY BLOCK-----") {
            let problem = "give the public key as 'gpg --armor --export' writes it";
            return Err(FieldError::new("public", problem));
        }
        if self.account.is_some() {
            return Err(FieldError::new("account", "nobody logs in with a key of OpenPGP"));
        }
        if self.certificate.is_some() {
            return Err(FieldError::new("certificate", "only a host key has one here"));
        }
        self.check_certification()
    }

    /// A key of AS2: whether the certificate can be used, and both halves belong together, is seen
    /// when it is saved.
    fn check_as2(&self) -> Result<(), FieldError> {
        if self.public.matches("-----BEGIN CERTIFICATE-----").count() != 1 {
            return Err(FieldError::new("public", "give one certificate as PEM"));
        }
        if self.account.is_some() {
            return Err(FieldError::new("account", "nobody logs in with a key of AS2"));
        }
        if self.certificate.is_some() {
            return Err(FieldError::new("certificate", "the certificate stands in 'public'"));
        }
        self.check_certification()
    }

    /// A key of web hooks: a secret alone, long enough that nobody guesses it.
    fn check_web_hook(&self) -> Result<(), FieldError> {
        if !self.public.is_empty() || self.certificate.is_some() {
            return Err(FieldError::new("public", "a key of web hooks has no public half"));
        }
        if self.account.is_some() {
            return Err(FieldError::new("account", "nobody logs in with a key of web hooks"));
        }
        if self.private.is_none() && self.private_sealed.is_none() {
            return Err(FieldError::new("private", "give the key that the sender knows"));
        }
        if let Some(private) = &self.private {
            let bytes = private.expose();
            let is_text = bytes.iter().all(u8::is_ascii_graphic) || bytes == b"***";
            if !is_text || !(HOOK_KEY_BYTES.contains(&bytes.len()) || bytes == b"***") {
                let (least, most) = (HOOK_KEY_BYTES.start(), HOOK_KEY_BYTES.end());
                let problem = format!("{least} to {most} printable ASCII characters, no blanks");
                return Err(FieldError::new("private", problem));
            }
        }
        self.check_certification()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn token(change: impl FnOnce(&mut Key)) -> Result<(), String> {
        let public = format!("{TOKEN_HASH}{}", "0a".repeat(32));
        let mut key = Key::new("t".parse().unwrap(), KeyType::ApiToken, public);
        key.account = Some("acme".parse().unwrap());
        key.not_after = Some(Timestamp::from_seconds(1));
        change(&mut key);
        key.check().map_err(|error| error.field)
    }

    #[test]
    fn a_key_of_openpgp_is_armored_and_nobody_logs_in_with_it() {
        const PRIVATE: &str = "-----BEGIN PGP PRIVATE KEY BLOCK-----";
        let armored = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n=\n".to_owned();
        let refused = |change: fn(&mut Key)| {
            let mut key = Key::new("k".parse().unwrap(), KeyType::OpenPgp, armored.clone());
            change(&mut key);
            key.check().map_err(|error| error.field)
        };
        assert_eq!(refused(|_| {}), Ok(()));
        assert_eq!(refused(|key| key.private = Some(Secret::new(*b"x"))), Ok(()));
        assert_eq!(refused(|key| key.public = PRIVATE.to_owned()), Err("public".to_owned()));
        let account = |key: &mut Key| key.account = Some("acme".parse().unwrap());
        assert_eq!(refused(account), Err("account".to_owned()));
    }

    #[test]
    fn a_key_of_web_hooks_is_a_secret_alone() {
        let refused = |change: fn(&mut Key)| {
            let mut key = Key::new("k".parse().unwrap(), KeyType::WebHook, String::new());
            key.private = Some(Secret::new(*b"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"));
            change(&mut key);
            key.check().err().map(|error| error.field)
        };
        assert_eq!(refused(|_| {}), None);
        assert_eq!(refused(|key| key.private = None).as_deref(), Some("private"));
        let short = |key: &mut Key| key.private = Some(Secret::new(*b"too short"));
        assert_eq!(refused(short).as_deref(), Some("private"));
        let lines = |key: &mut Key| key.private = Some(Secret::new(*b"0123456789\n0123456789"));
        assert_eq!(refused(lines).as_deref(), Some("private"));
        assert_eq!(refused(|key| key.public = "x".to_owned()).as_deref(), Some("public"));
        let account = |key: &mut Key| key.account = Some("acme".parse().unwrap());
        assert_eq!(refused(account).as_deref(), Some("account"));
    }

    #[test]
    fn an_api_token_has_a_hash_an_owner_and_an_end() {
        use TokenScope::{AdminRead, FilesRead};
        assert_eq!(token(|_| {}), Ok(()));
        assert_eq!(token(|key| key.scopes = vec![FilesRead, AdminRead]), Ok(()));
        let refused = |field: &str, change: fn(&mut Key)| {
            assert_eq!(token(change), Err(field.to_owned()));
        };
        refused("account", |key| key.account = None);
        refused("not_after", |key| key.not_after = None);
        refused("public", |key| key.public = "ept_secret".to_owned());
        refused("public", |key| key.public = format!("{TOKEN_HASH}{}", "0A".repeat(32)));
        refused("private", |key| key.private = Some(Secret::new(*b"x")));
        refused("scopes", |key| key.scopes = vec![FilesRead, FilesRead]);
        refused("principals", |key| key.principals = vec!["x".to_owned()]);
        refused("scopes", |key| {
            key.key_type = KeyType::SshUser;
            key.scopes = vec![FilesRead];
        });
    }
}
