//! What an account may do with passkeys of its own, whatever its type and role: list, add and
//! remove them.

use entrepot_auth::Principal;
use entrepot_nouns::{AnyNoun, Kind, Name, PasskeyPublic};

use crate::actor::Actor;
use crate::admin::Admin;
use crate::credentials::PasskeyRow;
use crate::error::{AdminError, Result};
use crate::limits::PASSKEYS_OF_ACCOUNT;
use crate::reader::NounKey;

/// A passkey that an account adds for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnPasskeyOrder {
    /// The public half, which the gate has verified.
    pub public: PasskeyPublic,
    /// What its owner calls it.
    pub note: String,
}

impl Admin {
    /// The passkeys of an account.
    ///
    /// # Errors
    /// [`AdminError::Database`].
    pub async fn own_passkeys(&self, owner: &Principal) -> Result<Vec<PasskeyRow>> {
        self.passkeys(&Actor::itself(owner), Some(&owner.account.name)).await
    }

    /// Adds a passkey to an account.
    ///
    /// # Errors
    /// The account has it already, or as many as it may.
    pub async fn add_own_passkey(&self, owner: &Principal, order: OwnPasskeyOrder) -> Result<()> {
        let (actor, name) = (Actor::itself(owner), owner.account.name.clone());
        if self.passkeys(&actor, Some(&name)).await?.len() >= PASSKEYS_OF_ACCOUNT {
            let problem =
                format!("an account has at most {PASSKEYS_OF_ACCOUNT} passkeys, remove one first");
            return Err(AdminError::Refused { problem });
        }
        self.add_passkey(&actor, name, &order.public, order.note).await
    }

    /// Removes a passkey of the account.
    ///
    /// # Errors
    /// The account has no such passkey, or signs in with nothing else.
    pub async fn remove_own_passkey(&self, owner: &Principal, name: Name) -> Result<()> {
        let actor = Actor::itself(owner);
        let key = NounKey { kind: Kind::Key, name };
        let found = self.noun(actor.site, &key).await?;
        let is_own = matches!(&found, Some(AnyNoun::Key(found))
            if found.account.as_ref() == Some(&owner.account.name) && found.passkey().is_some());
        if !is_own {
            // That another account has a key of the name is not told.
            let problem = format!("this account has no passkey '{}'", key.name);
            return Err(AdminError::Refused { problem });
        }
        let others = self.passkeys(&actor, Some(&owner.account.name)).await?.into_iter();
        let is_last = !others.into_iter().any(|other| other.name != key.name && other.enabled);
        if is_last && owner.account.password_hash.is_none() {
            let problem = "it is the last way to sign in to this account: add another passkey \
                           first, or have an administrator set a password"
                .to_owned();
            return Err(AdminError::Refused { problem });
        }
        self.remove_passkey(&actor, key.name).await.map(drop)
    }
}
