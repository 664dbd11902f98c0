//! Rules that are paused: by somebody, or because they ran too often on one path.

use entrepot_nouns::rule::Existing;
use entrepot_nouns::{Event, Fact, JobState, Rule};

use super::world::{SITE, World, content, deliver, files, memory_store, name, rule};

/// A rule on files whose names begin with its own.
fn rule_for(label: &str) -> Rule {
    let mut made = rule(label, vec![deliver("partner", "{name}", Existing::Replace)]);
    made.condition = Some(format!("file.name.startsWith('{label}')"));
    made
}

/// A world with a partner that takes what these rules send.
async fn with(seed: u64, rules: &[&Rule]) -> World {
    let mut world = World::new(seed).await;
    world.target("partner", memory_store(&world.env)).await;
    for rule in rules {
        world.put(*rule).await;
    }
    world.start();
    world
}

async fn set_paused(world: &World, name: &str, paused: bool) {
    let mut found = world.db.find::<Rule>(SITE, &self::name(name)).await.unwrap().unwrap().noun;
    found.paused = paused;
    world.put(&found).await;
}

async fn ready(world: &World) -> u64 {
    world.db.job_counts().await.unwrap().ready
}

#[tokio::test(start_paused = true)]
async fn jobs_of_a_paused_rule_wait_until_it_is_resumed_and_others_go_on() {
    let (paused, live) = (Rule { paused: true, ..rule_for("paused") }, rule_for("live"));
    let mut world = with(141, &[&paused, &live]).await;
    let mut waiting = Vec::new();
    for number in 0..5 {
        let event = world.upload(&format!("/paused{number}"), &content(0, 1)).await;
        waiting.push(world.job_of(&event, "paused").await);
    }
    let event = world.upload("/live", &content(0, 1)).await;
    let done = world.ended(world.job_of(&event, "live").await).await;
    assert_eq!(done.state, JobState::Done);
    for _ in 0..50 {
        world.turn().await;
    }
    assert_eq!(ready(&world).await, 5);
    assert_eq!(files(&world.partner()).await.len(), 1);
    set_paused(&world, "paused", false).await;
    for job in waiting {
        assert_eq!(world.ended(job).await.state, JobState::Done);
    }
    assert_eq!(files(&world.partner()).await.len(), 6);
    world.kill().await;
}

/// The events that say that a rule was paused.
async fn told(world: &World) -> Vec<Event> {
    let found = world.events("rule.paused").await;
    assert!(found.iter().all(|event| event.cause.is_some()), "{found:?}");
    found
}

#[tokio::test(start_paused = true)]
async fn a_rule_that_runs_too_often_on_one_path_is_paused_and_loses_nothing() {
    let (looping, free) = (rule_for("loop"), Rule { loop_limit: Some(0), ..rule_for("free") });
    let mut world = with(142, &[&looping, &free]).await;
    // As often as it may, on each of two paths, and without a limit.
    for _ in 0..100 {
        world.upload("/loop-a", &content(0, 1)).await;
        world.upload("/loop-b", &content(0, 1)).await;
        world.upload("/free", &content(0, 1)).await;
    }
    world.projected().await;
    world.until(async |world| ready(world).await == 0).await;
    assert!(told(&world).await.is_empty());
    world.upload("/free", &content(0, 1)).await;
    let last = world.upload("/loop-a", &content(0, 1)).await;
    world.until(async |world| !told(world).await.is_empty()).await;
    let events = told(&world).await;
    let [Event { fact: Fact::RulePaused { paused }, cause, depth, .. }] = events.as_slice() else {
        panic!("{events:?}");
    };
    assert_eq!((paused.rule.as_str(), paused.path.as_deref()), ("loop", Some("/loop-a")));
    assert!(paused.by.starts_with("node:"), "{}", paused.by);
    assert!(paused.reason.as_ref().unwrap().contains("more than 100 jobs"), "{paused:?}");
    assert_eq!((*cause, *depth), (Some(last.id), last.depth + 1));
    let changed = world.events("config.changed").await.pop().unwrap();
    let Fact::ConfigChanged { name, fields, .. } = changed.fact else { panic!("{changed:?}") };
    assert_eq!((name.as_str(), fields), ("loop", vec!["paused".to_owned()]));
    // What comes now waits, and is told once.
    let late = world.upload("/loop-c", &content(0, 1)).await;
    let late = world.job_of(&late, "loop").await;
    let other = world.upload("/free-2", &content(0, 1)).await;
    world.ended(world.job_of(&other, "free").await).await;
    for _ in 0..50 {
        world.turn().await;
    }
    let waits = world.db.job(SITE, late).await.unwrap().unwrap();
    assert_eq!((waits.state, waits.attempts), (JobState::Ready, 0));
    assert_eq!(told(&world).await.len(), 1);
    set_paused(&world, "loop", false).await;
    assert_eq!(world.ended(late).await.state, JobState::Done);
    // It may run as often again; a minute later it is counted anew.
    for _ in 0..100 {
        world.upload("/loop-a", &content(0, 1)).await;
    }
    world.projected().await;
    for _ in 0..700 {
        world.turn().await;
    }
    for _ in 0..100 {
        world.upload("/loop-a", &content(0, 1)).await;
    }
    world.projected().await;
    world.until(async |world| ready(world).await == 0).await;
    assert_eq!(told(&world).await.len(), 1);
    world.kill().await;
}
