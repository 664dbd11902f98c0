//! The table of what was measured, as reports of host integration print it: a row for each kind of
//! procedure, session and connection, at so many clients.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::report::{Latency, Measure, Report};
use crate::tally::Tally;

/// Which row it is.
#[derive(Clone, Debug)]
pub struct RowName {
    /// What is called, and how: `search, pool`.
    pub row: String,
    /// Screens that one transaction takes.
    pub screens: u64,
}

/// One row of the table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostRow {
    /// What was called, and how.
    pub row: String,
    /// Clients at a time.
    pub clients: usize,
    /// Transactions that gave what they should.
    pub transactions: u64,
    /// Refused, broken off, too late, or not tried any more.
    pub failed: u64,
    /// Screens of the host that one of them takes.
    pub screens_per_transaction: u64,
    /// From the first to the last.
    pub seconds: f64,
    /// Transactions a second.
    pub transactions_per_second: f64,
    /// Screens a second.
    pub screens_per_second: f64,
    /// Milliseconds of CPU time of the server for one screen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_cpu_ms_per_screen: Option<f64>,
    /// The same of the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_cpu_ms_per_screen: Option<f64>,
    /// The same of the clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_cpu_ms_per_screen: Option<f64>,
    /// The server's memory behind it, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_bytes: Option<u64>,
    /// Milliseconds of one transaction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<Latency>,
    /// What went wrong, each sentence once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
}

/// Transactions that were done elsewhere.
#[derive(Clone, Debug, Default)]
pub struct Transactions {
    /// How long each took.
    pub took: Vec<Duration>,
    /// What failed, a sentence for each failure.
    pub failures: Vec<String>,
}

/// What a row has cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowCosts {
    /// CPU time of the server.
    pub server: Option<Duration>,
    /// CPU time of the host.
    pub host: Option<Duration>,
    /// CPU time of the clients.
    pub client: Option<Duration>,
    /// The server's memory, in bytes.
    pub server_bytes: Option<u64>,
}

impl RowCosts {
    /// What was spent since `before`; memory is what there is now.
    #[must_use]
    pub fn since(&self, before: &RowCosts) -> RowCosts {
        let difference = |after: Option<Duration>, before: Option<Duration>| {
            after.zip(before).map(|(after, before)| after.saturating_sub(before))
        };
        RowCosts {
            server: difference(self.server, before.server),
            host: difference(self.host, before.host),
            client: difference(self.client, before.client),
            server_bytes: self.server_bytes,
        }
    }
}

impl HostRow {
    /// Of what all clients did in a time.
    pub(crate) fn of(
        RowName { row, screens }: RowName,
        clients: usize,
        tally: &Tally,
        time: Duration,
        costs: RowCosts,
    ) -> HostRow {
        let seconds = time.as_secs_f64().max(1e-9);
        let counts = tally.counts;
        let done = counts.done as f64;
        let all_screens = done * screens as f64;
        let each = |spent: Option<Duration>| {
            spent.filter(|_| all_screens > 0.0).map(|it| it.as_secs_f64() * 1e3 / all_screens)
        };
        HostRow {
            row,
            clients,
            transactions: counts.done,
            failed: counts.failed + counts.hung + counts.not_tried,
            screens_per_transaction: screens,
            seconds,
            transactions_per_second: done / seconds,
            screens_per_second: all_screens / seconds,
            server_cpu_ms_per_screen: each(costs.server),
            host_cpu_ms_per_screen: each(costs.host),
            client_cpu_ms_per_screen: each(costs.client),
            server_bytes: costs.server_bytes,
            latency_ms: Latency::of(&tally.latency),
            failures: tally.failures.clone(),
        }
    }

    /// Of transactions of other programs than ours.
    pub fn of_transactions(
        name: RowName,
        clients: usize,
        done: Transactions,
        time: Duration,
        costs: RowCosts,
    ) -> HostRow {
        let Transactions { took, failures } = done;
        let mut tally = Tally::default();
        for time in took {
            tally.done(time, 0);
        }
        tally.counts.failed = failures.len() as u64;
        failures.into_iter().for_each(|failure| tally.tell(failure));
        HostRow::of(name, clients, &tally, time, costs)
    }

    /// Of sessions that rest, and of which nothing but the memory is told.
    pub fn at_rest(name: RowName, costs: RowCosts) -> HostRow {
        let costs = RowCosts { server_bytes: costs.server_bytes, ..RowCosts::default() };
        HostRow::of(name, 0, &Tally::default(), Duration::ZERO, costs)
    }

    /// As every measurement is reported: a unit is a screen.
    fn measure(&self) -> Measure {
        let seconds = |milliseconds: Option<f64>| milliseconds.map(|it| it / 1e3);
        Measure {
            workload: format!("{}, {} clients", self.row, self.clients),
            users: Some(self.clients),
            unit: "screen".to_owned(),
            units: self.screens_per_second * self.seconds,
            seconds: self.seconds,
            rate: self.screens_per_second,
            megabytes_per_second: None,
            latency_ms: self.latency_ms,
            server_cpu_seconds_per_unit: seconds(self.server_cpu_ms_per_screen),
            client_cpu_seconds_per_unit: seconds(self.client_cpu_ms_per_screen),
            server_bytes_per_unit: None,
            server_threads_per_unit: None,
            failures: self.failures.clone(),
            counts: None,
        }
    }
}

/// All that was measured in one call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HostReport {
    /// As of every measurement.
    #[serde(flatten)]
    pub report: Report,
    /// The table: of each row the round with the median rate.
    pub rows: Vec<HostRow>,
}

impl HostReport {
    /// Of all rows of all rounds.
    pub fn of(rounds: &[HostRow]) -> HostReport {
        let report = Report::of(rounds.iter().map(HostRow::measure).collect());
        let is_median = |row: &&HostRow| {
            let measure = row.measure();
            let median = report.medians.iter().find(|it| it.workload == measure.workload);
            median.is_some_and(|median| median.rate.total_cmp(&measure.rate).is_eq())
        };
        let rows = rounds.iter().filter(is_median).cloned().collect();
        HostReport { report, rows }
    }

    /// True if every transaction of every round gave what it should.
    pub fn is_clean(&self) -> bool {
        self.report.rounds.iter().all(|round| round.failures.is_empty())
    }
}

impl HostRow {
    /// What stands over the rows.
    pub fn heading() -> String {
        format!(
            "{:<46} {:>8} {:>7} {:>7} {:>7} {:>9} {:>10} {:>8} {:>8} {:>10} {:>10} {:>10} {:>8}",
            "ROW",
            "CLIENTS",
            "TRANS",
            "FAILED",
            "TIME S",
            "TRANS/S",
            "SCREENS/S",
            "P50 MS",
            "P95 MS",
            "SERVER MS",
            "HOST MS",
            "CLIENT MS",
            "MiB"
        )
    }
}

impl fmt::Display for HostRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cell = |value: Option<f64>| value.map_or_else(|| "-".into(), |it| format!("{it:.4}"));
        let latency = |pick: fn(&Latency) -> f64| {
            self.latency_ms.as_ref().map_or_else(|| "-".into(), |it| format!("{:.1}", pick(it)))
        };
        let memory = self.server_bytes.map(|bytes| bytes as f64 / f64::from(1 << 20));
        write!(
            f,
            "{:<46} {:>8} {:>7} {:>7} {:>7.2} {:>9.1} {:>10.0} {:>8} {:>8} {:>10} {:>10} {:>10} \
             {:>8}",
            self.row,
            self.clients,
            self.transactions,
            self.failed,
            self.seconds,
            self.transactions_per_second,
            self.screens_per_second,
            latency(|it| it.p50),
            latency(|it| it.p95),
            cell(self.server_cpu_ms_per_screen),
            cell(self.host_cpu_ms_per_screen),
            cell(self.client_cpu_ms_per_screen),
            memory.map_or_else(|| "-".to_owned(), |memory| format!("{memory:.0}")),
        )
    }
}

impl fmt::Display for HostReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", HostRow::heading())?;
        for row in &self.rows {
            writeln!(f, "{row}")?;
        }
        for round in &self.report.rounds {
            for failure in &round.failures {
                writeln!(f, "failed: {}: {failure}", round.workload)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(seconds: f64) -> HostRow {
        let name = RowName { row: "search, pool".to_owned(), screens: 28 };
        let took = vec![Duration::from_millis(30); 10];
        let done = Transactions { took, failures: Vec::new() };
        let costs = RowCosts {
            server: Some(Duration::from_millis(14)),
            server_bytes: Some(10 << 20),
            ..RowCosts::default()
        };
        let time = Duration::from_secs_f64(seconds);
        HostRow::of_transactions(name, 5, done, time, costs)
    }

    #[test]
    fn a_row_says_what_a_screen_costs() {
        let row = row(2.0);
        assert!((row.screens_per_second - 140.0).abs() < 1e-6);
        assert!((row.transactions_per_second - 5.0).abs() < 1e-6);
        let spent = row.server_cpu_ms_per_screen.unwrap();
        assert!((spent - 0.05).abs() < 1e-9 && row.host_cpu_ms_per_screen.is_none());
        let before = RowCosts { server: Some(Duration::from_millis(4)), ..RowCosts::default() };
        let after = RowCosts { server: Some(Duration::from_millis(9)), ..RowCosts::default() };
        assert_eq!(after.since(&before).server, Some(Duration::from_millis(5)));
    }

    #[test]
    fn a_failure_of_any_round_is_told() {
        let bad = HostRow { failures: vec!["the host is away".to_owned()], ..row(3.0) };
        let report = HostReport::of(&[bad, row(1.0), row(2.0)]);
        assert!(!report.is_clean(), "only the median was looked at");
        assert!(
            report.to_string().ends_with("failed: search, pool, 5 clients: the host is away\n")
        );
        assert!(HostReport::of(&[row(1.0), row(2.0)]).is_clean());
    }

    #[test]
    fn the_table_has_the_median_of_each_row_and_what_failed() {
        let mut bad = HostRow { row: "update, pool".to_owned(), ..row(1.0) };
        bad.failures.push("the host is away".to_owned());
        let report = HostReport::of(&[row(3.0), row(1.0), row(2.0), bad]);
        let rates: Vec<u64> = report.rows.iter().map(|row| row.screens_per_second as u64).collect();
        assert_eq!(rates, [140, 280]);
        assert!(!report.is_clean());
        let table = report.to_string();
        assert!(table.ends_with("failed: update, pool, 5 clients: the host is away\n"), "{table}");
        let widths: Vec<usize> = table.lines().take(3).map(str::len).collect();
        assert_eq!(widths[0], widths[1], "{table}");
        let again: HostReport =
            serde_json::from_str(&serde_json::to_string(&report).unwrap()).unwrap();
        assert_eq!(again.rows, report.rows);
        assert_eq!(again.report.medians.len(), 2);
    }
}
