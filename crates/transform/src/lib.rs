//! Changes of files: compression, archives, OpenPGP, checksum files, character sets. Each is a
//! function from readers to writers that holds a few buffers, whatever the size of the file.
//!
//! The functions block: their caller gives them a thread, and a writer to a staging file. What they
//! wrote is to be published only when they return `Ok`, for damage at the end of a file (a
//! checksum, a signature) shows after all of it was written.
//!
//! What comes from strangers is bounded while it is read and written, never by what a header says.

pub mod archive;
pub mod checksum;
pub mod compress;
mod error;
mod flow;
pub mod fuzzing;
pub mod limits;
pub mod openpgp;
pub mod records;
pub mod split;
pub mod text;
#[cfg(test)]
mod tools;

pub use error::TransformError;
pub use flow::Bounds;
