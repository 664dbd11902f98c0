//! What a partner's messages must have at least.

use entrepot_crypto::{ContentCipher, DigestAlgorithm, SignatureScheme};

use crate::received::Received;

/// Whether a protection may be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Protection {
    /// A message without it is refused.
    #[default]
    Required,
    /// It may be missing.
    Optional,
}

/// Whether what is broken or nearly so is good enough still.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Legacy {
    /// It is not.
    #[default]
    Refused,
    /// This partner can nothing better.
    Accepted,
}

/// What was agreed with a partner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeastSecurity {
    /// Whether messages have to be signed.
    pub signature: Protection,
    /// Whether messages have to be encrypted.
    pub encryption: Protection,
    /// The weakest digest that a signature may have.
    pub digest: DigestAlgorithm,
    /// Whether content may be encrypted with 3DES.
    pub triple_des: Legacy,
    /// The fewest bits of a key of RSA that may sign.
    pub rsa_bits: usize,
}

impl Default for LeastSecurity {
    fn default() -> Self {
        LeastSecurity {
            signature: Protection::Required,
            encryption: Protection::Required,
            digest: DigestAlgorithm::Sha256,
            triple_des: Legacy::Refused,
            rsa_bits: 2048,
        }
    }
}

impl LeastSecurity {
    /// Whether a message has what was agreed. See [`Receiver::outcome_under`], which asks it at the
    /// right moment.
    ///
    /// [`Receiver::outcome_under`]: crate::Receiver::outcome_under
    pub fn admits(&self, received: &Received) -> bool {
        let signed = match &received.signature {
            None => self.admits_unsigned(),
            Some(signature) => {
                let rsa = !matches!(signature.scheme, SignatureScheme::Ecdsa);
                let long_enough = !rsa || signature.certificate.key.bits() >= self.rsa_bits;
                signature.mic.algorithm >= self.digest && long_enough
            }
        };
        let encrypted = match received.cipher {
            None => self.encryption == Protection::Optional,
            Some(cipher) => self.admits_cipher(cipher),
        };
        signed && encrypted
    }

    pub(crate) fn admits_unsigned(&self) -> bool {
        self.signature == Protection::Optional
    }

    pub(crate) fn admits_cipher(&self, cipher: ContentCipher) -> bool {
        cipher != ContentCipher::TripleDesCbc || self.triple_des == Legacy::Accepted
    }
}
