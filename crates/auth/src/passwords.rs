//! Comparing passwords: argon2id in a bounded pool, and a short memory of what was right, so that
//! thousands of logins a second do not each pay for it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use entrepot_crypto::{HashCost, MasterKey, constant_time_eq, password};
use entrepot_model::{Env, Name, Secret, SiteId};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::limits::{HASHES_AT_A_TIME, HASHES_WAITING, REMEMBERED, REMEMBERED_FOR};

/// What comparing a password told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compared {
    /// It is the right one.
    Right,
    /// It is not, or there is none.
    Wrong,
    /// Too many wait already.
    Busy,
}

struct Remembered {
    hash: [u8; 32],
    at: Duration,
}

pub(crate) struct Passwords {
    env: Env,
    /// Of this process only: what is remembered is worthless to anyone else.
    key: MasterKey,
    pool: Arc<Semaphore>,
    waiting: Arc<AtomicUsize>,
    hashed: AtomicU64,
    /// Verified for names without a password.
    dummy: String,
    memory: Mutex<HashMap<(SiteId, Name), Remembered>>,
}

impl Passwords {
    pub(crate) fn new(env: Env, cost: HashCost) -> Self {
        Passwords {
            key: MasterKey::generate(&env),
            env,
            pool: Arc::new(Semaphore::new(HASHES_AT_A_TIME)),
            waiting: Arc::default(),
            hashed: AtomicU64::new(0),
            // A cost that cannot be hashed leaves an empty text, which no password fits.
            dummy: password::dummy(cost).unwrap_or_default(),
            memory: Mutex::default(),
        }
    }

    /// Compares with `phc`, or does the same work for nothing if there is none.
    pub(crate) async fn compare(
        &self,
        account: &(SiteId, Name),
        given: &Secret,
        stored: Option<(&str, i64)>,
    ) -> Compared {
        // A change of the account (its revision), the password among them, ends the memory.
        let phc = stored.map(|(phc, _)| phc);
        let hash = stored.map(|(phc, revision)| {
            self.key.keyed_hash(&format!("{revision} {phc}"), given.expose())
        });
        if hash.is_some_and(|hash| self.remembers(account, &hash)) {
            return Compared::Right;
        }
        let right = match self.hash(given.clone(), phc.unwrap_or(&self.dummy).to_owned()).await {
            Some(right) => right,
            None => return Compared::Busy,
        };
        match hash {
            Some(hash) if right => {
                self.remember(account, hash);
                Compared::Right
            }
            _ => Compared::Wrong,
        }
    }

    /// Argon2id computations so far.
    pub(crate) fn hashed(&self) -> u64 {
        self.hashed.load(Ordering::Relaxed)
    }

    async fn hash(&self, given: Secret, phc: String) -> Option<bool> {
        if self.waiting.fetch_add(1, Ordering::AcqRel) >= HASHES_WAITING {
            self.waiting.fetch_sub(1, Ordering::AcqRel);
            return None;
        }
        let place = Waiting(self.waiting.clone());
        let permit = self.pool.clone().acquire_owned().await.ok()?;
        self.hashed.fetch_add(1, Ordering::Relaxed);
        // The work goes on when the login is cut, so it keeps its turn until it is done: else
        // cut logins would hash without bound, 64 MiB each.
        let hashing = tokio::task::spawn_blocking(move || {
            let verified = password::verify(&given, &phc);
            drop((permit, place));
            verified
        });
        match hashing.await {
            Ok(Ok(right)) => Some(right),
            Ok(Err(error)) => {
                tracing::warn!(%error, "a password could not be compared");
                Some(false)
            }
            Err(error) => {
                tracing::error!(%error, "the comparison of a password broke");
                Some(false)
            }
        }
    }

    fn remembers(&self, account: &(SiteId, Name), hash: &[u8; 32]) -> bool {
        let now = self.env.elapsed();
        let memory = self.memory.lock();
        memory.get(account).is_some_and(|known| {
            now.saturating_sub(known.at) <= REMEMBERED_FOR && constant_time_eq(&known.hash, hash)
        })
    }

    fn remember(&self, account: &(SiteId, Name), hash: [u8; 32]) {
        let at = self.env.elapsed();
        let mut memory = self.memory.lock();
        if memory.len() >= REMEMBERED {
            memory.clear();
        }
        memory.insert(account.clone(), Remembered { hash, at });
    }
}

/// A place in the queue; given back when dropped, also when the login was cut.
struct Waiting(Arc<AtomicUsize>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_cut_login_keeps_its_turn_until_its_work_is_done() {
        let cost = HashCost { memory_kib: 32_768, passes: 3, lanes: 1 };
        let passwords = Passwords::new(Env::simulated(1), cost);
        let account = (SiteId::MAIN, "acme".parse::<Name>().unwrap());
        let given = Secret::new(*b"wrong");
        {
            let mut cut = Box::pin(passwords.compare(&account, &given, None));
            let waker = std::task::Waker::noop();
            assert!(cut.as_mut().poll(&mut std::task::Context::from_waker(waker)).is_pending());
        }
        assert_eq!(passwords.pool.available_permits(), HASHES_AT_A_TIME - 1, "the turn was lost");
    }
}
