//! What rules on commands keep when something goes away: the client, the session, the server, the
//! database.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use anyhow::{Context, Result, ensure};
use entrepot_testkit::clients::ftp::Protection::Clear;
use entrepot_testkit::clients::{Login, text};
use entrepot_testkit::postgres::Postgres;
use entrepot_testkit::server::{Node, run};

use crate::hooks::{TOLD, apply, node_with_programs, script};
use crate::program;

/// A program that says that it has begun, waits to be let go, and says that it has ended.
struct Held {
    program: PathBuf,
    folder: PathBuf,
    /// Kept open: neither side ever waits for the other to open.
    gate: File,
}

impl Held {
    fn new(folder: &Path) -> Result<Held> {
        // Where programs may write.
        let place = folder.with_file_name("book");
        let gate = place.join("gate");
        run(Command::new("mkfifo").arg(&gate))?;
        let here = place.display();
        let lines = format!(
            "#!/bin/sh\n: > '{here}/begun'\nread line < '{here}/gate'\n: > '{here}/ended'\n"
        );
        let program = script(folder, "held", &lines)?;
        let gate = File::options().read(true).write(true).open(gate)?;
        Ok(Held { program, folder: place, gate })
    }

    fn begun(&self) -> PathBuf {
        self.folder.join("begun")
    }

    fn until_begun(&self, node: &Node) -> Result<()> {
        node.until("the program to begin", || Ok(self.begun().exists().then_some(())))?;
        ensure!(!self.folder.join("ended").exists(), "nobody let it go");
        Ok(())
    }

    fn let_go(&mut self) -> Result<()> {
        Ok(self.gate.write_all(b"go\n")?)
    }

    /// The program came to its end; it may be held again.
    fn until_ended(&self, node: &Node) -> Result<()> {
        let ended = self.folder.join("ended");
        node.until("the program to end", || Ok(ended.exists().then_some(())))?;
        std::fs::remove_file(ended)?;
        Ok(std::fs::remove_file(self.begun())?)
    }
}

/// Applies rules, and waits until they count.
fn apply_and_wait(node: &Node, login: &Login, documents: &str) -> Result<()> {
    let known = "rule: {name: known, when: {before: [ftp SYST]}, do: [{refuse: {text: known}}]}\n";
    apply(node, &format!("{known}---\n{documents}"))?;
    node.until("the rules to count", || {
        let said = login.ftplib(node, Clear, &format!("{TOLD}print(told('SYST'))"))?;
        Ok(said.contains("known").then_some(()))
    })
}

/// A file is sent, and nothing is waited for.
const SENT: &str = "
import os, time
ftp.voidcmd('TYPE I')
data = ftp.transfercmd('STOR ' + NAME); data.sendall(b'whole'); data.close()
def wait(name):
    while not os.path.exists(name): time.sleep(0.02)
";

fn waiting_rule(held: &Held) -> Result<String> {
    Ok(format!(
        "rule:\n  name: slow\n  when: {{after: [ftp STOR]}}\n  do:\n    - exec: {{argv: [{}], \
         timeout_seconds: 600, reply: wait}}\n",
        text(&held.program)?
    ))
}

/// Sends a file whose reply waits for the program, and hangs up; then the session is ended too.
fn send_and_leave(node: &Node, login: &Login, held: &Held) -> Result<()> {
    let before = node.events("session.closed")?.len();
    let lines = format!(
        "NAME = 'a'{SENT}wait({:?})\nftp.sock.close(); ftp.file.close()\n",
        text(&held.begun())?
    );
    login.ftplib(node, Clear, &lines)?;
    held.until_begun(node)?;
    for session in node.json(&["session", "list"])?.as_array().context("sessions")? {
        // One that has just ended by itself is as good.
        let _ = node.cli(&["session", "end", session["id"].as_str().context("id")?]);
    }
    node.until("the end of the session", || {
        let open = node.json(&["session", "list"])?;
        let closed = node.events("session.closed")?.len() > before;
        Ok((closed && open.as_array().is_some_and(Vec::is_empty)).then_some(()))
    })?;
    held.until_begun(node)
}

#[test]
fn what_runs_after_a_command_runs_to_its_end_without_its_client_and_through_a_stop() -> Result<()> {
    let (mut node, login, folder) = node_with_programs()?;
    let mut held = Held::new(&folder)?;
    apply_and_wait(&node, &login, &waiting_rule(&held)?)?;
    send_and_leave(&node, &login, &held)?;
    held.let_go()?;
    held.until_ended(&node)?;
    // The same, while the server stops: it waits for it as for a job.
    send_and_leave(&node, &login, &held)?;
    node.cli(&["stop"])?;
    let socket = node.home().join("data/ops.sock");
    node.until("the ops socket to close", || {
        Ok(UnixStream::connect(&socket).is_err().then_some(()))
    })?;
    held.until_begun(&node)?;
    held.let_go()?;
    held.until_ended(&node)?;
    ensure!(node.wait()?.success(), "{}", node.log());
    Ok(())
}

#[test]
fn a_draining_server_lets_the_program_end_and_the_client_hears_of_it() -> Result<()> {
    let (mut node, login, folder) = node_with_programs()?;
    let mut held = Held::new(&folder)?;
    apply_and_wait(&node, &login, &waiting_rule(&held)?)?;
    let port = node.ftp_port()?;
    let heard = thread::scope(|scope| {
        let client = scope.spawn(|| {
            let lines = format!("NAME = 'a'{SENT}print(ftp.voidresp())\n");
            login.ftplib(&node, Clear, &lines)
        });
        held.until_begun(&node)?;
        node.cli(&["stop"])?;
        node.until("newcomers to be turned away", || {
            let mut said = [0; 3];
            let mut newcomer = TcpStream::connect(("127.0.0.1", port))?;
            Ok((newcomer.read_exact(&mut said).is_ok() && said == *b"421").then_some(()))
        })?;
        held.let_go()?;
        client.join().map_err(|_| anyhow::anyhow!("the client panicked"))?
    })?;
    ensure!(heard.starts_with("226"), "{heard}");
    held.until_ended(&node)?;
    ensure!(node.wait()?.success(), "{}", node.log());
    Ok(())
}

/// The file is made visible by a server of FTP that takes its time, and the client hangs up while
/// it does.
#[test]
fn an_upload_whose_client_leaves_during_its_publish_is_told() -> Result<()> {
    let (node, login, folder) = node_with_programs()?;
    let far = Login::create(&node, "far")?;
    let mut held = Held::new(&folder)?;
    let done = script(&folder, "done", "#!/bin/sh\n")?;
    let certificate = std::fs::read_to_string(node.certificate_of("ftp")?)?;
    let certificate: String = certificate.lines().map(|it| format!("        {it}\n")).collect();
    let documents = format!(
        "\
endpoint:
  name: far
  target:
    ftp:
      host: localhost
      port: {port}
      user: far
      password: '{password}'
      allow_private: true
      certificates:
      - |
{certificate}---
mount: {{name: acme-far, account: acme, path: /far, endpoint: far}}
---
rule:
  name: held
  when: {{before: [ftp RNTO]}}
  if: command.account == 'far'
  do: [{{exec: {{argv: [{held}], timeout_seconds: 600}}}}]
---
rule:
  name: told
  when: {{after: [ftp STOR]}}
  if: command.account == 'acme'
  do: [{{exec: {{argv: [{done}]}}}}]
",
        port = node.ftp_port()?,
        password = far.password,
        held = text(&held.program)?,
        done = text(&done)?,
    );
    apply_and_wait(&node, &login, &documents)?;
    let lines = format!(
        "NAME = '/far/a'{SENT}wait({:?})\nftp.sock.close(); ftp.file.close()\n",
        text(&held.begun())?
    );
    login.ftplib(&node, Clear, &lines)?;
    held.let_go()?;
    let told = node.until("the command to be told", || {
        let told = node.events("command.done")?.into_iter();
        Ok(told.into_iter().find(|event| event["account"] == "acme" && event["verb"] == "STOR"))
    })?;
    assert_eq!((told["code"].as_u64(), told["bytes"].as_u64()), (Some(226), Some(5)), "{told}");
    ensure!(told["blake3"].is_string() && told["transfer"].is_string(), "{told}");
    ensure!(std::fs::read(far.on_disk(&node, "a"))? == b"whole");
    Ok(())
}

/// A database that stands still holds up no command: the rules known last count.
#[test]
fn rules_on_commands_count_while_the_database_says_nothing() -> Result<()> {
    let postgres = Postgres::launch()?;
    let mut node = Node::new(program(), Some(&postgres.create_database()?))?;
    let login = Login::create(&node, "acme")?;
    node.add_ftp()?;
    node.start()?;
    let other = "rule: {name: other, when: {before: [ftp HELP]}, do: [{refuse: {text: other}}]}\n";
    apply_and_wait(&node, &login, other)?;
    let [open, frozen, back] = ["open", "frozen", "back"].map(|name| node.scratch().join(name));
    let said = thread::scope(|scope| {
        let client = scope.spawn(|| {
            let lines = format!(
                "{TOLD}
import os, time
def wait(name):
    while not os.path.exists(name): time.sleep(0.02)
open({open:?}, 'w').close()
wait({frozen:?})
for _ in range(100):
    assert 'known' in told('SYST') and told('NOOP').startswith('200')
    time.sleep(0.02)
open({back:?}, 'w').close()
while 'second' not in told('STAT'): time.sleep(0.05)
print('done')
"
            );
            login.ftplib(&node, Clear, &lines)
        });
        node.until("a session", || Ok(open.exists().then_some(())))?;
        let still = postgres.freeze()?;
        File::create(&frozen)?;
        let answered = node.until("the answers", || Ok(back.exists().then_some(())));
        drop(still);
        let second =
            "rule: {name: second, when: {before: [ftp STAT]}, do: [{refuse: {text: second}}]}\n";
        apply(&node, second)?;
        let said = client.join().map_err(|_| anyhow::anyhow!("the client panicked"))?;
        answered.and(said)
    })?;
    assert_eq!(said.trim(), "done");
    Ok(())
}
