//! `address`: addresses and accounts that wrong passwords have delayed or locked, and how they are
//! let go.

use entrepot_admin::{LoginLimitRow, Response, UnlockTarget};
use entrepot_nouns::Name;
use serde_json::json;

use crate::args::AddressCommand;
use crate::ask::{ask_server, of_site};
use crate::config::Config;
use crate::failure::Failure;
use crate::output::{Output, unexpected};
use crate::table;

/// Lists what wrong passwords have delayed or locked, or unlocks it. The running server keeps these
/// locks, so the command fails where none runs.
pub(crate) async fn run(
    config: &Config,
    output: Output,
    command: AddressCommand,
) -> Result<(), Failure> {
    let path = of_site("/v1/request", config);
    match command {
        AddressCommand::List => {
            let request = json!({"request": "login-limits"});
            let answer: Response = ask_server(config, &path, Some(&request)).await?;
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
        AddressCommand::Unlock { address, account } => {
            let target = match (address, account) {
                (Some(address), _) => UnlockTarget::Address(address),
                (None, Some(account)) => UnlockTarget::Account(account),
                (None, None) => return Err(Failure::usage("name an address or an account")),
            };
            let request = json!({"request": "unlock", "target": target});
            let answer: Response = ask_server(config, &path, Some(&request)).await?;
            let Response::Unlocked { failures } = answer else { return Err(unexpected()) };
            output.value(&json!({"failures": failures}), || {
                println!("unlocked; {failures} wrong passwords are forgotten");
            })
        }
    }
}
