//! Bandwidth limits: token buckets that several sessions share, and the lane of one session through
//! all buckets that hold for it.
//!
//! A session that has moved bytes waits until they fit the rate, queued behind what others moved
//! before. So sessions alternate in pieces of [`TURN_BYTES`] at most, an idle session uses nothing
//! up, and a new one is served after one piece of each of the others.

use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use arc_swap::ArcSwap;
use entrepot_nouns::Env;
use tokio::time::Sleep;

use crate::limits::{LEAST_RATE, THROTTLE_SLICE, TURN_BYTES};

/// Waits shorter than this are not worth a timer.
const BURST: Duration = Duration::from_millis(10);

/// Burst credit after idle time.
const CREDIT_NS: u64 = 50_000_000;

/// A token bucket of one direction, shared and changed live. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Throttle(Arc<Bucket>);

#[derive(Debug)]
struct Bucket {
    env: Env,
    /// Bytes a second; 0: no limit.
    rate: AtomicU64,
    /// When everything taken so far is paid for, nanoseconds of [`Env::elapsed`].
    paid_ns: AtomicU64,
    /// One more with each change of the rate.
    epoch: AtomicU64,
}

impl Throttle {
    /// A throttle of `rate` bytes a second; `None`: no limit.
    pub fn new(env: Env, rate: Option<u64>) -> Self {
        let throttle = Throttle(Arc::new(Bucket {
            env,
            rate: AtomicU64::new(0),
            paid_ns: AtomicU64::new(0),
            epoch: AtomicU64::new(0),
        }));
        throttle.set(rate);
        throttle
    }

    /// Changes the rate for all who share it; debts of the old rate are forgiven.
    pub fn set(&self, rate: Option<u64>) {
        let rate = rate.map_or(0, |rate| rate.max(LEAST_RATE));
        if self.0.rate.swap(rate, Ordering::Relaxed) != rate {
            self.0.paid_ns.store(now_ns(&self.0.env), Ordering::Relaxed);
            self.0.epoch.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Bytes a second; `None`: no limit.
    pub fn rate(&self) -> Option<u64> {
        Some(self.0.rate.load(Ordering::Relaxed)).filter(|rate| *rate > 0)
    }

    /// True if nobody else holds it.
    pub fn is_unused(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    /// Notes that `bytes` have passed; answers when they are paid for.
    fn take(&self, bytes: u64, now: u64) -> u64 {
        let Some(rate) = self.rate() else { return 0 };
        let price = u128::from(bytes) * 1_000_000_000 / u128::from(rate);
        let price = u64::try_from(price).unwrap_or(u64::MAX);
        // Who is woken late makes up for it, or every turn would lose what the timer is late.
        let since = now.saturating_sub(CREDIT_NS);
        let due = |paid: u64| paid.max(since).saturating_add(price);
        // The closure always answers, so there always is a value before.
        let pay = |paid| Some(due(paid));
        let before = self.0.paid_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, pay);
        before.map_or(now, due)
    }

    fn epoch(&self) -> u64 {
        self.0.epoch.load(Ordering::Relaxed)
    }
}

fn now_ns(env: &Env) -> u64 {
    u64::try_from(env.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// One direction of one session: the way through all throttles that hold for it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Lane(Arc<ArcSwap<Way>>);

#[derive(Debug)]
struct Way {
    env: Env,
    throttles: ArcSwap<Vec<Throttle>>,
    /// When this session's own bytes are paid for, and the epochs of the throttles at that time:
    /// a change of a rate forgives what is due.
    due_ns: AtomicU64,
    due_epoch: AtomicU64,
    moved: AtomicU64,
}

impl Lane {
    /// A way through `throttles`.
    pub fn new(env: Env, throttles: Vec<Throttle>) -> Self {
        Lane(Arc::new(ArcSwap::from_pointee(Way {
            env,
            throttles: ArcSwap::from_pointee(throttles),
            due_ns: AtomicU64::new(0),
            due_epoch: AtomicU64::new(0),
            moved: AtomicU64::new(0),
        })))
    }

    /// From now on these hold.
    pub fn lead_through(&self, throttles: Vec<Throttle>) {
        self.0.load().throttles.store(Arc::new(throttles));
    }

    /// From now on this is the way of another session: somebody else has logged in on the same
    /// connection.
    pub(crate) fn become_of(&self, other: &Lane) {
        self.0.store(other.0.load_full());
    }

    /// The least rate on the way, bytes a second; `None`: no limit.
    pub fn rate(&self) -> Option<u64> {
        self.0.load().throttles.load().iter().filter_map(Throttle::rate).min()
    }

    /// The least share of a rate on the way that is left if all who hold it move something.
    pub fn least_share(&self) -> Option<u64> {
        let way = self.0.load();
        let throttles = way.throttles.load();
        let sharers = |throttle: &Throttle| Arc::strong_count(&throttle.0) as u64;
        throttles.iter().filter_map(|held| Some(held.rate()? / sharers(held).max(1))).min()
    }

    /// Notes that `bytes` have passed.
    pub fn take(&self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let way = self.0.load();
        way.moved.fetch_add(bytes, Ordering::Relaxed);
        let throttles = way.throttles.load();
        if throttles.iter().all(|throttle| throttle.rate().is_none()) {
            return;
        }
        let now = now_ns(&way.env);
        let due = throttles.iter().map(|throttle| throttle.take(bytes, now)).max();
        way.due_ns.store(due.unwrap_or(now), Ordering::Relaxed);
        way.due_epoch.store(epochs(&throttles), Ordering::Relaxed);
    }

    /// Bytes that have passed since login, as they were on the wire.
    pub fn moved(&self) -> u64 {
        self.0.load().moved.load(Ordering::Relaxed)
    }

    /// How long nothing may pass; `None`: go on.
    pub fn wait(&self) -> Option<Duration> {
        let way = self.0.load();
        let due = way.due_ns.load(Ordering::Relaxed);
        if due == 0 {
            return None;
        }
        let debt = Duration::from_nanos(due.saturating_sub(now_ns(&way.env)));
        let known = way.due_epoch.load(Ordering::Relaxed);
        (debt > BURST && epochs(&way.throttles.load()) == known).then_some(debt)
    }

    /// Completes when bytes may pass again.
    pub async fn pause(&self) {
        while let Some(wait) = self.wait() {
            // In slices, so that a changed rate is felt soon.
            tokio::time::sleep(wait.min(THROTTLE_SLICE)).await;
        }
    }

    /// Most bytes to pass at once, so that sharers take turns and a change is felt soon.
    pub fn turn(&self) -> usize {
        self.rate().map_or(usize::MAX, |rate| {
            usize::try_from(rate / 8).unwrap_or(usize::MAX).clamp(LEAST_TURN, TURN_BYTES)
        })
    }
}

/// A session may always move so much at once.
const LEAST_TURN: usize = 1024;

fn epochs(throttles: &[Throttle]) -> u64 {
    throttles.iter().map(Throttle::epoch).fold(0, u64::wrapping_add)
}

/// Both directions of a session, as its account sees them.
#[derive(Clone, Debug)]
pub struct Throttles {
    /// From the peer to us.
    pub upload: Lane,
    /// From us to the peer.
    pub download: Lane,
}

/// Waits until a stream may move bytes again, in slices, so that a changed rate is felt soon.
/// `pause` is the timer of one direction of the stream.
pub(crate) fn poll_pause(
    pause: &mut Option<Pin<Box<Sleep>>>,
    throttle: Option<&Lane>,
    cx: &mut Context<'_>,
) -> Poll<()> {
    loop {
        if let Some(sleep) = pause {
            ready!(sleep.as_mut().poll(cx));
            *pause = None;
        }
        match throttle.and_then(Lane::wait) {
            None => return Poll::Ready(()),
            Some(wait) => *pause = Some(Box::pin(tokio::time::sleep(wait.min(THROTTLE_SLICE)))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(env: &Env, throttles: &[&Throttle]) -> Lane {
        Lane::new(env.clone(), throttles.iter().copied().cloned().collect())
    }

    #[test]
    fn whoever_took_waits_until_it_is_paid_for() {
        let env = Env::simulated(1);
        let throttle = Throttle::new(env.clone(), Some(10_000));
        let lane = lane(&env, &[&throttle]);
        assert_eq!(lane.wait(), None);
        lane.take(20_000);
        assert_eq!(lane.wait(), Some(Duration::from_secs(2)));
        env.advance(Duration::from_millis(1_500));
        assert_eq!(lane.wait(), Some(Duration::from_millis(500)));
        env.advance(Duration::from_millis(495));
        assert_eq!(lane.wait(), None, "a short rest is a burst");
    }

    #[test]
    fn whoever_is_always_woken_late_gets_the_whole_rate_all_the_same() {
        let env = Env::simulated(1);
        let throttle = Throttle::new(env.clone(), Some(1_000_000));
        let lane = lane(&env, &[&throttle]);
        let mut moved = 0;
        while env.elapsed() < Duration::from_secs(10) {
            lane.take(lane.turn());
            moved += lane.turn();
            if let Some(wait) = lane.wait() {
                env.advance(wait + Duration::from_millis(9));
            }
        }
        assert!((9_900_000..=10_100_000).contains(&moved), "{moved}");
        env.advance(Duration::from_secs(5));
        let before = moved;
        while lane.wait().is_none() {
            lane.take(lane.turn());
            moved += lane.turn();
        }
        assert!(moved - before < 200_000, "an idle time was saved up: {}", moved - before);
    }

    #[test]
    fn a_new_rate_counts_at_once_for_all_who_share_it() {
        let env = Env::simulated(1);
        let throttle = Throttle::new(env.clone(), Some(10_000));
        let (one, other) = (lane(&env, &[&throttle]), lane(&env, &[&throttle]));
        one.take(10_000);
        other.take(10_000);
        assert_eq!(one.wait(), Some(Duration::from_secs(1)));
        assert_eq!(other.wait(), Some(Duration::from_secs(2)), "it came second");
        throttle.set(Some(1_000_000));
        assert_eq!((one.wait(), other.wait()), (None, None));
        one.take(1_000_000);
        assert_eq!(one.wait(), Some(Duration::from_secs(1)));
        throttle.set(None);
        other.take(usize::MAX);
        assert_eq!((one.wait(), other.wait()), (None, None));
        assert_eq!(other.turn(), usize::MAX);
    }

    #[test]
    fn the_slowest_throttle_on_the_way_decides_and_the_way_can_change() {
        let env = Env::simulated(1);
        let (fast, slow) =
            (Throttle::new(env.clone(), Some(100_000)), Throttle::new(env.clone(), Some(10_000)));
        let both = lane(&env, &[&fast, &slow]);
        both.take(10_000);
        assert_eq!((both.rate(), both.turn()), (Some(10_000), 1250));
        assert_eq!(both.wait(), Some(Duration::from_secs(1)));
        let one = lane(&env, &[&fast]);
        one.take(10_000);
        assert_eq!(one.wait(), Some(Duration::from_millis(200)), "the other's bytes count here");
        both.lead_through(vec![fast.clone()]);
        both.take(10_000);
        assert_eq!(both.wait(), Some(Duration::from_millis(300)));
    }

    #[test]
    fn whoever_logs_in_next_on_a_connection_has_limits_of_its_own() {
        let env = Env::simulated(1);
        let (slow, fast) =
            (Throttle::new(env.clone(), Some(2_000)), Throttle::new(env.clone(), Some(100_000)));
        let (bound, next) = (lane(&env, &[&slow]), lane(&env, &[&fast]));
        bound.take(10_000);
        let held = bound.clone();
        bound.become_of(&next);
        assert_eq!((held.rate(), held.wait()), (Some(100_000), None));
        next.lead_through(vec![slow]);
        assert_eq!(held.rate(), Some(2_000), "changes of the account reach the connection");
    }

    /// Sessions that always have something to move, one of them joining late, one idle at first.
    #[test]
    fn sessions_share_fairly_and_together_keep_the_rate() {
        const RATE: u64 = 1_000_000;
        let env = Env::simulated(1);
        let throttle = Throttle::new(env.clone(), Some(RATE));
        let lanes: Vec<Lane> = (0..5).map(|_| lane(&env, &[&throttle])).collect();
        let mut moved = [0_usize; 5];
        let step = Duration::from_millis(1);
        let run = |seconds: u64, active: &[usize], moved: &mut [usize; 5]| {
            for _ in 0..seconds * 1000 {
                for at in active {
                    while lanes[*at].wait().is_none() {
                        let turn = lanes[*at].turn();
                        lanes[*at].take(turn);
                        moved[*at] += turn;
                    }
                }
                env.advance(step);
            }
        };
        run(10, &[0, 1, 2, 3], &mut moved);
        let sum: usize = moved.iter().sum();
        assert!((9_800_000..=10_300_000).contains(&sum), "{moved:?}");
        for each in &moved[..4] {
            assert!(each.abs_diff(sum / 4) < 200_000, "{moved:?}");
        }
        let before = moved;
        run(10, &[0, 1, 2, 3, 4], &mut moved);
        for (now, before) in moved.iter().zip(before) {
            assert!((now - before).abs_diff(2_000_000) < 200_000, "{before} {moved:?}");
        }
    }
}
