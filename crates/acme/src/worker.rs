//! Which certificates are asked for, and what becomes of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use entrepot_admin::{Actor, Admin, Request};
use entrepot_crypto::MasterKey;
use entrepot_db::{AcmeFailure, AcmeIssued, AcmeOrder, Db, ListenerPlace};
use entrepot_journal::{Recorder, Scope};
use entrepot_net::tls::OwnCertificate;
use entrepot_nouns::acme::Acme;
use entrepot_nouns::event::{CertificateFailure, RenewedFact};
use entrepot_nouns::{AnyNoun, Env, Fact, Key, KeyType, Listener, Name, SiteId};
use tokio::sync::Mutex;

use crate::due::{Due, Settings, due, pause};
use crate::error::{AcmeError, Failed};
use crate::limits::LEASE;
use crate::order::{Bought, Buyer};

/// What certificates are asked for with.
pub struct AcmeParts {
    /// Listeners, what is known of their certificates, accounts and answers.
    pub db: Db,
    /// Keeps certificates as keys, each with its event.
    pub admin: Arc<Admin>,
    /// Opens and seals accounts.
    pub master: MasterKey,
    /// Names the node, and records what came and what failed.
    pub recorder: Recorder,
    /// The clock, and randomness.
    pub env: Env,
}

/// Asks authorities for the certificates of listeners.
pub struct CertificateWorker {
    parts: AcmeParts,
    listeners: Mutex<Known>,
}

/// The listeners that have certificates from authorities, as of a revision of the configuration.
#[derive(Default)]
struct Known {
    revision: Option<i64>,
    listeners: Vec<Wanted>,
}

/// A listener that is to have a certificate from an authority.
#[derive(Clone)]
struct Wanted {
    place: ListenerPlace,
    /// The name of its site.
    site: Name,
    /// The key that holds the certificate.
    key: Name,
    acme: Acme,
    /// The JSON form of that.
    settings: String,
    /// The certificate that it shows; known anew with each revision, for it is a key.
    shown: Option<OwnCertificate>,
    /// It was as it is one pass ago: by now every node answers for it.
    is_settled: bool,
}

impl CertificateWorker {
    /// Over the parts of a node. Nobody is asked before [`CertificateWorker::pass`].
    pub fn new(parts: AcmeParts) -> Self {
        CertificateWorker { parts, listeners: Mutex::default() }
    }

    /// Asks for every certificate that is due. May be dropped while it works: another node, or
    /// this one, begins anew then.
    pub async fn pass(&self) {
        if let Err(error) = self.try_pass().await {
            tracing::debug!(code = error.code(), %error, "no certificate is asked for now");
        }
    }

    async fn try_pass(&self) -> Result<(), AcmeError> {
        let wanted = self.wanted().await?;
        if wanted.is_empty() {
            return Ok(());
        }
        let orders = self.parts.db.acme_orders().await?;
        let mut orders: BTreeMap<ListenerPlace, AcmeOrder> = orders.into_iter().collect();
        for wanted in wanted {
            let known = orders.remove(&wanted.place).unwrap_or_default();
            if self.is_due(&wanted, wanted.shown.as_ref(), &known) {
                self.ask(&wanted).await?;
            }
        }
        Ok(())
    }

    /// The listeners that may be asked for.
    async fn wanted(&self) -> Result<Vec<Wanted>, AcmeError> {
        let mut known = self.listeners.lock().await;
        let revision = self.parts.db.config_revision().await?;
        if known.revision != Some(revision) {
            let listeners = self.load(&known.listeners).await?;
            *known = Known { revision: Some(revision), listeners };
        }
        let settled = known.listeners.iter().filter(|wanted| wanted.is_settled);
        let settled = settled.cloned().collect();
        known.listeners.iter_mut().for_each(|wanted| wanted.is_settled = true);
        Ok(settled)
    }

    /// The enabled listeners with certificates from authorities.
    async fn load(&self, before: &[Wanted]) -> Result<Vec<Wanted>, AcmeError> {
        let db = &self.parts.db;
        let mut listeners = Vec::new();
        for site in db.sites().await? {
            let of_site = db.list::<Listener>(SiteId(site.id)).await?;
            for listener in of_site.into_iter().map(|stored| stored.noun) {
                let (Some(acme), Ok(key)) = (listener.tls.acme.clone(), listener.own_tls_key())
                else {
                    continue;
                };
                if !listener.enabled {
                    continue;
                }
                let settings = serde_json::to_string(&acme)
                    .map_err(|error| AcmeError::Answer(error.to_string()))?;
                let place = ListenerPlace { site: SiteId(site.id), listener: listener.name };
                let shown = self.shown(place.site, &key).await?;
                let site = site.noun.name.clone();
                let is_same = |old: &&Wanted| old.place == place && old.settings == settings;
                let is_settled = before.iter().find(is_same).is_some_and(|old| old.is_settled);
                listeners.push(Wanted { place, site, key, acme, settings, shown, is_settled });
            }
        }
        Ok(listeners)
    }

    fn is_due(&self, wanted: &Wanted, shown: Option<&OwnCertificate>, known: &AcmeOrder) -> bool {
        let settings = Settings { acme: &wanted.acme, text: &wanted.settings };
        due(settings, shown, known, self.parts.env.now()) == Due::Now
    }

    /// The certificate in a key, if there is one that can be read.
    async fn shown(&self, site: SiteId, key: &Name) -> Result<Option<OwnCertificate>, AcmeError> {
        let key = self.parts.db.find::<Key>(site, key).await?;
        Ok(key.and_then(|key| OwnCertificate::read(key.noun.public.as_bytes()).ok()))
    }

    /// Asks for a certificate, unless another node does.
    async fn ask(&self, wanted: &Wanted) -> Result<(), AcmeError> {
        let AcmeParts { db, recorder, .. } = &self.parts;
        let place = &wanted.place;
        if !db.lease_acme_order(place, recorder.node_id(), LEASE).await? {
            return Ok(());
        }
        // The node that had the lease before may have done it.
        let known = db.acme_order(place).await?.unwrap_or_default();
        let shown = self.shown(place.site, &wanted.key).await?;
        if self.is_due(wanted, shown.as_ref(), &known) {
            self.order(wanted, &known).await?;
        }
        Ok(db.release_acme_order(place, recorder.node_id()).await?)
    }

    async fn order(&self, wanted: &Wanted, known: &AcmeOrder) -> Result<(), AcmeError> {
        let AcmeParts { db, master, env, .. } = &self.parts;
        let Wanted { place, site, acme, .. } = wanted;
        let (listener, directory) = (&place.listener, &acme.directory);
        tracing::info!(%listener, directory, "asking for a certificate");
        let bought = Buyer { db, env, master, place, site, acme }.buy().await;
        let kept = match bought {
            Ok(bought) => {
                self.keep(wanted, bought).await.map_err(|error| Failed { error, wait: None })
            }
            Err(failed) => Err(failed),
        };
        match kept {
            Ok(()) => Ok(()),
            Err(failed) => self.failed(wanted, known, failed).await,
        }
    }

    /// Puts the certificate in the place of the one that the listener shows.
    async fn keep(&self, wanted: &Wanted, bought: Bought) -> Result<(), AcmeError> {
        let AcmeParts { db, admin, recorder, .. } = &self.parts;
        let Wanted { place, acme, settings, .. } = wanted;
        let Bought { chain, key: private, says } = bought;
        let is_new = db.find::<Key>(place.site, &wanted.key).await?.is_none();
        let mut key = Key::new(wanted.key.clone(), KeyType::Tls, chain);
        key.private = Some(private);
        key.note = format!("from {}", acme.directory);
        let noun = Box::new(AnyNoun::Key(key));
        let request = if is_new {
            Request::Create { noun }
        } else {
            Request::Replace { noun, if_match: Vec::new() }
        };
        // No name of an account has a colon.
        let actor = Actor::of_machine(format!("node:{}", recorder.node()), place.site);
        admin.handle(&actor, request).await?;
        let (not_before, not_after) = (says.not_before, says.not_after);
        let issued = AcmeIssued { subject: acme.subject(), not_before, not_after };
        db.note_acme_issued(place, &issued, settings).await?;
        let (listener, directory) = (place.listener.clone(), acme.directory.clone());
        tracing::info!(%listener, %not_after, "a certificate came");
        let names = names(acme);
        let certificate = RenewedFact { listener, names, directory, not_after };
        let fact = Fact::CertificateRenewed { certificate };
        self.record(place, fact).await;
        Ok(())
    }

    /// Notes why there is none, and when the authority is asked again.
    async fn failed(
        &self,
        wanted: &Wanted,
        known: &AcmeOrder,
        Failed { error, wait }: Failed,
    ) -> Result<(), AcmeError> {
        let AcmeParts { db, env, .. } = &self.parts;
        let Wanted { place, acme, settings, .. } = wanted;
        let is_same = known.settings.as_ref() == Some(settings);
        let before = known.failure.as_ref().filter(|_| is_same).map_or(0, |failure| failure.count);
        let mut share = [0];
        env.fill_random(&mut share);
        let [share] = share;
        let failures = before.saturating_add(1);
        let retry_at = env.now().plus(pause(failures, wait, share));
        let (code, problem) = (error.code().to_owned(), error.to_string());
        let listener = place.listener.clone();
        tracing::warn!(code, %listener, %retry_at, "no certificate came: {problem}");
        let failure =
            AcmeFailure { count: failures, code: code.clone(), problem: problem.clone(), retry_at };
        db.note_acme_failed(place, &failure, settings).await?;
        let (names, directory) = (names(acme), acme.directory.clone());
        let failure =
            CertificateFailure { listener, names, directory, code, problem, failures, retry_at };
        self.record(place, Fact::CertificateFailed { failure }).await;
        Ok(())
    }

    async fn record(&self, place: &ListenerPlace, fact: Fact) {
        let recorded = self.parts.recorder.record_durable(&Scope::site(place.site), fact).await;
        if let Err(error) = recorded {
            let code = error.code();
            tracing::warn!(code, %error, "what became of a certificate is not recorded");
        }
    }
}

fn names(acme: &Acme) -> Vec<String> {
    acme.names.iter().map(|name| name.as_str().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use entrepot_admin::AdminParts;
    use entrepot_nouns::NodeId;
    use entrepot_testbed::{Testbed, events, name};
    use serde_json::json;

    use super::*;

    struct Bench {
        bed: Testbed,
        admin: Arc<Admin>,
        worker: CertificateWorker,
    }

    /// A node with a listener whose authority nobody answers for.
    async fn bench() -> Bench {
        let bed = Testbed::start_in_memory(Env::simulated(1)).await;
        let admin = Arc::new(Admin::new(AdminParts {
            db: bed.db.clone(),
            master: bed.master.clone(),
            recorder: bed.recorder.clone(),
            directory: None,
            env: bed.env.clone(),
        }));
        let worker = CertificateWorker::new(AcmeParts {
            db: bed.db.clone(),
            admin: admin.clone(),
            master: bed.master.clone(),
            recorder: bed.recorder.clone(),
            env: bed.env.clone(),
        });
        let bench = Bench { bed, admin, worker };
        bench
            .ask(json!({"request": "create", "noun": {"listener": {
                "name": "web", "protocol": "https", "address": "127.0.0.1:0",
                "tls": {"acme": {
                    // Port 1 of this machine: nobody listens there.
                    "directory": "https://127.0.0.1:1/dir", "names": ["a.example"],
                    "allow_private": true,
                }},
            }}}))
            .await;
        bench
    }

    impl Bench {
        async fn ask(&self, request: serde_json::Value) {
            let request = serde_json::from_value(request).unwrap();
            let actor = Actor::of_machine("cli:test".to_owned(), SiteId::MAIN);
            self.admin.handle(&actor, request).await.unwrap();
        }

        async fn known(&self) -> AcmeOrder {
            let place = ListenerPlace { site: SiteId::MAIN, listener: name("web") };
            self.bed.db.acme_order(&place).await.unwrap().unwrap_or_default()
        }

        /// How often it has failed, as the audit log tells.
        fn failures(&self) -> Vec<(String, u64)> {
            let facts = events(&self.bed.journal).into_iter().map(|event| event.fact);
            let failures = facts.filter_map(|fact| match fact {
                Fact::CertificateFailed { failure } => Some((failure.code, failure.failures)),
                _ => None,
            });
            failures.collect()
        }
    }

    #[tokio::test]
    async fn what_fails_is_recorded_and_tried_again_later_and_later() {
        let bench = bench().await;
        let failed = |count| ("EP1130".to_owned(), count);
        bench.worker.pass().await;
        assert!(bench.failures().is_empty(), "other nodes may not answer yet");
        bench.worker.pass().await;
        assert_eq!(bench.failures(), [failed(1)]);
        let known = bench.known().await;
        let first = known.failure.unwrap();
        assert!(first.problem.starts_with("the authority cannot be reached"), "{first:?}");
        let pause = first.retry_at.since(bench.bed.env.now());
        assert!(pause >= Duration::from_secs(15 * 60), "{pause:?}");
        bench.worker.pass().await;
        assert_eq!(bench.failures().len(), 1, "it was not waited for");
        bench.bed.env.advance(pause);
        bench.worker.pass().await;
        assert_eq!(bench.failures(), [failed(1), failed(2)]);
        let second = bench.known().await.failure.unwrap();
        assert!(second.retry_at.since(bench.bed.env.now()) >= Duration::from_secs(30 * 60));
        // An administrator wants it now.
        bench.ask(json!({"request": "renew-certificate", "listener": "web"})).await;
        assert!(bench.known().await.asked);
        bench.worker.pass().await;
        assert_eq!(bench.failures().len(), 3);
        assert!(!bench.known().await.asked);
        // So does one who has corrected the settings; failures count anew.
        let patch = json!({"tls": {"acme": {"names": ["b.example"]}}});
        bench
            .ask(json!({"request": "change", "kind": "listener", "name": "web", "patch": patch}))
            .await;
        bench.worker.pass().await;
        assert_eq!(bench.failures().len(), 3);
        bench.worker.pass().await;
        assert_eq!(bench.failures().pop(), Some(failed(1)));
    }

    #[tokio::test]
    async fn another_node_that_asks_is_left_alone_and_who_has_no_listener_asks_nobody() {
        let bench = bench().await;
        let place = ListenerPlace { site: SiteId::MAIN, listener: name("web") };
        let other: NodeId = bench.bed.env.new_id();
        let lease = Duration::from_secs(60);
        assert!(bench.bed.db.lease_acme_order(&place, other, lease).await.unwrap());
        bench.worker.pass().await;
        bench.worker.pass().await;
        assert!(bench.failures().is_empty());
        // It died.
        bench.bed.env.advance(lease + Duration::from_secs(1));
        bench.worker.pass().await;
        assert_eq!(bench.failures().len(), 1);
        bench.ask(json!({"request": "delete", "kind": "listener", "name": "web"})).await;
        bench.bed.env.advance(Duration::from_secs(86_400));
        bench.worker.pass().await;
        assert_eq!(bench.failures().len(), 1);
        assert_eq!(bench.known().await, AcmeOrder::default());
    }
}
