//! What jobs remember, for as long as they do.

use std::time::Duration;

use entrepot_nouns::{Env, JobHolder, RuleVersion, SiteId, StepState};

use super::{HeldJobs, both, job, name, node_id, passed, piece, started, step};
use crate::{Claim, Db, JobEnd, JobHold, Projected, Projection, RuleDocument};

const DAY: Duration = Duration::from_secs(86_400);

fn document(version: &str) -> RuleDocument {
    RuleDocument {
        site: SiteId::MAIN,
        version: RuleVersion(version.to_owned()),
        rule: name("route"),
        document: format!("{{\"note\":\"{version}\"}}"),
    }
}

/// A job of each of these documents, made now.
async fn make(db: &Db, env: &Env, versions: &[&str]) -> Vec<entrepot_nouns::Job> {
    let made = versions.iter().map(|version| entrepot_nouns::Job {
        rule_version: Some(RuleVersion((*version).to_owned())),
        ..job(env, "route", env.now())
    });
    let made: Vec<_> = made.collect();
    let rules: Vec<RuleDocument> = versions.iter().map(|version| document(version)).collect();
    let node = name("n1");
    let piece = Projection { rules: &rules, ..piece(&node, &[], &made) };
    assert_eq!(db.project(&piece).await.unwrap(), Projected::Kept);
    made
}

/// Claims all that is due.
async fn claim(db: &Db, env: &Env) -> Vec<JobHold> {
    let known = db.nodes().await.unwrap();
    let node = known.iter().find(|known| known.name == name("n1")).unwrap();
    let era = started(db, "era").await.holder.era;
    let holder = JobHolder { node: node_id("n1"), incarnation: node.incarnation, era };
    let claim = Claim { node: name("n1"), holder, beats: 0 };
    let jobs = super::take(db, &claim, 10, env.now(), DAY).await.unwrap();
    jobs.iter().map(JobHold::from).collect()
}

async fn known(db: &Db, version: &str) -> Option<String> {
    db.rule_document(SiteId::MAIN, &RuleVersion(version.to_owned())).await.unwrap()
}

async fn jobs_that_are_made_again_are_there_once_with_their_document(db: Db) {
    let env = Env::simulated(3);
    started(&db, "n1").await;
    let first = make(&db, &env, &["old"]).await.remove(0);
    let again = entrepot_nouns::Job {
        id: env.new_id(),
        rule_version: Some(RuleVersion("new".to_owned())),
        ..first.clone()
    };
    for _ in 0..2 {
        let mut tx = db.begin().await.unwrap();
        tx.insert_jobs(std::slice::from_ref(&again), &[document("new")], env.now()).await.unwrap();
        tx.commit().await.unwrap();
    }
    assert!(known(&db, "new").await.is_some());
    let made = db.jobs_of_event(SiteId::MAIN, first.event_id).await.unwrap();
    let mut ids: Vec<_> = made.iter().map(|job| job.id).collect();
    let mut wanted = vec![first.id, again.id];
    ids.sort_by_key(|id| id.0);
    wanted.sort_by_key(|id| id.0);
    assert_eq!(ids, wanted);
    let elsewhere = SiteId(uuid::Uuid::from_u128(45));
    assert!(db.jobs_of_event(elsewhere, first.event_id).await.unwrap().is_empty());
    assert_eq!(claim(&db, &env).await.len(), 2);
}

async fn a_document_is_kept_as_long_as_a_job_of_it(db: Db) {
    let env = Env::simulated(1);
    started(&db, "n1").await;
    make(&db, &env, &["old", "waiting"]).await;
    assert_eq!(known(&db, "old").await.as_deref(), Some("{\"note\":\"old\"}"));
    let elsewhere = SiteId(uuid::Uuid::from_u128(45));
    let version = RuleVersion("old".to_owned());
    assert_eq!(db.rule_document(elsewhere, &version).await.unwrap(), None);
    let held = claim(&db, &env).await;
    for hold in &held {
        let step = passed(hold, 0, &env);
        assert!(db.pass_step(hold, &step).await.unwrap());
        // Once more after a lost answer.
        assert!(db.pass_step(hold, &step).await.unwrap());
        let steps = db.job_steps(hold.id).await.unwrap();
        assert_eq!(steps, step.steps);
    }
    let jobs = db.jobs(SiteId::MAIN, &crate::JobFilter::default()).await.unwrap();
    let of = |version: &str| {
        let found = jobs.iter().find(|job| job.rule_version.as_ref().unwrap().0 == version);
        JobHold::from(found.unwrap())
    };
    let (old, waiting) = (of("old"), of("waiting"));
    let last = step(&old, 1, &env);
    assert!(db.end_job(&old, JobEnd::Done, env.now(), Some(&last)).await.unwrap());
    let done = db.job(SiteId::MAIN, old.id).await.unwrap().unwrap();
    assert_eq!(done.at.unwrap().0, "do.1");
    let steps = db.job_steps(old.id).await.unwrap();
    assert!(steps.len() == 2 && steps.iter().all(|step| step.state == StepState::Done));
    // Made ready by hand, the other goes on with what is not behind it, whatever that is called.
    let error = "gave up".to_owned();
    let failed = JobEnd::Failed { error };
    assert!(db.end_job(&waiting, failed, env.now(), None).await.unwrap());
    let mut tx = db.begin().await.unwrap();
    assert!(tx.retry_job(SiteId::MAIN, waiting.id, env.now()).await.unwrap());
    tx.commit().await.unwrap();
    assert_eq!(db.job(SiteId::MAIN, waiting.id).await.unwrap().unwrap().at, None);
    env.advance(DAY * 40);
    make(&db, &env, &["new"]).await;
    let before = env.now().minus(DAY * 30);
    // A job of each is there.
    assert_eq!(db.forget_rule_versions(SiteId::MAIN, before).await.unwrap(), 0);
    assert_eq!(db.delete_jobs(SiteId::MAIN, before, 100).await.unwrap(), 1);
    assert_eq!(db.job_steps(old.id).await.unwrap(), []);
    assert_eq!(db.job_steps(waiting.id).await.unwrap().len(), 1, "that job is not over");
    assert_eq!(db.forget_rule_versions(elsewhere, before).await.unwrap(), 0);
    assert_eq!(db.forget_rule_versions(SiteId::MAIN, before).await.unwrap(), 1);
    assert_eq!(known(&db, "old").await, None);
    assert!(known(&db, "waiting").await.is_some() && known(&db, "new").await.is_some());
}

async fn a_document_that_is_used_again_is_kept(db: Db) {
    let env = Env::simulated(2);
    started(&db, "n1").await;
    make(&db, &env, &["one"]).await;
    let hold = claim(&db, &env).await.remove(0);
    assert!(db.end_job(&hold, JobEnd::Done, env.now(), None).await.unwrap());
    env.advance(DAY * 40);
    make(&db, &env, &["one"]).await;
    let hold = claim(&db, &env).await.remove(0);
    assert!(db.end_job(&hold, JobEnd::Done, env.now(), None).await.unwrap());
    let before = env.now().minus(DAY * 30);
    assert_eq!(db.delete_jobs(SiteId::MAIN, before, 100).await.unwrap(), 1);
    assert_eq!(db.forget_rule_versions(SiteId::MAIN, before).await.unwrap(), 0);
    assert!(known(&db, "one").await.is_some());
}

both!(
    a_document_is_kept_as_long_as_a_job_of_it,
    a_document_that_is_used_again_is_kept,
    jobs_that_are_made_again_are_there_once_with_their_document,
);
