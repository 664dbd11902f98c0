//! Uploads to an object store: in order, through one buffer. What fits into one part is sent as a
//! single put by the publish; more becomes a multipart upload, completed by the publish. The next
//! part is filled while others are sent, as far as the endpoint allows and memory goes.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use entrepot_nouns::{Displaced, TransferId};
use object_store::path::Path;
use object_store::{Attribute, Attributes, PutMode, PutMultipartOptions, PutOptions};
use tokio::sync::Mutex;

use super::bucket::Bucket;
use super::buffer::PartBuffer;
use super::describe::{TRANSFER, transfer_identity};
use super::errors::store_error;
use super::kept::{Held, Kept, PartSizes, Upload};
use super::sending::{Sending, Sent};
use crate::budget::Share;
use crate::error::{Result, StoreError};
use crate::limits::{PARTS_BYTES, PARTS_MOST, PARTS_TO_REST};
use crate::store::{EntryKind, Existing, Identity, Meta, Publish, Published, StagedFile};

struct ObjectStaged {
    bucket: Arc<Bucket>,
    id: TransferId,
    key: Path,
    state: Mutex<State>,
}

struct State {
    /// Bytes taken so far: where the next write begins.
    size: u64,
    /// `size` at the last sync.
    synced: Option<u64>,
    buffer: PartBuffer,
    /// Sizes of the parts of an upload that is not begun yet.
    sizes: PartSizes,
    /// Most parts on their way.
    at_once: usize,
    sending: Sending,
    upload: Option<Upload>,
    /// A request failed: the parts may be incomplete.
    broken: bool,
    /// Why, until a call says so.
    failed: Option<StoreError>,
    ended: bool,
}

/// A new upload; nothing is sent yet.
pub(super) fn stage(
    bucket: &Arc<Bucket>,
    id: TransferId,
    key: Path,
    memory: Option<Share>,
) -> Box<dyn StagedFile> {
    bucket.held.lock().insert(id, Held::Working { doomed: false });
    let staged = ObjectStaged::new(bucket, id, key, None);
    Box::new(staged.with_memory(memory))
}

/// Goes on behind the last whole part.
pub(super) fn resume(
    bucket: &Arc<Bucket>,
    id: TransferId,
    key: Path,
    memory: Option<Share>,
) -> Result<Box<dyn StagedFile>> {
    let mut held = bucket.held.lock();
    match held.get(&id) {
        Some(Held::Kept(kept)) if kept.key == key => {}
        Some(Held::Working { .. }) => {
            return Err(StoreError::Unavailable("the upload is still being written".to_owned()));
        }
        _ => return Err(StoreError::NotFound),
    }
    let Some(Held::Kept(kept)) = held.insert(id, Held::Working { doomed: false }) else {
        return Err(StoreError::NotFound);
    };
    let staged = ObjectStaged::new(bucket, id, key, Some(kept.upload));
    Ok(Box::new(staged.with_memory(memory)))
}

impl State {
    fn check(&mut self) -> Result<()> {
        self.note_ended();
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        match (self.ended, self.broken) {
            (true, _) => Err(StoreError::Unsupported("a change of a file that was published")),
            (_, true) => Err(StoreError::Io("an earlier part of this upload failed".to_owned())),
            _ => Ok(()),
        }
    }

    fn check_write(&mut self, offset: u64, len: usize) -> Result<()> {
        self.check()?;
        if offset.checked_add(len as u64).is_none_or(|end| i64::try_from(end).is_err()) {
            return Err(StoreError::Denied("the file is larger than may be".to_owned()));
        }
        if offset != self.size {
            return Err(StoreError::Unsupported("writes out of order: send the file in order"));
        }
        Ok(())
    }

    /// Sizes of the parts: those of an upload that was resumed stay as they were.
    fn sizes(&self) -> PartSizes {
        self.upload.as_ref().map_or(self.sizes, |upload| upload.sizes)
    }

    /// Bytes of the part at hand.
    fn part_bytes(&self) -> usize {
        self.sizes().of(self.sending.next_number(self.upload.as_ref()))
    }

    /// True if the part at hand may take bytes beside those that are on their way.
    fn may_fill(&self) -> bool {
        let sending = self.sending.count();
        let fits = self.buffer.sending().saturating_add(self.part_bytes()) <= PARTS_BYTES;
        sending == 0 || (sending < self.at_once && fits)
    }

    fn room(&self) -> usize {
        if self.may_fill() { self.part_bytes().saturating_sub(self.buffer.len()) } else { 0 }
    }

    /// Memory for `len` more bytes, to the end of the part at hand and in the next ones: then they
    /// are taken as a whole, or not at all.
    fn reserve(&mut self, len: usize) -> Result<()> {
        self.buffer.reserve(self.buffer.len().saturating_add(len).min(self.part_bytes()))
    }

    /// The same; while there is none, parts on their way are waited for, which give theirs back.
    async fn reserve_or_wait(&mut self, len: usize) -> Result<()> {
        loop {
            match self.reserve(len) {
                Err(StoreError::NoMemory) if self.sending.count() > 0 => self.one_ended().await?,
                other => return other,
            }
        }
    }

    /// Waits until a part on its way, if there is one, has arrived.
    async fn one_ended(&mut self) -> Result<()> {
        match self.sending.ended().await {
            Some(ended) => self.note(ended),
            None => Ok(()),
        }
    }

    /// Waits until nothing is on its way.
    async fn all_ended(&mut self) -> Result<()> {
        while self.sending.count() > 0 {
            self.one_ended().await?;
        }
        Ok(())
    }

    fn note(&mut self, ended: Result<Sent>) -> Result<()> {
        let noted = ended.and_then(|sent| {
            self.buffer.sent(sent.bytes);
            let upload = self.upload.as_mut();
            upload.map_or(Ok(()), |upload| self.sending.arrived(sent, upload))
        });
        self.broken |= noted.is_err();
        noted
    }

    /// Notes what arrived or failed meanwhile.
    fn note_ended(&mut self) {
        while let Some(ended) = self.sending.try_ended() {
            if let Err(error) = self.note(ended) {
                self.failed.get_or_insert(error);
            }
        }
    }

    async fn may_fill_again(&mut self) -> Result<()> {
        while !self.may_fill() {
            self.one_ended().await?;
        }
        Ok(())
    }

    /// Waits until the next part may be filled, behind one that was begun. Where an upload that is
    /// cut can be gone on with behind that one, it is noted now: the caller looks after each write.
    async fn next_part(&mut self) -> Result<()> {
        if self.sending.next_number(self.upload.as_ref()).is_multiple_of(PARTS_TO_REST) {
            self.all_ended().await?;
        }
        self.may_fill_again().await?;
        if self.sending.count() == 0
            && let Some(upload) = &mut self.upload
        {
            upload.rest();
        }
        Ok(())
    }

    fn take(&mut self, data: &[u8]) {
        self.buffer.extend(data);
        self.size += data.len() as u64;
    }
}

impl ObjectStaged {
    fn new(bucket: &Arc<Bucket>, id: TransferId, key: Path, upload: Option<Upload>) -> Self {
        let state = Mutex::new(State {
            size: upload.as_ref().map_or(0, Upload::rested),
            synced: None,
            buffer: PartBuffer::default(),
            sizes: bucket.sizes,
            at_once: bucket.parts_at_once,
            sending: Sending::default(),
            upload,
            broken: false,
            failed: None,
            ended: false,
        });
        ObjectStaged { bucket: Arc::clone(bucket), id, key, state }
    }

    fn with_memory(mut self, memory: Option<Share>) -> Self {
        self.state.get_mut().buffer = PartBuffer::new(memory);
        self
    }

    fn attributes(&self) -> Attributes {
        let mut attributes = Attributes::new();
        attributes.insert(Attribute::Metadata(TRANSFER.into()), self.id.to_string().into());
        attributes
    }

    async fn begin(&self, sizes: PartSizes) -> Result<Upload> {
        let options = PutMultipartOptions { attributes: self.attributes(), ..Default::default() };
        let parts = &self.bucket.backend.parts;
        let (id, labelled) = match parts.create_multipart_opts(&self.key, options).await {
            Ok(id) => (id, true),
            Err(object_store::Error::NotSupported { .. }) => {
                (parts.create_multipart(&self.key).await.map_err(store_error)?, false)
            }
            Err(error) => return Err(store_error(error)),
        };
        Ok(Upload { labelled, ..Upload::new(id, sizes) })
    }

    /// Begins to send the buffer as a part.
    async fn send_part(&self, state: &mut State) -> Result<()> {
        if state.upload.is_none() {
            state.upload = Some(self.begin(state.sizes).await?);
        }
        let Some(upload) = state.upload.as_ref() else { return Ok(()) };
        if state.sending.next_number(Some(upload)) >= PARTS_MOST {
            return Err(StoreError::Denied(format!(
                "the file is larger than {PARTS_MOST} parts of one object hold, {} GiB here: a \
                 larger 'part_size_mib' of the endpoint may help",
                upload.sizes.largest() >> 30
            )));
        }
        state.sending.start(&self.bucket, &self.key, upload, state.buffer.take_payload());
        Ok(())
    }

    /// The one request that makes the object visible.
    async fn make_visible(&self, state: &mut State, existing: Existing) -> Result<()> {
        if state.upload.is_none() {
            let mode = match existing {
                Existing::Replace => PutMode::Overwrite,
                Existing::Refuse => PutMode::Create,
            };
            let options = PutOptions { mode, attributes: self.attributes(), ..Default::default() };
            let data = state.buffer.payload();
            let put = self.bucket.backend.objects.put_opts(&self.key, data, options).await;
            return put.map(|_| ()).map_err(store_error);
        }
        if !state.buffer.is_empty() {
            self.send_part(state).await?;
        }
        state.all_ended().await?;
        let Some(upload) = &state.upload else { return Ok(()) };
        let _condition =
            (existing == Existing::Refuse).then(|| self.bucket.backend.fresh_only.mark(&upload.id));
        let (parts, store) = (upload.parts.clone(), &self.bucket.backend.parts);
        let done = store.complete_multipart(&self.key, &upload.id, parts).await;
        done.map(|_| ()).map_err(store_error)
    }

    /// True if the object under the name is the one of this transfer: an answer was lost.
    async fn is_ours(&self) -> bool {
        let found = self.bucket.head(&self.key).await;
        matches!(found, Ok(Some((_, Some(identity)))) if identity == transfer_identity(self.id))
    }
}

impl Drop for ObjectStaged {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        state.note_ended();
        let mut held = self.bucket.held.lock();
        let doomed = matches!(held.remove(&self.id), Some(Held::Working { doomed: true }));
        let Some(mut upload) = state.upload.take().filter(|_| !state.ended) else { return };
        let (key, at) = (self.key.clone(), self.bucket.env.now());
        if doomed && let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let bucket = Arc::clone(&self.bucket);
            // Nobody waits for it; one request, which has its own time limit.
            runtime.spawn(async move {
                if let Err(error) = bucket.abort(&key, &upload.id).await {
                    tracing::warn!(%error, %key, "the parts of an upload cannot be dropped");
                }
            });
            return;
        }
        // Parts behind would lie in the way of the next ones.
        let rested = upload.rested();
        upload.cut(rested);
        held.insert(self.id, Held::Kept(Kept { key, upload, at }));
    }
}

#[async_trait]
impl StagedFile for ObjectStaged {
    fn identity(&self) -> Option<Identity> {
        let unlabelled = self
            .state
            .try_lock()
            .is_ok_and(|state| state.upload.as_ref().is_some_and(|upload| !upload.labelled));
        (!unlabelled).then(|| transfer_identity(self.id))
    }

    fn size(&self) -> u64 {
        self.state.try_lock().map_or(0, |state| state.size)
    }

    fn kept(&self) -> Option<u64> {
        let state = self.state.try_lock();
        Some(state.map_or(0, |state| state.upload.as_ref().map_or(0, Upload::rested)))
    }

    fn ticket(&self) -> Option<String> {
        self.state.try_lock().ok()?.upload.as_ref()?.ticket(&self.key)
    }

    fn try_write_at(&self, offset: u64, data: &[u8]) -> Result<bool> {
        let Ok(mut state) = self.state.try_lock() else { return Ok(false) };
        state.check_write(offset, data.len())?;
        if state.room() < data.len() || state.reserve(data.len()).is_err() {
            return Ok(false);
        }
        state.take(data);
        Ok(true)
    }

    async fn write_at(&self, offset: u64, mut data: Bytes) -> Result<()> {
        let mut state = self.state.lock().await;
        state.check_write(offset, data.len())?;
        state.reserve_or_wait(data.len()).await?;
        while !data.is_empty() {
            if state.buffer.len() >= state.part_bytes() {
                self.send_part(&mut state).await?;
                state.next_part().await?;
            }
            // Also where an earlier write was dropped while it waited.
            state.may_fill_again().await?;
            let part = data.split_to(state.room().min(data.len()));
            state.reserve_or_wait(part.len()).await?;
            state.take(&part);
        }
        state.buffer.settle();
        Ok(())
    }

    /// Only what no part was made of yet.
    async fn read_at(&self, offset: u64, mut buf: BytesMut, len: usize) -> Result<BytesMut> {
        let mut state = self.state.lock().await;
        state.check()?;
        let begin = state.size - state.buffer.len() as u64;
        let Some(from) = offset.checked_sub(begin) else {
            return Err(StoreError::Unsupported("reading what was sent to an object store"));
        };
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        state.buffer.read(from, len, &mut buf);
        Ok(buf)
    }

    async fn set_len(&self, size: u64) -> Result<()> {
        let mut state = self.state.lock().await;
        state.check()?;
        if size == state.size {
            return Ok(());
        }
        state.all_ended().await?;
        let begin = state.size - state.buffer.len() as u64;
        let left = size.checked_sub(begin).and_then(|left| usize::try_from(left).ok());
        match left.filter(|left| *left < state.buffer.len()) {
            Some(left) => state.buffer.truncate(left),
            None if state.buffer.is_empty()
                && state.upload.as_mut().is_some_and(|it| it.cut(size)) => {}
            None => {
                let why = "setting the length of an upload in order";
                return Err(StoreError::Unsupported(why));
            }
        }
        (state.size, state.synced) = (size, None);
        Ok(())
    }

    /// Waits for parts on their way, whose failure is told here. The bytes become durable with the
    /// request that publishes.
    async fn sync(&self) -> Result<()> {
        let mut state = self.state.lock().await;
        state.check()?;
        state.all_ended().await?;
        state.synced = Some(state.size);
        Ok(())
    }

    async fn publish(&self, how: &Publish) -> Result<Published> {
        let mut state = self.state.lock().await;
        state.check()?;
        if state.synced != Some(state.size) {
            return Err(StoreError::Unsupported("publishing bytes that were not synced"));
        }
        if state.size != how.size {
            let (has, want) = (state.size, how.size);
            return Err(StoreError::Io(format!("the upload has {has} bytes instead of {want}")));
        }
        let _beside = self.bucket.moves.read().await;
        self.bucket.running.check(&self.key)?;
        let there = self.bucket.head(&self.key).await?;
        if there.is_some() && how.existing == Existing::Refuse {
            return Err(StoreError::Exists);
        }
        if let Err(error) = self.make_visible(&mut state, how.existing).await {
            // It may have been done all the same, and the client's second try then met it.
            if !self.is_ours().await {
                return Err(error);
            }
        }
        state.ended = true;
        state.buffer.clear();
        let labelled = state.upload.as_ref().is_none_or(|upload| upload.labelled);
        let identity = labelled.then(|| transfer_identity(self.id));
        let modified = self.bucket.env.now();
        let meta = Meta {
            kind: EntryKind::File,
            size: state.size,
            modified,
            accessed: modified,
            identity: identity.clone(),
            mode: None,
        };
        let displaced =
            there.map(|(_, identity)| Displaced { identity: identity.map(|identity| identity.0) });
        Ok(Published { displaced, identity, meta })
    }

    async fn discard(&self) -> Result<()> {
        let mut state = self.state.lock().await;
        if state.ended {
            return Err(StoreError::Unsupported("a change of a file that was published"));
        }
        state.sending.stop().await;
        state.buffer.clear();
        if let Some(upload) = &state.upload {
            self.bucket.abort(&self.key, &upload.id).await?;
        }
        state.ended = true;
        Ok(())
    }
}
