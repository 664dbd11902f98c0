//! Turns of an `each` that run at the same time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use entrepot_nouns::{JobState, Noun as _, Rule, StepState};
use entrepot_storage::AnyStore;
use entrepot_storage::fault::{Fault, FaultStore, StoreCall};
use serde_json::{Value as Json, json};

use super::turns::deliver;
use super::world::{SITE, World, content, cut_everywhere, doing, files, memory_store};
use crate::check_rule;

fn each(at_once: u32, list: &str, steps: Json) -> Json {
    json!({"name": "all", "each": {"in": list, "at_once": at_once, "do": steps}})
}

struct Partner {
    world: World,
    out: FaultStore,
}

impl Partner {
    async fn new(seed: u64, steps: Json) -> Partner {
        let world = World::new(seed).await;
        let out = FaultStore::new(memory_store(&world.env));
        world.target("out", Arc::new(out.clone())).await;
        let rule = doing(steps);
        rule.check().unwrap();
        check_rule(&rule).unwrap();
        world.put(&rule).await;
        Partner { world, out }
    }

    async fn names(&self) -> Vec<String> {
        let store: AnyStore = Arc::new(self.out.clone());
        files(&store).await.into_keys().collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn count(&self, call: StoreCall) -> usize {
        self.out.log().iter().filter(|it| **it == call).count()
    }
}

#[tokio::test(start_paused = true)]
async fn no_more_turns_run_at_once_than_are_asked_for_and_one_follows_each_that_ends() {
    let steps = json!([each(2, "['a', 'b', 'c', 'd', 'e']", json!([deliver("{index}{item}")]))]);
    let mut partner = Partner::new(1_501, steps).await;
    partner.world.options.lease = Duration::from_secs(36_000);
    // The first takes as long as three others.
    let times = [900, 300, 300, 300, 300].map(Duration::from_secs);
    for (nth, time) in (1..).zip(times) {
        partner.out.fail(Some(StoreCall::Sync), nth, Fault::Delay(time));
    }
    let begun = tokio::time::Instant::now();
    partner.world.start();
    let event = partner.world.upload("/in/f", b"four").await;
    let mut most = 0;
    let job = partner.world.job_of(&event, "r").await;
    let db = partner.world.db.clone();
    loop {
        let (staged, told) = (partner.count(StoreCall::Stage), partner.count(StoreCall::Publish));
        most = most.max(staged - told);
        if db.job(SITE, job).await.unwrap().is_some_and(|job| job.state == JobState::Done) {
            break;
        }
        partner.world.turn().await;
    }
    assert_eq!(most, 2);
    assert_eq!(partner.names().await, ["0a", "1b", "2c", "3d", "4e"]);
    let took = begun.elapsed();
    assert!(took < times.iter().sum::<Duration>(), "one waited for the other: {took:?}");
}

/// Packs, decides and sends for each item, and then sends the file itself.
fn packing() -> Json {
    json!([
        {"set": {"kind": "'k'"}},
        each(3, "[{'name': 'a'}, {'name': 'b'}, {'name': 'c'}, {'name': 'd'}]", json!([
            {"name": "made", "gzip": {"name": "{item.name}.gz"}},
            {"set": {"kind": "vars.kind + item.name"}},
            {"if": {"when": "index != 1", "then": [deliver("{vars.kind}/{index}/{name}")]}},
        ])),
        {"check": {"that": "vars.kind == 'k' && steps.all.count == 4", "message": "{vars.kind}"}},
        {"check": {"that": "steps.made.state == 'done'", "message": "no last turn"}},
        deliver("{name}"),
    ])
}

const PACKED: [&str; 4] = ["f", "ka/0/a.gz", "kc/2/c.gz", "kd/3/d.gz"];

#[tokio::test(start_paused = true)]
async fn each_turn_begins_with_what_was_there_and_its_files_go_with_it() {
    let mut partner = Partner::new(1_502, packing()).await;
    // The files of three turns fit, those of four do not.
    let packed = content(4, 1);
    partner.world.work.limit = packed.len() as u64 * 7 / 2;
    partner.world.start();
    let event = partner.world.upload("/in/f", &packed).await;
    let job = partner.world.ended(partner.world.job_of(&event, "r").await).await;
    assert_eq!((job.state, job.error.as_deref()), (JobState::Done, None));
    assert_eq!(partner.names().await, PACKED);
    let known = partner.world.db.job_steps(job.id).await.unwrap();
    let known: Vec<_> = known.iter().map(|step| &*step.address.0).collect();
    for wanted in ["all", "made[0]", "made[3]", "do.1.each.do[3].2.if.then.0"] {
        assert!(known.contains(&wanted), "{wanted}: {known:?}");
    }
    assert!(!known.contains(&"do.1.each.do[1].2.if.then.0"), "{known:?}");
    let world = &partner.world;
    world.until(async |world| files(&world.work.store).await.is_empty()).await;
}

/// Whatever the moment of a crash: no delivery twice (a second one is refused), nothing left out.
#[tokio::test(start_paused = true)]
async fn a_crash_at_any_point_goes_on_in_each_turn_where_it_was() {
    let cut = cut_everywhere(async |cut| {
        let at = cut.at;
        let mut partner = Partner::new(1_600 + at as u64, packing()).await;
        partner.world.options.pauses = cut.pauses();
        let event = partner.world.upload("/in/f", b"four").await;
        partner.world.start();
        let job = partner.world.ended(partner.world.job_of(&event, "r").await).await;
        assert_eq!((job.state, job.error.as_deref()), (JobState::Done, None), "{at}");
        assert_eq!(partner.names().await, PACKED, "{at}");
        partner.world.projected().await;
        assert_eq!(partner.world.events("file.delivered").await.len(), 4, "{at}");
        let records = partner.world.db.job_steps(job.id).await.unwrap();
        assert!(records.iter().all(|step| step.state == StepState::Done), "{at}: {records:?}");
        let known: BTreeSet<_> = records.iter().map(|step| &step.address).collect();
        assert_eq!(known.len(), records.len(), "{at}: a step ran again: {records:?}");
        partner.world.kill().await;
    })
    .await;
    assert!(cut > 40, "only {cut} points were cut");
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_fails_ends_those_beside_it_and_is_tried_again() {
    let list = "['a', 'b', 'c', 'd', 'e', 'f']";
    let steps = json!([each(2, list, json!([deliver("{item}/1"), deliver("{item}/2")]))]);
    let mut partner = Partner::new(1_503, steps).await;
    partner.out.fail(Some(StoreCall::Publish), 4, Fault::Io);
    partner.world.start();
    let event = partner.world.upload("/in/f", b"four").await;
    partner.world.until(async |world| !world.events("job.retrying").await.is_empty()).await;
    let before = partner.names().await.len();
    assert!(before < 8, "turns began behind the one that failed: {before}");
    let job = partner.world.ended(partner.world.job_of(&event, "r").await).await;
    assert_eq!((job.state, job.attempts), (JobState::Done, 2));
    assert_eq!(partner.names().await.len(), 12);
    let steps = partner.world.db.job_steps(job.id).await.unwrap();
    assert_eq!(steps.iter().filter(|step| step.state == StepState::Failed).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn turns_that_wait_keep_their_places_among_those_at_once() {
    let steps = json!([{"wait": {"for": "100s"}}, deliver("{item}")]);
    let mut partner = Partner::new(1_504, json!([each(2, "['a', 'b', 'c']", steps)])).await;
    partner.world.start();
    let event = partner.world.upload("/in/f", b"four").await;
    let job = partner.world.job_of(&event, "r").await;
    let is_free = |world: &World| world.engine().pools().iter().all(|pool| pool.taken == 0);
    let both = ["a".to_owned(), "b".to_owned()];
    let store: AnyStore = Arc::new(partner.out.clone());
    let there = async || files(&store).await.into_keys().collect::<BTreeSet<_>>();
    partner.world.until(async |world| there().await.len() == 2 && is_free(world)).await;
    let took = partner.world.env.now().since(event.at);
    assert!(took >= Duration::from_secs(100) && took < Duration::from_secs(160), "{took:?}");
    assert_eq!(there().await, BTreeSet::from(both));
    let ended = partner.world.ended(job).await;
    assert_eq!((ended.state, ended.error), (JobState::Done, None));
    let took = partner.world.env.now().since(event.at);
    assert!(took >= Duration::from_secs(200), "the third did not wait: {took:?}");
    assert_eq!(partner.names().await, ["a", "b", "c"]);
}

/// With a single place of a pool, and one at a time at the partner.
#[tokio::test(start_paused = true)]
async fn many_turns_come_through_few_places() {
    let list = format!("{:?}", (0..60).collect::<Vec<u32>>());
    let steps = json!([{"gzip": {"name": "{item}.gz"}}, deliver("{name}")]);
    let mut partner = Partner::new(1_505, json!([each(16, &list, steps)])).await;
    partner.world.options.pools = crate::PoolSizes::each(2);
    partner.world.start();
    let mut events = Vec::new();
    for name in ["/in/f", "/in/g"] {
        events.push(partner.world.upload(name, b"four").await);
    }
    let first = partner.world.ended(partner.world.job_of(&events[0], "r").await).await;
    let second = partner.world.ended(partner.world.job_of(&events[1], "r").await).await;
    let states = [first.state, second.state];
    // The second of them finds each name taken.
    assert!(states.contains(&JobState::Done), "{:?} {:?}", first.error, second.error);
    assert_eq!(partner.names().await.len(), 60);
}

#[test]
fn what_cannot_run_in_turns_at_once_is_refused_when_the_rule_is_stored() {
    let checked = |steps: Json| {
        let stored = json!({"name": "r", "when": {"event": "file.uploaded"}, "do": steps});
        let stored: Rule = serde_json::from_value(stored).unwrap();
        let checked = stored.check().and_then(|()| check_rule(&stored));
        checked.map_err(|error| (error.field.clone(), error.problem))
    };
    let mkdir = json!({"mkdir": {"path": "/{item}"}});
    let inside = |at_once: u32, step: Json| json!([each(at_once, "[1]", json!([step]))]);
    let both = |step: &Json| json!({"parallel": {"do": [[step], [step]]}});
    for good in [
        inside(16, mkdir.clone()),
        json!([{"each": {"in": "[1]", "do": [each(2, "[2]", json!([mkdir]))]}}]),
        inside(2, json!({"each": {"in": "[1]", "do": [mkdir]}})),
        inside(1, json!({"move": {"to": "/a"}})),
    ] {
        assert_eq!(checked(good.clone()), Ok(()), "{good}");
    }
    for (steps, field, said) in [
        (inside(0, mkdir.clone()), "do.0.each.at_once", "from 1 to 16"),
        (inside(17, mkdir.clone()), "do.0.each.at_once", "from 1 to 16"),
        (inside(2, json!({"move": {"to": "/a"}})), "do.0.each.do.0.move", "behind the 'each'"),
        (inside(2, json!({"delete": {}})), "do.0.each.do.0.delete.path", "behind the 'each'"),
        (inside(2, json!({"stop": {}})), "do.0.each.do.0.stop", "would end"),
        (inside(2, json!({"wait": {"for": "3s"}})), "do.0.each.do.0.wait", "nothing waits"),
        (inside(2, both(&mkdir)), "do.0.each.do.0.parallel", "at the same time already"),
        (
            json!([both(&json!({"each": {"in": "[1]", "at_once": 2, "do": [mkdir]}}))]),
            "do.0.parallel.do.0.0.each.at_once",
            "one by one",
        ),
    ] {
        let (found, problem) = checked(steps.clone()).unwrap_err();
        assert!(found == field && problem.contains(said), "{steps}: {found}: {problem}");
    }
}
