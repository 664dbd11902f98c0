//! Rules that a step of another rule starts.

use std::time::Duration;

use entrepot_nouns::{Job, JobState, Noun as _, Rule, StepState};
use entrepot_storage::AnyStore;
use serde_json::{Value as Json, json};

use super::world::{SITE, World, cut_everywhere, doing, files, memory_store};

/// A rule named `label` that starts by a call and takes a number.
fn on_call(label: &str, steps: Json) -> Rule {
    let when = json!({"call": {"parameters": {"n": {"type": "int"}}}});
    let rule = json!({"name": label, "when": when, "do": steps, "retry": {"attempts": 1}});
    serde_json::from_value(rule).unwrap()
}

/// What the rule `child` makes of a job, and a rule that calls it and delivers behind that.
async fn calling(world: &World, child: &Rule, call: Json) -> AnyStore {
    let out = memory_store(&world.env);
    world.target("out", out.clone()).await;
    world.put(child).await;
    let deliver = json!({"deliver": {"endpoint": "out", "path": "n", "existing": "refuse"}});
    let rule = doing(json!([{"name": "sub", "call": call}, deliver]));
    rule.check().unwrap();
    crate::check_rule(&rule).unwrap();
    world.put(&rule).await;
    out
}

async fn jobs_of(world: &World, rule: &str) -> Vec<Job> {
    let jobs = world.db.jobs(SITE, &Default::default()).await.unwrap();
    jobs.into_iter().filter(|job| job.rule.as_str() == rule).collect()
}

fn call() -> Json {
    json!({"rule": "child", "with": {"n": "file.size + 1"}})
}

fn waiting(period: &str) -> Json {
    let check = json!({"check": {"that": "params.n == 4", "message": "{params.n}"}});
    json!([{"wait": {"for": period}}, check])
}

#[tokio::test(start_paused = true)]
async fn a_job_rests_until_the_one_it_called_has_ended_and_is_woken_then() {
    let mut world = World::new(701).await;
    let out = calling(&world, &on_call("child", waiting("20m")), call()).await;
    world.start();
    let event = world.upload("/in/a", b"333").await;
    let parent = world.job_of(&event, "r").await;
    world.until(async |world| !jobs_of(world, "child").await.is_empty()).await;
    world
        .until(async |world| {
            let job = world.db.job(SITE, parent).await.unwrap().unwrap();
            job.state == JobState::Ready && job.at.is_some_and(|at| &*at.0 == "sub")
        })
        .await;
    let is_free = async |world: &World| world.engine().pools().iter().all(|it| it.taken == 0);
    world.until(is_free).await;
    // The lost wake-up is looked for ever more seldom; the one that comes is heard at once.
    world.sql("UPDATE jobs SET claim_at = 9000000000000000 WHERE rule = 'r'".to_owned()).await;
    let done = world.ended(parent).await;
    assert_eq!((done.state, done.error), (JobState::Done, None));
    let child = jobs_of(&world, "child").await.remove(0);
    assert_eq!(child.state, JobState::Done);
    assert!(done.changed_at.since(child.changed_at) < Duration::from_secs(5));
    assert_eq!((child.event.cause, child.event.depth), (Some(event.id), event.depth + 1));
    assert_eq!(child.event.job, Some(parent));
    let steps = world.db.job_steps(parent).await.unwrap();
    let sub = steps.iter().rfind(|step| &*step.address.0 == "sub").unwrap();
    assert_eq!(sub.state, StepState::Done);
    assert_eq!(sub.result.as_ref().unwrap()["job"], json!(child.id));
    assert_eq!(sub.result.as_ref().unwrap()["ended"], json!(child.changed_at));
    assert_eq!(files(&out).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_failed_or_was_cancelled_fails_the_step_that_called_it() {
    let mut world = World::new(702).await;
    let steps =
        json!([{"wait": {"for": "1m"}}, {"check": {"that": "false", "message": "no {params.n}"}}]);
    let out = calling(&world, &on_call("child", steps), call()).await;
    world.start();
    let event = world.upload("/in/a", b"333").await;
    let ended = world.ended(world.job_of(&event, "r").await).await;
    let child = jobs_of(&world, "child").await.remove(0);
    let said = format!("EP0831: job {} of rule 'child' failed: EP0815: no 4", child.id);
    assert_eq!((ended.state, ended.error.as_deref()), (JobState::Failed, Some(&*said)));
    let event = world.upload("/in/b", b"333").await;
    world.until(async |world| jobs_of(world, "child").await.len() == 2).await;
    let jobs = jobs_of(&world, "child").await;
    let second = jobs.iter().find(|job| job.id != child.id).unwrap().id;
    world.until(async |world| world.cancel(second).await).await;
    let ended = world.ended(world.job_of(&event, "r").await).await;
    assert_eq!(ended.error, Some(format!("EP0831: job {second} of rule 'child' was cancelled")));
    assert!(files(&out).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_rule_that_would_not_start_is_an_error_and_no_endless_rest() {
    let with_if =
        Rule { condition: Some("params.n > 100".to_owned()), ..on_call("child", waiting("1m")) };
    let disabled = Rule { enabled: false, ..on_call("child", waiting("1m")) };
    let other = Rule { name: "other".parse().unwrap(), ..on_call("child", waiting("1m")) };
    let text = json!({"rule": "child", "with": {"n": "file.name"}});
    let good = on_call("child", waiting("1m"));
    for (number, (child, call, said)) in [
        (with_if, call(), "condition"),
        (disabled, call(), "disabled"),
        (other, call(), "deleted"),
        (good, text, "is no int"),
    ]
    .into_iter()
    .enumerate()
    {
        let mut world = World::new(710 + number as u64).await;
        calling(&world, &child, call).await;
        world.start();
        let event = world.upload("/in/a", b"333").await;
        let ended = world.ended(world.job_of(&event, "r").await).await;
        let error = ended.error.unwrap();
        assert!(error.starts_with("EP0830: rule 'child' was not started: "), "{error}");
        assert!(error.contains(said), "{error}");
        assert!(jobs_of(&world, "child").await.is_empty());
        world.kill().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_that_does_not_wait_goes_on_at_once() {
    let mut world = World::new(703).await;
    let call = json!({"rule": "child", "with": {"n": "4"}, "wait": false});
    let out = calling(&world, &on_call("child", waiting("5h")), call).await;
    world.start();
    let event = world.upload("/in/a", b"1").await;
    let done = world.ended(world.job_of(&event, "r").await).await;
    assert_eq!((done.state, done.error, done.handed_over > 1), (JobState::Done, None, false));
    assert_eq!(files(&out).await.len(), 1);
    assert!(!jobs_of(&world, "child").await.remove(0).state.has_ended());
}

#[tokio::test(start_paused = true)]
async fn rules_that_call_each_other_come_to_an_end() {
    let mut world = World::new(704).await;
    let back = json!([{"call": {"rule": "second", "with": {"n": "params.n"}}}]);
    let forth = json!([{"call": {"rule": "child", "with": {"n": "params.n"}}}]);
    world.put(&on_call("second", forth)).await;
    calling(&world, &on_call("child", back), call()).await;
    world.start();
    let event = world.upload("/in/a", b"333").await;
    let ended = world.ended(world.job_of(&event, "r").await).await;
    assert_eq!(ended.state, JobState::Failed);
    let called = [jobs_of(&world, "child").await, jobs_of(&world, "second").await].concat();
    assert!(called.iter().all(|job| job.state == JobState::Failed && job.event.depth < 8));
    let errors = called.iter().filter_map(|job| job.error.as_deref());
    let deepest: Vec<_> = errors.filter(|error| error.starts_with("EP0830")).collect();
    assert_eq!((called.len(), deepest.len()), (7, 1), "{deepest:?}");
}

/// Whatever the moment of a crash, and whoever goes on: one job is called, once.
#[tokio::test(start_paused = true)]
async fn a_crash_at_any_point_starts_no_second_job() {
    let cut = cut_everywhere(async |cut| {
        let at = cut.at;
        let mut world = World::new(720 + at as u64).await;
        let out = calling(&world, &on_call("child", waiting("2m")), call()).await;
        world.options.pauses = cut.pauses();
        let event = world.upload("/in/a", b"333").await;
        world.start();
        let mut beside = world.beside("n2").await;
        beside.start();
        let parent = world.job_of(&event, "r").await;
        world.until(async |_| cut.seen() > at.min(9)).await;
        let done = world.ended(parent).await;
        assert_eq!((done.state, done.error), (JobState::Done, None), "{at}");
        assert_eq!(jobs_of(&world, "child").await.len(), 1, "{at}");
        assert_eq!(files(&out).await.len(), 1, "{at}");
        world.kill().await;
        beside.kill().await;
    })
    .await;
    assert!(cut > 8, "only {cut} points were cut");
}
