//! A folder as one zip archive that nowhere lies whole: its bytes are made when they are asked for.

use std::collections::BTreeSet;

use bytes::{Bytes, BytesMut};
use entrepot_crypto::{HashAlgorithm, Hasher};
use entrepot_nouns::VPath;

use super::format::Item;
use super::manifest::Manifest;
use crate::by_version::VersionKey;
use crate::download::Download;
use crate::error::{Result, VfsError};
use crate::hash::HashRange;
use crate::limits;
use crate::place::Last;
use crate::vfs::Vfs;

/// A folder as a zip archive of stored files. Any of its bytes can be read; in order costs least.
pub struct ZipArchive {
    vfs: Vfs,
    folder: VPath,
    manifest: Manifest,
    at: Cursor,
    open: Option<OpenFile>,
}

/// A place in the archive.
struct Cursor {
    offset: u64,
    segment: Segment,
    /// Bytes of the segment that lie before it.
    within: u64,
}

/// A stretch of the archive that is made at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Segment {
    Header(usize),
    Data(usize),
    Descriptor(usize),
    Central(usize),
    End,
    Behind,
}

/// The file whose bytes are being read.
struct OpenFile {
    row: usize,
    file: Download,
    /// The checksum of its first bytes, while they are read in order.
    hasher: Hasher,
    hashed: u64,
}

impl Vfs {
    /// A folder and all below it as a zip archive, as far as this session may list and read it;
    /// links are left out. What is in it is listed now, and read later.
    ///
    /// # Errors
    /// It is no directory, may not be listed, or has too many entries.
    pub async fn zip(&self, folder: &VPath) -> Result<ZipArchive> {
        let manifest = Manifest::of(self, folder).await?;
        Ok(ZipArchive::new(self, folder, manifest))
    }

    /// Some files and directories of a folder, each with all below it, as a zip archive in which
    /// the folder itself does not show.
    ///
    /// # Errors
    /// As [`Vfs::zip`]; or one of the names is not there, or may not be read.
    pub async fn zip_of(&self, folder: &VPath, names: &BTreeSet<String>) -> Result<ZipArchive> {
        let manifest = Manifest::of_names(self, folder, names).await?;
        Ok(ZipArchive::new(self, folder, manifest))
    }
}

impl ZipArchive {
    fn new(vfs: &Vfs, folder: &VPath, manifest: Manifest) -> ZipArchive {
        let at = Cursor { offset: 0, segment: Segment::Header(0), within: 0 };
        ZipArchive { vfs: vfs.clone(), folder: folder.clone(), manifest, at, open: None }
    }

    /// Length of the whole archive in bytes.
    pub fn size(&self) -> u64 {
        self.manifest.length()
    }

    /// Files and directories in it.
    pub fn entries(&self) -> u64 {
        self.manifest.directory.entries
    }

    /// Tells this archive from that of the same folder with anything changed: two archives of one
    /// tag have the same bytes.
    pub fn tag(&self) -> &str {
        &self.manifest.tag
    }

    /// The next bytes at `offset`, at most `max`; none at the end.
    ///
    /// # Errors
    /// [`VfsError::Changed`]: a file is not as it was listed. The archive cannot be had any more,
    /// and what was read of it must not be taken for whole.
    pub async fn read_at(&mut self, offset: u64, max: usize) -> Result<Bytes> {
        self.vfs.0.check()?;
        if offset != self.at.offset {
            self.seek(offset);
        }
        let max = max.min(limits::ZIP_READ_BYTES);
        // Headers and lines of the directory are short: many at a time.
        let mut made = BytesMut::new();
        while made.len() < max {
            let bytes = match self.at.segment {
                Segment::Behind => break,
                Segment::Data(_) if !made.is_empty() => break,
                Segment::Data(row) => {
                    let bytes = self.data(row, max).await?;
                    self.passed(bytes.len());
                    if !bytes.is_empty() {
                        return Ok(bytes);
                    }
                    bytes
                }
                segment => {
                    let bytes = self.made(segment, max - made.len()).await?;
                    self.passed(bytes.len());
                    bytes
                }
            };
            if bytes.is_empty() {
                self.advance();
            }
            made.extend_from_slice(&bytes);
        }
        Ok(made.freeze())
    }

    fn passed(&mut self, bytes: usize) {
        self.at.offset += bytes as u64;
        self.at.within += bytes as u64;
    }

    /// The bytes of a segment that are not a file's.
    async fn made(&mut self, segment: Segment, max: usize) -> Result<Bytes> {
        let bytes = match segment {
            Segment::Header(row) => self.item(row).map(|item| item.local_header()),
            Segment::Descriptor(row) => match self.item(row).filter(|item| item.size > 0) {
                Some(item) => Some(item.descriptor(self.crc(row).await?)),
                None => None,
            },
            Segment::Central(row) => match self.item(row) {
                Some(item) => {
                    let crc = if item.size > 0 { self.crc(row).await? } else { 0 };
                    Some(item.central_header(self.manifest.offset(row), crc))
                }
                None => None,
            },
            Segment::End => Some(self.manifest.directory.end()),
            Segment::Data(_) | Segment::Behind => None,
        };
        let bytes = Bytes::from(bytes.unwrap_or_default());
        let from = usize::try_from(self.at.within).unwrap_or(usize::MAX).min(bytes.len());
        Ok(bytes.slice(from..bytes.len().min(from.saturating_add(max))))
    }

    fn item(&self, row: usize) -> Option<Item> {
        self.manifest.item(row)
    }

    /// To the beginning of the next segment.
    fn advance(&mut self) {
        let rows = self.manifest.rows();
        self.at.within = 0;
        self.at.segment = match self.at.segment {
            Segment::Header(row) => Segment::Data(row),
            Segment::Data(row) => Segment::Descriptor(row),
            Segment::Descriptor(row) if row + 1 < rows => Segment::Header(row + 1),
            Segment::Descriptor(_) => Segment::Central(0),
            Segment::Central(row) if row + 1 < rows => Segment::Central(row + 1),
            Segment::Central(_) => Segment::End,
            Segment::End | Segment::Behind => Segment::Behind,
        };
    }

    fn length(&self, segment: Segment) -> u64 {
        let of = |row, length: fn(&Item) -> u64| self.item(row).map_or(0, |item| length(&item));
        match segment {
            Segment::Header(row) => of(row, Item::local_length),
            Segment::Data(row) => of(row, |item| item.size),
            Segment::Descriptor(row) => of(row, Item::descriptor_length),
            Segment::Central(row) => {
                let offset = self.manifest.offset(row);
                self.item(row).map_or(0, |item| item.central_length(offset))
            }
            Segment::End => self.manifest.directory.end_length(),
            Segment::Behind => u64::MAX,
        }
    }

    /// To an offset: at first to the entry that has it, or to the central directory.
    fn seek(&mut self, offset: u64) {
        let row = self.manifest.row_at(offset);
        let (mut start, segment) = if offset < self.manifest.directory.offset {
            (self.manifest.offset(row), Segment::Header(row))
        } else {
            (self.manifest.directory.offset, Segment::Central(0))
        };
        self.at = Cursor { offset, segment, within: 0 };
        loop {
            let length = self.length(self.at.segment);
            if offset - start < length {
                self.at.within = offset - start;
                return;
            }
            start += length;
            self.advance();
        }
    }

    /// The next bytes of a file.
    async fn data(&mut self, row: usize, max: usize) -> Result<Bytes> {
        let size = self.item(row).map_or(0, |item| item.size);
        let left = usize::try_from(size - self.at.within.min(size)).unwrap_or(usize::MAX);
        if left == 0 {
            return Ok(Bytes::new());
        }
        let mut open = match self.open.take().filter(|open| open.row == row) {
            Some(open) => open,
            None => self.open_file(row).await?,
        };
        let block = BytesMut::with_capacity(left.min(max));
        let block = open.file.read_at(self.at.within, block, left.min(max)).await?.freeze();
        if block.is_empty() {
            return Err(self.changed(row));
        }
        if open.hashed == self.at.within {
            open.hasher.update(&block);
            open.hashed += block.len() as u64;
        }
        if block.len() < left {
            self.open = Some(open);
            return Ok(block);
        }
        // What was sent is the version which was listed, or the archive ends here.
        let (path, crc) = (self.path(row)?, number(open.hasher.clone()));
        let is_whole = open.hashed == size;
        open.file.finish().await;
        self.check_version(row, &path).await?;
        if is_whole {
            let key = self.key(row, &path).await?;
            self.vfs.data_plane().zip_crcs.note(key, crc);
        }
        Ok(block)
    }

    async fn open_file(&self, row: usize) -> Result<OpenFile> {
        let path = self.path(row)?;
        let file = match self.vfs.open(&path).await {
            Err(VfsError::NotFound | VfsError::IsDirectory) => return Err(self.changed(row)),
            file => file?,
        };
        if file.attributes().version() != self.manifest.version(row) {
            return Err(self.changed(row));
        }
        Ok(OpenFile { row, file, hasher: Hasher::new(HashAlgorithm::Crc32), hashed: 0 })
    }

    /// The checksum of a file: known, or read for it.
    async fn crc(&self, row: usize) -> Result<u32> {
        let path = self.path(row)?;
        let key = self.key(row, &path).await?;
        let crcs = &self.vfs.data_plane().zip_crcs;
        if let Some(crc) = crcs.look(key) {
            return Ok(crc);
        }
        self.check_version(row, &path).await?;
        let hash = self.vfs.hash(&path, &HashRange::whole(HashAlgorithm::Crc32)).await?;
        self.check_version(row, &path).await?;
        let crc = u32::from_be_bytes(hash.first_chunk().copied().unwrap_or_default());
        crcs.note(key, crc);
        Ok(crc)
    }

    /// Fails unless a file is as it was listed.
    async fn check_version(&self, row: usize, path: &VPath) -> Result<()> {
        match self.vfs.stat(path).await {
            Ok(attributes) if attributes.version() == self.manifest.version(row) => Ok(()),
            Ok(_) | Err(VfsError::NotFound) => Err(self.changed(row)),
            Err(error) => Err(error),
        }
    }

    async fn key(&self, row: usize, path: &VPath) -> Result<VersionKey> {
        let place = self.vfs.place(path, Last::Followed).await?.0.ok_or(VfsError::IsDirectory)?;
        Ok(VersionKey::of(place.endpoint(), place.path.as_str(), self.manifest.version(row)))
    }

    fn path(&self, row: usize) -> Result<VPath> {
        self.manifest.path(&self.folder, row)
    }

    fn changed(&self, row: usize) -> VfsError {
        let path = self.path(row).map(|path| path.to_string()).unwrap_or_default();
        VfsError::Changed { path }
    }
}

/// A checksum as a number.
fn number(hasher: Hasher) -> u32 {
    u32::from_be_bytes(hasher.finish().first_chunk().copied().unwrap_or_default())
}
