//! Records of what happened in sessions with an application: screens, keys, what was done and what
//! failed. They are kept in memory, the last ones of each session, and written to a file when the
//! level of the model says so. Nothing secret is in a file.

mod file;
mod record;
mod render;
mod writer;

pub use file::{DebugEvent, DebugFile, DebugFileError, DebugHeader, DebugMessage, TypedView};
pub use record::{DebugRecord, DebugRecords};
pub(crate) use record::{Trouble, Work, WorkEnd};
pub use writer::{DebugFiles, DebugPlace, DebugWriter};
