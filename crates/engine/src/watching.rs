//! Rules that start on files of a folder that others write to. One node lists each folder, by a
//! lease; what it finds is an event whose id follows from rule, path, size and time, so that
//! finding a version twice finds it once; the rule starts on that event like on any other.
//!
//! An event is in the journal before the row that notes its file: a crash between the two finds
//! the version once more, under the same id.

mod look;
mod seen;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use entrepot_db::{Db, DbError, WatchLease, WatchedFile};
use entrepot_journal::{Recorder, Scope};
use entrepot_nouns::event::WatchedFolder;
use entrepot_nouns::noun::Stored;
use entrepot_nouns::watch::{Watch, WatchChange};
use entrepot_nouns::{Endpoint, Event, Fact, Name, Rule, SiteId};
use entrepot_storage::AnyStore;
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::backoff::Away;
use crate::ids;
use crate::limits::{
    CRON_BATCH, CRON_WAIT, WATCH_AT_ONCE, WATCH_FORGET, WATCH_HINT_PAUSE, WATCH_LEASE,
    WATCH_LOOK_TIME, WATCH_PAUSE, WATCH_TICK,
};
use crate::membership::Membership;
use crate::meters::Meters;
use look::{Looked, Moment};
use seen::{Found, Seen, Version};

/// What watches folders works with.
pub(crate) struct WatcherParts {
    pub(crate) db: Db,
    pub(crate) recorder: Recorder,
    pub(crate) membership: Arc<Membership>,
    pub(crate) stores: Box<dyn Stores>,
    pub(crate) meters: Arc<Meters>,
    /// How long jobs are leased: how far off the clock of the node may be follows from it.
    pub(crate) lease: Duration,
}

/// Opens the stores of endpoints.
#[async_trait]
pub(crate) trait Stores: Send + Sync {
    /// The store of an endpoint, or why it cannot be opened.
    async fn store(&self, endpoint: &Stored<Endpoint>) -> Result<AnyStore, String>;
}

/// Watches folders until `stop`.
pub(crate) async fn run(parts: WatcherParts, stop: CancellationToken) {
    if !parts.membership.is_counted(&stop).await {
        return;
    }
    let mut watcher = Watcher::new(Arc::new(parts));
    let mut away = Away::new();
    while !stop.is_cancelled() {
        let pause = match watcher.tend().await {
            Ok(pause) => {
                away = Away::new();
                pause
            }
            Err(error) => {
                tracing::warn!(code = "EP0801", %error, "watched folders cannot be looked after");
                away.next(watcher.parts.recorder.env())
            }
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            Some(ended) = watcher.looks.join_next() => watcher.ended(ended),
            () = tokio::time::sleep(pause) => {}
        }
    }
    watcher.looks.shutdown().await;
    watcher.release().await;
}

/// A folder that an enabled rule watches, as it is configured.
#[derive(Clone, Debug, PartialEq)]
struct Folder {
    rule: Uuid,
    site: SiteId,
    name: Name,
    watch: Watch,
    endpoint: Stored<Endpoint>,
}

impl Folder {
    /// What the files that are noted are of.
    fn place(&self) -> String {
        format!("{}{}", self.endpoint.id, self.watch.path)
    }
}

/// What is known of a folder that this node lists.
#[derive(Debug, Default)]
struct State {
    /// `None`: what was noted is not read yet.
    seen: Option<Seen>,
    /// Files that are told of and not noted, because the database was away.
    unnoted: Vec<WatchedFile>,
    /// Looks that failed in a row.
    failures: u32,
}

/// A watched folder.
struct Entry {
    folder: Arc<Folder>,
    /// `None` while a look is under way.
    state: Option<State>,
    /// The look under way, or the last one.
    task: Option<Id>,
    /// When the next look is due, by `Env::elapsed`.
    due: Duration,
    /// This node lists it until then.
    ours_until: Duration,
    /// What was noted is to be read again before the next look.
    is_stale: bool,
    /// How often somebody had had a file found anew when the lease was last kept.
    anew: i64,
    /// How often somebody had said that there is something new, when this node looked last.
    hints: i64,
    /// What was said last is not looked after yet.
    is_hinted: bool,
    /// What came then may be found whole from this moment on.
    follow_at: Duration,
    /// When it was listed last.
    listed_at: Duration,
}

impl Entry {
    /// Of a folder that this node has not listed.
    fn new(folder: Folder) -> Entry {
        Entry {
            folder: Arc::new(folder),
            state: Some(State::default()),
            task: None,
            due: Duration::ZERO,
            ours_until: Duration::ZERO,
            is_stale: true,
            anew: 0,
            hints: 0,
            is_hinted: false,
            follow_at: Duration::ZERO,
            listed_at: Duration::ZERO,
        }
    }

    /// There is something new in the folder.
    fn hint(&mut self, now: Duration) {
        let stable = self.folder.watch.stable.duration();
        self.is_hinted = true;
        self.follow_at = now.saturating_add(stable).saturating_add(WATCH_HINT_PAUSE);
        if self.state.is_some() {
            let soonest = self.listed_at.saturating_add(WATCH_HINT_PAUSE).max(now);
            self.due = self.due.min(soonest);
        }
    }

    /// When the folder is to be listed again, that was listed just now, if that were `wait` later
    /// by itself.
    fn listed(&mut self, now: Duration, wait: Duration) {
        self.due = now.saturating_add(wait);
        self.listed_at = now;
        if std::mem::take(&mut self.is_hinted) {
            self.due = self.due.min(now.saturating_add(WATCH_HINT_PAUSE));
        } else if self.follow_at > now {
            self.due = self.due.min(self.follow_at);
        }
    }
}

/// A look that has ended.
struct EndedLook {
    folder: Arc<Folder>,
    state: State,
}

struct Watcher {
    parts: Arc<WatcherParts>,
    /// Of the configuration that `entries` are from; none before the first look.
    revision: Option<i64>,
    entries: HashMap<Uuid, Entry>,
    looks: JoinSet<EndedLook>,
    /// When the configuration and the leases are due, by `Env::elapsed`.
    revision_at: Duration,
    leases_at: Duration,
}

impl Watcher {
    fn new(parts: Arc<WatcherParts>) -> Watcher {
        Watcher {
            parts,
            revision: None,
            entries: HashMap::new(),
            looks: JoinSet::new(),
            revision_at: Duration::ZERO,
            leases_at: Duration::ZERO,
        }
    }

    /// Does what is due, and says how long nothing will be.
    async fn tend(&mut self) -> Result<Duration, DbError> {
        let env = self.parts.recorder.env().clone();
        // As for jobs: a node that is drained, or whose clock is off, takes no work.
        if !self.parts.membership.may_claim(env.elapsed(), self.parts.lease) {
            if self.entries.values().any(|entry| entry.ours_until > Duration::ZERO) {
                self.release().await;
            }
            return Ok(CRON_WAIT);
        }
        if env.elapsed() >= self.revision_at {
            self.refresh().await?;
            self.revision_at = env.elapsed().saturating_add(WATCH_TICK);
        }
        if env.elapsed() >= self.leases_at {
            self.lease().await?;
            self.leases_at = env.elapsed().saturating_add(WATCH_LEASE / 3);
        }
        self.read_hints().await?;
        let now = env.elapsed();
        for entry in self.entries.values_mut() {
            if self.looks.len() >= WATCH_AT_ONCE {
                break;
            }
            if entry.due > now || entry.ours_until <= now {
                continue;
            }
            if let Some(mut state) = entry.state.take() {
                if std::mem::take(&mut entry.is_stale) {
                    state.seen = None;
                }
                entry.is_hinted = false;
                let (parts, folder) = (self.parts.clone(), entry.folder.clone());
                let look = async move { look_once(parts, folder, state).await };
                entry.task = Some(self.looks.spawn(look).id());
            }
        }
        Ok(self.pause(now))
    }

    /// Reads the rules anew if the configuration has changed.
    async fn refresh(&mut self) -> Result<(), DbError> {
        let db = self.parts.db.clone();
        let revision = db.config_revision().await?;
        if self.revision == Some(revision) {
            return Ok(());
        }
        let (mut folders, mut known) = (HashMap::new(), BTreeSet::new());
        for site in db.sites().await? {
            let site = SiteId(site.id);
            for rule in db.list::<Rule>(site).await? {
                let Some(watch) = rule.noun.when.watch() else { continue };
                // What a disabled rule has found stays known.
                known.insert(rule.id);
                let endpoint = db.find::<Endpoint>(site, &watch.endpoint).await?;
                if let Some(endpoint) = endpoint.filter(|_| rule.noun.enabled) {
                    let (name, watch) = (rule.noun.name.clone(), watch.clone());
                    folders.insert(rule.id, Folder { rule: rule.id, site, name, watch, endpoint });
                }
            }
        }
        if self.revision.is_none() || self.entries.keys().any(|rule| !known.contains(rule)) {
            db.keep_watches(revision, &known).await?;
        }
        let mut before = std::mem::take(&mut self.entries);
        for (rule, folder) in folders {
            let entry = match before.remove(&rule) {
                Some(entry) if *entry.folder == folder => entry,
                _ => Entry::new(folder),
            };
            self.entries.insert(rule, entry);
        }
        self.leases_at = Duration::ZERO;
        self.revision = Some(revision);
        Ok(())
    }

    /// Has folders listed in which there is something new, as web hooks said.
    async fn read_hints(&mut self) -> Result<(), DbError> {
        let now = self.parts.recorder.env().elapsed();
        let takes_hints = |entry: &Entry| entry.folder.watch.hook.is_some();
        let is_listed = |entry: &Entry| entry.ours_until > now && takes_hints(entry);
        if !self.entries.values().any(is_listed) {
            return Ok(());
        }
        let hints = self.parts.db.watch_hints().await?;
        for entry in self.entries.values_mut().filter(|entry| takes_hints(entry)) {
            let given = hints.get(&entry.folder.rule).copied().unwrap_or_default();
            if given != entry.hints {
                entry.hints = given;
                entry.hint(now);
            }
        }
        Ok(())
    }

    /// Keeps the leases of this node, and takes those that nobody has.
    async fn lease(&mut self) -> Result<(), DbError> {
        let (db, node) = (self.parts.db.clone(), self.parts.recorder.node_id());
        let env = self.parts.recorder.env().clone();
        for entry in self.entries.values_mut() {
            let folder = &entry.folder;
            let asked = env.elapsed();
            let lease = db.lease_watch(folder.rule, &folder.place(), node, WATCH_LEASE).await?;
            let was_ours = entry.ours_until > asked;
            match lease {
                WatchLease::Ours { anew } => {
                    entry.ours_until = asked.saturating_add(WATCH_LEASE);
                    // Another node may have found files meanwhile.
                    entry.is_stale |= !was_ours || entry.anew != anew;
                    entry.anew = anew;
                }
                WatchLease::Elsewhere => entry.ours_until = Duration::ZERO,
            }
        }
        Ok(())
    }

    /// Lets other nodes list what this one does.
    async fn release(&mut self) {
        for entry in self.entries.values_mut() {
            entry.ours_until = Duration::ZERO;
        }
        self.leases_at = Duration::ZERO;
        let released = self.parts.db.release_watches(self.parts.recorder.node_id()).await;
        if let Err(error) = released {
            tracing::warn!(code = "EP0801", %error, "other nodes watch its folders later");
        }
    }

    fn ended(&mut self, ended: Result<EndedLook, JoinError>) {
        let now = self.parts.recorder.env().elapsed();
        let EndedLook { folder, state } = match ended {
            Ok(ended) => ended,
            // A panic was logged where it happened; the folder is begun anew after a while.
            Err(error) => {
                let mut entries = self.entries.values_mut();
                if let Some(entry) = entries.find(|entry| entry.task == Some(error.id())) {
                    entry.state = Some(State::default());
                    entry.due = now.saturating_add(WATCH_PAUSE);
                }
                return;
            }
        };
        let Some(entry) = self.entries.get_mut(&folder.rule) else { return };
        // The rule may have been changed while the folder was listed.
        if !Arc::ptr_eq(&entry.folder, &folder) {
            return;
        }
        let every = folder.watch.every.duration();
        let doubled = every.saturating_mul(1 << state.failures.min(10));
        let wait = if state.failures == 0 { every } else { doubled.min(every.max(WATCH_PAUSE)) };
        entry.listed(now, wait);
        entry.state = Some(state);
    }

    /// How long nothing is due.
    fn pause(&self, now: Duration) -> Duration {
        let due = self.entries.values().filter(|entry| entry.state.is_some());
        let due = due.filter(|entry| entry.ours_until > now && entry.due > now);
        due.map(|entry| entry.due.saturating_sub(now)).fold(WATCH_TICK, Duration::min)
    }
}

/// Why a look came to nothing.
#[derive(Debug, thiserror::Error)]
enum LookError {
    #[error(transparent)]
    Db(#[from] DbError),
    #[error("{0}")]
    Opening(String),
    #[error("the folder cannot be listed: {0}")]
    Listing(#[from] entrepot_storage::StoreError),
    #[error("the folder was not listed within {} seconds", WATCH_LOOK_TIME.as_secs())]
    Late,
    #[error("what was found is not in the journal: {0}")]
    Journal(#[from] entrepot_journal::JournalError),
}

/// Looks at a folder once, and tells of what it finds and of failures.
async fn look_once(parts: Arc<WatcherParts>, folder: Arc<Folder>, mut state: State) -> EndedLook {
    let (env, began) = (parts.recorder.env(), parts.recorder.env().elapsed());
    match try_to_look(&parts, &folder, &mut state).await {
        Ok(()) => {
            if state.failures > 0 {
                tell_of_folder(&parts, &folder, None).await;
            }
            state.failures = 0;
        }
        // The folder itself may be well.
        Err(error @ (LookError::Db(_) | LookError::Journal(_))) => {
            let rule = folder.name.as_str();
            tracing::warn!(code = "EP0801", rule, %error, "a watched folder is looked at later");
        }
        Err(error) => {
            let rule = folder.name.as_str();
            tracing::warn!(code = "EP0843", rule, %error, "a watched folder cannot be listed");
            if state.failures == 0 {
                tell_of_folder(&parts, &folder, Some(error.to_string())).await;
            }
            state.failures = state.failures.saturating_add(1);
        }
    }
    parts.meters.listings.add(env.elapsed().saturating_sub(began));
    EndedLook { folder, state }
}

async fn try_to_look(
    parts: &WatcherParts,
    folder: &Folder,
    state: &mut State,
) -> Result<(), LookError> {
    note(parts, folder, state).await?;
    let mut seen = match state.seen.take() {
        Some(seen) => seen,
        None => Seen::of(&parts.db.watched_files(folder.rule).await?),
    };
    let listed = list(parts, folder, &mut seen).await;
    let has_moved = listed.is_ok() && seen.has_moved();
    let told = match listed {
        Ok(looked) => tell(parts, folder, &mut seen, &mut state.unnoted, looked).await,
        Err(error) => Err(error),
    };
    // What the look has learned counts also where it was cut.
    let seen = state.seen.insert(seen);
    told?;
    if has_moved {
        let rows = parts.db.watched_files(folder.rule).await?;
        let most = folder.watch.limit as usize;
        let moved = seen.end(&rows, parts.recorder.env().now(), most);
        if let Err(error) = tell_gone(parts, folder, &moved).await {
            // They are told of after the next look.
            state.seen = None;
            return Err(error);
        }
        state.unnoted.extend(moved);
    } else {
        seen.end(&[], parts.recorder.env().now(), 0);
    }
    note(parts, folder, state).await?;
    Ok(())
}

async fn list(parts: &WatcherParts, folder: &Folder, seen: &mut Seen) -> Result<Looked, LookError> {
    let store = parts.stores.store(&folder.endpoint).await.map_err(LookError::Opening)?;
    let env = parts.recorder.env();
    let moment = Moment { elapsed: env.elapsed(), now: env.now() };
    let looking = look::look(&store, &folder.watch, seen, moment);
    match tokio::time::timeout(WATCH_LOOK_TIME, looking).await {
        Ok(looked) => Ok(looked?),
        Err(_) => Err(LookError::Late),
    }
}

/// Records an event for each version that was found; what is told of is to be noted.
async fn tell(
    parts: &WatcherParts,
    folder: &Folder,
    seen: &mut Seen,
    unnoted: &mut Vec<WatchedFile>,
    looked: Looked,
) -> Result<(), LookError> {
    for found in looked.passed {
        seen.told(&found);
        unnoted.push(found.row());
    }
    for batch in looked.due.chunks(CRON_BATCH) {
        seal(parts, folder, batch).await?;
        for found in batch {
            seen.told(found);
            unnoted.push(found.row());
        }
    }
    Ok(())
}

/// Records that files are gone, if the rule starts on that. `moved`: files that came or went.
async fn tell_gone(
    parts: &WatcherParts,
    folder: &Folder,
    moved: &[WatchedFile],
) -> Result<(), LookError> {
    if !folder.watch.on.contains(&WatchChange::Removed) {
        return Ok(());
    }
    let gone = moved.iter().filter(|row| row.gone_at.is_some()).filter_map(|row| {
        let version = Version { size: row.size?, modified: row.modified };
        let (path, round) = (row.path.clone(), row.round);
        Some(Found { path, version, change: WatchChange::Removed, round })
    });
    for batch in gone.collect::<Vec<_>>().chunks(CRON_BATCH) {
        seal(parts, folder, batch).await?;
    }
    Ok(())
}

/// Records an event for each of a few versions.
async fn seal(parts: &WatcherParts, folder: &Folder, batch: &[Found]) -> Result<(), LookError> {
    let mut telling = JoinSet::new();
    for found in batch {
        let (recorder, event) = (parts.recorder.clone(), found_event(parts, folder, found));
        telling.spawn(async move { recorder.seal(&event).await });
    }
    while let Some(told) = telling.join_next().await {
        if let Ok(told) = told {
            told?;
        }
    }
    Ok(())
}

fn found_event(parts: &WatcherParts, folder: &Folder, found: &Found) -> Event {
    let slash = if folder.watch.path.is_root() { "" } else { "/" };
    let path = format!("{}{slash}{}", folder.watch.path, found.path);
    let fact = Fact::WatchFound {
        rule: folder.name.clone(),
        endpoint: folder.endpoint.noun.name.clone(),
        path,
        size: found.version.size,
        modified: found.version.modified,
        change: found.change,
    };
    let version = ids::WatchedVersion {
        rule: folder.rule,
        place: &folder.place(),
        path: &found.path,
        size: found.version.size,
        modified: found.version.modified,
        round: found.round,
        change: found.change,
    };
    let event = parts.recorder.event(&Scope::site(folder.site), fact);
    Event { id: ids::found(&version), ..event }
}

/// Notes what was told of.
async fn note(parts: &WatcherParts, folder: &Folder, state: &mut State) -> Result<(), DbError> {
    if state.unnoted.is_empty() {
        return Ok(());
    }
    let forgotten = parts.recorder.env().now().minus(WATCH_FORGET);
    parts.db.keep_watched(folder.rule, &state.unnoted, forgotten).await?;
    state.unnoted.clear();
    Ok(())
}

/// Says that a folder cannot be listed, or can be again.
async fn tell_of_folder(parts: &WatcherParts, folder: &Folder, error: Option<String>) {
    let (rule, endpoint) = (folder.name.clone(), folder.endpoint.noun.name.clone());
    let path = folder.watch.path.to_string();
    let watched = WatchedFolder { rule, endpoint, path };
    let fact = match error {
        Some(error) => Fact::WatchFailed { folder: watched, error },
        None => Fact::WatchRecovered { folder: watched },
    };
    let told = parts.recorder.record_durable(&Scope::site(folder.site), fact).await;
    if let Err(error) = told {
        tracing::warn!(code = error.code(), %error, "a watched folder's state is not recorded");
    }
}
