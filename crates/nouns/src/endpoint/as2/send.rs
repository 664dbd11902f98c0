//! How messages are made for a partner of AS2, and what its receipts must have.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::is_default;
use crate::period::Period;

/// How messages are made for a partner, and what its receipts must have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct As2Send {
    /// How they are signed, with the newest valid one of `keys`.
    #[serde(skip_serializing_if = "is_default")]
    pub signature: As2Signature,
    /// The digest of the signature, and the one that receipts are asked for.
    #[serde(skip_serializing_if = "is_default")]
    pub digest: As2Digest,
    /// How that digest is written in `micalg` and where receipts are asked for.
    #[serde(skip_serializing_if = "is_default")]
    pub micalg: As2Micalg,
    /// What they are encrypted with, for the newest valid one of `certificates`.
    #[serde(skip_serializing_if = "is_default")]
    pub cipher: As2Cipher,
    /// How the key of the content is encrypted.
    #[serde(skip_serializing_if = "is_default")]
    pub key_transport: As2KeyTransport,
    /// Whether and when the file is compressed (RFC 5402); it is then read twice.
    #[serde(skip_serializing_if = "is_default")]
    pub compression: As2Compression,
    /// The receipt that is asked for.
    #[serde(skip_serializing_if = "is_default")]
    pub receipt: As2ReceiptKind,
    /// What a receipt that says "processed" must have for the step to be done.
    #[serde(skip_serializing_if = "is_default")]
    pub mic: As2MicCheck,
    /// How long nothing may move: while connecting, while the message leaves, and from its last
    /// byte to the receipt. As text: `30s`, `10m`.
    #[serde(skip_serializing_if = "is_default")]
    pub timeout: As2Timeout,
    /// With `receipt_url`: how long the step rests until a receipt comes. Then it fails, and the
    /// message is sent again under its id. As text: `30m`, `1d`.
    #[serde(skip_serializing_if = "is_default")]
    pub receipt_within: As2ReceiptTime,
}

impl As2Send {
    /// Which time is none that can be waited, and what it may be.
    pub(super) fn check_times(&self) -> Result<(), (&'static str, &'static str)> {
        let seconds = |period: Period| period.duration().as_secs();
        if !(1..=24 * 3600).contains(&seconds(self.timeout.0)) {
            return Err(("send.timeout", "from 1s to 1d"));
        }
        if !(10..=30 * 24 * 3600).contains(&seconds(self.receipt_within.0)) {
            return Err(("send.receipt_within", "from 10s to 30d"));
        }
        Ok(())
    }
}

/// How a message is signed. A key of an elliptic curve signs by ECDSA, whatever the padding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum As2Signature {
    /// RSA with the padding of PKCS #1 v1.5, which every partner knows.
    #[default]
    Pkcs1,
    /// RSASSA-PSS (RFC 4056).
    Pss,
    /// Not at all: the partner cannot know who sent it.
    None,
}

/// A digest of signatures and of receipts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum As2Digest {
    /// Broken by collisions; of old partners.
    #[serde(rename = "sha-1")]
    Sha1,
    /// What RFC 4130bis asks for.
    #[default]
    #[serde(rename = "sha-256")]
    Sha256,
    /// Longer than SHA-256.
    #[serde(rename = "sha-384")]
    Sha384,
    /// Longer still; as fast as SHA-384.
    #[serde(rename = "sha-512")]
    Sha512,
}

/// How a digest is spelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum As2Micalg {
    /// `sha-256`, as RFC 5751 has it.
    #[default]
    Dashed,
    /// `sha256`, as RFC 3851 has it, for older partners.
    Plain,
}

/// What content is encrypted with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum As2Cipher {
    /// AES with 128 bits, CBC: what RFC 4130bis asks for.
    #[default]
    #[serde(rename = "aes-128-cbc")]
    Aes128Cbc,
    /// AES with 256 bits, CBC.
    #[serde(rename = "aes-256-cbc")]
    Aes256Cbc,
    /// AES with 128 bits, GCM, as AuthEnvelopedData (RFC 5083). OpenAS2 4.9 takes such a message
    /// for the file itself, and says "processed".
    #[serde(rename = "aes-128-gcm")]
    Aes128Gcm,
    /// AES with 256 bits, GCM.
    #[serde(rename = "aes-256-gcm")]
    Aes256Gcm,
    /// Three keys of DES, CBC: for partners that have nothing better.
    TripleDesCbc,
    /// Nothing: everybody on the way can read a message that goes by `http://`.
    None,
}

/// How the key of the content is encrypted for the partner's key of RSA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum As2KeyTransport {
    /// The padding of PKCS #1 v1.5, which every partner knows.
    #[default]
    Pkcs1,
    /// OAEP with SHA-256 for label and mask.
    Oaep,
    /// OAEP with SHA-1 for label and mask, the default of RFC 8017, for partners that know no
    /// other.
    #[serde(rename = "oaep-sha-1")]
    OaepSha1,
}

/// When the file is compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum As2Compression {
    /// Never: most files of EDI are small, or compressed already.
    #[default]
    None,
    /// Before it is signed.
    BeforeSigning,
    /// The signed message is, before it is encrypted.
    AfterSigning,
}

/// The receipt that a partner is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum As2ReceiptKind {
    /// Signed by one of its certificates.
    #[default]
    Signed,
    /// Without a signature.
    Unsigned,
    /// None: the partner's status of HTTP is all that is known.
    None,
}

/// What a receipt that says "processed" must have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum As2MicCheck {
    /// Its MIC may be missing, or be by a digest that was not asked for: the file is then delivered
    /// and not verified. One that differs fails the step.
    #[default]
    Optional,
    /// A MIC that is that of the message.
    Required,
}

/// How long nothing may move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct As2Timeout(pub Period);

impl Default for As2Timeout {
    fn default() -> Self {
        As2Timeout(Period::from_seconds(5 * 60))
    }
}

/// How long a receipt that comes by itself may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct As2ReceiptTime(pub Period);

impl Default for As2ReceiptTime {
    fn default() -> Self {
        As2ReceiptTime(Period::from_seconds(60 * 60))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::As2Target;

    fn refused(change: impl FnOnce(&mut As2Target)) -> Option<String> {
        let mut target = As2Target::new("GLOBEX", "ACME");
        target.keys = vec!["ours".parse().unwrap()];
        target.certificates = vec!["theirs".parse().unwrap()];
        target.url = Some("https://as2.globex.example/".to_owned());
        change(&mut target);
        target.check().err().map(|error| error.field)
    }

    #[test]
    fn what_is_sent_can_be_made() {
        let field = |name: &str| Some(format!("target.as2.{name}"));
        assert_eq!(refused(|_| {}), None);
        assert_eq!(refused(|it| it.keys.clear()), field("keys"));
        assert_eq!(refused(|it| it.certificates.clear()), field("certificates"));
        let unsigned = |it: &mut As2Target| {
            it.keys.clear();
            it.send.signature = As2Signature::None;
        };
        assert_eq!(refused(unsigned), None);
        let clear = |it: &mut As2Target| {
            it.certificates.clear();
            it.send.cipher = As2Cipher::None;
        };
        assert_eq!(refused(clear), field("certificates"), "the receipt is signed");
        let without = |it: &mut As2Target| {
            clear(it);
            it.send.receipt = As2ReceiptKind::None;
        };
        assert_eq!(refused(without), None);
        let verified = |it: &mut As2Target| {
            without(it);
            it.send.mic = As2MicCheck::Required;
        };
        assert_eq!(refused(verified), field("send.mic"));
        let timeout = |seconds| As2Timeout(Period::from_seconds(seconds));
        assert_eq!(refused(|it| it.send.timeout = timeout(0)), field("send.timeout"));
        assert_eq!(refused(|it| it.send.timeout = timeout(86_401)), field("send.timeout"));
        let within = |it: &mut As2Target, seconds| {
            it.send.receipt_within = As2ReceiptTime(Period::from_seconds(seconds));
        };
        assert_eq!(refused(|it| within(it, 9)), field("send.receipt_within"));
        let apart = |it: &mut As2Target| it.receipt_url = Some("https://a.example/as2".to_owned());
        assert_eq!(refused(apart), None);
        assert_eq!(
            refused(|it| {
                apart(it);
                it.send.receipt = As2ReceiptKind::None;
            }),
            field("receipt_url")
        );
        assert_eq!(refused(|it| it.receipt_url = Some("a".to_owned())), field("receipt_url"));
        let nowhere = |it: &mut As2Target| {
            it.url = None;
            it.account = Some("globex".parse().unwrap());
            it.send.signature = As2Signature::Pss;
        };
        assert_eq!(refused(nowhere), field("send"));
    }

    #[test]
    fn values_have_the_names_of_the_trade() {
        let text = r#"{"signature": "pss", "digest": "sha-512", "micalg": "plain",
            "cipher": "triple-des-cbc", "key_transport": "oaep-sha-1",
            "compression": "after-signing", "receipt": "unsigned", "mic": "required",
            "timeout": "10m", "receipt_within": "2h"}"#;
        let send: As2Send = serde_json::from_str(text).unwrap();
        let written = serde_json::to_value(send).unwrap();
        assert_eq!(written, serde_json::from_str::<serde_json::Value>(text).unwrap());
        assert_eq!(serde_json::to_value(As2Send::default()).unwrap(), serde_json::json!({}));
        for cipher in ["aes-128-cbc", "aes-256-cbc", "aes-128-gcm", "aes-256-gcm", "none"] {
            serde_json::from_value::<As2Cipher>(cipher.into()).unwrap();
        }
        assert!(serde_json::from_str::<As2Send>(r#"{"cypher": "none"}"#).is_err());
    }
}
