//! A node without listeners for the tests of what stands above `vfs`: a database, a journal, the
//! directory of accounts, the gate and the files of sessions.
//!
//! A test adds accounts, endpoints and mounts, puts its own protocol in front, and reads what was
//! recorded. [`World::start`] has the real clock; [`World::over`] takes any [`Testbed`], also one
//! in memory or with a simulated clock, and stores that the test brings. Database, journal and
//! their folder are in `entrepot-testbed`, which says why it is a crate of its own.

use std::path::Path;
use std::sync::Arc;

use entrepot_auth::{Directory, Gate, GateOptions};
use entrepot_crypto::HashCost;
use entrepot_nouns::endpoint::DirectoryTarget;
use entrepot_nouns::event::FileFact;
use entrepot_nouns::{Account, EndpointTarget, Env, Event, Fact, Noun, Secret};
use entrepot_vfs::{Service, ServiceOptions, ServiceParts};

pub use entrepot_testbed::{Testbed, authenticator, mount, name, provider};

/// The password of every account that [`World::account`] makes.
pub const PASSWORD: &str = "correct horse battery";

/// A node with its database and journal.
pub struct World {
    /// The clock and randomness that every part of the node uses.
    pub env: Env,
    /// The accounts; [`World::put`] keeps it equal to the database.
    pub directory: Directory,
    /// Logs accounts in, with hashes that cost little.
    pub gate: Gate,
    /// Files and sessions.
    pub vfs: Service,
    /// Database, journal and master key.
    pub bed: Arc<Testbed>,
}

impl World {
    /// A node on the real clock and a disk, without accounts or endpoints.
    ///
    /// # Panics
    /// If the folder, the database or the journal cannot be made.
    pub async fn start() -> World {
        let bed = Testbed::start(Env::real()).await;
        let spool = Some(bed.folder().join("spool"));
        let options = ServiceOptions { spool, ..ServiceOptions::default() };
        World::over(Arc::new(bed), options).await
    }

    /// A node over a database and a journal that are there, without accounts of its own.
    ///
    /// # Panics
    /// If the files of sessions cannot be started.
    pub async fn over(bed: Arc<Testbed>, options: ServiceOptions) -> World {
        let (env, recorder) = (bed.env.clone(), bed.recorder.clone());
        let directory = Directory::new(bed.db.clone(), env.clone(), bed.master.clone());
        let cheap = GateOptions { cost: HashCost::for_tests() };
        let gate = Gate::new(directory.clone(), recorder.clone(), cheap);
        let (vfs, _) = Service::start(ServiceParts {
            recorder,
            directory: directory.clone(),
            db: bed.db.clone(),
            env: env.clone(),
            master: bed.master.clone(),
            options,
        })
        .await
        .unwrap();
        World { env, directory, gate, vfs, bed }
    }

    /// The folder of the node: `db`, `journal` and `spool` are in it, the rest is free.
    pub fn folder(&self) -> &Path {
        self.bed.folder()
    }

    /// Writes a noun of the site `main`, new or changed; running sessions see it.
    ///
    /// # Panics
    /// If the database refuses it.
    pub async fn put<N: Noun>(&self, noun: &N) {
        self.bed.put(noun).await;
        self.directory.refresh().await.unwrap();
    }

    /// Makes a partner with [`PASSWORD`], changed as `change` says.
    ///
    /// # Panics
    /// As [`World::put`].
    pub async fn account(&self, called: &str, change: impl FnOnce(&mut Account)) -> Account {
        let mut account = entrepot_testbed::account(called, &Secret::new(PASSWORD));
        change(&mut account);
        self.put(&account).await;
        account
    }

    /// Makes an endpoint.
    ///
    /// # Panics
    /// As [`World::put`].
    pub async fn endpoint(&self, called: &str, target: EndpointTarget) {
        self.put(&entrepot_testbed::endpoint(called, target)).await;
    }

    /// Makes an endpoint whose one secret is sealed.
    ///
    /// # Panics
    /// As [`World::put`], or if such an endpoint has no secret.
    pub async fn endpoint_with_secret(
        &self,
        called: &str,
        mut target: EndpointTarget,
        secret: &Secret,
    ) {
        self.bed.seal_into(called, &mut target, secret);
        self.endpoint(called, target).await;
    }

    /// Makes an endpoint that keeps its files in memory.
    ///
    /// # Panics
    /// As [`World::put`].
    pub async fn memory_endpoint(&self, called: &str) {
        self.put(&entrepot_testbed::memory_endpoint(called)).await;
    }

    /// Makes an endpoint that keeps its files in a folder of that name in [`World::folder`].
    ///
    /// # Panics
    /// As [`World::put`], or if the folder cannot be made.
    pub async fn directory_endpoint(&self, called: &str) {
        let path = self.folder().join(called);
        std::fs::create_dir_all(&path).unwrap();
        let path = path.to_str().unwrap().to_owned();
        self.endpoint(called, EndpointTarget::Directory(DirectoryTarget::new(path))).await;
    }

    /// Everything that the journal has, durable or not, in its order.
    ///
    /// # Panics
    /// If the journal cannot be read, or holds what is no event.
    pub async fn events(&self) -> Vec<Event> {
        let journal = &self.bed.journal;
        journal.sync(journal.usage().appended).await.unwrap();
        entrepot_testbed::events(journal)
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
