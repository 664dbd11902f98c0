//! One `fsync` for all who wait for the same directory.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use rustix::io::Errno;

/// A directory, whatever its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DirectoryId {
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

/// Directories being synced.
#[derive(Default)]
pub(crate) struct SyncGroups {
    groups: Mutex<HashMap<DirectoryId, Arc<Group>>>,
}

#[derive(Default)]
struct Group {
    state: Mutex<Rounds>,
    ended: Condvar,
}

/// Syncs are counted; a waiter is covered only by one that began after it came.
#[derive(Default)]
struct Rounds {
    started: u64,
    ended: u64,
    running: bool,
    failed: Option<(u64, Errno)>,
}

impl SyncGroups {
    /// Returns once a call of `sync` that began after this call has ended, made by this thread or
    /// by another one that waits for the same directory. Blocks.
    pub(crate) fn sync(
        &self,
        directory: DirectoryId,
        sync: impl FnOnce() -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let group = Arc::clone(self.groups.lock().entry(directory).or_default());
        let result = group.wait(sync);
        let mut groups = self.groups.lock();
        // Two are left when nobody else waits: the map's and ours.
        if Arc::strong_count(&group) == 2 {
            groups.remove(&directory);
        }
        // Let go under the lock, or the last one to come here counts us still.
        drop(group);
        result
    }
}

impl Group {
    fn wait(&self, sync: impl FnOnce() -> Result<(), Errno>) -> Result<(), Errno> {
        let mut rounds = self.state.lock();
        let needed = rounds.started + 1;
        while rounds.ended < needed && rounds.running {
            self.ended.wait(&mut rounds);
        }
        if rounds.ended < needed {
            rounds.running = true;
            rounds.started = needed;
            drop(rounds);
            let result = sync();
            rounds = self.state.lock();
            rounds.running = false;
            rounds.ended = needed;
            if let Err(errno) = result {
                rounds.failed = Some((needed, errno));
            }
            self.ended.notify_all();
        }
        // An error of a later round counts too: it may be about our name.
        match rounds.failed {
            Some((round, errno)) if round >= needed => Err(errno),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    const DIRECTORY: DirectoryId = DirectoryId { device: 1, inode: 1 };

    /// Waits until `count` threads sleep until the leader's sync ends. Holding the group is not
    /// enough: who does not sleep yet has not said which round it needs.
    fn wait_for_followers(groups: &SyncGroups, count: usize) {
        let group = Arc::clone(&groups.groups.lock()[&DIRECTORY]);
        loop {
            let rounds = group.state.lock();
            // The woken find that nothing has ended, and sleep again.
            let slept = group.ended.notify_all();
            drop(rounds);
            if slept == count {
                return;
            }
            std::thread::yield_now();
        }
    }

    #[test]
    fn those_who_came_meanwhile_share_the_next_sync() {
        let groups = SyncGroups::default();
        let (calls, inside) = (AtomicU32::new(0), Barrier::new(2));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                groups.sync(DIRECTORY, || {
                    calls.fetch_add(1, Ordering::SeqCst);
                    inside.wait();
                    wait_for_followers(&groups, 8);
                    Ok(())
                })
            });
            inside.wait();
            for _ in 0..8 {
                scope.spawn(|| {
                    let sync = || {
                        calls.fetch_add(1, Ordering::SeqCst);
                        Ok(())
                    };
                    groups.sync(DIRECTORY, sync).unwrap();
                });
            }
        });
        // None of the eight is covered by the first, for it began before they came.
        assert_eq!(calls.load(Ordering::SeqCst), 2);
        assert!(groups.groups.lock().is_empty());
    }

    #[test]
    fn a_failed_sync_fails_all_it_should_have_covered() {
        let groups = SyncGroups::default();
        let inside = Barrier::new(2);
        std::thread::scope(|scope| {
            let first = scope.spawn(|| {
                groups.sync(DIRECTORY, || {
                    inside.wait();
                    wait_for_followers(&groups, 4);
                    Ok(())
                })
            });
            inside.wait();
            let others: Vec<_> =
                (0..4).map(|_| scope.spawn(|| groups.sync(DIRECTORY, || Err(Errno::IO)))).collect();
            assert_eq!(first.join().unwrap(), Ok(()));
            for other in others {
                assert_eq!(other.join().unwrap(), Err(Errno::IO));
            }
        });
        assert_eq!(groups.sync(DIRECTORY, || Ok(())), Ok(()));
    }
}
