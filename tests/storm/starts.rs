//! Rules of the storm that something else starts than an upload: what is given to them, and what
//! is to be found of it afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Result, ensure};
use entrepot_nouns::Timestamp;
use entrepot_testkit::clients::noise;
use entrepot_testkit::server::Node;
use serde_json::Value;

use super::found::{Found, below, is_hidden};
use crate::expects::now;

/// What a client hears that opens a file to write below `/no`.
pub(super) const REFUSAL: &str = "nothing enters here";
const KEY: &str = "a key of the shop, which cannot sign";
const RETRY: &str = "retry: {attempts: 30, first_delay_seconds: 1, longest_delay_seconds: 1}";
/// A file that never comes, for which a rule waits from one minute to the next.
const MISSING: &str = "---
rule:
  name: RULE
  when: {expect: {match: [never.csv], from: 'FROM', by: 'BY'}}
  do:
    - http: {endpoint: erp, path: '/RULE/{deadline}'}
    - check: {that: event.kind == 'expected.missed', message: nothing came}
  RETRY
";
const MISSES: [&str; 2] = ["missing-1", "missing-2"];
const MINUTE: i64 = 60;
/// After so long some node is up again, and has judged what it slept through.
const JUDGED: i64 = 15;
/// The folder that is watched is `DROP`.
pub(super) const RULES: &str = "---
key: {name: shop-key, type: web-hook, private: 'KEY'}
---
endpoint: {name: drop, target: {directory: {path: DROP}}}
---
rule:
  name: no-entry
  when: {before: [sftp open]}
  if: command.writes && command.path.startsWith('/no/')
  do:
    - refuse: {code: 550, text: 'REFUSAL'}
---
rule:
  name: watched
  when: {watch: {endpoint: drop, path: /, every: 1s, stable: 1s}}
  do:
    - fetch: {after: delete}
    - gzip: {}
    - extract: {}
    - deliver: {endpoint: partner, path: 'watched/{name}', existing: refuse}
  RETRY
---
rule:
  name: ticks
  when: {cron: '*/2 * * * * *'}
  do:
    - http: {endpoint: erp, path: '/ticks/{planned}'}
    - check: {that: event.planned != '', message: no instant}
  RETRY
---
rule:
  name: posted
  when: {hook: {scheme: bearer, keys: [shop-key]}}
  do:
    - http: {endpoint: erp, path: '/posted/{hook.body.id}'}
    - check: {that: has(hook.body.id), message: no id}
  RETRY
";

/// What was given to these rules so far.
pub(super) struct Starts {
    folder: PathBuf,
    /// The files that were put into the folder, by name.
    pub(super) dropped: BTreeMap<String, Vec<u8>>,
    /// The messages that were posted, and whether each was answered 202.
    posted: BTreeMap<String, bool>,
    /// When the first rule begins to wait for a file, in seconds since 1970. Only a storm of two
    /// minutes or more sees deadlines.
    from: i64,
    /// When the rules that the clock starts were disabled.
    until: i64,
}

/// A message on its way.
pub(super) struct Posting {
    id: String,
    child: Child,
}

impl Starts {
    pub(super) fn new(folder: PathBuf) -> Result<Starts> {
        let (dropped, posted, until) = (BTreeMap::new(), BTreeMap::new(), 0);
        // A rule waits for the first window that begins when it is there.
        let from = (now()? + MINUTE * 3 / 2).div_euclid(MINUTE) * MINUTE;
        Ok(Starts { folder, dropped, posted, from, until })
    }

    pub(super) fn documents(&self) -> String {
        let mut rules = RULES.replace("KEY", KEY).replace("REFUSAL", REFUSAL);
        for (rule, from) in MISSES.iter().zip((self.from..).step_by(60)) {
            let time = |at: i64| Timestamp::from_seconds(at).to_string()[11..16].to_owned();
            let document = MISSING.replace("RULE", rule).replace("FROM", &time(from));
            rules += &document.replace("BY", &time(from + MINUTE));
        }
        rules.replace("RETRY", RETRY).replace("DROP", &self.folder.to_string_lossy())
    }

    /// The deadlines by rule that are so long over.
    fn deadlines(&self, until: i64) -> BTreeSet<(String, String)> {
        let ends = (self.from + MINUTE..).step_by(60);
        let all = MISSES.iter().zip(ends).filter(|(_, end)| *end < until);
        all.map(|(rule, end)| ((*rule).to_owned(), Timestamp::from_seconds(end).to_string()))
            .collect()
    }

    /// Whether jobs of this rule are such ones.
    pub(super) fn has(rule: &Value) -> bool {
        ["watched", "ticks", "posted"].iter().chain(&MISSES).any(|name| rule == name)
    }

    /// Puts a file into the folder, whole.
    pub(super) fn put(&mut self) -> Result<()> {
        let number = self.dropped.len();
        let (name, bytes) = (format!("w{number}.bin"), noise(number as u64 + 7, 90_000));
        let unfinished = self.folder.join(format!(".{name}"));
        std::fs::write(&unfinished, &bytes)?;
        std::fs::rename(unfinished, self.folder.join(&name))?;
        self.dropped.insert(name, bytes);
        Ok(())
    }

    /// The files that nobody has taken from the folder.
    pub(super) fn waiting(&self) -> Result<Vec<String>> {
        let names = below(&self.folder)?.into_keys();
        Ok(names.filter(|name| !is_hidden(name)).collect())
    }

    /// Posts a new message.
    pub(super) fn post(&mut self, node: &Node) -> Result<Posting> {
        let id = format!("p{}", self.posted.len());
        self.posted.insert(id.clone(), false);
        self.send(node, id)
    }

    /// Posts what was not answered, again.
    pub(super) fn post_again(&mut self, node: &Node) -> Result<()> {
        let unanswered = self.posted.iter().filter(|(_, answered)| !**answered);
        let ids: Vec<String> = unanswered.map(|(id, _)| id.clone()).collect();
        for id in ids {
            let posting = self.send(node, id)?;
            self.answered(posting)?;
        }
        Ok(())
    }

    fn send(&self, node: &Node, id: String) -> Result<Posting> {
        let address = format!("https://127.0.0.1:{}/hooks/posted", node.port_of("https")?);
        let mut curl = Command::new("curl");
        curl.args(["-sk", "--max-time", "60", "-o", "/dev/null", "-w", "%{http_code}"]);
        curl.args(["-H", &format!("Authorization: Bearer {KEY}")]);
        curl.args(["-H", &format!("webhook-id: {id}"), "-H", "Content-Type: application/json"]);
        curl.args(["-d", &format!(r#"{{"id": "{id}"}}"#), &address]).stdout(Stdio::piped());
        Ok(Posting { id, child: curl.spawn()? })
    }

    /// Waits for the answer to a message, if one comes.
    pub(super) fn answered(&mut self, posting: Posting) -> Result<()> {
        let output = posting.child.wait_with_output()?;
        let status = String::from_utf8(output.stdout)?;
        let id = posting.id;
        ensure!(["202", "503", "000"].contains(&status.as_str()), "{id} was answered {status}");
        *self.posted.entry(id).or_default() |= status == "202";
        Ok(())
    }

    /// Lets the clock start nothing more, so that all jobs can end.
    pub(super) fn stop_clock(&mut self, node: &Node) -> Result<()> {
        self.until = now()?;
        for rule in MISSES.iter().chain(&["ticks"]) {
            node.cli(&["rule", "change", rule, "enabled=false"])?;
        }
        Ok(())
    }

    /// What is not as it should be, but for the files that were delivered.
    pub(super) fn problems(&self, found: &Found) -> Vec<String> {
        let until = Timestamp::from_seconds(self.until).to_string();
        let mut problems = Problems { all: Vec::new(), until: &until };
        let files = problems.started(found, "watched", "/path");
        problems.compare("files found", &files, self.dropped.keys().map(|it| format!("/{it}")));
        let messages = problems.started(found, "posted", "/body/id");
        let answered = self.posted.iter().filter(|(_, answered)| **answered);
        for (id, _) in answered.filter(|(id, _)| !messages.contains(*id)) {
            problems.all.push(format!("{id} was answered 202 and has no event"));
        }
        let asked = problems.asked(found, "posted");
        problems.compare("messages passed on", &asked, messages.into_iter());
        let instants = problems.started(found, "ticks", "/planned");
        let asked = problems.asked(found, "ticks");
        problems.compare("instants", &asked, instants.iter().cloned());
        let told = MISSES.map(|rule| {
            let deadlines = problems.started(found, rule, "/deadline");
            let asked = problems.asked(found, rule);
            problems.compare("deadlines", &asked, deadlines.iter().cloned());
            deadlines.into_iter().map(|deadline| (rule.to_owned(), deadline))
        });
        let told: BTreeSet<_> = told.into_iter().flatten().collect();
        let (most, least) =
            (self.deadlines(self.until + JUDGED), self.deadlines(self.until - JUDGED));
        if !(told.is_subset(&most) && told.is_superset(&least)) {
            problems.all.push(format!("{told:?} were missed, not {least:?}"));
        }
        for event in found.skipped.iter().filter(|event| event["rule"] == "ticks") {
            if event["planned"].as_str().is_some_and(|planned| instants.contains(planned)) {
                problems.all.push(format!("not skipped: {event}"));
            }
        }
        problems.all
    }
}

struct Problems<'a> {
    all: Vec<String>,
    /// A node may come to an instant before it hears that the rule starts at none any more.
    until: &'a str,
}

impl Problems<'_> {
    /// What the events are about that started a rule. Each is about something else and has one job.
    fn started(&mut self, found: &Found, rule: &str, about: &str) -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        for event in found.starts.iter().filter(|event| event["rule"] == rule) {
            let about = event.pointer(about).and_then(Value::as_str).unwrap_or_default();
            let is_its = |job: &&Value| job["rule"] == rule && job["event"]["id"] == event["id"];
            let jobs = found.jobs.iter().filter(is_its).count();
            let instant = event["planned"].as_str().or(event["deadline"].as_str());
            let is_late = instant.is_some_and(|instant| instant >= self.until);
            if jobs == 0 && is_late {
                continue;
            }
            if jobs != 1 || !all.insert(about.to_owned()) {
                self.all.push(format!("{about} started {rule} again, or has {jobs} jobs: {event}"));
            }
        }
        all
    }

    /// What the server was asked for jobs of a rule, each under one key.
    fn asked(&mut self, found: &Found, rule: &str) -> BTreeSet<String> {
        let mut keys = BTreeMap::<&str, BTreeSet<&str>>::new();
        for got in &found.requests {
            if let Some(what) = got.path.strip_prefix(&format!("/{rule}/")) {
                keys.entry(what).or_default().insert(&got.key);
            }
        }
        let twice = keys.iter().filter(|(_, keys)| keys.len() != 1);
        self.all.extend(twice.map(|(what, keys)| format!("{rule} of {what} has keys {keys:?}")));
        keys.into_keys().map(|what| what.replace("%3A", ":")).collect()
    }

    fn compare(&mut self, what: &str, is: &BTreeSet<String>, all: impl Iterator<Item = String>) {
        let wanted = all.collect();
        if *is != wanted {
            let (more, less) = (is - &wanted, &wanted - is);
            self.all.push(format!("{what}: {more:?} should not be, {less:?} are missing"));
        }
    }
}
