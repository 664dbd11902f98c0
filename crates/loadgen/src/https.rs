//! Workloads against a server of HTTPS: large and small files both ways, one address again and
//! again, users who come and think, uploads that are cut and go on; over HTTP/1.1 and HTTP/2. A
//! failure is counted and does not end the measurement, and nothing waits for ever.

mod bare;
mod bench;
pub(crate) mod connection;
pub(crate) mod content;
mod crowd;
mod done;
mod error;
mod stream;
mod streams;
mod tus;

use std::time::Duration;

use entrepot_nouns::Env;

use crate::report::{Latency, Measure, Report, Scenario};
use crate::tally::Tally;
use crate::wan::Relay;
use crate::watch::Watch;

use done::{Done, Tests};
use streams::Prepared;

pub use bare::serve_bare;
pub use bench::{Crowd, HttpVersion, HttpsBench, Login, Scheme, Target, Workload};
pub use error::BenchError;

/// Runs each workload `rounds` times; `told` hears of each round when it is done.
///
/// # Errors
/// The process to watch does not exist, the host is no name. What the server does wrong is counted.
pub async fn run(
    bench: &HttpsBench,
    workloads: &[Workload],
    env: &Env,
    mut told: impl FnMut(&Measure),
) -> Result<Report, BenchError> {
    let (mut rounds, mut scenarios) = (Vec::new(), Vec::new());
    let relay = match bench.wan {
        Some(wan) => Some(Relay::start(&bench.target.host, bench.target.port, wan, env)?),
        None => None,
    };
    let address = relay.as_ref().map(Relay::address);
    let watch = Watch::new(bench.server_pid, bench.server_group.clone());
    for workload in workloads {
        let mut prepared = Prepared::new(bench, *workload, env, address).await?;
        for _ in 0..bench.rounds.max(1) {
            let before = watch.read()?;
            let began = env.elapsed();
            let done = prepared.run().await;
            let time = env.elapsed().saturating_sub(began);
            // A server may still be writing what it acknowledged: its CPU time counts.
            let spent = watch.read()?.since(&before);
            let mut measure = measure(bench, *workload, &done.tally, time);
            measure.add_cpu_time(spent);
            told(&measure);
            scenarios.extend(rows(&measure, done, time));
            rounds.push(measure);
            prepared.remove_uploads().await;
        }
        prepared.close().await;
    }
    let on_the_way = relay.map(|relay| relay.peaks());
    Ok(Report { on_the_way, scenarios, ..Report::of(rounds) })
}

fn measure(bench: &HttpsBench, workload: Workload, tally: &Tally, time: Duration) -> Measure {
    let seconds = time.as_secs_f64().max(1e-9);
    let units = match workload.unit() {
        "GiB" => tally.bytes as f64 / (1u64 << 30) as f64,
        _ => tally.counts.done as f64,
    };
    Measure {
        workload: workload.name(bench.version),
        users: Some(bench.concurrency),
        unit: workload.unit().to_owned(),
        units,
        seconds,
        rate: units / seconds,
        megabytes_per_second: Some(tally.bytes as f64 / 1e6 / seconds),
        latency_ms: Latency::of(&tally.latency),
        server_cpu_seconds_per_unit: None,
        client_cpu_seconds_per_unit: None,
        server_bytes_per_unit: None,
        server_threads_per_unit: None,
        failures: tally.failures.clone(),
        counts: Some(tally.counts),
    }
}

fn rows(measure: &Measure, done: Done, time: Duration) -> Vec<Scenario> {
    let Done { tally, tests } = done;
    if !tests.is_empty() {
        let row = |tests: Tests| Scenario::of(tests.name, &tests.passed, tests.failed, time);
        return tests.into_iter().map(row).collect();
    }
    let failed = tally.counts.failed + tally.counts.hung + tally.counts.not_tried;
    vec![Scenario::of(measure.workload.clone(), &tally.latency, failed, time)]
}
