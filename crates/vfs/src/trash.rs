//! What was removed and can be put back, where a mount keeps it.
//!
//! A removed file, or a directory with all that is in it, is renamed into the directory
//! [`TRASH_NAME`](entrepot_nouns::mount::TRASH_NAME) of its mount, under the id of the event
//! `file.trashed`: no byte is copied (but by object stores, whose rename is a copy), and no path of
//! a session leads there. Which event it was, by whom and until when, follows from the journal:
//! the database has a row for each ([`entrepot_db::TrashPlace`]). A change of a name that a crash
//! cut is decided by recovery as every other one.
//!
//! Versions of files that were replaced lie there too: [`crate::versions`].
//!
//! An account sees what was removed below a mount of its own, from where it may delete itself.

pub(crate) mod folder;
pub(crate) mod index;
pub(crate) mod purge;
mod restore;
pub(crate) mod shown;
mod sizes;

pub use purge::PurgedBatch;
pub use shown::{TrashPage, TrashedEntry};
