//! One file on its way in: hidden until it is whole.

mod as2;
mod copy;
mod create;
mod layout;
mod modes;
mod order;
mod partial;
mod publish;
pub(crate) mod ranges;
mod recorded;
mod reorder;
mod spool;
mod start;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::{Bytes, BytesMut};
use entrepot_nouns::event::As2Message;
use entrepot_nouns::{Rights, Timestamp, TransferId, VPath, crash};
use entrepot_storage::budget::Permit;
use entrepot_storage::{EntryKind, Existing, ModeChange, StagedFile};

use crate::book::Moving;
use crate::error::{Result, VfsError};
use crate::free_name::names_like;
use crate::limits;
use crate::notes::Partial;
use crate::place::{Last, MountedPath};
use crate::promised::NamePromise;
use crate::quota::Reservation;
use crate::vfs::{Attributes, Vfs};
use create::ExpectedSize;
use layout::Layout;
use ranges::Ranges;
use start::{Base, Start};

pub use create::{Create, CreateIntent};
pub(crate) use recorded::RecordedUpload;
pub(crate) use start::may_begin;

/// A file being written. Dropping it keeps what came for its owner to resume.
pub struct Upload {
    vfs: Vfs,
    path: VPath,
    /// Where it is published.
    place: MountedPath,
    /// Of one that is held: the place of the name that it waits for.
    held_for: Option<MountedPath>,
    staged: Box<dyn StagedFile>,
    moving: Arc<Moving>,
    existing: Existing,
    expected: ExpectedSize,
    base: Option<Base>,
    /// The bytes that were written; elsewhere the file is its base, or zeros.
    ranges: Ranges,
    layout: Layout,
    size: u64,
    marks: Marks,
    reservation: Reservation,
    wanted: WantedAttributes,
    phase: Phase,
    /// The identity of the file that had the name when it began.
    replaces: Option<String>,
    /// What stays of it when it is cut.
    cut_bytes: CutBytes,
    /// The message of AS2 that brings it.
    as2: Option<Box<As2Message>>,
    /// What it was made from, of an upload whose bytes came by id.
    record: Option<Box<Partial>>,
    /// That its name is free when it is whole.
    promise: Option<NamePromise>,
    _open: Permit,
}

/// What an upload begins with besides its bytes.
struct Opened {
    path: VPath,
    place: MountedPath,
    held_for: Option<MountedPath>,
    existing: Existing,
    expected: ExpectedSize,
    staged: Box<dyn StagedFile>,
    moving: Arc<Moving>,
    open: Permit,
}

/// What becomes of the bytes of an upload that is cut.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CutBytes {
    /// Its owner may resume it.
    Kept,
    /// Nothing of it counts before all of it was checked.
    Dropped,
}

/// How far an upload has come.
enum Phase {
    /// Nothing was written yet, nor the size set.
    Untouched,
    /// There is something to publish.
    Touched,
    /// Nothing more is taken, and nothing will be published, for this reason.
    Refused(VfsError),
    /// It was published, kept or dropped.
    Over,
}

/// How much of an upload outlives a crash.
struct Marks {
    /// Bytes from the start that a sync made durable.
    synced: u64,
    /// Bytes from the start that the last note in the journal tells of.
    noted: u64,
}

/// What the client named for the published file; `None`: as it would be without.
#[derive(Clone, Copy, Default)]
struct WantedAttributes {
    accessed: Option<Timestamp>,
    modified: Option<Timestamp>,
    mode: Option<ModeChange>,
}

impl Vfs {
    /// Opens a file to write. Nothing is visible before [`Upload::finish`].
    ///
    /// # Errors
    /// A right is missing, the name is that of a directory, there is no room, the node stops or
    /// cannot record.
    pub async fn create(&self, path: &VPath, how: Create) -> Result<Upload> {
        let last = match how.intent {
            // Any name that is taken refuses, also that of a link to nothing.
            CreateIntent::Exclusive => Last::Itself,
            CreateIntent::New | CreateIntent::Continue | CreateIntent::Resume => Last::Followed,
        };
        let (place, path) = self.place(path, last).await?;
        let place = place.ok_or(VfsError::IsDirectory)?;
        if place.is_root {
            return Err(VfsError::IsDirectory);
        }
        Upload::begin(self, &path, place, how).await
    }

    /// Opens a file to write that replaces nothing, under this name if it is free, else under the
    /// first like it that is. A name that another upload of this node began with in this way is not
    /// free; one that somebody takes otherwise meanwhile refuses the publish.
    ///
    /// # Errors
    /// [`VfsError::Exists`]: all names that are tried are taken. Else as [`Vfs::create`].
    pub async fn create_under_free_name(
        &self,
        path: &VPath,
        expected_size: Option<u64>,
    ) -> Result<Upload> {
        for path in names_like(path) {
            let path = path?;
            let (place, path) = self.place(&path, Last::Itself).await?;
            let Some(place) = place.filter(|place| !place.is_root) else { continue };
            let promised = &self.data_plane().promised;
            let Some(promise) = promised.promise(place.endpoint(), &place.path) else { continue };
            let how = Create { intent: CreateIntent::Exclusive, expected_size, append: false };
            match Upload::begin(self, &path, place, how).await {
                Err(VfsError::Exists | VfsError::IsDirectory) => {}
                begun => {
                    let mut upload = begun?;
                    upload.promise = Some(promise);
                    return Ok(upload);
                }
            }
        }
        Err(VfsError::Exists)
    }
}

impl Upload {
    async fn begin(vfs: &Vfs, path: &VPath, place: MountedPath, how: Create) -> Result<Upload> {
        start::may_begin(vfs)?;
        let (slot, open) = (vfs.0.transfer_slot()?, vfs.0.shares.open_file()?);
        let (start, staged) = Start::at(vfs, path, &place, how).await?;
        crash::point("upload.staged");
        let existing = match how.intent {
            CreateIntent::Exclusive => Existing::Refuse,
            CreateIntent::New | CreateIntent::Continue | CreateIntent::Resume => Existing::Replace,
        };
        let (path, moving) = (path.clone(), start.moving(vfs, path, how.expected_size, slot));
        let expected = ExpectedSize::of(how.expected_size);
        let held_for = vfs.holds(&place).then(|| place.clone());
        let place = vfs.upload_place(&place, start.transfer())?;
        let opened = Opened { path, place, held_for, existing, expected, staged, moving, open };
        Ok(Upload::opened(vfs, start, opened))
    }

    fn opened(vfs: &Vfs, mut start: Start, opened: Opened) -> Upload {
        let Opened { path, place, held_for, existing, expected, staged, moving, open } = opened;
        Upload {
            vfs: vfs.clone(),
            path,
            moving,
            existing,
            expected,
            layout: start.layout(&place),
            size: start.size(),
            marks: Marks { synced: start.ranges.contiguous(), noted: start.ranges.end() },
            place,
            held_for,
            staged,
            base: start.base,
            ranges: start.ranges,
            reservation: start.reservation,
            wanted: WantedAttributes::default(),
            phase: Phase::Untouched,
            replaces: start.replaces,
            cut_bytes: CutBytes::Kept,
            as2: None,
            record: None,
            promise: None,
            _open: open,
        }
    }

    /// If it is cut nothing is kept, not even to be resumed: its bytes count for nothing before
    /// all of them were checked.
    pub fn keep_nothing(&mut self) {
        self.cut_bytes = CutBytes::Dropped;
    }

    /// The transfer that events of this upload name.
    pub fn transfer(&self) -> TransferId {
        self.moving.id
    }

    /// The name it will get.
    pub fn path(&self) -> &VPath {
        &self.path
    }

    /// Bytes as they stand: what is written, or what it is laid over.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Fails if the account has had as many bytes hashed as it may.
    pub(crate) fn may_hash(&self, bytes: u64) -> Result<()> {
        self.vfs.0.may_hash(bytes)
    }

    /// True once something was written, or the size set, also if that was refused.
    pub fn is_touched(&self) -> bool {
        !matches!(self.phase, Phase::Untouched)
    }

    /// Why nothing more is taken and nothing will be published, if so.
    pub fn refusal(&self) -> Option<&VfsError> {
        match &self.phase {
            Phase::Refused(refused) => Some(refused),
            Phase::Untouched | Phase::Touched | Phase::Over => None,
        }
    }

    /// The file as the client that writes it sees it. Times that were not set are `now`.
    pub fn attributes(&self, now: Timestamp) -> Attributes {
        Attributes {
            kind: EntryKind::File,
            size: self.size,
            modified: self.wanted.modified.unwrap_or(now),
            accessed: self.wanted.accessed.unwrap_or(now),
            rights: Rights::all(),
            mode: self.named_mode(),
            partial: true,
            identity: None,
        }
    }

    /// The client announced so many bytes, and did not say whether they are the whole file or what
    /// it adds to the size as it is now: the upload may end at either, and nowhere else.
    pub fn expect_whole_or_added(&mut self, announced: u64) {
        let added = self.size.saturating_add(announced);
        self.expected = ExpectedSize::WholeOrAdded { whole: announced, added };
    }

    /// Fails unless as many bytes have come as the client announced, as the finish would.
    ///
    /// # Errors
    /// [`VfsError::Incomplete`].
    pub fn check_expected_size(&self) -> Result<()> {
        self.expected.check_whole(self.size)
    }

    /// Writes at `offset` if that needs no waiting; `false`: nothing was written, call
    /// [`Upload::write_at`]. Never allocates.
    ///
    /// # Errors
    /// No room, the session was ended, the store failed: the upload is refused from then on.
    pub fn try_write_at(&mut self, offset: u64, data: &[u8]) -> Result<bool> {
        self.may_write(offset, data.len())?;
        let Layout::RandomAccess(layout) = &mut self.layout else { return Ok(false) };
        if layout.digest_behind(&self.ranges).is_some() && self.place.store.caps().local {
            return Ok(false);
        }
        match self.staged.try_write_at(offset, data) {
            Ok(true) => self.wrote(offset, data).map(|()| true),
            Ok(false) => Ok(false),
            Err(error) => Err(self.refuse(error.into())),
        }
    }

    /// Writes all of `data` at `offset`.
    ///
    /// # Errors
    /// As [`Upload::try_write_at`].
    pub async fn write_at(&mut self, offset: u64, data: Bytes) -> Result<()> {
        self.may_write(offset, data.len())?;
        if self.continues_base(offset)
            && let Err(error) = self.advance_to(offset).await
        {
            return Err(self.refuse(error));
        }
        self.write_next(offset, data).await
    }

    /// Writes where the layout wants it.
    async fn write_next(&mut self, offset: u64, data: Bytes) -> Result<()> {
        match &self.layout {
            Layout::RandomAccess(_) => {
                self.store(offset, data).await?;
                self.catch_up().await;
                Ok(())
            }
            Layout::InOrder(_) => self.write_in_order(offset, data).await,
            Layout::Spooled(_) => self.spool_write(offset, data).await,
        }
    }

    async fn store(&mut self, offset: u64, data: Bytes) -> Result<()> {
        match self.staged.write_at(offset, data.clone()).await {
            Ok(()) => self.wrote(offset, &data),
            Err(error) => Err(self.refuse(error.into())),
        }
    }

    /// Hashes a piece of what is there and not hashed yet, so that the finish need not read it
    /// all. Where reading back would cross a network that is left to the finish.
    async fn catch_up(&mut self) {
        let Layout::RandomAccess(layout) = &mut self.layout else { return };
        let Some(digest) = layout.digest_behind(&self.ranges) else { return };
        if !self.place.store.caps().local {
            return;
        }
        let start = digest.length();
        let end = self.ranges.contiguous().min(start.saturating_add(limits::CATCH_UP_BYTES));
        let mut block = BytesMut::new();
        while digest.length() < end {
            block.clear();
            let want = usize::try_from(end - digest.length()).unwrap_or(usize::MAX);
            let want = want.min(limits::BLOCK_BYTES);
            // What cannot be read now is tried again, and matters, at the finish.
            match self.staged.read_at(digest.length(), block, want).await {
                Ok(read) if !read.is_empty() => block = read,
                _ => return,
            }
            digest.update(&block);
        }
    }

    fn may_write(&mut self, offset: u64, length: usize) -> Result<()> {
        if let Phase::Refused(refused) = &self.phase {
            return Err(refused.clone());
        }
        let checked = self.vfs.0.check().and_then(|()| {
            let end = offset.checked_add(length as u64).ok_or(VfsError::NoSpace)?;
            check_file_size(end)?;
            self.expected.check_end(end)?;
            // An overlay keeps its base beside it until it is published.
            self.reservation.grow_to(end.max(self.size))
        });
        checked.map_err(|error| self.refuse(error))
    }

    /// Bytes are in the store: hash what continues the prefix, remember the range.
    fn wrote(&mut self, offset: u64, data: &[u8]) -> Result<()> {
        match &mut self.layout {
            Layout::RandomAccess(layout) => layout.wrote(offset, data),
            Layout::InOrder(layout) => layout.digest.wrote(offset, data, &*self.staged),
            Layout::Spooled(layout) => layout.digest.wrote(offset, data, &*self.staged),
        }
        self.note_written(offset, offset + data.len() as u64)
    }

    fn note_written(&mut self, offset: u64, end: u64) -> Result<()> {
        if self.ranges.add(offset, end).is_err() {
            return Err(self.refuse(VfsError::Unsupported));
        }
        self.touch();
        self.resized(self.size.max(end));
        self.mark_progress();
        Ok(())
    }

    fn resized(&mut self, size: u64) {
        self.size = size;
        self.moving.bytes.store(size, Ordering::Relaxed);
    }

    fn touch(&mut self) {
        if let Phase::Untouched = self.phase {
            self.phase = Phase::Touched;
        }
    }

    /// As [`Upload::wrote`], of bytes that did not pass through here: they are hashed later.
    fn wrote_unseen(&mut self, start: u64, end: u64) -> Result<()> {
        if let Layout::RandomAccess(layout) = &mut self.layout
            && start < end
        {
            layout.overwritten_from(start);
        }
        self.note_written(start, end)
    }

    /// From now on nothing is taken and nothing will be published. The first reason stays.
    fn refuse(&mut self, error: VfsError) -> VfsError {
        if let Some(refused) = self.refusal() {
            return refused.clone();
        }
        self.phase = Phase::Refused(error.clone());
        error
    }

    /// Reads back what was written, or what it is laid over.
    ///
    /// # Errors
    /// The store failed, or cannot read what it was given.
    pub async fn read_at(
        &mut self,
        offset: u64,
        mut buf: BytesMut,
        len: usize,
    ) -> Result<BytesMut> {
        self.expect_any_order().await?;
        let end = self.size.min(offset.saturating_add(len as u64));
        let mut at = offset;
        while at < end {
            let hole = self.ranges.holes(end).into_iter().find(|hole| at < hole.1);
            let (from_base, until) = match hole {
                Some((start, stop)) if start <= at => (true, stop.min(end)),
                Some((start, _)) => (false, start.min(end)),
                None => (false, end),
            };
            let want = usize::try_from(until - at).unwrap_or(usize::MAX);
            let before = buf.len();
            buf = match (&self.base, from_base) {
                (Some(base), true) if at < base.size => {
                    let most = usize::try_from(base.size - at).unwrap_or(usize::MAX);
                    base.file.read_at(at, buf, want.min(most)).await?
                }
                (_, true) => {
                    buf.resize(before + want, 0);
                    buf
                }
                (_, false) => self.read_written(at, buf, want).await?,
            };
            let got = (buf.len() - before) as u64;
            if got == 0 {
                break;
            }
            at += got;
        }
        Ok(buf)
    }

    /// Cuts or extends (with zeros) to `size` bytes.
    ///
    /// # Errors
    /// There is no room, or the store cannot: the upload is refused from then on. No file can be so
    /// long: everything stays as it was.
    pub async fn set_len(&mut self, size: u64) -> Result<()> {
        if size == self.size && self.refusal().is_none() {
            return Ok(());
        }
        check_file_size(size)?;
        self.may_write(size, 0)?;
        if size < self.size {
            // What waits to be put in order is not among the ranges yet.
            let waits = matches!(&self.layout, Layout::InOrder(it) if !it.order.is_settled());
            if waits && let Err(error) = self.begin_spool().await {
                return Err(self.refuse(error));
            }
        }
        if size < self.ranges.end() {
            if let Err(error) = self.cut_written(size).await {
                return Err(self.refuse(error));
            }
            self.ranges.cut(size);
            self.layout.cut(size);
            self.marks_cut(size);
        }
        if let Some(base) = &mut self.base {
            base.size = base.size.min(size);
        }
        self.touch();
        self.resized(size);
        Ok(())
    }

    /// Times that the published file will have; what is `None` stays as it was.
    pub fn set_times(&mut self, accessed: Option<Timestamp>, modified: Option<Timestamp>) {
        self.wanted.accessed = accessed.or(self.wanted.accessed);
        self.wanted.modified = modified.or(self.wanted.modified);
    }
}

/// Fails if no system call could address the end of a file of `size` bytes (`off_t`).
fn check_file_size(size: u64) -> Result<()> {
    if size <= limits::FILE_BYTES {
        return Ok(());
    }
    Err(VfsError::Quota { what: "bytes a file", limit: limits::FILE_BYTES })
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.cut("the connection was cut");
    }
}
