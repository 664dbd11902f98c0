//! Files that steps make for later steps: fetched, copied, gone when the job is over.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use entrepot_nouns::rule::When;
use entrepot_nouns::{Cron, Event, Job, JobState, Rule};
use entrepot_storage::{AnyStore, EntryKind, StoreError};
use serde_json::json;

use super::world::{World, content, cut_everywhere, doing, files, memory_store, published};
use crate::{Pause, Pauses, check_rule};

/// Writes a file at an endpoint, as its owner does.
pub(super) async fn write(world: &World, store: &AnyStore, path: &str, bytes: &[u8]) {
    let id = entrepot_nouns::TransferId(world.env.new_id());
    let path = path.parse().unwrap();
    entrepot_storage::make_directories_above(store, &path).await.unwrap();
    let staged = store.stage(id, &path).await.unwrap();
    staged.write_at(0, bytes::Bytes::copy_from_slice(bytes)).await.unwrap();
    staged.sync().await.unwrap();
    staged.publish(&published(bytes.len() as u64)).await.unwrap();
}

/// A node with the endpoint `bank`, which has a file, and the endpoint `out`.
struct Exchange {
    world: World,
    bank: AnyStore,
    out: AnyStore,
}

impl Exchange {
    async fn new(seed: u64, rule: &Rule) -> Exchange {
        let world = World::new(seed).await;
        let (bank, out) = (memory_store(&world.env), memory_store(&world.env));
        world.target("bank", bank.clone()).await;
        world.target("out", out.clone()).await;
        write(&world, &bank, "a.pgp", &content(2, 7)).await;
        check_rule(rule).unwrap();
        world.put(rule).await;
        Exchange { world, bank, out }
    }

    async fn ended(&mut self) -> Job {
        let event = self.world.upload("/in/go", b"go").await;
        self.ended_of(&event).await
    }

    async fn ended_of(&mut self, event: &Event) -> Job {
        let job = self.world.job_of(event, "r").await;
        self.world.ended(job).await
    }
}

/// Fetches what the partner has, and hands it on twice.
fn bank_in() -> Rule {
    doing(json!([
        {"name": "take", "fetch": {"endpoint": "bank", "path": "a.pgp", "after": "move",
            "to": "done/{name}"}},
        {"if": {"when": "file.name == 'a.pgp' && file.size == 524305", "then": [
            {"deliver": {"endpoint": "out", "path": "{stem}-{size}"}},
            {"copy": {"to": "/new/folder/{steps.take.file.name}"}},
        ]}},
    ]))
}

async fn names(store: &AnyStore) -> Vec<String> {
    let mut names: Vec<_> = files(store).await.into_keys().collect();
    names.sort();
    names
}

/// Whether nothing of the job is left, once that was removed which follows its end.
async fn is_tidy(world: &World) -> bool {
    files(&world.work.store).await.is_empty()
}

#[tokio::test(start_paused = true)]
async fn a_fetched_file_is_delivered_and_copied_and_moved_at_its_endpoint_last() {
    let mut exchange = Exchange::new(41, &bank_in()).await;
    exchange.world.start();
    let ended = exchange.ended().await;
    assert_eq!((ended.state, ended.error), (JobState::Done, None));
    let world = &exchange.world;
    assert_eq!(files(&exchange.out).await["a-524305"], content(2, 7));
    let home = files(&world.file_access.home).await;
    assert_eq!(home["new/folder/a.pgp"], content(2, 7));
    assert_eq!(names(&exchange.bank).await, ["done/a.pgp"]);
    world.until(async |world| is_tidy(world).await).await;
    world.projected().await;
    let told = world.events("file.fetched").await;
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].fact.endpoint().map(|name| name.as_str()), Some("bank"));
}

/// Whatever the moment of a crash: each effect once, and before the job is done the partner's file
/// is where it was.
#[tokio::test(start_paused = true)]
async fn a_crash_at_any_point_loses_no_fetched_file() {
    let cut = cut_everywhere(async |cut| {
        let at = cut.at;
        let mut exchange = Exchange::new(42 + at as u64, &bank_in()).await;
        exchange.world.options.pauses = cut.pauses();
        exchange.world.start();
        let ended = exchange.ended().await;
        assert_eq!((ended.state, ended.error), (JobState::Done, None), "{at}");
        assert_eq!(names(&exchange.out).await, ["a-524305"], "{at}");
        assert_eq!(names(&exchange.bank).await, ["done/a.pgp"], "{at}");
        exchange.world.projected().await;
        assert_eq!(exchange.world.events("file.fetched").await.len(), 1, "{at}");
        exchange.world.kill().await;
    })
    .await;
    assert!(cut > 12, "only {cut} points were cut");
}

/// Ends the attempt, and the node with it, at the second time that a step was recorded.
fn dies_behind_a_step() -> Pauses {
    let advanced = AtomicUsize::new(0);
    Arc::new(move |pause| pause == Pause::Advanced && advanced.fetch_add(1, Ordering::SeqCst) == 1)
}

#[tokio::test(start_paused = true)]
async fn another_node_makes_the_file_again() {
    let mut exchange = Exchange::new(90, &bank_in()).await;
    let mut other = exchange.world.beside("second").await;
    exchange.world.options.pauses = Some(dies_behind_a_step());
    exchange.world.start();
    let event = exchange.world.upload("/in/go", b"go").await;
    let job = exchange.world.job_of(&event, "r").await;
    exchange
        .world
        .until(async |world| {
            let records = world.db.job_steps(job).await.unwrap();
            records.iter().any(|step| step.address.0 == "take")
        })
        .await;
    exchange.world.die().await;
    assert_eq!(names(&exchange.bank).await, ["a.pgp"], "nothing is removed before the end");
    other.start();
    let ended = other.ended(job).await;
    assert_eq!((ended.state, ended.error), (JobState::Done, None));
    assert_eq!(names(&exchange.out).await, ["a-524305"]);
    assert_eq!(names(&exchange.bank).await, ["done/a.pgp"]);
}

/// What was fetched is gone from its source by then, and not to be had again.
#[tokio::test(start_paused = true)]
async fn another_node_ends_a_job_whose_source_is_removed_already() {
    let mut exchange = Exchange::new(95, &bank_in()).await;
    let mut other = exchange.world.beside("second").await;
    exchange.world.options.pauses = Some(Arc::new(|pause| pause == Pause::EndRecorded));
    exchange.world.start();
    let event = exchange.world.upload("/in/go", b"go").await;
    let job = exchange.world.job_of(&event, "r").await;
    let bank = exchange.bank.clone();
    exchange.world.until(async |_| names(&bank).await == ["done/a.pgp"]).await;
    exchange.world.die().await;
    other.start();
    let ended = other.ended(job).await;
    assert_eq!((ended.state, ended.error), (JobState::Done, None));
    assert_eq!(names(&exchange.out).await, ["a-524305"]);
    assert_eq!(names(&exchange.bank).await, ["done/a.pgp"]);
}

/// What the steps worked on was taken away by the job itself, and nothing is to be made of it any
/// more: what follows needs none.
#[tokio::test(start_paused = true)]
async fn another_node_ends_a_job_that_took_its_file_away() {
    let ends = [
        (json!({"delete": {}}), Pause::EndRecorded),
        (json!({"move": {"to": "/old/go"}}), Pause::EndRecorded),
        (json!({"delete": {}}), Pause::Changed),
        (json!({"move": {"to": "/old/go"}}), Pause::Changed),
    ];
    for (at, (last, pause)) in (0..).zip(ends) {
        let rule = doing(json!([
            {"gzip": {}},
            {"deliver": {"endpoint": "out", "path": "{name}"}},
            last,
            {"check": {"that": "file.name == 'go.gz'", "message": "another file"}},
        ]));
        let mut exchange = Exchange::new(470 + at, &rule).await;
        let mut other = exchange.world.beside("second").await;
        exchange.world.options.pauses = Some(Arc::new(move |reached| reached == pause));
        exchange.world.start();
        let event = exchange.world.upload("/in/go", b"go").await;
        let job = exchange.world.job_of(&event, "r").await;
        let home = exchange.world.file_access.home.clone();
        exchange.world.until(async |_| !names(&home).await.contains(&"in/go".to_owned())).await;
        exchange.world.die().await;
        other.start();
        let ended = other.ended(job).await;
        assert_eq!((ended.state, ended.error), (JobState::Done, None), "{at}");
        assert_eq!(names(&exchange.out).await, ["go.gz"], "{at}");
        other.projected().await;
        assert!(other.events("job.failed").await.is_empty(), "{at}");
    }
}

/// What the file was made of has another name by then, given by the job itself.
#[tokio::test(start_paused = true)]
async fn another_node_makes_the_file_again_of_one_that_the_job_moved() {
    let (moved, recorded) = (Pause::Changed, Pause::Advanced);
    for (seed, pause, nth) in [(480, moved, 0), (481, recorded, 1), (482, recorded, 2)] {
        let rule = doing(json!([
            {"gzip": {}},
            {"move": {"to": "/old/{name}"}},
            {"move": {"to": "/older/go"}},
            {"deliver": {"endpoint": "out", "path": "{name}"}},
            {"delete": {}},
        ]));
        let mut exchange = Exchange::new(seed, &rule).await;
        let mut other = exchange.world.beside("second").await;
        let reached = Arc::new(AtomicUsize::new(0));
        let seen = reached.clone();
        exchange.world.options.pauses =
            Some(Arc::new(move |it| it == pause && seen.fetch_add(1, Ordering::SeqCst) == nth));
        exchange.world.start();
        let event = exchange.world.upload("/in/go", b"go").await;
        let job = exchange.world.job_of(&event, "r").await;
        exchange.world.until(async |_| reached.load(Ordering::SeqCst) > nth).await;
        exchange.world.die().await;
        other.start();
        let ended = other.ended(job).await;
        assert_eq!((ended.state, ended.error), (JobState::Done, None), "{seed}");
        assert_eq!(names(&exchange.out).await, ["go.gz"], "{seed}");
        let home = names(&exchange.world.file_access.home).await;
        assert!(home.is_empty(), "{seed}: {home:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_newer_file_of_the_partner_stays() {
    let rule = doing(json!([
        {"fetch": {"endpoint": "bank", "path": "a.pgp", "after": "delete"}},
        {"deliver": {"endpoint": "out"}},
    ]));
    let mut exchange = Exchange::new(91, &rule).await;
    let bank = exchange.bank.clone();
    let reached = Arc::new(AtomicUsize::new(0));
    let (seen, go) = (reached.clone(), Arc::new(tokio::sync::Semaphore::new(0)));
    // The first attempt ends behind the delivery: the partner writes meanwhile.
    exchange.world.options.pauses = Some(Arc::new(move |pause| {
        pause == Pause::Recorded && seen.fetch_add(1, Ordering::SeqCst) == 1
    }));
    exchange.world.start();
    let event = exchange.world.upload("/in/go", b"go").await;
    exchange
        .world
        .until(async |world| {
            if reached.load(Ordering::SeqCst) > 1 && go.available_permits() == 0 {
                write(world, &bank, "a.pgp", b"a newer one").await;
                go.add_permits(1);
            }
            go.available_permits() > 0
        })
        .await;
    let ended = exchange.ended_of(&event).await;
    assert_eq!((ended.state, ended.error), (JobState::Done, None));
    assert_eq!(files(&exchange.out).await["a.pgp"], content(2, 7));
    assert_eq!(files(&bank).await["a.pgp"], b"a newer one");
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_gone_fails_its_job_and_too_large_ones_wait_for_room() {
    let rule = doing(json!([
        {"fetch": {"endpoint": "bank", "path": "{name}.pgp"}},
        {"deliver": {"endpoint": "out"}},
    ]));
    let mut exchange = Exchange::new(92, &rule).await;
    exchange.world.work.limit = 500_000;
    exchange.world.start();
    let ended = exchange.ended().await;
    assert_eq!(ended.state, JobState::Failed);
    assert_eq!(
        ended.error.as_deref(),
        Some("EP0810: 'go.pgp' is not at endpoint 'bank', somebody took it")
    );
    let event = exchange.world.upload("/in/a", b"go").await;
    let job = exchange.world.job_of(&event, "r").await;
    exchange
        .world
        .until(async |world| {
            let job = world.db.job(super::world::SITE, job).await.unwrap();
            job.is_some_and(|job| job.error.is_some_and(|error| error.starts_with("EP0817: ")))
        })
        .await;
    assert!(is_tidy(&exchange.world).await);
}

#[tokio::test(start_paused = true)]
async fn a_rule_of_the_clock_fetches_and_makes_directories() {
    let cron = When::Cron(Cron::new("* * * * *"));
    let list = json!([
        {"mkdir": {"endpoint": "out", "path": "{date}/old"}},
        {"fetch": {"endpoint": "bank", "path": "a.pgp", "after": "delete"}},
        {"deliver": {"endpoint": "out", "path": "{name}"}},
    ]);
    let rule = Rule { when: cron.clone().into(), ..doing(list) };
    let mut exchange = Exchange::new(93, &rule).await;
    let start = exchange.world.env.now();
    exchange.world.start();
    let out = exchange.out.clone();
    exchange.world.until(async |_| !files(&out).await.is_empty()).await;
    assert_eq!(names(&out).await, ["a.pgp"]);
    let folder = format!("{}/old", &start.to_string()[..10]);
    let made = out.stat(&folder.parse().unwrap()).await;
    assert!(made.is_ok_and(|meta| meta.kind == EntryKind::Directory), "{folder}");
    let bank = exchange.bank.clone();
    exchange
        .world
        .until(async |_| {
            matches!(bank.stat(&"a.pgp".parse().unwrap()).await, Err(StoreError::NotFound))
        })
        .await;
    // Without a file there is none to deliver, and no name.
    for (list, wrong) in [
        (json!([{"deliver": {"endpoint": "out"}}]), "do.0.deliver"),
        (json!([{"fetch": {"endpoint": "bank", "path": "{name}"}}]), "do.0.fetch.path"),
        (json!([{"fetch": {"path": "a"}}]), "do.0.fetch.endpoint"),
        (json!([{"fetch": {"endpoint": "bank", "path": "a", "to": "b"}}]), "do.0.fetch.to"),
        (
            json!([{"fetch": {"endpoint": "bank", "path": "a"}}, {"copy": {"to": "/a"}}]),
            "do.1.copy",
        ),
        (json!([{"mkdir": {"path": "/a"}}]), "do.0.mkdir"),
    ] {
        let rule = Rule { when: cron.clone().into(), ..doing(list) };
        let noun = entrepot_nouns::Noun::check(&rule);
        let refused = noun.and_then(|()| check_rule(&rule)).unwrap_err();
        assert_eq!(refused.field, wrong, "{refused}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_program_reads_the_file_that_a_step_made() {
    let rule = doing(json!([
        {"fetch": {"endpoint": "bank", "path": "a.pgp"}},
        {"exec": {"argv": ["/bin/sh", "-c", "wc -c < \"$1\" >&2; exit 3", "sh", "{file}"]},
            "on_error": "continue"},
        {"exec": {"argv": ["/bin/sh", "-c", "wc -c >&2"], "stdin": "file"}},
    ]));
    let rule = Rule { retry: once(), ..rule };
    let mut exchange = Exchange::new(94, &rule).await;
    let folder = exchange.world.bed.folder().join("work");
    exchange.world.work.store =
        entrepot_storage::fs::open(&folder, &exchange.world.env).await.unwrap();
    exchange.world.work.path = Some(folder);
    exchange.world.start();
    let ended = exchange.ended().await;
    assert_eq!((ended.state, ended.error), (JobState::Done, None));
    exchange.world.projected().await;
    let told = exchange.world.events("program.ended").await;
    let words: HashMap<bool, String> = told
        .into_iter()
        .map(|event| match event.fact {
            entrepot_nouns::Fact::ProgramEnded { program } => (program.done, program.words),
            fact => panic!("{fact:?}"),
        })
        .collect();
    assert_eq!(words, HashMap::from([(true, "524305".into()), (false, "524305".into())]));
}

fn once() -> entrepot_nouns::rule::Retry {
    entrepot_nouns::rule::Retry { attempts: 1, ..Default::default() }
}
