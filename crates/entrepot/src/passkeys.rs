//! `passkey`: passkeys are listed and removed.

use entrepot_admin::{PasskeyRow, Response};
use serde_json::json;

use crate::admin_client::AdminClient;
use crate::args::PasskeyCommand;
use crate::failure::Failure;
use crate::output::{Output, unexpected};
use crate::table;

/// Runs one of the commands on passkeys.
pub(crate) async fn run(
    client: &AdminClient,
    output: Output,
    command: PasskeyCommand,
) -> Result<(), Failure> {
    match command {
        PasskeyCommand::List(args) => {
            let request = json!({"request": "passkeys", "account": args.account});
            let Response::Passkeys { passkeys } = client.ask(request).await? else {
                return Err(unexpected());
            };
            output.rows(&passkeys, print)
        }
        PasskeyCommand::Remove { name } => {
            client.ask(json!({"request": "remove-passkey", "name": name})).await?;
            output.value(&json!({"removed": name}), || println!("passkey '{name}' removed"))
        }
    }
}

fn print(rows: &[PasskeyRow]) {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let cells = |row: &PasskeyRow| {
        vec![
            row.name.to_string(),
            row.account.to_string(),
            row.note.clone(),
            row.host.clone(),
            if row.enabled { "yes" } else { "no" }.to_owned(),
            or_dash(row.used_at.map(|at| at.to_string())),
            or_dash(row.used_from.clone()),
        ]
    };
    let headings = ["passkey", "account", "called", "host", "enabled", "last used", "from"];
    table::print(&headings, &rows.iter().map(cells).collect::<Vec<_>>());
}
