//! Timers for parts of a millisecond.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::unix::AsyncFd;

use crate::{limits, socket};

/// Timers of the kernel (timerfd_create(2)), kept for the next one who waits. Those of the runtime
/// count whole milliseconds and ring after one or two of them; a thread that sleeps instead is two
/// changes of threads away. Each costs a descriptor, so there are few.
#[derive(Default)]
pub struct FineTimers(Mutex<Known>);

#[derive(Default)]
struct Known {
    resting: Vec<AsyncFd<OwnedFd>>,
    made: usize,
}

impl FineTimers {
    /// A timer that rings once, so long from now; `None` while [`limits::FINE_TIMERS`] others are
    /// running, or if there is no descriptor for it. Within a runtime.
    pub fn start(self: &Arc<Self>, time: Duration) -> Option<FineTimer> {
        let running = self.take()?;
        let is_set = set(running.get_ref(), time).is_ok();
        let timer = FineTimer { running: Some(running), timers: self.clone() };
        is_set.then_some(timer)
    }

    fn take(&self) -> Option<AsyncFd<OwnedFd>> {
        let mut known = self.0.lock();
        if let Some(resting) = known.resting.pop() {
            return Some(resting);
        }
        if known.made == limits::FINE_TIMERS {
            return None;
        }
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let made = timerfd_create(TimerfdClockId::Monotonic, flags).ok()?;
        let made = socket::watch_readable(made).ok()?;
        known.made += 1;
        Some(made)
    }
}

/// It rings once.
fn set(timer: &OwnedFd, time: Duration) -> io::Result<()> {
    let time = Timespec::try_from(time).map_err(io::Error::other)?;
    let once = Itimerspec { it_interval: Timespec::default(), it_value: time };
    timerfd_settime(timer, TimerfdTimerFlags::empty(), &once)?;
    Ok(())
}

/// A timer that runs; it goes back to the others with this.
pub struct FineTimer {
    running: Option<AsyncFd<OwnedFd>>,
    timers: Arc<FineTimers>,
}

impl FineTimer {
    /// Returns when it has rung, or cannot.
    pub async fn rung(&self) {
        let Some(running) = &self.running else { return };
        // A ring of its last use may still be told: what has rung can be read.
        while let Ok(mut ready) = running.readable().await {
            let read = rustix::io::read(running.get_ref(), &mut [0; 8]);
            ready.clear_ready();
            if read != Err(Errno::AGAIN) {
                return;
            }
        }
    }
}

impl Drop for FineTimer {
    fn drop(&mut self) {
        self.timers.0.lock().resting.extend(self.running.take());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_timer_rings_no_earlier_than_it_was_set_to() {
        let timers = Arc::new(FineTimers::default());
        for micros in [1, 250, 2_000, 300] {
            let (time, began) = (Duration::from_micros(micros), Instant::now());
            timers.start(time).expect("a timer").rung().await;
            assert!(began.elapsed() >= time, "{:?} of {time:?}", began.elapsed());
        }
        assert_eq!(timers.0.lock().made, 1, "one is kept for the next");
    }

    #[tokio::test]
    async fn the_ring_of_an_earlier_use_is_not_taken_for_a_later_one() {
        let timers = Arc::new(FineTimers::default());
        let first = timers.start(Duration::from_micros(1)).expect("a timer");
        // It has rung, and the runtime knows it; nobody reads it.
        let readable = first.running.as_ref().map(AsyncFd::readable);
        drop(readable.expect("it runs").await.expect("it rings"));
        drop(first);
        let second = timers.start(Duration::from_hours(1)).expect("a timer");
        assert_eq!(second.rung().now_or_never(), None);
        tokio::task::yield_now().await;
        assert_eq!(second.rung().now_or_never(), None);
    }

    #[tokio::test]
    async fn timers_are_few() {
        let timers = Arc::new(FineTimers::default());
        let start = || timers.start(Duration::from_hours(1));
        let running: Vec<_> = std::iter::from_fn(start).collect();
        assert_eq!(running.len(), limits::FINE_TIMERS);
        drop(running);
        assert!(start().is_some());
    }
}
