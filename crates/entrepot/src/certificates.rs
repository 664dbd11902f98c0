//! `listener`: the verbs of every noun, and the certificates that listeners have from authorities.
//! What asks for these while the server runs stands here, too.

use std::time::Duration;

use entrepot_acme::CertificateWorker;
use entrepot_admin::{CertificateRow, Response};
use entrepot_engine::Drained;
use entrepot_nouns::Kind;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::admin_client::AdminClient;
use crate::args::ListenerCommand;
use crate::failure::Failure;
use crate::output::{Output, unexpected};
use crate::{nouns, table};

/// How often a node looks whether a certificate is to be asked for.
const INTERVAL: Duration = Duration::from_secs(2);

/// Runs one of the commands on listeners.
pub(crate) async fn run(
    client: &AdminClient,
    output: Output,
    command: ListenerCommand,
) -> Result<(), Failure> {
    match command {
        ListenerCommand::Noun(command) => nouns::run(client, output, Kind::Listener, command).await,
        ListenerCommand::Certificates => {
            let answer = client.ask(json!({"request": "certificates"})).await?;
            let Response::Certificates { certificates } = answer else {
                return Err(unexpected());
            };
            output.rows(&certificates, print)
        }
        ListenerCommand::RenewCertificate { name } => {
            client.ask(json!({"request": "renew-certificate", "listener": name})).await?;
            output.value(&json!({"asked": name}), || {
                println!("'{name}' asks its authority; see 'entrepot listener certificates'");
            })
        }
    }
}

fn print(rows: &[CertificateRow]) {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let cells = |row: &CertificateRow| {
        let names: Vec<&str> = row.names.iter().map(|name| name.as_str()).collect();
        let failure = row.failure.as_ref();
        vec![
            row.listener.to_string(),
            row.state.as_str().to_owned(),
            names.join(","),
            or_dash(row.not_after.map(|at| at.to_string())),
            or_dash(row.renews_at.or(failure.map(|it| it.retry_at)).map(|at| at.to_string())),
            or_dash(failure.map(|it| format!("{} ({})", it.problem, it.code))),
        ]
    };
    let headings = ["listener", "state", "names", "until", "asked again", "problem"];
    table::print(&headings, &rows.iter().map(cells).collect::<Vec<_>>());
}

/// Asks authorities for certificates in time, until `end`; a drained node asks for none.
pub(crate) async fn keep(worker: CertificateWorker, drained: Drained, end: CancellationToken) {
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let work = async {
        loop {
            ticks.tick().await;
            if !drained.is_drained() {
                worker.pass().await;
            }
        }
    };
    tokio::select! {
        () = end.cancelled() => {}
        () = work => {}
    }
}
