//! What is known of the files of one watched folder: a function of what listings say, and of the
//! time. Nothing here asks a store or the database.

use std::collections::HashMap;
use std::time::Duration;

use entrepot_crypto::{Sha256, StreamDigest};
use entrepot_db::WatchedFile;
use entrepot_nouns::Timestamp;
use entrepot_nouns::watch::WatchChange;

/// A version of a file, as far as a listing tells versions apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) size: u64,
    pub(super) modified: Timestamp,
}

impl Version {
    /// Whether a listing that shows `listed` may be of this version. Some servers tell the time of
    /// a file to the minute, and when it is some months old to the day.
    fn is(self, listed: Version) -> bool {
        const MINUTE: i64 = 60_000_000;
        const DAY: i64 = 86_400_000_000;
        let (told, now) = (self.modified.micros(), listed.modified.micros());
        let is_day = told % MINUTE == 0 && now % DAY == 0 && told - told.rem_euclid(DAY) == now;
        self.size == listed.size && (told == now || is_day)
    }
}

/// A version that is to be told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Below the watched folder.
    pub(super) path: String,
    pub(super) version: Version,
    pub(super) change: WatchChange,
    /// How often the file was to be found anew.
    pub(super) round: u32,
}

impl Found {
    /// What is to be noted once it is told of.
    pub(super) fn row(&self) -> WatchedFile {
        WatchedFile {
            path: self.path.clone(),
            size: Some(self.version.size),
            modified: self.version.modified,
            round: self.round,
            gone_at: None,
        }
    }
}

/// Paths are kept by their hash: there may be a hundred thousand of them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct PathKey(u128);

impl PathKey {
    pub(super) fn of(path: &str) -> PathKey {
        let mut digest = StreamDigest::new(Sha256::Unwanted);
        digest.update(path.as_bytes());
        let hash = digest.finish().blake3.unwrap_or_default();
        let mut half = [0; 16];
        half.copy_from_slice(hash.split_at(16).0);
        PathKey(u128::from_le_bytes(half))
    }
}

#[derive(Clone, Copy, Debug)]
struct Known {
    /// The version that was told of last.
    told: Option<Version>,
    /// The version that the last look found.
    last: Version,
    /// When that version was found first, by `Env::elapsed`.
    since: Duration,
    /// The number of the last look that listed it; 0: none since the node watches.
    look: u32,
    round: u32,
    /// It was not listed any more then.
    gone_at: Option<Timestamp>,
}

/// How a file stands after a look at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// This version was told of.
    Known,
    /// It may still be written to.
    Unstable,
    /// It is to be told of.
    Due { change: WatchChange, round: u32 },
}

/// The files of a folder.
#[derive(Debug, Default)]
pub(super) struct Seen {
    files: HashMap<PathKey, Known>,
    /// The number of the look under way, or of the last one.
    look: u32,
}

impl Seen {
    /// What was noted before.
    pub(super) fn of(rows: &[WatchedFile]) -> Seen {
        let known = |row: &WatchedFile| {
            let told = row.size.map(|size| Version { size, modified: row.modified });
            let last = Version { size: row.size.unwrap_or_default(), modified: row.modified };
            let known = Known {
                told,
                last,
                since: Duration::ZERO,
                look: 0,
                round: row.round,
                gone_at: row.gone_at,
            };
            (PathKey::of(&row.path), known)
        };
        Seen { files: rows.iter().map(known).collect(), look: 0 }
    }

    /// A look at the folder begins.
    pub(super) fn begin(&mut self) {
        self.look = self.look.saturating_add(1);
    }

    /// A listing has this file. A version is stable when it was found `stable` before.
    pub(super) fn listed(
        &mut self,
        path: &str,
        version: Version,
        now: Duration,
        stable: Duration,
    ) -> Standing {
        let look = self.look;
        let known = self.files.entry(PathKey::of(path)).or_insert(Known {
            told: None,
            last: version,
            since: now,
            look,
            round: 0,
            gone_at: None,
        });
        known.look = look;
        if known.last != version {
            known.last = version;
            known.since = now;
        }
        match known.told {
            Some(told) if told.is(version) => Standing::Known,
            _ if now.saturating_sub(known.since) < stable => Standing::Unstable,
            told => {
                let change = if told.is_some() { WatchChange::Changed } else { WatchChange::New };
                Standing::Due { change, round: known.round }
            }
        }
    }

    /// A listing has this file, which does not count yet.
    pub(super) fn stays(&mut self, path: &str) {
        let look = self.look;
        if let Some(known) = self.files.get_mut(&PathKey::of(path)) {
            known.look = look;
        }
    }

    /// A version was told of, or passed over for good.
    pub(super) fn told(&mut self, found: &Found) {
        if let Some(known) = self.files.get_mut(&PathKey::of(&found.path)) {
            known.told = Some(found.version);
            known.gone_at = None;
        }
    }

    /// A look has listed the whole folder. Gives the noted files that came or went since, at most
    /// `most` that went: of `rows`, which are those that are noted.
    pub(super) fn end(
        &mut self,
        rows: &[WatchedFile],
        now: Timestamp,
        most: usize,
    ) -> Vec<WatchedFile> {
        let mut gone = 0;
        let look = self.look;
        // Files that were never told of are found anew if they come back.
        self.files.retain(|_, known| known.look == look || known.told.is_some());
        let changed = rows.iter().filter_map(|row| {
            let known = self.files.get_mut(&PathKey::of(&row.path))?;
            let is_gone = known.look != look;
            if is_gone == known.gone_at.is_some() || (is_gone && gone >= most) {
                return None;
            }
            gone += usize::from(is_gone);
            known.gone_at = is_gone.then_some(now);
            Some(WatchedFile { gone_at: known.gone_at, ..row.clone() })
        });
        changed.collect()
    }

    /// Whether noted files came or went in the look that has listed the whole folder.
    pub(super) fn has_moved(&self) -> bool {
        let moved = |known: &Known| {
            known.told.is_some() && (known.look != self.look) != known.gone_at.is_some()
        };
        self.files.values().any(moved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STABLE: Duration = Duration::from_secs(10);

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn version(size: u64, modified: i64) -> Version {
        Version { size, modified: Timestamp(modified) }
    }

    fn due(change: WatchChange) -> Standing {
        Standing::Due { change, round: 0 }
    }

    fn found(path: &str, version: Version) -> Found {
        Found { path: path.to_owned(), version, change: WatchChange::New, round: 0 }
    }

    #[test]
    fn a_version_is_told_of_once_and_only_when_it_is_stable() {
        let mut seen = Seen::default();
        let look = |seen: &mut Seen, version: Version, now: u64| {
            seen.begin();
            seen.listed("a", version, at(now), STABLE)
        };
        assert_eq!(look(&mut seen, version(1, 1), 0), Standing::Unstable);
        // Still being written: it begins anew.
        assert_eq!(look(&mut seen, version(2, 1), 9), Standing::Unstable);
        assert_eq!(look(&mut seen, version(2, 2), 18), Standing::Unstable);
        assert_eq!(look(&mut seen, version(2, 2), 27), Standing::Unstable);
        assert_eq!(look(&mut seen, version(2, 2), 28), due(WatchChange::New));
        // Until it is told of it stays due.
        assert_eq!(look(&mut seen, version(2, 2), 29), due(WatchChange::New));
        seen.told(&found("a", version(2, 2)));
        assert_eq!(look(&mut seen, version(2, 2), 99), Standing::Known);
        assert_eq!(look(&mut seen, version(2, 3), 100), Standing::Unstable);
        assert_eq!(look(&mut seen, version(2, 3), 110), due(WatchChange::Changed));
    }

    #[test]
    fn without_a_time_of_rest_a_file_is_due_at_once() {
        let mut seen = Seen::default();
        seen.begin();
        assert_eq!(seen.listed("a", version(1, 1), at(5), Duration::ZERO), due(WatchChange::New));
    }

    #[test]
    fn what_was_noted_before_is_known_after_a_restart() {
        let row = WatchedFile { round: 3, ..found("a", version(2, 2)).row() };
        let mut seen = Seen::of(&[row]);
        seen.begin();
        assert_eq!(seen.listed("a", version(2, 2), at(0), STABLE), Standing::Known);
        assert_eq!(seen.listed("a", version(3, 2), at(0), STABLE), Standing::Unstable);
        let changed = Standing::Due { change: WatchChange::Changed, round: 3 };
        assert_eq!(seen.listed("a", version(3, 2), at(10), STABLE), changed);
    }

    #[test]
    fn files_go_and_come_only_by_whole_listings() {
        let rows = ["a", "b"].map(|path| found(path, version(1, 1)).row());
        let mut seen = Seen::of(&rows);
        seen.begin();
        seen.listed("a", version(1, 1), at(0), STABLE);
        assert!(seen.has_moved());
        let gone = seen.end(&rows, Timestamp(7), 9);
        assert_eq!(gone, [WatchedFile { gone_at: Some(Timestamp(7)), ..rows[1].clone() }]);
        assert!(!seen.has_moved());
        assert_eq!(seen.end(&rows, Timestamp(8), 9), []);
        seen.begin();
        seen.listed("a", version(1, 1), at(1), STABLE);
        // The same version is back: nothing is told of, but it is not forgotten.
        assert_eq!(seen.listed("b", version(1, 1), at(1), STABLE), Standing::Known);
        assert_eq!(seen.end(&rows, Timestamp(9), 9), [rows[1].clone()]);
    }

    #[test]
    fn a_file_to_be_found_anew_is_due_and_one_that_only_grew_old_is_not() {
        const DAY: i64 = 86_400_000_000;
        let anew = WatchedFile { size: None, round: 1, ..found("a", version(1, 1)).row() };
        let old = found("b", version(5, 3 * DAY + 120_000_000)).row();
        let mut seen = Seen::of(&[anew, old]);
        seen.begin();
        let due = Standing::Due { change: WatchChange::New, round: 1 };
        assert_eq!(seen.listed("a", version(1, 1), at(50), Duration::ZERO), due);
        assert_eq!(seen.listed("b", version(5, 3 * DAY), at(50), STABLE), Standing::Known);
        assert_eq!(seen.listed("b", version(6, 3 * DAY), at(50), STABLE), Standing::Unstable);
    }

    #[test]
    fn no_more_files_go_at_a_time_than_are_asked_for() {
        let rows = ["a", "b", "c"].map(|path| found(path, version(1, 1)).row());
        let mut seen = Seen::of(&rows);
        seen.begin();
        assert_eq!(seen.end(&rows, Timestamp(7), 2).len(), 2);
        assert!(seen.has_moved());
        assert_eq!(seen.end(&rows, Timestamp(8), 2).len(), 1);
        assert!(!seen.has_moved());
    }
}
