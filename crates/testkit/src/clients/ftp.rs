//! Clients of FTP and FTPS.

use std::path::PathBuf;
use std::process::{Command, Output};

use anyhow::Result;

use super::Login;
use crate::server::{Node, feed, run};

/// How the connections are protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// Clear text.
    Clear,
    /// AUTH TLS, data encrypted too.
    Tls,
}

impl Login {
    /// `curl`, not yet run; the rest is options and [`Login::ftp_url`]s.
    ///
    /// # Errors
    /// The node does not run.
    pub fn curl_ftp(&self, node: &Node, protection: Protection) -> Result<Command> {
        let mut command = Command::new("curl");
        command.args(["-sS", "-g", "-u", &format!("{}:{}", self.account, self.password)]);
        if protection == Protection::Tls {
            command.args(["--ssl-reqd", "--cacert"]).arg(node.ftp_certificate()?);
        }
        Ok(command)
    }

    /// A path of the listener `ftp`.
    ///
    /// # Errors
    /// The node does not run.
    pub fn ftp_url(&self, node: &Node, path: &str) -> Result<String> {
        Ok(format!("ftp://localhost:{}/{path}", node.ftp_port()?))
    }

    /// Runs a script with `lftp`.
    ///
    /// # Errors
    /// It failed.
    pub fn lftp_ftp(&self, node: &Node, protection: Protection, script: &str) -> Result<Output> {
        let tls = match protection {
            Protection::Clear => "set ftp:ssl-allow no".to_owned(),
            Protection::Tls => format!(
                "set ftp:ssl-force yes; set ftp:ssl-protect-data yes; set ssl:ca-file \"{}\"",
                node.ftp_certificate()?.display()
            ),
        };
        let all = format!(
            "set cmd:fail-exit yes; set net:max-retries 1; set net:timeout 20; {tls}; \
             open -u {},\"{}\" ftp://localhost:{}; {script}; bye",
            self.account,
            self.password,
            node.ftp_port()?
        );
        run(Command::new("lftp").args(["--norc", "-c", &all]))
    }

    /// Runs a script of Python in which `ftp` is a session of `ftplib` that has logged in.
    ///
    /// # Errors
    /// It failed.
    pub fn ftplib(&self, node: &Node, protection: Protection, script: &str) -> Result<String> {
        let certificate = match protection {
            Protection::Clear => PathBuf::new(),
            Protection::Tls => node.ftp_certificate()?,
        };
        let mut command = Command::new("python3");
        command.args(["-c", &format!("{PRELUDE}{script}"), &node.ftp_port()?.to_string()]);
        command.args([&self.account, &self.password]).arg(certificate);
        Ok(String::from_utf8(feed(&mut command, "")?.stdout)?)
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
