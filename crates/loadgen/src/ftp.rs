//! Workloads against an FTP server: logins, small files down and up, one large file, in clear and
//! under TLS. A failure is counted and does not end the measurement, and nothing waits for ever.

mod bare;
mod bench;
mod error;
mod link;
mod users;

use std::time::Duration;

use entrepot_nouns::Env;

use crate::limits::IDLE_REST;
use crate::process;
use crate::report::{Latency, Measure, Report};
use crate::tally::Tally;
use crate::watch::Watch;

use users::Prepared;

pub use bare::serve_bare;
pub use bench::{FtpBench, Step, Tls, Workload};
pub use error::BenchError;

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
    let watch = Watch::new(bench.server_pid, bench.server_group.clone());
    for step in steps {
        let mut prepared = Prepared::new(bench, *step, env).await?;
        for _ in 0..bench.rounds.max(1) {
            let is_idle = step.workload == Workload::IdleSessions;
            if is_idle {
                prepared.warm_up().await;
            }
            let empty = bench.server_pid.filter(|_| is_idle).and_then(process::spent);
            let before = watch.read()?;
            let began = env.elapsed();
            let tally = prepared.run().await;
            let time = env.elapsed().saturating_sub(began);
            // A server may still be writing what it acknowledged: its CPU time counts.
            let spent = watch.read()?.since(&before);
            let mut measure = measure(*step, bench, &tally, time);
            measure.add_cpu_time(spent);
            if is_idle {
                tokio::time::sleep(IDLE_REST).await;
                let full = bench.server_pid.and_then(process::spent);
                if let Some((empty, full)) = empty.zip(full) {
                    measure.add_memory(&empty, &full);
                }
                prepared.log_out().await;
            }
            told(&measure);
            rounds.push(measure);
            prepared.remove_uploads().await;
        }
        prepared.close().await;
    }
    Ok(Report::of(rounds))
}

fn measure(step: Step, bench: &FtpBench, tally: &Tally, time: Duration) -> Measure {
    let seconds = time.as_secs_f64().max(1e-9);
    let units = match step.workload.unit() {
        "GiB" => tally.bytes as f64 / (1u64 << 30) as f64,
        _ => tally.counts.done as f64,
    };
    let moves = step.workload.moves_files();
    Measure {
        workload: step.name(bench.version_of(step)),
        users: (step.workload != Workload::IdleSessions).then_some(bench.concurrency),
        unit: step.workload.unit().to_owned(),
        units,
        seconds,
        rate: units / seconds,
        megabytes_per_second: moves.then(|| tally.bytes as f64 / 1e6 / seconds),
        latency_ms: Latency::of(&tally.latency),
        server_cpu_seconds_per_unit: None,
        client_cpu_seconds_per_unit: None,
        server_bytes_per_unit: None,
        server_threads_per_unit: None,
        failures: tally.failures.clone(),
        counts: Some(tally.counts),
    }
}
