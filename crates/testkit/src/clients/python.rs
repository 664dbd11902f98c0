//! The Python libraries paramiko and asyncssh, and `ssh-audit`, out of the environment that
//! `scripts/need test` makes once.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

use super::installed;
use super::libraries::{Driver, Library, NO_DIGEST};

/// A program of the environment, `python3` or `ssh-audit`.
///
/// # Errors
/// It was not made.
pub fn tool(program: &str) -> Result<PathBuf> {
    installed(&format!("clients-venv/bin/{program}"))
}

/// paramiko.
pub const PARAMIKO: Library = Library {
    name: "paramiko",
    driver: Driver::Process(|| script(include_str!("paramiko_client.py"))),
    lacks: &[],
};
/// asyncssh.
pub const ASYNCSSH: Library = Library {
    name: "asyncssh",
    driver: Driver::Process(|| script(include_str!("asyncssh_client.py"))),
    lacks: &[NO_DIGEST],
};

fn script(text: &str) -> Result<Command> {
    let mut command = Command::new(tool("python3")?);
    command.args(["-c", text]);
    Ok(command)
}

/// asyncssh as a server, on a free port of loopback. Stops when dropped.
pub struct AsyncsshServer {
    child: Child,
    /// Its port.
    pub port: u16,
    /// Its public host key, one OpenSSH line.
    pub host_key: String,
}

impl AsyncsshServer {
    /// Serves `folder` to clients with the key whose public half is in `public_key`.
    ///
    /// # Errors
    /// The environment was not made, or it did not start.
    pub fn start(public_key: &Path, folder: &Path) -> Result<AsyncsshServer> {
        let script = include_str!("asyncssh_server.py");
        let mut child = Command::new(tool("python3")?)
            .args(["-c", script])
            .args([public_key, folder])
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("its output")?).read_line(&mut line)?;
        let (port, host_key) = line.trim().split_once(' ').context("it did not start")?;
        Ok(AsyncsshServer { port: port.parse()?, host_key: host_key.to_owned(), child })
    }
}

impl Drop for AsyncsshServer {
    fn drop(&mut self) {
        // One that has ended is what we want.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
