//! Places at one server, which takes only so many connections of us: whose turn it is.
//!
//! 1. Who waits is served in turn, holder by holder, whatever each of them waits for.
//! 2. A file may keep its place for as long as its client likes. So the files of one holder never
//!    have more places than are left free for others behind them, but each holder may have one as
//!    long as any is free. Of very few places there is no share to give: there only the turns are
//!    fair.
//! 3. Requests come to an end by themselves. They may have any place that is free.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::budget::Holder;
use crate::limits::SHARED_PLACES;

/// What a place is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlaceUse {
    /// Something that its client holds open.
    File,
    /// Something that ends by itself.
    Request,
}

/// The places at a server.
pub(crate) struct Places(Mutex<State>);

struct State {
    total: usize,
    /// Of them for requests only.
    kept: usize,
    free: usize,
    /// Places of files, by holder.
    files: HashMap<Holder, usize>,
    /// Who waits, in the order in which it is their turn.
    turns: VecDeque<Holder>,
    waiting: HashMap<Holder, VecDeque<Waiter>>,
}

struct Waiter {
    wanted: PlaceUse,
    given: oneshot::Sender<Place>,
}

/// A place; dropping it gives it to who is next.
pub(crate) struct Place {
    places: Arc<Places>,
    holder: Holder,
    used_for: PlaceUse,
}

impl Places {
    /// `total` places, of which `kept` are for requests only.
    pub(crate) fn new(total: usize, kept: usize) -> Arc<Places> {
        let is_shared = total >= SHARED_PLACES;
        Arc::new(Places(Mutex::new(State {
            total,
            kept: if is_shared { kept } else { 0 },
            free: total,
            files: HashMap::new(),
            turns: VecDeque::new(),
            waiting: HashMap::new(),
        })))
    }

    /// Waits for a place. When the future is dropped nobody waits any more.
    pub(crate) async fn take(self: &Arc<Self>, holder: Holder, wanted: PlaceUse) -> Place {
        loop {
            let given = {
                let mut state = self.0.lock();
                // Those who wait may not have what is free: it would be theirs by now.
                if state.admits(holder, wanted) {
                    return state.give(self, holder, wanted);
                }
                state.wait(holder, wanted)
            };
            // The sender is dropped by nobody but a waiter's own queue, which then has no use for
            // it: asked again.
            if let Ok(place) = given.await {
                return place;
            }
        }
    }

    /// Places in all, and those of the files of a holder.
    pub(crate) fn counts(&self, holder: Holder) -> (usize, usize) {
        let state = self.0.lock();
        (state.total, state.files.get(&holder).copied().unwrap_or(0))
    }

    /// Gives what is free to those whose turn it is.
    fn serve(self: &Arc<Self>) {
        while let Some((waiter, place)) = self.next() {
            // Who has gone meanwhile gives it back by the drop.
            let _ = waiter.given.send(place);
        }
    }

    fn next(self: &Arc<Self>) -> Option<(Waiter, Place)> {
        let mut state = self.0.lock();
        let (holder, waiter) = state.next_waiter()?;
        let place = state.give(self, holder, waiter.wanted);
        Some((waiter, place))
    }
}

impl State {
    fn admits(&self, holder: Holder, wanted: PlaceUse) -> bool {
        let is_shared = self.total >= SHARED_PLACES;
        match wanted {
            PlaceUse::Request => self.free > 0,
            PlaceUse::File if !is_shared => self.free > 0,
            PlaceUse::File => {
                let held = self.files.get(&holder).copied().unwrap_or(0);
                let free = self.free.saturating_sub(self.kept);
                free > 0 && (held == 0 || held + 1 < free)
            }
        }
    }

    fn give(&mut self, places: &Arc<Places>, holder: Holder, wanted: PlaceUse) -> Place {
        self.free -= 1;
        if wanted == PlaceUse::File {
            *self.files.entry(holder).or_default() += 1;
        }
        Place { places: Arc::clone(places), holder, used_for: wanted }
    }

    fn wait(&mut self, holder: Holder, wanted: PlaceUse) -> oneshot::Receiver<Place> {
        let (given, receiver) = oneshot::channel();
        let queue = self.waiting.entry(holder).or_default();
        if queue.is_empty() {
            self.turns.push_back(holder);
        }
        queue.push_back(Waiter { wanted, given });
        receiver
    }

    /// Takes out the next who waits still and may have a place.
    fn next_waiter(&mut self) -> Option<(Holder, Waiter)> {
        for _ in 0..self.turns.len() {
            let holder = self.turns.pop_front()?;
            let Some(mut queue) = self.waiting.remove(&holder) else { continue };
            queue.retain(|waiter| !waiter.given.is_closed());
            // A request does not wait behind a file of its holder, whose share is used up.
            let chosen = queue.iter().position(|waiter| self.admits(holder, waiter.wanted));
            let waiter = chosen.and_then(|at| queue.remove(at));
            if !queue.is_empty() {
                self.turns.push_back(holder);
                self.waiting.insert(holder, queue);
            }
            if let Some(waiter) = waiter {
                return Some((holder, waiter));
            }
        }
        None
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.places.0.lock();
        state.free += 1;
        if self.used_for == PlaceUse::File
            && let Some(held) = state.files.get_mut(&self.holder)
        {
            *held -= 1;
            if *held == 0 {
                state.files.remove(&self.holder);
            }
        }
        drop(state);
        self.places.serve();
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::Pin;
    use std::task::Poll;

    use entrepot_nouns::AccountId;
    use uuid::Uuid;

    use super::*;

    type Waiting = Pin<Box<dyn Future<Output = Place>>>;

    fn account(number: u128) -> Holder {
        Holder::Account(AccountId(Uuid::from_u128(number)))
    }

    /// Asks for a place; `Err`: it has to wait.
    async fn ask(places: &Arc<Places>, number: u128, wanted: PlaceUse) -> Result<Place, Waiting> {
        let places = Arc::clone(places);
        let mut waiting: Waiting =
            Box::pin(async move { places.take(account(number), wanted).await });
        match poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context))).await {
            Poll::Ready(place) => Ok(place),
            Poll::Pending => Err(waiting),
        }
    }

    async fn is_served(waiting: &mut Waiting) -> Option<Place> {
        poll_fn(|context| {
            Poll::Ready(match waiting.as_mut().poll(context) {
                Poll::Ready(place) => Some(place),
                Poll::Pending => None,
            })
        })
        .await
    }

    async fn all_it_can(places: &Arc<Places>, number: u128) -> Vec<Place> {
        let mut held = Vec::new();
        while let Ok(place) = ask(places, number, PlaceUse::File).await {
            held.push(place);
        }
        held
    }

    #[tokio::test]
    async fn files_of_one_account_leave_places_for_others() {
        let places = Places::new(32, 0);
        let mut held = Vec::new();
        for (number, wanted) in [16, 8, 4, 2, 1, 1].into_iter().enumerate() {
            let mine = all_it_can(&places, number as u128).await;
            assert!(mine.len().abs_diff(wanted) <= 1, "{number}: {}", mine.len());
            assert!(!mine.is_empty(), "{number} got none");
            held.push(mine);
        }
        drop(held);
        assert_eq!(places.0.lock().free, 32);
        assert!(places.0.lock().files.is_empty());
    }

    #[tokio::test]
    async fn requests_find_a_place_while_files_have_all_they_can() {
        let places = Places::new(8, 1);
        let mut held = Vec::new();
        for number in 0..20 {
            held.extend(all_it_can(&places, number).await);
        }
        assert_eq!(held.len(), 7);
        assert!(ask(&places, 30, PlaceUse::Request).await.is_ok());
        // Also of an account whose share is used up, and that waits for one more file.
        let file = ask(&places, 0, PlaceUse::File).await.err().unwrap();
        let one = ask(&places, 30, PlaceUse::Request).await.ok().unwrap();
        let mut other = ask(&places, 0, PlaceUse::Request).await.err().unwrap();
        drop(one);
        assert!(is_served(&mut other).await.is_some());
        drop((file, held));
    }

    #[tokio::test]
    async fn holders_take_turns_however_many_wait_of_each() {
        let places = Places::new(1, 0);
        let first = ask(&places, 0, PlaceUse::File).await.ok().unwrap();
        let mut waiting = Vec::new();
        for number in [1, 1, 1, 1, 2, 3] {
            waiting.push((number, ask(&places, number, PlaceUse::File).await.err().unwrap()));
        }
        // One of them has gone.
        drop(waiting.remove(1));
        let (mut order, mut held) = (Vec::new(), Some(first));
        while !waiting.is_empty() {
            held = None;
            for at in 0..waiting.len() {
                if let Some(place) = is_served(&mut waiting[at].1).await {
                    order.push(waiting.remove(at).0);
                    held = Some(place);
                    break;
                }
            }
            assert!(held.is_some(), "nobody was served");
        }
        assert_eq!(order, [1, 2, 3, 1, 1]);
        drop(held);
        assert!(places.0.lock().waiting.is_empty() && places.0.lock().turns.is_empty());
    }

    #[tokio::test]
    async fn of_few_places_one_may_have_all() {
        let places = Places::new(3, 1);
        assert_eq!(all_it_can(&places, 1).await.len(), 3);
    }
}
