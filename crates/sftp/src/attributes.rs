//! How files look to a client (draft-ietf-secsh-filexfer-02 §5, §7).

use entrepot_nouns::{AccountId, Right, Timestamp};
use entrepot_sftp_proto::attrs::{self, OwnerNames};
use entrepot_sftp_proto::{Attrs, Owner, Times};
use entrepot_vfs::{Attributes, EntryKind};

/// Who owns everything an account sees: the account itself.
#[derive(Clone, Debug)]
pub(crate) struct Ownership {
    /// The account's name.
    pub(crate) account: String,
    /// Its first group, or its own name.
    pub(crate) group: String,
    number: u32,
}

impl Ownership {
    pub(crate) fn new(account: &str, group: Option<&str>, id: AccountId) -> Self {
        let [.., a, b, c, d] = *id.0.as_bytes();
        // Above the numbers of system accounts, below those that tools take for negative.
        let number = (u32::from_be_bytes([a, b, c, d]) & 0x3fff_ffff) | 0x4000_0000;
        Ownership {
            account: account.to_owned(),
            group: group.unwrap_or(account).to_owned(),
            number,
        }
    }

    /// The name of a user number.
    pub(crate) fn user(&self, number: u32) -> &str {
        if number == self.number { &self.account } else { "" }
    }

    /// The name of a group number.
    pub(crate) fn group(&self, number: u32) -> &str {
        if number == self.number { &self.group } else { "" }
    }

    /// The attributes on the wire. The mode carries the file type; where no permission bits are
    /// kept they follow from the rights.
    pub(crate) fn attrs(&self, of: &Attributes) -> Attrs {
        let (kind, bits) = match of.kind {
            EntryKind::Directory => (attrs::TYPE_DIRECTORY, 0o755),
            EntryKind::File => (attrs::TYPE_FILE, 0o644),
            EntryKind::Link => (attrs::TYPE_SYMLINK, 0o777),
        };
        let writable = of.rights.has(Right::Write) || of.rights.has(Right::Overwrite);
        let bits = if writable || of.kind == EntryKind::Link { bits } else { bits & !0o222 };
        Attrs {
            size: Some(of.size),
            owner: Some(Owner { uid: self.number, gid: self.number }),
            permissions: Some(kind | of.mode.unwrap_or(bits)),
            times: Some(Times { accessed: seconds(of.accessed), modified: seconds(of.modified) }),
        }
    }

    /// The line of a listing.
    pub(crate) fn long_name(&self, name: &str, attrs: &Attrs, now: Timestamp) -> String {
        let owner = OwnerNames { account: &self.account, group: &self.group };
        attrs::long_name(name, attrs, owner, seconds(now))
    }
}

/// Version 3 has unsigned seconds: what lies outside is shown at its edge.
fn seconds(at: Timestamp) -> u32 {
    u32::try_from(at.seconds().max(0)).unwrap_or(u32::MAX)
}

/// Times of a client.
pub(crate) fn timestamps(times: Times) -> (Timestamp, Timestamp) {
    let stamp = |seconds: u32| Timestamp::from_seconds(i64::from(seconds));
    (stamp(times.accessed), stamp(times.modified))
}
