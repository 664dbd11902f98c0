//! The node's own copy of the configuration, `data/configuration.json`, for the time when
//! PostgreSQL is away, at a start and afterwards.
//!
//! It holds all nouns as the database has them, secrets sealed, and what the database says of this
//! node. It is written whole when the configuration changes and has a keyed digest: a copy that is
//! damaged, of another node, or was made under another master key is not served from. Neither is
//! one that nobody has compared with the database for long: accounts may have been closed since.

use std::fmt;
use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use entrepot_auth::Directory;
use entrepot_crypto::MasterKey;
use entrepot_db::{Configuration, Db, DbError, NodeKey};
use entrepot_engine::{Drained, Engine};
use entrepot_journal::Recorder;
use entrepot_nouns::transfer::hex;
use entrepot_nouns::{Name, NodeId, Sealed, Timestamp};
use serde::{Deserialize, Serialize};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

/// What the digest is for, so that no other use of the key gives the same.
const PURPOSE: &str = "copy of the configuration 1";
/// A copy that was not compared with the database for longer is not served from.
const OLDEST: Duration = Duration::from_secs(7 * 24 * 3600);
/// How often it is noted that the copy is what the database has.
const CONFIRM_EVERY: Duration = Duration::from_secs(60);
/// How often it is looked whether the copy is what it should be.
const COPY_EVERY: Duration = Duration::from_secs(1);
/// A database that was away at so many looks is stood in for.
const AWAY_LOOKS: u32 = 3;

/// What the file holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct KeptState {
    pub(crate) node: NodeId,
    pub(crate) name: Name,
    /// As the database numbers the nodes.
    pub(crate) slot: Option<u32>,
    /// An operator asked the node to take no new work.
    pub(crate) drained: bool,
    /// The journal had so many records.
    pub(crate) journal_end: u64,
    pub(crate) written_at: Timestamp,
    /// Signs the heads of the journal.
    signing_key: Option<SealedSigningKey>,
    pub(crate) configuration: Configuration,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct SealedSigningKey {
    public: String,
    private_sealed: Sealed,
}

impl KeptState {
    /// The key that signs the heads of the node's journal.
    pub(crate) fn node_key(&self) -> Option<NodeKey> {
        let SealedSigningKey { public, private_sealed } = self.signing_key.clone()?;
        Some(NodeKey { public, private_sealed })
    }
}

/// Why there is no copy to serve from.
#[derive(Debug)]
pub(crate) enum CopyError {
    /// The node never served with this database.
    Missing,
    /// The file cannot be served from.
    Unusable {
        /// The path that it has.
        file: String,
        /// What is wrong with it.
        problem: String,
    },
}

impl fmt::Display for CopyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CopyError::Missing => f.write_str(
                "this node has no copy of the configuration, which it makes as soon as it serves",
            ),
            CopyError::Unusable { file, problem } => {
                write!(f, "the copy of the configuration '{file}' cannot be used: {problem}")
            }
        }
    }
}

/// The file, and the key of its digest.
#[derive(Clone)]
pub(crate) struct LocalCopy {
    file: PathBuf,
    master: MasterKey,
}

impl LocalCopy {
    /// Names the file in the data folder; nothing is read or written yet.
    pub(crate) fn new(data: &Path, master: MasterKey) -> LocalCopy {
        LocalCopy { file: data.join("configuration.json"), master }
    }

    /// Reads and checks the file.
    pub(crate) fn read(&self) -> Result<KeptState, CopyError> {
        let text = match std::fs::read_to_string(&self.file) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(CopyError::Missing),
            Err(error) => return Err(self.unusable(error.to_string())),
        };
        let (digest, body) = text.split_once('\n').unwrap_or_default();
        if digest != self.digest(body) {
            let problem = "it is damaged, or was made under another master key";
            return Err(self.unusable(problem));
        }
        serde_json::from_str(body).map_err(|error| self.unusable(error.to_string()))
    }

    /// The same, of this node and not too old.
    pub(crate) fn read_to_serve(
        &self,
        node: NodeId,
        now: Timestamp,
    ) -> Result<KeptState, CopyError> {
        let kept = self.read()?;
        if kept.node != node {
            let problem = format!("it is of the node '{}' with another journal", kept.name);
            return Err(self.unusable(problem));
        }
        let confirmed = std::fs::metadata(&self.file).and_then(|file| file.modified());
        let age = confirmed.ok().and_then(|at| system_time(now).duration_since(at).ok());
        if age.is_some_and(|age| age > OLDEST) {
            let days = OLDEST.as_secs() / (24 * 3600);
            let problem = format!(
                "it was compared with the database more than {days} days ago, accounts may have \
                 been closed since"
            );
            return Err(self.unusable(problem));
        }
        Ok(kept)
    }

    /// Replaces the file, durably and whole; only its owner may read it.
    fn write(&self, kept: &KeptState) -> std::io::Result<()> {
        let body = serde_json::to_string(kept).map_err(std::io::Error::other)?;
        let text = format!("{}\n{body}", self.digest(&body));
        let temporary = self.file.with_extension("json.new");
        let mut options = File::options();
        let mut file =
            options.write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&temporary, &self.file)?;
        let folder = self.file.parent().unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()
    }

    /// Notes that the file is what the database has now.
    fn confirm(&self, now: Timestamp) -> std::io::Result<()> {
        File::options().write(true).open(&self.file)?.set_modified(system_time(now))
    }

    fn digest(&self, body: &str) -> String {
        hex(&self.master.keyed_hash(PURPOSE, body.as_bytes()))
    }

    fn unusable(&self, problem: impl Into<String>) -> CopyError {
        CopyError::Unusable { file: self.file.display().to_string(), problem: problem.into() }
    }
}

/// Why the copy is not what the database has.
enum NotKept {
    Database(DbError),
    File(std::io::Error),
}

impl From<DbError> for NotKept {
    fn from(error: DbError) -> Self {
        NotKept::Database(error)
    }
}

impl From<std::io::Error> for NotKept {
    fn from(error: std::io::Error) -> Self {
        NotKept::File(error)
    }
}

impl fmt::Display for NotKept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotKept::Database(error) => write!(f, "{error}"),
            NotKept::File(error) => write!(f, "cannot write it: {error}"),
        }
    }
}

/// What the copy follows.
pub(crate) struct CopyKeeper {
    pub(crate) copy: LocalCopy,
    pub(crate) db: Db,
    pub(crate) recorder: Recorder,
    pub(crate) engine: Arc<Engine>,
    pub(crate) directory: Directory,
}

/// What the file was written for.
#[derive(Clone, Copy, PartialEq)]
struct Written {
    revision: i64,
    drained: bool,
    slot: Option<u32>,
}

/// What the keeper knows from one look to the next.
#[derive(Default)]
struct Looked {
    written: Option<Written>,
    /// When the file was last compared with the database, by `Env::elapsed`.
    confirmed_at: Duration,
    complained: bool,
    /// How often in a row the database was away.
    away: u32,
    /// The file answers for the database, which went away while the node served.
    stands_in: bool,
}

impl CopyKeeper {
    /// Keeps the file equal to what the database says, and lets it answer while that is away, until
    /// `until`.
    pub(crate) async fn run(self, until: CancellationToken) {
        let (drained, mut looked) = (self.engine.drained(), Looked::default());
        let mut ticks = tokio::time::interval(COPY_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = until.cancelled() => return,
                _ = ticks.tick() => {}
            }
            tokio::select! {
                () = until.cancelled() => return,
                () = self.look(&drained, &mut looked) => {}
            }
        }
    }

    async fn look(&self, drained: &Drained, looked: &mut Looked) {
        if looked.stands_in {
            if self.db.reach().await.is_ok() {
                self.db.answer_itself();
                *looked = Looked { stands_in: false, away: 0, ..*looked };
                tracing::info!("the configuration is read from the database again");
            }
            return;
        }
        if self.db.answers_from_copy() {
            // Since the start: the node has to be claimed first.
            return;
        }
        if self.directory.is_away() {
            looked.away += 1;
            if looked.away == AWAY_LOOKS {
                looked.stands_in = self.stand_in(looked.written).await;
            }
            return;
        }
        looked.away = 0;
        let now = self.recorder.env().elapsed();
        let wanted = Written {
            revision: *self.directory.watch().borrow(),
            drained: drained.is_drained(),
            slot: self.engine.slot(),
        };
        let is_due = now.saturating_sub(looked.confirmed_at) >= CONFIRM_EVERY;
        if looked.written == Some(wanted) && !is_due {
            return;
        }
        match self.keep(wanted, looked.written).await {
            Ok(written) => {
                looked.written = Some(written);
                (looked.confirmed_at, looked.complained) = (now, false);
            }
            // The next look at a database that is away comes when it is back.
            Err(NotKept::Database(error)) if error.is_unavailable() => {}
            Err(error) => {
                if !looked.complained {
                    tracing::error!(code = "EP0721", %error, "no copy of the configuration");
                }
                looked.complained = true;
            }
        }
    }

    /// Lets the file answer for the database, if it is what was last read there; false if not.
    async fn stand_in(&self, written: Option<Written>) -> bool {
        let known = *self.directory.watch().borrow();
        if written.is_none_or(|written| written.revision != known) {
            return false;
        }
        let (copy, node, now) =
            (self.copy.clone(), self.recorder.node_id(), self.recorder.env().now());
        let read = tokio::task::spawn_blocking(move || copy.read_to_serve(node, now)).await;
        let Ok(Ok(kept)) = read else { return false };
        let (revision, copied_at) = (kept.configuration.revision, kept.written_at);
        if revision != known || self.db.answer_from(kept.configuration).is_err() {
            return false;
        }
        tracing::warn!(
            code = "EP0722",
            revision,
            %copied_at,
            "the database is away: served from the node's copy of the configuration"
        );
        true
    }

    /// Writes the file, unless it is what the database has.
    async fn keep(&self, wanted: Written, before: Option<Written>) -> Result<Written, NotKept> {
        let (copy, now) = (self.copy.clone(), self.recorder.env().now());
        if before == Some(wanted) && self.db.config_revision().await? == wanted.revision {
            on_thread(move || copy.confirm(now)).await?;
            return Ok(wanted);
        }
        let node = self.recorder.node_id();
        let key = self.db.node_key(node).await?;
        let kept = KeptState {
            node,
            name: self.recorder.node().clone(),
            slot: wanted.slot,
            drained: wanted.drained,
            journal_end: self.recorder.journal().usage().durable,
            written_at: now,
            signing_key: key.map(|NodeKey { public, private_sealed }| SealedSigningKey {
                public,
                private_sealed,
            }),
            configuration: self.db.configuration().await?,
        };
        let wanted = Written { revision: kept.configuration.revision, ..wanted };
        on_thread(move || copy.write(&kept)).await?;
        Ok(wanted)
    }
}

/// Files wait for the disk.
async fn on_thread(
    work: impl FnOnce() -> std::io::Result<()> + Send + 'static,
) -> std::io::Result<()> {
    tokio::task::spawn_blocking(work).await.map_err(std::io::Error::other)?
}

fn system_time(at: Timestamp) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_micros(u64::try_from(at.micros()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use entrepot_db::DbOptions;
    use entrepot_nouns::Env;

    use super::*;

    async fn kept(data: &Path, node: NodeId) -> KeptState {
        let url = format!("sqlite://{}", data.join("db").display());
        let db = Db::open(&url, DbOptions::default()).await.unwrap();
        KeptState {
            node,
            name: "n1".parse().unwrap(),
            slot: Some(3),
            drained: false,
            journal_end: 7,
            written_at: Env::real().now(),
            signing_key: None,
            configuration: db.configuration().await.unwrap(),
        }
    }

    #[tokio::test]
    async fn only_a_whole_and_fresh_copy_of_this_node_is_served_from() {
        let data = tempfile::tempdir().unwrap();
        let copy = LocalCopy::new(data.path(), MasterKey::from_bytes(&[1; 32]));
        let (node, now) = (NodeId(Env::real().new_id()), Env::real().now());
        assert!(matches!(copy.read_to_serve(node, now), Err(CopyError::Missing)));
        let kept = kept(data.path(), node).await;
        copy.write(&kept).unwrap();
        let mode = std::fs::metadata(&copy.file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let read = copy.read_to_serve(node, now).unwrap();
        assert_eq!((read.slot, &read.configuration), (Some(3), &kept.configuration));
        let why = |copy: &LocalCopy, node| copy.read_to_serve(node, now).unwrap_err().to_string();
        assert!(why(&copy, NodeId(Env::real().new_id())).contains("another journal"));
        let other = LocalCopy::new(data.path(), MasterKey::from_bytes(&[2; 32]));
        assert!(why(&other, node).contains("another master key"));
        let long_ago = system_time(now) - OLDEST - Duration::from_secs(60);
        File::options().write(true).open(&copy.file).unwrap().set_modified(long_ago).unwrap();
        assert!(why(&copy, node).contains("days ago"));
        copy.confirm(now).unwrap();
        copy.read_to_serve(node, now).unwrap();
        let mut text = std::fs::read(&copy.file).unwrap();
        let last = text.len() - 2;
        text[last] ^= 1;
        std::fs::write(&copy.file, text).unwrap();
        assert!(why(&copy, node).contains("damaged"));
    }
}
