//! The part of the story at a mainframe: a procedure of the sample application is called over
//! HTTPS, and by a rule whose file is delivered.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use entrepot_admin::Document;
use entrepot_host::{SAMPLE_MODEL, SampleHost};
use entrepot_nouns::{Env, Event, Fact};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::parts::wait_for_events;
use super::web::WebDemo;
use crate::ask::ask;
use crate::config::Config;
use crate::facts::describe;
use crate::failure::{Exit, Failure};
use crate::output::unexpected;

/// Rows of a list that are shown.
const SHOWN: usize = 3;

/// The sample application, while the demo runs.
pub(super) struct Mainframe {
    address: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Mainframe {
    /// Serves the application on a free port of this machine.
    pub(super) fn start() -> Result<Mainframe, Failure> {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let host = SampleHost::bind(any)
            .map_err(|error| Failure::new(error.code(), Exit::Failed, error.to_string()))?;
        let (address, stop) = (host.address(), CancellationToken::new());
        let task = tokio::spawn(host.run(stop.clone()));
        Ok(Mainframe { address, stop, task })
    }

    /// Ends it with all connections.
    pub(super) async fn end(self) {
        self.stop.cancel();
        // It ends with the token, and has nothing to say.
        let _ = self.task.await;
    }

    /// Deploys its model, calls a procedure, and lets a rule do so.
    pub(super) async fn tell(
        &self,
        config: &Config,
        web: &WebDemo,
        inbox: &Path,
        env: &Env,
    ) -> Result<(), Failure> {
        self.deploy(config).await?;
        let input = json!({"reader": "NOVAK"});
        let answer = web.post("/api/v1/models/loans/procedures/find_loans", &input).await?;
        let found: Value = serde_json::from_slice(&answer)
            .map_err(|error| Failure::start(format!("the procedure gave no JSON: {error}")))?;
        let loans = found.get("loans").and_then(Value::as_array).ok_or_else(unexpected)?;
        println!(
            "8. a mainframe application at {} has no interface but its screens:",
            self.address
        );
        println!("   its procedure find_loans, called over HTTPS, read {} loans:", loans.len());
        for loan in loans.iter().take(SHOWN) {
            println!("   {loan}");
        }
        let since = env.now();
        web.put("/out/NOVAK.reader", "whose loans?\n").await?;
        let filter = json!({"since": since, "limit": 100});
        let delivered = |event: &entrepot_admin::NumberedEvent| match &event.event.fact {
            Fact::FileDelivered { .. } => describe(&event.event).contains("NOVAK.csv"),
            _ => false,
        };
        let missing = "the rule delivered no file of loans; see 'entrepot job list'";
        let events = wait_for_events(config, env, filter, delivered, missing).await?;
        println!("9. a rule called it for each file *.reader in /out, and delivered what it gave:");
        let is_told = |event: &&Event| {
            event.fact.kind() == "procedure.called" || describe(event).contains("NOVAK.csv")
        };
        for event in events.iter().map(|it| &it.event).filter(is_told) {
            println!("   {}  {:<17} {}", event.at, event.fact.kind(), describe(event));
        }
        let file = inbox.join("demo/NOVAK.csv");
        let rows = std::fs::read_to_string(&file)
            .map_err(|error| Failure::file(format!("cannot read '{}': {error}", file.display())))?;
        println!("   {} has {} rows:", file.display(), rows.lines().count().saturating_sub(1));
        for row in rows.lines().take(SHOWN) {
            println!("   {row}");
        }
        Ok(())
    }

    async fn deploy(&self, config: &Config) -> Result<(), Failure> {
        let host = json!({"host": "127.0.0.1", "port": self.address.port()});
        let model = json!({
            "name": "loans",
            "endpoint": "mainframe",
            "definition": SAMPLE_MODEL,
            "users": "user,password\nCLERK1,SECRET\nCLERK2,SECRET\n",
            "callers": {"demo": ["find_loans"]},
            "pool": {"initial": 1},
        });
        let rule = json!({
            "name": "loans-of-readers",
            "when": {"event": "file.uploaded"},
            "if": "file.path.endsWith('.reader')",
            "do": [
                {"procedure": {
                    "model": "loans", "call": "find_loans", "in": {"reader": "{stem}"},
                    "name": "{stem}.csv",
                }},
                {"deliver": {"endpoint": "partner", "path": "{account}/{name}"}},
            ],
        });
        let nouns = [
            json!({"endpoint": {"name": "mainframe", "target": {"tn3270": host}}}),
            json!({"model": model}),
            json!({"rule": rule}),
        ];
        let text = nouns.map(|noun| noun.to_string()).join("\n---\n");
        let documents = [Document { file: "mainframe.yaml".to_owned(), text }];
        ask(config, json!({"request": "apply", "documents": documents, "prune": false})).await?;
        Ok(())
    }
}
