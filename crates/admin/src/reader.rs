//! Reading the configuration of a site: from the database, or inside a transaction.

use std::collections::BTreeMap;

use entrepot_db::{Db, Tx};
use entrepot_nouns::{
    Account, AnyNoun, Endpoint, Key, Kind, Listener, Model, Mount, Name, Noun, Policy, Rule, Site,
    SiteId, Stored,
};

use crate::error::Result;

/// What names a noun in its site.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct NounKey {
    pub(crate) kind: Kind,
    pub(crate) name: Name,
}

impl NounKey {
    pub(crate) fn new(kind: Kind, name: &Name) -> Self {
        NounKey { kind, name: name.clone() }
    }

    pub(crate) fn of(noun: &AnyNoun) -> Self {
        NounKey::new(noun.kind(), noun.name())
    }
}

/// Nouns of a site, by kind and name: all of them, or those that a change touches.
pub(crate) type State = BTreeMap<NounKey, Stored<AnyNoun>>;

/// Where nouns are read.
pub(crate) enum Reader<'a> {
    Db(&'a Db),
    /// With what the transaction has changed.
    Tx(&'a mut Tx),
}

impl Reader<'_> {
    /// Every noun of the site.
    pub(crate) async fn all(&mut self, site: SiteId) -> Result<State> {
        let mut state = State::new();
        for kind in Kind::ALL {
            for stored in self.kind(site, kind).await? {
                state.insert(NounKey::of(&stored.noun), stored);
            }
        }
        Ok(state)
    }

    /// Every noun of a kind, by name.
    pub(crate) async fn kind(&mut self, site: SiteId, kind: Kind) -> Result<Vec<Stored<AnyNoun>>> {
        match kind {
            Kind::Site => self.nouns::<Site>(site).await,
            Kind::Policy => self.nouns::<Policy>(site).await,
            Kind::Key => self.nouns::<Key>(site).await,
            Kind::Endpoint => self.nouns::<Endpoint>(site).await,
            Kind::Account => self.nouns::<Account>(site).await,
            Kind::Mount => self.nouns::<Mount>(site).await,
            Kind::Model => self.nouns::<Model>(site).await,
            Kind::Rule => self.nouns::<Rule>(site).await,
            Kind::Listener => self.nouns::<Listener>(site).await,
        }
    }

    async fn nouns<N: Noun + Into<AnyNoun>>(
        &mut self,
        site: SiteId,
    ) -> Result<Vec<Stored<AnyNoun>>> {
        let rows = match self {
            Reader::Db(db) => db.list::<N>(site).await?,
            Reader::Tx(tx) => tx.list::<N>(site).await?,
        };
        Ok(rows.into_iter().map(any).collect())
    }
}

/// One noun by its name.
pub(crate) async fn find(db: &Db, site: SiteId, key: &NounKey) -> Result<Option<Stored<AnyNoun>>> {
    let name = &key.name;
    Ok(match key.kind {
        Kind::Site => db.find::<Site>(site, name).await?.map(any),
        Kind::Policy => db.find::<Policy>(site, name).await?.map(any),
        Kind::Key => db.find::<Key>(site, name).await?.map(any),
        Kind::Endpoint => db.find::<Endpoint>(site, name).await?.map(any),
        Kind::Account => db.find::<Account>(site, name).await?.map(any),
        Kind::Mount => db.find::<Mount>(site, name).await?.map(any),
        Kind::Model => db.find::<Model>(site, name).await?.map(any),
        Kind::Rule => db.find::<Rule>(site, name).await?.map(any),
        Kind::Listener => db.find::<Listener>(site, name).await?.map(any),
    })
}

/// One noun by its name, with what the transaction has changed.
pub(crate) async fn find_in(
    tx: &mut Tx,
    site: SiteId,
    key: &NounKey,
) -> Result<Option<Stored<AnyNoun>>> {
    let name = &key.name;
    Ok(match key.kind {
        Kind::Site => tx.find::<Site>(site, name).await?.map(any),
        Kind::Policy => tx.find::<Policy>(site, name).await?.map(any),
        Kind::Key => tx.find::<Key>(site, name).await?.map(any),
        Kind::Endpoint => tx.find::<Endpoint>(site, name).await?.map(any),
        Kind::Account => tx.find::<Account>(site, name).await?.map(any),
        Kind::Mount => tx.find::<Mount>(site, name).await?.map(any),
        Kind::Model => tx.find::<Model>(site, name).await?.map(any),
        Kind::Rule => tx.find::<Rule>(site, name).await?.map(any),
        Kind::Listener => tx.find::<Listener>(site, name).await?.map(any),
    })
}

/// The nouns of a kind whose names come after `after`, by name; at most `limit`.
pub(crate) async fn page(
    db: &Db,
    site: SiteId,
    kind: Kind,
    after: Option<&Name>,
    limit: u32,
) -> Result<Vec<Stored<AnyNoun>>> {
    Ok(match kind {
        Kind::Site => all(db.page::<Site>(site, after, limit).await?),
        Kind::Policy => all(db.page::<Policy>(site, after, limit).await?),
        Kind::Key => all(db.page::<Key>(site, after, limit).await?),
        Kind::Endpoint => all(db.page::<Endpoint>(site, after, limit).await?),
        Kind::Account => all(db.page::<Account>(site, after, limit).await?),
        Kind::Mount => all(db.page::<Mount>(site, after, limit).await?),
        Kind::Model => all(db.page::<Model>(site, after, limit).await?),
        Kind::Rule => all(db.page::<Rule>(site, after, limit).await?),
        Kind::Listener => all(db.page::<Listener>(site, after, limit).await?),
    })
}

fn all<N: Into<AnyNoun>>(rows: Vec<Stored<N>>) -> Vec<Stored<AnyNoun>> {
    rows.into_iter().map(any).collect()
}

pub(crate) fn any<N: Into<AnyNoun>>(row: Stored<N>) -> Stored<AnyNoun> {
    Stored {
        id: row.id,
        site: row.site,
        revision: row.revision,
        changed_at: row.changed_at,
        noun: row.noun.into(),
    }
}
