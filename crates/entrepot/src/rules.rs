//! `rule`: the verbs of every noun, why an event started which rules, what rules would do, and a
//! start by hand.

use std::time::Duration;

use entrepot_admin::{DryRunOrder, Response, RuleSubject};
use entrepot_nouns::explanation::{
    ConditionExplanation, EventExplanation, Explanation, RuleExplanation, RuleOutcome,
    TracedExpression,
};
use entrepot_nouns::{Job, JobId, JobState, Kind};
use serde_json::{Map, Value, json};

use crate::admin_client::AdminClient;
use crate::args::{ExplainArgs, RuleCommand, RuleDryRunArgs, RunArgs};
use crate::condition_tree::{tree, value};
use crate::dry_run_text;
use crate::facts;
use crate::failure::{Exit, Failure};
use crate::nouns;
use crate::output::{Output, unexpected};
use crate::rule_reports;
use crate::table::printable;

/// Runs one of the commands on rules.
pub(crate) async fn run(
    client: &AdminClient,
    output: Output,
    command: RuleCommand,
) -> Result<(), Failure> {
    match command {
        RuleCommand::Noun(command) => nouns::run(client, output, Kind::Rule, command).await,
        RuleCommand::Explain(args) => explain(client, output, args).await,
        RuleCommand::Run(args) => start(client, output, args).await,
        RuleCommand::DryRun(args) => dry_run(client, output, args).await,
        RuleCommand::Test(args) => rule_reports::test(client, output, args).await,
        RuleCommand::Lint(args) => rule_reports::lint(client, output, args).await,
        RuleCommand::Diff(args) => rule_reports::diff(client, output, args).await,
        RuleCommand::Replay(args) => rule_reports::replay(client, output, args).await,
        RuleCommand::Pause { name } => {
            done(client, output, json!({"request": "pause-rule", "name": name, "to": "paused"}))
                .await
        }
        RuleCommand::Resume { name } => {
            done(client, output, json!({"request": "pause-rule", "name": name, "to": "resumed"}))
                .await
        }
    }
}

/// Asks for what has no answer but that it is done.
async fn done(client: &AdminClient, output: Output, request: Value) -> Result<(), Failure> {
    match client.ask(request).await? {
        Response::Done => output.done(),
        _ => Err(unexpected()),
    }
}

async fn explain(client: &AdminClient, output: Output, args: ExplainArgs) -> Result<(), Failure> {
    let ExplainArgs { about, rule } = args;
    let question = json!({"about": about, "rule": rule});
    let answer = client.ask(json!({"request": "explain-rules", "question": question})).await?;
    let Response::Explanation { explanation } = answer else { return Err(unexpected()) };
    output.value(&explanation, || {
        for line in lines(&explanation, &about) {
            println!("{}", printable(&line));
        }
    })
}

/// How often a job that is waited for is looked at.
const WAIT_EVERY: Duration = Duration::from_millis(200);

async fn start(client: &AdminClient, output: Output, args: RunArgs) -> Result<(), Failure> {
    let mut parameters = Map::new();
    for given in args.parameters {
        if parameters.insert(given.name.clone(), given.value.into()).is_some() {
            let problem = format!("the parameter '{}' is given twice", given.name);
            return Err(Failure::usage(problem));
        }
    }
    let request = json!({"request": "run-rule", "name": args.name, "parameters": parameters});
    let answer = client.ask_server(request).await?;
    let Response::StartedRule { started } = answer else { return Err(unexpected()) };
    if !args.wait {
        return output.value(&started, || println!("job {} follows", started.job));
    }
    let job = ended(client, started.job).await?;
    let (state, id) = (job.state.as_str(), job.id);
    output.value(&job, || println!("job {id} is {state}"))?;
    match (job.state, &job.error) {
        (JobState::Done, _) => Ok(()),
        (_, error) => {
            let error = error.as_deref().map(|error| format!(": {error}")).unwrap_or_default();
            let message = format!("job {id} of rule '{}' is {state}{error}", job.rule);
            Err(Failure::new("EP0842", Exit::Failed, message))
        }
    }
}

/// Waits until the job is there and has ended.
async fn ended(client: &AdminClient, id: JobId) -> Result<Job, Failure> {
    loop {
        match client.ask_server(json!({"request": "job", "id": id})).await {
            Ok(Response::Job { job }) if job.job.state.has_ended() => return Ok(job.job),
            Ok(Response::Job { .. }) => {}
            Ok(_) => return Err(unexpected()),
            // Its event is not in the database yet.
            Err(failure) if failure.exit == Exit::NotFound => {}
            Err(failure) => return Err(failure),
        }
        tokio::time::sleep(WAIT_EVERY).await;
    }
}

async fn dry_run(
    client: &AdminClient,
    output: Output,
    args: RuleDryRunArgs,
) -> Result<(), Failure> {
    let about = match (args.event, args.path) {
        (Some(event), _) => Some(RuleSubject::Event(event)),
        (None, path) => path.map(RuleSubject::Path),
    };
    let order = DryRunOrder {
        rule: args.rule,
        documents: nouns::documents(&args.file)?,
        about,
        account: args.account,
    };
    let answer = client.ask(json!({"request": "dry-run-rule", "order": order})).await?;
    let Response::RuleDryRun { dry_run } = answer else { return Err(unexpected()) };
    output.value(&dry_run, || {
        for line in dry_run_text::lines(&dry_run) {
            println!("{}", printable(&line));
        }
    })
}

/// The whole explanation as text; that of a path in short.
fn lines(explanation: &Explanation, about: &RuleSubject) -> Vec<String> {
    let mut lines = Vec::new();
    for event in &explanation.events {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        lines.push(headline(event));
        for rule in &event.rules {
            match about {
                RuleSubject::Path(_) => lines.push(in_short(rule)),
                RuleSubject::Event(_) => lines.extend(in_full(rule)),
            }
        }
    }
    if !lines.is_empty() && !explanation.remarks.is_empty() {
        lines.push(String::new());
    }
    lines.extend(explanation.remarks.iter().map(|remark| remark.text.clone()));
    lines
}

fn headline(explained: &EventExplanation) -> String {
    let event = &explained.event;
    let who = event.account.as_ref().map(|name| format!(" by {name}")).unwrap_or_default();
    let (kind, what) = (event.fact.kind(), facts::describe(event));
    let counts = match explained.counts_as.as_slice() {
        [] => ", which starts no rules".to_owned(),
        [only] if only == kind => String::new(),
        several => format!(", which counts as {}", several.join(" and ")),
    };
    format!("{} {kind}{who}{counts}: {what} (event {})", event.at, event.id)
}

fn in_short(rule: &RuleExplanation) -> String {
    let trace = rule.condition.as_ref().and_then(|condition| condition.trace.as_ref());
    let because = match (rule.outcome, trace) {
        (RuleOutcome::ConditionFalse, Some(trace)) => {
            let parts = deciding(trace).into_iter();
            let parts = parts.map(|part| format!("'{}' is {}", part.text, value(part)));
            format!(", for {}", parts.collect::<Vec<_>>().join(" and "))
        }
        _ => String::new(),
    };
    let job = job(rule).map(|job| format!("; {job}")).unwrap_or_default();
    let changed = changed(rule).map(|changed| format!("; {changed}")).unwrap_or_default();
    format!("  {}: {}{because}{job}{changed}", rule.rule, rule.why)
}

fn in_full(rule: &RuleExplanation) -> Vec<String> {
    let fits = if rule.trigger_fits { "fits" } else { "does not fit" };
    let mut lines = vec![
        String::new(),
        format!("rule {}: {}", rule.rule, rule.why),
        format!("  trigger    {}: {fits}", rule.trigger),
        format!("  enabled    {}", if rule.enabled { "yes" } else { "no" }),
    ];
    match &rule.condition {
        Some(condition) => lines.extend(of_condition(condition)),
        None if rule.trigger_fits => lines.push("  condition  none".to_owned()),
        None => {}
    }
    lines.push(format!("  depth      {}, the limit is {}", rule.depth, rule.depth_limit));
    lines.push(format!("  job        {}", job(rule).unwrap_or_else(|| "none".to_owned())));
    lines.extend(changed(rule).map(|changed| format!("  note       {changed}")));
    lines
}

fn of_condition(condition: &ConditionExplanation) -> Vec<String> {
    let holds = match (condition.holds, &condition.error) {
        (Some(true), _) => "holds",
        (Some(false), _) => "is false",
        (None, Some(error)) => error,
        (None, None) => "fails",
    };
    let mut lines = vec![format!("  condition  {holds}")];
    match &condition.trace {
        Some(trace) => tree(trace, 2, &mut lines),
        None => lines.push(format!("    {}", condition.source)),
    }
    lines
}

fn deciding(traced: &TracedExpression) -> Vec<&TracedExpression> {
    let own = traced.deciding.then_some(traced);
    own.into_iter().chain(traced.parts.iter().flat_map(deciding)).collect()
}

fn job(rule: &RuleExplanation) -> Option<String> {
    let job = rule.job.as_ref()?;
    let state = job.state.map_or("gone", |state| state.as_str());
    let error = job.error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
    Some(format!("job {} is {state}{error}", job.id))
}

fn changed(rule: &RuleExplanation) -> Option<String> {
    let at = rule.changed_at?;
    Some(format!("the rule was changed at {at}, after the event: it may have been another then"))
}
