//! A rule that calls a procedure of a host which refuses, ends connections in their beginning and
//! in the middle of a screen, and is there again.

use std::io::Read as _;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result, ensure};
use entrepot_testkit::clients::{Login, local_file, text};
use entrepot_testkit::server::Node;
use serde_json::json;

use crate::hooks::apply;
use crate::hosts::{SampleHost, loans_csv};
use crate::program;
use crate::routes::directory;

/// After so many bytes of the host the way to it ends a connection, one after the other; those
/// behind them stay.
const CUTS: [u64; 2] = [3, 600];

/// A way to the host that breaks; its port, and how many connections it took.
fn broken_way(host: SocketAddr) -> Result<(u16, Arc<AtomicUsize>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let (port, taken) = (listener.local_addr()?.port(), Arc::<AtomicUsize>::default());
    let count = Arc::clone(&taken);
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let most = CUTS.get(count.fetch_add(1, Ordering::SeqCst)).copied();
            std::thread::spawn(move || drop(carried(&client, host, most.unwrap_or(u64::MAX))));
        }
    });
    Ok((port, taken))
}

/// Carries what client and host say, and so many bytes of the host at most.
fn carried(client: &TcpStream, host: SocketAddr, most: u64) -> Result<()> {
    let host = TcpStream::connect(host)?;
    let (mut from, mut to) = (client.try_clone()?, host.try_clone()?);
    std::thread::spawn(move || {
        // What ends first, ends both.
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Both);
    });
    let mut client = client;
    let _ = std::io::copy(&mut (&host).take(most), &mut client);
    Ok(client.shutdown(Shutdown::Both)?)
}

#[test]
fn a_rule_calls_its_procedure_when_the_host_is_there_again() -> Result<()> {
    let sample = SampleHost::start()?;
    let mut node = Node::new(program(), None)?;
    let login = Login::create(&node, "anna")?;
    let out = node.scratch().join("out");
    std::fs::create_dir(&out)?;
    let retry = json!({"attempts": 500, "first_delay_seconds": 1, "longest_delay_seconds": 1});
    let rule = json!({"rule": {"name": "loans", "when": {"event": "file.uploaded"}, "retry": retry,
        "do": [{"procedure": {"model": "loans", "call": "find_loans", "in": {"reader": "{stem}"},
            "name": "{stem}.csv"}}, {"deliver": {"endpoint": "out", "path": "{name}"}}]}});
    let documents = sample.documents() + "  pool: {initial: 0, wait: 1s, user_rest: 1s}\n---\n";
    // Nobody listens there.
    let away = documents.replace(&format!("port: {}", sample.address.port()), "port: 9");
    ensure!(away != documents, "{documents}");
    node.start()?;
    apply(&node, &format!("{away}{}{rule}\n", directory("out", &out)?))?;
    let local = local_file(&node, "NOVAK.txt", b"whose loans?")?;
    login.sftp_batch(&node, &format!("put {}\n", text(&local)?))?;
    let failed = |why: &str| {
        node.until(why, || {
            let told = node.events("job.retrying")?;
            let said = |error: Option<&str>| error.is_some_and(|error| error.contains(why));
            Ok(told.iter().any(|event| said(event["error"].as_str())).then_some(()))
        })
    };
    failed("Connection refused")?;
    let (port, taken) = broken_way(sample.address)?;
    node.cli(&["endpoint", "change", "library", &format!("target.tn3270.port={port}")])?;
    let file = out.join("NOVAK.csv");
    let made = node.until("the file", || Ok(std::fs::read_to_string(&file).ok()))?;
    assert_eq!(made, loans_csv());
    ensure!(taken.load(Ordering::SeqCst) > CUTS.len(), "it came by a connection that was cut");
    for event in node.events("job.retrying")? {
        let error = event["error"].as_str().context("no error")?;
        ensure!(error.starts_with("EP13"), "{error}");
    }
    let delivered = node.until("the delivery to be told", || {
        let told = node.events("file.delivered")?;
        Ok((!told.is_empty()).then_some(told))
    })?;
    assert_eq!(delivered.len(), 1, "{delivered:?}");
    node.stop()
}
