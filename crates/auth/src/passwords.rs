//! Comparing passwords: argon2id behind a queue, and a short memory of passwords that were right,
//! so that thousands of logins a second do not each pay for it.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use entrepot_crypto::{HashCost, ProcessKey, constant_time_eq, password};
use entrepot_nouns::{AccountId, Env, Secret};
use parking_lot::Mutex;

use crate::hash_queue::HashQueue;
use crate::hashing_thread::hash_aside;
use crate::limits::{REMEMBERED, REMEMBERED_FOR};
use crate::penalties::Origin;

/// The result of comparing a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compared {
    /// It is the right one.
    Right,
    /// It is not, or there is none.
    Wrong,
    /// Too many wait already.
    Busy,
}

/// The password of an account, as it is stored.
#[derive(Clone, Copy)]
pub(crate) struct Stored<'a> {
    pub(crate) account: AccountId,
    /// One more with every change of the account: password, status, rights, code generator.
    pub(crate) revision: i64,
    pub(crate) phc: &'a str,
}

pub(crate) struct Passwords {
    env: Env,
    /// Of this process only: what is remembered is worthless to anyone else.
    key: ProcessKey,
    pub(crate) queue: HashQueue,
    hashed: AtomicU64,
    /// Verified for names without a password.
    dummy: String,
    memory: Mutex<Memory>,
}

/// Right passwords, one an account, as keyed hashes; only here, never on disk.
#[derive(Default)]
struct Memory {
    known: HashMap<AccountId, Remembered>,
    /// In the order in which they were compared, which is that in which they are forgotten.
    order: VecDeque<(Duration, AccountId)>,
}

struct Remembered {
    hash: [u8; 32],
    /// When it was really compared; its use does not prolong it.
    at: Duration,
}

impl Memory {
    fn knows(&self, account: AccountId, hash: &[u8; 32], now: Duration) -> bool {
        self.known.get(&account).is_some_and(|known| {
            now.saturating_sub(known.at) <= REMEMBERED_FOR && constant_time_eq(&known.hash, hash)
        })
    }

    fn remember(&mut self, account: AccountId, hash: [u8; 32], now: Duration) {
        while let Some((at, oldest)) = self.order.front().copied() {
            let stale = now.saturating_sub(at) > REMEMBERED_FOR;
            if !stale && self.order.len() < REMEMBERED {
                break;
            }
            self.order.pop_front();
            // It may have been compared again since.
            if self.known.get(&oldest).is_some_and(|known| known.at == at) {
                self.known.remove(&oldest);
            }
        }
        self.known.insert(account, Remembered { hash, at: now });
        self.order.push_back((now, account));
    }
}

impl Passwords {
    pub(crate) fn new(env: Env, cost: HashCost) -> Self {
        Passwords {
            key: ProcessKey::generate(&env),
            env,
            queue: HashQueue::new(),
            hashed: AtomicU64::new(0),
            // A cost that cannot be hashed leaves an empty text, which no password fits.
            dummy: password::dummy(cost).unwrap_or_default(),
            memory: Mutex::default(),
        }
    }

    /// Compares with what is stored, or does the same work for nothing if there is none.
    pub(crate) async fn compare(
        &self,
        origin: Origin,
        given: &Secret,
        stored: Option<Stored<'_>>,
    ) -> Compared {
        let remembered = stored.map(|stored| (stored.account, self.hash(&stored, given)));
        if self.remembers(remembered.as_ref()) {
            return Compared::Right;
        }
        let phc = stored.map_or(&*self.dummy, |stored| stored.phc);
        let Some(permit) = self.queue.acquire(origin, password::memory_kib(phc)).await else {
            return Compared::Busy;
        };
        // Others may have given the same password while this one waited in the queue.
        if self.remembers(remembered.as_ref()) {
            return Compared::Right;
        }
        self.hashed.fetch_add(1, Ordering::Relaxed);
        let (given, phc) = (given.clone(), phc.to_owned());
        // The work goes on when the login is cut, so it keeps its permit until it is done: else
        // cut logins would hash without bound, 64 MiB each.
        let hashing = tokio::task::spawn_blocking(move || {
            let verified = hash_aside(|| password::verify(&given, &phc));
            drop(permit);
            verified
        });
        let right = match hashing.await {
            Ok(Ok(right)) => right,
            Ok(Err(error)) => {
                tracing::warn!(%error, "a password could not be compared");
                false
            }
            Err(error) => {
                tracing::error!(%error, "the comparison of a password broke");
                false
            }
        };
        match remembered {
            Some((account, hash)) if right => {
                let mut memory = self.memory.lock();
                memory.remember(account, hash, self.env.elapsed());
                Compared::Right
            }
            _ => Compared::Wrong,
        }
    }

    /// Argon2id computations so far.
    pub(crate) fn hashed(&self) -> u64 {
        self.hashed.load(Ordering::Relaxed)
    }

    /// The account's version is part of it, so that each change of the account forgets at once.
    fn hash(&self, stored: &Stored<'_>, given: &Secret) -> [u8; 32] {
        let version = stored.revision.to_le_bytes();
        self.key.hash(&[stored.account.0.as_bytes(), &version, given.expose()])
    }

    fn remembers(&self, given: Option<&(AccountId, [u8; 32])>) -> bool {
        given.is_some_and(|(account, hash)| {
            let now = self.env.elapsed();
            self.memory.lock().knows(*account, hash, now)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(host: u8) -> Origin {
        Origin::of(std::net::IpAddr::from([192, 0, 2, host]))
    }

    #[tokio::test]
    async fn a_cut_login_keeps_its_turn_until_its_work_is_done() {
        let cost = HashCost { memory_kib: 32_768, passes: 3, lanes: 1 };
        let passwords = Passwords::new(Env::simulated(1), cost);
        let given = Secret::new(*b"wrong");
        {
            let mut cut = Box::pin(passwords.compare(from(1), &given, None));
            let waker = std::task::Waker::noop();
            assert!(cut.as_mut().poll(&mut std::task::Context::from_waker(waker)).is_pending());
        }
        assert_eq!(passwords.queue.running(), 1, "the permit was lost");
    }

    #[test]
    fn what_is_remembered_is_bounded_and_the_oldest_goes_first() {
        let env = Env::simulated(1);
        let mut memory = Memory::default();
        let accounts: Vec<AccountId> = (0..REMEMBERED + 10).map(|_| env.new_id()).collect();
        for account in &accounts {
            env.advance(Duration::from_micros(1));
            memory.remember(*account, [7; 32], env.elapsed());
        }
        assert!(memory.known.len() <= REMEMBERED && memory.order.len() <= REMEMBERED);
        let knows =
            |memory: &Memory, at: usize| memory.knows(accounts[at], &[7; 32], env.elapsed());
        assert!(!knows(&memory, 0), "the oldest is still there");
        assert!(knows(&memory, 11) && knows(&memory, accounts.len() - 1), "too many have gone");
    }

    #[test]
    fn use_does_not_prolong_and_a_new_comparison_does() {
        let env = Env::simulated(1);
        let mut memory = Memory::default();
        let (acme, other) = (env.new_id::<AccountId>(), env.new_id::<AccountId>());
        memory.remember(acme, [1; 32], env.elapsed());
        env.advance(REMEMBERED_FOR);
        assert!(memory.knows(acme, &[1; 32], env.elapsed()), "it is forgotten early");
        assert!(
            !memory.knows(acme, &[2; 32], env.elapsed())
                && !memory.knows(other, &[1; 32], env.elapsed())
        );
        env.advance(Duration::from_millis(1));
        assert!(!memory.knows(acme, &[1; 32], env.elapsed()), "its use prolonged it");
        memory.remember(acme, [1; 32], env.elapsed());
        memory.remember(other, [1; 32], env.elapsed());
        assert!(memory.knows(acme, &[1; 32], env.elapsed()), "swept by its older entry");
        assert_eq!(memory.order.len(), 2);
    }
}
