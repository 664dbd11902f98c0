//! A file or a tree copied within what a session sees: each file as an upload of its own, so that
//! digests, quotas, rules and receipts are the same as of every other.

use entrepot_nouns::{Right, VPath};
use entrepot_storage::budget::Permit;
use entrepot_storage::{CopyRange, EntryKind, ReadFile};

use crate::error::{Result, VfsError};
use crate::limits;
use crate::place::Last;
use crate::recount::is_below;
use crate::resumable::record::OnConflict;
use crate::unbroken::later;
use crate::upload::{Create, CreateIntent, Upload};
use crate::vfs::{Attributes, Entry, Listing, Vfs};

/// A copy under way. It goes on by [`TreeCopy::step`]; dropped, it ends where it is, and nothing
/// stays of the file at hand.
pub struct TreeCopy {
    vfs: Vfs,
    on_conflict: OnConflict,
    /// Where the copy goes, at its root.
    to: VPath,
    /// Directories that are still to be copied.
    waiting: Vec<Pair>,
    /// What of the directory at hand is still to be copied.
    listing: Option<(Listing, Pair)>,
    entries: Vec<Entry>,
    file: Option<FileCopy>,
    progress: CopyProgress,
}

/// What a copy has done so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopyProgress {
    /// Files that are copied.
    pub files: u64,
    /// Directories that are there now.
    pub directories: u64,
    /// Links, which are not copied.
    pub links: u64,
    /// Bytes that are copied, those of the file at hand included.
    pub bytes: u64,
}

/// A source and its target.
struct Pair {
    from: VPath,
    to: VPath,
}

/// The file at hand.
struct FileCopy {
    source: Box<dyn ReadFile>,
    upload: Option<Upload>,
    at: u64,
    _open: Permit,
}

impl Vfs {
    /// Begins to copy a file, or a directory with all below it as far as this session may list and
    /// read it. Where the target is a directory and may be replaced, the two become one.
    ///
    /// # Errors
    /// There is no such file, the target is taken and may not be, or lies in the source.
    pub async fn copy(
        &self,
        from: &VPath,
        to: &VPath,
        on_conflict: OnConflict,
    ) -> Result<TreeCopy> {
        let attributes = self.stat(from).await?;
        if attributes.partial {
            return Err(VfsError::NotFound);
        }
        let there = match self.lstat(to).await {
            Ok(there) => Some(there).filter(|there| !there.partial),
            Err(VfsError::NotFound) => None,
            Err(error) => return Err(error),
        };
        let to = match on_conflict {
            OnConflict::KeepBoth => self.free_name(to).await?,
            OnConflict::Refuse if there.is_some() => return Err(VfsError::Exists),
            OnConflict::Refuse | OnConflict::Replace => to.clone(),
        };
        let mut copy = TreeCopy {
            vfs: self.clone(),
            on_conflict,
            to: to.clone(),
            waiting: Vec::new(),
            listing: None,
            entries: Vec::new(),
            file: None,
            progress: CopyProgress::default(),
        };
        let pair = Pair { from: from.clone(), to };
        copy.check_apart(&pair.from).await?;
        match attributes.kind {
            EntryKind::Directory => copy.waiting.push(pair),
            EntryKind::File | EntryKind::Link => copy.begin_file(pair, &attributes).await?,
        }
        Ok(copy)
    }
}

impl TreeCopy {
    /// Where the copy goes; with [`OnConflict::KeepBoth`] the name that was free.
    pub fn target(&self) -> &VPath {
        &self.to
    }

    /// What is done so far.
    pub fn progress(&self) -> &CopyProgress {
        &self.progress
    }

    /// Copies a piece of a file, or makes a directory; false: all is done.
    ///
    /// # Errors
    /// A right or room is missing, a name is taken, the source changed, the store failed. What was
    /// copied before stays, but for the file at hand.
    pub async fn step(&mut self) -> Result<bool> {
        self.vfs.0.check()?;
        if let Some(file) = self.file.take() {
            self.copy_piece(file).await?;
            return Ok(true);
        }
        if let Some(entry) = self.entries.pop() {
            self.begin_entry(entry).await?;
            return Ok(true);
        }
        if let Some((listing, _)) = &mut self.listing {
            self.entries = listing.next_page(limits::PAGE).await?;
            if self.entries.is_empty() {
                self.listing = None;
            }
            return Ok(true);
        }
        let Some(pair) = self.waiting.pop() else { return Ok(false) };
        self.begin_directory(pair).await?;
        Ok(true)
    }

    /// Fails if the copy goes into `source`: it would copy what it has made, without an end.
    async fn check_apart(&self, source: &VPath) -> Result<()> {
        let refused = || Err(VfsError::denied("copy a directory into itself"));
        if self.to.below(source).is_some() {
            return refused();
        }
        // Two mounts may show the same directory.
        let (from, _) = self.vfs.place(source, Last::Followed).await?;
        let (to, _) = self.vfs.place(&self.to, Last::Itself).await?;
        match (from, to) {
            (Some(from), Some(to))
                if from.endpoint() == to.endpoint() && is_below(&to.path, &from.path) =>
            {
                refused()
            }
            _ => Ok(()),
        }
    }

    async fn begin_directory(&mut self, pair: Pair) -> Result<()> {
        self.check_apart(&pair.from).await?;
        match self.vfs.make_directory(&pair.to).await {
            Ok(()) => {}
            Err(VfsError::Exists) => match self.vfs.stat(&pair.to).await?.kind {
                EntryKind::Directory => {}
                EntryKind::File | EntryKind::Link => return Err(VfsError::NotDirectory),
            },
            Err(error) => return Err(error),
        }
        self.progress.directories += 1;
        match self.vfs.list(&pair.from).await {
            Ok(listing) => self.listing = Some((listing, pair)),
            // Below the source, what may not be listed is not there for this session.
            Err(VfsError::Denied { .. }) if self.progress.directories > 1 => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    async fn begin_entry(&mut self, entry: Entry) -> Result<()> {
        let Some((_, directory)) = &self.listing else { return Ok(()) };
        let Entry { name, attributes } = entry;
        let pair = Pair { from: directory.from.join(&name)?, to: directory.to.join(&name)? };
        match attributes.kind {
            EntryKind::Link => self.progress.links += 1,
            EntryKind::Directory if self.waiting.len() >= limits::COPY_DIRECTORIES => {
                return Err(VfsError::TooManyEntries { limit: limits::COPY_DIRECTORIES as u64 });
            }
            EntryKind::Directory => self.waiting.push(pair),
            EntryKind::File if attributes.partial => {}
            EntryKind::File if !attributes.rights.has(Right::Read) => {}
            EntryKind::File => self.begin_file(pair, &attributes).await?,
        }
        Ok(())
    }

    async fn begin_file(&mut self, pair: Pair, attributes: &Attributes) -> Result<()> {
        let place = self.vfs.place(&pair.from, Last::Followed).await?.0;
        let place = place.ok_or(VfsError::IsDirectory)?;
        place.need(Right::Read)?;
        let open = self.vfs.0.shares.open_file()?;
        let source = place.store.open(&place.path).await?;
        let intent = match self.on_conflict {
            OnConflict::Replace => CreateIntent::New,
            OnConflict::Refuse | OnConflict::KeepBoth => CreateIntent::Exclusive,
        };
        let size = source.meta().size;
        let how = Create { intent, expected_size: Some(size), append: false };
        let mut upload = self.vfs.create(&pair.to, how).await?;
        upload.set_times(None, Some(attributes.modified));
        self.file = Some(FileCopy { source, upload: Some(upload), at: 0, _open: open });
        Ok(())
    }

    /// Copies the next piece of the file at hand, or publishes it.
    async fn copy_piece(&mut self, mut file: FileCopy) -> Result<()> {
        let Some(upload) = &mut file.upload else { return Ok(()) };
        let left = file.source.meta().size.saturating_sub(file.at);
        if left == 0 {
            let Some(upload) = file.upload.take() else { return Ok(()) };
            upload.finish().await?;
            self.progress.files += 1;
            return Ok(());
        }
        let len = left.min(limits::COPY_PIECE_BYTES);
        let range = CopyRange { from: file.at, at: file.at, len };
        let copied = upload.copy_range(&*file.source, range).await?;
        if copied == 0 {
            return Err(VfsError::Conflict);
        }
        file.at += copied;
        self.progress.bytes += copied;
        self.file = Some(file);
        Ok(())
    }
}

impl Drop for FileCopy {
    fn drop(&mut self) {
        // A copy is not resumed: nothing is kept of what it did not end.
        if let Some(upload) = self.upload.take() {
            later(upload.abort());
        }
    }
}
