//! On PostgreSQL: the same path, and an outage under load.

use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use entrepot_testkit::clients::{Login, local_file, text};
use entrepot_testkit::postgres::Postgres;
use entrepot_testkit::server::Node;

use crate::program;

/// How long the database is away under load.
const OUTAGE: Duration = Duration::from_secs(30);
/// Uploads of each part; ten a second during the outage.
const PARTS: [(&str, usize); 5] =
    [("before", 50), ("during", 104), ("going on", 104), ("to the end", 104), ("after", 50)];

#[test]
fn a_database_outage_loses_nothing_and_doubles_nothing() -> Result<()> {
    let postgres = Postgres::launch()?;
    let mut node = Node::new(program(), Some(&postgres.create_database()?))?;
    let login = Login::create(&node, "acme")?;
    node.start()?;
    let local = local_file(&node, "a", b"content")?;
    let ledger = node.scratch().join("ledger");
    let put = |name: usize, pause: &str| -> Result<String> {
        let (local, ledger) = (text(&local)?.to_owned(), text(&ledger)?.to_owned());
        Ok(format!("put {local} {name}\n!echo {name} >> {ledger}{pause}\n"))
    };
    // One session lives through the outage: it gets what to upload part by part.
    let mut child = login.sftp(&node)?.spawn()?;
    let mut input = child.stdin.take().expect("piped");
    let acknowledged = || std::fs::read_to_string(&ledger).unwrap_or_default().lines().count();
    let mut wanted = 0;
    let mut away = None;
    for (part, count) in PARTS {
        match part {
            "during" => {
                postgres.kill()?;
                away = Some(Instant::now());
            }
            "after" => {
                ensure!(away.is_some_and(|since| since.elapsed() >= OUTAGE), "a short outage");
                postgres.start()?;
            }
            _ => {}
        }
        let pause = if ["before", "after"].contains(&part) { "" } else { "; sleep 0.1" };
        for number in wanted..wanted + count {
            input.write_all(put(number, pause)?.as_bytes())?;
        }
        wanted += count;
        node.until("the uploads of this part", || Ok((acknowledged() >= wanted).then_some(())))?;
    }
    drop(input);
    ensure!(child.wait()?.success());
    let events = node.until("the audit log to catch up", || {
        // The database may still be coming back.
        let events = node.events("file.uploaded").unwrap_or_default();
        Ok((events.len() >= wanted).then_some(events))
    })?;
    assert_eq!(events.len(), wanted, "each upload has one event");
    let mut paths: Vec<_> = events.iter().filter_map(|event| event["path"].as_str()).collect();
    paths.sort_unstable();
    paths.dedup();
    assert_eq!(paths.len(), wanted);
    let login_again = login.sftp_batch(&node, "ls\n");
    ensure!(login_again.is_ok(), "no login after the outage");
    Ok(())
}
