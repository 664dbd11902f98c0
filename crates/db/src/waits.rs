//! The events that steps of jobs wait for. A step says for which kind, and looks itself whether one
//! has come. The transaction that takes events of that kind over lets the job look once more: it
//! and the one in which a step begins to wait exclude each other, so that none is missed.

use std::collections::HashSet;

use entrepot_nouns::{EventId, JobId, SiteId, StepAddress, Timestamp};

use crate::error::Result;
use crate::sql::{Sql, Value, sql, statements};
use crate::tx::Batch;
use crate::{Db, Purpose};

/// Which step of which job waits: each life of the job begins anew.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WaitKey {
    /// The job that waits.
    pub job: JobId,
    /// The step of it.
    pub step: StepAddress,
    /// The life of the job.
    pub life: i64,
}

impl WaitKey {
    /// The values of its columns, in their order.
    pub(crate) fn values(&self) -> [Value; 3] {
        [self.job.0.into(), Value::text(&*self.step.0), self.life.into()]
    }
}

/// How a step waits for an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventWait {
    /// It has looked at the events up to this sequence.
    pub after: i64,
    /// How often events of its kind have come since it began.
    pub told: i64,
}

/// An event that a job rests for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventRest {
    /// The step that waits for it.
    pub wait: WaitKey,
    /// How many had come when it looked.
    pub told: i64,
}

/// That an event of a kind came.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct CameKind {
    /// The site of the event.
    pub site: SiteId,
    /// What it counts as.
    pub kind: String,
}

/// A job that looked less than two seconds ago looks again two seconds after that: events of some
/// kinds come by the thousand.
macro_rules! look_at {
    ($now:literal) => {
        concat!(
            "CASE WHEN jobs.changed_at + 2000000 > ",
            $now,
            " THEN jobs.changed_at + 2000000 ELSE ",
            $now,
            " END"
        )
    };
}

/// Rows of running jobs are looked at too: on PostgreSQL that waits for whoever is letting a job
/// rest at this moment, and then sees that it rests.
macro_rules! wake {
    ($now:literal, $which:literal $(,)?) => {
        sql!(
            "UPDATE jobs SET claim_at = CASE WHEN jobs.state = 'ready' AND jobs.claim_at > ",
            look_at!($now),
            " AND EXISTS (SELECT 1 FROM job_steps WHERE job_steps.job = jobs.id ",
            "AND job_steps.state = 'begun' AND job_steps.address = jobs.address) THEN ",
            look_at!($now),
            " ELSE jobs.claim_at END ",
            $which,
            "AND jobs.state IN ('ready', 'running') AND jobs.claim_at > ",
            look_at!($now),
        )
    };
}

statements! {
    BEGIN_WAIT = sql!(
        "INSERT INTO job_waits (job, address, life, site, kind, after_sequence, told) ",
        "VALUES ($1, $2, $3, $4, $5, COALESCE((SELECT sequence FROM events WHERE id = $6), ",
        "(SELECT MAX(sequence) FROM events), 0), 0) ON CONFLICT (job, address, life) DO NOTHING",
    );
    FIND_WAIT = sql!(
        "SELECT after_sequence, told FROM job_waits WHERE job = $1 AND address = $2 AND life = $3",
    );
    LOOKED = sql!(
        "UPDATE job_waits SET after_sequence = $1 WHERE job = $2 AND address = $3 AND life = $4",
    );
    END_WAIT = sql!("DELETE FROM job_waits WHERE job = $1 AND address = $2 AND life = $3");
    /// Of a job that has ended, or is deleted.
    FORGET_SQLITE = sql!("DELETE FROM job_waits WHERE job = $1");
    TELL_SQLITE = sql!("UPDATE job_waits SET told = told + 1 WHERE site = $1 AND kind = $2");
    WAKE_SQLITE = wake!(
        "$1",
        "WHERE jobs.id IN (SELECT job FROM job_waits WHERE site = $2 AND kind = $3) ",
    );
}

/// As `FORGET_SQLITE`, an array a column.
pub(crate) const FORGET_POSTGRES: Sql = sql!("DELETE FROM job_waits WHERE job = ANY($1::UUID[])");
/// As `TELL_SQLITE`, an array a column.
pub(crate) const TELL_POSTGRES: Sql = sql!(
    "UPDATE job_waits SET told = job_waits.told + 1 FROM UNNEST($1::UUID[], $2::TEXT[]) ",
    "AS came (site, kind) WHERE job_waits.site = came.site AND job_waits.kind = came.kind",
);
/// As `WAKE_SQLITE`, an array a column.
pub(crate) const WAKE_POSTGRES: Sql = wake!(
    "came.now",
    "FROM UNNEST($1::BIGINT[], $2::UUID[], $3::TEXT[]) AS came (now, site, kind), job_waits \
     WHERE job_waits.site = came.site AND job_waits.kind = came.kind AND jobs.id = job_waits.job "
);

/// The waits of jobs that are deleted.
pub(crate) const FORGET: Batch =
    Batch { sqlite: FORGET_SQLITE, postgres: FORGET_POSTGRES, width: 1 };
/// Rows of [`told`].
pub(crate) const TELL: Batch = Batch { sqlite: TELL_SQLITE, postgres: TELL_POSTGRES, width: 2 };
/// Rows of [`woken`].
pub(crate) const WAKE: Batch = Batch { sqlite: WAKE_SQLITE, postgres: WAKE_POSTGRES, width: 3 };

/// The waits of a job that has ended.
pub(crate) fn forgotten(job: JobId) -> (Sql, Vec<Value>) {
    (FORGET_SQLITE, vec![job.0.into()])
}

/// What [`TELL`] is to be run for.
pub(crate) fn told(came: &HashSet<CameKind>) -> Vec<Value> {
    came.iter().flat_map(|came| [came.site.0.into(), Value::text(&*came.kind)]).collect()
}

/// What [`WAKE`] is to be run for.
pub(crate) fn woken(came: &HashSet<CameKind>, now: Timestamp) -> Vec<Value> {
    let rows = came.iter();
    rows.flat_map(|came| [now.into(), came.site.0.into(), Value::text(&*came.kind)]).collect()
}

impl Db {
    /// Begins to wait for an event of a kind behind the one of the job, unless the step does so
    /// already; how it waits.
    pub async fn wait_for_event(
        &self,
        key: &WaitKey,
        came: &CameKind,
        behind: EventId,
    ) -> Result<EventWait> {
        if let Some(found) = self.event_wait(key).await? {
            return Ok(found);
        }
        // Whoever takes events over has done so before, or sees this one.
        let mut work = self.work(Purpose::Events).await?;
        let mut values = key.values().to_vec();
        values.extend([came.site.0.into(), Value::text(&*came.kind), behind.0.into()]);
        work.execute(BEGIN_WAIT, values).await?;
        work.commit().await?;
        let begun = self.event_wait(key).await?;
        Ok(begun.unwrap_or(EventWait { after: 0, told: 0 }))
    }

    async fn event_wait(&self, key: &WaitKey) -> Result<Option<EventWait>> {
        let found = self.read(FIND_WAIT, key.values().to_vec(), |row| {
            Ok(EventWait { after: row.int(0)?, told: row.int(1)? })
        });
        Ok(found.await?.pop())
    }

    /// The step has looked at the events up to this sequence.
    pub async fn looked_for_event(&self, key: &WaitKey, up_to: i64) -> Result<()> {
        let mut values = vec![up_to.into()];
        values.extend(key.values());
        self.execute(LOOKED, values).await.map(drop)
    }

    /// The step waits no more.
    pub async fn end_event_wait(&self, key: &WaitKey) -> Result<()> {
        self.execute(END_WAIT, key.values().to_vec()).await.map(drop)
    }
}
