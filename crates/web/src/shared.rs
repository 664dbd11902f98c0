//! What all connections of one listener share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use entrepot_admin::Admin;
use entrepot_auth::Gate;
use entrepot_nouns::{Env, Name, SiteId};
use entrepot_vfs::{ListenerContext, Service};
use tokio::sync::{Semaphore, watch};

use crate::as2::places::MessagePlaces;
use crate::config::WebConfig;
use crate::dav::dav_locks::DavLocks;
use crate::limits::HOOKS;
use crate::links::counted::CountedDownloads;
use crate::pending::PendingSignIns;
use crate::sessions::Sessions;

/// What all connections of one listener share.
pub(crate) struct ListenerShared {
    context: ListenerContext,
    admin: Arc<Admin>,
    /// How the listener presents itself now.
    config: watch::Receiver<WebConfig>,
    pub(crate) sessions: Sessions,
    /// Browsers that have shown a password and not yet the code that must follow.
    pub(crate) pending: PendingSignIns,
    pub(crate) dav_locks: DavLocks,
    /// Downloads of share links that are counted, and may be resumed.
    pub(crate) counted_downloads: CountedDownloads,
    /// Web hooks whose bodies are in memory before it is known who sends them.
    pub(crate) web_hooks: Semaphore,
    /// Messages of AS2 that are received or wait for their publish.
    pub(crate) as2_messages: MessagePlaces,
    /// Messages of AS2 that are published.
    pub(crate) as2_at_once: MessagePlaces,
    /// Requests that are worked on, over all connections.
    running: AtomicUsize,
    pub(crate) router: Router,
}

/// What a listener is made from.
pub(crate) struct SharedParts {
    pub(crate) context: ListenerContext,
    pub(crate) config: watch::Receiver<WebConfig>,
    pub(crate) dav_locks: DavLocks,
    pub(crate) admin: Arc<Admin>,
}

/// A request that counts among those that are worked on, until it is dropped.
pub(crate) struct CountedRequest(Arc<ListenerShared>);

impl ListenerShared {
    pub(crate) fn new(parts: SharedParts, router: Router) -> Self {
        let SharedParts { context, config, dav_locks, admin } = parts;
        let sessions = Sessions::new(context.env.clone());
        let pending = PendingSignIns::new(context.env.clone());
        let counted_downloads = CountedDownloads::new(context.env.clone());
        let running = AtomicUsize::new(0);
        ListenerShared {
            context,
            admin,
            config,
            sessions,
            pending,
            dav_locks,
            counted_downloads,
            web_hooks: Semaphore::new(HOOKS),
            as2_messages: MessagePlaces::default(),
            as2_at_once: MessagePlaces::default(),
            running,
            router,
        }
    }

    /// The site of the listener: accounts of others sign in only by a host name.
    pub(crate) fn site(&self) -> SiteId {
        self.context.site
    }

    pub(crate) fn listener(&self) -> &Name {
        &self.context.listener
    }

    /// True if the listener asks clients for the same certificates now as when a connection came:
    /// else what was shown then counts no longer.
    pub(crate) fn asks_as(&self, before: &WebConfig) -> bool {
        self.config.borrow().clients() == before.clients()
    }

    /// The administration of the node.
    pub(crate) fn admin(&self) -> &Admin {
        &self.admin
    }

    pub(crate) fn gate(&self) -> &Gate {
        &self.context.gate
    }

    pub(crate) fn vfs(&self) -> &Service {
        &self.context.vfs
    }

    pub(crate) fn env(&self) -> &Env {
        &self.context.env
    }

    /// Requests that are worked on.
    pub(crate) fn running(&self) -> usize {
        self.running.load(Ordering::Relaxed)
    }

    /// Counts one more request; `None`: as many as `most` are worked on already.
    pub(crate) fn begin_request(self: &Arc<Self>, most: usize) -> Option<CountedRequest> {
        let counted = CountedRequest(Arc::clone(self));
        let before = self.running.fetch_add(1, Ordering::Relaxed);
        (before < most).then_some(counted)
    }
}

impl Drop for CountedRequest {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}
