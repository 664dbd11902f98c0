//! New keys in the middle of transfers, as often as clients can ask for them; and what
//! `ssh-audit` says of the algorithms that are offered.

use anyhow::{Result, ensure};
use entrepot_testkit::clients::matrix::Seat;
use entrepot_testkit::clients::putty::Psftp;
use entrepot_testkit::clients::{local_file, noise, python, text};
use entrepot_testkit::server::feed;

use crate::node_with;

/// Bytes each way; keys change after each MiB.
const SIZE: usize = 64 << 20;

#[test]
fn openssh_rekeys_both_ways() -> Result<()> {
    let (node, login) = node_with("acme")?;
    let content = noise(11, SIZE);
    let (up, down) = (local_file(&node, "up", &content)?, node.scratch().join("down"));
    let mut sftp = std::process::Command::new("sftp");
    sftp.args(login.ssh_options(&node)?).args(["-v", "-oRekeyLimit=1M", "-b", "-"]);
    sftp.args(["-P", &node.sftp_port()?.to_string(), &format!("{}@127.0.0.1", login.account)]);
    let batch = format!("put {} big\nget big {}\n", text(&up)?, text(&down)?);
    let output = feed(&mut sftp, &batch)?;
    ensure!(std::fs::read(&down)? == content, "it came back different");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let rekeys = said.matches("SSH2_MSG_NEWKEYS received").count();
    ensure!(rekeys > 30, "keys changed {rekeys} times");
    Ok(())
}

#[test]
fn psftp_rekeys_both_ways() -> Result<()> {
    let (node, login) = node_with("acme")?;
    let content = noise(12, SIZE);
    let (up, down) = (local_file(&node, "up", &content)?, node.scratch().join("down"));
    let batch = format!("put {} big\nget big {}\n", text(&up)?, text(&down)?);
    let seat = Seat { node: &node, login: &login };
    Psftp { rekeys: true }.batch(seat, &batch)?;
    ensure!(std::fs::read(&down)? == content, "it came back different");
    Ok(())
}

#[test]
fn paramiko_rekeys_both_ways() -> Result<()> {
    let (node, login) = node_with("acme")?;
    let content = noise(13, SIZE);
    let (up, down) = (local_file(&node, "up", &content)?, node.scratch().join("down"));
    let seat = Seat { node: &node, login: &login };
    let said = python::PARAMIKO.call(seat, &["rekey", text(&up)?, "big", text(&down)?])?;
    ensure!(std::fs::read(&down)? == content, "it came back different");
    let rekeys: u32 = said.trim().parse()?;
    ensure!(rekeys > 30, "keys changed {rekeys} times");
    Ok(())
}

#[test]
fn ssh_audit_finds_no_failure() -> Result<()> {
    let (node, _) = node_with("acme")?;
    let mut audit = std::process::Command::new(python::tool("ssh-audit")?);
    audit.args(["--skip-rate-test", "--no-colors", "-p", &node.sftp_port()?.to_string()]);
    // Its exit code is 2 for warnings, 3 for failures.
    let output = audit.arg("127.0.0.1").output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(said.contains("(kex) ") && said.contains("(mac) "), "it graded nothing:\n{said}");
    let failures: Vec<&str> = said.lines().filter(|line| line.contains("[fail]")).collect();
    ensure!(failures.is_empty() && output.status.code() != Some(3), "{failures:#?}\n{said}");
    ensure!(said.contains("kex-strict-s-v00@openssh.com"), "strict key exchange is off:\n{said}");
    Ok(())
}
