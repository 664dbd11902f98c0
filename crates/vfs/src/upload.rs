//! One file on its way in: hidden until it is whole.

mod copy;
mod keep;
mod order;
mod publish;
mod ranges;
mod spool;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use entrepot_auth::TransferPlace;
use entrepot_crypto::{Sha256, StreamDigest};
use entrepot_model::event::{Fact, FileFact};
use entrepot_model::transfer::hex;
use entrepot_model::{Digests, Direction, Right, Timestamp, TransferId, VPath, step};
use entrepot_storage::{
    EntryKind, Existing, Identity, ModeChange, ReadFile, StagedFile, StoreError,
};

use crate::book::{Kept, Moving};
use crate::error::{Result, VfsError};
use crate::limits;
use crate::meters::UploadEnd;
use crate::notes::Partial;
use crate::place::Place;
use crate::quota::Reservation;
use crate::unbroken::later;
use crate::vfs::{Create, CreateIntent, Vfs};
use order::Order;
use ranges::Ranges;
use spool::Spool;

/// What an upload came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Uploaded {
    /// The transfer.
    pub transfer: TransferId,
    /// Bytes.
    pub size: u64,
    /// Digests of the whole.
    pub digests: Digests,
    /// An older file of that name is gone.
    pub replaced: bool,
    /// False if nothing was written to a file that is there: it stays as it was.
    pub published: bool,
}

/// The file that an upload is laid over.
struct Base {
    file: Box<dyn ReadFile>,
    size: u64,
    identity: Option<Identity>,
}

/// A file being written. Dropping it keeps what came for its owner to resume.
pub struct Upload {
    pub(crate) vfs: Vfs,
    pub(crate) path: VPath,
    pub(crate) place: Place,
    staged: Box<dyn StagedFile>,
    moving: Arc<Moving>,
    existing: Existing,
    expected: Option<u64>,
    base: Option<Base>,
    ranges: Ranges,
    digest: StreamDigest,
    /// As it stood behind what the store would keep, where that cannot be read back.
    checkpoint: Option<Box<StreamDigest>>,
    /// Nothing of what `digest` was fed has been overwritten.
    digest_holds: bool,
    /// Staged bytes can be read back without a network.
    reads_back: bool,
    /// Writes that wait for what comes before them, for stores that take bytes only in order.
    order: Option<Order>,
    /// What could not be put in order in memory.
    spool: Option<Spool>,
    size: u64,
    synced: u64,
    marked: u64,
    reservation: Reservation,
    times: (Option<Timestamp>, Option<Timestamp>),
    /// Permission bits that its client named.
    pub(crate) mode: Option<ModeChange>,
    touched: bool,
    refused: Option<VfsError>,
    is_over: bool,
    /// What had the name when it began.
    replaces: Option<String>,
}

impl Upload {
    pub(crate) async fn begin(
        vfs: &Vfs,
        path: &VPath,
        place: Place,
        how: Create,
    ) -> Result<Upload> {
        may_begin(vfs)?;
        let turn = vfs.0.turn()?;
        let (start, staged) = Start::at(vfs, path, &place, how).await?;
        step::reached("upload.staged");
        let size = start.base.as_ref().map_or(start.ranges.end(), |base| base.size);
        let moving = moving(vfs, path, start.id, (start.started_at, size, turn));
        vfs.0.uploads.lock().insert(path.clone(), moving.clone());
        let caps = place.store.caps();
        Ok(Upload {
            existing: match how.intent {
                CreateIntent::Exclusive => Existing::Refuse,
                _ => Existing::Replace,
            },
            expected: how.expected_size,
            order: (!caps.random_write).then(|| Order::behind(start.ranges.end())),
            vfs: vfs.clone(),
            path: path.clone(),
            digest: start.digest.as_deref().cloned().unwrap_or_else(|| new_digest(&place)),
            checkpoint: start.digest,
            place,
            staged,
            moving,
            base: start.base,
            digest_holds: true,
            spool: None,
            reads_back: caps.local && caps.random_write,
            size,
            synced: start.ranges.contiguous(),
            marked: start.ranges.end(),
            ranges: start.ranges,
            reservation: start.reservation,
            times: (None, None),
            mode: None,
            touched: false,
            refused: None,
            is_over: false,
            replaces: start.replaces,
        })
    }

    /// Its transfer.
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

    /// See [`crate::session::State::digest`].
    pub(crate) fn digests(&self, bytes: u64) -> Result<()> {
        self.vfs.0.digest(bytes)
    }

    /// Writes at `offset` if that needs no waiting; `false`: nothing was written, call
    /// [`Upload::write_at`]. Never allocates.
    ///
    /// # Errors
    /// No room, the session was ended, the store failed: the upload is refused from then on.
    pub fn try_write_at(&mut self, offset: u64, data: &[u8]) -> Result<bool> {
        self.may_write(offset, data.len())?;
        if self.order.is_some() || self.hash_is_behind() {
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
        if self.continues_base(offset) {
            self.advance_to(offset).await?;
        }
        self.write_next(offset, data).await
    }

    async fn write_next(&mut self, offset: u64, data: Bytes) -> Result<()> {
        if self.spool.is_some() {
            return self.spool_write(offset, data).await;
        }
        let Some(order) = &mut self.order else {
            return self.store(offset, data).await;
        };
        if let Err(data) = order.take(offset, data) {
            return self.write_elsewhere(offset, data).await;
        }
        while let Some((offset, data)) = self.order.as_mut().and_then(Order::next) {
            self.store(offset, data).await?;
        }
        Ok(())
    }

    async fn store(&mut self, offset: u64, data: Bytes) -> Result<()> {
        match self.staged.write_at(offset, data.clone()).await {
            Ok(()) => self.wrote(offset, &data)?,
            Err(error) => return Err(self.refuse(error.into())),
        }
        if self.hash_is_behind() {
            self.catch_up().await;
        }
        Ok(())
    }

    /// A gap was closed: what lies behind it is there and not hashed. Where reading back would
    /// cross a network that is left to the finish.
    fn hash_is_behind(&self) -> bool {
        self.digest_holds && self.reads_back && self.digest.length() < self.ranges.contiguous()
    }

    /// Hashes a piece of what is behind, so that the finish need not read it all.
    async fn catch_up(&mut self) {
        let start = self.digest.length();
        let end = self.ranges.contiguous().min(start.saturating_add(limits::CATCH_UP_BYTES));
        let mut block = BytesMut::new();
        while self.digest.length() < end {
            block.clear();
            let want = usize::try_from(end - self.digest.length()).unwrap_or(usize::MAX);
            let want = want.min(limits::BLOCK_BYTES);
            // What cannot be read now is tried again, and matters, at the finish.
            match self.staged.read_at(self.digest.length(), block, want).await {
                Ok(read) if !read.is_empty() => block = read,
                _ => return,
            }
            self.digest.update(&block);
        }
    }

    fn may_write(&mut self, offset: u64, length: usize) -> Result<()> {
        if let Some(refused) = &self.refused {
            return Err(refused.clone());
        }
        let checked = self.vfs.0.check().and_then(|()| {
            let end = offset.checked_add(length as u64).ok_or(VfsError::NoSpace)?;
            // An overlay keeps its base beside it until it is published.
            self.reservation.grow_to(end.max(self.size))
        });
        checked.map_err(|error| self.refuse(error))
    }

    /// Bytes are in the store: hash what continues the prefix, remember the range.
    fn wrote(&mut self, offset: u64, data: &[u8]) -> Result<()> {
        let end = offset + data.len() as u64;
        if offset == self.digest.length() && self.digest_holds {
            match self.order.is_some() {
                true => self.hash_in_order(data),
                false => self.digest.update(data),
            }
        } else if offset < self.digest.length() {
            self.digest_holds = false;
        }
        self.note_written(offset, end)
    }

    fn note_written(&mut self, offset: u64, end: u64) -> Result<()> {
        if self.ranges.add(offset, end).is_err() {
            return Err(self.refuse(VfsError::Unsupported));
        }
        self.touched = true;
        self.size = self.size.max(end);
        self.moving.bytes.store(self.size, Ordering::Relaxed);
        if self.order.is_some() {
            self.mark_kept();
        } else if self.ranges.contiguous() >= self.marked.saturating_add(limits::MARK_BYTES) {
            self.marked = self.ranges.contiguous();
            self.vfs.0.service.0.book.mark(&self.note());
        }
        Ok(())
    }

    /// As [`Upload::wrote`], of bytes that did not pass through here: they are hashed later.
    fn wrote_unseen(&mut self, start: u64, end: u64) -> Result<()> {
        if start < end {
            self.digest_holds &= start >= self.digest.length();
        }
        self.note_written(start, end)
    }

    /// From now on nothing is taken and nothing will be published.
    fn refuse(&mut self, error: VfsError) -> VfsError {
        self.refused.get_or_insert(error).clone()
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
    /// No room, or the store cannot.
    pub async fn set_len(&mut self, size: u64) -> Result<()> {
        self.may_write(size, 0)?;
        if size == self.size {
            return Ok(());
        }
        // What waits to be put in order is not among the ranges yet.
        let waits = self.order.as_ref().is_some_and(|order| !order.is_settled());
        if waits
            && size < self.size
            && let Err(error) = self.begin_spool().await
        {
            return Err(self.refuse(error));
        }
        if size < self.ranges.end() {
            if let Err(error) = self.cut_written(size).await {
                return Err(self.refuse(error));
            }
            self.ranges.cut(size);
            self.digest_holds &= self.digest.length() <= size;
            // A mark beyond the cut would be trusted although something else is written there.
            self.synced = self.synced.min(size);
            if self.marked > size {
                self.marked = size;
                self.vfs.0.service.0.book.mark(&self.note());
            }
        }
        if let Some(base) = &mut self.base {
            base.size = base.size.min(size);
        }
        self.touched = true;
        self.size = size;
        self.moving.bytes.store(size, Ordering::Relaxed);
        Ok(())
    }

    /// Times that the published file will have; what is `None` stays as it was.
    pub fn set_times(&mut self, accessed: Option<Timestamp>, modified: Option<Timestamp>) {
        self.times = (accessed.or(self.times.0), modified.or(self.times.1));
    }

    /// Makes what was written durable, without publishing it: after a power cut it can be resumed
    /// from here.
    ///
    /// # Errors
    /// The store failed: the upload is refused from then on.
    pub async fn sync(&mut self) -> Result<()> {
        if let Some(refused) = &self.refused {
            return Err(refused.clone());
        }
        let contiguous = self.ranges.contiguous();
        if let Err(error) = self.staged.sync().await {
            return Err(self.refuse(error.into()));
        }
        if self.order.is_some() {
            return Ok(());
        }
        self.synced = contiguous;
        self.marked = self.marked.max(contiguous);
        self.vfs.0.service.0.book.mark(&self.note());
        Ok(())
    }

    /// Ends it without publishing; what came is kept for its owner to resume.
    pub async fn interrupt(mut self, reason: &str) {
        if self.is_resumable() && self.staged.sync().await.is_ok() {
            self.synced = self.ranges.contiguous();
        }
        self.cut(reason);
    }

    /// Ends it without publishing; nothing is kept.
    pub async fn abort(mut self) {
        self.drop_staged("dropped by the client").await;
    }

    /// Drops the staged bytes and records why.
    async fn drop_staged(&mut self, reason: &str) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        if let Err(error) = self.staged.discard().await {
            tracing::warn!(%error, transfer = %self.moving.id, "staged bytes cannot be dropped");
        }
        self.end(UploadEnd::Failed);
        self.tell_interrupted(reason, false);
    }

    fn is_resumable(&self) -> bool {
        self.refused.is_none()
            && self.base.is_none()
            && self.spool.is_none()
            && self.keepable() > 0
            && self.place.store.caps().resume
    }

    /// Keeps what came, or drops it where nothing can be resumed. Needs no waiting.
    fn cut(&mut self, reason: &str) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        let keeps = self.is_resumable();
        self.end(if keeps { UploadEnd::Partial } else { UploadEnd::Failed });
        self.reservation.shrink_to(self.ranges.contiguous());
        self.tell_interrupted(reason, keeps);
        let mut reservation = std::mem::take(&mut self.reservation);
        let service = &self.vfs.0.service;
        if keeps {
            let note = self.note();
            let end = if note.ticket.is_some() { note.contiguous } else { self.ranges.end() };
            reservation.shrink_to(end);
            let digest = self.checkpoint.take();
            let kept = Kept { note, reservation: Some(reservation), digest };
            service.discard_later(service.0.book.keep(kept));
            return;
        }
        let (store, id) = (self.place.store.clone(), self.moving.id);
        // Its room comes back when it is done.
        later(async move {
            if let Err(error) = store.discard_staged(id).await {
                tracing::warn!(%error, transfer = %id, "staged bytes cannot be dropped");
            }
            drop(reservation);
        });
    }

    fn tell_interrupted(&self, reason: &str, kept: bool) {
        let file = self.fact(Digests::default(), false);
        let reason = reason.to_owned();
        let event = self.vfs.0.event(Fact::FileInterrupted { file, kept, reason });
        self.vfs.0.service.0.book.tell(&event);
    }

    /// It moves no more.
    fn end(&mut self, end: UploadEnd) {
        let core = &self.vfs.0.service.0;
        let mut uploads = self.vfs.0.uploads.lock();
        if uploads.get(&self.path).is_some_and(|other| other.id == self.moving.id) {
            uploads.remove(&self.path);
        }
        drop(uploads);
        core.book.end(self.moving.id);
        core.meters.active_changed(Direction::In, -1);
        core.meters.upload_ended(end);
        core.meters.moved(Direction::In, self.vfs.0.protocol(), self.size);
        self.vfs.0.moved_in.fetch_add(self.size, Ordering::Relaxed);
    }

    fn fact(&self, digests: Digests, replaced: bool) -> FileFact {
        FileFact {
            transfer: self.moving.id,
            path: self.path.to_string(),
            size: self.size,
            digests,
            protocol: self.vfs.0.protocol(),
            started_at: self.moving.started_at,
            replaced,
            temporary: self.vfs.is_temporary(&self.path),
        }
    }

    fn note(&self) -> Partial {
        let core = &self.vfs.0.service.0;
        let now = core.env.now();
        let days = self.vfs.0.live.principal().policy.partial_days;
        let owner = self.vfs.owner(&self.path);
        let contiguous = self.keepable();
        let (synced, ticket) = match self.staged.kept() {
            None => (self.synced.min(contiguous), None),
            Some(_) => (contiguous, self.staged.ticket()),
        };
        let digest = ticket.as_ref().and(self.checkpoint.as_ref()).and_then(|it| it.note());
        Partial {
            transfer: self.moving.id,
            site: owner.0,
            account: owner.1,
            path: owner.2,
            endpoint: self.place.mount.endpoint.noun.name.clone(),
            mount: self.place.mount.mount.name.clone(),
            target: self.place.path.clone(),
            protocol: self.vfs.0.protocol(),
            contiguous,
            synced,
            boot: core.boot.clone(),
            started_at: self.moving.started_at,
            at: now,
            until: now.plus(Duration::from_secs(u64::from(days) * 86_400)),
            ticket,
            digest: digest.map(|note| hex(&note)),
            replaces: self.replaces.clone(),
        }
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.cut("the connection was cut");
    }
}

/// What an upload starts from.
struct Start {
    id: TransferId,
    started_at: Timestamp,
    staged: Option<Box<dyn StagedFile>>,
    /// What was resumed.
    note: Option<Partial>,
    ranges: Ranges,
    /// Of what was resumed, where it cannot be read back.
    digest: Option<Box<StreamDigest>>,
    base: Option<Base>,
    reservation: Reservation,
    /// What has the name.
    replaces: Option<String>,
}

impl Start {
    /// Checks what is there and rights, takes room, and opens the staged file.
    async fn at(
        vfs: &Vfs,
        path: &VPath,
        place: &Place,
        how: Create,
    ) -> Result<(Start, Box<dyn StagedFile>)> {
        let there = match place.store.stat(&place.path).await {
            Ok(meta) if meta.kind == EntryKind::Directory => return Err(VfsError::IsDirectory),
            Ok(meta) => Some(meta),
            Err(StoreError::NotFound) => None,
            Err(error) => return Err(error.into()),
        };
        if there.is_some() && how.intent == CreateIntent::Exclusive {
            return Err(VfsError::Exists);
        }
        place.need(if there.is_some() { Right::Overwrite } else { Right::Write })?;
        if there.is_some()
            && how.intent == CreateIntent::Continue
            && !place.store.caps().staged_apart
        {
            // It would be laid over a file that its own first byte destroys.
            return Err(StoreError::Unsupported("appending to a file written in place").into());
        }
        let mut start = Start::new(vfs, place).await?;
        start.replaces = there.as_ref().and_then(|meta| Some(meta.identity.clone()?.0));
        let kept = vfs.0.service.0.book.take(&vfs.owner(path));
        match (how.intent, kept) {
            (CreateIntent::Resume, Some(kept)) if kept.note.replaces == start.replaces => {
                start.resume(vfs, place, kept).await?;
            }
            // What is published wins: its size is the one a client was told.
            (CreateIntent::Continue, Some(kept)) if there.is_none() => {
                start.resume(vfs, place, kept).await?;
            }
            (_, Some(kept)) => vfs.0.service.discard(kept).await,
            (_, None) => {}
        }
        if start.staged.is_none() && how.intent == CreateIntent::Resume {
            return Err(VfsError::Conflict);
        }
        if start.staged.is_none() && how.intent == CreateIntent::Continue && there.is_some() {
            start.base = Some(base(place).await?);
        }
        if there.is_none() && start.staged.is_none() {
            start.reservation.add_file()?;
        }
        if let Err(error) = start.reservation.grow_to(how.expected_size.unwrap_or(0)) {
            start.give_back(vfs);
            return Err(error);
        }
        let staged = match start.staged.take() {
            Some(staged) => staged,
            None => place.store.stage(start.id, &place.path).await?,
        };
        Ok((start, staged))
    }

    async fn new(vfs: &Vfs, place: &Place) -> Result<Start> {
        let core = &vfs.0.service.0;
        Ok(Start {
            id: core.env.new_id(),
            started_at: core.env.now(),
            staged: None,
            note: None,
            ranges: Ranges::default(),
            digest: None,
            base: None,
            reservation: vfs.reservation(place).await?,
            replaces: None,
        })
    }

    /// Goes on with what was kept, as far as it can be trusted. What cannot be resumed is gone.
    async fn resume(&mut self, vfs: &Vfs, place: &Place, mut kept: Kept) -> Result<()> {
        let trusted = kept.note.trusted(&vfs.0.service.0.boot);
        let resumed = match kept.note.target == place.path && trusted > 0 {
            true => keep::reopen(place, &mut kept).await,
            false => Err(StoreError::NotFound),
        };
        let staged = match resumed {
            Ok(staged) if staged.size() >= trusted => staged,
            Err(StoreError::Unavailable(_)) => {
                vfs.0.service.0.book.adopt_kept(kept);
                return Err(VfsError::busy("this upload is still being ended"));
            }
            _ if trusted == 0 => {
                vfs.0.service.discard(kept).await;
                return Ok(());
            }
            // Its size was told: writes that continue it must not land behind a hole.
            _ => {
                vfs.0.service.discard(kept).await;
                return Err(VfsError::Conflict);
            }
        };
        // What lies behind the first hole is sent again.
        if let Err(error) = staged.set_len(trusted).await {
            vfs.0.service.discard(kept).await;
            return Err(error.into());
        }
        self.id = kept.note.transfer;
        self.started_at = kept.note.started_at;
        self.ranges = Ranges::prefix(trusted);
        if let Some(reservation) = kept.reservation.take() {
            self.reservation = reservation;
        } else {
            self.reservation.force(trusted);
        }
        self.staged = Some(staged);
        self.digest = kept.digest;
        self.note = Some(kept.note);
        Ok(())
    }

    /// It does not begin after all: what was resumed stays kept.
    fn give_back(self, vfs: &Vfs) {
        if let Some(note) = self.note {
            let kept = Kept { note, reservation: Some(self.reservation), digest: self.digest };
            vfs.0.service.discard_later(vfs.0.service.0.book.adopt_kept(kept));
        }
    }
}

fn may_begin(vfs: &Vfs) -> Result<()> {
    let core = &vfs.0.service.0;
    if core.book.is_draining() {
        return Err(VfsError::busy("the server is stopping"));
    }
    let usage = core.recorder.journal().usage();
    if usage.full {
        return Err(VfsError::NoRecord);
    }
    if usage.suspect {
        return Err(VfsError::busy("the server cannot record uploads now"));
    }
    Ok(())
}

fn new_digest(place: &Place) -> StreamDigest {
    let sha256 = if place.mount.mount.sha256 { Sha256::Wanted } else { Sha256::Unwanted };
    match place.store.caps().random_write {
        true => StreamDigest::new(sha256),
        false => StreamDigest::notable(sha256),
    }
}

async fn base(place: &Place) -> Result<Base> {
    let file = place.store.open(&place.path).await?;
    let meta = file.meta();
    Ok(Base { size: meta.size, identity: meta.identity.clone(), file })
}

fn moving(
    vfs: &Vfs,
    path: &VPath,
    id: TransferId,
    (started_at, size, turn): (Timestamp, u64, TransferPlace),
) -> Arc<Moving> {
    let moving = Arc::new(Moving {
        id,
        site: vfs.0.scope.site,
        direction: Direction::In,
        protocol: vfs.0.protocol(),
        account: vfs.0.live.principal().account.name.clone(),
        path: path.clone(),
        session: vfs.0.scope.session,
        job: vfs.0.scope.job,
        started_at,
        bytes: AtomicU64::new(size),
        _place: turn,
    });
    vfs.0.service.0.book.begin(moving.clone());
    vfs.0.service.begun(Direction::In);
    vfs.0.transfers.fetch_add(1, Ordering::Relaxed);
    moving
}
