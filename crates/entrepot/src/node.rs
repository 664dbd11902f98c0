//! `session`, `node`, `log` and `stop`: what is asked of a running server about itself.

use entrepot_admin::{JournalHead, NodeRow, Response, SessionRow};
use entrepot_nouns::PoolPlaces;
use serde_json::{Map, Value, json};

use crate::admin_client::AdminClient;
use crate::args::{LogCommand, NodeCommand, SessionCommand};
use crate::failure::Failure;
use crate::output::{Output, unexpected};
use crate::table;

/// Lists, ends or limits the sessions of the running server.
pub(crate) async fn sessions(
    client: &AdminClient,
    output: Output,
    command: SessionCommand,
) -> Result<(), Failure> {
    match command {
        SessionCommand::List => {
            let request = json!({"request": "sessions"});
            let answer = client.ask_server(request).await?;
            let Response::Sessions { sessions } = answer else { return Err(unexpected()) };
            output.rows(&sessions, print_sessions)
        }
        SessionCommand::End { id } => {
            let request = json!({"request": "end-session", "id": id});
            client.ask_server(request).await?;
            output.value(&json!({"ended": id}), || println!("session {id} ended"))
        }
        SessionCommand::Limit { id, upload, download, reset } => {
            let rates = if reset { json!("reset") } else { set(upload, download) };
            let request = json!({"request": "limit-session", "id": id, "rates": rates});
            client.ask_server(request).await?;
            output.value(&json!({"limited": id}), || println!("session {id} limited"))
        }
    }
}

/// An `entrepot_admin::RateOrder` with these rates.
fn set(upload: Option<u64>, download: Option<u64>) -> Value {
    json!({"set": {"upload": upload, "download": download}})
}

fn print_sessions(rows: &[SessionRow]) {
    let cells = |row: &SessionRow| {
        let session = &row.session;
        vec![
            session.id.to_string(),
            row.site.clone(),
            session.account.to_string(),
            session.protocol.as_str().to_owned(),
            session.address.clone(),
            session.client.clone(),
            session.algorithms.clone(),
            session.opened_at.to_string(),
            table::bytes(session.bytes_in),
            table::bytes(session.bytes_out),
            session.transfers.to_string(),
            rate(row.in_per_second),
            rate(row.out_per_second),
        ]
    };
    let headings = [
        "session",
        "site",
        "account",
        "protocol",
        "address",
        "client",
        "algorithms",
        "since",
        "in",
        "out",
        "transfers",
        "in now",
        "out now",
    ];
    table::print(&headings, &rows.iter().map(cells).collect::<Vec<_>>());
}

/// Runs `node`. Nodes belong to no site, so the one that the command line names has no part in it.
pub(crate) async fn nodes(
    client: &AdminClient,
    output: Output,
    command: NodeCommand,
) -> Result<(), Failure> {
    let of_main = client.at_main();
    match command {
        NodeCommand::List => {
            let answer = of_main.ask(json!({"request": "nodes"})).await?;
            let Response::Nodes { nodes } = answer else { return Err(unexpected()) };
            output.rows(&nodes, print_nodes)
        }
        NodeCommand::Show { name } => {
            let answer = of_main.ask(json!({"request": "node", "name": name})).await?;
            let Response::Node { node } = answer else { return Err(unexpected()) };
            output.value(&json!(node), || print_node(&node))
        }
        NodeCommand::Drain { name } => {
            let name = name.map_or_else(|| client.node(), Ok)?;
            of_main.ask(json!({"request": "drain-node", "name": name})).await?;
            output.value(&json!({"drained": name}), || println!("node '{name}' drained"))
        }
        NodeCommand::Pools { name, instance, source, target } => {
            let name = name.map_or_else(|| client.node(), Ok)?;
            let places = PoolPlaces { instance, source, target };
            let request = json!({"request": "set-node-pools", "name": name, "places": places});
            of_main.ask(request).await?;
            output.value(&json!({"name": name, "places": places}), || {
                println!("node '{name}': {}", pools(&places));
            })
        }
        NodeCommand::Undrain { name } => {
            let name = name.map_or_else(|| client.node(), Ok)?;
            of_main.ask(json!({"request": "undrain-node", "name": name})).await?;
            output.value(&json!({"undrained": name}), || println!("node '{name}' undrained"))
        }
        NodeCommand::Join(_) => Err(Failure::usage("'node join' makes its own process file")),
        NodeCommand::Remove { name, lost } => {
            let request = json!({"request": "remove-node", "name": name, "lost": lost});
            of_main.ask(request).await?;
            output.value(&json!({"removed": name}), || println!("node '{name}' removed"))
        }
        NodeCommand::Limit { upload, download, reset } => {
            let rates = if reset { json!("reset") } else { set(upload, download) };
            let request = json!({"request": "limit-node", "rates": rates});
            let answer = of_main.ask_server(request).await?;
            let Response::Rates { upload, download } = answer else { return Err(unexpected()) };
            let shown = |now: Option<u64>| now.map_or_else(|| "no limit".to_owned(), rate);
            output.value(&json!({"upload": upload, "download": download}), || {
                println!("up {}, down {}", shown(upload), shown(download));
            })
        }
    }
}

/// Shows or sets how much the running server logs.
pub(crate) async fn log(
    client: &AdminClient,
    output: Output,
    command: LogCommand,
) -> Result<(), Failure> {
    let LogCommand::Level { levels, reset } = command;
    let request = if reset {
        json!({"request": "reset-log-levels"})
    } else if levels.is_empty() {
        json!({"request": "log-levels"})
    } else {
        let mut changes = Map::new();
        for text in &levels {
            let (subject, level) = text.split_once('=').ok_or_else(|| {
                Failure::usage(format!("'{text}' is not of the form SUBJECT=LEVEL"))
            })?;
            let level = if level.is_empty() { Value::Null } else { Value::from(level) };
            changes.insert(subject.to_owned(), level);
        }
        json!({"request": "set-log-levels", "levels": changes})
    };
    let answer = client.at_main().ask_server(request).await?;
    let Response::LogLevels { levels } = answer else { return Err(unexpected()) };
    output.value(&levels, || {
        if levels.is_empty() {
            println!("as the process file says");
        }
        for (subject, level) in &levels {
            println!("{subject}={}", level.as_str());
        }
    })
}

/// Asks the running server to end in good order.
pub(crate) async fn stop(client: &AdminClient, output: Output) -> Result<(), Failure> {
    let request = json!({"request": "stop-node"});
    client.at_main().ask_server(request).await?;
    output.value(&json!({"stopping": true}), || println!("stopping"))
}

/// Lists the signed heads of the node's journal.
pub(crate) async fn journal_heads(
    client: &AdminClient,
    output: Output,
    after: u64,
    limit: u32,
) -> Result<(), Failure> {
    let request = json!({"request": "journal-heads", "after": after, "limit": limit});
    let Response::JournalHeads { heads, .. } = client.at_main().ask(request).await? else {
        return Err(unexpected());
    };
    output.rows(&heads, |heads| {
        let cells = |head: &JournalHead| vec![head.records.to_string(), head.signed_at.to_string()];
        table::print(&["records", "signed at"], &heads.iter().map(cells).collect::<Vec<_>>());
    })
}

fn print_nodes(rows: &[NodeRow]) {
    let cells = |row: &NodeRow| {
        vec![
            row.name.to_string(),
            row.state.as_str().to_owned(),
            row.slot.map_or_else(|| "-".to_owned(), |slot| slot.to_string()),
            row.heartbeat_at.to_string(),
            milliseconds(row.round_trip_us),
            milliseconds(row.clock_ahead_us),
            row.projected_up_to.to_string(),
            row.unprojected.to_string(),
            row.program.clone(),
        ]
    };
    let headings = [
        "node",
        "state",
        "slot",
        "heartbeat",
        "took",
        "clock",
        "projected up to",
        "behind",
        "program",
    ];
    table::print(&headings, &rows.iter().map(cells).collect::<Vec<_>>());
}

fn print_node(row: &NodeRow) {
    let word = |is: bool| if is { "yes" } else { "no" };
    println!("name             {}", row.name);
    println!("id               {}", row.id);
    println!("state            {}", row.state.as_str());
    println!("drained          {}", word(row.drained));
    println!("rebuilding       {}", word(row.rebuilding));
    println!("slot             {}", row.slot.map_or_else(|| "-".to_owned(), |it| it.to_string()));
    println!("incarnation      {}", row.incarnation);
    println!("program          {}", row.program);
    println!("format level     {}", row.speaks);
    println!("heartbeat        {}", row.heartbeat_at);
    println!("heartbeat took   {}", milliseconds(row.round_trip_us));
    println!("clock            {}", milliseconds(row.clock_ahead_us));
    println!("projected up to  {}", row.projected_up_to);
    println!("behind           {} records", row.unprojected);
    println!("pools            {}", pools(&row.pools));
}

/// The sizes that are set.
fn pools(places: &PoolPlaces) -> String {
    let PoolPlaces { instance, source, target } = places;
    let named = [("instance", instance), ("source", source), ("target", target)];
    let set = named.iter().filter_map(|(pool, places)| Some(format!("{pool} {}", (**places)?)));
    let set: Vec<String> = set.collect();
    if set.is_empty() { "as its process file says".to_owned() } else { set.join(", ") }
}

/// Milliseconds with a sign that says which side a clock is on.
fn milliseconds(microseconds: i64) -> String {
    format!("{:.1} ms", microseconds as f64 / 1e3)
}

fn rate(bytes_per_second: u64) -> String {
    match bytes_per_second {
        0 => "-".to_owned(),
        rate => format!("{}/s", table::bytes(rate)),
    }
}
