//! A node with one FTP listener on loopback, its files in memory.

use std::net::SocketAddr;
use std::time::Duration;

use entrepot_net::guard::UnauthenticatedConnections;
use entrepot_net::server::{Listening, ServerShared};
use entrepot_net::tls::{
    self, ClientCertificates, SelfSigned, ServerTrust, TlsClient, TlsConfig, TlsOptions, TlsVersion,
};
use entrepot_nouns::ftp::{FtpOptions, FtpTls};
use entrepot_nouns::{AccountType, Listener, Mount, Protocol, Quota, Rights, SiteId};
use entrepot_vfs::ListenerContext;
use entrepot_world::{World, mount, name};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::client::Client;
use super::soon;
use crate::{FtpConfig, serve};

/// Bytes that may lie in `/small`.
pub(super) const SMALL_BYTES: u64 = 10_000;

/// A node that serves `anna` (every right at `/`, a quota at `/small`), `reader` (may only read
/// the same files) and the administrator `admin`.
pub(super) struct Node {
    pub(super) world: World,
    pub(super) address: SocketAddr,
    certificate: SelfSigned,
    stop: CancellationToken,
    server: JoinHandle<()>,
}

impl Node {
    /// A listener without TLS.
    pub(super) async fn start() -> Node {
        Node::start_with(FtpOptions { tls: FtpTls::Off, ..FtpOptions::default() }).await
    }

    pub(super) async fn start_with(options: FtpOptions) -> Node {
        let world = World::start().await;
        fill(&world).await;
        let certificate = tls::self_signed(vec!["localhost".to_owned()]).unwrap();
        let tls = (options.tls != FtpTls::Off).then(|| {
            let options = TlsOptions {
                chain: certificate.chain.clone().into_bytes(),
                key: certificate.key.clone(),
                clients: ClientCertificates::Off,
                least: TlsVersion::Tls12,
            };
            TlsConfig::new(&options, &world.env).unwrap()
        });
        let config = FtpConfig::new(&listener(options), tls);
        let context = ListenerContext {
            site: SiteId::MAIN,
            listener: name("ftp"),
            gate: world.gate.clone(),
            vfs: world.vfs.clone(),
            env: world.env.clone(),
        };
        let acceptor = entrepot_net::listen::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let address = acceptor.local_address();
        let stop = CancellationToken::new();
        let (_unchanged, config) = watch::channel(config);
        let shared = ServerShared {
            unauthenticated: UnauthenticatedConnections::default(),
            env: world.env.clone(),
            drain: Duration::from_millis(200),
            stopping: CancellationToken::new(),
        };
        let listening = Listening { acceptor, config, shared };
        let server = tokio::spawn(serve(listening, context, stop.clone()));
        Node { world, address, certificate, stop, server }
    }

    /// A new connection that has logged in as `anna`.
    pub(super) async fn anna(&self) -> Client {
        self.logged_in("anna").await
    }

    pub(super) async fn logged_in(&self, account: &str) -> Client {
        let mut client = Client::connect(self.address).await;
        client.log_in(account).await;
        client
    }

    /// A client that trusts the certificate of this node.
    pub(super) fn tls_client(&self) -> TlsClient {
        let trust = ServerTrust::Pinned(vec![self.certificate.chain.clone()]);
        TlsClient::new("localhost", &trust).unwrap().session()
    }

    /// Ends the listener; afterwards every session is over and everything is recorded.
    pub(super) async fn stop(self) -> World {
        self.stop.cancel();
        soon(self.server).await.unwrap();
        self.world
    }

    /// Waits until every session is over, without asking for it.
    pub(super) async fn ended(&self) {
        soon(async {
            while !self.world.vfs.sessions().is_empty() {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
}

fn listener(options: FtpOptions) -> Listener {
    Listener {
        name: name("ftp"),
        protocol: Protocol::Ftp,
        address: SocketAddr::from(([127, 0, 0, 1], 0)),
        enabled: true,
        host_keys: Vec::new(),
        proxies: Vec::new(),
        unauthenticated: Vec::new(),
        policy: None,
        login: None,
        banner: String::new(),
        tls: entrepot_nouns::tls::ListenerTls::default(),
        ftp: Some(options),
        http: None,
    }
}

async fn fill(world: &World) {
    world.memory_endpoint("files").await;
    world.account("anna", |_| {}).await;
    world.account("reader", |_| {}).await;
    world.account("admin", |account| account.account_type = AccountType::Admin).await;
    world.put(&mount("anna-all", "anna", "/", "files")).await;
    world.put(&mount("admin-all", "admin", "/", "files")).await;
    let rights = Rights::read_only();
    world.put(&Mount { rights, ..mount("reader-all", "reader", "/", "files") }).await;
    let quota = Quota { size_bytes: Some(SMALL_BYTES), files: None, file_size_bytes: None };
    let small = mount("anna-small", "anna", "/small", "files");
    world.put(&Mount { quota: Some(quota), prefix: "small".to_owned(), ..small }).await;
}
