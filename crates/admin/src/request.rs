//! The requests that the command line makes today and REST will expose, and their answers.

use std::collections::BTreeMap;
use std::fmt;

use entrepot_auth::SignInInfo;
use entrepot_nouns::approval::{Approval, ApprovalVerdict};
use entrepot_nouns::as2::{As2Entry, As2Sending, As2Shown, As2Test};
use entrepot_nouns::dry_run::RuleDryRun;
use entrepot_nouns::explanation::Explanation;
use entrepot_nouns::rule_report::{LintFinding, RuleDiff, RuleReplay, RuleTestReport};
use entrepot_nouns::trace::{Trace, TraceSubject};
use entrepot_nouns::watch::SeenFile;
use entrepot_nouns::{
    AnyNoun, Job, JobId, Kind, Name, NounVersion, PerDirection, PoolPlaces, SessionId, StepAddress,
    Stored, Timestamp, Transfer, TransferId,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::as2_request::As2Request;
use crate::certificate_row::CertificateRow;
use crate::credentials::{PasskeyRow, ShownOnce, TokenOrder, TokenRow};
use crate::cursor::Cursor;
pub use crate::document_text::Document;
use crate::fact_queries::{EventQuery, JobQuery, TransferQuery};
use crate::filter::{FieldFilter, SortOrder};
use crate::link_order::{LinkAddress, LinkOrder, LinkRow};
use crate::live::HeldDecision;
use crate::log_levels::{LogLevel, LogLevels, LogSubject};
use crate::login_limits::{LoginLimitRow, UnlockTarget};
use crate::node_row::NodeRow;
use crate::planned_change::PlannedChange;
use crate::rule_orders::{DryRunOrder, ReplayOrder, RuleSource};
use crate::rule_question::RuleQuestion;
use crate::shown_job::{RetryRule, RulePause, ShownJob, StartedRule};
pub use crate::shown_rows::{BackupNote, JournalHead, NumberedEvent, SessionRow};

/// What can be asked.
#[derive(Clone, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// The nouns of a kind, a page at a time.
    List {
        /// The kind to list.
        kind: Kind,
        /// Only nouns that all of these let pass.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        filter: Vec<FieldFilter>,
        /// In which order; unset: by name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sort: Option<SortOrder>,
        /// Where the page begins: `next` of the page before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<Cursor>,
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
    /// Puts a noun in place of the one of its name; fails if there is none.
    Replace {
        /// The noun, whole; `***` stands for a secret that stays.
        noun: Box<AnyNoun>,
        /// Only if the stored one has one of these versions; empty: whichever it has.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        if_match: Vec<NounVersion>,
    },
    /// Changes fields of a noun: a JSON merge patch (RFC 7396).
    Change {
        /// The kind of the noun to change.
        kind: Kind,
        /// The name of the noun to change; it stays.
        name: Name,
        /// The fields to set; null removes one.
        patch: Value,
        /// Only if the stored one has one of these versions; empty: whichever it has.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        if_match: Vec<NounVersion>,
    },
    /// Deletes a noun that nothing refers to.
    Delete {
        /// The kind of the noun to delete.
        kind: Kind,
        /// The name of the noun to delete.
        name: Name,
        /// Only if the stored one has one of these versions; empty: whichever it has.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        if_match: Vec<NounVersion>,
    },
    /// What a `Create`, `Replace`, `Change` or `Delete` would do, with all its checks.
    DryRun {
        /// The request that is not carried out.
        of: Box<Request>,
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
    /// Why an event, or the events about a path, started which rules. Needs the right to see rules
    /// and jobs besides.
    ExplainRules {
        /// What is asked.
        question: RuleQuestion,
    },
    /// What a rule, stored or not, would do for an event. Nothing is touched. Needs the right to
    /// see rules besides that to see events; with documents the right to configure.
    DryRunRule {
        /// What is tried.
        order: Box<DryRunOrder>,
    },
    /// What comes of the tests of rules, stored or not.
    TestRules {
        /// The rules that are asked about.
        source: RuleSource,
    },
    /// What of rules, stored or not, is probably not meant.
    LintRules {
        /// The rules that are asked about.
        source: RuleSource,
    },
    /// What differs between rules of documents and those that are stored. Needs the right to see
    /// rules besides that to see events.
    DiffRules {
        /// The documents that have them.
        source: RuleSource,
    },
    /// Makes jobs of a rule again, or says which ones. Needs the rights to see rules and events
    /// besides.
    ReplayRule {
        /// Of which rule, and of which events.
        order: Box<ReplayOrder>,
    },
    /// Where a file is, from its arrival on. Needs the right to see jobs besides that to see
    /// events.
    Trace {
        /// The file, or a part of its chain.
        subject: TraceSubject,
    },
    /// What is asked about messages of AS2.
    As2 {
        /// Which of it.
        ask: As2Request,
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
    /// Makes a failed or cancelled job ready again; what it has done stays done.
    RetryJob {
        /// The job's id.
        id: JobId,
        /// By which document of its rule it goes on.
        #[serde(default)]
        rule: RetryRule,
    },
    /// Starts a rule by hand, one whose `when` is `call`. Of a running server.
    RunRule {
        /// The rule that is to start.
        name: Name,
        /// Of those that it takes.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        parameters: Map<String, Value>,
    },
    /// Has the jobs of a rule wait, or go on, also those of one that the server paused because it
    /// ran too often. What runs goes on.
    PauseRule {
        /// As `List` shows it.
        name: Name,
        /// What becomes of its jobs.
        to: RulePause,
    },
    /// The files that a rule has found in the folder that it watches, by path.
    SeenFiles {
        /// The rule that watches it.
        rule: Name,
        /// Only those whose paths come after this one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<String>,
        /// Most of them; unset: 100.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit: Option<u32>,
    },
    /// Has a file that a rule has found be found anew.
    Forget {
        /// The rule that watches it.
        rule: Name,
        /// The file, below the watched folder.
        path: String,
    },
    /// Ends a job that is not done.
    CancelJob {
        /// The job's id.
        id: JobId,
    },
    /// Releases or deletes a file that its mount holds.
    DecideHeld {
        /// The id of its transfer.
        id: TransferId,
        /// What becomes of it.
        decision: HeldDecision,
    },
    /// What steps of jobs ask people, and still wait for; the oldest question first.
    Approvals,
    /// Answers what a step of a job asks, as one of those who are asked.
    AnswerApproval {
        /// The job's id.
        id: JobId,
        /// The step that asks; needed where the job asks several things that the actor may answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<StepAddress>,
        /// Whether the job may go on.
        verdict: ApprovalVerdict,
        /// Why; needed where it may not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
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
    /// Sets how many steps of jobs a node, this or another, runs at once, by pool; it holds with
    /// the node's next heartbeat, and what runs goes on. Of the site `main`.
    SetNodePools {
        /// As its process file names it.
        name: Name,
        /// The sizes; pools that are not named keep theirs.
        places: PoolPlaces,
    },
    /// Takes a node that has ended off the list: its name is free. Of the site `main`.
    RemoveNode {
        /// As its process file named it.
        name: Name,
        /// Its journal is lost, with what the database does not have of it.
        #[serde(default)]
        lost: bool,
    },
    /// Signed heads of this node's journal, the shortest first. Of the site `main`.
    JournalHeads {
        /// Only those that cover more records than this.
        #[serde(default)]
        after: u64,
        /// Most heads; 100 if unset.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit: Option<u32>,
    },
    /// Records that a backup of this node was made. Of the site `main`.
    NoteBackup {
        /// What it is.
        backup: BackupNote,
    },
    /// Addresses, and accounts of the site, that wrong passwords have delayed or locked, on all
    /// nodes together.
    LoginLimits,
    /// Certificates that listeners of the site have from authorities (ACME), by listener.
    Certificates,
    /// Asks the authority for the certificate of a listener now, whatever is left of it.
    RenewCertificate {
        /// The listener that shows it.
        listener: Name,
    },
    /// API tokens of the site, by name, with their last use.
    Tokens {
        /// Of this account only.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        account: Option<Name>,
    },
    /// Makes an API token, which the answer shows once.
    CreateToken {
        /// What it is to be.
        token: TokenOrder,
    },
    /// Lets an API token count no more; its key stays.
    RevokeToken {
        /// Of the key.
        name: Name,
    },
    /// Share links of the site, by name.
    Links {
        /// Of the files of this account only.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        owner: Option<Name>,
    },
    /// One share link.
    Link {
        /// Of its account.
        name: Name,
    },
    /// Makes a share link, whose addresses the answer shows once.
    CreateLink {
        /// What it is to be.
        link: Box<LinkOrder>,
    },
    /// Lets a share link open nothing any more; it stays in lists.
    RevokeLink {
        /// Of its account.
        name: Name,
    },
    /// Deletes a share link.
    DeleteLink {
        /// Of its account.
        name: Name,
    },
    /// Passkeys of the site, by name, with their last use.
    Passkeys {
        /// Of this account only.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        account: Option<Name>,
    },
    /// Removes a passkey; browsers that it has signed in are signed out.
    RemovePasskey {
        /// Of its key.
        name: Name,
    },
    /// Browsers that are signed in at the site, the last seen first; at most 1,000.
    SignIns {
        /// As this account only.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        account: Option<Name>,
    },
    /// Signs a browser out.
    EndSignIn {
        /// As `SignIns` names it.
        id: SessionId,
    },
    /// Makes recovery codes for an account with a code generator, in place of those that it has.
    MakeRecoveryCodes {
        /// The account that logs in with them.
        account: Name,
    },
    /// Makes the token by which the first administrator is made, while there is none. Of the site
    /// `main`.
    MakeSetUpToken,
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

fn named(noun: &AnyNoun) -> String {
    format!("{} {}", noun.kind(), noun.name())
}

/// Patches and documents may hold passwords, so only what they are about is printed.
impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Request::List { kind, after, .. } => write!(f, "List({kind} after {after:?})"),
            Request::Show { kind, name } => write!(f, "Show({kind} {name})"),
            Request::Create { noun } => write!(f, "Create({})", named(noun)),
            Request::Replace { noun, .. } => write!(f, "Replace({})", named(noun)),
            Request::DryRun { of } => write!(f, "DryRun({of:?})"),
            Request::Change { kind, name, .. } => write!(f, "Change({kind} {name})"),
            Request::Delete { kind, name, .. } => write!(f, "Delete({kind} {name})"),
            Request::Plan { documents, prune } => write!(f, "Plan({documents:?}, prune {prune})"),
            Request::Apply { documents, prune } => write!(f, "Apply({documents:?}, prune {prune})"),
            Request::Export { kinds } => write!(f, "Export({kinds:?})"),
            Request::Transfers { filter } => write!(f, "Transfers({filter:?})"),
            Request::Transfer { id } => write!(f, "Transfer({id})"),
            Request::Events { filter } => write!(f, "Events({filter:?})"),
            Request::ExplainRules { question } => write!(f, "ExplainRules({question:?})"),
            Request::DryRunRule { order } => write!(f, "DryRunRule({order:?})"),
            Request::TestRules { source } => write!(f, "TestRules({source:?})"),
            Request::LintRules { source } => write!(f, "LintRules({source:?})"),
            Request::DiffRules { source } => write!(f, "DiffRules({source:?})"),
            Request::ReplayRule { order } => write!(f, "ReplayRule({order:?})"),
            Request::Trace { subject } => write!(f, "Trace({subject})"),
            Request::As2 { ask } => write!(f, "As2({ask:?})"),
            Request::Jobs { filter } => write!(f, "Jobs({filter:?})"),
            Request::Job { id } => write!(f, "Job({id})"),
            Request::RetryJob { id, .. } => write!(f, "RetryJob({id})"),
            Request::RunRule { name, .. } => write!(f, "RunRule({name})"),
            Request::PauseRule { name, to } => write!(f, "PauseRule({name}, {to:?})"),
            Request::SeenFiles { rule, .. } => write!(f, "SeenFiles({rule})"),
            Request::Forget { rule, path } => write!(f, "Forget({rule} {path})"),
            Request::CancelJob { id } => write!(f, "CancelJob({id})"),
            Request::DecideHeld { id, decision } => write!(f, "DecideHeld({id}, {decision:?})"),
            Request::Approvals => write!(f, "Approvals"),
            Request::AnswerApproval { id, .. } => write!(f, "AnswerApproval({id})"),
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
            Request::SetNodePools { name, places } => write!(f, "SetNodePools({name}, {places:?})"),
            Request::RemoveNode { name, lost } => write!(f, "RemoveNode({name}, lost {lost})"),
            Request::JournalHeads { after, .. } => write!(f, "JournalHeads(after {after})"),
            Request::NoteBackup { backup } => write!(f, "NoteBackup({backup:?})"),
            Request::LoginLimits => write!(f, "LoginLimits"),
            Request::Certificates => write!(f, "Certificates"),
            Request::RenewCertificate { listener } => write!(f, "RenewCertificate({listener})"),
            Request::Tokens { account } => write!(f, "Tokens({account:?})"),
            Request::Links { owner } => write!(f, "Links({owner:?})"),
            Request::Link { name } => write!(f, "Link({name})"),
            Request::CreateLink { link } => write!(f, "CreateLink({link:?})"),
            Request::RevokeLink { name } => write!(f, "RevokeLink({name})"),
            Request::DeleteLink { name } => write!(f, "DeleteLink({name})"),
            Request::CreateToken { token } => write!(f, "CreateToken({token:?})"),
            Request::RevokeToken { name } => write!(f, "RevokeToken({name})"),
            Request::Passkeys { account } => write!(f, "Passkeys({account:?})"),
            Request::RemovePasskey { name } => write!(f, "RemovePasskey({name})"),
            Request::SignIns { account } => write!(f, "SignIns({account:?})"),
            Request::EndSignIn { id } => write!(f, "EndSignIn({id})"),
            Request::MakeRecoveryCodes { account } => write!(f, "MakeRecoveryCodes({account})"),
            Request::MakeSetUpToken => write!(f, "MakeSetUpToken"),
            Request::Unlock { target } => write!(f, "Unlock({target:?})"),
        }
    }
}

/// The answer to a request; each variant names its requests.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "response", rename_all = "kebab-case")]
pub enum Response {
    /// To `List`; sealed secrets and password hashes are shown as `***`.
    Nouns {
        /// A page of them, in the order that was asked for. One of a filtered list may hold fewer
        /// than were asked for, even none, and yet not be the last.
        nouns: Vec<Stored<AnyNoun>>,
        /// Where the next page begins; unset: this was the last.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        next: Option<Cursor>,
    },
    /// To `Show`, `Create`, `Replace`, `Change`, `RevokeToken`.
    Noun {
        /// The noun as it is stored now.
        noun: Box<Stored<AnyNoun>>,
        /// What this node will not do of it; after a change of a rule, also what is probably not
        /// meant of it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        warnings: Vec<String>,
    },
    /// To `Plan`, `DryRun` and `Apply`: what would change, or has changed.
    Plan {
        /// In the order in which it is done.
        changes: Vec<PlannedChange>,
        /// What this node will not do of it, and what is probably not meant of rules.
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
        /// Where the next page begins; unset: this was the last.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        next: Option<Cursor>,
    },
    /// The answer to `Transfer`.
    Transfer {
        /// The transfer that has the id.
        transfer: Box<Transfer>,
    },
    /// The answer to `Events`.
    Events {
        /// The events, oldest first; perhaps fewer than asked for, though there are more.
        events: Vec<NumberedEvent>,
        /// Where to go on: as `after` if the request had it, else as `before`. Unset: there are no
        /// more.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        next: Option<i64>,
    },
    /// The answer to `ExplainRules`.
    Explanation {
        /// Of each event and each rule.
        explanation: Box<Explanation>,
    },
    /// The answer to `DryRunRule`.
    RuleDryRun {
        /// Step by step.
        dry_run: Box<RuleDryRun>,
    },
    /// The answer to `TestRules`.
    RuleTests {
        /// Of each rule.
        reports: Vec<RuleTestReport>,
    },
    /// The answer to `LintRules`.
    RuleFindings {
        /// Rule by rule.
        findings: Vec<LintFinding>,
    },
    /// The answer to `DiffRules`.
    RuleDiffs {
        /// Of each rule of the documents.
        diffs: Vec<RuleDiff>,
    },
    /// The answer to `ReplayRule`.
    RuleReplay {
        /// What was made, or would be.
        replay: Box<RuleReplay>,
    },
    /// The answer to `Trace`.
    Trace {
        /// The chain, and a sentence.
        trace: Box<Trace>,
    },
    /// The answer to `As2`, of a list.
    As2Messages {
        /// A page of them, newest first.
        messages: Vec<As2Entry>,
        /// Where the next page begins; unset: this was the last.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        next: Option<Cursor>,
    },
    /// The answer to `As2`, of one message.
    As2Message {
        /// The message that has the name.
        message: Box<As2Shown>,
    },
    /// The answer to `As2`, of a test.
    As2Test {
        /// What was found, step by step.
        test: As2Test,
    },
    /// The answer to `As2`, of a message that is sent.
    As2Sending {
        /// What sends it.
        sending: As2Sending,
    },
    /// The answer to `Jobs`.
    Jobs {
        /// A page of them, newest first.
        jobs: Vec<Job>,
        /// Where the next page begins; unset: this was the last.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        next: Option<Cursor>,
    },
    /// The answer to `Job`.
    Job {
        /// The job that has the id.
        job: Box<ShownJob>,
    },
    /// The answer to `Approvals`.
    Approvals {
        /// The oldest first.
        approvals: Vec<Approval>,
    },
    /// The answer to `RunRule`.
    StartedRule {
        /// What was made of it.
        started: StartedRule,
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
    /// The answer to `JournalHeads`.
    JournalHeads {
        /// The shortest first.
        heads: Vec<JournalHead>,
        /// Where to go on, as `after`; unset: there are no more.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        next: Option<u64>,
    },
    /// The answer to `LoginLimits`.
    LoginLimits {
        /// Locked ones first.
        limits: Vec<LoginLimitRow>,
    },
    /// The answer to `Certificates`.
    Certificates {
        /// By the names of their listeners.
        certificates: Vec<CertificateRow>,
    },
    /// The answer to `Tokens`.
    Tokens {
        /// By the names of their keys.
        tokens: Vec<TokenRow>,
    },
    /// The answer to `CreateToken`.
    Token {
        /// It is shown here and never again.
        token: ShownOnce,
        /// Its key, as it is stored.
        noun: Box<Stored<AnyNoun>>,
    },
    /// The answer to `Passkeys`.
    Passkeys {
        /// By the names of their keys.
        passkeys: Vec<PasskeyRow>,
    },
    /// The answer to `Links`.
    Links {
        /// By the names of their accounts.
        links: Vec<LinkRow>,
    },
    /// The answer to `Link` and `RevokeLink`.
    Link {
        /// The link that has the name.
        link: Box<LinkRow>,
    },
    /// The answer to `CreateLink`.
    MadeLink {
        /// The link as it is stored.
        link: Box<LinkRow>,
        /// One for everybody, or one for each person: shown here and never again.
        addresses: Vec<LinkAddress>,
    },
    /// The answer to `SignIns`.
    SignIns {
        /// The last seen first.
        sign_ins: Vec<SignInInfo>,
    },
    /// The answer to `MakeRecoveryCodes`.
    RecoveryCodes {
        /// They are shown here and never again; each is good for one login.
        codes: Vec<ShownOnce>,
    },
    /// The answer to `MakeSetUpToken`.
    SetUpToken {
        /// It is shown here and never again.
        token: ShownOnce,
        /// It counts no more from then on.
        ends_at: Timestamp,
    },
    /// The answer to `SeenFiles`.
    SeenFiles {
        /// The files, in the order of their paths.
        files: Vec<SeenFile>,
    },
    /// The answer to `Unlock`.
    Unlocked {
        /// Wrong passwords that were forgotten.
        failures: u32,
    },
    /// To `Delete`, `DeleteLink`, `RetryJob`, `PauseRule`, `Forget`, `CancelJob`, `AnswerApproval`,
    /// `DecideHeld`, `EndSession`, `LimitSession`, `EndSignIn`, `RenewCertificate` and what is
    /// asked of nodes.
    Done,
}
