//! What is recorded of sessions with a host, on a node, and how it is looked at.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use entrepot_testkit::server::{Node, feed, run};
use serde_json::Value;

use crate::hosts::{Loans, SampleHost};
use crate::program;

fn files(node: &Node) -> Result<Vec<PathBuf>> {
    let folder = node.home().join("data/host-debug/main/loans");
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        files.push(entry?.path());
    }
    files.retain(|file| file.extension().is_some_and(|end| end == "jsonl"));
    files.sort();
    Ok(files)
}

fn debug(arguments: &[&str]) -> Result<String> {
    let mut command = Command::new(program());
    Ok(String::from_utf8(run(command.args(["host", "debug"]).args(arguments))?.stdout)?)
}

#[test]
fn an_error_of_a_session_is_looked_at_step_by_step() -> Result<()> {
    let sample = SampleHost::start()?;
    let mut loans = Loans::start(&sample)?;
    let novak = r#"{"reader": "NOVAK"}"#;
    let (pool, level) = (r#"pool={"initial": 1, "wait": "2s"}"#, r#"debug={"level": "errors"}"#);
    loans.node.cli(&["model", "change", "loans", pool, level])?;
    loans.node.until("a call", || Ok((loans.find("bob", novak)?.0 == 200).then_some(())))?;
    ensure!(files(&loans.node)?.is_empty(), "there was no error");
    // The host goes away under a session that rests.
    drop(sample);
    let (status, failed) = loans.find("bob", novak)?;
    ensure!(status == 503, "{status} {failed}");
    let file = loans.node.until("the file", || {
        let mut found = files(&loans.node)?.into_iter();
        found
            .find_map(|file| {
                let text = std::fs::read_to_string(&file).ok()?;
                text.contains("Menu").then_some(Ok(file))
            })
            .transpose()
    })?;
    let text = std::fs::read_to_string(&file)?;
    ensure!(!text.contains("SECRET") && text.contains("******"), "{text}");
    ensure!(std::fs::metadata(&file)?.permissions().mode() & 0o077 == 0, "others may read it");

    let path = file.display().to_string();
    let listed = debug(&[&path])?;
    ensure!(listed.starts_with("session 1 of 'loans'"), "{listed}");
    for line in ["Signon, keyboard free", "ENTER at ", "[14,40 ******]", "EP1301"] {
        ensure!(listed.contains(line), "'{line}' is not in {listed}");
    }
    let last = listed.lines().count() - 2;
    let shown: Value = serde_json::from_str(&debug(&[&path, "--json"])?)?;
    let messages = shown["messages"].as_array().context("no messages")?;
    ensure!(messages.len() == last && messages[last - 1]["event"] == "failed", "{shown}");
    let begins = |word: &str| messages.iter().position(|it| it["event"] == word);
    let key = begins("key").context("no key")? + 1;
    let step: Value =
        serde_json::from_str(&debug(&[&path, "--json", "--step", &key.to_string()])?)?;
    ensure!(step["event"] == "key" && step["stood"].as_u64() < Some(key as u64), "{step}");
    let step = debug(&[&path, "--step", &key.to_string()])?;
    ensure!(step.contains("CENTRAL LIBRARY") && step.contains("-- 24 x "), "{step}");

    let mut walk = Command::new(program());
    let walked = feed(walk.args(["host", "debug", &path, "--walk"]), "next\nerror\nprev\n1\nq\n")?;
    let walked = String::from_utf8(walked.stdout)?;
    let steps = walked.lines().filter_map(|line| line.strip_prefix("== step "));
    let steps: Vec<&str> = steps.filter_map(|line| line.split(' ').next()).collect();
    let (end, before) = (last.to_string(), (last - 1).to_string());
    assert_eq!(steps, ["1", "2", &end, &before, "1"]);
    let mut beyond = Command::new(program());
    let beyond = beyond.args(["host", "debug", &path, "--step", "9999"]).output()?;
    ensure!(beyond.status.code() == Some(4), "{beyond:?}");
    loans.node.stop()
}
