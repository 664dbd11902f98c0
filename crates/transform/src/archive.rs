//! Archives: many files in one. An entry's name is data of a stranger: it becomes an [`EntryName`],
//! which leads nowhere but below the folder that the caller chose, or the archive is refused whole.

mod files;
mod names;
mod tar;
mod zip;

use std::io::{self, Read, Seek, Write};

use crate::compress::{self, Compression, Compressor};
use crate::error::TransformError;
use crate::flow::{Bounds, Flow};

pub use files::{ArchiveLimits, FileSink, Packed};
pub use names::EntryName;

/// A format of archives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArchiveFormat {
    /// Deflated, `.zip`; read from its end, written from its beginning.
    Zip,
    /// `.tar`, or compressed `.tar.gz` and `.tar.zst`.
    Tar(Option<Compression>),
}

impl ArchiveFormat {
    /// By the end of a file's name.
    pub fn of_name(name: &str) -> Option<ArchiveFormat> {
        let name = name.to_ascii_lowercase();
        let by_end = [
            (".zip", ArchiveFormat::Zip),
            (".tar", ArchiveFormat::Tar(None)),
            (".tar.gz", ArchiveFormat::Tar(Some(Compression::Gzip))),
            (".tgz", ArchiveFormat::Tar(Some(Compression::Gzip))),
            (".tar.zst", ArchiveFormat::Tar(Some(Compression::Zstd))),
            (".tzst", ArchiveFormat::Tar(Some(Compression::Zstd))),
        ];
        by_end.iter().find(|(end, _)| name.ends_with(end)).map(|(_, format)| *format)
    }
}

/// Takes every file out of an archive.
pub fn extract(
    format: ArchiveFormat,
    limits: &ArchiveLimits,
    mut archive: impl Read + Seek,
    files: &mut dyn FileSink<EntryName>,
) -> Result<(), TransformError> {
    match format {
        ArchiveFormat::Zip => zip::extract(limits, &mut archive, files),
        ArchiveFormat::Tar(None) => tar::extract(limits, &mut archive, files),
        ArchiveFormat::Tar(Some(compression)) => {
            let flow = Flow::default();
            let input = flow.decoded(archive);
            let read = |error: io::Error| TransformError::bad(error.to_string());
            let bounded = compress::decoder(compression, input).map_err(read)?;
            let mut bounded = BoundedContent { inner: bounded, flow: &flow, limits, given: 0 };
            let ended = tar::extract(limits, &mut bounded, files);
            // The source of the archive is the decoder: what it says is about the file.
            flow.ended(ended.map_err(|error| match error {
                TransformError::Read(error) => TransformError::bad(error.to_string()),
                other => other,
            }))
        }
    }
}

/// Decompressed bytes of an archive, of which there may be so many.
struct BoundedContent<'a> {
    inner: Box<dyn Read + 'a>,
    flow: &'a Flow,
    limits: &'a ArchiveLimits,
    given: u64,
}

impl Read for BoundedContent<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.given += read as u64;
        self.flow.progressed();
        // Headers and padding come on top of the files; the files themselves are counted later.
        let output_bytes = u64::MAX;
        let bounds = Bounds { output_bytes, ..self.limits.bounds };
        bounds.check(self.flow.read(), self.given).map_err(|fault| self.flow.fail(fault))?;
        Ok(read)
    }
}

/// Puts files into an archive, in their order, without their times and owners: the same files give
/// the same bytes.
pub fn create<'a>(
    format: ArchiveFormat,
    files: impl IntoIterator<Item = Packed<'a>>,
    mut archive: impl Write,
) -> Result<(), TransformError> {
    let ArchiveFormat::Tar(compression) = format else {
        return zip::create(files, &mut archive);
    };
    let Some(compression) = compression else {
        return tar::create(files, &mut archive);
    };
    let flow = Flow::default();
    let output = flow.output(archive, Bounds::none());
    let level = compression.usual_level();
    let mut compressor = Compressor::new(compression, level, output)
        .map_err(|error| TransformError::bad(error.to_string()))?;
    let created = flow.ended(tar::create(files, &mut compressor));
    created?;
    let finished = compressor.finish().and_then(|mut output| output.flush());
    flow.ended(finished.map_err(TransformError::Write))
}

#[cfg(test)]
mod tests;
