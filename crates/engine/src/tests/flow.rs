//! Steps that decide how a job goes on, and what steps leave for later ones.

use std::sync::Arc;
use std::time::Duration;

use entrepot_nouns::{Event, Job, JobState, JobStep, Policy, Rule, StepState};
use entrepot_storage::fault::{Fault, FaultStore, StoreCall};
use serde_json::json;

use super::world::{SITE, World, cut_everywhere, doing, files, memory_store};

/// Sorts files by size, through a variable, with a step behind the branches.
fn sorting() -> serde_json::Value {
    // A step that is done twice fails.
    let sent =
        |path: &str| json!({"deliver": {"endpoint": "out", "path": path, "existing": "refuse"}});
    json!([
        {"set": {"large": "file.size > 3", "folder": "vars.large ? 'large' : 'small'"}},
        {"name": "sort", "if": {
            "when": "vars.large",
            "then": [
                sent("{vars.folder}/{name}"),
                {"check": {"that": "file.size < 9", "message": "{name} has {size} bytes"}},
                sent("again/{name}"),
            ],
            "else": [
                {"if": {"when": "file.size == 1", "then": [{"stop": {"message": "one byte"}}]}},
                sent("{vars.folder}/{name}"),
            ],
        }},
        {"name": "last", "deliver": {"endpoint": "out", "path": "{steps.sort.branch}/{name}",
            "existing": "refuse"}, "if": "steps.sort.branch in ['then', 'else']"},
    ])
}

async fn sorted(world: &mut World, name: &str, bytes: &[u8]) -> (JobState, Option<String>) {
    let event = world.upload(&format!("/in/{name}"), bytes).await;
    let job = world.job_of(&event, "r").await;
    let ended = world.ended(job).await;
    (ended.state, ended.error)
}

#[tokio::test(start_paused = true)]
async fn a_job_takes_one_branch_and_goes_on_behind_it() {
    let mut world = World::new(31).await;
    let out = memory_store(&world.env);
    world.target("out", out.clone()).await;
    world.put(&doing(sorting())).await;
    world.start();
    assert_eq!(sorted(&mut world, "one", b"1").await, (JobState::Done, None));
    assert!(files(&out).await.is_empty(), "a stopped job went on");
    assert_eq!(sorted(&mut world, "two", b"22").await, (JobState::Done, None));
    assert_eq!(sorted(&mut world, "four", b"4444").await, (JobState::Done, None));
    let (state, error) = sorted(&mut world, "nine", b"999999999").await;
    assert_eq!(state, JobState::Failed);
    assert_eq!(error.as_deref(), Some("EP0815: nine has 9 bytes"));
    let mut found: Vec<_> = files(&out).await.into_keys().collect();
    found.sort();
    let wanted = ["again/four", "else/two", "large/four", "large/nine", "small/two", "then/four"];
    assert_eq!(found, wanted);
}

/// Whatever the moment of a crash: no delivery twice (a second one is refused), no branch changed.
#[tokio::test(start_paused = true)]
async fn a_crash_at_any_point_repeats_no_step_and_changes_no_branch() {
    let cut = cut_everywhere(async |cut| {
        let at = cut.at;
        let mut world = World::new(32 + at as u64).await;
        let out = memory_store(&world.env);
        world.target("out", out.clone()).await;
        world.put(&doing(sorting())).await;
        world.options.pauses = cut.pauses();
        let event = world.upload("/in/four", b"4444").await;
        world.start();
        let job = world.job_of(&event, "r").await;
        let done = world.ended(job).await;
        assert_eq!(done.state, JobState::Done, "{at}: {:?}", done.error);
        let mut found: Vec<_> = files(&out).await.into_keys().collect();
        found.sort();
        assert_eq!(found, ["again/four", "large/four", "then/four"], "{at}");
        world.projected().await;
        assert_eq!(world.events("file.delivered").await.len(), 3, "{at}");
        let records = world.db.job_steps(job).await.unwrap();
        let taken: Vec<_> = records.iter().filter(|step| step.address.0 == "sort").collect();
        assert!(taken.iter().all(|step| step.result == Some(json!({"branch": "then"}))), "{at}");
        assert!(records.iter().all(|step| step.state == StepState::Done), "{at}: {records:?}");
        world.kill().await;
    })
    .await;
    assert!(cut > 20, "only {cut} points were cut");
}

#[test]
fn names_that_no_step_leaves_are_refused_when_the_rule_is_stored() {
    let refused = |list: serde_json::Value| {
        let stored = doing(list);
        entrepot_nouns::noun::Noun::check(&stored)
            .and_then(|()| crate::check_rule(&stored))
            .map_err(|error| (error.field.clone(), error.to_string()))
    };
    let set = json!({"set": {"customer": "file.name"}});
    let deliver = |path: &str| json!({"deliver": {"endpoint": "out", "path": path}});
    assert_eq!(refused(json!([set, deliver("{vars.customer}/{name}")])), Ok(()));
    for (list, field, said) in [
        (json!([set, deliver("{vars.custmer}")]), "do.1.deliver.path", "vars.custmer"),
        (
            json!([set, {"check": {"that": "vars.custmer == ''", "message": "m"}}]),
            "do.1.check.that",
            "customer",
        ),
        (
            json!([{"if": {"when": "steps.open.x == 1", "then": [deliver("a")]}}]),
            "do.0.if.when",
            "open",
        ),
        (
            json!([{"if": {"when": "true", "then": [deliver("{nme}")]}}]),
            "do.0.if.then.0.deliver.path",
            "nme",
        ),
        (json!([{"set": {"a": "file.sise"}}]), "do.0.set", "size"),
        (json!([{"check": {"that": "file.name", "message": "m"}}]), "do.0.check.that", "string"),
        (json!([{"if": {"when": "true", "then": []}}]), "do.0.if.then", "at least one"),
        (json!([{"stop": {}}, deliver("a")]), "do.0.stop", "nothing can follow"),
        (json!([{"stop": {"as": "failed"}}]), "do.0.stop.message", "why"),
    ] {
        let (at, text) = refused(list.clone()).unwrap_err();
        assert!(at == field && text.contains(said), "{list}: {at}: {text}");
    }
}

/// A job that rests between two deliveries, for as long as `wait` says.
async fn resting(seed: u64, wait: serde_json::Value) -> (World, entrepot_storage::AnyStore, Event) {
    let mut world = World::new(seed).await;
    let out = memory_store(&world.env);
    world.target("out", out.clone()).await;
    let sent =
        |path: &str| json!({"deliver": {"endpoint": "out", "path": path, "existing": "refuse"}});
    let rule = doing(json!([sent("first"), {"name": "rest", "wait": wait}, sent("second")]));
    crate::check_rule(&rule).unwrap();
    world.put(&rule).await;
    world.start();
    let event = world.upload("/in/a", b"1").await;
    (world, out, event)
}

/// Whether a job waits for its step at this address.
fn is_at(job: &Job, address: &str) -> bool {
    job.state == JobState::Ready && job.at.as_ref().is_some_and(|at| &*at.0 == address)
}

#[tokio::test(start_paused = true)]
async fn a_job_rests_as_long_as_the_rule_says_and_holds_no_place() {
    for (seed, wait) in [
        (301, json!({"for": "20m"})),
        (302, json!({"until": "timestamp(event.at) + duration('20m')"})),
    ] {
        let (world, out, event) = resting(seed, wait).await;
        let id = world.job_of(&event, "r").await;
        world
            .until(async |world| {
                let job = world.db.job(super::world::SITE, id).await.unwrap();
                let is_free = world.engine().pools().iter().all(|pool| pool.taken == 0);
                is_free && job.is_some_and(|job| is_at(&job, "do.2"))
            })
            .await;
        let job = world.ended(id).await;
        assert_eq!((job.state, job.attempts, job.error), (JobState::Done, 1, None));
        let took = job.changed_at.since(event.at).as_secs();
        assert!((1_200..1_300).contains(&took), "{took}");
        assert_eq!(files(&out).await.len(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_rests_no_longer_and_no_shorter_where_its_node_ends_meanwhile() {
    let (mut world, out, event) = resting(303, json!({"for": "20m"})).await;
    let id = world.job_of(&event, "r").await;
    let is_resting = async |world: &World| {
        let job = world.db.job(super::world::SITE, id).await.unwrap();
        job.is_some_and(|job| is_at(&job, "do.2"))
    };
    world.until(is_resting).await;
    world.kill().await;
    world.env.advance(Duration::from_secs(600));
    // As where a clock was set back, which lets every job be claimed at once.
    world.sql("UPDATE jobs SET due_at = 0, claim_at = 0".to_owned()).await;
    world.start();
    world.until(is_resting).await;
    let job = world.ended(id).await;
    assert_eq!((job.state, job.error), (JobState::Done, None));
    let took = job.changed_at.since(event.at).as_secs();
    assert!((1_200..1_300).contains(&took), "{took}");
    assert_eq!(files(&out).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_instant_that_is_over_lets_the_job_go_on_at_once() {
    let (world, out, event) = resting(304, json!({"until": "timestamp(event.at)"})).await;
    let job = world.ended(world.job_of(&event, "r").await).await;
    assert_eq!((job.state, job.error, job.handed_over), (JobState::Done, None, 0));
    assert_eq!(files(&out).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_step_that_takes_too_long_is_given_up_and_tried_again() {
    let mut world = World::new(305).await;
    let slow = FaultStore::new(memory_store(&world.env));
    slow.fail(Some(StoreCall::Write), 1, Fault::Delay(Duration::from_secs(3_600)));
    let out: entrepot_storage::AnyStore = Arc::new(slow);
    world.target("out", out.clone()).await;
    let deliver = json!({"deliver": {"endpoint": "out"}, "timeout": "30s"});
    let mut rule = doing(json!([deliver]));
    world.options.lease = Duration::from_secs(100_000);
    world.put(&rule).await;
    world.start();
    let event = world.upload("/in/a", b"1").await;
    let job = world.ended(world.job_of(&event, "r").await).await;
    assert_eq!((job.state, job.attempts), (JobState::Done, 2));
    assert!(job.changed_at.since(event.at).as_secs() < 300);
    rule.retry.attempts = 1;
    world.put(&rule).await;
    let slow = FaultStore::new(memory_store(&world.env));
    slow.fail(Some(StoreCall::Write), 1, Fault::Delay(Duration::from_secs(3_600)));
    world.target("out", Arc::new(slow)).await;
    let event = world.upload("/in/b", b"1").await;
    let job = world.ended(world.job_of(&event, "r").await).await;
    assert_eq!(job.error.as_deref(), Some("EP0818: the step had not ended after 30s"));
}

/// The simulated clock begins on Friday, 15 January 2027, at 08:00 by UTC.
#[tokio::test(start_paused = true)]
async fn a_condition_knows_the_days_of_a_calendar_as_it_is_now() {
    let mut world = World::new(371).await;
    let calendar = |except: &str| -> Policy {
        let calendar = json!({"days": "mon-fri", "except": [except]});
        serde_json::from_value(json!({"name": "bank", "calendar": calendar})).unwrap()
    };
    let steps = json!([{"set": {
        "works": "inCalendar(timestamp(event.at), 'bank')",
        "there": "inCalendar(timestamp(event.at), 'bank', 'Pacific/Honolulu')",
    }}, {"check": {"that": "vars.works && !vars.there", "message": "otherwise"}}]);
    let condition = Some("inCalendar(timestamp(event.at), 'bank', 'UTC')".to_owned());
    let rule = Rule { condition, ..doing(steps) };
    world.put(&calendar("2027-01-14")).await;
    world.put(&rule).await;
    world.start();
    let event = world.upload("/in/a", b"1").await;
    assert_eq!(event.at.to_string().get(..10), Some("2027-01-15"));
    let job = world.job_of(&event, "r").await;
    assert_eq!(world.ended(job).await.state, JobState::Done);
    // The condition of the rule is false then, without anything that is read again.
    world.put(&calendar("2027-01-15")).await;
    let event = world.upload("/in/b", b"1").await;
    world.projected().await;
    let job = world.job_of(&event, "r").await;
    assert_eq!(world.db.job(SITE, job).await.unwrap(), None);
    let without: Policy = serde_json::from_value(json!({"name": "bank"})).unwrap();
    world.put(&without).await;
    world.upload("/in/c", b"1").await;
    world.projected().await;
    let told = world.events("job.failed").await;
    let error = told.first().map(|event| serde_json::to_value(event).unwrap()["error"].clone());
    let error = error.unwrap().to_string();
    assert!(error.contains("EP0803") && error.contains("policy 'bank' has no calendar"), "{error}");
    world.kill().await;
}

/// Steps that only decide are recorded with what follows. Here another attempt would decide
/// otherwise: nobody may see both.
#[tokio::test(start_paused = true)]
async fn what_was_decided_is_recorded_before_anybody_sees_it() {
    let calendar = |except: &str| -> Policy {
        let calendar = json!({"days": "mon-fri", "except": [except]});
        serde_json::from_value(json!({"name": "bank", "calendar": calendar})).unwrap()
    };
    let steps = json!([
        {"set": {"day": "inCalendar(timestamp(event.at), 'bank') ? 'working' : 'free'"}},
        {"check": {"that": "vars.day != ''", "message": "no day"}},
        {"deliver": {"endpoint": "out", "path": "{vars.day}/{name}"}},
        {"set": {"other": "vars.day"}},
        {"deliver": {"endpoint": "out", "path": "{vars.other}/{name}.again"}},
    ]);
    let mut otherwise = 0;
    let cut = cut_everywhere(async |cut| {
        let at = cut.at;
        let mut world = World::new(372 + at as u64).await;
        let out = memory_store(&world.env);
        world.target("out", out.clone()).await;
        world.put(&calendar("2027-01-14")).await;
        world.put(&doing(steps.clone())).await;
        world.options.pauses = cut.pauses();
        let event = world.upload("/in/a", b"1").await;
        world.start();
        let job = world.job_of(&event, "r").await;
        world
            .until(async |world| {
                let job = world.db.job(SITE, job).await.unwrap();
                cut.seen() > at || job.is_some_and(|job| job.state == JobState::Done)
            })
            .await;
        world.put(&calendar("2027-01-15")).await;
        assert_eq!(world.ended(job).await.state, JobState::Done, "{at}");
        let mut found: Vec<_> = files(&out).await.into_keys().collect();
        found.sort();
        if found == ["free/a", "free/a.again"] {
            otherwise += 1;
        } else {
            assert_eq!(found, ["working/a", "working/a.again"], "{at}");
        }
        let records = world.db.job_steps(job).await.unwrap();
        let done = |step: &&JobStep| step.state == StepState::Done;
        let mut addresses: Vec<_> = records.iter().filter(done).map(|step| &step.address).collect();
        addresses.dedup();
        assert_eq!(addresses.len(), 5, "{at}: {records:?}");
        world.kill().await;
    })
    .await;
    assert!(otherwise > 0 && otherwise < cut, "{otherwise} of {cut} decided otherwise");
}

#[test]
fn tests_of_a_rule_say_which_days_they_are_of() {
    let rule = |named: serde_json::Value, runs: bool| -> Rule {
        serde_json::from_value(json!({
            "name": "r", "when": {"event": "file.uploaded"}, "do": [{"delete": {}}],
            "if": "!inCalendar(timestamp(event.at), 'bank', 'Europe/Berlin')",
            "tests": [{"event": {}, "in_calendars": named, "runs": runs}],
        }))
        .unwrap()
    };
    assert_eq!(crate::check_rule(&rule(json!(["bank"]), false)), Ok(()));
    assert_eq!(crate::check_rule(&rule(json!(["other"]), true)), Ok(()));
    let wrong = crate::check_rule(&rule(json!(["bank"]), true)).unwrap_err();
    assert_eq!(wrong.field, "tests.0.runs");
}
