//! Hashes of passwords that cost less than those of new ones, made anew after a login.

use entrepot_auth::{OutdatedPassword, hash_aside};
use entrepot_crypto::password;
use entrepot_nouns::{AnyNoun, Kind};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::actor::Actor;
use crate::admin::Admin;
use crate::error::{AdminError, Result};
use crate::plan::Wanted;
use crate::reader::{NounKey, State};

impl Admin {
    /// Makes the hashes of `passwords` anew, one after the other, until `until`. What fails is
    /// tried again at a later login.
    pub async fn renew_hashes(
        &self,
        mut passwords: mpsc::Receiver<OutdatedPassword>,
        until: CancellationToken,
    ) {
        while let Some(Some(outdated)) = until.run_until_cancelled(passwords.recv()).await {
            let account = outdated.account.clone();
            match self.renew_hash(outdated).await {
                Ok(true) => tracing::info!(%account, "the hash of its password was made anew"),
                Ok(false) => {}
                Err(error) => {
                    let code = error.code();
                    tracing::warn!(code, %account, %error, "its hash is made anew later");
                }
            }
        }
    }

    /// False: the account has another hash by now.
    async fn renew_hash(&self, outdated: OutdatedPassword) -> Result<bool> {
        let OutdatedPassword { site, account, hash, password } = outdated;
        let key = NounKey { kind: Kind::Account, name: account };
        let found = self.noun(site, &key).await?;
        if stored_hash(found.as_ref()) != Some(hash.as_str()) {
            return Ok(false);
        }
        let (cost, old) = (self.hash_cost(), hash.clone());
        let hashing = tokio::task::spawn_blocking(move || {
            hash_aside(|| password::made_anew(&password, &old, cost))
        });
        let failed = |problem: String| AdminError::Internal { what: "making a hash anew", problem };
        let new = hashing.await.map_err(|error| failed(error.to_string()))?;
        let new = new.map_err(|error| failed(error.to_string()))?;
        let actor = Actor::of_machine(format!("node:{}", self.node_name()), site);
        let wanted = |state: &State| {
            let mut noun = state.get(&key).map(|stored| stored.noun.clone());
            // It may have been changed or deleted while the hash was made.
            if stored_hash(noun.as_ref()) == Some(hash.as_str())
                && let Some(AnyNoun::Account(account)) = &mut noun
            {
                account.password_hash = Some(new.clone());
            }
            noun.map(Wanted::noun).ok_or_else(|| AdminError::NotFound {
                what: Kind::Account.as_str(),
                name: key.name.to_string(),
                hint: String::new(),
            })
        };
        self.commit(&actor, Some(&key), wanted).await.map(|_| true)
    }
}

fn stored_hash(noun: Option<&AnyNoun>) -> Option<&str> {
    match noun {
        Some(AnyNoun::Account(account)) => account.password_hash.as_deref(),
        _ => None,
    }
}
