//! The open listeners: started, changed and stopped while the server runs, as their nouns say.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use entrepot_admin::Admin;
use entrepot_auth::Gate;
use entrepot_db::Db;
use entrepot_engine::Drained;
use entrepot_ftp::FtpConfig;
use entrepot_net::NetError;
use entrepot_net::guard::UnauthenticatedConnections;
use entrepot_net::listen::TcpAcceptor;
use entrepot_net::server::{Admission, Listening, ServerShared};
use entrepot_net::tls::TlsOptions;
use entrepot_nouns::http::HttpService;
use entrepot_nouns::{
    AlgorithmPreset, Env, Key, KeyType, Listener, Name, Noun, Protocol, Secret, Site, SiteId,
    Stored,
};
use entrepot_ssh::algorithms::Offered;
use entrepot_ssh::server::{SshConfig, SshOptions};
use entrepot_vfs::{ListenerContext, Service};
use entrepot_web::{DavLocks, WebApi, WebConfig, WebParts};
use serde_json::{Value, json};
use tokio::sync::{Mutex, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

mod keys;
mod served_tls;
mod settings;
pub(crate) mod tls;

use crate::addresses_file::AddressesFile;
use crate::config::Config;
use crate::failure::{Exit, Failure};
use crate::parts::Parts;
use keys::ListenerKeys;
use settings::ServedSettings;

/// How often a busy port is tried, and the pause between.
const BIND_TRIES: u32 = 20;
const BIND_PAUSE: Duration = Duration::from_millis(50);

/// Opens listeners and keeps them as the database says. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Listeners(Arc<Inner>);

/// What all listeners share.
pub(crate) struct ListenerParts {
    pub(crate) gate: Gate,
    pub(crate) vfs: Service,
    /// Connections that have not logged in, over all listeners.
    pub(crate) unauthenticated: UnauthenticatedConnections,
    /// What listeners of HTTP serve of the administration.
    pub(crate) api: WebApi,
}

struct Inner {
    config: Config,
    db: Db,
    env: Env,
    keys: ListenerKeys,
    dav_locks: DavLocks,
    gate: Gate,
    vfs: Service,
    addresses: AddressesFile,
    unauthenticated: UnauthenticatedConnections,
    api: WebApi,
    drain: Duration,
    open: Mutex<BTreeMap<(SiteId, Name), Open>>,
}

/// How often listeners with weak algorithms are looked at: those end on their day.
const LEGACY_INTERVAL: Duration = Duration::from_secs(60);

/// What the database says of a listener.
#[derive(Clone, PartialEq)]
struct Wanted {
    site: Name,
    noun: Listener,
    keys: Vec<Key>,
    algorithms: AlgorithmPreset,
    legacy_algorithms: Vec<String>,
    offer: Offer,
}

impl Wanted {
    /// Leaves nothing but the administration. False: it has none.
    fn keep_administration(&mut self) -> bool {
        if !matches!(self.noun.protocol, Protocol::Https | Protocol::Http) {
            return false;
        }
        let http = self.noun.http.get_or_insert_default();
        if http.redirect_to_https.is_some() || !http.serve.contains(&HttpService::Api) {
            return false;
        }
        http.serve = vec![HttpService::Api];
        self.offer = Offer::Administration;
        true
    }
}

/// One open listener.
struct Open {
    wanted: Wanted,
    address: SocketAddr,
    settings: Settings,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

/// The settings that new connections to an open listener get.
enum Settings {
    Sftp(watch::Sender<SshConfig>),
    Ftp(ServedSettings<FtpConfig>),
    /// With the socket, which is handed on when the node is drained or undrained.
    Web(ServedSettings<WebConfig>, TcpAcceptor),
}

/// Which of its services a listener offers.
#[derive(Clone, Copy, PartialEq)]
enum Offer {
    All,
    /// The administration alone, for the node is drained.
    Administration,
}

impl Open {
    /// True if it must be opened anew to be as `wanted`; anything but its place, and what it offers
    /// of it, changes in place.
    fn is_stale(&self, wanted: Option<&Wanted>) -> bool {
        let same_place = |wanted: &Wanted| {
            let (new, old) = (&wanted.noun, &self.wanted.noun);
            new.address == old.address
                && new.protocol == old.protocol
                && wanted.offer == self.wanted.offer
        };
        !wanted.is_some_and(same_place) || self.task.is_finished()
    }

    /// Lets nobody in any more, and sessions end. What is left is its socket, if it is for
    /// `wanted` too.
    fn close(self, wanted: Option<&Wanted>) -> Option<TcpAcceptor> {
        self.stop.cancel();
        match self.settings {
            Settings::Web(_, socket) if wanted?.noun.address == self.wanted.noun.address => {
                Some(socket)
            }
            _ => None,
        }
    }
}

impl Listeners {
    /// Opens nothing yet.
    pub(crate) fn new(
        config: &Config,
        parts: &Parts,
        admin: Arc<Admin>,
        shared: ListenerParts,
        addresses: AddressesFile,
    ) -> Listeners {
        Listeners(Arc::new(Inner {
            config: config.clone(),
            db: parts.db.clone(),
            env: parts.env.clone(),
            keys: ListenerKeys::new(parts, admin),
            dav_locks: DavLocks::default(),
            gate: shared.gate,
            vfs: shared.vfs,
            addresses,
            unauthenticated: shared.unauthenticated,
            api: shared.api,
            drain: Duration::from_secs(config.drain_seconds),
            open: Mutex::default(),
        }))
    }

    /// Opens all; the first that cannot be opened is the error. A node that is drained opens those
    /// of its administration.
    pub(crate) async fn open_all(&self, drained: &Drained) -> Result<(), Failure> {
        if drained.is_drained() {
            tracing::warn!("this node is drained: it serves its API alone before 'node undrain'");
        }
        for site in self.0.db.sites().await.map_err(database)? {
            self.warn_of_programs(&site.noun);
        }
        self.settle(drained).await
    }

    /// Follows changes until `end`. A listener that cannot be opened is logged, others go on.
    pub(crate) async fn follow(
        self,
        mut changes: watch::Receiver<i64>,
        mut drained: Drained,
        end: CancellationToken,
    ) {
        let mut ticks = tokio::time::interval(LEGACY_INTERVAL);
        loop {
            tokio::select! {
                () = end.cancelled() => return,
                changed = changes.changed() => if changed.is_err() { return },
                () = drained.changed() => {
                    let word = if drained.is_drained() { "drained" } else { "undrained" };
                    tracing::info!("this node was {word} by an operator");
                }
                _ = ticks.tick() => if !self.has_legacy().await { continue },
            }
            if let Err(failure) = self.settle(&drained).await {
                tracing::error!(code = failure.code, "{}", failure.message);
            }
        }
    }

    async fn has_legacy(&self) -> bool {
        let open = self.0.open.lock().await;
        open.values().any(|open| !open.wanted.legacy_algorithms.is_empty())
    }

    /// Makes what is open equal to what the database says. A drained node accepts nothing but its
    /// administration, which may say that it is drained no more; what is open ends as when a
    /// listener is taken away.
    async fn settle(&self, drained: &Drained) -> Result<(), Failure> {
        let mut wanted = self.wanted().await?;
        if drained.is_drained() {
            wanted.retain(|_, wanted| wanted.keep_administration());
        }
        let mut open = self.0.open.lock().await;
        let stale = |(place, open): &(&(SiteId, Name), &Open)| open.is_stale(wanted.get(place));
        let stale: Vec<_> = open.iter().filter(stale).map(|(place, _)| place.clone()).collect();
        let mut sockets = BTreeMap::new();
        for place in stale {
            if let Some(old) = open.remove(&place) {
                tracing::info!(listener = %place.1, address = %old.address, "closed");
                if let Some(socket) = old.close(wanted.get(&place)) {
                    sockets.insert(place, socket);
                }
            }
        }
        let mut result = Ok(());
        for (place, wanted) in wanted {
            let done = match open.get_mut(&place) {
                Some(known) if known.wanted == wanted => Ok(()),
                Some(known) => self.change(known, wanted),
                None => {
                    let started = self.start(place.0, wanted, sockets.remove(&place)).await;
                    started.map(|started| drop(open.insert(place, started)))
                }
            };
            result = result.and(done);
        }
        self.0.addresses.write(&describe(&open));
        result
    }

    /// The enabled listeners of all sites with their host keys; missing ones are made.
    async fn wanted(&self) -> Result<BTreeMap<(SiteId, Name), Wanted>, Failure> {
        let mut wanted = BTreeMap::new();
        for site in self.0.db.sites().await.map_err(database)? {
            let id = SiteId::from(site.id);
            let listeners: Vec<Stored<Listener>> = self.0.db.list(id).await.map_err(database)?;
            for mut noun in listeners.into_iter().map(|stored| stored.noun) {
                if let Some(ports) = self.0.config.passive_ports
                    && noun.protocol == Protocol::Ftp
                {
                    noun.ftp.get_or_insert_default().passive_ports = Some(ports);
                }
                if noun.enabled {
                    wanted.insert((id, noun.name.clone()), self.wish(&site, noun).await?);
                }
            }
        }
        Ok(wanted)
    }

    async fn wish(&self, site: &Stored<Site>, noun: Listener) -> Result<Wanted, Failure> {
        let Stored { id, noun: Site { name, .. }, .. } = site;
        let (site, name) = (SiteId::from(*id), name.clone());
        let policy = self.0.gate.listener_policy(site, &noun.name).await;
        let policy = policy
            .map_err(|error| Failure::new(error.code(), Exit::Unavailable, error.to_string()))?;
        let keys = self.0.keys.of(site, &noun, policy.algorithms).await?;
        let legacy = policy.legacy_at(self.0.env.now()).map(str::to_owned).collect();
        Ok(Wanted {
            site: name,
            noun,
            keys,
            algorithms: policy.algorithms,
            legacy_algorithms: legacy,
            offer: Offer::All,
        })
    }

    /// Gives connections to an open listener other settings from now on.
    fn change(&self, open: &mut Open, wanted: Wanted) -> Result<(), Failure> {
        match &mut open.settings {
            Settings::Sftp(config) => drop(config.send_replace(self.ssh(&wanted)?)),
            Settings::Ftp(settings) => {
                let tls = self.tls_options(&wanted)?;
                settings.change(&wanted.noun, tls.as_ref(), &self.0.env)?;
            }
            Settings::Web(settings, _) => {
                let tls = self.tls_options(&wanted)?;
                settings.change(&wanted.noun, tls.as_ref(), &self.0.env)?;
            }
        }
        tracing::info!(listener = %wanted.noun.name, "changed");
        self.warn_of_programs(&wanted.noun);
        warn_of_clear_text(&wanted.noun);
        open.wanted = wanted;
        Ok(())
    }

    /// A login hook that nobody may start lets nobody in.
    fn warn_of_programs<N: Noun>(&self, noun: &N) {
        for program in noun.programs() {
            if let Err(error) = self.0.config.exec.allowed.check(program) {
                let (kind, name) = (N::KIND, noun.name());
                tracing::warn!(code = error.code(), %kind, %name, %error, "the login hook is dead");
            }
        }
    }

    fn ssh(&self, wanted: &Wanted) -> Result<SshConfig, Failure> {
        let private: Result<Vec<Secret>, Failure> =
            wanted.keys.iter().map(|key| self.0.keys.open(&wanted.site, key)).collect();
        let noun = &wanted.noun;
        let options = SshOptions {
            host_keys: private?,
            certificates: wanted.keys.iter().filter_map(|key| key.certificate.clone()).collect(),
            offered: Offered::new(wanted.algorithms, &wanted.legacy_algorithms),
            banner: noun.banner.clone(),
            admission: Admission::of(noun),
        };
        let checked = entrepot_sftp::config(&noun.name, &options);
        checked.map_err(|error| Failure::new(error.code(), Exit::Failed, error.to_string()))
    }

    /// The TLS settings of a listener; absent where it speaks clear text.
    fn tls_options(&self, wanted: &Wanted) -> Result<Option<TlsOptions>, Failure> {
        let Some(key) = wanted.keys.first() else { return Ok(None) };
        let private = self.0.keys.open(&wanted.site, key)?;
        Ok(Some(tls::options(&wanted.noun, &key.public, private)))
    }

    /// The one match from a listener's protocol to what serves it, on `socket` if there is one.
    async fn start(
        &self,
        site: SiteId,
        wanted: Wanted,
        socket: Option<TcpAcceptor>,
    ) -> Result<Open, Failure> {
        let (inner, noun) = (&self.0, &wanted.noun);
        let stop = CancellationToken::new();
        let shared = ServerShared {
            unauthenticated: inner.unauthenticated.clone(),
            env: inner.env.clone(),
            drain: inner.drain,
            stopping: inner.vfs.draining(),
        };
        let context = ListenerContext {
            site,
            listener: noun.name.clone(),
            gate: inner.gate.clone(),
            vfs: inner.vfs.clone(),
            env: inner.env.clone(),
        };
        let (address, settings, task) = match noun.protocol {
            Protocol::Sftp => {
                let (sender, config) = watch::channel(self.ssh(&wanted)?);
                let acceptor = bind(noun.address).await?;
                let address = acceptor.local_address();
                let listening = Listening { acceptor, config, shared };
                let served = entrepot_sftp::serve(listening, context, stop.clone());
                (address, Settings::Sftp(sender), tokio::spawn(served))
            }
            Protocol::Ftp => {
                let tls = self.tls_options(&wanted)?;
                let settings = ServedSettings::new(FtpConfig::new, noun, tls.as_ref(), &inner.env)?;
                let config = settings.subscribe();
                let acceptor = bind(noun.address).await?;
                let address = acceptor.local_address();
                let listening = Listening { acceptor, config, shared };
                let served = entrepot_ftp::serve(listening, context, stop.clone());
                (address, Settings::Ftp(settings), tokio::spawn(served))
            }
            Protocol::Https | Protocol::Http => {
                let tls = self.tls_options(&wanted)?;
                let settings = ServedSettings::new(WebConfig::new, noun, tls.as_ref(), &inner.env)?;
                let config = settings.subscribe();
                let acceptor = match socket {
                    Some(socket) => socket,
                    None => bind(noun.address).await?,
                };
                let address = acceptor.local_address();
                let socket = acceptor.of_the_same_socket().map_err(|error| not_opened(&error))?;
                let listening = Listening { acceptor, config, shared };
                let dav_locks = inner.dav_locks.clone();
                let parts = WebParts { context, api: inner.api.clone(), dav_locks };
                let served = entrepot_web::serve(listening, parts, stop.clone());
                (address, Settings::Web(settings, socket), tokio::spawn(served))
            }
            Protocol::Internal => {
                return Err(Failure::config("protocol 'internal' has no listener"));
            }
        };
        let protocol = noun.protocol.as_str();
        tracing::info!(listener = %noun.name, protocol, %address, "listening");
        self.warn_of_programs(noun);
        warn_of_clear_text(noun);
        for key in wanted.keys.iter().filter(|key| key.key_type == KeyType::SshHost) {
            let line = format!("[{}]:{} {}", address.ip(), address.port(), key.public);
            tracing::info!(known_hosts = line, "host key");
        }
        Ok(Open { wanted, address, settings, stop, task })
    }

    /// Address and host keys (OpenSSH form) of each open listener of SFTP.
    pub(crate) async fn listening(&self) -> Vec<(SocketAddr, Vec<String>)> {
        let open = self.0.open.lock().await;
        let publics = |open: &Open| open.wanted.keys.iter().map(|key| key.public.clone()).collect();
        let ssh = open.values().filter(|open| open.wanted.noun.protocol == Protocol::Sftp);
        ssh.map(|open| (open.address, publics(open))).collect()
    }

    /// Accepts no more and lets sessions end within `limit`.
    pub(crate) async fn stop(&self, limit: Duration) {
        let open = std::mem::take(&mut *self.0.open.lock().await);
        let tasks: Vec<_> = open
            .into_iter()
            .map(|(place, open)| {
                open.stop.cancel();
                (place, open.task)
            })
            .collect();
        let began = self.0.env.elapsed();
        for (place, task) in tasks {
            let left = limit.saturating_sub(self.0.env.elapsed().saturating_sub(began));
            if tokio::time::timeout(left, task).await.is_err() {
                tracing::warn!(listener = %place.1, "sessions were cut at the end of the limit");
            }
        }
    }
}

/// Says what may cross the network unencrypted: somebody has asked for it, and others should know.
fn warn_of_clear_text(noun: &Listener) {
    if let Some(clear) = noun.clear_text() {
        let (code, listener, what) = ("EP0280", &noun.name, clear.as_str());
        tracing::warn!(code, %listener, "it lets {what} cross the network in clear text");
    }
}

/// Binds; a listener that was changed a moment ago may still be closing its socket.
async fn bind(address: SocketAddr) -> Result<TcpAcceptor, Failure> {
    let mut tries = BIND_TRIES;
    loop {
        tries -= 1;
        match entrepot_net::listen::bind(address) {
            Ok(acceptor) => return Ok(acceptor),
            Err(NetError::PortBusy(_)) if tries > 0 => tokio::time::sleep(BIND_PAUSE).await,
            Err(error) => return Err(not_opened(&error)),
        }
    }
}

fn not_opened(error: &NetError) -> Failure {
    Failure::new(error.code(), Exit::Failed, error.to_string())
}

fn database(error: entrepot_db::DbError) -> Failure {
    Failure::new(error.code(), Exit::Unavailable, error.to_string())
}

fn describe(open: &BTreeMap<(SiteId, Name), Open>) -> Value {
    let entry = |((_, name), open): (&(SiteId, Name), &Open)| {
        let keys: Vec<&str> = open.wanted.keys.iter().map(|key| key.public.as_str()).collect();
        let shown = match open.wanted.noun.protocol.server_key() {
            None => json!({"address": open.address}),
            Some(KeyType::Tls) => json!({"address": open.address, "certificates": keys}),
            Some(_) => json!({"address": open.address, "host_keys": keys}),
        };
        (name.to_string(), shown)
    };
    Value::Object(open.iter().map(entry).collect())
}
