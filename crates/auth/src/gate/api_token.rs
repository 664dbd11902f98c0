//! Logins with an API token.

use std::net::IpAddr;

use entrepot_crypto::{BearerKind, TokenError, bearer_token};
use entrepot_nouns::{Name, Secret, SiteId};
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

use super::{Attempt, Fault, Gate, Verdict};
use crate::credential::{Credential, Proof};
use crate::error::Result;
use crate::limits::{LAST_SHARING, TOKEN_USES_AT_A_TIME, TOKEN_USES_EVERY};

/// Why a token is refused that no key knows.
const UNKNOWN: &str = "no such API token";

impl Attempt {
    /// Logs in by an API token, which names its account. Penalties do not hold a right one up, for
    /// nobody guesses 256 bits; wrong ones count like wrong passwords. `login` of the account has
    /// no part in it: a token is made for programs that cannot be asked.
    pub async fn api_token(&mut self, token: &Secret) -> Verdict {
        let hash = match bearer_token::hash(BearerKind::Api, token) {
            Ok(hash) => hash,
            Err(error) => return self.refuse_shown(None, Fault::Wrong(explained(error))).await,
        };
        let known = self.gate.0.directory.account_of_token(self.peer.site, hash).await;
        let account = match known {
            Ok(Some(account)) => account,
            Ok(None) => return self.refuse_shown(None, Fault::Wrong(UNKNOWN)).await,
            Err(error) => return self.refuse_shown(None, Fault::Later(error.to_string())).await,
        };
        let user = account.as_str();
        if let Some(verdict) = self.begin(user) {
            return verdict;
        }
        let (now, address) = (self.gate.0.recorder.env().now(), self.peer.address.ip());
        let principal = match self.principal(user).await {
            Ok(Some(principal)) => principal,
            Ok(None) => return self.refuse_shown(Some(&account), Fault::Wrong(UNKNOWN)).await,
            Err(error) => {
                return self.refuse_shown(Some(&account), Fault::Later(error.to_string())).await;
            }
        };
        let barred = principal.why_barred(&self.peer, self.here(), now);
        let counting = principal.api_token(hash).ok_or(UNKNOWN).and_then(|token| {
            token.why_not(address, now).map_or_else(|| Ok(token.name.clone()), Err)
        });
        let name = match (counting, barred) {
            (Ok(name), None) => name,
            (Err(reason), _) | (Ok(_), Some(reason)) => {
                return self.refuse_shown(Some(&account), Fault::Barred(reason.to_owned())).await;
            }
        };
        self.gate.0.token_uses.note(self.peer.site, hash, now, address);
        let proof =
            Proof { text: format!("api-token {name}"), credential: Credential::Token(hash) };
        self.admit_as(user, principal, vec![proof]).await
    }

    /// Refuses a token or a passkey, which name their account; which that is, and why it was
    /// refused, only the audit log says.
    pub(super) async fn refuse_shown(&mut self, account: Option<&Name>, fault: Fault) -> Verdict {
        let user = account.map_or("", Name::as_str);
        match self.begin_try(user).await {
            Ok(pending) => {
                let nobody = Ok(None);
                self.fail(user, &nobody, pending, fault).await
            }
            Err(verdict) => verdict,
        }
    }
}

fn explained(error: TokenError) -> &'static str {
    match error {
        TokenError::Malformed => "it is no API token",
        TokenError::Checksum => "an API token was mistyped or cut",
    }
}

impl Gate {
    /// Notes that a token which has logged in was shown again, with a request of its session.
    pub fn note_token_use(&self, token: &Secret, site: SiteId, address: IpAddr) {
        if let Ok(hash) = bearer_token::hash(BearerKind::Api, token) {
            self.0.token_uses.note(site, hash, self.0.recorder.env().now(), address);
        }
    }

    /// Lets the database know when API tokens were used, once a minute until `until`.
    pub async fn keep_token_uses(&self, until: CancellationToken) {
        let mut ticks = interval(TOKEN_USES_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while until.run_until_cancelled(ticks.tick()).await.is_some() {
            if let Err(error) = self.write_token_uses().await {
                tracing::debug!(%error, "uses of API tokens are written later");
            }
        }
        if !matches!(timeout(LAST_SHARING, self.write_token_uses()).await, Ok(Ok(()))) {
            tracing::warn!("the last uses of API tokens are not in the database");
        }
    }

    /// Writes what the database does not know yet of the uses of API tokens.
    ///
    /// # Errors
    /// The database is away; what it did not take is written the next time.
    pub async fn write_token_uses(&self) -> Result<()> {
        let uses = self.0.token_uses.take();
        let mut left = uses.as_slice();
        while !left.is_empty() {
            let (batch, rest) = left.split_at(left.len().min(TOKEN_USES_AT_A_TIME));
            if let Err(error) = self.0.directory.db().note_token_uses(batch).await {
                self.0.token_uses.give_back(left);
                return Err(error.into());
            }
            left = rest;
        }
        Ok(())
    }
}
