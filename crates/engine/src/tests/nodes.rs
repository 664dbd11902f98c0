//! Two nodes over one database and the same stores: one queue, every job once.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use entrepot_db::{Drained, TransferFilter};
use entrepot_nouns::rule::{Existing, Retry};
use entrepot_nouns::{JobId, JobState};
use entrepot_storage::AnyStore;
use entrepot_storage::fault::{Fault, FaultStore, SimDisk, SimStore, StoreCall};
use parking_lot::Mutex;

use super::world::{SITE, World, content, deliver, files, next_start, rule};
use crate::PoolSizes;

/// How many files arrive, half of them at each node.
const FILES: usize = 60;
/// So long that no heartbeat comes in between: a lease ends when a test says so.
const LEASE: Duration = Duration::from_secs(100_000);

/// The call of a kind at which one of them stands still.
const MIDDLE: u64 = 5;

/// How often such a call was made.
fn calls(way: &FaultStore, kind: StoreCall) -> usize {
    way.log().iter().filter(|call| **call == kind).count()
}

/// Two nodes, each with the directory to which all files are delivered opened by itself, as two
/// processes have it.
struct Pair {
    nodes: [World; 2],
    ways: [FaultStore; 2],
    /// The same disk, as a third party sees it.
    store: AnyStore,
    wanted: HashMap<String, Vec<u8>>,
    jobs: Vec<JobId>,
}

impl Pair {
    /// With one attempt for each job: a failure is the end of it, and none may be made up.
    async fn new(seed: u64, existing: Existing) -> Pair {
        Pair::with_attempts(seed, existing, 1).await
    }

    async fn with_attempts(seed: u64, existing: Existing, attempts: u32) -> Pair {
        let mut first = World::new(seed).await;
        first.options.lease = LEASE;
        let disk = SimDisk::new(&first.env);
        let open = || SimStore::open(&disk, &first.env).unwrap();
        let (ways, store) = ([FaultStore::new(open()), FaultStore::new(open())], open());
        store.make_directory(&"to".parse().unwrap()).await.unwrap();
        first.target("partner", Arc::new(ways[0].clone())).await;
        let mut rule = rule("r", vec![deliver("partner", "to/{name}", existing)]);
        rule.retry = Retry { attempts, first_delay_seconds: 1, longest_delay_seconds: 1 };
        first.put(&rule).await;
        let mut second = first.beside("n2").await;
        let way: AnyStore = Arc::new(ways[1].clone());
        second.file_access.targets =
            Arc::new(Mutex::new(HashMap::from([("partner".to_owned(), way)])));
        Pair { nodes: [first, second], ways, store, wanted: HashMap::new(), jobs: Vec::new() }
    }

    /// `count` files arrive, at one node and the other in turn.
    async fn arrive(&mut self, count: usize) {
        for number in 0..count {
            let bytes = content(number % 3, number as u8);
            let node = &mut self.nodes[number % 2];
            let event = node.upload(&format!("/in/{number}"), &bytes).await;
            self.jobs.push(node.job_of(&event, "r").await);
            self.wanted.insert(format!("to/{number}"), bytes);
        }
    }

    fn published(&self) -> usize {
        let publishes =
            |way: &FaultStore| way.log().iter().filter(|call| **call == StoreCall::Publish).count();
        self.ways.iter().map(publishes).sum()
    }

    /// One file, one event and one end of each job, whoever did it.
    async fn all_done_once(&self, what: &str) {
        let [first, second] = &self.nodes;
        for job in &self.jobs {
            let done = first.ended(*job).await;
            assert_eq!(done.state, JobState::Done, "{what}: {:?}", done.error);
        }
        for node in [first, second] {
            node.projected().await;
        }
        let found = files(&self.store).await;
        assert_eq!(found.len(), self.wanted.len(), "{what}");
        for (name, bytes) in &self.wanted {
            assert_eq!(&found[name], bytes, "{what}: '{name}' is not whole");
        }
        assert!(self.store.staged().await.unwrap().is_empty(), "{what}: litter at the target");
        let count = self.jobs.len();
        let mut told: Vec<_> =
            first.events("file.delivered").await.iter().map(|event| event.job.unwrap()).collect();
        let mut jobs = self.jobs.clone();
        told.sort();
        jobs.sort();
        assert_eq!(told, jobs, "{what}: told twice, or not at all");
        assert_eq!(first.events("job.done").await.len(), count, "{what}");
        assert_eq!(first.events("job.failed").await, [], "{what}");
        assert_eq!(first.events("job.retrying").await, [], "{what}");
        let transfers = first.db.transfers(SITE, &TransferFilter::default()).await.unwrap();
        let delivered = transfers.iter().filter(|transfer| transfer.job.is_some()).count();
        assert_eq!(delivered, count, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn two_nodes_share_a_queue_and_every_job_is_done_once() {
    let mut pair = Pair::new(81, Existing::Refuse).await;
    pair.arrive(FILES).await;
    pair.nodes.iter_mut().for_each(World::start);
    pair.all_done_once("undisturbed").await;
    for job in &pair.jobs {
        let done = pair.nodes[0].db.job(SITE, *job).await.unwrap().unwrap();
        assert_eq!((done.attempts, done.epoch), (1, 1), "given to two");
    }
    let shares = pair.nodes.each_ref().map(|node| node.count(|meters| &meters.jobs_done));
    assert_eq!(shares.iter().sum::<u64>(), FILES as u64);
    assert!(shares.iter().all(|share| *share > 0), "one node did nothing: {shares:?}");
    assert_eq!(pair.published(), FILES);
}

#[tokio::test(start_paused = true)]
async fn what_a_node_does_after_its_lease_ended_changes_nothing() {
    for existing in [Existing::Replace, Existing::Refuse] {
        // Before the lease is confirmed for the publish, and after.
        for at in [StoreCall::Stage, StoreCall::Write, StoreCall::Sync, StoreCall::Publish] {
            one_node_is_held(existing, at).await;
        }
    }
}

/// The first node stands still in a call, its lease ends, the second does all there is; then the
/// first goes on.
async fn one_node_is_held(existing: Existing, at: StoreCall) {
    let what = format!("{existing:?}, held in {at:?}");
    let mut pair = Pair::new(82, existing).await;
    // In the middle of the queue, and with no other job in hand.
    pair.nodes[0].options.pools = PoolSizes::each(1);
    pair.ways[0].fail(Some(at), MIDDLE, Fault::Delay(LEASE / 4));
    pair.arrive(FILES).await;
    pair.nodes[0].start();
    let way = pair.ways[0].clone();
    pair.nodes[0].until(async |_| calls(&way, at) as u64 == MIDDLE).await;
    let held_at = tokio::time::Instant::now();
    pair.nodes[0].env.advance(LEASE);
    pair.nodes[1].start();
    for job in &pair.jobs {
        let done = pair.nodes[1].ended(*job).await;
        assert_eq!(done.state, JobState::Done, "{what}: {:?}", done.error);
    }
    assert_eq!(pair.nodes[0].count(|meters| &meters.jobs_released), 0, "{what}: it is not held");
    let shares = pair.nodes.each_ref().map(|node| node.count(|meters| &meters.jobs_done));
    assert!(shares[0] > 0 && shares[1] > FILES as u64 / 2, "{what}: {shares:?}");
    let published = pair.published();
    assert!(held_at.elapsed() < LEASE / 4, "{what}: it went on before");

    tokio::time::advance(LEASE / 4).await;
    let first = &pair.nodes[0];
    first.until(async |first| first.count(|meters| &meters.jobs_released) == 1).await;
    assert_eq!(pair.published(), published, "{what}: published without a lease");
    pair.all_done_once(&what).await;
}

#[tokio::test(start_paused = true)]
async fn a_late_publish_never_shows_what_another_node_is_still_writing() {
    // The late failure would be the last one, or be tried again: neither is told.
    for (existing, attempts) in [(Existing::Replace, 1), (Existing::Refuse, 2)] {
        let mut pair = Pair::with_attempts(83, existing, attempts).await;
        // The first node stands still in its publish and has nobody else to take the job again,
        // the second one in the middle of writing.
        pair.nodes[0].options.pools = PoolSizes::each(1);
        pair.ways[0].fail(Some(StoreCall::Publish), 1, Fault::Delay(LEASE / 8));
        pair.ways[1].fail(Some(StoreCall::Write), 3, Fault::Delay(LEASE / 4));
        let bytes = content(4, 1);
        let event = pair.nodes[0].upload("/in/0", &bytes).await;
        pair.jobs.push(pair.nodes[0].job_of(&event, "r").await);
        pair.wanted.insert("to/0".to_owned(), bytes.clone());
        pair.nodes[0].start();
        let ways = pair.ways.clone();
        pair.nodes[0].until(async |_| ways[0].log().contains(&StoreCall::Publish)).await;
        pair.nodes[0].env.advance(LEASE);
        pair.nodes[1].start();
        pair.nodes[1].until(async |_| calls(&ways[1], StoreCall::Write) == 3).await;

        tokio::time::advance(LEASE / 8).await;
        let first = &pair.nodes[0];
        first.until(async |first| first.count(|meters| &meters.jobs_released) == 1).await;
        for (name, found) in files(&pair.store).await {
            assert!(found == bytes, "{existing:?}: '{name}' is visible and not whole");
        }
        assert_eq!(first.events("job.failed").await, [], "{existing:?}");
        tokio::time::advance(LEASE / 4).await;
        pair.all_done_once(&format!("{existing:?}")).await;
    }
}

/// Long before its lease ends, and only when nothing was heard of it for four seconds.
#[tokio::test(start_paused = true)]
async fn the_jobs_of_a_node_that_died_go_on_elsewhere() {
    let mut pair = Pair::new(84, Existing::Refuse).await;
    pair.nodes[0].options.pools = PoolSizes::each(1);
    pair.ways[0].fail(Some(StoreCall::Write), 1, Fault::Delay(LEASE));
    pair.nodes[0].start();
    let bytes = content(2, 1);
    let event = pair.nodes[0].upload("/in/0", &bytes).await;
    let job = pair.nodes[0].job_of(&event, "r").await;
    pair.jobs.push(job);
    pair.wanted.insert("to/0".to_owned(), bytes);
    let way = pair.ways[0].clone();
    pair.nodes[0].until(async |_| calls(&way, StoreCall::Write) == 1).await;
    pair.nodes[1].start();
    // Long enough for the second node to judge: the first one lives, and keeps its job.
    for _ in 0..200 {
        pair.nodes[1].turn().await;
    }
    let held = pair.nodes[1].db.job(SITE, job).await.unwrap().unwrap();
    assert_eq!((held.state, held.epoch), (JobState::Running, 1), "taken from a node that lives");

    let died = tokio::time::Instant::now();
    pair.nodes[0].die().await;
    let done = pair.nodes[1].ended(job).await;
    assert_eq!((done.state, done.epoch), (JobState::Done, 2), "{:?}", done.error);
    // A heartbeat each three seconds on SQLite, and four of silence.
    assert!(died.elapsed() < Duration::from_secs(9), "{:?}", died.elapsed());
    let found = files(&pair.store).await;
    assert_eq!(found.len(), 1);
    pair.nodes[1].projected().await;
    assert_eq!(pair.nodes[1].events("file.delivered").await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_copy_of_a_node_ends_the_earlier_process() {
    let mut world = World::new(85).await;
    world.start();
    let superseded = world.engine().superseded();
    for _ in 0..100 {
        world.turn().await;
    }
    assert!(!superseded.is_cancelled());
    next_start(&world.db, &world.recorder).await;
    world.until(async |_| superseded.is_cancelled()).await;
}

#[tokio::test(start_paused = true)]
async fn a_drained_node_begins_no_job() {
    let mut pair = Pair::new(86, Existing::Refuse).await;
    let name = pair.nodes[0].recorder.node().clone();
    let drain = async |world: &World, drained| {
        let mut tx = world.db.begin().await.unwrap();
        assert!(tx.set_drained(&name, drained).await.unwrap());
        tx.commit().await.unwrap();
    };
    drain(&pair.nodes[0], Drained::Yes).await;
    pair.nodes[0].start();
    let mut drained = pair.nodes[0].engine().drained();
    drained.changed().await;
    assert!(drained.is_drained());
    pair.arrive(2).await;
    for _ in 0..50 {
        pair.nodes[0].turn().await;
    }
    let counts = pair.nodes[0].db.job_counts().await.unwrap();
    assert_eq!((counts.ready, counts.running), (1, 0), "only its own journal is projected");
    drain(&pair.nodes[0], Drained::No).await;
    pair.nodes[1].start();
    pair.all_done_once("undrained").await;
    drained.changed().await;
    assert!(!drained.is_drained());
}
