//! Workloads against an SFTP server: uploads, downloads, small files, logins, idle sessions.

mod link;
mod mixed;
mod workloads;

use std::time::Duration;

use entrepot_model::{Env, Secret};
use entrepot_net::NetError;
use entrepot_sftp_proto::client::{Fault, NotBegun, OpError};
use serde::{Deserialize, Serialize};

use crate::histogram::Histogram;
use crate::process::{Spent, spent};
use crate::report::{Latency, Measure, Report, SizeGroup};
use crate::wan::{Relay, Wan};

pub use mixed::Mix;

/// What is measured, and against what.
#[derive(Clone, Debug)]
pub struct SftpBench {
    /// Host name or address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Login name.
    pub user: String,
    /// How to log in.
    pub login: Login,
    /// Remote folder to work in; it must exist.
    pub folder: String,
    /// Cipher, as OpenSSH names it.
    pub cipher: String,
    /// Bytes of a large file.
    pub size: u64,
    /// Bytes of a small file.
    pub small_size: u64,
    /// Small files, logins or idle sessions in all.
    pub count: u64,
    /// Streams, sessions or logins at a time.
    pub concurrency: usize,
    /// Process id of a local server, for its CPU time and memory.
    pub server_pid: Option<u32>,
    /// Rounds of each workload.
    pub rounds: u32,
    /// The mixed workload.
    pub mix: Mix,
    /// A line between us and the server; `None`: none but the real one.
    pub wan: Option<Wan>,
}

/// How to log in.
#[derive(Clone, Debug)]
pub enum Login {
    /// With a password.
    Password(Secret),
    /// With a private key, OpenSSH form.
    Key(Secret),
}

/// One kind of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// One large file up each stream.
    Upload,
    /// One large file down each stream.
    Download,
    /// Many small files up, one after another in each session.
    SmallFiles,
    /// Logins, each with a new connection.
    Handshakes,
    /// Logged in, SFTP begun, and silent.
    IdleSessions,
    /// Hundreds of uploads of many sizes at once, downloads beside them.
    Mixed,
}

impl Workload {
    /// What is measured where nothing is named: all but the mixed one, which takes long.
    pub const USUAL: [Workload; 5] = [
        Workload::Upload,
        Workload::Download,
        Workload::SmallFiles,
        Workload::Handshakes,
        Workload::IdleSessions,
    ];

    /// The word, lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            Workload::Upload => "upload",
            Workload::Download => "download",
            Workload::SmallFiles => "small-files",
            Workload::Handshakes => "handshakes",
            Workload::IdleSessions => "idle-sessions",
            Workload::Mixed => "mixed",
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Workload::Upload | Workload::Download | Workload::Mixed => "GiB",
            Workload::SmallFiles => "file",
            Workload::Handshakes => "login",
            Workload::IdleSessions => "session",
        }
    }
}

/// Why a measurement failed.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// Connecting, logging in or talking failed.
    #[error(transparent)]
    Net(#[from] NetError),
    /// The server refused a request.
    #[error("'{what}' failed: {error}")]
    Refused {
        /// What was asked.
        what: String,
        /// What it answered.
        error: OpError,
    },
    /// The server broke the protocol.
    #[error("the server broke the protocol: {0}")]
    Protocol(#[from] Fault),
    /// Too much was asked at once.
    #[error(transparent)]
    NotBegun(#[from] NotBegun),
    /// The connection ended in the middle.
    #[error("the server hung up")]
    HungUp,
    /// No answer came.
    #[error("the server did not answer within {0:?}")]
    Silent(Duration),
    /// A download has another length than the upload.
    #[error("{got} bytes came back of {sent}")]
    Length {
        /// Bytes uploaded.
        sent: u64,
        /// Bytes downloaded.
        got: u64,
    },
    /// No such process.
    #[error("there is no process {0} to watch")]
    NoProcess(u32),
}

/// What one round did.
struct Done {
    units: f64,
    bytes: Option<u64>,
    latency: Histogram,
    memory_from: Option<Spent>,
    memory_to: Option<Spent>,
    failures: Vec<String>,
    groups: Vec<SizeGroup>,
}

/// Runs each workload `rounds` times; `told` hears of each round when it is done.
///
/// # Errors
/// The first thing that went wrong ends the measurement: a rate with failures in it says nothing.
/// Only [`Workload::Mixed`] counts its failures.
pub async fn run(
    bench: &SftpBench,
    workloads: &[Workload],
    env: &Env,
    mut told: impl FnMut(&Measure),
) -> Result<Report, BenchError> {
    let (mut rounds, mut groups) = (Vec::new(), Vec::new());
    let mut bench = bench.clone();
    let relay = match bench.wan {
        Some(wan) => Some(Relay::start(&bench.host, bench.port, wan, env)?),
        None => None,
    };
    if let Some(relay) = &relay {
        (bench.host, bench.port) = (relay.address().ip().to_string(), relay.address().port());
    }
    let bench = &bench;
    for workload in workloads {
        let prepared = workloads::Prepared::new(bench, *workload, env).await?;
        for _ in 0..bench.rounds.max(1) {
            let before = watch(bench)?;
            let began = env.elapsed();
            let done = prepared.run().await?;
            let time = env.elapsed().saturating_sub(began);
            // A server may still be writing what it acknowledged: its CPU time counts.
            let after = watch(bench)?;
            let measure = measure(*workload, &done, time, before.zip(after));
            told(&measure);
            rounds.push(measure);
            groups.extend(done.groups);
        }
        prepared.clean().await?;
    }
    let on_the_way = relay.map(|relay| relay.peaks());
    Ok(Report { on_the_way, groups, ..Report::of(rounds) })
}

fn watch(bench: &SftpBench) -> Result<Option<Spent>, BenchError> {
    match bench.server_pid {
        None => Ok(None),
        Some(pid) => spent(pid).map(Some).ok_or(BenchError::NoProcess(pid)),
    }
}

fn measure(
    workload: Workload,
    done: &Done,
    time: Duration,
    spent: Option<(Spent, Spent)>,
) -> Measure {
    let seconds = time.as_secs_f64().max(1e-9);
    let cpu = spent.map(|(before, after)| after.cpu.saturating_sub(before.cpu).as_secs_f64());
    let grown = done.memory_from.zip(done.memory_to).map(|(before, after)| {
        after.memory_bytes.saturating_sub(before.memory_bytes) as f64 / done.units
    });
    Measure {
        workload: workload.as_str().to_owned(),
        unit: workload.unit().to_owned(),
        units: done.units,
        seconds,
        rate: done.units / seconds,
        megabytes_per_second: done.bytes.map(|bytes| bytes as f64 / 1e6 / seconds),
        latency_ms: Latency::of(&done.latency),
        server_cpu_seconds_per_unit: cpu.map(|cpu| cpu / done.units),
        client_cpu_seconds_per_unit: None,
        server_bytes_per_unit: grown,
        failures: done.failures.clone(),
        counts: None,
    }
}
