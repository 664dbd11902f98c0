//! Compares what there is after a storm with what there should be.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use entrepot_testkit::server::{feed, run};
use serde_json::Value;

use crate::hosts::loans_csv;

use super::found::{Found, below, is_held, is_hidden};
use super::routes::{Content, Ends, Leaves, Route, TARGETS, Times};
use super::site::{Site, fetched_content};
use super::starts::Starts;

/// Problems that are told in full.
const TOLD: usize = 12;

/// What was counted.
pub(super) struct Tally {
    acknowledged: usize,
    refused: usize,
    arrived: usize,
    jobs: usize,
    again: usize,
    asks: usize,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { acknowledged, refused, arrived, jobs, again, asks } = self;
        write!(
            f,
            "{arrived} files, {acknowledged} of them acknowledged, {refused} refused, {jobs} jobs, \
             {again} of them in several attempts, {asks} ask what became of a step"
        )
    }
}

struct Check<'a> {
    site: &'a Site,
    found: &'a Found,
    problems: Vec<String>,
    /// Files that should be at each partner.
    there: BTreeMap<&'static str, BTreeMap<String, Expected>>,
    /// Files that should be in the account's view.
    home: BTreeMap<String, Expected>,
    /// Beginnings of files in the account's view that together are one.
    parts: BTreeMap<String, Vec<u8>>,
    /// Files that should be in quarantine.
    quarantined: Vec<(String, &'a [u8])>,
    /// Web hooks that should have come, by the path of the file.
    told: BTreeMap<String, usize>,
    /// Messages of AS2 that should have come.
    messages: usize,
    asks: usize,
}

/// What a file should hold: what a client sent, or what lay at the endpoint `source`, changed.
struct Expected {
    bytes: Vec<u8>,
    name: String,
    content: Content,
}

impl Site {
    /// Finds each effect once, and nothing else.
    pub(super) fn check(&self) -> Result<Tally> {
        let found = self.found()?;
        let mut check = Check {
            site: self,
            found: &found,
            problems: Vec::new(),
            there: TARGETS.iter().map(|target| (*target, BTreeMap::new())).collect(),
            home: BTreeMap::new(),
            parts: BTreeMap::new(),
            quarantined: Vec::new(),
            told: BTreeMap::new(),
            messages: 0,
            asks: 0,
        };
        check.arrivals();
        check.jobs()?;
        check.starts();
        check.web_hooks()?;
        check.events();
        check.places()?;
        check.work_files()?;
        check.tell()
    }
}

impl<'a> Check<'a> {
    fn problem(&mut self, text: String) {
        self.problems.push(text);
    }

    /// Each upload has one event, those that were acknowledged at the least.
    fn arrivals(&mut self) {
        for path in &self.site.acknowledged {
            if self.found.begun(path).is_empty() {
                self.problem(format!("{path} was acknowledged and has no event"));
            }
        }
        for (path, events) in self.found.arrivals.iter().chain(&self.found.held) {
            if events.len() != 1 || path.starts_with("/no/") {
                self.problem(format!("{path} arrived {} times: {events:?}", events.len()));
            }
            let sent = self.site.sent.get(path).filter(|_| !is_held(path));
            let expected = sent.map(|bytes| same(path, bytes));
            if let Some(expected) = expected {
                self.home.insert(path.clone(), expected);
            }
        }
    }

    /// Each arrival has one job of each of its routes, which left what it should.
    fn jobs(&mut self) -> Result<()> {
        let (site, found) = (self.site, self.found);
        let mut expected = BTreeSet::new();
        for (path, bytes) in &site.sent {
            let events = found.begun(path);
            if events.is_empty() {
                continue;
            }
            let Some((folder, name)) = path.trim_start_matches('/').rsplit_once('/') else {
                continue;
            };
            for route in site.routes.iter().filter(|route| route.folder == folder) {
                let is_its = |job: &&Value| {
                    job["rule"] == route.name.as_str()
                        && events.iter().any(|event| event["id"] == job["event"]["id"])
                };
                let jobs: Vec<&Value> = found.jobs.iter().filter(is_its).collect();
                let [job] = jobs[..] else {
                    self.problem(format!("{path} has {} jobs of {}", jobs.len(), route.name));
                    continue;
                };
                expected.insert(job["id"].to_string());
                self.job(job, &Uploaded { route, name, path, bytes })?;
            }
        }
        for job in &found.jobs {
            let is_other = ["called", "next"].iter().any(|rule| job["rule"] == *rule);
            let is_other = is_other || Starts::has(&job["rule"]);
            if is_other && job["state"] != "done" {
                self.problem(format!("{job} is not done"));
            } else if !is_other && !expected.contains(&job["id"].to_string()) {
                self.problem(format!("nothing asks for {job}"));
            }
        }
        Ok(())
    }

    /// What else started rules did so once, and is where it should be.
    fn starts(&mut self) {
        let starts = &self.site.starts;
        self.problems.extend(starts.problems(self.found));
        for (name, bytes) in &starts.dropped {
            self.at("partner", format!("watched/{name}"), same(name, bytes));
        }
    }

    fn job(&mut self, job: &Value, of: &Uploaded<'a>) -> Result<()> {
        let shape = of.route.shape;
        let (state, error) = (&job["state"], job["error"].as_str().unwrap_or_default());
        let asks = state == "failed" && error.starts_with("EP0844");
        let is_right = match shape.ends {
            Ends::Done => state == "done",
            Ends::Failed(code) => state == "failed" && error.starts_with(code) && !asks,
            Ends::DoneOrAsks => state == "done" || asks,
        };
        if !is_right {
            let shown =
                self.site.nodes[0].json(&["job", "show", job["id"].as_str().unwrap_or("")])?;
            self.problem(format!(
                "{} of {} did not end as it should: {shown}",
                of.route.name, of.name
            ));
            return Ok(());
        }
        self.asks += usize::from(asks);
        for leaves in shape.leaves {
            match leaves {
                Leaves::Ran(times) => self.ran(of, *times),
                Leaves::Asked(times) => self.asked(&format!("/{}", of.label('/')), *times),
                Leaves::Sent => {
                    self.asked(&format!("/{}", of.label('/')), Times::Keyed);
                    self.messages += 1;
                }
                // Nothing behind the step that asks was done.
                _ if asks => {}
                leaves => self.leaves(job, of, *leaves)?,
            }
        }
        Ok(())
    }

    fn leaves(&mut self, job: &Value, of: &Uploaded<'a>, leaves: Leaves) -> Result<()> {
        let (route, name) = (&of.route.name, of.name);
        let source = |folder: &str| self.site.source.join(format!("{folder}{route}/{name}"));
        match leaves {
            Leaves::At(path, content) => {
                let path = of.below_route(path);
                self.at(of.route.target, path, of.expected(content));
            }
            Leaves::Made(path, content) => {
                let path = format!("/made/{}", of.below_route(path));
                self.home.insert(path, of.expected(content));
            }
            Leaves::Parts(begin) => {
                let begin = format!("made/{}", of.below_route(begin));
                self.parts.insert(begin, of.bytes.to_vec());
            }
            Leaves::Gone => drop(self.home.remove(of.path)),
            Leaves::Released => {
                self.home.insert(of.path.to_owned(), of.expected(Content::Same));
            }
            Leaves::Quarantined => self.quarantined.push((of.path.to_owned(), of.bytes)),
            Leaves::Told => *self.told.entry(of.path.to_owned()).or_default() += 1,
            Leaves::Mailed => self.mailed(of),
            Leaves::Called => self.called(job, of),
            Leaves::Next => {
                let path = format!("next/{route}/{name}");
                self.home.insert(format!("/{path}"), of.expected(Content::Same));
                self.at("partner", path, of.expected(Content::Same));
            }
            Leaves::Fetched if source("").exists() => {
                self.problem(format!("{route} did not remove {name}"));
            }
            Leaves::SetAside if source("").exists() || !is_fetched(of, &source("done/")) => {
                self.problem(format!("{route} did not set {name} aside"));
            }
            Leaves::Kept if !is_fetched(of, &source("")) => {
                self.problem(format!("{route} did not keep {name}"));
            }
            _ => {}
        }
        Ok(())
    }

    fn at(&mut self, target: &'static str, path: String, expected: Expected) {
        self.there.entry(target).or_default().insert(path, expected);
    }

    fn ran(&mut self, of: &Uploaded<'_>, times: Times) {
        let label = of.label(' ');
        let ran = self.found.runs.iter().filter(|run| **run == label).count();
        self.count(&label, ran, times);
    }

    fn asked(&mut self, path: &str, times: Times) {
        let of_path = self.found.requests.iter().filter(|got| got.path == path);
        let count = match times {
            Times::Keyed => of_path.map(|got| &got.key).collect::<BTreeSet<_>>().len(),
            _ => of_path.count(),
        };
        self.count(path, count, times);
    }

    fn count(&mut self, label: &str, count: usize, times: Times) {
        let is_right = match times {
            Times::Keyed => count == 1,
            Times::AtLeastOnce => count >= 1,
            Times::AtMostOnce => count <= 1,
            Times::Never => count == 0,
        };
        if !is_right {
            self.problem(format!("{label} happened {count} times, {times:?}"));
        }
    }

    fn mailed(&mut self, of: &Uploaded<'_>) {
        let label = of.label(' ');
        let mails = self.found.mails.iter().filter(|mail| mail.subject == label);
        let ids: BTreeSet<&String> = mails.map(|mail| &mail.id).collect();
        self.count(&format!("mail {label}"), ids.len(), Times::Keyed);
    }

    fn called(&mut self, job: &Value, of: &Uploaded<'_>) {
        self.asked(&format!("/called/{}", of.label('/')), Times::Keyed);
        let calls = self.found.called.iter().filter(|event| event["job"] == job["id"]);
        let calls: Vec<&Value> = calls.collect();
        let started = self.found.jobs.iter().filter(|job| {
            job["rule"] == "called" && calls.iter().any(|call| call["id"] == job["event"]["id"])
        });
        let started = started.count();
        if calls.len() != 1 || started != 1 {
            let label = of.label(' ');
            self.problem(format!("{label} called {} times, {started} jobs", calls.len()));
        }
    }

    /// Each message of web hooks has an id of its own, however often it came.
    fn web_hooks(&mut self) -> Result<()> {
        let mut ids = BTreeMap::<String, BTreeSet<&String>>::new();
        for got in self.found.requests.iter().filter(|got| got.path == "/hook") {
            let message: Value = serde_json::from_slice(&got.body)?;
            let path = message["data"]["path"].as_str().context("a path")?.to_owned();
            ids.entry(path).or_default().insert(&got.key);
        }
        let counts: BTreeMap<String, usize> =
            ids.into_iter().map(|(path, ids)| (path, ids.len())).collect();
        let told = std::mem::take(&mut self.told);
        for path in counts.keys().chain(told.keys()).collect::<BTreeSet<_>>() {
            if counts.get(path) != told.get(path) {
                let (came, wanted) = (counts.get(path), told.get(path));
                self.problem(format!("web hooks of {path}: {came:?} came, {wanted:?} should"));
            }
        }
        Ok(())
    }

    /// No event is there twice.
    fn events(&mut self) {
        let mut seen = BTreeMap::new();
        let found = self.found;
        for event in &found.delivered {
            let what = (&event["job"], &event["endpoint"], &event["path"]);
            *seen.entry(format!("delivered {what:?}")).or_insert(0) += 1;
        }
        for event in &found.ends {
            *seen.entry(format!("the end of {}", event["job"])).or_insert(0) += 1;
        }
        for event in &found.quarantined {
            *seen.entry(format!("the quarantine of {}", event["path"])).or_insert(0) += 1;
        }
        for event in &found.removed {
            *seen.entry(format!("the end of {}", event["path"])).or_insert(0) += 1;
        }
        for (what, count) in seen {
            if count != 1 {
                self.problem(format!("{what} has {count} events"));
            }
        }
        let (told, wanted) = (found.quarantined.len(), self.quarantined.len());
        if told != wanted {
            self.problem(format!("{told} files were put in quarantine, and {wanted} should be"));
        }
        let files: usize = self.there.values().map(BTreeMap::len).sum();
        let wanted = files + self.messages;
        if found.delivered.len() != wanted {
            let told = found.delivered.len();
            self.problem(format!(
                "{told} deliveries were told, and {wanted} files should be there or sent"
            ));
        }
    }

    /// In each place is what should be, and nothing else.
    fn places(&mut self) -> Result<()> {
        let site = self.site;
        let folders = [
            ("partner", site.partner.clone()),
            ("bucket", site.bucket.objects()),
            ("peer", site.peer.folder().to_owned()),
        ];
        for (target, folder) in folders {
            let wanted = self.there.remove(target).unwrap_or_default();
            let mut found = below(&folder)?;
            if target == "bucket" {
                // The server keeps what it knows of objects in hidden files.
                found.retain(|path, _| !is_hidden(path));
            }
            self.place(target, &wanted, found)?;
        }
        for path in below(&site.source)?.into_keys().filter(|path| is_hidden(path)) {
            self.problem(format!("{path} should not be at source"));
        }
        let home = site.nodes[0].files().join(&site.login.account);
        let held = below(&site.vault)?.into_iter();
        let held = held.map(|(path, file)| (format!("held/{path}"), file));
        let (hidden, mut found): (BTreeMap<_, _>, BTreeMap<_, _>) =
            below(&home)?.into_iter().chain(held).partition(|(path, _)| is_hidden(path));
        self.unfinished(hidden)?;
        for (begin, bytes) in std::mem::take(&mut self.parts) {
            let mut whole = Vec::new();
            let parts: Vec<String> =
                found.keys().filter(|path| path.starts_with(&begin)).cloned().collect();
            for part in &parts {
                whole.extend(std::fs::read(found.remove(part).context("a part")?)?);
                self.arrived_once(part);
            }
            if whole != bytes {
                self.problem(format!("the {} parts {begin} are not the file", parts.len()));
            }
        }
        let wanted = std::mem::take(&mut self.home);
        let wanted: BTreeMap<String, Expected> = wanted
            .into_iter()
            .map(|(path, it)| (path.trim_start_matches('/').into(), it))
            .collect();
        for path in wanted.keys() {
            // What was moved there has the event of its upload.
            if !path.starts_with("made/move") {
                self.arrived_once(path);
            }
        }
        self.place("home", &wanted, found)
    }

    /// What is hidden beside the files of clients is in quarantine, or is an upload that broke off
    /// and can be resumed.
    fn unfinished(&mut self, hidden: BTreeMap<String, PathBuf>) -> Result<()> {
        let mut quarantined = std::mem::take(&mut self.quarantined);
        let (site, all) = (self.site, self.found);
        let broken = site.sent.iter().filter(|(path, _)| all.begun(path).is_empty());
        let mut broken: Vec<&Vec<u8>> = broken.map(|(_, bytes)| bytes).collect();
        for (path, file) in hidden {
            let bytes = std::fs::read(file)?;
            if let Some(at) = quarantined.iter().position(|(_, held)| *held == bytes) {
                quarantined.swap_remove(at);
                continue;
            }
            match broken.iter().position(|sent| sent.starts_with(&bytes)) {
                Some(at) => drop(broken.swap_remove(at)),
                None => self.problem(format!("{path} is left, {} bytes", bytes.len())),
            }
        }
        for (path, _) in quarantined {
            self.problem(format!("{path} is not in quarantine"));
        }
        Ok(())
    }

    /// Of what jobs made on the nodes only that is there which jobs that failed may go on with.
    fn work_files(&mut self) -> Result<()> {
        let failed = self.found.jobs.iter().filter(|job| job["state"] == "failed");
        let failed: BTreeSet<&str> = failed.filter_map(|job| job["id"].as_str()).collect();
        for node in &self.site.nodes {
            let folder = node.home().join("data/work");
            let mut last = Vec::new();
            // The nodes have just started, and tidy up.
            let tidied = node.until("work files to go", || {
                last = below(&folder)?.into_keys().filter(|path| !is_hidden(path)).collect();
                last.retain(|path| {
                    let owner = path.split('/').next().unwrap_or_default();
                    !owner.split_once('.').is_some_and(|(_, job)| failed.contains(job))
                });
                Ok(last.is_empty().then_some(()))
            });
            if tidied.is_err() {
                self.problems.push(format!("left in {}: {last:?}", folder.display()));
            }
        }
        Ok(())
    }

    fn arrived_once(&mut self, path: &str) {
        let events = self.found.arrivals.get(&format!("/{path}")).map_or(0, Vec::len);
        if events != 1 {
            self.problem(format!("{path} has {events} events"));
        }
    }

    fn place(
        &mut self,
        place: &str,
        wanted: &BTreeMap<String, Expected>,
        mut found: BTreeMap<String, PathBuf>,
    ) -> Result<()> {
        for (path, expected) in wanted {
            match found.remove(path) {
                None => self.problem(format!("{path} is not at {place}")),
                Some(file) if !expected.is(&file)? => {
                    self.problem(format!("{path} at {place} is not what it should be"));
                }
                Some(_) => {}
            }
        }
        for path in found.into_keys() {
            self.problem(format!("{path} should not be at {place}"));
        }
        Ok(())
    }

    fn tell(self) -> Result<Tally> {
        let Check { site, found, problems, asks, .. } = self;
        if !problems.is_empty() {
            let count = problems.len();
            let told: Vec<String> = problems.into_iter().take(TOLD).collect();
            bail!("{count} problems:\n{}", told.join("\n"));
        }
        let again = |job: &&Value| job["attempts"].as_u64() > Some(1);
        Ok(Tally {
            acknowledged: site.acknowledged.len(),
            refused: site.refused,
            arrived: site.sent.keys().filter(|path| !found.begun(path).is_empty()).count(),
            jobs: found.jobs.len(),
            again: found.jobs.iter().filter(again).count(),
            asks,
        })
    }
}

/// An upload, and one of the routes that it starts.
struct Uploaded<'a> {
    route: &'a Route,
    name: &'a str,
    path: &'a str,
    bytes: &'a [u8],
}

impl Uploaded<'_> {
    /// What tells it from the others.
    fn label(&self, between: char) -> String {
        format!("{}{between}{}", self.route.name, self.name)
    }

    fn below_route(&self, path: &str) -> String {
        let stem = self.name.trim_end_matches(".txt");
        let path = path.replace("{name}", self.name).replace("{stem}", stem);
        format!("{}/{path}", self.route.name)
    }

    fn expected(&self, content: Content) -> Expected {
        let bytes = match content {
            Content::Fetched => fetched_content(self.route, self.name),
            Content::Loans => loans_csv().into_bytes(),
            _ => self.bytes.to_vec(),
        };
        Expected { bytes, name: self.name.to_owned(), content }
    }
}

fn is_fetched(of: &Uploaded<'_>, path: &Path) -> bool {
    std::fs::read(path).is_ok_and(|found| found == fetched_content(of.route, of.name))
}

fn same(path: &str, bytes: &[u8]) -> Expected {
    Expected { bytes: bytes.to_vec(), name: path.to_owned(), content: Content::Same }
}

impl Expected {
    fn is(&self, file: &Path) -> Result<bool> {
        let unpacked = |words: &[&str]| run(Command::new(words[0]).args(&words[1..]).arg(file));
        let found = match self.content {
            // A file that cannot be unpacked is another one.
            Content::Tar => {
                return Ok(unpacked(&["tar", "-xOf"]).is_ok_and(|it| it.stdout == self.bytes));
            }
            Content::Gzip => {
                return Ok(unpacked(&["gzip", "-dc"]).is_ok_and(|it| it.stdout == self.bytes));
            }
            _ => std::fs::read(file)?,
        };
        Ok(match self.content {
            Content::CrLf => found == crlf(&self.bytes),
            Content::Checksum => {
                let text = std::str::from_utf8(&self.bytes)?;
                let output = feed(&mut Command::new("sha256sum"), text)?;
                let sum = String::from_utf8(output.stdout)?;
                let sum = sum.split(' ').next().context("a checksum")?;
                found == format!("{sum}  {}\n", self.name).into_bytes()
            }
            _ => found == self.bytes,
        })
    }
}

fn crlf(bytes: &[u8]) -> Vec<u8> {
    String::from_utf8_lossy(bytes).replace('\n', "\r\n").into_bytes()
}
