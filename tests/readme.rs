//! The first steps of the README, done as they stand there: only folder and ports are others.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use entrepot_testkit::clients::text;
use entrepot_testkit::server::{Node, run};

use crate::hooks::blocks;
use crate::program;

const PAGE: &str = include_str!("../README.md");

/// Runs lines of the page; each must succeed.
fn shell(node: &Node, lines: &str) -> Result<String> {
    let folder = program().parent().context("the folder of the program")?;
    let path = std::env::var("PATH").unwrap_or_default();
    let mut sh = Command::new("sh");
    sh.args(["-e", "-c", lines]).current_dir(node.scratch());
    sh.env("PATH", format!("{}:{path}", text(folder)?));
    Ok(String::from_utf8(run(&mut sh)?.stdout)?)
}

#[test]
fn the_first_steps_of_the_readme_work() -> Result<()> {
    let mut node = Node::without_home(program())?;
    let home = node.home();
    let blocks = blocks(PAGE, "sh");
    let [steps, client] = blocks.as_slice() else { anyhow::bail!("{} blocks", blocks.len()) };
    let here = |lines: &str| lines.replace("/srv/entrepot", home.to_str().unwrap_or_default());
    // The program is built already, and its server must not keep the shell.
    let ours = |line: &&str| {
        !["cargo build", "export PATH", "entrepot serve"].iter().any(|own| line.starts_with(own))
    };
    let done: Vec<&str> = steps.lines().filter(ours).collect();
    assert_eq!(steps.lines().count(), done.len() + 3, "{steps}");
    shell(&node, &here(&done.join("\n")))?;
    for (listener, address) in [("sftp", "0.0.0.0:2022"), ("ftp", "0.0.0.0:2121")] {
        let shown = node.json(&["listener", "show", listener])?;
        assert_eq!(shown["noun"]["listener"]["address"], address);
        node.cli(&["listener", "change", listener, "address=127.0.0.1:0"])?;
    }
    let file = home.join("entrepot.toml");
    let own = std::fs::read_to_string(&file)?.replace("127.0.0.1:9422", "127.0.0.1:0");
    std::fs::write(&file, own)?;
    node.start()?;

    let known = node.scratch().join("known");
    let hosts = format!("accept-new -o UserKnownHostsFile={}", text(&known)?);
    let client = here(client)
        .replace("2022", &node.sftp_port()?.to_string())
        .replace("2121", &node.ftp_port()?.to_string())
        .replace("accept-new", &hosts);
    let (lists, moves): (Vec<&str>, Vec<&str>) =
        client.lines().partition(|line| line.starts_with("entrepot "));
    shell(&node, &moves.join("\n"))?;
    let acme = node.files().join("acme");
    assert_eq!(std::fs::read_to_string(acme.join("one.txt"))?, "by SFTP\n");
    assert_eq!(std::fs::read_to_string(acme.join("two.txt"))?, "by FTPS\n");
    ensure!(lists.len() == 2, "{client}");
    for list in lists {
        // What is acknowledged is in the journal; the database has it a moment later.
        let list = format!("cd '{}'\n{list}", home.display());
        node.until("both files to be listed", || {
            let told = shell(&node, &list)?;
            Ok((told.contains("/one.txt") && told.contains("/two.txt")).then_some(()))
        })?;
    }
    // As the page says of the listener: nothing in clear text.
    let clear = client.replace("--ssl-reqd --insecure", "--silent --show-error");
    let clear = clear.lines().find(|line| line.starts_with("curl")).context("no curl")?;
    let clear = format!("cd '{}'\n{clear}", home.display());
    let refused = shell(&node, &clear).err().context("a login in clear text")?;
    ensure!(refused.to_string().contains("530"), "{refused}");
    node.stop()
}
