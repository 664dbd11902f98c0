//! What is known of a message that arrived whole.

use entrepot_crypto::{ContentCipher, DigestAlgorithm};

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
    pub(crate) unsigned: Finished,
}

impl Received {
    /// The message integrity check (RFC 4130 §7.3.1): of a signed message over what was signed, by
    /// the digest of the signature; else by the digest asked for.
    pub fn mic(&self, asked: DigestAlgorithm) -> Option<Mic> {
        match &self.signature {
            Some(signature) => Some(signature.mic.clone()),
            None => self.unsigned.of(asked, LineEnds::AsReceived).cloned(),
        }
    }
}
