//! The table of all nouns of configuration, and a value that is any one of them.

use serde::{Deserialize, Serialize};

use crate::account::Account;
use crate::endpoint::Endpoint;
use crate::key::Key;
use crate::listener::Listener;
use crate::model::Model;
use crate::mount::Mount;
use crate::name::Name;
use crate::noun::{FieldError, Kind, Noun, Reference};
use crate::policy::Policy;
use crate::rule::Rule;
use crate::site::Site;

macro_rules! any_noun {
    ($($name:ident)*) => {
        /// Any noun of configuration. In a document it is a mapping with one key, the kind.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "lowercase")]
        pub enum AnyNoun { $($name($name),)* }

        impl AnyNoun {
            /// Which kind it is.
            pub fn kind(&self) -> Kind {
                match self { $(AnyNoun::$name(_) => Kind::$name,)* }
            }
            /// The name of the noun inside, unique in its kind and site.
            pub fn name(&self) -> &Name {
                match self { $(AnyNoun::$name(noun) => noun.name(),)* }
            }
            /// What the noun inside refers to, see [`Noun::references`].
            pub fn references(&self) -> Vec<Reference> {
                match self { $(AnyNoun::$name(noun) => noun.references(),)* }
            }
            /// Checks the noun inside by itself, see [`Noun::check`].
            pub fn check(&self) -> Result<(), FieldError> {
                match self { $(AnyNoun::$name(noun) => noun.check(),)* }
            }
            /// Programs that the noun inside asks a node to start, see [`Noun::programs`].
            pub fn programs(&self) -> Vec<&str> {
                match self { $(AnyNoun::$name(noun) => noun.programs(),)* }
            }
        }

        $(impl From<$name> for AnyNoun {
            fn from(noun: $name) -> Self { AnyNoun::$name(noun) }
        })*
    };
}

any_noun! { Site Policy Key Endpoint Account Mount Model Rule Listener }

impl AnyNoun {
    /// Those who may change it, and what names it, and the field that says so. Empty: everybody who
    /// may change the configuration.
    pub fn users(&self) -> (&'static str, &[Name]) {
        match self {
            AnyNoun::Key(key) => ("users", &key.users),
            AnyNoun::Endpoint(endpoint) => ("users", &endpoint.users),
            AnyNoun::Account(account) => ("managers", &account.managers),
            AnyNoun::Site(_)
            | AnyNoun::Policy(_)
            | AnyNoun::Mount(_)
            | AnyNoun::Model(_)
            | AnyNoun::Rule(_)
            | AnyNoun::Listener(_) => ("users", &[]),
        }
    }
}
