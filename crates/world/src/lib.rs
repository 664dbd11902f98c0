//! A node without listeners for the tests of what stands above `vfs`: a database, a journal, the
//! directory of accounts, the gate and the files of sessions, in a folder of its own.
//!
//! Nothing here is simulated but the cost of password hashes. A test adds accounts, endpoints and
//! mounts, puts its own protocol in front, and reads what was recorded.

use std::path::Path;

use entrepot_auth::{Directory, Gate, GateOptions};
use entrepot_crypto::{HashCost, MasterKey, password};
use entrepot_db::{Db, DbOptions};
use entrepot_journal::{Journal, Options, RecordKind, Recorder};
use entrepot_nouns::endpoint::{DirectoryTarget, MemoryTarget};
use entrepot_nouns::event::FileFact;
use entrepot_nouns::{
    Account, AccountId, AccountType, Endpoint, EndpointTarget, Env, Event, Fact, Mount, Name, Noun,
    Rights, Secret, SiteId,
};
use entrepot_vfs::{Service, ServiceOptions, ServiceParts};
use tempfile::TempDir;

/// The password of every account that [`World::account`] makes.
pub const PASSWORD: &str = "correct horse battery";

/// A node on the real clock, with its database and journal in a folder that goes with it.
pub struct World {
    /// The clock and randomness that every part of the node uses.
    pub env: Env,
    /// SQLite, in a file of the folder.
    pub db: Db,
    /// The journal that [`World::events`] reads.
    pub journal: Journal,
    /// The accounts; [`World::put`] keeps it equal to the database.
    pub directory: Directory,
    /// Logs accounts in, with hashes that cost little.
    pub gate: Gate,
    /// Files and sessions.
    pub vfs: Service,
    /// Seals secrets of endpoints and keys.
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
        sha256: false,
        options: Default::default(),
        mode_mask: None,
    }
}

impl World {
    /// A node without accounts or endpoints.
    ///
    /// # Panics
    /// If the folder, the database or the journal cannot be made.
    pub async fn start() -> World {
        let folder = tempfile::tempdir().unwrap();
        let env = Env::real();
        let master = MasterKey::generate(&env);
        let url = format!("sqlite://{}", folder.path().join("db").display());
        let db = Db::open(&url, DbOptions::default()).await.unwrap();
        let node = name("n1");
        let at = folder.path().join("journal");
        let (journal, _) = Journal::open(&at, &node, env.clone(), Options::default()).unwrap();
        let recorder = Recorder::new(journal.clone(), env.clone(), node);
        let directory = Directory::new(db.clone(), env.clone(), master.clone());
        let options = GateOptions { cost: HashCost::for_tests() };
        let gate = Gate::new(directory.clone(), recorder.clone(), options);
        let spool = Some(folder.path().join("spool"));
        let (vfs, _) = Service::start(ServiceParts {
            recorder,
            directory: directory.clone(),
            db: db.clone(),
            env: env.clone(),
            master: master.clone(),
            options: ServiceOptions { spool, ..ServiceOptions::default() },
        })
        .await
        .unwrap();
        World { env, db, journal, directory, gate, vfs, master, folder }
    }

    /// The folder of the node: `db`, `journal` and `spool` are in it, the rest is free.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a noun of the site `main`, new or changed; running sessions see it.
    ///
    /// # Panics
    /// If the database refuses it.
    pub async fn put<N: Noun>(&self, noun: &N) {
        let known = self.db.find::<N>(SiteId::MAIN, noun.name()).await.unwrap();
        let id = known.map_or_else(|| self.env.new_id::<AccountId>().0, |stored| stored.id);
        let mut tx = self.db.begin().await.unwrap();
        tx.put(SiteId::MAIN, id, noun, self.env.now()).await.unwrap();
        tx.commit().await.unwrap();
        self.directory.refresh().await.unwrap();
    }

    /// Makes a partner with [`PASSWORD`], changed as `change` says.
    ///
    /// # Panics
    /// As [`World::put`].
    pub async fn account(&self, called: &str, change: impl FnOnce(&mut Account)) -> Account {
        let mut account = Account::new(name(called), AccountType::Partner);
        let hash = password::hash(&Secret::new(PASSWORD), HashCost::for_tests(), &[1; 16]);
        account.password_hash = Some(hash.unwrap());
        change(&mut account);
        self.put(&account).await;
        account
    }

    /// Makes an endpoint.
    ///
    /// # Panics
    /// As [`World::put`].
    pub async fn endpoint(&self, called: &str, target: EndpointTarget) {
        self.put(&Endpoint { name: name(called), target, note: String::new() }).await;
    }

    /// Makes an endpoint that keeps its files in memory.
    ///
    /// # Panics
    /// As [`World::put`].
    pub async fn memory_endpoint(&self, called: &str) {
        self.endpoint(called, EndpointTarget::Memory(MemoryTarget::default())).await;
    }

    /// Makes an endpoint that keeps its files in a folder of that name in [`World::folder`].
    ///
    /// # Panics
    /// As [`World::put`], or if the folder cannot be made.
    pub async fn directory_endpoint(&self, called: &str) {
        let path = self.folder().join(called);
        std::fs::create_dir_all(&path).unwrap();
        let path = path.to_str().unwrap().to_owned();
        self.endpoint(called, EndpointTarget::Directory(DirectoryTarget { path })).await;
    }

    /// Everything that the journal has, durable or not, in its order.
    ///
    /// # Panics
    /// If the journal cannot be read, or holds what is no event.
    pub async fn events(&self) -> Vec<Event> {
        self.journal.sync(self.journal.usage().appended).await.unwrap();
        let mut reader = self.journal.reader(0);
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

    /// The files that were published, in the order of the journal.
    ///
    /// # Panics
    /// As [`World::events`].
    pub async fn uploads(&self) -> Vec<FileFact> {
        let uploaded = |event: Event| match event.fact {
            Fact::FileUploaded { file } => Some(file),
            _ => None,
        };
        self.events().await.into_iter().filter_map(uploaded).collect()
    }
}
