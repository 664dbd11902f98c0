//! What appending touches: a buffer of encoded records and a few numbers, behind one short lock.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::account::Account;
use crate::error::{JournalError, Result};
use crate::format::{self, CHAIN, Chain, MARK, OVERHEAD, RecordHead, RecordKind, SEGMENT_HEADER};
use crate::limits;

/// A place in a batch where the next segment begins.
#[derive(Clone, Debug)]
pub(crate) struct Cut {
    /// Byte of the batch.
    pub(crate) at: usize,
    /// First record of the next segment.
    pub(crate) first: u64,
    /// Chain hash of the record before.
    pub(crate) chain: Chain,
    /// Last record before that readers see.
    pub(crate) visible: u64,
}

/// Records on their way to the disk.
#[derive(Debug)]
pub(crate) struct Batch {
    /// 32 bytes of chain hash, which are not written, and encoded records.
    pub(crate) bytes: Vec<u8>,
    /// How far they are durable.
    pub(crate) done: usize,
    pub(crate) cuts: VecDeque<Cut>,
    /// The last record.
    pub(crate) last: u64,
}

pub(crate) struct Waiter {
    pub(crate) sequence: u64,
    pub(crate) done: oneshot::Sender<Result<()>>,
}

/// The first sync that failed.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    /// What it said.
    pub(crate) problem: String,
    /// When it was, by `Env::elapsed`.
    pub(crate) at: Duration,
}

/// Everything that appending needs.
pub(crate) struct State {
    buffer: Vec<u8>,
    spare: Vec<u8>,
    cuts: VecDeque<Cut>,
    chain: Chain,
    /// Where in its segment the next record goes.
    position: u64,
    segment_bytes: u64,
    limit_bytes: u64,
    pub(crate) account: Account,
    /// Bytes of a batch that the disk refused, to be tried again.
    pub(crate) stuck_bytes: usize,
    pub(crate) last: u64,
    pub(crate) visible: u64,
    pub(crate) durable: u64,
    pub(crate) released: u64,
    /// After it nothing becomes durable any more.
    pub(crate) fault: Option<Fault>,
    pub(crate) waiters: Vec<Waiter>,
    /// No more records: the journal closes.
    pub(crate) closing: bool,
    /// The flusher has something to do now.
    pub(crate) flush_wanted: bool,
    pub(crate) archive_wanted: bool,
    /// The flusher sleeps only until the tail is due.
    pub(crate) timer_armed: bool,
}

/// Where a [`State`] begins.
pub(crate) struct Start {
    pub(crate) chain: Chain,
    pub(crate) position: u64,
    pub(crate) last: u64,
    pub(crate) visible: u64,
    pub(crate) account: Account,
    pub(crate) segment_bytes: u64,
    pub(crate) limit_bytes: u64,
}

impl State {
    pub(crate) fn new(start: Start) -> Self {
        State {
            buffer: start.chain.to_vec(),
            spare: Vec::new(),
            cuts: VecDeque::new(),
            chain: start.chain,
            position: start.position,
            segment_bytes: start.segment_bytes,
            limit_bytes: start.limit_bytes,
            account: start.account,
            stuck_bytes: 0,
            last: start.last,
            visible: start.visible,
            durable: start.last,
            released: 0,
            fault: None,
            waiters: Vec::new(),
            closing: false,
            flush_wanted: false,
            archive_wanted: false,
            timer_armed: false,
        }
    }

    /// Why nothing can become durable any more, if so.
    pub(crate) fn suspect(&self) -> Option<JournalError> {
        let suspect = |fault: &Fault| JournalError::Suspect { problem: fault.problem.clone() };
        self.fault.as_ref().map(suspect)
    }

    /// True if records wait for the disk.
    pub(crate) fn has_pending(&self) -> bool {
        self.fault.is_none() && (self.buffer.len() > CHAIN || self.stuck_bytes > 0)
    }

    /// Bytes of records that wait for the disk, apart from a batch on its way.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.buffer.len().saturating_sub(CHAIN) + self.stuck_bytes
    }

    /// True if a caller may write and sync what waits itself.
    pub(crate) fn fits_inline(&self) -> bool {
        self.cuts.is_empty() && self.pending_bytes() <= limits::INLINE_BYTES
    }

    /// True if no new upload should begin.
    pub(crate) fn is_full(&self) -> bool {
        self.account.total() >= self.limit_bytes
    }

    /// Appends a fact of others.
    pub(crate) fn append(&mut self, kind: RecordKind, payload: &[u8]) -> Result<u64> {
        if let Some(error) = self.suspect() {
            return Err(error);
        }
        if self.closing {
            return Err(JournalError::Closed);
        }
        if payload.len() > limits::PAYLOAD_BYTES {
            let (size, limit) = (payload.len(), limits::PAYLOAD_BYTES);
            return Err(JournalError::TooLong { size, limit });
        }
        let bytes = (payload.len() + OVERHEAD) as u64;
        // What has happened must find room even when nothing new is begun any more.
        let limit = match kind {
            RecordKind::Intent => self.limit_bytes,
            RecordKind::Event | RecordKind::Closed => {
                self.limit_bytes + self.limit_bytes / limits::HEADROOM_PART
            }
        };
        let used = self.account.total();
        if used + bytes > limit {
            return Err(JournalError::Full { used, limit: self.limit_bytes });
        }
        if self.pending_bytes() > limits::PENDING_BYTES {
            return Err(JournalError::Behind { pending: self.pending_bytes() as u64 });
        }
        let sequence = self.push(kind as u8, payload);
        self.visible = sequence;
        self.account.add(sequence, bytes);
        Ok(sequence)
    }

    /// Appends a record of the journal's own, past every limit.
    pub(crate) fn append_mark(&mut self, payload: &[u8]) -> u64 {
        let caught_up = self.released == self.last;
        let sequence = self.push(MARK, payload);
        if caught_up {
            self.released = sequence;
        }
        sequence
    }

    /// Goes on with higher numbers, if they are not yet reached.
    pub(crate) fn skip_past(&mut self, sequence: u64) {
        if sequence > self.last {
            let note = format::skip_mark(self.last);
            let caught_up = self.released == self.last;
            self.last = sequence;
            if caught_up {
                self.released = sequence;
            }
            self.append_mark(&note);
        }
    }

    fn push(&mut self, kind: u8, payload: &[u8]) -> u64 {
        let bytes = (payload.len() + OVERHEAD) as u64;
        let sequence = self.last + 1;
        // Marks are short, and one that skips numbers must stand in the segment before the gap.
        let over = kind != MARK && self.position + bytes > self.segment_bytes;
        if over && self.position > SEGMENT_HEADER as u64 {
            self.cuts.push_back(Cut {
                at: self.buffer.len(),
                first: sequence,
                chain: self.chain,
                visible: self.visible,
            });
            self.position = SEGMENT_HEADER as u64;
        }
        let head = RecordHead { kind, sequence, synced: self.durable };
        self.chain = format::encode(&mut self.buffer, head, payload);
        self.position += bytes;
        self.last = sequence;
        sequence
    }

    /// Takes what waits in memory.
    pub(crate) fn take(&mut self) -> Option<Batch> {
        if self.buffer.len() <= CHAIN {
            return None;
        }
        let mut fresh = std::mem::take(&mut self.spare);
        fresh.clear();
        fresh.extend_from_slice(&self.chain);
        let bytes = std::mem::replace(&mut self.buffer, fresh);
        let cuts = std::mem::take(&mut self.cuts);
        Some(Batch { bytes, done: CHAIN, cuts, last: self.last })
    }

    /// Keeps the memory of a batch for the next but one.
    pub(crate) fn give_back(&mut self, mut batch: Batch) {
        if batch.bytes.capacity() <= 4 * limits::INLINE_BYTES {
            batch.bytes.clear();
            self.spare = batch.bytes;
        }
    }

    /// Waiters up to and including `sequence`.
    pub(crate) fn take_waiters(&mut self, sequence: u64) -> Vec<Waiter> {
        if self.waiters.is_empty() {
            return Vec::new();
        }
        let (due, rest) = std::mem::take(&mut self.waiters)
            .into_iter()
            .partition(|waiter| waiter.sequence <= sequence);
        self.waiters = rest;
        due
    }

    /// Counts records as projected. Marks behind the last visible record count with it.
    pub(crate) fn release(&mut self, up_to: u64) {
        let up_to = if up_to >= self.visible { self.last } else { up_to };
        if up_to > self.released {
            self.released = up_to;
            self.account.release(up_to);
            self.archive_wanted = true;
        }
    }
}
