//! A backup that is made while files arrive becomes a node again on an empty machine; what of the
//! published files is missing, changed or surplus is named.

use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use entrepot_testkit::clients::{Login, local_file, noise, text};
use entrepot_testkit::postgres::Postgres;
use entrepot_testkit::server::{Node, run};
use entrepot_testkit::{is_root, not_run};
use serde_json::Value;

use crate::{node_with, program};

/// Uploads files of these numbers one after the other, each with its own content.
fn upload(node: &Node, login: &Login, numbers: std::ops::Range<u64>) -> Result<()> {
    let mut batch = String::new();
    for number in numbers {
        let local = local_file(node, &format!("local-{number}"), &noise(number, 5_000))?;
        batch += &format!("put {} file-{number}\n", text(&local)?);
    }
    login.sftp_batch(node, &batch).map(drop)
}

fn manifest(backup: &Path) -> Result<Value> {
    Ok(serde_json::from_slice(&std::fs::read(backup.join("manifest.json"))?)?)
}

/// The paths that the backup lists.
fn listed(backup: &Path) -> Result<Vec<String>> {
    let list = std::fs::read_to_string(backup.join("files.jsonl"))?;
    let path = |line: &str| -> Result<String> {
        let line: Value = serde_json::from_str(line)?;
        Ok(line["path"].as_str().context("a path")?.to_owned())
    };
    list.lines().map(path).collect()
}

/// What `restore --check` names, sorted.
fn differences(node: &Node, backup: &Path) -> Result<Vec<String>> {
    let output = node.command(&["restore", "--check", text(backup)?]).output()?;
    let said = String::from_utf8(output.stdout)?;
    let mut lines: Vec<String> =
        said.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    lines.sort();
    let exit = output.status.code();
    let as_it_was = said.contains("are as they were");
    ensure!(exit == Some(if as_it_was { 0 } else { 6 }), "{exit:?}: {said}");
    Ok(lines)
}

/// A node made from a backup in a folder of its own.
fn restored(backup: &Path, options: &[&str]) -> Result<Node> {
    let node = Node::without_home(program())?;
    run(Command::new(program()).arg("restore").arg(backup).arg(node.home()).args(options))?;
    Ok(node)
}

#[test]
fn a_backup_made_under_load_becomes_a_node_again() -> Result<()> {
    let (mut node, login) = node_with("acme")?;
    upload(&node, &login, 0..20)?;
    let (first, second) = (node.scratch().join("first"), node.scratch().join("second"));
    // Uploads go on while the backup is made.
    std::thread::scope(|scope| -> Result<()> {
        let uploads = scope.spawn(|| upload(&node, &login, 20..120));
        let said = node.cli(&["backup", text(&first)?])?;
        ensure!(said.contains("not in the backup: keep it"), "{said}");
        uploads.join().expect("no panic")
    })?;
    let made = manifest(&first)?;
    ensure!(made["journal"]["intact"] == true && made["files"]["unreadable"] == 0, "{made}");
    ensure!(!first.join("master.key").exists());
    let early = listed(&first)?;
    ensure!(early.len() >= 20 && early.len() <= 120, "{early:?}");
    node.cli(&["backup", text(&second)?, "--with-master-key"])?;
    assert_eq!(listed(&second)?.len(), 120);
    let events = node.until("both backups to be in the audit log", || {
        let events = node.events("backup.made")?;
        Ok((events.len() >= 2).then_some(events))
    })?;
    assert_eq!((events.len(), &events[1]["with_master_key"]), (2, &Value::from(true)));
    // The machine is lost; its published files were kept elsewhere.
    let key = node.scratch().join("kept.key");
    std::fs::copy(node.home().join("data/master.key"), &key)?;
    node.kill()?;
    let kept = node.scratch().join("kept");
    std::fs::rename(node.files(), &kept)?;
    std::fs::remove_dir_all(node.home())?;
    for (backup, options) in [(&first, vec!["--master-key", text(&key)?]), (&second, vec![])] {
        goes_on(restored(backup, &options)?, &login, &kept)?;
    }
    Ok(())
}

/// The restored node serves: accounts, files, events and a whole journal are there.
fn goes_on(mut node: Node, login: &Login, kept: &Path) -> Result<()> {
    run(Command::new("cp").arg("-a").arg(kept).arg(node.files()))?;
    let path = format!("target.directory.path={}", text(&node.files())?);
    node.cli(&["endpoint", "change", "files", &path])?;
    node.start()?;
    let list = login.sftp_batch(&node, "ls -1\n")?;
    let list = String::from_utf8(list.stdout)?;
    assert_eq!(list.matches("file-").count(), 120, "{list}");
    upload(&node, login, 200..203)?;
    node.until("old and new uploads to be in the audit log", || {
        let events = node.events("file.uploaded")?;
        let of = |name: &str| events.iter().any(|event| event["path"] == name);
        Ok((of("/file-0") && of("/file-19") && of("/file-202")).then_some(()))
    })?;
    node.stop()?;
    ensure!(node.cli(&["journal", "verify"])?.contains("they agree"));
    Ok(())
}

#[test]
fn missing_changed_and_surplus_files_are_named() -> Result<()> {
    let (mut node, login) = node_with("acme")?;
    upload(&node, &login, 0..5)?;
    login.sftp_batch(&node, "mkdir deep\nrename file-4 deep/file-4\n")?;
    let (backup, sizes) = (node.scratch().join("backup"), node.scratch().join("sizes"));
    node.cli(&["backup", text(&backup)?])?;
    node.cli(&["backup", text(&sizes)?, "--no-digests"])?;
    assert_eq!(differences(&node, &backup)?.len(), 1);
    let files = login.on_disk(&node, "");
    std::fs::remove_file(files.join("deep/file-4"))?;
    std::fs::write(files.join("file-1"), noise(77, 5_000))?;
    std::fs::write(files.join("file-2"), "shorter")?;
    std::fs::write(files.join("deep/new"), "new")?;
    let expected = [
        "changed main/files acme/file-1",
        "changed main/files acme/file-2",
        "missing main/files acme/deep/file-4",
        "surplus main/files acme/deep/new",
    ];
    assert_eq!(differences(&node, &backup)?, expected);
    assert_eq!(differences(&node, &sizes)?, expected[1..]);
    node.stop()?;
    assert_eq!(differences(&node, &backup)?, expected);
    // Of a stopped node too.
    let stopped = node.scratch().join("stopped");
    node.cli(&["backup", text(&stopped)?])?;
    assert_eq!(differences(&node, &stopped)?.len(), 1);
    node.start()?;
    node.until("the third backup to be in the audit log", || {
        Ok((node.events("backup.made")?.len() == 3).then_some(()))
    })
}

/// Restoring must fail with this code and leave no node.
fn is_refused(backup: &Path, options: &[&str], code: &str) -> Result<()> {
    let node = Node::without_home(program())?;
    refused_in(&node, backup, options, code)?;
    ensure!(!node.home().join("data").exists() && !node.home().join("entrepot.toml").exists());
    Ok(())
}

fn refused_in(node: &Node, backup: &Path, options: &[&str], code: &str) -> Result<()> {
    let mut restore = Command::new(program());
    let output = restore.arg("restore").arg(backup).arg(node.home()).args(options).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(4) && said.contains(code), "{}: {said}", output.status);
    Ok(())
}

#[test]
fn a_damaged_backup_or_a_used_place_is_refused() -> Result<()> {
    let (mut node, login) = node_with("acme")?;
    upload(&node, &login, 0..2)?;
    let backup = node.scratch().join("backup");
    node.cli(&["backup", text(&backup)?, "--with-master-key"])?;
    let again = node.command(&["backup", text(&backup)?]).output()?;
    ensure!(String::from_utf8_lossy(&again.stderr).contains("EP0295"));
    node.stop()?;
    refused_in(&node, &backup, &[], "EP0295")?;
    let made = manifest(&backup)?;
    let parts = made["parts"].as_array().context("parts")?;
    for part in parts {
        let path: PathBuf = backup.join(part["path"].as_str().context("a path")?);
        let good = std::fs::read(&path)?;
        let mut bad = good.clone();
        match bad.first_mut() {
            Some(byte) => *byte ^= 1,
            None => bad.push(0),
        }
        std::fs::write(&path, &bad)?;
        is_refused(&backup, &[], "EP0293")
            .with_context(|| format!("{} changed", path.display()))?;
        std::fs::write(&path, &good)?;
    }
    let other = Node::new(program(), None)?;
    let key = other.home().join("data/master.key");
    is_refused(&backup, &["--master-key", text(&key)?], "EP0298")?;
    std::fs::rename(backup.join("manifest.json"), backup.join("kept"))?;
    is_refused(&backup, &[], "EP0293")?;
    std::fs::rename(backup.join("kept"), backup.join("manifest.json"))?;
    restored(&backup, &[])?.start()
}

#[test]
fn with_postgresql_the_rest_of_a_node_is_restored() -> Result<()> {
    let url = Postgres::shared().create_database()?;
    let mut node = Node::new(program(), Some(&url))?;
    let login = Login::create(&node, "acme")?;
    node.start()?;
    upload(&node, &login, 0..3)?;
    let backup = node.scratch().join("backup");
    let said = node.cli(&["backup", text(&backup)?, "--with-master-key"])?;
    ensure!(said.contains("use pg_dump"), "{said}");
    ensure!(backup.join("configuration/main/account.yaml").exists());
    ensure!(!backup.join("entrepot.db").exists());
    upload(&node, &login, 3..6)?;
    node.stop()?;
    // The database has more of the journal than the backup: that is recorded, and numbers that
    // were used are not used again.
    let mut restored = restored(&backup, &[])?;
    run(Command::new("cp").arg("-a").arg(node.files()).arg(restored.files()))?;
    let path = format!("target.directory.path={}", text(&restored.files())?);
    restored.cli(&["endpoint", "change", "files", &path])?;
    restored.start()?;
    upload(&restored, &login, 6..9)?;
    restored.until("all uploads to be in the audit log", || {
        Ok((restored.events("file.uploaded")?.len() == 9).then_some(()))
    })?;
    ensure!(!restored.events("journal.altered")?.is_empty(), "the cut journal is recorded");
    restored.stop()
}

#[test]
fn root_restores_for_the_owner_of_an_empty_data_folder() -> Result<()> {
    const NOBODY: u32 = 65_534;
    if !is_root() {
        return not_run("a restore by root", "only root can give files to another user");
    }
    let (mut node, login) = node_with("acme")?;
    upload(&node, &login, 0..1)?;
    let backup = node.scratch().join("backup");
    node.cli(&["backup", text(&backup)?, "--with-master-key"])?;
    node.stop()?;
    let place = Node::without_home(program())?;
    let data = place.home().join("elsewhere");
    std::fs::create_dir_all(&data)?;
    chown(&data, Some(NOBODY), Some(NOBODY))?;
    let mut restore = Command::new(program());
    run(restore.arg("restore").arg(&backup).arg(place.home()).arg("--data").arg(&data))?;
    let mut folders = vec![data.clone()];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            let meta = std::fs::metadata(&path)?;
            ensure!(meta.uid() == NOBODY && meta.mode() & 0o077 == 0, "{}", path.display());
            files += 1;
            if meta.is_dir() {
                folders.push(path);
            }
        }
    }
    ensure!(files > 4, "{files} files");
    let process_file = std::fs::metadata(place.home().join("entrepot.toml"))?;
    let (uid, gid) = (process_file.uid(), process_file.gid());
    assert_eq!((uid, gid, process_file.mode() & 0o777), (0, NOBODY, 0o640));
    Ok(())
}
