//! A soak: messages for a long time, window by window, and whether the server has drifted.

use std::fmt;
use std::time::Duration;

use entrepot_nouns::Env;
use serde::{Deserialize, Serialize};

use super::bench::As2Bench;
use super::error::As2BenchError;
use super::streams::{Limit, Prepared, Ran};
use crate::limits::{
    DRIFT_HANDLES, DRIFT_HANDLES_COUNT, DRIFT_LATENCY, DRIFT_LATENCY_MS, DRIFT_MEMORY,
    DRIFT_MEMORY_BYTES, SOAK_WINDOW, SOAK_WINDOWS,
};
use crate::process::spent;
use crate::report::Latency;

/// How long messages are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Soak {
    /// All windows together.
    pub time: Duration,
}

/// What happened in a part of a soak.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// Seconds from the beginning of the soak to the end of the window.
    pub at_seconds: f64,
    /// Messages that were delivered.
    pub delivered: u64,
    /// Messages that do not count as delivered.
    pub missed: u64,
    /// Messages a second.
    pub rate: f64,
    /// Milliseconds of one message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<Latency>,
    /// Memory of the server, where it is watched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Its open files and connections, where it is watched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handles: Option<u64>,
    /// Why messages were missed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
}

/// What a server may have more of at the end of a soak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Drifted {
    /// Memory of the server.
    Memory,
    /// The median time of a message.
    Latency,
    /// Open files and connections of the server.
    Handles,
}

/// A value that has grown.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Drift {
    /// Which of the values that are watched.
    pub what: Drifted,
    /// Its median when the server was warm: bytes, milliseconds or a number.
    pub before: f64,
    /// Its median in the last third.
    pub after: f64,
}

/// All of a soak.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SoakReport {
    /// In the order of time.
    pub windows: Vec<Window>,
    /// What has grown; nothing: the server is steady in all that was watched.
    pub drifts: Vec<Drift>,
}

pub(super) async fn run(
    bench: &As2Bench,
    soak: &Soak,
    env: &Env,
    mut told: impl FnMut(&Window),
) -> Result<SoakReport, As2BenchError> {
    let mut prepared = Prepared::new(bench, env)?;
    let (began, count) = (env.elapsed(), window_count(soak.time));
    let length = soak.time / count;
    let mut windows = Vec::new();
    for _ in 0..count {
        let Ran { done, time } = prepared.run(Limit::Time(length)).await?;
        let server = bench.server_pid.and_then(spent);
        let counts = done.tally.counts;
        let window = Window {
            at_seconds: env.elapsed().saturating_sub(began).as_secs_f64(),
            delivered: counts.done,
            missed: counts.failed + counts.hung + counts.not_tried,
            rate: counts.done as f64 / time.as_secs_f64().max(1e-9),
            latency_ms: Latency::of(&done.tally.latency),
            memory_bytes: server.map(|server| server.memory_bytes),
            handles: server.map(|server| server.handles),
            failures: done.tally.failures,
        };
        told(&window);
        windows.push(window);
    }
    let drifts = drifts(&windows);
    Ok(SoakReport { windows, drifts })
}

fn window_count(time: Duration) -> u32 {
    let longest = time.as_secs().div_ceil(SOAK_WINDOW.as_secs());
    u32::try_from(longest).unwrap_or(u32::MAX).max(SOAK_WINDOWS)
}

/// What has grown from the warm server to the end.
fn drifts(windows: &[Window]) -> Vec<Drift> {
    let memory = |window: &Window| window.memory_bytes.map(|bytes| bytes as f64);
    let latency = |window: &Window| window.latency_ms.map(|latency| latency.p50);
    let handles = |window: &Window| window.handles.map(|count| count as f64);
    let (bytes, count) = (DRIFT_MEMORY_BYTES as f64, DRIFT_HANDLES_COUNT as f64);
    let found = [
        grown(windows, Drifted::Memory, memory).filter(|it| it.is_past(DRIFT_MEMORY, bytes)),
        grown(windows, Drifted::Latency, latency)
            .filter(|it| it.is_past(DRIFT_LATENCY, DRIFT_LATENCY_MS)),
        grown(windows, Drifted::Handles, handles).filter(|it| it.is_past(DRIFT_HANDLES, count)),
    ];
    found.into_iter().flatten().collect()
}

fn grown(
    windows: &[Window],
    what: Drifted,
    value: impl Fn(&Window) -> Option<f64>,
) -> Option<Drift> {
    let (warm, third) = (windows.len() / 6, windows.len() / 3);
    let before = windows.iter().skip(warm).take(third);
    let before = median(before.filter_map(&value).collect())?;
    let after = windows.iter().rev().take(third);
    let after = median(after.filter_map(&value).collect())?;
    Some(Drift { what, before, after })
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

impl Drift {
    /// Whether it has grown by more than a factor, and by more than what is noise.
    fn is_past(&self, factor: f64, noise: f64) -> bool {
        self.after > self.before * factor && self.after - self.before > noise
    }
}

impl SoakReport {
    /// Messages that do not count as delivered.
    pub fn missed(&self) -> u64 {
        self.windows.iter().map(|window| window.missed).sum()
    }

    /// Messages that were delivered.
    pub fn delivered(&self) -> u64 {
        self.windows.iter().map(|window| window.delivered).sum()
    }
}

impl Window {
    /// The line above windows.
    pub const HEADING: &'static str =
        "AT S      DELIVERED   MISSED        RATE   P50 MS   P99 MS   MEMORY MIB  HANDLES";
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dash = || "-".to_owned();
        let latency = |pick: fn(&Latency) -> f64| {
            self.latency_ms.as_ref().map_or_else(dash, |it| format!("{:.1}", pick(it)))
        };
        let mib = |bytes: u64| format!("{:.1}", bytes as f64 / f64::from(1 << 20));
        write!(
            f,
            "{:<8.1} {:>10} {:>8} {:>9.1}/s {:>8} {:>8} {:>12} {:>8}",
            self.at_seconds,
            self.delivered,
            self.missed,
            self.rate,
            latency(|latency| latency.p50),
            latency(|latency| latency.p99),
            self.memory_bytes.map_or_else(dash, mib),
            self.handles.map_or_else(dash, |count| count.to_string()),
        )
    }
}

impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Drift { what, before, after } = self;
        match what {
            Drifted::Memory => {
                let mib = |bytes: f64| bytes / f64::from(1 << 20);
                let (before, after) = (mib(*before), mib(*after));
                write!(f, "memory has grown from {before:.1} MiB to {after:.1} MiB")
            }
            Drifted::Latency => {
                write!(f, "the median time has grown from {before:.1} ms to {after:.1} ms")
            }
            Drifted::Handles => write!(f, "handles have grown from {before:.0} to {after:.0}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(of: impl Fn(u64) -> (u64, f64, u64)) -> Vec<Window> {
        let window = |number: u64| {
            let (memory, p50, handles) = of(number);
            Window {
                at_seconds: number as f64,
                delivered: 10,
                missed: 0,
                rate: 10.0,
                latency_ms: Some(Latency { p50, p95: p50, p99: p50, max: p50 }),
                memory_bytes: Some(memory),
                handles: Some(handles),
                failures: Vec::new(),
            }
        };
        (0..u64::from(SOAK_WINDOWS)).map(window).collect()
    }

    #[test]
    fn what_grows_is_a_drift_and_what_warms_up_is_none() {
        const MIB: u64 = 1 << 20;
        let steady = windows(|number| (100 * MIB + number % 3 * MIB, 4.0, 60 + number % 5));
        assert_eq!(drifts(&steady), []);
        let warm = windows(|number| if number < 2 { (MIB, 1.0, 5) } else { (300 * MIB, 9.0, 70) });
        assert_eq!(drifts(&warm), []);
        let grows = windows(|number| (100 * MIB + number * 20 * MIB, 4.0 + number as f64, 60));
        let found: Vec<Drifted> = drifts(&grows).iter().map(|drift| drift.what).collect();
        assert_eq!(found, [Drifted::Memory, Drifted::Latency]);
        let leaks = windows(|number| (100 * MIB, 4.0, 60 + number * 20));
        let found = drifts(&leaks);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].to_string(), "handles have grown from 140 to 260");
    }

    #[test]
    fn a_long_soak_has_more_windows() {
        let count = |seconds| window_count(Duration::from_secs(seconds));
        assert_eq!((count(6), count(360), count(361), count(3600)), (12, 12, 13, 120));
    }

    #[test]
    fn a_server_that_is_not_watched_is_judged_by_its_latency_alone() {
        let mut unwatched = windows(|number| (0, 1.0 + 10.0 * number as f64, 0));
        for window in &mut unwatched {
            (window.memory_bytes, window.handles) = (None, None);
        }
        let found: Vec<Drifted> = drifts(&unwatched).iter().map(|drift| drift.what).collect();
        assert_eq!(found, [Drifted::Latency]);
    }
}
