//! Copying a journal, also while a node writes it: closed segments whole, the last one up to its
//! last whole record, and the hashes beside them.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use crate::error::{JournalError, Result};
use crate::format;
use crate::medium::{ARCHIVE, FsMedium, Medium, TREE};
use crate::scan::{Scanner, Step};

/// Bytes that are copied at a time.
const COPY_BYTES: usize = 1 << 20;

/// A file of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopiedFile {
    /// Its name below the folder of the journal, such as `archive/00000000000000000001.journal`.
    pub name: String,
    /// Its size in bytes.
    pub size: u64,
    /// BLAKE3 of its bytes.
    pub blake3: [u8; 32],
}

/// Copies the journal in `from`, which a node may have open, into the new folder `to`. Every file
/// of the copy is durable when this returns. What is wrong with the records is found by
/// [`crate::verify`] on the copy.
///
/// # Errors
/// [`JournalError::NoJournal`] if there is nothing to copy, [`JournalError::Io`].
pub fn copy(from: &Path, to: &Path) -> Result<Vec<CopiedFile>> {
    let medium = FsMedium::existing(from);
    let list = |folder: &str| medium.list(folder).map_err(|error| failed("list", folder, &error));
    // Live first: a segment that moves to the archive meanwhile is then seen twice, not never.
    let live = list("")?;
    let archived = list(ARCHIVE)?;
    let mut firsts: Vec<u64> =
        live.iter().chain(&archived).filter_map(|name| format::segment_first(name)).collect();
    firsts.sort_unstable();
    firsts.dedup();
    let Some(last) = firsts.last().copied() else {
        return Err(JournalError::NoJournal { dir: medium.describe() });
    };
    make_folder(to)?;
    for folder in [ARCHIVE, TREE] {
        make_folder(&to.join(folder))?;
    }
    let mut copied = Vec::new();
    // The hashes follow the records, so they are copied before those.
    for name in list(TREE)? {
        let name = format!("{TREE}/{name}");
        let file = open(from, &name).map_err(|error| failed("open", &name, &error))?;
        copied.push(Copying { name, limit: u64::MAX }.run(file, to)?);
    }
    for first in firsts {
        let name = format::segment_name(first);
        let archive = format!("{ARCHIVE}/{name}");
        let (name, file) = match open(from, &name) {
            Ok(file) => (name, file),
            Err(error) if error.kind() == ErrorKind::NotFound => match open(from, &archive) {
                Ok(file) => (archive, file),
                // Retention has removed it since it was listed.
                Err(error) if error.kind() == ErrorKind::NotFound && first != last => continue,
                Err(error) => return Err(failed("open", &archive, &error)),
            },
            Err(error) => return Err(failed("open", &name, &error)),
        };
        let limit = if first == last { whole_records(&medium, &name)? } else { u64::MAX };
        copied.push(Copying { name, limit }.run(file, to)?);
    }
    for folder in ["", ARCHIVE, TREE] {
        let synced = File::open(to.join(folder)).and_then(|folder| folder.sync_all());
        synced.map_err(|error| failed("sync", folder, &error))?;
    }
    Ok(copied)
}

/// Up to which byte a segment holds whole records that follow its chain.
fn whole_records(medium: &FsMedium, name: &str) -> Result<u64> {
    let file = medium.open_to_read(name).map_err(|error| failed("open", name, &error))?;
    let mut scanner = match Scanner::open(file) {
        Ok((scanner, _)) => scanner,
        // It is being made, or damaged: nothing of it is a record.
        Err(Ok(_)) => return Ok(0),
        Err(Err(error)) => return Err(failed("read", name, &error)),
    };
    loop {
        match scanner.step().map_err(|error| failed("read", name, &error))? {
            Step::Record { .. } => {}
            Step::Blank | Step::Torn(_) | Step::Broken(_) => return Ok(scanner.offset()),
        }
    }
}

/// One file on its way.
struct Copying {
    name: String,
    /// Copied up to here.
    limit: u64,
}

impl Copying {
    fn run(self, file: File, to: &Path) -> Result<CopiedFile> {
        let Copying { name, limit } = self;
        let written = write_copy(file.take(limit), &to.join(&name));
        let (size, blake3) = written.map_err(|error| failed("copy", &name, &error))?;
        Ok(CopiedFile { name, size, blake3 })
    }
}

fn write_copy(mut from: impl Read, to: &Path) -> io::Result<(u64, [u8; 32])> {
    let mut options = std::fs::OpenOptions::new();
    let mut to = options.write(true).create_new(true).mode(0o600).open(to)?;
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; COPY_BYTES];
    loop {
        let read = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let bytes = buffer.get(..read).unwrap_or_default();
        hasher.update(bytes);
        to.write_all(bytes)?;
    }
    to.sync_all()?;
    Ok((hasher.count(), hasher.finalize().into()))
}

fn open(from: &Path, name: &str) -> io::Result<File> {
    File::open(from.join(name))
}

fn make_folder(path: &Path) -> Result<()> {
    let made = std::fs::DirBuilder::new().mode(0o700).create(path);
    made.map_err(|error| failed("make", &path.display().to_string(), &error))
}

fn failed(action: &'static str, name: &str, error: &io::Error) -> JournalError {
    JournalError::io(action, name, error)
}
