//! Names that rules give to files at an endpoint, past any session: for everybody else of the node
//! that is one change like their own, and quotas count it.

use entrepot_nouns::{Endpoint, StorePath, Stored};
use entrepot_storage::{Meta, StoreError};

use crate::error::Result;
use crate::names::NameLock;
use crate::node_quotas::CountedChange;
use crate::quota::Reservation;
use crate::recount::Delta;
use crate::service::Service;

/// A name that nobody else of this node changes, with room for a file in the quotas over it.
pub struct HeldName {
    size: u64,
    replaced: Option<Meta>,
    counted: CountedChange,
    room: Vec<Reservation>,
    name: NameLock,
}

impl Service {
    /// Waits until nobody else of this node changes a name at an endpoint, and reserves room for a
    /// file of `size` bytes in the quotas that count it: those of mounts that were used since the
    /// start.
    ///
    /// # Errors
    /// [`crate::VfsError::Quota`]: there is not so much room. Else the store failed.
    pub async fn hold_name(
        &self,
        endpoint: &Stored<Endpoint>,
        path: &StorePath,
        size: u64,
    ) -> Result<HeldName> {
        let name = self.0.names.hold(endpoint.id, path).await;
        let counted = self.0.quotas.begin(endpoint.id, path);
        let (mut replaced, mut room) = (None, Vec::new());
        if !counted.is_uncounted() {
            replaced = match self.0.stores.open(endpoint).await?.stat(path).await {
                Ok(meta) => Some(meta),
                Err(StoreError::NotFound | StoreError::NotDirectory) => None,
                Err(error) => return Err(error.into()),
            };
            room = counted.reserve(size, replaced.as_ref())?;
        }
        Ok(HeldName { size, replaced, counted, room, name })
    }
}

impl HeldName {
    /// The file has the name.
    pub fn published(self) {
        let HeldName { size, replaced, counted, room, name } = self;
        counted.end(Delta::of_file(size).over(replaced.as_ref()));
        // What was reserved is there from now on.
        drop(room);
        drop(name);
    }
}
