//! Steps that run once for each item of a list.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use entrepot_journal::Scope;
use entrepot_nouns::{Event, Fact, Job, JobId, JobState, Noun as _, Rule, StepState};
use entrepot_storage::AnyStore;
use entrepot_storage::fault::{Fault, FaultStore, StoreCall};
use serde_json::{Value as Json, json};

use super::made::write;
use super::world::{SITE, World, content, cut_everywhere, doing, files, memory_store, name};

/// A delivery that fails if it was done before.
pub(super) fn deliver(path: &str) -> Json {
    json!({"deliver": {"endpoint": "out", "path": path, "existing": "refuse"}})
}

/// Packs and sends the file once for each item, and then the file itself.
fn packing() -> Json {
    json!([
        {"set": {"total": "0"}},
        {"name": "pack", "each": {
            "in": "[{'name': 'a', 'n': 1}, {'name': 'b', 'n': 2}, {'name': 'c', 'n': 3}]",
            "do": [
                {"name": "made", "gzip": {"name": "{item.name}.gz"}},
                {"set": {"total": "vars.total + item.n"}},
                {"if": {"when": "index != 1", "then": [deliver("{index}/{name}")]}},
            ],
        }},
        {"check": {"that": "vars.total == 6 && steps.pack.count == 3", "message": "{vars.total}"}},
        {"check": {"that": "steps.made.state == 'done'", "message": "no last turn"}},
        deliver("{name}"),
    ])
}

async fn world_of(seed: u64, steps: Json) -> (World, AnyStore) {
    let world = World::new(seed).await;
    let out = memory_store(&world.env);
    world.target("out", out.clone()).await;
    let rule = doing(steps);
    rule.check().unwrap();
    crate::check_rule(&rule).unwrap();
    world.put(&rule).await;
    (world, out)
}

async fn names(store: &AnyStore) -> Vec<String> {
    files(store).await.into_keys().collect::<std::collections::BTreeSet<_>>().into_iter().collect()
}

async fn done(world: &World, event: &Event) -> Job {
    let job = world.ended(world.job_of(event, "r").await).await;
    assert_eq!((job.state, job.error.as_deref()), (JobState::Done, None));
    job
}

async fn addresses(world: &World, job: JobId) -> Vec<String> {
    let steps = world.db.job_steps(job).await.unwrap();
    steps.into_iter().map(|step| step.address.0).collect()
}

/// A store with files that `find` may mean, and the world with it as endpoint `bank`.
async fn bank(seed: u64, find: Json) -> (World, AnyStore, Arc<FaultStore>) {
    let find = json!({"name": "found", "each": {"find": find, "do": [
        {"fetch": {"endpoint": "bank", "path": "{item.path}"}},
        deliver("{index}-{item.name}"),
    ]}});
    let check = json!({"check": {"that": "steps.found.more || steps.found.count < 9",
        "message": "{steps.found.count}"}});
    let (world, out) = world_of(seed, json!([find, check])).await;
    let store = memory_store(&world.env);
    let paths = ["in/a.csv", "in/b.csv", "in/c.txt", "in/.d.csv", "in/e.csv.part", "in/x/f.csv"];
    for path in [&paths[..], &["acme/x/f.csv", "acme/g.csv"]].concat() {
        write(&world, &store, path, path.as_bytes()).await;
    }
    let bank = Arc::new(FaultStore::new(store));
    world.target("bank", bank.clone()).await;
    (world, out, bank)
}

#[tokio::test(start_paused = true)]
async fn files_at_an_endpoint_are_gone_through_in_the_order_of_their_paths() {
    for (seed, find, wanted) in [
        (821, json!({"path": "/in"}), &["0-a.csv", "1-b.csv", "2-c.txt"][..]),
        (
            822,
            json!({"path": "/in", "match": ["*.csv"], "recursive": true}),
            &["0-a.csv", "1-b.csv", "2-f.csv"],
        ),
        (823, json!({"path": "/{account}", "match": ["x/*"], "recursive": true}), &["0-f.csv"]),
        (824, json!({"path": "/in", "ignore": ["c*"], "limit": 2}), &["0-.d.csv", "1-a.csv"]),
        (825, json!({"path": "/in", "match": ["*.xml"]}), &[]),
    ] {
        let mut find = find;
        find["endpoint"] = json!("bank");
        let (mut world, out, _) = bank(seed, find).await;
        world.start();
        let event = world.upload("/in/f", b"1").await;
        done(&world, &event).await;
        assert_eq!(names(&out).await, wanted, "{seed}");
    }
}

/// What is listed counts, also for later attempts, whatever comes to the endpoint meanwhile.
#[tokio::test(start_paused = true)]
async fn a_listing_that_fails_is_made_again_and_one_that_was_made_is_kept() {
    let find = json!({"endpoint": "bank", "path": "/in", "match": ["*.csv"]});
    let (mut world, out, bank) = bank(826, find).await;
    bank.fail(Some(StoreCall::List), 1, Fault::Io);
    // The first file is fetched once, and then not.
    bank.fail(Some(StoreCall::Open), 2, Fault::Io);
    world.start();
    let event = world.upload("/in/f", b"1").await;
    world.until(async |world| world.events("job.retrying").await.len() == 2).await;
    write(&world, &(bank.clone() as AnyStore), "in/aa.csv", b"late").await;
    let job = done(&world, &event).await;
    assert_eq!(job.attempts, 3);
    assert_eq!(names(&out).await, ["0-a.csv", "1-b.csv"]);
    let steps = world.db.job_steps(job.id).await.unwrap();
    let found = steps.iter().find(|step| step.address.0 == "found" && step.result.is_some());
    let item = &found.unwrap().result.as_ref().unwrap()["items"][1];
    assert_eq!((&item["path"], &item["size"]), (&json!("/in/b.csv"), &json!(8)));
}

#[tokio::test(start_paused = true)]
async fn each_item_has_its_turn_and_the_file_is_afterwards_what_it_was() {
    let (mut world, out) = world_of(801, packing()).await;
    // The files of all turns together do not fit.
    let packed = content(4, 1);
    world.work.limit = packed.len() as u64 * 2;
    world.start();
    let event = world.upload("/in/f", &packed).await;
    let job = done(&world, &event).await;
    assert_eq!(names(&out).await, ["0/a.gz", "2/c.gz", "f"]);
    assert!(files(&out).await["f"] == packed, "the file itself was sent");
    assert!(files(&world.work.store).await.is_empty(), "a work file stays");
    let known = addresses(&world, job.id).await;
    for wanted in ["pack", "made[0]", "made[2]", "do.1.each.do[1].1", "do.1.each.do[1].2"] {
        assert!(known.iter().any(|address| address == wanted), "{wanted}: {known:?}");
    }
    assert!(known.contains(&"do.1.each.do[0].2.if.then.0".to_owned()), "{known:?}");
    assert!(!known.contains(&"do.1.each.do[1].2.if.then.0".to_owned()), "{known:?}");
}

/// Whatever the moment of a crash: no delivery twice (a second one is refused), nothing left out.
#[tokio::test(start_paused = true)]
async fn a_crash_at_any_point_repeats_no_turn() {
    let cut = cut_everywhere(async |cut| {
        let at = cut.at;
        let (mut world, out) = world_of(820 + at as u64, packing()).await;
        world.options.pauses = cut.pauses();
        let event = world.upload("/in/f", b"four").await;
        world.start();
        let job = done(&world, &event).await;
        assert_eq!(names(&out).await, ["0/a.gz", "2/c.gz", "f"], "{at}");
        world.projected().await;
        assert_eq!(world.events("file.delivered").await.len(), 3, "{at}");
        let records = world.db.job_steps(job.id).await.unwrap();
        assert!(records.iter().all(|step| step.state == StepState::Done), "{at}: {records:?}");
        world.kill().await;
    })
    .await;
    assert!(cut > 30, "only {cut} points were cut");
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_fails_is_tried_again_and_those_before_it_are_not() {
    let each = json!({"in": "['a', 'b', 'c']", "do": [deliver("{item}/{name}")]});
    let (mut world, _) = world_of(802, json!([{"each": each}])).await;
    let store = memory_store(&world.env);
    let faulty = FaultStore::new(store.clone());
    faulty.fail(Some(StoreCall::Publish), 2, Fault::Io);
    world.target("out", Arc::new(faulty)).await;
    world.start();
    let event = world.upload("/in/f", b"four").await;
    let job = done(&world, &event).await;
    assert_eq!(job.attempts, 2);
    assert_eq!(names(&store).await, ["a/f", "b/f", "c/f"]);
    let failed = world.db.job_steps(job.id).await.unwrap();
    let failed: Vec<_> = failed.iter().filter(|step| step.state == StepState::Failed).collect();
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert_eq!(&*failed[0].address.0, "do.0.each.do[1].0");
}

#[tokio::test(start_paused = true)]
async fn turns_nest_a_stop_ends_them_all_and_else_has_turns_too() {
    let inner = json!({"in": "[1, 2]", "do": [
        {"if": {"when": "item == 2 && index == 1", "then": [deliver("{vars.outer}-{item}")]}},
        {"if": {"when": "vars.outer == 'c' && item == 2", "then": [{"stop": {}}]}},
    ]});
    let outer = json!({"in": "['b', 'c', 'd']", "do": [
        {"set": {"outer": "item"}}, {"each": inner}, deliver("{item}{index}"),
    ]});
    let (mut world, out) = world_of(803, json!([{"each": outer}, deliver("never")])).await;
    world.start();
    let event = world.upload("/in/f", b"1").await;
    done(&world, &event).await;
    assert_eq!(names(&out).await, ["b-2", "b0", "c-2"]);

    let mut rule = doing(json!([{"check": {"that": "false", "message": "no"}}]));
    let otherwise = json!([{"each": {"in": "[1, 2]", "do": [deliver("else/{item}")]}}]);
    rule.otherwise = serde_json::from_value(otherwise).unwrap();
    world.put(&rule).await;
    let event = world.upload("/in/g", b"1").await;
    let failed = world.ended(world.job_of(&event, "r").await).await;
    assert_eq!(failed.error.as_deref(), Some("EP0815: no"));
    assert_eq!(names(&out).await, ["b-2", "b0", "c-2", "else/1", "else/2"]);
}

fn hooked(steps: Json) -> Rule {
    let rule = json!({"name": "r", "when": {"hook": {"keys": ["k"]}}, "do": steps, "as": "acme"});
    serde_json::from_value(rule).unwrap()
}

/// A job of a web hook with this body.
async fn posted(world: &World, body: Json) -> JobId {
    let (rule, address) = (name("r"), "192.0.2.1".to_owned());
    let fact = Fact::HookReceived { rule, address, headers: BTreeMap::new(), body };
    let event = world.recorder.event(&Scope::site(SITE), fact);
    world.recorder.seal(&event).await.unwrap();
    world.job_of(&event, "r").await
}

#[tokio::test(start_paused = true)]
async fn many_turns_go_on_where_a_killed_node_left_them() {
    killed_among(1_000).await;
}

/// Takes minutes: `cargo test -p entrepot-engine --lib ten_thousand -- --ignored`.
#[tokio::test(start_paused = true)]
#[ignore = "takes minutes"]
async fn ten_thousand_turns_go_on_where_a_killed_node_left_them() {
    killed_among(10_000).await;
}

async fn killed_among(turns: i64) {
    let mut world = World::new(804).await;
    let check = json!({"that": "vars.total == hook.body.sum", "message": "{vars.total}"});
    let rule = hooked(json!([
        {"set": {"total": "0"}},
        {"each": {"in": "hook.body.list", "do": [{"set": {"total": "vars.total + item"}}]}},
        {"check": check},
    ]));
    crate::check_rule(&rule).unwrap();
    world.put(&rule).await;
    world.start();
    let list: Vec<i64> = (0..turns).collect();
    let sum: i64 = list.iter().sum();
    let job = posted(&world, json!({"list": list, "sum": sum})).await;
    let query = format!("SELECT COUNT(*) FROM job_steps WHERE job = x'{}'", job.0.simple());
    while world.number(query.clone()).await < turns / 3 {
        world.turn().await;
    }
    world.kill().await;
    assert!(world.number(query.clone()).await < turns, "it was done before the kill");
    world.start();
    let ended = world.ended(job).await;
    assert_eq!((ended.state, ended.error), (JobState::Done, None));
    assert_eq!(world.number(query).await, turns + 3);
}

#[tokio::test(start_paused = true)]
async fn what_is_no_list_or_too_long_a_one_fails_the_job() {
    let mut world = World::new(805).await;
    let steps = json!([{"each": {
        "in": "hook.body",
        "do": [{"mkdir": {"path": "/{item.x}"}}]}}]);
    let rule =
        Rule { retry: serde_json::from_value(json!({"attempts": 1})).unwrap(), ..hooked(steps) };
    crate::check_rule(&rule).unwrap();
    world.put(&rule).await;
    world.start();
    for (body, said) in [
        (json!({"a": 1}), "EP0879: 'in' gave no list but {\"a\":1}"),
        (json!((0..10_001).collect::<Vec<u32>>()), "EP0879: the list has 10001 items"),
        (json!([{"y": 1}]), "EP0812: the item has no text, number or truth value at 'item.x'"),
    ] {
        let ended = world.ended(posted(&world, body).await).await;
        let error = ended.error.unwrap_or_default();
        assert!(ended.state == JobState::Failed && error.starts_with(said), "{error}");
    }
    let ended = world.ended(posted(&world, json!([])).await).await;
    assert_eq!((ended.state, ended.error), (JobState::Done, None));
}

#[test]
fn what_cannot_be_a_turn_is_refused_when_the_rule_is_stored() {
    let refused = |list: Json| {
        let stored = serde_json::from_value::<Rule>(
            json!({"name": "r", "when": {"cron": "0 3 * * *"}, "do": list, "as": "acme"}),
        )
        .map_err(|error| ("document".to_owned(), error.to_string()))?;
        stored
            .check()
            .and_then(|()| crate::check_rule(&stored))
            .map_err(|error| (error.field.clone(), error.to_string()))
    };
    let mkdir = |path: &str| json!({"mkdir": {"path": path}});
    let each = |list: &str, steps: Json| json!({"each": {"in": list, "do": steps}});
    let fetch = json!({"fetch": {"endpoint": "out", "path": "{item}"}});
    for good in [
        json!([each("[1]", json!([mkdir("/{item}/{index}/{item.a.0}")]))]),
        json!([
            {"name": "x", "set": {"a": "1"}},
            each("steps.x.out", json!([fetch, deliver("{name}")])),
        ]),
        json!([each("[[1]]", json!([each("item", json!([mkdir("/{item}")]))]))]),
    ] {
        assert_eq!(refused(good.clone()), Ok(()), "{good}");
    }
    for (list, field, said) in [
        (json!([each("[1]", json!([]))]), "do.0.each.do", "at least one"),
        (json!([each("1", json!([mkdir("/a")]))]), "do.0.each.in", "a list"),
        (json!([each("itms", json!([mkdir("/a")]))]), "do.0.each.in", "itms"),
        (json!([each("item", json!([mkdir("/a")]))]), "do.0.each.in", "item"),
        (json!([mkdir("/{item}")]), "do.0.mkdir.path", "'each' only"),
        (
            json!([each("[1]", json!([mkdir("/a")])), mkdir("/{index}")]),
            "do.1.mkdir.path",
            "'each'",
        ),
        (json!([{"if": {"when": "index == 1", "then": [mkdir("/a")]}}]), "do.0.if.when", "index"),
        (json!([each("[1]", json!([fetch])), deliver("{name}")]), "do.1.deliver", "brings no file"),
        (json!([{"each": {"in": "[1]"}}]), "document", "missing field `do`"),
        (
            json!([{"timeout": "3s", "each": {"in": "[1]", "do": [mkdir("/a")]}}]),
            "do.0.timeout",
            "inside it",
        ),
    ] {
        let (at, text) = refused(list.clone()).unwrap_err();
        assert!(at == field && text.contains(said), "{list}: {at}: {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_in_a_turn_lets_the_job_rest_before_the_next_one() {
    let each = json!({"in": "[1, 2]", "do": [deliver("{item}"), {"wait": {"for": "10m"}}]});
    let (mut world, out) = world_of(806, json!([{"each": each}, deliver("last")])).await;
    world.start();
    let event = world.upload("/in/f", b"1").await;
    world.until(async |_| !files(&out).await.is_empty()).await;
    let (first, began) = (names(&out).await, world.env.now());
    assert_eq!(first, ["1"]);
    let job = done(&world, &event).await;
    assert_eq!(names(&out).await, ["1", "2", "last"]);
    assert!(job.changed_at.since(began) >= Duration::from_secs(1190), "it did not rest");
}
