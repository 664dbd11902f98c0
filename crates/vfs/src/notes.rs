//! What this crate writes into the journal beside events, so that a crash leaves no doubt
//! (records of kind `Intent`), and how it is read back.

use entrepot_model::listener::Protocol;
use entrepot_model::{Event, EventId, Name, SiteId, StorePath, Timestamp, TransferId, VPath};
use serde::{Deserialize, Serialize};

/// A record of kind `Intent`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "note", rename_all = "kebab-case")]
pub(crate) enum Note {
    /// Something is about to change. Ends with its event, or with a `Closed` record of the
    /// event's id if nothing changed.
    Change(Box<Change>),
    /// An upload that can be resumed, as it stood then; the last note of a transfer counts. Ends
    /// with an event of the transfer that says so, or with a `Closed` record of the transfer's id.
    Partial(Box<Partial>),
    /// All that had not ended is noted again between record `from` and here.
    Checkpoint {
        /// Sequence.
        from: u64,
    },
}

/// Something that is about to change under a name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Change {
    /// The event that says it happened. Its id is the change's too.
    pub(crate) event: Event,
    /// Where.
    pub(crate) endpoint: Name,
    /// Seen through.
    pub(crate) mount: Name,
    /// The name that changes; of a rename the new one.
    pub(crate) target: StorePath,
    /// Of a rename: the old name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) source: Option<StorePath>,
    /// The file that gets the name, as the store tells files apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) identity: Option<String>,
}

impl Change {
    /// Its id.
    pub(crate) fn id(&self) -> EventId {
        self.event.id
    }
}

/// An upload that can be resumed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Partial {
    /// The transfer: names the staged file.
    pub(crate) transfer: TransferId,
    /// Whose.
    pub(crate) site: SiteId,
    /// Whose.
    pub(crate) account: Name,
    /// The name it was to get.
    pub(crate) path: VPath,
    /// Where.
    pub(crate) endpoint: Name,
    /// Seen through.
    pub(crate) mount: Name,
    /// The name at the endpoint.
    pub(crate) target: StorePath,
    /// Spoken with the peer.
    pub(crate) protocol: Protocol,
    /// Bytes before the first hole.
    pub(crate) contiguous: u64,
    /// How many of these are on stable storage.
    pub(crate) synced: u64,
    /// Which start of the machine wrote them; after another one only the synced ones are there.
    pub(crate) boot: String,
    /// When the upload began.
    pub(crate) started_at: Timestamp,
    /// When it was noted.
    pub(crate) at: Timestamp,
    /// When it is swept.
    pub(crate) until: Timestamp,
}

impl Partial {
    /// Bytes that can be trusted under the present start of the machine.
    pub(crate) fn trusted(&self, boot: &str) -> u64 {
        if self.boot == boot { self.contiguous } else { self.synced.min(self.contiguous) }
    }
}
