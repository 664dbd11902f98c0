//! WebDAV with real clients.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use entrepot_testkit::clients::{Login, noise};
use entrepot_testkit::server::{Node, feed, run};

use crate::program;

/// The tests that set properties which the server does not know: it refuses them (RFC 4918 §4.1).
const DEAD_PROPERTIES: [&str; 6] =
    ["propset", "propmanyns", "propget", "owner_modify", "owner_modify", "owner_modify"];

/// A node with a listener that programs of this machine reach without TLS.
fn node_with_dav() -> Result<(Node, Login, String)> {
    let mut node = Node::new(program(), None)?;
    let login = Login::create(&node, "acme")?;
    node.cli(&["listener", "create", "web", "protocol=http", "address=127.0.0.1:0"])?;
    node.start()?;
    let url = format!("http://127.0.0.1:{}/dav/", node.port_of("web")?);
    Ok((node, login, url))
}

#[test]
fn litmus_finds_what_the_page_says() -> Result<()> {
    let (node, login, url) = node_with_dav()?;
    let mut litmus = Command::new("litmus");
    litmus.current_dir(node.scratch()).args(["-k", &*url, &*login.account, &*login.password]);
    let output = litmus.output().context("litmus does not run")?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    // Lines such as ` 4. put_get_utf8_segment.. pass`.
    let failed: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("FAIL"))
        .filter_map(|line| line.split_once(". ")?.1.split('.').next())
        .collect();
    ensure!(failed == DEAD_PROPERTIES, "{failed:?} failed:\n{said}");
    for suite in ["basic", "copymove", "props", "locks", "http"] {
        ensure!(said.contains(&format!("summary for `{suite}'")), "{suite} did not run:\n{said}");
    }
    Ok(())
}

#[test]
fn rclone_moves_a_tree_both_ways() -> Result<()> {
    let (node, login, url) = node_with_dav()?;
    let hidden = run(Command::new("rclone").args(["obscure", &*login.password]))?;
    let hidden = String::from_utf8(hidden.stdout)?;
    let rclone = |words: &[&str]| {
        let mut rclone = Command::new("rclone");
        rclone.env("HOME", node.scratch()).args([
            "--webdav-url",
            &*url,
            "--webdav-vendor",
            "other",
        ]);
        rclone.args(["--webdav-user", &*login.account, "--webdav-pass", hidden.trim()]);
        run(rclone.args(words))
    };
    let (there, back) = (node.scratch().join("there"), node.scratch().join("back"));
    std::fs::create_dir_all(there.join("ä/b"))?;
    let content = noise(57, 3_000_001);
    std::fs::write(there.join("ä/b/x & y.bin"), &content)?;
    std::fs::write(there.join("empty"), b"")?;
    let text = |path: &std::path::Path| path.display().to_string();
    rclone(&["copy", &text(&there), ":webdav:tree"])?;
    assert_eq!(std::fs::read(login.on_disk(&node, "tree/ä/b/x & y.bin"))?, content);
    rclone(&["copy", ":webdav:tree", &text(&back)])?;
    assert_eq!(std::fs::read(back.join("ä/b/x & y.bin"))?, content);
    assert_eq!(std::fs::read(back.join("empty"))?, b"");
    rclone(&["moveto", ":webdav:tree/empty", ":webdav:tree/other"])?;
    rclone(&["check", "--size-only", &text(&there.join("ä")), ":webdav:tree/ä"])?;
    rclone(&["purge", ":webdav:tree"])?;
    ensure!(!login.on_disk(&node, "tree").exists(), "the tree is still there");
    let events = node.events("file.uploaded")?;
    ensure!(events.len() == 2, "{events:?}");
    Ok(())
}

#[test]
fn cadaver_locks_and_edits() -> Result<()> {
    let (node, login, url) = node_with_dav()?;
    let Login { account, password, .. } = &login;
    let netrc = format!("machine 127.0.0.1 login {account} password \"{password}\"\n");
    std::fs::write(node.scratch().join(".netrc"), netrc)?;
    std::fs::write(node.scratch().join("a.txt"), b"content")?;
    let mut cadaver = Command::new("cadaver");
    cadaver.env("HOME", node.scratch()).current_dir(node.scratch()).arg(&url);
    let lines = "mkcol folder\nput a.txt folder/a.txt\nlock folder/a.txt\nput a.txt folder/a.txt\n\
                 unlock folder/a.txt\ncopy folder/a.txt folder/b.txt\n\
                 move folder/b.txt folder/c.txt\nget folder/c.txt back.txt\nls folder\n\
                 delete folder/a.txt\nquit\n";
    let output = feed(&mut cadaver, lines)?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(!said.contains("failed"), "{said}");
    assert_eq!(std::fs::read(node.scratch().join("back.txt"))?, b"content");
    assert_eq!(std::fs::read(login.on_disk(&node, "folder/c.txt"))?, b"content");
    ensure!(!login.on_disk(&node, "folder/a.txt").exists(), "{said}");
    Ok(())
}
