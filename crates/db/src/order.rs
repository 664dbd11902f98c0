//! Jobs that run one after the other: those with the same `order_key`, in the order of the times of
//! their events.
//!
//! No row says which is the next: a job that is claimed is admitted if none before it is left and
//! none is admitted, and rests otherwise. What ends an admitted one wakes the next: `wakes.rs`.

use entrepot_nouns::{BehindFailed, JobId, SiteId};

use crate::error::Result;
use crate::jobs::{JobHold, held};
use crate::lanes::LOCK_POSTGRES;
use crate::sql::{Value, sql, statements};
use crate::wakes::{is_first, others, waits_for_failed};
use crate::{Db, Dialect, Purpose};

statements! {
    ADMIT = sql!(
        "UPDATE jobs SET admitted = TRUE WHERE id = $1 AND epoch = $2 AND node_id = $3 ",
        "AND incarnation = $4 AND era = $5 AND state = 'running' AND (admitted OR ",
        is_first!("$6"),
        ")",
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
