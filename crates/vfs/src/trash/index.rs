//! What was removed or replaced, as the database has it and as this node knows better: a client
//! that removed a file can put it back at once, though the record of it is not in the database yet.

use std::collections::BTreeMap;
use std::sync::Arc;

use entrepot_db::{Db, DbError, TrashPlace};
use entrepot_nouns::{Endpoint, Event, EventId, Name, NodeId, SiteId, Stored, Timestamp};
use parking_lot::Mutex;

use crate::book::Book;
use crate::error::{Result, VfsError};
use crate::limits;

/// What was removed on all nodes.
pub(crate) struct TrashIndex {
    book: Arc<Book>,
    db: Db,
    node: NodeId,
    recent: Mutex<Recent>,
}

/// What this node has recorded and the database may not have yet: with the last record of the
/// journal at that time.
#[derive(Default)]
struct Recent {
    added: BTreeMap<EventId, (u64, Event)>,
    /// Put back, or deleted for good.
    ended: BTreeMap<EventId, u64>,
}

/// A page of events, the newest first.
pub(crate) struct IndexPage {
    pub(crate) events: Vec<Event>,
    /// There are more behind this one; `None`: there are none.
    pub(crate) end: Option<EventId>,
}

impl TrashIndex {
    pub(crate) fn new(book: Arc<Book>, db: Db, node: NodeId) -> TrashIndex {
        TrashIndex { book, db, node, recent: Mutex::default() }
    }

    /// Something was removed; its event is in the journal.
    pub(crate) fn add(&self, event: Event) {
        let record = self.book.appended();
        let mut recent = self.recent.lock();
        recent.added.insert(event.id, (record, event));
        if recent.added.len() > limits::TRASH_REMEMBERED {
            recent.added.pop_first();
        }
    }

    /// It was put back or deleted for good; the event that says so is in the journal.
    pub(crate) fn end(&self, id: EventId) {
        let record = self.book.appended();
        let mut recent = self.recent.lock();
        recent.added.remove(&id);
        recent.ended.insert(id, record);
        if recent.ended.len() > limits::TRASH_REMEMBERED {
            recent.ended.pop_first();
        }
    }

    /// The event by which something was removed, as long as it can be put back.
    pub(crate) async fn find(&self, site: SiteId, id: EventId) -> Result<Option<Event>> {
        {
            let recent = self.recent.lock();
            if recent.ended.contains_key(&id) {
                return Ok(None);
            }
            if let Some((_, event)) = recent.added.get(&id) {
                return Ok(Some(event.clone()).filter(|event| event.site == site));
            }
        }
        self.db.trashed(site, id).await.map_err(away)
    }

    /// A page of what was removed at a place.
    pub(crate) async fn newest(
        &self,
        place: TrashPlace<'_>,
        behind: Option<EventId>,
        limit: u32,
    ) -> Result<IndexPage> {
        // Before the rows are read: what is forgotten here is among them.
        let reached = self.db.projected_up_to(self.node).await.map_err(away)?;
        self.forget(reached);
        let mut events = self.db.newest_trash(place, behind, limit).await.map_err(away)?;
        let most = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut is_cut = events.len() >= most;
        let recent = self.recent.lock();
        let is_here = |event: &Event| {
            let is_behind = behind.is_none_or(|behind| event.id < behind);
            is_behind && TrashPlace::of(event) == Some(place)
        };
        let added = recent.added.values().map(|(_, event)| event);
        events.extend(added.filter(|event| is_here(event)).cloned());
        events.sort_by_key(|event| std::cmp::Reverse(event.id));
        events.dedup_by_key(|event| event.id);
        is_cut |= events.len() > most;
        events.truncate(most);
        let end = events.last().filter(|_| is_cut).map(|event| event.id);
        events.retain(|event| !recent.ended.contains_key(&event.id));
        Ok(IndexPage { events, end })
    }

    /// What is to be deleted for good: its time is over at `now`, or there is too much of it.
    pub(crate) async fn over(&self, now: Timestamp, after: Option<EventId>) -> Result<Vec<Event>> {
        self.db.trash_over(now, after, limits::TRASH_BATCH).await.map_err(away)
    }

    /// What was removed where bytes are limited, and whose bytes nobody has counted.
    pub(crate) async fn uncounted(&self, after: Option<EventId>) -> Result<Vec<Event>> {
        self.db.uncounted_trash(after, limits::TRASH_BATCH).await.map_err(away)
    }

    /// Notes how many bytes something has.
    pub(crate) async fn counted(&self, id: EventId, bytes: u64) -> Result<()> {
        self.db.count_trash(id, bytes).await.map_err(away)
    }

    /// The endpoint that keeps something.
    pub(crate) async fn endpoint(
        &self,
        site: SiteId,
        name: &Name,
    ) -> Result<Option<Stored<Endpoint>>> {
        self.db.find::<Endpoint>(site, name).await.map_err(away)
    }

    /// Forgets what the database has.
    fn forget(&self, reached: u64) {
        let mut recent = self.recent.lock();
        recent.added.retain(|_, (record, _)| *record > reached);
        recent.ended.retain(|_, record| *record > reached);
    }
}

fn away(error: DbError) -> VfsError {
    tracing::warn!(code = error.code(), %error, "what was removed cannot be looked up");
    VfsError::busy("what was removed cannot be looked up now")
}
