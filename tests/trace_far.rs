//! Where a file is that came from a partner's folder, was decrypted and unpacked, and went on to
//! another partner, over two nodes of which one died: the chain from its beginning to the receipt.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use entrepot_testkit::clients::{Login, text};
use entrepot_testkit::postgres::Postgres;
use entrepot_testkit::server::{Node, run};
use serde_json::{Value, json};

use crate::as2_send::key;
use crate::hooks::apply;
use crate::program;
use crate::routes::directory;
use crate::transforms::Gpg;

/// `a.csv` in a zip archive that somebody else made.
fn archive(node: &Node) -> Result<Vec<u8>> {
    let folder = node.scratch();
    std::fs::write(folder.join("a.csv"), "1;2\n")?;
    let mut python = Command::new("python3");
    python.current_dir(folder).args(["-m", "zipfile", "-c", "day.zip", "a.csv"]);
    run(&mut python)?;
    Ok(std::fs::read(folder.join("day.zip"))?)
}

fn rules() -> String {
    let retry = json!({"attempts": 500, "first_delay_seconds": 1, "longest_delay_seconds": 1});
    let take = json!({"rule": {"name": "take", "as": "acme", "retry": retry,
        "when": {"watch": {"endpoint": "bank", "path": "/out", "every": "1s", "stable": "1s"}},
        "do": [{"fetch": {"after": "delete"}}, {"decrypt": {"keys": ["ours"]}},
            {"extract": {"to": "/in"}}]}});
    let send = json!({"rule": {"name": "send", "when": {"event": "file.uploaded"},
        "if": "account == 'acme' && file.path.startsWith('/in/')", "retry": retry,
        "do": [{"deliver": {"endpoint": "erp"}}, {"as2": {"endpoint": "to-globex"}}]}});
    format!("{take}\n---\n{send}\n")
}

/// Partners of AS2, of whom nobody answers yet.
fn partners(node: &Node) -> Result<String> {
    let mut documents = Vec::new();
    for name in ["acme", "globex"] {
        let (ours, theirs) = key(node, &format!("{name}-as2"))?;
        documents.extend([ours, theirs]);
    }
    documents.push(json!({"endpoint": {"name": "to-globex", "target": {"as2": {
        "partner": "Globex", "station": "ACME", "keys": ["acme-as2"],
        "certificates": ["globex-as2-public"], "url": "http://127.0.0.1:9/as2",
        "allow_private": true, "send": {}}}}}));
    documents.push(json!({"endpoint": {"name": "from-acme", "target": {"as2": {
        "partner": "ACME", "station": "Globex", "keys": ["globex-as2"],
        "certificates": ["acme-as2-public"], "account": "globex"}}}}));
    Ok(documents.iter().map(|document| format!("{document}\n---\n")).collect())
}

/// What the trace shows of the way, from its beginning on.
const WAY: [&str; 11] = [
    "watch.found",
    "rule take: done",
    "file.fetched",
    "file.uploaded",
    "rule send: done",
    "file.delivered",
    "a.csv",
    " on n1",
    " on n2",
    "confirmed by a signed receipt of MIC",
    "delivered to",
];

#[test]
fn a_trace_leads_from_a_folder_over_two_nodes_to_a_partner_s_receipt() -> Result<()> {
    let url = Postgres::shared().create_database()?;
    let mut first = Node::new_called(program(), &url, "n1")?;
    Login::create(&first, "acme")?;
    Login::create(&first, "globex")?;
    first.cli(&["endpoint", "change", "files", "target.directory.shared=true"])?;
    let plain = ["protocol=http", "address=127.0.0.1:0", r#"http={"serve":["as2"]}"#];
    first.cli(&[&["listener", "create", "as2"], &plain[..]].concat())?;
    let (bank, erp) = (first.scratch().join("bank"), first.scratch().join("erp"));
    std::fs::create_dir_all(bank.join("out"))?;
    std::fs::create_dir(&erp)?;
    let gpg = Gpg::new()?;
    let documents = gpg.documents()?
        + &directory("bank", &bank)?
        + &directory("erp", &erp)?
        + &partners(&first)?
        + &rules();
    apply(&first, &documents)?;
    let mut second = Node::joined(&first, &url, "n2")?;
    first.start()?;
    let message = gpg.message(&first, &[], &archive(&first)?)?;
    std::fs::write(bank.join("out/day.zip.pgp"), message)?;
    first.until("the file to be unpacked and sent in vain", || {
        let retrying = first.events("job.retrying")?;
        Ok(retrying.iter().any(|event| event["rule"] == "send").then_some(()))
    })?;
    // What it was at goes on elsewhere.
    first.kill()?;
    second.start()?;
    let address = format!("target.as2.url=http://127.0.0.1:{}/as2", second.port_of("as2")?);
    second.cli(&["endpoint", "change", "to-globex", &address])?;
    let mut last = Value::Null;
    let found = second.until("the trace to end", || {
        last = second.json(&["trace", "day.zip.pgp"])?;
        Ok((last["state"] == "delivered").then_some(last.clone()))
    });
    let found = found.with_context(|| last.to_string())?;
    assert_eq!(found["chain"]["event"]["kind"], "watch.found", "{found}");
    let shown = second.cli(&["trace", "day.zip.pgp"])?;
    for step in WAY {
        ensure!(shown.contains(step), "no {step}: {shown}");
    }
    assert_eq!(shown.matches("file.delivered").count(), 2, "to the folder and to the partner");
    assert_eq!(std::fs::read(erp.join("a.csv"))?, b"1;2\n");
    // The partner's receipt is what the step left.
    let job = second.json(&["job", "list"])?;
    let job = job.as_array().context("a list")?.iter().find(|job| job["rule"] == "send");
    let id = job.context("the job")?["id"].as_str().context("an id")?.to_owned();
    let steps = second.json(&["job", "show", &id])?;
    let is_receipt = |step: &Value| step["result"]["mic"].is_string();
    ensure!(steps["steps"].as_array().context("steps")?.iter().any(is_receipt), "{steps}");
    // By what it became, and by its content, it is the newest arrival: that at the partner.
    let digest = blake3::hash(b"1;2\n").to_hex();
    for of in ["a.csv", digest.as_str()] {
        let again = second.json(&["trace", of])?;
        assert_eq!(again["chain"]["event"]["account"], "globex", "{of}: {again}");
    }
    ensure!(!bank.join("out").join("day.zip.pgp").exists(), "{}", text(&bank)?);
    second.stop()
}
