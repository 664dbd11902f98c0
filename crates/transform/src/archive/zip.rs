//! zip archives, read by their central directory.

use std::io::{self, Read, Seek, SeekFrom, Write};

use zip::read::{ArchiveOffset, Config, ZipReadOptions};
use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipArchive, ZipWriter};

use super::files::{ArchiveLimits, Exactly, FileSink, Packed, ToSink};
use super::names::{EntryName, Names};
use crate::error::TransformError;
use crate::flow::{Flow, copy};
use crate::limits::{ZIP_COMMENT_BYTES, ZIP_DIRECTORY_BYTES_EACH};

/// Bytes of the record at the end, without its comment.
const END_BYTES: u64 = 22;
/// Bytes of what points to the record of large archives.
const LOCATOR_BYTES: u64 = 20;
/// Bytes of that record.
const LARGE_END_BYTES: u64 = 56;
/// Type of a file in the mode of Unix, and what of it says file and folder.
const TYPE: u32 = 0o170_000;
const FILE: u32 = 0o100_000;
const FOLDER: u32 = 0o040_000;

fn damaged(error: &ZipError) -> TransformError {
    TransformError::bad(format!("the zip archive is damaged: {error}"))
}

fn bad_end() -> TransformError {
    TransformError::bad("the file is no zip archive, or its end is damaged or cut off")
}

pub(super) fn extract(
    limits: &ArchiveLimits,
    archive: &mut (impl Read + Seek),
    files: &mut dyn FileSink<EntryName>,
) -> Result<(), TransformError> {
    let flow = Flow::default();
    let mut input = flow.input(archive);
    let ended = extract_entries(&flow, limits, &mut input, files);
    flow.ended(ended)
}

fn extract_entries(
    flow: &Flow,
    limits: &ArchiveLimits,
    archive: &mut (impl Read + Seek),
    files: &mut dyn FileSink<EntryName>,
) -> Result<(), TransformError> {
    check_directory(limits, archive)?;
    let config = Config { archive_offset: ArchiveOffset::Known(0) };
    let mut archive = ZipArchive::with_config(config, archive).map_err(|error| damaged(&error))?;
    // Other readers go by the headers before the files: both must say the same, and nothing may
    // stand twice or between.
    archive.validate_header_consistency().map_err(|error| damaged(&error))?;
    // Every name is looked at before the first file is written.
    let mut names = Names::default();
    let mut entries = Vec::new();
    for index in 0..archive.len() {
        if let Some(name) = name_of(&mut archive, index, &mut names)? {
            entries.push((index, name));
        }
    }
    let mut total = 0;
    for (index, name) in entries {
        let options = ZipReadOptions::new().enforce_header_consistency(true);
        let mut entry = archive.by_index_with_options(index, options);
        let entry = entry.as_mut().map_err(|error| damaged(error))?;
        files.begin(&name).map_err(TransformError::Write)?;
        let source = Some(entry.compressed_size());
        let bounds = limits.bounds;
        let mut sink = ToSink { files, flow, bounds, total: &mut total, source, written: 0 };
        let copied = copy(entry, &mut sink);
        copied.map_err(|error| TransformError::bad(format!("the entry '{name}': {error}")))?;
        if sink.written != entry.size() {
            return Err(TransformError::bad(format!("the entry '{name}' has another size")));
        }
        files.end().map_err(TransformError::Write)?;
    }
    Ok(())
}

/// The name if it is a file; `None` for folders, which files make where they are needed.
fn name_of(
    archive: &mut ZipArchive<impl Read + Seek>,
    index: usize,
    names: &mut Names,
) -> Result<Option<EntryName>, TransformError> {
    let entry = archive.by_index_raw(index).map_err(|error| damaged(&error))?;
    let text = entry.name().map_err(|error| damaged(&error))?.into_owned();
    let refuse = |why: &str| {
        let shown: String = text.chars().take(100).collect();
        Err(TransformError::bad(format!("the entry '{}' {why}", shown.escape_debug())))
    };
    if entry.encrypted() {
        return refuse("is encrypted, which is not supported");
    }
    let kind = entry.unix_mode().unwrap_or(0) & TYPE;
    if entry.is_symlink() || !matches!(kind, 0 | FILE | FOLDER) {
        return refuse("is no file: links and devices are refused");
    }
    let Some(folder) = text.strip_suffix('/') else {
        if kind == FOLDER {
            return refuse("is a file and a folder");
        }
        let name = EntryName::new(&text)?;
        names.add_file(&name)?;
        return Ok(Some(name));
    };
    if entry.size() != 0 {
        return refuse("is a folder with content");
    }
    names.add_folder(&EntryName::new(folder)?)?;
    Ok(None)
}

/// Looks at the record at the end before the library believes its numbers: how many entries there
/// are, and that the directory lies right before it.
fn check_directory(
    limits: &ArchiveLimits,
    archive: &mut (impl Read + Seek),
) -> Result<(), TransformError> {
    let length = archive.seek(SeekFrom::End(0)).map_err(|_| bad_end())?;
    let kept = length.min(END_BYTES + ZIP_COMMENT_BYTES + LOCATOR_BYTES + LARGE_END_BYTES);
    let start = length - kept;
    archive.seek(SeekFrom::Start(start)).map_err(|_| bad_end())?;
    let mut tail = Vec::new();
    archive.take(kept).read_to_end(&mut tail).map_err(|_| bad_end())?;
    let ends = |at: usize| {
        let comment = number(&tail, at + 20, 2)?;
        let whole = at as u64 + END_BYTES + comment == tail.len() as u64;
        whole.then_some(at)
    };
    let found = tail.windows(4).enumerate().filter(|(_, bytes)| *bytes == b"PK\x05\x06");
    let mut found = found.map(|(at, _)| at);
    let at = found.find_map(ends).ok_or_else(bad_end)?;
    if found.next().is_some() {
        // Readers that look from the back would find another directory in the comment.
        return Err(TransformError::bad("the zip archive has two ends"));
    }
    let directory = Directory::read(&tail, at, start).ok_or_else(bad_end)?;
    directory.check(limits)
}

/// What the record at the end says of the central directory.
struct Directory {
    entries: u64,
    bytes: u64,
    start: u64,
    /// Where it must end.
    end: u64,
}

impl Directory {
    /// Of the record at `at` in the last bytes of the archive, which begin at `start`.
    fn read(tail: &[u8], at: usize, start: u64) -> Option<Directory> {
        let mut directory = Directory {
            entries: number(tail, at + 10, 2)?,
            bytes: number(tail, at + 12, 4)?,
            start: number(tail, at + 16, 4)?,
            end: start + at as u64,
        };
        let disks = number(tail, at + 4, 4)?;
        let locator = at.checked_sub(LOCATOR_BYTES as usize);
        let locator = locator.filter(|at| tail.get(*at..at + 4) == Some(b"PK\x06\x07"));
        if let Some(locator) = locator {
            let large = locator.checked_sub(LARGE_END_BYTES as usize)?;
            let is_large = tail.get(large..large + 4)? == b"PK\x06\x06";
            let named = number(tail, locator + 8, 8)? == start + large as u64;
            let whole = number(tail, large + 4, 8)? == LARGE_END_BYTES - 12;
            if !(is_large && named && whole) {
                return None;
            }
            directory = Directory {
                entries: number(tail, large + 32, 8)?,
                bytes: number(tail, large + 40, 8)?,
                start: number(tail, large + 48, 8)?,
                end: start + large as u64,
            };
        }
        (disks == 0 || locator.is_some()).then_some(directory)
    }

    fn check(&self, limits: &ArchiveLimits) -> Result<(), TransformError> {
        if self.start.checked_add(self.bytes) != Some(self.end) {
            return Err(bad_end());
        }
        let most = limits.entries as u64;
        if self.entries > most || self.bytes > most.saturating_mul(ZIP_DIRECTORY_BYTES_EACH) {
            return Err(TransformError::OverBound(format!("it has more than {most} entries")));
        }
        Ok(())
    }
}

/// A little-endian number of up to eight bytes.
fn number(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(length)?)?;
    Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

pub(super) fn create<'a>(
    files: impl IntoIterator<Item = Packed<'a>>,
    archive: &mut impl Write,
) -> Result<(), TransformError> {
    let flow = Flow::default();
    let failed = |error: ZipError| TransformError::Write(io::Error::other(error));
    let mut writer = ZipWriter::new_stream(archive);
    let mut names = Names::default();
    for file in files {
        names.add_file(&file.name)?;
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .last_modified_time(DateTime::default())
            .unix_permissions(0o644)
            // Deflate makes a file that cannot be compressed a little larger.
            .large_file(file.size > u64::from(u32::MAX / 2));
        writer.start_file(file.name.as_str(), options).map_err(failed)?;
        let mut content =
            Exactly { name: &file.name, inner: file.content, left: file.size, flow: &flow };
        let copied = copy(&mut content, &mut writer);
        flow.ended(copied.map_err(TransformError::Write))?;
    }
    let archive = writer.finish().map_err(failed)?.into_inner();
    archive.flush().map_err(TransformError::Write)
}
