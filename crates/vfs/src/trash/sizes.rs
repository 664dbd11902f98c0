//! How many bytes lie in the trash, where a mount limits them: of a directory nobody knows until it
//! is counted.

use entrepot_db::TrashPlace;
use entrepot_nouns::{Event, StorePath};
use entrepot_storage::{AnyStore, EntryKind, StoreError};

use super::shown::kept_at;
use crate::error::Result;
use crate::limits;
use crate::service::Service;

impl Service {
    /// Counts what was removed and has not been counted. What cannot be counted now counts as
    /// nothing until the next time.
    pub(super) async fn count_sizes(&self) -> Result<()> {
        let mut after = None;
        loop {
            let events = self.0.trash.uncounted(after).await?;
            let Some(last) = events.last() else { return Ok(()) };
            after = Some(last.id);
            for event in &events {
                match self.size_of(event).await {
                    Ok(bytes) => self.0.trash.counted(event.id, bytes).await?,
                    Err(error) => {
                        tracing::warn!(code = error.code(), %error, id = %event.id,
                            "what was removed cannot be counted now");
                    }
                }
            }
        }
    }

    async fn size_of(&self, event: &Event) -> Result<u64> {
        let (Some(place), Some(root)) = (TrashPlace::of(event), kept_at(event)) else {
            return Ok(0);
        };
        let Some(endpoint) = self.0.trash.endpoint(event.site, place.endpoint).await? else {
            return Ok(0);
        };
        let store = self.0.stores.open(&endpoint).await?;
        Ok(bytes_below(&store, root).await?)
    }
}

/// Bytes of a file, or of all files of a directory.
async fn bytes_below(store: &AnyStore, root: StorePath) -> std::result::Result<u64, StoreError> {
    match store.stat(&root).await {
        Ok(meta) if meta.kind == EntryKind::Directory => {}
        Ok(meta) => return Ok(meta.size),
        Err(StoreError::NotFound | StoreError::NotDirectory) => return Ok(0),
        Err(error) => return Err(error),
    }
    let (mut bytes, mut waiting) = (0_u64, vec![root]);
    while let Some(directory) = waiting.pop() {
        let mut listing = match store.list(&directory).await {
            Err(StoreError::NotFound) => continue,
            listing => listing?,
        };
        loop {
            let page = listing.next_page(limits::PAGE).await?;
            if page.is_empty() {
                break;
            }
            for entry in page {
                match entry.meta.kind {
                    EntryKind::Directory => {
                        waiting.extend(directory.join(&entry.name).ok());
                    }
                    EntryKind::File => bytes = bytes.saturating_add(entry.meta.size),
                    EntryKind::Link => {}
                }
            }
        }
    }
    Ok(bytes)
}
