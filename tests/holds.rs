//! Mounts that hold uploads, before a real scanner: what was not called clean is never seen.

use anyhow::{Context as _, Result, ensure};
use entrepot_testkit::clients::{Login, local_file, noise, text};
use entrepot_testkit::scanners::{Clamd, MARK, THREAT};
use entrepot_testkit::server::Node;
use serde_json::Value;

use crate::hooks::apply;
use crate::program;

const RULES: &str = "endpoint: {name: av, target: {scanner: {url: 'clamd:SOCKET'}}}
---
endpoint: {name: erp, target: {directory: {path: ERP}}}
---
rule:
  name: gate
  when: {event: file.held}
  do:
    - scan: {endpoint: av, found: continue}
      name: look
    - if:
        when: steps.look.verdict == 'clean'
        then: [release: {}]
        else: [quarantine: {reason: 'found {steps.look.threat}'}]
  retry: {attempts: 2, first_delay_seconds: 1, longest_delay_seconds: 1}
---
rule:
  name: pass-on
  when: {event: file.uploaded}
  do: [deliver: {endpoint: erp}]
";

struct Gate {
    node: Node,
    login: Login,
}

impl Gate {
    fn start(clamd: &Clamd) -> Result<Gate> {
        let mut node = Node::new(program(), None)?;
        let login = Login::create(&node, "acme")?;
        node.cli(&["mount", "change", "acme-home", "hold=true"])?;
        node.add_ftp()?;
        let erp = node.scratch().join("erp");
        std::fs::create_dir(&erp)?;
        let rules = RULES.replace("SOCKET", text(&clamd.socket())?);
        apply(&node, &rules.replace("ERP", text(&erp)?))?;
        node.start()?;
        Ok(Gate { node, login })
    }

    fn put(&self, name: &str, content: &[u8]) -> Result<()> {
        let local = local_file(&self.node, name, content)?;
        self.login.sftp_batch(&self.node, &format!("put {} {name}\n", text(&local)?))?;
        Ok(())
    }

    /// The transfer of this path in this state, once there is one.
    fn transfer(&self, path: &str, state: &str) -> Result<Value> {
        self.node.until("the transfer", || {
            let found = self.node.json(&["transfer", "list", "--state", state])?;
            let rows = found.as_array().context("a list")?;
            Ok(rows.iter().find(|row| row["path"] == path && row["direction"] == "in").cloned())
        })
    }

    /// The names that a client lists.
    fn listed(&self) -> Result<String> {
        let listed = self.login.sftp_batch(&self.node, "ls -1\n")?;
        Ok(String::from_utf8(listed.stdout)?)
    }
}

#[test]
fn what_a_scanner_did_not_call_clean_is_never_seen() -> Result<()> {
    let mut clamd = Clamd::start()?;
    let mut gate = Gate::start(&clamd)?;
    let good = noise(61, 400_000);
    let mut bad = noise(62, 200_000);
    bad.splice(1000..1000, MARK.iter().copied());
    gate.put("good.bin", &good)?;
    gate.put("bad.bin", &bad)?;
    gate.transfer("/good.bin", "completed")?;
    let caught = gate.transfer("/bad.bin", "quarantined")?;
    ensure!(caught["error"].as_str().is_some_and(|why| why.contains(THREAT)), "{caught}");
    let listed = gate.listed()?;
    ensure!(listed.contains("good.bin") && !listed.contains("bad.bin"), "{listed}");
    let erp = gate.node.scratch().join("erp");
    gate.node.until("the delivery", || Ok(erp.join("good.bin").exists().then_some(())))?;
    ensure!(std::fs::read(erp.join("good.bin"))? == good);

    // A scanner that is away calls nothing clean; what has the name stays.
    clamd.kill()?;
    gate.put("good.bin", b"not looked at")?;
    gate.transfer("/good.bin", "held")?;
    gate.node.until("the job to fail", || {
        let failed = gate.node.json(&["job", "list", "--state", "failed"])?;
        Ok(failed.as_array().is_some_and(|jobs| !jobs.is_empty()).then_some(()))
    })?;
    let got = gate.node.scratch().join("got");
    gate.login.sftp_batch(&gate.node, &format!("get good.bin {}\n", text(&got)?))?;
    ensure!(std::fs::read(&got)? == good, "what is held has replaced a file");

    // An admin decides, once, and the audit says who.
    let id = caught["id"].as_str().context("no id")?.to_owned();
    gate.node.cli(&["transfer", "discard", &id])?;
    gate.transfer("/bad.bin", "failed")?;
    let again = gate.node.cli(&["transfer", "release", &id]);
    ensure!(again.is_err_and(|error| format!("{error:#}").contains("EP0838")));
    let held = gate.transfer("/good.bin", "held")?;
    gate.node.cli(&["transfer", "release", held["id"].as_str().context("no id")?])?;
    gate.node.until("the delivery", || {
        Ok((std::fs::read(erp.join("good.bin"))? == b"not looked at").then_some(()))
    })?;
    for kind in ["file.released", "file.discarded", "file.quarantined"] {
        assert_eq!(gate.node.events(kind)?.len(), 1, "{kind}");
    }
    let by = gate.node.events("file.released")?[0]["by"].to_string();
    ensure!(by.contains("cli:"), "{by}");
    let left = std::fs::read_dir(gate.node.files().join("acme/.entrepot-trash"))?.count();
    assert_eq!(left, 0, "hidden files are left");
    gate.node.stop()
}

/// What is acknowledged survives a kill, hidden, and the rules go on with it.
#[test]
fn a_node_that_is_killed_loses_no_held_file() -> Result<()> {
    let clamd = Clamd::start()?;
    let mut gate = Gate::start(&clamd)?;
    for round in 0..4 {
        for number in 0..3 {
            gate.put(&format!("{round}-{number}"), &noise(70 + round, 50_000))?;
        }
        gate.node.kill()?;
        gate.node.start()?;
    }
    for round in 0..4 {
        for number in 0..3 {
            gate.transfer(&format!("/{round}-{number}"), "completed")?;
            let path = gate.node.files().join(format!("acme/{round}-{number}"));
            ensure!(std::fs::read(path)? == noise(70 + round, 50_000));
        }
    }
    let held = gate.node.json(&["transfer", "list", "--state", "held"])?;
    ensure!(held.as_array().is_some_and(Vec::is_empty), "{held}");
    gate.node.stop()
}
