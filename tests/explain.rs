//! `entrepot rule explain`: ten reasons why a rule did or did not start, each named.

use anyhow::{Context, Result, ensure};
use entrepot_testkit::clients::{Login, local_file, text};
use entrepot_testkit::server::Node;
use serde_json::Value;

use crate::program;

const RULES: &str = "
rule: {name: fires, when: {event: file.uploaded}, if: \"file.path == '/in/a.xml'\",
       do: [move: {to: '/done/{name}'}]}
---
rule: {name: half, when: {event: file.uploaded},
       if: \"account == 'acme' && file.size > 1000 && site == 'main'\", do: [delete: {}]}
---
rule: {name: off, enabled: false, when: {event: file.uploaded}, do: [delete: {}]}
---
rule: {name: kind, when: {event: file.removed}, do: [delete: {}]}
---
rule: {name: null-field, when: {event: config.changed}, if: 'file.size > 0', do: [delete: {}]}
---
rule: {name: loop, when: {event: file.renamed}, if: \"file.path.startsWith('/loop/')\",
       do: [move: {to: '/loop/{stem}x.{extension}'}]}
---
rule: {name: made, when: {after: ['* MKDIR']}, if: \"command.path == '/nothing'\",
       do: [delete: {path: /nothing}]}
---
rule: {name: deleted, when: {after: ['ftp DELE']}, do: [delete: {path: /nothing}]}
";

/// What the command says of a rule, as JSON.
fn explained(node: &Node, about: &str, rule: &str) -> Result<Value> {
    let answer = node.json(&["rule", "explain", about, "--rule", rule])?;
    let found = answer["events"][0]["rules"][0].clone();
    ensure!(found["rule"] == rule, "{answer}");
    Ok(found)
}

fn event_id(events: &[Value], which: impl Fn(&Value) -> bool) -> Option<String> {
    let found = events.iter().find(|event| which(event))?;
    found["id"].as_str().map(str::to_owned)
}

fn remarks(node: &Node, about: &str) -> Result<Vec<String>> {
    let answer = node.json(&["rule", "explain", about])?;
    let remarks = answer["remarks"].as_array().context("remarks")?.iter();
    Ok(remarks.filter_map(|remark| remark["reason"].as_str().map(str::to_owned)).collect())
}

#[test]
fn ten_reasons_why_a_rule_did_or_did_not_start_are_named() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    let login = Login::create(&node, "acme")?;
    node.cli_with_input(&["apply", "-"], RULES)?;
    node.cli_with_input(&["apply", "-"], "site: {name: north}")?;
    node.cli_with_input(&["--site", "north", "apply", "-"], "policy: {name: theirs}")?;
    node.start()?;
    let local = local_file(&node, "a.xml", b"<a/>")?;
    let batch = "mkdir in\nmkdir done\nmkdir loop\nput {0} in/a.xml\nput {0} in/b.xml.filepart\n\
                 put {0} loop/c.xml\nrename loop/c.xml loop/d.xml\n";
    login.sftp_batch(&node, &batch.replace("{0}", text(&local)?))?;
    let uploaded = node.until("the upload in the log", || {
        Ok(event_id(&node.events("file.uploaded")?, |it| it["path"] == "/in/a.xml"))
    })?;

    // 1: it fired, and its job is shown with its state.
    let fired = node.until("the job to end", || {
        let fired = explained(&node, &uploaded, "fires")?;
        Ok((fired["job"]["state"] == "done").then_some(fired))
    })?;
    assert_eq!((&fired["outcome"], &fired["why"]), (&"starts".into(), &"it started".into()));
    // 2: one operand of the condition is false, and is marked alone.
    let half = explained(&node, &uploaded, "half")?;
    assert_eq!(half["outcome"], "condition-false");
    assert_eq!(half["condition"]["trace"]["parts"][1]["text"], "file.size > 1000");
    let said = node.cli(&["rule", "explain", &uploaded, "--rule", "half"])?;
    let marked: Vec<&str> = said.lines().filter(|line| line.contains("<- decides")).collect();
    assert_eq!(marked, ["      file.size > 1000 = false   <- decides"], "{said}");
    ensure!(said.contains("        file.size = 4\n"), "{said}");
    ensure!(said.contains("site == 'main' = not evaluated"), "{said}");
    // 3 and 4: disabled; another kind of event.
    assert_eq!(explained(&node, &uploaded, "off")?["outcome"], "disabled");
    assert_eq!(explained(&node, &uploaded, "kind")?["outcome"], "other-kind");
    // 5: a field of what is null.
    let changed = event_id(&node.events("config.changed")?, |it| it["name"] == "acme");
    let null = explained(&node, &changed.context("the account was made")?, "null-field")?;
    assert_eq!(null["outcome"], "condition-fails");
    let failed = &null["condition"]["trace"]["parts"][0];
    ensure!(failed["deciding"] == true && failed["parts"][0]["value"] == "null", "{null}");
    // 6: another site.
    let theirs = node.json(&["--site", "north", "event", "list", "--kind", "config.changed"])?;
    let theirs = theirs[0]["id"].as_str().context("the policy was made")?.to_owned();
    assert_eq!(remarks(&node, &theirs)?, ["other-site"]);
    // 7: the file has a temporary name, asked for by its event and by the name it is to have.
    let temporary =
        event_id(&node.events("file.uploaded")?, |it| it["path"] == "/in/b.xml.filepart");
    let temporary = explained(&node, &temporary.context("the temporary upload")?, "half")?;
    assert_eq!(temporary["outcome"], "temporary-name");
    assert_eq!(remarks(&node, "/in/b.xml")?, ["temporary-name", "never-arrived"]);
    // 8: it never arrived.
    assert_eq!(remarks(&node, "/in/never.xml")?, ["never-arrived"]);
    // 9: the rules started each other too often.
    let deepest = node.until("the rules to stop starting each other", || {
        Ok(event_id(&node.events("file.renamed")?, |it| it["depth"] == 8))
    })?;
    assert_eq!(explained(&node, &deepest, "loop")?["outcome"], "too-deep");
    // 10: another command.
    let number = std::cell::Cell::new(0);
    let done = node.until("a command in the log", || {
        number.set(number.get() + 1);
        login.sftp_batch(&node, &format!("mkdir new{}\n", number.get()))?;
        Ok(event_id(&node.events("command.done")?, |it| it["verb"] == "mkdir"))
    })?;
    assert_eq!(explained(&node, &done, "deleted")?["outcome"], "other-command");
    assert_eq!(explained(&node, &done, "made")?["outcome"], "condition-false");

    of_a_path_and_of_a_changed_rule(&node, &uploaded)
}

fn of_a_path_and_of_a_changed_rule(node: &Node, uploaded: &str) -> Result<()> {
    let said = node.cli(&["rule", "explain", "/in/a.xml"])?;
    ensure!(said.contains("  fires: it started; job "), "{said}");
    ensure!(
        said.contains("half: the condition is false, for 'file.size > 1000' is false"),
        "{said}"
    );
    node.cli(&["rule", "change", "fires", "enabled=false"])?;
    let changed = explained(node, uploaded, "fires")?;
    assert_eq!(changed["outcome"], "disabled");
    ensure!(changed["changed_at"].is_string() && changed["job"]["state"] == "done", "{changed}");
    ensure!(node.cli(&["rule", "explain", uploaded, "--rule", "fyres"]).is_err(), "no such rule");
    ensure!(node.cli(&["rule", "explain", "in/a.xml"]).is_err(), "a path begins with a slash");
    Ok(())
}

/// Of a file in a folder that rules watch it is said what they know of it.
#[test]
fn what_is_known_of_a_file_in_a_watched_folder_is_named() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    let out = node.home().join("bank/out");
    std::fs::create_dir_all(&out)?;
    let bank = text(out.parent().context("a folder")?)?.to_owned();
    let watch = |rule: &str, more: &str| {
        format!(
            "---\nrule: {{name: {rule}, when: {{watch: {{endpoint: bank, every: 1s, stable: 0s, \
             {more}}}}}, do: [move: {{to: '/done/{{name}}'}}]}}\n"
        )
    };
    let documents = format!(
        "endpoint: {{name: bank, target: {{directory: {{path: {bank}}}}}}}\n{}{}{}",
        watch("takes", "path: /out, match: ['*.csv'], done_file: '{name}.done'"),
        watch("lost", "path: /nowhere"),
        watch("off", "path: /out, match: ['*.off']")
            .replace("name: off", "name: off, enabled: false"),
    );
    node.cli_with_input(&["apply", "-"], &documents)?;
    node.start()?;
    for name in ["a.csv", "a.csv.done", "b.csv"] {
        std::fs::write(out.join(name), b"1;2")?;
    }
    node.until("the file", || Ok((!node.events("watch.found")?.is_empty()).then_some(())))?;
    node.until("the failure", || Ok((!node.events("watch.failed")?.is_empty()).then_some(())))?;
    let said = |path: &str, rule: &str| -> Result<(String, String)> {
        let answer = node.json(&["rule", "explain", path, "--rule", rule])?;
        let remark = answer["remarks"].as_array().and_then(|all| all.last()).cloned();
        let remark = remark.with_context(|| format!("{path}: {answer}"))?;
        let part = |field: &str| remark[field].as_str().unwrap_or_default().to_owned();
        Ok((part("reason"), part("text")))
    };
    for (path, rule, reason, text) in [
        ("/out/a.csv", "takes", "seen-before", "found it before, with 3 bytes, changed at"),
        ("/out/b.csv", "takes", "not-found-yet", "looks every 1s"),
        ("/out/b.csv", "takes", "not-found-yet", "with 'b.csv.done' beside it"),
        ("/out/c.txt", "takes", "left-alone", "it fits no pattern of 'match'"),
        ("/out/sub/c.csv", "takes", "left-alone", "'recursive' is not set"),
        ("/nowhere/a", "lost", "not-listed", "cannot be listed since"),
        ("/out/a.off", "off", "not-found-yet", "it is disabled"),
    ] {
        let (found, sentence) = said(path, rule)?;
        ensure!(found == reason && sentence.contains(text), "{path}: {found}: {sentence}");
    }
    let answer = node.json(&["rule", "explain", "/out/a.csv", "--rule", "takes"])?;
    assert_eq!(answer["events"][0]["event"]["kind"], "watch.found", "{answer}");
    node.stop()
}
