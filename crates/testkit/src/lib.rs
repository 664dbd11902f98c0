//! What tests of several crates need: the program as a child process, wrappers of real clients and
//! servers, a throw-away PostgreSQL.

pub mod clients;
pub mod ftpd;
pub mod postgres;
pub mod s3;
pub mod server;
pub mod sshd;
pub mod transcript;
pub mod wan;
