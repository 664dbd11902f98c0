//! A whole node behind one SFTP listener: database, journal, Gate, vfs and a directory of files.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use entrepot_net::guard::UnauthenticatedConnections;
use entrepot_net::server::{Listening, ServerShared};
use entrepot_nouns::endpoint::{ObjectTarget, PublishBy, SftpTarget};
use entrepot_nouns::{
    Account, EndpointTarget, Env, Fact, Key, KeyType, Mount, MountOption, Policy, Quota, Secret,
    SiteId,
};
use entrepot_ssh::keys;
use entrepot_ssh::server::SshOptions;
use entrepot_testkit::s3::{ACCESS_KEY_ID, BUCKET, S3Server, SECRET_KEY};
use entrepot_vfs::{Hooks, ListenerContext};
use entrepot_world::{World, name};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::write_key;
use crate::serve;

pub(crate) use entrepot_world::PASSWORD;

/// What the mount `/small` takes.
const SMALL_BYTES: u64 = 1 << 20;

/// A node that serves `anna`: `/` with all rights, `/small` with a quota of 1 MiB.
pub(crate) struct Fixture {
    pub(crate) address: SocketAddr,
    pub(crate) host_key: String,
    /// Scratch, with the key `id` of `anna`.
    pub(crate) home: tempfile::TempDir,
    world: World,
    account: Account,
    /// What rules look at, and where is asked.
    pub(crate) hooks: Hooks,
    stop: CancellationToken,
    server: JoinHandle<()>,
    /// The node that this one keeps its files on.
    behind: Option<Box<Fixture>>,
    /// The S3 server that it keeps its files on.
    objects: Option<S3Server>,
}

impl Fixture {
    /// Files in a directory of this machine.
    pub(crate) async fn start() -> Fixture {
        Fixture::build(None, None, None).await
    }

    /// As [`Fixture::start`]; keys are renewed after so many bytes.
    pub(crate) async fn start_rekeying(bytes: usize) -> Fixture {
        Fixture::build(Some(bytes), None, None).await
    }

    /// Files on another node, reached over SFTP: a store that waits for a network.
    pub(crate) async fn start_waiting() -> Fixture {
        let behind = Fixture::start().await;
        Fixture::build(None, Some(Box::new(behind)), None).await
    }

    /// Files in an object store.
    pub(crate) async fn start_on_objects() -> Fixture {
        Fixture::build(None, None, Some(S3Server::start().unwrap())).await
    }

    async fn build(
        rekey: Option<usize>,
        behind: Option<Box<Fixture>>,
        objects: Option<S3Server>,
    ) -> Fixture {
        let home = tempfile::tempdir().unwrap();
        let world = World::start().await;
        let env = world.env.clone();
        let hooks = world.vfs.hooks().clone();
        let host = keys::generate(&env, "host").unwrap();
        let context = ListenerContext {
            site: SiteId::MAIN,
            listener: name("sftp"),
            gate: world.gate.clone(),
            vfs: world.vfs.clone(),
            env: env.clone(),
        };
        let options = SshOptions::new(vec![host.private]);
        let mut config = crate::config(&name("sftp"), &options).unwrap();
        if let Some(bytes) = rekey {
            config = config.with_rekey_bytes(bytes);
        }
        let acceptor = entrepot_net::listen::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let address = acceptor.local_address();
        let stop = CancellationToken::new();
        let (_unchanged, config) = watch::channel(config);
        let listening = Listening { acceptor, config, shared: shared(env) };
        let server = tokio::spawn(serve(listening, context, stop.clone()));
        let account = world.account("anna", |_| {}).await;
        let fixture = Fixture {
            address,
            host_key: host.public,
            home,
            world,
            account,
            hooks,
            stop,
            server,
            behind,
            objects,
        };
        fixture.fill().await;
        fixture
    }

    async fn fill(&self) {
        let user = keys::generate(&self.world.env, "anna").unwrap();
        write_key(&self.home.path().join("id"), &user);
        let mut key = Key::new(name("anna-key"), KeyType::SshUser, user.public);
        key.account = Some(name("anna"));
        self.world.put(&key).await;
        let (target, secret) = match (&self.behind, &self.objects) {
            (_, Some(server)) => {
                let target = EndpointTarget::Object(ObjectTarget {
                    url: Some(server.url()),
                    access_key_id: Some(ACCESS_KEY_ID.to_owned()),
                    allow_private: true,
                    ..ObjectTarget::new(BUCKET)
                });
                (target, SECRET_KEY)
            }
            (Some(behind), _) => {
                let target = EndpointTarget::Sftp(SftpTarget {
                    host: "127.0.0.1".to_owned(),
                    port: behind.address.port(),
                    user: "anna".to_owned(),
                    host_keys: vec![behind.host_key.clone()],
                    root: String::new(),
                    key: None,
                    password_sealed: None,
                    password: None,
                    allow_private: true,
                    publish: PublishBy::Rename,
                });
                (target, PASSWORD)
            }
            (None, None) => {
                self.world.directory_endpoint("files").await;
                std::fs::create_dir_all(self.folder().join("small")).unwrap();
                return self.mounts().await;
            }
        };
        self.world.endpoint_with_secret("files", target, &Secret::new(secret)).await;
        self.mounts().await;
    }

    async fn mounts(&self) {
        self.world.put(&mount("all", "/", "", None)).await;
        let quota = Quota { size_bytes: Some(SMALL_BYTES), files: None, file_size_bytes: None };
        self.world.put(&mount("small", "/small", "small", Some(quota))).await;
    }

    fn folder(&self) -> PathBuf {
        self.world.folder().join("files")
    }

    fn file(&self, path: &str) -> PathBuf {
        let name = path.trim_start_matches('/');
        match (&self.behind, &self.objects) {
            (Some(behind), _) => behind.file(path),
            (None, Some(server)) => server.objects().join(name),
            (None, None) => self.folder().join(name),
        }
    }

    /// Where a name lies on this machine.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.file(path)
    }

    /// What is published under a name.
    pub(crate) fn read(&self, path: &str) -> Option<Vec<u8>> {
        std::fs::read(self.file(path)).ok()
    }

    /// Parts of uploads in the object store that are neither completed nor dropped.
    pub(crate) fn parts(&self) -> usize {
        self.objects.as_ref().map_or(0, |server| server.orphan_parts().unwrap())
    }

    /// Which file is published under a name.
    pub(crate) fn identity(&self, path: &str) -> u64 {
        use std::os::unix::fs::MetadataExt as _;
        std::fs::metadata(self.file(path)).unwrap().ino()
    }

    /// Puts a file there, past the server.
    pub(crate) fn write(&self, path: &str, bytes: &[u8]) {
        std::fs::write(self.file(path), bytes).unwrap();
    }

    /// From now on `anna` may have so many transfers open.
    pub(crate) async fn allow_transfers(&self, transfers: u32) {
        let mut policy = Policy::new(name("few"));
        policy.transfers = Some(transfers);
        self.world.put(&policy).await;
        self.world.put(&Account { policy: Some(policy.name), ..self.account.clone() }).await;
    }

    /// From now on each session of `anna` downloads at most so many bytes a second.
    pub(crate) async fn limit_downloads(&self, rate: Option<u64>) {
        let mut policy = Policy::new(name("slow"));
        policy.session_download_bytes_per_second = rate;
        self.world.put(&policy).await;
        self.world.put(&Account { policy: Some(policy.name), ..self.account.clone() }).await;
    }

    /// From now on `/` offers symbolic links.
    pub(crate) async fn allow_links(&self) {
        let options = [MountOption::Symlinks].into();
        self.world.put(&Mount { options, ..mount("all", "/", "", None) }).await;
    }

    /// From now on clients may change only these permission bits below `/`.
    pub(crate) async fn mask_modes(&self, mask: &str) {
        let mode_mask = Some(mask.parse().unwrap());
        self.world.put(&Mount { mode_mask, ..mount("all", "/", "", None) }).await;
    }

    /// Permission bits of a name, as the disk has them.
    pub(crate) fn mode(&self, path: &str) -> u32 {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::metadata(self.file(path)).unwrap().permissions().mode() & 0o7777
    }

    /// Disables the account of `anna`.
    pub(crate) async fn disable(&self) {
        self.world.put(&Account { enabled: false, ..self.account.clone() }).await;
    }

    /// The requests that rules refused, by verb, with the recorded code.
    pub(crate) async fn refusals(&self) -> Vec<(String, Option<u16>)> {
        let events = self.world.events().await;
        let refused = events.into_iter().filter_map(|event| match event.fact {
            Fact::CommandRefused { command, .. } => Some((command.verb, command.code)),
            _ => None,
        });
        refused.collect()
    }

    /// Stops; running transfers get 200 ms.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.server.await.unwrap();
        if let Some(behind) = self.behind {
            Box::pin(behind.stop()).await;
        }
    }
}

/// The fingerprint of a host key, as PuTTY wants it.
pub(crate) fn fingerprint(host_key: &str) -> String {
    keys::fingerprint(&keys::public(host_key).unwrap())
}

fn mount(called: &str, path: &str, prefix: &str, quota: Option<Quota>) -> Mount {
    let mount = entrepot_world::mount(called, "anna", path, "files");
    Mount { prefix: prefix.to_owned(), quota, ..mount }
}

fn shared(env: Env) -> ServerShared {
    ServerShared {
        unauthenticated: UnauthenticatedConnections::default(),
        env,
        drain: Duration::from_millis(200),
        stopping: CancellationToken::new(),
    }
}
