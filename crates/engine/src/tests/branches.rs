//! Lists of steps that run at the same time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use entrepot_nouns::approval::ApprovalVerdict;
use entrepot_nouns::{Endpoint, Event, Job, JobState, Noun as _, Rule, StepState};
use entrepot_storage::AnyStore;
use entrepot_storage::fault::{Fault, FaultStore, StoreCall};
use entrepot_testbed::memory_endpoint;
use serde_json::{Value as Json, json};

use super::approvals::answer;
use super::world::{SITE, World, content, cut_everywhere, doing, files, memory_store};
use crate::{PoolSizes, check_rule};

/// A delivery that fails if it was done before.
fn deliver(to: &str, path: &str) -> Json {
    json!({"deliver": {"endpoint": to, "path": path, "existing": "refuse"}})
}

fn parallel(need: &str, branches: Json) -> Json {
    json!({"parallel": {"need": need, "do": branches}})
}

/// A world with the endpoints `a`, `b` and `c`.
struct Partners {
    world: World,
    a: FaultStore,
    b: FaultStore,
    c: FaultStore,
}

impl Partners {
    async fn new(seed: u64, rule: &Rule) -> Partners {
        let world = World::new(seed).await;
        let store = || FaultStore::new(memory_store(&world.env));
        let (a, b, c) = (store(), store(), store());
        for (label, store) in [("a", &a), ("b", &b), ("c", &c)] {
            world.target(label, Arc::new(store.clone())).await;
        }
        rule.check().unwrap();
        check_rule(rule).unwrap();
        world.put(rule).await;
        Partners { world, a, b, c }
    }

    async fn ended(&mut self, event: &Event) -> Job {
        self.world.ended(self.world.job_of(event, "r").await).await
    }

    async fn done(&mut self, event: &Event) -> Job {
        let job = self.ended(event).await;
        assert_eq!((job.state, job.error.as_deref()), (JobState::Done, None));
        job
    }

    async fn names(&self) -> [Vec<String>; 3] {
        [names(&self.a).await, names(&self.b).await, names(&self.c).await]
    }
}

async fn names(store: &FaultStore) -> Vec<String> {
    let store: AnyStore = Arc::new(store.clone());
    let mut names: Vec<_> = files(&store).await.into_keys().collect();
    names.sort();
    names
}

/// The next `count` calls of a kind take so long.
fn slow(store: &FaultStore, kind: StoreCall, count: u64, time: Duration) {
    for nth in 1..=count {
        store.fail(Some(kind), nth, Fault::Delay(time));
    }
}

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test(start_paused = true)]
async fn two_slow_partners_are_written_to_at_the_same_time() {
    let steps = json!([
        parallel("all", json!([[deliver("a", "{name}")], [deliver("b", "{name}")]])),
        deliver("c", "{name}"),
    ]);
    let mut partners = Partners::new(851, &doing(steps)).await;
    partners.world.options.lease = HOUR * 10;
    let long = Duration::from_secs(600);
    slow(&partners.a, StoreCall::Sync, 1, long);
    slow(&partners.b, StoreCall::Sync, 1, long);
    partners.world.start();
    let event = partners.world.upload("/in/f", b"four").await;
    let (a, b) = (partners.a.clone(), partners.b.clone());
    let both = |call: StoreCall| [&a, &b].map(|store| store.log().contains(&call));
    partners.world.until(async |_| both(StoreCall::Sync) == [true; 2]).await;
    assert_eq!(both(StoreCall::Publish), [false; 2], "one waited for the other");
    let begun = tokio::time::Instant::now();
    partners.done(&event).await;
    assert!(begun.elapsed() < long * 3 / 2, "they took as long as one after the other");
    assert_eq!(partners.names().await, [["f"], ["f"], ["f"]]);
}

/// Packs in one branch, goes round in a second, and decides in a third.
fn branching() -> Json {
    let each = json!({"in": "['x', 'y']", "do": [
        {"gzip": {"name": "{item}.gz"}}, deliver("b", "{vars.kind}-{item}/{name}"),
    ]});
    json!([
        {"set": {"kind": "'k'"}},
        {"gzip": {"name": "{name}.1"}},
        {"name": "fork", "parallel": {"do": [
            [{"name": "pack", "gzip": {"name": "{name}.2"}}, {"set": {"kind": "'other'"}},
                deliver("a", "{name}"), deliver("a", "again/{name}")],
            [{"each": each}],
            [{"name": "sort", "if": {"when": "vars.kind == 'k'", "then": [
                deliver("c", "in-{name}")]}}],
        ]}},
        {"check": {"that": "vars.kind == 'k' && steps.pack.state == 'done' \
            && steps.sort.branch == 'then' && steps.fork.state == 'done'", "message": "no"}},
        deliver("c", "{name}"),
    ])
}

#[tokio::test(start_paused = true)]
async fn each_branch_begins_with_what_was_there_and_so_do_the_steps_behind() {
    let mut partners = Partners::new(852, &doing(branching())).await;
    partners.world.start();
    let event = partners.world.upload("/in/f", &content(1, 3)).await;
    let job = partners.done(&event).await;
    let [a, b, c] = partners.names().await;
    assert_eq!(a, ["again/f.1.2", "f.1.2"]);
    assert_eq!(b, ["k-x/x.gz", "k-y/y.gz"]);
    assert_eq!(c, ["f.1", "in-f.1"]);
    let steps = partners.world.db.job_steps(job.id).await.unwrap();
    let known: Vec<_> = steps.iter().map(|step| &*step.address.0).collect();
    for wanted in ["fork", "pack", "do.2.parallel.do.0.3", "do.2.parallel.do.1.0.each.do[1].1"] {
        assert!(known.contains(&wanted), "{wanted}: {known:?}");
    }
    let world = &partners.world;
    world.until(async |world| files(&world.work.store).await.is_empty()).await;
}

/// Whatever the moment of a crash, and in whichever branch: nothing twice (a second delivery is
/// refused), nothing left out.
#[tokio::test(start_paused = true)]
async fn a_crash_at_any_point_goes_on_in_each_branch_where_it_was() {
    let cut = cut_everywhere(async |cut| {
        let at = cut.at;
        let mut partners = Partners::new(900 + at as u64, &doing(branching())).await;
        partners.world.options.pauses = cut.pauses();
        let event = partners.world.upload("/in/f", b"four").await;
        partners.world.start();
        let job = partners.done(&event).await;
        let [a, b, c] = partners.names().await;
        assert_eq!(a, ["again/f.1.2", "f.1.2"], "{at}");
        assert_eq!(b, ["k-x/x.gz", "k-y/y.gz"], "{at}");
        assert_eq!(c, ["f.1", "in-f.1"], "{at}");
        partners.world.projected().await;
        assert_eq!(partners.world.events("file.delivered").await.len(), 6, "{at}");
        let records = partners.world.db.job_steps(job.id).await.unwrap();
        assert!(records.iter().all(|step| step.state == StepState::Done), "{at}: {records:?}");
        let known: BTreeSet<_> = records.iter().map(|step| &step.address).collect();
        assert_eq!(known.len(), records.len(), "{at}: a step ran again: {records:?}");
        partners.world.kill().await;
    })
    .await;
    assert!(cut > 60, "only {cut} points were cut");
}

#[tokio::test(start_paused = true)]
async fn a_branch_that_fails_ends_the_others_at_their_next_step_and_is_tried_again() {
    let steps = json!([parallel(
        "all",
        json!([
            [deliver("a", "1"), deliver("a", "2")],
            [deliver("b", "1"), deliver("b", "2")],
            [deliver("c", "1")],
        ])
    )]);
    let mut partners = Partners::new(853, &doing(steps)).await;
    partners.world.options.lease = HOUR;
    // The first fails when the third has gone through, while the second is still at its first step.
    // If it failed at once, the others might not have begun on a busy machine.
    slow(&partners.a, StoreCall::Sync, 1, Duration::from_secs(60));
    partners.a.fail(Some(StoreCall::Publish), 1, Fault::Io);
    slow(&partners.b, StoreCall::Sync, 1, Duration::from_secs(300));
    partners.world.start();
    let event = partners.world.upload("/in/f", b"four").await;
    partners.world.until(async |world| !world.events("job.retrying").await.is_empty()).await;
    assert_eq!(partners.names().await, [vec![], vec!["1"], vec!["1"]]);
    let told = partners.b.log().iter().filter(|call| **call == StoreCall::Stage).count();
    assert_eq!(told, 1, "a step was begun");
    let job = partners.done(&event).await;
    assert_eq!(job.attempts, 2);
    assert_eq!(partners.names().await, [vec!["1", "2"], vec!["1", "2"], vec!["1"]]);
    let steps = partners.world.db.job_steps(job.id).await.unwrap();
    let failed: Vec<_> = steps.iter().filter(|step| step.state == StepState::Failed).collect();
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert_eq!(&*failed[0].address.0, "do.0.parallel.do.0.0");
}

#[tokio::test(start_paused = true)]
async fn each_branch_that_failed_is_remembered_with_its_step() {
    let wrong = |text: &str| json!([{"check": {"that": "false", "message": text}}]);
    let mut rule = doing(json!([
        parallel("all", json!([wrong("one"), wrong("two"), [deliver("a", "a")]])),
        deliver("a", "never"),
    ]));
    rule.otherwise = serde_json::from_value(json!([
        parallel(
            "all",
            json!([
                [{"check": {"that": "false", "message": "three"}}, deliver("b", "else")],
                [deliver("c", "else")],
            ])
        ),
        deliver("c", "last"),
    ]))
    .unwrap();
    let mut partners = Partners::new(854, &rule).await;
    partners.world.start();
    let event = partners.world.upload("/in/f", b"four").await;
    let job = partners.ended(&event).await;
    assert_eq!(
        (job.state, job.error.as_deref()),
        (JobState::Failed, Some("EP0815: one; an else step failed too: EP0815: three"))
    );
    let [a, b, c] = partners.names().await;
    assert_eq!((b, c), (vec!["else".to_owned()], vec!["else".to_owned(), "last".to_owned()]));
    assert!(!a.contains(&"never".to_owned()));
    let steps = partners.world.db.job_steps(job.id).await.unwrap();
    let failed = steps.iter().filter(|step| step.state == StepState::Failed);
    let failed: Vec<_> = failed.map(|step| &*step.address.0).collect();
    assert!(failed.contains(&"do.0.parallel.do.0.0"), "{failed:?}");
    assert!(failed.contains(&"else.0.parallel.do.0.0"), "{failed:?}");
}

#[tokio::test(start_paused = true)]
async fn the_first_branch_that_is_through_ends_the_others_at_their_next_step() {
    let steps = json!([
        parallel("any", json!([
            [deliver("a", "1"), deliver("a", "2")],
            [deliver("b", "1"), {"name": "sent", "set": {"x": "1"}}],
            [{"check": {"that": "false", "message": "no"}}],
        ])),
        {"check": {"that": "has(steps.sent.state)", "message": "who is it?"}},
        deliver("c", "{name}"),
    ]);
    let mut partners = Partners::new(855, &doing(steps)).await;
    partners.world.options.lease = HOUR;
    slow(&partners.a, StoreCall::Sync, 1, Duration::from_secs(300));
    partners.c.fail(Some(StoreCall::Publish), 1, Fault::Io);
    partners.world.start();
    let event = partners.world.upload("/in/f", b"four").await;
    let job = partners.done(&event).await;
    assert_eq!(job.attempts, 2, "the step behind them failed once");
    // The first was in the midst of a step, and ends it; the second attempt leaves it there.
    assert_eq!(partners.names().await, [["1"], ["1"], ["f"]]);
}

#[tokio::test(start_paused = true)]
async fn any_fails_if_all_do_and_tries_all_of_them_again() {
    let steps = json!([
        parallel(
            "any",
            json!([
                [{"check": {"that": "false", "message": "no"}}], [deliver("a", "1")],
                [deliver("b", "1")],
            ])
        ),
        deliver("c", "1"),
    ]);
    let mut partners = Partners::new(856, &doing(steps)).await;
    for store in [&partners.a, &partners.b] {
        store.fail(Some(StoreCall::Publish), 1, Fault::Io);
    }
    partners.b.fail(Some(StoreCall::Publish), 2, Fault::Io);
    // So long that each of them has its place before another one fails.
    for store in [&partners.a, &partners.b] {
        slow(store, StoreCall::Sync, 1, Duration::from_secs(20));
    }
    partners.world.start();
    let event = partners.world.upload("/in/f", b"four").await;
    let job = partners.done(&event).await;
    assert_eq!(job.attempts, 2);
    let [a, _, c] = partners.names().await;
    assert_eq!((a.len(), c.len()), (1, 1));

    let wrong = json!([{"check": {"that": "false", "message": "no"}}]);
    let rule = doing(json!([parallel("any", json!([wrong, wrong]))]));
    let mut partners = Partners::new(857, &rule).await;
    partners.world.start();
    let event = partners.world.upload("/in/f", b"four").await;
    let job = partners.ended(&event).await;
    assert_eq!((job.attempts, job.error.as_deref()), (1, Some("EP0815: no")));
}

/// One of two is enough, whatever the moment of a crash; and what is behind it comes once.
#[tokio::test(start_paused = true)]
async fn a_crash_at_any_point_of_any_leaves_one_through_at_least() {
    let steps = json!([
        parallel(
            "any",
            json!(
                [[deliver("a", "1"), deliver("a", "2")], [deliver("b", "1"), deliver("b", "2")],]
            )
        ),
        deliver("c", "{name}"),
    ]);
    let cut = cut_everywhere(async |cut| {
        let at = cut.at;
        let mut partners = Partners::new(1000 + at as u64, &doing(steps.clone())).await;
        partners.world.options.pauses = cut.pauses();
        let event = partners.world.upload("/in/f", b"four").await;
        partners.world.start();
        partners.done(&event).await;
        let [a, b, c] = partners.names().await;
        assert!(a.len() == 2 || b.len() == 2, "{at}: {a:?} {b:?}");
        assert_eq!(c, ["f"], "{at}");
        partners.world.kill().await;
    })
    .await;
    assert!(cut > 20, "only {cut} points were cut");
}

/// How many files were written at once, by what was asked of a store.
fn most_at_once(store: &FaultStore) -> i32 {
    let (mut now, mut most) = (0, 0);
    for call in store.log() {
        match call {
            StoreCall::Stage => now += 1,
            StoreCall::Publish => now -= 1,
            _ => {}
        }
        most = most.max(now);
    }
    most
}

/// Branches take no place that another job waits for, and no limit of an endpoint is exceeded.
#[tokio::test(start_paused = true)]
async fn many_jobs_with_branches_come_through_few_places_and_limits() {
    let steps = json!([
        {"gzip": {}},
        parallel("all", json!([
            [deliver("a", "{name}"), deliver("b", "{name}")],
            [deliver("b", "2/{name}"), deliver("a", "2/{name}")],
            [deliver("c", "{name}"), {"gzip": {}}, deliver("a", "3/{name}")],
        ])),
        deliver("c", "last/{name}"),
    ]);
    for (seed, places) in [(858, 1), (859, 3), (860, 25)] {
        let mut partners = Partners::new(seed, &doing(steps.clone())).await;
        partners.world.options.lease = HOUR * 10;
        partners.world.options.pools = PoolSizes::each(places);
        for (label, limit) in [("a", 1), ("b", 2)] {
            partners.world.put(&Endpoint { at_once: Some(limit), ..memory_endpoint(label) }).await;
        }
        for store in [&partners.a, &partners.b, &partners.c] {
            slow(store, StoreCall::Sync, 100, Duration::from_secs(2));
        }
        let mut other = partners.world.beside("n2").await;
        let mut events = Vec::new();
        for number in 0..6 {
            events.push(partners.world.upload(&format!("/in/{number}"), b"four").await);
        }
        partners.world.start();
        other.start();
        for event in &events {
            let job = partners.done(event).await;
            assert_eq!(job.attempts, 1, "{places}");
        }
        assert_eq!(most_at_once(&partners.a), 1, "{places}");
        assert!(most_at_once(&partners.b) <= 2, "{places}");
        let [a, b, c] = partners.names().await;
        assert_eq!((a.len(), b.len(), c.len()), (18, 12, 12), "{places}");
        for world in [&mut partners.world, &mut other] {
            world.kill().await;
        }
    }
}

fn approve(text: &str) -> Json {
    json!({"approve": {"by": ["boss"], "within": "4h", "text": text}})
}

/// The job, when it has ended; whatever it asks is answered at once.
async fn ended_with_yes(partners: &Partners, event: &Event) -> Job {
    let id = partners.world.job_of(event, "r").await;
    for _ in 0..20_000 {
        let job = partners.world.db.job(SITE, id).await.unwrap();
        if let Some(job) = job.filter(|job| job.state.has_ended()) {
            return job;
        }
        for asked in partners.world.db.approvals_of_job(id).await.unwrap() {
            if asked.yes == 0 {
                answer(&partners.world, &asked, "boss", ApprovalVerdict::Approved).await;
            }
        }
        partners.world.turn().await;
    }
    panic!("the job did not end")
}

/// Each list goes on when what it waits for has happened, whatever the others wait for; no place is
/// taken meanwhile.
#[tokio::test(start_paused = true)]
async fn lists_that_wait_let_the_others_go_on_and_the_job_rests_with_the_last() {
    let lists = json!([
        [approve("a"), deliver("a", "{name}")],
        [approve("b"), deliver("b", "{name}")],
        [{"wait": {"for": "40s"}}, deliver("c", "{name}")],
        [deliver("c", "at-once")],
    ]);
    let rule = doing(json!([parallel("all", lists), deliver("a", "last")]));
    let mut partners = Partners::new(951, &rule).await;
    partners.world.start();
    let event = partners.world.upload("/in/x", b"333").await;
    let job = partners.world.job_of(&event, "r").await;
    let db = partners.world.db.clone();
    let rests = async |open: usize| {
        partners
            .world
            .until(async |world| {
                let asked = db.approvals_of_job(job).await.unwrap();
                let found = db.job(SITE, job).await.unwrap();
                let is_free = world.engine().pools().iter().all(|pool| pool.taken == 0);
                let rests = found.is_some_and(|job| job.state == JobState::Ready);
                asked.len() == open && rests && is_free
            })
            .await;
        db.approvals_of_job(job).await.unwrap()
    };
    let asked = rests(2).await;
    assert_eq!(partners.names().await, [vec![], vec![], vec!["at-once".to_owned()]]);
    let second = asked.iter().find(|asked| asked.text == "b").unwrap();
    answer(&partners.world, second, "boss", ApprovalVerdict::Approved).await;
    let answered = partners.world.env.now();
    partners.world.until(async |_| !names(&partners.b).await.is_empty()).await;
    let took = partners.world.env.now().since(answered);
    assert!(took < Duration::from_secs(20), "it was not woken: {took:?}");
    let both = ["at-once".to_owned(), "x".to_owned()];
    partners.world.until(async |_| names(&partners.c).await == both).await;
    let took = partners.world.env.now().since(event.at);
    assert!(took >= Duration::from_secs(40) && took < Duration::from_secs(70), "{took:?}");
    let asked = rests(1).await;
    assert_eq!(asked[0].text, "a");
    assert!(names(&partners.a).await.is_empty());
    answer(&partners.world, &asked[0], "boss", ApprovalVerdict::Approved).await;
    let done = partners.world.ended(job).await;
    assert_eq!((done.state, done.error), (JobState::Done, None));
    assert_eq!(names(&partners.a).await, ["last", "x"]);
    partners.world.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_point_repeats_nothing_of_lists_that_wait() {
    let lists = json!([
        [{"name": "ask", "approve": {"by": ["boss"], "text": "?"}}, deliver("a", "{name}")],
        [{"wait": {"for": "20s"}}, deliver("b", "{name}")],
    ]);
    let rule = doing(json!([parallel("all", lists), deliver("c", "{steps.ask.state}")]));
    let cut = cut_everywhere(async |cut| {
        let at = cut.at;
        let mut partners = Partners::new(1_200 + at as u64, &rule).await;
        partners.world.options.pauses = cut.pauses();
        partners.world.start();
        let event = partners.world.upload("/in/x", b"333").await;
        let job = ended_with_yes(&partners, &event).await;
        assert_eq!((job.state, job.error), (JobState::Done, None), "{at}");
        let wanted = [["x"], ["x"], ["done"]].map(|names| names.map(str::to_owned).to_vec());
        assert_eq!(partners.names().await, wanted, "{at}");
        partners.world.kill().await;
    })
    .await;
    assert!(cut > 12, "only {cut} points were cut");
}

#[tokio::test(start_paused = true)]
async fn where_one_list_is_enough_nobody_is_asked_any_more_and_a_no_leaves_the_others() {
    let lists = json!([[approve("a"), deliver("a", "x")], [{"wait": {"for": "30s"}},
        deliver("b", "x")]]);
    let rule = doing(json!([parallel("any", lists), {"wait": {"for": "60s"}}, deliver("c", "x")]));
    for (seed, verdict) in [(961, None), (962, Some(ApprovalVerdict::Refused))] {
        let mut partners = Partners::new(seed, &rule).await;
        partners.world.start();
        let event = partners.world.upload("/in/x", b"333").await;
        let job = partners.world.job_of(&event, "r").await;
        let db = partners.world.db.clone();
        partners.world.until(async |_| !db.approvals_of_job(job).await.unwrap().is_empty()).await;
        let asked = db.approvals_of_job(job).await.unwrap().remove(0);
        if let Some(verdict) = verdict {
            answer(&partners.world, &asked, "boss", verdict).await;
        }
        partners.world.until(async |_| !names(&partners.b).await.is_empty()).await;
        // The job waits behind them, and nothing is left to answer.
        partners.world.until(async |_| db.approvals_of_job(job).await.unwrap().is_empty()).await;
        let found = db.job(SITE, job).await.unwrap().unwrap();
        assert!(!found.state.has_ended(), "{seed}");
        let done = partners.world.ended(job).await;
        assert_eq!((done.state, done.error), (JobState::Done, None), "{seed}");
        let wanted = [vec![], vec!["x".to_owned()], vec!["x".to_owned()]];
        assert_eq!(partners.names().await, wanted, "{seed}");
        partners.world.kill().await;
    }
}

fn refused(list: &Json) -> Result<(), (String, String)> {
    let rule = json!({"name": "r", "when": {"event": "file.uploaded"}, "do": list});
    let rule = serde_json::from_value::<Rule>(rule)
        .map_err(|error| ("document".to_owned(), error.to_string()))?;
    let checked = rule.check().and_then(|()| check_rule(&rule));
    checked.map_err(|error| (error.field.clone(), error.to_string()))
}

#[test]
fn what_cannot_run_beside_others_is_refused_when_the_rule_is_stored() {
    let send = || json!([deliver("a", "{name}")]);
    let with = |need: &str, step: Json| json!([parallel(need, json!([send(), [step]]))]);
    let call = |wait: bool| json!({"call": {"rule": "other", "wait": wait}});
    let inside = |step: Json| json!({"if": {"when": "file.size > 1", "then": [step]}});
    let fetch = json!({"fetch": {"endpoint": "a", "path": "x", "after": "delete"}});
    for good in [
        with("any", call(false)),
        with("any", call(true)),
        with("all", inside(json!({"approve": {"by": ["x"], "text": "?"}}))),
        with("all", inside(json!({"wait": {"for": "1m"}}))),
        with("all", json!({"delete": {"path": "/other"}})),
        with("all", json!({"stop": {"as": "failed", "message": "no"}})),
        with("all", fetch.clone()),
        json!([{"if": {"when": "file.size > 1", "then": with("all", deliver("b", "x"))}}]),
        json!([{"each": {"in": "[1]", "do": with("all", deliver("b", "{item}"))}}]),
    ] {
        assert_eq!(refused(&good), Ok(()), "{good}");
    }
    let at = "do.0.parallel.do.1.0";
    let many: Vec<Json> = std::iter::repeat_with(send).take(17).collect();
    for (list, field, said) in [
        (with("all", json!({"wait": {"for": "1m"}})), format!("{at}.wait"), "nothing waits"),
        (with("all", inside(json!({"stop": {}}))), format!("{at}.if.then.0.stop"), "beside it"),
        (with("all", json!({"stop": {}})), format!("{at}.stop"), "beside it"),
        (with("all", json!({"delete": {}})), format!("{at}.delete.path"), "beside it"),
        (with("all", json!({"move": {"to": "/a"}})), format!("{at}.move"), "beside it"),
        (with("any", fetch), format!("{at}.fetch.after"), "'keep'"),
        (
            with("all", parallel("all", json!([send(), send()]))),
            format!("{at}.parallel"),
            "those of one",
        ),
        (json!([parallel("all", json!([send()]))]), "do.0.parallel.do".to_owned(), "2 to 16"),
        (json!([parallel("all", json!(many))]), "do.0.parallel.do".to_owned(), "2 to 16"),
        (json!([parallel("all", json!([send(), []]))]), "do.0.parallel.do".to_owned(), "one step"),
        (json!([parallel("some", json!([send()]))]), "document".to_owned(), "some"),
        (
            json!([{"timeout": "3s", "parallel": {"do": [send(), send()]}}]),
            "do.0.timeout".to_owned(),
            "inside it",
        ),
        (
            json!([{"on_error": "continue", "parallel": {"do": [send(), send()]}}]),
            "do.0.on_error".to_owned(),
            "inside it",
        ),
    ] {
        let (at, text) = refused(&list).unwrap_err();
        assert!(at == field && text.contains(said), "{list}: {at}: {text}");
    }
}

/// A file that one branch brings is not there in the others, nor behind them.
#[test]
fn each_branch_is_checked_with_what_was_there_before() {
    let of_clock = |list: Json| {
        let rule = json!({"name": "r", "when": {"cron": "0 3 * * *"}, "do": list, "as": "acme"});
        let rule: Rule = serde_json::from_value(rule).unwrap();
        let checked = rule.check().and_then(|()| check_rule(&rule));
        checked.map_err(|error| error.field)
    };
    let fetch = json!({"fetch": {"endpoint": "a", "path": "x"}});
    let both = json!([fetch, deliver("a", "{name}")]);
    assert_eq!(of_clock(json!([parallel("all", json!([both, both]))])), Ok(()));
    let other = json!([parallel("all", json!([both, [deliver("a", "{name}")]]))]);
    assert_eq!(of_clock(other), Err("do.0.parallel.do.1.0.deliver".to_owned()));
    let behind = json!([parallel("all", json!([both, both])), deliver("a", "{name}")]);
    assert_eq!(of_clock(behind), Err("do.1.deliver".to_owned()));
    let around =
        json!([fetch, parallel("all", json!([[deliver("a", "x")], both])), deliver("a", "{name}")]);
    assert_eq!(of_clock(around), Ok(()));
}
