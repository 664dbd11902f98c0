//! What a node remembers of web hooks: how many came of late, and which.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use entrepot_nouns::{Env, EventId};
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use crate::limits::HOOKS_REMEMBERED;
use crate::minute_rates::Rates;

/// What a node remembers of web hooks.
pub(crate) struct Hooks {
    rates: Rates,
    seen: Mutex<Seen>,
}

/// Messages of late, so that one that comes twice at once is recorded once.
#[derive(Default)]
struct Seen {
    cells: HashMap<EventId, Recorded>,
    order: VecDeque<EventId>,
}

/// The event under which a message is known, once that is durable.
pub(crate) type Recorded = Arc<OnceCell<EventId>>;

impl Hooks {
    /// Nothing yet, by the clock of `env`.
    pub(crate) fn new(env: Env) -> Hooks {
        Hooks { rates: Rates::new(env), seen: Mutex::default() }
    }

    /// Counts a message of a rule; how long its sender should wait if it is one too many.
    pub(crate) fn count(&self, rule: [u8; 16], most: u32) -> Result<(), Duration> {
        self.rates.count(rule, most)
    }

    /// Asks the database anew when the message comes again.
    pub(crate) fn forget(&self, id: EventId) {
        self.seen.lock().cells.remove(&id);
    }

    /// Where the event of a message is noted: whoever comes second waits for the first.
    pub(crate) fn cell(&self, id: EventId) -> Recorded {
        let mut seen = self.seen.lock();
        if let Some(cell) = seen.cells.get(&id) {
            return cell.clone();
        }
        if seen.order.len() >= HOOKS_REMEMBERED
            && let Some(first) = seen.order.pop_front()
        {
            seen.cells.remove(&first);
        }
        let cell = Recorded::default();
        seen.cells.insert(id, cell.clone());
        seen.order.push_back(id);
        cell
    }
}
