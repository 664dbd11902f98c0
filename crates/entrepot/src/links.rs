//! `link`: share links are made, listed, revoked and deleted.

use entrepot_admin::{LinkAddress, LinkRow, Response};
use entrepot_nouns::LinkAction;
use serde_json::json;

use crate::admin_client::AdminClient;
use crate::args::{LinkAllows, LinkCommand, LinkCreateArgs};
use crate::failure::Failure;
use crate::output::{Output, unexpected};
use crate::standard_input::line_from_stdin;
use crate::table;

/// Runs one of the commands on share links.
pub(crate) async fn run(
    client: &AdminClient,
    output: Output,
    command: LinkCommand,
) -> Result<(), Failure> {
    match command {
        LinkCommand::List(args) => {
            let request = json!({"request": "links", "owner": args.owner});
            let Response::Links { links } = client.ask(request).await? else {
                return Err(unexpected());
            };
            output.rows(&links, print)
        }
        LinkCommand::Show { name } => {
            let request = json!({"request": "link", "name": name});
            let Response::Link { link } = client.ask(request).await? else {
                return Err(unexpected());
            };
            output.rows(&[*link], print)
        }
        LinkCommand::Create(args) => create(client, output, *args).await,
        LinkCommand::Revoke { name } => {
            client.ask(json!({"request": "revoke-link", "name": name})).await?;
            output.value(&json!({"revoked": name}), || println!("link '{name}' revoked"))
        }
        LinkCommand::Delete { name } => {
            client.ask(json!({"request": "delete-link", "name": name})).await?;
            output.value(&json!({"deleted": name}), || println!("link '{name}' deleted"))
        }
    }
}

async fn create(client: &AdminClient, output: Output, args: LinkCreateArgs) -> Result<(), Failure> {
    let password = if args.password_stdin { Some(line_from_stdin()?) } else { None };
    let allows = match args.allow {
        LinkAllows::Download => vec![LinkAction::Download],
        LinkAllows::Upload => vec![LinkAction::Upload],
        LinkAllows::Both => vec![LinkAction::Download, LinkAction::Upload],
    };
    let order = json!({
        "owner": args.owner, "folder": args.folder, "files": args.files, "allows": allows,
        "expires_at": args.expires, "password": password, "people": args.people,
        "downloads": args.downloads, "uploads": args.uploads,
        "file_size_bytes": args.file_size, "upload_bytes": args.upload_bytes,
        "title": args.title, "name": args.name, "note": args.note,
    });
    let answer = client.ask(json!({"request": "create-link", "link": order})).await?;
    let Response::MadeLink { link, addresses } = answer else { return Err(unexpected()) };
    output.value(&json!({"link": link, "addresses": addresses}), || shown(&link, &addresses))
}

fn shown(link: &LinkRow, addresses: &[LinkAddress]) {
    for LinkAddress { person, address } in addresses {
        match person {
            Some(person) => println!("{person}  {}", address.expose()),
            None => println!("{}", address.expose()),
        }
    }
    println!();
    println!("It is not shown again. Whoever has it may {}", allowed(link));
    if let Some(end) = link.expires_at {
        println!("until {end}, or until 'entrepot link revoke {}'.", link.name);
    }
}

fn allowed(link: &LinkRow) -> String {
    let words: Vec<&str> = link.terms.allows.iter().map(|action| action.as_str()).collect();
    format!("{} in {} of '{}'", words.join(" and "), link.terms.folder, link.terms.owner)
}

fn print(rows: &[LinkRow]) {
    let used = |used: u64, most: Option<u32>| match most {
        Some(most) => format!("{used}/{most}"),
        None => used.to_string(),
    };
    let cells = |row: &LinkRow| {
        vec![
            row.name.to_string(),
            row.state.as_str().to_owned(),
            allowed(row),
            row.expires_at.map_or_else(|| "-".to_owned(), |at| at.to_string()),
            used(row.used.downloads, row.terms.downloads),
            used(row.used.uploads, row.terms.uploads),
            row.people.join(", "),
            row.note.clone(),
        ]
    };
    let headings = ["link", "state", "may", "until", "downloads", "uploads", "people", "note"];
    table::print(&headings, &rows.iter().map(cells).collect::<Vec<_>>());
}
