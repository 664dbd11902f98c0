//! Files as one session may see them: the only way any protocol touches a file.
//!
//! A [`Grant`](entrepot_auth::Grant) opens a [`Session`], a session has a [`Vfs`], and a `Vfs`
//! gives an [`Upload`] or a [`Download`]. What is about to change is in the journal, durable,
//! before it changes, and the record of it before a client is answered; see ARCHITECTURE.md, "One
//! upload". [`Service::start`] looks at what a crash left.

mod as2;
mod book;
mod budgets;
mod by_version;
mod commands;
mod context;
mod download;
mod error;
mod free_name;
mod hash;
mod held;
mod hold;
mod hooks;
pub mod limits;
mod links;
mod location;
mod meters;
mod modes;
mod names;
mod node;
mod node_quotas;
mod notes;
mod partials;
mod place;
mod promised;
mod quota;
mod recount;
mod recovery;
mod refusal;
mod removal;
mod renaming;
mod resumable;
mod search;
mod service;
mod session;
mod sessions;
mod sha256;
mod state;
mod stores;
#[cfg(test)]
mod tests;
mod trash;
mod tree_copy;
mod unbroken;
mod upload;
mod uploaded;
mod versions;
mod vfs;
mod zip;

pub use as2::As2Arrival;
pub use book::MovingTransfer;
pub use budgets::{BudgetUse, NodeLimits};
pub use commands::{
    CommandAuthor, CommandClient, CommandNotRun, CommandReply, CommandRuleWatch, IncomingCommand,
    RunningCommand,
};
pub use context::ListenerContext;
pub use download::Download;
pub use entrepot_storage::{EntryKind, Existing, KernelFile, ModeOrigin, Space};
pub use error::{Result, StartError, VfsError};
pub use hash::{HashAlgorithm, HashRange};
pub use held::HeldName;
pub use hold::held_at;
pub use hooks::{Hook, Hooks, Moment, RuleQuestion};
pub use location::Location;
pub use meters::{Meters, UploadEnd};
pub use recovery::RecoveryReport;
pub use refusal::{CommandRefusal, RefusalClass};
pub use removal::Removed;
pub use renaming::Renamed;
pub use resumable::{
    Append, Checksum, CreatedUpload, NewResumable, OnConflict, PartRange, PartUpload,
    ResumableStatus, ResumableUpload, TicketedUpload, UploadId, UploadIdError, UploadStage,
};
pub use search::{Found, FoundPage, NameQuery, PageLimit};
pub use service::{Service, ServiceOptions, ServiceParts};
pub use session::Session;
pub use stores::StoreState;
pub use trash::{PurgedBatch, TrashPage, TrashedEntry};
pub use tree_copy::{CopyProgress, TreeCopy};
pub use upload::{Create, CreateIntent, Upload};
pub use uploaded::Uploaded;
pub use versions::{FileVersion, VersionPage};
pub use vfs::{Attributes, Entry, Listing, Room, Vfs};
pub use zip::ZipArchive;
