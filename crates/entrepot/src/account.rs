//! `account`: the verbs of every noun, and the code generator.

use entrepot_admin::{Response, ShownOnce};
use entrepot_crypto::totp;
use entrepot_nouns::{AnyNoun, AuthMethod, Env, Kind, Name, Timestamp};
use serde_json::{Value, json};

use crate::admin_client::AdminClient;
use crate::args::AccountCommand;
use crate::failure::Failure;
use crate::output::{Output, unexpected};
use crate::{addresses, nouns};

/// Who is named as the issuer of a code.
const ISSUER: &str = "Entrepot";

/// Runs one of the account commands.
pub(crate) async fn run(
    client: &AdminClient,
    output: Output,
    command: AccountCommand,
) -> Result<(), Failure> {
    match command {
        AccountCommand::Noun(command) => nouns::run(client, output, Kind::Account, command).await,
        AccountCommand::SetUpToken => {
            let SetUpToken { token, ends_at } = set_up_token(client).await?;
            let shown = json!({"token": token.expose(), "ends_at": ends_at});
            output.value(&shown, || {
                println!("{}", token.expose());
                println!();
                println!("It makes the first administrator, once, until {ends_at}.");
            })
        }
        AccountCommand::RecoveryCodes { name } => recovery_codes(client, output, &name).await,
        AccountCommand::Banned => addresses::list(client, output).await,
        AccountCommand::Unban { target } => addresses::unlock(client, output, target).await,
        AccountCommand::Totp { name, remove: true, .. } => {
            change(client, &name, Value::Null).await?;
            output.value(&json!({"done": true}), || println!("done"))
        }
        AccountCommand::Totp { name, replace, .. } => {
            let existing =
                if replace { ExistingGenerator::Replace } else { ExistingGenerator::Refuse };
            make(client, output, &name, existing).await
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
    client: &AdminClient,
    output: Output,
    name: &Name,
    existing: ExistingGenerator,
) -> Result<(), Failure> {
    let shown = client.ask(json!({"request": "show", "kind": "account", "name": name})).await?;
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
    change(client, name, Value::from(secret.clone())).await?;
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

/// The token by which the first administrator is made.
pub(crate) struct SetUpToken {
    pub(crate) token: ShownOnce,
    pub(crate) ends_at: Timestamp,
}

/// Makes such a token; the answer alone has it.
pub(crate) async fn set_up_token(client: &AdminClient) -> Result<SetUpToken, Failure> {
    match client.ask(json!({"request": "make-set-up-token"})).await? {
        Response::SetUpToken { token, ends_at } => Ok(SetUpToken { token, ends_at }),
        _ => Err(unexpected()),
    }
}

/// Makes recovery codes. They are shown now and never again.
async fn recovery_codes(client: &AdminClient, output: Output, name: &Name) -> Result<(), Failure> {
    let request = json!({"request": "make-recovery-codes", "account": name});
    let Response::RecoveryCodes { codes } = client.ask(request).await? else {
        return Err(unexpected());
    };
    output.value(&json!({"codes": codes}), || {
        for code in &codes {
            println!("{}", code.expose());
        }
        println!();
        println!("Each is good for one login in place of a code. They are not shown again.");
    })
}

async fn change(client: &AdminClient, name: &Name, totp: Value) -> Result<(), Failure> {
    let patch = json!({"totp": totp});
    let request = json!({"request": "change", "kind": "account", "name": name, "patch": patch});
    match client.ask(request).await? {
        Response::Noun { .. } => Ok(()),
        _ => Err(unexpected()),
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
