//! The only crate that opens sockets: it listens, dials, guards connections before login, and
//! meters and throttles bytes. What is spoken on a connection is another crate's, but for TLS.
//!
//! What it guarantees:
//! 1. Nothing is dialled that resolves to a private address, unless the endpoint allows it; the
//!    address that was checked is the address that is dialled ([`dial`]).
//! 2. An unauthenticated connection costs at most the limits of [`guard`]; a crowd of them shuts
//!    out no honest client.
//! 3. Every byte passes [`metered::Metered`] or, with FTP, [`control::Control`] and
//!    [`data::DataStream`]: counted, throttled, and cut when the session ends.

pub mod accepted;
mod acknowledging;
pub mod control;
pub mod data;
pub mod dial;
pub mod dialled;
pub mod error;
pub mod fine_timer;
pub mod gather;
pub mod guard;
pub mod http;
pub mod limits;
pub mod listen;
pub mod meter;
pub mod metered;
mod pool;
pub mod proxy;
pub mod refusal;
pub mod server;
pub mod service_manager;
pub mod smtp;
mod socket;
mod throttle;
pub mod tls;

pub use error::NetError;
