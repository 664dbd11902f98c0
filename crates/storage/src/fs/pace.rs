//! What may be done inline and what goes to the blocking pool, decided by what was measured.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use super::disk::Nature;
use crate::limits::{
    INLINE_PAUSE_WRITES, INLINE_WRITE_BYTES, INLINE_WRITE_SLOW, SYNC_FAST, SYNC_FAST_RUN,
    SYNC_SLOW, SYNC_SLOW_RUN, SYNC_STALLED,
};

/// How a write may be tried inline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Try {
    /// By `RWF_NOWAIT`, which fails where it would wait.
    NoWait,
    /// A plain write: it goes to memory, or to the page cache of a local disk.
    Plain,
    /// It may wait too long: send it to the pool.
    No,
}

/// The measured pace of one disk. Relaxed atomics: a stale answer costs time, never safety.
pub(crate) struct Pace {
    nature: Nature,
    sync_inline: AtomicBool,
    fast_syncs: AtomicU32,
    slow_syncs: AtomicU32,
    no_wait: AtomicBool,
    pause: AtomicU32,
}

impl Pace {
    pub(crate) fn new(nature: Nature) -> Self {
        Pace {
            nature,
            sync_inline: AtomicBool::new(nature.in_memory),
            fast_syncs: AtomicU32::new(0),
            slow_syncs: AtomicU32::new(0),
            // File systems in memory refuse RWF_NOWAIT and need it not.
            no_wait: AtomicBool::new(!nature.in_memory),
            pause: AtomicU32::new(0),
        }
    }

    /// True if no call on names waits for a device.
    pub(crate) fn in_memory(&self) -> bool {
        self.nature.in_memory
    }

    /// True if a sync is so fast that a thread hop would cost more.
    pub(crate) fn sync_inline(&self) -> bool {
        self.sync_inline.load(Ordering::Relaxed)
    }

    /// A sync took this long.
    pub(crate) fn synced(&self, took: Duration) {
        if took < SYNC_SLOW && self.slow_syncs.load(Ordering::Relaxed) > 0 {
            self.slow_syncs.store(0, Ordering::Relaxed);
        }
        match (took < SYNC_FAST, self.sync_inline()) {
            (true, true) => {}
            (true, false) => {
                if self.fast_syncs.fetch_add(1, Ordering::Relaxed) >= SYNC_FAST_RUN {
                    self.sync_inline.store(true, Ordering::Relaxed);
                    self.fast_syncs.store(0, Ordering::Relaxed);
                }
            }
            (false, false) => self.fast_syncs.store(0, Ordering::Relaxed),
            (false, true) => {
                let slow = took >= SYNC_SLOW
                    && self.slow_syncs.fetch_add(1, Ordering::Relaxed) + 1 >= SYNC_SLOW_RUN;
                if slow || took >= SYNC_STALLED {
                    self.sync_inline.store(false, Ordering::Relaxed);
                    self.slow_syncs.store(0, Ordering::Relaxed);
                }
            }
        }
    }

    /// How to try a write of `bytes` inline.
    pub(crate) fn inline_write(&self, bytes: usize) -> Try {
        if self.nature.in_memory {
            return Try::Plain;
        }
        if self.no_wait.load(Ordering::Relaxed) {
            return Try::NoWait;
        }
        if !self.nature.local || bytes > INLINE_WRITE_BYTES {
            return Try::No;
        }
        let left = self.pause.load(Ordering::Relaxed);
        if left > 0 {
            self.pause.store(left - 1, Ordering::Relaxed);
            return Try::No;
        }
        Try::Plain
    }

    /// The file system refused `RWF_NOWAIT` for writes (ext4 does).
    pub(crate) fn refused_no_wait(&self) {
        self.no_wait.store(false, Ordering::Relaxed);
    }

    /// A plain inline write took this long.
    pub(crate) fn wrote(&self, took: Duration) {
        if took > INLINE_WRITE_SLOW {
            self.pause.store(INLINE_PAUSE_WRITES, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISK: Nature = Nature { in_memory: false, local: true, subvolumes: false };

    #[test]
    fn a_slow_sync_leaves_the_reactor_and_a_run_of_fast_ones_returns() {
        let pace = Pace::new(Nature { in_memory: true, local: true, subvolumes: false });
        assert!(pace.sync_inline());
        for _ in 1..SYNC_SLOW_RUN {
            pace.synced(Duration::from_millis(5));
        }
        pace.synced(Duration::from_micros(1));
        pace.synced(Duration::from_millis(5));
        assert!(pace.sync_inline(), "a thread that lost its CPU now and then");
        for _ in 1..SYNC_SLOW_RUN {
            pace.synced(Duration::from_millis(5));
        }
        assert!(!pace.sync_inline());
        for _ in 0..=SYNC_FAST_RUN {
            pace.synced(Duration::from_micros(1));
        }
        assert!(pace.sync_inline());
        pace.synced(SYNC_STALLED);
        assert!(!pace.sync_inline(), "a stalled disk");
        assert!(!Pace::new(DISK).sync_inline());
    }

    #[test]
    fn plain_inline_writes_are_small_and_pause_when_throttled() {
        let pace = Pace::new(DISK);
        assert_eq!(pace.inline_write(1), Try::NoWait);
        pace.refused_no_wait();
        assert_eq!(pace.inline_write(INLINE_WRITE_BYTES), Try::Plain);
        assert_eq!(pace.inline_write(INLINE_WRITE_BYTES + 1), Try::No);
        pace.wrote(Duration::from_millis(50));
        for _ in 0..INLINE_PAUSE_WRITES {
            assert_eq!(pace.inline_write(1), Try::No);
        }
        assert_eq!(pace.inline_write(1), Try::Plain);
        let network = Pace::new(Nature { in_memory: false, local: false, subvolumes: false });
        network.refused_no_wait();
        assert_eq!(network.inline_write(1), Try::No);
    }
}
