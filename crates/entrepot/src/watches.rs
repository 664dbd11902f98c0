//! `watch`: which files rules have found in the folders that they watch.

use entrepot_admin::Response;
use entrepot_nouns::Timestamp;
use entrepot_nouns::watch::SeenFile;
use serde_json::json;

use crate::admin_client::AdminClient;
use crate::args::WatchCommand;
use crate::failure::Failure;
use crate::output::{Output, unexpected};
use crate::table::{self, bytes, printable};

/// Runs one of the commands on watched folders.
pub(crate) async fn run(
    client: &AdminClient,
    output: Output,
    command: WatchCommand,
) -> Result<(), Failure> {
    match command {
        WatchCommand::List { rule, after, limit } => {
            let request =
                json!({"request": "seen-files", "rule": rule, "after": after, "limit": limit});
            let Response::SeenFiles { files } = client.ask(request).await? else {
                return Err(unexpected());
            };
            output.rows(&files, print)
        }
        WatchCommand::Forget { rule, path } => {
            let request = json!({"request": "forget", "rule": rule, "path": path});
            client.ask(request).await?;
            output.value(&json!({"forgotten": path}), || {
                println!("'{}' is found anew", printable(&path));
            })
        }
    }
}

fn print(rows: &[SeenFile]) {
    let cells = |row: &SeenFile| {
        vec![
            printable(&row.path),
            row.size.map_or_else(|| "to be found anew".to_owned(), bytes),
            row.modified.to_string(),
            row.gone_at.as_ref().map(Timestamp::to_string).unwrap_or_default(),
        ]
    };
    let cells: Vec<_> = rows.iter().map(cells).collect();
    table::print(&["path", "size", "modified", "gone since"], &cells);
}
