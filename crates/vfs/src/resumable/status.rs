//! How an upload stands that its client continues by id.

use entrepot_nouns::{Name, SiteId, Timestamp, VPath};

use super::record::{UploadId, UploadRecord};
use crate::notes::Partial;
use crate::uploaded::Uploaded;

/// An upload as its client may rely on it: every byte named here outlives the process and a power
/// cut.
#[derive(Clone, Debug, PartialEq)]
pub struct ResumableStatus {
    /// The name of the upload in requests.
    pub id: UploadId,
    /// The name that the file gets; with [`OnConflict::KeepBoth`](crate::OnConflict::KeepBoth) that
    /// it got in the end.
    pub path: VPath,
    /// Bytes from the start on without a hole. Never decreases.
    pub offset: u64,
    /// Size of the whole file, where it is known.
    pub size: Option<u64>,
    /// Bytes of each part but the last; `None`: the bytes come in order.
    pub part_bytes: Option<u64>,
    /// The parts that are there.
    pub parts: Vec<PartRange>,
    /// When the upload is dropped if nothing more comes; later with every byte.
    pub expires_at: Timestamp,
    /// What the client had kept with it, as it was sent.
    pub metadata: String,
    /// What the upload waits for.
    pub stage: UploadStage,
}

/// Parts that follow one another, the first and the last included. The first of all has number 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartRange {
    /// Number of the first.
    pub first: u64,
    /// Number of the last.
    pub last: u64,
}

/// What an upload waits for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum UploadStage {
    /// More bytes, or its finish.
    Receiving,
    /// Its publish, which is under way.
    Finishing,
    /// Nothing more: the file has its name.
    Finished(Uploaded),
}

/// An upload that was published, so that a client which lost the answer is answered again.
#[derive(Clone)]
pub(crate) struct FinishedUpload {
    pub(crate) site: SiteId,
    pub(crate) account: Name,
    pub(crate) path: VPath,
    pub(crate) ticket: String,
    pub(crate) metadata: String,
    pub(crate) uploaded: Uploaded,
}

impl ResumableStatus {
    /// As a note says.
    pub(crate) fn of(note: &Partial, record: &UploadRecord) -> ResumableStatus {
        ResumableStatus {
            id: record.id.clone(),
            path: note.path.clone(),
            offset: note.contiguous,
            size: record.size,
            part_bytes: record.part_bytes,
            parts: parts(record),
            expires_at: note.until,
            metadata: record.metadata.clone(),
            stage: UploadStage::Receiving,
        }
    }

    /// Of one that was published.
    pub(crate) fn of_finished(id: &UploadId, upload: &FinishedUpload) -> ResumableStatus {
        ResumableStatus {
            id: id.clone(),
            path: upload.path.clone(),
            offset: upload.uploaded.size,
            size: Some(upload.uploaded.size),
            part_bytes: None,
            parts: Vec::new(),
            expires_at: Timestamp::default(),
            metadata: upload.metadata.clone(),
            stage: UploadStage::Finished(upload.uploaded),
        }
    }
}

/// The parts that lie in the ranges of a record; each range begins and ends with a part.
fn parts(record: &UploadRecord) -> Vec<PartRange> {
    let Some(part_bytes) = record.part_bytes.filter(|bytes| *bytes > 0) else { return Vec::new() };
    let of = |(start, end): &(u64, u64)| PartRange {
        first: start / part_bytes,
        last: end.saturating_sub(1) / part_bytes,
    };
    record.present.iter().map(of).collect()
}
