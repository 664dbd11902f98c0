//! The lanes of jobs: which have work, and how many of their jobs may run at once.
//!
//! A lane is no row: it is there while a job is in it. Who waits in which lane is read from an
//! index on lane and time, one look for each lane however many jobs are in it, and how many run
//! there is counted in an index that holds running jobs only. So no counter can go wrong with a
//! node that dies.

use std::collections::BTreeMap;

use entrepot_nouns::{Job, JobLane, Name, Pool, Priority, SiteId, Timestamp};

use crate::error::Result;
use crate::limits;
use crate::sql::{Row, Sql, Value, sql, statements};
use crate::tx::Work;
use crate::{Db, Dialect};

/// A lane, among those of all rules.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LaneKey(String);

impl LaneKey {
    /// That of `lane`, for the jobs of a rule.
    pub fn new(site: SiteId, rule: &Name, lane: &JobLane) -> LaneKey {
        let endpoint = lane.endpoint.as_ref().map_or("", Name::as_str);
        let (pool, priority) = (lane.pool.as_str(), lane.priority.as_str());
        LaneKey(format!("{pool}/{}/{endpoint}/{priority}/{rule}", site.0.simple()))
    }

    /// That of a job.
    pub fn of(job: &Job) -> LaneKey {
        LaneKey::new(job.site, &job.rule, &job.lane)
    }

    pub(crate) fn stored(text: String) -> LaneKey {
        LaneKey(text)
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The pool of the jobs in it.
    pub fn pool(&self) -> Pool {
        let word = self.0.split('/').next();
        let found = Pool::ALL.into_iter().find(|pool| word == Some(pool.as_str()));
        found.unwrap_or_default()
    }

    /// False of the jobs of programs that knew no lanes.
    pub fn is_known(&self) -> bool {
        !self.0.is_empty()
    }

    /// What it says of the jobs in it; of one that says nothing, the lane where nothing is said.
    pub fn lane(&self) -> JobLane {
        let mut parts = self.0.split('/');
        let endpoint = parts.nth(2).and_then(|name| name.parse().ok());
        let priority = parts.next().and_then(Priority::of).unwrap_or_default();
        JobLane { pool: self.pool(), endpoint, priority }
    }

    /// The site of the jobs in it, if it says so.
    pub fn site(&self) -> Option<SiteId> {
        self.0.split('/').nth(1)?.parse().ok().map(SiteId)
    }

    /// The rule of the jobs in it, if it says so.
    pub fn rule(&self) -> Option<&str> {
        self.0.splitn(5, '/').nth(4)
    }

    /// Whom the jobs in it wait for: the endpoint in its pool, or else the rule.
    pub fn party(&self) -> String {
        let mut parts = self.0.splitn(5, '/');
        let mut next = || parts.next().unwrap_or_default();
        let (pool, site, endpoint, _, rule) = (next(), next(), next(), next(), next());
        if endpoint.is_empty() {
            return format!("{pool}/{site}//{rule}");
        }
        format!("{pool}/{site}/{endpoint}/")
    }
}

/// How many jobs are wanted of a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneWant {
    /// Of this lane.
    pub lane: LaneKey,
    /// At most so many.
    pub max: usize,
    /// Only those that could not be claimed before this; unset: all. It spares the way past those
    /// that were there before, which is long while somebody's transaction still sees them.
    pub since: Option<Timestamp>,
    /// What else limits them.
    pub at_once: Option<EndpointLimit>,
}

/// How many jobs may use an endpoint at the same time, over all nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointLimit {
    /// Whose it is.
    pub site: SiteId,
    /// The endpoint that it limits.
    pub endpoint: Name,
    /// At most so many.
    pub most: u32,
}

/// A lane with jobs that wait or run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneCounts {
    /// The lane that is counted.
    pub lane: LaneKey,
    /// Jobs that wait, due or not.
    pub ready: u64,
    /// Jobs that run.
    pub running: u64,
    /// When a job of it may next be claimed, or could first have been.
    pub claim_at: Option<Timestamp>,
}

statements! {
    /// A look from lane to lane, each behind the last one.
    DUE = sql!(
        "WITH RECURSIVE found (lane) AS (",
        "SELECT (SELECT lane FROM jobs WHERE claim_at IS NOT NULL AND lane >= $1 AND lane < $2 ",
        "ORDER BY lane LIMIT 1) ",
        "UNION ALL SELECT (SELECT jobs.lane FROM jobs WHERE jobs.claim_at IS NOT NULL ",
        "AND jobs.lane > found.lane AND jobs.lane < $2 ORDER BY jobs.lane LIMIT 1) ",
        "FROM found WHERE found.lane IS NOT NULL) ",
        "SELECT lane FROM found WHERE lane IS NOT NULL AND EXISTS (SELECT 1 FROM jobs ",
        "WHERE jobs.lane = found.lane AND jobs.claim_at <= $3) LIMIT $4",
    );
    RUNNING = sql!(
        "SELECT COUNT(*) FROM jobs WHERE state = 'running' AND lane >= $1 AND lane < $2 ",
        "AND claim_at > $3",
    );
    LANES = sql!(
        "SELECT lane, CAST(SUM(CASE state WHEN 'ready' THEN jobs ELSE 0 END) AS BIGINT) AS ready, ",
        "CAST(SUM(CASE state WHEN 'running' THEN jobs ELSE 0 END) AS BIGINT), ",
        "(SELECT MIN(jobs.claim_at) FROM jobs WHERE jobs.lane = job_counts.lane ",
        "AND jobs.claim_at IS NOT NULL) ",
        "FROM job_counts WHERE state IN ('ready', 'running') GROUP BY lane HAVING SUM(jobs) > 0 ",
        "ORDER BY ready DESC, lane LIMIT $1",
    );
    FOLD_SQLITE = sql!("DELETE FROM job_counts WHERE jobs = 0");
}

/// A look at each of these lanes, from these times on.
pub(crate) const DUE_OF_POSTGRES: Sql = sql!(
    "SELECT known.lane FROM UNNEST(string_to_array($1, chr(10)), ",
    "CAST(string_to_array($2, chr(10)) AS BIGINT[])) AS known (lane, since) ",
    "WHERE EXISTS (SELECT 1 FROM jobs WHERE jobs.lane = known.lane ",
    "AND jobs.claim_at >= known.since AND jobs.claim_at <= $3) ORDER BY known.lane",
);

/// Rows that count the same are made one, those that count nothing are taken away. Whoever does so
/// too has other rows.
pub(crate) const FOLD_POSTGRES: Sql = sql!(
    "WITH folded AS (DELETE FROM job_counts WHERE ctid = ANY (ARRAY (SELECT ctid FROM job_counts ",
    "WHERE (lane, state) IN (SELECT lane, state FROM job_counts GROUP BY lane, state ",
    "HAVING COUNT(*) > 1 OR SUM(jobs) = 0) FOR UPDATE SKIP LOCKED)) RETURNING lane, state, jobs) ",
    "INSERT INTO job_counts (lane, state, jobs) SELECT lane, state, SUM(jobs) FROM folded ",
    "GROUP BY lane, state HAVING SUM(jobs) <> 0",
);

/// Until the transaction ends nobody else claims jobs of the same endpoint.
pub(crate) const LOCK_POSTGRES: Sql =
    sql!("SELECT pg_advisory_xact_lock(hashtextextended($1, 0)) IS NULL");

/// Behind every text that begins with `start`.
fn end_of(start: &str) -> String {
    format!("{start}\u{7f}")
}

/// The keys of the lanes of a pool lie from the first to before the second. Those of jobs that say
/// nothing of their lane come first.
fn bounds(pool: Pool) -> [String; 2] {
    let start = match pool {
        Pool::Instance => String::new(),
        Pool::Source | Pool::Target => pool.as_str().to_owned(),
    };
    [start, end_of(pool.as_str())]
}

impl Db {
    /// Lanes of a pool with a job that may be claimed at `now`, by name: those behind `after`, and
    /// then those before it, so that each has its turn. At most `limit`.
    pub async fn due_lanes(
        &self,
        pool: Pool,
        after: Option<&LaneKey>,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<LaneKey>> {
        let [start, end] = bounds(pool);
        let limit = limit.min(limits::LANES);
        let Some(after) = after else { return self.lanes_between([start, end], now, limit).await };
        let behind = format!("{}\u{1}", after.as_str());
        let mut found = self.lanes_between([behind.clone(), end], now, limit).await?;
        let rest = limit.saturating_sub(found.len());
        if rest > 0 {
            found.extend(self.lanes_between([start, behind], now, rest).await?);
        }
        Ok(found)
    }

    /// Lanes of all pools with a job that may be claimed at `now`, by name. At most `limit`.
    pub async fn all_due_lanes(&self, now: Timestamp, limit: usize) -> Result<Vec<LaneKey>> {
        let all = [String::new(), end_of(Pool::Target.as_str())];
        self.lanes_between(all, now, limit.min(limits::LANES)).await
    }

    /// Those of these lanes with a job that may be claimed at `now` and could not be before the
    /// time that is given with the lane; by name. In PostgreSQL only: there what transactions of
    /// others keep makes a look at the whole queue slow.
    pub async fn due_lanes_since(
        &self,
        lanes: &BTreeMap<LaneKey, Timestamp>,
        now: Timestamp,
    ) -> Result<Vec<LaneKey>> {
        let names: Vec<&str> = lanes.keys().map(LaneKey::as_str).collect();
        let times: Vec<String> = lanes.values().map(|since| since.0.to_string()).collect();
        let values = vec![Value::text(names.join("\n")), Value::text(times.join("\n")), now.into()];
        self.read(DUE_OF_POSTGRES, values, |row| Ok(LaneKey::stored(row.text(0)?))).await
    }

    /// The lanes in which jobs wait or run, over all sites, those first where the most wait.
    pub async fn busy_lanes(&self, limit: usize) -> Result<Vec<LaneCounts>> {
        let limit = Value::unsigned(limit as u64);
        let read = |row: &Row<'_>| {
            let lane = LaneKey::stored(row.text(0)?);
            let (ready, running) = (row.unsigned(1)?, row.unsigned(2)?);
            Ok(LaneCounts { lane, ready, running, claim_at: row.maybe_int(3)?.map(Timestamp) })
        };
        self.read(LANES, vec![limit], read).await
    }

    /// Tidies the counts of jobs; to be called now and then.
    pub async fn fold_job_counts(&self) -> Result<()> {
        let sql = match self.dialect() {
            Dialect::Sqlite => FOLD_SQLITE,
            Dialect::Postgres => FOLD_POSTGRES,
        };
        self.execute(sql, Vec::new()).await.map(drop)
    }

    async fn lanes_between(
        &self,
        [start, end]: [String; 2],
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<LaneKey>> {
        let limit = Value::unsigned(limit as u64);
        let values = vec![Value::text(start), Value::text(end), now.into(), limit];
        self.read(DUE, values, |row| Ok(LaneKey::stored(row.text(0)?))).await
    }

    /// How many more jobs may be claimed by `limit`, in the transaction that claims them.
    pub(crate) async fn room(
        &self,
        work: &mut Work,
        limit: &EndpointLimit,
        now: Timestamp,
    ) -> Result<usize> {
        let (site, endpoint) = (limit.site.0.simple(), &limit.endpoint);
        if self.dialect() == Dialect::Postgres {
            let name = vec![Value::text(format!("lane {site}/{endpoint}"))];
            work.query(LOCK_POSTGRES, name, |_| Ok(())).await?;
        }
        let mut running = 0;
        for pool in Pool::ALL {
            let start = format!("{}/{site}/{endpoint}/", pool.as_str());
            let end = end_of(&start);
            let values = vec![Value::text(start), Value::text(end), now.into()];
            let found = work.query(RUNNING, values, |row| row.unsigned(0)).await?;
            running += found.first().copied().unwrap_or(0);
        }
        Ok(usize::try_from(u64::from(limit.most).saturating_sub(running)).unwrap_or(0))
    }
}
