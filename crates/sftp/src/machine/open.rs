//! What the handles of a channel stand for.

use bytes::Bytes;
use entrepot_net::meter::Running;
use entrepot_nouns::VPath;
use entrepot_sftp_proto::{Attrs, OpenFlags};
use entrepot_vfs::{Download, Entry, Listing, ModeOrigin, Upload, VfsError};

use crate::attributes::timestamps;
use crate::connection::Counted;

/// What a handle stands for.
pub(super) enum Open {
    Download(Box<OpenDownload>),
    Upload(Box<OpenUpload>),
    Listing(Box<OpenListing>),
    /// A file by its name: another handle writes it, or did.
    Shared(Box<OpenShared>),
    /// A file that the channel removed while it wrote it.
    Removed(VPath),
}

/// What an open file counts for while it is open.
pub(super) struct OpenCounts {
    pub(super) _running: Running,
    pub(super) _counted: Counted,
}

pub(super) struct OpenDownload {
    pub(super) file: Download,
    pub(super) path: VPath,
    pub(super) _running: Running,
    pub(super) _counted: Counted,
}

pub(super) struct OpenUpload {
    pub(super) file: Upload,
    pub(super) path: VPath,
    /// Grows with every upload of the channel.
    pub(super) number: u64,
    /// Never [`Access::Read`]: who only reads has no upload.
    pub(super) access: Access,
    /// It replaces whatever has the name when it is closed.
    pub(super) replaces: bool,
    /// OPEN found a file or a partial and continues it: where nothing is written, the CLOSE has
    /// nothing to publish.
    pub(super) continued: bool,
    /// `None`: a handle that goes on after it took it over.
    pub(super) held: Option<OpenCounts>,
}

pub(super) struct OpenListing {
    pub(super) listing: Listing,
    pub(super) path: VPath,
    /// Entries of the page at hand, last first.
    pub(super) page: Vec<Entry>,
    pub(super) ended: bool,
    pub(super) _counted: Counted,
}

impl Open {
    /// The virtual path that it was opened by.
    pub(super) fn path(&self) -> &VPath {
        match self {
            Open::Download(open) => &open.path,
            Open::Upload(open) => &open.path,
            Open::Listing(open) => &open.path,
            Open::Shared(open) => &open.path,
            Open::Removed(path) => path,
        }
    }

    /// True for what a change of its name concerns.
    pub(super) fn is_by_name(&self) -> bool {
        matches!(self, Open::Upload(_) | Open::Shared(_))
    }

    /// A rule refused its end: nothing of an upload is kept.
    pub(super) async fn discard(self) {
        match self {
            Open::Upload(open) => open.file.abort().await,
            Open::Download(open) => open.file.finish().await,
            Open::Shared(open) => open.finish().await,
            Open::Listing(_) | Open::Removed(_) => {}
        }
    }

    /// The channel is over: an upload is kept to be resumed.
    pub(super) async fn interrupt(self, reason: &str) {
        if let Open::Upload(open) = self {
            open.file.interrupt(reason).await;
        }
    }
}

impl OpenUpload {
    /// Where bytes go that a client sends for `offset`: where its handle appends, to the end.
    pub(super) fn place_of(&self, offset: u64) -> u64 {
        if self.access == Access::Append { self.file.size() } else { offset }
    }

    /// False if there is nothing new to publish.
    pub(super) fn publishes(&self) -> bool {
        self.file.is_touched() || !self.continued
    }

    /// Writes; once that failed nothing is taken, and nothing will be published.
    pub(super) async fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), VfsError> {
        if self.file.try_write_at(offset, data)? {
            return Ok(());
        }
        self.file.write_at(offset, Bytes::copy_from_slice(data)).await
    }

    /// SETSTAT and FSETSTAT: kept for the publish.
    pub(super) async fn set(&mut self, attrs: &Attrs) -> Result<(), VfsError> {
        if let Some(size) = attrs.size {
            self.file.set_len(size).await?;
        }
        if let Some(mode) = attrs.mode() {
            self.file.set_mode(mode, ModeOrigin::Request);
        }
        if let Some(times) = attrs.times {
            let (accessed, modified) = timestamps(times);
            self.file.set_times(Some(accessed), Some(modified));
        }
        Ok(())
    }
}

/// A handle that stands for a file by its name: another handle of the channel writes the file, or
/// did so until it was published.
pub(super) struct OpenShared {
    pub(super) path: VPath,
    pub(super) access: Access,
    /// Something was written through it, so its CLOSE is answered when that is published.
    pub(super) touched: bool,
    /// Why nothing could be written through it: its CLOSE fails too.
    pub(super) refused: Option<VfsError>,
    /// What was published, once it was read here.
    pub(super) published: Option<Download>,
    pub(super) held: Option<OpenCounts>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
    /// Every WRITE goes to the end.
    Append,
}

impl Access {
    fn of(flags: OpenFlags) -> Access {
        if !flags.has(OpenFlags::WRITE) {
            Access::Read
        } else if flags.has(OpenFlags::APPEND) {
            Access::Append
        } else {
            Access::Write
        }
    }
}

impl OpenShared {
    pub(super) fn new(path: VPath, flags: OpenFlags, held: OpenCounts) -> OpenShared {
        let access = Access::of(flags);
        let (touched, refused, published) = (false, None, None);
        OpenShared { path, access, touched, refused, published, held: Some(held) }
    }

    /// What is left of an upload that ended before its CLOSE.
    pub(super) fn behind(open: &mut OpenUpload) -> OpenShared {
        OpenShared {
            path: open.path.clone(),
            access: open.access,
            touched: false,
            refused: None,
            published: None,
            held: open.held.take(),
        }
    }

    pub(super) async fn finish(self) {
        if let Some(published) = self.published {
            published.finish().await;
        }
    }
}
