//! `as2 evidence`: all that proves a message, in one file.

use std::path::Path;

use entrepot_admin::{Actor, Admin, As2Request, Problem, ProblemClass, Request, Response};
use entrepot_nouns::SiteId;
use entrepot_nouns::as2::{As2Entry, As2MessageName};
use entrepot_proof::{As2Bundle, Heads};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::admin_client::AdminClient;
use crate::ask::{actor_of, ask_or, of_site, problem};
use crate::config::Config;
use crate::failure::Failure;
use crate::output::Output;
use crate::parts::{Opening, Parts};
use crate::receipt;

/// Where the ops socket gives evidence.
pub(crate) const PATH: &str = "/v1/as2-evidence";

/// What is asked there.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct EvidenceRequest {
    pub(crate) name: As2MessageName,
}

/// Writes the evidence of a message into a file, or prints it.
pub(super) async fn run(
    client: AdminClient,
    output: Output,
    message: &As2MessageName,
    file: Option<&Path>,
) -> Result<(), Failure> {
    let bundle = of(&client, message).await?;
    let text = serde_json::to_string_pretty(&bundle);
    let text = text.map_err(|error| Failure::file(format!("evidence has no JSON: {error}")))?;
    let Some(file) = file else {
        println!("{text}");
        return Ok(());
    };
    std::fs::write(file, text + "\n")
        .map_err(|error| Failure::file(format!("cannot write '{}': {error}", file.display())))?;
    output.value(&json!({"written": file}), || println!("'{}' is written", file.display()))
}

/// The evidence of a message, of the running server or from the data of a stopped one.
pub(crate) async fn of(
    client: &AdminClient,
    message: &As2MessageName,
) -> Result<As2Bundle, Failure> {
    let config = match client {
        AdminClient::Remote(server) => return server.as2_evidence(message).await,
        AdminClient::Local(config) => config,
    };
    let request = json!(EvidenceRequest { name: message.clone() });
    if let Some(bundle) = ask_or(config, &of_site(PATH, config), &request).await? {
        return Ok(bundle);
    }
    let parts = Parts::open(config, Opening::MustBeSound).await?;
    let made = make_alone(config, &parts, message).await;
    parts.close().await?;
    made
}

async fn make_alone(
    config: &Config,
    parts: &Parts,
    message: &As2MessageName,
) -> Result<As2Bundle, Failure> {
    let admin = parts.admin(None);
    let actor = actor_of(rustix::process::getuid().as_raw());
    let actor = admin.at_site(actor, config.site.as_ref()).await;
    let actor = actor.map_err(|error| problem(Problem::from(error)))?;
    let heads = receipt::open(config, parts).await?;
    let request = EvidenceRequest { name: message.clone() };
    let making = answer(&admin, &heads, &actor, request);
    receipt::while_signing(&heads, making).await.map_err(problem)
}

/// The evidence of a message that an actor may see.
pub(crate) async fn answer(
    admin: &Admin,
    heads: &Heads,
    actor: &Actor,
    request: EvidenceRequest,
) -> Result<As2Bundle, Problem> {
    let asked = Request::As2 { ask: As2Request::Message(request.name) };
    let Response::As2Message { message } = admin.handle(actor, asked).await? else {
        return Err(Problem {
            code: "EP0113".to_owned(),
            message: "a message was asked for and something else came".to_owned(),
            class: ProblemClass::Failed,
        });
    };
    of_entry(heads, actor.site, &message.entry).await
}

/// The evidence of a message that is known.
pub(crate) async fn of_entry(
    heads: &Heads,
    site: SiteId,
    entry: &As2Entry,
) -> Result<As2Bundle, Problem> {
    heads.as2_evidence(site, entry).await.map_err(|error| receipt::refusal(&error))
}
