//! Whose password is hashed next: few at a time, within a budget of memory; those who wait take
//! turns by the address that they come from, so that a crowd behind one delays itself alone.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::limits::{HASHES_AT_A_TIME, HASHES_KIB, HASHES_WAITING};
use crate::penalties::Origin;

/// Who may hash, and who waits. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Turns(Arc<Mutex<Queue>>);

struct Queue {
    places: usize,
    running: usize,
    free_kib: u32,
    waiting: HashMap<Origin, VecDeque<Waiter>>,
    /// Each address that waits, in the order of its turns.
    round: VecDeque<Origin>,
    count: usize,
    next: u64,
}

struct Waiter {
    id: u64,
    kib: u32,
    called: oneshot::Sender<Turn>,
}

/// Leave to hash; given back when dropped.
#[must_use]
pub(crate) struct Turn {
    turns: Turns,
    kib: u32,
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut queue = self.turns.0.lock();
        queue.running = queue.running.saturating_sub(1);
        queue.free_kib = queue.free_kib.saturating_add(self.kib);
        drop(queue);
        self.turns.call();
    }
}

/// A place in the queue; who is cut meanwhile leaves it.
struct Place {
    turns: Turns,
    origin: Origin,
    id: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.turns.0.lock().leave(self.origin, self.id);
    }
}

impl Turns {
    pub(crate) fn new() -> Self {
        Self::of(HASHES_WAITING)
    }

    fn of(places: usize) -> Self {
        Turns(Arc::new(Mutex::new(Queue {
            places,
            running: 0,
            free_kib: HASHES_KIB,
            waiting: HashMap::new(),
            round: VecDeque::new(),
            count: 0,
            next: 0,
        })))
    }

    /// Waits for a turn of work that takes so much memory; `None`: too many wait, and none of them
    /// has more company from its address.
    pub(crate) async fn take(&self, origin: Origin, kib: u32) -> Option<Turn> {
        let kib = kib.min(HASHES_KIB);
        let (called, calls) = oneshot::channel();
        let _place = {
            let mut queue = self.0.lock();
            if !queue.make_room(origin) {
                return None;
            }
            let id = queue.next;
            queue.next += 1;
            queue.join(origin, Waiter { id, kib, called });
            Place { turns: self.clone(), origin, id }
        };
        self.call();
        // Whoever had to make room for another hears nothing.
        calls.await.ok()
    }

    /// Calls all whose turn it is.
    fn call(&self) {
        loop {
            let mut queue = self.0.lock();
            let Some(waiter) = queue.next_fitting() else { return };
            queue.running += 1;
            queue.free_kib -= waiter.kib;
            drop(queue);
            let turn = Turn { turns: self.clone(), kib: waiter.kib };
            // Who has gone meanwhile gives the turn back by dropping it. That calls the next one:
            // at most as deep as turns can be had at a time.
            drop(waiter.called.send(turn));
        }
    }

    #[cfg(test)]
    pub(crate) fn running(&self) -> usize {
        self.0.lock().running
    }
}

impl Queue {
    /// True if one more of `origin` may wait: above the limit the last of the address with most
    /// waiting goes, unless that is this one.
    fn make_room(&mut self, origin: Origin) -> bool {
        if self.count < self.places {
            return true;
        }
        let own = self.waiting.get(&origin).map_or(0, VecDeque::len);
        let most = self.waiting.iter().max_by_key(|(_, waiters)| waiters.len());
        let Some((largest, waiters)) = most.filter(|(_, waiters)| waiters.len() > own + 1) else {
            return false;
        };
        let (largest, last) = (*largest, waiters.back().map(|waiter| waiter.id));
        last.is_some_and(|id| self.leave(largest, id))
    }

    fn join(&mut self, origin: Origin, waiter: Waiter) {
        let waiters = self.waiting.entry(origin).or_default();
        if waiters.is_empty() {
            self.round.push_back(origin);
        }
        waiters.push_back(waiter);
        self.count += 1;
    }

    fn leave(&mut self, origin: Origin, id: u64) -> bool {
        let Some(waiters) = self.waiting.get_mut(&origin) else { return false };
        let Some(at) = waiters.iter().position(|waiter| waiter.id == id) else { return false };
        waiters.remove(at);
        self.count -= 1;
        if waiters.is_empty() {
            self.waiting.remove(&origin);
            self.round.retain(|other| *other != origin);
        }
        true
    }

    /// The next in turn, if there is room for it: none overtakes it, so that it comes to its turn.
    fn next_fitting(&mut self) -> Option<Waiter> {
        let origin = *self.round.front()?;
        let waiters = self.waiting.get_mut(&origin)?;
        let fits = |waiter: &&Waiter| waiter.kib <= self.free_kib;
        if self.running >= HASHES_AT_A_TIME || waiters.front().filter(fits).is_none() {
            return None;
        }
        let waiter = waiters.pop_front()?;
        self.count -= 1;
        self.round.pop_front();
        if waiters.is_empty() {
            drop(self.waiting.remove(&origin))
        } else {
            self.round.push_back(origin)
        }
        Some(waiter)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    const KIB: u32 = 65_536;

    type Waiting = Pin<Box<dyn Future<Output = Option<Turn>> + Send>>;

    fn from(host: u8) -> Origin {
        Origin::of(std::net::IpAddr::from([192, 0, 2, host]))
    }

    fn waits(turns: &Turns, host: u8, kib: u32) -> Waiting {
        let turns = turns.clone();
        let mut waiting: Waiting = Box::pin(async move { turns.take(from(host), kib).await });
        assert!(look(&mut waiting).is_none(), "{host} did not have to wait");
        waiting
    }

    fn look(waiting: &mut Waiting) -> Option<Option<Turn>> {
        match waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => Some(done),
            Poll::Pending => None,
        }
    }

    fn at_once(turns: &Turns, host: u8, kib: u32) -> Turn {
        let turns = turns.clone();
        let mut waiting: Waiting = Box::pin(async move { turns.take(from(host), kib).await });
        look(&mut waiting).flatten().expect("it had to wait")
    }

    #[test]
    fn addresses_take_turns_however_many_wait_behind_one() {
        let turns = Turns::of(100);
        let first = at_once(&turns, 1, KIB);
        let second = at_once(&turns, 1, KIB);
        let mut crowd: Vec<Waiting> = (0..50).map(|_| waits(&turns, 1, KIB)).collect();
        let mut alone = waits(&turns, 2, KIB);
        drop(first);
        assert!(crowd.iter_mut().filter_map(look).flatten().count() == 1, "the first in the queue");
        assert!(look(&mut alone).flatten().is_some(), "the turn that was given back at once");
        drop(second);
    }

    #[test]
    fn a_full_queue_makes_room_for_whoever_has_less_company() {
        let turns = Turns::of(4);
        let _running = [at_once(&turns, 1, KIB), at_once(&turns, 1, KIB)];
        let mut crowd: Vec<Waiting> = (0..4).map(|_| waits(&turns, 1, KIB)).collect();
        let mut more: Waiting = {
            let turns = turns.clone();
            Box::pin(async move { turns.take(from(1), KIB).await })
        };
        assert!(look(&mut more).is_some_and(|turn| turn.is_none()), "of the crowd: refused");
        let _other = waits(&turns, 2, KIB);
        let pushed: Vec<bool> = crowd.iter_mut().map(|one| look(one).is_some()).collect();
        assert_eq!(pushed, [false, false, false, true], "the last of the crowd makes room");
    }

    #[test]
    fn memory_is_kept_and_what_asks_for_all_of_it_runs_alone() {
        let turns = Turns::of(10);
        let running = at_once(&turns, 1, KIB);
        let mut large = waits(&turns, 2, u32::MAX);
        let mut behind = waits(&turns, 3, KIB);
        drop(running);
        let all = look(&mut large).flatten().expect("there is room now");
        assert!(look(&mut behind).is_none(), "beside one that takes all");
        drop(all);
        assert!(look(&mut behind).flatten().is_some());
        assert_eq!(turns.0.lock().free_kib, HASHES_KIB);
    }

    #[test]
    fn who_is_cut_leaves_the_queue_and_loses_no_turn() {
        let turns = Turns::of(10);
        let running = [at_once(&turns, 1, KIB), at_once(&turns, 1, KIB)];
        let gone = waits(&turns, 2, KIB);
        let called = waits(&turns, 3, KIB);
        let mut stays = waits(&turns, 4, KIB);
        drop(gone);
        drop(running);
        // It was called, and is cut before it takes its turn.
        drop(called);
        assert!(look(&mut stays).flatten().is_some());
        assert_eq!((turns.running(), turns.0.lock().count), (0, 0));
    }
}
