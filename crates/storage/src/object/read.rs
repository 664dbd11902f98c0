//! Objects opened to read: ranges are fetched ahead into one window, so that the small reads of a
//! protocol share requests.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectMeta};
use parking_lot::Mutex;

use super::bucket::Bucket;
use super::describe::file_meta;
use super::errors::store_error;
use crate::budget::{Permit, Share};
use crate::error::{Result, StoreError};
use crate::limits::{OBJECT_READ_AHEAD, OBJECT_READ_LEAST};
use crate::store::{Identity, Meta, ReadFile};

struct ObjectRead {
    bucket: Arc<Bucket>,
    key: Path,
    tag: Option<String>,
    meta: Meta,
    window: Mutex<Window>,
    /// Whose memory the window is; `None`: nobody counts it.
    memory: Option<Share>,
}

/// What was read and may be asked for again.
#[derive(Default)]
struct Window {
    start: u64,
    bytes: Bytes,
    _permit: Option<Permit>,
}

/// A reader of the object just asked about.
pub(super) fn open(
    bucket: &Arc<Bucket>,
    object: ObjectMeta,
    identity: Option<Identity>,
    memory: Option<Share>,
) -> Box<dyn ReadFile> {
    Box::new(ObjectRead {
        bucket: Arc::clone(bucket),
        meta: file_meta(&object, identity),
        key: object.location,
        tag: object.e_tag,
        window: Mutex::default(),
        memory,
    })
}

impl ObjectRead {
    /// The part of the window from `offset` on, at most `len` bytes, if it holds all of them (or
    /// all up to the end of the object).
    fn in_window(&self, offset: u64, len: usize) -> Option<Bytes> {
        let left = usize::try_from(self.meta.size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let len = len.min(left);
        let window = self.window.lock();
        let start = usize::try_from(offset.checked_sub(window.start)?).ok()?;
        let end = start.checked_add(len)?;
        (end <= window.bytes.len()).then(|| window.bytes.slice(start..end))
    }

    async fn fetch(&self, offset: u64, len: usize) -> Result<Bytes> {
        // The old window goes first: its memory is the next one's.
        *self.window.lock() = Window::default();
        let most = len.max(OBJECT_READ_AHEAD) as u64;
        let most = most.min(self.meta.size.saturating_sub(offset));
        let least = most.min(len.max(OBJECT_READ_LEAST) as u64);
        let permit = self.memory.as_ref().and_then(|memory| memory.take_between(least, most));
        // Without memory nothing is read ahead, and nothing kept.
        let ahead = match (&self.memory, &permit) {
            (None, _) => most,
            (Some(_), Some(permit)) => permit.amount(),
            (Some(_), None) => len as u64,
        };
        let end = offset.saturating_add(ahead).min(self.meta.size);
        let options = GetOptions {
            if_match: self.tag.clone(),
            range: Some(GetRange::Bounded(offset..end)),
            ..GetOptions::default()
        };
        let changed = || StoreError::Io("the object changed while it was read".to_owned());
        let got = self.bucket.backend.objects.get_opts(&self.key, options).await;
        let got = got.map_err(|error| match store_error(error) {
            StoreError::Exists | StoreError::NotFound => changed(),
            other => other,
        })?;
        let bytes = got.bytes().await.map_err(store_error)?;
        if bytes.len() as u64 != end - offset {
            return Err(changed());
        }
        if permit.is_some() || self.memory.is_none() {
            let kept = bytes.clone();
            *self.window.lock() = Window { start: offset, bytes: kept, _permit: permit };
        }
        Ok(bytes)
    }
}

#[async_trait]
impl ReadFile for ObjectRead {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn try_read_at(&self, offset: u64, buf: &mut [u8]) -> Result<Option<usize>> {
        if offset >= self.meta.size {
            return Ok(Some(0));
        }
        let Some(found) = self.in_window(offset, buf.len()) else { return Ok(None) };
        if let Some(part) = buf.get_mut(..found.len()) {
            part.copy_from_slice(&found);
        }
        Ok(Some(found.len()))
    }

    async fn read_at(&self, offset: u64, mut buf: BytesMut, len: usize) -> Result<BytesMut> {
        if offset >= self.meta.size || len == 0 {
            return Ok(buf);
        }
        let mut found = match self.in_window(offset, len) {
            Some(found) => found,
            None => self.fetch(offset, len).await?,
        };
        found.truncate(len);
        buf.extend_from_slice(&found);
        Ok(buf)
    }
}
