//! The hidden directory of a mount in which lies what was removed or replaced.

use entrepot_nouns::StorePath;
use entrepot_storage::{AnyStore, Existing, StoreError};

type StoreResult = std::result::Result<(), StoreError>;

/// Renames a file or directory into the folder, which is made if it is not there.
pub(crate) async fn move_into(
    store: &AnyStore,
    source: &StorePath,
    folder: &StorePath,
    target: &StorePath,
) -> StoreResult {
    let renamed = store.rename(source, target, Existing::Refuse).await;
    if !matches!(renamed, Err(StoreError::NotFound)) {
        return renamed.map(drop);
    }
    // The first one; or another program has removed the folder.
    make(store, folder).await?;
    store.rename(source, target, Existing::Refuse).await.map(drop)
}

/// Gives a file a second name in the folder, which is made if it is not there.
pub(crate) async fn link_into(
    store: &AnyStore,
    source: &StorePath,
    folder: &StorePath,
    target: &StorePath,
) -> StoreResult {
    let linked = store.link(source, target).await;
    if linked != Err(StoreError::NotFound) {
        return linked;
    }
    make(store, folder).await?;
    store.link(source, target).await
}

/// Makes the folder; one that is there is what was wanted.
pub(crate) async fn make(store: &AnyStore, folder: &StorePath) -> StoreResult {
    match store.make_directory(folder).await {
        Ok(()) | Err(StoreError::Exists) => Ok(()),
        Err(error) => Err(error),
    }
}
