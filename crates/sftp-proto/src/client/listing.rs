//! A directory being listed.

use super::op::{OpError, RemoteHandle};
use crate::attrs::Attrs;
use crate::wire::{Fields, Malformed};

/// One entry of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedEntry {
    /// The name as sent: any bytes.
    pub name: Vec<u8>,
    /// What READDIR sent with the name.
    pub attrs: Attrs,
}

/// OPENDIR → READDIR … → CLOSE.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pub(super) handle: Option<RemoteHandle>,
    pub(super) in_flight: usize,
    /// The end was seen, or an error, or the listing was cancelled.
    pub(super) over: bool,
    pub(super) closing: bool,
    pub(super) failure: Option<OpError>,
}

/// Shortest entry: two empty strings and empty attributes.
const ENTRY_BYTES: usize = 12;

pub(super) fn names(fields: &mut Fields<'_>) -> Result<Vec<NamedEntry>, Malformed> {
    let count = usize::try_from(fields.u32()?).map_err(|_| Malformed)?;
    // Each entry takes twelve bytes or more, so a false count reserves no more than a frame.
    let mut names = Vec::with_capacity(count.min(crate::limits::FRAME_BYTES / ENTRY_BYTES / 8));
    for _ in 0..count {
        let name = fields.string()?.to_vec();
        let _long_name = fields.string()?;
        names.push(NamedEntry { name, attrs: Attrs::parse(fields)? });
    }
    Ok(names)
}
