//! `account`: the verbs of every noun, and the code generator.

use entrepot_admin::Response;
use entrepot_crypto::totp;
use entrepot_nouns::{AnyNoun, AuthMethod, Env, Kind, Name};
use serde_json::{Value, json};

use crate::args::AccountCommand;
use crate::ask::ask;
use crate::config::Config;
use crate::failure::Failure;
use crate::output::{Output, unexpected};
use crate::{addresses, nouns};

/// Who is named as the issuer of a code.
const ISSUER: &str = "Entrepot";

/// Runs one of the account commands.
pub(crate) async fn run(
    config: &Config,
    output: Output,
    command: AccountCommand,
) -> Result<(), Failure> {
    match command {
        AccountCommand::Noun(command) => nouns::run(config, output, Kind::Account, command).await,
        AccountCommand::Banned => addresses::list(config, output).await,
        AccountCommand::Unban { target } => addresses::unlock(config, output, target).await,
        AccountCommand::Totp { name, remove: true, .. } => {
            change(config, &name, Value::Null).await?;
            output.value(&json!({"done": true}), || println!("done"))
        }
        AccountCommand::Totp { name, replace, .. } => {
            let existing =
                if replace { ExistingGenerator::Replace } else { ExistingGenerator::Refuse };
            make(config, output, &name, existing).await
        }
    }
}

/// What is done where the account has a generator already.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ExistingGenerator {
    Refuse,
    Replace,
}

/// Makes a generator. Its secret is shown now and never again.
async fn make(
    config: &Config,
    output: Output,
    name: &Name,
    existing: ExistingGenerator,
) -> Result<(), Failure> {
    let shown = ask(config, json!({"request": "show", "kind": "account", "name": name})).await?;
    let Response::Noun { noun, .. } = shown else { return Err(unexpected()) };
    let AnyNoun::Account(account) = &noun.noun else { return Err(unexpected()) };
    if account.totp_sealed.is_some() && existing == ExistingGenerator::Refuse {
        return Err(Failure::usage(format!(
            "account '{name}' has a code generator; give --replace to end it and make another"
        )));
    }
    let secret = totp::new_secret(&Env::real());
    let uri = totp::uri(ISSUER, name.as_str(), &secret);
    let (secret, uri) = (text(secret.expose()), text(uri.expose()));
    change(config, name, Value::from(secret.clone())).await?;
    output.value(&json!({"secret": secret, "uri": uri}), || {
        println!("{uri}");
        println!();
        println!("Set up the generator with this line, or with the secret {secret}.");
        println!("It is not shown again.");
        let asks = |chain: &Vec<AuthMethod>| chain.contains(&AuthMethod::Totp);
        if account.login.is_empty() {
            println!("Its code is asked for, unless 'login' of a group of the account says else.");
        } else if !account.login.iter().all(asks) {
            println!("But its 'login' does not always ask for a code: add 'totp' to each list.");
        }
    })
}

async fn change(config: &Config, name: &Name, totp: Value) -> Result<(), Failure> {
    let patch = json!({"totp": totp});
    let request = json!({"request": "change", "kind": "account", "name": name, "patch": patch});
    match ask(config, request).await? {
        Response::Noun { .. } => Ok(()),
        _ => Err(unexpected()),
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
