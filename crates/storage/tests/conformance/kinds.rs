//! The kinds of stores under test.

use std::sync::Arc;

use entrepot_nouns::endpoint::{
    FtpTarget, FtpTls, MemoryTarget, ObjectRequests, ObjectTarget, PublishBy, SftpTarget,
    SqlContent, SqlTarget,
};
use entrepot_storage::fault::{FaultStore, SimDisk, SimStore};
use entrepot_storage::{AnyStore, ResolvedSecrets, fs, ftp, memory, object, sftp, sql};
use entrepot_testkit::ftpd::Ftpd;
use entrepot_testkit::postgres::Postgres;
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
    /// There are no directories, not even as prefixes of names.
    pub(crate) flat: bool,
    /// Times can be set, of access too.
    pub(crate) sets_times: bool,
    /// `Existing::Refuse` is decided in one step with the publish, also against others.
    pub(crate) refuses_in_one_step: bool,
    _keep: Box<dyn Send>,
}

impl Kind {
    fn new(name: &'static str, store: AnyStore, keep: impl Send + 'static) -> Self {
        Kind {
            name,
            store,
            seconds: false,
            printable: false,
            flat: false,
            sets_times: true,
            refuses_in_one_step: true,
            _keep: Box::new(keep),
        }
    }
}

impl Kind {
    /// A directory to work in, the root where there are no others; and what to put before names.
    pub(crate) async fn room(&self) -> (&'static str, &'static str) {
        if self.flat {
            return ("", "");
        }
        self.store.make_directory(&crate::path("d")).await.unwrap();
        ("d", "d/")
    }
}

async fn directory(name: &'static str, dir: tempfile::TempDir) -> Kind {
    let store = fs::open(dir.path(), &env()).await.unwrap();
    Kind::new(name, store, dir)
}

/// An object store on a server of its own, below a prefix.
pub(crate) fn on_server(server: &S3Server) -> AnyStore {
    on_server_with(server, ObjectRequests::default())
}

/// The same, with such requests.
pub(crate) fn on_server_with(server: &S3Server, requests: ObjectRequests) -> AnyStore {
    at_url(&server.url(), requests)
}

/// The same, on any server.
pub(crate) fn at_url(url: &str, requests: ObjectRequests) -> AnyStore {
    let target = ObjectTarget {
        prefix: "some/prefix".to_owned(),
        url: Some(url.to_owned()),
        access_key_id: Some(ACCESS_KEY_ID.to_owned()),
        allow_private: true,
        object_lock: true,
        requests,
        ..ObjectTarget::new(BUCKET)
    };
    let secret = Some(SECRET_KEY.to_owned().into());
    object::open(&target, &ResolvedSecrets { secret, private_key: None }, &env()).unwrap()
}

fn objects() -> Kind {
    let server = S3Server::start().unwrap();
    Kind {
        printable: true,
        sets_times: false,
        // The S3 server of the tests looks and writes in two steps.
        refuses_in_one_step: false,
        ..Kind::new("object", on_server(&server), server)
    }
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
fn ftp_server(name: &'static str, server: Ftpd) -> Kind {
    let target = FtpTarget { connections: Some(16), ..server.target() };
    let secret = Some(server.password().to_owned().into());
    let secrets = ResolvedSecrets { secret, private_key: None };
    let store = ftp::open(&target, &secrets, &env()).unwrap();
    Kind {
        printable: true,
        sets_times: false,
        refuses_in_one_step: false,
        ..Kind::new(name, store, server)
    }
}

/// A table of files.
fn database(name: &'static str, (url, time): (String, &str), keep: impl Send + 'static) -> Kind {
    let upsert = "INSERT INTO files VALUES ($1, $2, $3) ON CONFLICT (name) DO UPDATE SET \
                  content = excluded.content, modified = excluded.modified";
    let list = format!("SELECT name, {time} FROM files; ");
    let target = SqlTarget {
        url,
        password_sealed: None,
        password: None,
        authorities: None,
        allow_private: true,
        list: Some(list),
        read: Some("SELECT content FROM files WHERE name = $1".to_owned()),
        write: Some(upsert.to_owned()),
        delete: Some("DELETE FROM files WHERE name = $1 -- gone".to_owned()),
        content: SqlContent::Bytes,
        reports: std::collections::BTreeMap::new(),
    };
    let store = sql::open(&target, &ResolvedSecrets::default(), &env()).unwrap();
    Kind { flat: true, sets_times: false, ..Kind::new(name, store, keep) }
}

fn sqlite() -> Kind {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("files.db");
    let table = "CREATE TABLE files (name TEXT PRIMARY KEY, content BLOB, modified INTEGER)";
    rusqlite::Connection::open(&file).unwrap().execute_batch(table).unwrap();
    let columns = "length(content) AS size, modified";
    database("sqlite", (format!("sqlite:{}", file.display()), columns), folder)
}

fn postgres() -> Kind {
    let server = Postgres::shared();
    let url = server.create_database().unwrap();
    let database_name = url.rsplit('/').next().unwrap().to_owned();
    let table = "CREATE TABLE files (name TEXT PRIMARY KEY, content BYTEA, modified TIMESTAMPTZ)";
    server.run_sql(&database_name, table).unwrap();
    database("postgres", (url, "octet_length(content) AS size, modified"), ())
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
        sqlite(),
        postgres(),
        ftp_server("ftp without facts", Ftpd::vsftpd(FtpTls::Off).unwrap()),
        ftp_server("ftp under TLS", Ftpd::pyftpdlib(FtpTls::Explicit).unwrap()),
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
