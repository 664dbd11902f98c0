//! The files of a bare server, by their absolute paths. A folder need not be there for what is in
//! it: it is made only so that clients find it.

use std::collections::{HashMap, VecDeque, hash_map};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;

use crate::limits::BLOCK_BYTES;

/// Files and folders in memory.
#[derive(Default)]
pub(crate) struct Files(Mutex<HashMap<String, Entry>>);

enum Entry {
    File(Arc<Mutex<File>>),
    Folder,
}

/// What has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A file of so many bytes.
    File(u64),
    Folder,
}

/// Copied into blocks, as a memory file system would.
pub(crate) struct File {
    full: Vec<Bytes>,
    /// The last block, while there is room in it.
    tail: BytesMut,
    /// The request of tus that may add to it, by number: a later one takes that away from an
    /// earlier one whose connection has broken unnoticed.
    pub(crate) writer: u64,
}

impl Files {
    /// The file of that name.
    pub(crate) fn find(&self, path: &str) -> Option<Arc<Mutex<File>>> {
        match self.0.lock().get(path)? {
            Entry::File(file) => Some(Arc::clone(file)),
            Entry::Folder => None,
        }
    }

    /// Gives a file a name, in the place of what had it.
    pub(crate) fn put(&self, path: String, file: Arc<Mutex<File>>) {
        let replaced = self.0.lock().insert(path, Entry::File(file));
        // What was large is given back while nobody waits for the names.
        drop(replaced);
    }

    /// A new file in a folder, whose name nobody else has; answers its path.
    pub(crate) fn put_unnamed(&self, folder: &str) -> String {
        let mut entries = self.0.lock();
        let mut number = entries.len();
        loop {
            let path = format!("{folder}/{number}");
            if let hash_map::Entry::Vacant(free) = entries.entry(path.clone()) {
                free.insert(Entry::File(File::new(BLOCK_BYTES)));
                return path;
            }
            number += 1;
        }
    }

    /// Removes a file; false if there is none.
    pub(crate) fn remove(&self, path: &str) -> bool {
        let removed = {
            let mut entries = self.0.lock();
            match entries.get(path) {
                Some(Entry::File(_)) => entries.remove(path),
                _ => None,
            }
        };
        removed.is_some()
    }

    /// Makes a folder; false if something has the name.
    pub(crate) fn make_folder(&self, path: String) -> bool {
        match self.0.lock().entry(path) {
            hash_map::Entry::Occupied(_) => false,
            hash_map::Entry::Vacant(free) => {
                free.insert(Entry::Folder);
                true
            }
        }
    }

    /// Removes a folder, whatever is in it; false if there is none.
    pub(crate) fn remove_folder(&self, path: &str) -> bool {
        let mut entries = self.0.lock();
        let is_there = matches!(entries.get(path), Some(Entry::Folder));
        is_there && entries.remove(path).is_some()
    }

    /// What has that name.
    pub(crate) fn kind(&self, path: &str) -> Option<Kind> {
        match self.0.lock().get(path) {
            Some(entry) => Some(entry.kind()),
            None => (path == "/").then_some(Kind::Folder),
        }
    }

    /// What was put into a folder, by name.
    pub(crate) fn list(&self, folder: &str) -> Vec<(String, Kind)> {
        let prefix = format!("{}/", folder.trim_end_matches('/'));
        let entries = self.0.lock();
        let mut found: Vec<(String, Kind)> = entries
            .iter()
            .filter_map(|(path, entry)| {
                let name = path.strip_prefix(&prefix)?;
                (!name.is_empty() && !name.contains('/')).then(|| (name.to_owned(), entry.kind()))
            })
            .collect();
        found.sort_by(|one, other| one.0.cmp(&other.0));
        found
    }
}

impl Entry {
    fn kind(&self) -> Kind {
        match self {
            Entry::File(file) => Kind::File(file.lock().size()),
            Entry::Folder => Kind::Folder,
        }
    }
}

impl File {
    /// An empty one, with room for so many bytes, at most a block.
    pub(crate) fn new(room: usize) -> Arc<Mutex<File>> {
        let tail = BytesMut::with_capacity(room.min(BLOCK_BYTES));
        Arc::new(Mutex::new(File { full: Vec::new(), tail, writer: 0 }))
    }

    pub(crate) fn size(&self) -> u64 {
        (self.full.len() * BLOCK_BYTES + self.tail.len()) as u64
    }

    pub(crate) fn append(&mut self, mut data: &[u8]) {
        while !data.is_empty() {
            let room = BLOCK_BYTES.saturating_sub(self.tail.len());
            let (piece, rest) = data.split_at_checked(room).unwrap_or((data, &[]));
            if self.tail.is_empty() && self.tail.capacity() < piece.len() {
                // A file that has filled a block may well fill another.
                let room = if self.full.is_empty() { piece.len() } else { BLOCK_BYTES };
                self.tail = BytesMut::with_capacity(room);
            }
            self.tail.extend_from_slice(piece);
            if self.tail.len() == BLOCK_BYTES {
                self.full.push(std::mem::take(&mut self.tail).freeze());
            }
            data = rest;
        }
    }

    /// The whole file, as it is now.
    pub(crate) fn blocks(&self) -> VecDeque<Bytes> {
        let mut blocks: VecDeque<Bytes> = self.full.iter().cloned().collect();
        if !self.tail.is_empty() {
            blocks.push_back(Bytes::copy_from_slice(&self.tail));
        }
        blocks
    }

    /// Copies what is at `offset`, as far as there is something and it fits; answers how much.
    pub(crate) fn read_at(&self, offset: u64, mut space: &mut [u8]) -> usize {
        let Ok(mut at) = usize::try_from(offset) else { return 0 };
        let mut copied = 0;
        loop {
            let (number, from) = (at / BLOCK_BYTES, at % BLOCK_BYTES);
            let block = match self.full.get(number) {
                Some(block) => block.as_ref(),
                None if number == self.full.len() => self.tail.as_ref(),
                None => break,
            };
            let rest = block.get(from..).unwrap_or_default();
            let count = rest.len().min(space.len());
            let (Some(rest), Some((room, behind))) =
                (rest.get(..count), space.split_at_mut_checked(count))
            else {
                break;
            };
            if count == 0 {
                break;
            }
            room.copy_from_slice(rest);
            (space, at, copied) = (behind, at + count, copied + count);
        }
        copied
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_in_pieces_is_read_as_it_was_written() {
        let whole: Vec<u8> = (0..2 * BLOCK_BYTES + 77).map(|at| (at % 251) as u8).collect();
        for piece in [1 << 12, 300_001, BLOCK_BYTES, whole.len()] {
            let file = File::new(0);
            let mut file = file.lock();
            whole.chunks(piece).for_each(|piece| file.append(piece));
            assert_eq!(file.size(), whole.len() as u64);
            let blocks: Vec<u8> = file.blocks().into_iter().flatten().collect();
            assert!(blocks == whole, "{piece}");
            for from in [0, 5, BLOCK_BYTES - 1, BLOCK_BYTES, 2 * BLOCK_BYTES + 76, whole.len()] {
                let mut space = vec![0; BLOCK_BYTES + 9];
                let count = file.read_at(from as u64, &mut space);
                let rest = &whole[from..];
                assert_eq!(count, rest.len().min(space.len()), "{from}");
                assert!(space[..count] == rest[..count], "{from}");
            }
            for behind in [whole.len() + 1, 3 * BLOCK_BYTES, 9 * BLOCK_BYTES] {
                assert_eq!(file.read_at(behind as u64, &mut [0; 9]), 0, "{behind}");
            }
        }
    }

    #[test]
    fn names_are_of_files_or_of_folders() {
        let files = Files::default();
        let file = File::new(9);
        file.lock().append(b"abc");
        files.put("/a/b".to_owned(), file);
        assert!(files.make_folder("/a".to_owned()) && !files.make_folder("/a".to_owned()));
        assert!(files.make_folder("/a/c".to_owned()));
        let listed = [("b".to_owned(), Kind::File(3)), ("c".to_owned(), Kind::Folder)];
        assert_eq!(files.list("/a"), listed);
        assert_eq!(files.list("/"), [("a".to_owned(), Kind::Folder)]);
        let kinds = ["/", "/a", "/a/b", "/b"].map(|path| files.kind(path));
        let folder = Some(Kind::Folder);
        assert_eq!(kinds, [folder, folder, Some(Kind::File(3)), None]);
        assert!(files.find("/a").is_none() && files.find("/a/b").is_some());
        assert!(!files.remove("/a") && !files.remove_folder("/a/b"));
        assert!(files.remove("/a/b") && files.remove_folder("/a/c") && !files.remove("/a/b"));
        let paths = [files.put_unnamed("/new"), files.put_unnamed("/new")];
        assert!(paths[0] != paths[1] && paths.iter().all(|path| files.find(path).is_some()));
    }
}
