//! Passkeys by what authenticators know them by, with the counter of signatures and the last use of
//! each; and the challenges that browsers have answered.

use std::any::Any;

use entrepot_nouns::{Key, Kind, Name, Noun, SiteId, Timestamp};

use crate::Db;
use crate::error::{DbError, Result};
use crate::sql::{Row, Value, sql, statements};
use crate::tx::Work;

statements! {
    FORGET = sql!("DELETE FROM passkeys WHERE site = $1 AND name = $2");
    FORGET_OTHER =
        sql!("DELETE FROM passkeys WHERE site = $1 AND name = $2 AND credential <> $3");
    NOTE = sql!(
        "INSERT INTO passkeys (site, credential, name, account) VALUES ($1, $2, $3, $4) ",
        "ON CONFLICT (site, credential) DO UPDATE SET account = excluded.account ",
        "WHERE passkeys.name = excluded.name",
    );
    ACCOUNT_OF = sql!("SELECT account FROM passkeys WHERE site = $1 AND credential = $2");
    // An authenticator without a counter says 0 each time (WebAuthn §6.1.1).
    USED = sql!(
        "UPDATE passkeys SET signatures = $1, used_at = $2, used_from = $3 ",
        "WHERE site = $4 AND credential = $5 ",
        "AND (signatures < $6 OR (signatures = 0 AND signatures = $7))",
    );
    USES = sql!("SELECT name, used_at, used_from FROM passkeys WHERE site = $1 ORDER BY name");
    ANSWER = sql!(
        "INSERT INTO answered_challenges (hash, ends_at) VALUES ($1, $2) ",
        "ON CONFLICT (hash) DO NOTHING",
    );
    FORGET_ANSWERED = sql!("DELETE FROM answered_challenges WHERE ends_at <= $1");
}

/// The use of a passkey.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PasskeyUse {
    /// The site of its account.
    pub site: SiteId,
    /// What its authenticator knows it by.
    pub credential: String,
    /// The authenticator's counter of signatures; 0: it has none.
    pub signatures: u32,
    /// When it was used.
    pub at: Timestamp,
    /// The IP address that it was used from.
    pub address: String,
}

/// When a passkey was used last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PasskeyUseRow {
    /// The key that it belongs to.
    pub name: Name,
    /// Never used: `None`.
    pub used_at: Option<Timestamp>,
    /// The IP address that it was used from.
    pub used_from: Option<String>,
}

fn use_row(row: &Row<'_>) -> Result<PasskeyUseRow> {
    Ok(PasskeyUseRow {
        name: row.name(0)?,
        used_at: row.maybe_int(1)?.map(Timestamp),
        used_from: row.maybe_text(2)?,
    })
}

/// Writes down by what a noun is known that is stored, if it is a passkey.
pub(crate) async fn note<N: Noun>(work: &mut Work, site: SiteId, noun: &N) -> Result<()> {
    let Some(key) = (noun as &dyn Any).downcast_ref::<Key>() else { return Ok(()) };
    let (Some(public), Some(account)) = (key.passkey(), key.account.as_ref()) else {
        return forget(work, site, Kind::Key, &key.name).await;
    };
    let (name, credential) = (Value::from(&key.name), Value::text(public.credential));
    work.execute(FORGET_OTHER, vec![site.0.into(), name.clone(), credential.clone()]).await?;
    let values = vec![site.0.into(), credential, name, account.into()];
    if work.execute(NOTE, values).await? == 0 {
        let problem = format!("another key than '{}' is the same passkey", key.name);
        return Err(DbError::Conflict(problem));
    }
    Ok(())
}

/// Removes what a noun is known by that is deleted.
pub(crate) async fn forget(work: &mut Work, site: SiteId, kind: Kind, name: &Name) -> Result<()> {
    if kind == Kind::Key {
        work.execute(FORGET, vec![site.0.into(), name.into()]).await?;
    }
    Ok(())
}

impl Db {
    /// The account that a passkey of a site belongs to, by what its authenticator knows it by;
    /// whether the passkey counts is for the caller to see.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn account_of_passkey(&self, site: SiteId, credential: &str) -> Result<Option<Name>> {
        let values = vec![site.0.into(), credential.into()];
        Ok(self.read(ACCOUNT_OF, values, |row| row.name(0)).await?.pop())
    }

    /// Notes a use; false if the counter of signatures is not above that of the last use, as it is
    /// not where two authenticators have the same private half.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn note_passkey_use(&self, used: &PasskeyUse) -> Result<bool> {
        let PasskeyUse { site, credential, signatures, at, address } = used;
        let signatures = i64::from(*signatures);
        let values = vec![
            signatures.into(),
            (*at).into(),
            address.as_str().into(),
            site.0.into(),
            credential.as_str().into(),
            signatures.into(),
            signatures.into(),
        ];
        Ok(self.execute(USED, values).await? > 0)
    }

    /// When each passkey of a site was used last, by name.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn passkey_uses(&self, site: SiteId) -> Result<Vec<PasskeyUseRow>> {
        self.read(USES, vec![site.0.into()], use_row).await
    }

    /// Notes that a challenge was answered, by its hash; false if it was answered before, on
    /// whichever node. It is remembered until `ends_at`.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn answer_challenge(&self, hash: &str, ends_at: Timestamp) -> Result<bool> {
        Ok(self.execute(ANSWER, vec![hash.into(), ends_at.into()]).await? > 0)
    }

    /// Forgets answered challenges that would be refused for their age.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn forget_answered_challenges(&self, now: Timestamp) -> Result<()> {
        self.execute(FORGET_ANSWERED, vec![now.into()]).await.map(drop)
    }
}
