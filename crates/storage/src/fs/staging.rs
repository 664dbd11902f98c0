//! The hidden directories in which files are staged: one at the root, and one at the top of each
//! other file system mounted below it, for a rename cannot cross.
//!
//! Which other ones exist is remembered durably by markers in the one at the root, so that
//! recovery finds all staged files without a scan.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::BytesMut;
use parking_lot::Mutex;
use rustix::io::Errno;

use super::disk::{Access, Disk, Mounts, OpenHow};
use super::errors::walk_error;
use crate::error::Result;
use crate::limits::{MOUNT_MARKERS, STAGING_NAME};

/// Prefix of the markers; the rest is the hash of the path, the content is the path.
const MARKER: &str = "mount-";

/// Prefix of second names that keep a replaced file until its replacement is durable.
pub(super) const KEPT: &str = "kept-";

/// Prefix of files by which a disk is tried.
pub(super) const PROBE: &str = "probe-";

/// The staging directories of a store.
pub(super) struct Stagings<D: Disk> {
    root: Arc<D::Dir>,
    root_device: u64,
    /// By the path of the mount below the root.
    others: Mutex<BTreeMap<String, Arc<D::Dir>>>,
}

/// Opens the staging directory in `top`, making it if needed.
fn open_in<D: Disk>(disk: &D, top: &D::Dir) -> Result<Arc<D::Dir>> {
    match disk.make_dir(top, STAGING_NAME, Access::Private) {
        Ok(()) => disk.sync_dir(top)?,
        Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno.into()),
    }
    Ok(Arc::new(disk.open_dir(top, STAGING_NAME, Mounts::Refuse).map_err(walk_error)?))
}

impl<D: Disk> Stagings<D> {
    /// Opens the staging directories known so far.
    pub(super) fn open(disk: &D) -> Result<Self> {
        let root = open_in(disk, disk.root())?;
        let root_device = disk.stat(&root, "")?.device;
        let stagings = Stagings { root, root_device, others: Mutex::new(BTreeMap::new()) };
        let mut names = disk.names(&stagings.root)?;
        while let Some(name) = names.next() {
            let name = name?;
            if !name.starts_with(MARKER) {
                continue;
            }
            let Some(path) = read_marker(disk, &stagings.root, &name) else { continue };
            // Not mounted now: its staged files are found when it is.
            if let Ok(top) = disk.open_dir(disk.root(), &path, Mounts::Enter)
                && let Ok(staging) = open_in(disk, &top)
            {
                stagings.others.lock().insert(path, staging);
            }
        }
        Ok(stagings)
    }

    /// Opens the directory at `above` (not the root), with the staging directory of its file
    /// system.
    pub(super) fn open_with(&self, disk: &D, above: &str) -> Result<(D::Dir, Arc<D::Dir>)> {
        let dir = match disk.open_dir(disk.root(), above, Mounts::Refuse) {
            Ok(dir) => {
                let subvolumes = disk.nature().subvolumes;
                if !subvolumes || disk.stat(&dir, "")?.device == self.root_device {
                    return Ok((dir, self.of_root()));
                }
                dir
            }
            Err(Errno::XDEV) => {
                disk.open_dir(disk.root(), above, Mounts::Enter).map_err(walk_error)?
            }
            Err(errno) => return Err(walk_error(errno)),
        };
        Ok((dir, self.of_other(disk, above)?))
    }

    /// The staging directory at the root.
    pub(super) fn of_root(&self) -> Arc<D::Dir> {
        Arc::clone(&self.root)
    }

    /// True for the staging directory at the root.
    pub(super) fn is_root(&self, staging: &Arc<D::Dir>) -> bool {
        Arc::ptr_eq(staging, &self.root)
    }

    /// The staging directory of another file system, that of `above`.
    fn of_other(&self, disk: &D, above: &str) -> Result<Arc<D::Dir>> {
        let (path, top) = self.mount_of(disk, above)?;
        if let Some(staging) = self.others.lock().get(&path) {
            return Ok(Arc::clone(staging));
        }
        let staging = open_in(disk, &top)?;
        self.write_marker(disk, &path)?;
        let mut others = self.others.lock();
        Ok(Arc::clone(others.entry(path).or_insert(staging)))
    }

    /// The last directory on the way to `above` that lies on another file system than the one
    /// before it.
    fn mount_of(&self, disk: &D, above: &str) -> Result<(String, D::Dir)> {
        let mut top = (String::new(), disk.open_dir(disk.root(), "", Mounts::Enter)?);
        let mut device = self.root_device;
        let mut at = disk.open_dir(disk.root(), "", Mounts::Enter)?;
        let mut path = String::new();
        for part in above.split('/') {
            if !path.is_empty() {
                path.push('/');
            }
            path.push_str(part);
            let (next, crossed) = match disk.open_dir(&at, part, Mounts::Refuse) {
                Err(Errno::XDEV) => {
                    (disk.open_dir(&at, part, Mounts::Enter).map_err(walk_error)?, true)
                }
                other => (other.map_err(walk_error)?, false),
            };
            let next_device = disk.stat(&next, "")?.device;
            if crossed || next_device != device {
                top = (path.clone(), disk.open_dir(&next, "", Mounts::Enter)?);
                device = next_device;
            }
            at = next;
        }
        Ok(top)
    }

    fn write_marker(&self, disk: &D, path: &str) -> Result<()> {
        let name = format!("{MARKER}{}", blake3::hash(path.as_bytes()).to_hex());
        let file = match disk.open_file(&self.root, &name, OpenHow::CreateNew) {
            Err(Errno::EXIST) => disk.open_file(&self.root, &name, OpenHow::ReadWrite)?,
            other => other?,
        };
        disk.write(&file, 0, path.as_bytes())?;
        disk.sync_file(&file)?;
        Ok(disk.sync_dir(&self.root)?)
    }

    /// All staging directories that are known.
    pub(super) fn each(&self) -> Vec<Arc<D::Dir>> {
        let others = self.others.lock();
        std::iter::once(&self.root).chain(others.values().take(MOUNT_MARKERS)).cloned().collect()
    }
}

/// The path in a marker; `None` if it cannot be read or is no path (it is made again at need).
fn read_marker<D: Disk>(disk: &D, staging: &D::Dir, name: &str) -> Option<String> {
    let file = disk.open_file(staging, name, OpenHow::Read).ok()?;
    let mut content = BytesMut::new();
    disk.read(&file, 0, &mut content, entrepot_nouns::limits::PATH_BYTES).ok()?;
    let path: entrepot_nouns::StorePath = std::str::from_utf8(&content).ok()?.parse().ok()?;
    if path.is_root() { None } else { Some(path.as_str().to_owned()) }
}
