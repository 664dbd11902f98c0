//! Identifiers that follow from what they are for, so that doing a thing twice names it once.

use uuid::Uuid;

use crate::digest::{Sha256, StreamDigest};

/// BLAKE3 of a purpose and its parts, in a UUID version 8 (RFC 9562 §5.8): the same on every node.
pub fn derived_id(purpose: &str, parts: &[&[u8]]) -> Uuid {
    let mut digest = StreamDigest::new(Sha256::Unwanted);
    for part in [b"entrepot".as_slice(), purpose.as_bytes()].iter().chain(parts) {
        digest.update(&(part.len() as u64).to_le_bytes());
        digest.update(part);
    }
    let hash = digest.finish().blake3.unwrap_or_default();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(hash.split_at(16).0);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ids of this form lie in databases and journals: they never change.
    #[test]
    fn an_id_follows_from_its_parts_and_from_nothing_else() {
        let id = derived_id("job", &[b"ab", b"c"]);
        assert_eq!(id, derived_id("job", &[b"ab", b"c"]));
        assert_ne!(id, derived_id("job", &[b"a", b"bc"]));
        assert_ne!(id, derived_id("told", &[b"ab", b"c"]));
        assert_eq!(id.get_version_num(), 8);
    }
}
