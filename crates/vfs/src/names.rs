//! One change of a name at a time: what is published, removed or renamed under a name, and the
//! record of it, are one step for everybody else who changes that name.

use std::collections::HashMap;
use std::sync::Arc;

use entrepot_nouns::StorePath;
use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;
use uuid::Uuid;

type Key = (Uuid, String);
type Locks = Arc<Mutex<HashMap<Key, Arc<tokio::sync::Mutex<()>>>>>;

/// The names at work. Empty when nothing changes.
#[derive(Clone, Default)]
pub(crate) struct Names(Locks);

/// Holds a name; gives it back on drop.
pub(crate) struct NameLock {
    names: Names,
    key: Key,
    guard: Option<OwnedMutexGuard<()>>,
}

impl Names {
    /// Waits until nobody else changes `path` at the endpoint.
    pub(crate) async fn hold(&self, endpoint: Uuid, path: &StorePath) -> NameLock {
        let key = (endpoint, path.as_str().to_owned());
        let lock = self.0.lock().entry(key.clone()).or_default().clone();
        // Made before the wait, so that giving up the wait tidies up too.
        let mut held = NameLock { names: self.clone(), key, guard: None };
        held.guard = Some(lock.lock_owned().await);
        held
    }

    /// Two names at once, in an order that is the same for everybody.
    pub(crate) async fn hold_both(
        &self,
        endpoint: Uuid,
        one: &StorePath,
        other: &StorePath,
    ) -> (NameLock, Option<NameLock>) {
        let (first, second) =
            if one.as_str() < other.as_str() { (one, other) } else { (other, one) };
        let held = self.hold(endpoint, first).await;
        let also = if first == second { None } else { Some(self.hold(endpoint, second).await) };
        (held, also)
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.lock().len()
    }
}

impl Drop for NameLock {
    fn drop(&mut self) {
        let mut locks = self.names.0.lock();
        self.guard = None;
        // The map holds one; every holder or waiter another one.
        if locks.get(&self.key).is_some_and(|lock| Arc::strong_count(lock) == 1) {
            locks.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_name_is_held_by_one_and_forgotten_after() {
        let names = Names::default();
        let (id, a, b) = (Uuid::from_u128(1), "a".parse().unwrap(), "b".parse().unwrap());
        let held = names.hold(id, &a).await;
        let mut second = Box::pin(names.hold(id, &a));
        assert!(futures_poll(&mut second).await.is_none(), "held twice");
        drop(held);
        let held = second.await;
        let both = tokio::time::timeout(std::time::Duration::from_secs(5), async {
            drop(held);
            names.hold_both(id, &b, &a).await
        });
        drop(both.await.unwrap());
        drop(names.hold_both(id, &a, &a).await);
        assert_eq!(names.len(), 0);
    }

    async fn futures_poll<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
        std::future::poll_fn(|context| {
            std::task::Poll::Ready(match std::pin::Pin::new(&mut *future).poll(context) {
                std::task::Poll::Ready(value) => Some(value),
                std::task::Poll::Pending => None,
            })
        })
        .await
    }
}
