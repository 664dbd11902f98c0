//! Files on their way into an archive and out of it.

use std::io::{self, Read, Write};

use super::names::EntryName;
use crate::error::TransformError;
use crate::flow::{Bounds, Flow};
use crate::limits::ENTRIES;

/// What an archive may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArchiveLimits {
    /// Files and folders.
    pub entries: usize,
    /// All its files together; the ratio is that of each entry of a zip archive, and of all of a
    /// compressed tar archive.
    pub bounds: Bounds,
}

impl Default for ArchiveLimits {
    fn default() -> Self {
        ArchiveLimits { entries: ENTRIES, bounds: Bounds::default() }
    }
}

/// Takes the files that come of another one, each between [`FileSink::begin`] and
/// [`FileSink::end`]. Nothing of them is to be seen before the function that calls this has
/// returned `Ok`.
pub trait FileSink<L: ?Sized> {
    /// Another file follows, known by `label`.
    fn begin(&mut self, label: &L) -> io::Result<()>;
    /// The next bytes of it.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// It is whole.
    fn end(&mut self) -> io::Result<()>;
}

/// A file that goes into an archive.
pub struct Packed<'a> {
    /// Its name there.
    pub name: EntryName,
    /// How many bytes `content` has.
    pub size: u64,
    /// Is read to its end.
    pub content: &'a mut dyn Read,
}

/// The content of a file that goes into an archive: exactly as many bytes as its header says.
pub(super) struct Exactly<'a> {
    pub(super) name: &'a EntryName,
    pub(super) inner: &'a mut dyn Read,
    pub(super) left: u64,
    pub(super) flow: &'a Flow,
}

impl Read for Exactly<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = match self.inner.read(buffer) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Err(error),
            Err(error) => return Err(self.flow.fail(TransformError::Read(error))),
        };
        let fault = || {
            let text = format!("'{}' changed its size while it was read", self.name);
            self.flow.fail(TransformError::Read(io::Error::other(text)))
        };
        if read == 0 && !buffer.is_empty() && self.left > 0 {
            return Err(fault());
        }
        self.left = self.left.checked_sub(read as u64).ok_or_else(fault)?;
        Ok(read)
    }
}

/// Gives a sink the bytes of one file, and counts those of all files.
pub(super) struct ToSink<'a> {
    pub(super) files: &'a mut dyn FileSink<EntryName>,
    pub(super) flow: &'a Flow,
    pub(super) bounds: Bounds,
    /// Of all files up to now.
    pub(super) total: &'a mut u64,
    /// Size of the source of this file, if that is known.
    pub(super) source: Option<u64>,
    pub(super) written: u64,
}

impl Write for ToSink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.written += bytes.len() as u64;
        *self.total += bytes.len() as u64;
        let of_all = Bounds { ratio: u64::MAX, ..self.bounds };
        let checked = of_all.check(u64::MAX, *self.total).and_then(|()| match self.source {
            Some(source) => self.bounds.check(source, self.written),
            None => Ok(()),
        });
        checked.map_err(|fault| self.flow.fail(fault))?;
        let written = self.files.write(bytes);
        written.map_err(|error| self.flow.fail(TransformError::Write(error)))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
