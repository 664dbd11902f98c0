//! Stateless tickets: what a client keeps to resume a session, sealed under keys that only this
//! process has and that change with time.
//!
//! rustls' own ticketer forgets its keys after 6 to 12 hours; a session that lasts longer could not
//! open data connections any more. Ours are kept for [`TICKET_KEY_TIME`] and as long again.

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use entrepot_nouns::Env;
use parking_lot::RwLock;
use std::time::Duration;

use crate::limits::TICKET_KEY_TIME;

const KEY_BYTES: usize = 32;

/// The keys of all tickets of one certificate and one policy of client certificates.
#[derive(Debug)]
pub(super) struct TicketKeys {
    env: Env,
    keys: RwLock<Keys>,
}

#[derive(Debug)]
struct Keys {
    current: RandomizedNonceKey,
    previous: Option<RandomizedNonceKey>,
    /// When the current one was made.
    made: Duration,
}

impl TicketKeys {
    pub(super) fn new(env: Env) -> Self {
        let keys = Keys { current: new_key(&env), previous: None, made: env.elapsed() };
        TicketKeys { env, keys: RwLock::new(keys) }
    }

    /// `nonce || sealed`; `None` if AWS-LC refuses, which it has no reason to.
    pub(super) fn seal(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.turn();
        let mut sealed = plain.to_vec();
        let nonce =
            self.keys.read().current.seal_in_place_append_tag(Aad::empty(), &mut sealed).ok()?;
        Some([nonce.as_ref().as_slice(), &sealed].concat())
    }

    /// What was sealed; `None` if it was not by us, or too long ago.
    pub(super) fn open(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        self.turn();
        let (nonce, sealed) = ticket.split_first_chunk::<NONCE_LEN>()?;
        let keys = self.keys.read();
        [Some(&keys.current), keys.previous.as_ref()].into_iter().flatten().find_map(|key| {
            let nonce = Nonce::assume_unique_for_key(*nonce);
            let mut bytes = sealed.to_vec();
            let length = key.open_in_place(nonce, Aad::empty(), &mut bytes).ok()?.len();
            bytes.truncate(length);
            Some(bytes)
        })
    }

    /// Makes a new key when it is time, and forgets the one before the last.
    fn turn(&self) {
        let now = self.env.elapsed();
        let age = |keys: &Keys| now.saturating_sub(keys.made);
        if age(&self.keys.read()) < TICKET_KEY_TIME {
            return;
        }
        let mut keys = self.keys.write();
        let age = age(&keys);
        if age >= TICKET_KEY_TIME {
            let last = std::mem::replace(&mut keys.current, new_key(&self.env));
            keys.previous = (age < 2 * TICKET_KEY_TIME).then_some(last);
            keys.made = now;
        }
    }
}

fn new_key(env: &Env) -> RandomizedNonceKey {
    let mut bytes = [0; KEY_BYTES];
    env.fill_random(&mut bytes);
    // The invariant: AES-256 takes every key of 32 bytes.
    RandomizedNonceKey::new(&AES_256_GCM, &bytes).expect("a key of 32 bytes is a key of AES-256")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_opens_until_its_key_is_two_periods_old() {
        let env = Env::simulated(1);
        let keys = TicketKeys::new(env.clone());
        let ticket = keys.seal(b"session").unwrap();
        assert_eq!(keys.open(&ticket).unwrap(), b"session");
        env.advance(TICKET_KEY_TIME + Duration::from_secs(1));
        let newer = keys.seal(b"newer").unwrap();
        assert_eq!(keys.open(&ticket).unwrap(), b"session");
        env.advance(TICKET_KEY_TIME);
        assert_eq!(keys.open(&ticket), None);
        assert_eq!(keys.open(&newer).unwrap(), b"newer");
        let newest = keys.seal(b"newest").unwrap();
        env.advance(2 * TICKET_KEY_TIME);
        assert_eq!(keys.open(&newest), None, "a key that slept too long is not kept");
    }

    #[test]
    fn nothing_else_opens() {
        let keys = TicketKeys::new(Env::simulated(1));
        let ticket = keys.seal(b"session").unwrap();
        for at in 0..ticket.len() {
            let mut bent = ticket.clone();
            bent[at] ^= 1;
            assert_eq!(keys.open(&bent), None, "bent at {at}");
            assert_eq!(keys.open(&ticket[..at]), None, "cut at {at}");
        }
        assert_eq!(TicketKeys::new(Env::simulated(2)).open(&ticket), None);
    }
}
