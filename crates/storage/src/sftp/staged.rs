//! A file being written on the server under a hidden name beside its target.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use entrepot_nouns::endpoint::PublishBy;
use entrepot_nouns::{Displaced, StorePath, Timestamp};
use entrepot_sftp_proto::client::RemoteHandle;
use entrepot_sftp_proto::{Attrs, Status, Times};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::errors::Failed;
use super::lookup::{meta_of, seconds_of, space_of};
use super::pool::Lease;
use super::remote::{OnItsWay, Outcome, Remote};
use super::replace::FileRename;
use crate::budget::Share;
use crate::error::{Result, StoreError};
use crate::limits::{SFTP_FULL_BYTES, SFTP_WRITE_WINDOW_KIB};
use crate::parts::registry::Claim;
use crate::store::{EntryKind, Identity, ModeChange, Publish, Published, StagedFile, is_past_all};

/// Under which names a file is written and published.
pub(super) struct Naming {
    pub(super) part: StorePath,
    pub(super) target: StorePath,
    pub(super) publish: PublishBy,
    /// A file had the target's name when this one was begun.
    pub(super) replaces: bool,
}

/// A staged file. Writes go out as they come and are answered for by [`StagedFile::sync`] at
/// the latest.
pub(super) struct SftpStaged {
    lease: Lease,
    claim: Mutex<Option<Claim>>,
    handle: Mutex<Option<RemoteHandle>>,
    naming: Naming,
    size: AtomicU64,
    synced: AtomicBool,
    /// What failed first; every later call fails with it.
    outcome: Outcome,
    /// Bytes that may be on their way, in KiB.
    room: Arc<Semaphore>,
    /// The memory for them; `None`: nobody counts it.
    memory: Option<Share>,
}

/// A file that is open to be written.
pub(super) struct Written {
    pub(super) lease: Lease,
    pub(super) claim: Claim,
    pub(super) handle: RemoteHandle,
    pub(super) size: u64,
    pub(super) memory: Option<Share>,
}

impl SftpStaged {
    pub(super) fn new(written: Written, naming: Naming) -> Self {
        let Written { lease, claim, handle, size, memory } = written;
        SftpStaged {
            lease,
            claim: Mutex::new(Some(claim)),
            handle: Mutex::new(Some(handle)),
            naming,
            size: AtomicU64::new(size),
            synced: AtomicBool::new(false),
            outcome: Outcome::default(),
            room: Arc::new(Semaphore::new(SFTP_WRITE_WINDOW_KIB)),
            memory,
        }
    }

    fn remote(&self) -> &Remote {
        &self.lease.remote
    }

    /// The handle, unless something failed or the file is closed.
    fn handle(&self) -> Result<RemoteHandle> {
        if let Some(failure) = self.outcome.lock().clone() {
            return Err(failure);
        }
        let closed = || StoreError::Io("the staged file is closed".to_owned());
        self.handle.lock().clone().ok_or_else(closed)
    }

    fn fail(&self, failed: impl Into<StoreError>) -> StoreError {
        self.outcome.lock().get_or_insert(failed.into()).clone()
    }

    /// Room for `len` bytes on their way; all of it for more than there is.
    async fn room(&self, len: usize) -> Result<OwnedSemaphorePermit> {
        let kib = len.div_ceil(1024).clamp(1, SFTP_WRITE_WINDOW_KIB);
        let kib = u32::try_from(kib).unwrap_or(u32::MAX);
        let waited = self.remote().patient(Arc::clone(&self.room).acquire_many_owned(kib)).await;
        match waited.map_err(|failed| self.fail(failed))? {
            Ok(permit) => Ok(permit),
            Err(_) => Err(StoreError::Io("the staged file is closed".to_owned())),
        }
    }

    /// What a write on its way takes. Where there is no memory for it, it goes alone.
    async fn on_its_way(&self, len: usize) -> Result<OnItsWay> {
        let memory = self.memory.as_ref().map(|memory| memory.take(len as u64));
        if let Some(None) = memory {
            drop(self.room(SFTP_WRITE_WINDOW_KIB * 1024).await?);
        }
        Ok(OnItsWay { _room: self.room(len).await?, _memory: memory.flatten() })
    }

    /// Waits until every write was answered.
    async fn flush(&self) -> Result<RemoteHandle> {
        drop(self.room(SFTP_WRITE_WINDOW_KIB * 1024).await?);
        match self.handle() {
            Err(StoreError::Io(why)) => Err(self.fail(self.full_or(StoreError::Io(why)).await)),
            other => other,
        }
    }

    /// SFTP has no word for a full disk: asks how much room is left.
    async fn full_or(&self, error: StoreError) -> StoreError {
        let path = self.remote().path(&self.naming.part.parent().unwrap_or_default());
        match space_of(self.remote(), &path).await {
            Ok(space) if space.free_bytes < SFTP_FULL_BYTES => {
                self.outcome.lock().take();
                StoreError::NoSpace
            }
            _ => error,
        }
    }

    async fn fsetstat(&self, handle: &RemoteHandle, attrs: Attrs) -> Result<()> {
        let asked = self.remote().ask(|client| client.fsetstat(handle, &attrs)).await;
        asked.map(drop).map_err(|failed| self.fail(failed))
    }

    async fn set_times(&self, handle: &RemoteHandle, how: &Publish) -> Result<()> {
        if how.accessed.is_none() && how.modified.is_none() {
            return Ok(());
        }
        // Version 3 sets both or none: the one that is not asked for stays as it is.
        let now = self.remote().fstat(handle).await.map_err(|failed| self.fail(failed))?;
        let now = now.times.unwrap_or(Times { accessed: 0, modified: 0 });
        let or = |wanted: Option<Timestamp>, now| wanted.map_or(now, seconds_of);
        let times = Times {
            accessed: or(how.accessed, now.accessed),
            modified: or(how.modified, now.modified),
        };
        self.fsetstat(handle, Attrs { times: Some(times), ..Attrs::default() }).await
    }

    /// Sets permission bits, if the server lets us: the file is the file without them too.
    async fn set_mode(&self, handle: &RemoteHandle, change: ModeChange) -> Result<()> {
        let now = self.remote().fstat(handle).await.map_err(|failed| self.fail(failed))?;
        let Some(bits) = now.mode() else { return Ok(()) };
        let wanted = change.of(bits, EntryKind::File);
        if wanted == bits {
            return Ok(());
        }
        let attrs = Attrs { permissions: Some(wanted), ..Attrs::default() };
        match self.remote().ask(|client| client.fsetstat(handle, &attrs)).await {
            Err(failed @ Failed::Lost(_)) => Err(self.fail(failed)),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Closes the file and sees that the server has all of it.
    async fn close(&self, size: u64) -> Result<Attrs> {
        let handle = self.handle.lock().take();
        if let Some(handle) = handle {
            let closed = self.remote().ask(|client| client.close(&handle)).await;
            closed.map_err(|failed| self.fail(failed))?;
        }
        let attrs = self.remote().lstat(&self.remote().path(&self.naming.part)).await;
        let attrs = attrs.map_err(|failed| self.fail(failed))?;
        if attrs.size != Some(size) {
            let has = attrs.size.unwrap_or(0);
            let why = format!("the server has {has} bytes of {size}");
            return Err(self.fail(StoreError::Io(why)));
        }
        Ok(attrs)
    }
}

/// Offsets go as far as a file system's do.
fn check_extent(offset: u64, len: usize) -> Result<u64> {
    let end = u64::try_from(len).ok().and_then(|len| offset.checked_add(len));
    end.filter(|end| i64::try_from(*end).is_ok())
        .ok_or_else(|| StoreError::Denied("the file would be larger than may be".to_owned()))
}

#[async_trait]
impl StagedFile for SftpStaged {
    fn identity(&self) -> Option<Identity> {
        None
    }

    fn size(&self) -> u64 {
        self.size.load(Ordering::SeqCst)
    }

    fn try_write_at(&self, offset: u64, data: &[u8]) -> Result<bool> {
        check_extent(offset, data.len())?;
        self.handle().map(|_| false)
    }

    async fn write_at(&self, offset: u64, data: Bytes) -> Result<()> {
        let end = check_extent(offset, data.len())?;
        if data.is_empty() {
            return self.handle().map(drop);
        }
        let on_its_way = self.on_its_way(data.len()).await?;
        let handle = self.handle()?;
        self.synced.store(false, Ordering::SeqCst);
        let queued = self.remote().write(&handle, offset, data, &self.outcome, on_its_way);
        queued.map_err(|failed| self.fail(failed))?;
        self.size.fetch_max(end, Ordering::SeqCst);
        Ok(())
    }

    async fn read_at(&self, offset: u64, mut buf: BytesMut, len: usize) -> Result<BytesMut> {
        if is_past_all(offset) {
            return Ok(buf);
        }
        let handle = self.flush().await?;
        let (mut at, mut missing) = (offset, u64::try_from(len).unwrap_or(u64::MAX));
        while missing > 0 {
            let asked = missing.min(self.remote().read_bytes());
            let answer = self.remote().read(&handle, at, asked)?;
            let bytes = self.remote().answer(answer).await?;
            buf.extend_from_slice(&bytes);
            let got = u64::try_from(bytes.len()).unwrap_or(0);
            if got < asked {
                break;
            }
            (at, missing) = (at.saturating_add(got), missing - got);
        }
        Ok(buf)
    }

    async fn set_len(&self, size: u64) -> Result<()> {
        check_extent(size, 0)?;
        let handle = self.flush().await?;
        self.synced.store(false, Ordering::SeqCst);
        self.fsetstat(&handle, Attrs { size: Some(size), ..Attrs::default() }).await?;
        self.size.store(size, Ordering::SeqCst);
        Ok(())
    }

    async fn sync(&self) -> Result<()> {
        let handle = self.flush().await?;
        match self.remote().ask(|client| client.fsync(&handle)).await {
            // A server without fsync has answered every write; more it does not promise.
            Ok(_) | Err(Failed::NotBegun(_)) => {}
            Err(failed) => return Err(self.fail(failed)),
        }
        self.synced.store(true, Ordering::SeqCst);
        Ok(())
    }

    async fn publish(&self, how: &Publish) -> Result<Published> {
        if !self.synced.load(Ordering::SeqCst) {
            return Err(StoreError::Io("the staged file is not synced".to_owned()));
        }
        if self.size() != how.size {
            let why = format!("{} bytes were written, {} announced", self.size(), how.size);
            return Err(StoreError::Io(why));
        }
        let handle = self.handle.lock().clone();
        if let Some(handle) = handle {
            if let Some(change) = how.mode {
                self.set_mode(&handle, change).await?;
            }
            self.set_times(&handle, how).await?;
        }
        let attrs = self.close(how.size).await?;
        let Naming { part, target, publish, replaces } = &self.naming;
        let replaced = match publish {
            PublishBy::Direct => *replaces,
            PublishBy::Rename | PublishBy::RemoveAndRename => {
                let existing = how.existing;
                let rename = FileRename { from: part, to: target, existing, publish: *publish };
                rename.run(self.lease.pool(), &self.lease.remote).await?
            }
        };
        if let Some(claim) = self.claim.lock().take() {
            claim.set_gone();
        }
        self.fail(StoreError::Io("the staged file is published".to_owned()));
        let meta = meta_of(&attrs).ok_or(StoreError::NotFound)?;
        let displaced = replaced.then(Displaced::default);
        Ok(Published { displaced, identity: None, meta })
    }

    async fn discard(&self) -> Result<()> {
        // What is not sent yet need not be; what is on its way comes before the REMOVE.
        self.fail(StoreError::Io("the staged file is discarded".to_owned()));
        let handle = self.handle.lock().take();
        if let Some(handle) = handle {
            drop(self.room(SFTP_WRITE_WINDOW_KIB * 1024).await);
            // The file goes away whatever CLOSE says.
            let _ = self.remote().ask(|client| client.close(&handle)).await;
        }
        let Some(claim) = self.claim.lock().take() else { return Ok(()) };
        let part = self.remote().path(&self.naming.part);
        match self.remote().ask(|client| client.remove(&part)).await {
            Ok(_) => {}
            Err(failed) if failed.is(Status::NoSuchFile) => {}
            Err(failed) => return Err(failed.into()),
        }
        claim.set_gone();
        Ok(())
    }
}

impl Drop for SftpStaged {
    fn drop(&mut self) {
        let Some(claim) = self.claim.lock().take() else { return };
        if let Some(handle) = self.handle.lock().take() {
            claim.set_closing();
            self.lease.remote.close_later(handle, Box::new(claim));
        }
    }
}
