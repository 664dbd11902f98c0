//! Lanes and pools: where a step of a job runs, and whom it waits for.
//!
//! A job is in the lane of the step that it does or waits for. Jobs in one lane wait for the same
//! partner in the same pool, for the same rule; a worker goes from lane to lane, so that a partner
//! that is slow or dead keeps only its own jobs waiting.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::is_default;
use crate::name::Name;
use crate::step::{EachSpec, MkdirSpec, StepSpec};

/// What a node does at most so many of at once, each with places of its own.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Default,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Pool {
    /// Steps that work on the node itself: programs, renames, what takes processor time.
    #[default]
    Instance,
    /// Steps that read from a partner.
    Source,
    /// Steps that write to a partner.
    Target,
}

impl Pool {
    /// All of them, in the order of their words.
    pub const ALL: [Pool; 3] = [Pool::Instance, Pool::Source, Pool::Target];

    /// The word, lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            Pool::Instance => "instance",
            Pool::Source => "source",
            Pool::Target => "target",
        }
    }
}

/// How many places the pools of a node have, where an operator said so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolPlaces {
    /// Of the pool `instance`; unset: nothing is said of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<u32>,
    /// Of the pool `source`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<u32>,
    /// Of the pool `target`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<u32>,
}

/// How often the jobs of a rule get a place while those of other rules wait for one too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    /// One place where a rule of normal priority gets two.
    Low,
    /// As rules that say nothing.
    #[default]
    Normal,
    /// Two places where a rule of normal priority gets one.
    High,
}

impl Priority {
    /// Places in one round.
    pub fn weight(self) -> usize {
        match self {
            Priority::Low => 1,
            Priority::Normal => 2,
            Priority::High => 4,
        }
    }

    /// The word, lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            Priority::Low => "low",
            Priority::Normal => "normal",
            Priority::High => "high",
        }
    }

    /// The one with this word.
    pub fn of(word: &str) -> Option<Priority> {
        [Priority::Low, Priority::Normal, Priority::High].into_iter().find(|it| it.as_str() == word)
    }
}

/// The lane of a job, among those of its rule.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
pub struct JobLane {
    /// In whose places the step runs.
    pub pool: Pool,
    /// The partner that the step waits for; unset: the step is between the rule and the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<Name>,
    /// That of the rule.
    #[serde(default, skip_serializing_if = "is_default")]
    pub priority: Priority,
}

impl fmt::Display for JobLane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.endpoint {
            Some(endpoint) => write!(f, "{}/{endpoint}", self.pool.as_str()),
            None => f.write_str(self.pool.as_str()),
        }
    }
}

/// Where a step runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepLane {
    /// Wherever the job is: it takes no time.
    Same,
    /// In this pool, waiting for this partner if there is one.
    In(Pool, Option<Name>),
}

impl StepSpec {
    /// Where the step runs, for an event that names the endpoint `of_event`.
    pub fn lane(&self, of_event: Option<&Name>) -> StepLane {
        let to = |endpoint: &Name| StepLane::In(Pool::Target, Some(endpoint.clone()));
        match self {
            StepSpec::Deliver(it) => to(&it.endpoint),
            StepSpec::Http(it) => to(&it.endpoint),
            StepSpec::Webhook(it) => to(&it.endpoint),
            StepSpec::Mail(it) => to(&it.endpoint),
            StepSpec::As2(it) => to(&it.endpoint),
            StepSpec::Fetch(it) => {
                StepLane::In(Pool::Source, it.endpoint.as_ref().or(of_event).cloned())
            }
            StepSpec::Each(EachSpec { find: Some(find), .. }) => {
                StepLane::In(Pool::Source, Some(find.endpoint.clone()))
            }
            // The host is slow as partners are, and its pool says how many may call it.
            StepSpec::Procedure(_) => StepLane::In(Pool::Source, None),
            // The file is on the node; whoever scans it can be as slow as any partner.
            StepSpec::Scan(it) => StepLane::In(Pool::Instance, Some(it.endpoint.clone())),
            StepSpec::If(_)
            | StepSpec::Each(_)
            | StepSpec::Parallel(_)
            | StepSpec::Set(_)
            | StepSpec::Check(_)
            | StepSpec::Stop(_)
            | StepSpec::Wait(_)
            | StepSpec::Call(_)
            | StepSpec::Approve(_) => StepLane::Same,
            StepSpec::Mkdir(MkdirSpec { endpoint: Some(endpoint), .. }) => to(endpoint),
            StepSpec::Copy(_)
            | StepSpec::Mkdir(_)
            | StepSpec::Move(_)
            | StepSpec::Delete(_)
            | StepSpec::Release(_)
            | StepSpec::Quarantine(_)
            | StepSpec::Exec(_)
            | StepSpec::Gzip(_)
            | StepSpec::Zstd(_)
            | StepSpec::Zip(_)
            | StepSpec::Tar(_)
            | StepSpec::Extract(_)
            | StepSpec::Encrypt(_)
            | StepSpec::Decrypt(_)
            | StepSpec::Sign(_)
            | StepSpec::Verify(_)
            | StepSpec::Checksum(_)
            | StepSpec::Transcode(_)
            | StepSpec::Split(_)
            | StepSpec::Join(_)
            | StepSpec::Refuse(_) => StepLane::In(Pool::Instance, None),
        }
    }
}
