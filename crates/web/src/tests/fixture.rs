//! A node with one listener of HTTP on loopback, its files in memory.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use entrepot_admin::{
    Actor, Admin, AdminParts, CarriedOut, HeldOrder, LiveNode, LogLevels, NotRecorded, Problem,
    Request, Response, ServingParts, TokenOrder,
};
use entrepot_net::guard::UnauthenticatedConnections;
use entrepot_net::server::{Listening, ServerShared};
use entrepot_net::tls::{
    self, ClientCertificates, SelfSigned, ServerTrust, TlsClient, TlsConfig, TlsOptions, TlsVersion,
};
use entrepot_nouns::acme::{Acme, AcmeChallenge};
use entrepot_nouns::as2::{As2Entry, As2Test};
use entrepot_nouns::http::{HttpLimits, HttpOptions};
use entrepot_nouns::rule_report::{LintFinding, RuleFlaw};
use entrepot_nouns::{
    AccountType, Listener, Mount, PerDirection, Protocol, Quota, Rights, Rule, SessionId,
    SessionInfo, SiteId, TokenScope, TransferId,
};
use entrepot_vfs::{ListenerContext, Service};
use entrepot_world::{World, mount, name};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::client::Client;
use super::soon;
use crate::{ApiNode, DavLocks, LiveSource, WebApi, WebConfig, WebParts, serve};

/// Bytes that may lie in `/small`.
pub(super) const SMALL_BYTES: u64 = 10_000;

/// A node that serves `anna` (every right at `/`, a quota at `/small`), `reader` (may only read
/// the same files) and the administrator `admin`.
pub(super) struct Node {
    pub(super) world: World,
    pub(super) address: SocketAddr,
    pub(super) admin: Arc<Admin>,
    certificate: SelfSigned,
    stop: CancellationToken,
    server: JoinHandle<()>,
}

impl Node {
    /// A listener without TLS.
    pub(super) async fn start() -> Node {
        Node::start_with(Protocol::Http, HttpOptions::default()).await
    }

    /// A listener under TLS.
    pub(super) async fn start_tls() -> Node {
        Node::start_with(Protocol::Https, HttpOptions::default()).await
    }

    /// A listener without TLS, with other limits.
    pub(super) async fn start_limited(change: impl FnOnce(&mut HttpLimits)) -> Node {
        let mut options = HttpOptions::default();
        change(&mut options.limits);
        Node::start_with(Protocol::Http, options).await
    }

    pub(super) async fn start_with(protocol: Protocol, options: HttpOptions) -> Node {
        Node::start_listener(listener(protocol, options)).await
    }

    /// A listener under TLS with a certificate from an authority that asks it by this challenge.
    pub(super) async fn start_challenged(challenge: AcmeChallenge) -> Node {
        let acme = Acme {
            directory: "https://ca.example/dir".to_owned(),
            contact: Vec::new(),
            names: vec!["files.example".parse().unwrap()],
            challenge,
            authorities: None,
            allow_private: false,
        };
        let mut listener = listener(Protocol::Https, HttpOptions::default());
        listener.tls.acme = Some(acme);
        Node::start_listener(listener).await
    }

    async fn start_listener(listener: Listener) -> Node {
        let world = World::start().await;
        fill(&world).await;
        let certificate = tls::self_signed(vec!["localhost".to_owned()]).unwrap();
        let tls = (listener.protocol == Protocol::Https).then(|| {
            let options = TlsOptions {
                chain: certificate.chain.clone().into_bytes(),
                key: certificate.key.clone(),
                clients: ClientCertificates::Off,
                least: TlsVersion::Tls12,
            };
            TlsConfig::new(&options, &world.env).unwrap()
        });
        let config = WebConfig::new(&listener, tls);
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
        let admin = administration(&world);
        let parts = parts(&world, admin.clone());
        let server = tokio::spawn(serve(listening, parts, stop.clone()));
        Node { world, address, admin, certificate, stop, server }
    }

    /// A new connection in clear text.
    pub(super) async fn connect(&self) -> Client {
        Client::connect(self.address).await
    }

    /// A new connection under TLS.
    pub(super) async fn connect_tls(&self) -> Client {
        let trust = ServerTrust::Pinned(vec![self.certificate.chain.clone()]);
        let client = TlsClient::new("localhost", &trust).unwrap().session();
        Client::connect_tls(self.address, &client).await
    }

    /// A new API token of an account.
    pub(super) async fn token(&self, account: &str, scopes: &[TokenScope]) -> String {
        self.token_at(SiteId::MAIN, account, scopes).await
    }

    /// A new API token of an account of a site.
    pub(super) async fn token_at(
        &self,
        site: SiteId,
        account: &str,
        scopes: &[TokenScope],
    ) -> String {
        let (account, scopes) = (name(account), scopes.to_vec());
        let order = TokenOrder {
            name: Some(name(&format!("of-{account}-{}", self.world.env.new_id::<SessionId>()))),
            account,
            scopes,
            not_after: None,
            from: Vec::new(),
            note: String::new(),
        };
        match self.ask(site, Request::CreateToken { token: order }).await {
            Response::Token { token, .. } => token.expose().to_owned(),
            other => panic!("{other:?}"),
        }
    }

    /// Asks the administration, as somebody who may do everything.
    pub(super) async fn ask(&self, site: SiteId, request: Request) -> Response {
        let actor = Actor::of_machine("cli:test".to_owned(), site);
        let answer = self.admin.handle(&actor, request).await.unwrap();
        self.world.directory.refresh().await.unwrap();
        answer
    }

    /// The API, for its table of routes.
    pub(super) fn api(&self) -> WebApi {
        parts(&self.world, self.admin.clone()).api
    }

    /// Ends the listener; afterwards every session is over and everything is recorded.
    pub(super) async fn stop(self) -> World {
        self.stop.cancel();
        soon(self.server).await.unwrap();
        self.world
    }
}

fn odd(rule: &Rule) -> LintFinding {
    let (flaw, text) = (RuleFlaw::ConstantCondition, "it is odd".to_owned());
    LintFinding { rule: rule.name.clone(), flaw, field: "if".to_owned(), text }
}

fn administration(world: &World) -> Arc<Admin> {
    let admin = Admin::new(AdminParts {
        db: world.bed.db.clone(),
        master: world.bed.master.clone(),
        recorder: world.bed.recorder.clone(),
        directory: Some(world.directory.clone()),
        env: world.env.clone(),
    });
    // What the engine says of rules is tried with the engine.
    let admin = admin.with_rule_critics(entrepot_admin::RuleCritics {
        test: |_| Vec::new(),
        lint: |rules, _| rules.iter().filter(|rule| rule.note == "odd").map(odd).collect(),
        replayed: |_, _, _, _| unreachable!("no rule is there to be replayed"),
    });
    Arc::new(admin.with_serving(ServingParts {
        node: Arc::new(Steered(world.vfs.clone())),
        gate: world.gate.clone(),
    }))
}

fn parts(world: &World, admin: Arc<Admin>) -> WebParts {
    let context = ListenerContext {
        site: SiteId::MAIN,
        listener: name("web"),
        gate: world.gate.clone(),
        vfs: world.vfs.clone(),
        env: world.env.clone(),
    };
    let node = Arc::new(ShownNode(watch::Sender::new(0)));
    let live = LiveSource { vfs: world.vfs.clone(), env: world.env.clone() };
    let api = WebApi::new(admin, node, live);
    WebParts { context, api, dav_locks: DavLocks::default() }
}

fn listener(protocol: Protocol, options: HttpOptions) -> Listener {
    Listener {
        name: name("web"),
        protocol,
        address: SocketAddr::from(([127, 0, 0, 1], 0)),
        enabled: true,
        host_keys: Vec::new(),
        proxies: Vec::new(),
        unauthenticated: Vec::new(),
        policy: None,
        login: None,
        banner: String::new(),
        tls: entrepot_nouns::tls::ListenerTls::default(),
        ftp: None,
        http: Some(options),
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

/// What the administration steers in these tests.
struct Steered(Service);

impl LiveNode for Steered {
    fn sessions(&self) -> Vec<SessionInfo> {
        self.0.sessions()
    }

    fn end_session(&self, id: SessionId, reason: &str) -> bool {
        self.0.end_session(id, reason)
    }

    fn limit_session(&self, id: SessionId, rates: Option<PerDirection>) -> bool {
        self.0.limit_session(id, rates)
    }

    fn limit_node(
        &self,
        rates: Option<PerDirection>,
        _: &str,
    ) -> Result<PerDirection, NotRecorded> {
        Ok(rates.unwrap_or_default())
    }

    fn drain_node(&self, _: &str) -> Result<(), NotRecorded> {
        Ok(())
    }

    fn log_levels(&self) -> LogLevels {
        LogLevels::new()
    }

    fn set_log_levels(&self, _: LogLevels) -> Result<(), String> {
        Ok(())
    }

    fn carry_out(&self, _order: HeldOrder) -> CarriedOut<'_> {
        Box::pin(async { Err("nothing is held here".to_owned()) })
    }

    fn test_as2(
        &self,
        endpoint: entrepot_nouns::Stored<entrepot_nouns::Endpoint>,
    ) -> entrepot_admin::TestedAs2<'_> {
        let partner = endpoint.noun.name;
        Box::pin(async move { As2Test { partner, message_id: None, steps: Vec::new() } })
    }
}

/// A node without a projector: events are in the database because the administration wrote them.
struct ShownNode(watch::Sender<u64>);

impl ApiNode for ShownNode {
    fn receipt(&self, _: SiteId, id: TransferId) -> BoxFuture<'_, Result<Value, Problem>> {
        Box::pin(async move { Ok(json!({ "transfer": id })) })
    }

    fn as2_evidence(&self, _: SiteId, entry: As2Entry) -> BoxFuture<'_, Result<Value, Problem>> {
        Box::pin(async move { Ok(json!({ "message": entry.id })) })
    }

    fn head(&self) -> BoxFuture<'_, Result<Value, Problem>> {
        Box::pin(async { Ok(json!({ "records": 7 })) })
    }

    fn metrics(&self) -> BoxFuture<'_, String> {
        Box::pin(async { "# EOF\n".to_owned() })
    }

    fn projected(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }
}
