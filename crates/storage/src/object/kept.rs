//! Multipart uploads that can be gone on with: the id of the upload and of each part. What another
//! process must know of one is its ticket, a line of JSON that the caller keeps.

use entrepot_nouns::Timestamp;
use object_store::MultipartId;
use object_store::multipart::PartId;
use object_store::path::Path;
use serde::{Deserialize, Serialize};

use crate::error::{Result, StoreError};
use crate::limits::{PART_BYTES, PART_BYTES_MAX, PARTS_A_SIZE, PARTS_MOST};

/// What a store knows of an upload that is neither published nor dropped.
pub(super) enum Held {
    /// A handle is at work.
    Working {
        /// It is to be dropped with the handle.
        doomed: bool,
    },
    /// Its handle was dropped.
    Kept(Kept),
}

/// An upload without a handle.
pub(super) struct Kept {
    pub(super) key: Path,
    pub(super) upload: Upload,
    pub(super) at: Timestamp,
}

/// A multipart upload. Each part but the one that the publish sends is whole.
pub(super) struct Upload {
    pub(super) id: MultipartId,
    pub(super) parts: Vec<PartId>,
    /// It carries the transfer's id (Azure takes no metadata with parts).
    pub(super) labelled: bool,
    /// Bytes of the whole parts.
    pub(super) whole: u64,
}

#[derive(Serialize, Deserialize)]
struct Ticket {
    key: String,
    upload: String,
    parts: Vec<String>,
    labelled: bool,
}

impl Upload {
    /// Without a part yet.
    pub(super) fn new(id: MultipartId) -> Self {
        Upload { id, parts: Vec::new(), labelled: true, whole: 0 }
    }

    /// Bytes of the whole parts: what can be gone on with.
    pub(super) fn whole(&self) -> u64 {
        self.whole
    }

    /// A part of so many bytes was taken.
    pub(super) fn push(&mut self, part: PartId, bytes: usize) {
        if bytes == part_bytes(self.parts.len()) {
            self.whole += bytes as u64;
        }
        self.parts.push(part);
    }

    /// Forgets parts behind `size`, which must be the end of one; `false`: it is not.
    pub(super) fn cut(&mut self, size: u64) -> bool {
        let (mut end, mut parts) = (0, 0);
        while end < size && parts < self.parts.len() {
            end += part_bytes(parts) as u64;
            parts += 1;
        }
        if end != size || size > self.whole {
            return false;
        }
        self.parts.truncate(parts);
        self.whole = size;
        true
    }

    /// What another process must know of it.
    pub(super) fn ticket(&self, key: &Path) -> Option<String> {
        let mut whole = 0;
        let is_whole = |(number, part): (usize, &PartId)| {
            whole += part_bytes(number) as u64;
            (whole <= self.whole).then(|| part.content_id.clone())
        };
        let ticket = Ticket {
            key: key.to_string(),
            upload: self.id.clone(),
            parts: self.parts.iter().enumerate().map_while(is_whole).collect(),
            labelled: self.labelled,
        };
        // Nothing in it can fail to be written.
        serde_json::to_string(&ticket).ok()
    }
}

impl Kept {
    /// The upload that a ticket tells of, which must be one of `key`.
    pub(super) fn of_ticket(ticket: &str, key: Path, at: Timestamp) -> Result<Self> {
        let ticket: Ticket = serde_json::from_str(ticket)
            .map_err(|_| StoreError::Io("what is noted of an upload cannot be read".to_owned()))?;
        if ticket.key != key.as_ref() || ticket.parts.len() > PARTS_MOST {
            return Err(StoreError::NotFound);
        }
        let mut upload = Upload { labelled: ticket.labelled, ..Upload::new(ticket.upload) };
        for content_id in ticket.parts {
            let bytes = part_bytes(upload.parts.len());
            upload.push(PartId { content_id }, bytes);
        }
        Ok(Kept { key, upload, at })
    }
}

/// Bytes of the part after `parts` others: doubles every [`PARTS_A_SIZE`] parts.
pub(super) fn part_bytes(parts: usize) -> usize {
    let doublings = u32::try_from(parts / PARTS_A_SIZE).unwrap_or(u32::MAX);
    PART_BYTES.checked_shl(doublings.min(8)).unwrap_or(PART_BYTES_MAX).min(PART_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_tells_of_the_whole_parts() {
        let key = Path::from("a/b");
        let mut upload = Upload::new("id".to_owned());
        for (name, bytes) in [("one", PART_BYTES), ("two", PART_BYTES), ("short", 7)] {
            upload.push(PartId { content_id: name.to_owned() }, bytes);
        }
        let ticket = upload.ticket(&key).unwrap();
        let kept = Kept::of_ticket(&ticket, key.clone(), Timestamp(1)).unwrap();
        assert_eq!((kept.upload.parts.len(), kept.upload.whole()), (2, 2 * PART_BYTES as u64));
        assert!(Kept::of_ticket(&ticket, Path::from("a/c"), Timestamp(1)).is_err());
        assert!(Kept::of_ticket("{}", key, Timestamp(1)).is_err());
        let mut upload = kept.upload;
        assert!(!upload.cut(1) && !upload.cut(3 * PART_BYTES as u64));
        assert!(upload.cut(PART_BYTES as u64) && upload.parts.len() == 1);
        assert!(upload.cut(0) && upload.parts.is_empty() && upload.whole() == 0);
    }

    #[test]
    fn the_parts_of_one_object_hold_four_hundred_gibibytes() {
        assert_eq!(part_bytes(0), PART_BYTES);
        let most: u64 = (0..PARTS_MOST).map(|part| part_bytes(part) as u64).sum();
        assert!(most > 400 << 30, "only {most} bytes");
        assert!(part_bytes(usize::MAX) <= PART_BYTES_MAX);
    }
}
