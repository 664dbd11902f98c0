//! What one connection used, how fast it may go, and the switch that ends it.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use entrepot_nouns::Env;
use futures_util::task::AtomicWaker;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::limits;

pub use crate::throttle::{Lane, Throttle, Throttles};

/// How far a connection that has not logged in has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Stage {
    /// TCP is connected; nothing has come from the client yet.
    Connected = 0,
    /// Its identification line came, or its first command.
    Identified = 1,
    /// It began the key exchange, or said AUTH.
    Exchanging = 2,
    /// Its keys are in use.
    Encrypted = 3,
    /// It tries to log in.
    Authenticating = 4,
    /// It has logged in.
    LoggedIn = 5,
}

/// Why a connection is ended, by class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndClass {
    /// By decision: stopped, disabled, idle, drained (SSH reason 11).
    Decision,
    /// Too many connections or channels (SSH reason 12).
    TooMany,
    /// Login failed too often or took too long (SSH reason 14).
    Login,
    /// The peer broke the protocol (SSH reason 2).
    Protocol,
}

/// Why a connection is ended: a sentence for the peer and the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// Which code the protocol ends the connection with.
    pub class: EndClass,
    /// The cause in one sentence, which the peer is shown too.
    pub reason: String,
}

/// Counters and kill switch of one connection.
#[derive(Debug)]
pub struct SessionMeter {
    env: Env,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    touched_ms: AtomicU64,
    /// When it last got further on its way to a login.
    progressed_ms: AtomicU64,
    /// Its credentials are being checked.
    checked: AtomicBool,
    running: AtomicUsize,
    waited_for: AtomicUsize,
    stage: AtomicU8,
    end: OnceLock<End>,
    ending: Notify,
    cut: AtomicBool,
    /// The streams that are cut with the session: its own and those that it opened beside.
    streams: Mutex<Vec<Weak<StreamWakers>>>,
    throttles: OnceLock<Throttles>,
    client: OnceLock<Box<str>>,
    algorithms: OnceLock<Box<str>>,
    idle_limit_ms: AtomicU64,
    /// Bytes a second that a running transfer must move; 0: no limit.
    least_rate: AtomicU64,
}

impl SessionMeter {
    /// For a new connection.
    pub fn new(env: Env) -> Self {
        let meter = SessionMeter {
            env,
            bytes_in: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            touched_ms: AtomicU64::new(0),
            progressed_ms: AtomicU64::new(0),
            checked: AtomicBool::new(false),
            running: AtomicUsize::new(0),
            waited_for: AtomicUsize::new(0),
            stage: AtomicU8::new(0),
            end: OnceLock::new(),
            ending: Notify::new(),
            cut: AtomicBool::new(false),
            streams: Mutex::default(),
            throttles: OnceLock::new(),
            client: OnceLock::new(),
            algorithms: OnceLock::new(),
            idle_limit_ms: AtomicU64::new(u64::MAX),
            least_rate: AtomicU64::new(0),
        };
        meter.touch();
        meter.progress();
        meter
    }

    /// Time on its clock, which only rises.
    pub(crate) fn now(&self) -> Duration {
        self.env.elapsed()
    }

    /// Bytes received, as they were on the wire.
    pub fn bytes_in(&self) -> u64 {
        self.bytes_in.load(Ordering::Relaxed)
    }

    /// Bytes sent, as they were on the wire.
    pub fn bytes_out(&self) -> u64 {
        self.bytes_out.load(Ordering::Relaxed)
    }

    pub(crate) fn received(&self, bytes: usize) -> u64 {
        if let Some(throttles) = self.throttles.get() {
            throttles.upload.take(bytes);
        }
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.bytes_in.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes)
    }

    pub(crate) fn sent(&self, bytes: usize) {
        if let Some(throttles) = self.throttles.get() {
            throttles.download.take(bytes);
        }
        self.bytes_out.fetch_add(u64::try_from(bytes).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Binds the throttles of the account that logged in; those of whoever was logged in before on
    /// this connection count no more.
    pub fn bind(&self, throttles: Throttles) {
        let bound = self.throttles.get_or_init(|| throttles.clone());
        bound.upload.become_of(&throttles.upload);
        bound.download.become_of(&throttles.download);
    }

    /// The throttles, after login.
    pub fn throttles(&self) -> Option<&Throttles> {
        self.throttles.get()
    }

    /// Notes a request: the session is not idle.
    pub fn touch(&self) {
        let now = u64::try_from(self.env.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.touched_ms.store(now, Ordering::Relaxed);
    }

    /// Time since the last request.
    pub fn idle(&self) -> Duration {
        let touched = Duration::from_millis(self.touched_ms.load(Ordering::Relaxed));
        self.env.elapsed().saturating_sub(touched)
    }

    /// A session idle for so long is ended. May be changed while the session runs.
    pub fn set_idle_limit(&self, limit: Duration) {
        let limit = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        self.idle_limit_ms.store(limit, Ordering::Relaxed);
    }

    /// See [`SessionMeter::set_idle_limit`]; before login there is none.
    pub fn idle_limit(&self) -> Duration {
        Duration::from_millis(self.idle_limit_ms.load(Ordering::Relaxed))
    }

    /// A session whose running transfers move fewer bytes a second is ended; `None`: it is not.
    /// May be changed while the session runs.
    pub fn set_least_rate(&self, rate: Option<u64>) {
        self.least_rate.store(rate.unwrap_or(0), Ordering::Relaxed);
    }

    /// See [`SessionMeter::set_least_rate`]. Never more than half of what our own limits let pass.
    pub(crate) fn least_rate(&self) -> u64 {
        let least = self.least_rate.load(Ordering::Relaxed);
        let lanes = self.throttles().map(|throttles| [&throttles.upload, &throttles.download]);
        let shares = lanes.into_iter().flatten().filter_map(Lane::least_share);
        shares.min().map_or(least, |share| least.min(share / 2))
    }

    /// What the peer calls itself: its identification line (RFC 4253 §4.2), once it came.
    pub fn client(&self) -> &str {
        self.client.get().map_or("", |client| client)
    }

    /// Notes what the peer calls itself; only the first line counts.
    pub fn identified(&self, line: &[u8]) {
        let line = String::from_utf8_lossy(line.trim_ascii_end());
        let shown = line.chars().filter(|letter| !letter.is_control()).collect::<String>();
        let _ = self.client.set(shown.into_boxed_str());
    }

    /// Notes the algorithms that protect the connection; only the first call counts.
    pub fn agreed(&self, algorithms: &impl std::fmt::Display) {
        let _ = self.algorithms.set(algorithms.to_string().into_boxed_str());
    }

    /// The names of the algorithms in use, once login has begun; empty before, and in clear text.
    pub fn algorithms(&self) -> &str {
        self.algorithms.get().map_or("", |algorithms| algorithms)
    }

    /// Counts a running transfer until the guard is dropped; a draining server waits for it.
    pub fn running(self: &Arc<Self>) -> Running {
        self.running.fetch_add(1, Ordering::Relaxed);
        Running(Arc::clone(self))
    }

    /// Counts work that moves no bytes and ends by itself, such as a rule after a command, until
    /// the guard is dropped. A draining server waits for it too; the least rate says nothing of it.
    pub fn waited_for(self: &Arc<Self>) -> WaitedFor {
        self.waited_for.fetch_add(1, Ordering::Relaxed);
        WaitedFor(Arc::clone(self))
    }

    /// True while something runs that a draining server waits for.
    pub fn is_busy(&self) -> bool {
        self.is_moving() || self.is_waited_for()
    }

    /// True while the client waits for something that is not a transfer.
    pub fn is_waited_for(&self) -> bool {
        self.waited_for.load(Ordering::Relaxed) > 0
    }

    /// True while a transfer runs.
    fn is_moving(&self) -> bool {
        self.running.load(Ordering::Relaxed) > 0
    }

    /// How far it has got.
    pub fn stage(&self) -> Stage {
        match self.stage.load(Ordering::Relaxed) {
            0 => Stage::Connected,
            1 => Stage::Identified,
            2 => Stage::Exchanging,
            3 => Stage::Encrypted,
            4 => Stage::Authenticating,
            _ => Stage::LoggedIn,
        }
    }

    /// Notes progress; never goes back.
    pub fn advance(&self, stage: Stage) {
        if self.stage.fetch_max(stage as u8, Ordering::Relaxed) < stage as u8 {
            self.progress();
        }
    }

    fn progress(&self) {
        let now = u64::try_from(self.env.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.progressed_ms.store(now, Ordering::Relaxed);
    }

    /// Time since it last reached a stage, or an answer to its credentials.
    pub(crate) fn since_progress(&self) -> Duration {
        let progressed = Duration::from_millis(self.progressed_ms.load(Ordering::Relaxed));
        self.env.elapsed().saturating_sub(progressed)
    }

    pub(crate) fn check_begins(&self) {
        self.checked.store(true, Ordering::Relaxed);
    }

    pub(crate) fn check_ends(&self) {
        self.checked.store(false, Ordering::Relaxed);
        self.progress();
    }

    /// Ends the connection: the peer is told the reason and half a second later the stream is
    /// cut. Only the first reason counts.
    pub fn end(&self, class: EndClass, reason: impl Into<String>) {
        if self.end.set(End { class, reason: reason.into() }).is_ok() {
            self.ending.notify_waiters();
        }
    }

    /// Why it is being ended, if it is.
    pub fn ended(&self) -> Option<&End> {
        self.end.get()
    }

    /// Waits until [`SessionMeter::end`] was called.
    pub async fn ending(&self) -> &End {
        loop {
            let notified = self.ending.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            if let Some(end) = self.end.get() {
                return end;
            }
            notified.await;
        }
    }

    /// Cuts the stream now: every read and write fails, also those that wait.
    pub fn cut(&self) {
        self.cut.store(true, Ordering::SeqCst);
        for stream in self.streams.lock().iter().filter_map(Weak::upgrade) {
            stream.reader.wake();
            stream.writer.wake();
        }
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.cut.load(Ordering::SeqCst)
    }

    /// Fails once the session was cut, as each read and write of its streams does.
    ///
    /// # Errors
    /// [`SessionMeter::cut`] was called.
    pub fn unless_cut(&self) -> io::Result<()> {
        if self.is_cut() { Err(cut()) } else { Ok(()) }
    }

    /// For a stream that is to be cut with the session. What polls it registers itself whenever it
    /// has to wait, and then looks at [`SessionMeter::is_cut`], so that no cut is missed.
    pub(crate) fn stream(&self) -> Arc<StreamWakers> {
        let wakers = Arc::new(StreamWakers::default());
        let mut streams = self.streams.lock();
        streams.retain(|stream| stream.strong_count() > 0);
        streams.push(Arc::downgrade(&wakers));
        wakers
    }
}

/// Who waits to read from and to write to one stream of a session.
#[derive(Debug, Default)]
pub(crate) struct StreamWakers {
    pub(crate) reader: AtomicWaker,
    pub(crate) writer: AtomicWaker,
}

/// The error of reads and writes after [`SessionMeter::cut`].
pub(crate) fn cut() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "the connection was ended")
}

/// A running transfer; see [`SessionMeter::running`].
#[derive(Debug)]
pub struct Running(Arc<SessionMeter>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Work that is waited for; see [`SessionMeter::waited_for`].
#[derive(Debug)]
pub struct WaitedFor(Arc<SessionMeter>);

impl Drop for WaitedFor {
    fn drop(&mut self) {
        self.0.waited_for.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns when a client has had so long to log in and did not. The time in which its credentials
/// are checked does not count: how long they wait for their turn is not its doing.
pub(crate) async fn watch_login(meter: &SessionMeter, limit: Duration) {
    let mut left = limit;
    while !left.is_zero() {
        let tick = left.min(limits::LOGIN_TICK);
        sleep(tick).await;
        if meter.stage() == Stage::LoggedIn {
            std::future::pending::<()>().await;
        }
        if !meter.checked.load(Ordering::Relaxed) {
            left = left.saturating_sub(tick);
        }
    }
}

/// Ends a session whose transfers run all the time and hardly move.
pub(crate) async fn watch_pace(meter: &SessionMeter) {
    let moved = || meter.bytes_in().saturating_add(meter.bytes_out());
    let rounds = limits::PACE_TIME.as_secs() / limits::PACE_INTERVAL.as_secs().max(1);
    let (mut before, mut slow) = (moved(), 0);
    loop {
        sleep(limits::PACE_INTERVAL).await;
        let now = moved();
        let least = meter.least_rate().saturating_mul(limits::PACE_INTERVAL.as_secs());
        slow = if meter.is_moving() && now.saturating_sub(before) < least { slow + 1 } else { 0 };
        before = now;
        if slow >= rounds {
            return meter.end(EndClass::Decision, "the transfer was slower than the least rate");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_reason_is_the_reason() {
        let meter = Arc::new(SessionMeter::new(Env::simulated(1)));
        let waiting = tokio::spawn({
            let meter = Arc::clone(&meter);
            async move { meter.ending().await.clone() }
        });
        tokio::task::yield_now().await;
        meter.end(EndClass::Decision, "the account was disabled");
        meter.end(EndClass::TooMany, "later");
        assert_eq!(waiting.await.unwrap().reason, "the account was disabled");
        assert_eq!(meter.ending().await.class, EndClass::Decision);
    }

    #[test]
    fn idle_time_counts_from_the_last_request() {
        let env = Env::simulated(1);
        let meter = SessionMeter::new(env.clone());
        env.advance(Duration::from_secs(7));
        assert_eq!(meter.idle(), Duration::from_secs(7));
        meter.touch();
        assert_eq!(meter.idle(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_transfer_that_hardly_moves_is_ended_and_nobody_else() {
        let meter = Arc::new(SessionMeter::new(Env::real()));
        meter.set_least_rate(Some(1000));
        let watch = |seconds: u64, bytes: usize| {
            let (meter, moved) = (Arc::clone(&meter), Arc::clone(&meter));
            let mut ticks = tokio::time::interval(Duration::from_secs(1));
            let moving = async move {
                loop {
                    ticks.tick().await;
                    moved.received(bytes);
                }
            };
            let time = Duration::from_secs(seconds);
            async move {
                tokio::select! {
                    ended = tokio::time::timeout(time, watch_pace(&meter)) => ended.is_ok(),
                    () = moving => false,
                }
            }
        };
        assert!(!watch(600, 0).await, "no transfer runs");
        let running = meter.running();
        assert!(!watch(600, 1100).await, "it is fast enough");
        assert!(!watch(55, 10).await, "it may be slow for a while");
        assert!(watch(65, 10).await, "too slow for a minute");
        let reason = meter.ended().unwrap().reason.clone();
        assert_eq!(reason, "the transfer was slower than the least rate");
        drop(running);
    }
}
