//! `receipt`: proof that a file arrived or left, made by the node that recorded it and verified
//! anywhere.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use entrepot_admin::{Problem, ProblemClass};
use entrepot_crypto::{NoteSigner, NoteVerifier, SealingContext};
use entrepot_db::{Db, DbError, DbOptions, NodeKey, OldTables};
use entrepot_journal::FsMedium;
use entrepot_nouns::{SiteId, TransferId};
use entrepot_proof::{HeadParts, Heads, ProofError, Receipt, VerifiedReceipt};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::admin_client::AdminClient;
use crate::args::{ReceiptArgs, ReceiptCommand};
use crate::ask::{actor_of, ask_or, of_site, problem};
use crate::config::Config;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::parts::{self, Opening, Parts};

/// Where the ops socket makes receipts.
pub(crate) const PATH: &str = "/v1/receipt";

/// What is asked there.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ReceiptRequest {
    pub(crate) transfer: TransferId,
}

/// Makes a receipt, or verifies one, for which no process file is needed.
pub(crate) async fn run(
    client: impl FnOnce() -> Result<AdminClient, Failure>,
    output: Output,
    args: ReceiptArgs,
) -> Result<(), Failure> {
    match (args.command, args.transfer) {
        (Some(ReceiptCommand::Verify { file, key }), _) => verify(output, &file, &key),
        (Some(ReceiptCommand::Key), _) => print_key(&client()?.config()?, output).await,
        (None, Some(transfer)) => {
            let receipt = match client()? {
                AdminClient::Local(config) => make(&config, transfer).await?,
                AdminClient::Remote(server) => server.receipt(transfer).await?,
            };
            let text = serde_json::to_string_pretty(&receipt)
                .map_err(|error| Failure::file(format!("a receipt has no JSON form: {error}")))?;
            println!("{text}");
            Ok(())
        }
        (None, None) => Err(Failure::usage("name a transfer, or 'verify' and a file")),
    }
}

/// Asks the running server, or makes the receipt here if none runs.
async fn make(config: &Config, transfer: TransferId) -> Result<Receipt, Failure> {
    let request = json!(ReceiptRequest { transfer });
    if let Some(receipt) = ask_or(config, &of_site(PATH, config), &request).await? {
        return Ok(receipt);
    }
    let parts = Parts::open(config, Opening::MustBeSound).await?;
    let made = make_alone(config, &parts, transfer).await;
    parts.close().await?;
    made
}

async fn make_alone(
    config: &Config,
    parts: &Parts,
    transfer: TransferId,
) -> Result<Receipt, Failure> {
    let admin = parts.admin(None);
    let actor = actor_of(rustix::process::getuid().as_raw());
    let actor = admin.at_site(actor, config.site.as_ref()).await;
    let site = actor.map_err(|error| problem(Problem::from(error)))?.site;
    let heads = open(config, parts).await?;
    let made = while_signing(&heads, heads.receipt(site, transfer)).await;
    made.map_err(|error| problem(refusal(&error)))
}

/// Does `work` while the heads of a node are signed that does not run.
pub(crate) async fn while_signing<T>(heads: &Heads, work: impl Future<Output = T>) -> T {
    let end = CancellationToken::new();
    let signing = tokio::spawn(heads.clone().run(end.clone()));
    let made = work.await;
    end.cancel();
    // A panic was logged where it happened.
    let _ = signing.await;
    made
}

/// The heads of this node's journal, with the key that signs them, which is made when it is first
/// needed.
pub(crate) async fn open(config: &Config, parts: &Parts) -> Result<Heads, Failure> {
    let opened = Heads::open(HeadParts {
        db: parts.db.clone(),
        recorder: parts.recorder.clone(),
        medium: Arc::new(FsMedium::existing(&config.journal())),
        signer: signer(parts).await?,
    });
    opened.map_err(|error| Failure::new(error.code(), Exit::Failed, error.to_string()))
}

async fn signer(parts: &Parts) -> Result<NoteSigner, Failure> {
    let (node, id) = (parts.recorder.node(), parts.recorder.node_id());
    let origin = entrepot_proof::origin(node, id);
    let away = |error: DbError| Failure::new(error.code(), Exit::Unavailable, error.to_string());
    let site = parts.db.site_name(SiteId::MAIN).await.map_err(away)?;
    let site = site.ok_or_else(|| Failure::start("the site 'main' is gone"))?;
    let context = SealingContext::node_key(&site, node);
    let unusable =
        |problem: String| Failure::start(format!("the key of the node '{node}': {problem}"));
    let known = match &parts.away {
        Some(kept) => kept.node_key(),
        None => parts.db.node_key(id).await.map_err(away)?,
    };
    let key = match known {
        Some(key) => Some(key),
        None => {
            let private = NoteSigner::generate(&parts.env);
            let made = NoteSigner::new(&origin, &private);
            let public = made.map_err(|error| unusable(error.to_string()))?.verifier().to_string();
            let sealed = parts.master.seal(&parts.env, &context, &private);
            let private_sealed = sealed.map_err(|error| unusable(error.to_string()))?;
            let key = NodeKey { public, private_sealed };
            parts.db.insert_node_key(id, &key).await.map_err(away)?
        }
    };
    let key = key.ok_or_else(|| unusable("it was not kept".to_owned()))?;
    let private = parts.master.open(&context, &key.private_sealed);
    let private = private.map_err(|error| unusable(error.to_string()))?;
    NoteSigner::new(&origin, &private).map_err(|error| unusable(error.to_string()))
}

/// The public key of this node.
async fn print_key(config: &Config, output: Output) -> Result<(), Failure> {
    let away = |error: DbError| Failure::new(error.code(), Exit::Unavailable, error.to_string());
    let options = DbOptions { old_tables: OldTables::Refuse, ..DbOptions::default() };
    let db = Db::open(&config.database, options).await.map_err(parts::db_failure)?;
    let nodes = db.nodes().await.map_err(away)?;
    let node = nodes.into_iter().find(|node| node.name == config.node);
    let key = match node {
        Some(node) => db.node_key(node.id).await.map_err(away)?,
        None => None,
    };
    let missing = || {
        let why = format!("the node '{}' has no key yet: it is made at its start", config.node);
        Failure::new("EP0627", Exit::NotFound, why)
    };
    let public = key.ok_or_else(missing)?.public;
    output.value(&json!({ "node": config.node, "public": public }), || println!("{public}"))
}

/// A receipt for the ops socket.
pub(crate) async fn answer(
    heads: &Heads,
    site: SiteId,
    request: &ReceiptRequest,
) -> Result<Receipt, Problem> {
    heads.receipt(site, request.transfer).await.map_err(|error| refusal(&error))
}

pub(crate) fn refusal(error: &ProofError) -> Problem {
    let class = match error {
        ProofError::NoFact(_) | ProofError::NoMessage(_) => ProblemClass::NotFound,
        ProofError::Elsewhere { .. } => ProblemClass::Conflict,
        ProofError::NotCovered(_) => ProblemClass::Unavailable,
        ProofError::Db(error) if error.is_unavailable() => ProblemClass::Unavailable,
        _ => ProblemClass::Failed,
    };
    Problem { code: error.code().to_owned(), message: error.to_string(), class }
}

fn verify(output: Output, file: &Path, key: &str) -> Result<(), Failure> {
    let invalid = |error: ProofError| Failure::new(error.code(), Exit::Findings, error.to_string());
    let key = verifier(key)?;
    let receipt = Receipt::parse(&read(file)?).map_err(invalid)?;
    let verified = receipt.verify(&key).map_err(invalid)?;
    output.value(&verified, || print(&verified))
}

/// The public key of a node, or `@` and the file that has it.
pub(crate) fn verifier(key: &str) -> Result<NoteVerifier, Failure> {
    let key = match key.strip_prefix('@') {
        Some(file) => read(Path::new(file))?,
        None => key.to_owned(),
    };
    key.parse().map_err(|error| Failure::usage(format!("the key: {error}")))
}

fn print(verified: &VerifiedReceipt) {
    let event = &verified.event;
    println!("valid: '{}' is record {} of {}", event.fact.kind(), verified.record, verified.key);
    if let Some(file) = event.fact.file() {
        println!("file      {}, {} bytes", file.path, file.size);
        if let Some(digest) = &file.digests.blake3 {
            println!("BLAKE3    {}", entrepot_nouns::transfer::hex(digest));
        }
        if let Some(digest) = &file.digests.sha256 {
            println!("SHA-256   {}", entrepot_nouns::transfer::hex(digest));
        }
        println!("protocol  {}", file.protocol.as_str());
    }
    if let Some(account) = &event.account {
        println!("account   {account}");
    }
    println!("at        {}", event.at);
    let signed = verified.signed_at.as_deref().unwrap_or("an unknown time");
    println!("head      of {} records, signed at {signed}", verified.covered);
}

/// A text of at most the size that a receipt may have; `-` is standard input.
fn read(file: &Path) -> Result<String, Failure> {
    read_up_to(file, entrepot_proof::limits::RECEIPT_BYTES)
}

/// A text, as far as `limit` bytes; `-` is standard input.
pub(crate) fn read_up_to(file: &Path, limit: u64) -> Result<String, Failure> {
    let cannot =
        |error: std::io::Error| Failure::file(format!("cannot read '{}': {error}", file.display()));
    let mut text = String::new();
    if file == Path::new("-") {
        std::io::stdin().take(limit).read_to_string(&mut text).map_err(cannot)?;
    } else {
        let opened = std::fs::File::open(file).map_err(cannot)?;
        opened.take(limit).read_to_string(&mut text).map_err(cannot)?;
    }
    Ok(text)
}
