//! Rules that start by the clock: on one node and two, over outages and changes of the clock.

use std::collections::BTreeMap;
use std::time::Duration;

use entrepot_db::{EventFilter, JobFilter, Telling};
use entrepot_journal::Scope;
use entrepot_nouns::cron::{Missed, Overlap};
use entrepot_nouns::noun::Noun as _;
use entrepot_nouns::rule::{ExecSpec, StepSpec, When};
use entrepot_nouns::{Cron, Event, Fact, JobState, Period, Policy, Rule, Timestamp};

use super::world::{SITE, World, name, rule};

const HOUR: Duration = Duration::from_secs(3_600);

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn program(argv: &[&str]) -> StepSpec {
    let exec: ExecSpec = serde_json::from_value(serde_json::json!({ "argv": argv })).unwrap();
    StepSpec::Exec(exec)
}

fn cron_rule(label: &str, cron: Cron) -> Rule {
    Rule { when: When::Cron(cron).into(), ..rule(label, vec![program(&["/bin/true"])]) }
}

/// A node with the rule `r`, its clock at `start`.
async fn world(seed: u64, start: &str, cron: Cron) -> World {
    let mut world = World::new(seed).await;
    world.env.set_now(at(start));
    world.put(&cron_rule("r", cron)).await;
    world.start();
    world
}

/// The time without its date, of what events tell.
fn instant(planned: Timestamp) -> String {
    planned.to_string()[11..19].to_owned()
}

fn planned(events: Vec<Event>) -> Vec<String> {
    let mut found: Vec<_> = events
        .into_iter()
        .map(|event| match event.fact {
            Fact::ScheduleDue { planned, .. } | Fact::ScheduleSkipped { planned, .. } => planned,
            fact => panic!("{fact:?}"),
        })
        .collect();
    found.sort();
    found.into_iter().map(instant).collect()
}

async fn due(world: &World) -> Vec<String> {
    planned(world.events("schedule.due").await)
}

async fn skipped(world: &World) -> Vec<String> {
    planned(world.events("schedule.skipped").await)
}

async fn jobs(world: &World, state: Option<JobState>) -> usize {
    world.db.jobs(SITE, &JobFilter { state, ..JobFilter::default() }).await.unwrap().len()
}

/// Time passes until the clock shows `text`, in steps that every task can follow.
async fn until_clock(world: &World, text: &str) {
    let mut turns = 0_u32;
    world
        .until(async |world| {
            // Each second of its clock.
            if turns.is_multiple_of(10) {
                decided(world).await;
            }
            turns += 1;
            world.env.now() >= at(text)
        })
        .await;
    settle(world).await;
}

/// Lets the nodes decide about instants that are due, however slow the machine is: the clock of the
/// node stands meanwhile. An instant that waits for a run of its rule stays due.
async fn decided(world: &World) {
    for _ in 0..30 {
        let now = world.env.now().micros();
        let query = format!("SELECT COUNT(*) FROM schedules WHERE due <= {now}");
        if world.number(query).await == 0 {
            return;
        }
        tokio::time::advance(Duration::from_millis(20)).await;
        tokio::task::yield_now().await;
    }
}

/// What is decided is told, projected and done.
async fn settle(world: &World) {
    world
        .until(async |world| {
            let open = world.db.untold_schedules(Timestamp(i64::MAX), Timestamp(i64::MAX), 9);
            open.await.unwrap().is_empty()
                && jobs(world, Some(JobState::Ready)).await == 0
                && jobs(world, Some(JobState::Running)).await == 0
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_rule_runs_at_its_instants_once_each() {
    let world = world(301, "2026-03-01T00:00:30Z", Cron::new("* * * * *")).await;
    let other = cron_rule("other", Cron::new("0 0 1 1 *"));
    world.put(&other).await;
    until_clock(&world, "2026-03-01T00:04:10Z").await;
    assert_eq!(due(&world).await, ["00:01:00", "00:02:00", "00:03:00", "00:04:00"]);
    assert_eq!(skipped(&world).await, [""; 0]);
    assert_eq!(jobs(&world, Some(JobState::Done)).await, 4, "of its own rule only");
    for event in world.events("schedule.due").await {
        let Fact::ScheduleDue { planned, .. } = event.fact else { panic!("another kind") };
        let late = event.at.since(planned);
        assert!(event.at >= planned && late < Duration::from_secs(1), "{late:?} late");
    }
}

#[tokio::test(start_paused = true)]
async fn a_condition_and_a_program_know_the_instant() {
    let mut world = World::new(302).await;
    world.env.set_now(at("2026-03-01T00:00:30Z"));
    let mut rule = cron_rule("r", Cron::new("* * * * *"));
    rule.condition = Some("event.planned != '2026-03-01T00:02:00.000000Z'".to_owned());
    rule.steps = vec![program(&["/bin/sh", "-c", "echo $1 >&2", "sh", "{planned}"]).into()];
    crate::check_rule(&rule).unwrap();
    world.put(&rule).await;
    world.start();
    until_clock(&world, "2026-03-01T00:03:10Z").await;
    let ended = world.events("program.ended").await;
    let mut words: Vec<_> = ended
        .into_iter()
        .map(|event| match event.fact {
            Fact::ProgramEnded { program } => program.words,
            fact => panic!("{fact:?}"),
        })
        .collect();
    words.sort();
    assert_eq!(words.len(), 2, "{words:?}");
    assert!(words[0].contains("00:01:00") && words[1].contains("00:03:00"), "{words:?}");
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_repeats_nothing_and_one_set_forward_skips() {
    let world = world(303, "2026-03-01T00:00:30Z", Cron::new("* * * * *")).await;
    until_clock(&world, "2026-03-01T00:03:10Z").await;
    world.env.set_now(at("2026-03-01T00:01:30Z"));
    until_clock(&world, "2026-03-01T00:04:10Z").await;
    let wanted = ["00:01:00", "00:02:00", "00:03:00", "00:04:00"];
    assert_eq!(due(&world).await, wanted, "nothing twice");
    world.env.set_now(at("2026-03-01T03:00:30Z"));
    until_clock(&world, "2026-03-01T03:01:10Z").await;
    let ahead: Vec<_> = wanted.into_iter().chain(["03:00:00", "03:01:00"]).collect();
    assert_eq!(due(&world).await, ahead, "the newest of those that were leapt over, and the next");
}

/// What runs after three hours without any of two nodes, at 03:20.
async fn after_an_outage(seed: u64, missed: Missed, late: u32) -> (Vec<String>, Vec<String>) {
    let cron = Cron { missed, late: Period::from_seconds(late), ..Cron::new("0 * * * *") };
    let mut world = world(seed, "2026-03-01T00:00:30Z", cron).await;
    let mut other = world.beside("n2").await;
    other.start();
    until_clock(&world, "2026-03-01T00:00:40Z").await;
    assert_eq!(due(&world).await, [""; 0]);
    world.kill().await;
    other.kill().await;
    world.env.set_now(at("2026-03-01T00:20:00Z"));
    world.env.advance(3 * HOUR);
    world.start();
    other.start();
    until_clock(&world, "2026-03-01T03:20:30Z").await;
    world.env.set_now(at("2026-03-01T03:59:50Z"));
    until_clock(&world, "2026-03-01T04:00:10Z").await;
    other.projected().await;
    (due(&world).await, skipped(&world).await)
}

#[tokio::test(start_paused = true)]
async fn instants_that_no_node_saw_are_made_up_for_as_the_rule_says() {
    let none: [&str; 0] = [];
    let (runs, skips) = after_an_outage(304, Missed::Last, 3_600).await;
    assert_eq!((&*runs, &*skips), (&["03:00:00", "04:00:00"].map(str::to_owned)[..], &[][..]));
    let (runs, skips) = after_an_outage(305, Missed::Last, 600).await;
    assert_eq!(runs, ["04:00:00"], "20 minutes are too late");
    assert_eq!(skips, ["03:00:00"]);
    let (runs, skips) = after_an_outage(306, Missed::All, 600).await;
    assert_eq!(runs, ["01:00:00", "02:00:00", "03:00:00", "04:00:00"]);
    assert_eq!(skips, none);
    let (runs, skips) = after_an_outage(307, Missed::None, 3_600).await;
    assert_eq!(runs, ["04:00:00"]);
    assert_eq!(skips, ["03:00:00"]);
}

/// Each minute; a run fails, and is tried again after two minutes at the least, until `runs` have
/// begun.
async fn overlapping(seed: u64, overlap: Overlap, runs: usize) -> World {
    let mut world = World::new(seed).await;
    world.env.set_now(at("2026-03-01T00:00:30Z"));
    let mut rule = cron_rule("r", Cron { overlap, ..Cron::new("* * * * *") });
    rule.steps = vec![program(&["/bin/sh", "-c", "exit 3"]).into()];
    rule.retry.attempts = 2;
    rule.retry.first_delay_seconds = 150;
    world.put(&rule).await;
    world.start();
    world.until(async |world| due(world).await.len() >= runs).await;
    world
}

/// The second run began when the first had ended.
async fn one_after_the_other(world: &World) {
    let ended = world.events("job.failed").await.into_iter().map(|event| event.at).min().unwrap();
    let began = world.events("schedule.due").await.into_iter().map(|event| event.at).max().unwrap();
    assert!(ended <= began, "{ended} {began}");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_has_not_ended_makes_the_next_one_wait_or_not() {
    let world = overlapping(308, Overlap::Skip, 2).await;
    let (runs, skips) = (due(&world).await, skipped(&world).await);
    assert_eq!(runs[0], "00:01:00");
    assert_eq!(skips[..2], ["00:02:00", "00:03:00"]);
    assert!(runs[1] > skips[skips.len() - 1], "{runs:?} {skips:?}");
    one_after_the_other(&world).await;

    let world = overlapping(309, Overlap::Queue, 2).await;
    let (runs, skips) = (due(&world).await, skipped(&world).await);
    assert_eq!(runs[0], "00:01:00");
    assert_eq!(skips[0], "00:02:00", "the third took its place");
    assert!(runs[1] > skips[skips.len() - 1], "{runs:?} {skips:?}");
    one_after_the_other(&world).await;

    let world = overlapping(310, Overlap::Parallel, 3).await;
    assert_eq!(due(&world).await, ["00:01:00", "00:02:00", "00:03:00"]);
    assert_eq!(skipped(&world).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_schedule_that_changes_makes_up_for_nothing() {
    let all = |expression: &str| Cron { missed: Missed::All, ..Cron::new(expression) };
    let world = world(311, "2026-03-01T00:30:00Z", all("0 0 1 1 *")).await;
    until_clock(&world, "2026-03-01T00:31:00Z").await;
    world.env.set_now(at("2026-03-01T05:30:00Z"));
    world.put(&cron_rule("r", all("0 * * * *"))).await;
    until_clock(&world, "2026-03-01T05:31:00Z").await;
    world.env.set_now(at("2026-03-01T05:59:50Z"));
    until_clock(&world, "2026-03-01T06:00:10Z").await;
    assert_eq!(due(&world).await, ["06:00:00"]);
    // Off, and on again.
    world.put(&Rule { enabled: false, ..cron_rule("r", all("0 * * * *")) }).await;
    until_clock(&world, "2026-03-01T06:01:00Z").await;
    world.env.set_now(at("2026-03-01T09:30:00Z"));
    until_clock(&world, "2026-03-01T09:31:00Z").await;
    world.put(&cron_rule("r", all("0 * * * *"))).await;
    until_clock(&world, "2026-03-01T09:32:00Z").await;
    world.env.set_now(at("2026-03-01T09:59:50Z"));
    until_clock(&world, "2026-03-01T10:00:10Z").await;
    assert_eq!(due(&world).await, ["06:00:00", "10:00:00"]);
    assert_eq!(skipped(&world).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_rule_runs_on_the_days_of_its_calendar_as_that_is_now() {
    let mut world = World::new(316).await;
    world.env.set_now(at("2026-03-01T23:58:30Z"));
    let days_off = |days: serde_json::Value| -> Policy {
        let policy = serde_json::json!({"name": "bank", "calendar": {"except": days}});
        serde_json::from_value(policy).unwrap()
    };
    world.put(&days_off(serde_json::json!(["03-02"]))).await;
    let cron = Cron { calendar: Some(name("bank")), ..Cron::new("* * * * *") };
    world.put(&cron_rule("r", cron)).await;
    world.start();
    until_clock(&world, "2026-03-02T00:01:30Z").await;
    assert_eq!(due(&world).await, ["23:59:00"]);
    // What comes to be one of its days is made up for as what no node saw.
    world.put(&days_off(serde_json::json!([]))).await;
    until_clock(&world, "2026-03-02T00:02:30Z").await;
    assert_eq!(due(&world).await, ["23:59:00", "00:01:00", "00:02:00"]);
    world.put(&days_off(serde_json::json!(["2026-03-02"]))).await;
    until_clock(&world, "2026-03-02T00:04:30Z").await;
    assert_eq!(due(&world).await.len(), 3);
    assert_eq!(skipped(&world).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn two_nodes_make_one_run_of_each_instant() {
    const RULES: usize = 50;
    const FIRINGS: usize = 20;
    let mut first = World::new(312).await;
    first.env.set_now(at("2026-03-01T00:00:50Z"));
    for number in 0..RULES {
        let cron = Cron { overlap: Overlap::Parallel, ..Cron::new("*/10 * * * * *") };
        // A condition that is false: what is counted is events, not programs.
        let mut rule = cron_rule(&format!("r{number}"), cron);
        rule.condition = Some("account == 'nobody'".to_owned());
        first.put(&rule).await;
    }
    let parallel = Cron { overlap: Overlap::Parallel, ..Cron::new("*/10 * * * * *") };
    let counted = cron_rule("counted", parallel);
    first.put(&counted).await;
    let mut second = first.beside("n2").await;
    first.start();
    second.start();
    until_clock(&first, "2026-03-01T00:04:15Z").await;
    for node in [&first, &second] {
        node.projected().await;
    }
    let mut told = BTreeMap::<_, usize>::new();
    let kinds = vec!["schedule.due".to_owned()];
    let mut filter = EventFilter { kinds, after_sequence: Some(0), ..EventFilter::default() };
    loop {
        let page = first.db.events(SITE, &filter).await.unwrap();
        let Some(last) = page.last() else { break };
        filter.after_sequence = Some(last.sequence);
        for row in page {
            let Fact::ScheduleDue { rule, planned } = row.event.fact else { panic!("another") };
            *told.entry((rule, planned)).or_default() += 1;
        }
    }
    assert!(told.values().all(|times| *times == 1), "told twice");
    assert_eq!(told.len(), (RULES + 1) * FIRINGS);
    let runs = told.keys().filter(|(rule, _)| *rule == name("counted")).count();
    assert_eq!(jobs(&first, Some(JobState::Done)).await, runs, "one job each");
}

#[tokio::test(start_paused = true)]
async fn a_decision_that_its_node_did_not_tell_is_told_by_another() {
    let mut first = world(313, "2026-03-01T00:00:30Z", Cron::new("0 * * * *")).await;
    until_clock(&first, "2026-03-01T00:01:00Z").await;
    first.die().await;
    // As it ended between the decision and its journal.
    let event = {
        let rule = first.db.find::<Rule>(SITE, &name("r")).await.unwrap().unwrap();
        crate::ids::planned(rule.id, at("2026-03-01T01:00:00Z"))
    };
    let mut deciding = first.db.decide().await.unwrap();
    let rule = first.db.find::<Rule>(SITE, &name("r")).await.unwrap().unwrap().id;
    let mut row = deciding.schedule(rule).await.unwrap().unwrap();
    row.planned = at("2026-03-01T01:00:00Z");
    row.due = Some(row.planned);
    let planned = row.planned;
    row.telling = Some(Telling { event, planned, skipped: None });
    row.changed_at = row.planned;
    deciding.change(&row).await.unwrap();
    deciding.commit().await.unwrap();
    let mut second = first.beside("n2").await;
    second.env.set_now(at("2026-03-01T01:00:02Z"));
    second.start();
    until_clock(&second, "2026-03-01T01:00:30Z").await;
    assert_eq!(due(&second).await, ["01:00:00"]);
    assert_eq!(jobs(&second, Some(JobState::Done)).await, 1);
}

/// A rule that starts on a schedule, on files and by hand.
#[tokio::test(start_paused = true)]
async fn a_rule_starts_on_each_of_its_triggers_and_on_nothing_of_others() {
    let mut world = World::new(317).await;
    world.env.set_now(at("2026-03-01T00:00:30Z"));
    let list = serde_json::json!([
        {"cron": "* * * * *"},
        {"call": {"parameters": {"day": {"default": "today"}}}},
        {"event": "file.uploaded"},
    ]);
    let several =
        Rule { when: serde_json::from_value(list).unwrap(), ..cron_rule("r", minutely()) };
    several.check().unwrap();
    crate::check_rule(&several).unwrap();
    world.put(&several).await;
    // Its instants and its starts by hand are not those of the first.
    let uploads = When::Event("file.uploaded".to_owned()).into();
    world.put(&Rule { when: uploads, ..cron_rule("uploads", minutely()) }).await;
    world.put(&cron_rule("other", minutely())).await;
    world.start();
    until_clock(&world, "2026-03-01T00:02:30Z").await;
    world.upload("/in/a", b"1").await;
    let called = |rule: &str| {
        let (rule, by) = (name(rule), "root".to_owned());
        let fact = Fact::RuleCalled { rule, parameters: serde_json::Map::new(), by };
        world.recorder.event(&Scope::site(SITE), fact)
    };
    for event in [called("r"), called("other")] {
        world.recorder.seal(&event).await.unwrap();
    }
    world.projected().await;
    settle(&world).await;
    let jobs = world.db.jobs(SITE, &JobFilter::default()).await.unwrap();
    let mut found: Vec<_> =
        jobs.iter().map(|job| format!("{} {}", job.rule, job.event.fact.kind())).collect();
    found.sort();
    let wanted = [
        "other schedule.due",
        "other schedule.due",
        "r file.uploaded",
        "r rule.called",
        "r schedule.due",
        "r schedule.due",
        "uploads file.uploaded",
    ];
    assert_eq!(found, wanted);
}

fn minutely() -> Cron {
    Cron::new("* * * * *")
}
