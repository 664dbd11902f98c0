//! One look at a watched folder: it is listed page by page, and compared with what is known.

use std::collections::HashSet;
use std::time::Duration;

use entrepot_nouns::Timestamp;
use entrepot_nouns::watch::Watch;
use entrepot_storage::{AnyStore, StoreError};

use super::seen::{Found, Seen, Standing, Version};
use crate::folders::{self, Listed, ListedFile};

/// What a look found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Looked {
    /// Versions to tell of.
    pub(super) due: Vec<Found>,
    /// Versions that the rule does not start on; they are noted as known.
    pub(super) passed: Vec<Found>,
}

/// When a look is made.
#[derive(Clone, Copy)]
pub(super) struct Moment {
    /// By `Env::elapsed`, which never jumps.
    pub(super) elapsed: Duration,
    /// By the clock of the node, for the age of files alone.
    pub(super) now: Timestamp,
}

struct Look<'a> {
    watch: &'a Watch,
    seen: &'a mut Seen,
    moment: Moment,
    looked: Looked,
    /// Files that wait for the names of the files beside them.
    undecided: Vec<ListedFile>,
    /// Names beside them that say that a file is whole.
    done: HashSet<String>,
}

/// Lists the folder of `watch`.
///
/// # Errors
/// The listing failed or was cut: then nothing counts as gone.
pub(super) async fn look(
    store: &AnyStore,
    watch: &Watch,
    seen: &mut Seen,
    moment: Moment,
) -> Result<Looked, StoreError> {
    seen.begin();
    let mut look = Look {
        watch,
        seen,
        moment,
        looked: Looked::default(),
        undecided: Vec::new(),
        done: HashSet::new(),
    };
    let take = |listed| match listed {
        Listed::File(file) => look.take(file),
        Listed::EndOfFolder => look.decide(),
    };
    folders::list(store, &watch.path, watch.files(), take).await?;
    Ok(look.looked)
}

impl Look<'_> {
    fn take(&mut self, file: ListedFile) {
        match &self.watch.done_file {
            Some(done) if done.is(&file.name) => drop(self.done.insert(file.name)),
            _ if !self.watch.files().takes(&file.name, &file.below) => {}
            Some(_) => self.undecided.push(file),
            None => self.compare(file),
        }
    }

    /// The whole folder is listed: it is known which files are whole.
    fn decide(&mut self) {
        let done = std::mem::take(&mut self.done);
        for listed in std::mem::take(&mut self.undecided) {
            let name = self.watch.done_file.as_ref().map(|it| it.of(&listed.name));
            if name.is_none_or(|name| done.contains(&name)) {
                self.compare(listed);
            } else {
                self.seen.stays(&listed.below);
            }
        }
    }

    fn compare(&mut self, ListedFile { below, meta, .. }: ListedFile) {
        let version = Version { size: meta.size, modified: meta.modified };
        let Moment { elapsed, now } = self.moment;
        let stable = self.watch.stable.duration();
        let standing = self.seen.listed(&below, version, elapsed, stable);
        let Standing::Due { change, round } = standing else { return };
        let age = now.since(version.modified);
        if self.watch.max_age.is_some_and(|most| age > most.duration()) {
            return;
        }
        let found = Found { path: below, version, change, round };
        if !self.watch.on.contains(&change) {
            self.looked.passed.push(found);
        } else if self.looked.due.len() < self.watch.limit as usize {
            self.looked.due.push(found);
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use entrepot_nouns::endpoint::MemoryTarget;
    use entrepot_nouns::{Env, StorePath};
    use entrepot_storage::{Existing, Publish, make_directories_above, memory};
    use serde_json::json;

    use super::*;

    async fn put(store: &AnyStore, env: &Env, path: &str) {
        let path: StorePath = path.parse().unwrap();
        make_directories_above(store, &path).await.unwrap();
        let staged = store.stage(env.new_id(), &path).await.unwrap();
        staged.write_at(0, Bytes::from_static(b"x")).await.unwrap();
        staged.sync().await.unwrap();
        let how = Publish {
            existing: Existing::Replace,
            accessed: None,
            modified: None,
            mode: None,
            size: 1,
        };
        staged.publish(&how).await.unwrap();
    }

    async fn found(store: &AnyStore, env: &Env, watch: serde_json::Value) -> Vec<String> {
        let watch: Watch = serde_json::from_value(watch).unwrap();
        let moment = Moment { elapsed: Duration::ZERO, now: env.now() };
        let looked = look(store, &watch, &mut Seen::default(), moment).await.unwrap();
        let mut paths: Vec<String> = looked.due.into_iter().map(|found| found.path).collect();
        paths.sort();
        paths
    }

    #[tokio::test]
    async fn a_look_finds_what_the_watch_is_about() {
        let env = Env::simulated(1);
        let target: MemoryTarget = serde_json::from_value(json!({})).unwrap();
        let store = memory::open(&target, &env).unwrap();
        for path in ["a.xml", "out/a.xml", "out/b.csv", "out/.c.xml", "out/d.xml.part"] {
            put(&store, &env, path).await;
        }
        for path in ["out/sub/e.xml", "out/.sub/f.xml", "out/b.csv.done", "out/sub/e.xml.done"] {
            put(&store, &env, path).await;
        }
        for (more, wanted) in [
            (json!({}), &["a.xml", "b.csv", "b.csv.done"][..]),
            (json!({"match": ["*.xml"]}), &["a.xml"]),
            (json!({"match": ["*.xml"], "recursive": true}), &["a.xml", "sub/e.xml"]),
            (json!({"match": ["sub/*"], "recursive": true}), &["sub/e.xml", "sub/e.xml.done"]),
            (json!({"done_file": "{name}.done", "recursive": true}), &["b.csv", "sub/e.xml"]),
            (json!({"limit": 1, "match": ["*.xml"], "recursive": true}), &["a.xml"]),
            (json!({"on": ["changed"]}), &[]),
        ] {
            let mut watch = json!({"endpoint": "e", "path": "/out", "stable": "0s"});
            watch.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            assert_eq!(found(&store, &env, watch.clone()).await, wanted, "{watch}");
        }
        env.advance(Duration::from_secs(100));
        let old = json!({"endpoint": "e", "path": "/out", "stable": "0s", "max_age": "99s"});
        assert!(found(&store, &env, old).await.is_empty());
        let none: Watch = serde_json::from_value(json!({"endpoint": "e", "path": "/x"})).unwrap();
        let moment = Moment { elapsed: Duration::ZERO, now: env.now() };
        let failed = look(&store, &none, &mut Seen::default(), moment).await;
        assert_eq!(failed, Err(StoreError::NotFound));
    }
}
