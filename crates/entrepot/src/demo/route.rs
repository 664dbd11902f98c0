//! The part of the story that a rule works: a partner encrypts a file for us, the rule decrypts it,
//! delivers it, and delivers a checksum file behind it.

use std::path::Path;

use entrepot_admin::Response;
use entrepot_nouns::Env;
use entrepot_transform::openpgp::{Armor, PublicKey, Sealing, encrypt};
use serde_json::json;

use super::parts::write;
use crate::ask::ask;
use crate::config::Config;
use crate::failure::Failure;
use crate::output::unexpected;
use crate::{keys, table, trace};

/// What the file is called in the partner's folder, and as it is delivered.
const FILE: &str = "orders.csv";
/// The public half of the key of ours, as the partner got it.
const PUBLIC: &str = "orders-key.asc";

/// The rule, with the endpoint that it delivers to.
pub(super) fn documents(inbox: &Path) -> String {
    let to = "{endpoint: partner, path: '{account}/{name}'}";
    format!(
        "endpoint: {{name: partner, target: {{directory: {{path: {}}}}}}}\n---\n\
         rule:\n  name: to-partner\n  when: {{event: file.uploaded}}\n\
         \x20 if: file.path.startsWith('/out/')\n  do:\n\
         \x20   - {{name: open, decrypt: {{keys: [orders]}}, if: \"file.name.endsWith('.pgp')\"}}\n\
         \x20   - {{name: to-partner, deliver: {to}}}\n\
         \x20   - {{name: checksum, checksum: {{algorithm: sha256}}}}\n\
         \x20   - {{name: sum-too, deliver: {to}}}\n",
        json!(inbox)
    )
}

/// The key of ours with which the rule decrypts, as a document; none if the folder has it already.
pub(super) fn key_document(folder: &Path) -> Result<Option<String>, Failure> {
    let file = folder.join(PUBLIC);
    if file.is_file() {
        return Ok(None);
    }
    let made = keys::make("Entrepot demo <demo@localhost>")?;
    write(&file, &made.public)?;
    let name = "orders".parse().map_err(|error| Failure::start(format!("{error}")))?;
    Ok(Some(json!({"key": keys::document(&name, &made)}).to_string()))
}

/// Writes the file as the partner's program does that has our public key: the encrypted file, and
/// how large the file in it is.
pub(super) fn encrypted(folder: &Path, env: &Env) -> Result<(std::path::PathBuf, u64), Failure> {
    let cannot = |problem: String| Failure::file(format!("the file is not encrypted: {problem}"));
    let public = std::fs::read(folder.join(PUBLIC)).map_err(|error| cannot(error.to_string()))?;
    let public = PublicKey::parse(&public).map_err(|error| cannot(error.to_string()))?;
    let rows = (0..20_000).map(|row| format!("{row};article {row};{}\n", row * 7 % 100));
    let content: String = rows.collect();
    write(&folder.join(FILE), &content)?;
    let target = folder.join(format!("{FILE}.pgp"));
    let file = std::fs::File::create(&target).map_err(|error| cannot(error.to_string()))?;
    let sealing = Sealing { to: &[&public], signers: &[], armor: Armor::Binary, at: env.now() };
    encrypt(&sealing, env, content.as_bytes(), file).map_err(|error| cannot(error.to_string()))?;
    Ok((target, content.len() as u64))
}

/// Shows where the file is, and that what the partner has is the file that was encrypted.
pub(super) async fn tell(
    config: &Config,
    folder: &Path,
    inbox: &Path,
    path: &str,
) -> Result<(), Failure> {
    let answer = ask(config, json!({"request": "trace", "subject": path})).await?;
    let Response::Trace { trace } = answer else { return Err(unexpected()) };
    println!("4. where is the file? 'entrepot trace {path}' says:");
    for line in trace::lines(&trace) {
        println!("   {}", table::printable(&line));
    }
    let delivered = inbox.join("demo");
    let (sent, got) = (std::fs::read(folder.join(FILE)), std::fs::read(delivered.join(FILE)));
    if !matches!((&sent, &got), (Ok(sent), Ok(got)) if sent == got) {
        return Err(Failure::start("the partner has another file than the one that was sent"));
    }
    println!("5. it lies in the partner's inbox, as it was before it was encrypted:");
    println!("   {}", delivered.join(FILE).display());
    println!("   {}", delivered.join(format!("{FILE}.sha256")).display());
    Ok(())
}
