//! `lftp`, `rclone` and `curl`.

use std::process::Command;

use anyhow::{Context, Result};

use super::matrix::{Client, Did, How, Seat, Task};
use super::openssh::quoted;
use super::text;
use crate::server::run;

/// `lftp`.
pub struct Lftp;

/// `rclone`; its hash commands need `exec` (see [`Client::run`]).
pub struct Rclone;

/// `curl`, over `sftp:` or `scp:`.
pub struct Curl {
    /// `scp:`.
    pub scp: bool,
}

impl Client for Lftp {
    fn name(&self) -> &'static str {
        "lftp"
    }

    fn run(&self, seat: Seat<'_>, task: &Task<'_>) -> Result<Did> {
        let line = match *task {
            Task::Move { how, local, remote } => {
                let (local, remote) = (quoted(text(local)?), quoted(remote));
                match how {
                    How::Put | How::PutTimes => format!("put {local} -o {remote}"),
                    How::Get | How::GetTimes => format!("get {remote} -o {local}"),
                    How::ResumeUp => format!("put -c {local} -o {remote}"),
                    How::ResumeDown => format!("get -c {remote} -o {local}"),
                    How::PutTree => format!("mirror -R {local} {remote}"),
                    How::GetTree => format!("mirror {remote} {local}"),
                }
            }
            Task::RenameOver { .. } => {
                return Ok(Did::Cannot("its RENAME replaces nothing, by the draft"));
            }
            Task::List { remote } => format!("cls -1 {}/", quoted(remote)),
            Task::Hash { .. } => return Ok(Did::Cannot("it asks for no digest")),
        };
        let output = seat.login.lftp(seat.node, &line)?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let names = said.lines().filter_map(|line| line.rsplit('/').next());
        Ok(Did::Done(names.collect::<Vec<_>>().join("\n")))
    }
}

impl Client for Rclone {
    fn name(&self) -> &'static str {
        "rclone"
    }

    fn run(&self, seat: Seat<'_>, task: &Task<'_>) -> Result<Did> {
        let at = |remote: &str| format!("node:{remote}");
        let words = match *task {
            Task::Move { how, local, remote } => {
                let (local, remote) = (text(local)?.to_owned(), at(remote));
                match how {
                    How::Put | How::PutTimes => vec!["copyto".to_owned(), local, remote],
                    How::Get | How::GetTimes => vec!["copyto".to_owned(), remote, local],
                    How::PutTree => vec!["copy".to_owned(), local, remote],
                    How::GetTree => vec!["copy".to_owned(), remote, local],
                    How::ResumeUp | How::ResumeDown => {
                        return Ok(Did::Cannot("it has no resume"));
                    }
                }
            }
            Task::RenameOver { from, to } => vec!["moveto".to_owned(), at(from), at(to)],
            Task::List { remote } => vec!["lsf".to_owned(), at(remote)],
            Task::Hash { remote } => vec!["sha1sum".to_owned(), at(remote)],
        };
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let output = seat.login.rclone(seat.node, &words)?;
        Ok(Did::Done(String::from_utf8_lossy(&output.stdout).into_owned()))
    }
}

/// A path in a URL.
pub(super) fn encoded(path: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~/".contains(&b);
    let byte = |b: u8| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") };
    path.bytes().map(byte).collect()
}

impl Client for Curl {
    fn name(&self) -> &'static str {
        if self.scp { "curl scp" } else { "curl sftp" }
    }

    fn run(&self, seat: Seat<'_>, task: &Task<'_>) -> Result<Did> {
        let scheme = if self.scp { "scp" } else { "sftp" };
        let home = format!("{scheme}://127.0.0.1:{}/~/", seat.node.sftp_port()?);
        let mut command = Command::new("curl");
        command.args([
            "-sS",
            "-g",
            "-u",
            &format!("{}:{}", seat.login.account, seat.login.password),
        ]);
        command.args(["--hostpubsha256", &host_key_hash(seat)?]);
        match *task {
            Task::Move { how, local, remote } => {
                let (local, url) = (text(local)?, format!("{home}{}", encoded(remote)));
                match how {
                    How::Put => command.args(["-T", local, &url]),
                    How::Get => command.args(["-o", local, &url]),
                    How::ResumeUp | How::ResumeDown if self.scp => {
                        return Ok(Did::Cannot("SCP has no resume"));
                    }
                    How::ResumeUp => command.args(["-C", "-", "-T", local, &url]),
                    How::ResumeDown => command.args(["-C", "-", "-o", local, &url]),
                    How::PutTree | How::GetTree => return Ok(Did::Cannot("it moves one file")),
                    How::PutTimes => return Ok(Did::Cannot("it sets no times there")),
                    How::GetTimes if self.scp => return Ok(Did::Cannot("it asks for no times")),
                    How::GetTimes => command.args(["-R", "-o", local, &url]),
                };
            }
            Task::List { remote } if !self.scp => {
                command.args(["-l", &format!("{home}{}/", encoded(remote))]);
            }
            Task::List { .. } => return Ok(Did::Cannot("SCP lists nothing")),
            Task::RenameOver { .. } => {
                return Ok(Did::Cannot("its RENAME replaces nothing, by the draft"));
            }
            Task::Hash { .. } => return Ok(Did::Cannot("it asks for no digest")),
        }
        let output = run(&mut command)?;
        Ok(Did::Done(String::from_utf8_lossy(&output.stdout).into_owned()))
    }
}

/// SHA-256 of the host key in base64, as `ssh-keygen` and curl show it: of the kind that libssh2
/// asks for first.
fn host_key_hash(seat: Seat<'_>) -> Result<String> {
    let shown = run(Command::new("ssh-keygen").arg("-lf").arg(seat.node.known_hosts()?))?;
    let shown = String::from_utf8(shown.stdout)?;
    let line = shown.lines().find(|line| line.ends_with("(ECDSA)")).unwrap_or(&shown);
    let hash = line.split_whitespace().nth(1).and_then(|word| word.strip_prefix("SHA256:"));
    Ok(hash.context("no fingerprint")?.to_owned())
}
