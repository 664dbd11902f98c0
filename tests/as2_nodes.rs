//! Messages of AS2 over two nodes of one PostgreSQL that share their files: each is delivered once,
//! whichever node gets it, and one that only accepts leaves the work to the other.

use std::collections::BTreeSet;
use std::thread;

use anyhow::{Context as _, Result, ensure};
use entrepot_testkit::clients::text;
use entrepot_testkit::postgres::Postgres;
use entrepot_testkit::server::Node;

use crate::as2::{Answer, Exchange, PAYLOAD};
use crate::hooks::apply;

/// Messages that come as two copies to each node at the same time.
const COPIED: usize = 8;
/// Messages that come once, all at the same time.
const SINGLE: usize = 6;

/// Sends a message again and again until there is a receipt, as its sender would.
fn until_received(exchange: &Exchange, port: u16, id: &str) -> Result<Answer> {
    let address = format!("http://127.0.0.1:{port}/as2");
    exchange.node.until("a receipt", || {
        let answer = exchange.send_to(&address, id, &[])?;
        ensure!([200, 503].contains(&answer.status), "{id}: {}", answer.head);
        Ok((answer.status == 200).then_some(answer))
    })
}

/// Sends them all at the same time, each to the node that has this port.
fn send_all(exchange: &Exchange, messages: &[(u16, String)]) -> Result<Vec<Answer>> {
    thread::scope(|scope| {
        let sent: Vec<_> = messages
            .iter()
            .map(|(port, id)| scope.spawn(|| until_received(exchange, *port, id)))
            .collect();
        let joined = sent.into_iter().map(|sent| sent.join().expect("a sender panicked"));
        joined.collect()
    })
}

/// A rule that puts what has come into a folder, where no name is taken twice.
fn deliver(node: &Node) -> Result<std::path::PathBuf> {
    let inbox = node.scratch().join("inbox");
    std::fs::create_dir(&inbox)?;
    let documents = format!(
        "endpoint: {{name: inbox, target: {{directory: {{path: {}}}}}}}\n---\n\
         rule:\n  name: on\n  when: {{event: file.uploaded}}\n  do:\n    \
         - deliver: {{endpoint: inbox, path: '{{name}}', existing: refuse}}\n",
        text(&inbox)?
    );
    apply(node, &documents)?;
    Ok(inbox)
}

#[test]
fn a_message_that_comes_to_two_nodes_at_once_is_delivered_once() -> Result<()> {
    let url = Postgres::shared().create_database()?;
    let exchange = Exchange::start(Some(&url))?;
    let inbox = deliver(&exchange.node)?;
    // The first node accepts, and does nothing else.
    let nodes = exchange.node.json(&["node", "list"])?;
    let first = nodes[0]["name"].as_str().context("a name")?.to_owned();
    let none = ["--instance", "0", "--source", "0", "--target", "0"];
    exchange.node.cli(&[&["node", "pools", &first], &none[..]].concat())?;
    let mut second = Node::joined(&exchange.node, &url, "second")?;
    second.start()?;
    let ports = [exchange.node.port_of("as2")?, second.port_of("as2")?];
    exchange.make(PAYLOAD)?;
    for round in 0..COPIED {
        let id = format!("<copied-{round}@globex.example>");
        let copies = [ports, ports].concat();
        let copies: Vec<_> = copies.into_iter().map(|port| (port, id.clone())).collect();
        let answers = send_all(&exchange, &copies)?;
        let mut receipts = BTreeSet::new();
        for answer in &answers {
            ensure!(exchange.receipt(answer)?.contains("; processed"), "{}", answer.head);
            receipts.insert(std::fs::read(&answer.body)?);
        }
        assert_eq!(receipts.len(), 1, "its copies have other receipts");
        assert_eq!(exchange.files()?.len(), round + 1, "{:?}", exchange.files()?);
    }
    // Different messages, whose files have the same name.
    let single = (0..SINGLE).map(|at| (ports[at % 2], format!("<single-{at}@globex.example>")));
    send_all(&exchange, &single.collect::<Vec<_>>())?;
    let numbered = (1..COPIED + SINGLE).map(|number| format!("order 850 ({number}).edi"));
    let names: BTreeSet<String> = numbered.chain(["order 850.edi".to_owned()]).collect();
    assert_eq!(exchange.files()?.into_iter().collect::<BTreeSet<_>>(), names);
    let events = second.until("the events of both nodes", || {
        let events = second.events("file.uploaded")?;
        Ok((events.len() >= names.len()).then_some(events))
    })?;
    let ids = events.iter().filter_map(|event| event["as2"]["message_id"].as_str());
    assert_eq!((events.len(), ids.collect::<BTreeSet<_>>().len()), (names.len(), names.len()));
    let by = |node: &str| events.iter().filter(|event| event["node"] == node).count();
    ensure!(by(&first) >= SINGLE / 2 && by("second") >= SINGLE / 2, "one node got all");
    // What follows from them was done by the other node alone.
    let done = second.until("the jobs", || {
        let done = second.events("job.done")?;
        Ok((done.len() >= names.len()).then_some(done))
    })?;
    ensure!(done.iter().all(|event| event["node"] == "second"), "{done:?}");
    for name in &names {
        assert_eq!(std::fs::read_to_string(inbox.join(name))?, PAYLOAD, "{name}");
    }
    Ok(())
}
