//! What is in an archive: the entries of a folder and of all below it, kept small, for there may be
//! a hundred thousand.

use std::collections::BTreeSet;

use entrepot_crypto::HashAlgorithm;
use entrepot_nouns::transfer::hex;
use entrepot_nouns::{Right, VPath};
use entrepot_storage::EntryKind;

use super::format::{Directory, Item};
use crate::error::{Result, VfsError};
use crate::limits;
use crate::vfs::{Attributes, Entry, Vfs};

/// The entries of an archive, in its order.
pub(super) struct Manifest {
    rows: Vec<Row>,
    /// All names one behind another.
    names: String,
    pub(super) directory: Directory,
    /// Changes with every entry, its size, time and identity.
    pub(super) tag: String,
}

#[derive(Clone, Copy)]
struct Row {
    /// The row of its directory; its own for the first.
    parent: u32,
    name_at: u32,
    name_length: u32,
    kind: Kind,
    size: u64,
    /// Last change, microseconds since 1970.
    modified: i64,
    /// Tells the version of the file from others.
    version: u64,
    /// Where its header stands in the archive.
    offset: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The folder itself, which has no entry: its name is not in the archive.
    Nameless,
    Directory,
    File,
}

impl Manifest {
    /// Lists a folder and all below it, as far as the session may list and read it. Links are left
    /// out.
    pub(super) async fn of(vfs: &Vfs, folder: &VPath) -> Result<Manifest> {
        let mut manifest = Manifest::begin(vfs, folder).await?;
        if folder.is_root() {
            manifest.hide_folder();
        }
        manifest.list(vfs, folder, 0).await?;
        manifest.list_below(vfs, folder).await?;
        Ok(manifest)
    }

    /// Lists some entries of a folder and all below them; the folder has no entry of its own.
    pub(super) async fn of_names(
        vfs: &Vfs,
        folder: &VPath,
        names: &BTreeSet<String>,
    ) -> Result<Manifest> {
        let mut manifest = Manifest::begin(vfs, folder).await?;
        manifest.hide_folder();
        for name in names {
            let attributes = vfs.lstat(&folder.join(name)?).await?;
            if !is_archived(&attributes) {
                return Err(VfsError::denied(&format!("fetch '{name}' in an archive")));
            }
            manifest.push(0, name, &attributes)?;
        }
        manifest.list_below(vfs, folder).await?;
        Ok(manifest)
    }

    /// The folder alone.
    async fn begin(vfs: &Vfs, folder: &VPath) -> Result<Manifest> {
        let directory = Directory { entries: 0, offset: 0, size: 0 };
        let mut manifest =
            Manifest { rows: Vec::new(), names: String::new(), directory, tag: String::new() };
        let attributes = vfs.stat(folder).await?;
        if attributes.kind != EntryKind::Directory {
            return Err(VfsError::NotDirectory);
        }
        manifest.push(0, folder.file_name().unwrap_or_default(), &attributes)?;
        Ok(manifest)
    }

    /// The folder gets no entry.
    fn hide_folder(&mut self) {
        if let Some(row) = self.rows.first_mut() {
            row.kind = Kind::Nameless;
        }
    }

    /// Lists all directories behind the first row, and gives each entry its place.
    async fn list_below(&mut self, vfs: &Vfs, folder: &VPath) -> Result<()> {
        let mut next = 1;
        while let Some(row) = self.rows.get(next) {
            if row.kind != Kind::File {
                self.list(vfs, folder, next).await?;
            }
            next += 1;
        }
        self.place();
        Ok(())
    }

    /// Appends what lies in the directory of a row, in the order of names.
    async fn list(&mut self, vfs: &Vfs, folder: &VPath, parent: usize) -> Result<()> {
        let path = self.path(folder, parent)?;
        let mut listing = match vfs.list(&path).await {
            Ok(listing) => listing,
            // Below the folder, what may not be listed is not there for this session.
            Err(VfsError::Denied { .. }) if parent > 0 => return Ok(()),
            // Removed meanwhile: it was a directory when its own was listed.
            Err(VfsError::NotFound | VfsError::NotDirectory) if parent > 0 => return Ok(()),
            Err(error) => return Err(error),
        };
        let first = self.rows.len();
        loop {
            let page = listing.next_page(limits::PAGE).await?;
            if page.is_empty() {
                break;
            }
            for Entry { name, attributes } in page {
                if is_archived(&attributes) {
                    let parent = u32::try_from(parent).unwrap_or(u32::MAX);
                    self.push(parent, &name, &attributes)?;
                }
            }
        }
        let names = std::mem::take(&mut self.names);
        if let Some(new) = self.rows.get_mut(first..) {
            new.sort_unstable_by(|one, other| name_in(&names, one).cmp(name_in(&names, other)));
        }
        self.names = names;
        Ok(())
    }

    fn push(&mut self, parent: u32, name: &str, attributes: &Attributes) -> Result<()> {
        let too_large = || VfsError::TooManyEntries { limit: limits::ZIP_ENTRIES as u64 };
        if self.rows.len() > limits::ZIP_ENTRIES {
            return Err(too_large());
        }
        let name_at = u32::try_from(self.names.len()).map_err(|_| too_large())?;
        self.names.push_str(name);
        let is_file = attributes.kind == EntryKind::File;
        self.rows.push(Row {
            parent,
            name_at,
            name_length: u32::try_from(name.len()).map_err(|_| too_large())?,
            kind: if is_file { Kind::File } else { Kind::Directory },
            size: if is_file { attributes.size } else { 0 },
            modified: attributes.modified.micros(),
            version: attributes.version(),
            offset: 0,
        });
        Ok(())
    }

    /// Gives each entry its place, and the archive its tag.
    fn place(&mut self) {
        let (mut offset, mut entries) = (0u64, 0u64);
        let mut tag = Vec::with_capacity(32);
        for index in 0..self.rows.len() {
            let length = self.item(index).map_or(0, |item| {
                let facts = [item.size, self.version(index)];
                tag.extend(item.name.as_bytes());
                tag.extend(facts.iter().flat_map(|fact| fact.to_le_bytes()));
                entries += 1;
                item.length()
            });
            // Folded, so that the memory for it stays small.
            tag = HashAlgorithm::Sha256.hash(&tag);
            if let Some(row) = self.rows.get_mut(index) {
                row.offset = offset;
            }
            offset = offset.saturating_add(length);
        }
        let lines = (0..self.rows.len()).filter_map(|index| {
            Some(self.item(index)?.central_length(self.rows.get(index)?.offset))
        });
        let size = lines.sum();
        self.directory = Directory { entries, offset, size };
        self.tag = hex(tag.get(..16).unwrap_or_default());
    }

    /// Length of the whole archive.
    pub(super) fn length(&self) -> u64 {
        let Directory { offset, size, .. } = self.directory;
        offset + size + self.directory.end_length()
    }

    /// How many rows there are; not all of them have an entry.
    pub(super) fn rows(&self) -> usize {
        self.rows.len()
    }

    /// The entry of a row; `None`: it has none.
    pub(super) fn item(&self, index: usize) -> Option<Item> {
        let row = self.rows.get(index).filter(|row| row.kind != Kind::Nameless)?;
        let mut names = vec![name_in(&self.names, row)];
        let (mut at, mut child) = (row, index);
        while at.parent as usize != child {
            child = at.parent as usize;
            at = self.rows.get(child)?;
            if at.kind != Kind::Nameless {
                names.push(name_in(&self.names, at));
            }
        }
        names.reverse();
        // A backslash separates names where some unpack it.
        let mut name = names.join("/").replace('\\', "_");
        if row.kind == Kind::Directory {
            name.push('/');
        }
        Some(Item { name, size: row.size, modified: row.modified.div_euclid(1_000_000) })
    }

    /// The path of a row, as the session sees it.
    pub(super) fn path(&self, folder: &VPath, index: usize) -> Result<VPath> {
        let mut names = Vec::new();
        let (mut child, mut found) = (index, self.rows.get(index));
        while let Some(row) = found.filter(|row| row.parent as usize != child) {
            names.push(name_in(&self.names, row));
            child = row.parent as usize;
            found = self.rows.get(child);
        }
        let mut path = folder.clone();
        for name in names.into_iter().rev() {
            path = path.join(name)?;
        }
        Ok(path)
    }

    /// Where the header of a row stands.
    pub(super) fn offset(&self, index: usize) -> u64 {
        self.rows.get(index).map_or(self.directory.offset, |row| row.offset)
    }

    /// What tells the version of a file from others.
    pub(super) fn version(&self, index: usize) -> u64 {
        self.rows.get(index).map_or(0, |row| row.version)
    }

    /// The last row that begins at an offset or before it.
    pub(super) fn row_at(&self, offset: u64) -> usize {
        self.rows.partition_point(|row| row.offset <= offset).saturating_sub(1)
    }
}

/// True for directories, and for files that the session may read.
fn is_archived(attributes: &Attributes) -> bool {
    match attributes.kind {
        EntryKind::File => attributes.rights.has(Right::Read) && !attributes.partial,
        EntryKind::Directory => true,
        EntryKind::Link => false,
    }
}

fn name_in<'a>(names: &'a str, row: &Row) -> &'a str {
    let start = row.name_at as usize;
    names.get(start..start + row.name_length as usize).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use entrepot_nouns::{Rights, Timestamp};

    use super::*;

    /// A hundred thousand files of usual names in a thousand folders stay small.
    #[test]
    fn a_hundred_thousand_files_take_little_memory() {
        let mut manifest = Manifest {
            rows: Vec::new(),
            names: String::new(),
            directory: Directory { entries: 0, offset: 0, size: 0 },
            tag: String::new(),
        };
        let attributes = |kind| Attributes {
            kind,
            size: 1 << 20,
            modified: Timestamp::from_seconds(1_700_000_000),
            accessed: Timestamp::default(),
            rights: Rights::all(),
            mode: None,
            partial: false,
            identity: None,
        };
        manifest.push(0, "archive", &attributes(EntryKind::Directory)).unwrap();
        for number in 1..=1_000 {
            let name = format!("folder {number}");
            manifest.push(0, &name, &attributes(EntryKind::Directory)).unwrap();
        }
        for number in 0..100_000 {
            let name = format!("invoice of customer {number:08}.pdf");
            manifest.push(number / 100 + 1, &name, &attributes(EntryKind::File)).unwrap();
        }
        manifest.place();
        let bytes = manifest.rows.capacity() * size_of::<Row>() + manifest.names.capacity();
        assert!(bytes < 16 << 20, "{bytes} bytes");
        assert_eq!(manifest.directory.entries, 101_001);
        let last = manifest.item(101_000).unwrap();
        assert_eq!(last.name, "archive/folder 1000/invoice of customer 00099999.pdf");
        assert_eq!(manifest.row_at(manifest.offset(101_000)), 101_000);
        assert!(manifest.length() > 100_000 << 20, "zip64 is not reached");
        for _ in 101_001..=limits::ZIP_ENTRIES {
            manifest.push(0, "more", &attributes(EntryKind::File)).unwrap();
        }
        let refused = manifest.push(0, "one more", &attributes(EntryKind::File));
        let limit = limits::ZIP_ENTRIES as u64;
        assert_eq!(refused, Err(VfsError::TooManyEntries { limit }));
    }
}
