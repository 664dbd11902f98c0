//! `address`: addresses and accounts that wrong passwords have delayed or locked, and how they are
//! let go.

use std::net::IpAddr;

use entrepot_auth::LoginLimit;
use entrepot_model::{Name, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::args::AddressCommand;
use crate::ask::{ask_server, of_site};
use crate::config::Config;
use crate::failure::Failure;
use crate::output::Output;
use crate::table;

/// An address or account, as the ops socket shows it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct LimitRow {
    /// `None`: every address that the account never logged in from.
    address: Option<String>,
    /// `None`: every account that is not known at the address.
    account: Option<Name>,
    state: String,
    failures: u32,
    since: Timestamp,
    until: Timestamp,
}

impl From<LoginLimit> for LimitRow {
    fn from(limit: LoginLimit) -> Self {
        LimitRow {
            address: limit.address,
            account: limit.account,
            state: limit.state.as_str().to_owned(),
            failures: limit.failures,
            since: limit.since,
            until: limit.until,
        }
    }
}

/// What is to be let go.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Unlock {
    /// An address; of IPv6 its /64.
    Address(IpAddr),
    /// An account, wherever its failures came from.
    Account(Name),
}

/// Runs `address`.
pub(crate) async fn run(
    config: &Config,
    output: Output,
    command: AddressCommand,
) -> Result<(), Failure> {
    match command {
        AddressCommand::List => {
            let path = of_site("/v1/addresses", config);
            let rows: Vec<LimitRow> = ask_server(config, &path, None).await?;
            output.rows(&rows, |rows| {
                let cells = |row: &LimitRow| {
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
            let unlock = match (address, account) {
                (Some(address), _) => Unlock::Address(address),
                (None, Some(account)) => Unlock::Account(account),
                (None, None) => return Err(Failure::usage("name an address or an account")),
            };
            let path = of_site("/v1/addresses/unlock", config);
            let answer: Value = ask_server(config, &path, Some(&json!(unlock))).await?;
            let failures = answer.get("failures").and_then(Value::as_u64).unwrap_or_default();
            output.value(&answer, || println!("unlocked; {failures} wrong passwords are forgotten"))
        }
    }
}
