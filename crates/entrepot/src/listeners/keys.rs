//! The keys by which listeners prove what they are: host keys of SSH, certificates of TLS. They
//! are read from the database; where a listener names none, keys of fixed names are made at its
//! first start.

use std::sync::Arc;

use entrepot_admin::{Actor, Admin, Request};
use entrepot_crypto::{MasterKey, SealingContext};
use entrepot_db::Db;
use entrepot_net::tls;
use entrepot_nouns::ftp::FtpTls;
use entrepot_nouns::{AlgorithmPreset, AnyNoun, Env, Key, KeyType, Listener, Name, Secret, SiteId};
use entrepot_ssh::keys::{self, KeyKind};

use crate::failure::{Exit, Failure};
use crate::parts::Parts;

/// Finds, makes and opens the keys of listeners.
pub(super) struct ListenerKeys {
    db: Db,
    env: Env,
    master: MasterKey,
    /// Saves the keys that are made, so that each of them has its event.
    admin: Arc<Admin>,
    /// Recorded as the actor of these events.
    node: Name,
}

impl ListenerKeys {
    pub(super) fn new(parts: &Parts, admin: Arc<Admin>) -> ListenerKeys {
        let Parts { db, env, master, recorder, .. } = parts;
        let node = recorder.node().clone();
        ListenerKeys { db: db.clone(), env: env.clone(), master: master.clone(), admin, node }
    }

    /// The keys of a listener, of the type that its protocol needs; missing ones are made.
    /// `algorithms` says which kinds of host keys those are.
    pub(super) async fn of(
        &self,
        site: SiteId,
        listener: &Listener,
        algorithms: AlgorithmPreset,
    ) -> Result<Vec<Key>, Failure> {
        match listener.protocol.server_key() {
            Some(KeyType::Tls) => self.certificate(site, listener).await,
            Some(_) => self.host_keys(site, listener, algorithms).await,
            None => Ok(Vec::new()),
        }
    }

    /// The private half of a key of the site with this name.
    pub(super) fn open(&self, site: &Name, key: &Key) -> Result<Secret, Failure> {
        let sealed = key.private_sealed.as_ref().ok_or_else(|| {
            Failure::config(format!("the key '{}' has no private half", key.name))
        })?;
        let context = SealingContext::private_key(site, &key.name);
        self.master.open(&context, sealed).map_err(|error| {
            Failure::config(format!("the key '{}' cannot be opened: {error}", key.name))
        })
    }

    async fn host_keys(
        &self,
        site: SiteId,
        listener: &Listener,
        algorithms: AlgorithmPreset,
    ) -> Result<Vec<Key>, Failure> {
        let mut keys = Vec::new();
        for name in &listener.host_keys {
            keys.extend(self.find(site, name).await?);
        }
        if !listener.host_keys.is_empty() {
            return Ok(keys);
        }
        for kind in KeyKind::of(algorithms) {
            let name: Name = format!("{}-{}", listener.name, kind.as_str())
                .parse()
                .map_err(|error| Failure::config(format!("a host key's name: {error}")))?;
            keys.push(match self.find(site, &name).await? {
                Some(key) => key,
                None => self.make_host_key(site, name, *kind).await?,
            });
        }
        Ok(keys)
    }

    async fn make_host_key(&self, site: SiteId, name: Name, kind: KeyKind) -> Result<Key, Failure> {
        let pair = keys::generate_kind(&self.env, kind, name.as_str())
            .map_err(|error| Failure::start(error.to_string()))?;
        tracing::info!(key = %name, fingerprint = %pair.fingerprint, "made a host key");
        let mut key = Key::new(name, KeyType::SshHost, pair.public);
        key.private = Some(pair.private);
        self.save_made(site, key).await
    }

    /// The certificate of a listener, as its only key; none if it speaks clear text.
    async fn certificate(&self, site: SiteId, listener: &Listener) -> Result<Vec<Key>, Failure> {
        if listener.ftp.as_ref().is_some_and(|ftp| ftp.tls == FtpTls::Off) {
            return Ok(Vec::new());
        }
        if let Some(name) = &listener.tls.key {
            return Ok(self.find(site, name).await?.into_iter().collect());
        }
        let name = listener.own_tls_key();
        let name = name.map_err(|error| Failure::config(format!("the name of a key: {error}")))?;
        Ok(vec![match self.find(site, &name).await? {
            Some(key) => key,
            None => self.make_certificate(site, listener, name).await?,
        }])
    }

    async fn make_certificate(
        &self,
        site: SiteId,
        listener: &Listener,
        name: Name,
    ) -> Result<Key, Failure> {
        let mut names = vec!["localhost".to_owned()];
        let address = listener.address.ip();
        if address.is_unspecified() {
            names.extend(["127.0.0.1".to_owned(), "::1".to_owned()]);
        } else {
            names.push(address.to_string());
        }
        let wanted = listener.tls.acme.iter().flat_map(|acme| &acme.names);
        names.extend(wanted.map(|name| name.as_str().to_owned()).filter(|it| it != "localhost"));
        let made = tls::self_signed(names)
            .map_err(|error| Failure::new(error.code(), Exit::Failed, error.to_string()))?;
        tracing::info!(key = %name, "made a certificate, signed by itself");
        let mut key = Key::new(name, KeyType::Tls, made.chain);
        key.private = Some(made.key);
        self.save_made(site, key).await
    }

    /// Saves a key that was made because a listener had none; gives it as it was saved, sealed.
    async fn save_made(&self, site: SiteId, mut key: Key) -> Result<Key, Failure> {
        let name = key.name.clone();
        key.note = "made at first start".to_owned();
        // No name of an account has a colon.
        let actor = Actor::of_machine(format!("node:{}", self.node), site);
        let request = Request::Create { noun: Box::new(AnyNoun::Key(key)) };
        let made = self.admin.handle(&actor, request).await;
        made.map_err(|error| crate::ask::problem(error.into()))?;
        let saved = self.find(site, &name).await?;
        saved.ok_or_else(|| Failure::start("the host key is gone"))
    }

    async fn find(&self, site: SiteId, name: &Name) -> Result<Option<Key>, Failure> {
        let found = self.db.find::<Key>(site, name).await;
        let found = found
            .map_err(|error| Failure::new(error.code(), Exit::Unavailable, error.to_string()))?;
        Ok(found.map(|stored| stored.noun))
    }
}
