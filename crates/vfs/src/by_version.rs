//! What was computed of versions of files, so that it is not computed again: checksums for
//! archives, digests for downloads.

use std::collections::HashMap;

use entrepot_crypto::HashAlgorithm;
use parking_lot::Mutex;
use uuid::Uuid;

use crate::limits;

/// Names a version of a file: endpoint, path there and version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct VersionKey(u128);

/// The last values, in two generations: when the young one is full the old one is forgotten.
pub(crate) struct ByVersion<T>(Mutex<Generations<T>>);

struct Generations<T> {
    young: HashMap<VersionKey, T>,
    old: HashMap<VersionKey, T>,
}

impl VersionKey {
    /// Of a file by its place and [`Attributes::version`](crate::Attributes).
    pub(crate) fn of(endpoint: Uuid, path: &str, version: u64) -> VersionKey {
        let mut text = endpoint.as_bytes().to_vec();
        text.extend(version.to_le_bytes());
        text.extend(path.as_bytes());
        let hash = HashAlgorithm::Sha256.hash(&text);
        let first = hash.first_chunk::<16>().copied().unwrap_or_default();
        VersionKey(u128::from_le_bytes(first))
    }
}

impl<T> Default for ByVersion<T> {
    fn default() -> ByVersion<T> {
        ByVersion(Mutex::new(Generations { young: HashMap::new(), old: HashMap::new() }))
    }
}

impl<T: Copy> ByVersion<T> {
    pub(crate) fn look(&self, key: VersionKey) -> Option<T> {
        let generations = self.0.lock();
        generations.young.get(&key).or_else(|| generations.old.get(&key)).copied()
    }

    pub(crate) fn note(&self, key: VersionKey, value: T) {
        let mut generations = self.0.lock();
        if generations.young.len() >= limits::REMEMBERED_VERSIONS {
            generations.old = std::mem::take(&mut generations.young);
        }
        generations.young.insert(key, value);
    }

    pub(crate) fn is_empty(&self) -> bool {
        let generations = self.0.lock();
        generations.young.is_empty() && generations.old.is_empty()
    }
}
