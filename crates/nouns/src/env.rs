//! The only source of time and randomness: real, or simulated from a seed in tests.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use uuid::Uuid;

use crate::time::Timestamp;

/// Random bytes of an id of version 7: 74 bits are used.
const ID_RANDOM_BYTES: usize = 10;
/// Ids for which a thread gets random bytes at a time.
const IDS_AT_ONCE: usize = 64;
type IdRandom = [u8; ID_RANDOM_BYTES];

/// Clock, ids and randomness, handed to whoever needs them. Cheap to clone.
#[derive(Clone)]
pub struct Env(Arc<Kind>);

enum Kind {
    Real { started: Instant },
    Simulated(Simulated),
}

/// State of a simulated environment.
struct Simulated {
    now_us: AtomicI64,
    elapsed_us: AtomicU64,
    random: AtomicU64,
}

impl Env {
    /// The machine's clock and random source.
    pub fn real() -> Self {
        Env(Arc::new(Kind::Real { started: Instant::now() }))
    }

    /// A clock that stands still until [`Env::advance`], and a sequence that repeats for a seed.
    pub fn simulated(seed: u64) -> Self {
        Env(Arc::new(Kind::Simulated(Simulated {
            now_us: AtomicI64::new(1_800_000_000_000_000),
            elapsed_us: AtomicU64::new(0),
            random: AtomicU64::new(seed),
        })))
    }

    /// The time of day (UTC). It may jump, also back: measure with [`Env::elapsed`].
    pub fn now(&self) -> Timestamp {
        match &*self.0 {
            Kind::Real { .. } => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Timestamp(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
            }
            Kind::Simulated(sim) => Timestamp(sim.now_us.load(Ordering::SeqCst)),
        }
    }

    /// Time since this environment was made; never goes back.
    pub fn elapsed(&self) -> Duration {
        match &*self.0 {
            Kind::Real { started } => started.elapsed(),
            Kind::Simulated(sim) => Duration::from_micros(sim.elapsed_us.load(Ordering::SeqCst)),
        }
    }

    /// Fills `bytes` from the system's cryptographic source (simulated: from the seed).
    ///
    /// # Panics
    /// If the operating system has no randomness to give; nothing secure could go on then.
    pub fn fill_random(&self, bytes: &mut [u8]) {
        match &*self.0 {
            Kind::Real { .. } => {
                // The invariant: getrandom(2) cannot fail after boot.
                getrandom::fill(bytes).expect("the system random source failed");
            }
            Kind::Simulated(sim) => {
                for chunk in bytes.chunks_mut(8) {
                    let next =
                        split_mix(sim.random.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::SeqCst));
                    chunk
                        .copy_from_slice(next.to_le_bytes().get(..chunk.len()).unwrap_or_default());
                }
            }
        }
    }

    /// A new identifier: UUID version 7, ordered by time.
    pub fn new_id<T: From<Uuid>>(&self) -> T {
        let random = self.random_of_id();
        let millis = u64::try_from(self.now().micros() / 1000).unwrap_or(0);
        T::from(uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid())
    }

    /// The random part of an id. The system is asked for those of many ids at once.
    fn random_of_id(&self) -> IdRandom {
        thread_local! {
            static LEFT: RefCell<Vec<IdRandom>> = const { RefCell::new(Vec::new()) };
        }
        if let Kind::Simulated(_) = &*self.0 {
            let mut random = [0; ID_RANDOM_BYTES];
            self.fill_random(&mut random);
            return random;
        }
        LEFT.with_borrow_mut(|left| {
            left.pop().unwrap_or_else(|| {
                let mut fresh = [[0; ID_RANDOM_BYTES]; IDS_AT_ONCE];
                self.fill_random(fresh.as_flattened_mut());
                let [first, others @ ..] = fresh;
                left.extend(others);
                first
            })
        })
    }

    /// Moves a simulated clock, wall and monotonic together; no effect on the real one.
    pub fn advance(&self, by: Duration) {
        if let Kind::Simulated(sim) = &*self.0 {
            let us = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
            sim.elapsed_us.fetch_add(us, Ordering::SeqCst);
            sim.now_us.fetch_add(i64::try_from(us).unwrap_or(i64::MAX), Ordering::SeqCst);
        }
    }

    /// Sets a simulated wall clock (it may jump back); the monotonic one goes on.
    pub fn set_now(&self, at: Timestamp) {
        if let Kind::Simulated(sim) = &*self.0 {
            sim.now_us.store(at.micros(), Ordering::SeqCst);
        }
    }
}

/// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
fn split_mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

impl std::fmt::Debug for Env {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match &*self.0 {
            Kind::Real { .. } => "Env(real)",
            Kind::Simulated(_) => "Env(simulated)",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::EventId;

    #[test]
    fn a_seed_repeats_and_time_moves_only_when_told() {
        let (a, b) = (Env::simulated(7), Env::simulated(7));
        assert_eq!(a.new_id::<EventId>(), b.new_id::<EventId>());
        assert_ne!(a.new_id::<EventId>(), Env::simulated(8).new_id::<EventId>());
        let before = a.now();
        assert_eq!(a.now(), before);
        a.advance(Duration::from_secs(5));
        assert_eq!(a.now().since(before), Duration::from_secs(5));
    }
}
