//! How far each rule that starts by the clock has come, shared by the nodes: who decides about an
//! instant holds the row meanwhile, and the event of a decision is noted with it until it is among
//! the events, so that a crash between the two loses none.

use std::collections::BTreeSet;

use entrepot_nouns::{Event, EventId, Fact, JobId, Timestamp};
use uuid::Uuid;

use crate::error::Result;
use crate::sql::{Row, Sql, Value, sql, statements, to_json};
use crate::tx::{Batch, Work};
use crate::{Db, Dialect, Purpose};

/// How far one rule has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// The id of the rule.
    pub rule: Uuid,
    /// Its expression as it was at the last decision.
    pub expression: String,
    /// Its time zone then.
    pub zone: String,
    /// The last instant that was decided.
    pub planned: Timestamp,
    /// The last instant that was to start a job.
    pub due: Option<Timestamp>,
    /// Instants that wait for their run, the oldest first.
    pub missed: Vec<Timestamp>,
    /// The newest instant that waits for the run before it to end.
    pub queued: Option<Timestamp>,
    /// The last decision, until its event is among the events.
    pub telling: Option<Telling>,
    /// When it was decided.
    pub changed_at: Timestamp,
}

/// A decision whose event is not among the events yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Telling {
    /// The id of that event, which follows from rule and instant.
    pub event: EventId,
    /// The instant that it is about.
    pub planned: Timestamp,
    /// Why the rule does not start then; `None` if it does.
    pub skipped: Option<String>,
}

macro_rules! select {
    ($rest:literal) => {
        sql!(
            "SELECT rule, expression, zone, planned, due, missed, queued, telling, telling_of, ",
            "telling_why, changed_at FROM schedules ",
            $rest,
        )
    };
}

statements! {
    FIND_SQLITE = select!("WHERE rule = $1");
    ADD = sql!(
        "INSERT INTO schedules (rule, expression, zone, planned, due, missed, queued, telling, ",
        "telling_of, telling_why, changed_at) ",
        "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT (rule) DO NOTHING",
    );
    CHANGE = sql!(
        "UPDATE schedules SET expression = $1, zone = $2, planned = $3, due = $4, missed = $5, ",
        "queued = $6, telling = $7, telling_of = $8, telling_why = $9, changed_at = $10 ",
        "WHERE rule = $11",
    );
    OPEN_JOB = sql!(
        "SELECT id FROM jobs WHERE id = $1 AND state NOT IN ('done', 'failed', 'cancelled')",
    );
    UNTOLD = select!(
        "WHERE telling IS NOT NULL AND (changed_at < $1 OR changed_at > $2) ORDER BY rule LIMIT $3"
    );
    ALL_RULES = sql!("SELECT rule FROM schedules");
    DELETE = sql!("DELETE FROM schedules WHERE rule = $1");
    TOLD_SQLITE = sql!("UPDATE schedules SET telling = NULL WHERE telling = $1");
}

/// The row stays locked until the transaction ends; a SQLite file has one writer anyway.
pub(crate) const FIND_POSTGRES: Sql = select!("WHERE rule = $1 FOR UPDATE");
/// As `TOLD_SQLITE`; the rows are locked in the order in which decisions lock them.
pub(crate) const TOLD_POSTGRES: Sql = sql!(
    "UPDATE schedules SET telling = NULL WHERE rule IN (SELECT rule FROM schedules ",
    "WHERE telling = ANY($1::UUID[]) ORDER BY rule FOR UPDATE)",
);
/// Events of decisions that are among the events from now on.
pub(crate) const TOLD: Batch = Batch { sqlite: TOLD_SQLITE, postgres: TOLD_POSTGRES, width: 1 };

/// What [`TOLD`] is to be run for.
pub(crate) fn told(events: &[(u64, Event)]) -> Vec<Value> {
    let told = events.iter().filter(|(_, event)| {
        matches!(event.fact, Fact::ScheduleDue { .. } | Fact::ScheduleSkipped { .. })
    });
    told.map(|(_, event)| event.id.0.into()).collect()
}

fn read_schedule(row: &Row<'_>) -> Result<Schedule> {
    let telling = match (row.maybe_id(7)?, row.maybe_int(8)?) {
        (Some(event), Some(planned)) => Some(Telling {
            event: EventId(event),
            planned: Timestamp(planned),
            skipped: row.maybe_text(9)?,
        }),
        _ => None,
    };
    Ok(Schedule {
        rule: row.id(0)?,
        expression: row.text(1)?,
        zone: row.text(2)?,
        planned: row.time(3)?,
        due: row.maybe_int(4)?.map(Timestamp),
        missed: row.json::<Vec<i64>>(5)?.into_iter().map(Timestamp).collect(),
        queued: row.maybe_int(6)?.map(Timestamp),
        telling,
        changed_at: row.time(10)?,
    })
}

/// The columns but for the rule, in their order.
fn values(schedule: &Schedule) -> Result<Vec<Value>> {
    let missed: Vec<i64> = schedule.missed.iter().map(|at| at.micros()).collect();
    let telling = schedule.telling.as_ref();
    Ok(vec![
        Value::text(&schedule.expression),
        Value::text(&schedule.zone),
        schedule.planned.into(),
        schedule.due.into(),
        Value::text(to_json(&missed)?),
        schedule.queued.into(),
        telling.map(|telling| telling.event.0).into(),
        telling.map(|telling| telling.planned).into(),
        Value::maybe_text(telling.and_then(|telling| telling.skipped.as_deref())),
        schedule.changed_at.into(),
    ])
}

/// A transaction in which instants are decided. Rules must be looked at in the order of their ids,
/// or two of these wait for each other. Dropped without a commit it leaves nothing.
pub struct Deciding {
    work: Work,
    dialect: Dialect,
}

impl Deciding {
    /// How far a rule has come; nobody else decides about it until the transaction ends.
    pub async fn schedule(&mut self, rule: Uuid) -> Result<Option<Schedule>> {
        let find = match self.dialect {
            Dialect::Sqlite => FIND_SQLITE,
            Dialect::Postgres => FIND_POSTGRES,
        };
        Ok(self.work.query(find, vec![rule.into()], read_schedule).await?.pop())
    }

    /// True of a job that has not ended.
    pub async fn is_open(&mut self, job: JobId) -> Result<bool> {
        Ok(!self.work.query(OPEN_JOB, vec![job.0.into()], |row| row.id(0)).await?.is_empty())
    }

    /// Keeps the first decision about a rule; false if another node has made it meanwhile.
    pub async fn add(&mut self, schedule: &Schedule) -> Result<bool> {
        let mut row = vec![schedule.rule.into()];
        row.extend(values(schedule)?);
        Ok(self.work.execute(ADD, row).await? > 0)
    }

    /// Keeps a decision about a rule that [`Deciding::schedule`] found.
    pub async fn change(&mut self, schedule: &Schedule) -> Result<()> {
        let mut row = values(schedule)?;
        row.push(schedule.rule.into());
        self.work.execute(CHANGE, row).await.map(drop)
    }

    /// Ends the transaction; what was decided is durable when this returns.
    pub async fn commit(self) -> Result<()> {
        self.work.commit().await
    }
}

impl Db {
    /// Begins to decide about instants of schedules. Keep it short.
    pub async fn decide(&self) -> Result<Deciding> {
        Ok(Deciding { work: self.work(Purpose::Other).await?, dialect: self.dialect() })
    }

    /// Decisions made before `before`, or after `after` by a clock that is ahead, whose events are
    /// still not among the events; at most `limit`.
    pub async fn untold_schedules(
        &self,
        before: Timestamp,
        after: Timestamp,
        limit: u32,
    ) -> Result<Vec<Schedule>> {
        let values = vec![before.into(), after.into(), crate::page(limit)];
        self.read(UNTOLD, values, read_schedule).await
    }

    /// Forgets all rules but `rules`, those of `revision` of the configuration; none if it has
    /// changed since.
    pub async fn keep_schedules(&self, revision: i64, rules: &BTreeSet<Uuid>) -> Result<()> {
        let known = self.read(ALL_RULES, Vec::new(), |row| row.id(0)).await?;
        let gone: Vec<Uuid> = known.into_iter().filter(|rule| !rules.contains(rule)).collect();
        if gone.is_empty() {
            return Ok(());
        }
        let Some(mut work) = self.work_at(revision).await? else { return Ok(()) };
        for rule in gone {
            work.execute(DELETE, vec![rule.into()]).await?;
        }
        work.commit().await
    }
}
