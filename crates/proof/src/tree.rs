//! The hashes of the tree over the records of a journal, in files beside it.
//!
//! Leaf `n` is record `n + 1`: the leaf's data is what the record carries. Numbers that no record
//! has to show (the journal's own marks, numbers that were skipped) are leaves of no data.
//!
//! `tree/0` holds the hashes of all leaves, 32 bytes each; `tree/8` the roots over each 256 of
//! them, `tree/16` over each 65,536, and so on. A path through the tree so needs at most 256
//! neighbouring hashes of each file, however long the log is. The files only grow, and whatever is
//! in them can be computed again from the journal.

use std::sync::Arc;

use entrepot_crypto::merkle::{self, Hash, Subtrees};
use entrepot_journal::{Medium, MediumFile};

use crate::error::{ProofError, Result};
use crate::limits::TREE_LEVELS;

/// Bytes of a hash.
const HASH: u64 = 32;
/// Between one file and the next lie so many levels of the tree.
const STEP: u32 = 8;
/// Hashes of one file that the next has the root of.
const TILE: u64 = 1 << STEP;
/// The folder below that of the journal.
pub(crate) const FOLDER: &str = "tree";

/// The tree of one journal.
pub(crate) struct TreeFiles {
    files: Vec<Arc<dyn MediumFile>>,
    size: u64,
    described: String,
}

impl TreeFiles {
    /// Opens the files, and makes those that are missing. What is in them is as long as the last
    /// process left it: see [`TreeFiles::cut`].
    ///
    /// # Errors
    /// [`ProofError::Tree`] if a file cannot be opened.
    pub(crate) fn open(medium: &dyn Medium) -> Result<Self> {
        let described = format!("{}/{FOLDER}", medium.describe());
        let failed = |error: &std::io::Error| ProofError::tree(&described, error);
        let known = medium.list(FOLDER).map_err(|error| failed(&error))?;
        let mut files = Vec::new();
        for level in 0..TREE_LEVELS {
            let name = (level * STEP).to_string();
            let path = format!("{FOLDER}/{name}");
            let opened =
                if known.contains(&name) { medium.open(&path) } else { medium.create(&path) };
            files.push(opened.map_err(|error| failed(&error))?);
        }
        medium.sync_dir(FOLDER).map_err(|error| failed(&error))?;
        let mut tree = TreeFiles { files, size: 0, described };
        tree.size = tree.entries(0)?;
        Ok(tree)
    }

    /// How many leaves it has.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Takes the leaves from `size` on away, and makes the upper files fit what is left.
    ///
    /// # Errors
    /// [`ProofError::Tree`].
    pub(crate) fn cut(&mut self, size: u64) -> Result<()> {
        self.size = self.size.min(size);
        for (level, file) in (0..).zip(&self.files) {
            let entries = self.entries(level)?.min(self.size >> (level * STEP));
            file.truncate(entries * HASH).map_err(|error| self.failed(&error))?;
        }
        self.complete()
    }

    /// Appends leaves.
    ///
    /// # Errors
    /// [`ProofError::Tree`]; the tree then has the leaves that it had before.
    pub(crate) fn append(&mut self, leaves: &[Hash]) -> Result<()> {
        let Some(file) = self.files.first() else { return Ok(()) };
        let bytes: Vec<u8> = leaves.iter().flatten().copied().collect();
        file.write_at(self.size * HASH, &bytes).map_err(|error| self.failed(&error))?;
        self.size += leaves.len() as u64;
        self.complete()
    }

    /// Makes all hashes durable.
    ///
    /// # Errors
    /// [`ProofError::Tree`].
    pub(crate) fn sync(&self) -> Result<()> {
        self.files.iter().try_for_each(|file| file.sync().map_err(|error| self.failed(&error)))
    }

    /// The root over the first `size` leaves.
    ///
    /// # Errors
    /// [`ProofError::Tree`]; [`ProofError::TreeTooShort`] if it has not so many.
    pub(crate) fn root(&self, size: u64) -> Result<Hash> {
        if size > self.size {
            return Err(ProofError::TreeTooShort { wanted: size, size: self.size });
        }
        merkle::root(self, size)
    }

    /// The hashes of the leaves behind record `after` and up to record `up_to`.
    ///
    /// # Errors
    /// As [`TreeFiles::root`].
    pub(crate) fn leaves(&self, after: u64, up_to: u64) -> Result<Vec<Hash>> {
        if up_to > self.size {
            return Err(ProofError::TreeTooShort { wanted: up_to, size: self.size });
        }
        self.tile(0, after, up_to.saturating_sub(after))
    }

    /// Writes the roots of the tiles that have become whole.
    fn complete(&self) -> Result<()> {
        for level in 1..TREE_LEVELS {
            let whole = self.size >> (level * STEP);
            for index in self.entries(level)?..whole {
                let tile = self.tile(level - 1, index * TILE, TILE)?;
                let root = merkle::complete_root(&tile).unwrap_or_default();
                self.file(level)?
                    .write_at(index * HASH, &root)
                    .map_err(|error| self.failed(&error))?;
            }
        }
        Ok(())
    }

    /// Whole hashes in the file of a level.
    fn entries(&self, level: u32) -> Result<u64> {
        Ok(self.file(level)?.size().map_err(|error| self.failed(&error))? / HASH)
    }

    fn file(&self, level: u32) -> Result<&dyn MediumFile> {
        let file = usize::try_from(level).ok().and_then(|level| self.files.get(level));
        file.map(|file| &**file)
            .ok_or_else(|| ProofError::tree(&self.described, &std::io::ErrorKind::NotFound.into()))
    }

    /// `count` hashes of a level from `first` on.
    fn tile(&self, level: u32, first: u64, count: u64) -> Result<Vec<Hash>> {
        let mut bytes = vec![0; usize::try_from(count * HASH).unwrap_or(0)];
        let read = self.file(level)?.read_at(first * HASH, &mut bytes);
        if read.map_err(|error| self.failed(&error))? < bytes.len() {
            return Err(self.failed(&std::io::ErrorKind::UnexpectedEof.into()));
        }
        Ok(bytes.as_chunks().0.to_vec())
    }

    fn failed(&self, error: &std::io::Error) -> ProofError {
        ProofError::tree(&self.described, error)
    }
}

impl Subtrees for TreeFiles {
    type Error = ProofError;

    fn root_of(&self, level: u32, index: u64) -> Result<Hash> {
        // The file whose hashes are at or below this level, and how many of them it takes.
        let stored = (level / STEP).min(TREE_LEVELS - 1);
        let count = 1u64 << (level - stored * STEP);
        let tile = self.tile(stored, index * count, count)?;
        merkle::complete_root(&tile)
            .ok_or_else(|| self.failed(&std::io::ErrorKind::InvalidData.into()))
    }
}

#[cfg(test)]
mod tests {
    use entrepot_journal::FsMedium;

    use super::*;

    fn leaves(range: std::ops::Range<u64>) -> Vec<Hash> {
        range.map(|number| merkle::leaf_hash(&number.to_le_bytes())).collect()
    }

    /// The tree of the same leaves in memory.
    struct InMemory(Vec<Hash>);

    impl Subtrees for InMemory {
        type Error = std::convert::Infallible;

        fn root_of(&self, level: u32, index: u64) -> std::result::Result<Hash, Self::Error> {
            let (width, index) = (1usize << level, usize::try_from(index).expect("small"));
            Ok(merkle::complete_root(&self.0[index * width..][..width]).expect("a power of two"))
        }
    }

    fn opened(folder: &tempfile::TempDir) -> TreeFiles {
        TreeFiles::open(&FsMedium::create(folder.path()).expect("a medium")).expect("a tree")
    }

    #[test]
    fn files_give_the_roots_and_paths_of_the_tree_in_memory() {
        let folder = tempfile::tempdir().expect("a folder");
        let all = leaves(0..70_000);
        let mut tree = opened(&folder);
        let mut done = 0;
        for part in [1usize, 254, 1, 1, 300, 65_000, 4_443] {
            tree.append(&all[done..done + part]).expect("appended");
            done += part;
        }
        assert_eq!(tree.size(), 70_000);
        let memory = InMemory(all.clone());
        for size in [1, 2, 255, 256, 257, 511, 512, 65_535, 65_536, 65_537, 70_000] {
            let Ok(expected) = merkle::root(&memory, size);
            assert_eq!(tree.root(size).expect("a root"), expected, "{size} leaves");
            let path = merkle::inclusion_path(&tree, size / 3, size).expect("read");
            let leaf = all[usize::try_from(size / 3).expect("small")];
            let path = path.expect("the leaf is there");
            assert!(merkle::is_included(&leaf, size / 3, size, &path, &expected));
        }
        assert!(matches!(tree.root(70_001), Err(ProofError::TreeTooShort { .. })));
    }

    #[test]
    fn a_tree_that_was_cut_or_lost_its_upper_files_goes_on_right() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut tree = opened(&folder);
        tree.append(&leaves(0..1_000)).expect("appended");
        let whole = tree.root(1_000).expect("a root");
        drop(tree);
        std::fs::write(folder.path().join("tree/8"), b"half a hash").expect("damaged");
        let mut tree = opened(&folder);
        tree.cut(700).expect("cut");
        assert_eq!(tree.size(), 700);
        tree.append(&leaves(700..1_000)).expect("appended");
        assert_eq!(tree.root(1_000).expect("a root"), whole);
    }
}
