//! What the records of a journal are to its tree.

use entrepot_crypto::merkle::{Hash, leaf_hash};
use entrepot_journal::{Reader, Record};

use crate::error::{ProofError, Result};
use crate::limits::{GAP, LEAVES};

/// The hashes of the records behind `after` and up to `up_to`, of which the reader gave
/// `records`. Numbers without a record are leaves of no data.
///
/// # Errors
/// [`ProofError::Gap`] if more numbers were skipped than a tree is filled up for.
pub(crate) fn hashes(records: &[Record], after: u64, up_to: u64) -> Result<Vec<Hash>> {
    let count = up_to.saturating_sub(after);
    if count > GAP {
        return Err(ProofError::Gap { after, up_to });
    }
    let nothing = leaf_hash(&[]);
    let mut records = records.iter().peekable();
    let leaf = |sequence| {
        let record = records.next_if(|record| record.sequence == sequence);
        record.map_or(nothing, |record| leaf_hash(&record.payload))
    };
    Ok((after + 1..=up_to).map(leaf).collect())
}

/// The next leaves that are durable now; none if the tree has come to the end.
///
/// # Errors
/// As [`Reader::read_now`] and [`hashes`].
pub(crate) fn next(reader: &mut Reader) -> Result<Vec<Hash>> {
    let after = reader.position();
    let records = reader.read_now(LEAVES)?;
    hashes(&records, after, reader.position())
}
