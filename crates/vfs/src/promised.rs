//! Names that uploads get when they are whole: no other upload that looks for a free name takes one
//! of them meanwhile.

use std::collections::HashSet;
use std::sync::Arc;

use entrepot_nouns::StorePath;
use parking_lot::Mutex;
use uuid::Uuid;

type Key = (Uuid, String);

/// The names that are promised, of all sessions of this node.
#[derive(Clone, Default)]
pub(crate) struct PromisedNames(Arc<Mutex<HashSet<Key>>>);

/// A name that is promised until this is dropped.
pub(crate) struct NamePromise {
    names: PromisedNames,
    key: Key,
}

impl PromisedNames {
    /// Promises the name; `None`: somebody has it promised already.
    pub(crate) fn promise(&self, endpoint: Uuid, path: &StorePath) -> Option<NamePromise> {
        let key = (endpoint, path.as_str().to_owned());
        let is_new = self.0.lock().insert(key.clone());
        is_new.then(|| NamePromise { names: self.clone(), key })
    }
}

impl Drop for NamePromise {
    fn drop(&mut self) {
        self.names.0.lock().remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_promised_to_one() {
        let names = PromisedNames::default();
        let (id, a, b) = (Uuid::from_u128(1), "a".parse().unwrap(), "b".parse().unwrap());
        let first = names.promise(id, &a);
        assert!(first.is_some() && names.promise(id, &a).is_none());
        assert!(names.promise(id, &b).is_some() && names.promise(Uuid::from_u128(2), &a).is_some());
        drop(first);
        assert!(names.promise(id, &a).is_some());
    }
}
