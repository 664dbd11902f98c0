//! Whether a disk works again on which a failed change could not be undone.

use std::sync::atomic::Ordering;

use entrepot_nouns::TransferId;
use rustix::io::Errno;

use super::disk::{DirEntry, Disk, OpenHow, RenameHow};
use super::staging::PROBE;
use super::tree::Tree;
use crate::error::{Result, StoreError};

/// Does all that a change needs with a small file in each staging directory. If that works, and
/// everything that is visible can be made durable, the store takes changes again. Blocks.
pub(super) fn run<D: Disk>(tree: &Tree<D>) -> Result<()> {
    // One that hangs is not joined by others.
    let Some(_alone) = tree.probing.try_lock() else {
        return Err(StoreError::Unavailable("the last probe has not ended".to_owned()));
    };
    for staging in tree.stagings.each() {
        let names = [(); 2].map(|()| format!("{PROBE}{}", tree.env.new_id::<TransferId>()));
        let probed = try_changes(&tree.disk, &staging, &names);
        if probed.is_err() {
            names.iter().for_each(|name| tree.drop_staged_name(&staging, name));
        }
        probed?;
    }
    tree.disk.sync_all()?;
    if tree.sick.swap(false, Ordering::AcqRel) {
        tracing::info!("a store that a disk error had made sick takes changes again");
    }
    Ok(())
}

/// Writes, syncs, renames and removes.
fn try_changes<D: Disk>(disk: &D, staging: &D::Dir, names: &[String; 2]) -> Result<(), Errno> {
    let [first, second] = names;
    let file = disk.open_file(staging, first, OpenHow::CreateNew)?;
    disk.write(&file, 0, b"probe")?;
    disk.sync_file(&file)?;
    let (from, to) = (DirEntry::new(staging, first), DirEntry::new(staging, second));
    disk.rename(from, to, RenameHow::Replace)?;
    disk.sync_dir(staging)?;
    disk.unlink(staging, second)?;
    disk.sync_dir(staging)
}
