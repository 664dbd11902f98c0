//! Keys of ours that open what partners encrypted.

use std::sync::Arc;

use entrepot_crypto::der::DerError;
use entrepot_crypto::{Certificate, PrivateKey};

/// A certificate of ours, and the private half of its key.
#[derive(Clone, Debug)]
pub struct OwnKey {
    /// What partners encrypt to.
    pub certificate: Arc<Certificate>,
    /// What opens it.
    pub key: Arc<PrivateKey>,
}

/// An envelope cannot be opened. It is not said why, to nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sealed;

impl From<DerError> for Sealed {
    fn from(_: DerError) -> Self {
        Sealed
    }
}
