//! Steps that wait for an event.

use std::time::Duration;

use entrepot_nouns::{Job, JobId, JobState, Noun as _, Rule};
use entrepot_storage::AnyStore;
use serde_json::{Value as Json, json};

use super::world::{SITE, World, cut_everywhere, doing, files, memory_store};
use crate::check_rule;

/// A rule on files in `/in`, which waits for one of the same stem in `/done` and delivers then.
async fn waiting(world: &World, more: Json) -> AnyStore {
    let out = memory_store(&world.env);
    world.target("out", out.clone()).await;
    let condition = "event.path == '/done/' + vars.name && file.size > 1";
    let mut wait = json!({"event": {"kind": "file.uploaded", "if": condition}, "within": "4m"});
    wait.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let deliver = json!({"deliver": {"endpoint": "out", "existing": "refuse",
        "path": "{name}-{vars.size}"}});
    let steps = json!([
        {"set": {"name": "file.name"}},
        {"name": "ack", "wait": wait},
        {"set": {"size": "steps.ack.event.size"}},
        deliver,
    ]);
    let condition = Some("event.path.startsWith('/in/')".to_owned());
    let mut rule = Rule { condition, ..doing(steps) };
    rule.retry.attempts = 3;
    rule.check().unwrap();
    check_rule(&rule).unwrap();
    world.put(&rule).await;
    out
}

async fn rests(world: &World, job: JobId) {
    world
        .until(async |world| {
            let found = world.db.job(SITE, job).await.unwrap();
            let is_free = world.engine().pools().iter().all(|pool| pool.taken == 0);
            is_free && found.is_some_and(|job| job.state == JobState::Ready && job.handed_over > 0)
        })
        .await;
}

async fn uploaded(world: &mut World, path: &str, bytes: &[u8]) -> JobId {
    let event = world.upload(path, bytes).await;
    world.job_of(&event, "r").await
}

async fn done(world: &World, job: JobId) -> Job {
    let job = world.ended(job).await;
    assert_eq!((job.state, job.error.as_deref()), (JobState::Done, None));
    job
}

#[tokio::test(start_paused = true)]
async fn a_job_goes_on_with_the_event_that_it_waits_for_and_with_no_other() {
    let mut world = World::new(1_401).await;
    let out = waiting(&world, json!({})).await;
    world.start();
    let (a, b) =
        (uploaded(&mut world, "/in/a", b"1").await, uploaded(&mut world, "/in/b", b"1").await);
    rests(&world, a).await;
    rests(&world, b).await;
    // Another file, one that is too small, and one that is removed.
    world.upload("/done/c", b"22").await;
    world.upload("/done/a", b"1").await;
    world.projected().await;
    for _ in 0..100 {
        world.turn().await;
    }
    assert!(files(&out).await.is_empty());
    rests(&world, a).await;
    world.upload("/done/b", b"333").await;
    let told = world.env.now();
    let job = done(&world, b).await;
    assert!(job.changed_at.since(told) < Duration::from_secs(10), "it was not woken");
    world.upload("/done/a", b"4444").await;
    done(&world, a).await;
    let mut names: Vec<_> = files(&out).await.into_keys().collect();
    names.sort();
    assert_eq!(names, ["a-4", "b-3"]);
    assert_eq!(world.number("SELECT COUNT(*) FROM job_waits".to_owned()).await, 0);
    world.kill().await;
}

#[tokio::test(start_paused = true)]
async fn an_event_that_came_before_the_step_counts_and_one_before_the_file_does_not() {
    let mut world = World::new(1_402).await;
    let out = waiting(&world, json!({})).await;
    world.upload("/done/a", b"22").await;
    let a = uploaded(&mut world, "/in/a", b"1").await;
    world.upload("/done/a", b"333").await;
    world.start();
    done(&world, a).await;
    assert!(files(&out).await.contains_key("a-3"));
    world.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_whose_event_does_not_come_fails_and_a_cancelled_one_waits_no_more() {
    let mut world = World::new(1_403).await;
    let out = waiting(&world, json!({"within": "90s"})).await;
    world.start();
    let (a, b) =
        (uploaded(&mut world, "/in/a", b"1").await, uploaded(&mut world, "/in/b", b"1").await);
    rests(&world, b).await;
    assert!(world.cancel(b).await);
    let begun = world.env.now();
    let job = world.ended(a).await;
    assert_eq!((job.state, job.attempts), (JobState::Failed, 1));
    let error = job.error.unwrap();
    let said = "EP0881: no event 'file.uploaded' for which 'if' holds came within 90s";
    assert!(error.starts_with(said), "{error}");
    let took = job.changed_at.since(begun);
    assert!(took > Duration::from_secs(80) && took < Duration::from_secs(120), "{took:?}");
    assert!(files(&out).await.is_empty());
    assert_eq!(world.number("SELECT COUNT(*) FROM job_waits".to_owned()).await, 0);
    // By hand it waits anew, and finds what has come meanwhile.
    world.upload("/done/a", b"22").await;
    world.projected().await;
    assert!(world.retry(a, world.env.now()).await);
    done(&world, a).await;
    world.kill().await;
}

/// Whatever the moment of a crash, and whether the event comes before it or behind it.
#[tokio::test(start_paused = true)]
async fn a_crash_at_any_point_neither_misses_the_event_nor_goes_on_twice() {
    let cut = cut_everywhere(async |cut| {
        let at = cut.at;
        let mut world = World::new(1_500 + at as u64).await;
        let out = waiting(&world, json!({})).await;
        world.options.pauses = cut.pauses();
        world.start();
        let job = uploaded(&mut world, "/in/a", b"1").await;
        for _ in 0..(at * 7) % 90 {
            world.turn().await;
        }
        world.upload("/done/a", b"22").await;
        done(&world, job).await;
        assert_eq!(files(&out).await.into_keys().collect::<Vec<_>>(), ["a-2"], "{at}");
        world.kill().await;
    })
    .await;
    assert!(cut > 6, "only {cut} points were cut");
}

/// Beside lists that wait for other things.
#[tokio::test(start_paused = true)]
async fn lists_of_a_parallel_wait_for_events_of_their_own() {
    let mut world = World::new(1_404).await;
    let out = memory_store(&world.env);
    world.target("out", out.clone()).await;
    let list = |folder: &str| {
        let condition = format!("event.path.startsWith('/{folder}/')");
        json!([
            {"wait": {"event": {"kind": "file.uploaded", "if": condition}}},
            {"deliver": {"endpoint": "out", "path": folder, "existing": "refuse"}},
        ])
    };
    let steps = json!([{"parallel": {"do": [list("x"), list("y")]}}]);
    let condition = Some("event.path.startsWith('/in/')".to_owned());
    let rule = Rule { condition, ..doing(steps) };
    rule.check().unwrap();
    check_rule(&rule).unwrap();
    world.put(&rule).await;
    for folder in ["x", "y"] {
        world.file_access.home.make_directory(&folder.parse().unwrap()).await.unwrap();
    }
    world.start();
    let job = uploaded(&mut world, "/in/a", b"1").await;
    rests(&world, job).await;
    for (folder, count) in [("y", 1), ("x", 2)] {
        let event = world.upload(&format!("/{folder}/f"), b"1").await;
        world.until(async |_| files(&out).await.len() == count).await;
        let took = world.env.now().since(event.at);
        assert!(took < Duration::from_secs(20), "it was not woken: {took:?}");
    }
    done(&world, job).await;
    world.kill().await;
}

#[test]
fn what_cannot_be_waited_for_is_refused_when_the_rule_is_stored() {
    let upload = |condition: &str| json!({"kind": "file.uploaded", "if": condition});
    let then = json!({"delete": {}});
    for (wait, field) in [
        (json!({}), "do.0.wait"),
        (json!({"for": "1m", "event": upload("true")}), "do.0.wait"),
        (json!({"for": "1m", "within": "1m"}), "do.0.wait.within"),
        (json!({"event": upload("true"), "within": "31d"}), "do.0.wait.within"),
        (json!({"event": {"kind": "file.uplaoded"}}), "do.0.wait.event.kind"),
        (json!({"event": upload("event.answer == 1")}), "do.0.wait.event.if"),
        (json!({"event": upload("file.size")}), "do.0.wait.event.if"),
    ] {
        let rule = doing(json!([{"wait": wait}, then]));
        let checked = rule.check().and_then(|()| check_rule(&rule));
        assert_eq!(checked.unwrap_err().field, field, "{wait}");
    }
    let other = json!({"event": {"kind": "job.approved", "if": "event.step == 'x' && vars.a > 1"}});
    let rule = doing(json!([{"set": {"a": "1"}}, {"wait": other}]));
    assert_eq!(rule.check().and_then(|()| check_rule(&rule)), Ok(()));
}
