//! `ncftp` and `tnftp`.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::order::{Form, Order};
use crate::clients::matrix::{Did, How, Task};
use crate::clients::text;
use crate::server::{feed, run};

/// The folder of its configuration.
fn home(order: Order<'_>) -> Result<std::path::PathBuf> {
    let home = order.seat.node.scratch().join("home");
    std::fs::create_dir_all(&home)?;
    Ok(home)
}

fn ncftp_command(order: Order<'_>, program: &str) -> Result<Command> {
    let Order { line, seat, form } = order;
    let mut command = Command::new(program);
    command.env("HOME", home(order)?).args(["-t", "20"]);
    command.args(["-u", &seat.login.account, "-p", &seat.login.password]);
    command.args(["-P", &line.port(seat.node)?.to_string()]);
    command.arg(if line.active { "-E" } else { "-F" });
    if program != "ncftpls" {
        command.arg("-V");
    }
    if form == Form::Text {
        command.arg("-a");
    }
    Ok(command)
}

/// What stands before the last component, and it.
fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or((".", path))
}

pub(super) fn ncftp(order: Order<'_>, task: &Task<'_>) -> Result<Did> {
    let host = order.line.host();
    let output = match *task {
        Task::Move { how, local, remote } => {
            let up = matches!(how, How::Put | How::PutTimes | How::ResumeUp | How::PutTree);
            let program = if up { "ncftpput" } else { "ncftpget" };
            let mut command = ncftp_command(order, program)?;
            let here = text(local)?;
            match how {
                How::Put | How::PutTimes => command.args(["-C", host, here, remote]),
                // With -Z it sets no times.
                How::Get | How::GetTimes => command.args(["-z", "-C", host, remote, here]),
                // Without -s it sends the file from its beginning behind REST.
                How::ResumeUp => command.args(["-z", "-s", "-C", host, here, remote]),
                How::ResumeDown => command.args(["-z", "-C", host, remote, here]),
                How::PutTree => command.args(["-m", "-R", host, split(remote).0, here]),
                How::GetTree => return fetch_tree(command, (host, remote), local),
            };
            run(&mut command)?
        }
        Task::RenameOver { from, to } => {
            let orders = [format!("RNFR {from}"), format!("RNTO {to}")];
            let mut command = ncftp_command(order, "ncftpls")?;
            command.args(["-W", &orders[0], "-W", &orders[1]]);
            run(command.arg(format!("ftp://{host}/")))?
        }
        Task::List { remote } => {
            let mut command = ncftp_command(order, "ncftpls")?;
            run(command.args(["-1", &format!("ftp://{host}/{remote}/")]))?
        }
        Task::Hash { .. } => return Ok(Did::Cannot("it asks for no digest")),
    };
    Ok(Did::Done(String::from_utf8_lossy(&output.stdout).into_owned()))
}

/// It gives the folder its own name in another one.
fn fetch_tree(mut command: Command, (host, remote): (&str, &str), local: &Path) -> Result<Did> {
    let above = local.with_extension("above");
    std::fs::create_dir(&above)?;
    run(command.args(["-Z", "-T", "-R", host, text(&above)?, remote]))?;
    std::fs::rename(above.join(split(remote).1), local)?;
    Ok(Did::Done(String::new()))
}

/// In quotes, where a backslash stands for itself.
fn word(text: &str) -> Option<String> {
    (!text.contains('"')).then(|| format!("\"{text}\""))
}

pub(super) fn tnftp(order: Order<'_>, task: &Task<'_>) -> Result<Did> {
    const QUOTES: Did = Did::Cannot("it has no way to write a double quote in a name");
    let line = match *task {
        Task::Move { how, local, remote } => {
            let (Some(here), Some(there)) = (word(text(local)?), word(remote)) else {
                return Ok(QUOTES);
            };
            match how {
                How::Put => format!("put {here} {there}"),
                How::Get | How::GetTimes => format!("get {there} {here}"),
                How::ResumeUp => {
                    let size = std::fs::metadata(order.seat.login.on_disk(order.seat.node, remote));
                    let size = size.context("nothing to go on with")?.len();
                    format!("restart {size}\nput {here} {there}")
                }
                How::ResumeDown => format!("reget {there} {here}"),
                How::PutTimes => return Ok(Did::Cannot("it sets no times there")),
                How::PutTree | How::GetTree => return Ok(Did::Cannot("it moves no trees")),
            }
        }
        Task::RenameOver { from, to } => format!("rename {from} {to}"),
        Task::List { remote } => format!("nlist {remote}"),
        Task::Hash { .. } => return Ok(Did::Cannot("it asks for no digest")),
    };
    let names = tnftp_session(order, &line)?;
    let names = names.lines().filter_map(|line| line.rsplit('/').next());
    Ok(Did::Done(names.collect::<Vec<_>>().join("\n")))
}

/// Its exit code says nothing, so its words must: there are none but those of a list.
fn tnftp_session(order: Order<'_>, line: &str) -> Result<String> {
    let Order { line: way, seat, form } = order;
    let host = if way.ipv6 { "::1" } else { way.host() };
    let netrc = seat.node.scratch().join("netrc");
    let login = &seat.login;
    let entry = format!("machine {host} login {} password \"{}\"\n", login.account, login.password);
    std::fs::write(&netrc, entry)?;
    std::fs::set_permissions(&netrc, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    let mut command = Command::new("tnftp");
    command.env("HOME", home(order)?).args(["-V", "-q", "20", "-N"]).arg(&netrc);
    command.arg(if way.active { "-A" } else { "-p" });
    command.arg(host).arg(way.port(seat.node)?.to_string());
    let kind = if form == Form::Text { "ascii" } else { "binary" };
    let output = feed(&mut command, &format!("{kind}\n{line}\nbye\n"))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
