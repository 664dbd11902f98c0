//! Clients of FTP and FTPS.

mod classic;
mod libraries;
mod matrix;
mod modern;
mod order;

use std::path::PathBuf;
use std::process::{Command, Output};

use anyhow::Result;

pub use libraries::call_commons_net;
pub use matrix::{Ftp, Program, Way};
pub(super) use order::{Form, Order};

use super::Login;
use crate::server::{Node, feed, run};

/// How the connections are protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// No TLS: commands, passwords and files in clear text.
    Clear,
    /// AUTH TLS, data encrypted too.
    Tls,
    /// TLS from the first byte.
    Implicit,
}

/// How a client reaches a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Clear or encrypted.
    pub protection: Protection,
    /// Whether the server connects for data.
    pub active: bool,
    /// Whether it connects over IPv6, to `::1`.
    pub ipv6: bool,
}

impl Line {
    /// Clear text, the client connects for data, over IPv4.
    pub const PLAIN: Line = Line { protection: Protection::Clear, active: false, ipv6: false };

    /// The listener it goes to; [`Node::add_ftp`] makes `ftp`, [`Node::add_ftps`] the others.
    pub fn listener(self) -> &'static str {
        match (self.ipv6, self.protection) {
            (true, _) => "ftp6",
            (false, Protection::Implicit) => "ftps",
            (false, _) => "ftp",
        }
    }

    /// As a URL has it.
    pub fn host(self) -> &'static str {
        if self.ipv6 { "[::1]" } else { "localhost" }
    }

    pub(super) fn port(self, node: &Node) -> Result<u16> {
        node.port_of(self.listener())
    }

    pub(super) fn certificate(self, node: &Node) -> Result<PathBuf> {
        node.certificate_of(self.listener())
    }
}

impl From<Protection> for Line {
    fn from(protection: Protection) -> Line {
        Line { protection, ..Line::PLAIN }
    }
}

impl Login {
    /// `curl`, not yet run; the rest is options and [`Login::ftp_url`]s.
    ///
    /// # Errors
    /// The node does not run.
    pub fn curl_ftp(&self, node: &Node, line: impl Into<Line>) -> Result<Command> {
        let line = line.into();
        let mut command = Command::new("curl");
        command.args(["-sS", "-g", "-u", &format!("{}:{}", self.account, self.password)]);
        if line.protection == Protection::Tls {
            command.arg("--ssl-reqd");
        }
        if line.active {
            command.args(["-P", "-"]);
        }
        command.arg("--cacert").arg(line.certificate(node)?);
        Ok(command)
    }

    /// A path of the listener `ftp`.
    ///
    /// # Errors
    /// The node does not run.
    pub fn ftp_url(&self, node: &Node, path: &str) -> Result<String> {
        Ok(format!("ftp://localhost:{}/{path}", node.port_of("ftp")?))
    }

    /// Runs a script with `lftp`.
    ///
    /// # Errors
    /// It failed.
    pub fn lftp_ftp(&self, node: &Node, line: impl Into<Line>, script: &str) -> Result<Output> {
        let line = line.into();
        let tls = match line.protection {
            Protection::Clear => "set ftp:ssl-allow no".to_owned(),
            Protection::Tls | Protection::Implicit => format!(
                "set ftp:ssl-force yes; set ftp:ssl-protect-data yes; set ssl:ca-file \"{}\"",
                line.certificate(node)?.display()
            ),
        };
        let scheme = if line.protection == Protection::Implicit { "ftps" } else { "ftp" };
        let passive = if line.active { "off" } else { "on" };
        let all = format!(
            "set cmd:fail-exit yes; set net:max-retries 1; set net:timeout 20; {tls}; \
             set ftp:passive-mode {passive}; \
             open -u {},\"{}\" {scheme}://{}:{}; {script}; bye",
            self.account,
            self.password,
            line.host(),
            line.port(node)?
        );
        run(Command::new("lftp").args(["--norc", "-c", &all]))
    }

    /// Runs a script of Python in which `ftp` is a session of `ftplib` that has logged in.
    ///
    /// # Errors
    /// It failed.
    pub fn ftplib(&self, node: &Node, protection: Protection, script: &str) -> Result<String> {
        self.ftplib_with(node, protection, script, &[])
    }

    /// The same with files, named from `sys.argv[5]` on.
    ///
    /// # Errors
    /// It failed.
    pub fn ftplib_with(
        &self,
        node: &Node,
        protection: Protection,
        script: &str,
        files: &[PathBuf],
    ) -> Result<String> {
        let mut command = self.ftplib_command(node, protection, script, files)?;
        Ok(String::from_utf8(feed(&mut command, "")?.stdout)?)
    }

    /// The same, not yet run.
    ///
    /// # Errors
    /// The node does not run.
    pub fn ftplib_command(
        &self,
        node: &Node,
        protection: Protection,
        script: &str,
        files: &[PathBuf],
    ) -> Result<Command> {
        let certificate = match protection {
            Protection::Clear => PathBuf::new(),
            Protection::Tls | Protection::Implicit => node.certificate_of("ftp")?,
        };
        let mut command = Command::new("python3");
        command.args(["-c", &format!("{PRELUDE}{script}"), &node.port_of("ftp")?.to_string()]);
        command.args([&self.account, &self.password]).arg(certificate).args(files);
        Ok(command)
    }
}

const PRELUDE: &str = "
import ftplib, io, ssl, sys, threading
PORT, USER, PASSWORD, CERTIFICATE = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
def session():
    if CERTIFICATE:
        ftp = ftplib.FTP_TLS(context=ssl.create_default_context(cafile=CERTIFICATE))
    else:
        ftp = ftplib.FTP()
    ftp.connect('localhost', PORT, timeout=30)
    ftp.login(USER, PASSWORD)
    if CERTIFICATE:
        ftp.prot_p()
    return ftp
def put(ftp, name, data, verb='STOR', rest=None):
    return ftp.storbinary(verb + ' ' + name, io.BytesIO(data), rest=rest)
def get(ftp, name, rest=None):
    out = io.BytesIO()
    ftp.retrbinary('RETR ' + name, out.write, rest=rest)
    return out.getvalue()
def refused(ftp, command):
    try:
        return 'taken: ' + ftp.sendcmd(command)
    except ftplib.Error as error:
        return str(error)[:3]
ftp = session()
";
