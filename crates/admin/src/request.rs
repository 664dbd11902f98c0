//! The requests that the command line makes today and REST will expose, and their answers.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use entrepot_auth::{Grant, LoginLimit};
use entrepot_nouns::{
    AccountType, AnyNoun, Event, Job, JobId, Kind, Name, NodeId, PerDirection, SessionId,
    SessionInfo, SiteId, Stored, Timestamp, Transfer, TransferId,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{AdminError, Result};
use crate::log_levels::{LogLevel, LogLevels, LogSubject};

/// What can be asked.
#[derive(Clone, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// The nouns of a kind, by name, a page at a time.
    List {
        /// The kind to list.
        kind: Kind,
        /// The name after which the page begins: `next` of the page before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<Name>,
        /// Most nouns of the page; 1,000 if unset, never more than 10,000.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit: Option<u32>,
    },
    /// One noun, with warnings about this node.
    Show {
        /// The kind of the noun to show.
        kind: Kind,
        /// The name of the noun to show.
        name: Name,
    },
    /// Makes a noun; fails if the name is taken.
    Create {
        /// The noun, with its secrets in clear text.
        noun: Box<AnyNoun>,
    },
    /// Changes fields of a noun: a JSON merge patch (RFC 7396).
    Change {
        /// The kind of the noun to change.
        kind: Kind,
        /// The name of the noun to change; it stays.
        name: Name,
        /// The fields to set; null removes one.
        patch: Value,
    },
    /// Deletes a noun that nothing refers to.
    Delete {
        /// The kind of the noun to delete.
        kind: Kind,
        /// The name of the noun to delete.
        name: Name,
    },
    /// What `Apply` would do.
    Plan {
        /// The wanted configuration, in any order.
        documents: Vec<Document>,
        /// Also delete what the documents do not name.
        prune: bool,
    },
    /// Makes the configuration as the documents say, all or nothing.
    Apply {
        /// The wanted configuration, in any order.
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
        /// Conditions that all must hold.
        filter: TransferQuery,
    },
    /// One transfer, finished or not.
    Transfer {
        /// The transfer's id.
        id: TransferId,
    },
    /// Events, oldest first.
    Events {
        /// Conditions that all must hold.
        filter: EventQuery,
    },
    /// Jobs, newest first.
    Jobs {
        /// Conditions that all must hold.
        filter: JobQuery,
    },
    /// One job, with the event that started it.
    Job {
        /// The job's id.
        id: JobId,
    },
    /// Makes a failed or cancelled job ready again.
    RetryJob {
        /// The job's id.
        id: JobId,
    },
    /// Ends a job that is not done.
    CancelJob {
        /// The job's id.
        id: JobId,
    },
    /// The open sessions of this node: those of the actor's site, of every site if that is `main`.
    Sessions,
    /// Ends a session of this node.
    EndSession {
        /// As `Sessions` names it.
        id: SessionId,
    },
    /// Sets how fast a session may go until it ends.
    LimitSession {
        /// As `Sessions` names it.
        id: SessionId,
        /// The new rates.
        rates: RateOrder,
    },
    /// Sets how fast all sessions of this node together may go until it ends. Of the site `main`.
    LimitNode {
        /// The new rates.
        rates: RateOrder,
    },
    /// Ends this node in good order: running transfers may finish. Of the site `main`.
    StopNode,
    /// How the log of this node differs from its process file. Of the site `main`.
    LogLevels,
    /// Sets how much this node logs of some subjects, until it ends. Of the site `main`.
    SetLogLevels {
        /// Those that change; null: as the process file says again.
        levels: BTreeMap<LogSubject, Option<LogLevel>>,
    },
    /// This node logs as its process file says again. Of the site `main`.
    ResetLogLevels,
    /// All nodes of the installation. Of the site `main`.
    Nodes,
    /// One node of the installation. Of the site `main`.
    Node {
        /// As its process file names it.
        name: Name,
    },
    /// Asks a node, this or another, to take no new sessions and no new jobs. Of the site `main`.
    DrainNode {
        /// As its process file names it.
        name: Name,
    },
    /// Takes `DrainNode` back. Of the site `main`.
    UndrainNode {
        /// As its process file names it.
        name: Name,
    },
    /// Takes a node that has ended off the list: its name is free. Of the site `main`.
    RemoveNode {
        /// As its process file named it.
        name: Name,
        /// Its journal is lost, with what the database does not have of it.
        #[serde(default)]
        lost: bool,
    },
    /// Records that a backup of this node was made. Of the site `main`.
    NoteBackup {
        /// What it is.
        backup: BackupNote,
    },
    /// Addresses, and accounts of the site, that wrong passwords have delayed or locked, on all
    /// nodes together.
    LoginLimits,
    /// Forgets the wrong passwords of an address or an account.
    Unlock {
        /// What may log in again.
        target: UnlockTarget,
    },
}

/// New rates of a session or a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum RateOrder {
    /// These, bytes a second, in place of what policies say; an unset direction has no limit.
    Set {
        /// Bytes a second from clients.
        upload: Option<u64>,
        /// Bytes a second to clients.
        download: Option<u64>,
    },
    /// Those of the policies again.
    Reset,
}

impl RateOrder {
    pub(crate) fn rates(self) -> Option<PerDirection> {
        match self {
            RateOrder::Set { upload, download } => Some(PerDirection { upload, download }),
            RateOrder::Reset => None,
        }
    }
}

/// What is unlocked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UnlockTarget {
    /// An address; of IPv6 its /64.
    Address(IpAddr),
    /// An account of the site, whichever addresses its wrong passwords came from.
    Account(Name),
}

/// A text with nouns in it.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// Named in errors.
    pub file: String,
    /// Any number of YAML documents, separated by `---`.
    pub text: String,
}

/// Patches and documents may hold passwords, so only what they are about is printed.
impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Request::List { kind, after, .. } => write!(f, "List({kind} after {after:?})"),
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
            Request::Sessions => write!(f, "Sessions"),
            Request::EndSession { id } => write!(f, "EndSession({id})"),
            Request::LimitSession { id, rates } => write!(f, "LimitSession({id}, {rates:?})"),
            Request::LimitNode { rates } => write!(f, "LimitNode({rates:?})"),
            Request::StopNode => write!(f, "StopNode"),
            Request::LogLevels => write!(f, "LogLevels"),
            Request::SetLogLevels { levels } => write!(f, "SetLogLevels({levels:?})"),
            Request::ResetLogLevels => write!(f, "ResetLogLevels"),
            Request::Nodes => write!(f, "Nodes"),
            Request::Node { name } => write!(f, "Node({name})"),
            Request::DrainNode { name } => write!(f, "DrainNode({name})"),
            Request::UndrainNode { name } => write!(f, "UndrainNode({name})"),
            Request::RemoveNode { name, lost } => write!(f, "RemoveNode({name}, lost {lost})"),
            Request::NoteBackup { backup } => write!(f, "NoteBackup({backup:?})"),
            Request::LoginLimits => write!(f, "LoginLimits"),
            Request::Unlock { target } => write!(f, "Unlock({target:?})"),
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
    pub state: Option<entrepot_nouns::TransferState>,
    /// In this direction.
    pub direction: Option<entrepot_nouns::Direction>,
    /// Path holds this text.
    pub path: Option<String>,
    /// Changed at or after.
    pub since: Option<Timestamp>,
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
    pub since: Option<Timestamp>,
    /// Before this time.
    pub until: Option<Timestamp>,
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
    pub state: Option<entrepot_nouns::JobState>,
    /// Of this rule.
    pub rule: Option<Name>,
    /// Most rows; 100 if unset.
    pub limit: Option<u32>,
}

/// The answer to a request; each variant names its requests.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "response", rename_all = "kebab-case")]
pub enum Response {
    /// To `List`; sealed secrets and password hashes are shown as `***`.
    Nouns {
        /// A page of them, by name.
        nouns: Vec<Stored<AnyNoun>>,
        /// Where the next page begins; unset: this was the last.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        next: Option<Name>,
    },
    /// To `Show`, `Create`, `Change`.
    Noun {
        /// The noun as it is stored now.
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
    /// The answer to `Export`.
    Documents {
        /// One document a kind.
        documents: Vec<Document>,
    },
    /// The answer to `Transfers`.
    Transfers {
        /// A page of them, newest first.
        transfers: Vec<Transfer>,
    },
    /// The answer to `Transfer`.
    Transfer {
        /// The transfer that has the id.
        transfer: Box<Transfer>,
    },
    /// The answer to `Events`.
    Events {
        /// The events, oldest first.
        events: Vec<NumberedEvent>,
    },
    /// The answer to `Jobs`.
    Jobs {
        /// A page of them, newest first.
        jobs: Vec<Job>,
    },
    /// The answer to `Job`.
    Job {
        /// The job that has the id.
        job: Box<Job>,
    },
    /// The answer to `Sessions`.
    Sessions {
        /// The open ones.
        sessions: Vec<SessionRow>,
    },
    /// To `LimitNode`: what is in force now, bytes a second; unset: no limit.
    Rates {
        /// Bytes a second from clients.
        upload: Option<u64>,
        /// Bytes a second to clients.
        download: Option<u64>,
    },
    /// To `LogLevels`, `SetLogLevels`, `ResetLogLevels`: what differs from the process file now.
    LogLevels {
        /// The level of each subject that has one of its own.
        levels: LogLevels,
    },
    /// The answer to `Nodes`.
    Nodes {
        /// In the order of their names.
        nodes: Vec<NodeRow>,
    },
    /// The answer to `Node`.
    Node {
        /// The node that has the name.
        node: Box<NodeRow>,
    },
    /// The answer to `LoginLimits`.
    LoginLimits {
        /// Locked ones first.
        limits: Vec<LoginLimitRow>,
    },
    /// The answer to `Unlock`.
    Unlocked {
        /// Wrong passwords that were forgotten.
        failures: u32,
    },
    /// To `Delete`, `RetryJob`, `CancelJob`, `EndSession`, `LimitSession` and what is asked of
    /// nodes.
    Done,
}

/// A backup that was made of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackupNote {
    /// The folder that holds it.
    pub folder: String,
    /// BLAKE3 of its manifest.
    pub manifest: String,
    /// The last record of the journal that it holds.
    pub records: u64,
    /// Published files that it lists.
    pub files: u64,
    /// It holds the master key.
    pub with_master_key: bool,
}

/// An open session with what only its list says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionRow {
    /// Name of the account's site; its id while the database cannot be asked.
    pub site: String,
    /// The session, its fields beside the name of its site.
    #[serde(flatten)]
    pub session: SessionInfo,
    /// Bytes a second on the wire, at present, from the client.
    pub in_per_second: u64,
    /// Bytes a second on the wire, at present, to the client.
    pub out_per_second: u64,
}

/// A node of the installation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRow {
    /// As its process file names it.
    pub name: Name,
    /// What its heartbeat says of it.
    pub state: NodeState,
    /// Made with its journal.
    pub id: NodeId,
    /// The smallest number that no other node has.
    pub slot: Option<u32>,
    /// How often it was started.
    pub incarnation: i64,
    /// Version of its program.
    pub program: String,
    /// An operator asked it to take no new work.
    pub drained: bool,
    /// It brings back what a database lost that fell back.
    pub rebuilding: bool,
    /// The time of its last heartbeat, by the database's clock.
    pub heartbeat_at: Timestamp,
    /// How far its clock is ahead of the database's, microseconds; negative: behind.
    pub clock_ahead_us: i64,
    /// How long its last heartbeat took, microseconds.
    pub round_trip_us: i64,
    /// The last sequence number of its journal that is in the database.
    pub projected_up_to: u64,
    /// How many records of its journal were not in the database at its last heartbeat.
    pub unprojected: u64,
}

/// What is known of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeState {
    /// Its heartbeat is recent.
    Serving,
    /// Its heartbeat is recent, and it was asked to take no new work.
    Drained,
    /// It ended in good order, or has never served.
    Stopped,
    /// Its heartbeat stopped: it crashed, or does not reach the database. Others do its jobs.
    Silent,
}

impl NodeState {
    /// The word in lists.
    pub fn as_str(self) -> &'static str {
        match self {
            NodeState::Serving => "serving",
            NodeState::Drained => "drained",
            NodeState::Stopped => "stopped",
            NodeState::Silent => "silent",
        }
    }
}

/// An address, an account, or an account at an address that has had too many wrong passwords.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoginLimitRow {
    /// The address, of IPv6 its /64; unset: every address that the account never logged in from.
    pub address: Option<String>,
    /// The account; unset: every account that never logged in from the address.
    pub account: Option<Name>,
    /// `locked` or `delayed`.
    pub state: String,
    /// Wrong passwords that count.
    pub failures: u32,
    /// The time of the first of them.
    pub since: Timestamp,
    /// When it ends, if no more come.
    pub until: Timestamp,
}

impl From<LoginLimit> for LoginLimitRow {
    fn from(limit: LoginLimit) -> Self {
        LoginLimitRow {
            address: limit.address,
            account: limit.account,
            state: limit.state.as_str().to_owned(),
            failures: limit.failures,
            since: limit.since,
            until: limit.until,
        }
    }
}

/// An event with its sequence number in the table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NumberedEvent {
    /// Grows; gaps mean nothing.
    pub sequence: i64,
    /// The event, its fields beside the sequence.
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
    /// The name of the noun.
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
    /// It differs in some field.
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

/// The administrator who makes a request: whoever has one may read and change everything at its
/// site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    /// An admin account, or `cli:<user>`.
    pub name: String,
    /// The site it works on.
    pub site: SiteId,
}

impl Actor {
    /// The administrator who logged in, at its own site.
    ///
    /// # Errors
    /// [`AdminError::NotAdministrator`]: the account is of another type than admin.
    pub fn of_grant(grant: &Grant) -> Result<Actor> {
        let principal = grant.principal();
        let name = principal.account.name.to_string();
        match principal.account.account_type {
            AccountType::Admin => Ok(Actor { name, site: principal.site }),
            AccountType::Person
            | AccountType::Partner
            | AccountType::Service
            | AccountType::Group => Err(AdminError::NotAdministrator { actor: name }),
        }
    }

    /// Nodes serve every site, so only actors of the site `main` steer them.
    pub(crate) fn must_be_of_main(&self) -> Result<()> {
        if self.site == SiteId::MAIN {
            return Ok(());
        }
        let problem = "nodes serve every site: ask at the site 'main'".to_owned();
        Err(AdminError::Refused { problem })
    }

    /// The account behind the actor; `cli:<user>` and `node:<name>` are none.
    pub(crate) fn account(&self) -> Option<Name> {
        self.name.parse().ok()
    }
}
