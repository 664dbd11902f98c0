//! One suite for both databases: each test below `both!` runs on a fresh SQLite file and on a
//! fresh PostgreSQL database.

mod acme;
mod answers;
mod api_tokens;
mod approvals;
mod as2_messages;
mod config;
mod copies;
mod events;
mod expected;
mod job_steps;
mod jobs;
mod lanes;
mod link_uses;
mod lock_order;
mod nodes;
mod old_tables;
mod order;
mod outage;
mod passkeys;
mod penalties;
mod recovery_codes;
mod schedules;
mod set_up;
mod sign_ins;
mod sqlite;
mod statements;
mod transfers;
mod trash;

use std::time::Duration;

use entrepot_nouns::event::FileFact;
use entrepot_nouns::{
    Digests, Env, Event, Fact, Job, JobHolder, JobLane, JobStep, Name, NodeId, Noun, Pool,
    Protocol, SiteId, StepAddress, StepState, Timestamp, TransferId,
};
use entrepot_testkit::postgres::Postgres;
use serde_json::{Value as Json, json};
use tempfile::TempDir;

use crate::{
    Claim, Db, DbOptions, JobChange, JobClaim, JobEnd, JobEnding, JobHold, JobWrite, LaneKey,
    LaneWant, NodeIdentity, PassedStep, Projected, Projection,
};

/// Runs each suite on both databases.
macro_rules! both {
    ($($name:ident),+ $(,)?) => {
        mod on_sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let (db, _folder) = crate::tests::sqlite_db().await;
                super::$name(db).await;
            })+
        }
        mod on_postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(crate::tests::postgres_db().await).await;
            })+
        }
    };
}
use both;

async fn sqlite_db() -> (Db, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}/entrepot.db", folder.path().display());
    (Db::open(&url, DbOptions::default()).await.unwrap(), folder)
}

async fn postgres_url() -> String {
    tokio::task::spawn_blocking(|| Postgres::shared().create_database().unwrap()).await.unwrap()
}

async fn postgres_db() -> Db {
    // Many tests share one server: each is content with few connections.
    let options = DbOptions { connections: Some(8), ..DbOptions::default() };
    Db::open(&postgres_url().await, options).await.unwrap()
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn noun<N: Noun>(json: Json) -> N {
    serde_json::from_value(json).unwrap()
}

fn event(env: &Env, fact: Fact) -> Event {
    Event {
        id: env.new_id(),
        at: env.now(),
        clock: None,
        site: SiteId::MAIN,
        node: name("n1"),
        account: Some(name("acme")),
        session: None,
        job: None,
        cause: None,
        depth: 0,
        fact,
    }
}

fn file(env: &Env, transfer: TransferId, path: &str) -> FileFact {
    FileFact {
        transfer,
        path: path.to_owned(),
        size: 7,
        digests: Digests { blake3: Some([9; 32]), sha256: None },
        protocol: Protocol::Sftp,
        started_at: env.now(),
        identity: None,
        displaced: None,
        temporary: false,
        as2: None,
    }
}

fn uploaded(env: &Env, path: &str) -> Event {
    event(env, Fact::FileUploaded { file: file(env, env.new_id(), path) })
}

fn job(env: &Env, rule: &str, due_at: Timestamp) -> Job {
    let event = uploaded(env, "/in/a.xml");
    Job { due_at, ..Job::new(env.new_id(), name(rule), event, env.now()) }
}

/// What is remembered of the step at a place of `do`.
fn step(hold: &JobHold, place: u32, env: &Env) -> JobStep {
    JobStep {
        address: StepAddress(format!("do.{place}")),
        state: StepState::Done,
        epoch: hold.epoch,
        started_at: env.now(),
        ended_at: Some(env.now()),
        result: None,
        error: None,
    }
}

/// That step is behind the job.
fn passed(hold: &JobHold, place: u32, env: &Env) -> PassedStep {
    PassedStep {
        steps: vec![step(hold, place, env)],
        next: StepAddress(format!("do.{}", place + 1)),
        count: place + 1,
        lane: lane_of("route"),
    }
}

/// Numbers events from 1 on, as a journal does.
fn journal(events: Vec<Event>) -> Vec<(u64, Event)> {
    (1..).zip(events).collect()
}

/// The id of the node of this name, the same in each test.
fn node_id(label: &str) -> NodeId {
    let mut bytes = [7; 16];
    for (to, from) in bytes.iter_mut().zip(label.bytes()) {
        *to = from;
    }
    NodeId(uuid::Uuid::from_bytes(bytes))
}

/// A piece of the journal of a node, from its first record on.
fn piece<'a>(node: &'a Name, events: &'a [(u64, Event)], jobs: &'a [Job]) -> Projection<'a> {
    Projection { jobs, ..Projection::of(node_id(node.as_str()), node, events) }
}

async fn project(db: &Db, node: &str, events: &[(u64, Event)], jobs: &[Job]) {
    let node = name(node);
    let kept = db.project(&piece(&node, events, jobs)).await.unwrap();
    assert_eq!(kept, Projected::Kept);
}

/// A start of the process of a node, known from then on.
async fn started(db: &Db, label: &str) -> Claim {
    let node = NodeIdentity { id: node_id(label), name: name(label), program: "1".to_owned() };
    let mut tx = db.begin().await.unwrap();
    tx.join_node(db, &node).await.unwrap();
    tx.commit().await.unwrap();
    let start = db.start_node(&node, 0).await.unwrap().unwrap();
    let holder = JobHolder { node: node.id, incarnation: start.number, era: start.era };
    Claim { node: node.name, holder, beats: start.beats }
}

/// The lane of the jobs of a rule, as [`job`] makes them.
fn lane_of(rule: &str) -> LaneKey {
    LaneKey::new(SiteId::MAIN, &name(rule), &JobLane::default())
}

/// Claims up to `max` jobs, each from the next lane that has one.
async fn take(
    db: &Db,
    claim: &Claim,
    max: usize,
    now: Timestamp,
    lease: Duration,
) -> crate::Result<Vec<Job>> {
    let mut jobs = Vec::new();
    while jobs.len() < max {
        let mut wants = Vec::new();
        for pool in Pool::ALL {
            for lane in db.due_lanes(pool, None, now, 100).await? {
                wants.push(LaneWant { lane, max: max - jobs.len(), since: None, at_once: None });
            }
        }
        wants.truncate(1);
        let (claim, until) = (claim.clone(), now.plus(lease));
        let found = db.claim_jobs(&JobClaim { claim, wants, at: now, until }).await?;
        if found.is_empty() {
            break;
        }
        jobs.extend(found);
    }
    Ok(jobs)
}

/// One write for a job in a transaction of its own; false if it is not held.
trait HeldJobs {
    async fn write_job(&self, hold: &JobHold, change: JobChange) -> crate::Result<bool>;

    async fn extend_lease(&self, hold: &JobHold, until: Timestamp) -> crate::Result<bool> {
        self.write_job(hold, JobChange::Extend(until)).await
    }

    async fn pass_step(&self, hold: &JobHold, passed: &PassedStep) -> crate::Result<bool> {
        self.write_job(hold, JobChange::Pass(passed.clone())).await
    }

    async fn end_job(
        &self,
        hold: &JobHold,
        end: JobEnd,
        at: Timestamp,
        last: Option<&JobStep>,
    ) -> crate::Result<bool> {
        let steps = last.cloned().into_iter().collect();
        let ending = JobEnding { end, at, steps, wakes: None, in_order: true, waited: true };
        self.write_job(hold, JobChange::End(ending)).await
    }
}

impl HeldJobs for Db {
    async fn write_job(&self, hold: &JobHold, change: JobChange) -> crate::Result<bool> {
        let write = JobWrite { hold: hold.clone(), change };
        Ok(self.write_jobs(&[write], None).await?.held == [true])
    }
}

fn account(text: &str) -> entrepot_nouns::Account {
    noun(json!({ "name": text, "type": "partner" }))
}

/// Runs statements of a test, past everything.
async fn raw(db: &Db, text: &'static str) {
    match &*db.backend {
        crate::Backend::Sqlite(sqlite) => sqlite.raw(text).await.unwrap(),
        crate::Backend::Postgres(postgres) => postgres.raw(text).await.unwrap(),
    }
}
