//! Browsers that have shown the password of an account which asks for a code as well. What they
//! have proved waits here for the code, on this node, for some minutes.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use entrepot_auth::Attempt;
use entrepot_nouns::{Env, SiteId};
use parking_lot::Mutex;

use crate::limits::{PENDING_SIGN_INS, PENDING_TIME};

/// A sign-in that lacks a code.
pub(crate) struct PendingSignIn {
    /// It has taken the password.
    pub(crate) attempt: Attempt,
    /// The name whose password it was.
    pub(crate) user: String,
    pub(crate) site: SiteId,
    /// The code must come from there, too.
    pub(crate) address: IpAddr,
}

struct Waiting {
    since: Duration,
    pending: PendingSignIn,
}

/// The sign-ins of a listener that lack a code, by a random word that only the page of the browser
/// has.
pub(crate) struct PendingSignIns {
    env: Env,
    table: Mutex<HashMap<String, Waiting>>,
}

impl PendingSignIns {
    pub(crate) fn new(env: Env) -> PendingSignIns {
        PendingSignIns { env, table: Mutex::default() }
    }

    /// Keeps a sign-in; gives the word by which it is taken again. Of too many the oldest goes.
    pub(crate) fn keep(&self, pending: PendingSignIn) -> String {
        let mut word = [0; 32];
        self.env.fill_random(&mut word);
        let word = URL_SAFE_NO_PAD.encode(word);
        let now = self.env.elapsed();
        let mut table = self.table.lock();
        table.retain(|_, waiting| now.saturating_sub(waiting.since) < PENDING_TIME);
        if table.len() >= PENDING_SIGN_INS {
            let oldest = table.iter().min_by_key(|(_, waiting)| waiting.since);
            if let Some(oldest) = oldest.map(|(word, _)| word.clone()) {
                table.remove(&oldest);
            }
        }
        table.insert(word.clone(), Waiting { since: now, pending });
        word
    }

    /// Takes a sign-in out, so that only one code at a time is tried with it; `None`: there is none
    /// of this word and address, or its time is over.
    pub(crate) fn take(&self, word: &str, site: SiteId, address: IpAddr) -> Option<PendingSignIn> {
        let now = self.env.elapsed();
        let mut table = self.table.lock();
        let is_same = |waiting: &Waiting| {
            waiting.pending.site == site
                && waiting.pending.address == address
                && now.saturating_sub(waiting.since) < PENDING_TIME
        };
        table.get(word).filter(|waiting| is_same(waiting))?;
        table.remove(word).map(|waiting| waiting.pending)
    }
}
