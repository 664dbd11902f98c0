//! The first administrator: whoever has the token that `init` printed makes it, once.
//!
//! What holds: the token counts only while the site `main` has no administrator, and is taken in
//! the transaction that makes the account.

use entrepot_crypto::{BearerKind, bearer_token};
use entrepot_nouns::{Account, AccountType, AdminRight, AnyNoun, Name, Secret, SiteId, Stored};

use crate::actor::Actor;
use crate::admin::{Admin, Computed, Thoroughness};
use crate::credentials::ShownOnce;
use crate::error::{AdminError, Result};
use crate::limits::SET_UP_TIME;
use crate::plan::Wanted;
use crate::reader::{NounKey, State};
use crate::request::Response;

/// Names the maker of the first administrator in the audit log; no account has such a name.
const MAKER: &str = "set-up:token";

impl Admin {
    /// Makes the token, in place of one that was not used.
    pub(crate) async fn make_set_up_token(&self, actor: &Actor) -> Result<Response> {
        actor.must_be_of_main()?;
        if self.has_administrator().await? {
            let problem = "there is an administrator, who can make others".to_owned();
            return Err(AdminError::Refused { problem });
        }
        let env = &self.parts().env;
        let token = bearer_token::make(env, BearerKind::SetUp);
        let hash = bearer_token::hash(BearerKind::SetUp, &token).map_err(|error| {
            AdminError::Internal { what: "making a token", problem: error.to_string() }
        })?;
        let ends_at = env.now().plus(SET_UP_TIME);
        let mut tx = self.parts().db.begin().await?;
        tx.set_set_up_token(&hash.to_string(), ends_at).await?;
        tx.commit().await?;
        let token = ShownOnce::new(String::from_utf8_lossy(token.expose()));
        Ok(Response::SetUpToken { token, ends_at })
    }

    /// True while the first administrator can be made by a token.
    ///
    /// # Errors
    /// [`AdminError::Database`].
    pub async fn waits_for_set_up(&self) -> Result<bool> {
        let waits = self.parts().db.waits_for_set_up(self.parts().env.now()).await?;
        Ok(waits && !self.has_administrator().await?)
    }

    /// Makes the first administrator, with this name and password, for whoever has the token. The
    /// token counts no more then.
    ///
    /// # Errors
    /// [`AdminError::NoSetUp`]; as for every account that is made, such as a name that is taken or
    /// a password that is too short: the token counts on then.
    pub async fn set_up(&self, token: &Secret, name: Name, password: Secret) -> Result<()> {
        let (db, now) = (&self.parts().db, self.parts().env.now());
        let hash = bearer_token::hash(BearerKind::SetUp, token);
        let hash = hash.map_err(|_| AdminError::NoSetUp)?.to_string();
        // Hashing a password takes a while: not for everybody.
        if !db.has_set_up_token(&hash, now).await? || self.has_administrator().await? {
            return Err(AdminError::NoSetUp);
        }
        let mut account = Account::new(name, AccountType::Admin);
        account.password = Some(password);
        let noun = AnyNoun::from(account);
        let key = NounKey::of(&noun);
        let wanted = |state: &State| {
            if state.contains_key(&key) {
                return Err(AdminError::Exists { kind: key.kind, name: key.name.to_string() });
            }
            Ok(Wanted::noun(noun.clone()))
        };
        let Computed { before, steps } =
            self.computed(SiteId::MAIN, Some(&key), wanted, Thoroughness::Change).await?;
        let actor = Actor::of_machine(MAKER.to_owned(), SiteId::MAIN);
        let mut tx = db.begin().await?;
        if !tx.take_set_up_token(&hash, now).await? {
            return Err(AdminError::NoSetUp);
        }
        let events = self.write(&actor, &mut tx, &before, &steps).await?;
        tx.commit().await?;
        self.after_commit(&events).await;
        Ok(())
    }

    /// True if somebody may already do everything.
    async fn has_administrator(&self) -> Result<bool> {
        let accounts: Vec<Stored<Account>> = self.parts().db.list(SiteId::MAIN).await?;
        let may = |stored: &Stored<Account>| stored.noun.admin_rights().has(AdminRight::Steer);
        Ok(accounts.iter().any(may))
    }
}
