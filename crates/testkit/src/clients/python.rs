//! The Python libraries paramiko and asyncssh, and `ssh-audit`, out of the environment that
//! `scripts/need test` makes once.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

use super::matrix::{Client, Did, How, Seat, Task};
use super::text;
use crate::server::run;

/// A program of the environment, `python3` or `ssh-audit`.
///
/// # Errors
/// It was not made.
pub fn tool(program: &str) -> Result<PathBuf> {
    let folder = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target")),
        PathBuf::from,
    );
    let path = folder.join("clients-venv/bin").join(program);
    if !path.exists() {
        bail!("'{}' is missing: run scripts/need test, which needs PyPI", path.display());
    }
    Ok(path)
}

/// One of the libraries, driven by a script of ours beside this file.
pub struct Library {
    name: &'static str,
    script: &'static str,
}

/// paramiko.
pub const PARAMIKO: Library =
    Library { name: "paramiko", script: include_str!("paramiko_client.py") };
/// asyncssh.
pub const ASYNCSSH: Library =
    Library { name: "asyncssh", script: include_str!("asyncssh_client.py") };

impl Library {
    /// Runs the script; `words` are the operation and its arguments.
    ///
    /// # Errors
    /// What it said.
    pub fn call(&self, seat: Seat<'_>, words: &[&str]) -> Result<String> {
        let mut command = Command::new(tool("python3")?);
        command.args(["-c", self.script, &seat.node.sftp_port()?.to_string()]);
        command.args([&seat.login.account, &seat.login.password]);
        command.arg(seat.node.known_hosts()?).args(words);
        Ok(String::from_utf8(run(&mut command)?.stdout)?)
    }
}

impl Client for Library {
    fn name(&self) -> &'static str {
        self.name
    }

    fn run(&self, seat: Seat<'_>, task: &Task<'_>) -> Result<Did> {
        let said = match *task {
            Task::Move { how, local, remote } => {
                let verb = match how {
                    How::Put => "put",
                    How::Get => "get",
                    How::ResumeUp => "resume_up",
                    How::ResumeDown => "resume_down",
                    How::PutTree => "put_tree",
                    How::GetTree => "get_tree",
                    How::PutTimes => "put_times",
                    How::GetTimes => "get_times",
                };
                self.call(seat, &[verb, text(local)?, remote])?
            }
            Task::RenameOver { from, to } => self.call(seat, &["rename", from, to])?,
            Task::List { remote } => self.call(seat, &["list", remote])?,
            Task::Hash { .. } if self.name == "asyncssh" => {
                return Ok(Did::Cannot("it asks for no digest"));
            }
            Task::Hash { remote } => self.call(seat, &["hash", remote])?,
        };
        Ok(Did::Done(said))
    }
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
    /// Serves `folder` to whoever has the key whose public half is in `public_key`.
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
