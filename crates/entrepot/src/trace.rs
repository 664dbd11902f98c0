//! `trace`: where a file is, as a tree.

use entrepot_admin::Response;
use entrepot_nouns::trace::{Trace, TracedEvent, TracedJob};
use entrepot_nouns::{JobState, Timestamp};
use serde_json::json;

use crate::admin_client::AdminClient;
use crate::args::TraceArgs;
use crate::facts;
use crate::failure::Failure;
use crate::output::{Output, unexpected};
use crate::table::printable;

/// Asks where it is.
pub(crate) async fn run(
    client: &AdminClient,
    output: Output,
    args: TraceArgs,
) -> Result<(), Failure> {
    let answer = client.ask(json!({"request": "trace", "subject": args.subject})).await?;
    let Response::Trace { trace } = answer else { return Err(unexpected()) };
    output.value(&trace, || {
        for line in lines(&trace) {
            println!("{}", printable(&line));
        }
    })
}

/// What is shown of it.
pub(crate) fn lines(trace: &Trace) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(chain) = &trace.chain {
        add_event(&mut lines, chain, Branch::default());
    }
    lines.extend(trace.remarks.iter().map(|remark| remark.text.clone()));
    lines.push(trace.summary.clone());
    lines
}

/// Where in the tree a line stands: what is drawn in front of it, and in front of what is below.
#[derive(Clone, Default)]
struct Branch {
    own: String,
    below: String,
}

impl Branch {
    /// That of the child at `at` among `count`.
    fn child(&self, at: usize, count: usize) -> Branch {
        let is_last = at + 1 == count;
        let (own, below) = if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        Branch { own: format!("{}{own}", self.below), below: format!("{}{below}", self.below) }
    }
}

fn add_event(lines: &mut Vec<String>, traced: &TracedEvent, branch: Branch) {
    let event = &traced.event;
    let who = event.account.as_ref().map(|name| format!(" by {name}")).unwrap_or_default();
    let from = traced.address.as_ref().map(|from| format!(" from {from}")).unwrap_or_default();
    let mark = if traced.asked { "   <- asked for" } else { "" };
    let (at, kind, node) = (event.at, event.fact.kind(), &event.node);
    let what = facts::describe(event);
    let own = &branch.own;
    lines.push(format!("{own}{at} {kind}{who}{from} on {node}: {what}{mark}"));
    let count = traced.jobs.len() + traced.renamed.len();
    for (at, job) in traced.jobs.iter().enumerate() {
        add_job(lines, job, event.at, &branch.child(at, count));
    }
    for (at, event) in traced.renamed.iter().enumerate() {
        add_event(lines, event, branch.child(traced.jobs.len() + at, count));
    }
}

fn add_job(lines: &mut Vec<String>, job: &TracedJob, caused: Timestamp, branch: &Branch) {
    let mark = if job.asked { "   <- asked for" } else { "" };
    let (rule, state, id) = (&job.rule, job.state.as_str(), job.id);
    let ended = match job.state {
        JobState::Ready => job.waits.as_ref().map_or_else(String::new, |waits| format!(" {waits}")),
        _ => format!(", {} after the event", span(caused, job.changed_at)),
    };
    let attempts = match job.attempts {
        1 => "1 attempt".to_owned(),
        attempts => format!("{attempts} attempts"),
    };
    let own = &branch.own;
    lines.push(format!("{own}rule {rule}: {state}{ended}, {attempts} (job {id}){mark}"));
    let count = job.steps.len() + job.events.len();
    for (at, step) in job.steps.iter().enumerate() {
        let own = branch.child(at, count).own;
        let ended = step.ended_at.unwrap_or(step.started_at);
        let error = step.error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
        let (address, state) = (&step.address, step.state.as_str());
        let span = span(step.started_at, ended);
        lines.push(format!("{own}step {address}: {state} after {span}{error}"));
    }
    for (at, event) in job.events.iter().enumerate() {
        add_event(lines, event, branch.child(job.steps.len() + at, count));
    }
}

/// Time between two moments.
fn span(from: Timestamp, to: Timestamp) -> String {
    let span = to.since(from);
    match span.as_millis() {
        ms if ms < 10_000 => format!("{ms} ms"),
        ms if ms < 600_000 => format!("{} s", ms / 1_000),
        ms => format!("{} min", ms / 60_000),
    }
}
