//! The workloads themselves.

use bytes::Bytes;
use entrepot_nouns::Env;
use entrepot_sftp_proto::OpenFlags;
use entrepot_sftp_proto::client::{Answer, Extent, NotBegun};
use tokio::task::JoinSet;

use super::bench::{SftpBench, Workload};
use super::error::BenchError;
use super::link::{Link, connect};
use super::mixed;
use crate::histogram::Histogram;
use crate::limits::{CONCURRENCY, IDLE_REST, PATTERN_BYTES};
use crate::process::{Spent, spent};
use crate::report::SizeGroup;

/// What one round did.
pub(super) struct Done {
    pub(super) units: f64,
    pub(super) bytes: Option<u64>,
    pub(super) latency: Histogram,
    pub(super) memory_from: Option<Spent>,
    pub(super) memory_to: Option<Spent>,
    pub(super) failures: Vec<String>,
    pub(super) groups: Vec<SizeGroup>,
}

/// A workload with its connections open and its files in place.
pub(super) struct Prepared {
    bench: SftpBench,
    workload: Workload,
    env: Env,
    links: Vec<Link>,
    pattern: Bytes,
}

impl Prepared {
    /// Opens what the workload needs; this is not measured.
    pub(super) async fn new(
        bench: &SftpBench,
        workload: Workload,
        env: &Env,
    ) -> Result<Self, BenchError> {
        let mut pattern = vec![0; PATTERN_BYTES];
        env.fill_random(&mut pattern);
        let mut prepared = Prepared {
            bench: bench.clone(),
            workload,
            env: env.clone(),
            links: Vec::new(),
            pattern: pattern.into(),
        };
        if matches!(workload, Workload::Upload | Workload::Download | Workload::SmallFiles) {
            for _ in 0..prepared.streams() {
                prepared.links.push(Link::open(bench, env).await?);
            }
        }
        match workload {
            Workload::Download => drop(prepared.upload().await?),
            Workload::Mixed => mixed::prepare(bench, env, &prepared.pattern).await?,
            _ => {}
        }
        Ok(prepared)
    }

    fn streams(&self) -> usize {
        self.bench.concurrency.clamp(1, CONCURRENCY)
    }

    fn large(&self, stream: usize) -> String {
        format!("{}/bench-large-{stream}", self.bench.folder)
    }

    fn small(&self, number: u64) -> String {
        format!("{}/bench-small-{number}", self.bench.folder)
    }

    /// One round, measured from its first request to its last answer.
    pub(super) async fn run(&self) -> Result<Done, BenchError> {
        match self.workload {
            Workload::Upload => self.upload().await,
            Workload::Download => self.download().await,
            Workload::SmallFiles => self.small_files().await,
            Workload::Handshakes => self.handshakes().await,
            Workload::IdleSessions => self.idle_sessions().await,
            Workload::Mixed => Ok(self.mixed().await),
        }
    }

    async fn mixed(&self) -> Done {
        let tried = mixed::run(&self.bench, &self.env, &self.pattern).await;
        let mut latency = Histogram::default();
        for one in tried.iter().filter(|one| one.result.is_ok()) {
            latency.record(one.time);
        }
        let bytes = tried.iter().map(mixed::Tried::bytes).sum::<u64>();
        let failures = tried.iter().filter_map(|one| one.result.as_ref().err());
        let failures = failures.map(ToString::to_string).collect();
        let groups = mixed::groups(&tried);
        Done { failures, groups, ..done(bytes as f64 / (1u64 << 30) as f64, Some(bytes), latency) }
    }

    async fn upload(&self) -> Result<Done, BenchError> {
        let streams = self.links.iter().enumerate().map(|(stream, link)| async move {
            let path = self.large(stream);
            let flags = OpenFlags::WRITE | OpenFlags::CREATE | OpenFlags::TRUNCATE;
            let handle = link.open_file(&path, flags).await?;
            link.put(&handle, &self.pattern, self.bench.size).await?;
            link.ask(&path, |client| client.close(&handle)).await.map(drop)
        });
        all(streams).await?;
        Ok(self.moved())
    }

    async fn download(&self) -> Result<Done, BenchError> {
        let streams = self.links.iter().enumerate().map(|(stream, link)| async move {
            let path = self.large(stream);
            let handle = link.open_file(&path, OpenFlags::READ).await?;
            let whole = Extent::whole(self.bench.size);
            let answer = link.ask(&path, |client| Ok::<_, NotBegun>(client.get(&handle, whole)));
            let Answer::Transferred { bytes } = answer.await? else {
                return Err(BenchError::HungUp);
            };
            if bytes != self.bench.size {
                return Err(BenchError::Length { sent: self.bench.size, got: bytes });
            }
            link.ask(&path, |client| client.close(&handle)).await.map(drop)
        });
        all(streams).await?;
        Ok(self.moved())
    }

    fn moved(&self) -> Done {
        let bytes = self.bench.size.saturating_mul(self.links.len() as u64);
        let units = bytes as f64 / (1u64 << 30) as f64;
        done(units, Some(bytes), Histogram::default())
    }

    async fn small_files(&self) -> Result<Done, BenchError> {
        let streams = self.links.len() as u64;
        let sessions = (0u64..).zip(&self.links).map(|(stream, link)| async move {
            let mut times = Histogram::default();
            for number in (stream..self.bench.count).step_by(usize::try_from(streams).unwrap_or(1))
            {
                let began = self.env.elapsed();
                let path = self.small(number);
                let flags = OpenFlags::WRITE | OpenFlags::CREATE | OpenFlags::TRUNCATE;
                let handle = link.open_file(&path, flags).await?;
                link.put(&handle, &self.pattern, self.bench.small_size).await?;
                link.ask(&path, |client| client.close(&handle)).await?;
                times.record(self.env.elapsed().saturating_sub(began));
            }
            Ok(times)
        });
        let mut latency = Histogram::default();
        for times in all(sessions).await? {
            latency.merge(&times);
        }
        let bytes = self.bench.count.saturating_mul(self.bench.small_size);
        Ok(done(self.bench.count as f64, Some(bytes), latency))
    }

    async fn handshakes(&self) -> Result<Done, BenchError> {
        let mut tasks = JoinSet::new();
        let streams = self.streams() as u64;
        for stream in 0..streams {
            let (bench, env) = (self.bench.clone(), self.env.clone());
            tasks.spawn(async move {
                let mut times = Histogram::default();
                for _ in (stream..bench.count).step_by(usize::try_from(streams).unwrap_or(1)) {
                    let began = env.elapsed();
                    let client = connect(&bench, &env).await?;
                    times.record(env.elapsed().saturating_sub(began));
                    drop(client);
                }
                Ok::<_, BenchError>(times)
            });
        }
        let mut latency = Histogram::default();
        while let Some(times) = tasks.join_next().await {
            latency.merge(&times.map_err(|_| BenchError::HungUp)??);
        }
        Ok(done(self.bench.count as f64, None, latency))
    }

    async fn idle_sessions(&self) -> Result<Done, BenchError> {
        let memory = || self.bench.server_pid.and_then(spent);
        // The first session pays for what all share.
        let warm = Link::open(&self.bench, &self.env).await?;
        let before = memory();
        let mut links = Vec::new();
        let mut latency = Histogram::default();
        for _ in 0..self.bench.count {
            let began = self.env.elapsed();
            links.push(Link::open(&self.bench, &self.env).await?);
            latency.record(self.env.elapsed().saturating_sub(began));
        }
        tokio::time::sleep(IDLE_REST).await;
        let mut done = done(self.bench.count as f64, None, latency);
        (done.memory_from, done.memory_to) = (before, memory());
        for link in links {
            link.close().await;
        }
        warm.close().await;
        Ok(done)
    }

    /// Removes the files and closes the connections.
    pub(super) async fn clean(self) -> Result<(), BenchError> {
        if self.workload == Workload::Mixed {
            return mixed::clean(&self.bench, &self.env).await;
        }
        if let Some(link) = self.links.first() {
            let paths: Vec<String> = match self.workload {
                Workload::Upload | Workload::Download => {
                    (0..self.links.len()).map(|stream| self.large(stream)).collect()
                }
                Workload::SmallFiles => (0..self.bench.count).map(|n| self.small(n)).collect(),
                _ => Vec::new(),
            };
            for path in paths {
                link.ask(&path, |client| client.remove(&path)).await?;
            }
        }
        for link in self.links {
            link.close().await;
        }
        Ok(())
    }
}

fn done(units: f64, bytes: Option<u64>, latency: Histogram) -> Done {
    let (failures, groups) = (Vec::new(), Vec::new());
    Done { units, bytes, latency, memory_from: None, memory_to: None, failures, groups }
}

/// Runs all to their end, side by side in one task; the first failure is the result.
async fn all<T>(
    futures: impl Iterator<Item = impl Future<Output = Result<T, BenchError>>>,
) -> Result<Vec<T>, BenchError> {
    futures_util::future::try_join_all(futures).await
}
