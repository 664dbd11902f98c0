//! Workloads against an SFTP server: uploads, downloads, small files, logins, idle sessions.

mod bare;
mod bench;
mod error;
mod link;
mod mixed;
mod workloads;

use std::time::Duration;

use entrepot_nouns::Env;

use crate::report::{Latency, Measure, Report};
use crate::wan::Relay;
use crate::watch::Watch;

use workloads::{Done, Prepared};

pub use bare::serve_bare;
pub use bench::{Login, Mix, SftpBench, Workload};
pub use error::BenchError;

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
    let watch = Watch::new(bench.server_pid, bench.server_group.clone());
    for workload in workloads {
        let prepared = Prepared::new(bench, *workload, env).await?;
        for _ in 0..bench.rounds.max(1) {
            let before = watch.read()?;
            let began = env.elapsed();
            let done = prepared.run().await?;
            let time = env.elapsed().saturating_sub(began);
            // A server may still be writing what it acknowledged: its CPU time counts.
            let spent = watch.read()?.since(&before);
            let mut measure = measure(bench, *workload, &done, time);
            measure.add_cpu_time(spent);
            told(&measure);
            rounds.push(measure);
            groups.extend(done.groups);
        }
        prepared.clean().await?;
    }
    let on_the_way = relay.map(|relay| relay.peaks());
    Ok(Report { on_the_way, groups, ..Report::of(rounds) })
}

fn measure(bench: &SftpBench, workload: Workload, done: &Done, time: Duration) -> Measure {
    let seconds = time.as_secs_f64().max(1e-9);
    let mut measure = Measure {
        workload: workload.as_str().to_owned(),
        users: (workload != Workload::IdleSessions).then_some(bench.concurrency),
        unit: workload.unit().to_owned(),
        units: done.units,
        seconds,
        rate: done.units / seconds,
        megabytes_per_second: done.bytes.map(|bytes| bytes as f64 / 1e6 / seconds),
        latency_ms: Latency::of(&done.latency),
        server_cpu_seconds_per_unit: None,
        client_cpu_seconds_per_unit: None,
        server_bytes_per_unit: None,
        server_threads_per_unit: None,
        failures: done.failures.clone(),
        counts: None,
    };
    if let Some((empty, full)) = done.memory_from.zip(done.memory_to) {
        measure.add_memory(&empty, &full);
    }
    measure
}
