//! What happens on this node at this moment, for all who follow it: one reader for each site and
//! subject that is followed, however many follow. The reader sleeps until the files of the node
//! say that something began or ended; only numbers that move all the time are looked at once a
//! second.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use entrepot_admin::{Actor, Admin, Request, Response as Answer, SessionRow};
use entrepot_nouns::{Env, Kind, Name, SessionId, SessionInfo, SiteId, TransferId};
use entrepot_vfs::{MovingTransfer, Service};
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::{broadcast, watch};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::limits::{LIVE_MESSAGES, LIVE_PAUSE, LIVE_ROWS, LIVE_TICK};

/// What can be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LiveSubject {
    /// Sessions that open and end.
    Sessions,
    /// Transfers that begin, move and end.
    Transfers,
    /// How much everything together moves.
    Throughput,
}

/// Where the live state of a node is read.
#[derive(Clone)]
pub struct LiveSource {
    /// The files of the node, with who works at them.
    pub vfs: Service,
    /// The clock that rates are measured by.
    pub env: Env,
}

/// What is followed at a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Followed {
    site: SiteId,
    subject: LiveSubject,
}

/// The readers of what is followed.
pub(crate) struct LiveFeeds(Arc<Shared>);

struct Shared {
    admin: Arc<Admin>,
    source: LiveSource,
    followed: Mutex<HashMap<Followed, broadcast::Sender<Bytes>>>,
    end: CancellationToken,
}

/// A transfer that moves at this moment.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct LiveTransfer {
    /// What moves, and how far it is.
    #[serde(flatten)]
    transfer: MovingTransfer,
    /// The account of its session.
    account: Option<Name>,
    /// Bytes a second since it was looked at last.
    bytes_per_second: u64,
}

/// How much moves, all sessions together.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Throughput {
    /// When it was measured, of the clock of this node.
    at: entrepot_nouns::Timestamp,
    /// Bytes a second on the wire from clients.
    in_per_second: u64,
    /// Bytes a second on the wire to clients.
    out_per_second: u64,
    /// Sessions that are open.
    sessions: usize,
    /// Transfers that move.
    transfers: usize,
}

impl LiveFeeds {
    pub(crate) fn new(admin: Arc<Admin>, source: LiveSource, end: CancellationToken) -> Self {
        LiveFeeds(Arc::new(Shared { admin, source, followed: Mutex::default(), end }))
    }

    /// One more who follows: what happens from now on comes, as server-sent events.
    pub(crate) fn follow(&self, site: SiteId, subject: LiveSubject) -> broadcast::Receiver<Bytes> {
        let key = Followed { site, subject };
        let mut followed = self.0.followed.lock();
        if let Some(sender) = followed.get(&key) {
            return sender.subscribe();
        }
        let (sender, messages) = broadcast::channel(LIVE_MESSAGES);
        followed.insert(key, sender.clone());
        // It ends with the last follower, or with the feeds.
        let reader = Reader::new(Arc::clone(&self.0), key);
        tokio::spawn(reader.read(sender));
        messages
    }
}

impl Shared {
    fn is_over(&self, key: Followed, sender: &broadcast::Sender<Bytes>) -> bool {
        let mut followed = self.followed.lock();
        let is_over = sender.receiver_count() == 0;
        if is_over {
            followed.remove(&key);
        }
        is_over
    }
}

/// Completes with the next change; never, if there is none any more.
async fn changed(changes: &mut watch::Receiver<u64>) {
    if changes.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// What a reader saw last.
struct Reader {
    shared: Arc<Shared>,
    key: Followed,
    changes: watch::Receiver<u64>,
    sites: HashMap<SiteId, Name>,
    sessions: HashMap<SessionId, SessionInfo>,
    transfers: HashMap<TransferId, LiveTransfer>,
    at: Duration,
}

impl Reader {
    /// What was before is known from here on: who follows lists it.
    fn new(shared: Arc<Shared>, key: Followed) -> Self {
        let changes = shared.source.vfs.meters().changes();
        let mut reader = Reader {
            at: shared.source.env.elapsed(),
            shared,
            key,
            changes,
            sites: HashMap::new(),
            sessions: HashMap::new(),
            transfers: HashMap::new(),
        };
        reader.sessions = reader.open_sessions();
        reader.transfers = reader.moving(&reader.sessions, 1_000);
        reader
    }

    async fn read(mut self, sender: broadcast::Sender<Bytes>) {
        let (shared, key) = (Arc::clone(&self.shared), self.key);
        let mut ticks = tokio::time::interval(LIVE_TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let wakes_by_time = key.subject != LiveSubject::Sessions;
            let looks = async {
                tokio::select! {
                    () = changed(&mut self.changes), if key.subject != LiveSubject::Throughput => {}
                    _ = ticks.tick(), if wakes_by_time => {}
                }
            };
            tokio::select! {
                () = shared.end.cancelled() => return,
                () = looks => {}
                () = sender.closed() => {}
            }
            if shared.is_over(key, &sender) {
                return;
            }
            for message in self.look().await {
                // Those who follow may be gone by now.
                let _ = sender.send(message);
            }
            // What comes in between is seen together with the next change.
            tokio::time::sleep(LIVE_PAUSE).await;
        }
    }

    /// The messages that say what is new.
    async fn look(&mut self) -> Vec<Bytes> {
        let now = self.shared.source.env.elapsed();
        let millis = u64::try_from(now.saturating_sub(self.at).as_millis()).unwrap_or(u64::MAX);
        let sessions = self.open_sessions();
        let messages = match self.key.subject {
            LiveSubject::Sessions => self.sessions_changed(&sessions, millis.max(1)).await,
            LiveSubject::Transfers => self.transfers_changed(&sessions, millis.max(1)),
            LiveSubject::Throughput => self.throughput(&sessions, millis.max(1)),
        };
        (self.sessions, self.at) = (sessions, now);
        messages
    }

    /// The site `main` owns all others, so it sees every session of the node.
    fn open_sessions(&self) -> HashMap<SessionId, SessionInfo> {
        let sessions = self.shared.source.vfs.sessions().into_iter();
        let visible =
            sessions.filter(|it| self.key.site == SiteId::MAIN || it.site == self.key.site);
        visible.map(|session| (session.id, session)).collect()
    }

    async fn sessions_changed(
        &mut self,
        sessions: &HashMap<SessionId, SessionInfo>,
        millis: u64,
    ) -> Vec<Bytes> {
        let is_new = |id: &SessionId| !self.sessions.contains_key(id);
        let opened: Vec<_> = sessions.values().filter(|it| is_new(&it.id)).cloned().collect();
        let is_gone = |id: &SessionId| !sessions.contains_key(id);
        let ended: Vec<_> = self.sessions.values().filter(|it| is_gone(&it.id)).cloned().collect();
        let mut messages = Vec::new();
        for (kind, session) in ended
            .into_iter()
            .map(|it| ("ended", it))
            .chain(opened.into_iter().map(|it| ("opened", it)))
        {
            let before = self.sessions.get(&session.id).unwrap_or(&session);
            let in_per_second = per_second(session.wire_in, before.wire_in, millis);
            let out_per_second = per_second(session.wire_out, before.wire_out, millis);
            let site = self.site_name(session.site).await;
            let row = SessionRow { site, session, in_per_second, out_per_second };
            messages.extend(message(kind, &row));
        }
        messages
    }

    fn transfers_changed(
        &mut self,
        sessions: &HashMap<SessionId, SessionInfo>,
        millis: u64,
    ) -> Vec<Bytes> {
        let now = self.moving(sessions, millis);
        let known: HashSet<TransferId> = self.transfers.keys().copied().collect();
        let of = |ids: &dyn Fn(&LiveTransfer) -> bool, all: &HashMap<TransferId, LiveTransfer>| {
            let mut rows: Vec<LiveTransfer> = all.values().filter(|it| ids(it)).cloned().collect();
            rows.sort_by_key(|row| row.transfer.started_at);
            rows
        };
        let begun = of(&|it| !known.contains(&it.transfer.id), &now);
        let moved = of(&|it| known.contains(&it.transfer.id) && it.bytes_per_second > 0, &now);
        let ended = of(&|it| !now.contains_key(&it.transfer.id), &self.transfers);
        self.transfers = now;
        let mut messages = Vec::new();
        for (kind, rows) in [("ended", ended), ("begun", begun), ("progress", moved)] {
            messages.extend(rows.chunks(LIVE_ROWS).filter_map(|rows| message(kind, &rows)));
        }
        messages
    }

    fn moving(
        &self,
        sessions: &HashMap<SessionId, SessionInfo>,
        millis: u64,
    ) -> HashMap<TransferId, LiveTransfer> {
        let moving = self.shared.source.vfs.moving().into_iter();
        let visible = moving.filter_map(|transfer| {
            let session = transfer.session.and_then(|id| sessions.get(&id));
            if session.is_none() && self.key.site != SiteId::MAIN {
                return None;
            }
            let account = session.map(|session| session.account.clone());
            let before = self.transfers.get(&transfer.id);
            let before = before.map_or(transfer.bytes, |before| before.transfer.bytes);
            let bytes_per_second = per_second(transfer.bytes, before, millis);
            Some((transfer.id, LiveTransfer { transfer, account, bytes_per_second }))
        });
        visible.collect()
    }

    fn throughput(&self, sessions: &HashMap<SessionId, SessionInfo>, millis: u64) -> Vec<Bytes> {
        let (mut received, mut sent) = (0_u64, 0_u64);
        for session in sessions.values() {
            let before = self.sessions.get(&session.id);
            let (wire_in, wire_out) = before.map_or((0, 0), |it| (it.wire_in, it.wire_out));
            received = received.saturating_add(session.wire_in.saturating_sub(wire_in));
            sent = sent.saturating_add(session.wire_out.saturating_sub(wire_out));
        }
        let all = Throughput {
            at: self.shared.source.env.now(),
            in_per_second: per_second(received, 0, millis),
            out_per_second: per_second(sent, 0, millis),
            sessions: sessions.len(),
            transfers: self.moving(sessions, millis).len(),
        };
        message("throughput", &all).into_iter().collect()
    }

    /// The name of a site; its id while the database cannot be asked.
    async fn site_name(&mut self, id: SiteId) -> String {
        if !self.sites.contains_key(&id) {
            let actor = Actor::of_machine("api:feed".to_owned(), SiteId::MAIN);
            let limit = Some(entrepot_admin::limits::QUERY_ROWS);
            let (filter, sort, after) = (Vec::new(), None, None);
            let sites = Request::List { kind: Kind::Site, filter, sort, after, limit };
            if let Ok(Answer::Nouns { nouns, .. }) = self.shared.admin.handle(&actor, sites).await {
                let named = nouns.into_iter().map(|it| (SiteId(it.id), it.noun.name().clone()));
                self.sites = named.collect();
            }
        }
        self.sites.get(&id).map_or_else(|| id.0.to_string(), Name::to_string)
    }
}

fn per_second(now: u64, before: u64, millis: u64) -> u64 {
    now.saturating_sub(before).saturating_mul(1_000) / millis
}

/// A server-sent event; `None`: it has no JSON form.
fn message(kind: &str, data: &impl Serialize) -> Option<Bytes> {
    let data = serde_json::to_string(data).ok()?;
    Some(Bytes::from(format!("event: {kind}\ndata: {data}\n\n")))
}
