//! The fields of HTTP that are about AS2 (RFC 4130 §6, RFC 6017).

use std::fmt;

use entrepot_crypto::DigestAlgorithm;

use crate::limits;
use crate::mic::micalg;
use crate::mime::{Headers, quoted, split_outside_quotes, unquoted};

/// The name of a station or partner: up to 128 printable characters of ASCII, case counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct As2Name(String);

impl As2Name {
    /// The name itself, without quotes.
    pub fn new(text: &str) -> Option<Self> {
        let printable = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        let length = text.len();
        let fits = printable && (1..=limits::AS2_NAME_CHARACTERS).contains(&length);
        (fits && text.trim() == text).then(|| As2Name(text.to_owned()))
    }

    /// As it stands in a field: quoted or not.
    pub fn parse(field: &str) -> Option<Self> {
        As2Name::new(&unquoted(field.trim()))
    }

    /// The name without its quotes.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// As it stands in a field: quoted where it has to be.
    pub fn field(&self) -> String {
        quoted(&self.0)
    }
}

impl fmt::Display for As2Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether a Message-ID can be kept and echoed: visible ASCII, at most 998 characters, in angle
/// brackets or not.
pub fn is_message_id(text: &str) -> bool {
    let inside = text.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')).unwrap_or(text);
    let visible = text.bytes().all(|byte| byte.is_ascii_graphic());
    let length = text.len();
    visible && !inside.is_empty() && length <= limits::MESSAGE_ID_CHARACTERS
}

/// A Message-ID without its angle brackets: who repeats one may have left them out.
pub fn bare_message_id(text: &str) -> &str {
    text.trim().trim_start_matches('<').trim_end_matches('>')
}

/// What is asked of the receipt (`Disposition-Notification-Options`, RFC 4130 §7.3).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReceiptOptions {
    /// Whether it shall be signed.
    pub signed: bool,
    /// Whether something that is not known here was said to be required.
    pub unsupported_required: bool,
    /// The digests that were asked for and are known here, in order.
    pub digests: Vec<DigestAlgorithm>,
    /// Whether digests were asked for, known or not.
    pub digests_asked: bool,
}

impl ReceiptOptions {
    /// Reads `signed-receipt-protocol=optional, pkcs7-signature; signed-receipt-micalg=…`.
    pub fn parse(value: &str) -> ReceiptOptions {
        let mut options = ReceiptOptions::default();
        for parameter in split_outside_quotes(value, ';') {
            let Some((name, values)) = parameter.split_once('=') else { continue };
            let name = name.trim().to_ascii_lowercase();
            let mut values = values.split(',').map(|value| unquoted(value.trim()));
            let required = values.next().is_some_and(|it| it.eq_ignore_ascii_case("required"));
            match name.as_str() {
                "signed-receipt-protocol" => {
                    let known = values.any(|value| {
                        let value = value.to_ascii_lowercase();
                        matches!(value.as_str(), "pkcs7-signature" | "x-pkcs7-signature")
                    });
                    options.signed = known;
                    options.unsupported_required |= required && !known;
                }
                "signed-receipt-micalg" => {
                    options.digests_asked = true;
                    options.digests = values.filter_map(|value| micalg(&value)).collect();
                }
                _ => options.unsupported_required |= required,
            }
        }
        options
    }
}

/// How the receipt is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiptRequest {
    /// What it shall be like.
    pub options: ReceiptOptions,
    /// Where an asynchronous one goes; else it is the answer.
    pub delivery: Option<String>,
}

/// The fields of a message or receipt that are about AS2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct As2Headers {
    /// The name of who sends.
    pub from: As2Name,
    /// Who shall receive.
    pub to: As2Name,
    /// As it came, brackets or not.
    pub message_id: Option<String>,
    /// The receipt that the sender wants, if any.
    pub receipt: Option<ReceiptRequest>,
    /// A line for people.
    pub subject: Option<String>,
}

/// Which field is missing or malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the field '{0}' is missing or malformed")]
pub struct HeaderError(pub &'static str);

impl As2Headers {
    /// Reads them; `AS2-Version` may be missing, as it is then 1.0.
    pub fn parse(headers: &Headers) -> Result<Self, HeaderError> {
        let name = |field: &'static str| {
            headers.value(field).and_then(As2Name::parse).ok_or(HeaderError(field))
        };
        let owned = |field: &str| headers.value(field).map(str::to_owned);
        let receipt = headers.value("Disposition-Notification-To").map(|_| ReceiptRequest {
            options: headers
                .value("Disposition-Notification-Options")
                .map(ReceiptOptions::parse)
                .unwrap_or_default(),
            delivery: owned("Receipt-Delivery-Option").filter(|url| !url.is_empty()),
        });
        Ok(As2Headers {
            from: name("AS2-From")?,
            to: name("AS2-To")?,
            message_id: owned("Message-ID").filter(|id| !id.is_empty()),
            receipt,
            subject: owned("Subject"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mime::Field;

    #[test]
    fn names() {
        let name = |text: &str| As2Name::parse(text).map(|name| name.as_str().to_owned());
        let table = [
            ("MyCompany", Some("MyCompany")),
            ("\"My Company\"", Some("My Company")),
            (" plain with space ", Some("plain with space")),
            (r#""a\"b\\c""#, Some(r#"a"b\c"#)),
            ("\"\"", None),
            ("", None),
            ("\" x\"", None),
            ("gr\u{fc}n", None),
            ("a\u{7f}", None),
        ];
        for (text, expected) in table {
            assert_eq!(name(text).as_deref(), expected, "{text}");
        }
        assert!(As2Name::new(&"x".repeat(128)).is_some());
        assert!(As2Name::new(&"x".repeat(129)).is_none());
        let odd = As2Name::new(r#"a "b" \c"#).unwrap();
        assert_eq!(As2Name::parse(&odd.field()), Some(odd));
        assert_ne!(As2Name::new("A"), As2Name::new("a"));
    }

    #[test]
    fn message_ids() {
        for good in ["<a@b>", "a@b", "<x>"] {
            assert!(is_message_id(good), "{good}");
        }
        for bad in ["", "<>", "<a b@c>", "<\u{fc}>", &"x".repeat(999)] {
            assert!(!is_message_id(bad), "{bad}");
        }
    }

    #[test]
    fn what_is_asked_of_receipts() {
        use DigestAlgorithm::{Sha1, Sha256};
        let options = ReceiptOptions::parse(
            "signed-receipt-protocol=Optional, PKCS7-signature; \
             signed-receipt-micalg = optional , md5, SHA-256, sha1",
        );
        assert!(options.signed && options.digests_asked && !options.unsupported_required);
        assert_eq!(options.digests, [Sha256, Sha1]);
        let options = ReceiptOptions::parse("signed-receipt-micalg=required, md5");
        assert!(options.digests.is_empty() && options.digests_asked && !options.signed);
        let options = ReceiptOptions::parse("signed-receipt-protocol=required, pgp-signature");
        assert!(options.unsupported_required && !options.signed);
        assert!(ReceiptOptions::parse("strange=required, x").unsupported_required);
        assert_eq!(ReceiptOptions::parse("strange=optional, x; ;"), ReceiptOptions::default());
    }

    #[test]
    fn the_fields_of_a_message() {
        let field = |name: &str, value: &str| Field { name: name.into(), value: value.into() };
        let mut fields = vec![
            field("as2-from", "\"My Company\""),
            field("AS2-TO", "Other"),
            field("message-id", "<1@x>"),
            field("subject", "orders"),
            field("disposition-notification-to", "anything at all"),
            field("receipt-delivery-option", "https://x.example/mdn"),
        ];
        let read = As2Headers::parse(&Headers::new(fields.clone())).unwrap();
        assert_eq!((read.from.as_str(), read.to.as_str()), ("My Company", "Other"));
        let receipt = read.receipt.unwrap();
        assert_eq!(receipt.delivery.as_deref(), Some("https://x.example/mdn"));
        assert_eq!(receipt.options, ReceiptOptions::default());
        fields.remove(0);
        let missing = As2Headers::parse(&Headers::new(fields));
        assert_eq!(missing, Err(HeaderError("AS2-From")));
    }
}
