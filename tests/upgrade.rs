//! Data folders that earlier versions left, killed: this version goes on with each of them.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use entrepot_testkit::clients::{Login, text};
use entrepot_testkit::server::{Node, run};
use serde_json::Value;

use crate::program;

/// What `scripts/make-fixture` uploaded in part: the number of each KiB, filled up.
fn big() -> Vec<u8> {
    let mut content = Vec::with_capacity(24 << 20);
    for number in 0..24 << 10 {
        content.extend(format!("{number:023}\n").bytes());
        content.extend([b'.'; 1000]);
    }
    content
}

fn fixtures() -> Result<Vec<PathBuf>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures");
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join("data.tar.gz").exists())
        .collect();
    found.sort();
    ensure!(!found.is_empty(), "there is no fixture in {folder}");
    Ok(found)
}

#[test]
fn every_kept_data_folder_is_opened_and_carried_on() -> Result<()> {
    for fixture in fixtures()? {
        carries_on(&fixture).with_context(|| format!("fixture {}", fixture.display()))?;
    }
    Ok(())
}

fn carries_on(fixture: &Path) -> Result<()> {
    let mut node = Node::without_home(program())?;
    run(Command::new("tar")
        .arg("-xzf")
        .arg(fixture.join("data.tar.gz"))
        .arg("-C")
        .arg(node.scratch()))?;
    let facts: Value = serde_json::from_slice(&std::fs::read(fixture.join("facts.json"))?)?;
    let key = node.scratch().join("client.key");
    run(Command::new("install").args(["-m", "600"]).arg(fixture.join("client.key")).arg(&key))?;
    let password = facts["password"].as_str().context("a password")?.to_owned();
    let login = Login { account: "acme".to_owned(), password, key };
    node.cli(&["migrate"])?;
    let inbox = node.scratch().join("inbox");
    for (endpoint, folder) in [("files", &node.files()), ("partner", &inbox)] {
        let path = format!("target.directory.path={}", text(folder)?);
        node.cli(&["endpoint", "change", endpoint, &path])?;
    }
    node.start()?;
    let events = node.json(&["event", "list", "--limit", "100000"])?;
    let events = events.as_array().context("events")?.len();
    ensure!(events as u64 >= facts["events"].as_u64().context("a number")?, "{events} events");
    // The upload goes on where it was cut: not all of it is sent again.
    let (local, big) = (node.scratch().join("big"), big());
    std::fs::write(&local, &big)?;
    login.sftp_batch(&node, &format!("reput {} big\n", text(&local)?))?;
    ensure!(std::fs::read(login.on_disk(&node, "big"))? == big, "the resumed file is another one");
    let closed = node.until("the end of the session", || {
        let closed = node.events("session.closed")?;
        let sent = |event: &Value| event["bytes_in"].as_u64().filter(|bytes| *bytes > 11 << 20);
        Ok(closed.iter().rev().find_map(sent))
    })?;
    ensure!(closed < 18 << 20, "{closed} bytes were sent");
    // The job that never got anywhere, and one for the upload.
    for name in ["orders", "big"] {
        node.until("the deliveries", || Ok(inbox.join(name).exists().then_some(())))?;
    }
    assert_eq!(std::fs::read(inbox.join("orders"))?, b"ten boxes");
    node.until("the jobs to end", || Ok((node.events("job.done")?.len() == 2).then_some(())))?;
    node.stop()?;
    ensure!(node.cli(&["journal", "verify"])?.contains("they agree"));
    Ok(())
}
