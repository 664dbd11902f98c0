//! Packet orders of clients that cannot be installed here, sent by paramiko packet by packet:
//! WinSCP's temporary names and its SETSTAT right behind CLOSE, FileZilla's sizes from listings,
//! JSch's strict order of answers, and what sshfs sends when an editor saves on a machine where
//! nothing can be mounted.

use std::time::{Duration, SystemTime};

use anyhow::{Result, ensure};
use entrepot_testkit::clients::matrix::Seat;
use entrepot_testkit::clients::{local_file, noise, python, text};
use entrepot_testkit::server::Node;

use crate::node_with;

/// The time that the orders set.
const OLD: Duration = Duration::from_secs(1_000_000_000);

#[test]
fn winscp_replaces_by_a_temporary_name() -> Result<()> {
    let (node, login) = node_with("acme")?;
    let seat = Seat { node: &node, login: &login };
    // The first time there is nothing to remove, and WinSCP does not care.
    for size in [1_000_003, 400_001] {
        let content = noise(size as u64, size);
        let local = local_file(&node, "a", &content)?;
        python::PARAMIKO.call(seat, &["order:winscp", text(&local)?, "x"])?;
        ensure!(std::fs::read(login.on_disk(&node, "x"))? == content, "{size}: it differs");
        let modified = std::fs::metadata(login.on_disk(&node, "x"))?.modified()?;
        ensure!(modified == SystemTime::UNIX_EPOCH + OLD, "{size}: its time");
        ensure!(!login.on_disk(&node, "x.filepart").exists(), "{size}: the part is left");
    }
    Ok(())
}

#[test]
fn winscp_sets_times_right_behind_close() -> Result<()> {
    let (node, login) = node_with("acme")?;
    let content = noise(1, 90_001);
    let local = local_file(&node, "a", &content)?;
    let seat = Seat { node: &node, login: &login };
    python::PARAMIKO.call(seat, &["order:winscp_small", text(&local)?, "x"])?;
    ensure!(std::fs::read(login.on_disk(&node, "x"))? == content, "it differs");
    let modified = std::fs::metadata(login.on_disk(&node, "x"))?.modified()?;
    ensure!(modified == SystemTime::UNIX_EPOCH + OLD, "its time");
    Ok(())
}

#[test]
fn winscp_goes_on_with_what_was_cut() -> Result<()> {
    let (node, login) = node_with("acme")?;
    let content = noise(2, 3_000_001);
    let local = local_file(&node, "a", &content)?;
    let seat = Seat { node: &node, login: &login };
    python::PARAMIKO.call(seat, &["order:winscp_cut", text(&local)?, "x"])?;
    ensure!(!login.on_disk(&node, "x.filepart").exists(), "a cut upload is visible");
    interrupted(&node)?;
    let said = python::PARAMIKO.call(seat, &["order:winscp_resume", text(&local)?, "x"])?;
    ensure!(said.trim().parse::<u64>()? == 1_500_000, "it went on at {said}");
    ensure!(std::fs::read(login.on_disk(&node, "x"))? == content, "it differs");
    Ok(())
}

fn interrupted(node: &Node) -> Result<()> {
    node.until("the interruption in the audit log", || {
        Ok((!node.events("file.interrupted")?.is_empty()).then_some(()))
    })
}

/// FileZilla reads from the listing alone how much there is, so the mount lists what was cut.
#[test]
fn filezilla_goes_on_with_what_was_cut_from_the_size_listed() -> Result<()> {
    let (node, login) = node_with("acme")?;
    node.cli(&["mount", "change", "acme-home", r#"options=["list-partials"]"#])?;
    let content = noise(4, 3_000_001);
    let local = local_file(&node, "a", &content)?;
    let seat = Seat { node: &node, login: &login };
    python::PARAMIKO.call(seat, &["order:cut", text(&local)?, "x"])?;
    ensure!(!login.on_disk(&node, "x").exists(), "a cut upload is visible");
    interrupted(&node)?;
    let said = python::PARAMIKO.call(seat, &["order:filezilla_resume", text(&local)?, "x"])?;
    ensure!(said.trim().parse::<u64>()? == 1_500_000, "it went on at {said}");
    ensure!(std::fs::read(login.on_disk(&node, "x"))? == content, "it differs");
    let modified = std::fs::metadata(login.on_disk(&node, "x"))?.modified()?;
    ensure!(modified == SystemTime::UNIX_EPOCH + OLD, "its time");
    Ok(())
}

#[test]
fn jsch_gets_its_answers_in_order() -> Result<()> {
    let (node, login) = node_with("acme")?;
    let local = local_file(&node, "a", &noise(3, 5_000_001))?;
    let seat = Seat { node: &node, login: &login };
    python::PARAMIKO.call(seat, &["order:jsch", text(&local)?, "x"])?;
    Ok(())
}

/// Saves with the order three times, over a longer file and over shorter ones.
fn sshfs_saves(order: &str) -> Result<()> {
    let (node, login) = node_with("acme")?;
    let seat = Seat { node: &node, login: &login };
    std::fs::create_dir_all(login.on_disk(&node, ""))?;
    std::fs::write(login.on_disk(&node, "doc"), noise(5, 90_001))?;
    for size in [70_001, 3, 200_003] {
        let content = noise(size as u64, size);
        let local = local_file(&node, "new", &content)?;
        python::PARAMIKO.call(seat, &[&format!("order:{order}"), text(&local)?, "doc"])?;
        ensure!(std::fs::read(login.on_disk(&node, "doc"))? == content, "{size}: it differs");
        let names = std::fs::read_dir(login.on_disk(&node, ""))?.count();
        ensure!(names == 1, "{size}: {names} files are left");
    }
    Ok(())
}

#[test]
fn sshfs_renames_over_right_behind_close() -> Result<()> {
    sshfs_saves("sshfs_editor")
}

#[test]
fn sshfs_renames_a_file_that_it_has_not_closed() -> Result<()> {
    sshfs_saves("sshfs_late_close")
}

#[test]
fn sshfs_renames_the_old_file_away() -> Result<()> {
    sshfs_saves("sshfs_vim")
}

#[test]
fn sshfs_writes_in_place_and_cuts() -> Result<()> {
    sshfs_saves("sshfs_in_place")
}
