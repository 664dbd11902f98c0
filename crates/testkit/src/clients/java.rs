//! JSch and Apache Commons Net, in one Java machine a test thread: it takes longer to start than
//! most tasks. And JMeter.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};

use super::installed;

/// Where Debian has the libraries.
const LIBRARIES: &str = "/usr/share/java/jsch.jar:/usr/share/java/commons-net.jar";

/// A running `Clients.java`, which says what its lines are. Killed when dropped.
struct Machine {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// Where Debian has JMeter.
const JMETER: &str = "/usr/share/jmeter";

/// Debian's JMeter, for a plan and its options. `DebianJMeter.java` says why it is not started by
/// its own script.
///
/// # Errors
/// Its launcher was not made.
pub fn jmeter() -> Result<Command> {
    let classes = installed("clients/java")?;
    let mut command = Command::new("java");
    command.args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m"]);
    command.arg(format!("-Djmeter.home={JMETER}")).arg("-cp");
    command.arg(format!("{}:{JMETER}/bin/ApacheJMeter.jar", classes.display()));
    // Without a port on which it can be told to stop.
    command.args(["DebianJMeter", "-Jjmeterengine.nongui.port=0", "-n"]);
    Ok(command)
}

thread_local! {
    static MACHINE: RefCell<Option<Machine>> = const { RefCell::new(None) };
}

impl Machine {
    fn start() -> Result<Machine> {
        let classes = installed("clients/java")?;
        let mut command = Command::new("java");
        // A small machine starts sooner. Its locale decides which file names it can write.
        command.args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp"]);
        command.arg(format!("{}:{LIBRARIES}", classes.display())).arg("Clients");
        command.env("LC_ALL", "C.UTF-8").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context("cannot run java")?;
        let input = child.stdin.take().context("no standard input")?;
        let output = BufReader::new(child.stdout.take().context("no standard output")?);
        Ok(Machine { child, input, output })
    }

    fn ask(&mut self, words: &[&str]) -> Result<String> {
        writeln!(self.input, "{}", words.join("\t"))?;
        let mut printed = String::new();
        loop {
            let mut line = String::new();
            self.output.read_line(&mut line)?;
            match line.split_at_checked(1) {
                Some(("+", text)) => printed.push_str(text),
                Some((".", _)) => return Ok(printed),
                Some(("!", reason)) => bail!("{words:?}: {}", reason.trim()),
                _ => bail!("{words:?}: the Java machine ended"),
            }
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // One that has ended is what we want.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Does a task in the machine of this thread and gives what it printed.
pub(super) fn ask(words: &[&str]) -> Result<String> {
    MACHINE.with_borrow_mut(|machine| {
        if machine.is_none() {
            *machine = Some(Machine::start()?);
        }
        machine.as_mut().context("it was started")?.ask(words)
    })
}
