//! Identifiers: UUID version 7 (RFC 9562 §5.7), one type a noun so that they cannot be mixed up.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The text is not a UUID.
#[derive(Debug, thiserror::Error)]
#[error("'{0}' is not an identifier (a UUID such as 0192f1c4-7d7a-7abc-8def-0123456789ab)")]
pub struct IdError(pub String);

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[derive(Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.hyphenated().fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0.hyphenated())
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                Uuid::from_str(text).map($name).map_err(|_| IdError(text.to_owned()))
            }
        }

        impl From<Uuid> for $name {
            fn from(id: Uuid) -> Self {
                $name(id)
            }
        }
    )* };
}

ids! {
    /// Identifies a replay of a rule: jobs that are made again under it are made once, however
    /// often that is ordered.
    ReplayId
    /// Identifies a [`crate::Site`].
    SiteId
    /// Identifies a [`crate::Account`].
    AccountId
    /// Identifies a [`crate::Key`].
    KeyId
    /// Identifies a [`crate::Listener`].
    ListenerId
    /// Identifies a [`crate::Endpoint`].
    EndpointId
    /// Identifies a [`crate::Mount`].
    MountId
    /// Identifies a [`crate::Policy`].
    PolicyId
    /// Identifies a live or ended session.
    SessionId
    /// Identifies a [`crate::Transfer`].
    TransferId
    /// Identifies an [`crate::Event`]; the projection into the database is exactly once by it.
    EventId
    /// Identifies a [`crate::Rule`].
    RuleId
    /// Identifies a [`crate::Job`].
    JobId
    /// Identifies a node: made with its journal, in whose segments it stands.
    NodeId
}

impl SiteId {
    /// The default site, `main`. Its id is fixed so that it never needs naming.
    pub const MAIN: SiteId = SiteId(Uuid::from_u128(1));
}
