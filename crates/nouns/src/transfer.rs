//! Transfers: one file, one direction; and the one table of their states.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::{JobId, SessionId, SiteId, TransferId};
use crate::listener::Protocol;
use crate::name::Name;
use crate::time::Timestamp;

/// Seen from this server.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// A peer (or a pull rule) brings a file to us.
    In,
    /// A file leaves: a download, or a delivery to an endpoint.
    Out,
}

impl Direction {
    /// `in` or `out`.
    pub fn as_str(self) -> &'static str {
        match self {
            Direction::In => "in",
            Direction::Out => "out",
        }
    }
}

/// The life of a transfer.
///
/// | state | meaning | bytes lie | next |
/// | --- | --- | --- | --- |
/// | `active` | bytes are moving | staging | `partial`, `completed`, `failed` |
/// | `partial` | cut; its owner may resume it | staging | `active`, `failed` (swept) |
/// | `held` | whole, durable; a rule decides | hidden | `completed`, `quarantined`, `failed` |
/// | `quarantined` | held, and no rule may release it | hidden | `completed`, `failed` |
/// | `completed` | whole, durable, visible under its name | target | end |
/// | `failed` | ended with an error; nothing is visible | nowhere | end |
/// | `unknown` | after a crash neither name was there; nothing was promised | unknown | end |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TransferState {
    /// Bytes are moving.
    Active,
    /// Cut; its owner may resume it.
    Partial,
    /// Whole, durable, and hidden until a rule releases it.
    Held,
    /// Held, and no rule may release it: somebody has to look.
    Quarantined,
    /// Whole, durable, visible.
    Completed,
    /// Ended with an error.
    Failed,
    /// After a crash neither name was there.
    Unknown,
}

impl TransferState {
    /// All states, in the order of the table.
    pub const ALL: [TransferState; 7] = [
        TransferState::Active,
        TransferState::Partial,
        TransferState::Held,
        TransferState::Quarantined,
        TransferState::Completed,
        TransferState::Failed,
        TransferState::Unknown,
    ];

    /// The word, lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            TransferState::Active => "active",
            TransferState::Partial => "partial",
            TransferState::Held => "held",
            TransferState::Quarantined => "quarantined",
            TransferState::Completed => "completed",
            TransferState::Failed => "failed",
            TransferState::Unknown => "unknown",
        }
    }
}

/// Digests of a whole file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
pub struct Digests {
    /// BLAKE3, 256 bits. Always there for what came through an upload.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "hex32")]
    #[schemars(with = "Option<String>")]
    pub blake3: Option<[u8; 32]>,
    /// SHA-256 (FIPS 180-4), when asked for.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "hex32")]
    #[schemars(with = "Option<String>")]
    pub sha256: Option<[u8; 32]>,
}

impl fmt::Debug for Digests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |digest: &Option<[u8; 32]>| digest.map_or_else(|| "-".to_owned(), |d| hex(&d));
        write!(f, "blake3:{} sha256:{}", text(&self.blake3), text(&self.sha256))
    }
}

/// Two lower-case hexadecimal digits for each byte.
pub fn hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from(if value < 10 { b'0' + value } else { b'a' - 10 + value });
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Reads 32 bytes of hexadecimal.
pub fn unhex32(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0u8; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (byte, at) in bytes.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(text.get(at..at + 2)?, 16).ok()?;
    }
    Some(bytes)
}

mod hex32 {
    use serde::{Deserialize, Deserializer, Serializer};

    // The signature is what serde's `with` asks for.
    #[allow(clippy::ref_option)]
    pub(super) fn serialize<S: Serializer>(
        digest: &Option<[u8; 32]>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match digest {
            Some(digest) => to.serialize_str(&super::hex(digest)),
            None => to.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<[u8; 32]>, D::Error> {
        let Some(text) = Option::<String>::deserialize(from)? else { return Ok(None) };
        super::unhex32(&text)
            .map(Some)
            .ok_or_else(|| serde::de::Error::custom("a digest is 64 hexadecimal digits"))
    }
}

/// One file, one direction: a row of the transfers table, projected from events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Transfer {
    /// The id that its events name it by.
    pub id: TransferId,
    /// The site that owns it, as its events say.
    pub site: SiteId,
    /// Seen from this server.
    pub direction: Direction,
    /// What its latest event says; a state that is an end stays.
    pub state: TransferState,
    /// Spoken with the peer.
    pub protocol: Protocol,
    /// The account that acted; `nobody` where the events name none.
    pub account: Name,
    /// Virtual path for sessions, path at the endpoint for deliveries.
    pub path: String,
    /// The endpoint of a delivery.
    pub endpoint: Option<Name>,
    /// The session it ran in, if any.
    pub session: Option<SessionId>,
    /// The job it ran for, if any.
    pub job: Option<JobId>,
    /// Bytes of the file; of an interrupted upload those that arrived, of a download those sent.
    pub size: u64,
    /// Digests, as far as known.
    pub digests: Digests,
    /// When it began.
    pub started_at: Timestamp,
    /// When it reached its present state.
    pub changed_at: Timestamp,
    /// Why it failed, one sentence.
    pub error: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_go_round() {
        let digests = Digests { blake3: Some([0xab; 32]), sha256: None };
        let text = serde_json::to_string(&digests).unwrap();
        assert_eq!(serde_json::from_str::<Digests>(&text).unwrap(), digests);
        assert!(unhex32("zz").is_none());
    }
}
