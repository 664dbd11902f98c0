//! Open files: OPEN, READ, WRITE, CLOSE and what else has a handle.

use bytes::{Bytes, BytesMut};
use entrepot_nouns::VPath;
use entrepot_sftp_proto::reply::{self, Names};
use entrepot_sftp_proto::{Attrs, Handle, OpenFlags};
use entrepot_vfs::{Create, CreateIntent, EntryKind, ModeOrigin, Upload, Uploaded, VfsError};

use super::channel_state::ChannelState;
use super::open::{Access, Open, OpenCounts, OpenDownload, OpenListing, OpenShared, OpenUpload};
use crate::attributes::timestamps;
use crate::limits::LISTING_PAGE;
use crate::out::Out;
use crate::parked::Read;
use crate::problem::Problem;

impl ChannelState {
    pub(super) async fn open(
        &mut self,
        id: u32,
        sent: &str,
        flags: OpenFlags,
        attrs: &Attrs,
    ) -> Result<Bytes, Problem> {
        let path = self.shared.path(sent)?;
        let counted = self.shared.count()?;
        self.notice(&path);
        let running = self.shared.meter.running();
        let open = if let Some(path) = self.written_here(&path, flags).await? {
            let held = OpenCounts { _running: running, _counted: counted };
            Open::Shared(Box::new(OpenShared::new(path, flags, held)))
        } else if flags.has(OpenFlags::WRITE) {
            let held = OpenCounts { _running: running, _counted: counted };
            let mut open = self.open_upload(path, flags, held).await?;
            if let Some(times) = attrs.times {
                let (accessed, modified) = timestamps(times);
                open.file.set_times(Some(accessed), Some(modified));
            }
            if let Some(mode) = attrs.mode() {
                open.file.set_mode(mode, ModeOrigin::Creation);
            }
            Open::Upload(Box::new(open))
        } else {
            let file = self.shared.session.vfs().open(&path).await?;
            let (path, _running, _counted) = (file.path().clone(), running, counted);
            Open::Download(Box::new(OpenDownload { file, path, _running, _counted }))
        };
        let handle = self.handles.insert(open).map_err(|_| Problem::TooManyHandles)?;
        Ok(reply::handle(id, handle))
    }

    /// OPEN for writing: what the flags of SFTP mean where a file is staged until its CLOSE.
    async fn open_upload(
        &mut self,
        path: VPath,
        flags: OpenFlags,
        held: OpenCounts,
    ) -> Result<OpenUpload, Problem> {
        let vfs = self.shared.session.vfs();
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
        let access = if append { Access::Append } else { Access::Write };
        let mut open = self.begun(file, access, Some(held));
        open.continued = continued;
        open.replaces = intent == CreateIntent::New;
        Ok(open)
    }

    /// An upload that begins.
    pub(super) fn begun(
        &mut self,
        file: Upload,
        access: Access,
        held: Option<OpenCounts>,
    ) -> OpenUpload {
        self.uploads = self.uploads.wrapping_add(1);
        OpenUpload {
            path: file.path().clone(),
            file,
            number: self.uploads,
            access,
            replaces: false,
            continued: false,
            held,
        }
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
            Open::Shared(_) | Open::Removed(_) => return Box::pin(self.read_shared(read)).await,
            Open::Listing(_) => return Err(Problem::Handle),
        };
        Ok(data_or_eof(read.id, frame, len))
    }

    pub(super) fn upload(&mut self, handle: Handle) -> Result<&mut OpenUpload, Problem> {
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
        let open = match self.handles.get_mut(handle) {
            Some(Open::Upload(open)) => open,
            _ => return Box::pin(self.write_shared(handle, offset, data)).await,
        };
        let offset = open.place_of(offset);
        Ok(open.write(offset, data).await?)
    }

    /// CLOSE, whose answer waits until the publish is durable.
    pub(super) async fn close(&mut self, id: u32, handle: Handle) -> Bytes {
        match self.close_handle(handle).await {
            Ok(()) => reply::ok(id),
            Err(problem) => problem.answer(id),
        }
    }

    /// As [`ChannelState::close`], with a sentence for OpenSSH.
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
        match open {
            Open::Shared(open) => Box::pin(self.close_shared(*open)).await,
            Open::Upload(open) if self.is_writing() => Box::pin(self.close_writer(open)).await,
            open => self.close_whole(open).await,
        }
    }

    /// Ends what a handle stood for, and asks rules that look at it.
    pub(super) async fn close_whole(&mut self, open: Open) -> Result<(), Problem> {
        if self.rules.are_any() {
            return Box::pin(self.close_hooked(open)).await;
        }
        self.close_open(open).await.map(drop)
    }

    /// What an upload published.
    pub(super) async fn close_open(&self, open: Open) -> Result<Option<Uploaded>, Problem> {
        match open {
            Open::Listing(_) | Open::Removed(_) => Ok(None),
            Open::Download(open) => {
                open.file.finish().await;
                Ok(None)
            }
            Open::Shared(open) => {
                open.finish().await;
                Ok(None)
            }
            Open::Upload(open) => self.close_upload(*open).await,
        }
    }

    async fn close_upload(&self, open: OpenUpload) -> Result<Option<Uploaded>, Problem> {
        if !open.publishes() {
            // `touch` of sshfs: there is nothing to publish.
            open.file.leave().await?;
            return Ok(None);
        }
        Ok(Some(open.file.finish().await?))
    }

    pub(super) async fn sync(&mut self, handle: Handle) -> Result<(), Problem> {
        match self.handles.get_mut(self.standing_for(handle)) {
            Some(Open::Upload(open)) => Ok(open.file.sync().await?),
            Some(Open::Download(_) | Open::Shared(_) | Open::Removed(_)) => Ok(()),
            _ => Err(Problem::Handle),
        }
    }

    /// FSETSTAT: kept for the publish.
    pub(super) async fn set_open(&mut self, handle: Handle, attrs: &Attrs) -> Result<(), Problem> {
        let open = match self.handles.get_mut(handle) {
            Some(Open::Upload(open)) => open,
            Some(Open::Shared(_)) => return Box::pin(self.set_shared(handle, attrs)).await,
            Some(other) => {
                let path = other.path().clone();
                return self.set_published(&path, attrs).await;
            }
            None => return Err(Problem::Handle),
        };
        Ok(open.set(attrs).await?)
    }

    pub(super) async fn stat_open(&mut self, id: u32, handle: Handle) -> Result<Bytes, Problem> {
        let handle = self.standing_for(handle);
        let attributes = match self.handles.get(handle).ok_or(Problem::Handle)? {
            Open::Download(open) => open.file.attributes().clone(),
            Open::Upload(open) => open.file.attributes(self.shared.env.now()),
            Open::Listing(open) => {
                let path = open.path.clone();
                self.shared.session.vfs().stat(&path).await?
            }
            Open::Shared(open) => {
                let path = open.path.clone();
                self.shared.session.vfs().stat(&path).await?
            }
            Open::Removed(_) => return Err(VfsError::NotFound.into()),
        };
        Ok(reply::attrs(id, &self.shared.owner.attrs(&attributes)))
    }

    /// This channel's own open upload of a name, as clients ask for its size.
    pub(super) fn own_upload(&mut self, path: &VPath) -> Option<&mut OpenUpload> {
        let uploads = self.handles.iter_mut().filter_map(|(_, open)| match open {
            Open::Upload(open) if open.path == *path => Some(&mut **open),
            _ => None,
        });
        uploads.max_by_key(|open| open.number)
    }

    pub(super) async fn open_listing(&mut self, id: u32, sent: &str) -> Result<Bytes, Problem> {
        let path = self.shared.path(sent)?;
        let counted = self.shared.count()?;
        self.notice(&path);
        let listing = self.shared.session.vfs().list(&path).await?;
        let open = OpenListing { listing, path, page: Vec::new(), ended: false, _counted: counted };
        let open = Open::Listing(Box::new(open));
        let handle = self.handles.insert(open).map_err(|_| Problem::TooManyHandles)?;
        Ok(reply::handle(id, handle))
    }

    /// READDIR: a NAME of at most 32 KiB, EOF at the end and ever after.
    pub(super) async fn list(&mut self, id: u32, handle: Handle) -> Result<Bytes, Problem> {
        let now = self.shared.env.now();
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
            let attrs = self.shared.owner.attrs(&entry.attributes);
            let long = self.shared.owner.long_name(&entry.name, &attrs, now);
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

/// DATA as far as there is something, else EOF.
pub(super) fn data_or_eof(id: u32, frame: BytesMut, len: usize) -> Bytes {
    let filled = frame.len().saturating_sub(reply::DATA_HEADER_BYTES);
    if filled == 0 && len > 0 { reply::eof(id) } else { reply::seal_data(id, frame, filled) }
}
