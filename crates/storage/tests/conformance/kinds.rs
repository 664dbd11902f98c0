//! The kinds of stores under test.

use std::sync::Arc;

use entrepot_model::endpoint::{
    FtpMode, FtpTarget, FtpTls, MemoryTarget, ObjectProvider, ObjectTarget, PublishBy, SftpTarget,
};
use entrepot_storage::fault::{FaultStore, SimDisk, SimStore};
use entrepot_storage::{AnyStore, ResolvedSecrets, fs, ftp, memory, object, sftp};
use entrepot_testkit::ftpd::{Ftpd, FtpdTls};
use entrepot_testkit::s3::{ACCESS_KEY_ID, BUCKET, S3Server, SECRET_KEY};
use entrepot_testkit::sshd::Sshd;

use crate::env;

/// A store under test, with what keeps it alive.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) store: AnyStore,
    /// Times have whole seconds from 1970 on.
    pub(crate) seconds: bool,
    /// Names cannot have control characters.
    pub(crate) printable: bool,
    _keep: Box<dyn Send>,
}

impl Kind {
    fn new(name: &'static str, store: AnyStore, keep: impl Send + 'static) -> Self {
        Kind { name, store, seconds: false, printable: false, _keep: Box::new(keep) }
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
    Kind { printable: true, ..Kind::new("object", on_server(&server), server) }
}

/// A store over OpenSSH's server.
fn server() -> Kind {
    let sshd = Sshd::start().unwrap();
    let target = SftpTarget {
        host: "127.0.0.1".to_owned(),
        port: sshd.port(),
        user: sshd.user().to_owned(),
        host_keys: vec![sshd.host_key().to_owned()],
        root: sshd.folder().display().to_string(),
        key: None,
        password_sealed: None,
        password: None,
        allow_private: true,
        publish: PublishBy::Rename,
    };
    let key = std::fs::read_to_string(sshd.user_key()).unwrap();
    let secrets = ResolvedSecrets { secret: None, private_key: Some(key.into()) };
    let store = sftp::open(&target, &secrets, &env()).unwrap();
    Kind { seconds: true, ..Kind::new("sftp", store, sshd) }
}

/// A store over another's FTP server.
fn ftp_server(name: &'static str, server: Ftpd, (tls, mode): (FtpTls, FtpMode)) -> Kind {
    let target = FtpTarget {
        host: "127.0.0.1".to_owned(),
        port: Some(server.port()),
        user: server.user().to_owned(),
        password_sealed: None,
        password: None,
        tls,
        certificates: server.certificate().map(str::to_owned).into_iter().collect(),
        authorities: None,
        mode,
        root: server.root().to_owned(),
        allow_private: true,
        publish: PublishBy::Rename,
        connections: Some(16),
    };
    let secret = Some(server.password().to_owned().into());
    let secrets = ResolvedSecrets { secret, private_key: None };
    let store = ftp::open(&target, &secrets, &env()).unwrap();
    Kind { printable: true, ..Kind::new(name, store, server) }
}

/// Every kind, new and empty.
pub(crate) async fn each() -> Vec<Kind> {
    let disk = tempfile::tempdir().unwrap();
    let target = MemoryTarget::default();
    let wrapped: AnyStore = Arc::new(FaultStore::new(memory::open(&target, &env()).unwrap()));
    let plain = SimDisk::new(&env());
    plain.forget_rename_flags();
    let mut kinds = vec![
        directory("fs", disk).await,
        objects(),
        server(),
        ftp_server(
            "ftp without facts",
            Ftpd::vsftpd(FtpdTls::Off).unwrap(),
            (FtpTls::Off, FtpMode::Passive),
        ),
        ftp_server(
            "ftp under TLS",
            Ftpd::pyftpdlib(FtpdTls::Explicit).unwrap(),
            (FtpTls::Explicit, FtpMode::Passive),
        ),
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
