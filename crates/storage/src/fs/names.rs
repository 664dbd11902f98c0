//! Changes of names: remove, rename, directories, times. Each is durable when it returns.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use entrepot_nouns::{StorePath, TransferId};
use rustix::io::Errno;

use super::disk::{Access, DirEntry, Disk, Mounts, OpenHow, RenameHow, Stat, StatKind, Times};
use super::errors::{mode_error, walk_error};
use super::staging::KEPT;
use super::tree::{Links, Tree};
use crate::error::{Result, StoreError};
use crate::store::{EntryKind, Existing, ModeChange, Renamed};

/// Where a replaced file is kept: the staging directory and the name there.
type Kept<D> = (Arc<<D as Disk>::Dir>, String);

impl<D: Disk> Tree<D> {
    pub(super) fn remove(&self, path: &StorePath, links: Links) -> Result<()> {
        self.check_well()?;
        let (dir, name) = self.parent(path)?;
        if self.stat(DirEntry::new(&*dir, name), links)?.kind == StatKind::Directory {
            return Err(StoreError::IsDirectory);
        }
        self.disk.unlink(&dir, name)?;
        Ok(self.sync_dir(&dir)?)
    }

    pub(super) fn make_directory(&self, path: &StorePath, mode: u32) -> Result<()> {
        self.check_well()?;
        if path.is_root() {
            return Err(StoreError::Exists);
        }
        let (dir, name) = self.parent(path)?;
        self.disk.make_dir(&dir, name, Access::Shared(mode))?;
        if let Err(errno) = self.sync_dir(&dir) {
            self.undone(self.disk.remove_dir(&dir, name))?;
            return Err(errno.into());
        }
        Ok(())
    }

    pub(super) fn remove_directory(&self, path: &StorePath, links: Links) -> Result<()> {
        self.check_well()?;
        let (dir, name) = self.parent(path)?;
        if self.stat(DirEntry::new(&*dir, name), links)?.kind != StatKind::Directory {
            return Err(StoreError::NotDirectory);
        }
        self.forget_parent();
        self.disk.remove_dir(&dir, name)?;
        Ok(self.sync_dir(&dir)?)
    }

    pub(super) fn set_times(&self, path: &StorePath, times: Times) -> Result<()> {
        self.check_well()?;
        let root = self.disk.root();
        match self.disk.open_dir(root, path.as_str(), Mounts::Enter) {
            Ok(dir) => return Ok(self.disk.set_dir_times(&dir, times)?),
            Err(Errno::NOTDIR) => {}
            Err(errno) => return Err(walk_error(errno)),
        }
        let (file, _) = self.only_name(path)?;
        Ok(self.disk.set_file_times(&file, times)?)
    }

    /// Opens a file that has one name: of two, one may lie outside of the root.
    fn only_name(&self, path: &StorePath) -> Result<(D::File, Stat)> {
        let (root, how) = (self.disk.root(), OpenHow::Read);
        let file = self.disk.open_file(root, path.as_str(), how).map_err(walk_error)?;
        match self.disk.stat_file(&file)? {
            stat @ Stat { kind: StatKind::File, links: 0..=1, .. } => Ok((file, stat)),
            Stat { kind: StatKind::File, .. } => {
                Err(StoreError::Denied("the file has more than one name".to_owned()))
            }
            _ => Err(StoreError::NotFound),
        }
    }

    /// Sets permission bits on what was opened, so that nobody can swap the name meanwhile.
    pub(super) fn set_mode(&self, path: &StorePath, change: ModeChange) -> Result<u32> {
        self.check_well()?;
        match self.disk.open_dir(self.disk.root(), path.as_str(), Mounts::Enter) {
            Ok(dir) => {
                let now = self.disk.stat(&dir, "")?.mode;
                let mode = change.of(now, EntryKind::Directory);
                if mode != now {
                    self.disk.set_dir_mode(&dir, mode).map_err(mode_error)?;
                    self.disk.sync_dir(&dir)?;
                }
                return Ok(mode);
            }
            Err(Errno::NOTDIR) => {}
            Err(errno) => return Err(walk_error(errno)),
        }
        let (file, Stat { mode: now, .. }) = self.only_name(path)?;
        let mode = change.of(now, EntryKind::File);
        if mode != now {
            self.disk.set_file_mode(&file, mode).map_err(mode_error)?;
            self.disk.sync_file_whole(&file)?;
        }
        Ok(mode)
    }

    pub(super) fn link(&self, from: &StorePath, to: &StorePath) -> Result<()> {
        self.check_well()?;
        let (from_dir, from_name) = self.parent(from)?;
        let (to_dir, to_name) = self.parent(to)?;
        let source = DirEntry::new(&*from_dir, from_name);
        let file = self.stat(source, Links::Hidden)?;
        if file.kind == StatKind::Directory {
            return Err(StoreError::IsDirectory);
        }
        let target = DirEntry::new(&*to_dir, to_name);
        let was_other = self.repeats_requests() && !self.has(target, &file);
        match self.disk.link(source, target) {
            // A server repeats a request whose answer was lost, and then finds the name taken.
            Err(Errno::EXIST) if was_other && self.has(target, &file) => {}
            other => other?,
        }
        // The name may have become that of a link or device meanwhile: such a one is not kept.
        let linked = self.disk.stat(&to_dir, to_name).map(|stat| stat.kind);
        if linked != Ok(StatKind::File) {
            self.undone(self.disk.unlink(&to_dir, to_name))?;
            return Err(StoreError::NotFound);
        }
        if let Err(errno) = self.sync_dir(&to_dir) {
            self.undone(self.disk.unlink(&to_dir, to_name))?;
            return Err(errno.into());
        }
        Ok(())
    }

    /// What a link says; `None` if the name is that of a file or directory.
    pub(super) fn read_link(&self, path: &StorePath) -> Result<Option<String>> {
        if path.is_root() {
            return Ok(None);
        }
        let (dir, name) = self.parent(path)?;
        match self.disk.read_link(&dir, name) {
            Ok(text) => String::from_utf8(text).map(Some).map_err(|_| {
                StoreError::Denied("the link leads to a name that is not UTF-8".to_owned())
            }),
            Err(Errno::INVAL) => Ok(None),
            Err(errno) => Err(walk_error(errno)),
        }
    }

    pub(super) fn make_link(&self, target: &str, path: &StorePath) -> Result<()> {
        self.check_well()?;
        let (dir, name) = self.parent(path)?;
        self.disk.make_link(target, &dir, name)?;
        if let Err(errno) = self.sync_dir(&dir) {
            self.undone(self.disk.unlink(&dir, name))?;
            return Err(errno.into());
        }
        Ok(())
    }

    pub(super) fn rename(
        &self,
        from: &StorePath,
        to: &StorePath,
        existing: Existing,
        links: Links,
    ) -> Result<Renamed> {
        self.check_well()?;
        let (from_dir, from_name) = self.parent(from)?;
        let (to_dir, to_name) = self.parent(to)?;
        let source = DirEntry::new(&*from_dir, from_name);
        let target = DirEntry::new(&*to_dir, to_name);
        let moved = self.stat(source, links)?;
        if from == to {
            return match existing {
                Existing::Replace => Ok(Renamed::default()),
                Existing::Refuse => Err(StoreError::Exists),
            };
        }
        if moved.kind == StatKind::Directory {
            self.forget_parent();
        }
        let (mut kept, mut displaced) = (None, None);
        if let Some(taken) = self.stat_target(target, links)? {
            match (existing, moved.kind, taken.kind) {
                (Existing::Refuse, ..) => return Err(StoreError::Exists),
                (_, _, StatKind::Directory) => return Err(StoreError::IsDirectory),
                (_, StatKind::Directory, _) => return Err(StoreError::NotDirectory),
                _ => {
                    let is_there;
                    (kept, is_there) = self.keep(target, to)?;
                    displaced = is_there.then(|| taken.displaced());
                }
            }
        }
        let how = if displaced.is_some() { RenameHow::Replace } else { RenameHow::NoReplace };
        let result = self.move_name(&moved, source, target, how);
        let result = result.and_then(|()| {
            self.sync_dir(&to_dir)
                .and_then(|()| self.sync_dir(&from_dir))
                .or_else(|errno| self.undo_rename(source, target, kept.as_ref(), errno))
        });
        if let Some((staging, name)) = &kept {
            self.drop_staged_name(staging, name);
        }
        result.map(|()| Renamed { displaced })
    }

    fn move_name(
        &self,
        moved: &Stat,
        from: DirEntry<'_, D::Dir>,
        to: DirEntry<'_, D::Dir>,
        how: RenameHow,
    ) -> Result<()> {
        let result = match how {
            RenameHow::NoReplace => match self.rename_to_free(from, to) {
                Err(Errno::NOENT) if self.has(to, moved) => Ok(()),
                other => other,
            },
            RenameHow::Replace | RenameHow::Exchange => self.rename_known(moved, from, to, how),
        };
        result.map_err(|errno| match errno {
            Errno::INVAL => {
                StoreError::Denied("a directory cannot be moved into itself".to_owned())
            }
            other => other.into(),
        })
    }

    /// Renames a file or directory that was just looked at. A server repeats a request whose answer
    /// was lost, and then finds nothing of the old name: it is done if the new one has the file.
    pub(super) fn rename_known(
        &self,
        moved: &Stat,
        from: DirEntry<'_, D::Dir>,
        to: DirEntry<'_, D::Dir>,
        how: RenameHow,
    ) -> Result<(), Errno> {
        match self.disk.rename(from, to, how) {
            Err(Errno::NOENT) if self.has(to, moved) => Ok(()),
            other => other,
        }
    }

    /// True if the name is known to stand for this very file.
    pub(super) fn has(&self, entry: DirEntry<'_, D::Dir>, file: &Stat) -> bool {
        self.disk.stat(entry.dir, entry.name).is_ok_and(|found| found.is_same(file))
    }

    /// True where a request may be done twice because the answer to the first was lost.
    fn repeats_requests(&self) -> bool {
        !self.disk.nature().local || self.no_exchange.load(Ordering::Relaxed)
    }

    /// Renames to a name that must be free.
    pub(super) fn rename_to_free(
        &self,
        from: DirEntry<'_, D::Dir>,
        to: DirEntry<'_, D::Dir>,
    ) -> Result<(), Errno> {
        match self.disk.rename(from, to, RenameHow::NoReplace) {
            // The file system knows no flags (NFS): look, then rename.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                match self.disk.stat(to.dir, to.name) {
                    Err(Errno::NOENT) => self.disk.rename(from, to, RenameHow::Replace),
                    Err(errno) => Err(errno),
                    Ok(_) => Err(Errno::EXIST),
                }
            }
            other => other,
        }
    }

    /// Gives the file at `target` a second, hidden name, so that its replacement can be undone
    /// (where the file system has second names), and says whether there is a file to replace.
    fn keep(
        &self,
        target: DirEntry<'_, D::Dir>,
        path: &StorePath,
    ) -> Result<(Option<Kept<D>>, bool)> {
        let (_, _, staging) = self.parent_and_staging(path)?;
        let name = format!("{KEPT}{}", self.env.new_id::<TransferId>());
        match self.disk.link(target, DirEntry::new(&*staging, &name)) {
            // Nobody else makes this name: one that is taken was made by a request that came twice.
            Ok(()) | Err(Errno::EXIST) => Ok((Some((staging, name)), true)),
            Err(Errno::NOENT) => Ok((None, false)),
            Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS | Errno::MLINK) => Ok((None, true)),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Puts both names back after a failed sync.
    fn undo_rename(
        &self,
        from: DirEntry<'_, D::Dir>,
        to: DirEntry<'_, D::Dir>,
        kept: Option<&Kept<D>>,
        errno: Errno,
    ) -> Result<()> {
        let mut undone = self.rename_to_free(to, from);
        if let (Ok(()), Some((staging, name))) = (undone, kept) {
            undone = self.disk.link(DirEntry::new(&**staging, name), to);
        }
        self.undone(undone)?;
        Err(errno.into())
    }

    /// Notes the result of undoing: a store that cannot undo takes no more changes.
    pub(super) fn undone(&self, result: Result<(), Errno>) -> Result<()> {
        if let Err(errno) = result {
            let code = "EP0533";
            tracing::error!(code, %errno, "a failed change could not be undone: the store is sick");
            self.sick.store(true, Ordering::Release);
            return self.check_well();
        }
        Ok(())
    }

    /// Removes a name in staging that is no longer needed; what stays is swept later.
    pub(super) fn drop_staged_name(&self, staging: &D::Dir, name: &str) {
        match self.disk.unlink(staging, name) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => tracing::warn!(%errno, name, "a name in staging is left to be swept"),
        }
    }
}
