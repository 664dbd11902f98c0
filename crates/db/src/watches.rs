//! Folders that rules watch, shared by the nodes: which node lists one, and which versions of which
//! files were found. A version is noted after its event is in a journal: a crash between the two
//! tells of it once more, under the same id.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use entrepot_nouns::{NodeId, Timestamp};
use uuid::Uuid;

use crate::error::Result;
use crate::moment::{now_postgres, now_sqlite};
use crate::sql::{Row, Sql, Value, sql, statements};
use crate::tx::Batch;
use crate::{Db, Dialect, Purpose, Tx};

/// A file that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedFile {
    /// Below the watched folder.
    pub path: String,
    /// Its size in bytes; `None`: it is to be found anew.
    pub size: Option<u64>,
    /// As the server there has it.
    pub modified: Timestamp,
    /// How often it was to be found anew.
    pub round: u32,
    /// It is not listed any more since then.
    pub gone_at: Option<Timestamp>,
}

macro_rules! lease {
    ($now:ident) => {
        sql!(
            "INSERT INTO watches (rule, place, node, leased_until) ",
            "VALUES ($1, $2, $3, CAST($4 AS BIGINT) + ",
            $now!("5"),
            ") ON CONFLICT (rule) DO UPDATE SET node = excluded.node, ",
            "leased_until = excluded.leased_until ",
            "WHERE watches.node = excluded.node OR watches.leased_until < ",
            $now!("5"),
        )
    };
}

statements! {
    LEASE_SQLITE = lease!(now_sqlite);
    RELEASE = sql!("UPDATE watches SET leased_until = 0 WHERE node = $1");
    WATCH = sql!("SELECT place, anew FROM watches WHERE rule = $1");
    MOVE = sql!("UPDATE watches SET place = $1 WHERE rule = $2");
    FORGET_FILES = sql!("DELETE FROM watched_files WHERE rule = $1");
    FORGET_WATCH = sql!("DELETE FROM watches WHERE rule = $1");
    FILES = sql!(
        "SELECT path, size, modified, round, gone_at FROM watched_files WHERE rule = $1",
    );
    KEEP_SQLITE = sql!(
        "INSERT INTO watched_files (rule, path, size, modified, round, gone_at) ",
        "VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (rule, path) DO UPDATE SET ",
        "size = excluded.size, modified = excluded.modified, round = excluded.round, ",
        "gone_at = excluded.gone_at WHERE watched_files.round <= excluded.round",
    );
    PAGE = sql!(
        "SELECT path, size, modified, round, gone_at FROM watched_files ",
        "WHERE rule = $1 AND path > $2 ORDER BY path LIMIT $3",
    );
    FILE = sql!(
        "SELECT path, size, modified, round, gone_at FROM watched_files ",
        "WHERE rule = $1 AND path = $2",
    );
    ANEW = sql!(
        "UPDATE watched_files SET size = NULL, round = round + 1 WHERE rule = $1 AND path = $2",
    );
    COUNT_ANEW = sql!("UPDATE watches SET anew = anew + 1 WHERE rule = $1");
    FORGET_GONE = sql!("DELETE FROM watched_files WHERE rule = $1 AND gone_at < $2");
    HINT = sql!("UPDATE watches SET hints = hints + 1 WHERE rule = $1");
    HINTS = sql!("SELECT rule, hints FROM watches WHERE hints > 0");
    ALL_WATCHES = sql!("SELECT rule FROM watches");
}

/// As `LEASE_SQLITE`, by the server's clock.
pub(crate) const LEASE_POSTGRES: Sql = lease!(now_postgres);
/// As `KEEP_SQLITE`, an array a column.
pub(crate) const KEEP_POSTGRES: Sql = sql!(
    "INSERT INTO watched_files (rule, path, size, modified, round, gone_at) ",
    "SELECT * FROM UNNEST($1::UUID[], $2::TEXT[], $3::BIGINT[], $4::BIGINT[], $5::BIGINT[], ",
    "$6::BIGINT[]) ON CONFLICT (rule, path) DO UPDATE SET size = excluded.size, ",
    "modified = excluded.modified, round = excluded.round, gone_at = excluded.gone_at ",
    "WHERE watched_files.round <= excluded.round",
);
const KEEP: Batch = Batch { sqlite: KEEP_SQLITE, postgres: KEEP_POSTGRES, width: 6 };

fn file(row: &Row<'_>) -> Result<WatchedFile> {
    Ok(WatchedFile {
        path: row.text(0)?,
        size: row.maybe_int(1)?.and_then(|size| u64::try_from(size).ok()),
        modified: row.time(2)?,
        round: u32::try_from(row.unsigned(3)?).unwrap_or(u32::MAX),
        gone_at: row.maybe_int(4)?.map(Timestamp),
    })
}

/// Which node lists a watched folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchLease {
    /// Another node lists it.
    Elsewhere,
    /// This node lists it.
    Ours {
        /// How often somebody had a file found anew.
        anew: i64,
    },
}

impl Db {
    /// Makes `node` the one that lists the folder of a rule, for `time` from now on, unless another
    /// one does. What was found at another place than `place` is forgotten.
    pub async fn lease_watch(
        &self,
        rule: Uuid,
        place: &str,
        node: NodeId,
        time: Duration,
    ) -> Result<WatchLease> {
        let lease = match self.dialect() {
            Dialect::Sqlite => LEASE_SQLITE,
            Dialect::Postgres => LEASE_POSTGRES,
        };
        let micros = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        let mut work = self.work(Purpose::Other).await?;
        let values =
            vec![rule.into(), Value::text(place), node.0.into(), micros.into(), self.clock()];
        if work.execute(lease, values).await? == 0 {
            return Ok(WatchLease::Elsewhere);
        }
        let read = |row: &Row<'_>| Ok((row.text(0)?, row.int(1)?));
        let known = work.query(WATCH, vec![rule.into()], read).await?.pop();
        let (known, anew) = known.unwrap_or_else(|| (place.to_owned(), 0));
        if known != place {
            work.execute(FORGET_FILES, vec![rule.into()]).await?;
            work.execute(MOVE, vec![Value::text(place), rule.into()]).await?;
        }
        work.commit().await?;
        Ok(WatchLease::Ours { anew })
    }

    /// Has the folder of a rule listed soon, by whichever node lists it; one that none has listed
    /// yet is listed anyway.
    pub async fn hint_watch(&self, rule: Uuid) -> Result<()> {
        self.execute(HINT, vec![rule.into()]).await.map(drop)
    }

    /// How often that was asked for, of each rule for which it was.
    pub async fn watch_hints(&self) -> Result<HashMap<Uuid, i64>> {
        let read = |row: &Row<'_>| Ok((row.id(0)?, row.int(1)?));
        Ok(self.read(HINTS, Vec::new(), read).await?.into_iter().collect())
    }

    /// Lets other nodes list what `node` does.
    pub async fn release_watches(&self, node: NodeId) -> Result<()> {
        self.execute(RELEASE, vec![node.0.into()]).await.map(drop)
    }

    /// The files that were found by a watch.
    pub async fn watched_files(&self, rule: Uuid) -> Result<Vec<WatchedFile>> {
        self.read(FILES, vec![rule.into()], file).await
    }

    /// The one at a path.
    pub async fn watched_file(&self, rule: Uuid, path: &str) -> Result<Option<WatchedFile>> {
        Ok(self.read(FILE, vec![rule.into(), Value::text(path)], file).await?.pop())
    }

    /// Those after a path, in the order of their paths.
    pub async fn watched_page(
        &self,
        rule: Uuid,
        after: &str,
        limit: u32,
    ) -> Result<Vec<WatchedFile>> {
        let values = vec![rule.into(), Value::text(after), i64::from(limit).into()];
        self.read(PAGE, values, file).await
    }

    /// Notes files of a watch, and forgets those that are gone since before `forgotten`.
    pub async fn keep_watched(
        &self,
        rule: Uuid,
        files: &[WatchedFile],
        forgotten: Timestamp,
    ) -> Result<()> {
        let mut rows = Vec::with_capacity(files.len().saturating_mul(KEEP.width));
        for file in files {
            rows.extend([
                rule.into(),
                Value::text(&file.path),
                file.size.map_or(Value::Int(None), Value::unsigned),
                file.modified.into(),
                i64::from(file.round).into(),
                file.gone_at.into(),
            ]);
        }
        let mut work = self.work(Purpose::Other).await?;
        work.each(KEEP, rows).await?;
        work.execute(FORGET_GONE, vec![rule.into(), forgotten.into()]).await?;
        work.commit().await
    }

    /// Forgets all watches but those of `rules`, which are those of `revision` of the
    /// configuration; none if it has changed since.
    pub async fn keep_watches(&self, revision: i64, rules: &BTreeSet<Uuid>) -> Result<()> {
        let known = self.read(ALL_WATCHES, Vec::new(), |row| row.id(0)).await?;
        let gone: Vec<Uuid> = known.into_iter().filter(|rule| !rules.contains(rule)).collect();
        if gone.is_empty() {
            return Ok(());
        }
        let Some(mut work) = self.work_at(revision).await? else { return Ok(()) };
        for rule in gone {
            work.execute(FORGET_FILES, vec![rule.into()]).await?;
            work.execute(FORGET_WATCH, vec![rule.into()]).await?;
        }
        work.commit().await
    }
}

impl Tx {
    /// Has a file of a watch found anew. False if no such file was found.
    pub async fn forget_watched(&mut self, rule: Uuid, path: &str) -> Result<bool> {
        let values = vec![rule.into(), Value::text(path)];
        let is_known = self.work.execute(ANEW, values).await? > 0;
        self.work.execute(COUNT_ANEW, vec![rule.into()]).await?;
        Ok(is_known)
    }
}
