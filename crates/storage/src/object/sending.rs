//! Parts of one upload on their way to the store. They are sent side by side and arrive in any
//! order; what is gone on with later is what arrived without a gap.

use std::collections::BTreeMap;
use std::sync::Arc;

use object_store::PutPayload;
use object_store::multipart::PartId;
use object_store::path::Path;
use tokio::task::{JoinError, JoinSet};

use super::bucket::Bucket;
use super::errors::store_error;
use super::kept::Upload;
use crate::error::{Result, StoreError};

/// Those of one upload. When it is dropped their requests end.
#[derive(Default)]
pub(super) struct Sending {
    requests: JoinSet<Sent>,
    /// Parts that arrived before one in front of them, by their numbers, with their sizes.
    early: BTreeMap<usize, (PartId, usize)>,
}

/// The end of a request.
pub(super) struct Sent {
    number: usize,
    /// Bytes of the part.
    pub(super) bytes: usize,
    part: Result<PartId>,
}

impl Sending {
    /// Parts on their way.
    pub(super) fn count(&self) -> usize {
        self.requests.len()
    }

    /// Number of the next part, from 0.
    pub(super) fn next_number(&self, upload: Option<&Upload>) -> usize {
        upload.map_or(0, |upload| upload.parts.len()) + self.early.len() + self.requests.len()
    }

    /// Sends the next part.
    pub(super) fn start(
        &mut self,
        bucket: &Arc<Bucket>,
        key: &Path,
        upload: &Upload,
        data: PutPayload,
    ) {
        let (number, bytes) = (self.next_number(Some(upload)), data.content_length());
        let (bucket, key, id) = (Arc::clone(bucket), key.clone(), upload.id.clone());
        self.requests.spawn(async move {
            let put = bucket.backend.parts.put_part(&key, &id, number, data).await;
            Sent { number, bytes, part: put.map_err(store_error) }
        });
    }

    /// Waits for the end of one; `None`: there is none. May be dropped while it waits.
    pub(super) async fn ended(&mut self) -> Option<Result<Sent>> {
        self.requests.join_next().await.map(joined)
    }

    /// One that has ended.
    pub(super) fn try_ended(&mut self) -> Option<Result<Sent>> {
        self.requests.try_join_next().map(joined)
    }

    /// Notes what arrived.
    ///
    /// # Errors
    /// Why it did not.
    pub(super) fn arrived(&mut self, sent: Sent, upload: &mut Upload) -> Result<()> {
        self.early.insert(sent.number, (sent.part?, sent.bytes));
        while let Some((part, bytes)) = self.early.remove(&upload.parts.len()) {
            upload.push(part, bytes);
        }
        Ok(())
    }

    /// Ends all requests.
    pub(super) async fn stop(&mut self) {
        self.requests.shutdown().await;
    }
}

fn joined(ended: std::result::Result<Sent, JoinError>) -> Result<Sent> {
    ended.map_err(|error| StoreError::Io(format!("a part was not sent to its end: {error}")))
}
