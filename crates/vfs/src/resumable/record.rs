//! What the journal keeps of an upload that its client continues by its id, and the names by which
//! the client speaks of it.

use std::fmt;
use std::str::FromStr;

use entrepot_nouns::transfer::hex;
use entrepot_nouns::{Digests, Env, Name, Timestamp};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Names an upload that is continued by id: the node that has it, and 128 random bits. As text
/// `node.0123456789abcdef0123456789abcdef`, so that a balancer can send requests to the right node.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct UploadId {
    node: Name,
    key: [u8; 16],
}

/// A text is no [`UploadId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is not the id of an upload")]
pub struct UploadIdError;

/// What happens when something has the name of the upload at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnConflict {
    /// The upload is refused.
    Refuse,
    /// The upload takes its place.
    Replace,
    /// The upload gets another name, such as `report (1).pdf`.
    KeepBoth,
}

/// What makes a kept upload one that is continued by id.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct UploadRecord {
    pub(crate) id: UploadId,
    /// Size of the whole file, once the client has said it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) size: Option<u64>,
    /// Bytes of each part but the last; `None`: bytes come in order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) part_bytes: Option<u64>,
    /// Durable ranges of bytes, of an upload by parts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) present: Vec<(u64, u64)>,
    /// When the file was changed last, as its client says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) modified: Option<Timestamp>,
    pub(crate) on_conflict: OnConflict,
    /// What the digests of the whole file must be.
    #[serde(default)]
    pub(crate) expected: Digests,
    /// What the client wants to read again.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) metadata: String,
    /// The bytes lie in the spool of the node until the finish sends them to the store.
    #[serde(default)]
    pub(crate) spooled: bool,
    /// SHA-256 of the secret in its ticket, hexadecimal.
    pub(crate) ticket: String,
}

impl UploadId {
    /// A new id that nobody can guess.
    pub(crate) fn new(node: &Name, env: &Env) -> UploadId {
        UploadId { node: node.clone(), key: random(env) }
    }

    /// The node that has the upload.
    pub fn node(&self) -> &Name {
        &self.node
    }
}

/// 128 random bits.
pub(crate) fn random(env: &Env) -> [u8; 16] {
    let mut key = [0; 16];
    env.fill_random(&mut key);
    key
}

/// Reads 16 bytes of lower-case hexadecimal.
pub(crate) fn unhex16(text: &str) -> Option<[u8; 16]> {
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let valid = text.len() == 32 && text.bytes().all(is_hex);
    valid.then(|| u128::from_str_radix(text, 16).ok().map(u128::to_be_bytes)).flatten()
}

impl FromStr for UploadId {
    type Err = UploadIdError;

    fn from_str(text: &str) -> Result<UploadId, UploadIdError> {
        let (node, key) = text.rsplit_once('.').ok_or(UploadIdError)?;
        let node = node.parse().map_err(|_| UploadIdError)?;
        Ok(UploadId { node, key: unhex16(key).ok_or(UploadIdError)? })
    }
}

impl fmt::Display for UploadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.node, hex(&self.key))
    }
}

impl fmt::Debug for UploadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UploadId({self})")
    }
}

impl Serialize for UploadId {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for UploadId {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_its_text_and_no_other() {
        let env = Env::simulated(3);
        let node: Name = "node-a.example".parse().unwrap();
        let id = UploadId::new(&node, &env);
        assert_ne!(id, UploadId::new(&node, &env));
        assert_eq!(id.to_string().parse(), Ok(id.clone()));
        assert_eq!(id.node(), &node);
        let upper = id.to_string().replace("node-a", "n").to_uppercase();
        for text in ["", "n1", "n1.", ".0123", "n1.+123456789abcdef0123456789abcdef", &upper] {
            assert_eq!(text.parse::<UploadId>(), Err(UploadIdError), "{text}");
        }
    }
}
