//! API tokens by their hash, and when each was used last.

use std::any::Any;

use entrepot_nouns::{Key, Kind, Name, Noun, SiteId, Timestamp};

use crate::Db;
use crate::error::{DbError, Result};
use crate::known::KnownToken;
use crate::sql::{Row, Value, sql, statements};
use crate::tx::Work;

statements! {
    FORGET = sql!("DELETE FROM api_tokens WHERE site = $1 AND name = $2");
    FORGET_OTHER_HASH =
        sql!("DELETE FROM api_tokens WHERE site = $1 AND name = $2 AND hash <> $3");
    NOTE = sql!(
        "INSERT INTO api_tokens (site, hash, name, account) VALUES ($1, $2, $3, $4) ",
        "ON CONFLICT (site, hash) DO UPDATE SET account = excluded.account ",
        "WHERE api_tokens.name = excluded.name",
    );
    ACCOUNT_OF = sql!("SELECT account FROM api_tokens WHERE site = $1 AND hash = $2");
    USED = sql!(
        "UPDATE api_tokens SET used_at = $1, used_from = $2 WHERE site = $3 AND hash = $4 ",
        "AND (used_at IS NULL OR used_at < $5)",
    );
    USES = sql!("SELECT name, used_at, used_from FROM api_tokens WHERE site = $1 ORDER BY name");
}

/// The use of a token, as a node saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiTokenUse {
    /// The site of its account.
    pub site: SiteId,
    /// Its hash, 64 hexadecimal digits.
    pub hash: String,
    /// When it was used.
    pub at: Timestamp,
    /// The IP address that it came from.
    pub address: String,
}

/// When a token was used last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiTokenRow {
    /// The key that it belongs to.
    pub name: Name,
    /// Within a minute; never used: `None`.
    pub used_at: Option<Timestamp>,
    /// The IP address that it came from.
    pub used_from: Option<String>,
}

fn token_row(row: &Row<'_>) -> Result<ApiTokenRow> {
    Ok(ApiTokenRow {
        name: row.name(0)?,
        used_at: row.maybe_int(1)?.map(Timestamp),
        used_from: row.maybe_text(2)?,
    })
}

/// Writes down by what a noun is known that is stored, if it is an API token.
pub(crate) async fn note<N: Noun>(work: &mut Work, site: SiteId, noun: &N) -> Result<()> {
    let Some(key) = (noun as &dyn Any).downcast_ref::<Key>() else { return Ok(()) };
    let Some(token) = KnownToken::of(key) else {
        return forget(work, site, Kind::Key, &key.name).await;
    };
    let (name, hash) = (Value::from(&key.name), Value::from(token.hash));
    work.execute(FORGET_OTHER_HASH, vec![site.0.into(), name.clone(), hash.clone()]).await?;
    let values = vec![site.0.into(), hash, name, token.account.into()];
    if work.execute(NOTE, values).await? == 0 {
        let problem = format!("another key than '{}' is the same API token", key.name);
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
    /// The account that an API token of a site belongs to, by the hash of the token as 64
    /// hexadecimal digits; whether the token counts is for the caller to see.
    pub async fn account_of_token(&self, site: SiteId, hash: &str) -> Result<Option<Name>> {
        if let Some(known) = self.known() {
            return Ok(known.account_of_token(site, hash));
        }
        let values = vec![site.0.into(), hash.into()];
        Ok(self.read(ACCOUNT_OF, values, |row| row.name(0)).await?.pop())
    }

    /// Notes uses of tokens, in one transaction; of a token the latest counts.
    ///
    /// # Errors
    /// As everywhere; nothing was noted then, but see [`crate::DbError`].
    pub async fn note_token_uses(&self, uses: &[ApiTokenUse]) -> Result<()> {
        let mut work = self.work(crate::Purpose::Other).await?;
        for ApiTokenUse { site, hash, at, address } in uses {
            let values = vec![
                (*at).into(),
                address.as_str().into(),
                site.0.into(),
                hash.as_str().into(),
                (*at).into(),
            ];
            work.execute(USED, values).await?;
        }
        work.commit().await
    }

    /// When each API token of a site was used last, by name.
    pub async fn api_tokens(&self, site: SiteId) -> Result<Vec<ApiTokenRow>> {
        self.read(USES, vec![site.0.into()], token_row).await
    }
}
