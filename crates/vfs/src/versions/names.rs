//! What became of a file that was to be replaced: the two names tell, after a failure and after a
//! crash.

use entrepot_nouns::StorePath;
use entrepot_storage::{AnyStore, Existing, Meta, StoreError};

/// The names of a file that is about to be replaced.
#[derive(Clone, Copy)]
pub(crate) struct VersionNames<'a> {
    /// The name that another file is to take.
    pub(crate) file: &'a StorePath,
    /// The name under which the file is kept.
    pub(crate) version: &'a StorePath,
}

/// Whether a file was replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replacement {
    /// Another file has its name, and it is kept.
    Done,
    /// It has its name, and nothing is kept.
    NotDone,
}

/// Looks at the names, and undoes what was begun where nothing has replaced the file.
pub(crate) async fn look(
    store: &AnyStore,
    names: VersionNames<'_>,
) -> Result<Replacement, StoreError> {
    let Some(kept) = stat(store, names.version).await? else { return Ok(Replacement::NotDone) };
    match stat(store, names.file).await? {
        Some(there) if there.identity.is_some() && there.identity == kept.identity => {
            store.remove(names.version).await?;
            Ok(Replacement::NotDone)
        }
        Some(_) => Ok(Replacement::Done),
        None => {
            store.rename(names.version, names.file, Existing::Refuse).await?;
            Ok(Replacement::NotDone)
        }
    }
}

async fn stat(store: &AnyStore, path: &StorePath) -> Result<Option<Meta>, StoreError> {
    match store.stat(path).await {
        Ok(meta) => Ok(Some(meta)),
        Err(StoreError::NotFound | StoreError::NotDirectory) => Ok(None),
        Err(error) => Err(error),
    }
}
