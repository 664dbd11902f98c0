//! What an account may do with API tokens of its own, whatever its type and role: list, make and
//! revoke them. A token never allows more than its account.

use std::time::Duration;

use entrepot_auth::Principal;
use entrepot_nouns::{AnyNoun, Kind, Name, TokenScope};

use crate::actor::Actor;
use crate::admin::Admin;
use crate::credentials::{ShownOnce, TokenOrder, TokenRow};
use crate::error::{AdminError, Result};
use crate::reader::NounKey;
use crate::request::Response;

const DAY: Duration = Duration::from_secs(86_400);

/// A token that an account makes for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnTokenOrder {
    /// What it may be used for; at least one.
    pub scopes: Vec<TokenScope>,
    /// It counts for so long; unset: as many days as the policy of the account says, which is also
    /// the most.
    pub days: Option<u32>,
    /// Free text for people.
    pub note: String,
}

impl Admin {
    /// The API tokens of an account.
    ///
    /// # Errors
    /// [`AdminError::Database`].
    pub async fn own_tokens(&self, owner: &Principal) -> Result<Vec<TokenRow>> {
        match self.list_tokens(&Actor::itself(owner), Some(&owner.account.name)).await? {
            Response::Tokens { tokens } => Ok(tokens),
            _ => Err(unexpected("listing tokens")),
        }
    }

    /// Makes an API token for an account. The answer alone has it.
    ///
    /// # Errors
    /// It has no scope, lasts longer than the policy of the account says, or the account has as
    /// many tokens as it may.
    pub async fn create_own_token(
        &self,
        owner: &Principal,
        order: OwnTokenOrder,
    ) -> Result<ShownOnce> {
        let most = owner.policy.api_token_days;
        let problem = match order.days {
            _ if order.scopes.is_empty() => {
                Some("choose what the token may be used for".to_owned())
            }
            Some(days) if days == 0 || days > most => {
                Some(format!("a token of this account lasts from 1 to {most} days"))
            }
            _ => None,
        };
        if let Some(problem) = problem {
            return Err(AdminError::Refused { problem });
        }
        let now = self.parts().env.now();
        let order = TokenOrder {
            account: owner.account.name.clone(),
            name: None,
            scopes: order.scopes,
            not_after: order.days.map(|days| now.plus(DAY * days)),
            from: Vec::new(),
            note: order.note,
        };
        match self.create_token(&Actor::itself(owner), order).await? {
            Response::Token { token, .. } => Ok(token),
            _ => Err(unexpected("making a token")),
        }
    }

    /// Lets an API token of the account count no more.
    ///
    /// # Errors
    /// The account has no such token.
    pub async fn revoke_own_token(&self, owner: &Principal, name: Name) -> Result<()> {
        let actor = Actor::itself(owner);
        let key = NounKey { kind: Kind::Key, name };
        let found = self.noun(actor.site, &key).await?;
        let is_own = matches!(&found, Some(AnyNoun::Key(found))
            if found.account.as_ref() == Some(&owner.account.name));
        if !is_own {
            // That another account has a key of the name is not told.
            let problem = format!("this account has no API token '{}'", key.name);
            return Err(AdminError::Refused { problem });
        }
        self.revoke_token(&actor, key.name).await?;
        Ok(())
    }
}

fn unexpected(what: &'static str) -> AdminError {
    AdminError::Internal { what, problem: "another answer than that was asked for".to_owned() }
}
