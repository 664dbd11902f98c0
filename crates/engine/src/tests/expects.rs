//! Files that rules expect: missing, late, too few, too many; over outages, on two nodes, and while
//! a node is behind.

use std::time::Duration;

use entrepot_db::{Beat, Decision, ExpectTelling, ExpectedWindow, JobFilter};
use entrepot_journal::Scope;
use entrepot_nouns::event::ExpectedFact;
use entrepot_nouns::rule::{ExecSpec, Existing, StepSpec, When};
use entrepot_nouns::{Event, Fact, JobState, Kind, Policy, Rule, Timestamp};
use serde_json::{Value as Json, json};

use super::world::{SITE, World, deliver, files, memory_store, name, rule};
use crate::limits::{EXPECT_DEAD_WAIT, EXPECT_MARGIN};

const SECOND: Duration = Duration::from_secs(1);
/// Longer than it takes from an instant to what is told of it.
const TOLD: Duration = Duration::from_secs(20);
const KINDS: [&str; 4] = ["expected.soon", "expected.missed", "expected.late", "expected.extra"];

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// From 6 to 18 o'clock, one file.
fn expecting(more: Json) -> Rule {
    let mut fields = json!({"match": ["/in/PAY*.csv"], "from": "06:00", "by": "18:00"});
    fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let exec: ExecSpec = serde_json::from_value(json!({"argv": ["/bin/true"]})).unwrap();
    let when = When::Expect(serde_json::from_value(fields).unwrap()).into();
    Rule { when, ..rule("r", vec![StepSpec::Exec(exec)]) }
}

/// A node with the rule `r`, its clock at `start`.
async fn world(seed: u64, start: &str, more: Json) -> World {
    let mut world = World::new(seed).await;
    world.env.set_now(at(start));
    world.put(&expecting(more)).await;
    world.start();
    world
}

/// The clock is set to `text`, and time passes until all that follows is told.
async fn clock(world: &World, text: &str) {
    world.env.set_now(at(text));
    pass(world, TOLD).await;
    world.projected().await;
}

async fn pass(world: &World, time: Duration) {
    let end = world.env.elapsed() + time;
    world.until(async |world| world.env.elapsed() >= end).await;
}

/// What was told: the kind, the day on which the window began, and how many files had come.
async fn told(world: &World) -> Vec<(String, String, u64)> {
    let mut found = Vec::new();
    for kind in KINDS {
        for event in world.events(kind).await {
            let ExpectedFact { begins, seen, .. } = event.fact.expected().unwrap().clone();
            let short = kind.trim_start_matches("expected.").to_owned();
            found.push((event.at, short, begins.to_string()[5..10].to_owned(), seen));
        }
    }
    found.sort();
    found.into_iter().map(|(_, kind, day, seen)| (kind, day, seen)).collect()
}

fn of(wanted: &[(&str, &str, u64)]) -> Vec<(String, String, u64)> {
    let owned = |(kind, day, seen): &(&str, &str, u64)| ((*kind).into(), (*day).into(), *seen);
    wanted.iter().map(owned).collect()
}

async fn jobs(world: &World) -> usize {
    world.db.jobs(SITE, &JobFilter::default()).await.unwrap().len()
}

async fn rows(world: &World, table: &str) -> i64 {
    world.number(format!("SELECT COUNT(*) FROM {table}")).await
}

#[tokio::test(start_paused = true)]
async fn a_file_that_does_not_come_is_missed_once_and_late_when_it_comes() {
    let mut world = world(501, "2026-03-02T05:00:00Z", json!({"warn": "30m"})).await;
    clock(&world, "2026-03-02T17:29:30Z").await;
    assert_eq!(told(&world).await, [], "it has time until 18:00");
    clock(&world, "2026-03-02T17:30:00Z").await;
    assert_eq!(told(&world).await, of(&[("soon", "03-02", 0)]));
    clock(&world, "2026-03-02T17:59:30Z").await;
    assert_eq!(told(&world).await.len(), 1);
    clock(&world, "2026-03-02T18:00:00Z").await;
    let missed = [("soon", "03-02", 0), ("missed", "03-02", 0)];
    assert_eq!(told(&world).await, of(&missed));
    let event = world.events("expected.missed").await.remove(0);
    let late = event.at.since(at("2026-03-02T18:00:00Z"));
    assert!(late >= EXPECT_MARGIN && late < TOLD, "{late:?}");
    let window = event.fact.expected().unwrap();
    assert_eq!((window.deadline, window.count), (at("2026-03-02T18:00:00Z"), 1));
    world.upload("/in/other.csv", b"x").await;
    clock(&world, "2026-03-02T19:00:00Z").await;
    assert_eq!(told(&world).await, of(&missed), "that was another file");
    world.upload("/in/PAY1.csv", b"x").await;
    world.upload("/in/PAY2.csv", b"x").await;
    clock(&world, "2026-03-02T20:00:00Z").await;
    let mut all = missed.to_vec();
    all.push(("late", "03-02", 2));
    let found = told(&world).await;
    assert_eq!((found.len(), &found[..2]), (3, &of(&missed)[..]));
    assert_eq!((found[2].0.as_str(), found[2].1.as_str()), ("late", "03-02"));
    world.until(async |world| jobs(world).await == 3).await;
    for job in world.db.jobs(SITE, &JobFilter::default()).await.unwrap() {
        assert_eq!(world.ended(job.id).await.state, JobState::Done);
    }
    // The next day the file comes in time.
    clock(&world, "2026-03-03T09:00:00Z").await;
    world.upload("/in/PAY3.csv", b"x").await;
    clock(&world, "2026-03-03T17:45:00Z").await;
    clock(&world, "2026-03-03T18:00:00Z").await;
    assert_eq!(told(&world).await, found, "it was there");
}

#[tokio::test(start_paused = true)]
async fn fewer_files_than_asked_for_are_missed_and_more_are_told_once() {
    let mut world = world(502, "2026-03-02T05:00:00Z", json!({"count": 2})).await;
    clock(&world, "2026-03-02T07:00:00Z").await;
    world.upload("/in/PAY1.csv", b"x").await;
    clock(&world, "2026-03-02T18:00:00Z").await;
    assert_eq!(told(&world).await, of(&[("missed", "03-02", 1)]));
    world.upload("/in/PAY2.csv", b"x").await;
    clock(&world, "2026-03-02T19:00:00Z").await;
    let first = [("missed", "03-02", 1), ("late", "03-02", 2)];
    assert_eq!(told(&world).await, of(&first));
    clock(&world, "2026-03-03T06:00:00Z").await;
    for number in 0..3 {
        world.upload(&format!("/in/PAY{number}.csv"), b"x").await;
    }
    clock(&world, "2026-03-03T07:00:00Z").await;
    let all = [first[0], first[1], ("extra", "03-03", 3)];
    assert_eq!(told(&world).await, of(&all));
    world.upload("/in/PAY4.csv", b"x").await;
    clock(&world, "2026-03-03T18:00:00Z").await;
    world.upload("/in/PAY5.csv", b"x").await;
    clock(&world, "2026-03-03T19:00:00Z").await;
    assert_eq!(told(&world).await, of(&all), "once, and what comes later is no matter");
}

#[tokio::test(start_paused = true)]
async fn on_other_days_nothing_is_expected_and_what_comes_is_late() {
    // 2026-03-06 is a Friday.
    let mut world = world(503, "2026-03-06T05:00:00Z", json!({"days": "mon-fri"})).await;
    clock(&world, "2026-03-06T18:00:00Z").await;
    assert_eq!(told(&world).await, of(&[("missed", "03-06", 0)]));
    clock(&world, "2026-03-07T18:00:00Z").await;
    clock(&world, "2026-03-08T12:00:00Z").await;
    assert_eq!(told(&world).await.len(), 1, "it is the weekend");
    world.upload("/in/PAY1.csv", b"x").await;
    clock(&world, "2026-03-08T18:00:00Z").await;
    let weekend = [("missed", "03-06", 0), ("late", "03-06", 1)];
    assert_eq!(told(&world).await, of(&weekend));
    clock(&world, "2026-03-09T18:00:00Z").await;
    let all = [weekend[0], weekend[1], ("missed", "03-09", 0)];
    assert_eq!(told(&world).await, of(&all), "that file was not Monday's");
}

#[tokio::test(start_paused = true)]
async fn on_a_holiday_nothing_is_missed_and_what_comes_is_late() {
    let policy = |days: Json| -> Policy {
        let policy = json!({"name": "bank", "calendar": {"except": days}});
        serde_json::from_value(policy).unwrap()
    };
    let mut world = World::new(517).await;
    world.env.set_now(at("2026-03-02T05:00:00Z"));
    world.put(&policy(json!(["03-03", "2026-03-04"]))).await;
    world.put(&expecting(json!({"calendar": "bank"}))).await;
    world.start();
    clock(&world, "2026-03-02T18:00:00Z").await;
    clock(&world, "2026-03-03T12:00:00Z").await;
    world.upload("/in/PAY1.csv", b"x").await;
    clock(&world, "2026-03-04T19:00:00Z").await;
    let late = [("missed", "03-02", 0), ("late", "03-02", 1)];
    assert_eq!(told(&world).await, of(&late));
    clock(&world, "2026-03-05T07:00:00Z").await;
    // A day that comes to be a holiday has no end of its window any more.
    world.put(&policy(json!(["03-05"]))).await;
    clock(&world, "2026-03-05T19:00:00Z").await;
    assert_eq!(told(&world).await, of(&late));
    clock(&world, "2026-03-06T19:00:00Z").await;
    assert_eq!(told(&world).await[2..], of(&[("missed", "03-06", 0)]));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_was_down_at_the_deadline_judges_when_it_starts() {
    let mut world = world(504, "2026-03-02T05:00:00Z", json!({"warn": "30m"})).await;
    clock(&world, "2026-03-02T17:00:00Z").await;
    world.kill().await;
    for hour in ["20:00", "21:00", "22:00"] {
        world.env.set_now(at(&format!("2026-03-02T{hour}:00Z")));
        world.start();
        clock(&world, &format!("2026-03-02T{hour}:05Z")).await;
        assert_eq!(told(&world).await, of(&[("missed", "03-02", 0)]), "once, and no warning");
        world.kill().await;
    }
    // Down for a week: the newest windows are judged.
    world.env.set_now(at("2026-03-09T20:00:00Z"));
    world.start();
    clock(&world, "2026-03-09T20:00:05Z").await;
    let found: Vec<_> = told(&world).await.into_iter().map(|(_, day, _)| day).collect();
    assert_eq!(found, ["03-02", "03-07", "03-08", "03-09"]);
}

#[tokio::test(start_paused = true)]
async fn a_file_that_came_before_the_server_went_down_is_not_missed() {
    let mut world = world(505, "2026-03-02T05:00:00Z", json!({})).await;
    clock(&world, "2026-03-02T17:00:00Z").await;
    // It is in the journal, and not in the database.
    world.database_refuses("INSERT ON events").await;
    world.upload("/in/PAY1.csv", b"x").await;
    world.kill().await;
    world.env.set_now(at("2026-03-02T20:00:00Z"));
    world.start();
    pass(&world, TOLD).await;
    world.database_is_back().await;
    clock(&world, "2026-03-02T20:05:00Z").await;
    assert_eq!(world.events("file.uploaded").await.len(), 1);
    assert_eq!(told(&world).await, []);
    assert_eq!(world.number("SELECT seen FROM expected_windows".to_owned()).await, 1);
}

#[tokio::test(start_paused = true)]
async fn windows_before_a_rule_was_stored_or_changed_are_not_judged() {
    let mut world = world(506, "2026-03-02T12:00:00Z", json!({})).await;
    clock(&world, "2026-03-02T18:00:00Z").await;
    assert_eq!(told(&world).await, [], "files may have come before the rule was stored");
    clock(&world, "2026-03-03T08:00:00Z").await;
    world.upload("/in/PAY1.csv", b"x").await;
    // Other steps, another number and a warning change nothing about what has come.
    let mut other = expecting(json!({"count": 2, "warn": "1h"}));
    other.note = "two".to_owned();
    world.put(&other).await;
    clock(&world, "2026-03-03T18:00:00Z").await;
    assert_eq!(told(&world).await, of(&[("missed", "03-03", 1)]));
    clock(&world, "2026-03-04T08:00:00Z").await;
    world.put(&expecting(json!({"by": "17:00"}))).await;
    clock(&world, "2026-03-04T18:00:00Z").await;
    assert_eq!(told(&world).await.len(), 1, "what came until then was counted otherwise");
    clock(&world, "2026-03-05T17:00:00Z").await;
    assert_eq!(told(&world).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_disabled_rule_tells_nothing_and_a_deleted_one_leaves_nothing() {
    let mut world = world(507, "2026-03-02T05:00:00Z", json!({})).await;
    clock(&world, "2026-03-02T08:00:00Z").await;
    world.upload("/in/PAY1.csv", b"x").await;
    clock(&world, "2026-03-02T09:00:00Z").await;
    assert_eq!(
        (rows(&world, "expectations").await, rows(&world, "expected_windows").await),
        (1, 1)
    );
    world.put(&Rule { enabled: false, ..expecting(json!({})) }).await;
    clock(&world, "2026-03-03T18:00:00Z").await;
    assert_eq!(told(&world).await, []);
    world.put(&expecting(json!({}))).await;
    clock(&world, "2026-03-03T18:30:00Z").await;
    assert_eq!(told(&world).await, [], "it began anew");
    clock(&world, "2026-03-04T18:00:00Z").await;
    assert_eq!(told(&world).await, of(&[("missed", "03-04", 0)]));
    let mut tx = world.db.begin().await.unwrap();
    assert!(tx.delete(SITE, Kind::Rule, &name("r")).await.unwrap());
    tx.commit().await.unwrap();
    clock(&world, "2026-03-05T18:00:00Z").await;
    assert_eq!(told(&world).await.len(), 1);
    assert_eq!(
        (rows(&world, "expectations").await, rows(&world, "expected_windows").await),
        (0, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn files_that_rules_bring_to_an_endpoint_count_where_that_is_asked_for() {
    let mut world = World::new(508).await;
    world.env.set_now(at("2026-03-02T05:00:00Z"));
    let out = memory_store(&world.env);
    world.target("partner", out.clone()).await;
    let at_partner = json!({"match": ["/to/*.csv"], "endpoint": "partner"});
    world.put(&Rule { name: name("sent"), ..expecting(at_partner) }).await;
    let of_acme = json!({"match": ["/in/*.csv"], "accounts": ["acme"], "count": 2});
    world.put(&Rule { name: name("acme"), ..expecting(of_acme) }).await;
    let of_other = json!({"match": ["/**"], "accounts": ["other"]});
    world.put(&Rule { name: name("other"), ..expecting(of_other) }).await;
    world.put(&rule("route", vec![deliver("partner", "/to/{name}", Existing::Refuse)])).await;
    world.start();
    clock(&world, "2026-03-02T08:00:00Z").await;
    world.upload("/in/a.csv", b"x").await;
    pass(&world, TOLD).await;
    clock(&world, "2026-03-02T18:00:00Z").await;
    assert_eq!(files(&out).await.len(), 1);
    let missed = world.events("expected.missed").await;
    let window = |event: &Event| {
        let window = event.fact.expected().unwrap();
        (window.rule.to_string(), window.seen)
    };
    let mut found: Vec<_> = missed.iter().map(window).collect();
    found.sort();
    assert_eq!(found, [("acme".to_owned(), 1), ("other".to_owned(), 0)]);
}

#[tokio::test(start_paused = true)]
async fn two_nodes_tell_once_and_count_what_came_to_either() {
    let mut first = World::new(509).await;
    first.env.set_now(at("2026-03-02T05:00:00Z"));
    first.put(&expecting(json!({"count": 2, "warn": "30m"}))).await;
    let mut second = first.beside("n2").await;
    first.start();
    second.start();
    clock(&first, "2026-03-02T08:00:00Z").await;
    first.upload("/in/PAY1.csv", b"x").await;
    second.upload("/in/PAY2.csv", b"x").await;
    for time in ["2026-03-02T17:30:00Z", "2026-03-02T18:00:00Z"] {
        clock(&first, time).await;
        second.projected().await;
    }
    assert_eq!(told(&first).await, [], "one came to each");
    for day in ["03", "04", "05"] {
        clock(&first, &format!("2026-03-{day}T08:00:00Z")).await;
        second.upload(&format!("/in/PAY{day}.csv"), b"x").await;
        for time in ["17:30", "18:00"] {
            clock(&first, &format!("2026-03-{day}T{time}:00Z")).await;
            second.projected().await;
        }
    }
    let days = ["03-03", "03-04", "03-05"];
    let wanted: Vec<_> =
        days.iter().flat_map(|day| [("soon", *day, 1), ("missed", *day, 1)]).collect();
    assert_eq!(told(&first).await, of(&wanted));
    assert_eq!(jobs(&first).await, 6, "one job each");
}

#[tokio::test(start_paused = true)]
async fn a_database_that_falls_back_counts_each_file_once() {
    // The counters are lost with the events, or both are there and the journal is read again.
    let all = "DELETE FROM events WHERE node_sequence IS NOT NULL; DELETE FROM jobs; \
               DELETE FROM transfers; DELETE FROM expected_windows; \
               UPDATE nodes SET projected_up_to = 0, beats = 0";
    for lost in [all, "UPDATE nodes SET projected_up_to = 0, beats = 0"] {
        let mut world = world(510, "2026-03-02T05:00:00Z", json!({"count": 3})).await;
        clock(&world, "2026-03-02T08:00:00Z").await;
        for number in 0..2 {
            world.upload(&format!("/in/PAY{number}.csv"), b"x").await;
        }
        clock(&world, "2026-03-02T09:00:00Z").await;
        let seen = async |world: &World| {
            world.number("SELECT SUM(seen) FROM expected_windows".to_owned()).await
        };
        assert_eq!(seen(&world).await, 2);
        world.sql(lost.to_owned()).await;
        world.until(async |world| !world.events("database.fell-back").await.is_empty()).await;
        world.projected().await;
        assert_eq!(world.events("file.uploaded").await.len(), 2);
        assert_eq!(seen(&world).await, 2, "{lost}");
        clock(&world, "2026-03-02T18:00:00Z").await;
        assert_eq!(told(&world).await, of(&[("missed", "03-02", 2)]));
        world.kill().await;
    }
}

/// A heartbeat of a node that has projected what it knew until `until`, and is behind since.
async fn beat(world: &World, until: &str) {
    let beat = Beat {
        node: world.recorder.node_id(),
        incarnation: 1,
        program: "1".to_owned(),
        rebuilding: false,
        stopped: false,
        clock_ahead_us: 0,
        round_trip_us: 1,
        unprojected: 1,
        projected_until: at(until),
    };
    world.db.beat(&beat).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_behind_delays_the_judgement_as_long_as_it_lives() {
    let first = world(511, "2026-03-02T05:00:00Z", json!({})).await;
    let mut second = first.beside("n2").await;
    beat(&second, "2026-03-02T05:00:00Z").await;
    first.env.set_now(at("2026-03-02T17:00:00Z"));
    // In the journal of the second node, which does not get at the database.
    second.upload("/in/PAY1.csv", b"x").await;
    first.env.set_now(at("2026-03-02T17:59:50Z"));
    for _ in 0..60 {
        beat(&second, "2026-03-02T16:59:00Z").await;
        pass(&first, 10 * SECOND).await;
    }
    assert!(first.env.now() > at("2026-03-02T18:09:00Z"));
    first.projected().await;
    assert_eq!(told(&first).await, [], "it lives, and may have the file");
    second.start();
    second.projected().await;
    pass(&first, TOLD).await;
    first.projected().await;
    assert_eq!(told(&first).await, [], "it had");
    clock(&first, "2026-03-03T18:00:00Z").await;
    assert_eq!(told(&first).await, of(&[("missed", "03-03", 0)]));
}

#[tokio::test(start_paused = true)]
async fn a_dead_node_is_waited_for_and_what_it_had_comes_late() {
    let first = world(512, "2026-03-02T05:00:00Z", json!({})).await;
    let mut second = first.beside("n2").await;
    first.env.set_now(at("2026-03-02T17:00:00Z"));
    second.upload("/in/PAY1.csv", b"x").await;
    first.env.set_now(at("2026-03-02T17:59:50Z"));
    beat(&second, "2026-03-02T16:59:00Z").await;
    pass(&first, EXPECT_DEAD_WAIT.saturating_sub(TOLD)).await;
    first.projected().await;
    assert_eq!(told(&first).await, [], "it may come back");
    pass(&first, 3 * TOLD).await;
    first.projected().await;
    assert_eq!(told(&first).await, of(&[("missed", "03-02", 0)]));
    second.start();
    second.projected().await;
    pass(&first, TOLD).await;
    first.projected().await;
    assert_eq!(told(&first).await, of(&[("missed", "03-02", 0), ("late", "03-02", 1)]));
}

#[tokio::test(start_paused = true)]
async fn a_decision_that_its_node_did_not_tell_is_told_by_another() {
    let mut first = world(513, "2026-03-02T05:00:00Z", json!({})).await;
    clock(&first, "2026-03-02T17:00:00Z").await;
    first.die().await;
    // As it ended between the decision and its journal.
    let rule = first.db.find::<Rule>(SITE, &name("r")).await.unwrap().unwrap();
    let expect = rule.noun.when.expected().unwrap();
    let decision = Decision::Missed;
    let row = ExpectedWindow {
        rule: rule.id,
        terms: crate::ids::terms(rule.id, expect),
        begins: at("2026-03-02T06:00:00Z"),
        ends: at("2026-03-02T18:00:00Z"),
        seen: 0,
        late: 0,
        touched: false,
        decided: vec![decision],
        telling: vec![ExpectTelling { decision, seen: 0, count: 1 }],
        decided_at: at("2026-03-02T18:00:06Z"),
    };
    let mut judging = first.db.judge().await.unwrap();
    assert!(judging.add(&row).await.unwrap());
    judging.commit().await.unwrap();
    let mut second = first.beside("n2").await;
    second.env.set_now(at("2026-03-02T18:00:10Z"));
    second.start();
    pass(&second, 2 * TOLD).await;
    second.projected().await;
    assert_eq!(told(&second).await, of(&[("missed", "03-02", 0)]));
    let telling = "SELECT COUNT(*) FROM expected_windows WHERE telling IS NOT NULL".to_owned();
    assert_eq!(second.number(telling).await, 0, "it is known");
}

#[tokio::test(start_paused = true)]
async fn a_file_counts_when_it_has_its_final_name_and_by_the_time_of_its_event() {
    let mut world = world(514, "2026-03-02T05:00:00Z", json!({"match": ["/in/PAY*"]})).await;
    clock(&world, "2026-03-02T17:00:00Z").await;
    let mut temporary = world.publish("/in/PAY1.csv.filepart", b"x").await;
    let Fact::FileUploaded { file } = &mut temporary.fact else { panic!("another fact") };
    file.temporary = true;
    let arrived = file.clone();
    world.recorder.seal(&temporary).await.unwrap();
    clock(&world, "2026-03-02T17:10:00Z").await;
    assert_eq!(rows(&world, "expected_windows").await, 0, "it has its client's temporary name");
    let scope = Scope { account: Some(name("acme")), ..Scope::site(SITE) };
    let (from, to) = ("/in/PAY1.csv.filepart".to_owned(), "/in/PAY1.csv".to_owned());
    let (size, file) = (arrived.size, Some(Box::new(arrived)));
    let renamed = Fact::FileRenamed { from, to, displaced: None, arrival: true, size, file };
    // It happens in time, and is in the journal a little after the end.
    world.env.set_now(at("2026-03-02T17:59:59Z"));
    let event = world.recorder.event(&scope, renamed);
    world.env.set_now(at("2026-03-02T18:00:02Z"));
    world.recorder.seal(&event).await.unwrap();
    clock(&world, "2026-03-02T18:01:00Z").await;
    assert_eq!(told(&world).await, []);
    assert_eq!(world.number("SELECT seen FROM expected_windows".to_owned()).await, 1);
}
