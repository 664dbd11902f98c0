//! Publishing a staged file: times, permission bits, rename, directory sync; undone on any error.
//!
//! A name that is free is taken by `RENAME_NOREPLACE`. A name that is taken is exchanged
//! (`RENAME_EXCHANGE`): the old version waits under the staging name until the directory is
//! durable, and only then is removed. File systems without these flags (NFS) get a second name
//! for the old version and a plain rename, and `link`, which fails when the name is taken.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use entrepot_nouns::{Displaced, TransferId};
use rustix::io::Errno;

use super::disk::{DirEntry, Disk, RenameHow, Stat, StatKind, Times};
use super::staging::KEPT;
use super::tree::{Links, Tree};
use super::work::Work;
use crate::error::{Result, StoreError};
use crate::limits::NAME_RACE_TRIES;
use crate::store::{EntryKind, Existing, ModeChange, Publish, Published};

/// What a rename into place did, and so how to undo it.
enum Placed {
    /// The name was free.
    Fresh,
    /// The old version lies under the staging name.
    Exchanged { old: Stat },
    /// The old version lies under this name in staging.
    Kept { name: String, old: Stat },
    /// The old version is gone: the file system has neither exchange nor second names.
    Over { old: Stat },
}

impl Placed {
    /// What had the name before.
    fn displaced(&self) -> Option<Displaced> {
        match self {
            Placed::Fresh => None,
            Placed::Exchanged { old } | Placed::Kept { old, .. } | Placed::Over { old } => {
                Some(old.displaced())
            }
        }
    }
}

impl<D: Disk> Tree<D> {
    /// Publishes `work`. Blocks.
    pub(super) fn publish(&self, work: &Arc<Work<D>>, how: &Publish) -> Result<Published> {
        self.check_well()?;
        work.check_synced()?;
        let mut stat = self.disk.stat_file(&work.file)?;
        if stat.size != how.size {
            let (has, want) = (stat.size, how.size);
            return Err(StoreError::Io(format!("the file has {has} bytes instead of {want}")));
        }
        if how.accessed.is_some() || how.modified.is_some() {
            let times = Times { accessed: how.accessed, modified: how.modified };
            self.disk.set_file_times(&work.file, times)?;
            stat.accessed = how.accessed.unwrap_or(stat.accessed);
            stat.modified = how.modified.unwrap_or(stat.modified);
        }
        if let Some(change) = how.mode {
            self.set_staged_mode(work, &mut stat, change)?;
        }
        let (dir, name) = self.parent(&work.target)?;
        let target = DirEntry::new(&*dir, name);
        let placed = self.place(work, target, how.existing)?;
        if let Err(errno) = self.sync_dir(&dir) {
            self.undone(self.take_back(work, target, &placed, &stat))?;
            return Err(errno.into());
        }
        work.ended.store(true, Ordering::Release);
        match &placed {
            Placed::Fresh | Placed::Over { .. } => {}
            Placed::Exchanged { .. } => self.drop_staged_name(&work.staging, &work.name),
            Placed::Kept { name, .. } => self.drop_staged_name(&work.staging, name),
        }
        let meta = stat.meta().ok_or(StoreError::NotFound)?;
        Ok(Published { displaced: placed.displaced(), identity: meta.identity.clone(), meta })
    }

    /// Permission bits are set before the file is seen. A file system that has none, or lets nobody
    /// set them, keeps the file without.
    fn set_staged_mode(&self, work: &Work<D>, stat: &mut Stat, change: ModeChange) -> Result<()> {
        let mode = change.of(stat.mode, EntryKind::File);
        if mode == stat.mode {
            return Ok(());
        }
        match self.disk.set_file_mode(&work.file, mode) {
            Ok(()) => stat.mode = mode,
            Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS) => {
                tracing::debug!(path = %work.target, "the file system sets no permission bits");
            }
            Err(errno) => return Err(errno.into()),
        }
        Ok(())
    }

    /// Renames the staged file to its target, whatever others do to that name meanwhile.
    fn place(
        &self,
        work: &Work<D>,
        target: DirEntry<'_, D::Dir>,
        existing: Existing,
    ) -> Result<Placed> {
        let staged = DirEntry::new(&*work.staging, &work.name);
        for _ in 0..NAME_RACE_TRIES {
            if self.no_exchange.load(Ordering::Relaxed) {
                return self.place_plainly(work, target, existing);
            }
            match self.disk.rename(staged, target, RenameHow::NoReplace) {
                Ok(()) => return Ok(Placed::Fresh),
                Err(Errno::EXIST) if existing == Existing::Refuse => {
                    return Err(StoreError::Exists);
                }
                Err(Errno::EXIST) => {}
                Err(errno) if is_missing_call(errno) => {
                    self.no_exchange.store(true, Ordering::Relaxed);
                    continue;
                }
                Err(errno) => return Err(errno.into()),
            }
            if let Some(Stat { kind: StatKind::Directory, .. }) =
                self.stat_target(target, Links::Hidden)?
            {
                return Err(StoreError::IsDirectory);
            }
            match self.disk.rename(staged, target, RenameHow::Exchange) {
                Ok(()) => {
                    let old = self.check_exchanged(staged, target)?;
                    return Ok(Placed::Exchanged { old });
                }
                // Removed since: try again as a free name.
                Err(Errno::NOENT) => {}
                Err(errno) if is_missing_call(errno) => {
                    self.no_exchange.store(true, Ordering::Relaxed);
                }
                Err(errno) => return Err(errno.into()),
            }
        }
        Err(StoreError::Unavailable("others change the same name all the time".to_owned()))
    }

    /// What came out of the exchange must have been a file: nothing else is replaced.
    fn check_exchanged(
        &self,
        staged: DirEntry<'_, D::Dir>,
        target: DirEntry<'_, D::Dir>,
    ) -> Result<Stat> {
        let what = match self.disk.stat(staged.dir, staged.name) {
            Ok(stat) if stat.kind == StatKind::File => return Ok(stat),
            Ok(stat) if stat.kind == StatKind::Directory => StoreError::IsDirectory,
            Ok(_) => StoreError::Denied("the name belongs to a link or device".to_owned()),
            Err(errno) => errno.into(),
        };
        self.undone(self.disk.rename(staged, target, RenameHow::Exchange))?;
        Err(what)
    }

    /// The same where the file system knows no flags of rename.
    fn place_plainly(
        &self,
        work: &Work<D>,
        target: DirEntry<'_, D::Dir>,
        existing: Existing,
    ) -> Result<Placed> {
        let staged = DirEntry::new(&*work.staging, &work.name);
        // A link fails if the name is taken: the one atomic test that all have.
        match self.disk.link(staged, target) {
            Ok(()) => {
                self.drop_staged_name(staged.dir, staged.name);
                return Ok(Placed::Fresh);
            }
            Err(Errno::EXIST) if existing == Existing::Refuse => return Err(StoreError::Exists),
            Err(Errno::EXIST) => {}
            Err(errno) if existing == Existing::Refuse => return Err(errno.into()),
            Err(_) => {}
        }
        let old = match self.stat_target(target, Links::Hidden)? {
            Some(Stat { kind: StatKind::Directory, .. }) => return Err(StoreError::IsDirectory),
            Some(old) => old,
            None => {
                self.disk.rename(staged, target, RenameHow::Replace)?;
                return Ok(Placed::Fresh);
            }
        };
        let name = format!("{KEPT}{}", self.env.new_id::<TransferId>());
        let linked = self.disk.link(target, DirEntry::new(&*work.staging, &name));
        if let Err(errno) = self.disk.rename(staged, target, RenameHow::Replace) {
            self.drop_staged_name(&work.staging, &name);
            return Err(errno.into());
        }
        if linked.is_err() {
            return Ok(Placed::Over { old });
        }
        // Another node may have replaced the file since it was looked at: the second name shows
        // which one it was.
        let old = self.disk.stat(&work.staging, &name).unwrap_or(old);
        Ok(Placed::Kept { name, old })
    }

    /// Puts the names back as they were before [`Tree::place`].
    fn take_back(
        &self,
        work: &Work<D>,
        target: DirEntry<'_, D::Dir>,
        placed: &Placed,
        ours: &Stat,
    ) -> Result<(), Errno> {
        match self.disk.stat(target.dir, target.name) {
            Ok(found) if (found.inode, found.device) == (ours.inode, ours.device) => {}
            // Another one has the name by now: nothing of ours is visible.
            Ok(_) | Err(Errno::NOENT) => {
                if matches!(placed, Placed::Exchanged { .. }) {
                    self.drop_staged_name(&work.staging, &work.name);
                }
                return Ok(());
            }
            Err(errno) => return Err(errno),
        }
        let staged = DirEntry::new(&*work.staging, &work.name);
        match placed {
            Placed::Exchanged { .. } => self.disk.rename(target, staged, RenameHow::Exchange),
            Placed::Fresh => self.disk.rename(target, staged, RenameHow::Replace),
            Placed::Kept { name: kept, .. } => {
                // Not exchanged: for a moment the name shows nothing rather than a wrong file.
                self.disk.rename(target, staged, RenameHow::Replace)?;
                self.disk.rename(DirEntry::new(staged.dir, kept), target, RenameHow::Replace)
            }
            Placed::Over { .. } => Err(Errno::IO),
        }
    }
}

/// True for what file systems say that lack a flag of `renameat2`.
fn is_missing_call(errno: Errno) -> bool {
    matches!(errno, Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP)
}
