//! A partner of AS2 (RFC 4130): who it is, what was agreed, and where its messages go.

mod send;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::is_default;
use crate::limits::{AS2_KEYS, AS2_NAME_CHARACTERS, AS2_RECEIPT_HOSTS};
use crate::name::Name;
use crate::noun::{FieldError, Kind, Reference};
use crate::path::VPath;
use crate::secret::{Sealed, Secret};

pub use send::{
    As2Cipher, As2Compression, As2Digest, As2KeyTransport, As2MicCheck, As2Micalg, As2ReceiptKind,
    As2ReceiptTime, As2Send, As2Signature, As2Timeout,
};

/// A partner of AS2: its messages are received at `/as2` of a listener, and steps `as2` send
/// messages to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct As2Target {
    /// Its AS2 name, as `AS2-From` of its messages has it. Case counts.
    pub partner: String,
    /// Our AS2 name towards it, as `AS2-To` of its messages has it. Case counts.
    pub station: String,
    /// Keys of ours (type `as2`, with their private half). Each valid one opens messages of the
    /// partner; the valid one whose certificate began last signs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<Name>,
    /// Certificates of the partner (keys of type `as2`). Each valid one may sign its messages; the
    /// valid one that began last encrypts what is sent to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub certificates: Vec<Name>,
    /// The account whose files its messages become. Unset: nothing is received from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<Name>,
    /// The folder of the account that they are put into.
    #[serde(default = "VPath::root", skip_serializing_if = "VPath::is_root")]
    pub folder: VPath,
    /// What its messages must have at least.
    #[serde(default, skip_serializing_if = "is_default")]
    pub require: As2Security,
    /// Where messages to it go: `https://host/path`, or `http://`. Unset: nothing is sent to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// How messages to it are made, and what its receipts must have.
    #[serde(default, skip_serializing_if = "is_default")]
    pub send: As2Send,
    /// The address of ours to which it sends its receipts by themselves, `https://host/as2`: the
    /// step rests until one comes. Unset: they are the answers to the messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt_url: Option<String>,
    /// Hosts, besides that of `url`, to which it may have receipts sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub receipt_hosts: Vec<String>,
    /// Login name for its server (Basic authentication, RFC 7617).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The password for its server, sealed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_sealed: Option<Sealed>,
    /// Accepted in documents and requests only: sealed on the way in, never stored or shown.
    #[serde(default, skip_serializing)]
    pub password: Option<Secret>,
    /// Authorities that sign the certificate of its server, PEM; unset: those this machine trusts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorities: Option<String>,
    /// Allow private addresses, for servers inside one's own network.
    #[serde(default, skip_serializing_if = "is_default")]
    pub allow_private: bool,
}

/// What the messages of a partner must have at least.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct As2Security {
    /// Whether they must be signed by one of the partner's certificates.
    #[serde(skip_serializing_if = "is_default")]
    pub signature: As2Protection,
    /// Whether they must be encrypted.
    #[serde(skip_serializing_if = "is_default")]
    pub encryption: As2Protection,
    /// The weakest digest that a signature may have.
    #[serde(skip_serializing_if = "is_default")]
    pub digest: As2Digest,
    /// Whether Triple-DES may encrypt them, for partners that have nothing better.
    #[serde(skip_serializing_if = "is_default")]
    pub triple_des: As2Legacy,
    /// Whether whoever sends them logs in besides.
    #[serde(skip_serializing_if = "is_default")]
    pub login: As2Login,
}

/// Whether the requests that carry messages, and receipts that come by themselves, log in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum As2Login {
    /// Messages prove themselves.
    #[default]
    None,
    /// As the account of the partner: by HTTP Basic (RFC 7617), by a certificate under TLS, or by
    /// both, as the login of that account says.
    Account,
}

/// Whether messages must have a protection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum As2Protection {
    /// A message without it is refused.
    #[default]
    Required,
    /// It may be missing.
    Optional,
}

/// Whether an algorithm that is weak is good enough.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum As2Legacy {
    /// A message with it is refused.
    #[default]
    Refused,
    /// This partner has nothing better.
    Accepted,
}

impl As2Target {
    /// A partner of this name for a station of ours, with nothing agreed yet.
    pub fn new(partner: &str, station: &str) -> As2Target {
        As2Target {
            partner: partner.to_owned(),
            station: station.to_owned(),
            keys: Vec::new(),
            certificates: Vec::new(),
            account: None,
            folder: VPath::root(),
            require: As2Security::default(),
            url: None,
            send: As2Send::default(),
            receipt_url: None,
            receipt_hosts: Vec::new(),
            user: None,
            password_sealed: None,
            password: None,
            authorities: None,
            allow_private: false,
        }
    }

    pub(super) fn references(&self) -> Vec<Reference> {
        let keys = |field: &'static str, names: &[Name]| {
            let named = names.iter().enumerate();
            let reference = |(at, name): (usize, &Name)| {
                Reference::new(format!("target.as2.{field}[{at}]"), Kind::Key, name)
            };
            named.map(reference).collect::<Vec<_>>()
        };
        let account = self.account.iter();
        let account = account.map(|name| Reference::new("target.as2.account", Kind::Account, name));
        let keys = [keys("keys", &self.keys), keys("certificates", &self.certificates)].concat();
        keys.into_iter().chain(account).collect()
    }

    pub(super) fn check(&self) -> Result<(), FieldError> {
        for (field, name) in [("partner", &self.partner), ("station", &self.station)] {
            if !is_as2_name(name) {
                let what = format!(
                    "an AS2 name has 1 to {AS2_NAME_CHARACTERS} printable ASCII characters and no \
                     blank at its ends"
                );
                return Err(flaw(field, &what));
            }
        }
        for (field, names) in [("keys", &self.keys), ("certificates", &self.certificates)] {
            if names.len() > AS2_KEYS {
                return Err(flaw(field, &format!("name at most {AS2_KEYS}")));
            }
        }
        if self.url.as_ref().is_some_and(|url| !is_web_address(url)) {
            return Err(flaw("url", "give https://host/path, or http://"));
        }
        if self.account.is_none() && self.url.is_none() {
            let what = "give 'account' to receive its messages, 'url' to send it some, or both";
            return Err(FieldError::new("target.as2", what));
        }
        if self.receipt_hosts.len() > AS2_RECEIPT_HOSTS {
            return Err(flaw("receipt_hosts", &format!("name at most {AS2_RECEIPT_HOSTS}")));
        }
        if self.user.is_none() && (self.password.is_some() || self.password_sealed.is_some()) {
            return Err(flaw("user", "give the login name of the password"));
        }
        self.check_send()?;
        self.check_agreement()
    }

    /// What is sent can be made with the keys that are named.
    fn check_send(&self) -> Result<(), FieldError> {
        let As2Send { signature, cipher, receipt, mic, .. } = self.send;
        if self.url.is_none() {
            let what = "give 'url' to send it messages";
            if self.receipt_url.is_some() {
                return Err(flaw("receipt_url", what));
            }
            let unused = self.send != As2Send::default();
            return if unused { Err(flaw("send", what)) } else { Ok(()) };
        }
        if signature != As2Signature::None && self.keys.is_empty() {
            let what = "name the keys that sign messages to it, or set send.signature to none";
            return Err(flaw("keys", what));
        }
        if cipher != As2Cipher::None && self.certificates.is_empty() {
            let what = "name the certificates to encrypt messages for, or set send.cipher to none";
            return Err(flaw("certificates", what));
        }
        if receipt == As2ReceiptKind::Signed && self.certificates.is_empty() {
            let what = "name the certificates that sign its receipts, or set send.receipt to \
                        unsigned or none";
            return Err(flaw("certificates", what));
        }
        if receipt == As2ReceiptKind::None && mic == As2MicCheck::Required {
            return Err(flaw("send.mic", "only a receipt has a MIC: set send.receipt"));
        }
        self.check_receipts_apart()?;
        self.send.check_times().map_err(|(field, what)| flaw(field, what))
    }

    /// Receipts that come by themselves.
    fn check_receipts_apart(&self) -> Result<(), FieldError> {
        let Some(url) = &self.receipt_url else { return Ok(()) };
        if !is_web_address(url) {
            return Err(flaw("receipt_url", "give https://host/as2, or http://"));
        }
        if self.send.receipt == As2ReceiptKind::None {
            return Err(flaw("receipt_url", "no receipt is asked for: set send.receipt"));
        }
        Ok(())
    }

    /// What is required of messages can be had with the keys that are named.
    fn check_agreement(&self) -> Result<(), FieldError> {
        if self.account.is_none() {
            let what = "give 'account', as which its requests log in";
            let logs_in = self.require.login != As2Login::None;
            return if logs_in { Err(flaw("account", what)) } else { Ok(()) };
        }
        let signed = self.require.signature == As2Protection::Required;
        if signed && self.certificates.is_empty() {
            let what = "name the certificates that sign its messages, or set require.signature to \
                        optional";
            return Err(flaw("certificates", what));
        }
        let encrypted = self.require.encryption == As2Protection::Required;
        if encrypted && self.keys.is_empty() {
            let what = "name the keys that open its messages, or set require.encryption to \
                        optional";
            return Err(flaw("keys", what));
        }
        Ok(())
    }
}

/// RFC 4130 §6.2.
fn is_as2_name(name: &str) -> bool {
    let printable = name.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    printable && name.trim() == name && (1..=AS2_NAME_CHARACTERS).contains(&name.len())
}

fn is_web_address(url: &str) -> bool {
    url.starts_with("https://") || url.starts_with("http://")
}

fn flaw(field: &str, what: &str) -> FieldError {
    FieldError::new(format!("target.as2.{field}"), what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl FnOnce(&mut As2Target)) -> Option<String> {
        let mut target = As2Target::new("GLOBEX", "ACME");
        target.keys = vec!["ours".parse().unwrap()];
        target.certificates = vec!["theirs".parse().unwrap()];
        target.account = Some("globex".parse().unwrap());
        change(&mut target);
        target.check().err().map(|error| error.field)
    }

    #[test]
    fn what_was_agreed_can_be_kept() {
        let field = |name: &str| Some(format!("target.as2.{name}"));
        assert_eq!(refused(|_| {}), None);
        assert_eq!(refused(|it| it.partner.clear()), field("partner"));
        assert_eq!(refused(|it| it.station = " ACME".to_owned()), field("station"));
        assert_eq!(refused(|it| it.partner = "GL\u{d6}BEX".to_owned()), field("partner"));
        assert_eq!(refused(|it| it.partner = "G".repeat(129)), field("partner"));
        assert_eq!(refused(|it| it.certificates.clear()), field("certificates"));
        assert_eq!(refused(|it| it.keys.clear()), field("keys"));
        assert_eq!(refused(|it| it.url = Some("globex".to_owned())), field("url"));
        assert_eq!(refused(|it| it.account = None), Some("target.as2".to_owned()));
        assert_eq!(refused(|it| it.password = Some(Secret::new(*b"x"))), field("user"));
        let optional = |it: &mut As2Target| {
            it.keys.clear();
            it.certificates.clear();
            it.require.signature = As2Protection::Optional;
            it.require.encryption = As2Protection::Optional;
        };
        assert_eq!(refused(optional), None);
        let nobody = |it: &mut As2Target| {
            (it.account, it.url) = (None, Some("https://globex.example/as2".to_owned()));
            it.require.login = As2Login::Account;
        };
        assert_eq!(refused(nobody), field("account"));
    }

    #[test]
    fn a_document_has_what_differs_from_the_usual() {
        let text = r#"{"partner": "GLOBEX", "station": "ACME", "account": "globex",
            "require": {"signature": "optional", "digest": "sha-1", "triple_des": "accepted"}}"#;
        let target: As2Target = serde_json::from_str(text).unwrap();
        assert_eq!(target.require.encryption, As2Protection::Required);
        assert_eq!(target.require.digest, As2Digest::Sha1);
        let written = serde_json::to_value(&target).unwrap();
        assert_eq!(written, serde_json::from_str::<serde_json::Value>(text).unwrap());
    }
}
