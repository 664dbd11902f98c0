//! Rules that start on a web hook: a request that another system posts to us, and signs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::certificate::CertificateName;
use crate::endpoint::header_flaw;
use crate::limits::{HOOK_BYTES, HOOK_BYTES_USUAL, HOOK_FIELDS, HOOK_KEYS, HOOK_PER_MINUTE};
use crate::name::Name;
use crate::noun::{FieldError, Kind, Reference};

/// A rule starts once for each message that is posted to `/hooks/RULE` and proven to come from a
/// sender who knows one of these keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WebHook {
    /// How a request proves where it comes from.
    #[serde(default)]
    pub scheme: HookScheme,
    /// Keys of type `web-hook`, one of which the sender knows: two while it changes from one to
    /// the next. None where certificates prove it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<Name>,
    /// Longest body in bytes.
    #[serde(default = "usual_bytes", skip_serializing_if = "is_usual_bytes")]
    pub limit_bytes: u32,
    /// Most messages that a node takes in a minute; further ones are answered 429.
    #[serde(default = "usual_rate", skip_serializing_if = "is_usual_rate")]
    pub per_minute: u32,
    /// Fields of the request that are kept as `hook.headers`, besides `content-type`, `user-agent`
    /// and those that the scheme names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<String>,
}

/// How a request proves where it comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HookScheme {
    /// Standard Webhooks 1.0: `webhook-id`, `webhook-timestamp` and `webhook-signature`.
    #[default]
    Standard,
    /// `X-Hub-Signature-256`, as GitHub and others sign.
    Github,
    /// HMAC-SHA-256 of the body in a field of the request.
    Hmac(HmacScheme),
    /// The key itself: `Authorization: Bearer KEY`.
    Bearer,
    /// The certificate that the sender shows under TLS; the listener asks for one
    /// (`tls.client_certificates`).
    Certificate(CertificateScheme),
}

/// Whose certificates prove where a request comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CertificateScheme {
    /// Fingerprints of certificates, or names in them (`dns:shop.example`), as accounts list
    /// theirs. A name counts only in what an authority of the listener has signed
    /// (`tls.client_authorities`).
    pub of: Vec<CertificateName>,
}

/// Where a signature of the body stands, and how it is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HmacScheme {
    /// The field of the request, such as `X-Signature`.
    pub header: String,
    /// What stands before the signature, such as `sha256=`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub prefix: String,
    /// How its bytes are written.
    #[serde(default, skip_serializing_if = "crate::document::is_default")]
    pub encoding: HmacEncoding,
}

/// How the bytes of a signature are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HmacEncoding {
    /// 64 hexadecimal digits.
    #[default]
    Hex,
    /// Base64 with its padding.
    Base64,
}

/// Fields that hold secrets, or stand for somebody: they are never kept.
const SECRET_FIELDS: [&str; 5] =
    ["authorization", "proxy-authorization", "cookie", "webhook-signature", "x-hub-signature-256"];

const fn usual_bytes() -> u32 {
    HOOK_BYTES_USUAL
}

const fn usual_rate() -> u32 {
    600
}

// The signatures are what serde's `skip_serializing_if` asks for.
fn is_usual_bytes(bytes: &u32) -> bool {
    *bytes == usual_bytes()
}

fn is_usual_rate(rate: &u32) -> bool {
    *rate == usual_rate()
}

impl WebHook {
    /// `place`: where it stands in the document of its rule.
    pub(crate) fn check(&self, place: &str) -> Result<(), FieldError> {
        let flaw =
            |field: &str, text: String| Err(FieldError::new(format!("{place}.{field}"), text));
        self.check_proof(place)?;
        if !(1..=HOOK_BYTES).contains(&self.limit_bytes) {
            return flaw("limit_bytes", format!("from 1 to {HOOK_BYTES}"));
        }
        if !(1..=HOOK_PER_MINUTE).contains(&self.per_minute) {
            return flaw("per_minute", format!("from 1 to {HOOK_PER_MINUTE}"));
        }
        if self.headers.len() > HOOK_FIELDS {
            return flaw("headers", format!("at most {HOOK_FIELDS}"));
        }
        for (at, header) in self.headers.iter().enumerate() {
            let lower = header.to_ascii_lowercase();
            if let Some(problem) = header_flaw(header) {
                return flaw(&format!("headers.{at}"), problem.to_owned());
            }
            if SECRET_FIELDS.contains(&lower.as_str()) || self.is_signature(header) {
                return flaw(&format!("headers.{at}"), "that field is a secret".to_owned());
            }
        }
        match &self.scheme {
            HookScheme::Hmac(hmac) => match header_flaw(&hmac.header) {
                Some(problem) => flaw("scheme.hmac.header", problem.to_owned()),
                None => Ok(()),
            },
            HookScheme::Standard
            | HookScheme::Github
            | HookScheme::Bearer
            | HookScheme::Certificate(_) => Ok(()),
        }
    }

    /// A sender is known by keys or by certificates.
    fn check_proof(&self, place: &str) -> Result<(), FieldError> {
        let flaw =
            |field: &str, text: String| Err(FieldError::new(format!("{place}.{field}"), text));
        if let HookScheme::Certificate(scheme) = &self.scheme {
            if !self.keys.is_empty() {
                return flaw("keys", "a certificate proves it: there is no key".to_owned());
            }
            if scheme.of.is_empty() || scheme.of.len() > HOOK_KEYS {
                return flaw("scheme.certificate.of", format!("name 1 to {HOOK_KEYS}"));
            }
            return Ok(());
        }
        if self.keys.is_empty() || self.keys.len() > HOOK_KEYS {
            return flaw("keys", format!("name 1 to {HOOK_KEYS} keys of type web-hook"));
        }
        Ok(())
    }

    /// The keys that it names.
    pub(crate) fn references(&self, place: &str) -> Vec<Reference> {
        let keys = self.keys.iter().enumerate();
        let named = |(at, name)| Reference::new(format!("{place}.keys.{at}"), Kind::Key, name);
        keys.map(named).collect()
    }

    fn is_signature(&self, header: &str) -> bool {
        matches!(&self.scheme, HookScheme::Hmac(it) if it.header.eq_ignore_ascii_case(header))
    }

    /// The fields of a request that are kept, in lower case.
    pub fn kept_headers(&self) -> Vec<String> {
        let by_scheme: &[&str] = match &self.scheme {
            HookScheme::Standard => &["webhook-id", "webhook-timestamp"],
            HookScheme::Github => &["x-github-event", "x-github-delivery"],
            HookScheme::Hmac(_) | HookScheme::Bearer | HookScheme::Certificate(_) => &[],
        };
        let usual = ["content-type", "user-agent"].iter().chain(by_scheme);
        let mut kept: Vec<String> = usual.map(|name| (*name).to_owned()).collect();
        kept.extend(self.headers.iter().map(|name| name.to_ascii_lowercase()));
        kept
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn hook(more: Value) -> Result<WebHook, String> {
        let mut fields = json!({"keys": ["shop"]});
        fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(fields).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_left_out_has_its_default() {
        let plain = hook(json!({})).unwrap();
        assert_eq!(plain.scheme, HookScheme::Standard);
        assert_eq!((plain.limit_bytes, plain.per_minute), (HOOK_BYTES_USUAL, 600));
        assert_eq!(plain.check("when.hook"), Ok(()));
        let written = serde_json::to_value(&plain).unwrap();
        assert_eq!(written, json!({"scheme": "standard", "keys": ["shop"]}));
        let hmac = json!({"hmac": {"header": "X-Signature", "prefix": "sha256="}});
        let read = hook(json!({"scheme": hmac, "headers": ["X-Topic"]})).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap()["scheme"], hmac);
        assert_eq!(read.kept_headers(), ["content-type", "user-agent", "x-topic"]);
    }

    #[test]
    fn a_hook_that_cannot_be_is_named_by_its_field() {
        let hmac = |header: &str| json!({"scheme": {"hmac": {"header": header}}});
        for (bad, field) in [
            (json!({"keys": []}), "when.hook.keys"),
            (json!({"keys": ["a", "b", "c", "d", "e"]}), "when.hook.keys"),
            (json!({"limit_bytes": 0}), "when.hook.limit_bytes"),
            (json!({"limit_bytes": HOOK_BYTES + 1}), "when.hook.limit_bytes"),
            (json!({"per_minute": 0}), "when.hook.per_minute"),
            (json!({"headers": ["a b"]}), "when.hook.headers.0"),
            (json!({"headers": ["X-Topic", "Authorization"]}), "when.hook.headers.1"),
            (json!({"headers": ["Cookie"]}), "when.hook.headers.0"),
            (
                json!({"scheme": hmac("X-Sig")["scheme"], "headers": ["x-sig"]}),
                "when.hook.headers.0",
            ),
            (json!({"scheme": {"certificate": {"of": ["dns:a"]}}}), "when.hook.keys"),
            (
                json!({"keys": [], "scheme": {"certificate": {"of": []}}}),
                "when.hook.scheme.certificate.of",
            ),
            (hmac("a b"), "when.hook.scheme.hmac.header"),
            (hmac("Content-Length"), "when.hook.scheme.hmac.header"),
        ] {
            let error = hook(bad.clone()).unwrap().check("when.hook").unwrap_err();
            assert_eq!(error.field, field, "{bad}");
        }
        for bad in [json!({"scheme": "basic"}), json!({"scheme": {"hmac": {}}}), json!({"kees": 1})]
        {
            assert!(hook(bad.clone()).is_err(), "{bad} was taken");
        }
    }
}
