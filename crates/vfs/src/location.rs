//! Where a path lies, for those who must know whether two sessions mean the same file.

use entrepot_nouns::{StorePath, VPath};
use uuid::Uuid;

use crate::error::Result;
use crate::place::Last;
use crate::vfs::Vfs;

/// A place at an endpoint: the same for all accounts, whatever their mounts call it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// Id of the endpoint.
    pub endpoint: Uuid,
    /// Path at the endpoint.
    pub path: StorePath,
}

impl Vfs {
    /// Where a path lies; `None`: it is a directory that exists because mounts lie below it.
    ///
    /// # Errors
    /// No mount lies there.
    pub async fn location(&self, path: &VPath) -> Result<Option<Location>> {
        let (place, _) = self.place(path, Last::Followed).await?;
        Ok(place.map(|place| Location { endpoint: place.endpoint(), path: place.path }))
    }
}
