//! Rules that are started by hand, in the real program: with the command line, and by the API.

use anyhow::{Context, Result, ensure};
use entrepot_testkit::server::{Node, run};
use serde_json::Value;

use crate::book::Book;
use crate::hooks::apply;
use crate::program;

const PASSWORD: &str = "a password of an admin";

const RULES: &str = "rule:
  name: resend
  when:
    call:
      parameters:
        day: {pattern: '\\d{4}-\\d\\d-\\d\\d'}
        copies: {type: int, default: 1, enum: [1, 2, 3]}
  if: params.copies < 3
  do:
    - exec: {argv: [ENTER, BOOK, '{params.day}', '{params.copies}']}
---
rule: {name: off, enabled: false, when: {call: {}}, do: [exec: {argv: [ENTER, BOOK, off, off]}]}
---
rule: {name: fails, when: {call: {}}, do: [stop: {as: failed, message: 'not today'}]}
---
rule: {name: by-event, when: {event: file.uploaded}, do: [delete: {}]}
";

/// A node with these rules, whose program writes into the book.
fn start() -> Result<(Node, Book)> {
    let mut node = Node::new(program(), None)?;
    let book = Book::of(&node)?;
    apply(&node, &book.fill(RULES)?)?;
    for role in ["viewer", "operator"] {
        let role_field = format!("role={role}");
        let words = ["account", "create", role, "type=admin", &role_field, "--password-stdin"];
        node.cli_with_input(&words, PASSWORD)?;
    }
    node.cli(&["listener", "create", "https", "protocol=https", "address=127.0.0.1:0"])?;
    node.start()?;
    Ok((node, book))
}

#[test]
fn a_rule_is_run_by_hand_with_checked_parameters() -> Result<()> {
    let (mut node, book) = start()?;
    node.cli(&["rule", "run", "resend", "--param", "day=2026-01-31", "--wait"])?;
    node.cli(&[
        "rule",
        "run",
        "resend",
        "--param",
        "day=2026-02-01",
        "--param",
        "copies=2",
        "--wait",
    ])?;
    ensure!(book.runs() == ["2026-01-31 1", "2026-02-01 2"], "{:?}", book.runs());
    let called = node.events("rule.called")?;
    ensure!(called.len() == 2, "{called:?}");
    let last = called.last().context("an event")?;
    ensure!(last["parameters"]["copies"] == 2 && last["rule"] == "resend", "{last}");
    ensure!(last["by"].as_str().is_some_and(|by| by.starts_with("cli:")), "{last}");
    for (words, said) in [
        (&["resend"][..], "'day' is missing"),
        (&["resend", "--param", "day=today"], "does not match"),
        (&["resend", "--param", "day=2026-01-31", "--param", "copies=many"], "is no int"),
        (&["resend", "--param", "day=2026-01-31", "--param", "copies=4"], "none of 1, 2, 3"),
        (&["resend", "--param", "day=2026-01-31", "--param", "copies=3"], "EP0841"),
        (&["resend", "--param", "dya=2026-01-31"], "no parameter 'dya'"),
        (&["resend", "--param", "day=1", "--param", "day=2"], "given twice"),
        (&["off"], "disabled"),
        (&["by-event"], "does not start by hand"),
        (&["resned"], "resend"),
        (&["fails", "--wait"], "not today [EP0842]"),
    ] {
        let words: Vec<&str> = ["rule", "run"].iter().chain(words).copied().collect();
        let output = node.command(&words).output()?;
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(!output.status.success() && told.contains(said), "{words:?}: {told}");
    }
    ensure!(book.runs().len() == 2, "a refused start ran: {:?}", book.runs());
    node.stop()?;
    let output = node.command(&["rule", "run", "fails"]).output()?;
    ensure!(!output.status.success(), "a rule was started of a node that is down");
    Ok(())
}

#[test]
fn a_repeated_request_starts_a_rule_once_and_a_viewer_starts_none() -> Result<()> {
    let (mut node, book) = start()?;
    let address = format!("https://127.0.0.1:{}/api/v1/rules/resend/run", node.port_of("https")?);
    let post = |who: &str, key: &str, day: &str| -> Result<(String, Value)> {
        let (login, key) = (format!("{who}:{PASSWORD}"), format!("Idempotency-Key: {key}"));
        let body = format!("{{\"parameters\": {{\"day\": \"{day}\"}}}}");
        let mut curl = std::process::Command::new("curl");
        curl.args(["-sSk", "--max-time", "60", "-u", &login, "-w", "\n%{http_code}", "-H", &key]);
        curl.args(["-H", "Content-Type: application/json", "-d", &body, &address]);
        let output = String::from_utf8(run(&mut curl)?.stdout)?;
        let (body, status) = output.rsplit_once('\n').context("a status")?;
        Ok((status.to_owned(), serde_json::from_str(body)?))
    };
    let (status, first) = post("operator", "k1", "2026-01-31")?;
    ensure!(status == "202" && first["job"].is_string(), "{status} {first}");
    let (_, again) = post("operator", "k1", "2026-01-31")?;
    ensure!(again == first, "{first} {again}");
    let (status, reused) = post("operator", "k1", "2026-02-01")?;
    ensure!(status == "422" && reused["code"] == "EP1112", "{status} {reused}");
    let (status, wrong) = post("operator", "k2", "soon")?;
    ensure!(status == "422" && wrong["code"] == "EP0841", "{status} {wrong}");
    let (status, denied) = post("viewer", "k3", "2026-01-31")?;
    ensure!(status == "403" && denied["code"] == "EP1040", "{status} {denied}");
    let (_, other) = post("operator", "k4", "2026-02-02")?;
    node.until("both jobs to end", || {
        let done = node.events("job.done")?;
        let is_done = |job: &Value| done.iter().any(|event| event["job"] == *job);
        Ok((is_done(&first["job"]) && is_done(&other["job"])).then_some(()))
    })?;
    let mut runs = book.runs();
    runs.sort();
    ensure!(runs == ["2026-01-31 1", "2026-02-02 1"], "{runs:?}");
    node.stop()
}
