//! What is known of a message that arrived whole.

use entrepot_crypto::{ContentCipher, DigestAlgorithm};

use crate::limits;
use crate::mic::{Finished, LineEnds, Mic};
use crate::mime::Headers;
use crate::signed_data::VerifiedSignature;

/// A message whose every layer was right.
#[derive(Debug)]
pub struct Received {
    /// What it was encrypted with, if it was.
    pub cipher: Option<ContentCipher>,
    /// Whether any layer was compressed.
    pub compressed: bool,
    /// The partner's signature, if it has one.
    pub signature: Option<VerifiedSignature>,
    /// The header of the payload; of a plain message that of HTTP.
    pub payload: Headers,
    /// Bytes of the payload.
    pub payload_bytes: u64,
    pub(crate) payload_head: Option<Vec<u8>>,
    pub(crate) unsigned: Finished,
}

/// What proves for good that a message was signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignatureEvidence {
    /// The signature with its certificate: [`VerifiedSignature::detached`].
    pub detached: Vec<u8>,
    /// The header of the signed content, where the payload as it was delivered is the rest of it:
    /// whoever has the file can take the digest that was signed.
    pub head: Option<String>,
}

impl Received {
    /// What proves the signature later on; none: there is no signature, or it is too large to keep.
    pub fn signature_evidence(&self) -> Option<SignatureEvidence> {
        let signature = self.signature.as_ref()?;
        let detached = signature.detached.clone();
        if detached.len() > limits::EVIDENCE_SIGNATURE_BYTES {
            return None;
        }
        // What was signed compressed, or with other line ends, the file does not show.
        let is_plain = !self.compressed && signature.line_ends == LineEnds::AsReceived;
        let head = self.payload_head.clone().filter(|_| is_plain);
        let head = head.and_then(|head| String::from_utf8(head).ok());
        Some(SignatureEvidence { detached, head })
    }

    /// The message integrity check (RFC 4130 §7.3.1): of a signed message over what was signed, by
    /// the digest of the signature; else by the digest asked for.
    pub fn mic(&self, asked: DigestAlgorithm) -> Option<Mic> {
        match &self.signature {
            Some(signature) => Some(signature.mic.clone()),
            None => self.unsigned.of(asked, LineEnds::AsReceived).cloned(),
        }
    }
}
