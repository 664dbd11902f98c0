//! A job runs the document of its rule that it was made of, each step of it once, whatever becomes
//! of the rule while the job waits.

use std::collections::HashMap;

use entrepot_db::JobFilter;
use entrepot_nouns::rule::{Existing, Retry};
use entrepot_nouns::{Fact, JobState, Kind, Rule, StepState};

use super::world::{SITE, World, deliver, memory_store, name, rule};

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
        let jobs = world.db.jobs(SITE, &all).await.unwrap();
        let waits = jobs.iter().filter(|job| job.error.is_some() && job.state == JobState::Ready);
        waits.count() == EACH * STEPS * FATES.len()
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
        let jobs = world.db.jobs(SITE, &all).await.unwrap();
        jobs.iter().all(|job| !matches!(job.state, JobState::Ready | JobState::Running))
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
