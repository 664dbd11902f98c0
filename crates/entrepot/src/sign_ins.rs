//! `sign-in`: browsers that are signed in.

use entrepot_admin::Response;
use entrepot_auth::SignInInfo;
use serde_json::json;

use crate::admin_client::AdminClient;
use crate::args::SignInCommand;
use crate::failure::Failure;
use crate::output::{Output, unexpected};
use crate::table;

/// Lists the browsers that are signed in, or signs one out.
pub(crate) async fn run(
    client: &AdminClient,
    output: Output,
    command: SignInCommand,
) -> Result<(), Failure> {
    match command {
        SignInCommand::List(args) => {
            let request = json!({"request": "sign-ins", "account": args.account});
            let Response::SignIns { sign_ins } = client.ask(request).await? else {
                return Err(unexpected());
            };
            output.rows(&sign_ins, print)
        }
        SignInCommand::End { id } => {
            client.ask(json!({"request": "end-sign-in", "id": id})).await?;
            output.value(&json!({"ended": id}), || println!("signed out {id}"))
        }
    }
}

fn print(rows: &[SignInInfo]) {
    let cells = |row: &SignInInfo| {
        vec![
            row.id.to_string(),
            row.account.to_string(),
            row.address.clone(),
            row.opened_at.to_string(),
            row.seen_at.to_string(),
            row.ends_at.to_string(),
            row.proof.clone(),
            row.user_agent.clone(),
        ]
    };
    let headings = ["sign-in", "account", "address", "since", "seen", "until", "by", "browser"];
    table::print(&headings, &rows.iter().map(cells).collect::<Vec<_>>());
}
