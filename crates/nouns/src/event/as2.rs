//! What is known of messages of AS2.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::is_default;
use crate::ids::TransferId;
use crate::name::Name;

/// The message of AS2 that brought a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct As2Message {
    /// The endpoint of the partner.
    pub partner: Name,
    /// The AS2 name of who sent it.
    pub from: String,
    /// The AS2 name of who received it.
    pub to: String,
    /// The Message-ID as it came.
    pub message_id: String,
    /// The line for people, if it had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The media type of the file, as its sender said.
    pub content_type: String,
    /// The message integrity check: a digest as base64, and its algorithm (RFC 4130 §7.3.1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mic: Option<String>,
    /// SHA-256 of the certificate that signed it, 64 hexadecimal digits; none: it was not signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed_by: Option<String>,
    /// What proves that signature, of a message that came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<Box<As2Signature>>,
    /// The cipher that it came under; none: it was not encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cipher: Option<String>,
    /// It was compressed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub compressed: bool,
    /// The header of the request that carried it, a field a line, without secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// The connection that it came or left by, under TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<As2Tls>,
    /// The receipt that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Box<As2Receipt>>,
}

/// The signature of a message, without what was signed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct As2Signature {
    /// SignedData without content (RFC 5652 §5), with the certificate that made it, DER as base64.
    pub cms: String,
    /// The header of what was signed, byte by byte, where the file is the rest of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
}

/// A connection under TLS that carried a message of AS2.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct As2Tls {
    /// The version of the protocol, such as `TLS 1.3`.
    pub version: String,
    /// The cipher suite, by its name in the registry (RFC 8446 §B.4).
    pub suite: String,
    /// SHA-256 of the certificate that the other side showed, 64 hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
}

/// A message of ours that its partner refused, or confirmed with the digest of other bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct As2Rejection {
    /// The transfer that it was to be.
    pub transfer: TransferId,
    /// What the file is called in the message.
    pub path: String,
    /// Bytes of the file.
    pub size: u64,
    /// What the receipt says, such as `processed/error: decryption-failed`.
    pub disposition: String,
    /// The message, with the receipt.
    pub message: Box<As2Message>,
    /// The name of the rule, which may have been deleted since.
    pub rule: Name,
}

/// A receipt (MDN, RFC 8098) as it was given, byte by byte.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct As2Receipt {
    /// Its own Message-ID.
    pub message_id: String,
    /// The value of its field `Content-Type`.
    pub content_type: String,
    /// Its body, as base64.
    pub body: String,
    /// Where it is sent, where it is not the answer to the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Of a partner's: the header that it came with, a field a line, without secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// Of a partner's: the certificate that signed it, DER as base64; ours brings its own along.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
}

/// A message of AS2 that was refused: nothing of it was kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct As2Refusal {
    /// The endpoint of the partner; none: no partner has these names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partner: Option<Name>,
    /// The name that the sender gave itself.
    pub from: String,
    /// The name that it gave us.
    pub to: String,
    /// The Message-ID as it came, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// What the receipt says, such as `processed/error: decryption-failed`; of a receipt, why it
    /// counts for nothing.
    pub disposition: String,
    /// The peer's IP address, without a port.
    pub address: String,
    /// The header of the request that carried it, a field a line, without secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// The connection that it came by, under TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<As2Tls>,
    /// The receipt, where one was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Box<As2Receipt>>,
}

/// A receipt on its way to the address where its partner wants it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct As2ReceiptSending {
    /// The endpoint of the partner.
    pub partner: Name,
    /// The Message-ID of the message that it is for.
    pub message_id: String,
    /// The Message-ID of the receipt.
    pub receipt: String,
    /// Where it goes.
    pub url: String,
    /// Attempts made, counting the last one.
    pub attempts: u32,
    /// Why it is given up, one sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A receipt that a partner has sent to an address of ours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct As2ReceivedReceipt {
    /// The endpoint of the partner.
    pub partner: Name,
    /// The Message-ID of the message that it is for.
    pub message_id: String,
    /// What it says, such as `processed`.
    pub disposition: String,
    /// The message integrity check: a digest as base64, and its algorithm (RFC 4130 §7.3.1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mic: Option<String>,
    /// SHA-256 of the certificate that signed it, 64 hexadecimal digits; none: it was not signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed_by: Option<String>,
    /// The peer's IP address, without a port.
    pub address: String,
    /// The connection that it came by, under TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<As2Tls>,
    /// The receipt as it came.
    pub receipt: Box<As2Receipt>,
}
