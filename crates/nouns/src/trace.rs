//! Where a file is: the chain from its arrival through events, rules and jobs to what was made of
//! it. Nothing of this is stored; it is put together from events, jobs and their steps.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::event::Event;
use crate::explanation::Remark;
use crate::ids::JobId;
use crate::job::{JobState, JobStep};
use crate::name::Name;
use crate::rule_version::{RuleVersion, StepAddress};
use crate::time::Timestamp;
use crate::transfer::{hex, unhex32};

/// What is traced, as it was typed: an id of an event, a transfer or a job; the number of an event;
/// a path as accounts see it; the name of a file, in whatever folder; or its digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "String", into = "String")]
#[schemars(with = "String")]
pub enum TraceSubject {
    /// Of an event, a transfer or a job.
    Id(Uuid),
    /// The number of an event in the audit log of its site.
    Sequence(i64),
    /// It begins with a slash.
    Path(String),
    /// The last component of a path.
    FileName(String),
    /// The digest of a file, BLAKE3 or SHA-256: 64 hexadecimal digits.
    Digest([u8; 32]),
}

impl From<String> for TraceSubject {
    fn from(text: String) -> TraceSubject {
        if text.starts_with('/') {
            return TraceSubject::Path(text);
        }
        if let Some(digest) = unhex32(&text.to_ascii_lowercase()) {
            return TraceSubject::Digest(digest);
        }
        match (text.parse(), text.parse()) {
            (Ok(id), _) => TraceSubject::Id(id),
            (_, Ok(sequence)) => TraceSubject::Sequence(sequence),
            _ => TraceSubject::FileName(text),
        }
    }
}

impl FromStr for TraceSubject {
    type Err = Infallible;
    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(text.to_owned().into())
    }
}

impl fmt::Display for TraceSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TraceSubject::Id(id) => id.fmt(f),
            TraceSubject::Sequence(sequence) => sequence.fmt(f),
            TraceSubject::Path(text) | TraceSubject::FileName(text) => f.write_str(text),
            TraceSubject::Digest(digest) => f.write_str(&hex(digest)),
        }
    }
}

impl From<TraceSubject> for String {
    fn from(subject: TraceSubject) -> String {
        subject.to_string()
    }
}

/// Where a file is, and how it came there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trace {
    /// Where it is, or why it is not further.
    pub state: TraceState,
    /// The same in a sentence.
    pub summary: String,
    /// The first event of the chain, and all that came of it; unset: there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<TracedEvent>,
    /// What is known beyond it, such as why there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<Remark>,
}

/// Where a file is. Where several hold, the first of these.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum TraceState {
    /// A job failed.
    Failed,
    /// A job runs.
    Running,
    /// A job waits.
    Waiting,
    /// An operator ended a job.
    Cancelled,
    /// It was delivered, and all jobs are done.
    Delivered,
    /// All jobs are done; none delivered it.
    Done,
    /// It is here; no rule started.
    Arrived,
    /// Its transfer is under way, or broke off.
    Arriving,
    /// Nothing is known of it.
    Unknown,
}

/// An event of the chain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TracedEvent {
    /// The event itself.
    pub event: Event,
    /// Whether it, or its transfer, is what was asked about.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub asked: bool,
    /// The address of the client whose session caused it; only of the first event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The jobs that it made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<TracedJob>,
    /// The rename by which its client gave the file its final name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub renamed: Vec<TracedEvent>,
}

/// A job of the chain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TracedJob {
    /// Names the job.
    pub id: JobId,
    /// Its rule, by name.
    pub rule: Name,
    /// The document of the rule that it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule_version: Option<RuleVersion>,
    /// Whether it is what was asked about.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub asked: bool,
    /// Where it is in its life.
    pub state: JobState,
    /// The step that it goes on with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<StepAddress>,
    /// How often it was begun.
    pub attempts: u32,
    /// The node that works on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Name>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub changed_at: Timestamp,
    /// What it waits for, in a sentence; unset: it does not wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<String>,
    /// Why its last attempt failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What it remembers of its steps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<JobStep>,
    /// The events that it brought about, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<TracedEvent>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_traced_shows_by_its_form() {
        let id = "0192f1c4-7d7a-7abc-8def-0123456789ab";
        let of = |text: &str| TraceSubject::from(text.to_owned());
        assert_eq!(of(id), TraceSubject::Id(id.parse().unwrap()));
        assert_eq!(of("17"), TraceSubject::Sequence(17));
        assert_eq!(of("/in/17"), TraceSubject::Path("/in/17".to_owned()));
        assert_eq!(of("a.xml"), TraceSubject::FileName("a.xml".to_owned()));
        for text in [id, "17", "/in/17", "a.xml"] {
            assert_eq!(of(text).to_string(), text);
        }
    }
}
