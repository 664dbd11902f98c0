//! Python's `ftplib`, Perl's `Net::FTP` and Apache Commons Net, driven by programs of ours.

use std::process::Command;

use anyhow::Result;

use super::order::{Form, Order};
use super::{Line, Protection};
use crate::clients::matrix::{Did, Seat, Task};
use crate::clients::{java, text};
use crate::server::run;

const NO_DIGEST: Did = Did::Cannot("it asks for no digest");

pub(super) fn ftplib(order: Order<'_>, task: &Task<'_>) -> Result<Did> {
    let mut command = Command::new("python3");
    command.args(["-c", include_str!("ftplib_client.py")]);
    drive(command, order, task)
}

pub(super) fn net_ftp(order: Order<'_>, task: &Task<'_>) -> Result<Did> {
    let mut command = Command::new("perl");
    command.args(["-e", include_str!("net_ftp_client.pl"), "--"]);
    drive(command, order, task)
}

pub(super) fn commons_net(order: Order<'_>, task: &Task<'_>) -> Result<Did> {
    if let Task::Hash { .. } = task {
        return Ok(NO_DIGEST);
    }
    ask_commons_net(order, &task.words()?).map(Did::Done)
}

/// Does what only Apache Commons Net is asked for: a verb and its arguments.
///
/// # Errors
/// What the library said.
pub fn call_commons_net(seat: Seat<'_>, line: Line, words: &[&str]) -> Result<String> {
    ask_commons_net(Order { line, seat, form: Form::Binary }, words)
}

fn ask_commons_net(order: Order<'_>, words: &[&str]) -> Result<String> {
    let login = login(order)?;
    let login: Vec<&str> = login.iter().map(String::as_str).collect();
    java::ask(&[&["commons-net"], &login[..], words].concat())
}

fn drive(mut command: Command, order: Order<'_>, task: &Task<'_>) -> Result<Did> {
    if let Task::Hash { .. } = task {
        return Ok(NO_DIGEST);
    }
    let output = run(command.args(login(order)?).args(task.words()?))?;
    Ok(Did::Done(String::from_utf8_lossy(&output.stdout).into_owned()))
}

/// The first words of each program: host, port, account, password, protection, certificate,
/// `active` or `passive`, `binary` or `text`. A verb and its arguments follow.
fn login(order: Order<'_>) -> Result<[String; 8]> {
    let Order { line, seat, form } = order;
    let protection = match line.protection {
        Protection::Clear => "clear",
        Protection::Tls => "explicit",
        Protection::Implicit => "implicit",
    };
    Ok([
        if line.ipv6 { "::1" } else { line.host() }.to_owned(),
        line.port(seat.node)?.to_string(),
        seat.login.account.clone(),
        seat.login.password.clone(),
        protection.to_owned(),
        text(&line.certificate(seat.node)?)?.to_owned(),
        if line.active { "active" } else { "passive" }.to_owned(),
        if form == Form::Text { "text" } else { "binary" }.to_owned(),
    ])
}
