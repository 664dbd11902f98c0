//! Steps that ask people.

use std::time::Duration;

use entrepot_db::{AnswerOutcome, ApprovalKey};
use entrepot_nouns::approval::{Approval, ApprovalAnswer, ApprovalVerdict};
use entrepot_nouns::{JobId, JobState, Noun as _};
use entrepot_storage::AnyStore;
use serde_json::{Value as Json, json};

use super::world::{SITE, World, cut_everywhere, doing, files, memory_store, name};

/// A rule that asks, and delivers behind that.
async fn asking(world: &World, approve: Json) -> AnyStore {
    let out = memory_store(&world.env);
    world.target("out", out.clone()).await;
    let deliver = json!({"deliver": {"endpoint": "out", "path": "n", "existing": "refuse"}});
    let mut rule = doing(json!([{"name": "ask", "approve": approve}, deliver]));
    rule.retry.attempts = 3;
    rule.check().unwrap();
    crate::check_rule(&rule).unwrap();
    world.put(&rule).await;
    out
}

fn approve(need: u32) -> Json {
    json!({"by": ["boss"], "within": "4h", "text": "send {name}?", "need": need})
}

/// The question of the job, when it rests for it.
async fn question(world: &World, job: JobId) -> Approval {
    world
        .until(async |world| {
            let found = world.db.job(SITE, job).await.unwrap();
            let rests = found.is_some_and(|job| job.state == JobState::Ready);
            rests && !world.db.approvals_of_job(job).await.unwrap().is_empty()
        })
        .await;
    world.db.approvals_of_job(job).await.unwrap().remove(0)
}

/// As the administration answers.
pub(super) async fn answer(world: &World, asked: &Approval, who: &str, verdict: ApprovalVerdict) {
    let at = world.env.now();
    let why = Some("because".to_owned());
    let answer = ApprovalAnswer { account: name(who), verdict, why, at };
    let mut tx = world.db.begin().await.unwrap();
    let outcome = tx.answer_approval(&ApprovalKey::of(asked), &answer).await.unwrap();
    assert_eq!(outcome, AnswerOutcome::Counted);
    tx.wake_job(asked.job, at).await.unwrap();
    tx.commit().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_job_rests_until_enough_people_have_said_yes() {
    let mut world = World::new(801).await;
    let out = asking(&world, approve(2)).await;
    world.start();
    let event = world.upload("/in/a", b"333").await;
    let job = world.job_of(&event, "r").await;
    let asked = question(&world, job).await;
    assert_eq!((&*asked.text, asked.need, asked.yes), ("send a?", 2, 0));
    assert_eq!(asked.until.since(asked.asked_at), Duration::from_secs(4 * 3600));
    world.until(async |world| world.engine().pools().iter().all(|it| it.taken == 0)).await;
    answer(&world, &asked, "one", ApprovalVerdict::Approved).await;
    let again = question(&world, job).await;
    assert_eq!((again.yes, again.asked_at), (1, asked.asked_at));
    assert!(files(&out).await.is_empty());
    answer(&world, &asked, "two", ApprovalVerdict::Approved).await;
    let answered = world.env.now();
    let done = world.ended(job).await;
    assert_eq!((done.state, done.error), (JobState::Done, None));
    assert!(done.changed_at.since(answered) < Duration::from_secs(30), "it was not woken");
    let steps = world.db.job_steps(job).await.unwrap();
    let step = steps.iter().rfind(|step| &*step.address.0 == "ask").unwrap();
    assert_eq!(step.result.as_ref().unwrap()["by"], json!(["one", "two"]));
    assert_eq!(files(&out).await.len(), 1);
    assert!(world.db.approvals_of_job(job).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn one_no_fails_the_job_for_good_and_a_retry_by_hand_asks_anew() {
    let mut world = World::new(802).await;
    let out = asking(&world, approve(2)).await;
    world.start();
    let event = world.upload("/in/a", b"333").await;
    let job = world.job_of(&event, "r").await;
    let asked = question(&world, job).await;
    answer(&world, &asked, "one", ApprovalVerdict::Approved).await;
    answer(&world, &asked, "two", ApprovalVerdict::Refused).await;
    let ended = world.ended(job).await;
    assert_eq!(ended.error.as_deref(), Some("EP0832: 'two' did not approve: because"));
    assert!(world.retry(job, world.env.now()).await);
    let anew = question(&world, job).await;
    assert!(anew.life > asked.life && anew.yes == 0 && anew.answers.is_empty(), "{anew:?}");
    answer(&world, &anew, "one", ApprovalVerdict::Approved).await;
    answer(&world, &anew, "two", ApprovalVerdict::Approved).await;
    assert_eq!(world.ended(job).await.state, JobState::Done);
    assert_eq!(files(&out).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_when_the_time_is_over() {
    let mut world = World::new(803).await;
    let short = json!({"by": ["boss"], "within": "10m", "text": "send {name}?"});
    let out = asking(&world, short).await;
    world.start();
    let event = world.upload("/in/a", b"333").await;
    let job = world.job_of(&event, "r").await;
    let asked = question(&world, job).await;
    let ended = world.ended(job).await;
    let error = ended.error.unwrap();
    assert!(error.starts_with("EP0833: 0 of 1 approvals were given until "), "{error}");
    let late = ended.changed_at.since(asked.until);
    assert!(ended.changed_at >= asked.until && late < Duration::from_secs(60), "{late:?}");
    assert!(files(&out).await.is_empty());
}

/// Whatever the moment of a crash, and whoever goes on: people are asked once, and their answer
/// counts.
#[tokio::test(start_paused = true)]
async fn a_crash_at_any_point_asks_once() {
    let cut = cut_everywhere(async |cut| {
        let at = cut.at;
        let mut world = World::new(820 + at as u64).await;
        let out = asking(&world, approve(1)).await;
        world.options.pauses = cut.pauses();
        let event = world.upload("/in/a", b"333").await;
        world.start();
        let mut beside = world.beside("n2").await;
        beside.start();
        let job = world.job_of(&event, "r").await;
        let asked = question(&world, job).await;
        answer(&world, &asked, "one", ApprovalVerdict::Approved).await;
        let done = world.ended(job).await;
        assert_eq!((done.state, done.error), (JobState::Done, None), "{at}");
        let found = world.db.approval(&ApprovalKey::of(&asked)).await.unwrap().unwrap();
        assert_eq!((found.asked_at, found.yes), (asked.asked_at, 1), "{at}");
        assert_eq!(files(&out).await.len(), 1, "{at}");
        world.kill().await;
        beside.kill().await;
    })
    .await;
    assert!(cut > 5, "only {cut} points were cut");
}
