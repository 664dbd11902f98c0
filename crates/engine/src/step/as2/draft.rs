//! A message as its rule and its endpoint ask for it, before anything is sent.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use entrepot_as2_proto::{
    Compression, DigestAlgorithm, Envelope, KeyTransport, MicalgStyle, Parameterized, RsaPadding,
    SendPlan, Signer, Signing,
};
use entrepot_auth::{As2OwnKey, As2Partner, as2};
use entrepot_crypto::Certificate;
use entrepot_nouns::Timestamp;
use entrepot_nouns::endpoint::{
    As2Cipher, As2Compression, As2KeyTransport, As2Micalg, As2ReceiptKind, As2Send, As2Signature,
};
use entrepot_nouns::rule::As2Spec;

use crate::pattern::{self, PatternError, Values};
use crate::step::StepError;

/// What a rule says of a message.
#[derive(Debug, PartialEq)]
pub(crate) struct As2Draft {
    /// What the file is called.
    pub(crate) name: String,
    pub(crate) content_type: String,
    pub(crate) subject: Option<String>,
}

/// Media types of files whose rule names none.
const BY_EXTENSION: [(&str, &str); 13] = [
    ("edi", "application/edi-consent"),
    ("x12", "application/edi-x12"),
    ("edifact", "application/edifact"),
    ("xml", "application/xml"),
    ("json", "application/json"),
    ("csv", "text/csv"),
    ("txt", "text/plain"),
    ("pdf", "application/pdf"),
    ("zip", "application/zip"),
    ("gz", "application/gzip"),
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("tif", "image/tiff"),
];

impl As2Draft {
    /// What `spec` asks for.
    pub(crate) fn of(spec: &As2Spec, values: Values<'_>) -> Result<As2Draft, PatternError> {
        let wrong = |what: &str, why: &str| PatternError::NotSent(what.to_owned(), why.to_owned());
        let name = pattern::expand(&spec.name, values)?;
        if name.is_empty() || name.contains(['/', '\\']) || name.chars().any(char::is_control) {
            let why = "it is the name of a file, without directories and control characters";
            return Err(wrong(&format!("the name '{name}'"), why));
        }
        let content_type = match &spec.content_type {
            Some(pattern) => pattern::expand(pattern, values)?,
            None => by_extension(&name).to_owned(),
        };
        if let Some(why) = flaw_of_type(&content_type) {
            return Err(wrong(&format!("the media type '{content_type}'"), why));
        }
        let subject = spec.subject.as_ref().map(|subject| pattern::expand(subject, values));
        Ok(As2Draft { name, content_type, subject: subject.transpose()?.map(|it| field(&it)) })
    }
}

fn by_extension(name: &str) -> &'static str {
    let extension = name.rsplit_once('.').map(|(_, it)| it.to_ascii_lowercase());
    let known = BY_EXTENSION.iter().find(|(it, _)| extension.as_deref() == Some(it));
    known.map_or("application/octet-stream", |(_, media_type)| media_type)
}

/// Why a file cannot have a media type: a partner would take it for a layer of the message.
fn flaw_of_type(text: &str) -> Option<&'static str> {
    let Ok(Parameterized { value, .. }) = Parameterized::parse(text) else {
        return Some("it cannot be read");
    };
    let layers = ["multipart/", "message/", "application/pkcs7-", "application/x-pkcs7-"];
    if layers.iter().any(|layer| value.starts_with(layer)) {
        return Some("partners unwrap what is called so");
    }
    let plain = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    let halves = value.split_once('/').is_some_and(|(kind, it)| !kind.is_empty() && !it.is_empty());
    (!plain || !halves).then_some("it is one such as application/edi-x12")
}

/// A text as a field of a header has it (RFC 2047 where it is more than ASCII).
fn field(text: &str) -> String {
    const BYTES: usize = 42;
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.is_ascii() {
        return text.trim().to_owned();
    }
    let mut words: Vec<String> = Vec::new();
    for character in text.trim().chars() {
        match words.last_mut() {
            Some(word) if word.len() + character.len_utf8() <= BYTES => word.push(character),
            _ => words.push(character.to_string()),
        }
    }
    let encoded = words.iter().map(|word| format!("=?utf-8?B?{}?=", STANDARD.encode(word)));
    encoded.collect::<Vec<_>>().join(" ")
}

/// The keys of both sides that count now.
pub(super) struct PartnerKeys {
    own: Option<As2OwnKey>,
    /// Of the partner, the newest first.
    pub(super) certificates: Vec<Arc<Certificate>>,
}

impl PartnerKeys {
    /// Those that what was agreed asks for.
    pub(super) fn of(partner: &As2Partner, now: Timestamp) -> Result<PartnerKeys, StepError> {
        let As2Send { signature, cipher, receipt, .. } = partner.target.send;
        let own = partner.own_keys(now).into_iter().next();
        let certificates = partner.certificates(now);
        let (endpoint, missing) =
            (&partner.endpoint, |text: String| Err(StepError::permanent("EP1211", text)));
        if signature != As2Signature::None && own.is_none() {
            return missing(format!("no key of endpoint '{endpoint}' is valid now and can sign"));
        }
        if cipher != As2Cipher::None && certificates.is_empty() {
            return missing(format!(
                "no certificate of the partner of endpoint '{endpoint}' is valid now to encrypt for"
            ));
        }
        if receipt == As2ReceiptKind::Signed && certificates.is_empty() {
            return missing(format!(
                "no certificate of the partner of endpoint '{endpoint}' is valid now, so its \
                 signed receipt could not be verified"
            ));
        }
        Ok(PartnerKeys { own, certificates })
    }

    /// The certificate of the key that signs.
    pub(super) fn signs_with(&self, send: As2Send) -> Option<&Certificate> {
        let signs = send.signature != As2Signature::None;
        self.own.as_ref().filter(|_| signs).map(|own| &*own.certificate)
    }

    /// The message for a file of this size.
    pub(super) fn plan(&self, draft: &As2Draft, send: As2Send, size: u64, at: i64) -> SendPlan {
        let digest = as2::digest(send.digest);
        let padding = match send.signature {
            As2Signature::Pkcs1 | As2Signature::None => RsaPadding::Pkcs1,
            As2Signature::Pss => RsaPadding::Pss,
        };
        let own = self.own.as_ref().filter(|_| send.signature != As2Signature::None);
        let signing = own.map(|own| Signing {
            signer: Signer {
                certificate: Arc::clone(&own.certificate),
                key: Arc::clone(&own.private),
                digest,
                padding,
                time: at,
            },
            style: style(send.micalg),
        });
        let envelope = as2::cipher(send.cipher).zip(self.certificates.first());
        let envelope = envelope.map(|(cipher, recipient)| Envelope {
            recipient: Arc::clone(recipient),
            cipher,
            transport: transport(send.key_transport),
        });
        SendPlan {
            content_type: draft.content_type.clone(),
            file_name: Some(draft.name.clone()),
            payload_bytes: size,
            compression: match send.compression {
                As2Compression::None => Compression::None,
                As2Compression::BeforeSigning => Compression::BeforeSigning,
                As2Compression::AfterSigning => Compression::AfterSigning,
            },
            signing,
            envelope,
            mic_algorithm: digest,
        }
    }
}

pub(super) fn style(style: As2Micalg) -> MicalgStyle {
    match style {
        As2Micalg::Dashed => MicalgStyle::Dashed,
        As2Micalg::Plain => MicalgStyle::Plain,
    }
}

fn transport(transport: As2KeyTransport) -> KeyTransport {
    let oaep = |digest| KeyTransport::Oaep { digest, mask: digest };
    match transport {
        As2KeyTransport::Pkcs1 => KeyTransport::Pkcs1,
        As2KeyTransport::Oaep => oaep(DigestAlgorithm::Sha256),
        As2KeyTransport::OaepSha1 => oaep(DigestAlgorithm::Sha1),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;
    use crate::fixture::uploaded;

    fn draft(path: &str, more: Json) -> Result<As2Draft, PatternError> {
        let mut spec = json!({"endpoint": "e"});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let spec: As2Spec = serde_json::from_value(spec).unwrap();
        As2Draft::of(&spec, Values::from(&uploaded(path)))
    }

    #[test]
    fn a_message_has_name_type_and_subject_as_the_rule_says() {
        let plain = draft("/in/order 7.X12", json!({})).unwrap();
        assert_eq!((plain.name.as_str(), plain.subject), ("order 7.X12", None));
        assert_eq!(plain.content_type, "application/edi-x12");
        assert_eq!(draft("/in/a", json!({})).unwrap().content_type, "application/octet-stream");
        let named = json!({"name": "{stem}-1.edi", "content_type": "text/plain; charset=utf-8",
            "subject": "file {name}"});
        let named = draft("/in/b.txt", named).unwrap();
        assert_eq!(named.name, "b-1.edi");
        assert_eq!(named.content_type, "text/plain; charset=utf-8");
        assert_eq!(named.subject.as_deref(), Some("file b.txt"));
    }

    #[test]
    fn what_a_peer_named_makes_no_second_field_and_no_layer() {
        let subject = draft("/in/a\r\nX: y", json!({"name": "a", "subject": "{name}"})).unwrap();
        assert_eq!(subject.subject.as_deref(), Some("a  X: y"));
        let wide = draft("/in/gr\u{fc}\u{df}e", json!({"subject": "{name}"})).unwrap();
        assert_eq!(wide.subject.as_deref(), Some("=?utf-8?B?Z3LDvMOfZQ==?="));
        let long = draft("/in/a", json!({"subject": "\u{e4}".repeat(50)})).unwrap();
        assert!(long.subject.unwrap().split(' ').all(|word| word.len() <= 75));
        assert!(draft("/in/a\nb", json!({})).is_err());
        assert!(draft("/in/a", json!({"name": "x/{name}"})).is_err());
        for layer in ["multipart/signed", "Message/rfc822", "application/x-pkcs7-mime", "edi"] {
            assert!(draft("/in/a", json!({"content_type": layer})).is_err(), "{layer}");
        }
        assert!(draft("/in/a\r\nb", json!({"name": "a", "content_type": "a/{name}"})).is_err());
    }
}
