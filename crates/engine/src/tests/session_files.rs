//! Jobs in sessions of `vfs`, opened for accounts that the gate admits: the seam that the other
//! simulations replace.

use std::collections::HashMap;

use bytes::Bytes;
use entrepot_nouns::rule::{
    CopySpec, DeleteSpec, Existing, MoveSpec, ReleaseSpec, Retry, StepSpec, When,
};
use entrepot_nouns::{
    Account, AccountType, Event, Job, JobState, Mount, Policy, Quota, Right, Rights, Rule,
    TransferState,
};
use entrepot_storage::AnyStore;
use entrepot_testbed::mount;
use entrepot_vfs::{Create, CreateIntent, ServiceOptions, Session};
use serde_json::json;

use super::world::{SITE, World, content, deliver, files, memory_store, name, rule};
use crate::limits::BLOCK_BYTES;

/// A node with accounts: `acme` has every right below `/` and another place at `/other`;
/// `reader` may only read; `gone` is disabled.
struct RealNode {
    world: World,
    node: entrepot_world::World,
    home: AnyStore,
    out: AnyStore,
}

impl RealNode {
    async fn new(seed: u64) -> RealNode {
        let world = World::new(seed).await;
        let (home, out) = (memory_store(&world.env), memory_store(&world.env));
        let other = memory_store(&world.env);
        let stores = [("home", &home), ("other", &other), ("partner", &out)];
        for (label, store) in stores {
            world.target(label, store.clone()).await;
        }
        let stores = stores.map(|(label, store)| (name(label), store.clone())).into();
        let options = ServiceOptions { stores, ..ServiceOptions::default() };
        let node = entrepot_world::World::over(world.bed.clone(), options).await;
        let real = RealNode { world, node, home, out };
        real.accounts().await;
        real
    }

    async fn accounts(&self) {
        for label in ["acme", "reader", "gone"] {
            let mut account = Account::new(name(label), AccountType::Partner);
            account.enabled = label != "gone";
            self.world.put(&account).await;
        }
        let all = Rights::all();
        self.mount("acme", "/", "home", all).await;
        self.mount("acme", "/other", "other", all).await;
        self.mount("reader", "/", "home", Rights::read_only()).await;
        self.mount("gone", "/", "home", all).await;
        self.node.directory.refresh().await.unwrap();
    }

    async fn mount(&self, account: &str, path: &str, endpoint: &str, rights: Rights) {
        let called = format!("{account}-{endpoint}");
        let mount = Mount { rights, ..mount(&called, account, path, endpoint) };
        self.world.put(&mount).await;
    }

    fn start(&mut self) {
        self.world.start_with(self.node.vfs.clone(), self.node.gate.clone());
    }

    /// As a client of `acme` does it.
    async fn upload(&self, path: &str, bytes: &[u8]) -> Event {
        let grant = self.node.gate.internal(SITE, &name("acme"), "a client").await.unwrap();
        let session = Session::open(&self.node.vfs, grant).await.unwrap();
        let how = Create { intent: CreateIntent::New, expected_size: None, append: false };
        let mut upload = session.vfs().create(&path.parse().unwrap(), how).await.unwrap();
        upload.write_at(0, Bytes::copy_from_slice(bytes)).await.unwrap();
        let transfer = upload.finish().await.unwrap().transfer;
        session.close("done", 0, 0).await;
        self.recorded().await;
        let mut told = self.world.events("file.held").await;
        told.extend(self.world.events("file.uploaded").await);
        let of = |event: &Event| event.fact.file().is_some_and(|file| file.transfer == transfer);
        told.into_iter().find(of).unwrap()
    }

    /// Waits until the database has all that was recorded, durable or not yet.
    async fn recorded(&self) {
        let journal = self.world.recorder.journal();
        journal.sync(journal.usage().appended).await.unwrap();
        self.world.projected().await;
    }

    async fn ended(&self, event: &Event, rule: &str) -> Job {
        self.world.ended(self.world.job_of(event, rule).await).await
    }

    /// Waits until no session of `account` is open, of a peer or of a job.
    async fn closed(&self, account: &str) {
        let open = || self.node.directory.sessions_of(SITE, &name(account));
        self.world.until(async |_| open() == 0).await;
    }
}

fn archive(to: &str, existing: Existing) -> StepSpec {
    StepSpec::Move(MoveSpec { to: to.to_owned(), existing })
}

fn remove(path: Option<&str>) -> StepSpec {
    StepSpec::Delete(DeleteSpec { path: path.map(|path| path.parse().unwrap()) })
}

#[tokio::test(start_paused = true)]
async fn a_job_sees_the_files_of_its_account_and_what_it_does_says_why() {
    let mut real = RealNode::new(91).await;
    let steps = vec![
        deliver("partner", "first/{name}", Existing::Refuse),
        archive("/done/deep/{name}", Existing::Refuse),
        deliver("partner", "second/{name}", Existing::Refuse),
        remove(None),
    ];
    real.world.put(&rule("r", steps)).await;
    real.start();
    let bytes = content(2, 4);
    let event = real.upload("/a.xml", &bytes).await;
    let done = real.ended(&event, "r").await;
    assert_eq!((done.state, &done.error), (JobState::Done, &None));
    let wanted = ["first/a.xml", "second/a.xml"].map(|path| (path.to_owned(), bytes.clone()));
    assert_eq!(files(&real.out).await, HashMap::from(wanted));
    assert!(files(&real.home).await.is_empty());
    real.closed("acme").await;

    real.recorded().await;
    for (kind, count) in [
        ("directory.created", 2),
        ("file.renamed", 1),
        ("file.removed", 1),
        ("file.downloaded", 0),
        ("session.opened", 0),
    ] {
        let told = real.world.events(kind).await;
        assert_eq!(told.len(), count, "{kind}");
        for told in told {
            assert_eq!(told.account, Some(name("acme")), "{kind}");
            assert_eq!((told.job, told.cause), (Some(done.id), Some(event.id)), "{kind}");
            assert_eq!(told.depth, event.depth + 1, "{kind}: it would never end");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_mount_holds_counts_as_uploaded_when_a_rule_releases_it() {
    let mut real = RealNode::new(96).await;
    real.upload_before("/a", b"old").await;
    let holding = Mount { hold: true, ..mount("acme-home", "acme", "/", "home") };
    real.world.put(&holding).await;
    real.node.directory.refresh().await.unwrap();
    let first = vec![deliver("partner", "looked/{name}", Existing::Replace), release()];
    let when = When::Event("file.held".to_owned());
    // Whoever scans need not see the files of those who send them.
    let looks = Rule { run_as: Some(name("reader")), when: when.into(), ..rule("looks", first) };
    real.world.put(&looks).await;
    real.world.put(&rule("goes", vec![deliver("partner", "sent/{name}", Existing::Replace)])).await;
    real.start();
    let held = real.upload("/a", b"newer").await;
    assert_eq!(held.fact.kind(), "file.held");
    let job = real.ended(&held, "looks").await;
    assert_eq!((job.state, &job.error), (JobState::Done, &None));
    real.recorded().await;
    let uploaded = real.world.events("file.uploaded").await.pop().unwrap();
    let (before, after) = (held.fact.file().unwrap(), uploaded.fact.file().unwrap());
    assert_eq!((after.transfer, after.digests), (before.transfer, before.digests));
    assert_eq!((uploaded.account, uploaded.job), (Some(name("acme")), Some(job.id)));
    assert_eq!(uploaded.cause, Some(held.id));
    let event = real.world.events("file.uploaded").await.pop().unwrap();
    assert_eq!(real.ended(&event, "goes").await.state, JobState::Done);
    let wanted = ["looked/a", "sent/a"].map(|path| (path.to_owned(), b"newer".to_vec()));
    assert_eq!(files(&real.out).await, HashMap::from(wanted));
    assert_eq!(files(&real.home).await, HashMap::from([("a".to_owned(), b"newer".to_vec())]));
    let known = real.world.db.transfer(SITE, after.transfer).await.unwrap().unwrap();
    assert_eq!(known.state, TransferState::Completed);
}

fn release() -> StepSpec {
    StepSpec::Release(ReleaseSpec::default())
}

/// One case of [`what_an_account_may_not_do_fails_with_the_reason`].
struct Case {
    what: &'static str,
    code: &'static str,
    run_as: &'static str,
    steps: Vec<StepSpec>,
}

fn cases() -> Vec<Case> {
    let case = |what, code, run_as, step| Case { what, code, run_as, steps: vec![step] };
    let to = || deliver("partner", "{transfer}", Existing::Refuse);
    let (replace, refuse) = (Existing::Replace, Existing::Refuse);
    vec![
        case("no such account", "EP0811", "nobody", to()),
        case("a disabled account", "EP0811", "gone", to()),
        case("it may not rename", "EP0812", "reader", archive("/b", replace)),
        case("it may not remove", "EP0812", "reader", remove(None)),
        case("the name is taken", "EP0809", "acme", archive("/taken", refuse)),
        case("another mount", "EP0812", "acme", archive("/other/b", replace)),
        case("it is a directory", "EP0812", "acme", remove(Some("/folder"))),
        Case {
            what: "the file is gone",
            code: "EP0810",
            run_as: "acme",
            steps: vec![remove(None), to()],
        },
    ]
}

#[tokio::test(start_paused = true)]
async fn what_an_account_may_not_do_fails_with_the_reason() {
    let mut real = RealNode::new(92).await;
    let taken = real.upload_before("/taken", b"theirs").await;
    real.home.make_directory(&"folder".parse().unwrap()).await.unwrap();
    real.start();
    for (number, case) in cases().into_iter().enumerate() {
        let Case { what, code, run_as, steps } = case;
        let mut failing: Rule = rule("r", steps);
        failing.run_as = Some(name(run_as));
        real.world.put(&failing).await;
        let event = real.upload(&format!("/{number}"), b"abc").await;
        let failed = real.ended(&event, "r").await;
        let error = failed.error.unwrap_or_default();
        assert_eq!((failed.state, failed.attempts), (JobState::Failed, 1), "{what}: {error}");
        assert!(error.starts_with(code), "{what}: {error}");
        let names_the_taken = error.contains("'/taken'");
        assert_eq!(names_the_taken, code == "EP0809", "{what}: {error}");
        real.closed(run_as).await;
    }
    assert_eq!(files(&real.home).await["taken"], taken);
    assert!(files(&real.out).await.is_empty());
}

impl RealNode {
    /// A file that no rule hears of; its content.
    async fn upload_before(&mut self, path: &str, bytes: &[u8]) -> Vec<u8> {
        self.start();
        self.upload(path, bytes).await;
        self.world.kill().await;
        bytes.to_vec()
    }
}

#[tokio::test(start_paused = true)]
async fn a_rule_that_replaces_does_and_a_lack_of_rights_is_found_at_each_attempt() {
    let mut real = RealNode::new(93).await;
    real.upload_before("/taken", b"theirs").await;
    real.world.put(&rule("r", vec![archive("/taken", Existing::Replace)])).await;
    real.start();
    let event = real.upload("/a", b"ours").await;
    assert_eq!(real.ended(&event, "r").await.state, JobState::Done);
    assert_eq!(files(&real.home).await, HashMap::from([("taken".to_owned(), b"ours".to_vec())]));

    // The account loses a right, and the next job with it.
    let rights = Right::ALL.into_iter().filter(|right| *right != Right::Overwrite).collect();
    real.mount("acme", "/", "home", rights).await;
    real.node.directory.refresh().await.unwrap();
    let event = real.upload("/b", b"more").await;
    let failed = real.ended(&event, "r").await;
    assert!(failed.error.is_some_and(|error| error.starts_with("EP0812")));
    assert_eq!(files(&real.home).await["taken"], b"ours");
}

#[tokio::test(start_paused = true)]
async fn a_delivery_into_a_place_with_a_quota_is_counted_and_held_to_it() {
    let mut real = RealNode::new(95).await;
    let mut limited = mount("acme-other", "acme", "/other", "other");
    limited.quota = Some(Quota { size_bytes: Some(1_000), ..Quota::default() });
    real.world.put(&limited).await;
    real.node.directory.refresh().await.unwrap();
    // Its first use.
    let place = "/other".parse().unwrap();
    let grant = real.node.gate.internal(SITE, &name("acme"), "a client").await.unwrap();
    let session = Session::open(&real.node.vfs, grant).await.unwrap();
    assert_eq!(session.vfs().space(&place).await.unwrap().free_bytes, 1_000);
    let mut once = rule("r", vec![deliver("other", "{name}", Existing::Replace)]);
    once.retry.attempts = 1;
    real.world.put(&once).await;
    real.start();
    let event = real.upload("/first", &[1; 600]).await;
    assert_eq!(real.ended(&event, "r").await.state, JobState::Done);
    // What was delivered counts for those who see it there.
    assert_eq!(session.vfs().space(&place).await.unwrap().free_bytes, 400);
    let event = real.upload("/large", &[2; 500]).await;
    let failed = real.ended(&event, "r").await;
    let error = failed.error.unwrap_or_default();
    assert!(failed.state == JobState::Failed && error.contains("EP0534"), "{error}");
    assert_eq!(session.vfs().space(&place).await.unwrap().free_bytes, 400);
    let event = real.upload("/small", &[3; 300]).await;
    assert_eq!(real.ended(&event, "r").await.state, JobState::Done);
    assert_eq!(session.vfs().space(&place).await.unwrap().free_bytes, 100);
    session.close("done", 0, 0).await;
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_cannot_be_opened_is_tried_again() {
    let mut real = RealNode::new(94).await;
    // The service has no store of this name: it opens what the endpoint says, and there is none.
    let folder = real.world.bed.folder().join("not/there/yet");
    let target = entrepot_nouns::endpoint::DirectoryTarget::new(folder.display().to_string());
    let endpoint = entrepot_nouns::Endpoint {
        name: name("late"),
        target: entrepot_nouns::EndpointTarget::Directory(target),
        paused: false,
        at_once: None,
        users: Vec::new(),
        note: String::new(),
    };
    real.world.put(&endpoint).await;
    let mut late = rule("r", vec![deliver("late", "{name}", Existing::Refuse)]);
    late.retry = Retry { attempts: 9, first_delay_seconds: 1, longest_delay_seconds: 1 };
    real.world.put(&late).await;
    real.start();
    let event = real.upload("/a", b"abc").await;
    let job = real.world.job_of(&event, "r").await;
    real.world
        .until(async |world| {
            world.db.job(SITE, job).await.unwrap().is_some_and(|job| {
                job.state == JobState::Ready && job.error.is_some_and(|e| e.starts_with("EP0805"))
            })
        })
        .await;
    std::fs::create_dir_all(real.world.bed.folder().join("not/there")).unwrap();
    assert_eq!(real.ended(&event, "r").await.state, JobState::Done);
    assert_eq!(std::fs::read(real.world.bed.folder().join("not/there/yet/a")).unwrap(), b"abc");
}

/// Blocks of half a second each at the rate of the policy.
const SLOW_BLOCKS: usize = 64;

#[tokio::test(start_paused = true)]
async fn what_a_rule_moves_keeps_the_bandwidth_of_its_account_within_a_twentieth() {
    for (seed, direction) in [(97, "download"), (98, "upload")] {
        let mut real = RealNode::new(seed).await;
        let rate = 2 * BLOCK_BYTES;
        let policy = json!({"name": "slow", format!("{direction}_bytes_per_second"): rate});
        real.world.put::<Policy>(&serde_json::from_value(policy).unwrap()).await;
        let mut slow = Account::new(name("slow"), AccountType::Service);
        slow.policy = Some(name("slow"));
        real.world.put(&slow).await;
        real.mount("slow", "/", "home", Rights::all()).await;
        real.node.directory.refresh().await.unwrap();
        let (step, copied) = match direction {
            "download" => (deliver("partner", "{name}", Existing::Refuse), "a"),
            _ => (StepSpec::Copy(CopySpec { to: "/b".into(), existing: Existing::Refuse }), "b"),
        };
        let mut runs = rule("r", vec![step]);
        (runs.run_as, runs.condition) = (Some(name("slow")), Some("file.name == 'a'".to_owned()));
        real.world.put(&runs).await;
        real.start();
        let bytes = content(SLOW_BLOCKS, 7);
        let event = real.upload("/a", &bytes).await;
        let begun = real.world.env.elapsed();
        assert_eq!(real.ended(&event, "r").await.error, None);
        let taken = (real.world.env.elapsed() - begun).as_secs_f64();
        let wanted = bytes.len() as f64 / rate as f64;
        assert!((taken / wanted - 1.0).abs() < 0.05, "{direction}: {taken} s and not {wanted} s");
        let store = if direction == "upload" { &real.home } else { &real.out };
        assert!(files(store).await[copied] == bytes, "{direction}");
    }
}
