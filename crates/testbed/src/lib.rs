//! What every test of a part of the node stands on: a database and a journal in a folder that goes
//! with the test, a clock, and nouns with everything that a test does not care about filled in.
//!
//! This is the lower half of `entrepot-world`, and a crate of its own because of `auth` and `vfs`:
//! their unit tests are compiled into the crate itself, so that a helper crate which depends on
//! `auth` or `vfs` would give these tests a second copy of the types they test, and would build
//! the whole node first. Here nothing of row 2 or above is known; tests of `auth` and `vfs` add
//! their own `Directory`, `Gate` and `Service`. Everything above them starts with `World`.

pub mod authenticator;
pub mod provider;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use entrepot_crypto::{HashCost, MasterKey, SealingContext, password};
use entrepot_db::{Db, DbOptions};
use entrepot_journal::{Journal, Options, RecordKind, Recorder};
use entrepot_nouns::endpoint::MemoryTarget;
use entrepot_nouns::{
    Account, AccountId, AccountType, Endpoint, EndpointTarget, Env, Event, Mount, Name, Noun,
    Rights, Secret, SiteId,
};
use tempfile::TempDir;

/// The name of the node in its journal and its events.
pub const NODE: &str = "n1";

/// A database and a journal, for one node or several.
pub struct Testbed {
    /// The clock and randomness that every part of the node uses.
    pub env: Env,
    /// SQLite, in the file [`Testbed::database`].
    pub db: Db,
    /// The journal of the node [`NODE`].
    pub journal: Journal,
    /// Records into [`Testbed::journal`].
    pub recorder: Recorder,
    /// Seals secrets of endpoints and accounts; the same in every test.
    pub master: MasterKey,
    folder: TempDir,
}

/// A name of a noun.
///
/// # Panics
/// If the text is no name.
pub fn name(text: &str) -> Name {
    text.parse().unwrap()
}

/// A partner who logs in with this password; its hash costs little.
///
/// # Panics
/// If `called` is no name.
pub fn account(called: &str, secret: &Secret) -> Account {
    let mut account = Account::new(name(called), AccountType::Partner);
    account.password_hash = Some(password::hash(secret, HashCost::for_tests(), &[1; 16]).unwrap());
    account
}

/// An endpoint with this target.
///
/// # Panics
/// If `called` is no name.
pub fn endpoint(called: &str, target: EndpointTarget) -> Endpoint {
    Endpoint {
        name: name(called),
        target,
        paused: false,
        at_once: None,
        users: Vec::new(),
        note: String::new(),
    }
}

/// An endpoint that keeps its files in memory.
///
/// # Panics
/// If `called` is no name.
pub fn memory_endpoint(called: &str) -> Endpoint {
    endpoint(called, EndpointTarget::Memory(MemoryTarget::default()))
}

/// A mount of everything at an endpoint, with every right and no quota.
///
/// # Panics
/// If a name or the path is none.
pub fn mount(called: &str, account: &str, path: &str, endpoint: &str) -> Mount {
    Mount {
        name: name(called),
        account: name(account),
        path: path.parse().unwrap(),
        endpoint: name(endpoint),
        prefix: String::new(),
        rights: Rights::all(),
        quota: None,
        hold: false,
        sha256: false,
        options: Default::default(),
        mode_mask: None,
        trash: None,
        versions: None,
    }
}

/// The events of a journal that can be read now, in their order.
///
/// # Panics
/// If the journal cannot be read, or an event in it cannot.
pub fn events(journal: &Journal) -> Vec<Event> {
    let mut reader = journal.reader(0);
    let mut events = Vec::new();
    loop {
        let batch = reader.read_now(10_000).unwrap();
        if batch.is_empty() {
            return events;
        }
        let of_events = batch.iter().filter(|record| record.kind == RecordKind::Event);
        let parsed = of_events.map(|record| serde_json::from_slice::<Event>(&record.payload));
        events.extend(parsed.map(Result::unwrap));
    }
}

impl Testbed {
    /// An empty database and journal, on a disk.
    ///
    /// # Panics
    /// If the folder, the database or the journal cannot be made.
    pub async fn start(env: Env) -> Testbed {
        Testbed::start_in(tempfile::tempdir().unwrap(), env).await
    }

    /// The same in memory, where the machine offers that: for tests that try orders and inputs, not
    /// disks.
    ///
    /// # Panics
    /// As [`Testbed::start`].
    pub async fn start_in_memory(env: Env) -> Testbed {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        Testbed::start_in(folder.unwrap(), env).await
    }

    async fn start_in(folder: TempDir, env: Env) -> Testbed {
        let url = format!("sqlite://{}", database_in(folder.path()).display());
        let options = DbOptions { env: env.clone(), ..DbOptions::default() };
        fs::write(database_in(folder.path()), empty_database().await).unwrap();
        let db = Db::open(&url, options).await.unwrap();
        let recorder = recorder(&folder.path().join("journal"), NODE, &env);
        let journal = recorder.journal().clone();
        let master = MasterKey::from_bytes(&[7; 32]);
        Testbed { env, db, journal, recorder, master, folder }
    }

    /// The recorder of another node over the same database, with a journal of its own.
    ///
    /// # Panics
    /// If `node` is no name, or the journal cannot be made.
    pub fn recorder_beside(&self, node: &str) -> Recorder {
        recorder(&self.folder().join(format!("journal-{node}")), node, &self.env)
    }

    /// Where database and journal are; names that do not begin with `db` or `journal` are free.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The file of the database.
    pub fn database(&self) -> PathBuf {
        database_in(self.folder())
    }

    /// Writes a noun of the site `main`, new or changed. A directory of accounts over the database
    /// sees it after its `refresh`.
    ///
    /// # Panics
    /// If the database refuses it.
    pub async fn put<N: Noun>(&self, noun: &N) {
        let known = self.db.find::<N>(SiteId::MAIN, noun.name()).await.unwrap();
        let id = known.map_or_else(|| self.env.new_id::<AccountId>().0, |stored| stored.id);
        let mut tx = self.db.begin().await.unwrap();
        tx.put(SiteId::MAIN, id, noun, self.env.now()).await.unwrap();
        tx.commit().await.unwrap();
    }

    /// Seals the one secret that the target of the endpoint `called` has.
    ///
    /// # Panics
    /// If `called` is no name, or such a target has no secret.
    pub fn seal_into(&self, called: &str, target: &mut EndpointTarget, secret: &Secret) {
        let field = target.secret().unwrap();
        let context = SealingContext::endpoint(&name("main"), &name(called), &field);
        *field.sealed = Some(self.master.seal(&self.env, &context, secret).unwrap());
    }
}

/// The file of a database that has its tables and nothing in them. They are made once for all tests
/// of a program, of which many begin with one.
async fn empty_database() -> &'static [u8] {
    static EMPTY: OnceLock<Vec<u8>> = OnceLock::new();
    if let Some(made) = EMPTY.get() {
        return made;
    }
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", database_in(folder.path()).display());
    let db = Db::open(&url, DbOptions::default()).await.unwrap();
    let copy = folder.path().join("copy");
    db.copy_to(&copy).await.unwrap();
    EMPTY.get_or_init(|| fs::read(copy).unwrap())
}

fn database_in(folder: &Path) -> PathBuf {
    folder.join("db")
}

fn recorder(folder: &Path, node: &str, env: &Env) -> Recorder {
    let node = name(node);
    let (journal, _) = Journal::open(folder, &node, env.clone(), Options::default()).unwrap();
    Recorder::new(journal, env.clone(), node)
}
