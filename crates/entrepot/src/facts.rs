//! `transfer`, `event`, `job`: what happened and what happens.

use entrepot_admin::{HeldDecision, NumberedEvent, Response, ShownJob};
use entrepot_nouns::approval::{Approval, ApprovalVerdict};
use entrepot_nouns::event::{
    As2ReceiptSending, As2ReceivedReceipt, As2Rejection, ConfigExportFact, FileFact, PausedFact,
    PoolsFact, ProgramFact, RemovedFact, ReplayedFact, RetriedFact, RetryingFact, SessionLimitFact,
    StoppedFact,
};
use entrepot_nouns::{
    CommandFact, Event, Fact, Job, JobStep, PoolPlaces, Timestamp, Transfer, TransferId,
};
use serde_json::{Value, json};

use crate::admin_client::AdminClient;
use crate::args::{EventCommand, JobCommand, JobListArgs, TransferCommand, TransferListArgs};
use crate::ask::{hung_up, of_site, post};

use crate::config::Config;
use crate::event_export;
use crate::failure::Failure;
use crate::output::{Output, unexpected};
use crate::table;

/// Shows one transfer, or lists those that match.
pub(crate) async fn transfers(
    client: &AdminClient,
    output: Output,
    command: TransferCommand,
) -> Result<(), Failure> {
    let request = match command {
        TransferCommand::List(args) => {
            let TransferListArgs { account, state, path, limit } = args;
            let filter = json!({"account": account, "state": state, "path": path, "limit": limit});
            json!({"request": "transfers", "filter": filter})
        }
        TransferCommand::Show { id } => json!({"request": "transfer", "id": id}),
        TransferCommand::Release { id } => decide(id, HeldDecision::Release),
        TransferCommand::Discard { id } => decide(id, HeldDecision::Discard),
    };
    match client.ask(request).await? {
        Response::Transfers { transfers, .. } => output.rows(&transfers, print_transfers),
        Response::Transfer { transfer } => {
            output.value(&transfer, || print_transfers(std::slice::from_ref(&transfer)))
        }
        Response::Done => output.done(),
        _ => Err(unexpected()),
    }
}

fn decide(id: TransferId, decision: HeldDecision) -> Value {
    json!({"request": "decide-held", "id": id, "decision": decision})
}

fn print_transfers(transfers: &[Transfer]) {
    let cells = |transfer: &Transfer| {
        let digest = transfer.digests.blake3.map(|digest| entrepot_nouns::transfer::hex(&digest));
        vec![
            transfer.changed_at.to_string(),
            transfer.id.to_string(),
            transfer.direction.as_str().to_owned(),
            transfer.state.as_str().to_owned(),
            transfer.account.to_string(),
            transfer.endpoint.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string),
            transfer.path.clone(),
            table::bytes(transfer.size),
            digest.map_or_else(|| "-".to_owned(), |d| d.chars().take(16).collect()),
            transfer.error.clone().unwrap_or_default(),
        ]
    };
    let headings = [
        "at", "transfer", "way", "state", "account", "endpoint", "path", "size", "blake3", "error",
    ];
    table::print(&headings, &transfers.iter().map(cells).collect::<Vec<_>>());
}

/// Lists events; `follow` then prints new ones, of this machine's server until it stops.
pub(crate) async fn events(
    client: &AdminClient,
    output: Output,
    command: EventCommand,
) -> Result<(), Failure> {
    let args = match &command {
        EventCommand::List(args) | EventCommand::Follow(args) => args,
        EventCommand::Export(args) => return event_export::run(client, output, args).await,
    };
    let filter = json!({
        "kinds": args.kinds, "account": args.account, "path": args.path, "session": args.session,
        "transfer": args.transfer, "job": args.job, "since": args.since, "until": args.until,
    });
    let events = newest(client, filter.clone(), args.limit).await?;
    if matches!(command, EventCommand::List(_)) {
        return output.rows(&events, |events| events.iter().for_each(print_event));
    }
    events.iter().try_for_each(|event| print_followed(output, event))?;
    let after = events.last().map_or(0, |event| event.sequence);
    match client {
        AdminClient::Local(config) => follow(config, output, filter, after).await,
        AdminClient::Remote(server) => {
            Err(server.follow(&filter, after, |event| print_followed(output, event)).await)
        }
    }
}

/// The newest events that match, oldest first, of as many pages as that takes.
async fn newest(
    client: &AdminClient,
    mut filter: Value,
    limit: u32,
) -> Result<Vec<NumberedEvent>, Failure> {
    let mut missing = limit as usize;
    let mut pages: Vec<Vec<NumberedEvent>> = Vec::new();
    let mut before: Option<i64> = None;
    while missing > 0 {
        if let Value::Object(fields) = &mut filter {
            fields.insert("limit".to_owned(), json!(missing));
            fields.insert("before".to_owned(), json!(before));
        }
        let request = json!({"request": "events", "filter": filter});
        let Response::Events { events, next } = client.ask(request).await? else {
            return Err(unexpected());
        };
        missing = missing.saturating_sub(events.len());
        pages.push(events);
        if next.is_none() {
            break;
        }
        before = next;
    }
    Ok(pages.into_iter().rev().flatten().collect())
}

/// Prints new events until the server goes away.
async fn follow(
    config: &Config,
    output: Output,
    mut filter: Value,
    after: i64,
) -> Result<(), Failure> {
    if let Value::Object(fields) = &mut filter {
        fields.insert("after".to_owned(), json!(after));
    }
    let answer = post(config, &of_site("/v1/events/follow", config), Some(&filter)).await?;
    let Some(answer) = answer else {
        return Err(Failure::ops("no server runs, so no new events can come"));
    };
    let mut body = answer.body;
    let mut pending = Vec::new();
    while let Some(data) = body.next().await.map_err(|error| hung_up(&error))? {
        pending.extend_from_slice(&data);
        while let Some(at) = pending.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = pending.drain(..=at).collect();
            let event = serde_json::from_slice(&line)
                .map_err(|error| Failure::ops(format!("an event cannot be read: {error}")))?;
            print_followed(output, &event)?;
        }
    }
    Ok(())
}

fn print_followed(output: Output, event: &NumberedEvent) -> Result<(), Failure> {
    match output {
        Output::Human => print_event(event),
        Output::Json => {
            let line = serde_json::to_string(event)
                .map_err(|error| Failure::ops(format!("an event cannot be shown: {error}")))?;
            println!("{line}");
        }
    }
    Ok(())
}

fn print_event(numbered: &NumberedEvent) {
    let event = &numbered.event;
    let who = event.account.as_ref().map_or("-", |name| name.as_str());
    let what = table::printable(&describe(event));
    println!("{}  {:>6}  {:<18} {who:<12} {what}", event.at, numbered.sequence, event.fact.kind());
}

/// Behind what jobs stand still.
fn stop(stopped: &StoppedFact) -> String {
    format!("rule {}, behind '{}': {}", stopped.rule, stopped.order, stopped.error)
}

/// Why a rule is paused.
fn pause(paused: &PausedFact) -> String {
    let why = paused.reason.as_ref().map(|it| format!(": {it}")).unwrap_or_default();
    let path = paused.path.as_ref().map(|it| format!(" ({it})")).unwrap_or_default();
    format!("rule {} by {}{why}{path}", paused.rule, paused.by)
}

/// One line that says what happened.
pub(crate) fn describe(event: &Event) -> String {
    match &event.fact {
        Fact::SessionOpened { address, client, proof, protocol } => {
            format!("{} from {address} with {proof} ({client})", protocol.as_str())
        }
        Fact::SessionClosed { reason, bytes_in, bytes_out } => {
            format!("{reason}; {} in, {} out", table::bytes(*bytes_in), table::bytes(*bytes_out))
        }
        Fact::LoginRefused { address, name, reason, .. } => {
            format!("'{name}' from {address}: {reason}")
        }
        Fact::FileDelivered { file, endpoint, rule } => {
            let confirmed = confirmed(file);
            format!("{} to {endpoint} by rule {rule}, {}{confirmed}", sized(file), digest(file))
        }
        Fact::FileFetched { file, endpoint, rule } => {
            format!("{} from {endpoint} by rule {rule}, {}", sized(file), digest(file))
        }
        Fact::FileQuarantined { held, reason } => format!("{}: {reason}", sized(&held.file)),
        Fact::FileInterrupted { file, kept, reason } => {
            let kept = if *kept { "kept to resume" } else { "dropped" };
            format!("{} after {}: {reason} ({kept})", file.path, table::bytes(file.size))
        }
        Fact::JobRetrying { retrying: RetryingFact { rule, attempts, error, due_at } } => {
            format!("rule {rule}, attempt {attempts}: {error}; next at {due_at}")
        }
        Fact::JobFailed { rule, attempts, error } => {
            format!("rule {rule} after {attempts} attempts: {error}")
        }
        Fact::OrderStopped { stopped } => stop(stopped),
        Fact::JobDone { rule } => format!("rule {rule}"),
        Fact::JobRetried { retried: RetriedFact { rule, by, .. } }
        | Fact::JobCancelled { rule, by } => format!("rule {rule}, by {by}"),
        Fact::RulePaused { paused } => pause(paused),
        Fact::RuleResumed { resumed } => format!("rule {} by {}", resumed.rule, resumed.by),
        Fact::ConfigChanged { noun, name, action, by, fields } => {
            format!("{noun} {name} {action} by {by}: {}", fields.join(", "))
        }
        Fact::DirectoryCreated { path }
        | Fact::DirectoryRemoved { path }
        | Fact::FileRemoved { path }
        | Fact::FileRestored { path, .. }
        | Fact::FilePurged { path, .. } => path.clone(),
        Fact::FileTrashed { path, until, .. } => kept(path, Some(*until)),
        Fact::FileVersioned { version } => kept(&version.path, version.until),
        Fact::FileRenamed { from, to, displaced, .. } => {
            format!(
                "{from} → {to}{}",
                if displaced.is_some() { ", which was replaced" } else { "" }
            )
        }
        Fact::FileLinked { from, to, .. } => format!("{from} is also {to}"),
        Fact::ModeChanged { path, from, to } => format!("{path} from {from} to {to}"),
        Fact::LinkCreated { path, target } => format!("{path} leads to {target}"),
        Fact::CommandDone { command } => format!("{} from {}", said(command), command.address),
        Fact::CommandRefused { command, rule, reason } => {
            let by = rule.as_ref().map_or("no rule could be asked", |rule| rule.as_str());
            format!("{} from {} by {by}: {reason}", said(command), command.address)
        }
        Fact::ProgramEnded { program } => {
            let ProgramFact { rule, program, how, duration_ms, words, .. } = program;
            format!("rule {rule}: {program}, {how} after {duration_ms} ms {words}")
        }
        Fact::ForwardingRefused { what, address } => format!("{what} from {address}"),
        Fact::LoginLimited { address, seconds } => {
            format!("{address} is not heard for {seconds} s")
        }
        fact => order(fact).unwrap_or_else(|| rest(fact)),
    }
}

fn sized(file: &FileFact) -> String {
    format!("{} ({})", file.path, table::bytes(file.size))
}

/// What can be put back, and how long.
fn kept(path: &str, until: Option<Timestamp>) -> String {
    until.map_or_else(|| format!("{path}, kept"), |until| format!("{path}, kept until {until}"))
}

/// An order of an administrator to the node, if the fact is one.
fn order(fact: &Fact) -> Option<String> {
    let shown = |rate: &Option<u64>| match rate {
        Some(rate) => format!("{}/s", table::bytes(*rate)),
        None => "no limit".to_owned(),
    };
    Some(match fact {
        Fact::SessionEnding { name, by } => format!("of {name}, asked for by {by}"),
        Fact::SessionLimited { limit: SessionLimitFact { name, by_policy: true, by, .. } } => {
            format!("of {name} by its policies again, by {by}")
        }
        Fact::SessionLimited { limit: SessionLimitFact { name, upload, download, by, .. } } => {
            format!("of {name}, up {}, down {}, by {by}", shown(upload), shown(download))
        }
        Fact::RuleReplayed { replayed: ReplayedFact { rule, by, replay, jobs } } => {
            format!("rule {rule}, {jobs} jobs, by {by} (replay {replay})")
        }
        Fact::JobApproved { answer } | Fact::JobRefused { answer } => {
            let why = answer.why.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
            format!("rule {}, {} by {}{why}: {}", answer.rule, answer.step, answer.by, answer.text)
        }
        Fact::NodeDrained { name, by } | Fact::NodeUndrained { name, by } => {
            format!("{name} by {by}")
        }
        Fact::NodePools { pools: PoolsFact { name, places, by } } => {
            let PoolPlaces { instance, source, target } = places;
            let word =
                |places: &Option<u32>| places.map_or("as before".into(), |it| it.to_string());
            let (instance, source, target) = (word(instance), word(source), word(target));
            format!("{name}, instance {instance}, source {source}, target {target}, by {by}")
        }
        Fact::NodeRemoved { node } => {
            let RemovedFact { name, projected, unprojected, lost, by } = node;
            let journal = if *lost { ", its journal is lost" } else { "" };
            format!("{name} by {by}, {projected} records, {unprojected} missing{journal}")
        }
        Fact::AddressUnlocked { address, failures, by } => {
            format!("{address} by {by}, {failures} wrong passwords")
        }
        Fact::AccountUnlocked { name, failures, by } => {
            format!("{name} by {by}, {failures} wrong passwords")
        }
        Fact::ConfigExported { exported: ConfigExportFact { kinds, secrets, by } } => {
            let kinds: Vec<&str> = kinds.iter().map(|kind| kind.as_str()).collect();
            let secrets = if *secrets { ", with hashes and sealed secrets" } else { "" };
            format!("{} by {by}{secrets}", kinds.join(", "))
        }
        Fact::FileReleased { decided } | Fact::FileDiscarded { decided } => {
            format!("{} by {}", sized(&decided.held.file), decided.by)
        }
        Fact::LogChanged { levels, by } if levels.is_empty() => {
            format!("as the process file says again, by {by}")
        }
        Fact::LogChanged { levels, by } => format!("{} by {by}", levels.join(", ")),
        fact => return of_as2(fact),
    })
}

/// What became of a message of AS2, or of a receipt, if the fact tells of that.
fn of_as2(fact: &Fact) -> Option<String> {
    Some(match fact {
        Fact::As2ReceiptSent { sending } | Fact::As2ReceiptUnsent { sending } => {
            let As2ReceiptSending { partner, message_id, url, reason, .. } = sending;
            let why = reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            format!("for {message_id} of {partner} to {url}{why}")
        }
        Fact::As2ReceiptReceived { received } => {
            let signed = if received.signed_by.is_some() { "signed" } else { "not signed" };
            let As2ReceivedReceipt { partner, message_id, disposition, .. } = received;
            format!("for {message_id} from {partner}: {disposition}, {signed}")
        }
        Fact::As2Refused { refusal } => {
            let id = refusal.message_id.as_deref().unwrap_or("a message without an id");
            format!("{id} from {} to {}: {}", refusal.from, refusal.to, refusal.disposition)
        }
        Fact::As2Rejected { rejection } => {
            let As2Rejection { message, disposition, .. } = rejection;
            format!("{} by {}: {disposition}", message.message_id, message.partner)
        }
        _ => return None,
    })
}

/// A command and what the peer was told.
fn said(command: &CommandFact) -> String {
    let code = command.code.map(|code| format!(" ({code})")).unwrap_or_default();
    format!("{} {} {}{code}", command.protocol.as_str(), command.verb, command.argument)
}

fn digest(file: &FileFact) -> String {
    match file.digests.blake3 {
        Some(digest) => {
            format!("blake3 {}…", entrepot_nouns::transfer::hex(digest.get(..8).unwrap_or(&digest)))
        }
        None => "no digest".to_owned(),
    }
}

/// The message of AS2 that a file left in, and what its partner said.
fn confirmed(file: &FileFact) -> String {
    let Some(message) = &file.as2 else { return String::new() };
    let id = &message.message_id;
    let Some(receipt) = &message.receipt else {
        return format!(", message {id}, for which no receipt was asked");
    };
    let signed = if receipt.certificate.is_some() { "a signed receipt" } else { "a receipt" };
    let mic = message.mic.as_ref().map(|mic| format!(" of MIC {mic}")).unwrap_or_default();
    format!(", message {id}, confirmed by {signed}{mic}")
}

/// The file or the fields of a fact that has no sentence of its own.
fn rest(fact: &Fact) -> String {
    if let Some(file) = fact.file() {
        return format!("{}, {}", sized(file), digest(file));
    }
    let Ok(Value::Object(fields)) = serde_json::to_value(fact) else { return String::new() };
    let parts = fields.iter().filter(|(name, _)| name.as_str() != "kind");
    parts.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
}

/// Lists and shows jobs, makes them ready again and cancels them.
pub(crate) async fn jobs(
    client: &AdminClient,
    output: Output,
    command: JobCommand,
) -> Result<(), Failure> {
    let request = match command {
        JobCommand::List(JobListArgs { state, rule, limit }) => {
            json!({"request": "jobs", "filter": {"state": state, "rule": rule, "limit": limit}})
        }
        JobCommand::Show { id } => json!({"request": "job", "id": id}),
        JobCommand::Retry { id, current } => {
            let rule = if current { "current" } else { "pinned" };
            json!({"request": "retry-job", "id": id, "rule": rule})
        }
        JobCommand::Cancel { id } => json!({"request": "cancel-job", "id": id}),
        JobCommand::Approvals => json!({"request": "approvals"}),
        JobCommand::Approve { id, step, why } => {
            let verdict = ApprovalVerdict::Approved;
            json!({"request": "answer-approval", "id": id, "step": step, "verdict": verdict,
                "why": why})
        }
        JobCommand::Refuse { id, step, why } => {
            let verdict = ApprovalVerdict::Refused;
            json!({"request": "answer-approval", "id": id, "step": step, "verdict": verdict,
                "why": why})
        }
    };
    match client.ask(request).await? {
        Response::Jobs { jobs, .. } => output.rows(&jobs, print_jobs),
        Response::Approvals { approvals } => output.rows(&approvals, print_approvals),
        Response::Job { job: shown } => output.value(&shown, || {
            print_job_steps(&shown);
            let job = &shown.job;
            let what = table::printable(&describe(&job.event));
            println!("started by {}: {what}", job.event.fact.kind());
            for asked in &shown.approvals {
                println!("waits {}: {}", asked.waits(), table::printable(&asked.text));
            }
            if shown.rule_paused {
                println!("waits until 'entrepot rule resume {}'", job.rule);
            }
            if let Some(endpoint) = &shown.endpoint_paused {
                println!("waits until 'entrepot endpoint change {endpoint} paused=false'");
            }
            if let Some(ahead) = &shown.behind {
                println!("waits in its order behind {ahead}");
            }
        }),
        Response::Done => output.done(),
        _ => Err(unexpected()),
    }
}

fn print_job_steps(shown: &ShownJob) {
    print_jobs(std::slice::from_ref(&shown.job));
    if let Some(version) = &shown.job.rule_version {
        println!("runs document {version} of rule '{}'", shown.job.rule);
    }
    if shown.steps.is_empty() {
        return;
    }
    let cells = |step: &JobStep| {
        vec![
            step.address.to_string(),
            step.state.as_str().to_owned(),
            step.epoch.to_string(),
            step.started_at.to_string(),
            step.ended_at.map(|at| at.to_string()).unwrap_or_default(),
            step.error.clone().unwrap_or_default(),
        ]
    };
    let headings = ["step", "state", "lease", "begun", "ended", "error"];
    table::print(&headings, &shown.steps.iter().map(cells).collect::<Vec<_>>());
}

fn print_approvals(approvals: &[Approval]) {
    let cells = |asked: &Approval| {
        let by: Vec<&str> = asked.by.iter().map(|name| name.as_str()).collect();
        vec![
            asked.job.to_string(),
            asked.rule.to_string(),
            asked.step.to_string(),
            by.join(", "),
            format!("{} of {}", asked.yes, asked.need),
            asked.until.to_string(),
            asked.text.clone(),
        ]
    };
    let headings = ["job", "rule", "step", "asks", "yes", "until", "what"];
    table::print(&headings, &approvals.iter().map(cells).collect::<Vec<_>>());
}

fn print_jobs(jobs: &[Job]) {
    let cells = |job: &Job| {
        vec![
            job.changed_at.to_string(),
            job.id.to_string(),
            job.rule.to_string(),
            job.state.as_str().to_owned(),
            job.at.as_ref().map(ToString::to_string).unwrap_or_default(),
            job.lane.to_string(),
            job.attempts.to_string(),
            job.due_at.to_string(),
            job.error.clone().unwrap_or_default(),
        ]
    };
    let headings = ["at", "job", "rule", "state", "step", "lane", "attempts", "due", "error"];
    table::print(&headings, &jobs.iter().map(cells).collect::<Vec<_>>());
}
