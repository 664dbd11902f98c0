//! What a partner's receipt says of a message, and what that means for the job.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use entrepot_as2_proto::{
    Headers, Outcome, ReadReceipt, ReceiptError, SentMic, bare_message_id, is_receipt, read_receipt,
};
use entrepot_crypto::Certificate;
use entrepot_nouns::Name;
use entrepot_nouns::endpoint::{As2MicCheck, As2ReceiptKind, As2Send};
use entrepot_nouns::event::As2Receipt;

use super::carried::Carried;
use super::feed::Fed;
use crate::limits::AS2_QUOTED_CHARACTERS;
use crate::step::StepError;

/// What came back for a message, and what had left by then.
pub(super) struct Answered {
    pub(super) fields: Headers,
    pub(super) body: Vec<u8>,
    /// Bytes of the file.
    pub(super) size: u64,
    /// `None`: it came before the whole message had left.
    pub(super) fed: Option<Fed>,
    /// What is kept of the request.
    pub(super) carried: Carried,
    /// The header that the receipt came with, as it is kept.
    pub(super) head: Option<String>,
}

impl Answered {
    /// Whether it is a receipt, and not just a page or nothing.
    pub(super) fn is_receipt(&self) -> bool {
        is_receipt(&self.fields, &self.body) == Some(true)
    }
}

/// What is known of the message that a receipt is for.
pub(super) struct SentMessage<'a> {
    pub(super) endpoint: &'a Name,
    pub(super) message_id: &'a str,
    pub(super) send: As2Send,
    pub(super) trusted: &'a [Arc<Certificate>],
    /// `None`: the partner has answered before it had the whole message.
    pub(super) sent: Option<&'a SentMic>,
    pub(super) tries: Tries,
    /// The header that the receipt came with, as it is kept.
    pub(super) head: Option<String>,
}

/// Whether the partner may have the message from an earlier attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tries {
    First,
    Repeated,
}

/// The partner has the file.
#[derive(Debug, PartialEq)]
pub(super) struct Confirmed {
    /// What the receipt says, such as `processed`; `None`: no receipt was asked for.
    pub(super) disposition: Option<String>,
    /// Whether its MIC is that of what was sent.
    pub(super) verified: bool,
    pub(super) receipt: Option<As2Receipt>,
}

/// The partner does not have it, or it is not known.
#[derive(Debug, PartialEq)]
pub(super) struct NotConfirmed {
    pub(super) error: StepError,
    /// What a receipt says that was read.
    pub(super) disposition: Option<String>,
    /// That receipt, as it came.
    pub(super) receipt: Option<Box<As2Receipt>>,
}

impl From<StepError> for NotConfirmed {
    fn from(error: StepError) -> Self {
        NotConfirmed { error, disposition: None, receipt: None }
    }
}

impl SentMessage<'_> {
    /// What an answer of status 2xx means.
    pub(super) fn judge(&self, fields: &Headers, body: &[u8]) -> Result<Confirmed, NotConfirmed> {
        if self.send.receipt == As2ReceiptKind::None {
            self.is_whole()?;
            return Ok(Confirmed { disposition: None, verified: false, receipt: None });
        }
        let read = read_receipt(fields, body, self.trusted).map_err(|error| match error {
            ReceiptError::Malformed if body.is_empty() => self.unusable("the answer is empty"),
            ReceiptError::Malformed => {
                self.unusable(&format!("the answer is no receipt: {}", quoted(body)))
            }
            ReceiptError::Signature(_) => self.unusable(&error.to_string()),
        })?;
        let disposition = shown(&read.disposition);
        let value = |name: &str| fields.value(name).unwrap_or_default().to_owned();
        let signed_by = read.signature.as_ref().map(|signature| &signature.certificate);
        let receipt = As2Receipt {
            message_id: value("Message-ID"),
            content_type: value("Content-Type"),
            body: STANDARD.encode(body),
            url: None,
            head: self.head.clone(),
            certificate: signed_by.map(|certificate| STANDARD.encode(certificate.der())),
        };
        let not = |error| NotConfirmed {
            error,
            disposition: Some(disposition.clone()),
            receipt: Some(Box::new(receipt.clone())),
        };
        self.outcome(&read).map_err(not)?;
        let verified = self.verified(&read).map_err(not)?;
        Ok(Confirmed { disposition: Some(disposition), verified, receipt: Some(receipt) })
    }

    /// Whether the receipt says that the partner has the message.
    fn outcome(&self, read: &ReadReceipt) -> Result<(), StepError> {
        let about = read.original_message_id.as_deref().map(bare_message_id);
        let negative = !read.outcome.is_success();
        if about.is_some_and(|id| id != bare_message_id(self.message_id))
            || about.is_none() && !negative
        {
            return Err(self.unusable("the receipt is for another message"));
        }
        if is_duplicate(&read.outcome) {
            return match self.tries {
                Tries::Repeated => self.is_signed(read),
                Tries::First => {
                    let text = format!(
                        "the partner of endpoint '{}' says that it had the message {} before, \
                         which was sent for the first time",
                        self.endpoint, self.message_id
                    );
                    Err(StepError::permanent("EP1215", text))
                }
            };
        }
        if negative {
            let signed = if read.signature.is_some() { "" } else { " (receipt without signature)" };
            let said = quoted(read.text.as_bytes());
            let text = format!(
                "the partner of endpoint '{}' refused the message {}: {}{signed}: {said}",
                self.endpoint,
                self.message_id,
                shown(&read.disposition)
            );
            return Err(StepError::permanent("EP1212", text.trim_end_matches([':', ' '])));
        }
        self.is_whole()?;
        self.is_signed(read)
    }

    fn is_whole(&self) -> Result<(), StepError> {
        let early = || self.unusable(EARLY);
        self.sent.map(|_| ()).ok_or_else(early)
    }

    fn is_signed(&self, read: &ReadReceipt) -> Result<(), StepError> {
        if self.send.receipt == As2ReceiptKind::Signed && read.signature.is_none() {
            return Err(self.unusable("the receipt is not signed"));
        }
        Ok(())
    }

    /// Whether the MIC of the receipt is that of the message; one that can be compared and differs
    /// is an error.
    fn verified(&self, read: &ReadReceipt) -> Result<bool, StepError> {
        // Of a copy that came twice the partner may not have read all.
        let Some(sent) = self.sent else { return Ok(false) };
        let differs = |why: &str| {
            let text = format!(
                "the partner of endpoint '{}' has message {}, but {why}",
                self.endpoint, self.message_id
            );
            Err(StepError::permanent("EP1214", text))
        };
        match &read.mic {
            Some(mic) if sent.is_matched_by(mic) => Ok(true),
            Some(mic) if mic.algorithm == sent.mic.algorithm => differs(&format!(
                "its receipt has the MIC '{mic}' and not '{}': it received other bytes",
                sent.mic
            )),
            _ if self.send.mic == As2MicCheck::Required => {
                differs("its receipt has no MIC that can be compared")
            }
            _ => Ok(false),
        }
    }

    fn unusable(&self, why: &str) -> StepError {
        unconfirmed(self.endpoint, self.message_id, why)
    }
}

/// An answer that came before all of the message had left.
pub(super) const EARLY: &str = "it answered before it had the whole message";

/// It is not known whether the partner has the message: it is sent again under its id.
pub(super) fn unconfirmed(endpoint: &Name, message_id: &str, why: &str) -> StepError {
    StepError::transient("EP1213", format!("endpoint '{endpoint}', message {message_id}: {why}"))
}

fn is_duplicate(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Warning(text) | Outcome::Error(text) | Outcome::Failure(text) => {
            text.to_ascii_lowercase().contains("duplicate-document")
        }
        Outcome::Processed => false,
    }
}

/// The part of a disposition behind how it was made, in one line.
fn shown(disposition: &str) -> String {
    let kind = disposition.split_once(';').map_or(disposition, |(_, kind)| kind);
    quoted(kind.as_bytes())
}

/// The first of what a partner says, in one line.
fn quoted(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let plain: String = plain.take(AS2_QUOTED_CHARACTERS).collect();
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}
