//! What is asked about messages of AS2.

use entrepot_nouns::as2::{As2MessageName, As2Order};
use entrepot_nouns::{AdminRight, Name};
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
    /// Tests the connection to the partner of an endpoint, by a message of a few bytes. Of a
    /// running server.
    Test(Name),
    /// Sends a file of an endpoint to a partner.
    Send {
        /// The endpoint of the partner.
        partner: Name,
        /// Which file, and how the partner sees it.
        order: Box<As2Order>,
    },
    /// Sends a message again that left here: the same one if its job failed or was cancelled, and
    /// else the file as a new one.
    Resend(As2MessageName),
    /// Ends the job that sends a message.
    Cancel(As2MessageName),
}

impl As2Request {
    /// The right that it needs.
    pub(crate) fn needed(&self) -> AdminRight {
        match self {
            As2Request::Messages(_) | As2Request::Message(_) => AdminRight::Audit,
            // It is what a rule would do, and no rule says so.
            As2Request::Send { .. } => AdminRight::Configure,
            As2Request::Test(_) | As2Request::Resend(_) | As2Request::Cancel(_) => {
                AdminRight::Operate
            }
        }
    }
}
