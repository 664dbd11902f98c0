//! One file on its way to a peer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::BytesMut;
use entrepot_auth::{EffectiveMount, TransferPlace};
use entrepot_nouns::event::{Fact, FileFact};
use entrepot_nouns::{Digests, Direction, Protocol, Right, TransferId, VPath};
use entrepot_storage::budget::Permit;
use entrepot_storage::{KernelFile, ReadFile};

use crate::book::Moving;
use crate::error::{Result, VfsError};
use crate::place::{Last, MountedPath};
use crate::state::SessionState;
use crate::vfs::{Attributes, Vfs, attributes};

/// A file opened to read, as it was when it was opened. Dropping it records what was sent.
pub struct Download {
    state: Arc<SessionState>,
    path: VPath,
    attributes: Attributes,
    file: Box<dyn ReadFile>,
    moving: Arc<Moving>,
    _open: Permit,
}

impl Vfs {
    /// Opens a file to read. What is published meanwhile does not touch it.
    ///
    /// # Errors
    /// There is no such file, or it may not be read.
    pub async fn open(&self, path: &VPath) -> Result<Download> {
        let (place, path) = self.place(path, Last::Followed).await?;
        let place = place.ok_or(VfsError::IsDirectory)?;
        place.need(Right::Read)?;
        self.open_at(&place, path.into_owned()).await
    }

    /// Opens what lies at a place, as the file of a path.
    pub(crate) async fn open_at(&self, place: &MountedPath, path: VPath) -> Result<Download> {
        let (slot, open) = (self.0.transfer_slot()?, self.0.shares.open_file()?);
        let file = place.store.open(&place.path).await?;
        let opened = Opened { file, slot, open };
        Ok(Download::new(self.0.clone(), path, &place.mount, opened))
    }
}

/// A file that was opened, and what it counts for while it is.
struct Opened {
    file: Box<dyn ReadFile>,
    slot: TransferPlace,
    open: Permit,
}

impl Download {
    /// Fails if the account has had as many bytes hashed as it may.
    pub(crate) fn may_hash(&self, bytes: u64) -> Result<()> {
        self.state.may_hash(bytes)
    }

    fn new(
        state: Arc<SessionState>,
        path: VPath,
        mount: &EffectiveMount,
        opened: Opened,
    ) -> Download {
        let Opened { file, slot, open } = opened;
        let plane = state.data_plane();
        let id: TransferId = plane.env.new_id();
        let attributes = attributes(file.meta(), mount);
        let moving = Arc::new(Moving {
            id,
            direction: Direction::Out,
            session: state.scope.session,
            started_at: plane.env.now(),
            path: path.clone(),
            size: Some(attributes.size),
            bytes: AtomicU64::new(0),
            _place: slot,
        });
        plane.book.begin(moving.clone());
        plane.meters.active_changed(Direction::Out, 1);
        state.session.transfers.fetch_add(1, Ordering::Relaxed);
        Download { state, path, attributes, file, moving, _open: open }
    }

    /// Its virtual path.
    pub fn path(&self) -> &VPath {
        &self.path
    }

    /// The file when it was opened.
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// Reads at `offset` if that needs no waiting; `None`: call [`Download::read_at`]. Fewer bytes
    /// than `buf` has room for only at the end of the file.
    ///
    /// # Errors
    /// The session was ended, or the store failed.
    pub fn try_read_at(&self, offset: u64, buf: &mut [u8]) -> Result<Option<usize>> {
        self.state.check()?;
        let read = self.file.try_read_at(offset, buf)?;
        if let Some(read) = read {
            self.moving.bytes.fetch_add(read as u64, Ordering::Relaxed);
        }
        Ok(read)
    }

    /// Appends at most `len` bytes at `offset` to `buf`; fewer only at the end of the file.
    ///
    /// # Errors
    /// As [`Download::try_read_at`].
    pub async fn read_at(&self, offset: u64, buf: BytesMut, len: usize) -> Result<BytesMut> {
        let before = buf.len();
        let buf = self.read_unsent(offset, buf, len).await?;
        let read = buf.len().saturating_sub(before) as u64;
        self.moving.bytes.fetch_add(read, Ordering::Relaxed);
        Ok(buf)
    }

    /// The file as the kernel knows it, where it is one of this machine: for sendfile. What is
    /// sent so is told by [`Download::passed`].
    pub fn kernel_file(&self) -> Option<KernelFile> {
        self.file.kernel_file()
    }

    /// Notes that `bytes` were sent past us.
    ///
    /// # Errors
    /// The session was ended.
    pub fn passed(&self, bytes: u64) -> Result<()> {
        self.moving.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.state.check()
    }

    /// Reads for ourselves: nothing counts as sent.
    pub(crate) async fn read_unsent(
        &self,
        offset: u64,
        buf: BytesMut,
        len: usize,
    ) -> Result<BytesMut> {
        self.state.check()?;
        Ok(self.file.read_at(offset, buf, len).await?)
    }

    pub(crate) fn check(&self) -> Result<()> {
        self.state.check()
    }

    pub(crate) fn file(&self) -> &dyn ReadFile {
        &*self.file
    }

    /// Ends it and records what was sent.
    pub async fn finish(self) {
        drop(self);
    }
}

impl Drop for Download {
    fn drop(&mut self) {
        let plane = self.state.data_plane();
        let sent = self.moving.bytes.load(Ordering::Relaxed);
        plane.book.end(self.moving.id);
        plane.meters.active_changed(Direction::Out, -1);
        plane.meters.download_ended();
        plane.meters.moved(Direction::Out, self.state.protocol(), sent);
        self.state.session.moved_out.fetch_add(sent, Ordering::Relaxed);
        // What a rule reads is recorded by events of its own.
        if self.state.protocol() == Protocol::Internal {
            return;
        }
        let file = FileFact {
            transfer: self.moving.id,
            path: self.path.to_string(),
            size: sent,
            digests: Digests::default(),
            protocol: self.state.protocol(),
            started_at: self.moving.started_at,
            identity: self.attributes.identity.as_ref().map(|id| id.0.clone()),
            displaced: None,
            temporary: false,
            as2: None,
        };
        plane.book.tell(&self.state.event(Fact::FileDownloaded { file }));
    }
}
