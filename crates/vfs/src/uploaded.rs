//! What an upload came to, for those who asked for it and for rules on commands.

use entrepot_nouns::{Digests, TransferId};

/// The result of a finished upload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Uploaded {
    /// The transfer that events of this upload name.
    pub transfer: TransferId,
    /// Size of the whole file in bytes.
    pub size: u64,
    /// Digests of the whole file.
    pub digests: Digests,
    /// An older file of that name is gone.
    pub replaced: bool,
    /// False if nothing was written to a file that is there: it stays as it was.
    pub published: bool,
}
