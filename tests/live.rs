//! A change takes effect in running sessions within a second; a stop loses nothing.

use std::io::Write;
use std::process::Child;

use anyhow::{Context, Result, ensure};
use entrepot_testkit::clients::{Login, local_file, noise, text};
use entrepot_testkit::server::Node;

use crate::{node_with, program};

/// An `sftp` that stays connected, and a way to tell that a command is done: it makes a folder.
struct Open {
    child: Child,
    login: Login,
}

impl Open {
    fn new(node: &Node, login: Login) -> Result<Open> {
        let mut open = Open { child: login.sftp(node)?.spawn()?, login };
        open.tell("mkdir open")?;
        open.wait_for(node, "open")?;
        Ok(open)
    }

    fn tell(&mut self, command: &str) -> Result<()> {
        let input = self.child.stdin.as_mut().context("piped")?;
        writeln!(input, "{command}")?;
        Ok(input.flush()?)
    }

    fn wait_for(&self, node: &Node, path: &str) -> Result<()> {
        let path = self.login.on_disk(node, path);
        node.until("a folder made by the session", || Ok(path.exists().then_some(())))
    }
}

impl Open {
    /// Waits until the client notices that it is cut off: it looks only when it has to speak.
    fn wait_for_end(&mut self, node: &Node) -> Result<()> {
        node.until("the session to end", || {
            let told = self.tell("-ls");
            Ok((told.is_err() || self.child.try_wait()?.is_some()).then_some(()))
        })
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_disabled_account_is_out_at_once() -> Result<()> {
    let (node, login) = node_with("acme")?;
    let mut open = Open::new(&node, login)?;
    assert_eq!(node.json(&["session", "list"])?.as_array().map_or(0, Vec::len), 1);
    node.cli(&["account", "change", "acme", "enabled=false"])?;
    open.wait_for_end(&node)?;
    ensure!(open.login.sftp_batch(&node, "ls\n").is_err(), "a disabled account logged in");
    let closed = node.until("the end in the audit log", || {
        Ok(node.events("session.closed")?.first().cloned())
    })?;
    assert_eq!(closed["account"], "acme");
    Ok(())
}

#[test]
fn rights_change_under_a_running_session() -> Result<()> {
    let (node, login) = node_with("acme")?;
    let mut open = Open::new(&node, login)?;
    node.cli(&["mount", "change", "acme-home", "rights=read-only"])?;
    let mut round = 0;
    node.until("the session to lose its right", || {
        round += 1;
        let told = node.scratch().join(format!("told-{round}"));
        open.tell("-mkdir later")?;
        // A local command runs when the one before it was answered.
        open.tell(&format!("!touch {}", told.display()))?;
        node.until("the answer", || Ok(told.exists().then_some(())))?;
        let made = open.login.on_disk(&node, "later").exists();
        if made {
            open.tell("-rmdir later")?;
        }
        Ok((!made).then_some(()))
    })?;
    drop(open);
    let login = Login {
        account: "acme".to_owned(),
        password: String::new(),
        key: node.scratch().join("acme.key"),
    };
    ensure!(login.sftp_batch(&node, "mkdir forbidden\n").is_err());
    Ok(())
}

#[test]
fn a_session_can_be_ended_by_hand() -> Result<()> {
    let (node, login) = node_with("acme")?;
    let mut open = Open::new(&node, login)?;
    let sessions = node.json(&["session", "list"])?;
    let id = sessions[0]["id"].as_str().context("a session")?.to_owned();
    node.cli(&["session", "limit", &id, "--upload", "500K"])?;
    // The session belongs to the site main; another one neither shows nor ends it.
    node.cli(&["site", "create", "north"])?;
    let elsewhere = node.json(&["--site", "north", "session", "list"])?;
    assert_eq!(elsewhere.as_array().map(Vec::len), Some(0), "{elsewhere}");
    assert!(node.cli(&["--site", "north", "session", "end", &id]).is_err());
    node.cli(&["session", "end", &id])?;
    open.wait_for_end(&node)?;
    for kind in ["session.limited", "session.ending"] {
        let event = node.until(kind, || Ok(node.events(kind)?.pop()))?;
        assert_eq!((&event["session"], &event["name"]), (&id.as_str().into(), &"acme".into()));
    }
    let nodes = node.json(&["node", "list"])?;
    assert_eq!(nodes[0]["state"], "serving", "{nodes}");
    Ok(())
}

#[test]
fn the_log_changes_by_subject_and_names_sessions() -> Result<()> {
    let (mut node, login) = node_with("acme")?;
    login.sftp_batch(&node, "ls\n")?;
    ensure!(!node.log().contains("logged in"), "{}", node.log());
    ensure!(node.cli(&["log", "level"])?.contains("as the process file says"));
    node.cli(&["log", "level", "sftp=debug", "db=error"])?;
    assert_eq!(node.cli(&["log", "level", "db="])?.trim(), "sftp=debug");
    login.sftp_batch(&node, "ls\n")?;
    let opened =
        node.until("the second session", || Ok(node.events("session.opened")?.get(1).cloned()))?;
    let id = opened["session"].as_str().context("its id")?;
    node.until("its end in the log", || {
        let log = node.log();
        let mut lines = log.lines().filter(|line| line.contains(id));
        let named = |line: &str| {
            line.contains("account=acme")
                && line.contains("sftp")
                && line.contains("peer=127.0.0.1:")
        };
        Ok(lines.any(|line| named(line) && line.contains("the session ends")).then_some(()))
    })?;
    node.cli(&["log", "level", "--reset"])?;
    let refused = node.command(&["log", "level", "sfpt=debug"]).output()?;
    ensure!(!refused.status.success(), "{refused:?}");
    let changed = node.until("the events", || {
        let changed = node.events("log.changed")?;
        Ok((changed.len() == 3).then_some(changed))
    })?;
    assert_eq!(changed[0]["levels"], serde_json::json!(["db=error", "sftp=debug"]));
    assert_eq!(changed[2]["levels"], serde_json::json!([]));
    ensure!(changed[0]["by"].as_str().is_some_and(|by| by.starts_with("cli:uid-")), "{changed:?}");
    node.stop()
}

#[test]
fn what_is_changed_and_read_while_the_server_is_stopped_is_recorded_with_its_actor() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    node.cli(&["account", "create", "acme", "note=made while it was stopped"])?;
    node.cli(&["export", "account"])?;
    node.start()?;
    let by_cli = |event: &serde_json::Value| {
        event["by"].as_str().is_some_and(|by| by.starts_with("cli:uid-"))
    };
    node.until("the change in the audit log", || {
        let events = node.events("config.changed")?;
        let made = events.iter().any(|event| event["name"] == "acme" && by_cli(event));
        Ok(made.then_some(()))
    })?;
    let exported = node.until("the export in the audit log", || {
        Ok(node.events("config.exported")?.first().cloned())
    })?;
    ensure!(by_cli(&exported) && exported["kinds"] == serde_json::json!(["account"]), "{exported}");
    node.stop()?;
    ensure!(node.cli(&["journal", "verify"])?.contains("intact"));
    Ok(())
}

#[test]
fn listeners_start_and_stop_while_the_server_runs() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    node.start()?;
    node.cli(&["listener", "create", "second", "protocol=sftp", "address=127.0.0.1:0"])?;
    let address = node.until("the second listener", || {
        Ok(node.addresses()?["listeners"]["second"]["address"].as_str().map(str::to_owned))
    })?;
    std::net::TcpStream::connect(&address)?;
    node.cli(&["listener", "change", "second", &format!("address={address}"), "banner=hello"])?;
    node.until("the changed listener to be back at its port", || {
        use std::io::Read;
        let Ok(mut stream) = std::net::TcpStream::connect(&address) else { return Ok(None) };
        stream.set_read_timeout(Some(std::time::Duration::from_secs(5)))?;
        let mut line = [0; 4];
        Ok((stream.read_exact(&mut line).is_ok() && line == *b"SSH-").then_some(()))
    })?;
    node.cli(&["listener", "delete", "second"])?;
    node.until("the second listener to close", || {
        Ok(std::net::TcpStream::connect(&address).is_err().then_some(()))
    })
}

#[test]
fn a_graceful_stop_lets_a_running_upload_end() -> Result<()> {
    let (mut node, login) = node_with("acme")?;
    let content = noise(21, 48 << 20);
    let local = local_file(&node, "big.bin", &content)?;
    let mut open = Open::new(&node, login)?;
    open.tell(&format!("put {} big.bin", text(&local)?))?;
    let staging = node.files().join(".entrepot-staging");
    node.until("the upload to begin", || {
        let mut entries = std::fs::read_dir(&staging).into_iter().flatten().flatten();
        let begun = entries.any(|entry| entry.metadata().is_ok_and(|meta| meta.len() > 0));
        Ok((begun || open.login.on_disk(&node, "big.bin").exists()).then_some(()))
    })?;
    node.stop()?;
    ensure!(std::fs::read(open.login.on_disk(&node, "big.bin"))? == content, "the upload was cut");
    let events = node.events("node.stopped")?;
    assert_eq!(events.len(), 1);
    Ok(())
}
