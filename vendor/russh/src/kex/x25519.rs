//! Entrepot: X25519 (RFC 7748) of AWS-LC.

use aws_lc_rs::agreement::{EphemeralPrivateKey, UnparsedPublicKey, X25519, agree_ephemeral};
use aws_lc_rs::rand::SystemRandom;

use crate::Error;

pub(super) const BYTES: usize = 32;

/// A secret for one exchange.
pub(super) struct Secret(EphemeralPrivateKey);

impl Secret {
    /// A new secret and its public half.
    pub(super) fn generate() -> Result<(Secret, [u8; BYTES]), Error> {
        let secret =
            EphemeralPrivateKey::generate(&X25519, &SystemRandom::new()).map_err(|_| Error::Kex)?;
        let public = secret.compute_public_key().map_err(|_| Error::Kex)?;
        let public = public.as_ref().try_into().map_err(|_| Error::Kex)?;
        Ok((Secret(secret), public))
    }

    /// What both sides share. A public half of low order is refused: the secret would be zero,
    /// whatever ours is.
    pub(super) fn agree(self, public: &[u8]) -> Result<[u8; BYTES], Error> {
        let public = UnparsedPublicKey::new(&X25519, public);
        let shared = agree_ephemeral(self.0, public, Error::Kex, |shared| {
            <[u8; BYTES]>::try_from(shared).map_err(|_| Error::Kex)
        })?;
        if shared == [0; BYTES] { Err(Error::Kex) } else { Ok(shared) }
    }
}
