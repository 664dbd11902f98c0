//! Jobs that rest, ask, call and branch, over a database that is away longer than a lease, or that
//! falls back to before them: they end as if nothing had been.

use std::collections::BTreeSet;
use std::time::Duration;

use entrepot_nouns::approval::ApprovalVerdict;
use entrepot_nouns::{JobId, JobState, Noun as _, Rule};
use serde_json::{Value as Json, json};

use super::approvals::answer;
use super::turns::deliver;
use super::world::{Cut, SITE, World, cut_everywhere, doing, files, memory_store};
use crate::check_rule;

/// What happens to the database at the moment in which the attempt is cut off.
#[derive(Clone, Copy, Debug)]
enum Loss {
    /// No job can be changed for three leases.
    Outage,
    /// It is as it was before there were events.
    FallBack,
}

/// Steps, the files that they leave with the partner, and the points where an attempt can be cut,
/// at least.
struct Shape {
    steps: Json,
    files: &'static [&'static str],
    points: usize,
}

fn waits() -> Shape {
    let steps = json!([deliver("a"), {"wait": {"for": "20s"}}, deliver("b")]);
    Shape { steps, files: &["a", "b"], points: 8 }
}

fn asks() -> Shape {
    let ask = json!({"by": ["boss"], "within": "4h", "text": "send {name}?"});
    let steps = json!([deliver("a"), {"approve": ask}, deliver("b")]);
    Shape { steps, files: &["a", "b"], points: 8 }
}

fn calls() -> Shape {
    let steps = json!([deliver("a"), {"call": {"rule": "child", "with": {}}}, deliver("b")]);
    Shape { steps, files: &["a", "b"], points: 10 }
}

fn branches() -> Shape {
    let steps = json!([
        {"set": {"total": "0"}},
        {"each": {"in": "[1, 2, 3]", "do": [
            {"set": {"total": "vars.total + item"}},
            {"if": {
                "when": "item == 2",
                "then": [deliver("then-{item}")],
                "else": [deliver("else-{item}")],
            }},
        ]}},
        {"check": {"that": "vars.total == 6", "message": "{vars.total}"}},
        deliver("last"),
    ]);
    Shape { steps, files: &["else-1", "else-3", "last", "then-2"], points: 20 }
}

fn at_once() -> Shape {
    let lists = json!([
        [deliver("p"), deliver("q")],
        [{"wait": {"for": "15s"}}, deliver("r")],
    ]);
    let steps = json!([{"parallel": {"do": lists}}, deliver("last")]);
    Shape { steps, files: &["last", "p", "q", "r"], points: 12 }
}

#[tokio::test(start_paused = true)]
async fn jobs_that_wait_come_through_the_loss_of_the_database() {
    come_through(waits(), 2_000).await;
}

#[tokio::test(start_paused = true)]
async fn jobs_that_ask_come_through_the_loss_of_the_database() {
    come_through(asks(), 2_100).await;
}

#[tokio::test(start_paused = true)]
async fn jobs_that_call_come_through_the_loss_of_the_database() {
    come_through(calls(), 2_200).await;
}

#[tokio::test(start_paused = true)]
async fn jobs_in_turns_and_branches_come_through_the_loss_of_the_database() {
    come_through(branches(), 2_300).await;
}

#[tokio::test(start_paused = true)]
async fn jobs_of_lists_at_once_come_through_the_loss_of_the_database() {
    come_through(at_once(), 2_400).await;
}

/// Cuts a job off at each point, loses the database there, and lets the job end.
async fn come_through(shape: Shape, seed: u64) {
    for loss in [Loss::Outage, Loss::FallBack] {
        let cut = cut_everywhere(async |cut| once(&shape, loss, cut, seed).await).await;
        assert!(cut >= shape.points, "{loss:?}: only {cut} points were cut");
    }
}

async fn once(shape: &Shape, loss: Loss, cut: &Cut, seed: u64) {
    let what = format!("{loss:?} at {}", cut.at);
    let mut world = World::new(seed + cut.at as u64).await;
    let out = memory_store(&world.env);
    world.target("out", out.clone()).await;
    let mut rule = doing(shape.steps.clone());
    rule.retry.attempts = 3;
    for rule in [rule, child()] {
        rule.check().unwrap();
        check_rule(&rule).unwrap();
        world.put(&rule).await;
    }
    world.options.lease = Duration::from_secs(10);
    world.options.pauses = cut.pauses();
    let event = world.upload("/in/f", b"four").await;
    let job = world.job_of(&event, "r").await;
    world.start();
    while cut.seen() <= cut.at && !has_ended(&world, job).await {
        agree(&world).await;
        world.turn().await;
    }
    if cut.seen() > cut.at {
        lose(&world, loss).await;
    }
    for _ in 0..20_000 {
        if has_ended(&world, job).await {
            break;
        }
        agree(&world).await;
        world.turn().await;
    }
    let ended = world.db.job(SITE, job).await.unwrap();
    let ended = ended.unwrap_or_else(|| panic!("{what}: there is no job"));
    assert_eq!((ended.state, ended.error.as_deref()), (JobState::Done, None), "{what}");
    world.projected().await;
    let found: BTreeSet<String> = files(&out).await.into_keys().collect();
    assert!(found.iter().map(String::as_str).eq(shape.files.iter().copied()), "{what}: {found:?}");
    // A second delivery is refused, so each was made once; each is told once as well.
    assert_eq!(world.events("file.delivered").await.len(), shape.files.len(), "{what}");
    let done = world.events("job.done").await;
    assert_eq!(done.iter().filter(|event| event.job == Some(job)).count(), 1, "{what}");
    assert_eq!(world.events("job.failed").await.len(), 0, "{what}");
    let jobs = world.db.jobs(SITE, &Default::default()).await.unwrap();
    let called = jobs.iter().filter(|it| it.rule.as_str() == "child").count();
    let calls = shape.steps.to_string().matches("\"call\"").count();
    assert_eq!((jobs.len(), called), (1 + calls, calls), "{what}: called twice");
    world.kill().await;
}

/// What the shape of calls calls.
fn child() -> Rule {
    let steps = json!([{"wait": {"for": "10s"}}, {"set": {"a": "1"}}]);
    let rule = json!({"name": "child", "when": {"call": {}}, "do": steps});
    serde_json::from_value(rule).unwrap()
}

async fn has_ended(world: &World, job: JobId) -> bool {
    let found = world.db.job(SITE, job).await.unwrap();
    found.is_some_and(|job| job.state.has_ended())
}

/// Somebody agrees to whatever a job asks.
async fn agree(world: &World) {
    let open = world.db.open_approvals(SITE, 10).await.unwrap();
    for asked in open.iter().filter(|asked| asked.yes == 0) {
        answer(world, asked, "one", ApprovalVerdict::Approved).await;
    }
}

async fn lose(world: &World, loss: Loss) {
    match loss {
        Loss::Outage => {
            world.database_refuses("UPDATE ON jobs").await;
            let lease = world.options.lease;
            let until = world.env.now().plus(lease * 3);
            while world.env.now() < until {
                world.turn().await;
            }
            world.database_is_back().await;
        }
        Loss::FallBack => {
            world.projected().await;
            world.database_falls_back().await;
            world.until(async |world| !world.events("database.fell-back").await.is_empty()).await;
        }
    }
}
