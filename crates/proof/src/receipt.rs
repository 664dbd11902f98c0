//! Receipts: proof that a file arrived or left, for whoever has the public key of the node.
//!
//! A receipt is JSON. `event` is the record of the journal; its compact form (no white space,
//! fields in their order) is byte for byte what was recorded. `head` is a signed note; `path` leads
//! from the record to the root in it. Verification (RFC 9162 §2.1.3.2) needs SHA-256 and Ed25519
//! and nothing of this program: docs/receipts.md has the steps and a receipt to try them on.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use entrepot_crypto::merkle::{self, Hash, leaf_hash};
use entrepot_crypto::{Checkpoint, NoteVerifier};
use entrepot_db::EventFilter;
use entrepot_nouns::{Event, Fact, SiteId, TransferId};
use serde::{Deserialize, Serialize};

use crate::error::{ProofError, Result};
use crate::heads::Heads;

/// What a receipt calls its form.
pub(crate) const FORMAT: &str = "entrepot-receipt/1";

/// Proof that an event is in the journal of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receipt {
    /// Which form it has: `entrepot-receipt/1`.
    pub format: String,
    /// The event as the node recorded it.
    pub event: serde_json::Value,
    /// Its place in the journal, from 1 on: the leaf of that index, less one, of the tree.
    pub record: u64,
    /// The hashes from the leaf to the root, as base64 (RFC 9162 §2.1.3.1).
    pub path: Vec<String>,
    /// The signed head (C2SP `tlog-checkpoint`).
    pub head: String,
    /// The key that verifies the head. A verifier compares it with the one that it was given by
    /// another way.
    pub key: String,
}

/// What a receipt proves.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VerifiedReceipt {
    /// What happened, as the node recorded it.
    pub event: Event,
    /// Its place in the journal.
    pub record: u64,
    /// How many records the head covers.
    pub covered: u64,
    /// When the head was signed, as it says.
    pub signed_at: Option<String>,
    /// The key that signed it.
    pub key: String,
}

impl Heads {
    /// The receipt of a transfer: of the last event that says that its file arrived or left.
    ///
    /// # Errors
    /// [`ProofError::NoFact`], [`ProofError::NotCovered`], [`ProofError::Elsewhere`]; those of the
    /// database, the journal and the tree.
    pub async fn receipt(&self, site: SiteId, transfer: TransferId) -> Result<Receipt> {
        let filter =
            EventFilter { transfer: Some(transfer), newest_first: true, ..EventFilter::default() };
        let events = self.db().events(site, &filter).await?;
        let event = events.into_iter().map(|row| row.event).find(|event| is_outcome(&event.fact));
        let event = event.ok_or(ProofError::NoFact(transfer))?;
        self.receipt_of(event, transfer).await
    }

    /// The receipt of an event; `transfer` is what was asked for.
    ///
    /// # Errors
    /// As [`Heads::receipt`], without [`ProofError::NoFact`].
    pub(crate) async fn receipt_of(&self, event: Event, transfer: TransferId) -> Result<Receipt> {
        let place = self.db().place_of_event(event.id).await?;
        let place = place.ok_or(ProofError::NotCovered(transfer))?;
        if place.node != *self.node() {
            return Err(ProofError::Elsewhere { transfer, node: place.node });
        }
        let record = place.node_sequence.ok_or(ProofError::NotCovered(transfer))?;
        let head = self.covering(record).await?.ok_or(ProofError::NotCovered(transfer))?;
        let payload = self.payload(record, &event)?;
        let size = head.size;
        let path = self
            .on_tree(move |tree| merkle::inclusion_path(tree, record - 1, size))
            .await?
            .ok_or(ProofError::NotCovered(transfer))?;
        let receipt = Receipt {
            format: FORMAT.to_owned(),
            event: parsed(&payload)?,
            record,
            path: path.iter().map(|hash| STANDARD.encode(hash)).collect(),
            head: head.note,
            key: self.verifier().to_string(),
        };
        // What does not verify here would not verify anywhere: the journal or the table has been
        // changed since the head was signed.
        receipt.verify(self.verifier())?;
        Ok(receipt)
    }

    /// The bytes of a record; from the journal as long as that reaches back so far, else the
    /// event of the table in the same form.
    fn payload(&self, record: u64, event: &Event) -> Result<Vec<u8>> {
        let read = self.journal().reader(record - 1).read_now(1);
        match read.ok().and_then(|records| records.into_iter().next()) {
            Some(found) if found.sequence == record => Ok(found.payload),
            _ => serde_json::to_vec(event).map_err(|error| ProofError::Receipt(error.to_string())),
        }
    }
}

/// True for facts that end a transfer with a whole file.
fn is_outcome(fact: &Fact) -> bool {
    let ended = !matches!(fact, Fact::FileInterrupted { .. } | Fact::FileUnknown { .. });
    ended && fact.file().is_some()
}

fn parsed(payload: &[u8]) -> Result<serde_json::Value> {
    serde_json::from_slice(payload).map_err(|error| ProofError::Receipt(error.to_string()))
}

impl Receipt {
    /// Reads a receipt.
    ///
    /// # Errors
    /// [`ProofError::Receipt`] if it has not the form of one.
    pub fn parse(text: &str) -> Result<Self> {
        let receipt: Receipt =
            serde_json::from_str(text).map_err(|error| ProofError::Receipt(error.to_string()))?;
        if receipt.format == FORMAT {
            Ok(receipt)
        } else {
            Err(ProofError::Receipt(format!("its format is '{}', not '{FORMAT}'", receipt.format)))
        }
    }

    /// What it proves, if `key` signed its head.
    ///
    /// # Errors
    /// [`ProofError::Note`] if the head is not signed by `key`, [`ProofError::Receipt`] if the
    /// event is not in the journal that the head covers.
    pub fn verify(&self, key: &NoteVerifier) -> Result<VerifiedReceipt> {
        let head = Checkpoint::open(&self.head, key)?;
        let invalid = |problem: &str| ProofError::Receipt(problem.to_owned());
        if head.origin != key.name() {
            return Err(invalid("its head is of another log than its key"));
        }
        let payload = serde_json::to_vec(&self.event)
            .map_err(|error| ProofError::Receipt(error.to_string()))?;
        let path = self.path.iter().map(|text| hash(text)).collect::<Option<Vec<Hash>>>();
        let path = path.ok_or_else(|| invalid("its path is not made of hashes"))?;
        let leaf = leaf_hash(&payload);
        let index = self.record.checked_sub(1).ok_or_else(|| invalid("records begin with 1"))?;
        if !merkle::is_included(&leaf, index, head.size, &path, &head.root) {
            return Err(invalid("its event, place or path is not what the head covers"));
        }
        let event: Event = serde_json::from_slice(&payload)
            .map_err(|error| ProofError::Receipt(format!("its event is unknown: {error}")))?;
        Ok(VerifiedReceipt {
            event,
            record: self.record,
            covered: head.size,
            signed_at: head.extension("time").map(str::to_owned),
            key: key.to_string(),
        })
    }
}

fn hash(text: &str) -> Option<Hash> {
    STANDARD.decode(text).ok()?.try_into().ok()
}
