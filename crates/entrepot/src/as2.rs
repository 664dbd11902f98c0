//! `as2`: messages of AS2, what became of them, and what proves it.

mod evidence;
mod verify;

use entrepot_admin::Response;
use entrepot_nouns::as2::{As2Entry, As2MessageName, As2Shown, As2TestStep};
use entrepot_nouns::event::{As2Receipt, As2Tls};
use entrepot_nouns::transfer::hex;
use entrepot_nouns::{Event, Name};
use entrepot_proof::As2Parts;
use serde_json::{Value, json};

use crate::admin_client::AdminClient;
use crate::args::{As2Command, As2MessagesArgs, As2SendArgs};
use crate::facts;
use crate::failure::{Exit, Failure};
use crate::output::{Output, unexpected};
use crate::table::{self, printable};

pub(crate) use evidence::{EvidenceRequest, PATH, answer, of as evidence_of, of_entry};

/// Runs one of the commands on messages of AS2.
pub(crate) async fn run(
    client: impl FnOnce() -> Result<AdminClient, Failure>,
    output: Output,
    command: As2Command,
) -> Result<(), Failure> {
    match command {
        As2Command::Messages(args) => {
            let request = json!({"request": "as2", "ask": {"messages": filter(&args)}});
            let Response::As2Messages { messages, .. } = client()?.ask(request).await? else {
                return Err(unexpected());
            };
            output.rows(&messages, print)
        }
        As2Command::Show { message } => {
            let shown = shown(&client()?, &message).await?;
            output.value(&shown, || lines(&shown).iter().for_each(|line| println!("{line}")))
        }
        As2Command::Evidence { message, output: file } => {
            evidence::run(client()?, output, &message, file.as_deref()).await
        }
        As2Command::Test { partner } => test(&client()?, output, &partner).await,
        As2Command::Send(args) => send(&client()?, output, &args).await,
        As2Command::Resend { message } => resend(&client()?, output, &message).await,
        As2Command::Cancel { message } => {
            client()?.ask(json!({"request": "as2", "ask": {"cancel": message}})).await?;
            output.value(&json!({"cancelled": message}), || println!("'{message}' cancelled"))
        }
        As2Command::Verify(args) => verify::run(output, &args),
    }
}

async fn resend(
    client: &AdminClient,
    output: Output,
    message: &As2MessageName,
) -> Result<(), Failure> {
    let request = json!({"request": "as2", "ask": {"resend": message}});
    let Response::As2Sending { sending } = client.ask(request).await? else {
        return Err(unexpected());
    };
    let what = match &sending.message_id {
        Some(same) => format!("again as {}", printable(same)),
        None => "as a new message".to_owned(),
    };
    output.value(&sending, || println!("job {} sends it {what}", sending.job))
}

async fn send(client: &AdminClient, output: Output, args: &As2SendArgs) -> Result<(), Failure> {
    let As2SendArgs { partner, file, name, content_type, subject } = args;
    let order = json!({"endpoint": file.endpoint, "path": file.path, "name": name,
        "content_type": content_type, "subject": subject});
    let request = json!({"request": "as2", "ask": {"send": {"partner": partner, "order": order}}});
    let Response::As2Sending { sending } = client.ask(request).await? else {
        return Err(unexpected());
    };
    let job = sending.job;
    output.value(&sending, || println!("job {job} sends it; 'job show {job}' tells how it goes"))
}

/// Tests the connection to a partner, by the running server.
async fn test(client: &AdminClient, output: Output, partner: &Name) -> Result<(), Failure> {
    let request = json!({"request": "as2", "ask": {"test": partner}});
    let Response::As2Test { test } = client.ask_server(request).await? else {
        return Err(unexpected());
    };
    output.value(&test, || {
        for As2TestStep { step, passed, found } in &test.steps {
            let word = if *passed { "ok" } else { "FAILED" };
            println!("{word:<8}{step:<12}{}", printable(found));
        }
    })?;
    match test.steps.iter().find(|step| !step.passed) {
        None => Ok(()),
        Some(failed) => {
            let found = format!("{}: {}", failed.step, failed.found);
            Err(Failure::new("EP1221", Exit::Findings, found))
        }
    }
}

/// One message, with all that is known of it.
pub(crate) async fn shown(
    client: &AdminClient,
    message: &As2MessageName,
) -> Result<As2Shown, Failure> {
    let request = json!({"request": "as2", "ask": {"message": message}});
    match client.ask(request).await? {
        Response::As2Message { message } => Ok(*message),
        _ => Err(unexpected()),
    }
}

fn filter(args: &As2MessagesArgs) -> Value {
    let As2MessagesArgs { partner, message, direction, state, since, until, limit } = args;
    json!({
        "partner": partner, "message": message, "direction": direction, "state": state,
        "since": since, "until": until, "limit": limit,
    })
}

fn print(messages: &[As2Entry]) {
    let cells = |entry: &As2Entry| {
        vec![
            entry.at.to_string(),
            entry.id.to_string(),
            entry.direction.as_str().to_owned(),
            entry.state.to_string(),
            entry.partner.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string),
            printable(entry.message_id.as_deref().unwrap_or("-")),
            printable(entry.about.as_deref().unwrap_or("-")),
        ]
    };
    let headings = ["at", "id", "way", "state", "partner", "message", "about"];
    table::print(&headings, &messages.iter().map(cells).collect::<Vec<_>>());
}

/// What is shown of one, a line each.
pub(crate) fn lines(shown: &As2Shown) -> Vec<String> {
    let entry = &shown.entry;
    let mut lines = Vec::new();
    let mut add = |name: &str, value: String| {
        lines.push(printable(&format!("{name:<13} {value}")));
    };
    add("message", entry.message_id.clone().unwrap_or_else(|| "without a Message-ID".to_owned()));
    add("id", entry.id.to_string());
    add("state", format!("{} ({}), {}", entry.state, entry.direction.as_str(), entry.at));
    let partner = entry.partner.as_ref().map_or("unknown", |name| name.as_str());
    add("partner", format!("{partner}: {} to {}", entry.from, entry.to));
    if let Some(job) = &entry.job {
        add("job", job.to_string());
    }
    if let Some(parts) = shown.fact.as_deref().and_then(As2Parts::of) {
        lines.extend(lines_of(&parts));
    }
    lines.extend(shown.receipts.iter().map(came));
    lines
}

fn lines_of(parts: &As2Parts) -> Vec<String> {
    let mut lines = Vec::new();
    let mut add = |name: &str, value: Option<String>| {
        lines.extend(value.map(|value| printable(&format!("{name:<13} {value}"))));
    };
    let message = &parts.message;
    if let Some(file) = &parts.file {
        add("file", Some(format!("{}, {} bytes", file.path, file.size)));
        add("BLAKE3", file.digests.blake3.map(|digest| hex(&digest)));
        add("SHA-256", file.digests.sha256.map(|digest| hex(&digest)));
    }
    add("content type", message.content_type.clone());
    add("subject", message.subject.clone());
    add("signed by", message.signed_by.clone());
    add("cipher", message.cipher.clone());
    add("MIC", parts.mic.clone());
    add("disposition", message.disposition.clone());
    add("TLS", parts.tls.as_ref().map(tls));
    add("receipt", parts.receipt.as_ref().map(receipt));
    for line in parts.head.iter().flat_map(|head| head.lines()) {
        add("header", Some(line.to_owned()));
    }
    lines
}

fn tls(tls: &As2Tls) -> String {
    let As2Tls { version, suite, certificate } = tls;
    let shown = certificate.as_ref().map(|it| format!(", certificate {it}")).unwrap_or_default();
    format!("{version} {suite}{shown}")
}

fn receipt(receipt: &As2Receipt) -> String {
    let to = receipt.url.as_ref().map(|url| format!(", for {url}")).unwrap_or_default();
    format!("{}{to}", receipt.message_id)
}

fn came(event: &Event) -> String {
    printable(&format!("{:<13} {} {}", "receipt came", event.at, facts::describe(event)))
}
