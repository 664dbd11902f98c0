// A node in memory for the fuzz targets of the adapter and for the test that replays their corpus:
// one account with every right over a memory store, and a small mount. Included by path.

use std::sync::Arc;

use entrepot_auth::{Directory, Gate, GateOptions};
use entrepot_crypto::{HashCost, MasterKey};
use entrepot_db::{Db, DbOptions};
use entrepot_journal::{Journal, Options, Recorder};
use entrepot_nouns::endpoint::MemoryTarget;
use entrepot_nouns::{
    Account, AccountType, Endpoint, EndpointTarget, Env, Mount, MountOption, Name, Noun, Quota,
    Rights, Secret, SiteId,
};
use entrepot_ssh::keys;
use entrepot_ssh::server::{SshConfig, SshOptions};
use entrepot_vfs::{ListenerContext, Service, ServiceOptions, ServiceParts, Session};

/// Without its node a fuzz target has nothing to do.
pub(crate) trait OrStop<T> {
    /// The value; panics, and so ends the run, if there is none.
    fn or_stop(self) -> T;
}

impl<T, E: std::fmt::Debug> OrStop<T> for Result<T, E> {
    fn or_stop(self) -> T {
        // Invariant: a folder, a database and a journal in it can be made where the tests run.
        self.expect("a node in a folder")
    }
}

/// The node, with its database and journal in a folder that goes when this is dropped.
pub(crate) struct World {
    env: Env,
    gate: Gate,
    vfs: Service,
    host_key: Secret,
    _folder: tempfile::TempDir,
}

fn name(text: &str) -> Name {
    text.parse().or_stop()
}

impl World {
    /// Starts a node that nothing was sent to yet; its folder is in memory where the machine
    /// offers that.
    pub(crate) async fn start() -> World {
        let memory = std::path::Path::new("/dev/shm");
        let folder = if memory.is_dir() {
            tempfile::tempdir_in(memory).or_stop()
        } else {
            tempfile::tempdir().or_stop()
        };
        let env = Env::real();
        let master = MasterKey::generate(&env);
        let url = format!("sqlite://{}", folder.path().join("db").display());
        let db = Db::open(&url, DbOptions::default()).await.or_stop();
        let journal = folder.path().join("journal");
        let (journal, _) =
            Journal::open(&journal, &name("n1"), env.clone(), Options::default()).or_stop();
        let recorder = Recorder::new(journal, env.clone(), name("n1"));
        let directory = Directory::new(db.clone(), env.clone(), master.clone());
        let options = GateOptions { cost: HashCost::for_tests() };
        let gate = Gate::new(directory.clone(), recorder.clone(), options);
        let parts = ServiceParts {
            recorder,
            directory: directory.clone(),
            db: db.clone(),
            env: env.clone(),
            master,
            options: ServiceOptions::default(),
        };
        let (vfs, _) = Service::start(parts).await.or_stop();
        put(&db, &env, &Account::new(name("anna"), AccountType::Partner)).await;
        let target = EndpointTarget::Memory(MemoryTarget::default());
        put(&db, &env, &Endpoint { name: name("files"), target, note: String::new() }).await;
        put(&db, &env, &mount("all", "/", None)).await;
        let quota = Quota { size_bytes: Some(10_000), files: Some(5), file_size_bytes: None };
        put(&db, &env, &mount("small", "/small", Some(quota))).await;
        directory.refresh().await.or_stop();
        let host_key = keys::generate(&env, "host").or_stop().private;
        World { env, gate, vfs, host_key, _folder: folder }
    }

    /// A session of the account.
    pub(crate) async fn session(&self) -> Session {
        let grant = self.gate.internal(SiteId::MAIN, &name("anna"), "fuzz").await;
        Session::open(&self.vfs, grant.or_stop()).await.or_stop()
    }

    /// What a listener of SFTP passes to each of its connections.
    pub(crate) fn context(&self) -> Arc<ListenerContext> {
        Arc::new(ListenerContext {
            site: SiteId::MAIN,
            listener: name("sftp"),
            gate: self.gate.clone(),
            vfs: self.vfs.clone(),
            env: self.env.clone(),
        })
    }

    /// The options of that listener, with a host key made at the start of the node.
    pub(crate) fn config(&self) -> SshConfig {
        let options = SshOptions::new(vec![self.host_key.clone()]);
        entrepot_sftp::config(&name("sftp"), &options).or_stop()
    }

    /// The clock and randomness of all parts of the node.
    pub(crate) fn env(&self) -> &Env {
        &self.env
    }
}

async fn put<N: Noun>(db: &Db, env: &Env, noun: &N) {
    let mut tx = db.begin().await.or_stop();
    let id = env.new_id::<entrepot_nouns::AccountId>().0;
    tx.put(SiteId::MAIN, id, noun, env.now()).await.or_stop();
    tx.commit().await.or_stop();
}

fn mount(called: &str, path: &str, quota: Option<Quota>) -> Mount {
    Mount {
        name: name(called),
        account: name("anna"),
        path: path.parse().or_stop(),
        endpoint: name("files"),
        prefix: path.trim_start_matches('/').to_owned(),
        rights: Rights::all(),
        quota,
        sha256: false,
        options: [MountOption::HardLinks, MountOption::ListPartials, MountOption::Symlinks].into(),
        mode_mask: None,
    }
}
