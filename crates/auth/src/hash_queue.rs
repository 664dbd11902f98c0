//! The queue for password hashing: few hashes at a time, within a budget of memory. The waiting
//! logins are served round-robin by the address they come from, so that many behind one address
//! delay only each other.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::limits::{HASHES_AT_A_TIME, HASHES_KIB, HASHES_WAITING};
use crate::penalties::Origin;

/// The hashes that run, and the logins that wait for one. Cheap to clone.
#[derive(Clone)]
pub(crate) struct HashQueue(Arc<Mutex<HashQueueState>>);

struct HashQueueState {
    /// Most logins that may wait.
    capacity: usize,
    running: usize,
    free_kib: u32,
    waiting: HashMap<Origin, VecDeque<Waiter>>,
    /// Each address with a waiting login once; the first is served next.
    order: VecDeque<Origin>,
    /// Waiting logins of all addresses.
    count: usize,
    next_id: u64,
}

struct Waiter {
    id: u64,
    kib: u32,
    granted: oneshot::Sender<HashPermit>,
}

/// Permission to hash one password; dropping it gives it back.
#[must_use]
pub(crate) struct HashPermit {
    queue: HashQueue,
    kib: u32,
}

impl Drop for HashPermit {
    fn drop(&mut self) {
        let mut state = self.queue.0.lock();
        state.running = state.running.saturating_sub(1);
        state.free_kib = state.free_kib.saturating_add(self.kib);
        drop(state);
        self.queue.grant_next();
    }
}

/// A login in the queue; it leaves when its future is dropped.
struct QueueEntry {
    queue: HashQueue,
    origin: Origin,
    id: u64,
}

impl Drop for QueueEntry {
    fn drop(&mut self) {
        self.queue.0.lock().leave(self.origin, self.id);
    }
}

impl HashQueue {
    pub(crate) fn new() -> Self {
        Self::of(HASHES_WAITING)
    }

    fn of(capacity: usize) -> Self {
        HashQueue(Arc::new(Mutex::new(HashQueueState {
            capacity,
            running: 0,
            free_kib: HASHES_KIB,
            waiting: HashMap::new(),
            order: VecDeque::new(),
            count: 0,
            next_id: 0,
        })))
    }

    /// Waits until a hash that takes `kib` of memory may run. `None`: the queue is full, and no
    /// other address has more logins in it than `origin`, or this login was pushed out by one of
    /// an address that has fewer.
    pub(crate) async fn acquire(&self, origin: Origin, kib: u32) -> Option<HashPermit> {
        let kib = kib.min(HASHES_KIB);
        let (granted, grants) = oneshot::channel();
        let _entry = {
            let mut state = self.0.lock();
            if !state.make_room(origin) {
                return None;
            }
            let id = state.next_id;
            state.next_id += 1;
            state.join(origin, Waiter { id, kib, granted });
            QueueEntry { queue: self.clone(), origin, id }
        };
        self.grant_next();
        grants.await.ok()
    }

    /// Lets run what fits, in the order of the queue.
    fn grant_next(&self) {
        loop {
            let mut state = self.0.lock();
            let Some(waiter) = state.next_fitting() else { return };
            state.running += 1;
            state.free_kib -= waiter.kib;
            drop(state);
            let permit = HashPermit { queue: self.clone(), kib: waiter.kib };
            // If the login has gone meanwhile, the permit is dropped here, which grants the next
            // one: the recursion is at most as deep as hashes may run at a time.
            drop(waiter.granted.send(permit));
        }
    }

    #[cfg(test)]
    pub(crate) fn running(&self) -> usize {
        self.0.lock().running
    }
}

impl HashQueueState {
    /// True if one more login of `origin` may wait. In a full queue it pushes out the last login of
    /// the address with most, if that address has at least two more than `origin`.
    fn make_room(&mut self, origin: Origin) -> bool {
        if self.count < self.capacity {
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
            self.order.push_back(origin);
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
            self.order.retain(|other| *other != origin);
        }
        true
    }

    /// The first in the order, if there is memory for it. None that needs less overtakes it, so
    /// that one that needs much is not kept waiting for ever.
    fn next_fitting(&mut self) -> Option<Waiter> {
        let origin = *self.order.front()?;
        let waiters = self.waiting.get_mut(&origin)?;
        let fits = |waiter: &&Waiter| waiter.kib <= self.free_kib;
        if self.running >= HASHES_AT_A_TIME || waiters.front().filter(fits).is_none() {
            return None;
        }
        let waiter = waiters.pop_front()?;
        self.count -= 1;
        self.order.pop_front();
        if waiters.is_empty() {
            drop(self.waiting.remove(&origin))
        } else {
            self.order.push_back(origin)
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

    type Waiting = Pin<Box<dyn Future<Output = Option<HashPermit>> + Send>>;

    fn from(host: u8) -> Origin {
        Origin::of(std::net::IpAddr::from([192, 0, 2, host]))
    }

    fn waits(queue: &HashQueue, host: u8, kib: u32) -> Waiting {
        let queue = queue.clone();
        let mut waiting: Waiting = Box::pin(async move { queue.acquire(from(host), kib).await });
        assert!(poll_once(&mut waiting).is_none(), "{host} did not have to wait");
        waiting
    }

    fn poll_once(waiting: &mut Waiting) -> Option<Option<HashPermit>> {
        match waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => Some(done),
            Poll::Pending => None,
        }
    }

    fn at_once(queue: &HashQueue, host: u8, kib: u32) -> HashPermit {
        let queue = queue.clone();
        let mut waiting: Waiting = Box::pin(async move { queue.acquire(from(host), kib).await });
        poll_once(&mut waiting).flatten().expect("it had to wait")
    }

    #[test]
    fn addresses_take_turns_however_many_wait_behind_one() {
        let queue = HashQueue::of(100);
        let first = at_once(&queue, 1, KIB);
        let second = at_once(&queue, 1, KIB);
        let mut crowd: Vec<Waiting> = (0..50).map(|_| waits(&queue, 1, KIB)).collect();
        let mut alone = waits(&queue, 2, KIB);
        drop(first);
        assert!(
            crowd.iter_mut().filter_map(poll_once).flatten().count() == 1,
            "the first in the queue"
        );
        assert!(
            poll_once(&mut alone).flatten().is_some(),
            "the permit that was given back at once"
        );
        drop(second);
    }

    #[test]
    fn a_full_queue_makes_room_for_an_address_with_fewer_logins() {
        let queue = HashQueue::of(4);
        let _running = [at_once(&queue, 1, KIB), at_once(&queue, 1, KIB)];
        let mut crowd: Vec<Waiting> = (0..4).map(|_| waits(&queue, 1, KIB)).collect();
        let mut more: Waiting = {
            let queue = queue.clone();
            Box::pin(async move { queue.acquire(from(1), KIB).await })
        };
        assert!(
            poll_once(&mut more).is_some_and(|permit| permit.is_none()),
            "of the crowd: refused"
        );
        let _other = waits(&queue, 2, KIB);
        let pushed: Vec<bool> = crowd.iter_mut().map(|one| poll_once(one).is_some()).collect();
        assert_eq!(pushed, [false, false, false, true], "the last of the crowd makes room");
    }

    #[test]
    fn memory_is_kept_and_what_asks_for_all_of_it_runs_alone() {
        let queue = HashQueue::of(10);
        let running = at_once(&queue, 1, KIB);
        let mut large = waits(&queue, 2, u32::MAX);
        let mut behind = waits(&queue, 3, KIB);
        drop(running);
        let all = poll_once(&mut large).flatten().expect("there is room now");
        assert!(poll_once(&mut behind).is_none(), "beside one that takes all");
        drop(all);
        assert!(poll_once(&mut behind).flatten().is_some());
        assert_eq!(queue.0.lock().free_kib, HASHES_KIB);
    }

    #[test]
    fn a_dropped_login_leaves_the_queue_and_loses_no_permit() {
        let queue = HashQueue::of(10);
        let running = [at_once(&queue, 1, KIB), at_once(&queue, 1, KIB)];
        let gone = waits(&queue, 2, KIB);
        let granted = waits(&queue, 3, KIB);
        let mut stays = waits(&queue, 4, KIB);
        drop(gone);
        drop(running);
        // It was granted a permit, and is dropped before it takes it.
        drop(granted);
        assert!(poll_once(&mut stays).flatten().is_some());
        assert_eq!((queue.running(), queue.0.lock().count), (0, 0));
    }
}
