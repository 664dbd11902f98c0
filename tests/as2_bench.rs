//! `entrepot bench as2`: against a node of its own, and with a message of the openssl command
//! against a node that was there before.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};
use entrepot_testkit::clients::text;
use entrepot_testkit::server::{Node, run};
use serde_json::{Value, json};

use crate::program;

/// Runs `bench as2` in a folder of its own and reads its report.
fn bench(folder: &Path, arguments: &[&str]) -> Result<Value> {
    let mut command = Command::new(program());
    command.current_dir(folder).args(["--json", "bench", "as2"]).args(arguments);
    Ok(serde_json::from_slice(&run(&mut command)?.stdout)?)
}

#[test]
fn a_loopback_delivers_each_message_once_and_checks_each_receipt() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let small = ["--size", "20K", "--messages", "12", "--concurrency", "3", "--iterations", "2"];
    let ways: [&[&str]; 3] = [
        &["--each", "--cipher", "aes-256-gcm", "--digest", "sha-512"],
        &["--cipher", "triple-des-cbc", "--digest", "sha-1", "--compression", "before-signing"],
        &["--cipher", "none", "--receipt", "none"],
    ];
    for way in ways {
        let report = bench(folder.path(), &[&["--loopback"], &small[..], way].concat())?;
        let iterations = report["iterations"].as_array().map(Vec::as_slice).unwrap_or_default();
        assert_eq!(iterations.len(), 2, "{report}");
        for iteration in iterations {
            assert_eq!(iteration["complete"], 12, "{report}");
            assert_eq!(iteration["failed"], 0, "{report}");
            assert_eq!(iteration["write_errors"], 0, "{report}");
            let checked = if way.contains(&"none") { 0 } else { 12 };
            assert_eq!(iteration["verified"], checked, "{report}");
        }
        ensure!(!folder.path().join("bench-as2").exists(), "its folder stays");
    }
    // For people: the block of replay tools.
    let mut command = Command::new(program());
    command.current_dir(folder.path()).args(["bench", "as2", "--loopback"]).args(small);
    let shown = String::from_utf8(run(&mut command)?.stdout)?;
    for line in ["Document Length:", "Complete requests:      12", "Write errors:           0"] {
        ensure!(shown.contains(line), "{line} is not in {shown}");
    }
    ensure!(shown.matches("across all concurrent requests").count() == 2, "{shown}");
    Ok(())
}

/// How long the soak is, and how fast; in full with `SOAK` in the environment, such as `1h`.
fn soak() -> (String, [&'static str; 6]) {
    let short = ["--rate", "5", "--concurrency", "4", "--size", "10K"];
    let full = ["--rate", "31", "--concurrency", "30", "--size", "1M"];
    std::env::var("SOAK").map_or(("6s".to_owned(), short), |time| (time, full))
}

#[test]
fn a_soak_without_drift_ends_well() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (time, load) = soak();
    let mut command = Command::new(program());
    command.current_dir(folder.path()).args(["--json", "bench", "as2", "--loopback", "--soak"]);
    let output = command.arg(&time).args(load).output()?;
    let report: Value = serde_json::from_slice(&output.stdout)?;
    let drifts = report["drifts"].as_array().map(Vec::as_slice).unwrap_or_default();
    // How fast messages are at the begin and the end of six seconds the machine decides.
    let is_short = time == "6s";
    ensure!(drifts.iter().all(|drift| is_short && drift["what"] == "latency"), "{report}");
    assert_eq!(output.status.success(), drifts.is_empty(), "{output:?}");
    let windows = report["windows"].as_array().map(Vec::as_slice).unwrap_or_default();
    ensure!(windows.len() >= 12, "{report}");
    if !is_short {
        windows.iter().for_each(|window| eprintln!("{window}"));
    }
    for window in windows {
        ensure!(window["missed"] == 0 && window["handles"].as_u64() > Some(5), "{window}");
        ensure!(window["memory_bytes"].as_u64() > Some(1 << 20), "{window}");
    }
    Ok(())
}

/// A node whose partner GLOBEX signs with a certificate of the openssl command.
fn receiver() -> Result<Node> {
    let mut node = Node::new(program(), None)?;
    for who in ["acme", "globex"] {
        let (key, certificate) =
            (node.scratch().join(format!("{who}.key")), node.scratch().join(format!("{who}.pem")));
        let request = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj"];
        let mut openssl = Command::new("openssl");
        openssl.args(request).args([&format!("/CN={who}"), "-keyout", text(&key)?, "-out"]);
        run(openssl.arg(certificate))?;
    }
    let read = |name: &str| std::fs::read_to_string(node.scratch().join(name));
    let documents = [
        json!({"account": {"name": "globex", "type": "partner"}}),
        json!({"mount": {"name": "globex", "account": "globex", "path": "/",
            "endpoint": "files", "prefix": "globex"}}),
        json!({"key": {"name": "ours", "type": "as2", "public": read("acme.pem")?,
            "private": read("acme.key")?}}),
        json!({"key": {"name": "theirs", "type": "as2", "public": read("globex.pem")?}}),
        json!({"endpoint": {"name": "globex", "target": {"as2": {"partner": "GLOBEX",
            "station": "ACME", "keys": ["ours"], "certificates": ["theirs"],
            "account": "globex"}}}}),
        json!({"listener": {"name": "as2", "protocol": "http", "address": "127.0.0.1:0",
            "http": {"serve": ["as2"]}}}),
    ];
    let documents = documents.map(|document| document.to_string()).join("\n---\n");
    node.cli_with_input(&["apply", "-"], &documents)?;
    node.start()?;
    Ok(node)
}

#[test]
fn a_saved_message_is_sent_again_and_again_under_new_ids() -> Result<()> {
    let node = receiver()?;
    let at = |name: &str| node.scratch().join(name);
    std::fs::write(at("entity"), "Content-Type: application/edi-x12\r\n\r\nISA*00*~\r\n")?;
    let sign = "cms -sign -binary -md sha256 -signer globex.pem -inkey globex.key -in entity \
                -outform SMIME -out signed";
    let encrypt = "cms -encrypt -binary -aes-128-cbc -in signed -outform DER -out body acme.pem";
    for command in [sign, encrypt] {
        let mut openssl = Command::new("openssl");
        run(openssl.current_dir(node.scratch()).args(command.split_whitespace()))?;
    }
    let header = "POST /as2 HTTP/1.1\r\nHost: as2.acme.example\r\nAS2-Version: 1.2\r\n\
                  AS2-From: GLOBEX\r\nAS2-To: \"ACME\"\r\nSubject: \"an order, quoted\"\r\n\
                  Message-ID: <once@globex.example>\r\nMIME-Version: 1.0\r\n\
                  Content-Type: application/pkcs7-mime; smime-type=enveloped-data\r\n\
                  Disposition-Notification-To: edi@globex.example\r\n\
                  Disposition-Notification-Options: signed-receipt-protocol=optional,\r\n \
                  pkcs7-signature; signed-receipt-micalg=optional, sha256\r\n\
                  Content-Length: 3\r\n\r\n";
    let mut saved = header.as_bytes().to_vec();
    saved.extend(std::fs::read(at("body"))?);
    std::fs::write(at("saved"), saved)?;
    let target = format!("http://127.0.0.1:{}/as2", node.port_of("as2")?);
    let replay = ["--target", &target, "--message", "saved", "--messages", "9"];
    let more = ["--concurrency", "2", "--iterations", "1", "--partner-certificate"];
    let replay = [&replay[..], &more[..]].concat();
    let report = bench(node.scratch(), &[&replay[..], &["acme.pem"]].concat())?;
    assert_eq!(report["iterations"][0]["verified"], 9, "{report}");
    node.until("the events", || Ok((node.events("file.uploaded")?.len() == 9).then_some(())))?;
    let events = node.events("file.uploaded")?;
    let mut ids: Vec<&str> =
        events.iter().filter_map(|event| event["as2"]["message_id"].as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 9);
    ensure!(events.iter().all(|event| event["as2"]["subject"] == "\"an order, quoted\""));
    // Receipts of somebody else count for nothing.
    let wrong = bench(node.scratch(), &[&replay[..], &["globex.pem"]].concat())?;
    let iteration = &wrong["iterations"][0];
    ensure!(iteration["verified"] == 0 && iteration["failed"] == 9, "{wrong}");
    ensure!(wrong["rounds"][0]["failures"][0].as_str().is_some_and(|it| it.contains("signature")));
    Ok(())
}

#[test]
fn pyas2lib_takes_the_same_messages_in_the_same_run() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let python = entrepot_testkit::clients::python::tool("python3")?;
    let small = ["--size", "20K", "--messages", "7", "--concurrency", "3", "--iterations", "2"];
    let beside = ["--loopback", "--pyas2lib", text(&python)?, "--pyas2lib-processes", "2"];
    let report = bench(folder.path(), &[&beside[..], &small[..]].concat())?;
    let receivers = report["receivers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let names: Vec<&str> = receivers.iter().filter_map(|it| it["name"].as_str()).collect();
    assert_eq!(names, ["entrepot", "pyas2lib 1.4.4"], "{report}");
    for receiver in receivers {
        assert_eq!(
            (&receiver["delivered"], &receiver["missed"]),
            (&json!(14), &json!(0)),
            "{report}"
        );
        ensure!(receiver["messages_per_second"].as_f64() > Some(0.0), "{receiver}");
        ensure!(receiver["cpu_ms_per_message"].as_f64() > Some(0.0), "{receiver}");
        ensure!(receiver["peak_resident_bytes"].as_u64() > Some(10 << 20), "{receiver}");
    }
    let iterations = report["iterations"].as_array().map(Vec::as_slice).unwrap_or_default();
    assert_eq!(iterations.len(), 4);
    ensure!(iterations.iter().all(|iteration| iteration["verified"] == 7), "{report}");
    let rounds: Vec<&Value> = report["rounds"].as_array().into_iter().flatten().collect();
    // What Python spends is not the client's, which started it.
    let theirs = &report["medians"][1];
    let of = |whose: &str| theirs[format!("{whose}_cpu_seconds_per_unit")].as_f64();
    ensure!(of("client") < of("server"), "{theirs}");
    ensure!(rounds.iter().zip(names.repeat(2)).all(|(it, name)| it["workload"] == name));
    ensure!(!folder.path().join("bench-as2").exists(), "its folder stays");

    // A Python without it: the command that installs it is named.
    let mut command = Command::new(program());
    command.current_dir(folder.path()).args(["bench", "as2", "--loopback", "--pyas2lib", "false"]);
    let output = command.args(small).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(!output.status.success() && said.contains("pip install pyas2lib==1.4.4"), "{said}");
    ensure!(!folder.path().join("bench-as2").exists(), "its folder stays");
    Ok(())
}
