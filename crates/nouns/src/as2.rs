//! Messages of AS2, both ways, as lists of them show them. Nothing of this is stored as it is: it
//! is put together from events and from what steps have sent.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::event::Event;
use crate::ids::{EventId, JobId};
use crate::name::Name;
use crate::time::Timestamp;
use crate::transfer::Direction;

/// What became of a message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum As2State {
    /// It came, and its file is here.
    Received,
    /// It came, and nothing of it was kept.
    Refused,
    /// It has left, and its receipt has not come yet.
    Awaiting,
    /// Its partner has it.
    Delivered,
    /// Its partner has refused it, or has confirmed other bytes.
    Rejected,
    /// It has left, and its job failed or was ended without a receipt.
    Unconfirmed,
}

impl As2State {
    /// The word, lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            As2State::Received => "received",
            As2State::Refused => "refused",
            As2State::Awaiting => "awaiting",
            As2State::Delivered => "delivered",
            As2State::Rejected => "rejected",
            As2State::Unconfirmed => "unconfirmed",
        }
    }
}

impl fmt::Display for As2State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A message of AS2, in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct As2Entry {
    /// Of its transfer; of a message that was refused, of the event.
    pub id: Uuid,
    /// When it reached its state.
    pub at: Timestamp,
    /// Seen from here.
    pub direction: Direction,
    /// What became of it.
    pub state: As2State,
    /// The endpoint of the partner; none: no partner has these names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partner: Option<Name>,
    /// The AS2 name of who sent it.
    pub from: String,
    /// The AS2 name of who received it.
    pub to: String,
    /// The Message-ID, if it had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// The file, or what the receipt says of a message that was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// The event that says so; none: it is on its way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<EventId>,
    /// The job that sends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
}

/// A message of AS2 with all that is known of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct As2Shown {
    /// As lists show it.
    #[serde(flatten)]
    pub entry: As2Entry,
    /// The event that says what became of it: header, TLS, digests and receipt are in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fact: Option<Box<Event>>,
    /// Receipts of the partner that came by themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub receipts: Vec<Event>,
}

/// A file of an endpoint that is to be sent to a partner, as one message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct As2Order {
    /// The endpoint that has the file.
    pub endpoint: Name,
    /// Where the file lies there, such as `/out/4711.edi`.
    pub path: String,
    /// What the file is called at the partner: placeholders as in the step `as2`. Unset: its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its media type, as in the step `as2`. Unset: by the extension of its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// One line for people, as in the step `as2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
}

/// A message that a job sends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct As2Sending {
    /// The job that sends it.
    pub job: JobId,
    /// The Message-ID, where a message is sent again; none: one is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
}

/// What a test of the connection to a partner found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct As2Test {
    /// The endpoint of the partner.
    pub partner: Name,
    /// The Message-ID of the test message, if one was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// What was done, in its order; the first that failed is the last.
    pub steps: Vec<As2TestStep>,
}

/// A step of such a test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct As2TestStep {
    /// `keys`, `connection`, `tls`, `message` or `receipt`.
    pub step: String,
    /// Whether it went well.
    pub passed: bool,
    /// What was found, in a sentence without a full stop.
    pub found: String,
}

/// A message, as somebody names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "String", into = "String")]
#[schemars(with = "String")]
pub enum As2MessageName {
    /// As lists show it.
    Id(Uuid),
    /// Its Message-ID, with or without angle brackets: the newest that has it.
    MessageId(String),
}

impl From<String> for As2MessageName {
    fn from(text: String) -> As2MessageName {
        match text.parse() {
            Ok(id) => As2MessageName::Id(id),
            Err(_) => As2MessageName::MessageId(text),
        }
    }
}

impl FromStr for As2MessageName {
    type Err = Infallible;
    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(text.to_owned().into())
    }
}

impl fmt::Display for As2MessageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            As2MessageName::Id(id) => id.fmt(f),
            As2MessageName::MessageId(text) => f.write_str(text),
        }
    }
}

impl From<As2MessageName> for String {
    fn from(name: As2MessageName) -> String {
        name.to_string()
    }
}
