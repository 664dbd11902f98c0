//! A stopped installation is changed by the server and by `entrepot migrate` alone: every other
//! command leaves old tables and a torn journal as they are, and root leaves no file of its own.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use entrepot_testkit::clients::{local_file, text};
use entrepot_testkit::server::{Node, run};
use entrepot_testkit::{is_root, not_run};

use crate::node_with;

/// Makes the database anew as a program made it that did not know the last step yet.
const WITHOUT_THE_LAST_STEP: &str = "import glob, os, re, sqlite3, sys
path, folder = sys.argv[1:]
before = sqlite3.connect(path)
table = before.execute(
    \"SELECT sql FROM sqlite_master WHERE name = 'refinery_schema_history'\").fetchone()[0]
steps = before.execute('SELECT * FROM refinery_schema_history ORDER BY version').fetchall()[:-1]
before.close()
for end in ['', '-wal', '-shm']:
    if os.path.exists(path + end):
        os.remove(path + end)
after = sqlite3.connect(path)
for step in steps:
    files = glob.glob(f'{folder}/V{step[0]}__*.sql')
    file, = [file for file in files if not file.endswith('.postgres.sql')]
    after.executescript(open(file).read())
after.execute(table)
marks = ', '.join('?' * len(steps[0]))
after.executemany(f'INSERT INTO refinery_schema_history VALUES ({marks})', steps)
after.commit()
after.close()
os.chmod(path, 0o600)";

/// Every file below a folder with its content.
fn content(folder: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(content(&path)?);
        } else {
            let bytes = std::fs::read(&path)?;
            found.insert(path, bytes);
        }
    }
    Ok(found)
}

/// Runs a command that must end so, say this and change nothing below the data folder.
fn changes_nothing(node: &Node, command: &[&str], exit: i32, words: &str) -> Result<()> {
    let data = node.home().join("data");
    let before = content(&data)?;
    let output = node.command(command).output()?;
    let said = [&output.stdout[..], &output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    ensure!(output.status.code() == Some(exit), "{command:?}: {}: {said}", output.status);
    ensure!(said.contains(words), "{command:?} does not say {words:?}: {said}");
    let after = content(&data)?;
    let names = |files: &BTreeMap<PathBuf, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
    ensure!(names(&before) == names(&after), "{command:?} made or removed files");
    for (path, bytes) in before {
        ensure!(after.get(&path) == Some(&bytes), "{command:?} changed {}", path.display());
    }
    Ok(())
}

/// A node that stopped in good order behind one upload.
fn stopped() -> Result<Node> {
    let (mut node, login) = node_with("acme")?;
    let local = local_file(&node, "orders", b"ten boxes")?;
    login.sftp_batch(&node, &format!("put {} orders\n", text(&local)?))?;
    node.stop()?;
    Ok(node)
}

#[test]
fn only_migrate_and_the_server_change_old_tables() -> Result<()> {
    let mut node = stopped()?;
    let database = node.home().join("data/entrepot.db");
    let steps = concat!(env!("CARGO_MANIFEST_DIR"), "/../db/migrations");
    run(Command::new("python3").args(["-c", WITHOUT_THE_LAST_STEP]).arg(&database).arg(steps))?;
    for command in
        [&["account", "list"][..], &["events"], &["journal", "verify"], &["receipt", "key"]]
    {
        changes_nothing(&node, command, 7, "EP0290")?;
    }
    changes_nothing(&node, &["doctor"], 6, "entrepot migrate")?;
    changes_nothing(&node, &["migrate", "--check"], 7, "would be moved from version")?;
    let said = node.cli(&["migrate"])?;
    ensure!(said.contains("moved from version"), "{said}");
    ensure!(node.cli(&["migrate", "--check"])?.contains("nothing to do"));
    node.cli(&["account", "list"])?;
    node.start()?;
    node.stop()
}

#[test]
fn only_migrate_and_the_server_mend_a_torn_journal() -> Result<()> {
    let mut node = stopped()?;
    tear(&node)?;
    for command in [&["account", "list"][..], &["events"], &["account", "delete", "acme"]] {
        changes_nothing(&node, command, 7, "EP0291")?;
    }
    changes_nothing(&node, &["doctor"], 0, "entrepot migrate")?;
    changes_nothing(&node, &["journal", "verify"], 6, "EP0206")?;
    changes_nothing(&node, &["migrate", "--check"], 7, "torn bytes")?;
    ensure!(node.cli(&["migrate"])?.contains("5 torn bytes"), "they are set aside");
    ensure!(node.cli(&["account", "list"])?.contains("acme"));
    ensure!(node.cli(&["journal", "verify"])?.contains("they agree"));
    // The server does the same at its start.
    tear(&node)?;
    changes_nothing(&node, &["events"], 7, "EP0291")?;
    node.start()?;
    let refused = node.command(&["migrate"]).output()?;
    ensure!(String::from_utf8_lossy(&refused.stderr).contains("EP0603"), "a server runs");
    node.stop()?;
    let torn = std::fs::read_dir(node.home().join("data/journal/torn"))?;
    assert_eq!(torn.count(), 2);
    Ok(())
}

/// Writes behind the last record what a crash in the middle of a write leaves.
fn tear(node: &Node) -> Result<()> {
    let mut segments: Vec<PathBuf> = std::fs::read_dir(node.home().join("data/journal"))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|end| end == "journal"))
        .collect();
    segments.sort();
    let last = segments.pop().context("a segment")?;
    Ok(std::fs::OpenOptions::new().append(true).open(last)?.write_all(b"EPr1x")?)
}

/// Gives everything below a folder, and the folder, to a user.
fn give(folder: &Path, uid: u32) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            give(&path, uid)?;
        } else {
            chown(&path, Some(uid), Some(uid))?;
        }
    }
    Ok(chown(folder, Some(uid), Some(uid))?)
}

/// Owners of everything below a folder.
fn owners(folder: &Path, found: &mut Vec<(PathBuf, u32)>) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        found.push((path.clone(), std::fs::symlink_metadata(&path)?.uid()));
        if path.is_dir() {
            owners(&path, found)?;
        }
    }
    Ok(())
}

#[test]
fn root_leaves_no_file_of_its_own_in_the_data_of_another_user() -> Result<()> {
    const NOBODY: u32 = 65_534;
    if !is_root() {
        return not_run("commands of root", "only root can give files to another user");
    }
    let node = stopped()?;
    // A folder that no server has used yet.
    let extra = node.home().join("extra");
    std::fs::create_dir(&extra)?;
    let path = format!("target.directory.path={}", text(&extra)?);
    node.cli(&["endpoint", "create", "extra", &path])?;
    let backup = node.scratch().join("backup");
    node.cli(&["backup", text(&backup)?])?;
    std::fs::remove_dir(extra.join(".entrepot-staging"))?;
    tear(&node)?;
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(node.scratch(), open)?;
    give(&node.home(), NOBODY)?;
    for command in [&["account", "list"][..], &["account", "create", "second"]] {
        changes_nothing(&node, command, 1, "EP0292")?;
    }
    let mended = node.cli(&["migrate"])?;
    ensure!(mended.contains("5 torn bytes"), "{mended}");
    for command in [&["doctor"][..], &["journal", "verify"]] {
        node.cli(command)?;
    }
    node.cli(&["restore", "--check", text(&backup)?])?;
    ensure!(extra.join(".entrepot-staging").exists());
    let mut found = Vec::new();
    owners(&node.home(), &mut found)?;
    ensure!(found.len() > 5, "{found:?}");
    for (path, uid) in found {
        ensure!(uid == NOBODY, "{} belongs to {uid}", path.display());
    }
    Ok(())
}
