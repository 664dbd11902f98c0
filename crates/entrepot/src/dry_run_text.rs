//! What a rule would do, as text.

use entrepot_nouns::dry_run::{
    EventOrigin, ForeseenStep, LookedAt, LookedFor, RuleDryRun, StepOutcome,
};

use crate::condition_tree::tree;
use crate::facts;

/// The whole dry run.
pub(crate) fn lines(found: &RuleDryRun) -> Vec<String> {
    let event = &found.event;
    let origin = match found.origin {
        EventOrigin::Recorded => format!("event {}", event.id),
        EventOrigin::MadeUp => "an event that is made up".to_owned(),
    };
    let (at, kind, what) = (event.at, event.fact.kind(), facts::describe(event));
    let account = found.account.as_ref().map_or("none", |account| account.as_str());
    let mut lines = vec![
        format!("rule {} with {origin}", found.start.rule),
        format!("  event      {at} {kind}: {what}"),
        format!("  start      {}", found.start.why),
        format!("  account    {account}"),
    ];
    lines.extend(found.file.as_ref().map(|file| format!("  file       {}", place(file))));
    lines.push("do:".to_owned());
    found.steps.iter().for_each(|step| add_step(&mut lines, step, 1));
    if !found.otherwise.is_empty() {
        lines.push("else:".to_owned());
        found.otherwise.iter().for_each(|step| add_step(&mut lines, step, 1));
    }
    lines.push(found.why.clone());
    lines
}

fn add_step(lines: &mut Vec<String>, step: &ForeseenStep, depth: usize) {
    let indent = "  ".repeat(depth);
    let mark = match step.outcome {
        StepOutcome::Runs => '+',
        StepOutcome::Skipped | StepOutcome::NotReached => '-',
        StepOutcome::Fails => '!',
        StepOutcome::Unknown => '?',
    };
    lines.push(format!("{indent}{mark} {} {}: {}", step.address, step.word, step.what));
    if let Some(target) = &step.target {
        lines.push(format!("{indent}    target {}", place(target)));
    }
    for (word, value) in &step.values {
        lines.push(format!("{indent}    {{{word}}} = {value}"));
    }
    for expression in &step.expressions {
        lines.push(format!("{indent}    {}:", expression.field));
        match &expression.explained.trace {
            Some(trace) => tree(trace, depth + 3, lines),
            None => lines.push(format!("{indent}      {}", expression.explained.source)),
        }
    }
    step.steps.iter().for_each(|inside| add_step(lines, inside, depth + 1));
}

/// A place, and what is there.
fn place(looked: &LookedAt) -> String {
    let found = match &looked.found {
        LookedFor::Nothing => "nothing is there".to_owned(),
        LookedFor::File { size, modified } => format!("a file of {size} bytes, of {modified}"),
        LookedFor::Directory => "a directory is there".to_owned(),
        LookedFor::Unknown { why } => format!("not known: {why}"),
    };
    match &looked.endpoint {
        Some(endpoint) => format!("'{}' at endpoint '{endpoint}': {found}", looked.path),
        None => format!("'{}': {found}", looked.path),
    }
}
