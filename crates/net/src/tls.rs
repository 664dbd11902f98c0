//! TLS 1.2 and 1.3 over rustls and AWS-LC: suites with AEAD and forward secrecy only (rustls has
//! no others). The server's side; and the client's for files ([`TlsClient`]) and for measuring
//! ([`LoadClient`]).
//!
//! What it guarantees:
//! 1. A connection sees the [`TlsConfig`] of the moment it came; a session keeps its own for its
//!    data connections, so that a new certificate ends no session.
//! 2. The *ticket is the session* ([`TlsSession`]): a data connection resumes only what this
//!    session's control connection was given. Nothing is ever given out on a data connection.
//! 3. The end of the stream is told apart: `Ok(0)` is the peer's close_notify and nothing else; a
//!    bare FIN is `UnexpectedEof`, a reset `ConnectionReset` ([`TlsStream`]).

mod acme;
mod agreed;
mod client;
mod clients;
mod config;
mod error;
mod identity;
mod own;
mod records;
mod server;
mod session;
mod signatures;
mod stream;
mod tickets;
mod trusting;
mod validity;
mod version;

pub use acme::{CertificateRequest, OwnCertificate, TlsHello, certificate_request};
pub use agreed::ServerTls;
pub use client::{ClientTlsStream, LoadClient};
pub use clients::{ClientCertificates, Trust};
pub use config::{TlsConfig, TlsOptions, TlsWarning};
pub use error::{HandshakeError, TlsConfigError};
pub use identity::ClientCertificate;
pub use own::{SelfSigned, self_signed};
pub use server::TlsServer;
pub use session::{Reuse, TlsSession};
pub use stream::{TlsInfo, TlsStream};
pub use trusting::{ClientIdentity, ServerTrust, TlsClient};
pub use validity::certificate_end;
pub use version::TlsVersion;

/// For fuzzing: what is read from a control connection is cut into records.
pub fn fuzz(data: &[u8]) {
    records::fuzz(data);
}

#[cfg(test)]
pub(crate) mod tests;
