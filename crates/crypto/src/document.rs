//! What documents are known by.

use entrepot_nouns::RuleVersion;

/// BLAKE3 of the text of a rule, in hexadecimal.
pub fn document_version(document: &str) -> RuleVersion {
    RuleVersion(blake3::hash(document.as_bytes()).to_hex().to_string())
}
