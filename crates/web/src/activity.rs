//! What happens on one connection, as its stream, its requests and its watch see it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use entrepot_nouns::Env;
use futures_util::task::AtomicWaker;
use parking_lot::Mutex;

/// No moment: nothing has begun.
const NEVER: u64 = u64::MAX;

/// What happens on one connection. Times are milliseconds of [`Env::elapsed`].
#[derive(Debug)]
pub(crate) struct Activity {
    env: Env,
    /// Passwords that are being checked.
    checks: AtomicUsize,
    /// Who waits to read until they are.
    reader: AtomicWaker,
    /// Requests that are worked on, their answers included.
    running: AtomicUsize,
    /// Requests so far.
    requests: AtomicU32,
    /// When the last request ended, or the connection began.
    rested_ms: AtomicU64,
    /// When the first byte came behind the last request.
    head_ms: AtomicU64,
    /// When the client took something of each answer.
    answers: Mutex<Vec<Arc<AtomicU64>>>,
}

/// What a connection does at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// No request runs, and none has begun for so long.
    Resting(Duration),
    /// No request runs, and the head of one began to come so long ago.
    Beginning(Duration),
    /// Requests run; of the answer that moves least its client has taken nothing for so long.
    Running(Duration),
}

impl Activity {
    pub(crate) fn new(env: Env) -> Activity {
        let activity = Activity {
            env,
            checks: AtomicUsize::new(0),
            reader: AtomicWaker::new(),
            running: AtomicUsize::new(0),
            requests: AtomicU32::new(0),
            rested_ms: AtomicU64::new(0),
            head_ms: AtomicU64::new(NEVER),
            answers: Mutex::default(),
        };
        activity.rested_ms.store(activity.now(), Ordering::Relaxed);
        activity
    }

    fn now(&self) -> u64 {
        u64::try_from(self.env.elapsed().as_millis()).unwrap_or(NEVER - 1)
    }

    fn since(&self, moment: u64) -> Duration {
        Duration::from_millis(self.now().saturating_sub(moment))
    }

    /// Until the guard is dropped nothing is read from a client that has not signed in.
    pub(crate) fn check(self: &Arc<Self>) -> Check {
        self.checks.fetch_add(1, Ordering::SeqCst);
        Check(Arc::clone(self))
    }

    /// Ready unless a password is being checked.
    pub(crate) fn poll_may_read(&self, cx: &Context<'_>) -> Poll<()> {
        if self.checks.load(Ordering::SeqCst) == 0 {
            return Poll::Ready(());
        }
        self.reader.register(cx.waker());
        if self.checks.load(Ordering::SeqCst) == 0 { Poll::Ready(()) } else { Poll::Pending }
    }

    pub(crate) fn received(&self) {
        if self.running.load(Ordering::Relaxed) == 0
            && self.head_ms.load(Ordering::Relaxed) == NEVER
        {
            self.head_ms.store(self.now(), Ordering::Relaxed);
        }
    }

    /// The head of a request is there; it runs until the guard is dropped.
    pub(crate) fn request(self: &Arc<Self>) -> RunningRequest {
        self.head_ms.store(NEVER, Ordering::Relaxed);
        self.running.fetch_add(1, Ordering::Relaxed);
        self.requests.fetch_add(1, Ordering::Relaxed);
        RunningRequest { activity: Arc::clone(self), answer: None }
    }

    /// Requests so far.
    pub(crate) fn requests(&self) -> u32 {
        self.requests.load(Ordering::Relaxed)
    }

    pub(crate) fn moment(&self) -> Moment {
        if self.running.load(Ordering::Relaxed) > 0 {
            let answers = self.answers.lock();
            let oldest = answers.iter().map(|taken| taken.load(Ordering::Relaxed)).min();
            return Moment::Running(oldest.map_or(Duration::ZERO, |taken| self.since(taken)));
        }
        match self.head_ms.load(Ordering::Relaxed) {
            NEVER => Moment::Resting(self.since(self.rested_ms.load(Ordering::Relaxed))),
            began => Moment::Beginning(self.since(began)),
        }
    }
}

/// A check that goes on, for [`Activity::check`].
#[derive(Debug)]
pub(crate) struct Check(Arc<Activity>);

impl Drop for Check {
    fn drop(&mut self) {
        self.0.checks.fetch_sub(1, Ordering::SeqCst);
        self.0.reader.wake();
    }
}

/// A request from its head to the end of its answer.
#[derive(Debug)]
pub(crate) struct RunningRequest {
    activity: Arc<Activity>,
    /// Since its answer began.
    answer: Option<Arc<AtomicU64>>,
}

impl RunningRequest {
    /// Our side of the connection asks for the next part of the answer: the client has taken what
    /// was sent before, or nearly so.
    pub(crate) fn taken(&mut self) {
        let now = self.activity.now();
        match &self.answer {
            Some(taken) => taken.store(now, Ordering::Relaxed),
            None => {
                let taken = Arc::new(AtomicU64::new(now));
                self.activity.answers.lock().push(Arc::clone(&taken));
                self.answer = Some(taken);
            }
        }
    }

    /// The next part is not there yet: that the client takes nothing is not its doing.
    pub(crate) fn waits_for_us(&mut self) {
        if let Some(taken) = &self.answer {
            taken.store(NEVER, Ordering::Relaxed);
        }
    }
}

impl Drop for RunningRequest {
    fn drop(&mut self) {
        if let Some(taken) = &self.answer {
            self.activity.answers.lock().retain(|other| !Arc::ptr_eq(other, taken));
        }
        self.activity.rested_ms.store(self.activity.now(), Ordering::Relaxed);
        self.activity.running.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_connection_rests_begins_and_runs() {
        let env = Env::simulated(1);
        let activity = Arc::new(Activity::new(env.clone()));
        env.advance(SECOND);
        assert_eq!(activity.moment(), Moment::Resting(SECOND));
        activity.received();
        env.advance(2 * SECOND);
        activity.received();
        assert_eq!(activity.moment(), Moment::Beginning(2 * SECOND));
        let mut request = activity.request();
        env.advance(SECOND);
        assert_eq!(activity.moment(), Moment::Running(Duration::ZERO), "no answer yet");
        request.taken();
        env.advance(SECOND);
        assert_eq!(activity.moment(), Moment::Running(SECOND), "the client takes nothing");
        request.waits_for_us();
        env.advance(SECOND);
        assert_eq!(activity.moment(), Moment::Running(Duration::ZERO), "the file is slow");
        request.taken();
        drop(request);
        env.advance(SECOND);
        assert_eq!((activity.moment(), activity.requests()), (Moment::Resting(SECOND), 1));
        assert!(activity.answers.lock().is_empty());
    }

    #[test]
    fn nothing_is_read_while_a_password_is_checked() {
        let activity = Arc::new(Activity::new(Env::simulated(1)));
        let cx = Context::from_waker(std::task::Waker::noop());
        let (one, other) = (activity.check(), activity.check());
        drop(one);
        assert!(activity.poll_may_read(&cx).is_pending());
        drop(other);
        assert!(activity.poll_may_read(&cx).is_ready());
    }
}
