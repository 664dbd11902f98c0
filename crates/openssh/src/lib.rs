//! OpenSSH's files as values: texts in, no IO. What they mean to us is decided elsewhere.

mod command;
mod words;

pub use command::SftpCommand;
