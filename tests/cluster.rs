//! On PostgreSQL: the same path, and an outage under load.

use anyhow::{Result, ensure};
use entrepot_testkit::clients::{Login, local_file, text};
use entrepot_testkit::postgres::Postgres;
use entrepot_testkit::server::Node;

use crate::program;

#[test]
fn a_database_outage_loses_nothing_and_doubles_nothing() -> Result<()> {
    let postgres = Postgres::launch()?;
    let mut node = Node::new(program(), Some(&postgres.create_database()?))?;
    let login = Login::create(&node, "acme")?;
    node.start()?;
    let local = local_file(&node, "a", b"content")?;
    let ledger = node.scratch().join("ledger");
    let put = |name: String| -> Result<String> {
        Ok(format!("put {} {name}\n!echo {name} >> {}\n", text(&local)?, text(&ledger)?))
    };
    // One session lives through the outage: it is told what to put in three parts.
    let mut child = login.sftp(&node)?.spawn()?;
    let mut input = child.stdin.take().expect("piped");
    let acknowledged = || std::fs::read_to_string(&ledger).unwrap_or_default().lines().count();
    for (part, action) in ["before", "during", "after"].into_iter().enumerate() {
        match action {
            "during" => postgres.kill()?,
            "after" => postgres.start()?,
            _ => {}
        }
        for number in 0..50 {
            use std::io::Write;
            input.write_all(put(format!("{action}-{number}"))?.as_bytes())?;
        }
        node.until("the uploads of this part", || {
            Ok((acknowledged() >= (part + 1) * 50).then_some(()))
        })?;
    }
    drop(input);
    ensure!(child.wait()?.success());
    let events = node.until("the audit log to catch up", || {
        // The database may still be coming back.
        let events = node.events("file.uploaded").unwrap_or_default();
        Ok((events.len() >= 150).then_some(events))
    })?;
    assert_eq!(events.len(), 150, "each upload has one event");
    let mut paths: Vec<_> = events.iter().filter_map(|event| event["path"].as_str()).collect();
    paths.sort_unstable();
    paths.dedup();
    assert_eq!(paths.len(), 150);
    let login_again = login.sftp_batch(&node, "ls\n");
    ensure!(login_again.is_ok(), "no login after the outage");
    Ok(())
}
