//! The Python libraries paramiko and asyncssh, and `ssh-audit`, out of the environment that
//! `scripts/need test` makes once.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::Login;
use super::installed;
use super::libraries::{Driver, Library, NO_DIGEST};
use crate::server::Node;

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

/// A session of SFTP that keeps every file open that it gets. It breaks off when dropped.
pub struct Greedy {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// Files that a [`Greedy`] client is to open.
#[derive(Clone, Copy, Debug)]
pub struct Files<'a> {
    /// `r` or `w`.
    pub mode: &'a str,
    /// `{}` in it is the number of the file.
    pub path: &'a str,
    /// How many.
    pub count: usize,
    /// So many bytes of each are moved.
    pub bytes: u64,
    /// Where they begin in the file.
    pub offset: u64,
}

/// What a [`Greedy`] client got.
#[derive(Debug)]
pub struct Got {
    /// Files that it has open now because of the order.
    pub files: usize,
    /// The server's words for the first one that it did not get; `-`: it got all.
    pub refusal: String,
}

impl Greedy {
    /// Logs in.
    ///
    /// # Errors
    /// The environment was not made, or the login was refused.
    pub fn start(node: &Node, login: &Login) -> Result<Greedy> {
        let mut child = Command::new(tool("python3")?)
            .args(["-c", include_str!("greedy.py")])
            .args([&node.sftp_port()?.to_string(), &login.account, &login.password])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let orders = child.stdin.take().context("its input")?;
        let mut answers = BufReader::new(child.stdout.take().context("its output")?);
        let mut line = String::new();
        answers.read_line(&mut line)?;
        ensure!(line.trim() == "ready", "it did not log in: {line:?}");
        Ok(Greedy { child, orders, answers })
    }

    /// Opens files, moves bytes of each, and keeps them open.
    ///
    /// # Errors
    /// The session is over.
    pub fn open(&mut self, files: &Files<'_>) -> Result<Got> {
        self.begin_to_open(files)?;
        self.got()
    }

    /// As [`Greedy::open`], without waiting for the end of it.
    ///
    /// # Errors
    /// The session is over.
    pub fn begin_to_open(&mut self, files: &Files<'_>) -> Result<()> {
        let Files { mode, path, count, bytes, offset } = files;
        writeln!(self.orders, "{mode} {path} {count} {bytes} {offset}")?;
        Ok(self.orders.flush()?)
    }

    /// The end of what was begun.
    ///
    /// # Errors
    /// The session is over.
    pub fn got(&mut self) -> Result<Got> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        let (files, refusal) = line.trim().split_once(' ').context("the session is over")?;
        Ok(Got { files: files.parse()?, refusal: refusal.to_owned() })
    }
}

impl Drop for Greedy {
    fn drop(&mut self) {
        // One that has ended is what we want.
        let _ = self.child.kill();
        let _ = self.child.wait();
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
