//! tar archives: ustar, with the long names of GNU and the extensions of pax.

use std::cell::Cell;
use std::io::{self, Read, Write};
use std::rc::Rc;

use tar::{Archive, Builder, Entry, EntryType, Header};

use super::files::{ArchiveLimits, Exactly, FileSink, Packed, ToSink};
use super::names::{EntryName, Names};
use crate::error::TransformError;
use crate::flow::{Flow, copy, too_silent};
use crate::limits::TAR_HEADER_BYTES;

/// A block of an archive.
const BLOCK: u64 = 512;

fn damaged(error: &io::Error) -> TransformError {
    TransformError::bad(format!("the tar archive is damaged: {error}"))
}

/// Counts the zeros that the archive ended with up to now.
struct Tail<'a> {
    inner: &'a mut dyn Read,
    zeros: Rc<Cell<u64>>,
}

impl Read for Tail<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        let bytes = buffer.get(..read).unwrap_or_default();
        let zeros = bytes.iter().rev().take_while(|byte| **byte == 0).count();
        let before = if zeros == read { self.zeros.get() } else { 0 };
        self.zeros.set(before + zeros as u64);
        Ok(read)
    }
}

pub(super) fn extract(
    limits: &ArchiveLimits,
    archive: &mut dyn Read,
    files: &mut dyn FileSink<EntryName>,
) -> Result<(), TransformError> {
    let flow = Flow::default();
    let ended = extract_entries(&flow, limits, archive, files);
    flow.ended(ended)
}

fn extract_entries(
    flow: &Flow,
    limits: &ArchiveLimits,
    archive: &mut dyn Read,
    files: &mut dyn FileSink<EntryName>,
) -> Result<(), TransformError> {
    let zeros = Rc::new(Cell::new(0));
    // Long names and extensions are kept in memory: between two entries little is read.
    let mut input = flow.input(archive).limited_to(TAR_HEADER_BYTES, too_silent);
    let mut archive = Archive::new(Tail { inner: &mut input, zeros: zeros.clone() });
    let (mut names, mut count, mut total) = (Names::default(), 0, 0);
    for entry in archive.entries().map_err(|error| damaged(&error))? {
        let mut entry = entry.map_err(|error| damaged(&error))?;
        count += 1;
        if count > limits.entries {
            let text = format!("it has more than {} entries", limits.entries);
            return Err(TransformError::OverBound(text));
        }
        if let Some(name) = name_of(&mut entry, &mut names)? {
            let began = files.begin(&name);
            began.map_err(TransformError::Write)?;
            let size = entry.size();
            let bounds = limits.bounds;
            let mut sink =
                ToSink { files, flow, bounds, total: &mut total, source: None, written: 0 };
            copy(&mut Progressing { inner: &mut entry, flow }, &mut sink)
                .map_err(|error| damaged(&error))?;
            if sink.written != size {
                return Err(TransformError::bad(format!("the entry '{name}' is cut off")));
            }
            files.end().map_err(TransformError::Write)?;
        }
        flow.progressed();
        zeros.set(0);
    }
    if zeros.get() < BLOCK {
        return Err(TransformError::bad("the tar archive has no end: it is cut off"));
    }
    read_to_end(flow, &mut archive.into_inner())
}

/// Reads what is behind the mark at the end: zeros, and the checksum of what it was compressed by.
fn read_to_end(flow: &Flow, rest: &mut impl Read) -> Result<(), TransformError> {
    let mut block = vec![0; BLOCK as usize * 20];
    loop {
        flow.progressed();
        let read = rest.read(&mut block).map_err(|error| damaged(&error))?;
        if read == 0 {
            return Ok(());
        }
        if block.iter().take(read).any(|byte| *byte != 0) {
            return Err(TransformError::bad("the tar archive goes on behind its end"));
        }
    }
}

/// Content counts as progress, also that of files without end.
struct Progressing<'a, R> {
    inner: &'a mut R,
    flow: &'a Flow,
}

impl<R: Read> Read for Progressing<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.flow.progressed();
        self.inner.read(buffer)
    }
}

/// The name if it is a file; `None` for folders, which files make where they are needed, and for
/// comments.
fn name_of<R: Read>(
    entry: &mut Entry<'_, R>,
    names: &mut Names,
) -> Result<Option<EntryName>, TransformError> {
    check_extensions(entry)?;
    let kind = entry.header().entry_type();
    if kind == EntryType::XGlobalHeader {
        return Ok(None);
    }
    let bytes = entry.path_bytes().into_owned();
    let text = String::from_utf8(bytes);
    let text = text.map_err(|_| TransformError::bad("a name in the archive is not UTF-8"))?;
    match kind {
        EntryType::Regular | EntryType::Continuous => {
            let name = EntryName::new(&text)?;
            names.add_file(&name)?;
            Ok(Some(name))
        }
        EntryType::Directory => {
            if entry.size() != 0 {
                return Err(TransformError::bad("a folder in the archive has content"));
            }
            let path = text.trim_end_matches('/');
            if !matches!(path, "." | "") {
                names.add_folder(&EntryName::new(path)?)?;
            }
            Ok(None)
        }
        kind => {
            let shown: String = text.chars().take(100).collect();
            Err(TransformError::bad(format!(
                "the entry '{}' is no file: links, devices and sparse files are refused ({kind:?})",
                shown.escape_debug()
            )))
        }
    }
}

/// Where readers of tar differ in what an extension means, an archive can hide entries: only one
/// size, in digits, and no sparse files by extensions.
fn check_extensions<R: Read>(entry: &mut Entry<'_, R>) -> Result<(), TransformError> {
    let Some(extensions) = entry.pax_extensions().map_err(|error| damaged(&error))? else {
        return Ok(());
    };
    let mut sizes = 0;
    for extension in extensions {
        let extension = extension.map_err(|error| damaged(&error))?;
        let key = extension.key_bytes();
        if key.starts_with(b"GNU.sparse.") {
            return Err(TransformError::bad("sparse files in archives are refused"));
        }
        if key == b"size" {
            sizes += 1;
            if sizes > 1 || !extension.value_bytes().iter().all(u8::is_ascii_digit) {
                return Err(TransformError::bad("an entry of the archive has no clear size"));
            }
        }
    }
    Ok(())
}

pub(super) fn create<'a>(
    files: impl IntoIterator<Item = Packed<'a>>,
    archive: &mut dyn Write,
) -> Result<(), TransformError> {
    let flow = Flow::default();
    let mut builder = Builder::new(archive);
    let mut names = Names::default();
    for file in files {
        names.add_file(&file.name)?;
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_size(file.size);
        header.set_mode(0o644);
        header.set_mtime(0);
        header.set_uid(0);
        header.set_gid(0);
        let content =
            Exactly { name: &file.name, inner: file.content, left: file.size, flow: &flow };
        let appended = builder.append_data(&mut header, file.name.as_str(), content);
        flow.ended(appended.map_err(TransformError::Write))?;
    }
    let finished = builder.into_inner().and_then(|archive| archive.flush());
    finished.map_err(TransformError::Write)
}
