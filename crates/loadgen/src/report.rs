//! What was measured, as JSON and as a table.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::histogram::Histogram;
use crate::process::Spent;
use crate::wan::Peaks;
use crate::watch::CpuTime;

/// One workload against one server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measure {
    /// The workload's name.
    pub workload: String,
    /// Users, sessions or connections at work at the same time, where the workload has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub users: Option<usize>,
    /// What one unit is: `GiB`, `file`, `login`, `session`.
    pub unit: String,
    /// How many units were done: operations, or GiB as a fraction.
    pub units: f64,
    /// Seconds from the beginning of the round to its end.
    pub seconds: f64,
    /// Units a second.
    pub rate: f64,
    /// Megabytes (10^6) a second, where bytes matter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub megabytes_per_second: Option<f64>,
    /// Milliseconds of one operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<Latency>,
    /// CPU seconds of the server for one unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_cpu_seconds_per_unit: Option<f64>,
    /// CPU seconds of the load generator for one unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_cpu_seconds_per_unit: Option<f64>,
    /// Bytes of the server's memory for one unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_bytes_per_unit: Option<f64>,
    /// Threads of the server for one unit, those of its child processes included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_threads_per_unit: Option<f64>,
    /// What failed, where that does not end the measurement.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
    /// How many operations were asked for and what became of them, where that is counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counts: Option<Counts>,
}

impl Measure {
    /// Adds what a round has cost, if anything was done in it.
    pub(crate) fn add_cpu_time(&mut self, spent: CpuTime) {
        let each = |spent: Option<Duration>| {
            spent.filter(|_| self.units > 0.0).map(|spent| spent.as_secs_f64() / self.units)
        };
        let (server, client) = (each(spent.server), each(spent.client));
        self.server_cpu_seconds_per_unit = server;
        self.client_cpu_seconds_per_unit = client;
    }

    /// Adds what the server has in memory since `empty`, and its threads.
    pub(crate) fn add_memory(&mut self, empty: &Spent, full: &Spent) {
        if self.units > 0.0 {
            let each = |full: u64, empty: u64| full.saturating_sub(empty) as f64 / self.units;
            self.server_bytes_per_unit = Some(each(full.memory_bytes, empty.memory_bytes));
            self.server_threads_per_unit = Some(each(full.threads, empty.threads));
        }
    }

    /// One file in the time that it takes at this rate.
    #[cfg(test)]
    pub(crate) fn of_rate(workload: &str, rate: f64) -> Measure {
        Measure {
            workload: workload.to_owned(),
            users: None,
            unit: "file".to_owned(),
            units: 1.0,
            seconds: 1.0 / rate,
            rate,
            megabytes_per_second: None,
            latency_ms: None,
            server_cpu_seconds_per_unit: None,
            client_cpu_seconds_per_unit: None,
            server_bytes_per_unit: None,
            server_threads_per_unit: None,
            failures: Vec::new(),
            counts: None,
        }
    }
}

/// One row of the table that load tests of file transfer usually end with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scenario {
    /// What was tested, such as `upload 10 MB`.
    pub name: String,
    /// Tests that were begun.
    pub total: u64,
    /// Those that did all they should, every byte included.
    pub passed: u64,
    /// Refused, cut, of the wrong length, too late, or not begun.
    pub failed: u64,
    /// Passed tests a second, over the whole round.
    pub tests_per_second: f64,
    /// Mean time of those that passed, without the time in which users think.
    pub average_seconds: f64,
    /// 95 % of those that passed took no longer.
    pub p95_seconds: f64,
}

impl Scenario {
    /// Of the times of those that passed, in a round of `time`.
    pub(crate) fn of(name: String, passed: &Histogram, failed: u64, time: Duration) -> Scenario {
        let count = passed.count();
        Scenario {
            name,
            total: count + failed,
            passed: count,
            failed,
            tests_per_second: count as f64 / time.as_secs_f64().max(1e-9),
            average_seconds: passed.mean().as_secs_f64(),
            p95_seconds: passed.quantile(950).as_secs_f64(),
        }
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Scenario { name, total, passed, failed, .. } = self;
        let (rate, average, p95) = (self.tests_per_second, self.average_seconds, self.p95_seconds);
        write!(
            f,
            "{name:<24} {total:>8} {passed:>8} {failed:>8} {rate:>10.2} {average:>10.3} {p95:>9.3}"
        )
    }
}

/// What became of the operations of a round. They add up to those that were asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Done without an error, with every byte.
    pub done: u64,
    /// Refused, cut, or of the wrong length.
    pub failed: u64,
    /// Not over within the time they had.
    pub hung: u64,
    /// Not begun, since their user had given up.
    pub not_tried: u64,
    /// TLS handshakes that resumed a session.
    pub resumed: u64,
    /// TLS handshakes in all.
    pub handshakes: u64,
}

impl Counts {
    /// True if all was done.
    pub fn is_clean(&self) -> bool {
        self.failed + self.hung + self.not_tried == 0
    }

    /// Adds what another user counted.
    pub fn add(&mut self, other: &Counts) {
        self.done += other.done;
        self.failed += other.failed;
        self.hung += other.hung;
        self.not_tried += other.not_tried;
        self.resumed += other.resumed;
        self.handshakes += other.handshakes;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { done, failed, hung, not_tried, resumed, handshakes } = self;
        write!(f, "{done} done, {failed} failed, {hung} hung, {not_tried} not tried")?;
        if *handshakes > 0 {
            write!(f, ", {resumed} of {handshakes} handshakes resumed")?;
        }
        Ok(())
    }
}

/// The direction of a transfer, seen from the load generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// Uploads: to the server.
    Up,
    /// Downloads: from the server.
    Down,
}

/// Transfers of like size in a mixed load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SizeGroup {
    /// Uploads and downloads are groups of their own.
    pub direction: Direction,
    /// Least size before it was divided, in megabytes.
    pub least_megabytes: u64,
    /// All are smaller than this.
    pub most_megabytes: u64,
    /// Transfers that were tried, failed ones included.
    pub count: u64,
    /// How many of them failed.
    pub failed: u64,
    /// Time of the fastest transfer that succeeded; zero if none did.
    pub min_seconds: f64,
    /// Mean time of those that succeeded; zero if none did.
    pub average_seconds: f64,
    /// Time of the slowest that succeeded; zero if none did.
    pub max_seconds: f64,
}

impl Direction {
    /// As tables say it.
    pub fn as_str(self) -> &'static str {
        match self {
            Direction::Up => "up",
            Direction::Down => "down",
        }
    }
}

impl fmt::Display for SizeGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = self.direction.as_str();
        let size = format!("{}-{} MB", self.least_megabytes, self.most_megabytes);
        let (min, average, max) = (self.min_seconds, self.average_seconds, self.max_seconds);
        write!(
            f,
            "{way:<5} {size:<12} {:>6} {:>6} {min:>9.3} {average:>9.3} {max:>9.3}",
            self.count, self.failed
        )
    }
}

/// Quantiles in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Half of the operations took no longer.
    pub p50: f64,
    /// 95 % are not longer.
    pub p95: f64,
    /// 99 % are not longer.
    pub p99: f64,
    /// The longest operation, exact to the microsecond.
    pub max: f64,
}

impl Latency {
    /// Of a histogram; `None` if it is empty.
    pub fn of(histogram: &Histogram) -> Option<Latency> {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        (histogram.count() > 0).then(|| Latency {
            p50: ms(histogram.quantile(500)),
            p95: ms(histogram.quantile(950)),
            p99: ms(histogram.quantile(990)),
            max: ms(histogram.max()),
        })
    }
}

/// All that was measured in one call.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// Each round of each workload, in the order in which they ran.
    pub rounds: Vec<Measure>,
    /// For each workload the round with the median rate.
    pub medians: Vec<Measure>,
    /// The table of a mixed load, round by round.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<SizeGroup>,
    /// What was tested, round by round, where the load is told apart by scenarios.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scenarios: Vec<Scenario>,
    /// Most bytes on their way through the relay, where one was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_the_way: Option<Peaks>,
}

impl Report {
    /// Picks the medians of the rounds.
    pub fn of(rounds: Vec<Measure>) -> Report {
        let mut medians: Vec<Measure> = Vec::new();
        for measure in &rounds {
            if medians.iter().any(|median| median.workload == measure.workload) {
                continue;
            }
            let mut same: Vec<&Measure> =
                rounds.iter().filter(|other| other.workload == measure.workload).collect();
            same.sort_by(|a, b| a.rate.total_cmp(&b.rate));
            medians.extend(same.get(same.len() / 2).map(|median| (*median).clone()));
        }
        Report { rounds, medians, ..Report::default() }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<16} {:>16} {:>9} {:>9} {:>9} {:>9} {:>9} {:>14} {:>14} {:>12}",
            "WORKLOAD",
            "RATE",
            "MB/S",
            "P50 MS",
            "P95 MS",
            "P99 MS",
            "MAX MS",
            "SERVER CPU",
            "CLIENT CPU",
            "MEMORY"
        )?;
        for measure in &self.medians {
            writeln!(f, "{measure}")?;
        }
        if !self.groups.is_empty() {
            let (way, size, count, failed) = ("WAY", "SIZE", "COUNT", "FAILED");
            let (min, average, max) = ("MIN S", "AVERAGE S", "MAX S");
            writeln!(
                f,
                "{way:<5} {size:<12} {count:>6} {failed:>6} {min:>9} {average:>9} {max:>9}"
            )?;
        }
        for group in &self.groups {
            writeln!(f, "{group}")?;
        }
        if !self.scenarios.is_empty() {
            let (total, passed, failed) = ("TOTAL", "PASSED", "FAILED");
            let (rate, average, p95) = ("TESTS/S", "AVERAGE S", "95 % S");
            writeln!(
                f,
                "{:<24} {total:>8} {passed:>8} {failed:>8} {rate:>10} {average:>10} {p95:>9}",
                "SCENARIO"
            )?;
        }
        for scenario in &self.scenarios {
            writeln!(f, "{scenario}")?;
        }
        for measure in &self.medians {
            if let Some(threads) = measure.server_threads_per_unit {
                let Measure { workload, unit, .. } = measure;
                writeln!(f, "{workload}: {threads:.3} threads of the server for each {unit}")?;
            }
        }
        for measure in &self.rounds {
            if let Some(counts) = measure.counts.filter(|counts| !counts.is_clean()) {
                writeln!(f, "{}: {counts}", measure.workload)?;
            }
        }
        for failure in self.rounds.iter().flat_map(|measure| &measure.failures) {
            writeln!(f, "failed: {failure}")?;
        }
        if let Some(peaks) = &self.on_the_way {
            let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
            let (up, down) = (mib(peaks.up_bytes), mib(peaks.down_bytes));
            writeln!(f, "on the way at most: {up:.1} MiB up, {down:.1} MiB down")?;
        }
        Ok(())
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dash = || "-".to_owned();
        let cell = |value: Option<f64>| value.map_or_else(dash, |value| format!("{value:.3}"));
        let latency = |pick: fn(&Latency) -> f64| cell(self.latency_ms.as_ref().map(pick));
        let each = |spent: Option<f64>| {
            spent.map_or_else(dash, |seconds| match self.unit.as_str() {
                "GiB" => format!("{seconds:.3} s/GiB"),
                unit => format!("{:.3} ms/{unit}", seconds * 1e3),
            })
        };
        let memory = self.server_bytes_per_unit;
        write!(
            f,
            "{:<16} {:>16} {:>9} {:>9} {:>9} {:>9} {:>9} {:>14} {:>14} {:>12}",
            self.workload,
            format!("{:.1} {}/s", self.rate, self.unit),
            self.megabytes_per_second.map_or_else(dash, |rate| format!("{rate:.0}")),
            latency(|latency| latency.p50),
            latency(|latency| latency.p95),
            latency(|latency| latency.p99),
            latency(|latency| latency.max),
            each(self.server_cpu_seconds_per_unit),
            each(self.client_cpu_seconds_per_unit),
            memory.map_or_else(dash, |bytes| format!("{:.0} KiB", bytes / 1024.0)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measure(rate: f64) -> Measure {
        Measure {
            unit: "GiB".to_owned(),
            server_cpu_seconds_per_unit: Some(0.9),
            ..Measure::of_rate("upload", rate)
        }
    }

    #[test]
    fn what_did_not_end_well_is_shown() {
        let counts = Counts { done: 5, failed: 2, hung: 1, not_tried: 4, ..Counts::default() };
        let bad = Measure { counts: Some(counts), ..measure(1.0) };
        let table = Report::of(vec![bad]).to_string();
        assert!(table.contains("upload: 5 done, 2 failed, 1 hung, 4 not tried"), "{table}");
        let good = Counts { done: 5, resumed: 3, handshakes: 4, ..Counts::default() };
        let good = Measure { counts: Some(good), ..measure(1.0) };
        assert!(!Report::of(vec![good.clone()]).to_string().contains("done"));
        let words = good.counts.unwrap_or_default().to_string();
        assert!(words.ends_with("3 of 4 handshakes resumed"), "{words}");
    }

    #[test]
    fn the_median_round_is_shown() {
        let report = Report::of(vec![measure(3.0), measure(1.0), measure(2.0)]);
        assert_eq!(report.medians.len(), 1);
        assert!((report.medians[0].rate - 2.0).abs() < f64::EPSILON);
        let table = report.to_string();
        assert!(table.contains("2.0 GiB/s") && table.contains("0.900 s/GiB"), "{table}");
    }
}
