//! Jobs: a queue with leases and fencing.
//!
//! A claim gives a process of a node a lease and the job a new epoch. A write to a job names all of
//! it: the epoch, the process that claimed, and the era of the database, for epochs fall back with
//! a database that does. If the job was claimed anew or cancelled since, nothing is written and
//! the writer is answered false. A new era ends every lease.

use entrepot_nouns::{
    BehindFailed, EventId, Job, JobHolder, JobId, JobState, JobStep, Name, NodeId, RuleVersion,
    SiteId, StepAddress, Timestamp,
};

use crate::approvals::ApprovalKey;
use crate::error::Result;
use crate::job_rows::HeldWrite;
use crate::job_steps::RuleDocument;
use crate::lanes::LaneKey;
use crate::limits;
use crate::moment::{era_postgres, era_sqlite, now_postgres, now_sqlite};
use crate::sql::{Row, Sql, Value, sql, statements, to_json};
use crate::tx::{Batch, Tx, Work};
use crate::waits::EventRest;
use crate::{Db, Dialect, RowPosition, job_rows, job_steps, name_filter, page, waits, wakes};

/// A job as a node holds it: what each later write must show.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobHold {
    /// The job that was claimed.
    pub id: JobId,
    /// Its epoch at the claim; a later claim, or a cancellation, has raised it.
    pub epoch: i64,
    /// Who claimed it. A job that nobody claimed is held by none: no write is taken for it.
    pub holder: Option<JobHolder>,
}

impl From<&Job> for JobHold {
    fn from(job: &Job) -> Self {
        JobHold { id: job.id, epoch: job.epoch, holder: job.holder.clone() }
    }
}

/// A write for a job, by whoever holds it.
#[derive(Clone, PartialEq, Debug)]
pub struct JobWrite {
    /// The job, as it is held.
    pub hold: JobHold,
    /// What is written.
    pub change: JobChange,
}

/// What a holder of a job writes about it.
#[derive(Clone, PartialEq, Debug)]
pub enum JobChange {
    /// It is held until then.
    Extend(Timestamp),
    /// It is about to begin this step, of which it must be known that it was begun.
    Begin(JobStep),
    /// It has passed a step.
    Pass(PassedStep),
    /// The lease is given back, for the job to go on in the lane of its next step; the lease was no
    /// attempt.
    HandOver(HandOver),
    /// The attempt ends.
    End(JobEnding),
}

/// How and when an attempt ended.
#[derive(Clone, PartialEq, Debug)]
pub struct JobEnding {
    /// How it ended.
    pub end: JobEnd,
    /// When it ended.
    pub at: Timestamp,
    /// What there is to remember of the steps that ended last, in their order.
    pub steps: Vec<JobStep>,
    /// A job that may rest until this one has ended: it may go on now.
    pub wakes: Option<JobId>,
    /// Others of its order may rest until this one has ended: the next may begin.
    pub in_order: bool,
    /// Steps of it may have waited for events.
    pub waited: bool,
}

impl JobWrite {
    /// What is to be remembered of steps.
    fn steps(&self) -> &[JobStep] {
        match &self.change {
            JobChange::Extend(_) => &[],
            JobChange::Begin(step) => std::slice::from_ref(step),
            JobChange::Pass(passed) => &passed.steps,
            JobChange::HandOver(over) => over.passed.as_ref().map_or(&[], |passed| &passed.steps),
            JobChange::End(ending) => &ending.steps,
        }
    }

    /// What follows if it was held: statements that let jobs go on that rest.
    fn wakes(&self) -> Vec<(Sql, Vec<Value>)> {
        let id = self.hold.id;
        match &self.change {
            JobChange::End(JobEnding { end, at, wakes: caller, in_order, waited, .. })
                if !matches!(end, JobEnd::Retry { .. }) =>
            {
                let caller = caller.map(|caller| wakes::rested(caller, *at));
                let next = in_order.then(|| wakes::next(id, *at));
                let waits = waited.then(|| waits::forgotten(id));
                caller.into_iter().chain(next).chain(waits).collect()
            }
            JobChange::HandOver(HandOver { at, rests_for, .. }) => {
                let wakes = rests_for.iter().map(|rests_for| match rests_for {
                    RestsFor::EndOf(other) => wakes::if_ended(id, *at, *other),
                    RestsFor::Answered(asked) => wakes::if_decided(id, *at, asked.values()),
                    RestsFor::Turn(failed) => wakes::if_first(id, *at, *failed),
                    RestsFor::Event(rest) => wakes::if_told(id, *at, rest),
                });
                wakes.collect()
            }
            _ => Vec::new(),
        }
    }

    /// Changes one row, or none if the job is not held.
    fn statement(&self, dialect: Dialect) -> HeldWrite {
        let (sql, set, mut values) = match &self.change {
            JobChange::Extend(until) => {
                let sql = match dialect {
                    Dialect::Sqlite => EXTEND_SQLITE,
                    Dialect::Postgres => EXTEND_POSTGRES,
                };
                (sql, Some(job_rows::EXTEND), vec![(*until).into()])
            }
            JobChange::Begin(step) => (BEGIN, None, vec![Value::text(&*step.address.0)]),
            JobChange::Pass(passed) => {
                let (count, next) = (i64::from(passed.count), Value::text(&*passed.next.0));
                let values = vec![count.into(), next, Value::text(passed.lane.as_str())];
                (ADVANCE, Some(job_rows::ADVANCE), values)
            }
            JobChange::HandOver(over) => {
                let passed = over.passed.as_ref();
                let count = Value::Int(passed.map(|passed| i64::from(passed.count)));
                let next = Value::maybe_text(passed.map(|passed| &passed.next.0));
                let lane = Value::text(over.lane.as_str());
                (HAND_OVER, None, vec![count, next, lane, over.due_at.into(), over.at.into()])
            }
            JobChange::End(ending) => (END, Some(job_rows::END), ending.values()),
        };
        values.extend(held(&self.hold));
        HeldWrite { job: self.hold.id, sql, set, values }
    }
}

impl JobEnding {
    /// The first values of [`END`].
    fn values(&self) -> Vec<Value> {
        let (state, due_at, error) = match &self.end {
            JobEnd::Done => (JobState::Done, None, None),
            JobEnd::Retry { due_at, error } => (JobState::Ready, Some(*due_at), Some(error)),
            JobEnd::Failed { error } => (JobState::Failed, None, Some(error)),
        };
        vec![
            state.as_str().into(),
            due_at.into(),
            Value::maybe_text(error),
            self.at.into(),
            Value::maybe_text(self.steps.last().map(|step| &step.address.0)),
        ]
    }
}

/// How an attempt ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum JobEnd {
    /// All steps done.
    Done,
    /// The job is ready again, for any node to claim.
    Retry {
        /// No node claims it before this.
        due_at: Timestamp,
        /// Why it failed, one sentence.
        error: String,
    },
    /// That was the last attempt.
    Failed {
        /// Why it failed, one sentence.
        error: String,
    },
}

/// Steps that a job has gone past.
#[derive(Clone, PartialEq, Debug)]
pub struct PassedStep {
    /// What is remembered of those of them that are not recorded yet, in their order.
    pub steps: Vec<JobStep>,
    /// The step that follows.
    pub next: StepAddress,
    /// How many steps are done, as programs count that know no addresses: [`ELSE_UNIT`].
    pub count: u32,
    /// Where the job runs from now on.
    pub lane: LaneKey,
}

/// A job that is to go on in another lane.
#[derive(Clone, PartialEq, Debug)]
pub struct HandOver {
    /// The lane of its next step.
    pub lane: LaneKey,
    /// When it is given back.
    pub at: Timestamp,
    /// Nobody claims it before this; unset: before it could be claimed the last time.
    pub due_at: Option<Timestamp>,
    /// The step that it went past before that is not recorded yet.
    pub passed: Option<PassedStep>,
    /// What it rests for: if any of that has happened by now, it may go on at once.
    pub rests_for: Vec<RestsFor>,
}

/// What a job rests for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RestsFor {
    /// The end of this job.
    EndOf(JobId),
    /// What decides this question.
    Answered(ApprovalKey),
    /// The end of those of its order that come before it.
    Turn(BehindFailed),
    /// That an event of some kind comes.
    Event(EventRest),
}

/// One step of `else`, in the count of [`PassedStep`]. No rule has as many steps.
pub const ELSE_UNIT: u32 = 1 << 16;

/// Which jobs are wanted. The default wants all, newest first.
#[derive(Clone, Debug)]
pub struct JobFilter {
    /// Only in this state.
    pub state: Option<JobState>,
    /// Only of this rule.
    pub rule: Option<Name>,
    /// Only those that come after this row, newest first.
    pub after: Option<RowPosition>,
    /// At most this many, and never more than [`crate::limits::PAGE_ROWS`].
    pub limit: u32,
}

impl Default for JobFilter {
    fn default() -> Self {
        JobFilter { state: None, rule: None, after: None, limit: limits::PAGE_ROWS }
    }
}

/// How many jobs there are, over all sites.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct JobCounts {
    /// Waiting, due or not.
    pub ready: u64,
    /// Claimed by a node, also where the lease has run out and nobody claimed it anew.
    pub running: u64,
    /// In the dead-letter state.
    pub failed: u64,
    /// The earliest `due_at` of a ready job.
    pub oldest_due: Option<Timestamp>,
}

/// The columns of [`read_row`], with what stands before and behind them.
macro_rules! columns {
    ($before:expr, $after:expr) => {
        sql!(
            $before,
            " id, site, rule, event_id, event, state, step, attempts, epoch, node, ",
            "leased_until, due_at, created_at, changed_at, error, node_id, incarnation, era, ",
            "repeated, rule_version, address, lane, handed_over, order_key ",
            $after,
        )
    };
}
pub(crate) use columns;

/// Also the fence before every effect: a lease of an earlier era is over.
macro_rules! extend {
    ($era:ident) => {
        sql!(
            "UPDATE jobs SET leased_until = $1, claim_at = $1 ",
            "WHERE id = $2 AND epoch = $3 AND node_id = $4 AND incarnation = $5 AND era = $6 ",
            "AND state = 'running' AND era = ",
            $era!(),
        )
    };
}

/// The epoch stays: the next claim raises it, and fences the process that held the job.
macro_rules! take_over {
    ($now:ident, $era:ident) => {
        sql!(
            "UPDATE jobs SET state = 'ready', node = NULL, leased_until = NULL, due_at = $1, ",
            "claim_at = $1, changed_at = $1 WHERE state = 'running' AND (era <> ",
            $era!(),
            " OR NOT EXISTS (SELECT 1 FROM nodes WHERE nodes.id = jobs.node_id ",
            "AND nodes.incarnation = jobs.incarnation AND NOT nodes.stopped ",
            "AND nodes.heartbeat_at + $2 > ",
            $now!("3"),
            "))",
        )
    };
}

macro_rules! insert {
    ($values:literal) => {
        sql!(
            "INSERT INTO jobs (id, site, rule, event_id, event, state, rule_version, address, ",
            "attempts, epoch, node, node_id, incarnation, era, repeated, leased_until, claim_at, ",
            "due_at, created_at, changed_at, error, lane, handed_over, order_key, ordered_at, ",
            "step) ",
            $values,
            " ON CONFLICT (id) DO NOTHING",
        )
    };
}

statements! {
    EXTEND_SQLITE = extend!(era_sqlite);
    TAKE_OVER_SQLITE = take_over!(now_sqlite, era_sqlite);
    ADVANCE = sql!(
        "UPDATE jobs SET step = $1, address = $2, lane = $3 WHERE id = $4 AND epoch = $5 ",
        "AND node_id = $6 AND incarnation = $7 AND era = $8 AND state = 'running'",
    );
    BEGIN = sql!(
        "UPDATE jobs SET address = $1 WHERE id = $2 AND epoch = $3 AND node_id = $4 ",
        "AND incarnation = $5 AND era = $6 AND state = 'running'",
    );
    /// It keeps its place in time: what is begun is ended before what came later. A job that was
    /// woken is due now, and not when it would have looked by itself.
    HAND_OVER = sql!(
        "UPDATE jobs SET step = COALESCE(CAST($1 AS BIGINT), step), ",
        "address = COALESCE($2, address), lane = $3, state = 'ready', ",
        "due_at = COALESCE(CAST($4 AS BIGINT), CASE WHEN due_at > $5 THEN $5 ELSE due_at END), ",
        "claim_at = COALESCE(CAST($4 AS BIGINT), CASE WHEN due_at > $5 THEN $5 ELSE due_at END), ",
        "attempts = attempts - 1, handed_over = handed_over + 1, changed_at = $5, node = NULL, ",
        "leased_until = NULL WHERE id = $6 AND epoch = $7 AND node_id = $8 AND incarnation = $9 ",
        "AND era = $10 AND state = 'running'",
    );
    END = sql!(
        "UPDATE jobs SET state = $1, due_at = COALESCE(CAST($2 AS BIGINT), due_at), ",
        "claim_at = $2, error = $3, changed_at = $4, node = NULL, leased_until = NULL, ",
        "address = COALESCE($5, address) ",
        "WHERE id = $6 AND epoch = $7 AND node_id = $8 AND incarnation = $9 AND era = $10 ",
        "AND state = 'running'",
    );
    /// The epoch stays: the next claim raises it, and fences the process that held the job.
    RELEASE = sql!(
        "UPDATE jobs SET state = 'ready', node = NULL, leased_until = NULL, due_at = $1, ",
        "claim_at = $1, changed_at = $1 ",
        "WHERE node_id = $2 AND incarnation < $3 AND state = 'running'",
    );
    /// What changed in the future changed by a clock that was ahead.
    BRING_FORWARD = sql!(
        "UPDATE jobs SET due_at = $1, claim_at = $1, changed_at = $1 ",
        "WHERE state = 'ready' AND changed_at > $2",
    );
    REPEAT_SQLITE = sql!(
        "UPDATE jobs SET repeated = TRUE, state = COALESCE($1, state), ",
        "claim_at = CASE WHEN COALESCE($1, state) IN ('ready', 'running') THEN claim_at END ",
        "WHERE id = $2 AND state IN ('ready', 'running')",
    );
    FIND = columns!("SELECT", "FROM jobs WHERE site = $1 AND id = $2");
    OF_EVENT = columns!(
        "SELECT",
        "FROM jobs WHERE event_id = $1 ORDER BY created_at, id LIMIT $2"
    );
    SEARCH = columns!(
        "SELECT",
        "FROM jobs WHERE site = $1 AND (CAST($2 AS TEXT) IS NULL OR state = $2) \
         AND (CAST($3 AS TEXT) IS NULL OR rule = $3) \
         AND (CAST($4 AS BIGINT) IS NULL OR (created_at, id) < ($4, $5)) \
         ORDER BY created_at DESC, id DESC LIMIT $6"
    );
    RETRY = sql!(
        "UPDATE jobs SET state = 'ready', attempts = 0, handed_over = 0, due_at = $1, ",
        "claim_at = $1, ",
        "address = NULL, step = step % 65536, changed_at = $1, ",
        "admitted = (admitted AND state = 'ready') WHERE site = $2 AND id = $3 ",
        "AND state IN ('ready', 'failed', 'cancelled')",
    );
    /// A new epoch fences the node that may be at work on it.
    CANCEL = sql!(
        "UPDATE jobs SET state = 'cancelled', epoch = epoch + 1, claim_at = NULL, node = NULL, ",
        "leased_until = NULL, changed_at = $1 WHERE site = $2 AND id = $3 ",
        "AND state IN ('ready', 'running', 'failed')",
    );
    COUNT = sql!(
        "SELECT state, CAST(SUM(jobs) AS BIGINT) FROM job_counts ",
        "WHERE state IN ('ready', 'running', 'failed') GROUP BY state",
    );
    OLDEST_DUE = sql!("SELECT MIN(due_at) FROM jobs WHERE state = 'ready'");
    INSERT_SQLITE = insert!(
        "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, \
         $18, $19, $20, $21, $22, $23, $24, $25, 0)"
    );
}

/// As `EXTEND_SQLITE`, with the era of the server that answers.
pub(crate) const EXTEND_POSTGRES: Sql = extend!(era_postgres);
/// As `TAKE_OVER_SQLITE`, by the server's clock.
pub(crate) const TAKE_OVER_POSTGRES: Sql = take_over!(now_postgres, era_postgres);
/// As `REPEAT_SQLITE`, an array a column.
pub(crate) const REPEAT_POSTGRES: Sql = sql!(
    "UPDATE jobs SET repeated = TRUE, state = COALESCE(told.state, jobs.state), ",
    "claim_at = CASE WHEN COALESCE(told.state, jobs.state) IN ('ready', 'running') ",
    "THEN jobs.claim_at END ",
    "FROM UNNEST($1::TEXT[], $2::UUID[]) AS told (state, id) ",
    "WHERE jobs.id = told.id AND jobs.state IN ('ready', 'running')",
);
/// As `INSERT_SQLITE`, an array a column.
pub(crate) const INSERT_POSTGRES: Sql = insert!(
    "SELECT *, 0 FROM UNNEST($1::UUID[], $2::UUID[], $3::TEXT[], $4::UUID[], $5::TEXT[], \
     $6::TEXT[], $7::TEXT[], $8::TEXT[], $9::BIGINT[], $10::BIGINT[], $11::TEXT[], $12::UUID[], \
     $13::BIGINT[], $14::TEXT[], $15::BOOLEAN[], $16::BIGINT[], $17::BIGINT[], $18::BIGINT[], \
     $19::BIGINT[], $20::BIGINT[], $21::TEXT[], $22::TEXT[], $23::BIGINT[], $24::TEXT[], \
     $25::BIGINT[])"
);

/// Rows of [`rows`].
pub(crate) const INSERT: Batch =
    Batch { sqlite: INSERT_SQLITE, postgres: INSERT_POSTGRES, width: 25 };

/// What events that are projected anew say of jobs: a state, or NULL, and an id each.
pub(crate) const REPEAT: Batch =
    Batch { sqlite: REPEAT_SQLITE, postgres: REPEAT_POSTGRES, width: 2 };

/// The values of the jobs' rows, end to end.
pub(crate) fn rows(jobs: &[Job]) -> Result<Vec<Value>> {
    let mut rows = Vec::with_capacity(jobs.len() * INSERT.width);
    for job in jobs {
        let claim_at = match job.state {
            JobState::Ready => Some(job.due_at),
            JobState::Running => job.leased_until,
            JobState::Done | JobState::Failed | JobState::Cancelled => None,
        };
        rows.extend([
            job.id.0.into(),
            job.site.0.into(),
            (&job.rule).into(),
            job.event_id.0.into(),
            Value::text(to_json(&job.event)?),
            job.state.as_str().into(),
            Value::maybe_text(job.rule_version.as_ref().map(|version| &version.0)),
            Value::maybe_text(job.at.as_ref().map(|address| &address.0)),
            i64::from(job.attempts).into(),
            job.epoch.into(),
            name_filter(job.node.as_ref()),
            job.holder.as_ref().map(|holder| holder.node.0).into(),
            Value::Int(job.holder.as_ref().map(|holder| holder.incarnation)),
            Value::maybe_text(job.holder.as_ref().map(|holder| &holder.era)),
            Value::Bool(job.repeated),
            job.leased_until.into(),
            claim_at.into(),
            job.due_at.into(),
            job.created_at.into(),
            job.changed_at.into(),
            Value::maybe_text(job.error.as_deref()),
            Value::text(LaneKey::of(job).as_str()),
            i64::from(job.handed_over).into(),
            Value::maybe_text(job.order.as_ref()),
            job.order.as_ref().map(|_| job.event.at).into(),
        ]);
    }
    Ok(rows)
}

/// The process that claimed the job last, if any did.
fn read_holder(row: &Row<'_>) -> Result<Option<JobHolder>> {
    let parts = (row.maybe_id(15)?, row.maybe_int(16)?, row.maybe_text(17)?);
    let (Some(node), Some(incarnation), Some(era)) = parts else { return Ok(None) };
    Ok(Some(JobHolder { node: NodeId(node), incarnation, era }))
}

/// Where the job goes on. Programs before steps had addresses counted those that were done, and
/// from [`ELSE_UNIT`] on those of `else`.
fn read_address(row: &Row<'_>) -> Result<Option<StepAddress>> {
    let address = row.maybe_text(20)?.map(StepAddress);
    if address.is_some() || row.maybe_text(19)?.is_some() {
        return Ok(address);
    }
    Ok(match row.small(6)? {
        0 => None,
        done if done < ELSE_UNIT => Some(StepAddress(format!("do.{done}"))),
        done => Some(StepAddress(format!("else.{}", (done / ELSE_UNIT).saturating_sub(1)))),
    })
}

pub(crate) fn read_row(row: &Row<'_>) -> Result<Job> {
    Ok(Job {
        id: JobId(row.id(0)?),
        site: SiteId(row.id(1)?),
        rule: row.name(2)?,
        event_id: EventId(row.id(3)?),
        event: row.json(4)?,
        state: row.word(5)?,
        rule_version: row.maybe_text(19)?.map(RuleVersion),
        at: read_address(row)?,
        lane: LaneKey::stored(row.text(21)?).lane(),
        order: row.maybe_text(23)?,
        attempts: row.small(7)?,
        epoch: row.int(8)?,
        handed_over: row.small(22)?,
        node: row.maybe_name(9)?,
        holder: read_holder(row)?,
        repeated: row.bool(18)?,
        leased_until: row.maybe_int(10)?.map(Timestamp),
        due_at: row.time(11)?,
        created_at: row.time(12)?,
        changed_at: row.time(13)?,
        error: row.maybe_text(14)?,
    })
}

/// The values that name a hold: epoch, process and era; the id comes first.
pub(crate) fn held(hold: &JobHold) -> [Value; 5] {
    let holder = hold.holder.as_ref();
    [
        hold.id.0.into(),
        hold.epoch.into(),
        holder.map(|holder| holder.node.0).into(),
        Value::Int(holder.map(|holder| holder.incarnation)),
        Value::maybe_text(holder.map(|holder| &holder.era)),
    ]
}

/// [`limits::NODE_DEAD_AFTER`] as heartbeats are measured.
pub(crate) fn dead_after() -> Value {
    i64::try_from(limits::NODE_DEAD_AFTER.as_micros()).unwrap_or(i64::MAX).into()
}

impl Db {
    /// Makes writes for jobs; for each whether the job was held as it says.
    pub(crate) async fn write_in(&self, work: &mut Work, writes: &[JobWrite]) -> Result<Vec<bool>> {
        let dialect = self.dialect();
        let rows = writes.iter().map(|write| write.statement(dialect)).collect();
        let held = job_rows::write(work, dialect, rows).await?;
        let mut steps = Vec::new();
        for (write, held) in writes.iter().zip(&held) {
            for step in write.steps().iter().filter(|_| *held) {
                steps.extend(job_steps::row(write.hold.id, step)?);
            }
        }
        work.each(job_steps::REMEMBER, steps).await?;
        let kept = writes.iter().zip(&held).filter(|(_, held)| **held);
        work.many(kept.flat_map(|(write, _)| write.wakes()).collect()).await?;
        Ok(held)
    }

    /// Gives back all leases of earlier starts of a node: their holders died with those. Says how
    /// many.
    pub async fn release_jobs(
        &self,
        node: NodeId,
        incarnation: i64,
        now: Timestamp,
    ) -> Result<u64> {
        let values = vec![now.into(), node.0.into(), incarnation.into()];
        self.execute(RELEASE, values).await
    }

    /// Makes those ready jobs due now that last changed more than [`limits::CLOCK_AHEAD`] behind
    /// `now`: the clock by which they wait was set back since. Says how many.
    pub async fn bring_jobs_forward(&self, now: Timestamp) -> Result<u64> {
        let values = vec![now.into(), now.plus(limits::CLOCK_AHEAD).into()];
        self.execute(BRING_FORWARD, values).await
    }

    /// Ends the leases of nodes that are dead by the database's clock
    /// ([`limits::NODE_DEAD_AFTER`]), of starts of nodes that are over, and of earlier eras. To be
    /// called only by a node whose own heartbeats are answered quickly: to a slow database
    /// everybody looks dead. Says how many.
    pub async fn take_over_jobs(&self, now: Timestamp) -> Result<u64> {
        let sql = match self.dialect() {
            Dialect::Sqlite => TAKE_OVER_SQLITE,
            Dialect::Postgres => TAKE_OVER_POSTGRES,
        };
        self.execute(sql, vec![now.into(), dead_after(), self.clock()]).await
    }

    /// Jobs of a site that match, newest first.
    pub async fn jobs(&self, site: SiteId, filter: &JobFilter) -> Result<Vec<Job>> {
        let values = vec![
            site.0.into(),
            Value::maybe_text(filter.state.map(JobState::as_str)),
            name_filter(filter.rule.as_ref()),
            filter.after.map(|row| row.at).into(),
            filter.after.map(|row| row.id).into(),
            page(filter.limit),
        ];
        self.read(SEARCH, values, read_row).await
    }

    /// The job with this id, in whatever state; `None` if the site has no such job.
    pub async fn job(&self, site: SiteId, id: JobId) -> Result<Option<Job>> {
        Ok(self.read(FIND, vec![site.0.into(), id.0.into()], read_row).await?.pop())
    }

    /// The jobs that an event made, the oldest first, a page at most.
    pub async fn jobs_of_event(&self, site: SiteId, event: EventId) -> Result<Vec<Job>> {
        // With the site in the condition SQLite takes the index of jobs by site, which has them in
        // order, and reads all of them.
        let values = vec![event.0.into(), page(limits::PAGE_ROWS)];
        let mut jobs = self.read(OF_EVENT, values, read_row).await?;
        jobs.retain(|job| job.site == site);
        Ok(jobs)
    }

    /// How many jobs wait, run and have failed, over all sites.
    pub async fn job_counts(&self) -> Result<JobCounts> {
        let rows =
            self.read(COUNT, Vec::new(), |row| Ok((row.word::<JobState>(0)?, row.unsigned(1)?)));
        let mut counts = JobCounts::default();
        for (state, count) in rows.await? {
            match state {
                JobState::Ready => counts.ready = count,
                JobState::Running => counts.running = count,
                JobState::Failed => counts.failed = count,
                JobState::Done | JobState::Cancelled => {}
            }
        }
        let oldest = self.read(OLDEST_DUE, Vec::new(), |row| row.maybe_int(0)).await?;
        counts.oldest_due = oldest.first().copied().flatten().map(Timestamp);
        Ok(counts)
    }
}

impl Tx {
    /// Makes a failed, cancelled or waiting job due at once, with its attempts counted anew; the
    /// steps already done stay done. False if there is no such job in such a state.
    pub async fn retry_job(&mut self, site: SiteId, id: JobId, now: Timestamp) -> Result<bool> {
        self.lock_events().await?;
        let values = vec![now.into(), site.0.into(), id.0.into()];
        Ok(self.work.execute(RETRY, values).await? > 0)
    }

    /// Makes jobs, with the documents that they run. One that is there already is left as it is.
    pub async fn insert_jobs(
        &mut self,
        jobs: &[Job],
        rules: &[RuleDocument],
        now: Timestamp,
    ) -> Result<()> {
        self.lock_events().await?;
        job_steps::keep(&mut self.work, rules, now).await?;
        self.work.each(INSERT, rows(jobs)?).await
    }

    /// Lets a job go on that rests; of any other nothing changes.
    pub async fn wake_job(&mut self, id: JobId, now: Timestamp) -> Result<()> {
        self.lock_events().await?;
        let (wake, values) = wakes::rested(id, now);
        self.work.execute(wake, values).await.map(drop)
    }

    /// Ends a ready, running or failed job; a node at work on it finds it lost. False if there is
    /// no such job in such a state.
    pub async fn cancel_job(&mut self, site: SiteId, id: JobId, now: Timestamp) -> Result<bool> {
        self.lock_events().await?;
        let values = vec![now.into(), site.0.into(), id.0.into()];
        let cancelled = self.work.execute(CANCEL, values).await? > 0;
        if cancelled {
            for (sql, values) in [wakes::next(id, now), waits::forgotten(id)] {
                self.work.execute(sql, values).await?;
            }
        }
        Ok(cancelled)
    }
}
