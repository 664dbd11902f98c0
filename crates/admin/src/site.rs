//! The site at which a change is made.

use entrepot_nouns::{Name, SiteId};

/// What a change must know of its site besides the nouns that it touches.
#[derive(Clone, Debug)]
pub(crate) struct ChangedSite {
    pub(crate) id: SiteId,
    /// Its secrets are sealed for this name.
    pub(crate) name: Name,
    /// Its policy, where passwords are set: it says how long they are.
    pub(crate) policy: Option<Name>,
}
