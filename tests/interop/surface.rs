//! Rows of the matrix beside plain SFTP: SCP (`scp -O`, `pscp -scp`, curl's `scp:`),
//! digests (`check-file` and hash commands), and the preset `compatible` for curl's libssh2 and for
//! JSch, which know neither GCM nor encrypt-then-MAC.

use anyhow::{Context, Result, ensure};
use entrepot_testkit::clients::matrix::{Client, Did, Seat, Task};
use entrepot_testkit::clients::{Login, libraries, noise, openssh, putty, python, tools};
use entrepot_testkit::server::Node;

use super::matrix;
use crate::{node_with, program};

/// A node whose listener offers what older clients need.
fn compatible(account: &str) -> Result<(Node, Login)> {
    let mut node = Node::new(program(), None)?;
    let login = Login::create(&node, account)?;
    node.cli(&["policy", "create", "older", "algorithms=compatible"])?;
    node.cli(&["listener", "change", "sftp", "policy=older"])?;
    node.start()?;
    Ok((node, login))
}

#[test]
fn openssh_scp_in_its_old_mode() -> Result<()> {
    matrix::check(&openssh::Scp { old: true })
}

#[test]
fn pscp_in_its_old_mode() -> Result<()> {
    matrix::check(&putty::Pscp { old: true })
}

#[test]
fn curl_over_sftp() -> Result<()> {
    let (node, login) = compatible("acme")?;
    matrix::check_on(&tools::Curl { scp: false }, Seat { node: &node, login: &login })
}

#[test]
fn curl_over_scp() -> Result<()> {
    let (node, login) = compatible("acme")?;
    matrix::check_on(&tools::Curl { scp: true }, Seat { node: &node, login: &login })
}

#[test]
fn jsch() -> Result<()> {
    let (node, login) = compatible("acme")?;
    matrix::check_on(&libraries::JSCH, Seat { node: &node, login: &login })
}

/// What a client prints as the digest of a file is one the file has.
fn digest(client: &dyn Client) -> Result<()> {
    let (node, login) = node_with("acme")?;
    let content = noise(21, 1_000_003);
    std::fs::create_dir_all(login.on_disk(&node, ""))?;
    std::fs::write(login.on_disk(&node, "file"), &content)?;
    let seat = Seat { node: &node, login: &login };
    let Did::Done(said) = client.run(seat, &Task::Hash { remote: "file" })? else {
        anyhow::bail!("{} asks for no digest", client.name());
    };
    let said = said.split_whitespace().next().context("nothing was printed")?;
    let program = if said.len() == 40 { "sha1sum" } else { "sha256sum" };
    let want = std::process::Command::new(program).arg(login.on_disk(&node, "file")).output()?;
    ensure!(String::from_utf8(want.stdout)?.starts_with(said), "{said} is not its digest");
    Ok(())
}

#[test]
fn rclone_compares_digests() -> Result<()> {
    digest(&tools::Rclone)
}

#[test]
fn paramiko_asks_for_a_digest() -> Result<()> {
    digest(&python::PARAMIKO)
}
