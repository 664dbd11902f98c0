//! `entrepot put` and `entrepot get`.

use anyhow::Result;

use super::ftp::{Form, Order, Protection};
use super::matrix::{Client, Did, How, Seat, Task};
use super::text;
use crate::server::{feed, run};

/// Our own client.
pub struct Ours;

/// A path in a URL: only the percent sign is special.
fn encoded(path: &str) -> String {
    path.replace('%', "%25")
}

/// What to do, and with which options.
fn verb(how: How) -> (&'static str, &'static [&'static str]) {
    match how {
        How::Put | How::PutTimes => ("put", &[]),
        How::Get | How::GetTimes => ("get", &[]),
        How::ResumeUp => ("put", &["--resume"]),
        How::ResumeDown => ("get", &["--resume"]),
        How::PutTree => ("put", &["--recursive"]),
        How::GetTree => ("get", &["--recursive"]),
    }
}

const ONLY_COPIES: Did = Did::Cannot("it only copies");

/// The same over FTP.
pub(super) fn ftp(order: Order<'_>, task: &Task<'_>) -> Result<Did> {
    let Order { line, seat, form } = order;
    let Task::Move { how, local, remote } = *task else { return Ok(ONLY_COPIES) };
    if form == Form::Text {
        return Ok(Did::Cannot("it moves bytes as they are"));
    }
    let scheme = if line.protection == Protection::Implicit { "ftps" } else { "ftp" };
    let (account, host, port) = (&seat.login.account, line.host(), line.port(seat.node)?);
    let url = format!("{scheme}://{account}@{host}:{port}/{}", encoded(remote));
    let (verb, options) = verb(how);
    let mut command = seat.node.command(&[verb]);
    command.args(options).arg("--password-stdin");
    match line.protection {
        Protection::Clear => drop(command.arg("--clear-text")),
        _ => drop(command.arg("--authorities").arg(line.certificate(seat.node)?)),
    }
    if line.active {
        command.arg("--active");
    }
    let local = text(local)?;
    let words = if verb == "put" { [local, &url] } else { [url.as_str(), local] };
    feed(command.arg("--").args(words), &seat.login.password)?;
    Ok(Did::Done(String::new()))
}

impl Client for Ours {
    fn name(&self) -> &'static str {
        "entrepot"
    }

    fn run(&self, seat: Seat<'_>, task: &Task<'_>) -> Result<Did> {
        let Task::Move { how, local, remote } = *task else { return Ok(ONLY_COPIES) };
        let (verb, options) = verb(how);
        let port = seat.node.sftp_port()?;
        let account = &seat.login.account;
        let url = format!("sftp://{account}@127.0.0.1:{port}/{}", encoded(remote));
        let mut command = seat.node.command(&[verb]);
        command.args(options).arg("--identity").arg(&seat.login.key);
        command.arg("--known-hosts").arg(seat.node.known_hosts()?).arg("--");
        let local = text(local)?;
        let words = if verb == "put" { [local, &url] } else { [url.as_str(), local] };
        run(command.args(words))?;
        Ok(Did::Done(String::new()))
    }
}
