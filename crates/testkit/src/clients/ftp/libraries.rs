//! Python's `ftplib` and Perl's `Net::FTP`, driven by scripts of ours.

use std::process::Command;

use anyhow::Result;

use super::Protection;
use super::matrix::{Form, Order};
use crate::clients::matrix::{Did, How, Task};
use crate::clients::text;
use crate::server::run;

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

/// Both scripts take: host, port, account, password, protection, certificate, `active` or
/// `passive`, `binary` or `text`, the operation and its arguments.
fn drive(mut command: Command, order: Order<'_>, task: &Task<'_>) -> Result<Did> {
    let Order { line, seat, form } = order;
    command.arg(if line.ipv6 { "::1" } else { line.host() });
    command.arg(line.port(seat.node)?.to_string());
    command.args([&seat.login.account, &seat.login.password]);
    command.arg(match line.protection {
        Protection::Clear => "clear",
        Protection::Tls => "explicit",
        Protection::Implicit => "implicit",
    });
    command.arg(line.certificate(seat.node)?);
    command.arg(if line.active { "active" } else { "passive" });
    command.arg(if form == Form::Text { "text" } else { "binary" });
    match *task {
        Task::Move { how, local, remote } => {
            let operation = match how {
                How::Put => "put",
                How::Get => "get",
                How::ResumeUp => "resume_up",
                How::ResumeDown => "resume_down",
                How::PutTree => "put_tree",
                How::GetTree => "get_tree",
                How::PutTimes => "put_times",
                How::GetTimes => "get_times",
            };
            command.args([operation, text(local)?, remote]);
        }
        Task::RenameOver { from, to } => drop(command.args(["rename", from, to])),
        Task::List { remote } => drop(command.args(["list", remote])),
        Task::Hash { .. } => return Ok(Did::Cannot("it asks for no digest")),
    }
    Ok(Did::Done(String::from_utf8_lossy(&run(&mut command)?.stdout).into_owned()))
}
