//! The seam as a whole: real accounts, gate and journal; the disk of journal and files is
//! simulated, with power cuts and failing calls.

mod behaviour;
mod budgets;
mod commands;
mod cut;
mod faults;
mod ftp;
mod hold;
mod holes;
mod in_order;
mod links;
mod medium;
mod modes;
mod objects;
mod options;
mod prefixes;
mod quota;
mod resumable;
mod resumable_spooled;
mod resume;
mod search;
mod shared;
mod surface;
mod trash;
mod tree_copy;
mod unrecorded;
mod versions;
mod zip;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use entrepot_auth::{Directory, Gate, GateOptions};
use entrepot_crypto::HashCost;
use entrepot_db::Db;
use entrepot_journal::{Journal, Options, Recorder};
use entrepot_nouns::event::{Event, FileFact};
use entrepot_nouns::{
    Account, AccountType, Env, Fact, Mount, Name, Noun, Quota, Rights, SiteId, VPath,
};
use entrepot_storage::AnyStore;
use entrepot_storage::fault::{SimDisk, SimStore};
use entrepot_testbed::{Testbed, memory_endpoint};

pub(super) use entrepot_testbed::name;

use crate::{
    Create, CreateIntent, NodeLimits, RecoveryReport, Result, Service, ServiceOptions,
    ServiceParts, Session, Upload, Uploaded, Vfs,
};

pub(super) fn path(text: &str) -> VPath {
    text.parse().unwrap()
}

/// Accounts and the gate; nodes come and go above them.
pub(super) struct World {
    pub(super) env: Env,
    pub(super) db: Db,
    pub(super) directory: Directory,
    pub(super) gate: Gate,
    bed: Testbed,
}

impl World {
    /// With `alice` and `bob`, who see all of endpoint `files` with every right.
    pub(super) async fn new() -> World {
        let bed = Testbed::start(Env::simulated(5)).await;
        let (env, db) = (bed.env.clone(), bed.db.clone());
        let directory = Directory::new(db.clone(), env.clone(), bed.master.clone());
        let options = GateOptions { cost: HashCost::for_tests() };
        let gate = Gate::new(directory.clone(), bed.recorder.clone(), options);
        let world = World { env, db, directory, gate, bed };
        for text in ["files", "other"] {
            world.put(&memory_endpoint(text)).await;
        }
        for text in ["alice", "bob"] {
            world.account(text, "/", |_| {}).await;
        }
        world.directory.refresh().await.unwrap();
        world
    }

    pub(super) async fn put<N: Noun>(&self, noun: &N) {
        self.bed.put(noun).await;
    }

    /// An account with one mount, named after it.
    pub(super) async fn account(&self, text: &str, at: &str, change: impl FnOnce(&mut Mount)) {
        self.put(&Account::new(name(text), AccountType::Partner)).await;
        self.mount(&format!("{text}-main"), text, at, change).await;
    }

    pub(super) async fn mount(
        &self,
        called: &str,
        account: &str,
        at: &str,
        change: impl FnOnce(&mut Mount),
    ) {
        let mut mount = entrepot_testbed::mount(called, account, at, "files");
        change(&mut mount);
        self.put(&mount).await;
        self.directory.refresh().await.unwrap();
    }

    /// A node whose journal and files lie on `disk`.
    pub(super) async fn start(&self, disk: &SimDisk, how: &How) -> Node {
        self.try_start(disk, how).await.unwrap_or_else(|error| panic!("no start: {error}"))
    }

    pub(super) async fn try_start(
        &self,
        disk: &SimDisk,
        how: &How,
    ) -> std::result::Result<Node, String> {
        let files = SimStore::open_in(disk, "files", &self.env).map_err(|e| e.to_string())?;
        let other = SimStore::open_in(disk, "other", &self.env).map_err(|e| e.to_string())?;
        let stores = HashMap::from([(name("files"), files.clone()), (name("other"), other)]);
        self.start_on(disk, how, stores).await.map(|mut node| {
            node.files = Some(files);
            node
        })
    }

    /// A node whose journal lies on `own`, and its files on `shared`, in a store of its own.
    pub(super) async fn start_apart(&self, own: &SimDisk, shared: &SimDisk) -> Node {
        let files = SimStore::open_in(shared, "files", &self.env).unwrap();
        let stores = HashMap::from([(name("files"), files.clone())]);
        let mut node = self.start_on(own, &How::default(), stores).await.unwrap();
        node.files = Some(files);
        node
    }

    pub(super) async fn start_on(
        &self,
        disk: &SimDisk,
        how: &How,
        stores: HashMap<Name, AnyStore>,
    ) -> std::result::Result<Node, String> {
        let medium = medium::SimMedium::open(disk, how.journal_lies).map_err(|e| e.to_string())?;
        let options = Options {
            limit_bytes: how.journal_bytes,
            segment_bytes: 64 * 1024,
            // Syncs happen in the call that wants them: one seed, one order of calls.
            inline_below: Duration::from_secs(3600),
            max_tail_delay: Duration::from_secs(3600),
            ..Options::default()
        };
        let (journal, _) =
            Journal::open_on(Arc::new(medium), &name("n1"), self.env.clone(), options)
                .map_err(|error| error.to_string())?;
        let recorder = Recorder::new(journal.clone(), self.env.clone(), name("n1"));
        let boot = Some(how.boot.to_owned());
        let (spool, limits) = (how.spool.clone(), how.limits);
        let options = ServiceOptions { stores, spool, boot, limits, ..ServiceOptions::default() };
        let (service, report) = Service::start(ServiceParts {
            recorder,
            directory: self.directory.clone(),
            db: self.db.clone(),
            env: self.env.clone(),
            master: self.bed.master.clone(),
            options,
        })
        .await
        .map_err(|error| error.to_string())?;
        Ok(Node { service, journal, report, files: None })
    }

    pub(super) async fn session(&self, node: &Node, account: &str) -> Session {
        self.try_session(node, account).await.unwrap()
    }

    pub(super) async fn try_session(&self, node: &Node, account: &str) -> Result<Session> {
        let grant = self.gate.internal(SiteId::MAIN, &name(account), "test").await.unwrap();
        Session::open(&node.service, grant).await
    }
}

/// How a node is started.
pub(super) struct How {
    pub(super) boot: &'static str,
    pub(super) journal_lies: bool,
    pub(super) journal_bytes: u64,
    pub(super) spool: Option<std::path::PathBuf>,
    pub(super) limits: NodeLimits,
}

impl Default for How {
    fn default() -> Self {
        let limits = NodeLimits::default();
        How { boot: "boot-1", journal_lies: false, journal_bytes: 1 << 30, spool: None, limits }
    }
}

/// A running node.
pub(super) struct Node {
    pub(super) service: Service,
    pub(super) journal: Journal,
    pub(super) report: RecoveryReport,
    pub(super) files: Option<AnyStore>,
}

impl Node {
    /// Everything recorded so far, durable or not.
    pub(super) async fn events(&self) -> Vec<Event> {
        let last = self.journal.usage().appended;
        // What cannot be synced any more cannot be read either: the caller sees what is missing.
        let _ = self.journal.sync(last).await;
        entrepot_testbed::events(&self.journal)
    }

    /// Files that arrived, in the order of the journal.
    pub(super) async fn arrivals(&self) -> Vec<FileFact> {
        let events = self.events().await;
        let arrival = |event: Event| match event.fact {
            Fact::FileUploaded { file } | Fact::FileRecovered { file } => Some(file),
            _ => None,
        };
        events.into_iter().filter_map(arrival).collect()
    }

    /// How many staged files lie at the endpoint `files`.
    pub(super) async fn staged(&self) -> usize {
        self.files.as_ref().unwrap().staged().await.unwrap().len()
    }

    /// As an orderly end.
    pub(super) async fn stop(self) {
        self.service.stop().await;
        self.journal.close().await.unwrap();
    }
}

pub(super) const NEW: Create =
    Create { intent: CreateIntent::New, expected_size: None, append: false };
pub(super) const EXCLUSIVE: Create =
    Create { intent: CreateIntent::Exclusive, expected_size: None, append: false };
pub(super) const CONTINUE: Create =
    Create { intent: CreateIntent::Continue, expected_size: None, append: false };

/// Bytes that tell their place.
pub(super) fn content(seed: u64, len: usize) -> Vec<u8> {
    let mut random = Random(seed);
    let mut bytes: Vec<u8> = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend(random.next().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

pub(super) fn digest(bytes: &[u8]) -> [u8; 32] {
    *blake3::hash(bytes).as_bytes()
}

/// Writes one range, inline if that works.
pub(super) async fn write(upload: &mut Upload, offset: u64, bytes: &[u8]) -> Result<()> {
    if upload.try_write_at(offset, bytes)? {
        return Ok(());
    }
    upload.write_at(offset, Bytes::copy_from_slice(bytes)).await
}

pub(super) async fn put(vfs: &Vfs, at: &str, bytes: &[u8]) -> Result<Uploaded> {
    let mut upload = vfs.create(&path(at), NEW).await?;
    for (number, chunk) in bytes.chunks(16 * 1024).enumerate() {
        if let Err(error) = write(&mut upload, number as u64 * 16 * 1024, chunk).await {
            upload.abort().await;
            return Err(error);
        }
    }
    upload.finish().await
}

pub(super) async fn read(vfs: &Vfs, at: &str) -> Result<Vec<u8>> {
    let file = vfs.open(&path(at)).await?;
    let mut bytes = BytesMut::new();
    loop {
        let before = bytes.len();
        bytes = file.read_at(before as u64, bytes, 256 * 1024).await?;
        if bytes.len() == before {
            break;
        }
    }
    file.finish().await;
    Ok(bytes.to_vec())
}

/// Names in a directory, sorted.
pub(super) async fn names(vfs: &Vfs, at: &str) -> Result<Vec<String>> {
    let mut listing = vfs.list(&path(at)).await?;
    let mut names = Vec::new();
    loop {
        let page = listing.next_page(100).await?;
        if page.is_empty() {
            names.sort();
            return Ok(names);
        }
        names.extend(page.into_iter().map(|entry| entry.name));
    }
}

pub(super) fn with_quota(
    size_bytes: Option<u64>,
    files: Option<u64>,
    file_size_bytes: Option<u64>,
) -> impl FnOnce(&mut Mount) {
    move |mount| mount.quota = Some(Quota { size_bytes, files, file_size_bytes })
}

/// SplitMix64, for tests.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}
