//! What a receipt has to say.

use std::sync::{Arc, OnceLock};

use entrepot_as2_proto::{
    As2Headers, Field, Headers, Mic, Outcome, ReceiptError, SentMic, bare_message_id, read_receipt,
};
use entrepot_crypto::Certificate;
use hyper::header::HeaderMap;

use super::error::As2BenchError;
use super::recipe::ReceiptWish;

/// What all receipts of a measurement have in common.
pub(super) struct Expected {
    wish: ReceiptWish,
    trusted: Vec<Arc<Certificate>>,
    /// The digest that the first receipt for a saved message has.
    seen: OnceLock<Mic>,
}

/// What came for a message.
pub(super) struct Answer<'a> {
    pub(super) headers: &'a HeaderMap,
    pub(super) body: &'a [u8],
}

/// What could be checked of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Checked {
    /// The receipt: signature, message, outcome, digest.
    Receipt,
    /// No receipt was asked for.
    Nothing,
}

/// Why a receipt is not the one that was to come.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReceiptFault {
    #[error("the receipt cannot be used: {0}")]
    Unusable(#[from] ReceiptError),
    #[error("the receipt is not signed")]
    Unsigned,
    #[error("the receipt is for another message")]
    Foreign,
    #[error("the receipt says: {0}")]
    Refused(String),
    #[error("the receipt has no digest that can be read")]
    NoMic,
    #[error("the receipt has another digest than the message")]
    OtherMic,
}

impl Expected {
    /// By what the header of the message asks for.
    pub(super) fn new(
        headers: &Headers,
        trusted: &[Arc<Certificate>],
    ) -> Result<Expected, As2BenchError> {
        let names = As2Headers::parse(headers)?;
        let wish = match names.receipt {
            None => ReceiptWish::None,
            Some(receipt) if receipt.options.signed => ReceiptWish::Signed,
            Some(_) => ReceiptWish::Unsigned,
        };
        if wish == ReceiptWish::Signed && trusted.is_empty() {
            return Err(As2BenchError::NoTrust);
        }
        Ok(Expected { wish, trusted: trusted.to_vec(), seen: OnceLock::new() })
    }

    /// Checks the answer to one message. `sent`: the digest that it has, where that is known.
    pub(super) fn check(
        &self,
        message_id: &str,
        sent: Option<&SentMic>,
        answer: Answer<'_>,
    ) -> Result<Checked, ReceiptFault> {
        if self.wish == ReceiptWish::None {
            return Ok(Checked::Nothing);
        }
        let receipt = read_receipt(&fields(answer.headers), answer.body, &self.trusted)?;
        if self.wish == ReceiptWish::Signed && receipt.signature.is_none() {
            return Err(ReceiptFault::Unsigned);
        }
        let about = receipt.original_message_id.as_deref().map(bare_message_id);
        if about != Some(bare_message_id(message_id)) {
            return Err(ReceiptFault::Foreign);
        }
        match &receipt.outcome {
            // Each id is new: who has it before has another message.
            Outcome::Warning(text) if text.to_ascii_lowercase().contains("duplicate") => {
                return Err(ReceiptFault::Refused(receipt.disposition));
            }
            outcome if outcome.is_success() => {}
            _ => return Err(ReceiptFault::Refused(receipt.disposition)),
        }
        let mic = receipt.mic.ok_or(ReceiptFault::NoMic)?;
        let matches = match sent {
            Some(sent) => sent.is_matched_by(&mic),
            // The same message has the same digest each time.
            None => *self.seen.get_or_init(|| mic.clone()) == mic,
        };
        if matches { Ok(Checked::Receipt) } else { Err(ReceiptFault::OtherMic) }
    }
}

fn fields(map: &HeaderMap) -> Headers {
    let field = |(name, value): (&hyper::header::HeaderName, &hyper::header::HeaderValue)| Field {
        name: name.as_str().to_owned(),
        value: String::from_utf8_lossy(value.as_bytes()).trim().to_owned(),
    };
    Headers::new(map.iter().map(field).collect())
}
