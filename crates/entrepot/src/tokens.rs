//! `token`: API tokens are made, listed and revoked.

use entrepot_admin::{Response, TokenRow};
use entrepot_nouns::{AnyNoun, TokenScope};
use serde_json::json;

use crate::admin_client::AdminClient;
use crate::args::{TokenCommand, TokenCreateArgs};
use crate::failure::Failure;
use crate::output::{Output, unexpected};
use crate::table;

/// Runs one of the commands on API tokens.
pub(crate) async fn run(
    client: &AdminClient,
    output: Output,
    command: TokenCommand,
) -> Result<(), Failure> {
    match command {
        TokenCommand::List(args) => {
            let request = json!({"request": "tokens", "account": args.account});
            let Response::Tokens { tokens } = client.ask(request).await? else {
                return Err(unexpected());
            };
            output.rows(&tokens, print)
        }
        TokenCommand::Create(args) => create(client, output, &args).await,
        TokenCommand::Revoke { name } => {
            client.ask(json!({"request": "revoke-token", "name": name})).await?;
            output.value(&json!({"revoked": name}), || println!("token '{name}' revoked"))
        }
    }
}

async fn create(
    client: &AdminClient,
    output: Output,
    args: &TokenCreateArgs,
) -> Result<(), Failure> {
    let TokenCreateArgs { account, scopes, expires, from, name, note } = args;
    let order = json!({
        "account": account, "name": name, "scopes": scopes, "not_after": expires, "from": from,
        "note": note,
    });
    let answer = client.ask(json!({"request": "create-token", "token": order})).await?;
    let Response::Token { token, noun } = answer else { return Err(unexpected()) };
    let AnyNoun::Key(key) = &noun.noun else { return Err(unexpected()) };
    let shown = json!({"token": token, "name": key.name, "not_after": key.not_after});
    output.value(&shown, || {
        println!("{}", token.expose());
        println!();
        println!("It is not shown again. Whoever has it is '{account}' for {}", words(scopes));
        if let Some(end) = key.not_after {
            println!("until {end}, or until 'entrepot token revoke {}'.", key.name);
        }
    })
}

fn words(scopes: &[TokenScope]) -> String {
    scopes.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(", ")
}

fn print(rows: &[TokenRow]) {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let cells = |row: &TokenRow| {
        vec![
            row.name.to_string(),
            row.account.to_string(),
            row.state.as_str().to_owned(),
            words(&row.scopes),
            or_dash(row.not_after.map(|at| at.to_string())),
            or_dash(row.used_at.map(|at| at.to_string())),
            or_dash(row.used_from.clone()),
            row.note.clone(),
        ]
    };
    let headings = ["token", "account", "state", "scopes", "until", "last used", "from", "note"];
    table::print(&headings, &rows.iter().map(cells).collect::<Vec<_>>());
}
