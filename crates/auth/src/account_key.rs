//! Which account is meant, before it is known whether there is one.

use entrepot_nouns::{Name, SiteId};

/// An account, or a name that a client gave which no account has.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AccountKey {
    pub(crate) site: SiteId,
    pub(crate) name: Name,
}
