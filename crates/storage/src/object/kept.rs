//! Multipart uploads that can be gone on with: the id of the upload and of each part. What another
//! process must know of one is its ticket, a line of JSON that the caller keeps.

use entrepot_nouns::Timestamp;
use object_store::MultipartId;
use object_store::multipart::PartId;
use object_store::path::Path;
use serde::{Deserialize, Serialize};

use crate::error::{Result, StoreError};
use crate::limits::{
    PART_BYTES, PART_BYTES_MAX, PARTS_A_SIZE, PARTS_BYTES, PARTS_MOST, PARTS_SMALL,
};

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
    /// Those that arrived, without a gap.
    pub(super) parts: Vec<PartId>,
    /// It carries the transfer's id (Azure takes no metadata with parts).
    pub(super) labelled: bool,
    pub(super) sizes: PartSizes,
    /// Bytes of the whole parts.
    pub(super) whole: u64,
    /// Bytes of the whole parts when no other part was on its way last: where the caller knows the
    /// digest, and can go on. Never more than `whole`.
    pub(super) rested: u64,
}

/// How large the parts of an object are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PartSizes {
    /// Bytes of the first ones.
    pub(super) first: usize,
}

#[derive(Serialize, Deserialize)]
struct Ticket {
    key: String,
    upload: String,
    /// Of the sizes that parts always had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parts: Option<Vec<String>>,
    labelled: bool,
    /// Of other sizes. An older program, which would take them for those above, cannot read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sized: Option<SizedParts>,
}

#[derive(Serialize, Deserialize)]
struct SizedParts {
    first: usize,
    parts: Vec<String>,
}

/// Parts that have the same sizes in all versions of this program, if the first has [`PART_BYTES`].
const PARTS_ALIKE: usize = 2 * PARTS_A_SIZE;

impl PartSizes {
    /// Bytes of the part after `parts` others.
    pub(super) fn of(self, parts: usize) -> usize {
        if parts >= PARTS_SMALL {
            return PART_BYTES_MAX;
        }
        let doublings = u32::try_from(parts / PARTS_A_SIZE).unwrap_or(u32::MAX);
        let doubled = self.first.checked_shl(doublings).unwrap_or(PARTS_BYTES);
        doubled.min(PARTS_BYTES)
    }

    /// Most bytes of one object.
    pub(super) fn largest(self) -> u64 {
        (0..PARTS_MOST).map(|part| self.of(part) as u64).sum()
    }
}

impl Upload {
    /// Without a part yet.
    pub(super) fn new(id: MultipartId, sizes: PartSizes) -> Self {
        Upload { id, parts: Vec::new(), labelled: true, sizes, whole: 0, rested: 0 }
    }

    /// Bytes of the whole parts that can be gone on with.
    pub(super) fn rested(&self) -> u64 {
        self.rested
    }

    /// No part is on its way.
    pub(super) fn rest(&mut self) {
        self.rested = self.whole;
    }

    /// A part of so many bytes was taken.
    pub(super) fn push(&mut self, part: PartId, bytes: usize) {
        if bytes == self.sizes.of(self.parts.len()) {
            self.whole += bytes as u64;
        }
        self.parts.push(part);
    }

    /// Forgets parts behind `size`, which must be the end of one; `false`: it is not.
    pub(super) fn cut(&mut self, size: u64) -> bool {
        let (mut end, mut parts) = (0, 0);
        while end < size && parts < self.parts.len() {
            end += self.sizes.of(parts) as u64;
            parts += 1;
        }
        if end != size || size > self.whole {
            return false;
        }
        self.parts.truncate(parts);
        self.whole = size;
        self.rested = self.rested.min(size);
        true
    }

    /// What another process must know of it.
    pub(super) fn ticket(&self, key: &Path) -> Option<String> {
        let mut end = 0;
        let can_go_on = |(number, part): (usize, &PartId)| {
            end += self.sizes.of(number) as u64;
            (end <= self.rested).then(|| part.content_id.clone())
        };
        let parts: Vec<String> = self.parts.iter().enumerate().map_while(can_go_on).collect();
        let alike = self.sizes.first == PART_BYTES && parts.len() <= PARTS_ALIKE;
        let (parts, sized) = if alike {
            (Some(parts), None)
        } else {
            (None, Some(SizedParts { first: self.sizes.first, parts }))
        };
        let (key, upload, labelled) = (key.to_string(), self.id.clone(), self.labelled);
        // Nothing in it can fail to be written.
        serde_json::to_string(&Ticket { key, upload, parts, labelled, sized }).ok()
    }
}

impl Kept {
    /// The upload that a ticket tells of, which must be one of `key`.
    pub(super) fn of_ticket(ticket: &str, key: Path, at: Timestamp) -> Result<Self> {
        let unreadable = || StoreError::Io("what is noted of an upload cannot be read".to_owned());
        let ticket: Ticket = serde_json::from_str(ticket).map_err(|_| unreadable())?;
        let (first, parts) = match (ticket.sized, ticket.parts) {
            (Some(sized), _) => (sized.first, sized.parts),
            // Further ones of an older program had other sizes: they are sent again.
            (None, Some(mut parts)) => {
                parts.truncate(PARTS_ALIKE);
                (PART_BYTES, parts)
            }
            (None, None) => return Err(unreadable()),
        };
        if ticket.key != key.as_ref() || parts.len() > PARTS_MOST {
            return Err(StoreError::NotFound);
        }
        if !(PART_BYTES..=PARTS_BYTES).contains(&first) {
            return Err(unreadable());
        }
        let mut upload = Upload::new(ticket.upload, PartSizes { first });
        upload.labelled = ticket.labelled;
        for content_id in parts {
            let bytes = upload.sizes.of(upload.parts.len());
            upload.push(PartId { content_id }, bytes);
        }
        upload.rest();
        Ok(Kept { key, upload, at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: PartSizes = PartSizes { first: PART_BYTES };

    fn part(name: impl ToString) -> PartId {
        PartId { content_id: name.to_string() }
    }

    #[test]
    fn a_ticket_tells_of_the_whole_parts() {
        let key = Path::from("a/b");
        let mut upload = Upload::new("id".to_owned(), USUAL);
        for (name, bytes) in [("one", PART_BYTES), ("two", PART_BYTES), ("short", 7)] {
            upload.push(part(name), bytes);
        }
        upload.rest();
        let ticket = upload.ticket(&key).unwrap();
        let kept = Kept::of_ticket(&ticket, key.clone(), Timestamp(1)).unwrap();
        assert_eq!((kept.upload.parts.len(), kept.upload.rested()), (2, 2 * PART_BYTES as u64));
        assert!(Kept::of_ticket(&ticket, Path::from("a/c"), Timestamp(1)).is_err());
        assert!(Kept::of_ticket("{}", key, Timestamp(1)).is_err());
        let mut upload = kept.upload;
        assert!(!upload.cut(1) && !upload.cut(3 * PART_BYTES as u64));
        assert!(upload.cut(PART_BYTES as u64) && upload.parts.len() == 1);
        assert!(upload.cut(0) && upload.parts.is_empty() && upload.rested() == 0);
    }

    #[test]
    fn a_ticket_keeps_the_sizes_of_its_parts_and_none_behind_where_it_rested() {
        let key = Path::from("a/b");
        let sizes = PartSizes { first: 7 << 20 };
        let mut upload = Upload::new("id".to_owned(), sizes);
        for number in 0..1002 {
            upload.push(part(number), sizes.of(number));
            if number == 1000 {
                upload.rest();
            }
        }
        let kept = Kept::of_ticket(&upload.ticket(&key).unwrap(), key, Timestamp(1)).unwrap();
        assert_eq!((kept.upload.parts.len(), kept.upload.sizes), (1001, sizes));
        assert_eq!(kept.upload.rested(), (1000 * 7 + 14) << 20);
    }

    #[test]
    fn a_ticket_of_an_older_program_is_good_as_far_as_sizes_are_alike() {
        let key = Path::from("a/b");
        let older = |parts: usize| {
            let parts: Vec<String> = (0..parts).map(|part| part.to_string()).collect();
            let ticket = serde_json::json!({
                "key": "a/b", "upload": "id", "parts": parts, "labelled": true
            });
            Kept::of_ticket(&ticket.to_string(), key.clone(), Timestamp(1)).unwrap().upload
        };
        assert_eq!(older(3).rested(), 15 << 20);
        let many = older(2500);
        assert_eq!((many.parts.len(), many.rested()), (2000, (1000 * 5 + 1000 * 10) << 20));
    }

    #[test]
    fn the_parts_of_one_object_hold_four_hundred_gibibytes() {
        assert_eq!(USUAL.of(0), PART_BYTES);
        assert!(USUAL.largest() > 400 << 30, "only {} bytes", USUAL.largest());
        let small: u64 = (0..PARTS_SMALL).map(|part| USUAL.of(part) as u64).sum();
        assert!(small > 43 << 30, "only {small} bytes within 16 MiB");
        for first in [PART_BYTES, 7 << 20, PARTS_BYTES] {
            let sizes = PartSizes { first };
            assert_eq!(sizes.of(999), first);
            assert!((0..PARTS_SMALL).all(|part| sizes.of(part) <= PARTS_BYTES));
            assert_eq!(sizes.of(usize::MAX), PART_BYTES_MAX);
        }
    }
}
