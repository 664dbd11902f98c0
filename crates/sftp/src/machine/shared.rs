//! Several handles of one file in one channel, and requests on the name of a file that the channel
//! is writing.
//!
//! sshfs answers `close` before its CLOSE arrives here, and another of its threads may send the
//! next request on the file first. Programs on its mount expect the file as its writer left it, as
//! on any disk. So an OPEN of a file that the channel is writing shares its upload, a RENAME
//! publishes it first, and a REMOVE drops it. To everybody else it stays hidden until it is
//! published.

use bytes::Bytes;
use entrepot_nouns::{Right, VPath};
use entrepot_sftp_proto::{Attrs, Handle, OpenFlags, reply};
use entrepot_vfs::{Create, CreateIntent, Download, Existing, VfsError};

use super::channel_state::ChannelState;
use super::files::data_or_eof;
use super::open::{Access, Open, OpenShared, OpenUpload};
use crate::parked::Read;
use crate::problem::Problem;

impl ChannelState {
    pub(super) fn is_writing(&self) -> bool {
        self.handles.iter().any(|(_, open)| matches!(open, Open::Upload(_)))
    }

    /// Uploads of a name, in the order in which they began.
    fn writers(&self, path: &VPath) -> Vec<Handle> {
        let mut writers: Vec<(u64, Handle)> = self
            .handles
            .iter()
            .filter_map(|(handle, open)| match open {
                Open::Upload(open) if open.path == *path => Some((open.number, handle)),
                _ => None,
            })
            .collect();
        writers.sort_unstable_by_key(|(number, _)| *number);
        writers.into_iter().map(|(_, handle)| handle).collect()
    }

    /// The upload that requests on a name mean.
    fn writer(&self, path: &VPath) -> Option<Handle> {
        self.writers(path).pop()
    }

    /// The name of the file, if OPEN asks for one that this channel is writing. What is to be
    /// emptied or made anew begins apart.
    pub(super) async fn written_here(
        &self,
        path: &VPath,
        flags: OpenFlags,
    ) -> Result<Option<VPath>, Problem> {
        let anew = flags.has(OpenFlags::TRUNCATE) || flags.has(OpenFlags::EXCLUSIVE);
        if (flags.has(OpenFlags::WRITE) && anew) || !self.is_writing() {
            return Ok(None);
        }
        let vfs = self.shared.session.vfs();
        let path = vfs.resolve(path).await?;
        let writer = self.writer(&path).and_then(|handle| self.handles.get(handle));
        if !matches!(writer, Some(Open::Upload(open)) if open.file.refusal().is_none()) {
            return Ok(None);
        }
        if !flags.has(OpenFlags::WRITE) {
            vfs.need(&path, Right::Read).await?;
        }
        Ok(Some(path))
    }

    fn shared(&mut self, handle: Handle) -> Result<&mut OpenShared, Problem> {
        match self.handles.get_mut(handle) {
            Some(Open::Shared(open)) => Ok(open),
            Some(Open::Removed(_)) => Err(VfsError::NotFound.into()),
            _ => Err(Problem::Handle),
        }
    }

    /// Where what is written through a shared handle goes: the upload of the file's writer, or a
    /// new one behind what is published.
    pub(super) async fn upload_behind(&mut self, handle: Handle) -> Result<Handle, Problem> {
        let shared = self.shared(handle)?;
        if shared.access == Access::Read {
            return Err(Problem::Handle);
        }
        if let Some(refused) = &shared.refused {
            return Err(refused.clone().into());
        }
        let (path, access) = (shared.path.clone(), shared.access);
        if let Some(writer) = self.writer(&path) {
            self.shared(handle)?.touched = true;
            return Ok(writer);
        }
        let append = access == Access::Append;
        let how = Create { intent: CreateIntent::Continue, expected_size: None, append };
        let created = self.shared.session.vfs().create(&path, how).await;
        let shared = self.shared(handle)?;
        shared.refused = created.as_ref().err().cloned();
        let (file, held) = (created?, shared.held.take());
        let open = self.begun(file, access, held);
        self.displace(handle, Open::Upload(Box::new(open)));
        Ok(handle)
    }

    pub(super) async fn write_shared(
        &mut self,
        handle: Handle,
        offset: u64,
        data: &[u8],
    ) -> Result<(), Problem> {
        let append = self.shared(handle)?.access == Access::Append;
        let writer = self.upload_behind(handle).await?;
        let open = self.upload(writer)?;
        let offset = if append { open.file.size() } else { offset };
        Ok(open.write(offset, data).await?)
    }

    pub(super) async fn read_shared(&mut self, read: Read) -> Result<Bytes, Problem> {
        let len = reply::data_len(read.len);
        let path = self.shared(read.handle)?.path.clone();
        let frame = reply::data_frame(len);
        let frame = match self.writer(&path) {
            Some(writer) => self.upload(writer)?.file.read_at(read.offset, frame, len).await?,
            None => {
                let published = self.published(read.handle).await?;
                published.read_at(read.offset, frame, len).await?
            }
        };
        Ok(data_or_eof(read.id, frame, len))
    }

    /// The file of a shared handle as it was published.
    pub(super) async fn published(&mut self, handle: Handle) -> Result<&Download, Problem> {
        let vfs = self.shared.session.vfs().clone();
        let shared = self.shared(handle)?;
        let file = match shared.published.take() {
            Some(file) => file,
            None => vfs.open(&shared.path).await?,
        };
        Ok(shared.published.insert(file))
    }

    /// FSETSTAT through a shared handle.
    pub(super) async fn set_shared(
        &mut self,
        handle: Handle,
        attrs: &Attrs,
    ) -> Result<(), Problem> {
        let path = self.shared(handle)?.path.clone();
        match self.writer(&path) {
            Some(writer) => {
                self.shared(handle)?.touched = true;
                Ok(self.upload(writer)?.set(attrs).await?)
            }
            None => self.set_published(&path, attrs).await,
        }
    }

    /// The handle that has the upload of what `handle` stands for, else `handle` itself.
    pub(super) fn standing_for(&self, handle: Handle) -> Handle {
        match self.handles.get(handle) {
            Some(Open::Shared(open)) => self.writer(&open.path).unwrap_or(handle),
            _ => handle,
        }
    }

    pub(super) async fn close_shared(&mut self, open: OpenShared) -> Result<(), Problem> {
        if open.touched
            && let Some(writer) = self.writer(&open.path)
        {
            self.close_early(writer).await?;
        }
        let refused = open.refused.clone();
        self.close_whole(Open::Shared(Box::new(open))).await?;
        refused.map_or(Ok(()), |refused| Err(refused.into()))
    }

    /// Publishes what has come, as its CLOSE would. The handle stays open and stands for the name.
    async fn close_early(&mut self, handle: Handle) -> Result<(), Problem> {
        let Some(Open::Upload(open)) = self.handles.get_mut(handle) else { return Ok(()) };
        let shared = OpenShared::behind(open);
        match self.displace(handle, Open::Shared(Box::new(shared))) {
            Some(Open::Upload(open)) => self.close_writer(open).await,
            _ => Ok(()),
        }
    }

    /// CLOSE of an upload where others are open.
    pub(super) async fn close_writer(&mut self, open: Box<OpenUpload>) -> Result<(), Problem> {
        let published = open.publishes().then(|| (open.path.clone(), open.number));
        self.close_whole(Open::Upload(open)).await?;
        if let Some((path, number)) = published {
            self.drop_older(&path, number).await;
        }
        Ok(())
    }

    /// What `handle` stood for.
    fn displace(&mut self, handle: Handle, with: Open) -> Option<Open> {
        self.handles.get_mut(handle).map(|slot| std::mem::replace(slot, with))
    }

    /// A file was published: uploads that had begun before it would bring an older one back, were
    /// they closed now. Those that are laid over a file, or want the name to be free, fail then.
    async fn drop_older(&mut self, path: &VPath, number: u64) {
        for handle in self.writers(path) {
            let Some(Open::Upload(open)) = self.handles.get_mut(handle) else { continue };
            if open.number > number || !open.replaces {
                continue;
            }
            let shared = OpenShared::behind(open);
            if let Some(older) = self.displace(handle, Open::Shared(Box::new(shared))) {
                older.discard().await;
            }
        }
    }

    /// RENAME: what this channel is writing under the old name is published first, and its handles
    /// follow it.
    pub(super) async fn rename_file(
        &mut self,
        from: &VPath,
        to: &VPath,
        existing: Existing,
    ) -> Result<(), Problem> {
        let vfs = self.shared.session.vfs().clone();
        if !self.handles.iter().any(|(_, open)| open.is_by_name()) {
            return Ok(vfs.rename(from, to, existing).await.map(drop)?);
        }
        let own = vfs.resolve_itself(from).await?;
        let writers = self.writers(&own);
        if !writers.is_empty() {
            vfs.check_rename(from, to, existing).await?;
        }
        for writer in writers {
            self.close_early(writer).await?;
        }
        vfs.rename(from, to, existing).await?;
        let new = vfs.resolve_itself(to).await?;
        for (_, open) in self.handles.iter_mut() {
            if let Open::Shared(open) = open
                && open.path == own
            {
                open.path = new.clone();
            }
        }
        Ok(())
    }

    /// REMOVE: what this channel is writing under the name goes too, whenever its CLOSE arrives.
    pub(super) async fn remove_file(&mut self, path: &VPath) -> Result<(), Problem> {
        let vfs = self.shared.session.vfs().clone();
        if !self.handles.iter().any(|(_, open)| open.is_by_name()) {
            return Ok(vfs.remove(path).await?);
        }
        let own = vfs.resolve_itself(path).await?;
        let writers = self.writers(&own);
        match vfs.remove(path).await {
            Err(VfsError::NotFound) if !writers.is_empty() => {}
            removed => removed?,
        }
        for writer in writers {
            if let Some(open) = self.displace(writer, Open::Removed(own.clone())) {
                open.discard().await;
            }
        }
        for (_, open) in self.handles.iter_mut() {
            if matches!(open, Open::Shared(shared) if shared.path == own) {
                *open = Open::Removed(own.clone());
            }
        }
        Ok(())
    }
}
