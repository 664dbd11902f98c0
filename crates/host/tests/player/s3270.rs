//! s3270 as a client that is not ours: a package of Debian and Ubuntu; `scripts/need test` installs
//! it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// An s3270 that takes actions from us and answers each.
pub(crate) struct S3270 {
    child: Child,
    actions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl S3270 {
    pub(crate) fn start(device: &str) -> S3270 {
        let model = device.trim_start_matches("IBM-").to_owned();
        let mut child = Command::new("s3270")
            .args(["-utf8", "-model", &model, "-codepage", "cp037"])
            // A key does not wait for its answer; "Wait" does, for a while.
            .args(["-xrm", "s3270.aidWait: false"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("s3270 is not there: scripts/need test installs it");
        let actions = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        S3270 { child, actions, answers }
    }

    /// Does one thing; answers what it shows, or why it was not done.
    pub(crate) fn does(&mut self, action: &str) -> Result<Vec<String>, String> {
        self.actions.write_all(format!("{action}\n").as_bytes()).unwrap();
        let mut data = Vec::new();
        loop {
            let mut line = String::new();
            assert!(self.answers.read_line(&mut line).unwrap() > 0, "s3270 has ended");
            let line = line.trim_end_matches('\n');
            match line.strip_prefix("data: ").or_else(|| (line == "data:").then_some("")) {
                Some(row) => data.push(row.to_owned()),
                None if line == "ok" => return Ok(data),
                None if line == "error" => return Err(data.join(" ")),
                // The state of the terminal, before each "ok".
                None => {}
            }
        }
    }
}

impl Drop for S3270 {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
