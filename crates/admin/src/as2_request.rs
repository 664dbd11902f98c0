//! What is asked about messages of AS2.

use entrepot_nouns::as2::As2MessageName;
use serde::{Deserialize, Serialize};

use crate::fact_queries::As2Query;

/// What is asked about messages of AS2.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum As2Request {
    /// Messages, both ways, newest first.
    Messages(As2Query),
    /// One message, as lists show it or by its Message-ID, with its event and the receipts that
    /// came for it.
    Message(As2MessageName),
}
