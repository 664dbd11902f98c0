//! Jobs that run one after the other: those with the same `order_key`, in the order of the times of
//! their events.
//!
//! No row says which is the next: a job that is claimed is admitted if none before it is left and
//! none is admitted, and rests otherwise. What ends an admitted one wakes the next.

use entrepot_nouns::{BehindFailed, JobId, SiteId, Timestamp};
use uuid::Uuid;

use crate::error::Result;
use crate::jobs::{JobHold, held};
use crate::lanes::LOCK_POSTGRES;
use crate::sql::{Sql, Value, sql, statements};
use crate::{Db, Dialect, Purpose};

/// Jobs of the same order as the row of `jobs` that are left, and that it has to wait for: those
/// that have failed only if `$failed`.
macro_rules! others {
    ($failed:literal) => {
        concat!(
            "FROM jobs AS other WHERE other.order_key = jobs.order_key AND other.id <> jobs.id ",
            "AND other.state IN ('ready', 'running', 'failed') AND (other.state <> 'failed' OR ",
            $failed,
            ") ",
        )
    };
}

macro_rules! is_first {
    ($failed:literal) => {
        concat!(
            "(jobs.order_key IS NULL OR NOT EXISTS (SELECT 1 ",
            others!($failed),
            "AND (other.ordered_at, other.event_id) < (jobs.ordered_at, jobs.event_id)) ",
            "AND NOT EXISTS (SELECT 1 ",
            others!($failed),
            "AND other.admitted))",
        )
    };
}

statements! {
    ADMIT = sql!(
        "UPDATE jobs SET admitted = TRUE WHERE id = $1 AND epoch = $2 AND node_id = $3 ",
        "AND incarnation = $4 AND era = $5 AND state = 'running' AND (admitted OR ",
        is_first!("$6"),
        ")",
    );
    /// Runs behind the statement that lets the job rest, as `WAKE_IF_ENDED` does.
    WAKE_IF_FIRST = sql!(
        "UPDATE jobs SET claim_at = $1 WHERE id = $2 AND state = 'ready' AND ",
        is_first!("$3"),
    );
    /// The row is looked at whatever its state: on PostgreSQL that waits for whoever is letting the
    /// job rest at this moment, and then sees that it rests.
    NEXT = sql!(
        "UPDATE jobs SET claim_at = CASE WHEN state = 'ready' AND NOT admitted ",
        "AND claim_at > $1 THEN $1 ELSE claim_at END WHERE id = (SELECT other.id FROM jobs AS ended JOIN jobs AS other ",
        "ON other.order_key = ended.order_key WHERE ended.id = $2 AND other.id <> ended.id ",
        "AND other.state IN ('ready', 'running') ",
        "ORDER BY other.ordered_at, other.event_id LIMIT 1)",
    );
    ORDER_KEY = sql!("SELECT order_key FROM jobs WHERE id = $1");
    AHEAD = sql!(
        "SELECT other.id FROM jobs AS behind JOIN jobs AS other ",
        "ON other.order_key = behind.order_key WHERE behind.site = $1 AND behind.id = $2 ",
        "AND behind.state = 'ready' AND NOT behind.admitted AND other.id <> behind.id ",
        "AND other.state IN ('ready', 'running', 'failed') ",
        "AND (other.state <> 'failed' OR $3) AND (other.admitted ",
        "OR (other.ordered_at, other.event_id) < (behind.ordered_at, behind.event_id)) ",
        "ORDER BY other.admitted DESC, other.ordered_at DESC, other.event_id DESC LIMIT 1",
    );
}

/// Lets the next job begin behind one that has ended.
pub(crate) fn next(ended: Uuid, now: Timestamp) -> (Sql, Vec<Value>) {
    (NEXT, vec![now.into(), ended.into()])
}

/// Lets a job begin that has just been laid to rest, if nothing of its order is before it any more.
pub(crate) fn unless_behind(
    rests: Uuid,
    now: Timestamp,
    failed: BehindFailed,
) -> (Sql, Vec<Value>) {
    (WAKE_IF_FIRST, vec![now.into(), rests.into(), waits_for_failed(failed)])
}

/// Whether jobs wait behind one that has failed.
fn waits_for_failed(failed: BehindFailed) -> Value {
    Value::Bool(failed == BehindFailed::Stop)
}

impl Db {
    /// Whether a job that is held may begin: none of its order before it is left, and none of them
    /// has been admitted. It stays admitted until it has ended. False also if it is not held.
    pub async fn admit_job(&self, hold: &JobHold, failed: BehindFailed) -> Result<bool> {
        let mut work = self.work(Purpose::Other).await?;
        if self.dialect() == Dialect::Postgres {
            // Two of one order that are looked at together would not see each other.
            let id = vec![hold.id.0.into()];
            let keys = work.query(ORDER_KEY, id, |row| row.maybe_text(0)).await?;
            if let Some(key) = keys.into_iter().next().flatten() {
                let name = vec![Value::text(format!("order {key}"))];
                work.query(LOCK_POSTGRES, name, |_| Ok(())).await?;
            }
        }
        let mut values = held(hold).to_vec();
        values.push(waits_for_failed(failed));
        let admitted = work.execute(ADMIT, values).await? > 0;
        work.commit().await?;
        Ok(admitted)
    }

    /// The job that a job which rests waits for, as its order wants it.
    pub async fn job_ahead(
        &self,
        site: SiteId,
        id: JobId,
        failed: BehindFailed,
    ) -> Result<Option<JobId>> {
        let values = vec![site.0.into(), id.0.into(), waits_for_failed(failed)];
        let found = self.read(AHEAD, values, |row| row.id(0)).await?;
        Ok(found.into_iter().next().map(JobId))
    }
}
