//! Rules that watch folders: each whole version once, on one node and two, over restarts, outages
//! of the database and folders that cannot be listed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use entrepot_db::JobFilter;
use entrepot_nouns::rule::{DeleteSpec, Existing, StepSpec, When};
use entrepot_nouns::watch::Watch;
use entrepot_nouns::{Event, Fact, JobState, Rule, StorePath};
use entrepot_storage::fault::{Fault, FaultStore, StoreCall};
use entrepot_storage::{AnyStore, Existing as Takes, Publish, make_directories_above};

use super::world::{SITE, World, deliver, files, memory_store, rule};

fn watching(steps: Vec<StepSpec>) -> Rule {
    let watch: Watch = serde_json::from_value(serde_json::json!({
        "endpoint": "bank", "path": "/out", "every": "5s", "stable": "4s",
    }))
    .unwrap();
    Rule { when: When::Watch(watch).into(), ..rule("fetch", steps) }
}

fn delivering() -> Vec<StepSpec> {
    vec![deliver("partner", "in/{name}", Existing::Replace)]
}

/// A node with the endpoints `bank`, which is watched, and `partner`.
async fn world(seed: u64, rule: &Rule) -> World {
    let world = World::new(seed).await;
    for endpoint in ["bank", "partner"] {
        world.target(endpoint, memory_store(&world.env)).await;
    }
    bank(&world).make_directory(&"out".parse().unwrap()).await.unwrap();
    crate::check_rule(rule).unwrap();
    world.put(rule).await;
    world
}

fn bank(world: &World) -> AnyStore {
    world.file_access.targets.lock()["bank"].clone()
}

async fn write(world: &World, path: &str, content: &'static [u8]) {
    let (store, path) = (bank(world), path.parse::<StorePath>().unwrap());
    make_directories_above(&store, &path).await.unwrap();
    let staged = store.stage(world.env.new_id(), &path).await.unwrap();
    staged.write_at(0, Bytes::from_static(content)).await.unwrap();
    staged.sync().await.unwrap();
    let size = content.len() as u64;
    let existing = Takes::Replace;
    let how = Publish { existing, accessed: None, modified: None, mode: None, size };
    staged.publish(&how).await.unwrap();
}

/// Paths and kinds of change that were found, in their order.
async fn found(world: &World) -> Vec<String> {
    let mut events = world.events("watch.found").await;
    events.sort_by_key(|event| event.at);
    let shown = |event: Event| match event.fact {
        Fact::WatchFound { path, size, change, .. } => format!("{path} {size} {}", change.as_str()),
        fact => panic!("{fact:?}"),
    };
    events.into_iter().map(shown).collect()
}

async fn done(world: &World, jobs: usize) {
    let filter = JobFilter { state: Some(JobState::Done), ..JobFilter::default() };
    world.until(async |world| world.db.jobs(SITE, &filter).await.unwrap().len() >= jobs).await;
}

async fn pass(world: &World, time: Duration) {
    let until = world.env.elapsed() + time;
    world.until(async |world| world.env.elapsed() >= until).await;
}

#[tokio::test(start_paused = true)]
async fn each_version_of_a_file_is_taken_once_and_delivered_whole() {
    let mut world = world(401, &watching(delivering())).await;
    world.start();
    write(&world, "out/a.xml", b"one").await;
    write(&world, "out/b.xml.part", b"half").await;
    write(&world, "other/c.xml", b"elsewhere").await;
    done(&world, 1).await;
    write(&world, "out/a.xml", b"two and more").await;
    done(&world, 2).await;
    pass(&world, Duration::from_secs(60)).await;
    assert_eq!(found(&world).await, ["/out/a.xml 3 new", "/out/a.xml 12 changed"]);
    let delivered = files(&world.partner()).await;
    assert_eq!(delivered.len(), 1, "{delivered:?}");
    assert_eq!(delivered["in/a.xml"], b"two and more");
    // The source stays unless the rule removes it.
    assert!(files(&bank(&world)).await.contains_key("out/a.xml"));
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_written_to_is_left_until_it_rests() {
    let mut world = world(402, &watching(delivering())).await;
    world.start();
    // The first grows, the second has its whole size from the begin on.
    let (grows, is_filled) = ([&b"1"[..], b"12", b"123", b"1234"], [b"1000", b"1200", b"1230"]);
    for (grown, filled) in grows.into_iter().zip(is_filled.into_iter().chain([b"1234"])) {
        for (path, content) in [("out/a.xml", grown), ("out/b.xml", &filled[..])] {
            let _ = bank(&world).remove(&path.parse().unwrap()).await;
            write(&world, path, content).await;
        }
        pass(&world, Duration::from_secs(3)).await;
    }
    done(&world, 2).await;
    let found: BTreeSet<String> = found(&world).await.into_iter().collect();
    assert_eq!(found, ["/out/a.xml 4 new", "/out/b.xml 4 new"].map(String::from).into());
    let delivered = files(&world.partner()).await;
    assert!(delivered.values().all(|content| content == b"1234"), "{delivered:?}");
}

#[tokio::test(start_paused = true)]
async fn a_step_removes_only_the_version_that_was_found() {
    let mut steps = delivering();
    steps.push(StepSpec::Delete(DeleteSpec::default()));
    let mut world = world(403, &watching(steps)).await;
    world.start();
    write(&world, "out/a.xml", b"one").await;
    done(&world, 1).await;
    assert!(files(&bank(&world)).await.is_empty(), "the file is still there");
    write(&world, "out/a.xml", b"two").await;
    done(&world, 2).await;
    assert_eq!(found(&world).await.len(), 2, "a newer file of the same name is another version");
    // A job of an older version never touches the newer one.
    world.kill().await;
    write(&world, "out/b.xml", b"old").await;
    world.start();
    world.until(async |world| found(world).await.len() == 3).await;
    world.kill().await;
    world.env.advance(Duration::from_secs(1));
    write(&world, "out/b.xml", b"new").await;
    world.start();
    world.until(async |world| found(world).await.len() == 4).await;
    world.until(async |world| files(&bank(world)).await.is_empty()).await;
    assert_eq!(files(&world.partner()).await["in/b.xml"], b"new");
}

#[tokio::test(start_paused = true)]
async fn what_was_found_is_known_after_a_kill_and_to_another_node() {
    let mut world = world(404, &watching(delivering())).await;
    world.start();
    let mut other = world.beside("other").await;
    other.start();
    for path in ["out/a", "out/b", "out/c"] {
        write(&world, path, b"x").await;
    }
    done(&world, 3).await;
    world.kill().await;
    write(&other, "out/d", b"x").await;
    done(&other, 4).await;
    other.die().await;
    world.start();
    write(&world, "out/e", b"x").await;
    done(&world, 5).await;
    pass(&world, Duration::from_secs(120)).await;
    let found = found(&world).await;
    let paths: BTreeSet<&String> = found.iter().collect();
    assert_eq!((found.len(), paths.len()), (5, 5), "{found:?}");
}

#[tokio::test(start_paused = true)]
async fn a_file_is_found_once_though_noting_it_failed_and_the_node_was_killed() {
    let mut world = world(405, &watching(delivering())).await;
    world.database_refuses("INSERT ON watched_files").await;
    world.start();
    write(&world, "out/a", b"x").await;
    world.until(async |world| found(world).await.len() == 1).await;
    world.kill().await;
    world.database_is_back().await;
    world.start();
    done(&world, 1).await;
    write(&world, "out/b", b"x").await;
    done(&world, 2).await;
    pass(&world, Duration::from_secs(60)).await;
    assert_eq!(found(&world).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_folder_that_cannot_be_listed_is_told_of_once_and_again_when_it_can() {
    let mut world = world(406, &watching(delivering())).await;
    write(&world, "out/a", b"x").await;
    let path: StorePath = "out".parse().unwrap();
    let away: StorePath = "away".parse().unwrap();
    world.start();
    done(&world, 1).await;
    bank(&world).rename(&path, &away, Takes::Refuse).await.unwrap();
    world.until(async |world| !world.events("watch.failed").await.is_empty()).await;
    pass(&world, Duration::from_secs(120)).await;
    assert_eq!(world.events("watch.failed").await.len(), 1);
    bank(&world).rename(&away, &path, Takes::Refuse).await.unwrap();
    write(&world, "out/b", b"x").await;
    done(&world, 2).await;
    assert_eq!(world.events("watch.recovered").await.len(), 1);
    assert_eq!(found(&world).await.len(), 2, "a folder that was away is not found anew");
}

#[tokio::test(start_paused = true)]
async fn another_folder_is_begun_anew_and_a_disabled_rule_keeps_what_it_knows() {
    let mut rule = watching(delivering());
    let mut world = world(407, &rule).await;
    world.start();
    write(&world, "out/a", b"x").await;
    write(&world, "else/a", b"x").await;
    done(&world, 1).await;
    rule.enabled = false;
    world.put(&rule).await;
    write(&world, "out/b", b"x").await;
    pass(&world, Duration::from_secs(60)).await;
    assert_eq!(found(&world).await, ["/out/a 1 new"]);
    rule.enabled = true;
    world.put(&rule).await;
    done(&world, 2).await;
    let path = "/else".parse().unwrap();
    rule.when = When::Watch(Watch { path, ..rule.when.watch().unwrap().clone() }).into();
    world.put(&rule).await;
    done(&world, 3).await;
    pass(&world, Duration::from_secs(60)).await;
    assert_eq!(found(&world).await, ["/out/a 1 new", "/out/b 1 new", "/else/a 1 new"]);
}

/// A rule on the folder, from a document.
fn rule_of(more: serde_json::Value, fields: serde_json::Value) -> Rule {
    let mut watch = serde_json::json!({
        "endpoint": "bank", "path": "/out", "every": "5s", "stable": "4s",
    });
    watch.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let mut rule = serde_json::json!({"name": "fetch", "when": {"watch": watch}});
    rule.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    serde_json::from_value(rule).unwrap()
}

/// Fetches into a work file, hands it on, and puts the source away.
fn fetching(more: serde_json::Value) -> Rule {
    let steps = serde_json::json!([
        {"fetch": {"after": "move", "to": "done/{name}"}},
        {"deliver": {"endpoint": "partner", "path": "in/{name}"}},
    ]);
    rule_of(more, serde_json::json!({"as": "acme", "do": steps}))
}

async fn remove(world: &World, path: &str) {
    bank(world).remove(&path.parse().unwrap()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_found_file_is_fetched_handed_on_and_put_away() {
    for (seed, take) in [(411, "lease"), (412, "rename")] {
        let mut world = world(seed, &fetching(serde_json::json!({"take": take}))).await;
        world.start();
        write(&world, "out/a.xml", b"one").await;
        done(&world, 1).await;
        write(&world, "out/a.xml", b"second").await;
        done(&world, 2).await;
        pass(&world, Duration::from_secs(60)).await;
        assert_eq!(found(&world).await, ["/out/a.xml 3 new", "/out/a.xml 6 changed"]);
        assert_eq!(files(&world.partner()).await["in/a.xml"], b"second", "{take}");
        let there = files(&bank(&world)).await;
        let names: Vec<&String> = there.keys().collect();
        assert_eq!(names, ["done/a.xml"], "{take}");
        assert_eq!(there["done/a.xml"], b"second");
        let fetched = world.events("file.fetched").await;
        assert_eq!(fetched.len(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_gone_or_another_one_is_no_failure() {
    for (seed, take) in [(413, "lease"), (415, "rename")] {
        let mut rule = fetching(serde_json::json!({"take": take}));
        if take == "lease" {
            (rule.run_as, rule.steps) = (None, watching(delivering()).steps);
        }
        let mut world = world(seed, &rule).await;
        let store = world.file_access.targets.lock().remove("partner").unwrap();
        let source = bank(&world);
        world.start();
        write(&world, "out/gone", b"x").await;
        write(&world, "out/other", b"old").await;
        // The jobs find the folder away until the files are what they are to find.
        world.until(async |world| found(world).await.len() == 2).await;
        world.kill().await;
        if take == "lease" {
            remove_from(&source, "out/gone").await;
            world.env.advance(Duration::from_secs(1));
            write(&world, "out/other", b"newer").await;
        }
        world.file_access.targets.lock().insert("partner".to_owned(), store);
        world.start();
        if take == "lease" {
            done(&world, 3).await;
            let gone = world.events("watch.gone").await;
            assert_eq!(gone.len(), 1, "{gone:?}");
            assert_eq!(gone[0].fact.endpoint().unwrap().as_str(), "bank");
        }
        pass(&world, Duration::from_secs(600)).await;
        assert!(world.events("job.failed").await.is_empty());
        let delivered = files(&world.partner()).await;
        let other = if take == "lease" { &b"newer"[..] } else { b"old" };
        assert_eq!(delivered["in/other"], other, "{take}");
    }
}

async fn remove_from(store: &AnyStore, path: &str) {
    // A job may have taken it already.
    let _ = store.remove(&path.parse().unwrap()).await;
}

#[tokio::test(start_paused = true)]
async fn files_that_go_start_a_rule_that_asks_for_it_only_by_whole_listings() {
    let steps = serde_json::json!([{"exec": {"argv": ["/bin/true", "{path}"]}}]);
    let rule = rule_of(serde_json::json!({"on": ["removed"]}), serde_json::json!({"do": steps}));
    let mut world = world(416, &rule).await;
    world.start();
    for path in ["out/a", "out/b"] {
        write(&world, path, b"x").await;
    }
    // Only of a file that was noted it can be said that it is gone.
    let id = world.db.find::<Rule>(SITE, &rule.name).await.unwrap().unwrap().id;
    let noted = async |world: &World| world.db.watched_page(id, "", 10).await.unwrap().len() == 2;
    world.until(noted).await;
    pass(&world, Duration::from_secs(30)).await;
    assert!(found(&world).await.is_empty());
    let (path, away): (StorePath, StorePath) = ("out".parse().unwrap(), "away".parse().unwrap());
    bank(&world).rename(&path, &away, Takes::Refuse).await.unwrap();
    world.until(async |world| !world.events("watch.failed").await.is_empty()).await;
    pass(&world, Duration::from_secs(60)).await;
    assert!(found(&world).await.is_empty(), "a folder that is away says nothing of its files");
    bank(&world).rename(&away, &path, Takes::Refuse).await.unwrap();
    world.until(async |world| !world.events("watch.recovered").await.is_empty()).await;
    remove(&world, "out/a").await;
    world.until(async |world| found(world).await.len() == 1).await;
    world.kill().await;
    world.start();
    pass(&world, Duration::from_secs(60)).await;
    assert_eq!(found(&world).await, ["/out/a 1 removed"]);
}

/// At whichever page a listing ends too early: what was not seen yet is not gone.
#[tokio::test(start_paused = true)]
async fn a_listing_that_is_cut_midway_says_nothing_of_what_is_behind() {
    let steps = serde_json::json!([{"exec": {"argv": ["/bin/true", "{path}"]}}]);
    let more = serde_json::json!({"on": ["new", "removed"], "recursive": true});
    let rule = rule_of(more, serde_json::json!({"do": steps}));
    let mut world = world(417, &rule).await;
    let store = FaultStore::new(bank(&world));
    world.file_access.targets.lock().insert("bank".to_owned(), Arc::new(store.clone()));
    for path in ["out/a/f", "out/b/f", "out/c/f"] {
        write(&world, path, b"x").await;
    }
    world.start();
    done(&world, 3).await;
    // A page and the end of each of four folders.
    for page in 1..=8 {
        store.fail(Some(StoreCall::NextPage), page, Fault::Io);
        let told = async |world: &World, kind: &str| world.events(kind).await.len() as u64 == page;
        world.until(async |world| told(world, "watch.failed").await).await;
        world.until(async |world| told(world, "watch.recovered").await).await;
    }
    assert_eq!(found(&world).await.len(), 3, "a file that was not listed counts as gone");
    remove(&world, "out/b/f").await;
    world.until(async |world| found(world).await.len() == 4).await;
    assert_eq!(found(&world).await.pop().unwrap(), "/out/b/f 1 removed");
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_file_is_found_anew_once() {
    let rule = watching(delivering());
    let mut world = world(417, &rule).await;
    world.start();
    write(&world, "out/a", b"x").await;
    write(&world, "out/b", b"x").await;
    done(&world, 2).await;
    pass(&world, Duration::from_secs(30)).await;
    let id = world.db.find::<Rule>(SITE, &rule.name).await.unwrap().unwrap().id;
    let page = world.db.watched_page(id, "a", 10).await.unwrap();
    assert_eq!((page.len(), page[0].path.as_str(), page[0].size), (1, "b", Some(1)));
    let mut tx = world.db.begin().await.unwrap();
    assert!(tx.forget_watched(id, "a").await.unwrap());
    assert!(!tx.forget_watched(id, "c").await.unwrap());
    tx.commit().await.unwrap();
    done(&world, 3).await;
    pass(&world, Duration::from_secs(60)).await;
    assert_eq!(found(&world).await, ["/out/a 1 new", "/out/b 1 new", "/out/a 1 new"]);
}

#[tokio::test(start_paused = true)]
async fn writers_that_never_rest_lose_no_version_that_rested_and_get_none_twice() {
    let mut rule = watching(vec![deliver("partner", "in/{name}-{size}", Existing::Refuse)]);
    rule.steps.push(serde_json::from_value(serde_json::json!({"delete": {}})).unwrap());
    let mut world = world(418, &rule).await;
    let mut other = world.beside("other").await;
    world.start();
    other.start();
    let content: &'static [u8] = &[7; 64];
    for round in 0..60usize {
        let name = format!("out/{}", round % 3);
        let bytes = &content[..=round];
        match round % 4 {
            // Whole under another name first, as careful partners do.
            0 => {
                write(&world, "out/.new", bytes).await;
                let (from, to) = (".new", name.trim_start_matches("out/"));
                let at = |name: &str| format!("out/{name}").parse::<StorePath>().unwrap();
                bank(&world).rename(&at(from), &at(to), Takes::Replace).await.unwrap();
            }
            1 => {
                remove_from(&bank(&world), &name).await;
                write(&world, &name, bytes).await;
            }
            _ => write(&world, &name, bytes).await,
        }
        pass(&world, Duration::from_millis(700 * (round as u64 % 11))).await;
    }
    world.until(async |world| files(&bank(world)).await.is_empty()).await;
    pass(&world, Duration::from_secs(60)).await;
    assert!(world.events("job.failed").await.is_empty());
    let delivered = files(&world.partner()).await;
    for (path, bytes) in &delivered {
        let size: usize = path.rsplit('-').next().unwrap().parse().unwrap();
        assert_eq!(bytes.len(), size, "{path} is torn");
    }
    for last in 57..60usize {
        let path = format!("in/{}-{}", last % 3, last + 1);
        assert!(delivered.contains_key(&path), "{path} is lost");
    }
    let found = found(&world).await;
    let versions: BTreeSet<&str> = found.iter().map(|it| it.rsplit_once(' ').unwrap().0).collect();
    assert_eq!(found.len(), versions.len(), "{found:?}");
}

/// It is listed once an hour by itself.
#[tokio::test(start_paused = true)]
async fn a_folder_is_listed_when_its_store_says_so_and_again_when_what_came_may_rest() {
    let mut rule = watching(delivering());
    let watch: Watch = serde_json::from_value(serde_json::json!({
        "endpoint": "bank", "path": "/out", "every": "1h", "stable": "4s", "hook": {"keys": ["k"]},
    }))
    .unwrap();
    rule.when = When::Watch(watch).into();
    let mut world = world(2_871, &rule).await;
    let id = world.db.find::<Rule>(SITE, &rule.name).await.unwrap().unwrap().id;
    world.start();
    let leased = "SELECT COUNT(*) FROM watches WHERE leased_until > 0";
    world.until(async |world| world.number(leased.to_owned()).await == 1).await;
    let mut names = Vec::new();
    for name in ["/out/a", "/out/b"] {
        let begun = world.env.now();
        write(&world, name.trim_start_matches('/'), b"1").await;
        world.db.hint_watch(id).await.unwrap();
        names.push(format!("{name} 1 new"));
        world.until(async |world| found(world).await == names).await;
        let took = world.env.now().since(begun);
        assert!(took < Duration::from_secs(60), "{name} was found after {took:?}");
    }
}
