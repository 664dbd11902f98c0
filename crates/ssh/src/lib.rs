//! The SSH transport (RFC 4251-4254), for servers and clients: russh behind a narrow trait, used in
//! the one way that measures well and cannot hang; `docs/performance.md` has the figures. Sockets,
//! limits before login and meters are `net`'s.

pub mod algorithms;
mod certificate;
mod channels;
mod clear_text;
pub mod client;
mod config;
mod error;
mod farewell;
mod handler;
pub mod kexinit;
pub mod keys;
pub mod limits;
mod rotation;
pub mod server;
mod service;
mod stream;
pub mod wire;

pub use certificate::Certificate;
pub use error::SshError;
pub use russh::ChannelId;
pub use russh::keys::ssh_key::PublicKey;
