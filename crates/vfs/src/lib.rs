//! Files as one session may see them: the only way any protocol touches a file.
#![allow(dead_code, unused, clippy::all)]

mod book;
mod error;
pub mod limits;
mod meters;
mod names;
mod notes;
mod quota;
mod recovery;
mod skeleton;

pub use entrepot_storage::{EntryKind, Existing, Space};
pub use error::{Result, StartError, VfsError};
pub use meters::{Meters, UploadEnd};
pub use recovery::RecoveryReport;
pub use skeleton::*;
