//! PuTTY's `psftp` and `pscp`.

use std::path::PathBuf;
use std::process::{Command, Output};

use anyhow::{Context, Result};

use super::matrix::{Client, Did, How, Seat, Task};
use super::openssh::{batch_line, literal, shell};
use super::text;
use crate::server::run;

/// `psftp`, by a batch.
pub struct Psftp {
    /// New keys after each MiB.
    pub rekeys: bool,
}

/// `pscp`, which prefers SFTP; `old` asks for SCP.
pub struct Pscp {
    /// Its own protocol.
    pub old: bool,
}

/// Its configuration goes to the scratch folder, not to a home.
fn command(seat: Seat<'_>, program: &str) -> Result<Command> {
    let password = seat.node.scratch().join("putty-password");
    std::fs::write(&password, &seat.login.password)?;
    let mut command = Command::new(program);
    command.env("HOME", seat.node.scratch()).env("PUTTYDIR", seat.node.scratch());
    command.args(["-batch", "-P", &seat.node.sftp_port()?.to_string()]);
    command.args(["-hostkey", &fingerprint(seat)?, "-pwfile"]).arg(&password);
    Ok(command)
}

/// The server's key as PuTTY names it.
fn fingerprint(seat: Seat<'_>) -> Result<String> {
    let hosts = seat.node.known_hosts()?;
    let shown = run(Command::new("ssh-keygen").arg("-lf").arg(&hosts))?;
    let shown = String::from_utf8(shown.stdout)?;
    Ok(shown.split_whitespace().nth(1).context("no fingerprint")?.to_owned())
}

/// A word of a batch; a quote within is doubled.
fn quoted(word: &str) -> String {
    format!("\"{}\"", word.replace('"', "\"\""))
}

impl Psftp {
    /// Runs a batch.
    ///
    /// # Errors
    /// What it said.
    pub fn batch(&self, seat: Seat<'_>, batch: &str) -> Result<Output> {
        let file: PathBuf = seat.node.scratch().join("psftp-batch");
        std::fs::write(&file, batch)?;
        let mut command = command(seat, "psftp")?;
        if self.rekeys {
            let sessions = seat.node.scratch().join("sessions");
            std::fs::create_dir_all(&sessions)?;
            std::fs::write(sessions.join("rekeys"), "Protocol=ssh\nRekeyBytes=1M\n")?;
            command.args(["-load", "rekeys"]);
        }
        command.arg("-b").arg(&file).arg(format!("{}@127.0.0.1", seat.login.account));
        run(&mut command)
    }
}

impl Client for Psftp {
    fn name(&self) -> &'static str {
        "psftp"
    }

    fn run(&self, seat: Seat<'_>, task: &Task<'_>) -> Result<Did> {
        let line = match *task {
            Task::Move { how: How::PutTimes | How::GetTimes, .. } => {
                return Ok(Did::Cannot("it keeps no times"));
            }
            Task::Move { how, local, remote } => {
                batch_line(how, &quoted(text(local)?), &quoted(remote))
            }
            Task::RenameOver { .. } => {
                return Ok(Did::Cannot("its RENAME replaces nothing, by the draft"));
            }
            Task::List { remote } => format!("ls {}", quoted(remote)),
            Task::Hash { .. } => return Ok(Did::Cannot("it asks for no digest")),
        };
        let output = self.batch(seat, &format!("{line}\n"))?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        // The name stands behind the eight columns of a long listing.
        let names = said.lines().filter_map(|line| line.split_whitespace().nth(8));
        Ok(Did::Done(names.collect::<Vec<_>>().join("\n")))
    }
}

impl Client for Pscp {
    fn name(&self) -> &'static str {
        if self.old { "pscp -scp" } else { "pscp" }
    }

    fn run(&self, seat: Seat<'_>, task: &Task<'_>) -> Result<Did> {
        let mut command = command(seat, "pscp")?;
        command.args([if self.old { "-scp" } else { "-sftp" }, "-q"]);
        let there = |remote: &str| format!("{}@127.0.0.1:{remote}", seat.login.account);
        let (how, local, remote) = match *task {
            Task::Move { how, local, remote } => (how, text(local)?, remote),
            Task::List { .. } if self.old => return Ok(Did::Cannot("SCP lists nothing")),
            Task::List { remote } => {
                let output = run(command.arg("-ls").arg(there(remote)))?;
                let said = String::from_utf8_lossy(&output.stdout).into_owned();
                let names = said.lines().filter_map(|line| line.split_whitespace().nth(8));
                return Ok(Did::Done(names.collect::<Vec<_>>().join("\n")));
            }
            _ => return Ok(Did::Cannot("it only copies and lists")),
        };
        match how {
            How::ResumeUp | How::ResumeDown => return Ok(Did::Cannot("it has no resume")),
            How::PutTree | How::GetTree => drop(command.arg("-r")),
            How::PutTimes => drop(command.arg("-p")),
            How::GetTimes => drop(command.arg("-p")),
            How::Put | How::Get => {}
        }
        let up = matches!(how, How::Put | How::PutTree | How::PutTimes);
        // The folder above must be named: a copy of a tree keeps its own name.
        let above = || remote.rsplit_once('/').map_or(".", |(above, _)| above).to_owned();
        let there = there(&match how {
            How::PutTree => above(),
            _ if self.old => shell(remote),
            _ if up => remote.to_owned(),
            _ => literal(remote),
        });
        let words = if up { [local, there.as_str()] } else { [there.as_str(), local] };
        run(command.arg("--").args(words))?;
        Ok(Did::Done(String::new()))
    }
}
