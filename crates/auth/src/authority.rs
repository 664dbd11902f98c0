//! Keys that sign certificates of users (OpenSSH, PROTOCOL.certkeys), and what each of them says of
//! the certificates that it signed.

use entrepot_nouns::{Key, KeyType, Name};
use entrepot_ssh::Certificate;

use crate::ssh_key::UserKey;

/// A key that signs certificates of users.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Authority {
    /// The key, its dates and where those who come with its certificates may come from.
    pub(crate) key: UserKey,
    /// Principals that mean the account; empty: its name.
    principals: Vec<String>,
    revoked_serials: Vec<u64>,
    revoked_key_ids: Vec<String>,
}

impl Authority {
    /// The authority that a noun configures; `None` for keys of other types and unreadable ones.
    pub(crate) fn of(key: Key) -> Option<Authority> {
        if key.key_type != KeyType::SshUserCa {
            return None;
        }
        let mut key = key;
        let principals = std::mem::take(&mut key.principals);
        let revoked_serials = std::mem::take(&mut key.revoked_serials);
        let revoked_key_ids = std::mem::take(&mut key.revoked_key_ids);
        Some(Authority { key: UserKey::of(key)?, principals, revoked_serials, revoked_key_ids })
    }

    /// True if its noun lists the serial or the key id of the certificate as revoked.
    pub(crate) fn revokes(&self, certificate: &Certificate) -> bool {
        self.revoked_serials.contains(&certificate.serial)
            || self.revoked_key_ids.contains(&certificate.key_id)
    }

    /// True if a certificate that it signed is meant for the account of this name.
    pub(crate) fn means(&self, account: &Name, certificate: &Certificate) -> bool {
        let named = |wanted: &str| certificate.principals.iter().any(|name| name == wanted);
        match self.principals.as_slice() {
            [] => named(account.as_str()),
            wanted => wanted.iter().any(|wanted| named(wanted)),
        }
    }
}
