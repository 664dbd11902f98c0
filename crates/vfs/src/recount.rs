//! A count of what lies below a directory while names change there: what of the changes it has
//! seen, and what must be added to what it found.
//!
//! Directories are listed one after the other. A change in one that is still to be listed will be
//! seen; one in a directory that has been listed is not in the sum, and is added to it. While a
//! directory is being listed nobody can tell: it is listed again. One that changes all the time is
//! taken as it is in the end, and then only that counts which a change adds: until the next count
//! the sum may be too large, and never too small.

use entrepot_nouns::StorePath;
use entrepot_storage::{EntryKind, Meta};

use crate::limits::RELISTED;

/// What a change adds to what is counted, or takes from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Delta {
    pub(crate) bytes: i64,
    pub(crate) files: i64,
}

impl Delta {
    /// A file of `size` bytes more.
    pub(crate) fn of_file(size: u64) -> Delta {
        Delta { bytes: i64::try_from(size).unwrap_or(i64::MAX), files: 1 }
    }

    /// What has a name, more. A directory counts with what lies in it.
    pub(crate) fn of(meta: &Meta) -> Delta {
        match meta.kind {
            EntryKind::File => Delta::of_file(meta.size),
            EntryKind::Link => Delta::of_file(0),
            EntryKind::Directory => Delta::default(),
        }
    }

    /// The same less.
    pub(crate) fn less(self) -> Delta {
        Delta { bytes: self.bytes.saturating_neg(), files: self.files.saturating_neg() }
    }

    /// In place of what had the name.
    pub(crate) fn over(mut self, gone: Option<&Meta>) -> Delta {
        self.add(gone.map(Delta::of).unwrap_or_default().less());
        self
    }

    /// As far as it adds.
    fn increase(self) -> Delta {
        Delta { bytes: self.bytes.max(0), files: self.files.max(0) }
    }

    pub(crate) fn add(&mut self, other: Delta) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.files = self.files.saturating_add(other.files);
    }
}

/// True if `path` is `prefix` or lies below it.
pub(crate) fn is_below(path: &StorePath, prefix: &StorePath) -> bool {
    if prefix.is_root() {
        return true;
    }
    let rest = path.as_str().strip_prefix(prefix.as_str());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The changes of names that are under way, and the count that runs, if one does.
#[derive(Default)]
pub(crate) struct Changes {
    next: u64,
    open: Vec<OpenChange>,
    count: Option<Progress>,
}

struct OpenChange {
    id: u64,
    path: StorePath,
    /// Its directory was counted while it was under way: nobody knows whether before or after it.
    is_uncertain: bool,
}

/// How far a count is.
#[derive(Default)]
struct Progress {
    /// Directories that are still to be listed, with all that lies below them.
    pending: Vec<StorePath>,
    /// The one that is being listed.
    current: Option<StorePath>,
    tries: u32,
    /// What has changed below it since its listing began.
    meanwhile: Vec<(StorePath, Delta)>,
    /// What is to be added to the sum.
    missed: Delta,
}

impl Changes {
    /// A name is about to change.
    pub(crate) fn begin(&mut self, path: &StorePath) -> u64 {
        self.next += 1;
        self.open.push(OpenChange { id: self.next, path: path.clone(), is_uncertain: false });
        self.next
    }

    /// It has; answers what changes in what is known to lie there.
    pub(crate) fn end(&mut self, id: u64, delta: Delta) -> Delta {
        let Some(at) = self.open.iter().position(|open| open.id == id) else { return delta };
        let OpenChange { path, is_uncertain, .. } = self.open.swap_remove(at);
        let certain = if is_uncertain { delta.increase() } else { delta };
        let Some(count) = &mut self.count else { return certain };
        if is_uncertain {
            count.missed.add(certain);
        } else if count.pending.iter().any(|directory| is_below(&path, directory)) {
            // It will be seen.
        } else if count.current.as_ref().is_some_and(|current| is_below(&path, current)) {
            count.meanwhile.push((path, delta));
        } else {
            count.missed.add(delta);
        }
        delta
    }

    /// A count of what lies below `root` begins.
    pub(crate) fn start_count(&mut self, root: StorePath) {
        self.count = Some(Progress { pending: vec![root], ..Progress::default() });
    }

    /// The next directory to list.
    pub(crate) fn next_directory(&mut self) -> Option<StorePath> {
        let count = self.count.as_mut()?;
        count.current = count.pending.pop();
        (count.tries, count.meanwhile) = (0, Vec::new());
        count.current.clone()
    }

    /// It was listed, with these directories in it. False: it must be listed again.
    pub(crate) fn listed(&mut self, below: Vec<StorePath>) -> bool {
        let Some(count) = &mut self.count else { return true };
        let Some(current) = count.current.take() else { return true };
        // Of what lies deeper, that is seen later which lies in a directory that was found.
        let later = |path: &StorePath| below.iter().any(|directory| is_below(path, directory));
        let here = |path: &StorePath| path.parent().as_ref() == Some(&current);
        let is_certain = !count.meanwhile.iter().any(|(path, _)| here(path))
            && !self.open.iter().any(|open| here(&open.path));
        count.tries += 1;
        if !is_certain && count.tries < RELISTED {
            count.current = Some(current);
            count.meanwhile.clear();
            return false;
        }
        for (path, delta) in std::mem::take(&mut count.meanwhile) {
            if here(&path) {
                count.missed.add(delta.increase());
            } else if !later(&path) {
                count.missed.add(delta);
            }
        }
        for open in self.open.iter_mut().filter(|open| here(&open.path)) {
            open.is_uncertain = true;
        }
        count.pending.extend(below);
        true
    }

    /// The count has ended; answers what is to be added to its sum.
    pub(crate) fn end_count(&mut self) -> Delta {
        self.count.take().map_or_else(Delta::default, |count| count.missed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> StorePath {
        text.parse().unwrap()
    }

    const GONE: Delta = Delta { bytes: -10, files: -1 };
    const NEW: Delta = Delta { bytes: 10, files: 1 };
    const NONE: Delta = Delta { bytes: 0, files: 0 };

    fn change(changes: &mut Changes, at: &str, delta: Delta) {
        let id = changes.begin(&path(at));
        assert_eq!(changes.end(id, delta), delta, "what is known changes at once");
    }

    #[test]
    fn what_the_count_has_yet_to_see_is_not_added_and_what_it_has_seen_is() {
        let mut changes = Changes::default();
        changes.start_count(StorePath::root());
        assert_eq!(changes.next_directory(), Some(StorePath::root()));
        // Deeper than what is being listed: it lies in a directory that is listed later.
        change(&mut changes, "a/x", GONE);
        assert!(changes.listed(vec![path("a"), path("b")]));
        change(&mut changes, "a/y", GONE);
        assert_eq!(changes.next_directory(), Some(path("b")));
        change(&mut changes, "a/z", GONE);
        assert!(changes.listed(Vec::new()));
        change(&mut changes, "b/x", GONE);
        // A directory that was made since is never listed.
        change(&mut changes, "c/x", NEW);
        change(&mut changes, "c/y", NEW);
        assert_eq!(changes.next_directory(), Some(path("a")));
        assert!(changes.listed(Vec::new()));
        assert_eq!(changes.next_directory(), None);
        assert_eq!(changes.end_count(), NEW);
    }

    #[test]
    fn a_directory_that_changes_while_it_is_listed_is_listed_again() {
        let mut changes = Changes::default();
        changes.start_count(path("d"));
        assert_eq!(changes.next_directory(), Some(path("d")));
        change(&mut changes, "d/x", GONE);
        assert!(!changes.listed(Vec::new()));
        // Also while a change is under way of which nobody knows whether it was seen.
        let open = changes.begin(&path("d/y"));
        assert!(!changes.listed(Vec::new()));
        changes.end(open, GONE);
        for _ in 2..RELISTED - 1 {
            change(&mut changes, "d/x", NEW);
            assert!(!changes.listed(Vec::new()));
        }
        // In the end what is taken away does not count, and what is added does.
        change(&mut changes, "d/x", GONE);
        change(&mut changes, "d/y", NEW);
        let open = changes.begin(&path("d/z"));
        assert!(changes.listed(Vec::new()));
        assert_eq!(changes.next_directory(), None);
        assert_eq!(changes.end_count(), NEW);
        assert_eq!(changes.end(open, GONE), NONE);
    }
}
