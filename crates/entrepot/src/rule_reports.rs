//! `rule test`, `lint`, `diff` and `replay`.

use entrepot_admin::{Again, ReplayOrder, ReplayedEvents, Response, RuleSource};
use entrepot_nouns::rule_report::{
    DiffedEvent, RuleChange, RuleDiff, RuleReplay, RuleTestReport, TestOutcome,
};
use serde_json::{Value, json};

use crate::admin_client::AdminClient;
use crate::args::{ReplayArgs, RuleDiffArgs, RuleSourceArgs};
use crate::failure::{Exit, Failure};
use crate::nouns;
use crate::output::{Output, unexpected};
use crate::table::printable;

/// Tries the tests of rules; an error if one failed.
pub(crate) async fn test(
    client: &AdminClient,
    output: Output,
    args: RuleSourceArgs,
) -> Result<(), Failure> {
    let source = source(args)?;
    let answer = client.ask(json!({"request": "test-rules", "source": source})).await?;
    let Response::RuleTests { reports } = answer else { return Err(unexpected()) };
    output.rows(&reports, |reports| reports.iter().for_each(print_tests))?;
    let all = || reports.iter().flat_map(|report| &report.tests);
    let failed = all().filter(|test| test.outcome == TestOutcome::Failed).count();
    if failed > 0 {
        let text = format!("{failed} of {} tests of rules failed", all().count());
        return Err(Failure::new("EP0860", Exit::Findings, text));
    }
    Ok(())
}

fn print_tests(report: &RuleTestReport) {
    if report.tests.is_empty() {
        println!("- {}: no tests", report.rule);
    }
    for test in &report.tests {
        let mark = match test.outcome {
            TestOutcome::Passed => '+',
            TestOutcome::Failed => '!',
        };
        println!("{mark} {} tests.{}: {}", report.rule, test.place, printable(&test.why));
    }
}

/// Says what is probably not meant; an error if anything is.
pub(crate) async fn lint(
    client: &AdminClient,
    output: Output,
    args: RuleSourceArgs,
) -> Result<(), Failure> {
    let source = source(args)?;
    let answer = client.ask(json!({"request": "lint-rules", "source": source})).await?;
    let Response::RuleFindings { findings } = answer else { return Err(unexpected()) };
    output.rows(&findings, |findings| {
        for finding in findings {
            println!("{} {}: {}", finding.rule, finding.field, printable(&finding.text));
        }
    })?;
    match findings.len() {
        0 => Ok(()),
        1 => Err(Failure::new("EP0861", Exit::Findings, "1 thing is probably not meant")),
        several => {
            let text = format!("{several} things are probably not meant");
            Err(Failure::new("EP0861", Exit::Findings, text))
        }
    }
}

/// Says what differs.
pub(crate) async fn diff(
    client: &AdminClient,
    output: Output,
    args: RuleDiffArgs,
) -> Result<(), Failure> {
    let source = source(RuleSourceArgs { rule: args.rule, file: args.file })?;
    let answer = client.ask(json!({"request": "diff-rules", "source": source})).await?;
    let Response::RuleDiffs { diffs } = answer else { return Err(unexpected()) };
    output.rows(&diffs, |diffs| {
        for line in diffs.iter().flat_map(diff_lines) {
            println!("{}", printable(&line));
        }
    })
}

fn diff_lines(diff: &RuleDiff) -> Vec<String> {
    let rule = &diff.rule;
    let mut lines = vec![match (diff.stored, diff.changes.is_empty()) {
        (false, _) => format!("rule {rule}: is not stored"),
        (true, true) => format!("rule {rule}: means what is stored"),
        (true, false) => format!("rule {rule}:"),
    }];
    if diff.stored {
        lines.extend(diff.changes.iter().flat_map(change_lines));
    }
    let Some(since) = diff.since else { return lines };
    lines.push(format!(
        "  of the last {} events, since {since}: both start on {}, only the document on {}, only \
         the stored rule on {}",
        diff.events,
        diff.unchanged,
        diff.gained.len(),
        diff.lost.len()
    ));
    let event = |mark: char, event: &DiffedEvent| {
        let path = event.path.as_deref().unwrap_or("-");
        format!("  {mark} {} {} {path} (event {}): {}", event.at, event.kind, event.id, event.why)
    };
    lines.extend(diff.gained.iter().map(|gained| event('+', gained)));
    lines.extend(diff.lost.iter().map(|lost| event('-', lost)));
    lines
}

fn change_lines(change: &RuleChange) -> Vec<String> {
    let line = |mark: char, value: &Value| format!("  {mark} {}: {value}", change.field);
    let before = change.before.as_ref().map(|value| line('-', value));
    let after = change.after.as_ref().map(|value| line('+', value));
    before.into_iter().chain(after).collect()
}

/// Makes jobs again, or says which ones.
pub(crate) async fn replay(
    client: &AdminClient,
    output: Output,
    args: ReplayArgs,
) -> Result<(), Failure> {
    let of = match (args.event, args.since) {
        (Some(event), _) => ReplayedEvents::Event(event),
        (None, Some(since)) => ReplayedEvents::Time { since, until: args.until },
        (None, None) => return Err(Failure::usage("name an event, or a time by '--since'")),
    };
    let again = if args.again { Again::Yes } else { Again::No };
    let mut order = ReplayOrder {
        rule: args.rule,
        of,
        again,
        replay: args.replay,
        after: None,
        planned: None,
        rule_version: None,
    };
    let mut whole = part(client, &order).await?;
    if let (ReplayedEvents::Time { until, .. }, Some(end)) = (&mut order.of, whole.until) {
        *until = Some(end);
    }
    order.planned = Some(whole.replay).filter(|_| order.replay.is_none());
    order.rule_version = Some(whole.rule_version.clone());
    print_replayed(output, &whole);
    while let Some(next) = whole.next {
        let (events, jobs) = (whole.events, whole.jobs_made());
        let reached = whole.reached.map(|at| format!(", up to {at}")).unwrap_or_default();
        let done = if whole.made { "made" } else { "to make" };
        eprintln!("{events} events looked at{reached}, {jobs} jobs {done} so far");
        order.after = Some(next);
        let following = part(client, &order).await;
        let following = following.inspect_err(|_| {
            if whole.made {
                eprintln!("the same command goes on: what was made is not made again");
            }
        })?;
        print_replayed(output, &following);
        whole.go_on(following);
    }
    output.value(&whole, || {
        for line in replay_lines(&whole, &order) {
            println!("{}", printable(&line));
        }
    })
}

async fn part(client: &AdminClient, order: &ReplayOrder) -> Result<RuleReplay, Failure> {
    let answer = client.ask(json!({"request": "replay-rule", "order": order})).await?;
    let Response::RuleReplay { replay } = answer else { return Err(unexpected()) };
    Ok(*replay)
}

/// What becomes of the events of a part, for people; JSON comes as one value, at the end.
fn print_replayed(output: Output, part: &RuleReplay) {
    if output == Output::Json {
        return;
    }
    for event in &part.jobs {
        let path = event.path.as_deref().unwrap_or("-");
        let what = match (&event.job, &event.left_out) {
            (Some(job), _) => format!("job {job}"),
            (None, Some(why)) => format!("left out: {why}"),
            (None, None) => String::new(),
        };
        let mark = if event.job.is_some() { '+' } else { '-' };
        let line = format!("{mark} {} {path} (event {}): {what}", event.at, event.event);
        println!("{}", printable(&line));
    }
}

/// What came of it together, and how the jobs are made.
fn replay_lines(replay: &RuleReplay, order: &ReplayOrder) -> Vec<String> {
    let jobs = replay.jobs_made();
    let done = if replay.made { "were made" } else { "would be made" };
    let mut lines = vec![format!("{jobs} jobs {done} of {} events", replay.events)];
    if !replay.made && jobs > 0 {
        let of = match &order.of {
            ReplayedEvents::Event(event) => format!("--event {event}"),
            ReplayedEvents::Time { since, until } => {
                let until = until.or(replay.until);
                let until = until.map(|until| format!(" --until {until}")).unwrap_or_default();
                format!("--since {since}{until}")
            }
        };
        let again = if order.again == Again::Yes { " --again" } else { "" };
        let (rule, id) = (&replay.rule, replay.replay);
        lines.push(format!("to make them: entrepot rule replay {rule} {of}{again} --replay {id}"));
    }
    lines
}

fn source(args: RuleSourceArgs) -> Result<RuleSource, Failure> {
    let documents = nouns::documents(&args.file)?;
    Ok(RuleSource { rule: args.rule, documents })
}
