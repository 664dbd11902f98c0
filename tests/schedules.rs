//! Rules that start by the clock, in the real program: each instant once, also over a kill.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use entrepot_testkit::server::Node;
use serde_json::Value;

use crate::book::Book;
use crate::hooks::apply;
use crate::program;

/// The instants of events, which each have one of their own.
fn instants(events: &[Value]) -> Result<BTreeSet<String>> {
    let planned = |event: &Value| Some(event.get("planned")?.as_str()?.to_owned());
    let found: Option<BTreeSet<String>> = events.iter().map(planned).collect();
    let found = found.context("an event without an instant")?;
    ensure!(found.len() == events.len(), "an instant has two events: {events:?}");
    Ok(found)
}

#[test]
fn a_rule_of_each_second_runs_its_program_once_for_each_instant() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    let book = Book::of(&node)?;
    node.start()?;
    let documents = "rule:
  name: each-second
  when: {cron: '* * * * * *'}
  if: event.planned != ''
  do:
    - exec: {argv: [ENTER, BOOK, '{planned}', '{rule}']}
---
rule:
  name: never
  enabled: false
  when: {cron: '* * * * * *'}
  do:
    - exec: {argv: [ENTER, BOOK, '{planned}', never]}
";
    apply(&node, &book.fill(documents)?)?;
    let three = || {
        let done = node.events("job.done")?;
        Ok((done.len() >= 3).then_some(()))
    };
    node.until("three runs", three)?;
    node.kill()?;
    let before = book.runs().len();
    node.start()?;
    let more = || Ok((book.runs().len() > before.saturating_add(2)).then_some(()));
    node.until("runs after the kill", more)?;
    // What has run is read first: each run follows its event.
    let runs = book.runs();
    let entered: BTreeSet<String> = runs
        .iter()
        .map(|line| line.strip_suffix(" each-second").context(line.clone()).map(str::to_owned))
        .collect::<Result<_>>()?;
    let mut due = instants(&node.events("schedule.due")?)?;
    let skipped = instants(&node.events("schedule.skipped")?)?;
    ensure!(due.is_disjoint(&skipped), "both run and not: {due:?} {skipped:?}");
    // A program that the kill ended is run again; no instant is left out, and none made up.
    due.retain(|instant| Some(instant) <= entered.last());
    ensure!(entered == due, "{entered:?} {due:?}");
    node.stop()
}

#[test]
fn a_schedule_that_cannot_be_is_refused_with_its_field_and_why() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    node.start()?;
    for (cron, words) in [
        ("'0 3 * *'", &["when.cron.expression", "5 fields"][..]),
        ("'61 3 * * *'", &["when.cron.expression", "61 3 * * *"]),
        ("'0 0 30 2 *'", &["when.cron.expression", "no instant in the next 10 years"]),
        (
            "{expression: '0 3 * * *', zone: Europe/Berlln}",
            &["zone", "did you mean 'Europe/Berlin'"],
        ),
        ("{expression: '0 3 * * *', late: soon}", &["'soon' is no length of time"]),
        ("{expression: '0 3 * * *', spread: 5m}", &["spread"]),
    ] {
        let steps = "do: [{exec: {argv: [/bin/true]}}]";
        let rule = format!("rule:\n  name: bad\n  when: {{cron: {cron}}}\n  {steps}\n");
        let Err(error) = apply(&node, &rule) else { anyhow::bail!("{cron} was taken") };
        let error = error.to_string();
        for word in words {
            ensure!(error.contains(word), "{cron}: {error}");
        }
    }
    node.stop()
}
