//! Accounts by the persons that they are at providers of OpenID Connect.

use std::any::Any;

use entrepot_nouns::{Account, Kind, Name, Noun, OidcIdentity, SiteId};

use crate::Db;
use crate::error::{DbError, Result};
use crate::sql::{Value, sql, statements};
use crate::tx::Work;

statements! {
    FORGET = sql!("DELETE FROM oidc_identities WHERE site = $1 AND account = $2");
    NOTE = sql!(
        "INSERT INTO oidc_identities (site, provider, subject, account) VALUES ($1, $2, $3, $4) ",
        "ON CONFLICT (site, provider, subject) DO NOTHING",
    );
    ACCOUNT_OF = sql!(
        "SELECT account FROM oidc_identities ",
        "WHERE site = $1 AND provider = $2 AND subject = $3",
    );
}

/// Writes down who a noun is that is stored, if it is an account.
pub(crate) async fn note<N: Noun>(work: &mut Work, site: SiteId, noun: &N) -> Result<()> {
    let Some(account) = (noun as &dyn Any).downcast_ref::<Account>() else { return Ok(()) };
    forget(work, site, Kind::Account, &account.name).await?;
    for OidcIdentity { provider, subject } in &account.oidc {
        let values = vec![
            site.0.into(),
            provider.into(),
            Value::text(subject.as_str()),
            Value::from(&account.name),
        ];
        if work.execute(NOTE, values).await? == 0 {
            let problem =
                format!("another account is '{subject}' at provider '{provider}' already");
            return Err(DbError::Conflict(problem));
        }
    }
    Ok(())
}

/// Removes who an account was that is deleted.
pub(crate) async fn forget(work: &mut Work, site: SiteId, kind: Kind, name: &Name) -> Result<()> {
    if kind == Kind::Account {
        work.execute(FORGET, vec![site.0.into(), name.into()]).await?;
    }
    Ok(())
}

impl Db {
    /// The account of a site that is this person at a provider; whether it may log in is for the
    /// caller to see.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn account_of_oidc(
        &self,
        site: SiteId,
        provider: &Name,
        subject: &str,
    ) -> Result<Option<Name>> {
        let values = vec![site.0.into(), provider.into(), subject.into()];
        Ok(self.read(ACCOUNT_OF, values, |row| row.name(0)).await?.pop())
    }
}
