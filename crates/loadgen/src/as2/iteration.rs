//! What came of one iteration, and the block that replay tools print of it.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::bench::As2Bench;
use crate::tally::Tally;

/// What all streams of an iteration did.
#[derive(Default)]
pub(super) struct Done {
    /// Messages whose receipts are right are done, the others failed.
    pub(super) tally: Tally,
    /// Messages that were answered to the end, whatever the answer.
    pub(super) answered: u64,
    /// Of those that failed: the connection broke while the message was sent, or before any answer.
    pub(super) write_errors: u64,
    /// Receipts that were checked and are right.
    pub(super) verified: u64,
    /// Bytes of the message that was sent last.
    pub(super) document_bytes: u64,
    /// Bytes of the messages that were answered.
    pub(super) sent_bytes: u64,
    /// Bytes of all answers.
    pub(super) received_bytes: u64,
}

impl Done {
    pub(super) fn add(&mut self, other: Done) {
        self.tally.add(other.tally);
        self.answered += other.answered;
        self.write_errors += other.write_errors;
        self.verified += other.verified;
        self.document_bytes = self.document_bytes.max(other.document_bytes);
        self.sent_bytes += other.sent_bytes;
        self.received_bytes += other.received_bytes;
    }
}

/// One iteration, as replay tools report it. Bytes are those of bodies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Iteration {
    /// Counted from one.
    pub number: u32,
    /// Where messages were sent.
    pub path: String,
    /// Bytes of one message.
    pub document_bytes: u64,
    /// Messages under way at a time.
    pub concurrency: usize,
    /// Seconds from the first message to the last answer.
    pub seconds: f64,
    /// Messages that were answered to the end, whatever the answer.
    pub complete: u64,
    /// Messages that do not count as delivered, those with write errors left out.
    pub failed: u64,
    /// Messages whose connection broke while they were sent, or before any answer.
    pub write_errors: u64,
    /// Receipts that were checked and are right.
    pub verified: u64,
    /// Bytes of all answers.
    pub received_bytes: u64,
    /// Bytes of all messages that were answered.
    pub sent_bytes: u64,
    /// Milliseconds that so many per cent of the messages did not exceed.
    pub percentiles_ms: Vec<Percentile>,
}

/// A share of the messages, and the longest time among them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Percentile {
    /// Of all messages that were delivered.
    pub per_cent: f64,
    /// The longest time among them.
    pub ms: f64,
}

/// The shares that are shown, per mille.
const SHARES: [u64; 10] = [500, 660, 750, 800, 900, 950, 980, 990, 999, 1000];

impl Iteration {
    pub(super) fn of(bench: &As2Bench, number: u32, done: &Done, time: Duration) -> Iteration {
        let counts = done.tally.counts;
        let percentile = |share: u64| Percentile {
            per_cent: share as f64 / 10.0,
            ms: done.tally.latency.quantile(share).as_secs_f64() * 1e3,
        };
        let missed = counts.failed + counts.hung + counts.not_tried;
        Iteration {
            number,
            path: bench.target.folder.clone(),
            document_bytes: done.document_bytes,
            concurrency: bench.concurrency,
            seconds: time.as_secs_f64(),
            complete: done.answered,
            failed: missed.saturating_sub(done.write_errors),
            write_errors: done.write_errors,
            verified: done.verified,
            received_bytes: done.received_bytes,
            sent_bytes: done.sent_bytes,
            percentiles_ms: SHARES.map(percentile).to_vec(),
        }
    }
}

impl fmt::Display for Iteration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.seconds.max(1e-9);
        let complete = (self.complete as f64).max(1e-9);
        let rate = self.complete as f64 / seconds;
        let (all, one) = (seconds * 1e3 / complete, self.concurrency as f64);
        let kib = |bytes: u64| bytes as f64 / 1024.0 / seconds;
        let total = self.sent_bytes + self.received_bytes;
        let mut line = |label: &str, value: String| writeln!(f, "{label:<24}{value}");
        line("Iteration:", self.number.to_string())?;
        line("Document Path:", self.path.clone())?;
        line("Document Length:", format!("{} bytes", self.document_bytes))?;
        line("Concurrency Level:", self.concurrency.to_string())?;
        line("Time taken for tests:", format!("{seconds:.3} seconds"))?;
        line("Complete requests:", self.complete.to_string())?;
        line("Failed requests:", self.failed.to_string())?;
        line("Write errors:", self.write_errors.to_string())?;
        line("Receipts verified:", self.verified.to_string())?;
        line("Total transferred:", format!("{total} bytes"))?;
        line("Total POSTed:", format!("{} bytes", self.sent_bytes))?;
        if self.complete == 0 {
            return Ok(());
        }
        line("Requests per second:", format!("{rate:.2} [#/sec] (mean)"))?;
        line("Time per request:", format!("{:.3} [ms] (mean)", all * one))?;
        let across = format!("{all:.3} [ms] (mean, across all concurrent requests)");
        line("Time per request:", across)?;
        let (received, sent) = (kib(self.received_bytes), kib(self.sent_bytes));
        line("Transfer rate:", format!("{received:.2} [Kbytes/sec] received"))?;
        line("", format!("{sent:.2} kb/s sent"))?;
        line("", format!("{:.2} kb/s total", kib(total)))?;
        writeln!(f, "\nPercentage of the requests served within a certain time (ms)")?;
        for Percentile { per_cent, ms } in &self.percentiles_ms {
            writeln!(f, "{:>6}  {ms:>10.1}", format!("{per_cent}%"))?;
        }
        Ok(())
    }
}
