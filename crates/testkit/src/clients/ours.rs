//! `entrepot put` and `entrepot get`.

use anyhow::Result;

use super::matrix::{Client, Did, How, Seat, Task};
use super::text;
use crate::server::run;

/// Our own client.
pub struct Ours;

/// A path in a URL: only the percent sign is special.
fn encoded(path: &str) -> String {
    path.replace('%', "%25")
}

impl Client for Ours {
    fn name(&self) -> &'static str {
        "entrepot"
    }

    fn run(&self, seat: Seat<'_>, task: &Task<'_>) -> Result<Did> {
        let Task::Move { how, local, remote } = *task else {
            return Ok(Did::Cannot("it only copies"));
        };
        let (verb, options): (&str, &[&str]) = match how {
            How::Put | How::PutTimes => ("put", &[]),
            How::Get | How::GetTimes => ("get", &[]),
            How::ResumeUp => ("put", &["--resume"]),
            How::ResumeDown => ("get", &["--resume"]),
            How::PutTree => ("put", &["--recursive"]),
            How::GetTree => ("get", &["--recursive"]),
        };
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
