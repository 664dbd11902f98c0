//! Files that rules expect: how many came in each window, and what is decided about it. Files are
//! counted by the transaction that brings their events into the database, once each.

use std::collections::{HashMap, HashSet};

use entrepot_nouns::{EventId, Timestamp};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::Result;
use crate::sql::{Row, Sql, Value, sql, statements, to_json};
use crate::tx::{Batch, Work};
use crate::{Db, Dialect, Purpose};

/// A rule that expects files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// The id of the rule.
    pub rule: Uuid,
    /// Names what counts and when: other terms begin anew.
    pub terms: Uuid,
    /// Windows that began before are not judged.
    pub since: Timestamp,
}

/// A file that a rule expects has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The event that tells of it.
    pub event: EventId,
    /// The id of the rule.
    pub rule: Uuid,
    /// The terms of the rule, as its node knows them.
    pub terms: Uuid,
    /// The begin of the window that it counts for.
    pub begins: Timestamp,
    /// The end of that window.
    pub ends: Timestamp,
    /// Whether it came before that end.
    pub time: ArrivalTime,
}

/// When a file came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrivalTime {
    /// In the window.
    InTime,
    /// After it and before the next one.
    Late,
}

/// What is decided about a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// It ends soon, and too few files have come.
    Soon,
    /// It has ended, and enough have come.
    Met,
    /// It has ended, and too few have come.
    Missed,
    /// Of a missed one: enough have come by now.
    Late,
    /// More have come in it than expected.
    Extra,
}

/// A decision whose event may not be among the events yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpectTelling {
    /// What was decided.
    pub decision: Decision,
    /// How many files had come.
    pub seen: u64,
    /// How many should come.
    pub count: u64,
}

/// A window of a rule that expects files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedWindow {
    /// The id of the rule.
    pub rule: Uuid,
    /// The terms of the rule.
    pub terms: Uuid,
    /// The first moment of it.
    pub begins: Timestamp,
    /// The first moment after it.
    pub ends: Timestamp,
    /// Files that came in it.
    pub seen: u64,
    /// Files that came after it and before the next one.
    pub late: u64,
    /// These have grown since somebody looked.
    pub touched: bool,
    /// What is decided about it.
    pub decided: Vec<Decision>,
    /// Those of these whose events may not be among the events yet.
    pub telling: Vec<ExpectTelling>,
    /// When the last was decided.
    pub decided_at: Timestamp,
}

macro_rules! select {
    ($rest:literal) => {
        sql!(
            "SELECT rule, terms, begins, ends, seen, late, touched, decided, telling, decided_at ",
            "FROM expected_windows ",
            $rest,
        )
    };
}

statements! {
    /// Only of an event that is not in the table yet: an event that comes twice counts once.
    COUNT_SQLITE = sql!(
        "INSERT INTO expected_windows (rule, terms, begins, ends, seen, late, touched, decided, ",
        "decided_at) VALUES ($1, $2, $3, $4, ",
        "CASE WHEN EXISTS (SELECT 1 FROM events WHERE id = $5) THEN 0 ",
        "ELSE CAST($6 AS BIGINT) END, ",
        "CASE WHEN EXISTS (SELECT 1 FROM events WHERE id = $5) THEN 0 ",
        "ELSE CAST($7 AS BIGINT) END, TRUE, '[]', 0) ",
        "ON CONFLICT (rule, terms, begins) DO UPDATE SET ",
        "seen = expected_windows.seen + excluded.seen, ",
        "late = expected_windows.late + excluded.late, touched = TRUE",
    );
    ALL_RULES = sql!("SELECT rule, terms, since FROM expectations");
    FORGET = sql!("DELETE FROM expectations WHERE rule = $1");
    FORGET_WINDOWS = sql!("DELETE FROM expected_windows WHERE rule = $1");
    BEGIN_ANEW = sql!("INSERT INTO expectations (rule, terms, since) VALUES ($1, $2, $3)");
    TOUCHED = sql!("SELECT DISTINCT rule FROM expected_windows WHERE touched");
    FIND_SQLITE = select!("WHERE rule = $1 ORDER BY terms, begins");
    ADD = sql!(
        "INSERT INTO expected_windows (rule, terms, begins, ends, seen, late, touched, decided, ",
        "telling, decided_at) VALUES ($1, $2, $3, $4, 0, 0, FALSE, $5, $6, $7) ",
        "ON CONFLICT (rule, terms, begins) DO NOTHING",
    );
    CHANGE = sql!(
        "UPDATE expected_windows SET touched = FALSE, decided = $1, telling = $2, ",
        "decided_at = $3 WHERE rule = $4 AND terms = $5 AND begins = $6",
    );
    UNTOLD = select!(
        "WHERE telling IS NOT NULL AND (decided_at < $1 OR decided_at > $2) \
         ORDER BY rule, begins LIMIT $3"
    );
    /// Unless more has been decided since it was read.
    TOLD = sql!(
        "UPDATE expected_windows SET telling = NULL ",
        "WHERE rule = $1 AND terms = $2 AND begins = $3 AND decided_at = $4",
    );
    FORGET_OLD = sql!("DELETE FROM expected_windows WHERE ends < $1");
}

/// The rows stay locked until the transaction ends; a SQLite file has one writer anyway.
pub(crate) const FIND_POSTGRES: Sql = select!("WHERE rule = $1 ORDER BY terms, begins FOR UPDATE");
/// As `COUNT_SQLITE`, an array a column. The rows are locked in the order in which decisions lock
/// them.
pub(crate) const COUNT_POSTGRES: Sql = sql!(
    "INSERT INTO expected_windows (rule, terms, begins, ends, seen, late, touched, decided, ",
    "decided_at) SELECT rule, terms, begins, MAX(ends), CAST(SUM(seen) AS BIGINT), ",
    "CAST(SUM(late) AS BIGINT), TRUE, '[]', 0 ",
    "FROM UNNEST($1::UUID[], $2::UUID[], $3::BIGINT[], $4::BIGINT[], $5::UUID[], ",
    "$6::BIGINT[], $7::BIGINT[]) AS come (rule, terms, begins, ends, event, seen, late) ",
    "WHERE NOT EXISTS (SELECT 1 FROM events WHERE events.id = come.event) ",
    "GROUP BY rule, terms, begins ORDER BY rule, terms, begins ",
    "ON CONFLICT (rule, terms, begins) DO UPDATE SET ",
    "seen = expected_windows.seen + excluded.seen, ",
    "late = expected_windows.late + excluded.late, touched = TRUE",
);
/// Files that have come. To be run before their events are inserted.
pub(crate) const COUNT: Batch = Batch { sqlite: COUNT_SQLITE, postgres: COUNT_POSTGRES, width: 7 };

/// What [`COUNT`] is to be run for.
pub(crate) fn counted(arrivals: &[Arrival]) -> Vec<Value> {
    let mut seen = HashSet::with_capacity(arrivals.len());
    let mut rows = Vec::with_capacity(arrivals.len() * COUNT.width);
    for arrival in arrivals {
        if !seen.insert((arrival.event, arrival.rule)) {
            continue;
        }
        let (in_time, late) = match arrival.time {
            ArrivalTime::InTime => (1, 0),
            ArrivalTime::Late => (0, 1),
        };
        rows.extend([
            arrival.rule.into(),
            arrival.terms.into(),
            arrival.begins.into(),
            arrival.ends.into(),
            arrival.event.0.into(),
            i64::into(in_time),
            i64::into(late),
        ]);
    }
    rows
}

fn read_window(row: &Row<'_>) -> Result<ExpectedWindow> {
    let telling = row.maybe_text(8)?.map(|_| row.json(8)).transpose()?;
    Ok(ExpectedWindow {
        rule: row.id(0)?,
        terms: row.id(1)?,
        begins: row.time(2)?,
        ends: row.time(3)?,
        seen: row.unsigned(4)?,
        late: row.unsigned(5)?,
        touched: row.bool(6)?,
        decided: row.json(7)?,
        telling: telling.unwrap_or_default(),
        decided_at: row.time(9)?,
    })
}

fn telling(window: &ExpectedWindow) -> Result<Value> {
    if window.telling.is_empty() {
        return Ok(Value::Text(None));
    }
    Ok(Value::text(to_json(&window.telling)?))
}

/// A transaction in which windows are decided about. Rules must be looked at in the order of their
/// ids, or two of these wait for each other. Dropped without a commit it leaves nothing.
pub struct Judging {
    work: Work,
    dialect: Dialect,
}

impl Judging {
    /// The windows of a rule that are known, of any terms, in one order; nobody else changes them
    /// until the transaction ends.
    pub async fn windows(&mut self, rule: Uuid) -> Result<Vec<ExpectedWindow>> {
        let find = match self.dialect {
            Dialect::Sqlite => FIND_SQLITE,
            Dialect::Postgres => FIND_POSTGRES,
        };
        self.work.query(find, vec![rule.into()], read_window).await
    }

    /// Keeps what is decided about a window that [`Judging::windows`] did not find; false if it is
    /// there by now.
    pub async fn add(&mut self, window: &ExpectedWindow) -> Result<bool> {
        let row = vec![
            window.rule.into(),
            window.terms.into(),
            window.begins.into(),
            window.ends.into(),
            Value::text(to_json(&window.decided)?),
            telling(window)?,
            window.decided_at.into(),
        ];
        Ok(self.work.execute(ADD, row).await? > 0)
    }

    /// Keeps what is decided about a window that it found, which counts as looked at.
    pub async fn change(&mut self, window: &ExpectedWindow) -> Result<()> {
        let row = vec![
            Value::text(to_json(&window.decided)?),
            telling(window)?,
            window.decided_at.into(),
            window.rule.into(),
            window.terms.into(),
            window.begins.into(),
        ];
        self.work.execute(CHANGE, row).await.map(drop)
    }

    /// Ends the transaction; what was decided is durable when this returns.
    pub async fn commit(self) -> Result<()> {
        self.work.commit().await
    }
}

impl Db {
    /// Begins to decide about windows. Keep it short.
    pub async fn judge(&self) -> Result<Judging> {
        Ok(Judging { work: self.work(Purpose::Other).await?, dialect: self.dialect() })
    }

    /// Makes `wanted`, those of `revision` of the configuration, the rules that expect files; since
    /// when each does, by its id. One that did before with the same terms goes on. `None`: the
    /// configuration has changed since.
    pub async fn keep_expectations(
        &self,
        revision: i64,
        wanted: &[Expectation],
    ) -> Result<Option<HashMap<Uuid, Timestamp>>> {
        let read = |row: &Row<'_>| {
            Ok(Expectation { rule: row.id(0)?, terms: row.id(1)?, since: row.time(2)? })
        };
        let known = self.read(ALL_RULES, Vec::new(), read).await?;
        let mut known: HashMap<Uuid, Expectation> =
            known.into_iter().map(|it| (it.rule, it)).collect();
        let (mut since, mut anew) = (HashMap::new(), Vec::new());
        for it in wanted {
            match known.remove(&it.rule) {
                Some(old) if old.terms == it.terms => drop(since.insert(it.rule, old.since)),
                old => {
                    since.insert(it.rule, it.since);
                    anew.push((it, old.is_some()));
                }
            }
        }
        if anew.is_empty() && known.is_empty() {
            return Ok(Some(since));
        }
        let Some(mut work) = self.work_at(revision).await? else { return Ok(None) };
        let changed = anew.iter().filter(|(_, was_there)| *was_there).map(|(it, _)| it.rule);
        let mut gone: Vec<Uuid> = known.into_keys().chain(changed).collect();
        gone.sort_unstable();
        for rule in gone {
            work.execute(FORGET_WINDOWS, vec![rule.into()]).await?;
            work.execute(FORGET, vec![rule.into()]).await?;
        }
        for (it, _) in anew {
            let row = vec![it.rule.into(), it.terms.into(), it.since.into()];
            work.execute(BEGIN_ANEW, row).await?;
        }
        work.commit().await?;
        Ok(Some(since))
    }

    /// Rules for which files have come since somebody looked.
    pub async fn touched_expectations(&self) -> Result<Vec<Uuid>> {
        self.read(TOUCHED, Vec::new(), |row| row.id(0)).await
    }

    /// Windows decided about before `before`, or after `after` by a clock that is ahead, whose
    /// events may not be among the events; at most `limit`.
    pub async fn untold_windows(
        &self,
        before: Timestamp,
        after: Timestamp,
        limit: u32,
    ) -> Result<Vec<ExpectedWindow>> {
        let values = vec![before.into(), after.into(), crate::page(limit)];
        self.read(UNTOLD, values, read_window).await
    }

    /// All that is decided about a window is among the events.
    pub async fn told_window(&self, window: &ExpectedWindow) -> Result<()> {
        let ExpectedWindow { rule, terms, begins, decided_at, .. } = window;
        let values = vec![(*rule).into(), (*terms).into(), (*begins).into(), (*decided_at).into()];
        self.execute(TOLD, values).await.map(drop)
    }

    /// Forgets windows that ended before `at`.
    pub async fn forget_windows(&self, at: Timestamp) -> Result<()> {
        self.execute(FORGET_OLD, vec![at.into()]).await.map(drop)
    }
}
