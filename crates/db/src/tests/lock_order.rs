//! Who takes what first: two transactions that change the same rows never wait for each other.

use entrepot_nouns::{Env, Fact, Job, JobId, PoolPlaces, RuleVersion, SiteId};

use super::{event, job, name, postgres_db, project, started};
use crate::job_steps::RuleDocument;
use crate::sql::{Sql, sql};
use crate::{Db, Drained, Purpose, Tx};

/// Transactions that wait for the lock of events.
const WAITING: Sql = sql!(
    "SELECT COUNT(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted ",
    "AND (classid::BIGINT << 32) + objid::BIGINT = 6915000002 ",
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
);
/// What a projection changes beside events.
const ROWS: [Sql; 3] = [
    sql!("SELECT 1 FROM nodes FOR UPDATE"),
    sql!("SELECT 1 FROM jobs FOR UPDATE"),
    sql!("SELECT 1 FROM rule_versions FOR UPDATE"),
];

/// Something an administrator changes, of which an event tells then.
#[derive(Clone, Copy, Debug)]
enum Change {
    Drain,
    Pools,
    Remove,
    Retry,
    Cancel,
    Wake,
    Move,
    Insert,
}

fn document() -> RuleDocument {
    RuleDocument {
        site: SiteId::MAIN,
        version: RuleVersion("v1".to_owned()),
        rule: name("route"),
        document: "{}".to_owned(),
    }
}

impl Change {
    /// False if there was nothing to change.
    async fn make(self, tx: &mut Tx, env: &Env, job: JobId) -> crate::Result<bool> {
        let (now, main) = (env.now(), SiteId::MAIN);
        match self {
            Change::Drain => tx.set_drained(&name("n1"), Drained::Yes).await,
            Change::Pools => tx.set_pools(&name("n1"), PoolPlaces::default()).await,
            Change::Remove => tx.remove_node(super::node_id("n2")).await,
            Change::Retry => tx.retry_job(main, job, now).await,
            Change::Cancel => tx.cancel_job(main, job, now).await,
            Change::Wake => tx.wake_job(job, now).await.map(|()| true),
            Change::Move => tx.move_job(job, &document(), now).await.map(|()| true),
            Change::Insert => tx.insert_jobs(&[], &[document()], now).await.map(|()| true),
        }
    }

    async fn commit(self, db: &Db, env: &Env, job: JobId) {
        let mut tx = db.begin().await.unwrap();
        assert!(self.make(&mut tx, env, job).await.unwrap(), "{self:?}");
        let by = "admin".to_owned();
        let told = event(env, Fact::NodeDrained { name: name("n1"), by });
        tx.insert_event(&told).await.unwrap();
        tx.commit().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_tells_of_a_change_never_waits_for_a_projection_that_waits_for_it() {
    let (db, env) = (postgres_db().await, Env::real());
    let one: Job = job(&env, "route", env.now());
    let all = [
        Change::Drain,
        Change::Pools,
        Change::Insert,
        Change::Move,
        Change::Wake,
        Change::Cancel,
        Change::Retry,
        Change::Remove,
    ];
    project(&db, "n1", &[], std::slice::from_ref(&one)).await;
    started(&db, "n1").await;
    started(&db, "n2").await;
    for change in all {
        // As a projection: events first.
        let mut projection = db.work(Purpose::Events).await.unwrap();
        let (other, clock, job) = (db.clone(), env.clone(), one.id);
        let told = tokio::spawn(async move { change.commit(&other, &clock, job).await });
        while db.read(WAITING, Vec::new(), |row| row.int(0)).await.unwrap() != [1] {}
        for rows in ROWS {
            let taken = projection.query(rows, Vec::new(), |_| Ok(())).await;
            assert!(taken.is_ok(), "{change:?}: {rows:?} {taken:?}");
        }
        projection.commit().await.unwrap();
        told.await.unwrap();
    }
}
