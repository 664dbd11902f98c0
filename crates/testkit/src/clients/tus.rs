//! Clients of tus: tus-js-client and tuspy, each with a program of ours around it.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::libraries::source;
use super::python::tool;
use super::{Login, installed, text};

/// An upload that a client of tus is to send.
#[derive(Clone, Copy, Debug)]
pub struct TusUpload<'a> {
    /// Address that begins uploads.
    pub endpoint: &'a str,
    /// Certificate that the client is to trust.
    pub certificate: &'a Path,
    /// The file to send.
    pub file: &'a Path,
    /// The folder that it goes to.
    pub folder: &'a str,
    /// Address of the upload, if it has begun.
    pub begun: Option<&'a str>,
}

impl TusUpload<'_> {
    fn command(&self, mut command: Command, login: &Login, more: &[&str]) -> Result<Command> {
        let login = format!("{}:{}", login.account, login.password);
        command.args([self.endpoint, &login, text(self.file)?, self.folder]);
        command.args(more).args(self.begun);
        Ok(command)
    }

    /// tus-js-client, in requests of 4 MiB: prints `at URL`, `chunk BYTES` and `done`.
    ///
    /// # Errors
    /// It is not installed.
    pub fn by_tus_js(&self, login: &Login) -> Result<Command> {
        let mut command = Command::new("node");
        command.env("NODE_MODULES", installed("clients/node/node_modules")?);
        command.env("NODE_EXTRA_CA_CERTS", self.certificate);
        command.arg(source("node/tus.js"));
        self.command(command, login, &[])
    }

    /// tuspy, in requests of 1 MiB with a checksum: prints the address and the offset. It stops
    /// after `chunks` requests; 0: at the end.
    ///
    /// # Errors
    /// It is not installed.
    pub fn by_tuspy(&self, login: &Login, chunks: u32) -> Result<Command> {
        let mut command = Command::new(tool("python3")?);
        command.env("REQUESTS_CA_BUNDLE", self.certificate);
        command.args(["-c", include_str!("tus_client.py")]);
        self.command(command, login, &[&chunks.to_string()])
    }
}
