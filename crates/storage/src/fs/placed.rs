//! What a rename into place did, and so how to undo it.

use entrepot_nouns::Displaced;

use super::disk::Stat;

/// What a rename into place did.
pub(super) enum Placed {
    /// The name was free.
    Fresh,
    /// The old version lies under the staging name.
    Exchanged { old: Stat },
    /// The old version lies under this name in staging.
    Kept { name: String, old: Stat },
    /// The old version is gone: the file system has neither exchange nor second names.
    Over { old: Stat },
}

impl Placed {
    /// Whether the old version still lies in staging.
    pub(super) fn keeps_displaced(&self) -> bool {
        matches!(self, Placed::Exchanged { .. } | Placed::Kept { .. })
    }

    /// What had the name before.
    pub(super) fn displaced(&self) -> Option<Displaced> {
        match self {
            Placed::Fresh => None,
            Placed::Exchanged { old } | Placed::Kept { old, .. } | Placed::Over { old } => {
                Some(old.displaced())
            }
        }
    }
}

/// A file that has its name, and can still lose it again.
pub(super) struct Publication {
    /// How it got the name.
    pub(super) placed: Placed,
    /// The file itself.
    pub(super) ours: Stat,
}
