//! What there is after a storm: jobs, events, and files in all places.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use entrepot_testkit::clients::text;
use serde_json::Value;

use super::receiver::Got;
use super::site::Site;

/// The kinds of events that say that a file is there.
const ARRIVED: [&str; 2] = ["file.uploaded", "file.recovered"];

/// How far jobs are.
#[derive(PartialEq, Eq)]
pub(super) struct Progress {
    /// Each job that has not ended, and where it is.
    open: Vec<String>,
    unprojected: u64,
}

impl Progress {
    pub(super) fn is_idle(&self) -> bool {
        self.open.is_empty() && self.unprojected == 0
    }
}

pub(super) struct Found {
    pub(super) jobs: Vec<Value>,
    /// By path.
    pub(super) arrivals: BTreeMap<String, Vec<Value>>,
    /// Of files that a mount holds, by path.
    pub(super) held: BTreeMap<String, Vec<Value>>,
    pub(super) quarantined: Vec<Value>,
    pub(super) delivered: Vec<Value>,
    pub(super) called: Vec<Value>,
    /// Events that start rules by themselves, and those of instants that did not.
    pub(super) starts: Vec<Value>,
    pub(super) skipped: Vec<Value>,
    /// Events that there is one of for each job at the most, by kind.
    pub(super) ends: Vec<Value>,
    pub(super) removed: Vec<Value>,
    pub(super) requests: Vec<Got>,
    /// Subject and Message-ID of each message.
    pub(super) mails: Vec<Mail>,
    pub(super) runs: Vec<String>,
}

pub(super) struct Mail {
    pub(super) subject: String,
    pub(super) id: String,
}

impl Site {
    fn jobs(&self) -> Result<Vec<Value>> {
        let jobs = self.nodes[0].json(&["job", "list", "--limit", "10000"])?;
        jobs.as_array().cloned().context("jobs")
    }

    fn events(&self, kind: &str) -> Result<Vec<Value>> {
        let events = ["event", "list", "--kind", kind, "--limit", "10000"];
        let events = self.nodes[0].json(&events)?;
        events.as_array().cloned().context("events")
    }

    fn by_path(&self, kinds: &[&str]) -> Result<BTreeMap<String, Vec<Value>>> {
        let mut found = BTreeMap::<String, Vec<Value>>::new();
        for kind in kinds {
            for event in self.events(kind)? {
                let path = event["path"].as_str().context("a path")?.to_owned();
                found.entry(path).or_default().push(event);
            }
        }
        Ok(found)
    }

    pub(super) fn progress(&self) -> Result<Progress> {
        let nodes = self.nodes[0].json(&["node", "list"])?;
        let unprojected = nodes.as_array().context("nodes")?.iter();
        let unprojected = unprojected.map(|node| node["unprojected"].as_u64().unwrap_or(1)).sum();
        let mut open = Vec::new();
        for state in ["ready", "running"] {
            let jobs = ["job", "list", "--state", state, "--limit", "10000"];
            let jobs = self.nodes[0].json(&jobs)?;
            for job in jobs.as_array().context("jobs")? {
                open.push(format!("{} {} {} {}", job["id"], state, job["at"], job["attempts"]));
            }
        }
        open.extend(self.starts.waiting()?);
        open.sort();
        Ok(Progress { open, unprojected })
    }

    pub(super) fn found(&self) -> Result<Found> {
        let mut ends = self.events("job.done")?;
        ends.extend(self.events("job.failed")?);
        let mut starts = self.events("watch.found")?;
        starts.extend(self.events("hook.received")?);
        starts.extend(self.events("schedule.due")?);
        starts.extend(self.events("expected.missed")?);
        let mails = self.post.messages()?;
        Ok(Found {
            jobs: self.jobs()?,
            arrivals: self.by_path(&ARRIVED)?,
            held: self.by_path(&["file.held"])?,
            quarantined: self.events("file.quarantined")?,
            delivered: self.events("file.delivered")?,
            called: self.events("rule.called")?,
            starts,
            skipped: self.events("schedule.skipped")?,
            ends,
            removed: self.events("file.removed")?,
            requests: self.receiver.got(),
            mails: mails.iter().map(|message| mail(message)).collect::<Result<_>>()?,
            runs: self.runs(),
        })
    }
}

impl Found {
    /// The events of an upload that start its routes.
    pub(super) fn begun(&self, path: &str) -> &[Value] {
        let all = if is_held(path) { &self.held } else { &self.arrivals };
        all.get(path).map_or(&[], Vec::as_slice)
    }
}

/// Whether a mount holds what is uploaded there.
pub(super) fn is_held(path: &str) -> bool {
    path.starts_with("/held/")
}

fn mail(message: &str) -> Result<Mail> {
    let field = |name: &str| {
        let found = message.lines().find_map(|line| line.strip_prefix(name));
        found.map(str::to_owned).with_context(|| format!("no {name} in {message}"))
    };
    Ok(Mail { subject: field("Subject: ")?, id: field("Message-ID: ")? })
}

/// Every file below a folder, by its path there.
pub(super) fn below(folder: &Path) -> Result<BTreeMap<String, PathBuf>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.insert(text(path.strip_prefix(folder)?)?.to_owned(), path);
            }
        }
    }
    Ok(found)
}

/// Whether a path has a hidden part.
pub(super) fn is_hidden(path: &str) -> bool {
    path.split('/').any(|part| part.starts_with('.'))
}
