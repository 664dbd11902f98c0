//! Browsers that are signed in: what proved their login in a form that can be stored, and those
//! that this node knows.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use entrepot_crypto::{TokenHash, constant_time_eq, password, seal};
use entrepot_db::SignInRow;
use entrepot_nouns::{Name, OidcIdentity, Secret, SessionId, Timestamp};
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::credential::Credential;
use crate::gate::Grant;
use crate::limits::{CACHED_SIGN_INS, SIGN_IN_FRESH, SIGN_IN_SEEN_EVERY, USER_AGENT};
use crate::principal::Principal;

/// What a browser is given when it has signed in.
#[derive(Debug)]
pub struct OpenedSignIn {
    /// By which lists and events name it.
    pub id: SessionId,
    /// The value of its cookie; only the browser has it.
    pub cookie: Secret,
    /// What its forms must carry.
    pub csrf: Secret,
    /// Signed out then, whatever it does.
    pub ends_at: Timestamp,
}

/// A browser that is signed in, as a request of it shows.
#[derive(Debug)]
pub struct SignIn {
    /// By which lists and events name it.
    pub id: SessionId,
    /// The proof of its login, as if it had logged in with this request.
    pub grant: Grant,
    /// What its forms must carry.
    pub csrf: Secret,
    /// When it signed in.
    pub opened_at: Timestamp,
    /// When it proved last who it is.
    pub proved_at: Timestamp,
    /// Signed out then, whatever it does.
    pub ends_at: Timestamp,
}

impl SignIn {
    /// True if it proved who it is within `time` before `now`, as dangerous changes ask for.
    pub fn proven_within(&self, time: Duration, now: Timestamp) -> bool {
        now.since(self.proved_at) <= time
    }

    /// True if a form carries what only pages of ours can have told the browser.
    pub fn is_csrf_token(&self, given: &Secret) -> bool {
        constant_time_eq(self.csrf.expose(), given.expose())
    }
}

/// A browser that is signed in, in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SignInInfo {
    /// By which it is ended.
    pub id: SessionId,
    /// The account that signed in.
    pub account: Name,
    /// When it signed in.
    pub opened_at: Timestamp,
    /// When it was seen last, within a minute.
    pub seen_at: Timestamp,
    /// When it proved last who it is.
    pub proved_at: Timestamp,
    /// Signed out then, whatever it does.
    pub ends_at: Timestamp,
    /// The IP address that it was seen at last.
    pub address: String,
    /// How the browser names itself, with what is no plain letter escaped.
    pub user_agent: String,
    /// What proved the login.
    pub proof: String,
}

impl From<SignInRow> for SignInInfo {
    fn from(row: SignInRow) -> Self {
        SignInInfo {
            id: row.id,
            account: row.account,
            opened_at: row.opened_at,
            seen_at: row.seen_at,
            proved_at: row.proved_at,
            ends_at: row.ends_at,
            address: row.address,
            user_agent: row.user_agent,
            proof: row.proof,
        }
    }
}

/// What proved a login, as it is stored: enough to see that it still counts, and of no use to log
/// in with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum StoredCredential {
    /// The password of this name, see [`password::name`].
    Password(String),
    /// A code of the generator whose sealed secret has this hash.
    Code(String),
    /// The passkey that its authenticator knows by this.
    Passkey(String),
    /// What a provider said of this person.
    Oidc(OidcIdentity),
    /// The decision of a login hook.
    Hook,
}

impl StoredCredential {
    /// `None`: a browser cannot be signed in by it, for it is shown with each request.
    pub(crate) fn of(credential: &Credential) -> Option<StoredCredential> {
        match credential {
            Credential::Password(hash) => Some(StoredCredential::Password(password::name(hash))),
            Credential::Code(sealed) => Some(StoredCredential::Code(seal::name(sealed))),
            Credential::Passkey(id) => Some(StoredCredential::Passkey(id.clone())),
            Credential::Oidc(identity) => Some(StoredCredential::Oidc(identity.clone())),
            Credential::Hook => Some(StoredCredential::Hook),
            Credential::Key(_)
            | Credential::Certificate(_)
            | Credential::Tls(_)
            | Credential::Token(_)
            | Credential::Link(_) => None,
        }
    }

    /// What it stands for, as long as the account has it.
    ///
    /// # Errors
    /// Why it counts no more.
    pub(crate) fn restored(&self, principal: &Principal) -> Result<Credential, &'static str> {
        let account = &principal.account;
        match self {
            StoredCredential::Password(name) => {
                let hash = account.password_hash.as_ref();
                let hash = hash.filter(|hash| password::name(hash) == *name);
                let hash = hash.ok_or("the password that it logged in with was changed")?;
                Ok(Credential::Password(hash.clone()))
            }
            StoredCredential::Code(name) => {
                let sealed = account.totp_sealed.as_ref();
                let sealed = sealed.filter(|sealed| seal::name(sealed) == *name);
                let sealed =
                    sealed.ok_or("the code generator that it logged in with was changed")?;
                Ok(Credential::Code(sealed.clone()))
            }
            // Whether the account still has it is seen where its dates are.
            StoredCredential::Passkey(id) => Ok(Credential::Passkey(id.clone())),
            // Whether the account still takes it is seen where its login is.
            StoredCredential::Oidc(identity) => Ok(Credential::Oidc(identity.clone())),
            StoredCredential::Hook => Ok(Credential::Hook),
        }
    }
}

/// The sign-ins that this node was asked for lately.
#[derive(Default)]
pub(crate) struct KnownSignIns(Mutex<HashMap<TokenHash, Known>>);

/// A sign-in as it was when the database was asked for it, and what this node has seen since.
#[derive(Clone)]
pub(crate) struct Known {
    pub(crate) row: Arc<SignInRow>,
    /// When the database was asked, by the monotonic clock.
    read_at: Duration,
    pub(crate) seen_at: Timestamp,
    /// What the database knows of that.
    written_at: Timestamp,
}

impl Known {
    pub(crate) fn new(row: SignInRow, now: Duration) -> Known {
        let (seen_at, written_at) = (row.seen_at, row.seen_at);
        Known { row: Arc::new(row), read_at: now, seen_at, written_at }
    }

    /// True if another node cannot have ended it since, or not for long.
    pub(crate) fn is_fresh(&self, now: Duration) -> bool {
        now.saturating_sub(self.read_at) < SIGN_IN_FRESH
    }

    /// True if it is over at `now`, as this node has seen it.
    pub(crate) fn is_over(&self, now: Timestamp) -> bool {
        let idle_from = self.seen_at.max(self.row.seen_at);
        SignInRow { seen_at: idle_from, ..(*self.row).clone() }.is_over(now)
    }
}

impl KnownSignIns {
    pub(crate) fn find(&self, hash: &TokenHash) -> Option<Known> {
        self.0.lock().get(hash).cloned()
    }

    /// Remembers what the database has; what this node has seen since then stays.
    pub(crate) fn keep(&self, hash: TokenHash, mut known: Known, now: Duration) -> Known {
        let mut all = self.0.lock();
        if let Some(before) = all.get(&hash) {
            known.seen_at = known.seen_at.max(before.seen_at);
            known.written_at = known.written_at.max(before.written_at);
        }
        if all.len() >= CACHED_SIGN_INS && !all.contains_key(&hash) {
            all.retain(|_, other| now.saturating_sub(other.read_at) < SIGN_IN_SEEN_EVERY);
            if all.len() >= CACHED_SIGN_INS {
                all.clear();
            }
        }
        all.insert(hash, known.clone());
        known
    }

    /// Notes that it was seen; true if the database is to know now.
    pub(crate) fn see(&self, hash: &TokenHash, at: Timestamp) -> bool {
        let mut all = self.0.lock();
        let Some(known) = all.get_mut(hash) else { return false };
        known.seen_at = known.seen_at.max(at);
        let is_due = at.since(known.written_at) >= SIGN_IN_SEEN_EVERY;
        if is_due {
            known.written_at = at;
        }
        is_due
    }

    pub(crate) fn forget(&self, hash: &TokenHash) {
        self.0.lock().remove(hash);
    }

    /// Forgets a sign-in that was ended by its id.
    pub(crate) fn forget_id(&self, id: SessionId) {
        self.0.lock().retain(|_, known| known.row.id != id);
    }

    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.0.lock().len()
    }
}

/// How a browser names itself, cut, and with what steers terminals or the order of letters escaped.
pub(crate) fn plain_user_agent(text: &str) -> String {
    let is_plain = |letter: char| matches!(letter, ' '..='~');
    let escaped = text.chars().take(USER_AGENT).flat_map(|letter| {
        let plain = is_plain(letter).then_some(letter);
        let escape = (!is_plain(letter)).then(|| letter.escape_unicode());
        plain.into_iter().chain(escape.into_iter().flatten())
    });
    escaped.take(USER_AGENT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_browser_says_of_itself_is_short_and_plain() {
        assert_eq!(plain_user_agent("Mozilla/5.0 (X11; <b>)"), "Mozilla/5.0 (X11; <b>)");
        assert_eq!(plain_user_agent("a\x1b[2J\n\u{202e}"), "a\\u{1b}[2J\\u{a}\\u{202e}");
        assert_eq!(plain_user_agent(&"\u{202e}".repeat(9_999)).len(), USER_AGENT);
    }
}
