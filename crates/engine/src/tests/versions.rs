//! A job runs the document of its rule that it was made of, each step of it once, whatever becomes
//! of the rule while the job waits.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use entrepot_db::JobFilter;
use entrepot_nouns::rule::{Existing, MoveSpec, OnError, Retry, Step, StepSpec};
use entrepot_nouns::{Fact, JobState, Kind, Rule, StepState};

use super::world::{SITE, World, deliver, files, memory_store, name, rule};
use crate::{Pause, PoolSizes};

/// Jobs that wait at each step of each rule.
const EACH: usize = 112;
const STEPS: usize = 3;
/// What becomes of the rules while their jobs wait.
const FATES: [&str; 3] = ["edited", "deleted", "disabled"];

/// Delivers to three partners of its own, and takes files of its own.
fn three(label: &str) -> Rule {
    let steps = (0..STEPS).map(|step| deliver(&format!("{label}-{step}"), "{name}", REFUSE));
    let mut rule = rule(label, steps.collect());
    rule.condition = Some(format!("file.name.startsWith('{label}-')"));
    rule.retry = Retry { attempts: 20, first_delay_seconds: 60, longest_delay_seconds: 60 };
    rule.otherwise = vec![deliver("failures", "{name}", REFUSE).into()];
    rule
}

/// A step that is done twice fails.
const REFUSE: Existing = Existing::Refuse;

fn rules() -> impl Iterator<Item = (&'static str, usize, String)> {
    let of = |fate| (0..STEPS).map(move |step| (fate, step, format!("{fate}{step}")));
    FATES.into_iter().flat_map(of)
}

/// As administrators do it.
async fn meet(world: &World, fate: &str, label: &str) {
    let mut tx = world.db.begin().await.unwrap();
    assert!(tx.delete(SITE, Kind::Rule, &name(label)).await.unwrap());
    tx.commit().await.unwrap();
    let mut changed = three(label);
    match fate {
        "deleted" => return,
        "disabled" => changed.enabled = false,
        _ => {
            // Another first step, the second and the third exchanged, and no `else`.
            changed.steps.insert(0, deliver("new", "{name}", REFUSE).into());
            changed.steps.swap(2, 3);
            changed.otherwise.clear();
        }
    }
    world.put(&changed).await;
}

#[tokio::test(start_paused = true)]
async fn a_step_may_be_passed_over_or_may_fail_without_its_job() {
    let mut world = World::new(17).await;
    let (out, last) = (memory_store(&world.env), memory_store(&world.env));
    world.target("out", out.clone()).await;
    world.target("last", last.clone()).await;
    let mut stepped = rule("r", Vec::new());
    stepped.retry = Retry { attempts: 3, first_delay_seconds: 5, longest_delay_seconds: 5 };
    let to = |to: &str| StepSpec::Move(MoveSpec { to: to.to_owned(), existing: REFUSE });
    let large = Some("file.size > 100".to_owned());
    stepped.steps = vec![
        Step { condition: large.clone(), ..deliver("out", "large/{name}", REFUSE).into() },
        // The file stays where it is, also for the leases that follow.
        Step { condition: large, ..to("/done/large").into() },
        Step { on_error: OnError::Continue, ..to("/in/taken").into() },
        // Nobody can be reached there: tried as often as the rule says, and then left.
        Step { on_error: OnError::Continue, ..deliver("away", "{name}", REFUSE).into() },
        Step { on_error: OnError::Continue, ..deliver("unknown", "{name}", REFUSE).into() },
        Step {
            condition: Some("file.size <= 100".to_owned()),
            ..deliver("last", "{name}", REFUSE).into()
        },
    ];
    world.target("away", memory_store(&world.env)).await;
    world.file_access.targets.lock().remove("away");
    world.upload("/in/taken", b"other").await;
    world.start();
    world.projected().await;
    world.put(&stepped).await;
    let event = world.upload("/in/a", b"abc").await;
    let job = world.job_of(&event, "r").await;
    let done = world.ended(job).await;
    assert_eq!((done.state, done.attempts), (JobState::Done, 3), "{:?}", done.error);
    let steps = world.db.job_steps(job).await.unwrap();
    let steps: Vec<_> = steps.iter().map(|step| (&*step.address.0, step.state)).collect();
    let wanted = [
        ("do.0", StepState::Skipped),
        ("do.1", StepState::Skipped),
        ("do.2", StepState::Ignored),
        ("do.3", StepState::Failed),
        ("do.3", StepState::Failed),
        ("do.3", StepState::Ignored),
        ("do.4", StepState::Ignored),
        ("do.5", StepState::Done),
    ];
    assert_eq!(steps, wanted);
    assert!(files(&out).await.is_empty());
    assert_eq!(files(&world.file_access.home).await["in/a"], b"abc");
    assert_eq!(files(&last).await["a"], b"abc");
}

#[tokio::test(start_paused = true)]
async fn else_steps_follow_moves_that_were_done_and_are_not_repeated_after_a_crash() {
    let mut world = World::new(18).await;
    let aside = memory_store(&world.env);
    world.target("aside", aside.clone()).await;
    let to = |to: &str| StepSpec::Move(MoveSpec { to: to.to_owned(), existing: REFUSE });
    let mut failing = rule("r", vec![to("/done/{name}"), deliver("unknown", "{name}", REFUSE)]);
    failing.retry.attempts = 1;
    failing.otherwise =
        vec![deliver("aside", "{name}", REFUSE).into(), to("/in/again-{name}").into()];
    world.put(&failing).await;
    // The attempt ends behind the first step of `else`, and once more at the end.
    let crashes = Arc::new(AtomicUsize::new(0));
    let seen = crashes.clone();
    world.options.pauses = Some(Arc::new(move |pause| {
        pause == Pause::Recorded && seen.fetch_add(1, Ordering::SeqCst) == 0
    }));
    let event = world.upload("/in/a", b"abc").await;
    world.start();
    let job = world.job_of(&event, "r").await;
    let failed = world.ended(job).await;
    assert_eq!(failed.state, JobState::Failed);
    assert!(crashes.load(Ordering::SeqCst) >= 1, "nothing was cut off");
    let error = failed.error.unwrap_or_default();
    assert!(error.contains("unknown") && !error.contains("else step"), "{error}");
    assert_eq!(files(&aside).await["a"], b"abc");
    assert_eq!(files(&world.file_access.home).await["in/again-a"], b"abc");
    world.projected().await;
    assert_eq!(world.events("file.delivered").await.len(), 1);
}

/// Programs before steps had addresses counted those that were done.
#[tokio::test(start_paused = true)]
async fn a_job_of_an_earlier_program_keeps_its_count_through_else_and_retry() {
    let mut world = World::new(19).await;
    for label in ["first", "second", "aside"] {
        world.target(label, memory_store(&world.env)).await;
    }
    let second = world.file_access.targets.lock().remove("second").unwrap();
    let mut failing =
        rule("r", vec![deliver("first", "{name}", REFUSE), deliver("second", "{name}", REFUSE)]);
    failing.retry.attempts = 1;
    failing.otherwise = vec![deliver("aside", "{name}", REFUSE).into()];
    world.put(&failing).await;
    let event = world.upload("/in/a", b"abc").await;
    let pools = std::mem::replace(&mut world.options.pools, PoolSizes::each(0));
    world.start();
    let job = world.job_of(&event, "r").await;
    world.projected().await;
    world.kill().await;
    world.sql("UPDATE jobs SET rule_version = NULL, step = 1, epoch = 1".to_owned()).await;
    world.options.pools = pools;
    world.start();
    let failed = world.ended(job).await;
    assert_eq!((failed.state, failed.at.unwrap().0.as_str()), (JobState::Failed, "do.1"));
    world.file_access.targets.lock().insert("second".to_owned(), second);
    assert!(world.retry(job, world.env.now()).await);
    world.engine().wake();
    let done = world.ended(job).await;
    assert_eq!(done.state, JobState::Done, "{:?}", done.error);
    world.projected().await;
    let told = world.events("file.delivered").await;
    let told = told.into_iter().filter_map(|event| match event.fact {
        Fact::FileDelivered { endpoint, .. } => Some(endpoint.to_string()),
        _ => None,
    });
    assert_eq!(told.collect::<Vec<_>>(), ["aside", "second"], "the first step was done before");
}

#[tokio::test(start_paused = true)]
async fn a_waiting_job_ends_by_the_document_that_it_was_made_of() {
    let mut world = World::new(16).await;
    for label in ["new", "failures"] {
        world.target(label, memory_store(&world.env)).await;
    }
    let mut away = HashMap::new();
    for (_, at, label) in rules() {
        for step in 0..STEPS {
            let endpoint = format!("{label}-{step}");
            world.target(&endpoint, memory_store(&world.env)).await;
            if step == at {
                let store = world.file_access.targets.lock().remove(&endpoint);
                away.extend(store.map(|store| (endpoint, store)));
            }
        }
        world.put(&three(&label)).await;
    }
    for file in 0..EACH {
        for (.., label) in rules() {
            world.upload(&format!("/in/{label}-{file}"), label.as_bytes()).await;
        }
    }
    world.start();
    let all = JobFilter::default();
    let waiting = async |world: &World| {
        let waiting = "SELECT COUNT(*) FROM jobs WHERE state = 'ready' AND error IS NOT NULL";
        world.number(waiting.to_owned()).await == i64::try_from(EACH * STEPS * FATES.len()).unwrap()
    };
    world.until(waiting).await;
    for job in world.db.jobs(SITE, &all).await.unwrap() {
        let at = job.at.as_ref().map(|address| address.to_string());
        let wanted = job.rule.as_str().chars().last().map(|step| format!("do.{step}"));
        assert_eq!(at, wanted, "{}", job.rule);
    }
    for (fate, _, label) in rules() {
        meet(&world, fate, &label).await;
    }
    // A later event meets the rules as they are now.
    world.upload("/in/deleted0-late", b"late").await;
    world.upload("/in/disabled0-late", b"late").await;
    world.file_access.targets.lock().extend(away);
    let ended = async |world: &World| {
        let left = "SELECT COUNT(*) FROM jobs WHERE state IN ('ready', 'running')";
        world.number(left.to_owned()).await == 0
    };
    world.until(ended).await;
    world.projected().await;
    let jobs = world.db.jobs(SITE, &all).await.unwrap();
    assert_eq!(jobs.len(), EACH * STEPS * FATES.len());
    for job in &jobs {
        assert_eq!(job.state, JobState::Done, "{}: {:?}", job.rule, job.error);
        let steps = world.db.job_steps(job.id).await.unwrap();
        let done = steps.iter().filter(|step| step.state == StepState::Done);
        let done: Vec<&str> = done.map(|step| &*step.address.0).collect();
        assert_eq!(done, ["do.0", "do.1", "do.2"], "{}", job.rule);
    }
    let mut delivered: HashMap<String, usize> = HashMap::new();
    for event in world.events("file.delivered").await {
        if let Fact::FileDelivered { endpoint, .. } = event.fact {
            *delivered.entry(endpoint.to_string()).or_default() += 1;
        }
    }
    for (.., label) in rules() {
        for step in 0..STEPS {
            assert_eq!(delivered.remove(&format!("{label}-{step}")), Some(EACH), "{label}");
        }
    }
    assert!(delivered.is_empty(), "steps ran that were in no document of a job: {delivered:?}");
}
