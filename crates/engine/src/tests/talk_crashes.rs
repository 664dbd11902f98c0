//! Steps that talk to other servers, on a node that dies at each point of their job. Real
//! connections take real time, so the clock of the runtime is not stopped here.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use entrepot_host::{Deployment, SAMPLE_MODEL, SampleHost};
use entrepot_nouns::{Fact, JobState, Model, Secret, StepState};
use parking_lot::Mutex;
use serde_json::{Value as Json, json};
use tokio_util::sync::CancellationToken;

use super::as2::partner::{Does, Partner};
use super::as2::{agreed, until};
use super::talk::{Server, clamd, doing, ended, endpoint, mail, post_office, scanner, web};
use super::world::{Cut, SITE, World, content, cut_everywhere, files, memory_store};
use crate::Pause;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n{\"id\":7}";
const KEYS: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// What there is when a job has ended.
#[derive(Clone, Debug, PartialEq)]
struct Left {
    state: JobState,
    error: Option<String>,
    /// The records of its steps.
    steps: Vec<(String, StepState, Option<Json>)>,
    /// What is told of it, with the paths and digests of files.
    events: Vec<String>,
    /// Files at the partner, and in the account's view.
    files: [BTreeMap<String, Vec<u8>>; 2],
}

/// A job whose node died once, or never.
struct Tried {
    died_at: Option<Pause>,
    /// The keys of the requests that its server got.
    keys: Vec<String>,
    left: Left,
}

/// The server of a step: how a world knows it, and which requests it got.
trait Told {
    async fn start(world: &mut World) -> Self;
    async fn keys(&self, world: &World) -> Vec<String>;
}

/// The job of a file that is handed to `step` and then delivered: once for each point at which its
/// node dies, and once, which comes last, undisturbed.
async fn everywhere<S: Told>(seed: u64, step: Json) -> Vec<Tried> {
    let mut all = Vec::new();
    cut_everywhere(async |cut| {
        let mut world = World::new(seed).await;
        let server = S::start(&mut world).await;
        all.push(tried(&mut world, cut, &step, &server).await);
    })
    .await;
    all
}

async fn tried(world: &mut World, cut: &Cut, step: &Json, server: &impl Told) -> Tried {
    let out = memory_store(&world.env);
    world.target("out", out.clone()).await;
    let deliver = json!({"name": "last", "deliver": {"endpoint": "out", "path": "{name}",
        "existing": "refuse"}});
    world.put(&doing(json!([step, deliver]))).await;
    let (died_at, pauses) = (Arc::<Mutex<Option<Pause>>>::default(), cut.pauses().unwrap());
    let dies = died_at.clone();
    world.options.pauses = Some(Arc::new(move |point| {
        let is_here = pauses(point);
        if is_here {
            *dies.lock() = Some(point);
        }
        is_here
    }));
    let event = world.upload("/in/order.x12", &content(0, 5)).await;
    let id = world.job_of(&event, "r").await;
    world.start();
    let is_over = |state| matches!(state, JobState::Done | JobState::Failed);
    until(world, async |world| {
        let job = world.db.job(SITE, id).await.unwrap();
        died_at.lock().is_some() || job.is_some_and(|job| is_over(job.state))
    })
    .await;
    let died_at = *died_at.lock();
    if died_at.is_some() {
        world.kill().await;
        world.env.advance(world.options.lease);
        world.start();
    }
    let job = ended(world, &event).await;
    until(world, async |world| world.engine().lag().records == 0).await;
    let mut records = world.db.job_steps(id).await.unwrap();
    // That an attempt began it stays known of a step that must not run twice.
    records.retain(|record| record.state != StepState::Begun);
    records.sort_by_key(|record| record.address.0 == "last");
    let mut facts: Vec<_> = world.all_events().await.into_iter().map(|it| it.fact).collect();
    facts.retain(|fact| fact.kind() != "procedure.called");
    let told = |fact: &Fact| {
        let file = fact.file().map(|file| (&file.path, &file.digests.blake3));
        format!("{} {file:?}", fact.kind())
    };
    let mut events: Vec<_> = facts.iter().map(told).collect();
    events.sort();
    let stores = [&out, &world.file_access.home];
    let left = Left {
        state: job.state,
        error: job.error,
        steps: records.into_iter().map(|it| (it.address.0, it.state, it.result)).collect(),
        events,
        files: [
            files(stores[0]).await.into_iter().collect(),
            files(stores[1]).await.into_iter().collect(),
        ],
    };
    let keys = server.keys(world).await;
    world.die().await;
    Tried { died_at, keys, left }
}

/// How many of the points, from the first on, come before the step is recorded.
fn in_step(all: &[Tried]) -> usize {
    all.iter().position(|it| it.died_at == Some(Pause::Advanced)).unwrap()
}

/// Wherever the node dies, the same is left. A request comes again where its answer was not
/// recorded, under its key.
fn is_same_everywhere(all: &[Tried], again_at: &[Pause], points: &[Pause]) {
    let (whole, own) = (all.last().unwrap(), in_step(all));
    let passed: Vec<_> = all[..own].iter().filter_map(|it| it.died_at).collect();
    assert_eq!(passed, points);
    assert_eq!((whole.died_at, whole.left.state), (None, JobState::Done), "{:?}", whole.left);
    assert_eq!(whole.left.steps.len(), 2, "{:?}", whole.left.steps);
    for (at, tried) in all.iter().enumerate() {
        let point = tried.died_at;
        assert_eq!(tried.left, whole.left, "{at}: {point:?}");
        let comes_again = at < own && point.is_some_and(|point| again_at.contains(&point));
        assert_eq!(tried.keys.len(), if comes_again { 2 } else { 1 }, "{at}: {point:?}");
        assert_eq!(tried.keys[0], whole.keys[0], "{at}: {point:?}");
        assert!(tried.keys.iter().all(|key| *key == tried.keys[0]), "{at}: {:?}", tried.keys);
    }
}

/// Wherever the node dies, the request comes once. Where it was begun and nobody knows how it
/// ended, `unknown` tells what is left instead.
fn is_begun_once(all: &[Tried], unknown: impl Fn(&mut Left)) {
    let (whole, own) = (all.last().unwrap(), in_step(all));
    assert!(own > 1 && whole.left.state == JobState::Done, "{own} {:?}", whole.left);
    for (at, tried) in all.iter().enumerate() {
        let mut wanted = whole.left.clone();
        if (1..own).contains(&at) {
            unknown(&mut wanted);
        }
        assert_eq!(tried.left, wanted, "{at}: {:?}", tried.died_at);
        assert_eq!(tried.keys, whole.keys, "{at}: {:?}", tried.died_at);
    }
}

/// The step is past, and nobody knows what came of it.
fn skipped(left: &mut Left) {
    let step = &mut left.steps[0];
    (step.1, step.2) = (StepState::Skipped, None);
}

/// The job waits for a person who knows what came of the step: nothing behind it was done.
fn asks(left: &mut Left) {
    let why = "EP0844: it was begun, and nobody knows how it ended: its node died or was stopped";
    (left.state, left.error) = (JobState::Failed, Some(why.to_owned()));
    let step = &mut left.steps[0];
    (step.1, step.2) = (StepState::Failed, None);
    left.steps.truncate(1);
    left.files[0].clear();
    left.events.retain(|told| told.starts_with("file.uploaded "));
    left.events.push("job.failed None".to_owned());
}

impl Told for Server {
    async fn start(world: &mut World) -> Server {
        let server = Server::start(&[OK]).await;
        endpoint(world, web(&server), "geheim").await;
        server
    }

    async fn keys(&self, _: &World) -> Vec<String> {
        self.got().iter().map(|got| got.field("idempotency-key").unwrap()).collect()
    }
}

#[tokio::test]
async fn a_request_comes_again_under_its_key() {
    let text = json!({"endpoint": "there", "body": {"text": "{name}"}, "answer": "json"});
    let all = everywhere::<Server>(3_001, json!({"name": "ask", "http": text})).await;
    is_same_everywhere(&all, &[Pause::Published], &[Pause::Claimed, Pause::Published]);
    let file = json!({"endpoint": "there", "body": "file"});
    let all = everywhere::<Server>(3_002, json!({"name": "ask", "http": file})).await;
    let points = [Pause::Claimed, Pause::SourceOpen, Pause::Published];
    is_same_everywhere(&all, &[Pause::Published], &points);
}

#[tokio::test]
async fn a_request_that_may_come_once_comes_once_and_a_person_is_asked_or_not() {
    let step =
        |after: &str| json!({"name": "ask", "http": {"endpoint": "there"}, "after_crash": after});
    is_begun_once(&everywhere::<Server>(3_003, step("skip")).await, skipped);
    is_begun_once(&everywhere::<Server>(3_004, step("ask")).await, asks);
}

/// A receiver of web hooks.
struct Hooked(Server);

impl Told for Hooked {
    async fn start(world: &mut World) -> Hooked {
        let server = Server::start(&[OK]).await;
        let url = format!("http://127.0.0.1:{}/hook", server.port);
        endpoint(world, json!({"webhook": {"url": url, "allow_private": true}}), KEYS).await;
        Hooked(server)
    }

    async fn keys(&self, _: &World) -> Vec<String> {
        self.0.got().iter().map(|got| got.field("webhook-id").unwrap()).collect()
    }
}

#[tokio::test]
async fn a_web_hook_comes_again_under_its_id_wherever_its_node_dies() {
    let step = json!({"name": "tell", "webhook": {"endpoint": "there"}});
    let all = everywhere::<Hooked>(3_011, step).await;
    is_same_everywhere(&all, &[Pause::Published], &[Pause::Claimed, Pause::Published]);
}

/// What a server of mail was told.
struct Posted(Arc<Mutex<String>>);

impl Told for Posted {
    async fn start(world: &mut World) -> Posted {
        let (port, told) = post_office(&[]).await;
        endpoint(world, mail(port), "").await;
        Posted(told)
    }

    async fn keys(&self, _: &World) -> Vec<String> {
        let told = self.0.lock();
        let ids = told.lines().filter(|line| line.starts_with("Message-ID: "));
        ids.map(str::to_owned).collect()
    }
}

#[tokio::test]
async fn a_message_comes_again_under_its_id_wherever_its_node_dies() {
    let step = json!({"name": "write", "mail": {"endpoint": "there", "to": ["a@example.com"],
        "subject": "s", "text": "t", "attach": "file"}});
    let all = everywhere::<Posted>(3_021, step).await;
    let points = [Pause::Claimed, Pause::SourceOpen, Pause::Published];
    is_same_everywhere(&all, &[Pause::Published], &points);
}

/// The files that a scanner was shown.
struct Shown(Arc<Mutex<Vec<Vec<u8>>>>);

impl Told for Shown {
    async fn start(world: &mut World) -> Shown {
        let (port, files) = clamd(b"stream: OK\0").await;
        scanner(world, format!("clamd://127.0.0.1:{port}")).await;
        Shown(files)
    }

    async fn keys(&self, _: &World) -> Vec<String> {
        let whole = |file: &Vec<u8>| *file == content(0, 5);
        self.0.lock().iter().map(|file| format!("whole: {}", whole(file))).collect()
    }
}

#[tokio::test]
async fn a_scanner_is_asked_again_and_gives_one_verdict() {
    let all =
        everywhere::<Shown>(3_031, json!({"name": "look", "scan": {"endpoint": "there"}})).await;
    let points = [Pause::Claimed, Pause::SourceOpen, Pause::Published];
    is_same_everywhere(&all, &[Pause::Published], &points);
    let whole = all.last().unwrap();
    assert_eq!(whole.keys, ["whole: true"]);
    assert_eq!(whole.left.steps[0].2, Some(json!({"verdict": "clean"})));
}

impl Told for Partner {
    async fn start(world: &mut World) -> Partner {
        let partner = Partner::start(&[Does::Receives]).await;
        agreed(world, partner.port, json!({})).await;
        partner
    }

    async fn keys(&self, _: &World) -> Vec<String> {
        self.messages().iter().map(|it| it.got.field("message-id").unwrap()).collect()
    }
}

#[tokio::test]
async fn a_message_of_as2_comes_again_under_its_id_wherever_its_node_dies() {
    let step = json!({"name": "send", "as2": {"endpoint": "globex", "subject": "File {name}"}});
    let all = everywhere::<Partner>(3_041, step).await;
    let points = [Pause::Claimed, Pause::SourceOpen, Pause::Published, Pause::Recorded];
    is_same_everywhere(&all, &[Pause::Published], &points);
}

/// A host application.
struct Library(CancellationToken);

impl Told for Library {
    async fn start(world: &mut World) -> Library {
        let host = SampleHost::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let address = host.address();
        let stop = CancellationToken::new();
        tokio::spawn(host.run(stop.clone()));
        let target = json!({"host": address.ip(), "port": address.port()});
        let model = json!({"name": "loans", "endpoint": "library", "definition": SAMPLE_MODEL});
        let model: Model = serde_json::from_value(model).unwrap();
        world.deployed.push(Deployment {
            site: SITE,
            model,
            target: serde_json::from_value(target).unwrap(),
            users: Some(Secret::new("user,password\nCLERK,SECRET\n")),
        });
        Library(stop)
    }

    async fn keys(&self, world: &World) -> Vec<String> {
        self.0.cancel();
        let calls = world.events("procedure.called").await;
        calls.iter().map(|call| format!("{:?}", call.job)).collect()
    }
}

/// The file is made once, of the rows of whichever call came to that.
#[tokio::test]
async fn a_procedure_is_called_again_and_its_file_is_made_once() {
    let step = json!({"name": "find", "procedure": {"model": "loans", "call": "find_loans",
        "in": {"reader": "NOVAK"}, "name": "{stem}.csv"}});
    let all = everywhere::<Library>(3_051, step).await;
    let made = [Pause::SourceOpen, Pause::BlockWritten, Pause::Written, Pause::Published];
    is_same_everywhere(&all, &made, &[&[Pause::Claimed], &made[..]].concat());
    let files = &all.last().unwrap().left.files[0];
    assert!(files.len() == 1 && files["order.csv"].starts_with(b"id,title,"), "{files:?}");
}
