//! Messages of AS2 against any receiver: built here, or a saved one again and again, each under a
//! Message-ID of its own; every receipt is checked. An iteration ends with the block that replay
//! tools print, and a soak says whether the server has drifted. A failure is counted and does not
//! end the measurement.

mod bench;
mod error;
mod expected;
mod iteration;
mod recipe;
mod saved;
mod soak;
mod streams;

use std::time::Duration;

use entrepot_nouns::Env;

use crate::report::{Latency, Measure, Report};
use crate::watch::Watch;
use streams::{Limit, Prepared, Ran};

pub use bench::{As2Bench, MessageSource};
pub use error::As2BenchError;
pub use iteration::Iteration;
pub use recipe::{Making, MessageRecipe, ReceiptWish};
pub use saved::SavedMessage;
pub use soak::{Drift, Drifted, Soak, SoakReport, Window};

/// Sends the messages of each iteration; `told` hears of each when it is done.
///
/// # Errors
/// The message cannot be made, the process to watch does not exist, the host is no name. What the
/// server does wrong is counted.
pub async fn run(
    bench: &As2Bench,
    env: &Env,
    mut told: impl FnMut(&Iteration),
) -> Result<As2Report, As2BenchError> {
    let mut prepared = Prepared::new(bench, env)?;
    let watch = Watch::new(bench.server_pid, bench.server_group.clone());
    let (mut rounds, mut iterations) = (Vec::new(), Vec::new());
    for number in 1..=bench.iterations.max(1) {
        let before = watch.read()?;
        let Ran { done, time } = prepared.run(Limit::Messages(bench.messages)).await?;
        let spent = watch.read()?.since(&before);
        let iteration = Iteration::of(bench, number, &done, time);
        let mut measure = measure(bench, &done, time);
        measure.add_cpu_time(spent);
        told(&iteration);
        iterations.push(iteration);
        rounds.push(measure);
    }
    Ok(As2Report { report: Report::of(rounds), iterations })
}

/// Sends messages for a long time, and watches the server.
///
/// # Errors
/// As [`run`].
pub async fn soak(
    bench: &As2Bench,
    soak: &Soak,
    env: &Env,
    told: impl FnMut(&Window),
) -> Result<SoakReport, As2BenchError> {
    soak::run(bench, soak, env, told).await
}

/// All that was measured in one call.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct As2Report {
    /// As of every measurement.
    #[serde(flatten)]
    pub report: Report,
    /// What replay tools print.
    pub iterations: Vec<Iteration>,
}

fn measure(bench: &As2Bench, done: &iteration::Done, time: Duration) -> Measure {
    let seconds = time.as_secs_f64().max(1e-9);
    let units = done.tally.counts.done as f64;
    Measure {
        workload: bench.name().to_owned(),
        users: Some(bench.concurrency),
        unit: "message".to_owned(),
        units,
        seconds,
        rate: units / seconds,
        megabytes_per_second: Some(done.sent_bytes as f64 / 1e6 / seconds),
        latency_ms: Latency::of(&done.tally.latency),
        server_cpu_seconds_per_unit: None,
        client_cpu_seconds_per_unit: None,
        server_bytes_per_unit: None,
        server_threads_per_unit: None,
        failures: done.tally.failures.clone(),
        counts: Some(done.tally.counts),
    }
}
