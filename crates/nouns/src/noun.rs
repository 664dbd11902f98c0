//! What the nouns of configuration have in common. No noun is known here; the table of all of them
//! is in `any_noun.rs`.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

use crate::ids::SiteId;
use crate::limits::NOUN_USERS;
use crate::name::Name;
use crate::time::Timestamp;

/// A kind of configuration: the word in a document, a CLI verb, an API path, a table.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A tenant, which owns the nouns of the other kinds.
    Site,
    /// Limits and posture.
    Policy,
    /// Named key material.
    Key,
    /// A place we reach.
    Endpoint,
    /// Whoever may act.
    Account,
    /// A virtual path given to an account.
    Mount,
    /// A host application whose procedures are called.
    Model,
    /// When, if, do, else.
    Rule,
    /// A place they reach us.
    Listener,
}

impl Kind {
    /// All kinds, ordered so that what is referred to comes before what refers to it.
    pub const ALL: [Kind; 9] = [
        Kind::Site,
        Kind::Policy,
        Kind::Key,
        Kind::Endpoint,
        Kind::Account,
        Kind::Mount,
        Kind::Model,
        Kind::Rule,
        Kind::Listener,
    ];

    /// The word, singular, lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Site => "site",
            Kind::Policy => "policy",
            Kind::Key => "key",
            Kind::Endpoint => "endpoint",
            Kind::Account => "account",
            Kind::Mount => "mount",
            Kind::Model => "model",
            Kind::Rule => "rule",
            Kind::Listener => "listener",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Kind::ALL
            .into_iter()
            .find(|kind| kind.as_str() == text)
            .ok_or_else(|| format!("'{text}' is no kind of configuration"))
    }
}

/// A field of a document that cannot be taken as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct FieldError {
    /// Path of the field inside the document, such as `quota.files`.
    pub field: String,
    /// A sentence that says what to do.
    pub problem: String,
}

impl FieldError {
    /// For `field`, with a sentence.
    pub fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        FieldError { field: field.into(), problem: problem.into() }
    }
}

/// A field of a noun that names another one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    /// Path of the field inside the document, such as `do.0.deliver.endpoint`.
    pub field: String,
    /// The kind of the noun that is named.
    pub kind: Kind,
    /// The name of that noun.
    pub name: Name,
}

impl Reference {
    /// `field` names the `kind` called `name`.
    pub fn new(field: impl Into<String>, kind: Kind, name: &Name) -> Self {
        Reference { field: field.into(), kind, name: name.clone() }
    }
}

/// The references of the list of those who may change a noun and use it.
pub(crate) fn users(field: &'static str, names: &[Name]) -> impl Iterator<Item = Reference> {
    let named = names.iter().enumerate();
    named.map(move |(at, name)| Reference::new(format!("{field}.{at}"), Kind::Account, name))
}

/// Checks the length of such a list.
pub(crate) fn check_users(field: &str, names: &[Name]) -> Result<(), FieldError> {
    if names.len() > NOUN_USERS {
        return Err(FieldError::new(field, format!("{NOUN_USERS} at most")));
    }
    Ok(())
}

/// One noun of configuration. The struct is the document's body: it has no id and no site, and
/// refers to others by name.
pub trait Noun: Serialize + DeserializeOwned + Clone + fmt::Debug + Send + Sync + 'static {
    /// Which kind it is.
    const KIND: Kind;
    /// Its name, unique in its kind and site. Never changes.
    fn name(&self) -> &Name;
    /// What it refers to; each must exist in the same site.
    fn references(&self) -> Vec<Reference>;
    /// Checks what the types alone cannot.
    fn check(&self) -> Result<(), FieldError>;
    /// Programs it asks a node to start; each node has its own list of those that it allows.
    fn programs(&self) -> Vec<&str> {
        Vec::new()
    }
}

/// A noun as the database keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stored<N> {
    /// Its id, given at creation.
    pub id: Uuid,
    /// The site that owns it.
    pub site: SiteId,
    /// 1 at creation, one more at each change.
    pub revision: i64,
    /// When it was last changed.
    pub changed_at: Timestamp,
    /// The noun itself.
    pub noun: N,
}

impl<N> Stored<N> {
    /// Which state of which noun this is.
    pub fn version(&self) -> NounVersion {
        NounVersion { id: self.id, revision: self.revision }
    }
}

/// One state of a noun: no other state of it, and no later noun of the same name, has the same.
/// As text `ID.REVISION`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct NounVersion {
    /// The id of the noun: one that is created anew under an old name has another.
    pub id: Uuid,
    /// As in [`Stored::revision`], one more at each change.
    pub revision: i64,
}

impl fmt::Display for NounVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.id.simple(), self.revision)
    }
}

impl FromStr for NounVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once('.').and_then(|(id, revision)| {
            Some(NounVersion { id: id.parse().ok()?, revision: revision.parse().ok()? })
        });
        parsed.ok_or_else(|| format!("'{text}' is no version of a noun"))
    }
}

impl Serialize for NounVersion {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for NounVersion {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_as_text_goes_round() {
        let version = NounVersion { id: Uuid::from_u128(7), revision: 12 };
        assert_eq!(version.to_string(), "00000000000000000000000000000007.12");
        assert_eq!(version.to_string().parse(), Ok(version));
        for bad in ["", "7", "x.1", "00000000000000000000000000000007.", "a.b.c"] {
            assert!(bad.parse::<NounVersion>().is_err(), "{bad}");
        }
    }
}
