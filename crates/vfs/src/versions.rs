//! What uploads, renames and copies replaced and can be put back, where a mount keeps it.
//!
//! Before anything takes the name of a file, the file gets a second name in the directory
//! [`TRASH_NAME`](entrepot_nouns::mount::TRASH_NAME) of its mount, under the id of the event
//! `file.versioned`; so it has a name at any moment, and readers see the old file or the new one.
//! Stores whose files have one name only rename it there: until the new file has the name, nothing
//! has. The names tell what came of it: [`names::look`]. Listing, limits and the end of versions
//! are those of the [trash](crate::trash).

mod keep;
pub(crate) mod names;
mod restore;
mod shown;

pub(crate) use keep::KeptVersion;
pub use shown::{FileVersion, VersionPage};
