//! Who waits for a session. Callers take turns: one that asks for many at once does not keep the
//! others waiting.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// One that waits, by its number.
pub(crate) type Ticket = u64;

/// For whom a session is wanted: the id of an account, or whatever else takes turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Caller(pub u128);

/// One that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) ticket: Ticket,
    /// No longer than until then.
    pub(crate) until: Duration,
}

/// The queue of a pool.
#[derive(Debug)]
pub(crate) struct CallQueue {
    most: usize,
    length: usize,
    peak: usize,
    next_ticket: Ticket,
    /// Callers with tickets, in the order in which it is their turn.
    turns: VecDeque<Caller>,
    tickets: HashMap<Caller, VecDeque<Waiting>>,
}

impl CallQueue {
    /// For at most so many.
    pub(crate) fn new(most: usize) -> CallQueue {
        CallQueue {
            most,
            length: 0,
            peak: 0,
            next_ticket: 0,
            turns: VecDeque::new(),
            tickets: HashMap::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.length
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// How many wait, and how many did at most.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.length, self.peak)
    }

    /// One more waits. `None`: there are too many.
    pub(crate) fn ask(&mut self, caller: Caller, until: Duration) -> Option<Ticket> {
        if self.length >= self.most {
            return None;
        }
        let ticket = self.new_ticket();
        let tickets = self.tickets.entry(caller).or_default();
        if tickets.is_empty() {
            self.turns.push_back(caller);
        }
        tickets.push_back(Waiting { ticket, until });
        self.length += 1;
        self.peak = self.peak.max(self.length);
        Some(ticket)
    }

    /// The number of one that waits elsewhere.
    pub(crate) fn new_ticket(&mut self) -> Ticket {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        ticket
    }

    /// Whose turn it is.
    pub(crate) fn next(&mut self) -> Option<Waiting> {
        let caller = self.turns.pop_front()?;
        let tickets = self.tickets.get_mut(&caller)?;
        let waiting = tickets.pop_front();
        if tickets.is_empty() {
            self.tickets.remove(&caller);
        } else {
            self.turns.push_back(caller);
        }
        self.length = self.length.saturating_sub(usize::from(waiting.is_some()));
        waiting
    }

    /// Takes out those that do not wait any more.
    pub(crate) fn retain(&mut self, waits: impl Fn(Ticket) -> bool) {
        self.tickets.retain(|_, tickets| {
            tickets.retain(|waiting| waits(waiting.ticket));
            !tickets.is_empty()
        });
        let tickets = &self.tickets;
        self.turns.retain(|caller| tickets.contains_key(caller));
        self.length = tickets.values().map(VecDeque::len).sum();
    }
}
