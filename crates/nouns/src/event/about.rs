//! What a fact is about, whatever its kind.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{CommandFact, Displaced, ExpectedFact, Fact, FileFact};
use crate::name::Name;

impl Fact {
    /// The file it is about, if any: what the steps of a rule work on.
    pub fn file(&self) -> Option<&FileFact> {
        match self {
            Fact::FileUploaded { file }
            | Fact::FileRecovered { file }
            | Fact::FileDownloaded { file }
            | Fact::FileInterrupted { file, .. }
            | Fact::FileUnknown { file }
            | Fact::FileDelivered { file, .. } => Some(file),
            Fact::FileHeld { held } | Fact::FileQuarantined { held, .. } => Some(&held.file),
            Fact::FileReleased { decided } | Fact::FileDiscarded { decided } => {
                Some(&decided.held.file)
            }
            Fact::FileRenamed { file, .. } => file.as_deref(),
            _ => None,
        }
    }

    /// The file of an upload that is told of, to note what is known once it is published.
    pub fn upload_mut(&mut self) -> Option<&mut FileFact> {
        match self {
            Fact::FileUploaded { file } => Some(file),
            Fact::FileHeld { held } => Some(&mut held.file),
            _ => None,
        }
    }

    /// The endpoint that it is about, if any.
    pub fn endpoint(&self) -> Option<&Name> {
        match self {
            Fact::FileDelivered { endpoint, .. }
            | Fact::FileFetched { endpoint, .. }
            | Fact::WatchFound { endpoint, .. }
            | Fact::WatchGone { endpoint, .. } => Some(endpoint),
            _ => None,
        }
    }

    /// Whether a file lost its name by it; `None` for what gives no file a name.
    pub fn replaced(&self) -> Option<bool> {
        match self {
            Fact::FileRenamed { displaced, .. } => Some(displaced.is_some()),
            _ => self.file().map(|file| file.displaced.is_some()),
        }
    }

    /// Notes which file lost its name by it: known for certain once it has happened.
    pub fn set_displaced(&mut self, gone: Option<Displaced>) {
        match self {
            Fact::FileUploaded { file }
            | Fact::FileRecovered { file }
            | Fact::FileDelivered { file, .. } => file.displaced = gone,
            Fact::FileRenamed { displaced, file, .. } => {
                if let Some(file) = file {
                    file.displaced.clone_from(&gone);
                }
                *displaced = gone;
            }
            _ => {}
        }
    }

    /// What whoever started a rule by hand said.
    pub fn parameters(&self) -> Option<&Map<String, Value>> {
        match self {
            Fact::RuleCalled { parameters, .. } => Some(parameters),
            _ => None,
        }
    }

    /// What a web hook brought: the body, and fields of its request.
    pub fn hook(&self) -> Option<(&Value, &BTreeMap<String, String>)> {
        match self {
            Fact::HookReceived { body, headers, .. } => Some((body, headers)),
            _ => None,
        }
    }

    /// The rule that it is for, of events that are for one rule alone.
    pub fn rule_meant(&self) -> Option<&Name> {
        match self {
            Fact::ScheduleDue { rule, .. }
            | Fact::RuleCalled { rule, .. }
            | Fact::WatchFound { rule, .. }
            | Fact::HookReceived { rule, .. } => Some(rule),
            fact => fact.expected().map(|window| &window.rule),
        }
    }

    /// What a rule expected, and what came, of events that tell of that.
    pub fn expected(&self) -> Option<&ExpectedFact> {
        match self {
            Fact::ExpectedSoon { window }
            | Fact::ExpectedMissed { window }
            | Fact::ExpectedLate { window }
            | Fact::ExpectedExtra { window } => Some(window),
            _ => None,
        }
    }

    /// The command it is about, if any.
    pub fn command(&self) -> Option<&CommandFact> {
        match self {
            Fact::CommandDone { command } | Fact::CommandRefused { command, .. } => Some(command),
            _ => None,
        }
    }
}
