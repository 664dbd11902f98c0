//! How many messages of a listener may be at some point of their way at a time.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Places for messages; how many there are is said by whoever takes one, for the limits of a
/// listener change while it serves.
pub(crate) struct MessagePlaces {
    free: Arc<Semaphore>,
    size: Mutex<usize>,
}

/// Its place is free again when this is dropped.
pub(super) struct MessagePlace {
    _permit: OwnedSemaphorePermit,
}

impl Default for MessagePlaces {
    fn default() -> Self {
        MessagePlaces { free: Arc::new(Semaphore::new(0)), size: Mutex::new(0) }
    }
}

impl MessagePlaces {
    /// A place, if one of `size` is free.
    pub(super) fn find(&self, size: usize) -> Option<MessagePlace> {
        self.resize(size);
        let permit = Arc::clone(&self.free).try_acquire_owned().ok()?;
        Some(MessagePlace { _permit: permit })
    }

    /// A place; those who wait get one in their order.
    pub(super) async fn wait_for_one(&self, size: usize) -> MessagePlace {
        self.resize(size);
        let permit = Arc::clone(&self.free).acquire_owned().await;
        // The invariant: nobody closes it.
        MessagePlace { _permit: permit.expect("the places stay open") }
    }

    /// Places that are taken go when they come back and somebody asks for one.
    fn resize(&self, wanted: usize) {
        let wanted = wanted.min(Semaphore::MAX_PERMITS);
        let mut size = self.size.lock();
        if wanted > *size {
            self.free.add_permits(wanted - *size);
            *size = wanted;
        } else {
            *size -= self.free.forget_permits(*size - wanted);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn there_are_as_many_as_the_listener_says_now() {
        let places = MessagePlaces::default();
        let (first, second) = (places.find(2), places.find(2));
        assert!(first.is_some() && second.is_some() && places.find(2).is_none());
        let third = places.find(3);
        assert!(third.is_some(), "there are more now");
        drop((first, second));
        let only = places.wait_for_one(1);
        tokio::pin!(only);
        assert!(futures_util::poll!(&mut only).is_pending(), "the third one has the only place");
        drop(third);
        only.await;
        assert!(places.find(1).is_some() && places.find(0).is_none());
    }
}
