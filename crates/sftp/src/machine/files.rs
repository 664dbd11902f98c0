//! Open files: OPEN, READ, WRITE, CLOSE and what else has a handle.

use bytes::Bytes;
use entrepot_model::{Rights, Timestamp, VPath};
use entrepot_net::meter::Running;
use entrepot_sftp_proto::reply::{self, Names};
use entrepot_sftp_proto::{Attrs, Handle, OpenFlags};
use entrepot_vfs::{
    Attributes, Create, CreateIntent, Download, Entry, EntryKind, Listing, Upload, Uploaded,
    VfsError,
};

use super::{Core, Counted, Problem};
use crate::attributes::timestamps;
use crate::limits::LISTING_PAGE;
use crate::out::Out;
use crate::parked::Read;

/// What a handle stands for.
pub(super) enum Open {
    Download(Box<OpenDownload>),
    Upload(Box<OpenUpload>),
    Listing(Box<OpenListing>),
}

pub(super) struct OpenDownload {
    pub(super) file: Download,
    pub(super) path: VPath,
    _running: Running,
    _counted: Counted,
}

pub(super) struct OpenUpload {
    pub(super) file: Upload,
    pub(super) path: VPath,
    /// Every WRITE goes to the end.
    append: bool,
    /// There was a file or a partial before, and it is continued.
    continued: bool,
    /// Something was written, or the size set.
    touched: bool,
    times: Option<(Timestamp, Timestamp)>,
    /// Why a WRITE was refused: then nothing is published.
    refused: Option<VfsError>,
    _running: Running,
    _counted: Counted,
}

pub(super) struct OpenListing {
    listing: Listing,
    path: VPath,
    /// Entries of the page at hand, last first.
    page: Vec<Entry>,
    ended: bool,
    _counted: Counted,
}

impl Open {
    /// Its path.
    pub(super) fn path(&self) -> &VPath {
        match self {
            Open::Download(open) => &open.path,
            Open::Upload(open) => &open.path,
            Open::Listing(open) => &open.path,
        }
    }

    /// A rule refused its end: nothing of an upload is kept.
    pub(super) async fn discard(self) {
        match self {
            Open::Upload(open) => open.file.abort().await,
            Open::Download(open) => open.file.finish().await,
            Open::Listing(_) => {}
        }
    }

    /// The channel is over: an upload is kept to be resumed.
    pub(super) async fn interrupt(self, reason: &str) {
        if let Open::Upload(open) = self {
            match open.refused {
                Some(_) => open.file.abort().await,
                None => open.file.interrupt(reason).await,
            }
        }
    }
}

impl Core {
    pub(super) async fn open(
        &mut self,
        id: u32,
        sent: &str,
        flags: OpenFlags,
        attrs: &Attrs,
    ) -> Result<Bytes, Problem> {
        let path = self.account.path(sent)?;
        let counted = self.account.count()?;
        self.notice(&path);
        let running = self.account.meter.running();
        let open = if flags.has(OpenFlags::WRITE) {
            let mut open = self.open_upload(path, flags, (running, counted)).await?;
            if let Some(times) = attrs.times {
                open.set_times(timestamps(times));
            }
            Open::Upload(Box::new(open))
        } else {
            let file = self.account.session.vfs().open(&path).await?;
            let (path, _running, _counted) = (file.path().clone(), running, counted);
            Open::Download(Box::new(OpenDownload { file, path, _running, _counted }))
        };
        let handle = self.handles.insert(open).map_err(|_| Problem::TooManyHandles)?;
        Ok(reply::handle(id, handle))
    }

    /// The table "OPEN over staging".
    async fn open_upload(
        &self,
        path: VPath,
        flags: OpenFlags,
        (_running, _counted): (Running, Counted),
    ) -> Result<OpenUpload, Problem> {
        let vfs = self.account.session.vfs();
        let creates = flags.has(OpenFlags::CREATE);
        let exclusive = creates && flags.has(OpenFlags::EXCLUSIVE);
        let keeps = !exclusive && !flags.has(OpenFlags::TRUNCATE);
        let continued = if keeps || !creates {
            match vfs.stat(&path).await {
                Ok(found) if found.kind == EntryKind::Directory => {
                    return Err(VfsError::IsDirectory.into());
                }
                Ok(_) => keeps,
                Err(VfsError::NotFound) if creates => false,
                Err(error) => return Err(error.into()),
            }
        } else {
            false
        };
        let intent = match (exclusive, keeps) {
            (true, _) => CreateIntent::Exclusive,
            (false, true) => CreateIntent::Continue,
            (false, false) => CreateIntent::New,
        };
        let append = flags.has(OpenFlags::APPEND);
        let how = Create { intent, expected_size: None, append };
        let mut file = vfs.create(&path, how).await?;
        if flags.has(OpenFlags::READ) {
            file.expect_any_order().await?;
        }
        Ok(OpenUpload {
            path: file.path().clone(),
            file,
            append,
            continued,
            touched: false,
            times: None,
            refused: None,
            _running,
            _counted,
        })
    }

    /// The answer to a READ: DATA, EOF or an error.
    pub(super) async fn read(&mut self, read: Read) -> Bytes {
        match self.read_file(read).await {
            Ok(answer) => answer,
            Err(problem) => problem.answer(read.id),
        }
    }

    async fn read_file(&mut self, read: Read) -> Result<Bytes, Problem> {
        let len = reply::data_len(read.len);
        let open = self.handles.get_mut(read.handle).ok_or(Problem::Handle)?;
        if read.offset > FILE_BYTES {
            // No file reaches there, and the system calls take the largest for "here".
            return Ok(reply::eof(read.id));
        }
        let frame = match open {
            Open::Download(open) => {
                let mut frame = self.buffer.begin(len);
                match open.file.try_read_at(read.offset, reply::data_space(&mut frame)) {
                    Ok(Some(filled)) if filled > 0 || len == 0 => {
                        return Ok(self.buffer.seal(read.id, frame, filled));
                    }
                    Ok(Some(_)) => {
                        self.buffer.put_back(frame);
                        return Ok(reply::eof(read.id));
                    }
                    Ok(None) => self.buffer.put_back(frame),
                    Err(error) => return Err(error.into()),
                }
                open.file.read_at(read.offset, reply::data_frame(len), len).await?
            }
            Open::Upload(open) => {
                open.file.read_at(read.offset, reply::data_frame(len), len).await?
            }
            Open::Listing(_) => return Err(Problem::Handle),
        };
        let filled = frame.len().saturating_sub(reply::DATA_HEADER_BYTES);
        if filled == 0 && len > 0 {
            return Ok(reply::eof(read.id));
        }
        Ok(reply::seal_data(read.id, frame, filled))
    }

    fn upload(&mut self, handle: Handle) -> Result<&mut OpenUpload, Problem> {
        match self.handles.get_mut(handle) {
            Some(Open::Upload(open)) => Ok(open),
            _ => Err(Problem::Handle),
        }
    }

    pub(super) async fn write(
        &mut self,
        handle: Handle,
        offset: u64,
        data: &[u8],
    ) -> Result<(), Problem> {
        let open = self.upload(handle)?;
        if let Some(refused) = &open.refused {
            return Err(refused.clone().into());
        }
        let written = open.write(offset, data).await;
        if let Err(error) = &written {
            open.refused = Some(error.clone());
        }
        Ok(written?)
    }

    /// CLOSE, whose answer waits until the publish is durable.
    pub(super) async fn close(&mut self, id: u32, handle: Handle) -> Bytes {
        match self.close_handle(handle).await {
            Ok(()) => reply::ok(id),
            Err(problem) => problem.answer(id),
        }
    }

    /// As [`Core::close`], with a sentence for OpenSSH.
    pub(super) async fn close_told(
        &mut self,
        id: u32,
        handle: Handle,
        out: &mut impl Out,
    ) -> Bytes {
        match self.close_handle(handle).await {
            Ok(()) => reply::ok(id),
            Err(problem) => self.refuse(id, &problem, out),
        }
    }

    async fn close_handle(&mut self, handle: Handle) -> Result<(), Problem> {
        let open = self.handles.remove(handle).ok_or(Problem::Handle)?;
        if self.handles.is_empty() {
            self.buffer.shrink();
        }
        match self.hooked {
            true => Box::pin(self.close_hooked(open)).await,
            false => self.close_open(open).await.map(drop),
        }
    }

    /// What an upload published.
    pub(super) async fn close_open(&self, open: Open) -> Result<Option<Uploaded>, Problem> {
        match open {
            Open::Listing(_) => Ok(None),
            Open::Download(open) => {
                open.file.finish().await;
                Ok(None)
            }
            Open::Upload(open) => self.close_upload(*open).await,
        }
    }

    async fn close_upload(&self, open: OpenUpload) -> Result<Option<Uploaded>, Problem> {
        if let Some(refused) = open.refused {
            open.file.abort().await;
            return Err(refused.into());
        }
        if open.continued && !open.touched {
            // `touch` of sshfs: there is nothing to publish.
            open.file.interrupt("nothing was written").await;
            if let Some((accessed, modified)) = open.times {
                let vfs = self.account.session.vfs();
                vfs.set_times(&open.path, Some(accessed), Some(modified)).await?;
            }
            return Ok(None);
        }
        Ok(Some(open.file.finish().await?))
    }

    pub(super) async fn sync(&mut self, handle: Handle) -> Result<(), Problem> {
        match self.handles.get_mut(handle) {
            Some(Open::Upload(open)) => Ok(open.file.sync().await?),
            Some(Open::Download(_)) => Ok(()),
            _ => Err(Problem::Handle),
        }
    }

    /// FSETSTAT: kept for the publish.
    pub(super) async fn set_open(&mut self, handle: Handle, attrs: &Attrs) -> Result<(), Problem> {
        let open = match self.handles.get_mut(handle) {
            Some(Open::Upload(open)) => open,
            Some(other) => {
                let path = other.path().clone();
                return self.set_published(&path, attrs).await;
            }
            None => return Err(Problem::Handle),
        };
        if let Some(size) = attrs.size {
            open.set_len(size).await?;
        }
        if let Some(times) = attrs.times {
            open.set_times(timestamps(times));
        }
        Ok(())
    }

    pub(super) async fn stat_open(&mut self, id: u32, handle: Handle) -> Result<Bytes, Problem> {
        let attributes = match self.handles.get(handle).ok_or(Problem::Handle)? {
            Open::Download(open) => open.file.attributes().clone(),
            Open::Upload(open) => open.attributes(self.account.env.now()),
            Open::Listing(open) => {
                let path = open.path.clone();
                self.account.session.vfs().stat(&path).await?
            }
        };
        Ok(reply::attrs(id, &self.account.owner.attrs(&attributes)))
    }

    /// This channel's own open upload of a name, as clients ask for its size.
    pub(super) fn own_upload(&mut self, path: &VPath) -> Option<&mut OpenUpload> {
        self.handles.iter_mut().find_map(|(_, open)| match open {
            Open::Upload(open) if open.path == *path => Some(&mut **open),
            _ => None,
        })
    }

    pub(super) async fn open_listing(&mut self, id: u32, sent: &str) -> Result<Bytes, Problem> {
        let path = self.account.path(sent)?;
        let counted = self.account.count()?;
        self.notice(&path);
        let listing = self.account.session.vfs().list(&path).await?;
        let open = OpenListing { listing, path, page: Vec::new(), ended: false, _counted: counted };
        let open = Open::Listing(Box::new(open));
        let handle = self.handles.insert(open).map_err(|_| Problem::TooManyHandles)?;
        Ok(reply::handle(id, handle))
    }

    /// READDIR: a NAME of at most 32 KiB, EOF at the end and ever after.
    pub(super) async fn list(&mut self, id: u32, handle: Handle) -> Result<Bytes, Problem> {
        let now = self.account.env.now();
        let Some(Open::Listing(open)) = self.handles.get_mut(handle) else {
            return Err(Problem::Handle);
        };
        if open.page.is_empty() && !open.ended {
            open.page = open.listing.next_page(LISTING_PAGE).await?;
            open.page.reverse();
            open.ended = open.page.is_empty();
        }
        let mut names = Names::new(id, open.page.len() * 128);
        while let Some(entry) = open.page.last() {
            let attrs = self.account.owner.attrs(&entry.attributes);
            let long = self.account.owner.long_name(&entry.name, &attrs, now);
            if !names.push(&entry.name, &long, &attrs) {
                break;
            }
            open.page.pop();
        }
        match names.count() {
            0 => Err(Problem::EndOfList),
            _ => Ok(names.finish()),
        }
    }
}

/// Bytes of the longest file that system calls can speak of (`off_t`).
const FILE_BYTES: u64 = i64::MAX.unsigned_abs();

fn check_end(end: u64) -> Result<(), VfsError> {
    match end > FILE_BYTES {
        true => Err(VfsError::Quota { what: "bytes a file", limit: FILE_BYTES }),
        false => Ok(()),
    }
}

impl OpenUpload {
    async fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), VfsError> {
        let offset = if self.append { self.file.size() } else { offset };
        check_end(offset.saturating_add(u64::try_from(data.len()).unwrap_or(u64::MAX)))?;
        self.touched = true;
        if self.file.try_write_at(offset, data)? {
            return Ok(());
        }
        self.file.write_at(offset, Bytes::copy_from_slice(data)).await
    }

    /// Copies bytes of another file here.
    pub(super) async fn copy(
        &mut self,
        source: &Download,
        range: (u64, Option<u64>),
        offset: u64,
    ) -> Result<(), VfsError> {
        if let Some(refused) = &self.refused {
            return Err(refused.clone());
        }
        let offset = if self.append { self.file.size() } else { offset };
        check_end(offset.saturating_add(range.1.unwrap_or(0)))?;
        self.touched = true;
        let copied = self.file.copy_from(source, range, offset).await;
        if let Err(error) = &copied {
            self.refused = Some(error.clone());
        }
        copied.map(drop)
    }

    pub(super) async fn set_len(&mut self, size: u64) -> Result<(), VfsError> {
        if size == self.file.size() {
            return Ok(());
        }
        check_end(size)?;
        self.touched = true;
        self.file.set_len(size).await
    }

    pub(super) fn set_times(&mut self, (accessed, modified): (Timestamp, Timestamp)) {
        self.times = Some((accessed, modified));
        self.file.set_times(Some(accessed), Some(modified));
    }

    /// As its own channel sees it.
    pub(super) fn attributes(&self, now: Timestamp) -> Attributes {
        let (accessed, modified) = self.times.unwrap_or((now, now));
        Attributes {
            kind: EntryKind::File,
            size: self.file.size(),
            modified,
            accessed,
            rights: Rights::all(),
            partial: true,
            identity: None,
        }
    }
}
