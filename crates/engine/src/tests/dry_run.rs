//! What a dry run foresees is what a job does, and nothing is touched by looking.

use std::collections::HashMap;
use std::sync::Arc;

use entrepot_nouns::dry_run::{
    DryRunSubject, EventOrigin, ForeseenEnding, ForeseenStep, LookedFor, RuleDryRun, StepOutcome,
};
use entrepot_nouns::explanation::{ExplainedSite, RuleOutcome};
use entrepot_nouns::{Event, JobState, Rule, SiteId, Stored, Timestamp};
use entrepot_spawn::Allowed;
use entrepot_storage::AnyStore;
use serde_json::{Value as Json, json};
use uuid::Uuid;

use super::world::{World, files, memory_store, name};
use crate::DryRunner;

fn rule(fields: &Json) -> Rule {
    let mut rule = json!({"name": "r", "when": {"event": "file.uploaded"}});
    for (key, value) in fields.as_object().unwrap() {
        rule[key] = value.clone();
    }
    serde_json::from_value(rule).unwrap()
}

fn runner(world: &World) -> DryRunner {
    let allowed = Allowed::new([std::path::PathBuf::from("/bin")]).unwrap();
    let runner = DryRunner::new(world.db.clone(), world.env.clone(), allowed);
    runner.with_access(Arc::new(world.file_access.clone()))
}

fn subject(rule: Rule, events: Vec<Event>) -> DryRunSubject {
    let (id, changed_at) = (Uuid::from_u128(7), Timestamp::default());
    let rule = Stored { id, site: SiteId::MAIN, revision: 1, changed_at, noun: rule };
    let site = ExplainedSite::new(name("main"), []);
    DryRunSubject { rule, site, events, path: None, account: None }
}

async fn tried(world: &World, rule: Rule, events: Vec<Event>) -> RuleDryRun {
    runner(world).run(subject(rule, events)).await.unwrap()
}

fn flat(steps: &[ForeseenStep]) -> Vec<&ForeseenStep> {
    steps.iter().flat_map(|step| std::iter::once(step).chain(flat(&step.steps))).collect()
}

/// Where the foreseen steps would write, in order.
fn writes(found: &RuleDryRun) -> Vec<String> {
    let steps = flat(&found.steps).into_iter().chain(flat(&found.otherwise));
    let done = steps.filter(|step| step.outcome == StepOutcome::Runs && step.word == "deliver");
    done.filter_map(|step| step.target.as_ref().map(|target| target.path.clone())).collect()
}

fn cases() -> Vec<Json> {
    let send = |path: &str| json!({"deliver": {"endpoint": "out", "path": path}});
    let once =
        |path: &str| json!({"deliver": {"endpoint": "out", "path": path, "existing": "refuse"}});
    vec![
        json!({"do": [
            {"set": {"large": "file.size > 3", "folder": "vars.large ? 'large' : 'small'"}},
            {"name": "sort", "if": {"when": "vars.large",
                "then": [send("{vars.folder}/{name}"),
                         {"check": {"that": "file.size < 9", "message": "{name} has {size}"}}],
                "else": [{"if": {"when": "file.size == 1",
                                 "then": [{"stop": {"message": "one byte"}}]}},
                         send("{vars.folder}/{name}")]}},
            send("{steps.sort.branch}/{name}")]}),
        json!({"do": [once("old"), send("after/{name}")], "else": [send("failed/{name}")]}),
        json!({"do": [{"deliver": {"endpoint": "out", "path": "old", "existing": "refuse"},
                       "on_error": "continue"}, send("after/{name}")]}),
        json!({"do": [{"move": {"to": "/done/{name}"}}, send("moved/{name}")]}),
        json!({"do": [{"delete": {}}, send("gone/{name}")]}),
        json!({"do": [send("a/{name}"), {"delete": {}, "if": "file.size > 3"}, send("b/{name}")]}),
        json!({"do": [send("a"),
            {"deliver": {"endpoint": "out", "path": "x"}, "if": "file.size / 0 > 1"}]}),
        json!({"do": [{"deliver": {"endpoint": "nowhere"}}], "else": [send("failed/{name}")]}),
        json!({"do": [{"check": {"that": "file.size == 2", "message": "not two"}}, send("two")]}),
        json!({"as": "nobody", "do": [send("a")]}),
        json!({"do": [{"set": {"x": "'x'"}},
            {"parallel": {"do": [
                [{"name": "in", "set": {"x": "'y'"}}, send("{vars.x}/{name}")],
                [{"if": {"when": "file.size > 3", "then": [send("{vars.x}/large")]}}],
            ]}},
            send("{vars.x}/{steps.in.state}")]}),
        json!({"do": [{"parallel": {"do": [
            [send("1")], [{"check": {"that": "false", "message": "no"}}, send("2")],
        ]}}], "else": [send("failed")]}),
        json!({"do": [{"parallel": {"need": "any", "do": [
            [{"check": {"that": "false", "message": "no"}}],
            [{"check": {"that": "file.size > 3", "message": "small"}}],
        ]}}, send("any")]}),
    ]
}

async fn content(stores: &[&AnyStore]) -> Vec<HashMap<String, Vec<u8>>> {
    let mut all = Vec::new();
    for store in stores {
        all.push(files(store).await);
    }
    all
}

#[tokio::test(start_paused = true)]
async fn what_is_foreseen_is_what_the_job_does_and_looking_touches_nothing() {
    let mut endings = HashMap::new();
    for (at, case) in cases().into_iter().enumerate() {
        for bytes in [&b"1"[..], b"22", b"4444", b"999999999"] {
            let mut world = World::new(700 + at as u64).await;
            let out = memory_store(&world.env);
            world.target("out", out.clone()).await;
            let staged = out.stage(world.env.new_id(), &"old".parse().unwrap()).await.unwrap();
            staged.sync().await.unwrap();
            staged.publish(&super::world::published(0)).await.unwrap();
            let noun = rule(&case);
            let event = world.upload("/in/a.xml", bytes).await;
            let home = world.file_access.home.clone();
            let before = (content(&[&home, &out]).await, world.recorder.journal().usage());
            let found = tried(&world, noun.clone(), vec![event.clone()]).await;
            let after = (content(&[&home, &out]).await, world.recorder.journal().usage());
            assert_eq!((before.0, before.1.appended), (after.0, after.1.appended), "{case}");
            assert!(world.all_events().await.is_empty(), "something was recorded");

            assert_eq!(found.origin, EventOrigin::Recorded);
            assert_eq!(found.start.outcome, RuleOutcome::Starts, "{case}");
            world.put(&noun).await;
            world.start();
            let job = world.job_of(&event, "r").await;
            let ended = world.ended(job).await;
            let wanted = match found.ending {
                ForeseenEnding::Done | ForeseenEnding::Stopped => JobState::Done,
                ForeseenEnding::Failed => JobState::Failed,
                ForeseenEnding::Unknown => panic!("{case}: {found:?}"),
            };
            assert_eq!(ended.state, wanted, "{case}: {found:#?}: {:?}", ended.error);
            let said = ended.error.map(|error| format!("the job would fail: {error}"));
            if let Some(said) = said.filter(|_| found.otherwise.is_empty()) {
                assert_eq!(found.why, said, "{case}");
            }
            let mut written: Vec<_> = files(&out).await.into_keys().collect();
            let mut foreseen = writes(&found);
            foreseen.push("old".to_owned());
            written.sort();
            foreseen.sort();
            assert_eq!(written, foreseen, "{case} {}: {found:#?}", bytes.len());
            *endings.entry(format!("{:?}", found.ending)).or_insert(0) += 1;
        }
    }
    assert_eq!(endings.len(), 3, "{endings:?}");
}

#[tokio::test(start_paused = true)]
async fn values_branches_and_targets_are_shown() {
    let mut world = World::new(720).await;
    let out = memory_store(&world.env);
    world.target("out", out.clone()).await;
    let event = world.upload("/in/four", b"4444").await;
    let found = tried(&world, rule(&cases()[0]), vec![event]).await;
    let [set, sort, last] = &found.steps[..] else { panic!("{found:#?}") };
    assert_eq!(set.what, "sets vars.large = true, vars.folder = \"large\"");
    assert_eq!(
        set.expressions[1].explained.trace.as_ref().unwrap().value.as_deref(),
        Some("'large'")
    );
    assert_eq!(sort.branch.as_deref(), Some("then"));
    assert_eq!(sort.expressions[0].explained.holds, Some(true));
    assert_eq!(sort.steps[0].values["vars.folder"], "large");
    assert_eq!(sort.steps[0].address.0, "do.1.if.then.0");
    let target = last.target.as_ref().unwrap();
    assert_eq!((target.path.as_str(), &target.found), ("then/four", &LookedFor::Nothing));
    let file = found.file.unwrap();
    assert!(matches!(file.found, LookedFor::File { size: 4, .. }), "{file:?}");
}

#[tokio::test(start_paused = true)]
async fn what_shows_only_when_it_runs_is_said_to_be_open() {
    let mut world = World::new(721).await;
    let out = memory_store(&world.env);
    world.target("out", out.clone()).await;
    let event = world.upload("/in/a", b"4444").await;
    let steps = json!({"do": [
        {"name": "scan", "exec": {"argv": ["/bin/scan", "{path}", "{ip}"]}},
        {"deliver": {"endpoint": "out", "path": "{steps.scan.verdict}/{name}"}},
        {"deliver": {"endpoint": "away", "path": "{name}"}},
    ]});
    // No client caused it, so that there is no address.
    let found = tried(&world, rule(&steps), vec![event.clone()]).await;
    assert_eq!(found.steps[0].outcome, StepOutcome::Fails);
    let steps = json!({"do": [
        {"name": "scan", "exec": {"argv": ["/bin/scan", "{path}"]}},
        {"deliver": {"endpoint": "out", "path": "{steps.scan.verdict}/{name}"}},
        {"deliver": {"endpoint": "away", "path": "{name}"}},
    ]});
    world.put(&entrepot_testbed::memory_endpoint("away")).await;
    let found = tried(&world, rule(&steps), vec![event.clone()]).await;
    assert_eq!(found.steps[0].what.split(';').next(), Some("runs '/bin/scan' '/in/a'"));
    let outcomes: Vec<_> = found.steps.iter().map(|step| step.outcome).collect();
    assert_eq!(outcomes, [StepOutcome::Unknown; 3], "{found:#?}");
    assert_eq!(found.ending, ForeseenEnding::Unknown);
    let forbidden = json!({"do": [{"exec": {"argv": ["/usr/bin/scan"]}}]});
    let found = tried(&world, rule(&forbidden), vec![event.clone()]).await;
    assert_eq!(found.ending, ForeseenEnding::Failed);
    let (db, env) = (world.db.clone(), world.env.clone());
    let blind = DryRunner::new(db, env, Allowed::default());
    let sends = json!({"do": [{"deliver": {"endpoint": "out"}}]});
    let found = blind.run(subject(rule(&sends), vec![event])).await.unwrap();
    assert_eq!(found.ending, ForeseenEnding::Unknown);
    assert!(found.why.contains("no server runs"), "{}", found.why);
}

/// What is in it is open, what it is called is not.
#[tokio::test(start_paused = true)]
async fn a_file_that_a_step_would_make_is_known_by_its_name() {
    let mut world = World::new(723).await;
    world.target("out", memory_store(&world.env)).await;
    let event = world.upload("/in/a.csv", b"4444").await;
    let out = json!({"deliver": {"endpoint": "out"}});
    for (steps, said, name) in [
        (json!([{"gzip": {}}]), "compresses '/in/a.csv' as 'a.csv.gz'", "a.csv.gz"),
        (
            json!([{"tar": {"name": "x.tar"}}, {"gzip": {}}]),
            "compresses 'x.tar', which step 'do.0' makes, as 'x.tar.gz'",
            "x.tar.gz",
        ),
        (json!([{"encrypt": {"keys": ["k"]}}]), "encrypts '/in/a.csv' as", "a.csv.pgp"),
        (json!([{"gzip": {}}, {"extract": {}}]), "extracts the one file of 'a.csv.gz'", "a.csv"),
        (json!([{"extract": {"format": "zip"}}]), "extracts the one file of", "a.csv"),
        (json!([{"checksum": {}}]), "writes the checksum of '/in/a.csv'", "a.csv.sha256"),
        (
            json!([{"checksum": {"verify": "/in/sums"}}]),
            "compares '/in/a.csv' with the checksum in '/in/sums'",
            "a.csv",
        ),
        (
            json!([{"verify": {"signed_by": ["k"], "signature": "/in/{name}.sig"}}]),
            "compares '/in/a.csv' with signature '/in/a.csv.sig'",
            "a.csv",
        ),
        (
            json!([{"zip": {}}, {"extract": {"to": "/new/{stem}"}}]),
            "extracts 'a.csv.zip', which step 'do.0' makes, into '/new/a.csv'",
            "a.csv.zip",
        ),
    ] {
        let mut list = steps.as_array().unwrap().clone();
        list.push(out.clone());
        let found = tried(&world, rule(&json!({"do": list})), vec![event.clone()]).await;
        let [.., change, deliver] = &found.steps[..] else { panic!("{found:#?}") };
        assert!(change.what.starts_with(said), "{steps}: {}", change.what);
        assert_eq!(change.outcome, StepOutcome::Unknown, "{steps}");
        let target = deliver.target.as_ref().map(|target| target.path.as_str());
        assert_eq!(target, Some(name), "{steps}: {found:#?}");
        assert_eq!(found.ending, ForeseenEnding::Unknown, "{steps}");
    }
    let wrong = json!({"do": [{"extract": {}}]});
    let found = tried(&world, rule(&wrong), vec![event]).await;
    assert!(found.why.contains("EP0870"), "{}", found.why);
}

#[tokio::test(start_paused = true)]
async fn without_an_event_one_is_made_up_and_a_better_one_is_taken() {
    let mut world = World::new(722).await;
    let out = memory_store(&world.env);
    world.target("out", out.clone()).await;
    let first = world.upload("/in/a", b"4444").await;
    let sends = json!({"do": [{"deliver": {"endpoint": "out", "path": "{account}/{name}"}}]});
    let mut asked = subject(rule(&sends), Vec::new());
    (asked.path, asked.account) = (Some("/in/a".to_owned()), Some(name("acme")));
    let found = runner(&world).run(asked).await.unwrap();
    assert_eq!(found.origin, EventOrigin::MadeUp);
    assert_eq!(writes(&found), ["acme/a"]);
    assert_eq!(found.event.fact.file().unwrap().size, 4, "it has the size of the file there");
    let mut removed = first.clone();
    removed.fact = entrepot_nouns::Fact::FileRemoved { path: "/in/a".to_owned() };
    let found = tried(&world, rule(&sends), vec![removed.clone(), first.clone()]).await;
    assert_eq!(found.event, first);
    let found = tried(&world, rule(&sends), vec![removed]).await;
    assert_eq!(found.start.outcome, RuleOutcome::OtherKind);
    let changed = World::upload(&mut world, "/in/a", b"55555").await;
    let found = tried(&world, rule(&sends), vec![first]).await;
    assert_eq!(found.ending, ForeseenEnding::Failed);
    assert!(found.why.contains("EP0808"), "{}", found.why);
    let found = tried(&world, rule(&sends), vec![changed]).await;
    assert_eq!(found.ending, ForeseenEnding::Done);
}
