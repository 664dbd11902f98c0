//! The search of the sample application, called by clients that are not ours: one that is generated
//! from the description of the model, and Debian's JMeter with the plan in `tests/jmeter`.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use entrepot_host::{SAMPLE_MANY_LOANS, SampleLoan};
use entrepot_testkit::clients::{java, python};
use entrepot_testkit::server::run;
use serde_json::{Value, json};

use crate::hosts::{Loans, SampleHost};

/// Somebody who searches.
const BOB: (&str, &str) = ("bob", "a word of bob");

/// A node whose model can be called.
fn deployed(sample: &SampleHost) -> Result<Loans> {
    let loans = Loans::start(sample)?;
    loans.node.until("the model", || {
        Ok((loans.find("bob", r#"{"reader": "EMPTY"}"#)?.0 == 200).then_some(()))
    })?;
    Ok(loans)
}

/// Made by a public generator out of what the server says of itself: operations, types of what goes
/// and comes, and of errors are those of the description.
#[test]
fn a_client_made_from_the_description_searches() -> Result<()> {
    let sample = SampleHost::start()?;
    let mut loans = deployed(&sample)?;
    let folder = loans.node.scratch().to_owned();
    let (status, description) = loans.ask("bob", "GET", "/procedures/openapi.json", "")?;
    ensure!(status == 200, "{description}");
    std::fs::write(folder.join("loans.json"), description.to_string())?;
    let mut generate = Command::new(python::tool("openapi-python-client")?);
    // What it made is formatted by a program of the same environment.
    let tools = python::tool("ruff")?;
    let path = std::env::var("PATH").unwrap_or_default();
    let tools = tools.parent().context("no folder")?.display();
    generate.current_dir(&folder).env("PATH", format!("{tools}:{path}"));
    generate.args(["generate", "--path", "loans.json", "--meta", "none", "--fail-on-warning"]);
    run(generate.args(["--output-path", "loans_client"]))?;

    let mut search = Command::new(python::tool("python3")?);
    search.current_dir(&folder).args(["-c", include_str!("host_clients.py")]);
    search.arg(format!("https://127.0.0.1:{}", loans.node.port_of("https")?)).args([BOB.0, BOB.1]);
    let found = run(search.arg(loans.node.certificate_of("https")?))?;
    let found: Value = serde_json::from_slice(&found.stdout)?;
    let (_, wanted) = loans.find("bob", r#"{"reader": "MANY"}"#)?;
    ensure!(wanted["loans"].as_array().is_some_and(|it| it.len() == SAMPLE_MANY_LOANS));
    for how in ["at_once", "in_session"] {
        ensure!(found[how] == wanted, "{how}: {found}");
    }
    ensure!(found["ended"] == 204, "{}", found["ended"]);
    ensure!(found["first"] == json!(["int", "str", "date"]), "{}", found["first"]);
    let refused = &found["refused"];
    ensure!(refused["status"] == 404 && refused["error"] == "not_found", "{refused}");
    ensure!(refused["entity"] == "Find" && refused["code"] == "EP1307", "{refused}");
    loans.node.stop()
}

/// Five clients of it, each ten times; each answer must have the last record.
#[test]
fn jmeter_searches_by_the_plan() -> Result<()> {
    const CLIENTS: usize = 5;
    const CALLS: usize = 10;
    let sample = SampleHost::start()?;
    let mut loans = deployed(&sample)?;
    let results = loans.node.scratch().join("results.csv");
    let port = loans.node.port_of("https")?;
    let last = SampleLoan::at(SAMPLE_MANY_LOANS - 1).title;
    let called = |wanted: &str| -> Result<Vec<String>> {
        let mut jmeter = java::jmeter()?;
        jmeter.current_dir(loans.node.scratch()).arg("-t");
        jmeter.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/jmeter/search.jmx"));
        jmeter.arg("-l").arg(&results).arg("-Jjmeter.save.saveservice.output_format=csv");
        for (name, value) in [
            ("port", port.to_string()),
            ("user", BOB.0.to_owned()),
            ("password", BOB.1.to_owned()),
            ("reader", "MANY".to_owned()),
            ("wanted", wanted.to_owned()),
            ("clients", CLIENTS.to_string()),
            ("calls", CALLS.to_string()),
        ] {
            jmeter.arg(format!("-J{name}={value}"));
        }
        let ran = run(&mut jmeter)?;
        let written = std::fs::read_to_string(&results).with_context(|| format!("{ran:?}"))?;
        std::fs::remove_file(&results)?;
        Ok(written.lines().map(str::to_owned).collect())
    };
    let lines = called(&last)?;
    let good = lines.iter().filter(|line| line.contains(",search,200,OK,")).count();
    ensure!(lines.len() == CLIENTS * CALLS && good == lines.len(), "{lines:?}");
    let good = lines.iter().filter(|line| line.contains(",true,")).count();
    ensure!(good == lines.len(), "{lines:?}");
    // The plan looks at what is found.
    let lines = called("NO SUCH TITLE")?;
    ensure!(lines.iter().all(|line| line.contains(",false,")), "{lines:?}");
    loans.node.stop()
}
