//! Claims of jobs: which a node gets next, and what it writes of those it has in the same
//! transaction.

use entrepot_nouns::{Job, JobHolder, Name, Timestamp};

use crate::error::Result;
use crate::jobs::{JobWrite, columns, dead_after, read_row};
use crate::lanes::LaneWant;
use crate::limits;
use crate::moment::{era_postgres, era_sqlite, now_postgres, now_sqlite};
use crate::sql::{Sql, Value, sql, statements};
use crate::tx::Work;
use crate::{Db, Dialect, Purpose};

/// Who asks for jobs, and how many.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claim {
    /// What the node is called.
    pub node: Name,
    /// The process, and the era it takes the database to be in.
    pub holder: JobHolder,
    /// How many heartbeats the node has written at least: a database that counted fewer fell back,
    /// and gives no jobs before that was seen to.
    pub beats: i64,
}

/// What a node asks for at a time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobClaim {
    /// The process that asks, and what it knows of the database.
    pub claim: Claim,
    /// Of which lanes, and how many.
    pub wants: Vec<LaneWant>,
    /// Jobs that are due then.
    pub at: Timestamp,
    /// They are held until then.
    pub until: Timestamp,
}

/// What became of writes for jobs, and of the claim that went with them.
#[derive(Clone, PartialEq, Debug)]
pub struct JobsWritten {
    /// For each write: whether the job was held as it says.
    pub held: Vec<bool>,
    /// The jobs that were claimed.
    pub claimed: Vec<Job>,
}

/// Nothing is claimed by a node that is unknown, drained or superseded, that does not know yet that
/// the database fell back, or while any living node brings back what it lost.
macro_rules! claim {
    ($before:literal, $now:ident, $era:ident, $lock:literal) => {
        columns!(
            concat!(
                $before,
                "WITH free AS (SELECT id FROM jobs WHERE claim_at <= $1 AND EXISTS ",
                "(SELECT 1 FROM nodes WHERE nodes.id = $2 AND nodes.incarnation = $3 ",
                "AND nodes.beats >= $4 AND NOT nodes.drained) AND ",
                $era!(),
                " = $5 AND NOT EXISTS (SELECT 1 FROM nodes WHERE nodes.rebuilding ",
                "AND nodes.heartbeat_at + $6 > ",
                $now!("7"),
                ") AND lane = $8 AND claim_at >= $9 ORDER BY claim_at LIMIT $10 ",
                $lock,
                ") ",
                "UPDATE jobs SET state = 'running', attempts = attempts + 1, epoch = epoch + 1, ",
                "changed_at = $1, node = $11, node_id = $2, incarnation = $3, era = $5, ",
                "leased_until = $12, claim_at = $12 ",
                "WHERE id IN (SELECT id FROM free) RETURNING",
            ),
            ""
        )
    };
}

statements! {
    /// SQLite has one writer at a time: nobody else can look at the same rows.
    CLAIM_SQLITE = claim!("", now_sqlite, era_sqlite, "");
}

/// Rows that another node is claiming at this moment are passed over.
pub(crate) const CLAIM_POSTGRES: Sql =
    claim!("", now_postgres, era_postgres, "FOR UPDATE SKIP LOCKED");
/// What the server does for it.
#[cfg(test)]
pub(crate) const EXPLAIN_CLAIM: Sql =
    claim!("EXPLAIN (ANALYZE, BUFFERS) ", now_postgres, era_postgres, "FOR UPDATE SKIP LOCKED");
impl Db {
    /// Takes jobs of the wanted lanes that are ready and due, or whose lease has run out; of each
    /// lane the longest due first, and never more than [`limits::CLAIM_JOBS`] in all. Each has a
    /// new epoch and one attempt more. No job is given to two.
    ///
    /// # Errors
    /// As everywhere; none of them is claimed then.
    pub async fn claim_jobs(&self, claim: &JobClaim) -> Result<Vec<Job>> {
        let mut work = self.work(Purpose::Other).await?;
        let jobs = self.claim_in(&mut work, claim).await?;
        work.commit().await?;
        Ok(jobs)
    }

    /// Makes writes for jobs, and then a claim, in one transaction that is durable when this
    /// returns; for each write whether the job was held as it says. If it was not, nothing is
    /// written of that one.
    ///
    /// # Errors
    /// As everywhere; nothing of any of them is kept then.
    pub async fn write_jobs(
        &self,
        writes: &[JobWrite],
        claim: Option<&JobClaim>,
    ) -> Result<JobsWritten> {
        let mut work = self.work(Purpose::Other).await?;
        let held = self.write_in(&mut work, writes).await?;
        let claimed = match claim {
            Some(claim) => self.claim_in(&mut work, claim).await?,
            None => Vec::new(),
        };
        work.commit().await?;
        Ok(JobsWritten { held, claimed })
    }

    async fn claim_in(&self, work: &mut Work, wanted: &JobClaim) -> Result<Vec<Job>> {
        let sql = match self.dialect() {
            Dialect::Sqlite => CLAIM_SQLITE,
            Dialect::Postgres => CLAIM_POSTGRES,
        };
        let mut jobs = Vec::new();
        // In one order everywhere, so that no two nodes wait for each other's endpoints.
        let mut wants: Vec<&LaneWant> = wanted.wants.iter().collect();
        let endpoint = |want: &LaneWant| {
            want.at_once.as_ref().map(|limit| (limit.site, limit.endpoint.clone()))
        };
        wants.sort_by_key(|want| endpoint(want));
        for want in wants {
            let mut most = want.max.min(limits::CLAIM_JOBS.saturating_sub(jobs.len()));
            if let Some(limit) = &want.at_once {
                most = most.min(self.room(work, limit, wanted.at).await?);
            }
            if most == 0 {
                continue;
            }
            jobs.extend(work.query(sql, self.claiming(wanted, want, most), read_row).await?);
        }
        jobs.sort_by_key(|job| (job.due_at, job.id));
        Ok(jobs)
    }

    /// The values of a claim of at most so many jobs of a lane.
    pub(crate) fn claiming(&self, wanted: &JobClaim, want: &LaneWant, most: usize) -> Vec<Value> {
        let JobClaim { claim, at, until, .. } = wanted;
        vec![
            (*at).into(),
            claim.holder.node.0.into(),
            claim.holder.incarnation.into(),
            claim.beats.into(),
            Value::text(&*claim.holder.era),
            dead_after(),
            self.clock(),
            Value::text(want.lane.as_str()),
            want.since.unwrap_or(Timestamp(i64::MIN)).into(),
            Value::unsigned(most as u64),
            (&claim.node).into(),
            (*until).into(),
        ]
    }
}
