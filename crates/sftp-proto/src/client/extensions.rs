//! What VERSION announced.

use crate::wire::{Fields, Malformed};

/// Most extensions kept; more are read over.
const KEPT: usize = 64;

/// The server's extensions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extensions {
    pairs: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Extensions {
    pub(super) fn parse(fields: &mut Fields<'_>) -> Result<Extensions, Malformed> {
        let mut pairs = Vec::new();
        while !fields.is_empty() {
            let (name, data) = (fields.string()?, fields.string()?);
            if pairs.len() < KEPT {
                pairs.push((name.to_vec(), data.to_vec()));
            }
        }
        Ok(Extensions { pairs })
    }

    /// The data of an extension, most often a version in decimal.
    pub fn data(&self, name: &str) -> Option<&[u8]> {
        let found = self.pairs.iter().find(|(known, _)| known == name.as_bytes());
        found.map(|(_, data)| data.as_slice())
    }

    /// True if the extension is offered in this version.
    pub fn offers(&self, name: &str, version: &str) -> bool {
        self.data(name) == Some(version.as_bytes())
    }
}
