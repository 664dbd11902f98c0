//! Real clients move real files in both directions.

pub(crate) mod ftp;
mod ftp_commons;
mod ftp_hostile;
mod ftp_login;
mod ftp_matrix;
mod ftp_rules;
mod ftp_uploads;
mod https;
mod links;
mod matrix;
mod modes;
mod orders;
mod rekey;
mod sshfs;
mod surface;
mod tus;
mod webdav;

use std::process::Stdio;

use anyhow::{Result, ensure};
use entrepot_testkit::clients::{local_file, noise, text};
use entrepot_testkit::server::Node;

use crate::node_with;

#[test]
fn openssh_sftp_moves_files_both_ways() -> Result<()> {
    let (node, login) = node_with("acme")?;
    let content = noise(1, 3_000_001);
    let local = local_file(&node, "a.bin", &content)?;
    let back = node.scratch().join("back.bin");
    login.sftp_batch(
        &node,
        &format!(
            "mkdir in\nput {} in/a.bin\nls -l in\nrename in/a.bin in/b.bin\nget in/b.bin {}\n\
             put {} \"in/with space é.txt\"\nrm \"in/with space é.txt\"\n",
            text(&local)?,
            text(&back)?,
            text(&local)?
        ),
    )?;
    assert_eq!(std::fs::read(&back)?, content);
    assert_eq!(std::fs::read(login.on_disk(&node, "in/b.bin"))?, content);
    ensure!(!login.on_disk(&node, "in/a.bin").exists());
    let digest = blake3_of(&node, "/in/a.bin")?;
    assert_eq!(digest, blake3::hash(&content).to_hex().to_string());
    Ok(())
}

/// The digest that the audit log gives for an upload.
fn blake3_of(node: &Node, path: &str) -> Result<String> {
    node.until("the event of the upload", || {
        let events = node.events("file.uploaded")?;
        let event = events.iter().find(|event| event["path"] == path);
        Ok(event.and_then(|event| event["blake3"].as_str().map(str::to_owned)))
    })
}

#[test]
fn openssh_sftp_resumes_uploads_and_downloads() -> Result<()> {
    let (node, login) = node_with("acme")?;
    let content = noise(2, 2_000_000);
    let whole = local_file(&node, "whole.bin", &content)?;
    let first = local_file(&node, "first.bin", content.get(..700_000).unwrap_or_default())?;
    let down = local_file(&node, "down.bin", content.get(..100_000).unwrap_or_default())?;
    let batch = format!(
        "put {} big.bin\nreput {} big.bin\nreget big.bin {}\n",
        text(&first)?,
        text(&whole)?,
        text(&down)?
    );
    login.sftp_batch(&node, &batch)?;
    assert_eq!(std::fs::read(login.on_disk(&node, "big.bin"))?, content);
    assert_eq!(std::fs::read(&down)?, content);
    Ok(())
}

#[test]
fn a_cut_upload_is_invisible_and_resumes() -> Result<()> {
    let (node, login) = node_with("acme")?;
    let content = noise(3, 64 << 20);
    let local = local_file(&node, "big.bin", &content)?;
    let mut child = login.sftp(&node)?.spawn()?;
    {
        use std::io::Write;
        let mut input = child.stdin.take().expect("piped");
        writeln!(input, "put {} big.bin", text(&local)?)?;
    }
    let staging = node.files().join(".entrepot-staging");
    node.until("some bytes to arrive", || {
        let mut entries = std::fs::read_dir(&staging).into_iter().flatten().flatten();
        Ok(entries.any(|e| e.metadata().is_ok_and(|m| m.len() > 1 << 20)).then_some(()))
    })?;
    child.kill()?;
    child.wait()?;
    ensure!(!login.on_disk(&node, "big.bin").exists(), "a cut upload is visible");
    let listed = login.sftp_batch(&node, "ls -1\n")?;
    ensure!(!String::from_utf8_lossy(&listed.stdout).contains("big.bin"), "a cut upload is listed");
    node.until("the interruption in the audit log", || {
        Ok((!node.events("file.interrupted")?.is_empty()).then_some(()))
    })?;
    login.sftp_batch(&node, &format!("reput {} big.bin\n", text(&local)?))?;
    ensure!(std::fs::read(login.on_disk(&node, "big.bin"))? == content, "the resumed file differs");
    Ok(())
}

#[test]
fn lftp_mirrors_a_folder_both_ways() -> Result<()> {
    let (node, login) = node_with("acme")?;
    let from = node.scratch().join("tree");
    for (path, size) in [("a.txt", 10), ("b/c.bin", 500_000), ("b/d/e.bin", 40_000), ("f", 0)] {
        let file = from.join(path);
        std::fs::create_dir_all(file.parent().expect("a parent"))?;
        std::fs::write(&file, noise(size as u64, size))?;
    }
    let to = node.scratch().join("tree2");
    login.lftp(&node, &format!("mirror -R {} up; mirror up {}", text(&from)?, text(&to)?))?;
    for path in ["a.txt", "b/c.bin", "b/d/e.bin", "f"] {
        let want = std::fs::read(from.join(path))?;
        ensure!(std::fs::read(to.join(path))? == want, "{path} came back different");
        ensure!(std::fs::read(login.on_disk(&node, "up").join(path))? == want, "{path} on disk");
    }
    Ok(())
}

#[test]
fn rclone_copies_and_checks() -> Result<()> {
    let (node, login) = node_with("acme")?;
    let from = node.scratch().join("tree");
    std::fs::create_dir_all(from.join("deep"))?;
    std::fs::write(from.join("one.bin"), noise(7, 1_234_567))?;
    std::fs::write(from.join("deep/two.bin"), noise(8, 99))?;
    let to = node.scratch().join("tree2");
    login.rclone(&node, &["copy", text(&from)?, "node:copied"])?;
    login.rclone(&node, &["copy", "node:copied", text(&to)?])?;
    login.rclone(&node, &["check", "--download", text(&from)?, "node:copied"])?;
    ensure!(std::fs::read(to.join("one.bin"))? == noise(7, 1_234_567));
    ensure!(std::fs::read(to.join("deep/two.bin"))? == noise(8, 99));
    login.rclone(&node, &["moveto", "node:copied/one.bin", "node:copied/moved.bin"])?;
    login.rclone(&node, &["purge", "node:copied"])?;
    ensure!(!login.on_disk(&node, "copied").exists());
    Ok(())
}

#[test]
fn times_of_an_upload_are_kept() -> Result<()> {
    let (node, login) = node_with("acme")?;
    let local = local_file(&node, "old.bin", b"old")?;
    let when = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    std::fs::File::options().write(true).open(&local)?.set_modified(when)?;
    login.sftp_batch(&node, &format!("put -p {} old.bin\n", text(&local)?))?;
    let modified = std::fs::metadata(login.on_disk(&node, "old.bin"))?.modified()?;
    assert_eq!(modified, when);
    Ok(())
}

#[test]
fn shells_and_forwarding_are_refused_with_a_sentence() -> Result<()> {
    let (node, login) = node_with("acme")?;
    let output = login.ssh(&node)?.arg("rm -rf /").output()?;
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(said.contains("Entrepot offers"), "it said {said:?}");
    let mut forward = login.ssh(&node)?;
    let output = forward.args(["-W", "127.0.0.1:9"]).stdin(Stdio::null()).output()?;
    ensure!(!output.status.success(), "{output:?}");
    let event = node
        .until("the refusal in the audit log", || Ok(node.events("forwarding.refused")?.pop()))?;
    assert_eq!((&event["account"], &event["what"]), (&"acme".into(), &"direct-tcpip".into()));
    ensure!(event["session"].is_string() && event["address"] == "127.0.0.1", "{event}");
    Ok(())
}
