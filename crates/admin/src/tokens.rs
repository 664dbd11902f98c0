//! API tokens: keys whose secret is made here and shown once.

use std::collections::HashMap;
use std::time::Duration;

use entrepot_auth::Directory;
use entrepot_crypto::{BearerKind, bearer_token, random_text};
use entrepot_db::ApiTokenRow;
use entrepot_nouns::key::TOKEN_HASH;
use entrepot_nouns::{AnyNoun, Key, KeyType, Kind, Name, Stored, Timestamp};
use serde_json::json;

use crate::actor::Actor;
use crate::admin::Admin;
use crate::credentials::{ShownOnce, TokenOrder, TokenRow, TokenState};
use crate::error::{AdminError, Result};
use crate::limits::{TOKEN_NAME_LETTERS, TOKENS_OF_ACCOUNT};
use crate::reader::NounKey;
use crate::request::{Request, Response};

const DAY: Duration = Duration::from_secs(86_400);

impl Admin {
    /// Makes a token for an account. The answer alone has it.
    pub(crate) async fn create_token(&self, actor: &Actor, order: TokenOrder) -> Result<Response> {
        let now = self.parts().env.now();
        let end = self.end_of_token(actor, &order).await?;
        if end <= now {
            return Err(refused_field(&order, "not_after", "it lies in the past"));
        }
        let token = bearer_token::make(&self.parts().env, BearerKind::Api);
        let hash = bearer_token::hash(BearerKind::Api, &token).map_err(|error| {
            AdminError::Internal { what: "making a token", problem: error.to_string() }
        })?;
        let name = order.name.unwrap_or_else(|| self.made_up_name());
        let mut key = Key::new(name, KeyType::ApiToken, format!("{TOKEN_HASH}{hash}"));
        key.account = Some(order.account);
        key.scopes = order.scopes;
        key.not_before = None;
        key.not_after = Some(end);
        key.from = order.from;
        key.note = order.note;
        let Response::Noun { noun, .. } = self.create(actor, key.into()).await? else {
            let problem = "it was stored and not found".to_owned();
            return Err(AdminError::Internal { what: "making a token", problem });
        };
        let token = ShownOnce::new(String::from_utf8_lossy(token.expose()));
        Ok(Response::Token { token, noun })
    }

    /// When a new token ends: as asked for, else as the policy of its account says.
    async fn end_of_token(&self, actor: &Actor, order: &TokenOrder) -> Result<Timestamp> {
        let parts = self.parts();
        // A directory of its own: that of the node may be some milliseconds old.
        let directory = Directory::new(parts.db.clone(), parts.env.clone(), parts.master.clone());
        let Some(principal) = directory.resolve(actor.site, &order.account).await? else {
            return Err(self.missing_noun(actor, Kind::Account, &order.account).await);
        };
        if principal.api_tokens.len() >= TOKENS_OF_ACCOUNT {
            let problem = format!(
                "account '{}' has {TOKENS_OF_ACCOUNT} API tokens; delete those that nobody uses \
                 any more: 'entrepot key delete NAME'",
                order.account
            );
            return Err(AdminError::Refused { problem });
        }
        let days = principal.policy.api_token_days;
        Ok(order.not_after.unwrap_or_else(|| parts.env.now().plus(DAY * days)))
    }

    /// A name that no key has, as far as chance goes.
    fn made_up_name(&self) -> Name {
        let random = random_text(&self.parts().env, TOKEN_NAME_LETTERS).to_ascii_lowercase();
        // The invariant: letters, digits and a hyphen are a name.
        format!("token-{random}").parse().expect("a made up name is a name")
    }

    /// Lets a token count no more. Its key stays, so that the audit log can name who still uses it.
    pub(crate) async fn revoke_token(&self, actor: &Actor, name: Name) -> Result<Response> {
        let key = NounKey { kind: Kind::Key, name };
        match self.noun(actor.site, &key).await? {
            Some(AnyNoun::Key(found)) if found.key_type == KeyType::ApiToken => {
                let (kind, name, patch) = (key.kind, key.name, json!({ "enabled": false }));
                let change = Request::Change { kind, name, patch, if_match: Vec::new() };
                self.change_noun(actor, change, None).await
            }
            Some(_) => {
                let problem = format!("key '{}' is no API token", key.name);
                Err(AdminError::Refused { problem })
            }
            None => Err(self.missing_noun(actor, Kind::Key, &key.name).await),
        }
    }

    /// The API tokens of the site, or of one of its accounts.
    pub(crate) async fn list_tokens(
        &self,
        actor: &Actor,
        account: Option<&Name>,
    ) -> Result<Response> {
        let (db, now) = (&self.parts().db, self.parts().env.now());
        let uses = db.api_tokens(actor.site).await?;
        let mut tokens = Vec::new();
        let keys: Vec<Stored<Key>> = match account {
            Some(account) => db.keys_of(actor.site, account).await?,
            None => db.list(actor.site).await?,
        };
        let mut uses: HashMap<Name, ApiTokenRow> =
            uses.into_iter().map(|used| (used.name.clone(), used)).collect();
        for key in keys.into_iter().map(|stored| stored.noun) {
            let used = uses.remove(&key.name);
            tokens.extend(row(key, used, now));
        }
        Ok(Response::Tokens { tokens })
    }
}

/// A token as lists show it; `None` for keys of other types.
fn row(key: Key, used: Option<ApiTokenRow>, now: Timestamp) -> Option<TokenRow> {
    if key.key_type != KeyType::ApiToken {
        return None;
    }
    let state = if !key.enabled {
        TokenState::Revoked
    } else if key.not_after.is_none_or(|end| end <= now) {
        TokenState::Expired
    } else if key.not_before.is_some_and(|begin| now < begin) {
        TokenState::Pending
    } else {
        TokenState::Active
    };
    let (used_at, used_from) = used.map_or((None, None), |used| (used.used_at, used.used_from));
    Some(TokenRow {
        name: key.name,
        account: key.account?,
        state,
        scopes: key.scopes,
        not_after: key.not_after,
        used_at,
        used_from,
        note: key.note,
    })
}

fn refused_field(order: &TokenOrder, field: &str, problem: &str) -> AdminError {
    AdminError::Field {
        place: String::new(),
        kind: Kind::Account,
        name: order.account.to_string(),
        field: field.to_owned(),
        problem: problem.to_owned(),
    }
}
