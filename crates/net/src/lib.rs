//! The only crate that opens sockets: it listens, dials, guards connections before login, meters
//! and throttles bytes, and carries the SSH transport (russh) behind a narrow trait.
//!
//! What it guarantees:
//! 1. Nothing is dialled that resolves to a private address, unless the endpoint allows it; the
//!    address that was checked is the address that is dialled ([`dial`]).
//! 2. A stranger costs at most the limits of [`guard`]; a crowd of them shuts nobody out.
//! 3. Every byte passes [`ssh::Guarded`] or, with FTP, [`control::Control`] and
//!    [`data::DataStream`]: counted, throttled, and cut when the session ends.
//! 4. [`ssh::server`] runs the handler inline in the session task, never through a queue.

mod acknowledging;
pub mod control;
pub mod data;
pub mod dial;
pub mod dialled;
pub mod error;
pub mod gather;
pub mod guard;
pub mod http;
pub mod limits;
pub mod listen;
pub mod meter;
pub mod proxy;
pub mod refusal;
pub mod server;
mod socket;
pub mod ssh;
mod throttle;
pub mod tls;

pub use error::NetError;
