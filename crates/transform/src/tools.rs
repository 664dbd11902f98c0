//! The tools that people use, for tests.

use std::io::Write;
use std::process::{Command, Stdio};

/// What the tool prints of `input`; it must end well.
pub(crate) fn tool(argv: &[&str], input: &[u8]) -> Vec<u8> {
    let mut command = Command::new(argv[0]);
    run(command.args(&argv[1..]), input).unwrap_or_else(|words| panic!("{argv:?}: {words}"))
}

/// What the program prints of `input`, or why it did not end well.
pub(crate) fn run(command: &mut Command, input: &[u8]) -> Result<Vec<u8>, String> {
    let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = started.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let ended = std::thread::scope(|scope| {
        // A program that has seen enough closes its end.
        scope.spawn(move || drop(stdin.write_all(input)));
        child.wait_with_output().unwrap()
    });
    if ended.status.success() {
        Ok(ended.stdout)
    } else {
        Err(String::from_utf8_lossy(&ended.stderr).into_owned())
    }
}
