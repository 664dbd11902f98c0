//! Nodes: member processes.
//!
//! A node is the journal with its id. Its name is bound to that id when it first serves; each
//! start of its process is an incarnation of it, and holds leases as such. Heartbeats are written
//! by the database's clock, so that no node's clock decides whether another one lives.

use std::time::Duration;

use entrepot_nouns::{FORMAT_LEVEL, Name, NodeId, PoolPlaces, Timestamp};

use crate::as2_messages::FORGET_CLAIMS;
use crate::error::Result;
use crate::limits;
use crate::moment::{era_postgres, era_sqlite, now_postgres, now_sqlite};
use crate::sql::{Row, Sql, Value, sql, statements};
use crate::tx::Tx;
use crate::{Db, Dialect};

/// A member process, as the others see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Made with its journal.
    pub id: NodeId,
    /// Unique among the nodes of this database; each process has it from its own configuration.
    pub name: Name,
    /// The smallest number that no other node has; none before it first served.
    pub slot: Option<u32>,
    /// How often it was started.
    pub incarnation: i64,
    /// Version of its program.
    pub program: String,
    /// The newest level of formats that its program reads and writes: [`FORMAT_LEVEL`].
    pub speaks: u32,
    /// An operator asked it to take no new work.
    pub drained: bool,
    /// It ended in good order.
    pub stopped: bool,
    /// It brings back what a database lost that fell back.
    pub rebuilding: bool,
    /// When it last gave a sign of life, by the database's clock.
    pub heartbeat_at: Timestamp,
    /// How long ago that was, by the same clock.
    pub silent_for: Duration,
    /// How far its clock is ahead of the database's, microseconds; negative: behind.
    pub clock_ahead_us: i64,
    /// How long its last heartbeat took, microseconds.
    pub round_trip_us: i64,
    /// How many records of its journal were not in the database at its last heartbeat.
    pub unprojected: u64,
    /// The last record of its journal that is in the database.
    pub projected_up_to: u64,
    /// All events of its journal up to this time, by its own clock, are in the database.
    pub projected_until: Timestamp,
    /// The sizes of its pools that an operator set.
    pub pools: PoolPlaces,
}

impl Node {
    /// True if it gave no sign of life for so long that others take its jobs over.
    pub fn is_silent(&self) -> bool {
        self.silent_for > limits::NODE_DEAD_AFTER
    }
}

/// A node as its own process knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeIdentity {
    /// Made with its journal.
    pub id: NodeId,
    /// As its process file names it.
    pub name: Name,
    /// Version of the program.
    pub program: String,
}

/// A start of a node's process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incarnation {
    /// One more than the start before.
    pub number: i64,
    /// The era that the database is in.
    pub era: String,
    /// How many heartbeats the node has written, over all starts.
    pub beats: i64,
    /// An operator asked the node to take no new work.
    pub drained: bool,
    /// The smallest number that no other node has.
    pub slot: Option<u32>,
}

impl Incarnation {
    /// A start that the database has not counted, because it is away.
    pub fn uncounted(drained: Drained, slot: Option<u32>) -> Incarnation {
        let drained = drained == Drained::Yes;
        Incarnation { number: 0, era: String::new(), beats: 0, drained, slot }
    }

    /// True once the database has counted it.
    pub fn is_counted(&self) -> bool {
        self.number > 0
    }
}

/// What a heartbeat says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beat {
    /// Of this node.
    pub node: NodeId,
    /// Of this start of it.
    pub incarnation: i64,
    /// Version of the program.
    pub program: String,
    /// It brings back what the database lost.
    pub rebuilding: bool,
    /// It ends in good order.
    pub stopped: bool,
    /// As the last answers showed it, microseconds.
    pub clock_ahead_us: i64,
    /// How long the last heartbeat took, microseconds.
    pub round_trip_us: i64,
    /// How many records of its journal are not in the database.
    pub unprojected: u64,
    /// All events of its journal up to this time, by its own clock, are in the database.
    pub projected_until: Timestamp,
}

/// What the database answers to a heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BeatAnswer {
    /// How many it has counted, this one included.
    pub beats: i64,
    /// An operator asked the node to take no new work.
    pub drained: bool,
    /// The database's clock.
    pub now: Timestamp,
    /// The era that the database is in.
    pub era: String,
    /// The sizes of its pools that an operator set.
    pub pools: PoolPlaces,
}

/// What became of a heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Beaten {
    /// It is written.
    Written(BeatAnswer),
    /// A later start of the same node has written before: its journal was copied.
    Superseded,
    /// There is no such node: it was removed, or the database fell back behind its first start.
    Missing,
}

macro_rules! beat {
    ($now:ident, $era:ident) => {
        sql!(
            "UPDATE nodes SET incarnation = $1, program = $2, rebuilding = $3, stopped = $4, ",
            "clock_ahead_us = $5, round_trip_us = $6, unprojected = $7, beats = beats + 1, ",
            "heartbeat_at = ",
            $now!("8"),
            ", speaks = $9, projected_until = $10 WHERE id = $11 AND incarnation <= $1 ",
            "RETURNING beats, drained, heartbeat_at, ",
            $era!(),
            ", instance_places, source_places, target_places",
        )
    };
}

macro_rules! start {
    ($now:ident, $era:ident) => {
        sql!(
            "UPDATE nodes SET incarnation = CASE WHEN incarnation < $1 THEN $1 ",
            "ELSE incarnation + 1 END, program = $2, stopped = FALSE, rebuilding = FALSE, ",
            "heartbeat_at = ",
            $now!("3"),
            ", speaks = $4 WHERE id = $5 RETURNING incarnation, beats, drained, slot, ",
            $era!(),
        )
    };
}

macro_rules! select {
    ($now:ident, $rest:literal) => {
        sql!(
            "SELECT id, name, slot, incarnation, program, drained, stopped, rebuilding, ",
            "heartbeat_at, ",
            $now!("1"),
            ", clock_ahead_us, round_trip_us, unprojected, projected_up_to, ",
            "speaks, instance_places, source_places, target_places, projected_until FROM nodes ",
            $rest,
        )
    };
}

statements! {
    /// A node whose row a fallback took away is known again by its projection alone, until its
    /// next heartbeat.
    ADVANCE_CURSOR = sql!(
        "INSERT INTO nodes (id, name, incarnation, program, drained, stopped, rebuilding, ",
        "heartbeat_at, beats, clock_ahead_us, round_trip_us, unprojected, projected_up_to) ",
        "VALUES ($1, $2, 0, '', FALSE, FALSE, FALSE, 0, 0, 0, 0, 0, $3) ",
        "ON CONFLICT (id) DO UPDATE SET projected_up_to = excluded.projected_up_to ",
        "WHERE nodes.projected_up_to < excluded.projected_up_to",
    );
    READ_CURSOR = sql!("SELECT projected_up_to FROM nodes WHERE id = $1");
    ADD = sql!(
        "INSERT INTO nodes (id, name, slot, incarnation, program, drained, stopped, rebuilding, ",
        "heartbeat_at, beats, clock_ahead_us, round_trip_us, unprojected, projected_up_to) ",
        "VALUES ($1, $2, $3, 0, $4, FALSE, TRUE, FALSE, 0, 0, 0, 0, 0, 0) ",
        "ON CONFLICT (id) DO UPDATE SET slot = excluded.slot",
    );
    KNOWN = sql!("SELECT id, incarnation FROM nodes WHERE id = $1");
    SET_POOLS = sql!(
        "UPDATE nodes SET instance_places = COALESCE(CAST($1 AS BIGINT), instance_places), ",
        "source_places = COALESCE(CAST($2 AS BIGINT), source_places), ",
        "target_places = COALESCE(CAST($3 AS BIGINT), target_places) WHERE name = $4",
    );
    DRAIN = sql!("UPDATE nodes SET drained = $1 WHERE name = $2");
    SKIP_REVISIONS = sql!("UPDATE config_revision SET revision = revision + $1");
    REMOVE = sql!("DELETE FROM nodes WHERE id = $1");
    BEAT_SQLITE = beat!(now_sqlite, era_sqlite);
    START_SQLITE = start!(now_sqlite, era_sqlite);
    LIST_SQLITE = select!(now_sqlite, "ORDER BY name");
}

/// As `BEAT_SQLITE`, by the server's clock.
pub(crate) const BEAT_POSTGRES: Sql = beat!(now_postgres, era_postgres);
/// As `START_SQLITE`, by the server's clock.
pub(crate) const START_POSTGRES: Sql = start!(now_postgres, era_postgres);
/// As `LIST_SQLITE`, by the server's clock.
pub(crate) const LIST_POSTGRES: Sql = select!(now_postgres, "ORDER BY name");
/// The row waits for nobody else: who writes events waits for the others already.
pub(crate) const LOCK_CURSOR_POSTGRES: Sql =
    sql!("SELECT projected_up_to FROM nodes WHERE id = $1 FOR UPDATE");

pub(crate) const ADVANCE: Sql = ADVANCE_CURSOR;
pub(crate) const CURSOR: Sql = READ_CURSOR;

/// From three columns, the first of which is `at`.
fn read_pools(row: &Row<'_>, at: usize) -> Result<PoolPlaces> {
    let places = |column: usize| -> Result<Option<u32>> {
        Ok(row.maybe_int(column)?.and_then(|places| u32::try_from(places).ok()))
    };
    Ok(PoolPlaces { instance: places(at)?, source: places(at + 1)?, target: places(at + 2)? })
}

fn read_row(row: &Row<'_>) -> Result<Node> {
    let (heartbeat_at, now) = (row.time(8)?, row.time(9)?);
    Ok(Node {
        id: NodeId(row.id(0)?),
        name: row.name(1)?,
        slot: row.maybe_int(2)?.and_then(|slot| u32::try_from(slot).ok()),
        incarnation: row.int(3)?,
        program: row.text(4)?,
        drained: row.bool(5)?,
        stopped: row.bool(6)?,
        rebuilding: row.bool(7)?,
        heartbeat_at,
        silent_for: now.since(heartbeat_at),
        clock_ahead_us: row.int(10)?,
        round_trip_us: row.int(11)?,
        unprojected: row.unsigned(12)?,
        projected_up_to: row.unsigned(13)?,
        speaks: u32::try_from(row.int(14)?).unwrap_or(u32::MAX),
        pools: read_pools(row, 15)?,
        projected_until: row.time(18)?,
    })
}

fn by_dialect(dialect: Dialect, sqlite: Sql, postgres: Sql) -> Sql {
    match dialect {
        Dialect::Sqlite => sqlite,
        Dialect::Postgres => postgres,
    }
}

impl Db {
    /// The clock that heartbeats are measured by, as a value: PostgreSQL has its own, a SQLite
    /// file has that of the machine.
    pub(crate) fn clock(&self) -> Value {
        match self.dialect() {
            Dialect::Sqlite => self.env.now().into(),
            Dialect::Postgres => Value::Int(None),
        }
    }

    /// Notes that a node's process begins to serve. `before` is the number of the start that this
    /// process has already, 0 for none: it is not counted twice when the row was lost. `None`: the
    /// node is not known.
    pub async fn start_node(
        &self,
        node: &NodeIdentity,
        before: i64,
    ) -> Result<Option<Incarnation>> {
        let sql = by_dialect(self.dialect(), START_SQLITE, START_POSTGRES);
        let program = Value::text(&*node.program);
        let speaks = i64::from(FORMAT_LEVEL).into();
        let values = vec![before.into(), program, self.clock(), speaks, node.id.0.into()];
        let started = self.write(sql, values, |row| {
            let (number, beats) = (row.int(0)?, row.int(1)?);
            let slot = row.maybe_int(3)?.and_then(|slot| u32::try_from(slot).ok());
            Ok(Incarnation { number, beats, drained: row.bool(2)?, slot, era: row.text(4)? })
        });
        Ok(started.await?.pop())
    }

    /// Writes a heartbeat.
    pub async fn beat(&self, beat: &Beat) -> Result<Beaten> {
        let sql = by_dialect(self.dialect(), BEAT_SQLITE, BEAT_POSTGRES);
        let values = vec![
            beat.incarnation.into(),
            Value::text(&*beat.program),
            Value::Bool(beat.rebuilding),
            Value::Bool(beat.stopped),
            beat.clock_ahead_us.into(),
            beat.round_trip_us.into(),
            Value::unsigned(beat.unprojected),
            self.clock(),
            i64::from(FORMAT_LEVEL).into(),
            beat.projected_until.into(),
            beat.node.0.into(),
        ];
        let answer = self.write(sql, values, |row| {
            let (beats, drained) = (row.int(0)?, row.bool(1)?);
            let (now, era, pools) = (row.time(2)?, row.text(3)?, read_pools(row, 4)?);
            Ok(BeatAnswer { beats, drained, now, era, pools })
        });
        if let Some(answer) = answer.await?.pop() {
            return Ok(Beaten::Written(answer));
        }
        let known = self.read(KNOWN, vec![beat.node.0.into()], |row| row.int(1)).await?;
        Ok(match known.first() {
            Some(newest) if *newest > beat.incarnation => Beaten::Superseded,
            _ => Beaten::Missing,
        })
    }

    /// To be called by a node that sees that the database fell back: numbers of revisions of the
    /// configuration that were given before are not given again, so that nobody takes another
    /// configuration for one that it has read.
    pub async fn skip_revisions(&self) -> Result<()> {
        let skipped = vec![limits::REVISIONS_SKIPPED.into()];
        self.execute(SKIP_REVISIONS, skipped).await.map(drop)
    }

    /// All nodes that serve or served, by name.
    pub async fn nodes(&self) -> Result<Vec<Node>> {
        let sql = by_dialect(self.dialect(), LIST_SQLITE, LIST_POSTGRES);
        self.read(sql, vec![self.clock()], read_row).await
    }
}

impl Tx {
    /// All nodes that serve or served, by name.
    pub async fn nodes(&mut self, db: &Db) -> Result<Vec<Node>> {
        let sql = by_dialect(db.dialect(), LIST_SQLITE, LIST_POSTGRES);
        self.work.query(sql, vec![db.clock()], read_row).await
    }

    /// Makes the row of a node, with the smallest slot that no other one has, unless it is there;
    /// its slot then.
    ///
    /// # Errors
    /// [`crate::DbError::Conflict`] if another node has the name.
    pub async fn join_node(&mut self, db: &Db, node: &NodeIdentity) -> Result<Option<u32>> {
        let known = self.nodes(db).await?;
        if known.iter().any(|known| known.id == node.id && known.slot.is_some()) {
            return Ok(None);
        }
        let taken: std::collections::HashSet<u32> =
            known.iter().filter_map(|known| known.slot).collect();
        let slot = (0..u32::MAX).find(|slot| !taken.contains(slot)).unwrap_or_default();
        self.add_node(node, slot).await?;
        Ok(Some(slot))
    }

    async fn add_node(&mut self, node: &NodeIdentity, slot: u32) -> Result<()> {
        self.lock_events().await?;
        let program = Value::text(&*node.program);
        let values = vec![node.id.0.into(), (&node.name).into(), i64::from(slot).into(), program];
        self.work.execute(ADD, values).await.map(drop)
    }

    /// Asks `node` to take no new work, or to take it again; false if there is no such node.
    pub async fn set_drained(&mut self, node: &Name, drained: Drained) -> Result<bool> {
        self.lock_events().await?;
        let drained = Value::Bool(drained == Drained::Yes);
        Ok(self.work.execute(DRAIN, vec![drained, node.into()]).await? > 0)
    }

    /// Sets sizes of the pools of `node`, those that `places` names; false if there is no such
    /// node.
    pub async fn set_pools(&mut self, node: &Name, places: PoolPlaces) -> Result<bool> {
        self.lock_events().await?;
        let PoolPlaces { instance, source, target } = places;
        let [instance, source, target] =
            [instance, source, target].map(|places| Value::Int(places.map(i64::from)));
        let values = vec![instance, source, target, node.into()];
        Ok(self.work.execute(SET_POOLS, values).await? > 0)
    }

    /// Takes a node off the list; false if there is no such node.
    pub async fn remove_node(&mut self, node: NodeId) -> Result<bool> {
        self.lock_events().await?;
        // What it has published and never projected nobody learns any more.
        self.work.execute(FORGET_CLAIMS, vec![node.0.into()]).await?;
        Ok(self.work.execute(REMOVE, vec![node.0.into()]).await? > 0)
    }
}

/// Whether a node takes new work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Drained {
    /// An operator asked it to take none.
    Yes,
    /// It takes what comes.
    No,
}
