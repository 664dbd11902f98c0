//! What this crate writes into the journal beside events, so that a crash leaves no doubt
//! (records of kind `Intent`), and how it is read back.

use entrepot_crypto::StreamDigest;
use entrepot_nouns::listener::Protocol;
use entrepot_nouns::path::PathError;
use entrepot_nouns::{Event, EventId, Name, SiteId, StorePath, Timestamp, TransferId, VPath};
use serde::{Deserialize, Serialize};

use crate::resumable::record::UploadRecord;

/// A record of kind `Intent`: as it is read, or, as [`NewNote`], what it is made from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "note", rename_all = "kebab-case")]
pub(crate) enum Note<C = Box<Change>, P = Box<Partial>> {
    /// Something is about to change. Ends with its event, or with a `Closed` record of the
    /// event's id if nothing changed.
    Change(C),
    /// An upload that can be resumed, as it stood then; the last note of a transfer counts. Ends
    /// with an event of the transfer that says so, or with a `Closed` record of the transfer's id.
    Partial(P),
    /// All that had not ended is noted again between record `from` and here.
    Checkpoint {
        /// Sequence of the first record of the checkpoint.
        from: u64,
    },
}

/// A note to write, of what stays where it is.
pub(crate) type NewNote<'a> = Note<&'a Change, &'a Partial>;

/// Something that is about to change under a name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Change {
    /// The event that says it happened. Its id is the change's too.
    pub(crate) event: Event,
    /// The endpoint that holds the name.
    pub(crate) endpoint: Name,
    /// The mount through which the session saw it.
    pub(crate) mount: Name,
    /// The name that changes; of a rename the new one.
    pub(crate) target: StorePath,
    /// Of a rename: the old name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) source: Option<StorePath>,
    /// The file that gets the name, as the store tells files apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) identity: Option<String>,
    /// Others change names at this endpoint too: the record of what happened is durable before the
    /// answer. Not noted, for it only matters until then.
    #[serde(skip)]
    pub(crate) shared: bool,
    /// Of an upload to a store that keeps a part of it: what is left if nothing came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) left: Option<Box<Partial>>,
}

impl Change {
    /// The id of its event.
    pub(crate) fn id(&self) -> EventId {
        self.event.id
    }
}

/// An upload that can be resumed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Partial {
    /// The transfer: names the staged file.
    pub(crate) transfer: TransferId,
    /// The site of the account.
    pub(crate) site: SiteId,
    /// The account that may resume it.
    pub(crate) account: Name,
    /// The name it was to get.
    pub(crate) path: VPath,
    /// The endpoint that holds the staged bytes.
    pub(crate) endpoint: Name,
    /// The mount through which it was written.
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
    /// What the store must be told to find the bytes again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ticket: Option<String>,
    /// The digest of the contiguous bytes as it stood, where they cannot be read back. Hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) digest: Option<String>,
    /// The file that had the name when the upload began, as the store tells files apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) replaces: Option<String>,
    /// Of an upload that its client continues by id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) by_id: Option<Box<UploadRecord>>,
}

impl Partial {
    /// The bytes that are kept, those behind a hole included.
    pub(crate) fn kept_bytes(&self) -> u64 {
        let present = self.by_id.as_ref().map_or(&[][..], |record| &record.present);
        let bytes: u64 = present.iter().map(|(start, end)| end.saturating_sub(*start)).sum();
        bytes.max(self.contiguous)
    }

    /// One past the last byte that is kept.
    pub(crate) fn kept_end(&self) -> u64 {
        let present = self.by_id.as_ref().and_then(|record| record.present.last());
        present.map_or(self.contiguous, |last| last.1)
    }

    /// Where the store stages the bytes: beside their target, or in the spool under their id.
    pub(crate) fn staged_target(&self) -> Result<StorePath, PathError> {
        if self.is_spooled() { self.transfer.to_string().parse() } else { Ok(self.target.clone()) }
    }

    /// True if the bytes lie in the spool of the node.
    pub(crate) fn is_spooled(&self) -> bool {
        self.by_id.as_ref().is_some_and(|record| record.spooled)
    }

    /// Bytes that can be trusted under the present start of the machine.
    pub(crate) fn trusted(&self, boot: &str) -> u64 {
        if self.boot == boot { self.contiguous } else { self.synced.min(self.contiguous) }
    }

    /// False if another process cannot go on with it: what is there can be neither hashed again nor
    /// is its digest known.
    pub(crate) fn outlives_process(&self) -> bool {
        self.ticket.is_none() || self.digest.is_some()
    }

    /// The digest as it stood.
    pub(crate) fn digest(&self) -> Option<StreamDigest> {
        let text = self.digest.as_deref()?;
        let pairs = text.as_bytes().chunks(2);
        let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let note: Option<Vec<u8>> = pairs.map(byte).collect();
        StreamDigest::resume(self.contiguous, &note?)
    }
}

/// Permission bits as events tell them.
pub(crate) fn octal(mode: u32) -> String {
    format!("{mode:04o}")
}
