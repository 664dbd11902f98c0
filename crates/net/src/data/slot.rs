//! The place of one session at its port: what it expects, and who came.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::error::DataError;
use super::lazy::LazySocket;
use super::peer::DataPeer;
use crate::limits::{DATA_CANDIDATES, DATA_LEASE_TIME};

/// A connection that came.
#[derive(Debug)]
pub(super) struct Arrived {
    pub(super) stream: LazySocket,
    /// Where the client is, also behind a balancer.
    pub(super) peer: SocketAddr,
    /// When it was accepted, on the clock of [`entrepot_nouns::Env::elapsed`].
    pub(super) accepted: Duration,
}

impl Arrived {
    /// Ends it at once, without TIME_WAIT and without a byte.
    pub(super) fn reset(self) {
        self.stream.reset_when_closed();
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Slot {
    /// Where the control connection comes from.
    pub(super) control: IpAddr,
    pub(super) policy: DataPeer,
    state: Mutex<SlotState>,
    came: Notify,
}

#[derive(Debug, Default)]
struct SlotState {
    expected: Option<Expected>,
    /// The lease is over.
    ended: bool,
}

#[derive(Debug)]
struct Expected {
    since: Duration,
    waiting: VecDeque<Arrived>,
    /// How many have come.
    came: usize,
}

impl Drop for Expected {
    fn drop(&mut self) {
        self.waiting.drain(..).for_each(Arrived::reset);
    }
}

impl Slot {
    pub(super) fn new(control: IpAddr, policy: DataPeer) -> Self {
        Slot { control, policy, state: Mutex::default(), came: Notify::new() }
    }

    /// Expects a connection from now on; whoever waited for an older expectation is reset.
    /// `false`: the lease is over.
    pub(super) fn open(&self, now: Duration) -> bool {
        let mut state = self.state.lock();
        if !state.ended {
            state.expected = Some(Expected { since: now, waiting: VecDeque::new(), came: 0 });
        }
        !state.ended
    }

    pub(super) fn is_expecting(&self) -> bool {
        self.state.lock().expected.is_some()
    }

    pub(super) fn has_waiting(&self) -> bool {
        let state = self.state.lock();
        state.expected.as_ref().is_some_and(|expected| !expected.waiting.is_empty())
    }

    /// Expects nobody any more.
    pub(super) fn forget(&self) {
        // What was expected is dropped behind the lock.
        let _gone = self.state.lock().expected.take();
        self.came.notify_one();
    }

    /// The lease is over; `false`: it was already.
    pub(super) fn end(&self) -> bool {
        let before = std::mem::replace(&mut self.state.lock().ended, true);
        self.forget();
        !before
    }

    /// True if the client of the last expectation has not come for too long.
    pub(super) fn is_overdue(&self, now: Duration) -> bool {
        let state = self.state.lock();
        let since = state.expected.as_ref().filter(|expected| expected.came == 0);
        since.is_some_and(|expected| now.saturating_sub(expected.since) >= DATA_LEASE_TIME)
    }

    /// Hands a connection to the session; it comes back if it is not expected.
    pub(super) fn offer(&self, arrived: Arrived) -> Result<(), Arrived> {
        let mut state = self.state.lock();
        match &mut state.expected {
            // One that came before was made for an older expectation: PROXY headers take time.
            Some(expected)
                if expected.came < DATA_CANDIDATES && expected.since <= arrived.accepted =>
            {
                expected.came += 1;
                expected.waiting.push_back(arrived);
            }
            _ => return Err(arrived),
        }
        drop(state);
        self.came.notify_one();
        Ok(())
    }

    /// The next who came, before or after this call. `None`: no more can come.
    pub(super) async fn next(&self) -> Result<Option<Arrived>, DataError> {
        loop {
            {
                let mut state = self.state.lock();
                let expected = state.expected.as_mut().ok_or(DataError::NotExpected)?;
                if let Some(arrived) = expected.waiting.pop_front() {
                    return Ok(Some(arrived));
                }
                if expected.came >= DATA_CANDIDATES {
                    return Ok(None);
                }
            }
            self.came.notified().await;
        }
    }
}
