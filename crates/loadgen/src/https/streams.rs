//! The streams of a workload, side by side.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use entrepot_nouns::Env;
use futures_util::StreamExt as _;
use tokio::task::JoinSet;

use super::bench::{HttpsBench, Workload};
use super::connection::{Dialler, Line};
use super::crowd;
use super::done::Done;
use super::error::BenchError;
use super::stream::{Shared, Stream};
use crate::limits::{CONCURRENCY, CONNECTING, PATTERN_BYTES};
use crate::tally::Tally;

/// A workload with its streams connected and its files in place.
pub(super) struct Prepared {
    shared: Arc<Shared>,
    streams: Vec<Stream>,
    /// The file that downloads read.
    source: Option<String>,
    /// What went wrong before the first round.
    trouble: Vec<String>,
}

impl Prepared {
    /// Connects and stores what will be read; this is not measured. Over `relay`, if there is one.
    pub(super) async fn new(
        bench: &HttpsBench,
        workload: Workload,
        env: &Env,
        relay: Option<SocketAddr>,
    ) -> Result<Prepared, BenchError> {
        let mut pattern = vec![0; PATTERN_BYTES];
        env.fill_random(&mut pattern);
        let mut dialler = Dialler::new(&bench.target, bench.version, bench.tls_version)?;
        if let Some(relay) = relay {
            dialler.by_way_of(relay);
        }
        let (bench, env, pattern) = (bench.clone(), env.clone(), Bytes::from(pattern));
        let number = match workload {
            Workload::Users => bench.crowd.users,
            _ => bench.concurrency,
        };
        let number = number.clamp(1, CONCURRENCY);
        let lines: Vec<Arc<Line>> =
            (0..bench.connections(workload, number)).map(|_| Arc::default()).collect();
        let shared = Arc::new(Shared { bench, workload, env, pattern, dialler });
        let streams = (1..=number).zip(lines.iter().cycle());
        let streams = streams.map(|(number, line)| Stream::new(&shared, number, Arc::clone(line)));
        let streams = streams.collect::<Result<_, _>>()?;
        let mut prepared = Prepared { shared, streams, source: None, trouble: Vec::new() };
        // Users come when it is their time.
        if workload != Workload::Users
            && let Err(error) = prepared.set_up().await
        {
            prepared.trouble.push(error.to_string());
        }
        Ok(prepared)
    }

    async fn set_up(&mut self) -> Result<(), BenchError> {
        let Some((first, others)) = self.streams.split_first_mut() else { return Ok(()) };
        let shared = &self.shared;
        // If the first gets nowhere, the others need not wait for the same.
        shared.in_time(0, async { first.open().await.map(drop) }).await?;
        if shared.workload.reads() {
            let (source, size) = (shared.source(), shared.size());
            self.source = Some(source.clone());
            shared.in_time(size, first.put(&source, size)).await?;
        }
        let opening = others
            .iter_mut()
            .map(|stream| shared.in_time(0, async { stream.open().await.map(drop) }));
        let opened = futures_util::stream::iter(opening).buffer_unordered(CONNECTING);
        let opened: Vec<Result<(), BenchError>> = opened.collect().await;
        opened.into_iter().collect()
    }

    /// One round of all streams.
    pub(super) async fn run(&mut self) -> Done {
        let mut tally = Tally::default();
        for sentence in std::mem::take(&mut self.trouble) {
            tally.tell(sentence);
        }
        let mut tests = Vec::new();
        if self.shared.workload == Workload::Users {
            let (streams, done) = crowd::run(std::mem::take(&mut self.streams)).await;
            self.streams = streams;
            tally.add(done.tally);
            tests = done.tests;
        } else {
            let mut working = JoinSet::new();
            for stream in self.streams.drain(..) {
                working.spawn(stream.work());
            }
            while let Some(worked) = working.join_next().await {
                match worked {
                    Ok((stream, worked)) => {
                        tally.add(worked);
                        self.streams.push(stream);
                    }
                    Err(error) => tally.tell(error.to_string()),
                }
            }
        }
        self.shared.dialler.count_handshakes(&mut tally.counts);
        Done { tally, tests }
    }

    /// Removes what the streams stored, so that the next round makes it anew.
    pub(super) async fn remove_uploads(&mut self) {
        let mut removing = JoinSet::new();
        for stream in self.streams.drain(..) {
            removing.spawn(stream.remove_uploads());
        }
        while let Some(stream) = removing.join_next().await {
            self.streams.extend(stream);
        }
    }

    /// Removes the file that was read; the connections end with the streams.
    pub(super) async fn close(mut self) {
        if let (Some(source), Some(stream)) = (self.source.take(), self.streams.first_mut()) {
            stream.stored.push(source);
        }
        self.remove_uploads().await;
    }
}
