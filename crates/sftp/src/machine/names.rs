//! Requests on paths.

use bytes::Bytes;
use entrepot_nouns::Right;
use entrepot_nouns::VPath;
use entrepot_sftp_proto::reply::{self, Statvfs};
use entrepot_sftp_proto::{Attrs, SymlinkOrder};
use entrepot_vfs::{Attributes, Create, CreateIntent, EntryKind, Existing, VfsError};

use super::channel_state::ChannelState;
use crate::attributes::timestamps;
use crate::limits::STATVFS_BLOCK_BYTES;
use crate::problem::Problem;

/// Where links are not offered the packet is unknown, as it always was.
fn offered(error: VfsError) -> Problem {
    match error {
        VfsError::Unsupported => Problem::NotServed,
        other => Problem::Vfs(other),
    }
}

impl ChannelState {
    fn used(&mut self, sent: &str) -> Result<VPath, Problem> {
        let path = self.shared.path(sent)?;
        self.notice(&path);
        Ok(path)
    }

    /// STAT: the channel's own open upload first, then what the session may see.
    pub(super) async fn stat(&mut self, id: u32, sent: &str) -> Result<Bytes, Problem> {
        let path = self.used(sent)?;
        let attributes = match self.own_attributes(&path) {
            Some(attributes) => attributes,
            None => self.shared.session.vfs().stat(&path).await?,
        };
        Ok(reply::attrs(id, &self.shared.owner.attrs(&attributes)))
    }

    /// LSTAT: the same, but a link is told itself.
    pub(super) async fn lstat(&mut self, id: u32, sent: &str) -> Result<Bytes, Problem> {
        let path = self.used(sent)?;
        let attributes = match self.own_attributes(&path) {
            Some(attributes) => attributes,
            None => self.shared.session.vfs().lstat(&path).await?,
        };
        Ok(reply::attrs(id, &self.shared.owner.attrs(&attributes)))
    }

    fn own_attributes(&mut self, path: &VPath) -> Option<Attributes> {
        let now = self.shared.env.now();
        self.own_upload(path).map(|open| open.file.attributes(now))
    }

    /// SETSTAT: the published file, else the channel's own open upload.
    pub(super) async fn set(&mut self, sent: &str, attrs: &Attrs) -> Result<(), Problem> {
        let mut path = self.used(sent)?;
        let found = self.shared.session.vfs().stat(&path).await;
        let published = found.as_ref().is_ok_and(|found| !found.partial);
        if !published {
            path = self.shared.session.vfs().resolve(&path).await?;
        }
        if !published && let Some(open) = self.own_upload(&path) {
            return Ok(open.set(attrs).await?);
        }
        found?;
        self.set_published(&path, attrs).await
    }

    /// `lsetstat@openssh.com`: of a link itself there is nothing to set.
    pub(super) async fn set_itself(&mut self, sent: &str, attrs: &Attrs) -> Result<(), Problem> {
        let path = self.used(sent)?;
        match self.shared.session.vfs().lstat(&path).await?.kind {
            EntryKind::Link if attrs.times.is_some() || attrs.permissions.is_some() => {
                Err(Problem::LinkAttributes)
            }
            EntryKind::Link => Ok(()),
            EntryKind::File | EntryKind::Directory => self.set(sent, attrs).await,
        }
    }

    /// Sets size, permission bits and times of a published file. Where no bits are kept it is
    /// answered as if they were: clients set them behind an upload, and tell their user that it
    /// went wrong otherwise. The owner is ours and passes unchanged.
    pub(super) async fn set_published(&self, path: &VPath, attrs: &Attrs) -> Result<(), Problem> {
        let vfs = self.shared.session.vfs();
        if let Some(size) = attrs.size {
            let found = vfs.stat(path).await?;
            if found.kind == EntryKind::Directory {
                return Err(VfsError::IsDirectory.into());
            }
            if found.size != size {
                let how =
                    Create { intent: CreateIntent::Continue, expected_size: None, append: false };
                let mut file = vfs.create(path, how).await?;
                file.set_len(size).await?;
                file.finish().await?;
            }
        }
        if let Some(mode) = attrs.mode() {
            vfs.set_mode(path, mode).await?;
        }
        if let Some(times) = attrs.times {
            let (accessed, modified) = timestamps(times);
            vfs.set_times(path, Some(accessed), Some(modified)).await?;
        }
        Ok(())
    }

    pub(super) async fn remove(&mut self, sent: &str) -> Result<(), Problem> {
        let path = self.used(sent)?;
        self.remove_file(&path).await
    }

    pub(super) async fn make_directory(
        &mut self,
        sent: &str,
        attrs: &Attrs,
    ) -> Result<(), Problem> {
        let path = self.used(sent)?;
        let vfs = self.shared.session.vfs();
        match attrs.mode() {
            Some(mode) => Ok(vfs.make_directory_with_mode(&path, mode).await?),
            None => Ok(vfs.make_directory(&path).await?),
        }
    }

    pub(super) async fn remove_directory(&mut self, sent: &str) -> Result<(), Problem> {
        let path = self.used(sent)?;
        Ok(self.shared.session.vfs().remove_directory(&path).await?)
    }

    /// RENAME refuses a taken name, `posix-rename@openssh.com` replaces it.
    pub(super) async fn rename(
        &mut self,
        from: &str,
        to: &str,
        existing: Existing,
    ) -> Result<(), Problem> {
        let (from, to) = (self.used(from)?, self.used(to)?);
        self.rename_file(&from, &to, existing).await
    }

    /// `hardlink@openssh.com` (OpenSSH `PROTOCOL` §4.5): a second name for a file.
    pub(super) async fn link(&mut self, from: &str, to: &str) -> Result<(), Problem> {
        let (from, to) = (self.used(from)?, self.used(to)?);
        Ok(self.shared.session.vfs().link(&from, &to).await?)
    }

    /// READLINK: the target as the link holds it, which is relative to the link's directory.
    pub(super) async fn read_link(&mut self, id: u32, sent: &str) -> Result<Bytes, Problem> {
        let path = self.used(sent)?;
        let said = self.shared.session.vfs().read_link(&path).await;
        Ok(reply::one_name(id, &said.map_err(offered)?))
    }

    /// SYMLINK, its paths in the order of the client.
    pub(super) async fn make_link(&mut self, first: &str, second: &str) -> Result<(), Problem> {
        let (target, link) = match self.shared.software.symlinks {
            SymlinkOrder::TargetFirst => (first, second),
            SymlinkOrder::LinkFirst => (second, first),
        };
        let link = self.used(link)?;
        self.shared.session.vfs().make_link(target, &link).await.map_err(offered)
    }

    /// `~` and `~/x`; any other user gives the same answer whether there is one or not.
    pub(super) fn expand(&self, id: u32, sent: &str) -> Result<Bytes, Problem> {
        let Some(rest) = sent.strip_prefix('~') else {
            return Ok(reply::one_name(id, self.shared.path(sent)?.as_str()));
        };
        let (user, rest) = rest.split_once('/').unwrap_or((rest, ""));
        self.check_user(user)?;
        Ok(reply::one_name(id, self.shared.path(rest.trim_start_matches('/'))?.as_str()))
    }

    pub(super) fn home_of(&self, id: u32, user: &str) -> Result<Bytes, Problem> {
        self.check_user(user)?;
        Ok(reply::one_name(id, self.shared.session.vfs().home().as_str()))
    }

    fn check_user(&self, user: &str) -> Result<(), Problem> {
        let own = user.is_empty() || user == self.shared.owner.account;
        if own { Ok(()) } else { Err(Problem::User) }
    }

    pub(super) async fn space(&mut self, id: u32, path: &VPath) -> Result<Bytes, Problem> {
        self.notice(path);
        let vfs = self.shared.session.vfs();
        let rights = vfs.stat(path).await?.rights;
        let space = vfs.space(path).await?;
        let answer = Statvfs {
            block_bytes: STATVFS_BLOCK_BYTES,
            blocks: space.total_bytes / STATVFS_BLOCK_BYTES,
            free_blocks: space.free_bytes / STATVFS_BLOCK_BYTES,
            files: space.total_files,
            free_files: space.free_files,
            read_only: !rights.has(Right::Write),
        };
        Ok(answer.reply(id))
    }
}
