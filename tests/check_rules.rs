//! `entrepot rule test`, `lint`, `diff` and `replay`.

use anyhow::{Context as _, Result, ensure};
use entrepot_testkit::clients::{Login, local_file, text};
use entrepot_testkit::server::Node;
use serde_json::{Value, json};

use crate::program;
use crate::routes::directory;

const SEND: &str = "rule:
  name: send
  when: {event: file.uploaded}
  if: file.path.startsWith('/in/')
  do: [deliver: {endpoint: partner, path: '{name}', existing: refuse}]
  tests:
    - {event: {path: /in/a}, runs: true}
    - {event: {path: /other/a}, runs: false}
";

fn node() -> Result<(Node, Login)> {
    let node = Node::new(program(), None)?;
    let login = Login::create(&node, "acme")?;
    let inbox = node.scratch().join("inbox");
    std::fs::create_dir(&inbox)?;
    node.cli_with_input(&["apply", "-"], &directory("partner", &inbox)?)?;
    Ok((node, login))
}

/// The exit code of a command, and what it printed as JSON.
fn answered(node: &Node, arguments: &[&str]) -> Result<(Option<i32>, Value)> {
    let output = node.command(&[arguments, &["--json"]].concat()).output()?;
    Ok((output.status.code(), serde_json::from_slice(&output.stdout)?))
}

fn count(list: &Value) -> Option<usize> {
    list.as_array().map(Vec::len)
}

fn document(node: &Node, name: &str, rule: &str) -> Result<String> {
    Ok(text(&local_file(node, name, rule.as_bytes())?)?.to_owned())
}

#[test]
fn tests_and_flaws_of_rules_show_in_the_exit_code() -> Result<()> {
    // No server runs: a pipeline has none.
    let (node, _) = node()?;
    let good = document(&node, "good.yaml", SEND)?;
    let (code, found) = answered(&node, &["rule", "test", "-f", &good])?;
    assert_eq!((code, count(&found[0]["tests"])), (Some(0), Some(2)));
    let bad = document(&node, "bad.yaml", &SEND.replace("'/in/'", "'/on/'"))?;
    let (code, found) = answered(&node, &["rule", "test", "-f", &bad])?;
    assert_eq!(code, Some(6));
    assert_eq!(found[0]["tests"][0]["outcome"], "failed", "{found}");
    assert_eq!(found[0]["tests"][1]["outcome"], "passed", "{found}");
    node.cli_with_input(&["apply", "-"], SEND)?;
    assert_eq!(answered(&node, &["rule", "test", "send"])?.0, Some(0));

    assert_eq!(answered(&node, &["rule", "lint"])?.0, Some(0));
    let fixed = SEND.replace("'{name}', existing: refuse", "last").replace("name: send", "name: b");
    let fixed = document(&node, "fixed.yaml", &fixed)?;
    let (code, found) = answered(&node, &["rule", "lint", "-f", &fixed])?;
    assert_eq!((code, &found[0]["flaw"]), (Some(6), &"fixed-target".into()));
    assert_eq!(found[0]["field"], "do.0.deliver.path");
    // What is wrong between a document and a stored rule is found, and nothing of other rules.
    let takes = "rule: {name: NAME, when: {event: file.uploaded}, do: [delete: {}]}";
    node.cli_with_input(&["apply", "-"], &takes.replace("NAME", "one"))?;
    let two = document(&node, "two.yaml", &takes.replace("NAME", "two"))?;
    let (_, found) = answered(&node, &["rule", "lint", "-f", &two])?;
    assert_eq!(found[0]["flaw"], "same-file", "{found}");
    assert_eq!(count(&found), Some(1), "{found}");
    assert_eq!(answered(&node, &["rule", "lint"])?.0, Some(0));
    // And said when the rule is stored, which it may be, but not when it is stored already.
    for (command, is_said) in [("plan", true), ("apply", true), ("apply", false)] {
        let answer = node.command(&[command, &two]).output()?;
        let said = String::from_utf8_lossy(&answer.stderr);
        ensure!(answer.status.success(), "{command}: {said}");
        let is_there = said.contains("warning: rule '") && said.contains("'two'");
        ensure!(is_there == is_said, "{command}: {said}");
    }
    // One rule alone, too.
    let create = ["rule", "create", "three", "when.event=file.uploaded", r#"do=[{"delete": {}}]"#];
    for (command, is_said) in [
        (&create[..], true),
        (&["rule", "change", "three", "note=moved"], true),
        (&["rule", "change", "three", "note=moved"], false),
        (&["rule", "show", "three"], false),
        (&["rule", "change", "three", "enabled=false"], false),
    ] {
        let answer = node.command(command).output()?;
        let said = String::from_utf8_lossy(&answer.stderr);
        ensure!(answer.status.success(), "{command:?}: {said}");
        let is_there = said.contains("warning: rule '") && said.contains("'three'");
        ensure!(is_there == is_said, "{command:?}: {said}");
    }
    Ok(())
}

/// A node that has three uploads, and no rule yet.
fn with_uploads() -> Result<(Node, Login)> {
    let (mut node, login) = node()?;
    node.start()?;
    let local = local_file(&node, "a.xml", b"<a/>")?;
    let local = text(&local)?;
    let batch =
        format!("mkdir in\nmkdir out\nput {local} in/a\nput {local} in/b\nput {local} out/c\n");
    login.sftp_batch(&node, &batch)?;
    node.until("the uploads in the log", || {
        Ok((node.events("file.uploaded")?.len() == 3).then_some(()))
    })?;
    Ok((node, login))
}

#[test]
fn a_rule_is_compared_with_what_is_stored_and_with_what_happened() -> Result<()> {
    let (node, _login) = with_uploads()?;
    let file = document(&node, "send.yaml", SEND)?;
    let diff = node.json(&["rule", "diff", "-f", &file])?;
    assert_eq!(diff[0]["stored"], false);
    assert_eq!(count(&diff[0]["gained"]), Some(2), "{diff}");
    node.cli_with_input(&["apply", "-"], SEND)?;
    assert_eq!(node.json(&["rule", "diff", "-f", &file])?[0]["changes"], json!([]));
    let other = SEND.replace("path: /in/a", "path: /out/a").replace("'/in/'", "'/out/'");
    let other = document(&node, "other.yaml", &other)?;
    let said = node.cli(&["rule", "diff", "-f", &other])?;
    ensure!(
        said.contains("both start on 0, only the document on 1, only the stored rule on 2"),
        "{said}"
    );
    ensure!(said.contains("+ if: \"file.path.startsWith('/out/')\""), "{said}");
    Ok(())
}

#[test]
fn a_replay_makes_each_job_once() -> Result<()> {
    let (node, _login) = with_uploads()?;
    node.cli_with_input(&["apply", "-"], SEND)?;
    let since = "2020-01-01T00:00:00Z";
    let planned = node.json(&["rule", "replay", "send", "--since", since])?;
    assert_eq!((&planned["made"], &planned["events"]), (&false.into(), &3.into()));
    assert_eq!(count(&planned["jobs"]), Some(2), "{planned}");
    assert_eq!(count(&node.json(&["job", "list"])?), Some(0), "it made jobs");
    let id = planned["replay"].as_str().context("the id of the replay")?;
    let order = ["rule", "replay", "send", "--since", since, "--replay", id];
    assert_eq!(count(&node.json(&order)?["jobs"]), Some(2));
    let repeated = node.json(&order)?;
    ensure!(repeated["jobs"][0]["job"].is_null(), "{repeated}");
    let why = repeated["jobs"][0]["left_out"].as_str().context("why it is left out")?;
    ensure!(why.contains("already"), "{why}");
    let inbox = node.scratch().join("inbox");
    node.until("the files at the partner", || {
        Ok((inbox.join("a").exists() && inbox.join("b").exists()).then_some(()))
    })?;
    let done = || {
        node.until("the jobs to end", || {
            let jobs = node.json(&["job", "list", "--limit", "100"])?;
            let jobs = jobs.as_array().cloned().unwrap_or_default();
            let is_open = |job: &Value| job["state"] == "ready" || job["state"] == "running";
            Ok((!jobs.iter().any(is_open)).then_some(jobs))
        })
    };
    assert_eq!(done()?.len(), 2);
    assert_eq!(node.events("rule.replayed")?.len(), 1);
    // Another replay leaves them out, unless it is told to make them again.
    let third = node.json(&["rule", "replay", "send", "--since", since])?;
    let why = third["jobs"][0]["left_out"].as_str().context("why it is left out")?;
    ensure!(why.ends_with("is done"), "{why}");
    let event = planned["jobs"][0]["event"].as_str().context("an event")?;
    let one = ["rule", "replay", "send", "--event", event, "--again"];
    let id = node.json(&one)?["replay"].as_str().context("an id")?.to_owned();
    node.json(&[&one[..], &["--replay", &id]].concat())?;
    let jobs = done()?;
    assert_eq!(jobs.len(), 3);
    // The file is there already, and the rule refuses: it really ran again.
    ensure!(jobs.iter().any(|job| job["state"] == "failed"), "{jobs:?}");
    let trace = node.json(&["trace", "/in/a"])?;
    assert_eq!(count(&trace["chain"]["jobs"]), Some(2), "{trace}");
    node.cli(&["rule", "change", "send", "enabled=false"])?;
    ensure!(node.cli(&order).is_err(), "a disabled rule is replayed");
    Ok(())
}
