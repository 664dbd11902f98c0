//! Rules that start each other by a way on which nobody counts, and rules that are paused.

use anyhow::{Result, ensure};
use entrepot_testkit::clients::{Login, local_file, text};
use entrepot_testkit::server::Node;
use serde_json::{Value, json};

use crate::program;

/// A rule whose limit is one that a test reaches soon.
const LIMIT: usize = 8;

fn count(node: &Node, kind: &str) -> Result<usize> {
    Ok(node.events(kind)?.len())
}

/// The rule sends what arrives by SFTP to this very server, where it arrives again: by another
/// session, so that no event says what caused it.
#[test]
fn a_loop_through_a_server_is_paused_and_what_waits_goes_on_by_hand() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    let login = Login::create(&node, "acme")?;
    node.start()?;
    let known = std::fs::read_to_string(node.known_hosts()?)?;
    let host_key: Vec<&str> = known.split_whitespace().skip(1).take(2).collect();
    let endpoint = json!({"endpoint": {"name": "itself", "target": {"sftp": {"host": "127.0.0.1",
        "port": node.sftp_port()?, "user": "acme", "password": login.password,
        "host_keys": [host_key.join(" ")], "allow_private": true}}}});
    let rule = |more: Value| {
        let mut rule = json!({"name": "around", "when": {"event": "file.uploaded"},
            "do": [{"deliver": {"endpoint": "itself", "path": "{name}"}}]});
        rule.as_object_mut().expect("one").extend(more.as_object().expect("one").clone());
        json!({ "rule": rule })
    };
    let documents = format!("{endpoint}\n---\n{}\n", rule(json!({"loop_limit": LIMIT})));
    node.cli_with_input(&["apply", "-"], &documents)?;
    let local = local_file(&node, "a", b"round and round")?;
    login.sftp_batch(&node, &format!("put {} a\n", text(&local)?))?;
    let paused = node.until("the rule to be paused", || Ok(node.events("rule.paused")?.pop()))?;
    ensure!(paused["rule"] == "around" && paused["path"] == "/a", "{paused}");
    let reason = format!("more than {LIMIT} jobs for this path in a minute");
    ensure!(paused["reason"] == reason.as_str(), "{paused}");
    ensure!(paused["by"].as_str().is_some_and(|by| by.starts_with("node:")), "{paused}");
    let shown = node.json(&["rule", "show", "around"])?;
    ensure!(shown["noun"]["rule"]["paused"] == true, "{shown}");
    let waiting = node.until("its last job to wait", || {
        let ready = node.json(&["job", "list", "--state", "ready"])?;
        let running = node.json(&["job", "list", "--state", "running"])?;
        Ok((running == json!([]) && ready != json!([])).then_some(ready))
    })?;
    let before = count(&node, "file.uploaded")?;
    ensure!(before <= 2 * LIMIT, "it went round {before} times");
    let id = waiting[0]["id"].as_str().unwrap_or_default();
    let shown = node.cli(&["job", "show", id])?;
    ensure!(shown.contains("entrepot rule resume around"), "{shown}");
    let trace = node.cli(&["trace", id])?;
    ensure!(trace.contains("until the rule is resumed"), "{trace}");
    // Without the loop it goes on by hand, and nothing of what waits is lost.
    let harmless = rule(json!({"paused": true, "if": "event.depth > 100"}));
    node.cli_with_input(&["apply", "-"], &harmless.to_string())?;
    node.cli(&["rule", "resume", "around"])?;
    node.until("all jobs to be done", || {
        let ready = node.json(&["job", "list", "--state", "ready"])?;
        let running = node.json(&["job", "list", "--state", "running"])?;
        Ok((running == json!([]) && ready == json!([])).then_some(()))
    })?;
    ensure!(count(&node, "rule.resumed")? == 1 && count(&node, "job.failed")? == 0);
    ensure!(count(&node, "rule.paused")? == 1);
    node.stop()
}

#[test]
fn a_rule_is_paused_and_resumed_while_files_arrive() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    let login = Login::create(&node, "acme")?;
    let inbox = node.scratch().join("inbox");
    std::fs::create_dir(&inbox)?;
    let documents = format!(
        "endpoint: {{name: partner, target: {{directory: {{path: {}}}}}}}\n---\n\
         rule:\n  name: send\n  when: {{event: file.uploaded}}\n  do:\n    \
         - deliver: {{endpoint: partner, path: '{{name}}'}}\n",
        text(&inbox)?
    );
    node.cli_with_input(&["apply", "-"], &documents)?;
    node.start()?;
    let local = text(&local_file(&node, "a", b"content")?)?.to_owned();
    let put = |name: &str| login.sftp_batch(&node, &format!("put {local} {name}\n")).map(drop);
    put("before")?;
    node.until("the first file", || Ok(inbox.join("before").exists().then_some(())))?;
    node.cli(&["rule", "pause", "send"])?;
    for name in ["one", "two", "three"] {
        put(name)?;
    }
    node.until("their jobs", || {
        let ready = node.json(&["job", "list", "--state", "ready"])?;
        Ok((ready.as_array().map_or(0, Vec::len) == 3).then_some(()))
    })?;
    ensure!(!inbox.join("one").exists(), "a paused rule ran");
    // The pause is the configuration's: it outlives the node.
    drop(node.kill());
    node.start()?;
    ensure!(!inbox.join("one").exists(), "a paused rule ran after a restart");
    node.cli(&["rule", "resume", "send"])?;
    for name in ["one", "two", "three"] {
        node.until("what waited", || Ok(inbox.join(name).exists().then_some(())))?;
    }
    let told = |kind| node.events(kind).map(|events| events.len());
    ensure!((told("rule.paused")?, told("rule.resumed")?) == (1, 1));
    node.stop()
}
