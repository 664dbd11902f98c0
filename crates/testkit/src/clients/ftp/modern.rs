//! `curl`, `wget`, `lftp` and `rclone`.

use std::process::Command;

use anyhow::Result;

use super::Protection;
use super::order::{Form, Order};
use crate::clients::matrix::{Did, How, Task};
use crate::clients::openssh::quoted;
use crate::clients::text;
use crate::clients::tools::encoded;
use crate::server::run;

const NO_DIGEST: Did = Did::Cannot("it asks for no digest");

fn said(command: &mut Command) -> Result<Did> {
    Ok(Did::Done(String::from_utf8_lossy(&run(command)?.stdout).into_owned()))
}

impl Order<'_> {
    fn url(&self, scheme: &str, remote: &str) -> Result<String> {
        let (host, port) = (self.line.host(), self.line.port(self.seat.node)?);
        let form = if self.form == Form::Text { ";type=a" } else { "" };
        Ok(format!("{scheme}://{host}:{port}/{}{form}", encoded(remote)))
    }
}

pub(super) fn curl(order: Order<'_>, task: &Task<'_>) -> Result<Did> {
    let implicit = order.line.protection == Protection::Implicit;
    let url = |remote: &str| order.url(if implicit { "ftps" } else { "ftp" }, remote);
    let mut command = order.seat.login.curl_ftp(order.seat.node, order.line)?;
    match *task {
        Task::Move { how, local, remote } => {
            let (local, url) = (text(local)?, url(remote)?);
            match how {
                How::Put => command.args(["--ftp-create-dirs", "-T", local, &url]),
                How::Get => command.args(["-o", local, &url]),
                How::ResumeUp => command.args(["-C", "-", "-T", local, &url]),
                How::ResumeDown => command.args(["-C", "-", "-o", local, &url]),
                How::PutTree | How::GetTree => return Ok(Did::Cannot("it moves one file")),
                How::PutTimes => return Ok(Did::Cannot("it sets no times there")),
                How::GetTimes => command.args(["-R", "-o", local, &url]),
            };
        }
        Task::RenameOver { from, to } => {
            let orders = [format!("RNFR {from}"), format!("RNTO {to}")];
            command.args(["-o", "/dev/null", "-Q", &orders[0], "-Q", &orders[1], &url("")?]);
        }
        Task::List { remote } => drop(command.args(["-l", &url(&format!("{remote}/"))?])),
        Task::Hash { .. } => return Ok(NO_DIGEST),
    }
    said(&mut command)
}

pub(super) fn wget(order: Order<'_>, task: &Task<'_>) -> Result<Did> {
    let Order { line, seat, .. } = order;
    let Task::Move { how, local, remote } = *task else {
        return Ok(Did::Cannot("it only fetches"));
    };
    let configuration = seat.node.scratch().join("wgetrc");
    std::fs::write(&configuration, "")?;
    let mut command = Command::new("wget");
    command.env("WGETRC", configuration).args(["-nv", "--no-glob", "-t", "1", "-T", "20"]);
    command.arg(format!("--user={}", seat.login.account));
    command.arg(format!("--password={}", seat.login.password));
    command.arg(format!("--ca-certificate={}", line.certificate(seat.node)?.display()));
    if line.active {
        command.arg("--no-passive-ftp");
    }
    let scheme = match line.protection {
        Protection::Clear => "ftp",
        Protection::Tls => "ftps",
        Protection::Implicit => {
            command.arg("--ftps-implicit");
            "ftps"
        }
    };
    let url = order.url(scheme, remote)?;
    match how {
        How::Get => command.arg("-O").arg(local).arg(url),
        How::GetTimes => return Ok(Did::Cannot("it takes times from LIST, which has only days")),
        How::ResumeDown => command.args(["-c", "-O"]).arg(local).arg(url),
        How::GetTree => {
            let above = remote.matches('/').count() + 1;
            command.args(["-r", "-l", "8", "-nH", &format!("--cut-dirs={above}"), "-P"]);
            command.arg(local).arg(format!("{url}/"))
        }
        _ => return Ok(Did::Cannot("it only fetches")),
    };
    said(&mut command)
}

pub(super) fn lftp(order: Order<'_>, task: &Task<'_>) -> Result<Did> {
    let form = if order.form == Form::Text { " -a" } else { "" };
    let line = match *task {
        Task::Move { how, local, remote } => {
            let (local, remote) = (quoted(text(local)?), quoted(remote));
            match how {
                How::Put | How::PutTimes => format!("put{form} {local} -o {remote}"),
                How::Get | How::GetTimes => format!("get{form} {remote} -o {local}"),
                How::ResumeUp => format!("put -c {local} -o {remote}"),
                How::ResumeDown => format!("get -c {remote} -o {local}"),
                How::PutTree => format!("mirror -R {local} {remote}"),
                How::GetTree => format!("mirror {remote} {local}"),
            }
        }
        Task::RenameOver { from, to } => format!("mv {} {}", quoted(from), quoted(to)),
        Task::List { remote } => format!("cls -1 {}/", quoted(remote)),
        Task::Hash { .. } => return Ok(NO_DIGEST),
    };
    let output = order.seat.login.lftp_ftp(order.seat.node, order.line, &line)?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let names = said.lines().filter_map(|line| line.rsplit('/').next());
    Ok(Did::Done(names.collect::<Vec<_>>().join("\n")))
}

pub(super) fn rclone(order: Order<'_>, task: &Task<'_>) -> Result<Did> {
    if order.form == Form::Text {
        return Ok(Did::Cannot("it moves bytes as they are"));
    }
    let at = |remote: &str| format!("node:{remote}");
    let words = match *task {
        Task::Move { how, local, remote } => {
            let (local, remote) = (text(local)?.to_owned(), at(remote));
            match how {
                How::Put | How::PutTimes => ["copyto".to_owned(), local, remote],
                How::Get | How::GetTimes => ["copyto".to_owned(), remote, local],
                How::PutTree => ["copy".to_owned(), local, remote],
                How::GetTree => ["copy".to_owned(), remote, local],
                How::ResumeUp | How::ResumeDown => return Ok(Did::Cannot("it has no resume")),
            }
        }
        Task::RenameOver { from, to } => ["moveto".to_owned(), at(from), at(to)],
        Task::List { remote } => ["lsf".to_owned(), "--files-only".to_owned(), at(remote)],
        Task::Hash { .. } => return Ok(NO_DIGEST),
    };
    said(rclone_command(order)?.args(words))
}

/// With a configuration of its own, in which the server is named `node:`.
fn rclone_command(order: Order<'_>) -> Result<Command> {
    let Order { line, seat, .. } = order;
    let obscured = run(Command::new("rclone").args(["obscure", &seat.login.password]))?;
    let tls = match line.protection {
        Protection::Clear => "",
        Protection::Tls => "explicit_tls = true\n",
        Protection::Implicit => "tls = true\n",
    };
    let configuration = seat.node.scratch().join("rclone-ftp.conf");
    let lines = format!(
        "[node]\ntype = ftp\nhost = {}\nport = {}\nuser = {}\npass = {}\n{tls}",
        line.host(),
        line.port(seat.node)?,
        seat.login.account,
        String::from_utf8(obscured.stdout)?.trim(),
    );
    std::fs::write(&configuration, lines)?;
    let mut command = Command::new("rclone");
    command.env("SSL_CERT_FILE", line.certificate(seat.node)?);
    command.arg("--config").arg(&configuration);
    command.args(["--retries", "1", "--low-level-retries", "1"]);
    Ok(command)
}
