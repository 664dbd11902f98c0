//! SFTP version 3 (draft-ietf-secsh-filexfer-02) with the OpenSSH extensions: both roles as
//! machines without any IO. Bytes go in, requests and answers come out.
//!
//! - [`server::Server`] turns a channel's bytes into [`request::Request`]s; [`reply`] encodes the
//!   answers; [`handles::Handles`] keeps the open files.
//! - [`client::Client`] keeps up to 64 requests in flight and turns answers into events.
//! - [`exec`] reads the command lines of clients, [`scp`] speaks the protocol of `scp -t` and `-f`.
//! - [`table`] lists every packet and extension once; dispatch and the coverage page use it.

pub mod attrs;
pub mod client;
pub mod exec;
mod frames;
mod fuzzing;
pub mod handles;
pub mod limits;
mod refusal;
pub mod reply;
pub mod request;
pub mod scp;
pub mod server;
pub mod shell;
pub mod software;
pub mod status;
pub mod table;
mod wire;

pub use attrs::{Attrs, Owner, Times};
pub use fuzzing::fuzz;
pub use handles::{Handle, Handles};
pub use refusal::{NameFlaw, Refusal};
pub use request::{OpenFlags, Request, SymlinkOrder};
pub use server::{Fatal, Incoming, Server};
pub use software::ClientSoftware;
pub use status::Status;
