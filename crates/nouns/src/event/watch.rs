//! What events say of watched folders.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::name::Name;

/// A folder that a rule watches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WatchedFolder {
    /// The name of the rule, which may have been deleted since.
    pub rule: Name,
    /// The endpoint that has the folder.
    pub endpoint: Name,
    /// The path of the folder there.
    pub path: String,
}
