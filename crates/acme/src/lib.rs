//! Certificates of listeners from authorities that speak ACME (RFC 8555).
//!
//! What it guarantees:
//! 1. One node at a time asks for the certificate of a listener; any node may answer the
//!    authority, for the answers are in the database.
//! 2. A certificate that came is kept with its key as every other key of a listener: sealed, by
//!    one change with its event. Listeners show it to new connections; open ones stay.
//! 3. A certificate that counts is never replaced by nothing: until the next one is there, and fits
//!    its key, the old one is shown.
//! 4. An authority that refused is not asked again before it says so, and after each failure in a
//!    row later than after the one before.

mod due;
mod error;
mod limits;
mod order;
mod transport;
mod worker;

pub use error::AcmeError;
pub use worker::{AcmeParts, CertificateWorker};
