//! A fact with what every fact has.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{EventClock, Fact};
use crate::ids::{EventId, JobId, SessionId, SiteId};
use crate::name::Name;
use crate::time::Timestamp;

/// The newest level of formats (journal, events, notes, rows) that this program reads and writes.
/// It grows with the first format that programs before it do not read; until all nodes of an
/// installation speak it, such a format is not written.
pub const FORMAT_LEVEL: u32 = 1;

/// An immutable fact. Its order is that of the journal of its node (`sequence` in the table).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Given by the node that recorded it; the same in the journal and in the database.
    pub id: EventId,
    /// When it happened, by the clock of the node.
    pub at: Timestamp,
    /// Its place among the events of all nodes, as far as clocks can tell; none before a node has
    /// a slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<EventClock>,
    /// The site that owns it; `main` for what concerns a node as a whole.
    pub site: SiteId,
    /// The node that saw it.
    pub node: Name,
    /// Who acted, if anyone known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<Name>,
    /// In which session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// In which job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
    /// The event that a rule reacted to when this happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<EventId>,
    /// How many causes lie behind it.
    #[serde(default)]
    pub depth: u8,
    /// What happened, by kind.
    #[serde(flatten)]
    pub fact: Fact,
}
