//! From the last byte to the answer: ARCHITECTURE.md, "One upload", step 6.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::BytesMut;
use entrepot_auth::EffectiveMount;
use entrepot_nouns::event::{Fact, FileFact, QuotaFact};
use entrepot_nouns::{Digests, Displaced, EventId, Right, crash};
use entrepot_storage::thread::Threads;
use entrepot_storage::{CopyRange, Existing, Meta, Publish, StoreError, TakenBack};

use super::layout::Layout;
use super::reorder::check_zeros;
use super::{Phase, Upload};
use crate::error::{Result, VfsError};
use crate::limits::{BLOCK_BYTES, ZEROS_AT_ONCE};
use crate::meters::UploadEnd;
use crate::node_quotas::{CountedChange, Filled};
use crate::place::{Located, MountedPath};
use crate::quota::Filling;
use crate::recount::Delta;
use crate::unbroken::unbroken;
use crate::uploaded::Uploaded;

/// Whether the file is wanted still.
type Wanted = Pin<Box<dyn Future<Output = bool> + Send>>;

/// An upload whose bytes are durable.
enum CommitStart {
    Ended(Result<Uploaded>),
    /// It is not known yet whether it is wanted.
    Waits(Box<Upload>, Wanted),
}

/// What has the name that an upload takes.
struct Replaced {
    there: Option<Meta>,
    /// It is kept as a version, and may have lost the name already.
    aside: Option<Displaced>,
}

/// Work that is one row of a store's calls, where they are best made. It lies in a box, for it is
/// large and handed on several times.
async fn on_thread<T: Send + 'static>(
    threads: &Option<Threads>,
    work: Pin<Box<impl Future<Output = T> + Send + 'static>>,
) -> Result<T> {
    match threads {
        Some(threads) => Ok(threads.run(work).await?),
        None => Ok(work.await),
    }
}

impl Upload {
    /// Publishes the file: when this returns, bytes, name and record are on stable storage.
    ///
    /// # Errors
    /// Nothing was published, and what had the name still has it. Where the upload itself was at
    /// fault nothing is kept; where the server was, its owner may resume.
    pub async fn finish(self) -> Result<Uploaded> {
        unbroken(Box::new(self).finish_here(None)).await
    }

    /// Ends an upload through which nothing was written, without publishing anything. The file that
    /// it was laid over stays as it is but for the times and permission bits that were set. The
    /// unfinished upload that it went on with stays kept.
    ///
    /// # Errors
    /// The times or bits cannot be set.
    pub async fn leave(self) -> Result<()> {
        if self.base.is_some() {
            return unbroken(Box::new(self).leave_as_it_was()).await.map(drop);
        }
        let (vfs, path, wanted) = (self.vfs.clone(), self.path.clone(), self.wanted);
        let mode = self.requested_mode();
        self.interrupt("nothing was written").await;
        if let Some(mode) = mode {
            vfs.set_mode(&path, mode.bits).await?;
        }
        if wanted.accessed.is_some() || wanted.modified.is_some() {
            vfs.set_times(&path, wanted.accessed, wanted.modified).await?;
        }
        Ok(())
    }

    /// As [`Upload::finish`], with a last question when the bytes are on stable storage and nothing
    /// has been recorded yet: is it wanted still? For protocols in which the end of a file looks
    /// like the end of its client. Its answer may take its time: none of the store's threads waits
    /// for it.
    ///
    /// # Errors
    /// [`VfsError::Gone`]: it is not, and what came is kept for its owner to resume. Else as
    /// [`Upload::finish`].
    pub async fn finish_if(
        self,
        wanted: impl Future<Output = bool> + Send + 'static,
    ) -> Result<Uploaded> {
        unbroken(Box::new(self).finish_here(Some(Box::pin(wanted)))).await
    }

    /// `wanted`: `None` without a question.
    async fn finish_here(mut self: Box<Self>, wanted: Option<Wanted>) -> Result<Uploaded> {
        let digests = match self.prepare().await {
            Ok(Some(digests)) => digests,
            Ok(None) => return self.leave_as_it_was().await,
            Err(error) => return Err(self.failed(error).await),
        };
        // Before the thread: who holds the name may be waiting for a thread.
        let names = self.vfs.data_plane().names.clone();
        let _held = names.hold(self.place.endpoint(), &self.place.path).await;
        let threads = self.place.store.threads();
        match on_thread(&threads, Box::pin(self.begin_commit(digests, wanted))).await? {
            CommitStart::Ended(ended) => ended,
            CommitStart::Waits(mut upload, wanted) => {
                if wanted.await {
                    on_thread(&threads, Box::pin(upload.commit(digests))).await?
                } else {
                    Err(upload.failed(VfsError::Gone).await)
                }
            }
        }
    }

    /// Makes the bytes durable, and goes on to the end where it is known already that the file is
    /// wanted.
    async fn begin_commit(
        mut self: Box<Self>,
        digests: Digests,
        wanted: Option<Wanted>,
    ) -> CommitStart {
        if let Err(error) = self.staged.sync().await {
            return CommitStart::Ended(Err(self.failed(error.into()).await));
        }
        self.marks.synced = self.size;
        crash::point("upload.synced");
        let Some(mut wanted) = wanted else {
            return CommitStart::Ended(self.commit(digests).await);
        };
        match poll_fn(|context| Poll::Ready(wanted.as_mut().poll(context))).await {
            Poll::Ready(true) => CommitStart::Ended(self.commit(digests).await),
            Poll::Ready(false) => CommitStart::Ended(Err(self.failed(VfsError::Gone).await)),
            Poll::Pending => CommitStart::Waits(self, wanted),
        }
    }

    async fn commit(mut self: Box<Self>, digests: Digests) -> Result<Uploaded> {
        match self.publish(digests).await {
            Ok(uploaded) => Ok(uploaded),
            Err(error) => Err(self.failed(error).await),
        }
    }

    /// Ends an upload that did not work: kept where the server was at fault, else dropped.
    async fn failed(&mut self, error: VfsError) -> VfsError {
        match error {
            VfsError::DigestMismatch { .. } => self.drop_staged(&error.to_string()).await,
            _ if self.record.is_some() => self.cut(&error.to_string()),
            VfsError::Busy { .. }
            | VfsError::TooMany { .. }
            | VfsError::NoRecord
            | VfsError::Gone
                if self.refusal().is_none() =>
            {
                self.cut(&error.to_string())
            }
            _ => self.drop_staged(&error.to_string()).await,
        }
        error
    }

    /// Checks that it is whole; `None`: there is nothing to publish.
    async fn prepare(&mut self) -> Result<Option<Digests>> {
        if let Some(refused) = self.refusal() {
            return Err(refused.clone());
        }
        self.vfs.0.check()?;
        if self.is_untouched() {
            return Ok(None);
        }
        self.settle_order().await?;
        self.check_expected_size()?;
        if !matches!(self.layout, Layout::Spooled(_)) {
            self.fill_holes().await?;
        }
        // Also what the filling of holes did not find memory for.
        self.send_spooled().await?;
        let digests = self.whole_digest().await?;
        self.check_digests(&digests)?;
        Ok(Some(digests))
    }

    /// What is durable gets its name and its record.
    async fn publish(&mut self, digests: Digests) -> Result<Uploaded> {
        let there = self.wanted_place().look().await?;
        self.may_publish(there.as_ref())?;
        if self.held_for.is_some() {
            return self.publish_over(Replaced { there: None, aside: None }, digests).await;
        }
        // Where it is written under its name, the file that had it is gone already.
        let is_whole = self.place.store.caps().staged_apart;
        let located = Located { place: &self.place, path: &self.path };
        let version = self.vfs.keep_version(located, there.as_ref().filter(|_| is_whole)).await?;
        let aside = version.as_ref().and(there.as_ref()).map(Meta::displaced);
        let published = self.publish_over(Replaced { there, aside }, digests).await;
        if let Some(version) = version {
            match &published {
                Ok(_) => version.replaced().await,
                Err(_) => version.settle().await,
            }
        }
        published
    }

    /// As [`Upload::publish`], over what has the name.
    async fn publish_over(&mut self, gone: Replaced, digests: Digests) -> Result<Uploaded> {
        let Replaced { there, aside } = gone;
        let book = Arc::clone(&self.vfs.data_plane().book);
        let mut file = self.fact(digests);
        file.identity = self.staged.identity().map(|identity| identity.0);
        file.displaced = there.as_ref().map(Meta::displaced);
        let fact = self.published_fact(file);
        let mut change = self.vfs.change(&self.place, fact, self.staged.identity());
        change.left = self.left().map(Box::new);
        let mut event = change.event.clone();
        book.announce(change).await?;
        crash::point("upload.intent");
        let how = Publish {
            existing: self.existing,
            accessed: self.wanted.accessed,
            modified: self.wanted.modified,
            mode: self.published_mode(there.as_ref()),
            size: self.size,
        };
        let counted = self.vfs.data_plane().quotas.begin(self.place.endpoint(), &self.place.path);
        let mut published = self.staged.publish_undoably(&how).await;
        if published == Err(StoreError::NotFound) && self.place.remake_directory().await == Ok(true)
        {
            published = self.staged.publish_undoably(&how).await;
        }
        let published = match published {
            Ok(published) => published,
            Err(error) => {
                self.not_published(event.id).await;
                return Err(error.into());
            }
        };
        crash::point("upload.published");
        // From here on the file is visible: whatever happens, it is not dropped.
        self.phase = Phase::Over;
        let displaced = published.displaced.or(aside);
        let replaced = displaced.is_some();
        let identity = published.identity.clone();
        if let Some(file) = event.fact.upload_mut() {
            file.identity = published.identity.map(|identity| identity.0);
            file.displaced = displaced;
        }
        let sequence = match book.record(&event) {
            Ok(sequence) => sequence,
            Err(error) => {
                return Err(self.unrecorded(event.id, there.as_ref(), counted, error.into()).await);
            }
        };
        self.staged.settle().await;
        // Another node may change the name at once: from then on the directory no longer tells. If
        // the sync fails, nobody knows whether the record is there: the next start does.
        let durable = if self.place.is_shared() { book.sync(sequence).await } else { Ok(()) };
        crash::point("upload.recorded");
        if let Some(file) = event.fact.file().filter(|file| file.temporary) {
            book.remember(self.vfs.temporary_key(self.wanted_place()), file.clone());
        }
        self.count(there.as_ref(), counted);
        self.end(UploadEnd::Completed);
        durable?;
        if let Some(sha256) = digests.sha256 {
            self.vfs.remember_sha256(&self.place, identity.as_ref(), sha256).await;
        }
        Ok(Uploaded {
            transfer: self.moving.id,
            size: self.size,
            digests,
            replaced,
            published: true,
        })
    }

    /// What is told of the file when it is published.
    fn published_fact(&self, file: FileFact) -> Fact {
        match &self.held_for {
            Some(wanted) => Fact::FileHeld { held: wanted.waiting(file) },
            None => Fact::FileUploaded { file },
        }
    }

    /// The file has its name, and the journal takes no record of that: it loses the name again, and
    /// its owner may resume. Where that cannot be, the intent stays open, and is looked at again
    /// when the journal takes records, or by the next start. Gives back the client's error.
    async fn unrecorded(
        &mut self,
        intent: EventId,
        there: Option<&Meta>,
        counted: CountedChange,
        error: VfsError,
    ) -> VfsError {
        let path = &self.path;
        match self.staged.take_back().await {
            Ok(TakenBack::Restored) => {
                tracing::warn!(%path, "an upload that cannot be recorded has lost its name again");
                self.vfs.data_plane().book.dismiss(intent);
                self.phase = Phase::Touched;
                return error;
            }
            Ok(TakenBack::Overtaken) => {
                let code = "EP0272";
                tracing::error!(code, %path, "an upload is not recorded, and was replaced since");
            }
            Err(problem) => {
                let code = "EP0272";
                tracing::error!(code, %path, %problem, "an upload is visible and not recorded");
                self.count(there, counted);
            }
        }
        self.vfs.data_plane().recovery.look_later(intent);
        self.end(UploadEnd::Failed);
        error
    }

    /// The store refused to publish and has undone what it did, so nothing came of the intent.
    /// Should even that have failed, the intent stays open: it is looked at again when the store
    /// works, or by the next start.
    async fn not_published(&mut self, intent: EventId) {
        let ours = self.staged.identity();
        let there = self.place.look().await.ok().flatten();
        if ours.is_some() && there.is_some_and(|meta| meta.identity == ours) {
            tracing::error!(path = %self.path, "a publish failed and could not be undone");
            self.phase = Phase::Over;
            self.vfs.data_plane().recovery.look_later(intent);
            self.end(UploadEnd::Failed);
            return;
        }
        self.vfs.data_plane().book.dismiss(intent);
    }

    /// Nothing was written to a file that is there (`touch`).
    fn is_untouched(&self) -> bool {
        !self.is_touched() && self.base.is_some()
    }

    async fn leave_as_it_was(mut self: Box<Self>) -> Result<Uploaded> {
        self.phase = Phase::Over;
        self.staged.discard().await?;
        self.end(UploadEnd::Untouched);
        let (accessed, modified) = (self.wanted.accessed, self.wanted.modified);
        if accessed.is_some() || modified.is_some() {
            let place = self.wanted_place();
            match place.store.set_times(&place.path, accessed, modified).await {
                Ok(()) | Err(StoreError::Unsupported(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.set_mode_of_untouched().await?;
        Ok(Uploaded {
            transfer: self.moving.id,
            size: self.size,
            digests: Digests::default(),
            replaced: false,
            published: false,
        })
    }

    /// Ranges not written come from the base, what lies behind it is zeros.
    async fn fill_holes(&mut self) -> Result<()> {
        let holes = self.ranges.holes(self.size);
        if holes.is_empty() {
            return Ok(());
        }
        check_zeros(self.unwritten_zeros())?;
        if let Layout::InOrder(_) = self.layout {
            return self.advance_to(self.size).await;
        }
        if let Some(base) = self.base.take() {
            for (start, end) in &holes {
                let mut at = *start;
                let end = (*end).min(base.size);
                while at < end {
                    let range = CopyRange { from: at, at, len: end - at };
                    match self.copy_piece(&*base.file, range).await? {
                        0 => return Err(VfsError::Conflict),
                        count => at += count,
                    }
                }
            }
            self.base = Some(base);
        }
        if self.ranges.end() < self.size {
            self.staged.set_len(self.size).await?;
        }
        Ok(())
    }

    /// What nobody wrote and lies over nothing, from first to last: zeros, which need not be read.
    fn zero_holes(&self) -> Vec<(u64, u64)> {
        let Layout::RandomAccess(_) = self.layout else { return Vec::new() };
        let base = self.base.as_ref().map_or(0, |base| base.size);
        let holes = self.ranges.holes(self.size).into_iter();
        holes.map(|(start, end)| (start.max(base), end)).filter(|hole| hole.0 < hole.1).collect()
    }

    /// The digests of the whole file: what was not hashed while it came is read back.
    async fn whole_digest(&mut self) -> Result<Digests> {
        let holes = self.zero_holes();
        let digest = self.layout.digest_to_finish(self.place.sha256());
        let mut block = BytesMut::new();
        while digest.length() < self.size {
            block.clear();
            let at = digest.length();
            let hole = holes.get(holes.partition_point(|hole| hole.1 <= at));
            let end = match hole {
                Some((start, end)) if *start <= at => {
                    digest.update_zeros((end - at).min(ZEROS_AT_ONCE));
                    tokio::task::yield_now().await;
                    continue;
                }
                Some((start, _)) => *start,
                None => self.size,
            };
            let want = usize::try_from(end - at).unwrap_or(usize::MAX).min(BLOCK_BYTES);
            block.reserve(want);
            block = self.staged.read_at(at, block, want).await?;
            if block.is_empty() {
                return Err(VfsError::Io { problem: "staged bytes are missing".to_owned() });
            }
            digest.update(&block);
        }
        Ok(digest.finish())
    }

    /// The place of the name that the client wants.
    pub(super) fn wanted_place(&self) -> &MountedPath {
        self.held_for.as_ref().unwrap_or(&self.place)
    }

    /// The account may have changed since the upload began, and so may the file under it.
    fn may_publish(&self, there: Option<&Meta>) -> Result<()> {
        if there.is_some() && self.existing == Existing::Refuse {
            return Err(VfsError::Exists);
        }
        let principal = self.vfs.0.session.live.principal();
        let name = &self.place.mount.mount.name;
        let is_held = self.held_for.is_some();
        let same = |mount: &&EffectiveMount| {
            mount.mount.name == *name
                && (mount.mount.hold == is_held || self.vfs.0.scope.job.is_some())
                && mount.endpoint.id == self.place.endpoint()
                && mount.prefix == self.place.mount.prefix
        };
        let mount = principal.mounts.iter().find(same);
        let right = if there.is_some() { Right::Overwrite } else { Right::Write };
        if !mount.is_some_and(|mount| mount.rights.has(right)) {
            self.place.need(right)?;
            return Err(VfsError::denied("write here any more"));
        }
        match (&self.base, there) {
            (Some(base), Some(there)) if base.identity == there.identity => Ok(()),
            (Some(_), _) => Err(VfsError::Conflict),
            (None, _) => Ok(()),
        }
    }

    /// Turns the reservation into what is counted.
    fn count(&mut self, there: Option<&Meta>, counted: CountedChange) {
        let filled = counted.end_and_look(Delta::of_file(self.size).over(there));
        drop(std::mem::take(&mut self.reservation));
        for Filled { folder, filling } in filled {
            let endpoint = self.place.mount.endpoint.noun.name.clone();
            let (folder, Filling { percent, bytes, files }) = (folder.to_string(), filling);
            let quota = QuotaFact { endpoint, folder, percent, bytes, files };
            let event = self.vfs.0.event(Fact::QuotaReached { quota });
            if let Err(error) = self.vfs.data_plane().book.record(&event) {
                tracing::warn!(code = error.code(), %error, "a quota that fills is not recorded");
            }
        }
    }
}
