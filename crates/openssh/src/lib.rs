//! OpenSSH's files as values: texts in, no IO. What they mean to us is decided elsewhere.

mod authorized_keys;
mod command;
mod config;
mod fuzzing;
pub mod limits;
mod users;
mod words;

pub use authorized_keys::{AuthorizedKey, Expiry, KeyOption, authorized_keys};
pub use command::SftpCommand;
pub use config::{BadLine, Config, Criterion, Included, Setting, Who};
pub use fuzzing::fuzz;
pub use users::{Group, User, expand, groups, users};
