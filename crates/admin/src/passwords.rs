//! Comparing and hashing passwords that documents give in clear text, and a short memory of those
//! that were applied: `docs/adr/0011-plans-hash-nothing.md`.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use entrepot_auth::hash_aside;
use entrepot_crypto::ProcessKey;
use entrepot_crypto::password::{self, HashCost, PasswordError};
use entrepot_nouns::{Env, Secret};
use parking_lot::Mutex;

use crate::limits::{KNOWN_PASSWORDS, KNOWN_PASSWORDS_FOR};

/// Computes argon2id and counts how often. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Passwords {
    env: Env,
    memory: Arc<Memory>,
    computed: Arc<AtomicU64>,
}

/// Passwords that were applied, as keyed hashes: never on disk, and of no use without the key,
/// which is only in the memory of this process.
struct Memory {
    key: ProcessKey,
    known: Mutex<KnownTags>,
}

/// A tag stands for a password and the stored hash that it fits.
type Tag = [u8; 32];

#[derive(Default)]
struct KnownTags {
    /// When each was compared; asking for it does not prolong that.
    compared_at: HashMap<Tag, Duration>,
    /// In the order of comparison, which is that of forgetting.
    order: VecDeque<(Duration, Tag)>,
}

impl KnownTags {
    fn knows(&self, tag: &Tag, now: Duration) -> bool {
        let at = self.compared_at.get(tag);
        at.is_some_and(|at| now.saturating_sub(*at) <= KNOWN_PASSWORDS_FOR)
    }

    fn remember(&mut self, tag: Tag, now: Duration) {
        while let Some((at, oldest)) = self.order.front().copied() {
            let is_stale = now.saturating_sub(at) > KNOWN_PASSWORDS_FOR;
            if !is_stale && self.order.len() < KNOWN_PASSWORDS {
                break;
            }
            self.order.pop_front();
            // It may have been compared again since.
            if self.compared_at.get(&oldest) == Some(&at) {
                self.compared_at.remove(&oldest);
            }
        }
        self.compared_at.insert(tag, now);
        self.order.push_back((now, tag));
    }
}

impl Passwords {
    pub(crate) fn new(env: Env) -> Self {
        let memory = Memory { key: ProcessKey::generate(&env), known: Mutex::default() };
        Passwords { env, memory: Arc::new(memory), computed: Arc::default() }
    }

    /// True if `given` is known to be the password behind `phc`. Costs next to nothing; false says
    /// nothing.
    pub(crate) fn knows(&self, given: &Secret, phc: &str) -> bool {
        let tag = self.memory.tag(given, phc);
        self.memory.known.lock().knows(&tag, self.env.elapsed())
    }

    /// Remembers that `given` is the password behind `phc`.
    pub(crate) fn remember(&self, given: &Secret, phc: &str) {
        let tag = self.memory.tag(given, phc);
        self.memory.known.lock().remember(tag, self.env.elapsed());
    }

    /// True if `given` is the password behind `phc`. Slow: argon2id.
    pub(crate) fn fits(&self, given: &Secret, phc: &str) -> bool {
        self.computed.fetch_add(1, Ordering::Relaxed);
        hash_aside(|| password::verify(given, phc)).unwrap_or(false)
    }

    /// A hash of `given` with a salt of its own. Slow: argon2id.
    pub(crate) fn hash(&self, given: &Secret, cost: HashCost) -> Result<String, PasswordError> {
        self.computed.fetch_add(1, Ordering::Relaxed);
        let mut salt = [0; 16];
        self.env.fill_random(&mut salt);
        hash_aside(|| password::hash(given, cost, &salt))
    }

    /// Argon2id computations so far.
    #[cfg(test)]
    pub(crate) fn computed(&self) -> u64 {
        self.computed.load(Ordering::Relaxed)
    }
}

impl Memory {
    fn tag(&self, given: &Secret, phc: &str) -> Tag {
        self.key.hash(&[phc.as_bytes(), given.expose()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_known_with_its_hash_for_a_while() {
        let env = Env::simulated(1);
        let passwords = Passwords::new(env.clone());
        let (given, phc) = (Secret::new(*b"given"), "$argon2id$one");
        assert!(!passwords.knows(&given, phc));
        passwords.remember(&given, phc);
        assert!(passwords.knows(&given, phc));
        assert!(!passwords.knows(&Secret::new(*b"other"), phc), "another password");
        assert!(!passwords.knows(&given, "$argon2id$two"), "the stored one was changed");
        env.advance(KNOWN_PASSWORDS_FOR);
        assert!(passwords.knows(&given, phc), "it is forgotten early");
        env.advance(Duration::from_millis(1));
        assert!(!passwords.knows(&given, phc), "it is kept too long");
        assert_eq!(passwords.computed(), 0);
    }

    #[test]
    fn the_memory_is_bounded_and_the_oldest_goes_first() {
        let mut known = KnownTags::default();
        let tag = |number: usize| -> Tag {
            let mut tag = [0; 32];
            tag[..8].copy_from_slice(&number.to_le_bytes());
            tag
        };
        let at = |number: usize| Duration::from_micros(number as u64);
        for number in 0..KNOWN_PASSWORDS + 10 {
            known.remember(tag(number), at(number));
        }
        let now = at(KNOWN_PASSWORDS + 10);
        assert!(known.compared_at.len() <= KNOWN_PASSWORDS);
        assert!(known.order.len() <= KNOWN_PASSWORDS);
        assert!(!known.knows(&tag(9), now) && known.knows(&tag(10), now));
        // What is compared again outlives its older entry.
        known.remember(tag(10), now);
        known.remember(tag(0), now);
        known.remember(tag(1), now);
        assert!(known.knows(&tag(10), now), "it went with its older entry");
    }
}
