//! When API tokens were used, until the database knows: no request waits for that.

use std::collections::HashMap;
use std::net::IpAddr;

use entrepot_crypto::TokenHash;
use entrepot_db::ApiTokenUse;
use entrepot_nouns::{SiteId, Timestamp};
use parking_lot::Mutex;

use crate::limits::TOKEN_USES;

/// Uses that the database does not know yet: the latest of each token.
#[derive(Default)]
pub(crate) struct TokenUses(Mutex<HashMap<(SiteId, TokenHash), Use>>);

#[derive(Clone, Copy)]
struct Use {
    at: Timestamp,
    address: IpAddr,
}

impl TokenUses {
    /// Notes a use. Of more than [`TOKEN_USES`] tokens at a time, those that come later are left
    /// out until the database knows the others.
    pub(crate) fn note(&self, site: SiteId, hash: TokenHash, at: Timestamp, address: IpAddr) {
        let mut uses = self.0.lock();
        if uses.len() < TOKEN_USES || uses.contains_key(&(site, hash)) {
            uses.insert((site, hash), Use { at, address });
        }
    }

    /// Takes all of them.
    pub(crate) fn take(&self) -> Vec<ApiTokenUse> {
        let taken = std::mem::take(&mut *self.0.lock());
        let uses = taken.into_iter().map(|((site, hash), used)| ApiTokenUse {
            site,
            hash: hash.to_string(),
            at: used.at,
            address: used.address.to_canonical().to_string(),
        });
        uses.collect()
    }

    /// Gives back what the database did not take, unless a token was used again since.
    pub(crate) fn give_back(&self, uses: &[ApiTokenUse]) {
        let mut held = self.0.lock();
        for ApiTokenUse { site, hash, at, address } in uses {
            let (Ok(hash), Ok(address)) = (hash.parse(), address.parse()) else { continue };
            if held.len() < TOKEN_USES {
                held.entry((*site, hash)).or_insert(Use { at: *at, address });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use entrepot_crypto::{BearerKind, bearer_token};
    use entrepot_nouns::Env;

    #[test]
    fn the_latest_use_is_kept_until_the_database_has_it() {
        let env = Env::simulated(1);
        let token = bearer_token::make(&env, BearerKind::Api);
        let hash = bearer_token::hash(BearerKind::Api, &token).unwrap();
        let uses = TokenUses::default();
        let at = Timestamp::from_seconds;
        let note = |seconds: i64, last: u8| {
            uses.note(SiteId::MAIN, hash, at(seconds), IpAddr::from([192, 0, 2, last]));
        };
        note(1, 1);
        note(2, 2);
        let taken = uses.take();
        assert_eq!(taken.len(), 1);
        assert_eq!((taken[0].at, &*taken[0].address), (at(2), "192.0.2.2"));
        assert!(uses.take().is_empty());
        uses.give_back(&taken);
        assert_eq!(uses.take(), taken, "it is tried again");
        note(3, 3);
        uses.give_back(&taken);
        assert_eq!(uses.take()[0].at, at(3), "a later use counts");
    }
}
