//! `kill -9` at each numbered step of an upload and of a delivery, and at random moments: no
//! acknowledged file is lost, none is partial, none is delivered twice.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use entrepot_testkit::clients::{Login, noise, text};
use entrepot_testkit::server::Node;

use crate::program;

/// Steps of an upload (ARCHITECTURE.md, "One upload") and of a delivery.
const STEPS: &[&str] = &[
    "upload.staged",
    "upload.synced",
    "upload.intent",
    "upload.published",
    "upload.recorded",
    "delivery.staged",
    "delivery.synced",
    "delivery.published",
    "delivery.recorded",
    "job.advanced",
];

/// Kills at random moments; `ENTREPOT_CRASH_CYCLES` asks for more.
fn cycles() -> u64 {
    std::env::var("ENTREPOT_CRASH_CYCLES").ok().and_then(|text| text.parse().ok()).unwrap_or(20)
}

/// A node that delivers what arrives to an inbox, and what its client saw acknowledged.
struct Ledger {
    node: Node,
    login: Login,
    inbox: PathBuf,
    acknowledged: BTreeMap<String, Vec<u8>>,
}

impl Ledger {
    fn new() -> Result<Ledger> {
        let node = Node::new(program(), None)?;
        let login = Login::create(&node, "acme")?;
        let inbox = node.scratch().join("inbox");
        std::fs::create_dir(&inbox)?;
        let documents = format!(
            "endpoint: {{name: partner, target: {{directory: {{path: {}}}}}}}\n---\n\
             endpoint: {{name: second, target: {{directory: {{path: {}}}}}}}\n---\n\
             rule:\n  name: to-partner\n  when: {{event: file.uploaded}}\n  do:\n    \
             - deliver: {{endpoint: second}}\n    - deliver: {{endpoint: partner}}\n  \
             retry: {{attempts: 20, first_delay_seconds: 1, longest_delay_seconds: 1}}\n",
            text(&inbox)?,
            text(&node.scratch().join("second"))?
        );
        node.cli_with_input(&["apply", "-"], &documents)?;
        Ok(Ledger { node, login, inbox, acknowledged: BTreeMap::new() })
    }

    /// Uploads files one after another with one `sftp`; what it confirmed is acknowledged. After
    /// each `put` a local command writes the name to a ledger that the server cannot touch.
    fn upload(
        &mut self,
        names: &[String],
        then: impl FnOnce(&mut Node) -> Result<()>,
    ) -> Result<()> {
        let ledger = self.node.scratch().join("ledger");
        std::fs::write(&ledger, "")?;
        let mut batch = String::new();
        for (at, name) in names.iter().enumerate() {
            let local = self.node.scratch().join(name);
            std::fs::write(&local, content(name, at))?;
            batch += &format!("put {} {name}\n!echo {name} >> {}\n", text(&local)?, text(&ledger)?);
        }
        let mut child = self.login.sftp(&self.node)?.spawn()?;
        child.stdin.take().context("piped")?.write_all(batch.as_bytes())?;
        then(&mut self.node)?;
        child.wait()?;
        let done = std::fs::read_to_string(&ledger)?;
        for (at, name) in names.iter().enumerate() {
            if done.lines().any(|line| line == name) {
                self.acknowledged.insert(name.clone(), content(name, at));
            }
        }
        Ok(())
    }

    /// Checks every promise against what is on disk and in the audit log.
    fn check(&mut self) -> Result<()> {
        for (name, want) in &self.acknowledged {
            let found = std::fs::read(self.login.on_disk(&self.node, name))
                .with_context(|| format!("the acknowledged file {name} is lost"))?;
            ensure!(found == *want, "the acknowledged file {name} is damaged");
        }
        self.every_visible_file_is_whole()?;
        let wanted = self.acknowledged.len();
        self.node.until("every acknowledged file to be delivered", || {
            let there = |name: &String| self.inbox.join(name).exists();
            Ok((self.acknowledged.keys().filter(|name| there(name)).count() == wanted)
                .then_some(()))
        })?;
        self.node.until("the jobs to end", || {
            let ready = self.node.json(&["job", "list", "--state", "ready", "--limit", "1"])?;
            let running = self.node.json(&["job", "list", "--state", "running", "--limit", "1"])?;
            let idle =
                [ready, running].iter().all(|jobs| jobs.as_array().is_none_or(Vec::is_empty));
            Ok(idle.then_some(()))
        })?;
        self.no_delivery_twice()?;
        ensure!(self.node.cli(&["journal", "verify"])?.contains("intact"));
        Ok(())
    }

    fn every_visible_file_is_whole(&self) -> Result<()> {
        for folder in [self.node.files().join("acme"), self.inbox.clone()] {
            for entry in std::fs::read_dir(&folder).into_iter().flatten() {
                let entry = entry?;
                let name = entry.file_name().to_string_lossy().into_owned();
                if name.starts_with('.') {
                    continue;
                }
                let found = std::fs::read(entry.path())?;
                let whole = (0..64).any(|at| found == content(&name, at));
                ensure!(whole, "{} is visible and not whole", entry.path().display());
            }
        }
        Ok(())
    }

    fn no_delivery_twice(&self) -> Result<()> {
        let mut seen = BTreeMap::new();
        for event in self.node.events("file.delivered")? {
            let place = format!("{} to {}", event["path"], event["endpoint"]);
            *seen.entry(place).or_insert(0) += 1;
        }
        for (path, count) in seen {
            ensure!(count == 1, "{path} was delivered {count} times");
        }
        let mut arrived = BTreeMap::new();
        for kind in ["file.uploaded", "file.recovered"] {
            for event in self.node.events(kind)? {
                let id = event["transfer"].as_str().unwrap_or_default().to_owned();
                *arrived.entry(id).or_insert(0) += 1;
            }
        }
        for (transfer, count) in arrived {
            ensure!(count == 1, "the upload {transfer} has {count} events");
        }
        Ok(())
    }
}

/// What a file of this name holds.
fn content(name: &str, at: usize) -> Vec<u8> {
    let seed = name.bytes().fold(17u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    noise(seed, 20_000 + at * 7_919)
}

#[test]
fn crash_at_each_numbered_step() -> Result<()> {
    let mut ledger = Ledger::new()?;
    for (round, step) in STEPS.iter().enumerate() {
        ledger.node.set("ENTREPOT_CRASH_AT", &format!("{step}:3"));
        ledger.node.start()?;
        let names: Vec<String> = (0..6).map(|at| format!("step{round}-{at}")).collect();
        ledger.upload(&names, |_| Ok(()))?;
        let status =
            ledger.node.wait().with_context(|| format!("step {step} was never reached"))?;
        ensure!(!status.success(), "the server did not crash at {step}");
        ledger.node.unset();
        ledger.node.start()?;
        ledger.check().with_context(|| format!("after a crash at {step}"))?;
        ledger.node.stop()?;
    }
    ensure!(ledger.acknowledged.len() >= STEPS.len(), "too little was acknowledged to mean much");
    Ok(())
}

#[test]
fn crash_at_random_moments() -> Result<()> {
    let mut ledger = Ledger::new()?;
    let mut acknowledged = 0;
    for cycle in 0..cycles() {
        // All that was ever acknowledged is looked at after each kill: not for thousands of them.
        if cycle > 0 && cycle % 20 == 0 {
            acknowledged += ledger.acknowledged.len();
            println!("{cycle} kills, {acknowledged} acknowledged files, none lost");
            ledger = Ledger::new()?;
        }
        ledger.node.start()?;
        let names: Vec<String> = (0..40).map(|at| format!("cycle{cycle}-{at}")).collect();
        let kill_after = usize::try_from(cycle * 13 % 37)?;
        let visible = ledger.login.on_disk(&ledger.node, &format!("cycle{cycle}-{kill_after}"));
        ledger.upload(&names, |node| {
            node.until("the moment to kill", || Ok(visible.exists().then_some(())))?;
            node.kill()
        })?;
        ledger.node.start()?;
        ledger.check().with_context(|| format!("cycle {cycle}"))?;
        ledger.node.kill()?;
    }
    acknowledged += ledger.acknowledged.len();
    println!("{} kills, {acknowledged} acknowledged files, none lost", cycles());
    Ok(())
}
