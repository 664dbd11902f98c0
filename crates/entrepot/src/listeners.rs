//! The open listeners: started, changed and stopped while the server runs, as their nouns say.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use entrepot_admin::{Actor, Admin, Request, Role};
use entrepot_auth::Gate;
use entrepot_crypto::seal::MasterKey;
use entrepot_db::Db;
use entrepot_model::{
    AnyNoun, Env, Key, KeyType, Listener, Name, Protocol, Secret, SiteId, Stored,
};
use entrepot_net::NetError;
use entrepot_vfs::Service;
use serde_json::{Value, json};
use tokio::sync::{Mutex, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::failure::{Exit, Failure};
use crate::parts::Parts;
use crate::serve::write_addresses;

/// How often a busy port is tried, and the pause between.
const BIND_TRIES: u32 = 20;
const BIND_PAUSE: Duration = Duration::from_millis(50);

/// Opens listeners and keeps them as the database says. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Listeners(Arc<Inner>);

struct Inner {
    config: Config,
    db: Db,
    env: Env,
    master: MasterKey,
    admin: Arc<Admin>,
    gate: Gate,
    vfs: Service,
    ops_address: Option<SocketAddr>,
    open: Mutex<BTreeMap<(SiteId, Name), Open>>,
}

/// One open listener.
struct Open {
    noun: Listener,
    keys: Vec<Key>,
    address: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Listeners {
    /// Opens nothing yet.
    pub(crate) fn new(
        config: &Config,
        parts: &Parts,
        admin: Arc<Admin>,
        (gate, vfs): (Gate, Service),
        ops_address: Option<SocketAddr>,
    ) -> Listeners {
        Listeners(Arc::new(Inner {
            config: config.clone(),
            db: parts.db.clone(),
            env: parts.env.clone(),
            master: parts.master.clone(),
            admin,
            gate,
            vfs,
            ops_address,
            open: Mutex::default(),
        }))
    }

    /// Opens all; the first that cannot be opened is the error.
    pub(crate) async fn open_all(&self) -> Result<(), Failure> {
        self.settle().await
    }

    /// Follows changes until `end`. A listener that cannot be opened is logged, others go on.
    pub(crate) async fn follow(self, mut changes: watch::Receiver<i64>, end: CancellationToken) {
        loop {
            tokio::select! {
                () = end.cancelled() => return,
                changed = changes.changed() => if changed.is_err() { return },
            }
            if let Err(failure) = self.settle().await {
                tracing::error!(code = failure.code, "{}", failure.message);
            }
        }
    }

    /// Makes what is open equal to what the database says.
    async fn settle(&self) -> Result<(), Failure> {
        let wanted = self.wanted().await?;
        let mut open = self.0.open.lock().await;
        let stale: Vec<(SiteId, Name)> = open
            .iter()
            .filter(|(place, open)| {
                wanted
                    .get(*place)
                    .is_none_or(|(noun, keys)| *noun != open.noun || *keys != open.keys)
                    || open.task.is_finished()
            })
            .map(|(place, _)| place.clone())
            .collect();
        for place in stale {
            if let Some(old) = open.remove(&place) {
                old.stop.cancel();
                tracing::info!(listener = %place.1, address = %old.address, "closed");
            }
        }
        let mut result = Ok(());
        for (place, (noun, keys)) in wanted {
            if open.contains_key(&place) {
                continue;
            }
            match self.start(place.0, noun, keys).await {
                Ok(started) => {
                    open.insert(place, started);
                }
                Err(failure) => result = result.and(Err(failure)),
            }
        }
        write_addresses(&self.0.config, self.0.ops_address, &describe(&open));
        result
    }

    /// The enabled listeners of all sites with their host keys; missing ones are made.
    async fn wanted(&self) -> Result<BTreeMap<(SiteId, Name), (Listener, Vec<Key>)>, Failure> {
        let mut wanted = BTreeMap::new();
        for site in self.0.db.sites().await.map_err(database)? {
            let listeners: Vec<Stored<Listener>> =
                self.0.db.list(SiteId::from(site.id)).await.map_err(database)?;
            for stored in listeners {
                if stored.noun.enabled {
                    let keys = self.host_keys(stored.site, &stored.noun).await?;
                    wanted.insert((stored.site, stored.noun.name.clone()), (stored.noun, keys));
                }
            }
        }
        Ok(wanted)
    }

    async fn host_keys(&self, site: SiteId, listener: &Listener) -> Result<Vec<Key>, Failure> {
        let mut keys = Vec::new();
        for name in &listener.host_keys {
            let found = self.0.db.find::<Key>(site, name).await.map_err(database)?;
            keys.extend(found.map(|stored| stored.noun));
        }
        if !listener.host_keys.is_empty() {
            return Ok(keys);
        }
        let name: Name = format!("{}-ed25519", listener.name)
            .parse()
            .map_err(|error| Failure::config(format!("a host key's name: {error}")))?;
        if let Some(stored) = self.0.db.find::<Key>(site, &name).await.map_err(database)? {
            return Ok(vec![stored.noun]);
        }
        self.make_host_key(site, name).await.map(|key| vec![key])
    }

    async fn make_host_key(&self, site: SiteId, name: Name) -> Result<Key, Failure> {
        let pair = entrepot_net::ssh::keys::generate(&self.0.env, name.as_str())
            .map_err(|error| Failure::start(error.to_string()))?;
        tracing::info!(key = %name, fingerprint = %pair.fingerprint, "made a host key");
        let mut key = Key::new(name.clone(), KeyType::SshHost, pair.public);
        key.private = Some(pair.private);
        key.note = "made at first start".to_owned();
        let actor = Actor { name: "node".to_owned(), role: Role::Admin, site };
        let request = Request::Create { noun: Box::new(AnyNoun::Key(key)) };
        let made = self.0.admin.handle(&actor, request).await;
        made.map_err(|error| crate::ask::problem(error.into()))?;
        let stored = self.0.db.find::<Key>(site, &name).await.map_err(database)?;
        stored.map(|stored| stored.noun).ok_or_else(|| Failure::start("the host key is gone"))
    }

    /// The one match from a listener's protocol to what serves it.
    async fn start(&self, site: SiteId, noun: Listener, keys: Vec<Key>) -> Result<Open, Failure> {
        let inner = &self.0;
        let acceptor = bind(noun.address).await?;
        let address = acceptor.local_address();
        let stop = CancellationToken::new();
        let task = match noun.protocol {
            Protocol::Sftp => {
                let private: Result<Vec<Secret>, Failure> =
                    keys.iter().map(|key| self.open_key(key)).collect();
                let context = entrepot_sftp::SftpContext {
                    site,
                    listener: noun.name.clone(),
                    gate: inner.gate.clone(),
                    vfs: inner.vfs.clone(),
                    env: inner.env.clone(),
                    host_keys: private?,
                    banner: noun.banner.clone(),
                };
                let serve = entrepot_sftp::serve(acceptor, context, stop.clone());
                tokio::spawn(async move {
                    if let Err(error) = serve.await {
                        tracing::error!(code = error.code(), %error, "a listener failed");
                    }
                })
            }
            Protocol::Internal => {
                return Err(Failure::config("protocol 'internal' has no listener"));
            }
        };
        tracing::info!(listener = %noun.name, %address, "listening");
        for key in &keys {
            let line = format!("[{}]:{} {}", address.ip(), address.port(), key.public);
            tracing::info!(known_hosts = line, "host key");
        }
        Ok(Open { noun, keys, address, stop, task })
    }

    fn open_key(&self, key: &Key) -> Result<Secret, Failure> {
        let sealed = key.private_sealed.as_ref().ok_or_else(|| {
            Failure::config(format!("the key '{}' has no private half", key.name))
        })?;
        let context = format!("key/{}/private", key.name);
        self.0.master.open(&context, sealed).map_err(|error| {
            Failure::config(format!("the key '{}' cannot be opened: {error}", key.name))
        })
    }

    /// Address and host keys (OpenSSH form) of each open listener.
    pub(crate) async fn listening(&self) -> Vec<(SocketAddr, Vec<String>)> {
        let open = self.0.open.lock().await;
        let publics = |open: &Open| open.keys.iter().map(|key| key.public.clone()).collect();
        open.values().map(|open| (open.address, publics(open))).collect()
    }

    /// Accepts no more and lets sessions end within `limit`.
    pub(crate) async fn stop(&self, limit: Duration) {
        let open = std::mem::take(&mut *self.0.open.lock().await);
        for listener in open.values() {
            listener.stop.cancel();
        }
        let began = self.0.env.elapsed();
        for (place, listener) in open {
            let left = limit.saturating_sub(self.0.env.elapsed().saturating_sub(began));
            if tokio::time::timeout(left, listener.task).await.is_err() {
                tracing::warn!(listener = %place.1, "sessions were cut at the end of the limit");
            }
        }
    }
}

/// Binds; a listener that was changed a moment ago may still be closing its socket.
async fn bind(address: SocketAddr) -> Result<entrepot_net::listen::TcpAcceptor, Failure> {
    let mut tries = BIND_TRIES;
    loop {
        tries -= 1;
        match entrepot_net::listen::bind(address) {
            Ok(acceptor) => return Ok(acceptor),
            Err(NetError::PortBusy(_)) if tries > 0 => tokio::time::sleep(BIND_PAUSE).await,
            Err(error) => {
                return Err(Failure::new(error.code(), Exit::Failed, error.to_string()));
            }
        }
    }
}

fn database(error: entrepot_db::DbError) -> Failure {
    Failure::new(error.code(), Exit::Unavailable, error.to_string())
}

fn describe(open: &BTreeMap<(SiteId, Name), Open>) -> Value {
    let entry = |((_, name), open): (&(SiteId, Name), &Open)| {
        let keys: Vec<&str> = open.keys.iter().map(|key| key.public.as_str()).collect();
        (name.to_string(), json!({"address": open.address, "host_keys": keys}))
    };
    Value::Object(open.iter().map(entry).collect())
}
