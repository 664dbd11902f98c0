//! What tests of several crates need: the program as a child process, wrappers of real clients and
//! servers, a throw-away PostgreSQL.

pub mod clients;
pub mod disk;
pub mod ftpd;
pub mod maild;
pub mod pebble;
pub mod ports;
pub mod postgres;
pub mod s3;
pub mod scanners;
pub mod server;
pub mod slapd;
pub mod sshd;
pub mod transcript;
pub mod wan;

use std::io::Write as _;

use anyhow::{Context as _, Result, bail};

/// Notes that a test cannot be run on this machine, in the file that `scripts/test` shows at its
/// end (`ENTREPOT_NOT_RUN`).
///
/// # Errors
/// Nobody would see it: the test fails.
pub fn not_run(test: &str, reason: &str) -> Result<()> {
    let Some(file) = std::env::var_os("ENTREPOT_NOT_RUN") else {
        bail!("{test} cannot be run here: {reason}");
    };
    let file = std::fs::OpenOptions::new().create(true).append(true).open(file);
    writeln!(file.context("ENTREPOT_NOT_RUN")?, "NOT RUN: {test}: {reason}")?;
    Ok(())
}

/// Whether tests may do what only root may.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
