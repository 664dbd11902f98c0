//! Configuration: one table a noun, the same statements for each.

use entrepot_nouns::{AnyNoun, Key, Kind, Mount, Name, Noun, Site, SiteId, Stored, Timestamp};
use futures_util::future::BoxFuture;
use uuid::Uuid;

use crate::Db;
use crate::error::{DbError, Result};
use crate::known::owner;
use crate::references::{self, Bound, NounUser};
use crate::sql::{Reader, Row, Sql, Value, sql, statements, to_json};
use crate::tx::{Tx, Work};
use crate::{Purpose, api_tokens, oidc, passkeys};

/// The statements of one table.
struct Table {
    all: Sql,
    list: Sql,
    page: Sql,
    find: Sql,
    put: Sql,
    delete: Sql,
    /// Rows belong to an account, which stands in the column `owner` too.
    owned: bool,
}

impl Table {
    #[cfg(test)]
    fn statements(&self) -> [Sql; 6] {
        [self.all, self.list, self.page, self.find, self.put, self.delete]
    }
}

macro_rules! table {
    ($name:literal, $owned:literal, $columns:literal, $values:literal, $set:literal) => {
        Table {
            all: sql!(
                "SELECT id, site, name, revision, changed_at, body FROM ",
                $name,
                " ORDER BY site, name",
            ),
            list: sql!(
                "SELECT id, site, revision, changed_at, body FROM ",
                $name,
                " WHERE site = $1 ORDER BY name",
            ),
            page: sql!(
                "SELECT id, site, revision, changed_at, body FROM ",
                $name,
                " WHERE site = $1 AND name > $2 ORDER BY name LIMIT $3",
            ),
            find: sql!(
                "SELECT id, site, revision, changed_at, body FROM ",
                $name,
                " WHERE site = $1 AND name = $2",
            ),
            put: sql!(
                "INSERT INTO ",
                $name,
                " (id, site, name, revision, changed_at, body",
                $columns,
                ") VALUES ($1, $2, $3, 1, $4, $5",
                $values,
                ") ",
                "ON CONFLICT (id) DO UPDATE SET revision = ",
                $name,
                ".revision + 1, ",
                "changed_at = excluded.changed_at, body = excluded.body",
                $set,
                " WHERE ",
                $name,
                ".site = excluded.site AND ",
                $name,
                ".name = excluded.name ",
                "RETURNING revision",
            ),
            // Only the site main has the id of the site that owns it: it stays.
            delete: sql!("DELETE FROM ", $name, " WHERE site = $1 AND name = $2 AND id <> site",),
            owned: $owned,
        }
    };
    ($name:literal) => {
        table!($name, false, "", "", "")
    };
    ($name:literal, owned) => {
        table!($name, true, ", owner", ", $6", ", owner = excluded.owner")
    };
}

const SITES: Table = table!("sites");
const POLICIES: Table = table!("policies");
const KEYS: Table = table!("keys", owned);
const ENDPOINTS: Table = table!("endpoints");
const ACCOUNTS: Table = table!("accounts");
const MOUNTS: Table = table!("mounts", owned);
const MODELS: Table = table!("models");
const RULES: Table = table!("rules");
const LISTENERS: Table = table!("listeners");

statements! {
    KEYS_OF = sql!(
        "SELECT id, site, revision, changed_at, body FROM keys ",
        "WHERE site = $1 AND owner = $2 ORDER BY name",
    );
    KEYS_OF_NOBODY = sql!(
        "SELECT id, site, revision, changed_at, body FROM keys ",
        "WHERE site = $1 AND owner IS NULL ORDER BY name",
    );
    MOUNTS_OF = sql!(
        "SELECT id, site, revision, changed_at, body FROM mounts ",
        "WHERE site = $1 AND owner = $2 ORDER BY name",
    );
    SITE_NAME = sql!("SELECT name FROM sites WHERE id = $1");
    REVISION = sql!("SELECT revision FROM config_revision");
}

fn table(kind: Kind) -> &'static Table {
    match kind {
        Kind::Site => &SITES,
        Kind::Policy => &POLICIES,
        Kind::Key => &KEYS,
        Kind::Endpoint => &ENDPOINTS,
        Kind::Account => &ACCOUNTS,
        Kind::Mount => &MOUNTS,
        Kind::Model => &MODELS,
        Kind::Rule => &RULES,
        Kind::Listener => &LISTENERS,
    }
}

/// Reads all nouns of a kind, of all sites.
pub(crate) fn all(kind: Kind) -> Sql {
    table(kind).all
}

/// Every statement of the tables.
#[cfg(test)]
pub(crate) fn table_statements() -> Vec<Sql> {
    Kind::ALL.iter().flat_map(|kind| table(*kind).statements()).collect()
}

type Query<T> = (Sql, Vec<Value>, Reader<T>);

fn stored<N: Noun>(row: &Row<'_>) -> Result<Stored<N>> {
    Ok(Stored {
        id: row.id(0)?,
        site: SiteId(row.id(1)?),
        revision: row.int(2)?,
        changed_at: row.time(3)?,
        noun: row.json(4)?,
    })
}

fn list<N: Noun>(site: SiteId) -> Query<Stored<N>> {
    (table(N::KIND).list, vec![site.0.into()], stored::<N>)
}

fn find<N: Noun>(site: SiteId, name: &Name) -> Query<Stored<N>> {
    (table(N::KIND).find, vec![site.0.into(), name.into()], stored::<N>)
}

async fn put<N: Noun>(
    work: &mut Work,
    site: SiteId,
    id: Uuid,
    noun: &N,
    at: Timestamp,
) -> Result<i64> {
    if N::KIND == Kind::Site && site != SiteId::MAIN {
        return Err(DbError::Conflict("sites belong to the site 'main'".to_owned()));
    }
    let table = table(N::KIND);
    let body = Value::text(to_json(noun)?);
    let mut values = vec![id.into(), site.0.into(), noun.name().into(), at.into(), body];
    if table.owned {
        values.push(Value::maybe_text(owner(noun)));
    }
    let revision = work.query(table.put, values, |row| row.int(0)).await?.pop();
    let revision = revision.ok_or_else(|| {
        DbError::Conflict(format!(
            "the id {id} belongs to another {} than '{}'",
            N::KIND,
            noun.name()
        ))
    })?;
    for Bound { sql, values } in references::noting(site, noun) {
        work.execute(sql, values).await?;
    }
    api_tokens::note(work, site, noun).await?;
    passkeys::note(work, site, noun).await?;
    oidc::note(work, site, noun).await?;
    Ok(revision)
}

async fn delete(work: &mut Work, site: SiteId, kind: Kind, name: &Name) -> Result<bool> {
    let values = vec![site.0.into(), name.into()];
    let deleted = work.execute(table(kind).delete, values).await? > 0;
    if deleted {
        let Bound { sql, values } = references::forgetting(site, kind, name);
        work.execute(sql, values).await?;
        api_tokens::forget(work, site, kind, name).await?;
        passkeys::forget(work, site, kind, name).await?;
        oidc::forget(work, site, kind, name).await?;
    }
    Ok(deleted)
}

impl Db {
    /// All nouns of a kind in a site, by name. Sites belong to the site `main`.
    pub async fn list<N: Noun>(&self, site: SiteId) -> Result<Vec<Stored<N>>> {
        if let Some(known) = self.known() {
            return known.page(site, None, usize::MAX);
        }
        let (sql, values, reader) = list::<N>(site);
        self.read(sql, values, reader).await
    }

    /// The nouns of a kind in a site whose names come after `after`, by name; at most `limit`.
    pub async fn page<N: Noun>(
        &self,
        site: SiteId,
        after: Option<&Name>,
        limit: u32,
    ) -> Result<Vec<Stored<N>>> {
        if let Some(known) = self.known() {
            return known.page(site, after, limit as usize);
        }
        // No name is empty, so the first page is what comes after the empty text.
        let after = Value::text(after.map_or("", Name::as_str));
        let values = vec![site.0.into(), after, i64::from(limit).into()];
        self.read(table(N::KIND).page, values, stored::<N>).await
    }

    /// One noun by name.
    pub async fn find<N: Noun>(&self, site: SiteId, name: &Name) -> Result<Option<Stored<N>>> {
        if let Some(known) = self.known() {
            return known.find(site, name);
        }
        let (sql, values, reader) = find::<N>(site, name);
        Ok(self.read(sql, values, reader).await?.pop())
    }

    /// The keys that let `account` log in, by name; valid or not.
    pub async fn keys_of(&self, site: SiteId, account: &Name) -> Result<Vec<Stored<Key>>> {
        if let Some(known) = self.known() {
            return known.owned_by(site, Some(account));
        }
        self.read(KEYS_OF, vec![site.0.into(), account.into()], stored::<Key>).await
    }

    /// The keys of a site that belong to no account, by name; valid or not.
    pub async fn keys_of_nobody(&self, site: SiteId) -> Result<Vec<Stored<Key>>> {
        if let Some(known) = self.known() {
            return known.owned_by(site, None);
        }
        self.read(KEYS_OF_NOBODY, vec![site.0.into()], stored::<Key>).await
    }

    /// The mounts of these accounts and groups, in the order given and then by name.
    pub async fn mounts_of(&self, site: SiteId, accounts: &[Name]) -> Result<Vec<Stored<Mount>>> {
        let (known, mut mounts) = (self.known(), Vec::new());
        for account in accounts {
            if let Some(known) = &known {
                mounts.extend(known.owned_by(site, Some(account))?);
                continue;
            }
            let values = vec![site.0.into(), account.into()];
            mounts.extend(self.read(MOUNTS_OF, values, stored::<Mount>).await?);
        }
        Ok(mounts)
    }

    /// The nouns of a site that refer to this one, by kind and name; at most `limit`.
    pub async fn users(
        &self,
        site: SiteId,
        kind: Kind,
        name: &Name,
        limit: u32,
    ) -> Result<Vec<NounUser>> {
        let limit = i64::from(limit).into();
        self.read(
            references::USERS,
            vec![site.0.into(), kind.as_str().into(), name.into(), limit],
            references::user,
        )
        .await
    }

    /// All sites, by name.
    pub async fn sites(&self) -> Result<Vec<Stored<Site>>> {
        self.list::<Site>(SiteId::MAIN).await
    }

    /// The name of a site; `None` if there is no such site any more.
    pub async fn site_name(&self, site: SiteId) -> Result<Option<Name>> {
        if let Some(known) = self.known() {
            return Ok(known.site_name(site));
        }
        Ok(self.read(SITE_NAME, vec![site.0.into()], |row| row.name(0)).await?.pop())
    }

    /// One more at each committed change of any noun in any site.
    pub async fn config_revision(&self) -> Result<i64> {
        if let Some(known) = self.known() {
            return Ok(known.revision());
        }
        let revision = self.read(REVISION, Vec::new(), |row| row.int(0)).await?.pop();
        revision.ok_or_else(|| DbError::Corrupt("config_revision has no row".to_owned()))
    }

    /// Begins to do what was decided by `revision` of the configuration; nothing if it has changed
    /// since.
    pub(crate) async fn work_at(&self, revision: i64) -> Result<Option<Work>> {
        let mut work = self.work(Purpose::Other).await?;
        let found = work.query(REVISION, Vec::new(), |row| row.int(0)).await?;
        Ok((found.first() == Some(&revision)).then_some(work))
    }
}

impl Tx {
    /// Creates the noun (revision 1) or replaces the one with this id and name (one revision
    /// more). Returns the revision.
    ///
    /// # Errors
    /// [`DbError::Conflict`] if the name belongs to another id, the id to another name, site or
    /// kind of row, the site does not exist, or another key is the
    /// same API token. The transaction can then only be dropped.
    pub async fn put<N: Noun>(
        &mut self,
        site: SiteId,
        id: Uuid,
        noun: &N,
        at: Timestamp,
    ) -> Result<i64> {
        let revision = put(&mut self.work, site, id, noun, at).await;
        self.nouns_changed = true;
        self.work.noted(revision)
    }

    /// Does the same as [`Tx::put`] for a noun whose kind is known at run time only. Boxed: the
    /// code for each kind is long, and would be in each crate that awaits it.
    pub fn put_any<'a>(
        &'a mut self,
        site: SiteId,
        id: Uuid,
        noun: &'a AnyNoun,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<i64>> {
        Box::pin(async move {
            match noun {
                AnyNoun::Site(noun) => self.put(site, id, noun, at).await,
                AnyNoun::Policy(noun) => self.put(site, id, noun, at).await,
                AnyNoun::Key(noun) => self.put(site, id, noun, at).await,
                AnyNoun::Endpoint(noun) => self.put(site, id, noun, at).await,
                AnyNoun::Account(noun) => self.put(site, id, noun, at).await,
                AnyNoun::Mount(noun) => self.put(site, id, noun, at).await,
                AnyNoun::Model(noun) => self.put(site, id, noun, at).await,
                AnyNoun::Rule(noun) => self.put(site, id, noun, at).await,
                AnyNoun::Listener(noun) => self.put(site, id, noun, at).await,
            }
        })
    }

    /// Deletes a noun; false if there is none of that name. The site `main` cannot be deleted.
    ///
    /// # Errors
    /// [`DbError::Conflict`] for a site that still owns something.
    pub async fn delete(&mut self, site: SiteId, kind: Kind, name: &Name) -> Result<bool> {
        let deleted = delete(&mut self.work, site, kind, name).await?;
        self.nouns_changed |= deleted;
        Ok(deleted)
    }

    /// As [`Db::list`], with what this transaction changed.
    pub async fn list<N: Noun>(&mut self, site: SiteId) -> Result<Vec<Stored<N>>> {
        let (sql, values, reader) = list::<N>(site);
        self.work.query(sql, values, reader).await
    }

    /// As [`Db::find`], with what this transaction changed.
    pub async fn find<N: Noun>(&mut self, site: SiteId, name: &Name) -> Result<Option<Stored<N>>> {
        let (sql, values, reader) = find::<N>(site, name);
        Ok(self.work.query(sql, values, reader).await?.pop())
    }
}
