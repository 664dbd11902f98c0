//! Rules before and after requests of SFTP, with OpenSSH's clients.

use std::process::{Command, Output};

use anyhow::{Result, ensure};
use entrepot_testkit::clients::{Login, local_file, text};
use entrepot_testkit::server::Node;

use crate::hooks::{apply, blocks, node_with_programs, script};

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A copy by `scp` as it speaks by itself (`-O`), or over SFTP.
fn scp(node: &Node, login: &Login, words: &[&str]) -> Result<Output> {
    let mut command = Command::new("scp");
    command.args(login.ssh_options(node)?).args(["-P", &node.sftp_port()?.to_string()]);
    Ok(command.args(words).output()?)
}

/// The page `docs/howto/refuse-a-command.md`, its part about SFTP, done.
#[test]
fn a_rule_refuses_requests_of_sftp_and_its_sentence_reaches_the_client() -> Result<()> {
    let (node, login, folder) = node_with_programs()?;
    let archive = login.on_disk(&node, "archive");
    std::fs::create_dir_all(&archive)?;
    std::fs::write(archive.join("2016.txt"), "old")?;
    let book = node.scratch().join("book/arrived");
    let enter = script(&folder, "enter", "#!/bin/sh\necho \"$2 $3\" >> \"$1\"\n")?;
    let page = include_str!("../docs/howto/refuse-a-command.md");
    let all = blocks(page, "yaml");
    ensure!(all.len() == 3, "one rule of FTP, one of SFTP, one of HTTP");
    let after = format!(
        "---\nrule:\n  name: book\n  when: {{after: [sftp close]}}\n  \
         if: command.writes && command.code == 0\n  do:\n    \
         - exec: {{argv: [{}, {}, '{{path}}', '{{digest}}'], reply: wait}}\n",
        text(&enter)?,
        text(&book)?
    );
    apply(&node, &format!("{}{after}", all[1]))?;
    let sentence = "ask archive@example.com";
    node.until("the rule to count", || {
        let probe = login.sftp_batch(&node, "-rm archive/nothing\n")?;
        Ok(said(&probe).contains(sentence).then_some(()))
    })?;
    let local = local_file(&node, "new.txt", b"new")?;
    let new = text(&local)?;
    for line in [
        "rm archive/2016.txt",
        "rename archive/2016.txt away",
        "rename free archive/2016.txt",
        "rmdir archive",
        "mkdir archive/d",
        "chmod 600 archive/2016.txt",
        &format!("put {new} archive/2016.txt"),
        "ln free archive/2017.txt",
    ] {
        let output = login.sftp_batch(&node, &format!("put {new} free\n-{line}\n"))?;
        ensure!(said(&output).contains(sentence), "{line}: {}", said(&output));
    }
    let back = node.scratch().join("back");
    let batch = format!("get archive/2016.txt {}\nrm free\nls\n", text(&back)?);
    ensure!(!said(&login.sftp_batch(&node, &batch)?).contains(sentence));
    // By scp too, whichever way it speaks.
    let target = format!("{}@127.0.0.1:archive/2016.txt", login.account);
    for how in ["-O", "-s"] {
        let refused = scp(&node, &login, &[how, new, &target])?;
        ensure!(!refused.status.success() && said(&refused).contains(sentence), "{how}");
        let got = scp(&node, &login, &[how, &target, text(&back)?])?;
        ensure!(got.status.success(), "{how}: {}", said(&got));
    }
    ensure!(std::fs::read(&back)? == b"old" && std::fs::read(archive.join("2016.txt"))? == b"old");
    ensure!(std::fs::read_dir(&archive)?.count() == 1);
    std::fs::remove_file(&book)?;
    let free = format!("{}@127.0.0.1:free", login.account);
    for how in ["-O", "-s"] {
        let put = scp(&node, &login, &[how, new, &free])?;
        ensure!(put.status.success(), "{how}: {}", said(&put));
    }
    let line = format!("/free {}\n", blake3::hash(b"new").to_hex());
    // The reply waited for it.
    assert_eq!(std::fs::read_to_string(&book)?, line.repeat(2));
    until_denied(&node, &["remove", "posix-rename", "open", "rmdir"])
}

/// Waits until requests of all these verbs are in the log, denied as their clients were told.
fn until_denied(node: &Node, verbs: &[&str]) -> Result<()> {
    node.until("the refusals in the log", || {
        let refused = node.events("command.refused")?;
        let denied = |event: &&serde_json::Value| event["protocol"] == "sftp" && event["code"] == 3;
        let found =
            |verb: &&str| refused.iter().filter(denied).any(|event| event["verb"] == **verb);
        Ok(verbs.iter().all(found).then_some(()))
    })
}
