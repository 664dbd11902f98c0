//! What the storm goes over: two nodes on one database, and the partners of their routes.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Child;

use anyhow::{Context as _, Result, ensure};
use entrepot_testkit::clients::{Login, noise, text};
use entrepot_testkit::maild::Maild;
use entrepot_testkit::postgres::Postgres;
use entrepot_testkit::s3::S3Server;
use entrepot_testkit::scanners::{Clamd, MARK};
use entrepot_testkit::server::Node;
use entrepot_testkit::sshd::Sshd;
use serde_json::Value;

use super::receiver::Receiver;
use super::routes::{Route, Upload, routes};
use super::starts::{Posting, REFUSAL, Starts};
use crate::hooks::{apply, script};
use crate::hosts::SampleHost;
use crate::routes::{directory, remote};
use crate::transforms::Gpg;
use crate::{far, program};

/// What programs of routes do: they note what they are given, and take their time.
const ENTER: &str =
    "#!/bin/sh\necho \"$2 $3\" >> \"$1/runs\"\nsleep 0.2\necho entered\nexit ${4:-0}\n";
/// What messages of web hooks are signed with.
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const PASSWORD: &str = "a password of an admin";
/// Rules that others start.
const OTHERS: &str = "---
rule:
  name: called
  when: {call: {parameters: {name: {}, route: {}}}}
  do:
    - http: {endpoint: erp, path: '/called/{params.route}/{params.name}'}
    - check: {that: params.route != '', message: 'no route'}
  retry: {attempts: 30, first_delay_seconds: 1, longest_delay_seconds: 1}
---
rule:
  name: next
  when: {event: file.uploaded}
  if: file.path.startsWith('/next/')
  do:
    - gzip: {}
    - extract: {}
    - deliver: {endpoint: partner, path: '{path}', existing: refuse}
  retry: {attempts: 30, first_delay_seconds: 1, longest_delay_seconds: 1}
";

/// The installation, and what clients have seen of it.
pub(super) struct Site {
    pub(super) nodes: [Node; 2],
    pub(super) routes: Vec<Route>,
    pub(super) login: Login,
    /// Folders of the endpoints `partner` and `source`, and of the program.
    pub(super) partner: PathBuf,
    pub(super) source: PathBuf,
    book: PathBuf,
    /// The folder of the endpoint whose mount `/held` holds what comes.
    pub(super) vault: PathBuf,
    pub(super) starts: Starts,
    pub(super) bucket: S3Server,
    pub(super) peer: Sshd,
    pub(super) receiver: Receiver,
    pub(super) post: Maild,
    /// Of somebody who approves.
    token: String,
    /// What every file holds that a client began to upload, by path.
    pub(super) sent: BTreeMap<String, Vec<u8>>,
    pub(super) acknowledged: BTreeSet<String>,
    /// Files that clients saw refused.
    pub(super) refused: usize,
    clamd: Clamd,
    sample: SampleHost,
    _postgres: Postgres,
}

/// A client that uploads.
pub(super) struct Uploading {
    child: Child,
    ledger: PathBuf,
}

impl Site {
    pub(super) fn start() -> Result<Site> {
        let postgres = Postgres::launch()?;
        let url = postgres.create_database()?;
        let first = Node::new_called(program(), &url, "n1")?;
        let login = Login::create(&first, "acme")?;
        first.cli(&["endpoint", "change", "files", "target.directory.shared=true"])?;
        first.cli(&["listener", "create", "https", "protocol=https", "address=127.0.0.1:0"])?;
        let folder = |name: &str| -> Result<PathBuf> {
            let folder = first.scratch().join(name);
            std::fs::create_dir(&folder)?;
            Ok(folder)
        };
        let (partner, source, book) = (folder("partner")?, folder("source")?, folder("book")?);
        let (vault, starts) = (folder("vault")?, Starts::new(folder("drop")?)?);
        let site = Site {
            routes: routes(),
            login,
            bucket: S3Server::start()?,
            peer: Sshd::start()?,
            receiver: Receiver::start()?,
            post: Maild::start()?,
            token: String::new(),
            sent: BTreeMap::new(),
            acknowledged: BTreeSet::new(),
            refused: 0,
            clamd: Clamd::start()?,
            sample: SampleHost::start()?,
            _postgres: postgres,
            nodes: [Node::joined(&first, &url, "n2")?, first],
            partner,
            source,
            book,
            vault,
            starts,
        };
        site.configured()
    }

    fn configured(mut self) -> Result<Site> {
        self.nodes.reverse();
        let [first, second] = &self.nodes;
        let enter = script(first.scratch(), "enter", ENTER)?;
        let (enter, book) = (text(&enter)?, text(&self.book)?);
        for node in [first, second] {
            node.configure(&format!("[exec]\nallow = ['{enter}']\nwrite = ['{book}']"))?;
        }
        let gpg = Gpg::new()?;
        let mut documents = gpg.documents()? + &self.endpoints()?;
        documents += &("---\n".to_owned() + &self.sample.documents());
        // Each node has a session for each clerk, who may sign on once.
        documents = documents.replace("CLERK1,", "CLERK,").replace("CLERK2,", "CLERK,");
        documents += "---\naccount: {name: treasury, type: group}\n";
        documents += OTHERS;
        documents += &self.starts.documents();
        let rules = self.routes.iter().map(Route::document);
        documents.extend(rules.map(|rule| rule.replace("ENTER", enter).replace("BOOK", book)));
        apply(first, &documents)?;
        let groups = ["type=admin", "role=viewer", "groups=[\"treasury\"]", "--password-stdin"];
        first.cli_with_input(&[&["account", "create", "tina"][..], &groups].concat(), PASSWORD)?;
        let scopes = ["--scope", "admin:read", "--scope", "admin:write"];
        let made = first.json(&[&["token", "create", "tina"][..], &scopes].concat())?;
        self.token = made["token"].as_str().context("no token")?.to_owned();
        for node in &mut self.nodes {
            node.start()?;
        }
        let made: String = self.folders().iter().map(|name| format!("mkdir {name}\n")).collect();
        self.login.sftp_batch(&self.nodes[0], &format!("{made}mkdir no\n"))?;
        Ok(self)
    }

    fn endpoints(&self) -> Result<String> {
        let peer = remote(&self.peer)?.replace("name: remote", "name: peer");
        let mut documents = peer.replace(": ours\n", ": peer-key\n") + "---\n";
        documents += &(self.bucket.endpoint("bucket") + "---\n");
        documents += &directory("partner", &self.partner)?;
        documents += &directory("source", &self.source)?;
        documents += &directory("vault", &self.vault)?;
        documents += "mount: {name: held, account: acme, path: /held, endpoint: vault, \
                      hold: true}\n---\n";
        let documents = documents.replace("/partner}", "/partner, shared: true}");
        let documents = documents.replace("/vault}", "/vault, shared: true}");
        let certificate = self.post.certificate().lines();
        let certificate: String = certificate.map(|line| format!("        {line}\n")).collect();
        Ok(documents
            + &format!(
                "endpoint: {{name: erp, target: {{web: {{url: 'http://127.0.0.1:{port}', \
                 allow_private: true}}}}}}\n---\n\
                 endpoint: {{name: shop, target: {{webhook: {{allow_private: true, \
                 url: 'http://127.0.0.1:{port}/hook', secret_key: {SECRET}}}}}}}\n---\n\
                 endpoint: {{name: edi, target: {{as2: {{partner: P, station: S, \
                 allow_private: true, url: 'http://127.0.0.1:{port}/as2', \
                 send: {{signature: none, cipher: none, receipt: none}}}}}}}}\n---\n\
                 endpoint: {{name: av, target: {{scanner: {{url: 'clamd:{}', \
                 allow_private: true}}}}}}\n---\n\
                 endpoint:\n  name: post\n  target:\n    mail:\n      host: localhost\n      \
                 port: {}\n      from: files@example.com\n      user: us\n      \
                 password: 'pa ss'\n      allow_private: true\n      \
                 authorities: |\n{certificate}",
                self.clamd.socket().display(),
                self.post.port(),
                port = self.receiver.port(),
            ))
    }

    /// Where files are uploaded to.
    pub(super) fn folders(&self) -> BTreeSet<String> {
        self.routes.iter().map(|route| route.folder.clone()).collect()
    }

    /// Prepares a file for a folder: its path.
    fn prepare(&mut self, folder: &str) -> Result<String> {
        let number = self.sent.len();
        let (name, path) = (format!("f{number}.txt"), format!("/{folder}/f{number}.txt"));
        let mut content = lines(number as u64);
        let mut here = self.routes.iter().filter(|route| route.folder == folder);
        if here.clone().any(|route| route.shape.upload == Upload::Infected) {
            content.extend(MARK);
        }
        here.try_for_each(|route| {
            if !route.fetches() {
                return Ok(());
            }
            std::fs::create_dir_all(self.source.join(&route.name))?;
            std::fs::write(self.source.join(&route.name).join(&name), fetched_content(route, &name))
        })?;
        std::fs::write(self.nodes[0].scratch().join(&name), &content)?;
        self.sent.insert(path.clone(), content);
        Ok(path)
    }

    /// Lets a client upload a file to each folder by one of the nodes, in one session.
    pub(super) fn upload(&mut self, node: usize, folders: &[String]) -> Result<Uploading> {
        let scratch = self.nodes[0].scratch().to_owned();
        let ledger = scratch.join(format!("ledger-{}", self.sent.len()));
        std::fs::write(&ledger, "")?;
        let mut batch = String::new();
        for folder in folders {
            let path = self.prepare(folder)?;
            let local = scratch.join(path.rsplit('/').next().context("a name")?);
            let (local, ledger, refused) = (text(&local)?, text(&ledger)?, refused(&path)?);
            batch += &format!("-put {local} {refused}\n!echo {refused} >> {ledger}\n");
            batch += &format!("put {local} {path}\n!echo {path} >> {ledger}\n");
        }
        let node = self.nodes.get(node).context("no such node")?;
        let mut child = self.login.sftp(node)?.spawn()?;
        // A client whose server is gone reads no more.
        let _ = child.stdin.take().context("piped")?.write_all(batch.as_bytes());
        Ok(Uploading { child, ledger })
    }

    /// Waits for the end of a client, and takes down what it saw acknowledged and refused.
    pub(super) fn uploaded(&mut self, uploading: Uploading) -> Result<()> {
        let output = uploading.child.wait_with_output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        for path in std::fs::read_to_string(&uploading.ledger)?.lines() {
            if !path.starts_with("/no/") {
                self.acknowledged.insert(path.to_owned());
                continue;
            }
            let told = format!("dest open \"{path}\": Permission denied");
            let is_refused = said.contains(&told) && said.contains(REFUSAL);
            ensure!(is_refused, "{path} was not refused: {said}");
            self.refused += 1;
        }
        Ok(())
    }

    /// Posts a message to one of the nodes.
    pub(super) fn post(&mut self, node: usize) -> Result<Posting> {
        self.starts.post(self.nodes.get(node).context("no such node")?)
    }

    /// The command line of somebody who approves.
    fn treasurer(&self, words: &[&str]) -> Result<String> {
        let output =
            far(&self.nodes[0])?.env("ENTREPOT_TOKEN", &self.token).args(words).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Says yes to all that is asked. Files that are held until then are not to be seen.
    pub(super) fn approve(&self) -> Result<()> {
        let asked: Value =
            serde_json::from_str(&self.treasurer(&["job", "approvals", "--json"])?)?;
        for job in asked.as_array().into_iter().flatten() {
            let text = job["text"].as_str().context("a text")?;
            if let Some(held) = text.strip_prefix("/held/") {
                ensure!(!self.vault.join(held).exists(), "{held} is there and was not released");
            }
            let job = job["job"].as_str().context("a job")?;
            // It may have been answered a moment ago.
            let _ = self.treasurer(&["job", "approve", job]);
        }
        Ok(())
    }

    /// What the program was run for so far, as route and name.
    pub(super) fn runs(&self) -> Vec<String> {
        let runs = std::fs::read_to_string(self.book.join("runs"));
        runs.unwrap_or_default().lines().map(str::to_owned).collect()
    }
}

/// Where a rule lets nobody upload the file of this path to.
fn refused(path: &str) -> Result<String> {
    Ok(format!("/no/{}", path.rsplit('/').next().context("a name")?))
}

/// What lies where a route fetches, for an uploaded file.
pub(super) fn fetched_content(route: &Route, name: &str) -> Vec<u8> {
    format!("{} of {name}\n", route.name).repeat(1000).into_bytes()
}

/// Lines of text that no other file has.
fn lines(seed: u64) -> Vec<u8> {
    let size = 10_000 + (seed as usize * 7_919) % 300_000;
    let bytes = noise(seed + 1, size / 2);
    let lines = bytes.chunks(30).map(|line| {
        let line: String = line.iter().map(|byte| format!("{byte:02x}")).collect();
        line + "\n"
    });
    lines.collect::<String>().into_bytes()
}
