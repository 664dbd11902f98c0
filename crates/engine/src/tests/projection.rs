//! The journal into the database: exactly once, whatever the database does.

use entrepot_db::{Projected, Projection};
use entrepot_journal::{RecordKind, Scope};
use entrepot_nouns::limits::CAUSE_DEPTH;
use entrepot_nouns::rule::{DeleteSpec, Existing, StepSpec, When};
use entrepot_nouns::{Fact, JobState};

use super::world::{SITE, World, content, deliver, fact, files, memory_store, rule};

#[tokio::test(start_paused = true)]
async fn every_record_once_over_kills_and_restarts() {
    let mut world = World::new(1).await;
    let mut ids = Vec::new();
    for round in 0..12u64 {
        world.start();
        for file in 0..9 {
            let scope = Scope::site(SITE);
            let fact = Fact::FileRemoved { path: format!("/in/{round}-{file}") };
            ids.push(world.recorder.record_durable(&scope, fact).await.unwrap().id);
        }
        for _ in 0..round {
            world.turn().await;
        }
        world.kill().await;
    }
    world.start();
    world.projected().await;
    let found: Vec<_> = world.events("file.removed").await.iter().map(|event| event.id).collect();
    assert_eq!(found, ids);
    let usage = world.recorder.journal().usage();
    assert_eq!(usage.unreleased_bytes, 0, "the journal was not released: {usage:?}");
}

#[tokio::test(start_paused = true)]
async fn the_same_batches_again_change_nothing() {
    let mut world = World::new(2).await;
    let out = memory_store(&world.env);
    world.target("partner", out.clone()).await;
    world.put(&rule("r", vec![deliver("partner", "{name}", Existing::Replace)])).await;
    let event = world.upload("/in/a", b"abc").await;
    world.start();
    let job = world.job_of(&event, "r").await;
    assert_eq!(world.ended(job).await.state, JobState::Done);
    world.projected().await;
    // As if the commit had been answered, and the answer lost.
    let done = world.db.job(SITE, job).await.unwrap().unwrap();
    let again = [entrepot_nouns::Job { state: JobState::Ready, at: None, ..done.clone() }];
    let (node, name) = (world.recorder.node_id(), world.recorder.node());
    let events = [(1, event)];
    let piece = Projection { jobs: &again, ..Projection::of(node, name, &events) };
    for _ in 0..3 {
        assert_eq!(world.db.project(&piece).await.unwrap(), Projected::Kept);
    }
    assert_eq!(world.db.job(SITE, job).await.unwrap().unwrap(), done);
    assert_eq!(world.events("file.uploaded").await.len(), 1);
    assert_eq!(world.events("file.delivered").await.len(), 1);
    assert_eq!(files(&out).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_database_that_hangs_or_loses_its_table_is_caught_up_with() {
    let mut world = World::new(3).await;
    world.start();
    let record = |world: &World, path: &str| {
        let recorder = world.recorder.clone();
        let fact = Fact::FileRemoved { path: path.to_owned() };
        async move { recorder.record_durable(&Scope::site(SITE), fact).await.unwrap().id }
    };
    let mut ids = vec![record(&world, "/before").await];
    world.projected().await;

    // Somebody holds the only writer.
    let tx = world.db.begin().await.unwrap();
    for number in 0..40 {
        ids.push(record(&world, &format!("/hang/{number}")).await);
        tokio::time::advance(std::time::Duration::from_millis(100)).await;
    }
    assert_eq!(world.events("file.removed").await.len(), 1);
    assert!(world.engine().lag().records >= 40);
    drop(tx);
    world.projected().await;
    assert_eq!(world.events("file.removed").await.len(), ids.len());

    // The table is gone for a while: every write is refused, the database answers.
    world.sql("ALTER TABLE events RENAME TO elsewhere".to_owned()).await;
    for number in 0..40 {
        ids.push(record(&world, &format!("/gone/{number}")).await);
        world.turn().await;
    }
    let stalls = &world.engine().meters().stalls;
    world.until(async |_| stalls.load(std::sync::atomic::Ordering::Relaxed) > 20).await;
    world.sql("ALTER TABLE elsewhere RENAME TO events".to_owned()).await;
    world.projected().await;
    let found: Vec<_> = world.events("file.removed").await.iter().map(|event| event.id).collect();
    assert_eq!(found, ids, "missing, doubled or out of order");
    assert!(world.events("job.failed").await.is_empty(), "a good record was set aside");
}

#[tokio::test(start_paused = true)]
async fn a_record_that_cannot_be_read_is_reported_and_the_rest_goes_on() {
    let mut world = World::new(4).await;
    world.start();
    let journal = world.recorder.journal().clone();
    world.upload("/in/a", b"a").await;
    journal.append_durable(RecordKind::Event, b"{\"kind\":\"file.eaten\"}").await.unwrap();
    journal.append_durable(RecordKind::Event, b"\xff\x00").await.unwrap();
    journal.append_durable(RecordKind::Intent, b"not for us").await.unwrap();
    world.upload("/in/b", b"b").await;
    world.projected().await;
    assert_eq!(world.events("file.uploaded").await.len(), 2);
    let reports = world.events("job.failed").await;
    assert_eq!(reports.len(), 2);
    for report in reports {
        assert!(serde_json::to_string(&report).unwrap().contains("EP0802"));
    }
}

#[tokio::test(start_paused = true)]
async fn conditions_decide_and_broken_ones_are_told_of_once() {
    let mut world = World::new(5).await;
    world.target("partner", memory_store(&world.env)).await;
    let to = |label: &str, condition: &str| {
        let path = format!("{label}-{{name}}");
        let mut rule = rule(label, vec![deliver("partner", &path, Existing::Replace)]);
        rule.condition = Some(condition.to_owned());
        rule
    };
    world.put(&to("yes", "file.size == 3 && account == 'acme'")).await;
    world.put(&to("no", "file.name.endsWith('.xml')")).await;
    world.put(&to("broken", "file.name ==")).await;
    world.put(&to("failing", "file.colour == 'red'")).await;
    let mut off = to("off", "true");
    off.enabled = false;
    world.put(&off).await;
    // Two that would feed each other for ever.
    for label in ["loop-a", "loop-b"] {
        let mut rule = to(label, "event.nothing == 1");
        rule.when = When::Event("job.failed".to_owned()).into();
        world.put(&rule).await;
    }
    let event = world.upload("/in/a.csv", b"abc").await;
    world.start();
    assert_eq!(world.ended(world.job_of(&event, "yes").await).await.state, JobState::Done);
    world.projected().await;
    for label in ["no", "broken", "failing", "off"] {
        let job = world.job_of(&event, label).await;
        assert_eq!(world.db.job(SITE, job).await.unwrap(), None, "{label}");
    }
    let told = world.events("job.failed").await;
    let rules: Vec<_> = told.iter().map(|event| serde_json::to_value(event).unwrap()).collect();
    assert_eq!(told.len(), 2, "{rules:?}");
    for event in &told {
        assert_eq!(event.depth, 1);
        assert!(matches!(&event.fact, Fact::JobFailed { attempts: 0, error, .. }
            if error.starts_with("EP0803")));
    }
}

#[tokio::test(start_paused = true)]
async fn a_rule_that_starts_itself_ends_at_the_limit_of_depth() {
    let mut world = World::new(6).await;
    let out = memory_store(&world.env);
    world.target("partner", out.clone()).await;
    let mut again = rule("again", vec![deliver("partner", "x", Existing::Replace)]);
    again.when = When::Event("job.done".to_owned()).into();
    again.condition = Some("event.rule == 'again' || event.rule == 'first'".to_owned());
    // `job.done` is about no file: each run fails after its condition held, and says so.
    let nothing = DeleteSpec { path: Some("/nothing".parse().unwrap()) };
    again.steps = vec![StepSpec::Delete(nothing).into()];
    world.put(&again).await;
    world.put(&rule("first", vec![deliver("partner", "{name}", Existing::Replace)])).await;
    world.upload("/in/a", b"abc").await;
    world.start();
    world
        .until(async |world| {
            world.events("job.failed").await.iter().any(|event| {
                matches!(&event.fact, Fact::JobFailed { error, .. } if error.contains("EP0804"))
            })
        })
        .await;
    world.projected().await;
    let done = world.events("job.done").await;
    assert_eq!(done.iter().map(|event| event.depth).max(), Some(CAUSE_DEPTH));
    assert_eq!(done.len(), usize::from(CAUSE_DEPTH));
    assert_eq!(world.events("job.failed").await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_counts_as_an_arrival() {
    let mut world = World::new(7).await;
    let out = memory_store(&world.env);
    world.target("partner", out.clone()).await;
    world.put(&rule("r", vec![deliver("partner", "{name}", Existing::Replace)])).await;
    let mut temporary = world.publish("/in/a.filepart", &content(0, 1)).await;
    if let Fact::FileUploaded { file } = &mut temporary.fact {
        file.temporary = true;
    }
    world.recorder.seal(&temporary).await.unwrap();
    // Its final name, and the fact of a crash that hid an answer.
    let mut renamed = world.publish("/in/a", &content(0, 1)).await;
    let arrived = fact(&world.env, &"/in/a".parse().unwrap(), &content(0, 1));
    renamed.fact = Fact::FileRenamed {
        from: "/in/a.filepart".to_owned(),
        to: "/in/a".to_owned(),
        displaced: None,
        arrival: true,
        size: arrived.size,
        file: Some(Box::new(arrived)),
    };
    world.recorder.seal(&renamed).await.unwrap();
    let mut recovered = world.publish("/in/b", b"b").await;
    if let Fact::FileUploaded { file } = recovered.fact.clone() {
        recovered.fact = Fact::FileRecovered { file };
    }
    world.recorder.seal(&recovered).await.unwrap();
    let mut moved = world.publish("/in/c", b"c").await;
    moved.fact = Fact::FileRenamed {
        from: "/in/d".to_owned(),
        to: "/in/c".to_owned(),
        displaced: None,
        arrival: false,
        size: 1,
        file: None,
    };
    world.recorder.seal(&moved).await.unwrap();
    world.start();
    for event in [&renamed, &recovered] {
        assert_eq!(world.ended(world.job_of(event, "r").await).await.state, JobState::Done);
    }
    world.projected().await;
    let mut found: Vec<_> = files(&out).await.into_keys().collect();
    found.sort();
    assert_eq!(found, ["a", "b"]);
}

/// A restore, or a failover that loses commits, under a running engine: everything that was lost
/// comes once, also what had ended, and no file is delivered twice.
#[tokio::test(start_paused = true)]
async fn a_database_that_falls_back_is_brought_up_to_date() {
    for idle in [false, true] {
        let mut world = World::new(8).await;
        let out = memory_store(&world.env);
        world.target("partner", out.clone()).await;
        world.put(&rule("r", vec![deliver("partner", "{name}", Existing::Refuse)])).await;
        world.start();
        let mut events = Vec::new();
        for number in 0..6 {
            events.push(world.upload(&format!("/in/{number}"), b"abc").await);
        }
        for event in &events {
            assert_eq!(world.ended(world.job_of(event, "r").await).await.state, JobState::Done);
        }
        world.projected().await;
        let before = (world.all_events().await, files(&out).await);

        world.database_falls_back().await;
        if !idle {
            events.push(world.upload("/in/more", b"abc").await);
        }
        let found = "database.fell-back";
        world.until(async |world| !world.events(found).await.is_empty()).await;
        world.projected().await;
        for event in &events {
            let job = world.ended(world.job_of(event, "r").await).await;
            assert_eq!(job.state, JobState::Done, "{:?}", job.error);
        }
        world.projected().await;
        let all = world.all_events().await;
        for event in &before.0 {
            let copies = all.iter().filter(|other| other.id == event.id).count();
            assert_eq!(copies, 1, "{event:?}");
        }
        let kinds = ["file.uploaded", "file.delivered", "job.done"];
        for kind in kinds {
            assert_eq!(world.events(kind).await.len(), events.len(), "{kind}");
        }
        let filter = entrepot_db::TransferFilter::default();
        let transfers = world.db.transfers(SITE, &filter).await.unwrap();
        assert_eq!(transfers.len(), 2 * events.len());
        let delivered = files(&out).await;
        assert_eq!(delivered.len(), events.len());
        let made = world.count(|meters| &meters.deliveries);
        assert_eq!(made, events.len() as u64, "a file was delivered again");
        world.kill().await;
    }
}

/// The database falls back behind a job that was under way: what it did before is found done.
#[tokio::test(start_paused = true)]
async fn a_job_that_a_fallback_takes_back_finds_what_it_did() {
    let mut world = World::new(9).await;
    let out = memory_store(&world.env);
    world.target("partner", out.clone()).await;
    let steps = ["{name}", "copy-{name}"];
    let steps = steps.map(|path| deliver("partner", path, Existing::Refuse)).to_vec();
    world.put(&rule("r", steps)).await;
    let (pauses, dropped) = super::world::drop_once(crate::Pause::Advanced);
    world.options.pauses = Some(pauses);
    world.start();
    let event = world.upload("/in/a", b"abc").await;
    let dropped = async |_: &World| dropped.load(std::sync::atomic::Ordering::SeqCst);
    world.until(dropped).await;
    world.projected().await;
    assert_eq!(files(&out).await.len(), 1);
    world.database_falls_back().await;
    let job = world.ended(world.job_of(&event, "r").await).await;
    assert_eq!((job.state, job.epoch), (JobState::Done, 1), "{:?}", job.error);
    world.projected().await;
    assert_eq!(files(&out).await.len(), 2);
    assert_eq!(world.events("file.delivered").await.len(), 2);
}
