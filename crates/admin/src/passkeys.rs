//! Passkeys: keys whose private half an authenticator of their owner keeps.

use std::collections::HashMap;

use entrepot_crypto::random_text;
use entrepot_db::PasskeyUseRow;
use entrepot_nouns::{AnyNoun, Key, KeyType, Kind, Name, PasskeyPublic, Stored};

use crate::actor::Actor;
use crate::admin::Admin;
use crate::credentials::PasskeyRow;
use crate::error::{AdminError, Result};
use crate::limits::TOKEN_NAME_LETTERS;
use crate::reader::NounKey;
use crate::request::{Request, Response};

impl Admin {
    /// The passkeys of the site, or of one of its accounts.
    pub(crate) async fn list_passkeys(
        &self,
        actor: &Actor,
        account: Option<&Name>,
    ) -> Result<Response> {
        Ok(Response::Passkeys { passkeys: self.passkeys(actor, account).await? })
    }

    /// The rows that [`Admin::list_passkeys`] answers with.
    pub(crate) async fn passkeys(
        &self,
        actor: &Actor,
        account: Option<&Name>,
    ) -> Result<Vec<PasskeyRow>> {
        let db = &self.parts().db;
        let uses = db.passkey_uses(actor.site).await?;
        let mut uses: HashMap<Name, PasskeyUseRow> =
            uses.into_iter().map(|used| (used.name.clone(), used)).collect();
        let keys: Vec<Stored<Key>> = match account {
            Some(account) => db.keys_of(actor.site, account).await?,
            None => db.list(actor.site).await?,
        };
        let row = |key: Key| {
            let used = uses.remove(&key.name);
            row(key, used)
        };
        Ok(keys.into_iter().map(|stored| stored.noun).filter_map(row).collect())
    }

    /// Stores a passkey that an account has made.
    pub(crate) async fn add_passkey(
        &self,
        actor: &Actor,
        account: Name,
        public: &PasskeyPublic,
        note: String,
    ) -> Result<()> {
        let random = random_text(&self.parts().env, TOKEN_NAME_LETTERS).to_ascii_lowercase();
        // The invariant: letters, digits and a hyphen are a name.
        let name = format!("passkey-{random}").parse().expect("a made up name is a name");
        let mut key = Key::new(name, KeyType::Passkey, public.to_string());
        key.account = Some(account);
        key.note = note;
        self.create(actor, key.into()).await.map(drop)
    }

    /// Removes a passkey.
    pub(crate) async fn remove_passkey(&self, actor: &Actor, name: Name) -> Result<Response> {
        let key = NounKey { kind: Kind::Key, name };
        match self.noun(actor.site, &key).await? {
            Some(AnyNoun::Key(found)) if found.key_type == KeyType::Passkey => {
                let NounKey { kind, name } = key;
                let removal = Request::Delete { kind, name, if_match: Vec::new() };
                self.change_noun(actor, removal, None).await?;
                Ok(Response::Done)
            }
            Some(_) => {
                let problem = format!("key '{}' is no passkey", key.name);
                Err(AdminError::Refused { problem })
            }
            None => Err(self.missing_noun(actor, Kind::Key, &key.name).await),
        }
    }
}

/// A passkey as lists show it; `None` for keys of other types.
fn row(key: Key, used: Option<PasskeyUseRow>) -> Option<PasskeyRow> {
    let host = key.passkey()?.host;
    let (used_at, used_from) = used.map_or((None, None), |used| (used.used_at, used.used_from));
    Some(PasskeyRow {
        name: key.name,
        account: key.account?,
        note: key.note,
        host,
        enabled: key.enabled,
        used_at,
        used_from,
    })
}
