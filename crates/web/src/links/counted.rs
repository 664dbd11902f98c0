//! Downloads of links that have a limit: each is counted in the database, and may then be resumed
//! for a while, by the same address, without being counted again.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use entrepot_nouns::{AccountId, Env};
use parking_lot::Mutex;

use crate::limits::{LINK_RESUME_SIZES, LINK_RESUME_TIME, LINK_RESUMES};

/// What was counted: by whom, and what.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CountedKey {
    pub(crate) link: AccountId,
    pub(crate) address: IpAddr,
    /// The path of a file, or `zip:` and that of a folder.
    pub(crate) path: String,
}

/// Bytes that may still be sent in parts.
#[derive(Clone, Copy)]
struct Left {
    bytes: u64,
    until: Duration,
}

/// The downloads that were counted on this listener.
pub(crate) struct CountedDownloads {
    env: Env,
    table: Mutex<HashMap<CountedKey, Left>>,
}

impl CountedDownloads {
    pub(crate) fn new(env: Env) -> CountedDownloads {
        CountedDownloads { env, table: Mutex::default() }
    }

    /// Takes so many bytes of a download that was counted; false: it was not, or so much of it was
    /// sent already that this is another one.
    pub(crate) fn resume(&self, key: &CountedKey, bytes: u64) -> bool {
        let now = self.env.elapsed();
        let mut table = self.table.lock();
        let Some(left) = table.get_mut(key).filter(|left| now < left.until) else { return false };
        let Some(rest) = left.bytes.checked_sub(bytes) else { return false };
        left.bytes = rest;
        true
    }

    /// A download of a file of `size` bytes was counted.
    pub(crate) fn note(&self, key: CountedKey, size: u64) {
        let now = self.env.elapsed();
        let mut table = self.table.lock();
        if table.len() >= LINK_RESUMES {
            table.retain(|_, left| now < left.until);
        }
        if table.len() >= LINK_RESUMES
            && let Some(first) =
                table.iter().min_by_key(|(_, left)| left.until).map(|it| it.0.clone())
        {
            table.remove(&first);
        }
        let bytes = size.saturating_mul(LINK_RESUME_SIZES);
        table.insert(key, Left { bytes, until: now.saturating_add(LINK_RESUME_TIME) });
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_counted_download_is_resumed_by_its_address_and_not_for_ever() {
        let env = Env::simulated(1);
        let counted = CountedDownloads::new(env.clone());
        let key = |last: u8, path: &str| CountedKey {
            link: AccountId(Uuid::from_u128(1)),
            address: IpAddr::from([192, 0, 2, last]),
            path: path.to_owned(),
        };
        assert!(!counted.resume(&key(1, "/a"), 1));
        counted.note(key(1, "/a"), 10);
        assert!(counted.resume(&key(1, "/a"), 15));
        assert!(!counted.resume(&key(1, "/a"), 6), "it is more than twice the file");
        assert!(counted.resume(&key(1, "/a"), 5));
        assert!(!counted.resume(&key(2, "/a"), 1), "another address");
        assert!(!counted.resume(&key(1, "/b"), 1), "another file");
        counted.note(key(1, "/a"), 10);
        env.advance(LINK_RESUME_TIME);
        assert!(!counted.resume(&key(1, "/a"), 1));
    }
}
