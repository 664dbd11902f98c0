//! OpenSSH's `sftp` and `scp`.

use std::process::Command;

use anyhow::Result;

use super::matrix::{Client, Did, How, Seat, Task};
use super::text;
use crate::server::run;

/// `sftp`, by a batch.
pub struct Sftp;

/// A word of a batch, also of lftp's, in double quotes; what is special to patterns is so no more.
pub(super) fn quoted(word: &str) -> String {
    format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\""))
}

/// What moves a file, in the words of `sftp`, which are also psftp's.
pub(super) fn batch_line(how: How, local: &str, remote: &str) -> String {
    match how {
        How::Put => format!("put {local} {remote}"),
        How::Get => format!("get {remote} {local}"),
        How::ResumeUp => format!("reput {local} {remote}"),
        How::ResumeDown => format!("reget {remote} {local}"),
        How::PutTree => format!("put -r {local} {remote}"),
        How::GetTree => format!("get -r {remote} {local}"),
        How::PutTimes => format!("put -p {local} {remote}"),
        How::GetTimes => format!("get -p {remote} {local}"),
    }
}

impl Client for Sftp {
    fn name(&self) -> &'static str {
        "OpenSSH sftp"
    }

    fn run(&self, seat: Seat<'_>, task: &Task<'_>) -> Result<Did> {
        let line = match *task {
            Task::Move { how, local, remote } => {
                batch_line(how, &quoted(text(local)?), &quoted(remote))
            }
            Task::RenameOver { from, to } => format!("rename {} {}", quoted(from), quoted(to)),
            Task::List { remote } => format!("cd {}\nls -1", quoted(remote)),
            Task::Hash { .. } => return Ok(Did::Cannot("it asks for no digest")),
        };
        let output = seat.login.sftp_batch(seat.node, &format!("{line}\n"))?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        // A batch echoes its commands.
        let answers = said.lines().filter(|line| !line.starts_with("sftp> "));
        Ok(Did::Done(answers.collect::<Vec<_>>().join("\n")))
    }
}

/// `scp`, which speaks SFTP since 9.0, or with `-O` its own protocol.
pub struct Scp {
    /// Its own protocol.
    pub old: bool,
}

/// Characters that `scp` and `pscp` would expand in a remote source.
pub(super) fn literal(path: &str) -> String {
    let escape = |c: char| matches!(c, '*' | '?' | '[' | ']' | '\\');
    path.chars().flat_map(|c| escape(c).then_some('\\').into_iter().chain([c])).collect()
}

/// A word for the shell that is thought to be there. Not in quotes: `scp` compares the names that
/// come with what was asked, as a pattern.
pub(super) fn shell(path: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '/' | '.' | '-' | '_');
    path.chars().flat_map(|c| (!plain(c)).then_some('\\').into_iter().chain([c])).collect()
}

impl Client for Scp {
    fn name(&self) -> &'static str {
        if self.old { "OpenSSH scp -O" } else { "OpenSSH scp" }
    }

    fn run(&self, seat: Seat<'_>, task: &Task<'_>) -> Result<Did> {
        let Task::Move { how, local, remote } = *task else {
            return Ok(Did::Cannot("it only copies"));
        };
        let mut command = Command::new("scp");
        command.args(seat.login.ssh_options(seat.node)?).arg("-q");
        command.args(["-P", &seat.node.sftp_port()?.to_string()]);
        if self.old {
            command.arg("-O");
        }
        match how {
            How::ResumeUp | How::ResumeDown => return Ok(Did::Cannot("it has no resume")),
            How::PutTree | How::GetTree => drop(command.arg("-r")),
            How::PutTimes | How::GetTimes => drop(command.arg("-p")),
            How::Put | How::Get => {}
        }
        let up = matches!(how, How::Put | How::PutTree | How::PutTimes);
        let remote = match (self.old, up) {
            (true, _) => shell(remote),
            (false, true) => remote.to_owned(),
            (false, false) => literal(remote),
        };
        let there = format!("{}@127.0.0.1:{remote}", seat.login.account);
        let here = text(local)?;
        let words = if up { [here, there.as_str()] } else { [there.as_str(), here] };
        run(command.arg("--").args(words))?;
        Ok(Did::Done(String::new()))
    }
}
