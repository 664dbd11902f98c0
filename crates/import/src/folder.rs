//! What a user could do in its folder, and whether this process can serve it.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD};

use crate::people::Person;

/// How deep folders that may be written are looked for below those that may not.
const DEPTH: usize = 3;
/// Most of them.
const WRITABLE: usize = 64;

/// A folder as its user saw it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Folder {
    /// There is one.
    pub(crate) exists: bool,
    /// The user could write into it.
    pub(crate) writable: bool,
    /// If not: folders below it into which the user could write, relative.
    pub(crate) below: Vec<PathBuf>,
    /// Of all these, those that this process cannot write into.
    pub(crate) closed_to_us: Vec<PathBuf>,
}

/// What `person` could do in `root`, and what this process can.
pub(crate) fn look(root: &Path, person: &Person) -> Folder {
    let mut folder = Folder::default();
    let Ok(meta) = std::fs::metadata(root) else { return folder };
    folder.exists = meta.is_dir();
    folder.writable = may_write(person, &meta);
    if !folder.writable {
        find(root, Path::new(""), person, &mut folder.below);
        folder.below.sort();
    }
    let parts = std::iter::once(root.to_owned()).chain(folder.below.iter().map(|it| root.join(it)));
    let open = |path: &PathBuf| {
        let all = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
        rustix::fs::accessat(CWD, path, all, AtFlags::EACCESS).is_ok()
    };
    folder.closed_to_us = parts.filter(|path| !open(path)).collect();
    folder
}

/// Folders that may be written, below one that may not; links are not followed.
fn find(root: &Path, at: &Path, person: &Person, found: &mut Vec<PathBuf>) {
    if at.components().count() >= DEPTH {
        return;
    }
    for entry in std::fs::read_dir(root.join(at)).into_iter().flatten().flatten() {
        let Ok(meta) = entry.metadata() else { continue };
        if !meta.is_dir() || found.len() >= WRITABLE {
            continue;
        }
        let path = at.join(entry.file_name());
        if may_write(person, &meta) { found.push(path) } else { find(root, &path, person, found) }
    }
}

/// By mode, owner and group, as the kernel decides without access lists.
fn may_write(person: &Person, meta: &Metadata) -> bool {
    let bits = if person.user.uid == 0 {
        0o3
    } else if meta.uid() == person.user.uid {
        meta.mode() >> 6
    } else if person.gids.contains(&meta.gid()) {
        meta.mode() >> 3
    } else {
        meta.mode()
    };
    bits & 0o3 == 0o3
}
