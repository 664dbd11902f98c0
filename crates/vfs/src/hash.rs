//! Hashes that a client asks for: read block by block, computed beside the runtime, ended when
//! nobody waits for them any more.

use bytes::BytesMut;
use entrepot_crypto::Hasher;
use entrepot_nouns::{Right, VPath};

use crate::download::Download;
use crate::error::{Result, VfsError};
use crate::limits::HASH_BLOCK_BYTES;
use crate::place::Last;
use crate::upload::Upload;
use crate::vfs::Vfs;

pub use entrepot_crypto::HashAlgorithm;

/// What of a file is hashed, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashRange {
    /// The hash to compute.
    pub algorithm: HashAlgorithm,
    /// The first byte to hash.
    pub offset: u64,
    /// So many bytes, or fewer at the end of the file; `None`: all.
    pub len: Option<u64>,
    /// A hash for each so many bytes; `None`: one for all.
    pub block: Option<u64>,
}

impl HashRange {
    /// One hash of a whole file.
    pub fn whole(algorithm: HashAlgorithm) -> Self {
        HashRange { algorithm, offset: 0, len: None, block: None }
    }

    /// Bytes that are read of a file of `size` bytes.
    fn hashed_bytes(&self, size: u64) -> u64 {
        let behind = size.saturating_sub(self.offset);
        self.len.map_or(behind, |len| len.min(behind))
    }

    /// Bytes of the hashes of a file of `size` bytes.
    pub fn answer_bytes(&self, size: u64) -> u64 {
        let len = self.hashed_bytes(size);
        let hashes = self.block.map_or(1, |block| len.div_ceil(block.max(1)));
        hashes.saturating_mul(self.algorithm.bytes() as u64)
    }
}

/// Hashes at work.
struct Hashing {
    range: HashRange,
    hasher: Hasher,
    at: u64,
    end: u64,
    /// Where the block at hand ends.
    block_end: u64,
    hashes: Vec<u8>,
    ended: bool,
}

impl Hashing {
    fn new(range: HashRange) -> Hashing {
        let end = range.len.map_or(u64::MAX, |len| range.offset.saturating_add(len));
        let block_end = range.block.map_or(u64::MAX, |block| range.offset.saturating_add(block));
        let hasher = Hasher::new(range.algorithm);
        Hashing {
            range,
            hasher,
            at: range.offset,
            end,
            block_end,
            hashes: Vec::new(),
            ended: false,
        }
    }

    /// What to read next; `None`: nothing more.
    fn wants(&self) -> Option<(u64, usize)> {
        let left = self.end.min(self.block_end).saturating_sub(self.at);
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(HASH_BLOCK_BYTES);
        (!self.ended && len > 0).then_some((self.at, len))
    }

    /// Takes what was read, beside the runtime; gives the buffer back.
    async fn feed(mut self, block: BytesMut) -> Result<(Hashing, BytesMut)> {
        let work = move || {
            self.take(&block);
            (self, block)
        };
        let done = tokio::task::spawn_blocking(work).await;
        done.map_err(|error| VfsError::Io { problem: error.to_string() })
    }

    fn take(&mut self, block: &[u8]) {
        self.hasher.update(block);
        self.at = self.at.saturating_add(block.len() as u64);
        self.ended = block.is_empty();
        if self.at == self.block_end && self.range.block.is_some() {
            let block = self.range.block.unwrap_or(u64::MAX);
            self.block_end = self.block_end.saturating_add(block);
            self.next_hash();
        }
    }

    fn next_hash(&mut self) {
        let fresh = Hasher::new(self.range.algorithm);
        self.hashes.extend(std::mem::replace(&mut self.hasher, fresh).finish());
    }

    fn finish(mut self) -> Vec<u8> {
        let started = self.range.block.map(|block| self.block_end.saturating_sub(block));
        // The last block may be short; with blocks there is none for no bytes.
        if started.is_none_or(|started| self.at > started) {
            self.next_hash();
        }
        self.hashes
    }
}

impl Vfs {
    /// The hashes of a published file, one behind another.
    ///
    /// # Errors
    /// There is no such file, or it may not be read.
    pub async fn hash(&self, path: &VPath, range: &HashRange) -> Result<Vec<u8>> {
        let place = self.place(path, Last::Followed).await?.0.ok_or(VfsError::IsDirectory)?;
        place.need(Right::Read)?;
        let _open = self.0.shares.open_file()?;
        let file = place.store.open(&place.path).await?;
        self.0.may_hash(range.hashed_bytes(file.meta().size))?;
        let (mut hashing, mut block) = (Hashing::new(*range), BytesMut::new());
        while let Some((at, len)) = hashing.wants() {
            self.0.check()?;
            block.clear();
            block = file.read_at(at, block, len).await?;
            (hashing, block) = hashing.feed(block).await?;
        }
        Ok(hashing.finish())
    }
}

impl Download {
    /// As [`Vfs::hash`], of the file as it was opened. Nothing counts as sent.
    ///
    /// # Errors
    /// The session was ended, or the store failed.
    pub async fn hash(&self, range: &HashRange) -> Result<Vec<u8>> {
        self.may_hash(range.hashed_bytes(self.attributes().size))?;
        let (mut hashing, mut block) = (Hashing::new(*range), BytesMut::new());
        while let Some((at, len)) = hashing.wants() {
            block.clear();
            block = self.read_unsent(at, block, len).await?;
            (hashing, block) = hashing.feed(block).await?;
        }
        Ok(hashing.finish())
    }
}

impl Upload {
    /// As [`Vfs::hash`], of what has been written so far and what it is laid over.
    ///
    /// # Errors
    /// The session was ended, or the store cannot read what it was given.
    pub async fn hash(&mut self, range: &HashRange) -> Result<Vec<u8>> {
        self.may_hash(range.hashed_bytes(self.size()))?;
        let (mut hashing, mut block) = (Hashing::new(*range), BytesMut::new());
        while let Some((at, len)) = hashing.wants() {
            block.clear();
            block = self.read_at(at, block, len).await?;
            (hashing, block) = hashing.feed(block).await?;
        }
        Ok(hashing.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(range: HashRange, file: &[u8]) -> Vec<u8> {
        let mut hashing = Hashing::new(range);
        while let Some((at, len)) = hashing.wants() {
            let from = usize::try_from(at).unwrap().min(file.len());
            hashing.take(&file[from..from.saturating_add(len).min(file.len())]);
        }
        let hashes = hashing.finish();
        assert_eq!(range.answer_bytes(file.len() as u64), hashes.len() as u64);
        hashes
    }

    fn crc(bytes: &[u8]) -> Vec<u8> {
        let mut hasher = Hasher::new(HashAlgorithm::Crc32);
        hasher.update(bytes);
        hasher.finish()
    }

    #[test]
    fn blocks_are_hashed_each_for_itself_and_the_last_may_be_short() {
        let file: Vec<u8> = (0..=255).cycle().take(3_000_000).collect();
        let algorithm = HashAlgorithm::Crc32;
        let whole = HashRange::whole(algorithm);
        assert_eq!(hash(whole, &file), crc(&file));
        let part = HashRange { offset: 10, len: Some(20), ..whole };
        assert_eq!(hash(part, &file), crc(&file[10..30]));
        let blocks = HashRange { block: Some(1_300_000), offset: 7, ..whole };
        let wanted: Vec<u8> = file[7..].chunks(1_300_000).flat_map(crc).collect();
        assert_eq!(hash(blocks, &file), wanted);
        let even = HashRange { block: Some(256), len: Some(512), offset: 0, algorithm };
        assert_eq!(hash(even, &file).len(), 8);
        let behind = HashRange { offset: 9_000_000, block: Some(256), ..whole };
        assert_eq!(hash(behind, &file), [0u8; 0]);
        assert_eq!(hash(HashRange { block: None, ..behind }, &file), crc(&[]));
    }
}
