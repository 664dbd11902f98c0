//! New events for all who follow them: one reader of the database for each site that is followed,
//! however many follow.

use std::collections::HashMap;
use std::sync::Arc;

use axum::body::Bytes;
use entrepot_admin::{Actor, Admin, EventQuery, NumberedEvent, Request, Response as Answer};
use entrepot_nouns::SiteId;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::limits::{FEED_EVENTS, FEED_INTERVAL, FEED_PAGE, STREAMS_OF_EVENTS};

/// An event as it is sent, made once for all who follow.
pub(crate) struct FedEvent {
    pub(crate) numbered: NumberedEvent,
    /// Its form in a stream of events.
    pub(crate) text: Bytes,
}

impl FedEvent {
    /// `None`: it has no JSON form.
    pub(crate) fn new(numbered: NumberedEvent) -> Option<Self> {
        let data = serde_json::to_string(&numbered).ok()?;
        let (id, kind) = (numbered.sequence, numbered.event.fact.kind());
        let text = Bytes::from(format!("id: {id}\nevent: {kind}\ndata: {data}\n\n"));
        Some(FedEvent { numbered, text })
    }
}

/// The readers of the sites that are followed.
pub(crate) struct Feeds {
    shared: Arc<Shared>,
    followers: Arc<Semaphore>,
    /// Readers end with this.
    _end: DropGuard,
}

struct Shared {
    admin: Arc<Admin>,
    projected: watch::Receiver<u64>,
    sites: Mutex<HashMap<SiteId, broadcast::Sender<Arc<FedEvent>>>>,
    end: CancellationToken,
}

/// One who follows the events of a site.
pub(crate) struct Follower {
    pub(crate) events: broadcast::Receiver<Arc<FedEvent>>,
    _place: OwnedSemaphorePermit,
}

impl Feeds {
    pub(crate) fn new(admin: Arc<Admin>, projected: watch::Receiver<u64>) -> Self {
        let end = CancellationToken::new();
        let (sites, guard) = (Mutex::default(), end.clone().drop_guard());
        let shared = Arc::new(Shared { admin, projected, sites, end });
        Feeds { shared, followers: Arc::new(Semaphore::new(STREAMS_OF_EVENTS)), _end: guard }
    }

    /// A place among those who follow anything; `None`: there are too many.
    pub(crate) fn place(&self) -> Option<OwnedSemaphorePermit> {
        self.followers.clone().try_acquire_owned().ok()
    }

    /// Cancelled when the readers are to end.
    pub(crate) fn end(&self) -> CancellationToken {
        self.shared.end.clone()
    }

    /// One more who follows a site: every event that is committed from now on comes, unless the
    /// follower is slow. `None`: there are too many.
    pub(crate) fn follow(&self, site: SiteId) -> Option<Follower> {
        let place = self.place()?;
        let mut sites = self.shared.sites.lock();
        let events = match sites.get(&site) {
            Some(sender) => sender.subscribe(),
            None => {
                let (sender, events) = broadcast::channel(FEED_EVENTS);
                sites.insert(site, sender.clone());
                // It ends with the last follower, or with the feeds.
                tokio::spawn(self.shared.clone().read(site, sender));
                events
            }
        };
        Some(Follower { events, _place: place })
    }
}

impl Shared {
    /// Sends what is new whenever this node has projected something, and now and then for what
    /// other nodes have.
    async fn read(self: Arc<Self>, site: SiteId, sender: broadcast::Sender<Arc<FedEvent>>) {
        let mut projected = self.projected.clone();
        let mut ticks = tokio::time::interval(FEED_INTERVAL);
        let mut after = None;
        loop {
            after = match after {
                None => self.newest(site).await,
                Some(after) => Some(self.send(site, after, &sender).await),
            };
            let projects = async {
                // A node that projects no more still sees what the others do.
                if projected.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            tokio::select! {
                () = self.end.cancelled() => return,
                () = projects => {}
                _ = ticks.tick() => {}
            }
            if self.is_over(site, &sender) {
                return;
            }
        }
    }

    /// Nobody follows the site any more; then its reader ends.
    fn is_over(&self, site: SiteId, sender: &broadcast::Sender<Arc<FedEvent>>) -> bool {
        let mut sites = self.sites.lock();
        let is_over = sender.receiver_count() == 0;
        if is_over {
            sites.remove(&site);
        }
        is_over
    }

    /// The last sequence of the site; `None`: the database does not say.
    async fn newest(&self, site: SiteId) -> Option<i64> {
        let filter = EventQuery { limit: Some(1), ..EventQuery::default() };
        let EventsFound { events, .. } = events(&self.admin, site, filter).await?;
        Some(events.last().map_or(0, |event| event.sequence))
    }

    /// Sends what comes behind this sequence. Gives back the last one that was sent.
    async fn send(
        &self,
        site: SiteId,
        mut after: i64,
        sender: &broadcast::Sender<Arc<FedEvent>>,
    ) -> i64 {
        loop {
            let filter =
                EventQuery { after: Some(after), limit: Some(FEED_PAGE), ..EventQuery::default() };
            let Some(found) = events(&self.admin, site, filter).await else { return after };
            for numbered in found.events {
                after = numbered.sequence;
                if let Some(event) = FedEvent::new(numbered) {
                    // Those who follow may be gone by now.
                    let _ = sender.send(Arc::new(event));
                }
            }
            match found.next {
                Some(next) => after = next,
                None => return after,
            }
        }
    }
}

/// A page of events.
pub(crate) struct EventsFound {
    /// The events, oldest first.
    pub(crate) events: Vec<NumberedEvent>,
    /// The sequence to go on from; `None`: there are no more now.
    pub(crate) next: Option<i64>,
}

/// Events of a site; `None`: the database is away, and what is missing now comes later.
pub(crate) async fn events(admin: &Admin, site: SiteId, filter: EventQuery) -> Option<EventsFound> {
    let actor = Actor::of_machine("api:feed".to_owned(), site);
    match admin.handle(&actor, Request::Events { filter }).await {
        Ok(Answer::Events { events, next }) => Some(EventsFound { events, next }),
        Ok(_) => None,
        Err(error) => {
            tracing::debug!(%error, "new events cannot be read now");
            None
        }
    }
}
