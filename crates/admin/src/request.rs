//! The requests that the command line makes today and REST will expose, and their answers.

use std::fmt;

use entrepot_model::{
    AnyNoun, Event, Job, JobId, Kind, Name, SessionId, SiteId, Stored, Transfer, TransferId,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{AdminError, Result};

/// What can be asked. Changing requests need the role `admin`.
#[derive(Clone, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// All nouns of a kind.
    List {
        /// Which kind.
        kind: Kind,
    },
    /// One noun.
    Show {
        /// Which kind.
        kind: Kind,
        /// Which.
        name: Name,
    },
    /// Makes a noun; fails if the name is taken.
    Create {
        /// The noun.
        noun: Box<AnyNoun>,
    },
    /// Changes fields of a noun: a JSON merge patch (RFC 7396).
    Change {
        /// Which kind.
        kind: Kind,
        /// Which.
        name: Name,
        /// The patch.
        patch: Value,
    },
    /// Deletes a noun that nothing refers to.
    Delete {
        /// Which kind.
        kind: Kind,
        /// Which.
        name: Name,
    },
    /// What `Apply` would do.
    Plan {
        /// Documents.
        documents: Vec<Document>,
        /// Also delete what the documents do not name.
        prune: bool,
    },
    /// Makes the configuration as the documents say, all or nothing.
    Apply {
        /// Documents.
        documents: Vec<Document>,
        /// Also delete what the documents do not name.
        prune: bool,
    },
    /// The configuration as documents.
    Export {
        /// Which kinds; empty: all.
        kinds: Vec<Kind>,
    },
    /// Transfers, newest first.
    Transfers {
        /// Which.
        filter: TransferQuery,
    },
    /// One transfer.
    Transfer {
        /// Which.
        id: TransferId,
    },
    /// Events.
    Events {
        /// Which.
        filter: EventQuery,
    },
    /// Jobs, newest first.
    Jobs {
        /// Which.
        filter: JobQuery,
    },
    /// One job.
    Job {
        /// Which.
        id: JobId,
    },
    /// Makes a failed or cancelled job ready again.
    RetryJob {
        /// Which.
        id: JobId,
    },
    /// Ends a job that is not done.
    CancelJob {
        /// Which.
        id: JobId,
    },
}

/// A text with nouns in it.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// Named in errors.
    pub file: String,
    /// YAML.
    pub text: String,
}

/// Patches and documents may hold passwords, so only what they are about is printed.
impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Request::List { kind } => write!(f, "List({kind})"),
            Request::Show { kind, name } => write!(f, "Show({kind} {name})"),
            Request::Create { noun } => write!(f, "Create({} {})", noun.kind(), noun.name()),
            Request::Change { kind, name, .. } => write!(f, "Change({kind} {name})"),
            Request::Delete { kind, name } => write!(f, "Delete({kind} {name})"),
            Request::Plan { documents, prune } => write!(f, "Plan({documents:?}, prune {prune})"),
            Request::Apply { documents, prune } => write!(f, "Apply({documents:?}, prune {prune})"),
            Request::Export { kinds } => write!(f, "Export({kinds:?})"),
            Request::Transfers { filter } => write!(f, "Transfers({filter:?})"),
            Request::Transfer { id } => write!(f, "Transfer({id})"),
            Request::Events { filter } => write!(f, "Events({filter:?})"),
            Request::Jobs { filter } => write!(f, "Jobs({filter:?})"),
            Request::Job { id } => write!(f, "Job({id})"),
            Request::RetryJob { id } => write!(f, "RetryJob({id})"),
            Request::CancelJob { id } => write!(f, "CancelJob({id})"),
        }
    }
}

impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of {} bytes", self.file, self.text.len())
    }
}

/// Which transfers; what is unset does not filter.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TransferQuery {
    /// Of this account.
    pub account: Option<Name>,
    /// In this state.
    pub state: Option<entrepot_model::TransferState>,
    /// In this direction.
    pub direction: Option<entrepot_model::Direction>,
    /// Path holds this text.
    pub path: Option<String>,
    /// Changed at or after.
    pub since: Option<entrepot_model::Timestamp>,
    /// Most rows; 100 if unset.
    pub limit: Option<u32>,
}

/// Which events; what is unset does not filter.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EventQuery {
    /// Of these kinds; empty: all.
    pub kinds: Vec<String>,
    /// Of this account.
    pub account: Option<Name>,
    /// Path holds this text.
    pub path: Option<String>,
    /// Of this session.
    pub session: Option<SessionId>,
    /// Of this transfer.
    pub transfer: Option<TransferId>,
    /// Of this job.
    pub job: Option<JobId>,
    /// At or after.
    pub since: Option<entrepot_model::Timestamp>,
    /// Before.
    pub until: Option<entrepot_model::Timestamp>,
    /// With a sequence above this, oldest first; unset: the newest.
    pub after: Option<i64>,
    /// Most rows; 100 if unset.
    pub limit: Option<u32>,
}

/// Which jobs; what is unset does not filter.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JobQuery {
    /// In this state.
    pub state: Option<entrepot_model::JobState>,
    /// Of this rule.
    pub rule: Option<Name>,
    /// Most rows; 100 if unset.
    pub limit: Option<u32>,
}

/// An answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "response", rename_all = "kebab-case")]
pub enum Response {
    /// To `List`; sealed secrets and password hashes are shown as `***`.
    Nouns {
        /// The nouns.
        nouns: Vec<Stored<AnyNoun>>,
    },
    /// To `Show`, `Create`, `Change`.
    Noun {
        /// The noun.
        noun: Box<Stored<AnyNoun>>,
        /// What this node will not do of it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        warnings: Vec<String>,
    },
    /// To `Plan` and `Apply`: what would change, or has changed.
    Plan {
        /// In the order in which it is done.
        changes: Vec<PlannedChange>,
        /// What this node will not do of it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        warnings: Vec<String>,
    },
    /// To `Export`.
    Documents {
        /// One document a kind.
        documents: Vec<Document>,
    },
    /// To `Transfers`.
    Transfers {
        /// Newest first.
        transfers: Vec<Transfer>,
    },
    /// To `Transfer`.
    Transfer {
        /// The transfer.
        transfer: Box<Transfer>,
    },
    /// To `Events`.
    Events {
        /// The events, oldest first.
        events: Vec<NumberedEvent>,
    },
    /// To `Jobs`.
    Jobs {
        /// Newest first.
        jobs: Vec<Job>,
    },
    /// To `Job`.
    Job {
        /// The job.
        job: Box<Job>,
    },
    /// To `Delete`, `RetryJob`, `CancelJob`.
    Done,
}

/// An event with its sequence number in the table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NumberedEvent {
    /// Grows; gaps mean nothing.
    pub sequence: i64,
    /// The event.
    #[serde(flatten)]
    pub event: Event,
}

/// One noun that a plan touches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedChange {
    /// What happens to it.
    pub action: Action,
    /// Of which kind it is.
    pub kind: Kind,
    /// Which.
    pub name: Name,
    /// What changes inside it; secrets are shown as `***`.
    pub fields: Vec<FieldChange>,
}

/// What happens to a noun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// It does not exist yet.
    Create,
    /// It differs.
    Change,
    /// It is the same already.
    Unchanged,
    /// Only of a plan: nothing else differs, but a password is given in clear text, and whether it
    /// is the stored one is seen when it is applied.
    Compare,
    /// The documents do not name it, and pruning was asked for.
    Delete,
}

/// One field that changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FieldChange {
    /// Path of the field, such as `quota.files`.
    pub field: String,
    /// The old value, absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old: Option<Value>,
    /// The new value, absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<Value>,
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    /// An admin account, or `cli:<user>`.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// The site it works on.
    pub site: SiteId,
}

impl Actor {
    /// Checks that it may do more than read; `action` says what for, such as `create it`.
    ///
    /// # Errors
    /// It may not.
    pub fn may_change(&self, action: &str) -> Result<()> {
        match self.role {
            Role::Admin => Ok(()),
            Role::Auditor => {
                let (actor, action) = (self.name.clone(), action.to_owned());
                Err(AdminError::Denied { actor, action })
            }
        }
    }
}

/// What an actor may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Everything.
    Admin,
    /// Reading only.
    Auditor,
}
