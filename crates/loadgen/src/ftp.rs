//! Workloads against an FTP server: logins, small files down and up, one large file, in clear and
//! under TLS. A failure is counted and does not end the measurement, and nothing waits for ever.

mod bench;
mod error;
mod link;
mod users;

use std::time::Duration;

use entrepot_nouns::Env;

use crate::report::{Latency, Measure, Report};
use crate::tally::Tally;
use crate::watch::Watch;

use users::Prepared;

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
            let before = watch.read()?;
            let began = env.elapsed();
            let tally = prepared.run().await;
            let time = env.elapsed().saturating_sub(began);
            // A server may still be writing what it acknowledged: its CPU time counts.
            let spent = watch.read()?.since(&before);
            let mut measure = measure(*step, bench, &tally, time);
            measure.add_cpu_time(spent);
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
