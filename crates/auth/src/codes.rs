//! Codes of generators: each is taken once.
//!
//! What holds: no code is taken twice, whichever session, node or restart comes between, for the
//! step is taken in the database, by one statement. While the database is away, accounts that are
//! known still log in; then it holds on each node since its start only, for as long as a code is
//! good at all (90 seconds), and the step before it (password or key) is asked of everybody.

use std::collections::HashMap;

use entrepot_crypto::limits::{TOTP_DRIFT, TOTP_STEP_SECONDS};
use entrepot_crypto::totp;
use entrepot_nouns::{Secret, Timestamp};
use parking_lot::Mutex;

use crate::account_key::AccountKey;
use crate::limits::CODES_REMEMBERED;

/// Why a code is refused that is right.
pub(crate) const USED: &str = "the code, or a later one, was used before";

/// The last step that was taken of each account.
#[derive(Default)]
pub(crate) struct Codes {
    taken: Mutex<HashMap<AccountKey, i64>>,
}

impl Codes {
    /// Takes a code; gives its step, to be taken in the database too.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn take(
        &self,
        account: &AccountKey,
        secret: &Secret,
        code: &Secret,
        now: Timestamp,
    ) -> Result<i64, &'static str> {
        let step = totp::step_of(secret, code, now.seconds()).ok_or("wrong code")?;
        let mut taken = self.taken.lock();
        if taken.get(account).is_some_and(|last| step <= *last) {
            return Err(USED);
        }
        if taken.len() >= CODES_REMEMBERED {
            // Codes of those steps are no longer taken: they need not be remembered.
            let oldest = now.seconds().div_euclid(TOTP_STEP_SECONDS) - TOTP_DRIFT;
            taken.retain(|_, step| *step >= oldest);
        }
        taken.insert(account.clone(), step);
        Ok(step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use entrepot_nouns::{Env, SiteId};

    #[test]
    fn a_code_is_taken_once_and_an_older_one_never_after_it() {
        let secret = totp::new_secret(&Env::simulated(1));
        let codes = Codes::default();
        let [acme, other] = ["acme", "other"]
            .map(|name| AccountKey { site: SiteId::MAIN, name: name.parse().unwrap() });
        let at = Timestamp::from_seconds;
        let code = |seconds: i64| Secret::new(totp::code_at(&secret, seconds).unwrap());
        assert!(codes.take(&acme, &secret, &code(3000), at(3000)).is_ok());
        assert!(codes.take(&acme, &secret, &code(3000), at(3000)).is_err(), "the same");
        assert!(codes.take(&acme, &secret, &code(2970), at(3000)).is_err(), "the one before");
        assert!(codes.take(&other, &secret, &code(3000), at(3000)).is_ok(), "of another");
        assert!(codes.take(&acme, &secret, &code(3030), at(3000)).is_ok(), "the next");
        assert!(codes.take(&acme, &secret, &code(3030), at(3031)).is_err(), "the next again");
        assert!(codes.take(&acme, &secret, &code(3060), at(3060)).is_ok());
    }
}
