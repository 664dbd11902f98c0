//! What an object and its metadata say of a file.

use entrepot_nouns::{Timestamp, TransferId};
use object_store::{Attribute, Attributes, ObjectMeta};

use crate::store::{EntryKind, Identity, Meta};

/// Metadata key with the id of the transfer that made the object.
pub(super) const TRANSFER: &str = "entrepot-transfer";

fn timestamp(meta: &ObjectMeta) -> Timestamp {
    Timestamp(meta.last_modified.timestamp_micros())
}

pub(super) fn transfer_identity(id: TransferId) -> Identity {
    Identity(format!("transfer:{id}"))
}

pub(super) fn identity_of(meta: &ObjectMeta, attributes: &Attributes) -> Option<Identity> {
    let transfer = attributes.get(&Attribute::Metadata(TRANSFER.into()));
    match (transfer, &meta.e_tag) {
        (Some(transfer), _) => Some(Identity(format!("transfer:{}", transfer.as_ref()))),
        (None, Some(tag)) => Some(Identity(format!("etag:{tag}"))),
        _ => None,
    }
}

pub(super) fn file_meta(meta: &ObjectMeta, identity: Option<Identity>) -> Meta {
    let modified = timestamp(meta);
    Meta {
        kind: EntryKind::File,
        size: meta.size,
        modified,
        accessed: modified,
        identity,
        mode: None,
    }
}

pub(super) fn directory_meta() -> Meta {
    Meta {
        kind: EntryKind::Directory,
        size: 0,
        modified: Timestamp(0),
        accessed: Timestamp(0),
        identity: None,
        mode: None,
    }
}
