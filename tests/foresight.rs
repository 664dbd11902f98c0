//! `entrepot rule dry-run` before a rule is stored, and `entrepot trace` after it ran.

use anyhow::{Context as _, Result, ensure};
use entrepot_testkit::clients::{Login, local_file, text};
use entrepot_testkit::server::Node;
use serde_json::Value;

use crate::program;
use crate::routes::directory;

const SORT: &str = "rule:
  name: sort
  when: {event: file.uploaded}
  if: file.path.startsWith('/in/')
  do:
    - set: {folder: \"file.size > 3 ? 'large' : 'small'\"}
    - if:
        when: vars.folder == 'large'
        then: [deliver: {endpoint: partner, path: '{vars.folder}/{name}', existing: refuse}]
        else: [check: {that: 'file.size > 0', message: '{name} is empty'}]
    - move: {to: '/done/{name}'}
";

fn node() -> Result<(Node, Login)> {
    let mut node = Node::new(program(), None)?;
    let login = Login::create(&node, "acme")?;
    let inbox = node.scratch().join("inbox");
    std::fs::create_dir(&inbox)?;
    node.cli_with_input(&["apply", "-"], &directory("partner", &inbox)?)?;
    node.start()?;
    Ok((node, login))
}

fn uploaded(node: &Node, path: &str) -> Result<String> {
    node.until("the upload in the log", || {
        let events = node.events("file.uploaded")?;
        let found = events.iter().find(|event| event["path"] == path);
        Ok(found.and_then(|event| event["id"].as_str().map(str::to_owned)))
    })
}

/// Each step that would run, with the path that it would write to.
fn steps(steps: &Value) -> Vec<(String, String, String)> {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut found = Vec::new();
    for step in steps.as_array().into_iter().flatten() {
        let path = word(&step["target"]["path"]);
        found.push((word(&step["word"]), word(&step["outcome"]), path));
        found.extend(self::steps(&step["steps"]));
    }
    found
}

#[test]
fn a_rule_is_tried_before_it_is_stored_and_nothing_is_touched() -> Result<()> {
    let (node, login) = node()?;
    let local = local_file(&node, "a.xml", b"<a/>")?;
    let put = format!("mkdir in\nmkdir done\nput {} in/a.xml\n", text(&local)?);
    login.sftp_batch(&node, &put)?;
    let event = uploaded(&node, "/in/a.xml")?;
    node.until("the session's end in the log", || {
        Ok(node.events("session.closed")?.first().cloned())
    })?;
    let file = local_file(&node, "sort.yaml", SORT.as_bytes())?;
    let file = text(&file)?.to_owned();
    let count = || -> Result<usize> {
        let all = node.json(&["event", "list", "--limit", "100000"])?;
        Ok(all.as_array().map_or(0, Vec::len))
    };
    let before = count()?;
    let found = node.json(&["rule", "dry-run", "--file", &file, "--path", "/in/a.xml"])?;
    let said = node.cli(&["rule", "dry-run", "sort", "-f", &file, "--event", &event])?;
    assert_eq!(count()?, before, "a dry run is recorded");
    // What a store keeps for itself is hidden.
    for entry in std::fs::read_dir(node.scratch().join("inbox"))? {
        let name = entry?.file_name();
        ensure!(name.to_string_lossy().starts_with('.'), "it made {name:?}");
    }
    login.sftp_batch(&node, "ls in/a.xml\n")?;

    assert_eq!(found["event"]["id"], Value::from(event.clone()));
    assert_eq!((&found["origin"], &found["ending"]), (&"recorded".into(), &"done".into()));
    assert_eq!(found["start"]["outcome"], "starts");
    let of = |word: &str, path: &str| (word.to_owned(), "runs".to_owned(), path.to_owned());
    let wanted =
        [of("set", ""), of("if", ""), of("deliver", "large/a.xml"), of("move", "/done/a.xml")];
    assert_eq!(steps(&found["steps"]), wanted);
    ensure!(said.contains("{vars.folder} = large"), "{said}");
    ensure!(said.contains("vars.folder = \"large\""), "{said}");
    ensure!(said.contains("'large/a.xml' at endpoint 'partner': nothing is there"), "{said}");

    // The file that is in the way is seen, and what follows from it.
    let inbox = node.scratch().join("inbox/large");
    std::fs::create_dir(&inbox)?;
    std::fs::write(inbox.join("a.xml"), b"old")?;
    let found = node.json(&["rule", "dry-run", "-f", &file, "--event", &event])?;
    assert_eq!(found["ending"], "failed");
    ensure!(found["why"].as_str().is_some_and(|why| why.contains("EP0809")), "{found}");
    assert_eq!(found["steps"][2]["outcome"], "not-reached");

    // What the rule does then is what was said.
    std::fs::remove_file(inbox.join("a.xml"))?;
    let never = node.cli(&["rule", "dry-run", "sort", "--event", &event]);
    ensure!(never.is_err(), "it is not stored");
    let wrong = SORT.replace("file.size > 3", "file.sise > 3");
    let wrong = local_file(&node, "wrong.yaml", wrong.as_bytes())?;
    let refused = node.cli(&["rule", "dry-run", "-f", text(&wrong)?]).unwrap_err().to_string();
    ensure!(refused.contains("wrong.yaml:") && refused.contains("size"), "{refused}");
    let made_up =
        node.json(&["rule", "dry-run", "-f", &file, "--path", "/in/none", "--as", "acme"])?;
    assert_eq!(made_up["origin"], "made-up");
    assert_eq!(made_up["file"]["found"], "nothing");
    Ok(())
}

#[test]
fn a_trace_follows_a_file_from_its_arrival_to_its_delivery() -> Result<()> {
    let (node, login) = node()?;
    node.cli_with_input(&["apply", "-"], SORT)?;
    // A rule that the move starts: the chain goes on.
    let after = "rule: {name: after, when: {event: file.renamed}, if: 'event.depth > 0',
                 do: [check: {that: 'false', message: 'not this one'}]}";
    let local = local_file(&node, "a.xml", b"<a/>")?;
    let empty = local_file(&node, "empty", b"")?;
    let batch = format!(
        "mkdir in\nmkdir done\nput {} in/a.xml.filepart\nrename in/a.xml.filepart in/a.xml\n\
         put {} in/empty\n",
        text(&local)?,
        text(&empty)?
    );
    login.sftp_batch(&node, &batch)?;
    let trace = |of: &str, state: &str| {
        node.until(&format!("'{of}' to be {state}"), || {
            let trace = node.json(&["trace", of])?;
            Ok((trace["state"] == state).then_some(trace))
        })
    };
    let found = trace("/done/a.xml", "delivered")?;
    let chain = &found["chain"];
    assert_eq!(chain["event"]["kind"], "file.uploaded", "{found}");
    assert_eq!(chain["event"]["path"], "/in/a.xml.filepart");
    assert_eq!(chain["address"], "127.0.0.1");
    let renamed = &chain["renamed"][0];
    assert_eq!(renamed["event"]["kind"], "file.renamed");
    let job = &renamed["jobs"][0];
    assert_eq!((&job["rule"], &job["state"]), (&"sort".into(), &"done".into()));
    let kinds: Vec<&str> = job["events"]
        .as_array()
        .context("events")?
        .iter()
        .filter_map(|event| event["event"]["kind"].as_str())
        .collect();
    assert_eq!(kinds, ["file.delivered", "file.renamed", "job.done"]);
    assert_eq!(job["steps"].as_array().map(Vec::len), Some(4), "{job}");
    // The same chain by any of its parts.
    let delivered = &job["events"][0]["event"];
    for of in [&job["id"], &delivered["id"], &delivered["transfer"], &renamed["event"]["id"]] {
        let of = of.as_str().context("an id")?;
        let again = trace(of, "delivered")?;
        assert_eq!(again["chain"]["event"]["id"], chain["event"]["id"], "{of}");
    }
    let digest = blake3::hash(b"<a/>").to_hex();
    for of in ["a.xml", "A.xml.FILEPART", digest.as_str(), &digest.to_uppercase()] {
        let again = trace(of, "delivered")?;
        assert_eq!(again["chain"]["event"]["id"], chain["event"]["id"], "{of}");
    }
    assert_eq!(trace(&"0".repeat(64), "unknown")?["chain"], Value::Null);
    let said = node.cli(&["trace", "/in/a.xml"])?;
    ensure!(said.contains("─ rule sort: done"), "{said}");
    ensure!(said.ends_with("Z\n") && said.contains("delivered to 'large/a.xml'"), "{said}");

    let failed = trace("/in/empty", "failed")?;
    let summary = failed["summary"].as_str().context("a summary")?;
    ensure!(summary.contains("EP0815: empty is empty"), "{summary}");
    ensure!(summary.contains("at step do.1.if.else.0"), "{summary}");
    assert_eq!(trace("/in/never", "unknown")?["chain"], Value::Null);
    node.cli_with_input(&["apply", "-"], after)?;
    login.sftp_batch(&node, &format!("put {} in/b.xml\n", text(&local)?))?;
    let deep = trace("/in/b.xml", "failed")?;
    let moved = &deep["chain"]["jobs"][0]["events"][1];
    assert_eq!(
        (&moved["event"]["kind"], &moved["jobs"][0]["rule"]),
        (&"file.renamed".into(), &"after".into())
    );
    Ok(())
}
