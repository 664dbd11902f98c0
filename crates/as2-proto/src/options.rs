//! What a message is received with, and why one may count for nothing.

use std::sync::Arc;

use entrepot_crypto::cipher::MAX_KEY_BYTES;
use entrepot_crypto::{Certificate, DigestAlgorithm};
use zeroize::Zeroizing;

use crate::disposition::Disposition;
use crate::own_key::OwnKey;

/// Why a message counts for nothing. The peer learns the [`Disposition`] of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReceiveError {
    /// No own key opens it, or what a key opened is damaged: one case for all of these.
    #[error("the message cannot be decrypted")]
    Decryption,
    /// No certificate of the partner made the signature.
    #[error("the message is not signed by the partner")]
    Authentication,
    /// The partner has signed other content.
    #[error("the content differs from what the partner signed")]
    Integrity,
    /// The partner's signature has a digest that neither `micalg` names nor
    /// [`ReceiveOptions::other_digests`] has.
    #[error("the signature has a digest that is not taken")]
    Digest(DigestAlgorithm),
    /// Compressed content is damaged, or inflates to more than is allowed.
    #[error("the message cannot be decompressed")]
    Decompression,
    /// A layer that is not known, or not in this place.
    #[error("the message has a form that is not supported")]
    UnsupportedFormat,
    /// The header, or the parts, cannot be read.
    #[error("the message is malformed")]
    Malformed,
    /// The payload is larger than allowed.
    #[error("the payload is too large")]
    TooLarge,
}

impl ReceiveError {
    /// What a receipt says of it.
    pub fn disposition(self) -> Disposition {
        match self {
            ReceiveError::Decryption => Disposition::DecryptionFailed,
            ReceiveError::Authentication => Disposition::AuthenticationFailed,
            ReceiveError::Integrity | ReceiveError::Digest(_) => Disposition::IntegrityCheckFailed,
            ReceiveError::Decompression => Disposition::DecompressionFailed,
            ReceiveError::UnsupportedFormat => Disposition::UnsupportedFormat,
            ReceiveError::Malformed | ReceiveError::TooLarge => {
                Disposition::UnexpectedProcessingError
            }
        }
    }
}

/// What a message is received with.
pub struct ReceiveOptions {
    /// Keys of the station that may open it.
    pub keys: Vec<OwnKey>,
    /// Certificates of the partner that may sign it.
    pub trusted: Vec<Arc<Certificate>>,
    /// Random bytes, fresh for each message: they stand in for a content key that is damaged.
    pub substitute_key: Zeroizing<[u8; MAX_KEY_BYTES]>,
    /// Digests to compute of content that no signature covers.
    pub mic_algorithms: Vec<DigestAlgorithm>,
    /// Digests to compute of signed content besides the ones that `micalg` names.
    pub other_digests: Vec<DigestAlgorithm>,
    /// The largest payload.
    pub max_payload_bytes: u64,
    /// How many times its compressed size content may have, past the first 16 MiB.
    pub max_inflate_ratio: u64,
}
