//! What proved a login. A session lives only as long as each of its proofs would still count.

use entrepot_model::Timestamp;

use crate::principal::Principal;

/// A proof that was accepted.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Credential {
    /// A signature of this public key (its blob, RFC 4253 §6.6).
    Key(Vec<u8>),
    /// The password behind this hash.
    Password(String),
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Credential::Key(_) => "Key",
            Credential::Password(_) => "Password",
        })
    }
}

impl Credential {
    /// Why it counts no longer; `None` while it does.
    pub(crate) fn why_gone(&self, principal: &Principal, now: Timestamp) -> Option<&'static str> {
        match self {
            Credential::Key(blob) => {
                let same = |key: &&crate::UserKey| key.blob == *blob && key.is_valid_at(now);
                let known = principal.user_keys.iter().any(|key| same(&key));
                (!known).then_some("the key that it logged in with was taken away")
            }
            Credential::Password(hash) => {
                let known = principal.account.password_hash.as_ref() == Some(hash);
                (!known).then_some("the password that it logged in with was changed")
            }
        }
    }
}
