//! Workloads against an FTP server: logins, small files down and up, one large file, in clear and
//! under TLS. A failure is counted and does not end the measurement, and nothing waits for ever.

mod link;
mod users;

use std::path::PathBuf;
use std::time::Duration;

use entrepot_ftp_proto::client::{Fault, NotBegun, OpError};
use entrepot_model::{Env, Secret};
use entrepot_net::NetError;
use entrepot_net::tls::TlsVersion;

use crate::histogram::Histogram;
use crate::process::{spent, spent_by_group};
use crate::report::{Counts, Latency, Measure, Report};

use users::Prepared;

/// What is measured, and against what.
#[derive(Clone, Debug)]
pub struct FtpBench {
    /// Host name or address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Login name.
    pub user: String,
    /// Its password.
    pub password: Secret,
    /// Remote folder to work in; it must exist. Empty: where the login leads.
    pub folder: String,
    /// When TLS begins. Then data is under TLS too.
    pub tls: Tls,
    /// The only version of TLS; none: 1.3, but 1.2 for [`Workload::Stor`], because few servers
    /// give a ticket for each of many uploads, and a ticket of TLS 1.3 is used once.
    pub tls_version: Option<TlsVersion>,
    /// Bytes of the large file.
    pub size: u64,
    /// Bytes of a small file.
    pub small_size: u64,
    /// Logins or small transfers of each user.
    pub count: u64,
    /// Users at a time.
    pub concurrency: usize,
    /// What a login or a small transfer may take; a large file gets more, by its size.
    pub deadline: Duration,
    /// Process id of a local server, for its CPU time.
    pub server_pid: Option<u32>,
    /// Folder of its control group, where it has one of its own: finer than the process tree.
    pub server_group: Option<PathBuf>,
    /// Rounds of each workload.
    pub rounds: u32,
}

/// When TLS begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tls {
    /// Never.
    #[default]
    Off,
    /// By AUTH TLS.
    Explicit,
    /// With the connection.
    Implicit,
}

/// One kind of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Connecting, USER, PASS, QUIT and its answer, again and again.
    Logins,
    /// The same small file down, by each user.
    Retr,
    /// New small files up, by each user.
    Stor,
    /// Both in turn.
    Mixed,
    /// As `Retr`, of the file `bench-exec`: for servers that run a command after each transfer of
    /// that name and let the client wait for it.
    Exec,
    /// One large file down, by one user.
    Download,
    /// One large file up, by one user.
    Upload,
}

impl FtpBench {
    /// The version of TLS that a step runs under.
    fn version_of(&self, step: Step) -> Option<TlsVersion> {
        let usual = match step.workload {
            Workload::Stor => TlsVersion::Tls12,
            _ => TlsVersion::Tls13,
        };
        (self.tls != Tls::Off).then(|| self.tls_version.unwrap_or(usual))
    }
}

/// A workload and who connects for data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The kind of load.
    pub workload: Workload,
    /// The server connects (PORT, EPRT).
    pub active: bool,
}

impl Step {
    /// What is measured where nothing is named.
    pub const USUAL: [Step; 7] = [
        Step { workload: Workload::Logins, active: false },
        Step { workload: Workload::Retr, active: false },
        Step { workload: Workload::Stor, active: false },
        Step { workload: Workload::Retr, active: true },
        Step { workload: Workload::Stor, active: true },
        Step { workload: Workload::Download, active: false },
        Step { workload: Workload::Upload, active: false },
    ];

    /// Its name in reports, such as `retr-active-tls`; `tls`: the version, if it runs under TLS.
    pub fn name(self, tls: Option<TlsVersion>) -> String {
        let mut name = self.workload.as_str().to_owned();
        if self.active {
            name.push_str("-active");
        }
        name.push_str(match tls {
            None => "",
            Some(TlsVersion::Tls12) => "-tls12",
            Some(TlsVersion::Tls13) => "-tls",
        });
        name
    }
}

impl Workload {
    /// The word, lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            Workload::Logins => "logins",
            Workload::Retr => "retr",
            Workload::Stor => "stor",
            Workload::Mixed => "mixed",
            Workload::Exec => "exec",
            Workload::Download => "download",
            Workload::Upload => "upload",
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Workload::Logins => "login",
            Workload::Retr | Workload::Stor | Workload::Mixed | Workload::Exec => "file",
            Workload::Download | Workload::Upload => "GiB",
        }
    }

    /// Whether a file must be there.
    fn reads(self) -> bool {
        !matches!(self, Workload::Logins | Workload::Stor | Workload::Upload)
    }

    fn is_large(self) -> bool {
        matches!(self, Workload::Download | Workload::Upload)
    }
}

/// Why an operation failed, or the measurement.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// Connecting failed.
    #[error(transparent)]
    Net(#[from] NetError),
    /// A connection failed.
    #[error("the connection failed: {0}")]
    Io(#[from] std::io::Error),
    /// The server refused.
    #[error(transparent)]
    Refused(#[from] OpError),
    /// The server broke the protocol, or closed with 421.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// An operation cannot begin.
    #[error(transparent)]
    NotBegun(#[from] NotBegun),
    /// The control connection ended in the middle.
    #[error("the server hung up")]
    HungUp,
    /// A download has another length than the file.
    #[error("{got} bytes came of {wanted}")]
    Length {
        /// Bytes of the file.
        wanted: u64,
        /// Bytes that came.
        got: u64,
    },
    /// Not over in time.
    #[error("not over within {0:?}")]
    Hung(Duration),
    /// No such process.
    #[error("there is no process {0} to watch")]
    NoProcess(u32),
    /// No such control group.
    #[error("'{}' is no control group that counts CPU time", .0.display())]
    NoGroup(PathBuf),
}

/// What one user, or a round, did.
#[derive(Default)]
struct Tally {
    counts: Counts,
    latency: Histogram,
    bytes: u64,
    failures: Vec<String>,
}

impl Tally {
    fn add(&mut self, other: Tally) {
        self.counts.add(&other.counts);
        self.latency.merge(&other.latency);
        self.bytes += other.bytes;
        for failure in other.failures {
            self.tell(failure);
        }
    }

    /// Each sentence once, and not many.
    fn tell(&mut self, failure: String) {
        let is_new = !self.failures.contains(&failure);
        if is_new && self.failures.len() < crate::limits::FAILURES_TOLD {
            self.failures.push(failure);
        }
    }
}

/// Runs each step `rounds` times; `told` hears of each round when it is done.
///
/// # Errors
/// The process to watch does not exist. What the server does wrong is counted.
pub async fn run(
    bench: &FtpBench,
    steps: &[Step],
    env: &Env,
    mut told: impl FnMut(&Measure),
) -> Result<Report, BenchError> {
    let mut rounds = Vec::new();
    for step in steps {
        let mut prepared = Prepared::new(bench, *step, env).await?;
        for _ in 0..bench.rounds.max(1) {
            let before = (watch(bench)?, own());
            let began = env.elapsed();
            let tally = prepared.run().await;
            let time = env.elapsed().saturating_sub(began);
            // A server may still be writing what it acknowledged: its CPU time counts.
            let after = (watch(bench)?, own());
            let server = difference(before.0.zip(after.0));
            let client = difference(before.1.zip(after.1));
            let mut measure = measure(*step, bench, &tally, time);
            let each = |spent: Option<f64>| spent.filter(|_| measure.units > 0.0);
            measure.server_cpu_seconds_per_unit = each(server).map(|cpu| cpu / measure.units);
            measure.client_cpu_seconds_per_unit = each(client).map(|cpu| cpu / measure.units);
            told(&measure);
            rounds.push(measure);
            prepared.remove_uploads().await;
        }
        prepared.close().await;
    }
    Ok(Report::of(rounds))
}

/// CPU time of the server so far.
fn watch(bench: &FtpBench) -> Result<Option<Duration>, BenchError> {
    match (&bench.server_group, bench.server_pid) {
        (Some(folder), _) => {
            let no_group = || BenchError::NoGroup(folder.clone());
            spent_by_group(folder).map(Some).ok_or_else(no_group)
        }
        (None, Some(pid)) => {
            spent(pid).map(|spent| Some(spent.cpu)).ok_or(BenchError::NoProcess(pid))
        }
        (None, None) => Ok(None),
    }
}

fn own() -> Option<Duration> {
    spent(std::process::id()).map(|spent| spent.cpu)
}

fn difference(spent: Option<(Duration, Duration)>) -> Option<f64> {
    spent.map(|(before, after)| after.saturating_sub(before).as_secs_f64())
}

fn measure(step: Step, bench: &FtpBench, tally: &Tally, time: Duration) -> Measure {
    let seconds = time.as_secs_f64().max(1e-9);
    let units = match step.workload.unit() {
        "GiB" => tally.bytes as f64 / (1u64 << 30) as f64,
        _ => tally.counts.done as f64,
    };
    let moves = step.workload != Workload::Logins;
    Measure {
        workload: step.name(bench.version_of(step)),
        unit: step.workload.unit().to_owned(),
        units,
        seconds,
        rate: units / seconds,
        megabytes_per_second: moves.then(|| tally.bytes as f64 / 1e6 / seconds),
        latency_ms: Latency::of(&tally.latency),
        server_cpu_seconds_per_unit: None,
        client_cpu_seconds_per_unit: None,
        server_bytes_per_unit: None,
        failures: tally.failures.clone(),
        counts: Some(tally.counts),
    }
}
