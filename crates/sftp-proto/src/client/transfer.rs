//! Pipelined reads and writes of one open file.

use std::collections::VecDeque;

use super::answer::Answer;
use super::op::{OpError, RemoteHandle};

/// Which part of a file [`super::Client::get`] reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// The first byte that is read.
    pub offset: u64,
    /// Byte behind the last; `None`: until the server says EOF.
    pub end: Option<u64>,
    /// The size the file is thought to have. Up to there reads are pipelined at once; beyond it
    /// they grow from one, so that a small file costs two requests. Never believed as an end.
    pub expected: u64,
}

impl Extent {
    /// A whole file thought to be of this size.
    pub fn whole(expected: u64) -> Extent {
        Extent { offset: 0, end: None, expected }
    }
}

/// One READ to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ask {
    pub(super) offset: u64,
    pub(super) len: u32,
}

/// A file being read.
#[derive(Debug)]
pub(super) struct Getting {
    pub(super) handle: RemoteHandle,
    next: u64,
    end: u64,
    expected: u64,
    again: VecDeque<Ask>,
    in_flight: usize,
    /// READs in flight beyond the expected size, and how many there may be.
    beyond: usize,
    beyond_most: usize,
    eof: Option<u64>,
    highest: u64,
    received: u64,
    failure: Option<OpError>,
}

impl Getting {
    pub(super) fn new(handle: RemoteHandle, extent: Extent) -> Self {
        Getting {
            handle,
            next: extent.offset,
            end: extent.end.unwrap_or(u64::MAX),
            expected: extent.expected,
            again: VecDeque::new(),
            in_flight: 0,
            beyond: 0,
            beyond_most: 1,
            eof: None,
            highest: extent.offset,
            received: 0,
            failure: None,
        }
    }

    /// The next READ of at most `most` bytes, if one is due.
    pub(super) fn ask(&mut self, most: u32) -> Option<Ask> {
        if self.failure.is_some() {
            return None;
        }
        let ask = match self.again.pop_front() {
            Some(ask) => ask,
            None => self.ask_next(most)?,
        };
        self.in_flight += 1;
        if ask.offset >= self.expected {
            self.beyond += 1;
        }
        Some(ask)
    }

    fn ask_next(&mut self, most: u32) -> Option<Ask> {
        let beyond = self.next >= self.expected;
        if self.next >= self.end
            || self.eof.is_some()
            || (beyond && self.beyond >= self.beyond_most)
        {
            return None;
        }
        let until = if beyond { self.end } else { self.end.min(self.expected) };
        let len = u32::try_from(until - self.next).map_or(most, |left| left.min(most));
        let ask = Ask { offset: self.next, len };
        self.next = self.next.saturating_add(u64::from(len));
        Some(ask)
    }

    fn answered(&mut self, ask: Ask) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if ask.offset >= self.expected {
            self.beyond = self.beyond.saturating_sub(1);
        }
    }

    /// `got` bytes came; the rest is asked again. `true`: tell the data.
    pub(super) fn data(&mut self, ask: Ask, got: u32) -> bool {
        self.answered(ask);
        if self.failure.is_some() {
            return false;
        }
        if got < ask.len {
            let offset = ask.offset.saturating_add(u64::from(got));
            self.again.push_back(Ask { offset, len: ask.len - got });
        } else if ask.offset >= self.expected {
            self.beyond_most = (self.beyond_most * 2).min(crate::limits::REQUESTS_IN_FLIGHT);
        }
        self.received += u64::from(got);
        self.highest = self.highest.max(ask.offset.saturating_add(u64::from(got)));
        true
    }

    pub(super) fn end_of_file(&mut self, ask: Ask) {
        self.answered(ask);
        let eof = self.eof.map_or(ask.offset, |eof| eof.min(ask.offset));
        self.eof = Some(eof);
        self.again.retain(|ask| ask.offset < eof);
    }

    pub(super) fn refused(&mut self, ask: Ask, error: OpError) {
        self.answered(ask);
        self.failure.get_or_insert(error);
    }

    pub(super) fn cancel(&mut self) {
        self.failure.get_or_insert(OpError::Cancelled);
    }

    /// The result once nothing is in flight and nothing is left to ask.
    pub(super) fn result(&self) -> Option<Result<Answer, OpError>> {
        if self.in_flight > 0 {
            return None;
        }
        if let Some(failure) = &self.failure {
            return Some(Err(failure.clone()));
        }
        if !self.again.is_empty() || (self.eof.is_none() && self.next < self.end) {
            return None;
        }
        if self.eof.is_some_and(|eof| eof < self.highest) {
            return Some(Err(OpError::Changed));
        }
        Some(Ok(Answer::Transferred { bytes: self.received }))
    }
}

/// A file being written.
#[derive(Debug)]
pub(super) struct Putting {
    pub(super) handle: RemoteHandle,
    pub(super) next: u64,
    in_flight: usize,
    written: u64,
    ended: bool,
    failure: Option<OpError>,
}

impl Putting {
    pub(super) fn new(handle: RemoteHandle, offset: u64) -> Self {
        Putting { handle, next: offset, in_flight: 0, written: 0, ended: false, failure: None }
    }

    /// True if more data may be supplied, as far as this file goes.
    pub(super) fn wants(&self) -> bool {
        !self.ended && self.failure.is_none()
    }

    /// `len` bytes go out; where.
    pub(super) fn advance(&mut self, len: u32) -> u64 {
        let offset = self.next;
        self.next = self.next.saturating_add(u64::from(len));
        self.in_flight += 1;
        offset
    }

    pub(super) fn answered(&mut self, len: u32, result: Result<(), OpError>) {
        self.in_flight = self.in_flight.saturating_sub(1);
        match result {
            Ok(()) => self.written += u64::from(len),
            Err(error) => {
                self.failure.get_or_insert(error);
            }
        }
    }

    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    pub(super) fn cancel(&mut self) {
        self.failure.get_or_insert(OpError::Cancelled);
    }

    pub(super) fn result(&self) -> Option<Result<Answer, OpError>> {
        match &self.failure {
            _ if self.in_flight > 0 => None,
            Some(failure) => Some(Err(failure.clone())),
            None if self.ended => Some(Ok(Answer::Transferred { bytes: self.written })),
            None => None,
        }
    }
}
