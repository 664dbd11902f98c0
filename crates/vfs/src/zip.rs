//! A folder as one zip archive: stored files, the exact length known before the first byte, any
//! range readable. [`format`] knows the format and does no IO.

mod archive;
mod format;
mod manifest;

pub use archive::ZipArchive;
