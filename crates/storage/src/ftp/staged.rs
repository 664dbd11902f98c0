//! A file being written on the server under a hidden name beside its target, in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use entrepot_ftp_proto::Time;
use entrepot_ftp_proto::client::{Moves, Op};
use entrepot_nouns::endpoint::PublishBy;
use entrepot_nouns::{Displaced, StorePath};
use parking_lot::Mutex;

use super::errors::Failed;
use super::lookup::{file_meta, find, stat};
use super::pool::{Lease, Pool};
use super::read::FtpRead;
use super::remote::Remote;
use super::replace::FileRename;
use crate::error::{Result, StoreError};
use crate::parts::registry::Claim;
use crate::store::{EntryKind, Identity, Publish, Published, ReadFile as _, StagedFile};

/// Under which names a file is written and published.
pub(super) struct Naming {
    pub(super) part: StorePath,
    pub(super) target: StorePath,
    pub(super) publish: PublishBy,
    /// A file had the target's name when this one was begun.
    pub(super) replaces: bool,
}

/// A staged file. It has a session while bytes go out; what was written counts when
/// [`StagedFile::sync`] has ended the upload and the server has told the size.
pub(super) struct FtpStaged {
    pool: Arc<Pool>,
    claim: Mutex<Option<Claim>>,
    naming: Naming,
    size: AtomicU64,
    state: tokio::sync::Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The upload that runs.
    lease: Option<Lease>,
    /// The server has a file of that name.
    made: bool,
    /// It was cut: the next upload begins at an offset, and not at its end.
    cut: bool,
    /// The size that the server told.
    synced: Option<u64>,
    /// Reads back what the server has, from the last time it told the size to the next write.
    back: Option<FtpRead>,
    /// What failed first; every later call fails with it.
    failed: Option<StoreError>,
}

impl State {
    fn check(&self) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    fn fail(&mut self, failed: impl Into<StoreError>) -> StoreError {
        (self.lease, self.back) = (None, None);
        self.failed.get_or_insert(failed.into()).clone()
    }
}

impl FtpStaged {
    pub(super) fn new(pool: Arc<Pool>, claim: Claim, naming: Naming) -> Self {
        let claim = Mutex::new(Some(claim));
        let (size, state) = (AtomicU64::new(0), tokio::sync::Mutex::default());
        FtpStaged { pool, claim, naming, size, state }
    }

    pub(super) fn part(&self) -> &StorePath {
        &self.naming.part
    }

    /// Another file has the target's name.
    pub(super) fn set_replaces(&mut self) {
        self.naming.replaces = true;
    }

    /// The server has so many bytes of it.
    pub(super) fn goes_on(&mut self, size: u64) {
        self.size = AtomicU64::new(size);
        self.state.get_mut().made = true;
    }

    /// Whether the server gives back what it has of it.
    pub(super) async fn check_readable(&self) -> Result<()> {
        match self.size().checked_sub(1) {
            Some(last) => self.read_at(last, BytesMut::new(), 1).await.map(drop),
            None => Ok(()),
        }
    }

    /// It is written under its own name: what was sent is that file, and is never removed, for an
    /// older one or another upload of it may have been there.
    fn is_direct(&self) -> bool {
        self.naming.publish == PublishBy::Direct
    }

    /// NameState is no such part: nothing is left to know.
    pub(super) fn forget(&self) {
        if let Some(claim) = self.claim.lock().take() {
            claim.set_gone();
        }
    }

    /// Where a write ends that begins where the last one ended.
    fn end_of(&self, offset: u64, len: usize) -> Result<u64> {
        let end = u64::try_from(len).ok().and_then(|len| offset.checked_add(len));
        let Some(end) = end.filter(|end| i64::try_from(*end).is_ok()) else {
            return Err(StoreError::Denied("the file is larger than may be".to_owned()));
        };
        if offset != self.size() {
            return Err(StoreError::Unsupported("writes out of order: send the file in order"));
        }
        Ok(end)
    }

    /// The session of the upload, which is begun if none runs.
    async fn upload<'a>(&self, state: &'a mut State) -> Result<&'a mut Lease> {
        if state.lease.is_none() {
            state.back = None;
            let mut lease = self.pool.lease_for_file().await?;
            let (path, size) = (lease.path(&self.naming.part), self.size());
            let op = match (state.made && size > 0, state.cut) {
                (true, false) => Op::Append { path },
                (true, true) => Op::Store { path, offset: size },
                _ => Op::Store { path, offset: 0 },
            };
            lease.begin(op).await?;
            (state.made, state.cut, state.synced) = (true, false, None);
            state.lease = Some(lease);
        }
        state.lease.as_mut().ok_or(StoreError::NotFound)
    }

    /// Ends the upload, and sees that the server has all of it. Another write goes on behind it.
    async fn settle(&self, state: &mut State) -> Result<()> {
        if state.synced == Some(self.size()) {
            return Ok(());
        }
        if state.cut {
            // What is behind the cut is cut off by an upload of nothing.
            self.upload(state).await?;
        }
        if state.lease.is_none() && !state.made {
            self.upload(state).await?;
        }
        let mut lease = match state.lease.take() {
            Some(mut lease) => {
                lease.finish(Moves::Upload).await?;
                lease
            }
            None => self.pool.lease().await?,
        };
        let part = &self.naming.part;
        let (meta, wanted) = (stat(&mut lease, part).await?, self.size());
        if meta.size != wanted {
            let has = meta.size;
            return Err(StoreError::Io(format!("the server has {has} bytes of {wanted}")));
        }
        state.synced = Some(wanted);
        state.back = Some(FtpRead::of_part(Arc::clone(&self.pool), part.clone(), meta));
        Ok(())
    }

    /// Gives it its name. Where the connection broke over the answer, another one looks at what
    /// came of it.
    async fn rename(&self, lease: &mut Lease, how: &Publish) -> Result<bool> {
        let Naming { part, target, publish, .. } = &self.naming;
        let existing = how.existing;
        let rename = FileRename { from: part, to: target, existing, publish: *publish };
        match rename.run(lease).await {
            Err(StoreError::Unavailable(why)) if !lease.is_usable() => {
                *lease = self.pool.lease().await?;
                let left = find(lease, part).await?;
                let there = find(lease, target).await?;
                let is_ours = |size| left.is_none() && size == how.size;
                match there {
                    Some(meta) if meta.kind == EntryKind::File && is_ours(meta.size) => {
                        Ok(self.naming.replaces)
                    }
                    _ if left.is_some() => rename.run(lease).await,
                    _ => Err(StoreError::Unavailable(why)),
                }
            }
            other => other,
        }
    }

    async fn set_time(&self, remote: &mut Remote, how: &Publish) -> Result<(), Failed> {
        let Some(modified) = how.modified.filter(|_| remote.features().mfmt) else {
            return Ok(());
        };
        let time = Time::from_seconds(modified.seconds());
        let name = remote.path(&self.naming.part);
        match remote.change(Op::SetModified(name, time)).await {
            // The file counts, not its time.
            Err(Failed::Op(error)) => {
                tracing::info!(%error, "the server did not set the time of a file");
                Ok(())
            }
            other => other,
        }
    }

    async fn make_visible(&self, how: &Publish) -> Result<Published> {
        let mut lease = self.pool.lease().await?;
        self.set_time(&mut lease, how).await?;
        let replaced = if self.is_direct() {
            self.naming.replaces
        } else {
            self.rename(&mut lease, how).await?
        };
        // It is there: a server that does not say how it looks now changes nothing.
        let meta = stat(&mut lease, &self.naming.target).await.unwrap_or_else(|error| {
            tracing::info!(%error, "the server does not show a file that it has just taken");
            file_meta(how.size, None)
        });
        let displaced = replaced.then(Displaced::default);
        Ok(Published { displaced, identity: None, meta })
    }
}

#[async_trait]
impl StagedFile for FtpStaged {
    fn identity(&self) -> Option<Identity> {
        None
    }

    fn size(&self) -> u64 {
        self.size.load(Ordering::SeqCst)
    }

    fn try_write_at(&self, offset: u64, data: &[u8]) -> Result<bool> {
        self.end_of(offset, data.len())?;
        match self.state.try_lock() {
            Ok(state) => state.check().map(|()| false),
            Err(_) => Ok(false),
        }
    }

    async fn write_at(&self, offset: u64, data: Bytes) -> Result<()> {
        let mut state = self.state.lock().await;
        state.check()?;
        let end = self.end_of(offset, data.len())?;
        let sent = match self.upload(&mut state).await {
            Ok(lease) => lease.send(&data).await.map_err(StoreError::from),
            Err(error) => Err(error),
        };
        sent.map_err(|error| state.fail(error))?;
        self.size.store(end, Ordering::SeqCst);
        Ok(())
    }

    async fn read_at(&self, offset: u64, buf: BytesMut, len: usize) -> Result<BytesMut> {
        let mut state = self.state.lock().await;
        state.check()?;
        if offset >= self.size() {
            return Ok(buf);
        }
        self.settle(&mut state).await.map_err(|error| state.fail(error))?;
        match &state.back {
            Some(back) => back.read_at(offset, buf, len).await,
            None => Ok(buf),
        }
    }

    async fn set_len(&self, size: u64) -> Result<()> {
        let mut state = self.state.lock().await;
        state.check()?;
        if size > self.size() {
            return Err(StoreError::Unsupported("setting the length of an upload in order"));
        }
        if size < self.size() {
            if let Some(mut lease) = state.lease.take() {
                lease.finish(Moves::Upload).await.map_err(|failed| state.fail(failed))?;
            }
            self.size.store(size, Ordering::SeqCst);
            (state.cut, state.synced, state.back) = (true, None, None);
        }
        Ok(())
    }

    async fn sync(&self) -> Result<()> {
        let mut state = self.state.lock().await;
        state.check()?;
        self.settle(&mut state).await.map_err(|error| state.fail(error))
    }

    async fn publish(&self, how: &Publish) -> Result<Published> {
        let mut state = self.state.lock().await;
        state.check()?;
        if state.synced != Some(self.size()) {
            return Err(StoreError::Io("the staged file is not synced".to_owned()));
        }
        if self.size() != how.size {
            let why = format!("{} bytes were written, {} announced", self.size(), how.size);
            return Err(StoreError::Io(why));
        }
        // A session in the middle of a download is one less to publish with.
        state.back = None;
        let published = self.make_visible(how).await?;
        self.forget();
        state.fail(StoreError::Io("the staged file is published".to_owned()));
        Ok(published)
    }

    async fn discard(&self) -> Result<()> {
        let mut state = self.state.lock().await;
        let lease = state.lease.take();
        state.fail(StoreError::Io("the staged file is discarded".to_owned()));
        let Some(claim) = self.claim.lock().take() else { return Ok(()) };
        if let Some(mut lease) = lease {
            // The file goes away whatever comes of it; but before that it must be whole, or the
            // server may still be writing it.
            let _ = lease.finish(Moves::Upload).await;
        }
        if self.is_direct() {
            claim.set_gone();
            return Ok(());
        }
        let mut lease = self.pool.lease().await?;
        let part = &self.naming.part;
        let name = lease.path(part);
        match lease.change(Op::Delete(name)).await {
            Err(failed) if failed.is_absent() && find(&mut lease, part).await?.is_some() => {
                return Err(failed.into());
            }
            Err(failed) if !failed.is_absent() => return Err(failed.into()),
            _ => {}
        }
        claim.set_gone();
        Ok(())
    }
}

impl Drop for FtpStaged {
    fn drop(&mut self) {
        let Some(claim) = self.claim.get_mut().take() else { return };
        if self.is_direct() {
            claim.set_gone();
        }
        let Some(mut lease) = self.state.get_mut().lease.take() else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        claim.set_closing();
        // What was sent is kept: the upload is ended in good order, within its own limits.
        runtime.spawn(async move {
            let finished = lease.finish(Moves::Upload).await;
            tracing::debug!(?finished, "an upload to an FTP server is left where it is");
            drop(claim);
        });
    }
}
