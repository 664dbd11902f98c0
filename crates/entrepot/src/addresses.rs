//! `address`: addresses and accounts that wrong passwords have delayed or locked, and how they are
//! let go.

use entrepot_admin::{LoginLimitRow, Response, UnlockTarget};
use entrepot_nouns::Name;
use serde_json::json;

use crate::admin_client::AdminClient;
use crate::args::AddressCommand;
use crate::failure::Failure;
use crate::output::{Output, unexpected};
use crate::table;

/// Lists what wrong passwords have delayed or locked, or unlocks it. The command fails where no
/// server runs.
pub(crate) async fn run(
    client: &AdminClient,
    output: Output,
    command: AddressCommand,
) -> Result<(), Failure> {
    match command {
        AddressCommand::List => list(client, output).await,
        AddressCommand::Unlock { address: Some(address), .. } => {
            unlock(client, output, UnlockTarget::Address(address)).await
        }
        AddressCommand::Unlock { account: Some(account), .. } => {
            unlock(client, output, UnlockTarget::Account(account)).await
        }
        AddressCommand::Unlock { .. } => Err(Failure::usage("name an address or an account")),
    }
}

/// Lists what wrong passwords have delayed or locked.
pub(crate) async fn list(client: &AdminClient, output: Output) -> Result<(), Failure> {
    let request = json!({"request": "login-limits"});
    let answer = client.ask_server(request).await?;
    let Response::LoginLimits { limits } = answer else { return Err(unexpected()) };
    output.rows(&limits, |rows| {
        let cells = |row: &LoginLimitRow| {
            vec![
                row.address.clone().unwrap_or_else(|| "(where not known)".to_owned()),
                row.account.as_ref().map_or("(not known there)", Name::as_str).to_owned(),
                row.state.clone(),
                row.failures.to_string(),
                row.since.to_string(),
                row.until.to_string(),
            ]
        };
        let headings = ["address", "account", "state", "failures", "since", "until"];
        table::print(&headings, &rows.iter().map(cells).collect::<Vec<_>>());
    })
}

/// Forgets the wrong passwords of an address or an account.
pub(crate) async fn unlock(
    client: &AdminClient,
    output: Output,
    target: UnlockTarget,
) -> Result<(), Failure> {
    let request = json!({"request": "unlock", "target": target});
    let answer = client.ask_server(request).await?;
    let Response::Unlocked { failures } = answer else { return Err(unexpected()) };
    output.value(&json!({"failures": failures}), || {
        println!("unlocked; {failures} wrong passwords are forgotten");
    })
}
