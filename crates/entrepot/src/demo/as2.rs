//! The part of the story that goes over AS2: a rule sends a message to a partner, which is this
//! very node under another name; then its receipt, and what proves both.

use std::net::SocketAddr;
use std::path::Path;

use entrepot_admin::{Document, NumberedEvent};
use entrepot_nouns::as2::As2MessageName;
use entrepot_nouns::{Env, Fact};
use serde_json::{Value, json};

use super::parts::{wait_for_events, write};
use super::web::WebDemo;
use crate::admin_client::AdminClient;
use crate::ask::ask;
use crate::config::Config;
use crate::failure::{Exit, Failure};
use crate::table::printable;
use crate::{as2, as2_certificate};

/// What is sent, and what it is called.
const FILE: &str = "order.x12";
const CONTENT: &str = "ISA*00*          *00*          *ZZ*DEMO           *ZZ*LOOPBACK       ~\r\n";
/// The evidence, in the folder of the demo.
const EVIDENCE: &str = "order.evidence.json";

/// Sends a message, shows its receipt, and checks its evidence.
pub(super) async fn tell(
    config: &Config,
    web: &WebDemo,
    folder: &Path,
    address: SocketAddr,
    env: &Env,
) -> Result<(), Failure> {
    configure(config, address).await?;
    let since = env.now();
    web.put(&format!("/{FILE}"), CONTENT).await?;
    let filter = json!({"since": since, "limit": 100, "kinds": ["file.delivered"]});
    let missing = "no partner of AS2 confirmed the message; see 'entrepot as2 messages'";
    let delivered = wait_for_events(config, env, filter, is_message, missing).await?;
    let name = delivered.iter().find_map(|numbered| match &numbered.event.fact {
        Fact::FileDelivered { file, .. } if file.as2.is_some() => Some(file.transfer),
        _ => None,
    });
    let name = name.ok_or_else(|| Failure::new("EP0202", Exit::Failed, missing))?;
    let name = As2MessageName::Id(name.0);
    let client = AdminClient::Local(Box::new(config.clone()));
    let shown = as2::shown(&client, &name).await?;
    println!("10. a rule sent {FILE} to a partner of AS2 at {address}, signed and encrypted:");
    for line in as2::lines(&shown) {
        println!("   {line}");
    }
    let bundle = as2::evidence_of(&client, &name).await?;
    let file = folder.join(EVIDENCE);
    let text = serde_json::to_string_pretty(&bundle);
    write(&file, &text.map_err(|error| Failure::start(error.to_string()))?)?;
    println!("11. what proves it is in one file, and 'entrepot as2 verify' says of it:");
    println!("   {}", file.display());
    for check in bundle.check(None) {
        let word = if check.holds { "holds" } else { "FAILS" };
        println!("   {word}  {:<13} {}", check.part, printable(&check.found));
        if !check.holds {
            let why = "the evidence of the message does not hold";
            return Err(Failure::new("EP1218", Exit::Findings, why));
        }
    }
    Ok(())
}

fn is_message(numbered: &NumberedEvent) -> bool {
    match &numbered.event.fact {
        Fact::FileDelivered { file, .. } => file.as2.is_some(),
        _ => false,
    }
}

/// Both sides of an agreement: this node is the station of one, and the partner of the other.
async fn configure(config: &Config, address: SocketAddr) -> Result<(), Failure> {
    let mut nouns = vec![json!({"listener": {
        "name": "as2", "protocol": "http", "address": address, "http": {"serve": ["as2"]},
    }})];
    for side in ["demo", "loopback"] {
        let made = as2_certificate::make(side)?;
        let private = String::from_utf8_lossy(made.private.expose()).into_owned();
        let key = |name: String| json!({"name": name, "type": "as2", "public": made.public});
        let mut own = key(format!("as2-{side}"));
        if let Some(own) = own.as_object_mut() {
            own.insert("private".to_owned(), Value::String(private));
        }
        nouns.push(json!({ "key": own }));
        nouns.push(json!({"key": key(format!("as2-{side}-public"))}));
    }
    nouns.push(json!({"endpoint": {"name": "loopback", "target": {"as2": {
        "partner": "LOOPBACK", "station": "DEMO", "keys": ["as2-demo"],
        "certificates": ["as2-loopback-public"], "url": format!("http://{address}/as2"),
        "allow_private": true,
    }}}}));
    nouns.push(json!({"endpoint": {"name": "loopback-self", "target": {"as2": {
        "partner": "DEMO", "station": "LOOPBACK", "keys": ["as2-loopback"],
        "certificates": ["as2-demo-public"], "account": "demo",
    }}}}));
    nouns.push(json!({"rule": {
        "name": "edi",
        "when": {"event": "file.uploaded"},
        "if": format!("file.path == '/{FILE}'"),
        "do": [{"name": "send", "as2": {"endpoint": "loopback", "subject": "Order {name}"}}],
        "retry": {"attempts": 5, "first_delay_seconds": 1, "longest_delay_seconds": 1},
    }}));
    let text = nouns.iter().map(Value::to_string).collect::<Vec<_>>().join("\n---\n");
    let documents = [Document { file: "as2.yaml".to_owned(), text }];
    ask(config, json!({"request": "apply", "documents": documents, "prune": false})).await?;
    Ok(())
}
