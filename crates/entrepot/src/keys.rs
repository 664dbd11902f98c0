//! `key`: the verbs of every noun, OpenPGP keys of ours, and keys in files of other programs.

mod import;

use entrepot_nouns::{Env, Kind, Name};
use entrepot_transform::openpgp::{self, MadeKey};
use serde_json::{Value, json};

use crate::admin_client::AdminClient;
use crate::args::KeyCommand;
use crate::failure::Failure;
use crate::nouns;
use crate::output::Output;

/// Runs one of the commands on keys.
pub(crate) async fn run(
    client: &AdminClient,
    output: Output,
    command: KeyCommand,
) -> Result<(), Failure> {
    match command {
        KeyCommand::Noun(command) => nouns::run(client, output, Kind::Key, command).await,
        KeyCommand::Import(args) => import::run(client, output, &args).await,
        KeyCommand::Generate { name, owner } => {
            let made = make(&owner)?;
            client
                .ask(json!({"request": "create", "noun": {"key": document(&name, &made)}}))
                .await?;
            let shown = json!({
                "name": name, "fingerprint": made.fingerprint, "public": made.public,
            });
            output.value(&shown, || {
                print!("{}", made.public);
                eprintln!(
                    "key '{name}', fingerprint {}: give partners the text above",
                    made.fingerprint
                );
            })
        }
    }
}

/// Makes a key of ours.
pub(crate) fn make(owner: &str) -> Result<MadeKey, Failure> {
    let made = openpgp::make(owner, &Env::real());
    made.map_err(|error| Failure::usage(error.to_string()))
}

/// The key as it is stored, its private half still to be sealed.
pub(crate) fn document(name: &Name, made: &MadeKey) -> Value {
    let private = String::from_utf8_lossy(made.private.expose());
    json!({"name": name, "type": "openpgp", "public": made.public, "private": private})
}
