//! The kinds of stores under test.

use std::sync::Arc;

use entrepot_model::endpoint::{MemoryTarget, ObjectProvider, ObjectTarget};
use entrepot_storage::fault::{FaultStore, SimDisk, SimStore};
use entrepot_storage::{AnyStore, ResolvedSecrets, fs, memory, object};
use entrepot_testkit::s3::{ACCESS_KEY_ID, BUCKET, S3Server, SECRET_KEY};

use crate::env;

/// A store under test, with what keeps it alive.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) store: AnyStore,
    _keep: Box<dyn Send>,
}

impl Kind {
    fn new(name: &'static str, store: AnyStore, keep: impl Send + 'static) -> Self {
        Kind { name, store, _keep: Box::new(keep) }
    }
}

async fn directory(name: &'static str, dir: tempfile::TempDir) -> Kind {
    let store = fs::open(dir.path(), &env()).await.unwrap();
    Kind::new(name, store, dir)
}

/// An object store on a server of its own, below a prefix.
pub(crate) fn on_server(server: &S3Server) -> AnyStore {
    let target = ObjectTarget {
        provider: ObjectProvider::S3,
        bucket: BUCKET.to_owned(),
        prefix: "some/prefix".to_owned(),
        url: Some(server.url()),
        region: None,
        access_key_id: Some(ACCESS_KEY_ID.to_owned()),
        secret_key_sealed: None,
        secret_key: None,
        allow_private: true,
    };
    let secret = Some(SECRET_KEY.to_owned().into());
    object::open(&target, &ResolvedSecrets { secret, private_key: None }, &env()).unwrap()
}

fn objects() -> Kind {
    let server = S3Server::start().unwrap();
    Kind::new("object", on_server(&server), server)
}

/// Every kind, new and empty. A store over SFTP adds its line here.
pub(crate) async fn each() -> Vec<Kind> {
    let disk = tempfile::tempdir().unwrap();
    let target = MemoryTarget::default();
    let wrapped: AnyStore = Arc::new(FaultStore::new(memory::open(&target, &env()).unwrap()));
    let plain = SimDisk::new(&env());
    plain.forget_rename_flags();
    let mut kinds = vec![
        directory("fs", disk).await,
        objects(),
        Kind::new("memory", memory::open(&target, &env()).unwrap(), ()),
        Kind::new("fault", wrapped, ()),
        Kind::new("sim", SimStore::open(&SimDisk::new(&env()), &env()).unwrap(), ()),
        Kind::new("sim without rename flags", SimStore::open(&plain, &env()).unwrap(), ()),
    ];
    if let Ok(shared) = tempfile::tempdir_in("/dev/shm") {
        kinds.push(directory("fs in memory", shared).await);
    }
    kinds
}
