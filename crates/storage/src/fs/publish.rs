//! Publishing a staged file: times, permission bits, rename, directory sync; undone on any error.
//!
//! A name that was free when the file was staged is taken by `RENAME_NOREPLACE`. A name that is
//! taken is exchanged (`RENAME_EXCHANGE`): the old version waits under the staging name until the
//! directory is durable and the caller says that it is not needed any more, and only then is
//! removed. File systems without these flags (NFS) get a second name for the old version and a
//! plain rename, and `link`, which fails when the name is taken. There a server may do what it was
//! asked, and its answer be lost: the request that is repeated then fails, and the name shows that
//! it was done.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use entrepot_nouns::TransferId;
use rustix::io::Errno;

use super::disk::{DirEntry, Disk, RenameHow, Stat, StatKind, Times};
use super::placed::{Placed, Publication};
use super::staging::KEPT;
use super::tree::{Links, Tree};
use super::work::Work;
use crate::error::{Result, StoreError};
use crate::limits::NAME_RACE_TRIES;
use crate::store::{EntryKind, Existing, ModeChange, Publish, Published, TakenBack};

impl<D: Disk> Tree<D> {
    /// Publishes `work`; what had the name stays in staging until [`Tree::settle`]. Blocks.
    pub(super) fn publish(&self, work: &Arc<Work<D>>, how: &Publish) -> Result<Published> {
        self.check_well()?;
        work.check_synced()?;
        let mut ours = self.disk.stat_file(&work.file)?;
        if ours.size != how.size {
            let (has, want) = (ours.size, how.size);
            return Err(StoreError::Io(format!("the file has {has} bytes instead of {want}")));
        }
        if how.accessed.is_some() || how.modified.is_some() {
            let times = Times { accessed: how.accessed, modified: how.modified };
            self.disk.set_file_times(&work.file, times)?;
            ours.accessed = how.accessed.unwrap_or(ours.accessed);
            ours.modified = how.modified.unwrap_or(ours.modified);
        }
        if let Some(change) = how.mode {
            self.set_staged_mode(work, &mut ours, change)?;
        }
        let meta = ours.meta().ok_or(StoreError::NotFound)?;
        let (dir, name) = self.parent(&work.target)?;
        let target = DirEntry::new(&*dir, name);
        let placed = self.place(work, &ours, target, how.existing)?;
        let displaced = placed.displaced();
        let publication = Publication { placed, ours };
        if let Err(errno) = self.sync_dir(&dir) {
            self.undone(self.put_back(work, target, &publication).map(drop))?;
            return Err(errno.into());
        }
        work.ended.store(true, Ordering::Release);
        *work.published.lock() = Some(publication);
        Ok(Published { displaced, identity: meta.identity.clone(), meta })
    }

    /// Drops what had the name before `work`. Blocks.
    pub(super) fn settle(&self, work: &Work<D>) {
        match work.published.lock().take().map(|published| published.placed) {
            Some(Placed::Exchanged { .. }) => self.drop_staged_name(&work.staging, &work.name),
            Some(Placed::Kept { name, .. }) => self.drop_staged_name(&work.staging, &name),
            Some(Placed::Fresh | Placed::Over { .. }) | None => {}
        }
    }

    /// Undoes [`Tree::publish`]. Blocks.
    pub(super) fn take_back(&self, work: &Work<D>) -> Result<TakenBack> {
        self.check_well()?;
        let Some(publication) = work.published.lock().take() else {
            return Err(StoreError::Unsupported("taking back what is settled"));
        };
        let (dir, name) = self.parent(&work.target)?;
        let back = self.put_back(work, DirEntry::new(&*dir, name), &publication);
        let back = back.and_then(|back| self.sync_dir(&dir).map(|()| back));
        if let Ok(TakenBack::Restored) = back {
            work.ended.store(false, Ordering::Release);
        }
        back.map_err(|errno| self.undone(Err(errno)).err().unwrap_or_else(|| errno.into()))
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
        ours: &Stat,
        target: DirEntry<'_, D::Dir>,
        existing: Existing,
    ) -> Result<Placed> {
        let staged = DirEntry::new(&*work.staging, &work.name);
        for _ in 0..NAME_RACE_TRIES {
            if self.no_exchange.load(Ordering::Relaxed) {
                return self.place_plainly(work, ours, target, existing);
            }
            let was_taken = work.name_was_taken.swap(false, Ordering::Relaxed);
            if existing == Existing::Refuse || !was_taken {
                match self.rename_known(ours, staged, target, RenameHow::NoReplace) {
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
            }
            match self.stat_target(target, Links::Hidden)? {
                Some(Stat { kind: StatKind::Directory, .. }) => {
                    return Err(StoreError::IsDirectory);
                }
                // Removed since: try again as a free name.
                None => continue,
                Some(_) => {}
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
        ours: &Stat,
        target: DirEntry<'_, D::Dir>,
        existing: Existing,
    ) -> Result<Placed> {
        let staged = DirEntry::new(&*work.staging, &work.name);
        // A link fails if the name is taken: the one atomic test that all have.
        let linked = match self.disk.link(staged, target) {
            Ok(()) => true,
            Err(errno) if existing == Existing::Refuse => {
                if errno != Errno::EXIST || !self.has(target, ours) {
                    return Err(errno.into());
                }
                true
            }
            Err(_) => false,
        };
        if linked {
            self.drop_staged_name(staged.dir, staged.name);
            return Ok(Placed::Fresh);
        }
        let name = format!("{KEPT}{}", self.env.new_id::<TransferId>());
        let kept = DirEntry::new(&*work.staging, &name);
        // Nobody else makes this name: one that is taken was made by a request that came twice.
        // What it shows is what is replaced, also if another node has just replaced that file.
        let is_kept = matches!(self.disk.link(target, kept), Ok(()) | Err(Errno::EXIST));
        let replaced = match self.stat_target(if is_kept { kept } else { target }, Links::Hidden) {
            Ok(Some(Stat { kind: StatKind::Directory, .. })) => Err(StoreError::IsDirectory),
            // The link was made, and its answer lost.
            Ok(Some(there)) if there.is_same(ours) => {
                self.drop_staged_name(staged.dir, staged.name);
                Ok(None)
            }
            Ok(old) => {
                let renamed = self.rename_known(ours, staged, target, RenameHow::Replace);
                renamed.map(|()| old).map_err(StoreError::from)
            }
            Err(error) => Err(error),
        };
        match replaced {
            Ok(Some(old)) if is_kept => Ok(Placed::Kept { name, old }),
            replaced => {
                if is_kept {
                    self.drop_staged_name(kept.dir, kept.name);
                }
                Ok(replaced?.map_or(Placed::Fresh, |old| Placed::Over { old }))
            }
        }
    }

    /// Puts the names back as they were before [`Tree::place`]: only while the name has our file,
    /// and staging what had the name before. A file that another node has given the name to
    /// meanwhile keeps it.
    fn put_back(
        &self,
        work: &Work<D>,
        target: DirEntry<'_, D::Dir>,
        publication: &Publication,
    ) -> Result<TakenBack, Errno> {
        let (ours, staged) = (&publication.ours, DirEntry::new(&*work.staging, &work.name));
        let back = match &publication.placed {
            _ if !self.is_still(target, ours)? => TakenBack::Overtaken,
            Placed::Fresh | Placed::Kept { .. } => self.withdraw(target, staged, ours)?,
            Placed::Exchanged { old } => self.exchange_back(target, staged, ours, old)?,
            Placed::Over { .. } => return Err(Errno::IO),
        };
        match (&publication.placed, back) {
            (Placed::Exchanged { .. }, TakenBack::Overtaken) => {
                self.drop_staged_name(staged.dir, staged.name);
            }
            (Placed::Kept { name, .. }, _) => {
                // Not exchanged: for a moment the name shows nothing rather than a wrong file.
                let kept = DirEntry::new(staged.dir, name);
                if back == TakenBack::Restored {
                    match self.disk.link(kept, target) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(errno) => return Err(errno),
                    }
                }
                self.drop_staged_name(kept.dir, kept.name);
            }
            _ => {}
        }
        Ok(back)
    }

    /// Whether a name stands for this file.
    fn is_still(&self, entry: DirEntry<'_, D::Dir>, file: &Stat) -> Result<bool, Errno> {
        match self.disk.stat(entry.dir, entry.name) {
            Ok(found) => Ok(found.is_same(file)),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    /// Takes our file out of a name that was free before.
    fn withdraw(
        &self,
        target: DirEntry<'_, D::Dir>,
        staged: DirEntry<'_, D::Dir>,
        ours: &Stat,
    ) -> Result<TakenBack, Errno> {
        match self.rename_known(ours, target, staged, RenameHow::Replace) {
            Ok(()) if self.is_still(staged, ours)? => return Ok(TakenBack::Restored),
            Ok(()) => {}
            Err(Errno::NOENT) => return Ok(TakenBack::Overtaken),
            Err(errno) => return Err(errno),
        }
        // Another file had the name by then: it has it again, unless there is a newer one.
        match self.rename_to_free(staged, target) {
            Ok(()) => {}
            Err(Errno::EXIST) => self.drop_staged_name(staged.dir, staged.name),
            Err(errno) => return Err(errno),
        }
        Ok(TakenBack::Overtaken)
    }

    /// Exchanges our file for the one that it displaced. What comes out of the name is looked at:
    /// another file that had the name by then has it again in the end.
    fn exchange_back(
        &self,
        target: DirEntry<'_, D::Dir>,
        staged: DirEntry<'_, D::Dir>,
        ours: &Stat,
        displaced: &Stat,
    ) -> Result<TakenBack, Errno> {
        if !self.is_still(staged, displaced)? {
            return Err(Errno::NOENT);
        }
        let (mut wanted, mut put) = (ours.clone(), displaced.clone());
        let mut back = TakenBack::Restored;
        for _ in 0..NAME_RACE_TRIES {
            match self.disk.rename(target, staged, RenameHow::Exchange) {
                Ok(()) => {}
                // Somebody has removed what had the name.
                Err(Errno::NOENT) => return Ok(TakenBack::Overtaken),
                Err(errno) => return Err(errno),
            }
            let taken = self.disk.stat(staged.dir, staged.name)?;
            if taken.is_same(&wanted) {
                return Ok(back);
            }
            (wanted, put, back) = (put, taken, TakenBack::Overtaken);
        }
        Err(Errno::AGAIN)
    }
}

/// True for what file systems say that lack a flag of `renameat2`.
fn is_missing_call(errno: Errno) -> bool {
    matches!(errno, Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP)
}
