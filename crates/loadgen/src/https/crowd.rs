//! Users who come one after another, sign in, and then look at their folder or upload, with time
//! to think between; each of them over a connection of its own.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;

use super::bench::Crowd;
use super::done::{Done, Tests};
use super::error::BenchError;
use super::stream::{Shared, Stream};
use crate::histogram::Histogram;
use crate::limits::CROWD_MB;
use crate::tally::Tally;

/// What a user does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Test {
    /// The first request, over a new connection: the listing of the folder.
    SignIn,
    List,
    Upload {
        megabytes: u64,
    },
}

struct Tested {
    test: Test,
    result: Result<Duration, BenchError>,
    bytes: u64,
}

impl Test {
    fn name(self, crowd: &Crowd) -> String {
        match self {
            Test::SignIn => "sign in".to_owned(),
            Test::List => "list the folder".to_owned(),
            Test::Upload { megabytes } if crowd.scale > 1 => {
                format!("upload {megabytes} MB / {}", crowd.scale)
            }
            Test::Upload { megabytes } => format!("upload {megabytes} MB"),
        }
    }

    fn bytes(self, crowd: &Crowd) -> u64 {
        match self {
            Test::Upload { megabytes } => megabytes * 1_000_000 / crowd.scale.max(1),
            Test::SignIn | Test::List => 0,
        }
    }
}

/// All users, from the first who comes to the last who is done.
pub(super) async fn run(streams: Vec<Stream>) -> (Vec<Stream>, Done) {
    let (mut kept, mut tally) = (Vec::new(), Tally::default());
    let mut working = JoinSet::new();
    let mut crowd = None;
    for stream in streams {
        crowd = Some(stream.shared.bench.crowd);
        working.spawn(visit(stream));
    }
    let mut all = Vec::new();
    while let Some(visited) = working.join_next().await {
        match visited {
            Ok((stream, tested)) => {
                let tests = stream.shared.bench.crowd.tests + 1;
                tally.counts.not_tried += tests.saturating_sub(tested.len() as u64);
                all.extend(tested);
                kept.push(stream);
            }
            Err(error) => tally.tell(error.to_string()),
        }
    }
    for tested in &all {
        match &tested.result {
            Ok(time) => tally.done(*time, tested.bytes),
            Err(error) => {
                match error {
                    BenchError::Hung(_) => tally.counts.hung += 1,
                    _ => tally.counts.failed += 1,
                }
                tally.tell(error.to_string());
            }
        }
    }
    let tests = crowd.map(|crowd| tests(&all, &crowd)).unwrap_or_default();
    (kept, Done { tally, tests })
}

/// A row for each kind of test that was begun.
fn tests(all: &[Tested], crowd: &Crowd) -> Vec<Tests> {
    let uploads = CROWD_MB.map(|megabytes| Test::Upload { megabytes });
    let mut rows = Vec::new();
    for test in [Test::SignIn, Test::List].into_iter().chain(uploads) {
        let (mut passed, mut failed) = (Histogram::default(), 0);
        for tested in all.iter().filter(|tested| tested.test == test) {
            match tested.result {
                Ok(time) => passed.record(time),
                Err(_) => failed += 1,
            }
        }
        if passed.count() + failed > 0 {
            rows.push(Tests { name: test.name(crowd), passed, failed });
        }
    }
    rows
}

/// One user, from its coming to its last test. One who cannot sign in leaves.
async fn visit(mut stream: Stream) -> (Stream, Vec<Tested>) {
    let shared = Arc::clone(&stream.shared);
    let crowd = shared.bench.crowd;
    let before = stream.number.saturating_sub(1) as f64 / crowd.users.max(1) as f64;
    sleep(crowd.ramp.mul_f64(before.min(1.0))).await;
    let first = stream.test(Test::SignIn).await;
    let signed_in = first.result.is_ok();
    let mut tested = vec![first];
    for round in 0..if signed_in { crowd.tests } else { 0 } {
        sleep(think_time(&shared)).await;
        let test = if stream.number <= crowd.uploading {
            let at = (stream.number as u64).wrapping_add(round) % CROWD_MB.len() as u64;
            let size = CROWD_MB.get(usize::try_from(at).unwrap_or(0));
            Test::Upload { megabytes: size.copied().unwrap_or_default() }
        } else {
            Test::List
        };
        tested.push(stream.test(test).await);
        // It has what it wanted to show, and nobody's disk fills up.
        stream = stream.remove_uploads().await;
    }
    stream.let_go();
    (stream, tested)
}

/// Between half of the mean and one and a half of it.
fn think_time(shared: &Shared) -> Duration {
    let mut random = [0; 4];
    shared.env.fill_random(&mut random);
    let part = f64::from(u32::from_le_bytes(random)) / f64::from(u32::MAX);
    shared.bench.crowd.think_time.mul_f64(0.5 + part)
}

impl Stream {
    async fn test(&mut self, test: Test) -> Tested {
        let shared = Arc::clone(&self.shared);
        let bytes = test.bytes(&shared.bench.crowd);
        let began = shared.env.elapsed();
        let result = shared.in_time(bytes, self.try_test(test, bytes)).await;
        let time = shared.env.elapsed().saturating_sub(began);
        if result.is_err() {
            self.let_go();
        }
        Tested { test, result: result.map(|()| time), bytes }
    }

    async fn try_test(&mut self, test: Test, bytes: u64) -> Result<(), BenchError> {
        match test {
            Test::SignIn | Test::List => self.get(&self.address("")).await.map(drop),
            Test::Upload { .. } => {
                let path = self.address(&format!("bench-user-{}", self.number));
                self.stored.push(path.clone());
                self.put(&path, bytes).await
            }
        }
    }
}
