//! Which noun names which: written with each noun, so that the users of one are found without
//! reading all the others.

use std::collections::BTreeSet;

use entrepot_nouns::{Kind, Name, Noun, SiteId};

use crate::error::{DbError, Result};
use crate::sql::{Row, Sql, Value, sql, statements};

statements! {
    FORGET = sql!("DELETE FROM noun_references WHERE site = $1 AND kind = $2 AND name = $3");
    NOTE = sql!(
        "INSERT INTO noun_references (site, kind, name, to_kind, to_name) ",
        "VALUES ($1, $2, $3, $4, $5)",
    );
    USERS_OF = sql!(
        "SELECT kind, name FROM noun_references WHERE site = $1 AND to_kind = $2 ",
        "AND to_name = $3 ORDER BY kind, name LIMIT $4",
    );
}

pub(crate) const USERS: Sql = USERS_OF;

/// A noun that names another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NounUser {
    /// The kind of the noun that refers.
    pub kind: Kind,
    /// The name of the noun that refers.
    pub name: Name,
}

/// A statement and the values of its parameters, in order.
pub(crate) struct Bound {
    pub(crate) sql: Sql,
    pub(crate) values: Vec<Value>,
}

/// What writes down the references of a noun that is stored, in place of those it had.
pub(crate) fn noting<N: Noun>(site: SiteId, noun: &N) -> Vec<Bound> {
    let mut statements = vec![forgetting(site, N::KIND, noun.name())];
    // Two fields may name the same noun.
    let named = noun.references().into_iter().map(|it| (it.kind, it.name));
    for (kind, name) in named.collect::<BTreeSet<(Kind, Name)>>() {
        let values = vec![
            site.0.into(),
            N::KIND.as_str().into(),
            noun.name().into(),
            kind.as_str().into(),
            (&name).into(),
        ];
        statements.push(Bound { sql: NOTE, values });
    }
    statements
}

/// What removes the references of a noun that is deleted.
pub(crate) fn forgetting(site: SiteId, kind: Kind, name: &Name) -> Bound {
    Bound { sql: FORGET, values: vec![site.0.into(), kind.as_str().into(), name.into()] }
}

pub(crate) fn user(row: &Row<'_>) -> Result<NounUser> {
    let kind = row.text(0)?;
    let kind = kind.parse().map_err(|problem: String| DbError::Corrupt(problem))?;
    Ok(NounUser { kind, name: row.name(1)? })
}
