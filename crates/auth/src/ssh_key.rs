//! Public keys of SSH: those of accounts, their wire form (RFC 4253 §6.6), their fingerprints, and
//! the signatures that prove them.

use std::net::IpAddr;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use entrepot_crypto::{Sha256, StreamDigest};
use entrepot_nouns::{Key, Name, Source, Timestamp};

/// Signature algorithms that count (RFC 8332 for RSA: SHA-1 is not among them).
pub(crate) const SIGNATURES: [&str; 8] = [
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "rsa-sha2-256",
    "rsa-sha2-512",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
];

/// A public key that may log in.
#[derive(Clone, Debug, PartialEq)]
pub struct UserKey {
    /// The key's noun.
    pub name: Name,
    /// The wire form of the key (RFC 4253 §6.6): what is compared.
    pub blob: Vec<u8>,
    /// Not valid before.
    pub not_before: Option<Timestamp>,
    /// Not valid from then on.
    pub not_after: Option<Timestamp>,
    /// Where a login with it may come from; empty: anywhere.
    pub from: Vec<Source>,
    /// Who logs in with it may list and read only.
    pub read_only: bool,
    /// False: it counts for nothing.
    pub enabled: bool,
}

impl UserKey {
    /// The key of a noun; `None` if it cannot be read.
    pub(crate) fn of(key: Key) -> Option<UserKey> {
        Some(UserKey {
            blob: key_blob(&key.public)?,
            name: key.name,
            not_before: key.not_before,
            not_after: key.not_after,
            from: key.from,
            read_only: key.read_only,
            enabled: key.enabled,
        })
    }

    /// True if it counts for who comes from `address` at `now`.
    pub fn counts(&self, address: IpAddr, now: Timestamp) -> bool {
        let begun = self.not_before.is_none_or(|from| from <= now);
        let ended = self.not_after.is_some_and(|to| to <= now);
        self.enabled && begun && !ended && Source::admit(&self.from, address)
    }
}

/// The wire form inside one line of OpenSSH form.
pub(crate) fn key_blob(line: &str) -> Option<Vec<u8>> {
    STANDARD.decode(line.split_whitespace().nth(1)?).ok()
}

/// `SHA256:…` as OpenSSH shows it.
pub(crate) fn fingerprint(blob: &[u8]) -> String {
    let mut digest = StreamDigest::new(Sha256::Wanted);
    digest.update(blob);
    let hash = digest.finish().sha256.unwrap_or_default();
    format!("SHA256:{}", STANDARD_NO_PAD.encode(hash))
}
