//! Symbolic links of a mount that offers them, by clients that make, read, list and follow them, in
//! both orders of SYMLINK.

use std::path::Path;

use anyhow::{Result, ensure};
use entrepot_testkit::clients::libraries::{self, Library};
use entrepot_testkit::clients::matrix::Seat;
use entrepot_testkit::clients::{Login, local_file, noise, python, text};
use entrepot_testkit::server::{Node, run};

use crate::program;

/// A node whose account may link in its home, where `in/f` lies.
fn linking(content: &[u8]) -> Result<(Node, Login)> {
    let mut node = Node::new(program(), None)?;
    let login = Login::create(&node, "acme")?;
    node.cli(&["mount", "change", "acme-home", r#"options=["symlinks"]"#])?;
    node.start()?;
    std::fs::create_dir_all(login.on_disk(&node, "in"))?;
    std::fs::write(login.on_disk(&node, "in/f"), content)?;
    Ok((node, login))
}

fn said(path: &Path) -> Result<String> {
    Ok(text(&std::fs::read_link(path)?)?.to_owned())
}

#[test]
fn openssh_makes_lists_and_goes_through_links() -> Result<()> {
    let (content, newer) = (noise(31, 300_001), noise(32, 200_003));
    let (node, login) = linking(&content)?;
    let (up, back) = (local_file(&node, "up", &newer)?, node.scratch().join("back"));
    std::os::unix::fs::symlink("/etc/passwd", login.on_disk(&node, "planted"))?;
    let batch = format!(
        "ln -s in/f l\nln -s /in dir\nls -l\nget l {back}\nput {up} dir/sent\nput {up} l\n\
         rename l moved\nls -l dir/\nrm dir\nrm planted\n-ln -s ../../etc/passwd escape\n",
        back = text(&back)?,
        up = text(&up)?
    );
    let output = login.sftp_batch(&node, &batch)?;
    let told = String::from_utf8_lossy(&output.stdout);
    for (name, kind) in [("l", 'l'), ("dir", 'l'), ("planted", 'l'), ("in", 'd')] {
        let of_name = |line: &&str| line.ends_with(&format!(" {name}"));
        let line = told.lines().filter(|line| !line.starts_with("sftp>")).find(of_name);
        ensure!(line.is_some_and(|line| line.starts_with(kind)), "'{name}': {told}");
    }
    ensure!(told.contains("sent"), "a directory is listed through a link: {told}");
    assert_eq!(std::fs::read(&back)?, content);
    assert_eq!(std::fs::read(login.on_disk(&node, "in/sent"))?, newer);
    assert_eq!(std::fs::read(login.on_disk(&node, "in/f"))?, newer);
    assert_eq!(said(&login.on_disk(&node, "moved"))?, "in/f");
    for gone in ["l", "dir", "planted", "escape"] {
        ensure!(login.on_disk(&node, gone).symlink_metadata().is_err(), "'{gone}' is there");
    }
    ensure!(Path::new("/etc/passwd").exists());
    let refusal = String::from_utf8_lossy(&output.stderr);
    ensure!(refusal.contains("a link may only lead"), "the refusal has no reason: {refusal}");
    // The audit log says who made which link, and knows the file by its own name.
    node.until("the events", || {
        let (links, files) = (node.events("link.created")?, node.events("file.uploaded")?);
        let made = links.iter().any(|link| {
            link["account"] == "acme" && link["path"] == "/dir" && link["target"] == "/in"
        });
        let sent = |path: &str| files.iter().any(|file| file["path"] == path);
        Ok((made && sent("/in/f") && sent("/in/sent")).then_some(()))
    })
}

/// The target is what the caller of the library calls so, whatever it puts first on the wire.
fn library(library: &Library) -> Result<()> {
    let (node, login) = linking(&noise(33, 100_000))?;
    let seat = Seat { node: &node, login: &login };
    library.call(seat, &["symlink", "in/f", "l"])?;
    library.call(seat, &["symlink", "/in/f", "in/near"])?;
    assert_eq!(said(&login.on_disk(&node, "l"))?, "in/f");
    assert_eq!(said(&login.on_disk(&node, "in/near"))?, "f");
    assert_eq!(library.call(seat, &["readlink", "l"])?.trim(), "in/f");
    // asyncssh gets a link as a link, so it puts: the file has other bytes then, the link stays.
    let newer = noise(36, 50_000);
    library.call(seat, &["put", text(&local_file(&node, "newer", &newer)?)?, "l"])?;
    assert_eq!(std::fs::read(login.on_disk(&node, "in/f"))?, newer);
    assert_eq!(said(&login.on_disk(&node, "l"))?, "in/f");
    let refused = library.call(seat, &["symlink", "../../etc/passwd", "escape"]);
    ensure!(refused.is_err(), "a link to the outside was made");
    Ok(())
}

#[test]
fn paramiko_sends_the_target_first() -> Result<()> {
    library(&python::PARAMIKO)
}

#[test]
fn asyncssh_sends_the_link_first() -> Result<()> {
    library(&python::ASYNCSSH)
}

#[test]
fn pkg_sftp_sends_the_target_first() -> Result<()> {
    library(&libraries::PKG_SFTP)
}

#[test]
fn libssh_sends_the_link_first() -> Result<()> {
    library(&libraries::LIBSSH)
}

#[test]
fn ssh2_sends_the_link_first() -> Result<()> {
    library(&libraries::SSH2)
}

#[test]
fn phpseclib_sends_the_link_first() -> Result<()> {
    library(&libraries::PHPSECLIB)
}

#[test]
fn rclone_and_lftp_see_and_follow_links() -> Result<()> {
    let content = noise(34, 100_000);
    let (node, login) = linking(&content)?;
    login.sftp_batch(&node, "ln -s in/f l\nln -s in dir\n")?;
    let listed = login.rclone(&node, &["lsf", "--format", "ps", "node:"])?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let lines: Vec<&str> = listed.lines().collect();
    ensure!(lines.contains(&"l;100000") && lines.iter().any(|l| l.starts_with("dir/")), "{listed}");
    let there = node.scratch().join("rclone");
    login.rclone(&node, &["copy", "node:", text(&there)?])?;
    assert_eq!(std::fs::read(there.join("l"))?, content);
    assert_eq!(std::fs::read(there.join("dir/f"))?, content);
    let got = node.scratch().join("lftp");
    let shown = login.lftp(&node, &format!("ls; get l -o {}", text(&got)?))?;
    assert_eq!(std::fs::read(&got)?, content);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    ensure!(shown.lines().any(|line| line.starts_with('l') && line.contains(" l")), "{shown}");
    Ok(())
}

#[test]
fn scp_copies_through_links() -> Result<()> {
    let content = noise(35, 100_000);
    let (node, login) = linking(&content)?;
    login.sftp_batch(&node, "ln -s f in/l\nln -s .. in/up\n")?;
    let back = node.scratch().join("back");
    let mut command = std::process::Command::new("scp");
    command.args(login.ssh_options(&node)?).args(["-q", "-O", "-r"]);
    command.args(["-P", &node.sftp_port()?.to_string(), "acme@127.0.0.1:in", text(&back)?]);
    // What leads back is left out and told, and so the copy fails.
    ensure!(run(&mut command).is_err(), "nothing was left out");
    assert_eq!(std::fs::read(back.join("l"))?, content);
    ensure!(back.join("up").is_dir() && !back.join("up/in").exists(), "went round");
    Ok(())
}
