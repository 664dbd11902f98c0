//! Uploads that a client continues by id: over many requests, sessions and starts of the process,
//! in order or by parts. What HTTP calls resumable uploads (tus 1.0) and uploads by parts is this
//! one engine.
//!
//! What is acknowledged stays: after each request, and within a long one after every 64 MiB, the
//! bytes are synced and a note in the journal says that they are there. Between requests nothing
//! is open. The finish asks rights and quota again and publishes as every
//! [`Upload`](crate::Upload) does. An upload belongs to the node whose journal has it; its id names
//! that node.

mod append;
mod checksum;
mod create;
mod finish;
mod handle;
mod part;
pub(crate) mod record;
pub(crate) mod registry;
pub(crate) mod status;
mod ticket;
mod writer;

pub use append::Append;
pub use checksum::Checksum;
pub use create::{CreatedUpload, NewResumable};
pub use handle::ResumableUpload;
pub use part::PartUpload;
pub use record::{OnConflict, UploadId, UploadIdError};
pub use status::{PartRange, ResumableStatus, UploadStage};
pub use ticket::TicketedUpload;
