//! `entrepot bench host`: on a node and hosts of its own, beside s3270, and at a server that was
//! there before.

use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use entrepot_testkit::server::run;
use serde_json::Value;

use crate::hosts::{Loans, SampleHost};
use crate::program;

/// The command, in a folder of its own.
fn bench(folder: &Path, arguments: &[&str]) -> Result<Output> {
    let mut command = Command::new(program());
    command.current_dir(folder).args(["--json", "bench", "host", "--rounds", "1"]).args(arguments);
    Ok(command.output()?)
}

fn rows(output: &Output) -> Result<Vec<Value>> {
    let report: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    report["rows"].as_array().cloned().with_context(|| report.to_string())
}

#[test]
fn every_row_of_the_table_is_measured() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let small = ["--clients", "2,3", "--option-clients", "2", "--transactions", "2"];
    let done = bench(folder.path(), &[&small[..], &["--sessions", "3,30"]].concat())?;
    let rows = rows(&done)?;
    ensure!(done.status.success(), "{rows:?}\n{}", String::from_utf8_lossy(&done.stderr));
    let told = |row: &Value| {
        let name = row["row"].as_str().unwrap_or_default().to_owned();
        (name, row["clients"].as_u64(), row["screens_per_transaction"].as_u64())
    };
    let mut wanted = Vec::new();
    for (name, screens) in [
        ("search, pool", 28),
        ("search, no pool", 32),
        ("update, pool", 6),
        ("update, no pool", 10),
    ] {
        wanted.extend([2, 3].map(|clients| (name.to_owned(), clients, screens)));
    }
    for debug in ["nothing", "errors", "everything"] {
        wanted.push((format!("search, pool, debug {debug}"), 2, 28));
        wanted.push((format!("search, no pool, debug {debug}"), 2, 32));
    }
    for tls in ["clear", "TLS", "TLS to the host", "TLS on both sides"] {
        wanted.push((format!("search, pool, {tls}"), 2, 28));
        wanted.push((format!("search, pool, {tls}, reconnecting"), 2, 28));
    }
    wanted.push(("search, pool, Trace Player".to_owned(), 2, 28));
    for entities in [10, 50, 100] {
        for sessions in [3, 30] {
            let size = format!("{entities} entities, {sessions} sessions");
            wanted.push((format!("at rest, {size}"), 0, 0));
            wanted.push((format!("search, {size}"), 2, 28));
        }
    }
    wanted.extend([2, 3].map(|clients| ("search, s3270 without a server".to_owned(), clients, 28)));
    let wanted: Vec<_> =
        wanted.into_iter().map(|(name, clients, all)| (name, Some(clients), Some(all))).collect();
    assert_eq!(rows.iter().map(told).collect::<Vec<_>>(), wanted);
    for row in &rows {
        let clients = row["clients"].as_u64().unwrap_or_default();
        ensure!(row["transactions"] == clients * 2 && row["failed"] == 0, "{row}");
        ensure!(clients == 0 || row["screens_per_second"].as_f64() > Some(0.0), "{row}");
        ensure!(row["server_bytes"].as_u64() > Some(0), "{row}");
    }
    ensure!(!folder.path().join("bench-host").exists(), "its folder stays");
    Ok(())
}

#[test]
fn a_procedure_of_another_server_is_measured_and_failures_are_told() -> Result<()> {
    let sample = SampleHost::start()?;
    let mut loans = Loans::start(&sample)?;
    let novak = r#"{"reader": "NOVAK"}"#;
    loans.node.until("the model", || {
        Ok((loans.find("bob", novak)?.1["code"] != "EP1314").then_some(()))
    })?;
    let folder = tempfile::tempdir()?;
    let password = folder.path().join("password");
    std::fs::write(&password, "a word of bob\n")?;
    let port = loans.node.port_of("https")?;
    let url = format!("https://127.0.0.1:{port}/api/v1/models/loans/procedures/find_loans");
    let password = password.display().to_string();
    let of = |reader: &str| -> Result<Output> {
        let target = ["--target", &url, "--user", "bob", "--password-file", &password];
        let work = ["--in", reader, "--screens", "5", "--clients", "2", "--transactions", "3"];
        bench(folder.path(), &[&target[..], &work[..]].concat())
    };
    let done = of("reader=NOVAK")?;
    let rows_done = rows(&done)?;
    ensure!(done.status.success() && rows_done.len() == 1, "{rows_done:?}");
    ensure!(rows_done[0]["row"] == "find_loans" && rows_done[0]["transactions"] == 6);
    let refused = of("reader=NOBODY")?;
    let rows_refused = rows(&refused)?;
    ensure!(rows_refused[0]["failed"] == 6 && rows_refused[0]["transactions"] == 0);
    ensure!(rows_refused[0]["failures"].to_string().contains("404"), "{rows_refused:?}");
    ensure!(refused.status.code() == Some(6), "{:?}", refused.status);
    // For people it is a table.
    let words = ["bench", "host", "--part", "update", "--clients", "1", "--transactions", "1"];
    let mut table = Command::new(program());
    table.current_dir(folder.path()).args(words).args(["--rounds", "1"]);
    let table = String::from_utf8(run(&mut table)?.stdout)?;
    ensure!(table.starts_with("ROW ") && table.contains("\nupdate, no pool "), "{table}");
    loans.node.stop()
}
