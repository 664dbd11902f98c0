//! A person with a browser: without scripts, and with them where passkeys need them.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use entrepot_testkit::clients::browser::chromium;
use entrepot_testkit::clients::{Login, local_file, noise, text};
use entrepot_testkit::server::{Node, run};

use crate::hooks::blocks;
use crate::program;

#[test]
fn chromium_signs_in_and_moves_files_without_scripts_and_by_passkey_with_them() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    let login = Login::create(&node, "acme")?;
    node.cli(&["listener", "create", "web", "protocol=https", "address=127.0.0.1:0"])?;
    node.start()?;
    let token = node.json(&["account", "set-up-token"])?;
    let token = token["token"].as_str().context("no token")?.to_owned();
    let content = noise(47, 3_000_001);
    let file = local_file(&node, "by browser.bin", &content)?;
    let folder = node.scratch().join("downloads");
    let url = format!("https://localhost:{}", node.port_of("web")?);
    let words = [&url, &token, &login.account, &login.password, text(&file)?, text(&folder)?];
    let seen = chromium(&words)?;
    assert_eq!(std::fs::read(folder.join("by browser.bin"))?, content);
    assert_eq!((&seen["led"], &seen["after"]), (&"/sign-in".into(), &"/sign-in".into()), "{seen}");
    assert_eq!((&seen["setUpAgain"], &seen["left"]), (&404.into(), &0.into()), "{seen}");
    ensure!(seen["refused"] == serde_json::json!([]), "its policy refuses what it has: {seen}");
    ensure!(seen["alert"].as_str().is_some_and(|alert| alert.contains("wrong")), "{seen}");
    let cookie = &seen["cookies"][0];
    assert_eq!((&cookie["name"], &cookie["sameSite"]), (&"__Host-entrepot".into(), &"Lax".into()));
    ensure!(cookie["httpOnly"] == true && cookie["secure"] == true, "{cookie}");
    ensure!(!login.on_disk(&node, "by browser.bin").exists(), "it was not deleted");
    let uploads = node.events("file.uploaded")?;
    ensure!(uploads.len() == 1 && uploads[0]["protocol"] == "https", "{uploads:?}");
    ensure!(seen["hidden"] == 0, "a passkey is offered without scripts: {seen}");
    let opened = node.events("sign-in.opened")?;
    let proofs: Vec<&str> = opened.iter().filter_map(|event| event["proof"].as_str()).collect();
    ensure!(proofs.len() == 3 && proofs[..2] == ["password", "password"], "{proofs:?}");
    ensure!(proofs[2].starts_with("passkey passkey-"), "{proofs:?}");
    let proved = node.events("sign-in.proved")?;
    ensure!(proved.len() == 1 && proved[0]["proof"] == opened[2]["proof"], "{proved:?}");
    let ended = node.events("sign-in.ended")?;
    let ended: Vec<&str> = ended.iter().filter_map(|event| event["reason"].as_str()).collect();
    let removed = "the passkey that it logged in with was removed";
    ensure!(ended == ["signed out", "signed out", removed], "{ended:?}");
    let refused = node.events("login.refused")?;
    let last = refused.last().context("nothing was refused")?;
    ensure!(last["reason"] == "no such passkey", "{refused:?}");
    ensure!(node.json(&["passkeys"])? == serde_json::json!([]), "a passkey is left");
    let made = node.json(&["account", "show", "root"])?;
    ensure!(made["noun"]["account"]["type"] == "admin", "{made}");
    uploads_with_a_token(&node, &login, &url)
}

/// The example of the page, with the address and certificate of the test.
fn uploads_with_a_token(node: &Node, login: &Login, url: &str) -> Result<()> {
    let page = include_str!("../docs/howto/sign-in.md");
    let example = blocks(page, "sh").into_iter().find(|block| block.contains("Bearer"));
    let certificate = node.certificate_of("web")?;
    let curl = format!("curl -sSf --cacert {} ", text(&certificate)?);
    let example = example.context("no example")?.replace("curl ", &curl);
    let made = node.json(&["token", "create", &login.account, "--scope", "files:write"])?;
    let report = local_file(node, "report.pdf", b"%PDF-1.7")?;
    let mut shell = Command::new("sh");
    shell.args(["-euc", &example.replace("https://files.example", url)]);
    shell.env("TOKEN", made["token"].as_str().context("no token")?);
    run(shell.current_dir(report.parent().context("no folder")?))?;
    assert_eq!(std::fs::read(login.on_disk(node, "report.pdf"))?, b"%PDF-1.7");
    Ok(())
}
