//! A job that waits inside of a step ends by the document of its rule that it was made of, whatever
//! becomes of the rule, and whichever of two nodes goes on with it.

use std::collections::BTreeSet;

use entrepot_db::JobFilter;
use entrepot_nouns::approval::ApprovalVerdict;
use entrepot_nouns::{Endpoint, Job, JobState, Kind, Noun as _, Rule, StepState};
use entrepot_testbed::memory_endpoint;
use serde_json::{Value as Json, json};

use super::approvals::answer;
use super::turns::deliver;
use super::world::{SITE, World, files, memory_store, name};
use crate::check_rule;

/// Jobs of each rule.
const EACH: usize = 8;
/// What becomes of the rules while their jobs wait.
const FATES: [&str; 4] = ["changed", "made-anew", "deleted", "disabled"];

/// What a rule does, and where its jobs wait.
struct Shape {
    label: &'static str,
    steps: Json,
    otherwise: Json,
    /// What each job delivers, behind its name.
    files: &'static [&'static str],
    ends: JobState,
}

/// A delivery to where nobody can be reached at first.
fn slow(path: &str) -> Json {
    json!({"deliver": {"endpoint": "slow", "path": path, "existing": "refuse"}})
}

/// A delivery to an endpoint that is paused at first: the steps of `else` are tried once.
fn paused(path: &str) -> Json {
    json!({"deliver": {"endpoint": "paused", "path": path, "existing": "refuse"}})
}

fn shape(label: &'static str, steps: Json, files: &'static [&'static str]) -> Shape {
    Shape { label, steps, otherwise: json!([]), files, ends: JobState::Done }
}

fn shapes() -> Vec<Shape> {
    let then = json!([slow("{name}-then"), deliver("{name}-if")]);
    let branch = json!({"if": {"when": "true", "then": then}});
    let turn = json!({"if": {
        "when": "item == 2",
        "then": [slow("{name}-{item}")],
        "else": [deliver("{name}-{item}")],
    }});
    let each = json!({"each": {"in": "[1, 2, 3]", "do": [turn]}});
    let lists = json!([[deliver("{name}-p")], [slow("{name}-q"), deliver("{name}-r")]]);
    let event = json!({"kind": "file.uploaded", "if": "event.path == '/done/go'"});
    let ask = json!({"by": ["boss"], "within": "20h", "text": "send {name}?"});
    let (first, last) = (deliver("{name}-first"), deliver("{name}-last"));
    let fails = json!([{"check": {"that": "false", "message": "no"}}]);
    vec![
        shape("if", json!([first, branch, last]), &["first", "if", "last", "then"]),
        shape("each", json!([each, last]), &["1", "2", "3", "last"]),
        shape("parallel", json!([{"parallel": {"do": lists}}, last]), &["last", "p", "q", "r"]),
        shape(
            "wait",
            json!([first, {"wait": {"event": event, "within": "20h"}}, last]),
            &["first", "last"],
        ),
        shape("approve", json!([first, {"approve": ask}, last]), &["first", "last"]),
        Shape {
            otherwise: json!([first, paused("{name}-else"), last]),
            ends: JobState::Failed,
            ..shape("else", fails, &["else", "first", "last"])
        },
    ]
}

fn label(shape: &Shape, fate: &str) -> String {
    format!("{}-{fate}", shape.label)
}

fn rule(shape: &Shape, label: &str) -> Rule {
    let retry = json!({
        "attempts": 20, "first_delay_seconds": 60, "longest_delay_seconds": 60,
    });
    let rule = json!({
        "name": label,
        "when": {"event": "file.uploaded"},
        "if": format!("file.name.startsWith('{label}.')"),
        "do": shape.steps,
        "else": shape.otherwise,
        "retry": retry,
    });
    let rule: Rule = serde_json::from_value(rule).unwrap();
    rule.check().unwrap();
    check_rule(&rule).unwrap();
    rule
}

/// As administrators do it.
async fn meet(world: &World, shape: &Shape, fate: &str) {
    let label = label(shape, fate);
    let mut changed = rule(shape, &label);
    if matches!(fate, "made-anew" | "deleted") {
        let mut tx = world.db.begin().await.unwrap();
        assert!(tx.delete(SITE, Kind::Rule, &name(&label)).await.unwrap());
        tx.commit().await.unwrap();
    }
    match fate {
        "deleted" => return,
        "disabled" => changed.enabled = false,
        // Steps before those where the jobs wait, and none behind them.
        _ => {
            let new = json!([deliver("{name}-new"), deliver("{name}-newer")]);
            let new: Vec<_> = serde_json::from_value(new).unwrap();
            changed.steps.pop();
            changed.steps.splice(0..0, new);
            changed.otherwise.clear();
        }
    }
    world.put(&changed).await;
}

async fn jobs(world: &World) -> Vec<Job> {
    world.db.jobs(SITE, &JobFilter::default()).await.unwrap()
}

/// Time passes until `is` says so; it is asked now and then only.
async fn sooner_or_later(world: &World, is: impl AsyncFn(&World) -> bool) {
    for _ in 0..1_000 {
        if is(world).await {
            return;
        }
        for _ in 0..10 {
            world.turn().await;
        }
    }
    let jobs = jobs(world).await;
    let shown = jobs.iter().map(|job| format!("{} {:?} {:?}", job.rule, job.state, job));
    panic!("it never came to that: {:?}: {:#?}", places(world).await, shown.collect::<Vec<_>>());
}

/// How many jobs wait for an endpoint, for an event and for an answer.
async fn places(world: &World) -> [usize; 3] {
    let is_in_else = |job: &Job| job.rule.as_str().starts_with("else") && job.handed_over > 0;
    let is_away =
        |job: &&Job| job.state == JobState::Ready && (job.error.is_some() || is_in_else(job));
    let away = jobs(world).await.iter().filter(is_away).count();
    let wait = world.number("SELECT COUNT(*) FROM job_waits".to_owned()).await;
    let ask = world.db.open_approvals(SITE, 1_000).await.unwrap().len();
    [away, usize::try_from(wait).unwrap(), ask]
}

/// Whether all jobs wait where their shape lets them.
async fn all_wait(world: &World) -> bool {
    let of_each = EACH * FATES.len();
    places(world).await == [4 * of_each, of_each, of_each]
}

#[tokio::test(start_paused = true)]
async fn a_job_that_waits_inside_of_a_step_ends_by_the_document_that_it_was_made_of() {
    let mut world = World::new(18).await;
    let (out, away) = (memory_store(&world.env), memory_store(&world.env));
    world.target("out", out.clone()).await;
    world.target("slow", away.clone()).await;
    world.target("paused", away.clone()).await;
    world.put(&Endpoint { paused: true, ..memory_endpoint("paused") }).await;
    world.file_access.targets.lock().remove("slow");
    let shapes = shapes();
    let all = || shapes.iter().flat_map(|shape| FATES.map(|fate| (shape, fate)));
    for (shape, fate) in all() {
        world.put(&rule(shape, &label(shape, fate))).await;
    }
    for (shape, fate) in all() {
        for file in 0..EACH {
            world.upload(&format!("/in/{}.{file}", label(shape, fate)), b"content").await;
        }
    }
    let mut beside = world.beside("n2").await;
    world.start();
    beside.start();
    sooner_or_later(&world, all_wait).await;
    for (shape, fate) in all() {
        meet(&world, shape, fate).await;
    }
    world.file_access.targets.lock().insert("slow".to_owned(), away.clone());
    world.put(&memory_endpoint("paused")).await;
    world.upload("/done/go", b"go").await;
    for asked in world.db.open_approvals(SITE, 1_000).await.unwrap() {
        answer(&world, &asked, "one", ApprovalVerdict::Approved).await;
    }
    let ended = async |world: &World| jobs(world).await.iter().all(|job| job.state.has_ended());
    sooner_or_later(&world, ended).await;
    world.projected().await;
    beside.projected().await;
    ended_rightly(&world, &shapes).await;
    let mut found: Vec<String> = Vec::new();
    for store in [&out, &away] {
        found.extend(files(store).await.into_keys());
    }
    let told = world.events("file.delivered").await.len();
    assert_eq!(told, found.len(), "each is told once, for a second delivery is refused");
    let wanted: BTreeSet<String> = all()
        .flat_map(|(shape, fate)| {
            let of = move |file| format!("{}.{file}", label(shape, fate));
            let files =
                move |name: String| shape.files.iter().map(move |it| format!("{name}-{it}"));
            (0..EACH).map(of).flat_map(files)
        })
        .collect();
    assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), wanted);
    world.kill().await;
    beside.kill().await;
}

/// Each job has the end of its shape, and none of its steps ran again once it was done.
async fn ended_rightly(world: &World, shapes: &[Shape]) {
    let jobs = jobs(world).await;
    assert_eq!(jobs.len(), EACH * FATES.len() * shapes.len());
    for job in jobs {
        let of = job.rule.as_str().split('-').next().unwrap();
        let shape = shapes.iter().find(|shape| shape.label == of).unwrap();
        assert_eq!(job.state, shape.ends, "{}: {:?}", job.rule, job.error);
        let steps = world.db.job_steps(job.id).await.unwrap();
        let done = steps.iter().filter(|step| step.state == StepState::Done);
        let done: Vec<&str> = done.map(|step| &*step.address.0).collect();
        let once: BTreeSet<&str> = done.iter().copied().collect();
        assert_eq!(once.len(), done.len(), "{}: {done:?}", job.rule);
    }
}
