//! The whole configuration as one value, which a node keeps for the time when the database is away:
//! all nouns of all sites as they are stored, with their secrets sealed.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use entrepot_nouns::{Key, Kind, Mount, Name, Noun, SiteId, Stored, Timestamp};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::{DbError, Result};
use crate::limits;

/// One noun as its table has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TableRow {
    pub(crate) id: Uuid,
    pub(crate) site: SiteId,
    pub(crate) name: Name,
    pub(crate) revision: i64,
    pub(crate) changed_at: Timestamp,
    pub(crate) body: String,
}

/// The same with its table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoredRow {
    pub(crate) kind: Kind,
    #[serde(flatten)]
    pub(crate) row: TableRow,
}

/// All nouns of all sites at one revision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Configuration {
    /// As [`Db::config_revision`] had it.
    pub revision: i64,
    /// The era that the database was in.
    pub era: String,
    pub(crate) rows: Vec<StoredRow>,
}

impl Configuration {
    /// How many nouns there are.
    pub fn nouns(&self) -> usize {
        self.rows.len()
    }
}

/// A [`Configuration`] with what finds its nouns.
#[derive(Debug)]
pub(crate) struct KnownConfiguration {
    revision: i64,
    /// By kind and site, then by name.
    rows: HashMap<(Kind, SiteId), BTreeMap<Name, TableRow>>,
    /// Names of keys and mounts by the account that they belong to, in order.
    owned: HashMap<(Kind, SiteId, Option<Name>), Vec<Name>>,
    /// Accounts by site and the hash of an API token that lets them in.
    tokens: HashMap<(SiteId, String), Name>,
}

impl KnownConfiguration {
    pub(crate) fn new(configuration: Configuration) -> Result<KnownConfiguration> {
        let Configuration { revision, rows, .. } = configuration;
        let (rows_of, owned, tokens) = (HashMap::new(), HashMap::new(), HashMap::new());
        let mut known = KnownConfiguration { revision, rows: rows_of, owned, tokens };
        for row in rows {
            let StoredRow { kind, row } = row;
            known.rows.entry((kind, row.site)).or_default().insert(row.name.clone(), row);
        }
        for ((kind, site), rows) in &known.rows {
            for (name, row) in rows {
                let owner = match kind {
                    Kind::Key => {
                        let key = row.noun::<Key>()?;
                        if let Some(KnownToken { hash, account }) = KnownToken::of(&key) {
                            known.tokens.insert((*site, hash.to_owned()), account.clone());
                        }
                        owner(&key)
                    }
                    Kind::Mount => owner(&row.noun::<Mount>()?),
                    _ => continue,
                };
                known.owned.entry((*kind, *site, owner)).or_default().push(name.clone());
            }
        }
        Ok(known)
    }

    /// No database has a revision below 0: who has read this configuration reads the database's
    /// own when it is there again, even where both have the same number.
    pub(crate) fn revision(&self) -> i64 {
        self.revision.saturating_neg().saturating_sub(limits::KNOWN_REVISIONS_BELOW)
    }

    pub(crate) fn find<N: Noun>(&self, site: SiteId, name: &Name) -> Result<Option<Stored<N>>> {
        let rows = self.rows.get(&(N::KIND, site));
        rows.and_then(|rows| rows.get(name)).map(TableRow::stored).transpose()
    }

    pub(crate) fn page<N: Noun>(
        &self,
        site: SiteId,
        after: Option<&Name>,
        limit: usize,
    ) -> Result<Vec<Stored<N>>> {
        let Some(rows) = self.rows.get(&(N::KIND, site)) else { return Ok(Vec::new()) };
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let rows = rows.range::<Name, _>((from, Bound::Unbounded)).take(limit);
        rows.map(|(_, row)| row.stored()).collect()
    }

    pub(crate) fn owned_by<N: Noun>(
        &self,
        site: SiteId,
        owner: Option<&Name>,
    ) -> Result<Vec<Stored<N>>> {
        let names = self.owned.get(&(N::KIND, site, owner.cloned())).map(Vec::as_slice);
        let found = names.unwrap_or_default().iter().map(|name| self.find(site, name));
        Ok(found.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    }

    pub(crate) fn account_of_token(&self, site: SiteId, hash: &str) -> Option<Name> {
        self.tokens.get(&(site, hash.to_owned())).cloned()
    }

    pub(crate) fn site_name(&self, site: SiteId) -> Option<Name> {
        let mut sites = self.rows.get(&(Kind::Site, SiteId::MAIN))?.values();
        sites.find(|row| row.id == site.0).map(|row| row.name.clone())
    }
}

impl TableRow {
    fn noun<N: Noun>(&self) -> Result<N> {
        serde_json::from_str(&self.body)
            .map_err(|error| DbError::Corrupt(format!("{} '{}': {error}", N::KIND, self.name)))
    }

    fn stored<N: Noun>(&self) -> Result<Stored<N>> {
        Ok(Stored {
            id: self.id,
            site: self.site,
            revision: self.revision,
            changed_at: self.changed_at,
            noun: self.noun()?,
        })
    }
}

/// The account a noun belongs to, if its kind belongs to accounts.
pub(crate) fn owner<N: Noun>(noun: &N) -> Option<Name> {
    let mut references = noun.references().into_iter();
    references.find(|reference| reference.kind == Kind::Account).map(|account| account.name)
}

/// The hash of a token and the account that it lets in.
pub(crate) struct KnownToken<'a> {
    pub(crate) hash: &'a str,
    pub(crate) account: &'a Name,
}

impl KnownToken<'_> {
    /// What a key that is an API token is known by.
    pub(crate) fn of(key: &Key) -> Option<KnownToken<'_>> {
        Some(KnownToken { hash: key.token_hash()?, account: key.account.as_ref()? })
    }
}
