//! Libraries of other languages, each driven by a program of ours.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::matrix::{Client, Did, Seat, Task};
use super::{installed, java, text};
use crate::server::run;

/// A library, driven by a program of ours that takes the words PORT ACCOUNT PASSWORD KNOWN_HOSTS
/// VERB ARGUMENT...
pub struct Library {
    pub(super) name: &'static str,
    pub(super) driver: Driver,
    /// Verbs for which the library has nothing, and why.
    pub(super) lacks: &'static [(&'static str, &'static str)],
}

/// What calls a library.
pub(super) enum Driver {
    /// A process for each task.
    Process(fn() -> Result<Command>),
    /// `Clients.java`, under this name.
    Java(&'static str),
}

pub(super) const NO_DIGEST: (&str, &str) = ("hash", "it asks for no digest");
const RENAME_REPLACES_NOTHING: (&str, &str) =
    ("rename", "its RENAME replaces nothing, by the draft");

/// Go's `github.com/pkg/sftp` over `golang.org/x/crypto/ssh`.
pub const PKG_SFTP: Library = Library {
    name: "pkg/sftp",
    driver: Driver::Process(|| Ok(Command::new(installed("clients/go/client")?))),
    lacks: &[NO_DIGEST],
};

/// Node's `ssh2`.
pub const SSH2: Library = Library {
    name: "ssh2",
    driver: Driver::Process(|| {
        let mut command = Command::new("node");
        command.env("NODE_MODULES", installed("clients/node/node_modules")?);
        command.arg(source("node/client.js"));
        Ok(command)
    }),
    lacks: &[NO_DIGEST],
};

/// phpseclib 3.
pub const PHPSECLIB: Library = Library {
    name: "phpseclib",
    driver: Driver::Process(|| {
        let mut command = Command::new("php");
        command.arg(source("phpseclib_client.php"));
        Ok(command)
    }),
    lacks: &[NO_DIGEST, RENAME_REPLACES_NOTHING],
};

/// libssh.
pub const LIBSSH: Library = Library {
    name: "libssh",
    driver: Driver::Process(|| Ok(Command::new(installed("clients/libssh/client")?))),
    lacks: &[NO_DIGEST, RENAME_REPLACES_NOTHING],
};

/// JSch 0.1.
pub const JSCH: Library =
    Library { name: "JSch", driver: Driver::Java("jsch"), lacks: &[NO_DIGEST] };

pub(super) fn source(path: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src/clients/programs")).join(path)
}

impl Library {
    /// Runs the program; `words` are the verb and its arguments.
    ///
    /// # Errors
    /// What it said.
    pub fn call(&self, seat: Seat<'_>, words: &[&str]) -> Result<String> {
        let (port, known_hosts) = (seat.node.sftp_port()?.to_string(), seat.node.known_hosts()?);
        let login = seat.login;
        let login = [&port, &login.account, &login.password, text(&known_hosts)?];
        match self.driver {
            Driver::Process(command) => {
                let output = run(command()?.args(login).args(words))?;
                Ok(String::from_utf8(output.stdout)?)
            }
            Driver::Java(name) => java::ask(&[&[name], &login[..], words].concat()),
        }
    }
}

impl Client for Library {
    fn name(&self) -> &'static str {
        self.name
    }

    fn run(&self, seat: Seat<'_>, task: &Task<'_>) -> Result<Did> {
        let words = task.words()?;
        let lack = self.lacks.iter().find(|(verb, _)| words.first() == Some(verb));
        if let Some((_, why)) = lack {
            return Ok(Did::Cannot(why));
        }
        Ok(Did::Done(self.call(seat, &words)?))
    }
}
