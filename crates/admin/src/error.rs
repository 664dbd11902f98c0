//! What can go wrong with a request. Each code has a page in `docs/errors`.

use entrepot_auth::{AuthError, UnusableKey};
use entrepot_db::DbError;
use entrepot_journal::JournalError;
use entrepot_nouns::{AdminRight, Kind, Name, NounVersion, SessionId};
use serde::{Deserialize, Serialize};

use crate::live::NotRecorded;

/// Result of the administration.
pub type Result<T> = std::result::Result<T, AdminError>;

/// Why a request was refused. Nothing was changed, unless the variant says so.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// The text is no YAML, or its shape is wrong.
    #[error("{file}:{line}:{column}: {problem}")]
    Document {
        /// The name that the request gives the document.
        file: String,
        /// The line of the error; the first is 1.
        line: u64,
        /// From 1, in characters.
        column: u64,
        /// What is wrong.
        problem: String,
    },
    /// A field has a value that it cannot have.
    #[error("{place}{kind} '{name}': {field}: {problem}")]
    Field {
        /// `file:line:column: ` for documents, else empty.
        place: String,
        /// Of which kind the noun is.
        kind: Kind,
        /// The noun with the field.
        name: String,
        /// Path of the field.
        field: String,
        /// A sentence that says what to do.
        problem: String,
    },
    /// A key with which nobody could ever log in.
    #[error("{place}key '{name}': public: {problem}")]
    UnusableKey {
        /// `file:line:column: ` for documents, else empty.
        place: String,
        /// The key that cannot be used.
        name: String,
        /// Why it cannot be used, and what to do.
        problem: UnusableKey,
    },
    /// A password that the rules on passwords forbid.
    #[error("{place}account '{name}': password: {problem}")]
    WeakPassword {
        /// `file:line:column: ` for documents, else empty.
        place: String,
        /// The account that was to get it.
        name: String,
        /// Which rule, and what to do.
        problem: String,
    },
    /// The list of passwords that nobody may have cannot be read, so none can be set.
    #[error(
        "the list of refused passwords '{file}' cannot be read ({problem}); \
         mend 'passwords.refused' of the process file"
    )]
    PasswordList {
        /// As the process file names it.
        file: String,
        /// What reading it gave.
        problem: String,
    },
    /// A noun refers to one that is not there.
    #[error(
        "{place}{kind} '{name}': {field}: there is no {target} '{target_name}'{hint}; \
             create it, or name another"
    )]
    Dangling {
        /// `file:line:column: ` for documents, else empty.
        place: String,
        /// Of which kind the noun is.
        kind: Kind,
        /// The noun that refers.
        name: String,
        /// Path of the field that refers.
        field: String,
        /// Of which kind the missing one is.
        target: Kind,
        /// The name that no noun of that kind has.
        target_name: String,
        /// Which one may be meant, in brackets behind a blank; or nothing.
        hint: String,
    },
    /// The same noun stands twice in the documents.
    #[error("{place}{kind} '{name}' is defined twice, first at {first}; remove one")]
    Twice {
        /// `file:line:column: ` of the second.
        place: String,
        /// Of which kind.
        kind: Kind,
        /// The name that stands twice.
        name: String,
        /// `file:line:column` of the first.
        first: String,
    },
    /// There is no such thing.
    #[error("there is no {what} '{name}'{hint}; 'list' shows what there is")]
    NotFound {
        /// What kind of thing.
        what: &'static str,
        /// The name or id that was asked for.
        name: String,
        /// Which one may be meant, in brackets behind a blank; or nothing.
        hint: String,
    },
    /// The name is taken.
    #[error("there is a {kind} '{name}' already; change it, or choose another name")]
    Exists {
        /// Of which kind.
        kind: Kind,
        /// The name that another noun has.
        name: String,
    },
    /// The noun has another version than the ones that the request is for.
    #[error(
        "{kind} '{name}' was changed meanwhile: it has the version {now}; read it again and decide \
         anew"
    )]
    Changed {
        /// Of which kind.
        kind: Kind,
        /// The noun that was to be changed.
        name: String,
        /// The version that it has.
        now: NounVersion,
    },
    /// A cursor that no list of this kind has given.
    #[error("the cursor cannot be read: {problem}; begin the list anew, without one")]
    Cursor {
        /// What is wrong with it.
        problem: String,
    },
    /// The key of a request that may be repeated was used for another request.
    #[error(
        "the key '{key}' was used for another request in the last 24 hours; choose a new key for \
         each request, and repeat only the same request under the same key"
    )]
    KeyReused {
        /// As the request has it.
        key: String,
    },
    /// Others refer to what was to be deleted.
    #[error("{kind} '{name}' is in use by {by}; change or delete that first")]
    InUse {
        /// Of which kind.
        kind: Kind,
        /// The noun that was to be deleted.
        name: String,
        /// The nouns that refer to it, with their kinds.
        by: String,
    },
    /// A job is in a state in which this cannot be done.
    #[error("job '{id}' is {state}, it cannot be {action}")]
    JobState {
        /// The job's id.
        id: String,
        /// The state of the job, as lists show it.
        state: &'static str,
        /// What was asked for.
        action: &'static str,
    },
    /// A job cannot go on with its rule as it is now.
    #[error("job '{id}': {problem}")]
    OtherSteps {
        /// The job's id.
        id: String,
        /// What does not fit.
        problem: String,
    },
    /// A rule cannot be started by hand, or not so.
    #[error("rule '{name}' was not started: {problem}")]
    NotRun {
        /// The rule that was to start.
        name: Name,
        /// Why, and what to do.
        problem: String,
    },
    /// Whoever answers what a step of a job asks is not one of those who may.
    #[error("the answer to job '{id}' does not count: {problem}")]
    MayNotAnswer {
        /// The job's id.
        id: String,
        /// Why the answer was not taken, and what to do.
        problem: String,
    },
    /// A noun says who may use it, and the actor is not among them.
    #[error("{kind} '{name}' is not for '{actor}', but for {users}: ask one of them")]
    OfOthers {
        /// The account that logged in.
        actor: String,
        /// The kind of the noun that is changed, or that the changed noun names.
        kind: Kind,
        /// The name of that noun.
        name: String,
        /// Those who may use it.
        users: String,
    },
    /// A file cannot be released or deleted as one that is held.
    #[error("the file of transfer '{id}': {problem}")]
    NotHeld {
        /// The transfer by which the file came.
        id: String,
        /// Why its file cannot be decided upon.
        problem: String,
    },
    /// More than this crate takes at once; see `limits.rs`.
    #[error("{what}: {size} is more than the limit of {limit}; split it up")]
    TooMuch {
        /// What is too big.
        what: &'static str,
        /// How big it is.
        size: usize,
        /// What it may be.
        limit: usize,
    },
    /// The change cannot be made: what must not be touched.
    #[error("{problem}")]
    Refused {
        /// A sentence that says what to do.
        problem: String,
    },
    /// A question that cannot be asked.
    #[error("{problem}")]
    Query {
        /// A sentence that says what to do.
        problem: String,
    },
    /// Something inside failed that no other code names.
    #[error("{what} failed: {problem}; please report this")]
    Internal {
        /// What was tried.
        what: &'static str,
        /// How it failed.
        problem: String,
    },
    /// The account that logged in administers nothing.
    #[error("'{actor}' is no administrator; log in with an account of type admin")]
    NotAdministrator {
        /// The account that logged in.
        actor: String,
    },
    /// The role of the account, or the API token that it logged in with, does not allow it.
    #[error("'{actor}' lacks the right to {right}: its role or its API token does not include it")]
    Forbidden {
        /// The account that logged in.
        actor: String,
        /// What the request needs.
        right: AdminRight,
    },
    /// The session ended, is open on another node, or belongs to a site that the actor does not
    /// see.
    #[error("no session '{id}' is open on this node")]
    NoSession {
        /// The id that was asked for.
        id: SessionId,
    },
    /// The address or account that was to be unlocked has no wrong password to forget.
    #[error("no wrong password of it counts")]
    NothingToUnlock,
    /// Another process serves under the name of this node.
    #[error(
        "a node '{name}' serves from this database already; give this one another name in its \
         process file (node = \"NAME\"), or stop the other one"
    )]
    NodeServes {
        /// The name that both have.
        name: Name,
    },
    /// The name of this node is bound to another journal.
    #[error(
        "the name '{name}' belongs to a node with another journal; give this one another name in \
         its process file (node = \"NAME\"), and if that journal is lost, take the old node off \
         the list then: 'entrepot node remove {name} --lost'"
    )]
    NodeKnown {
        /// The name that both have.
        name: Name,
    },
    /// Other nodes live that have the present master key in memory.
    #[error(
        "nodes serve with the present master key: {}; stop all of them, rotate, give each the new \
         key and start them",
        nodes.iter().map(|node| format!("'{node}'")).collect::<Vec<_>>().join(", ")
    )]
    SecretsInUse {
        /// Those that serve, by name.
        nodes: Vec<Name>,
    },
    /// A sealed secret opens under neither key.
    #[error("nothing was changed: {problem}")]
    CannotRotate {
        /// Which, and why.
        problem: String,
    },
    /// A node cannot be taken off the list.
    #[error("{problem}")]
    NodeStays {
        /// A sentence that says what to do.
        problem: String,
    },
    /// The journal refused the event of an order to the live node; the order was not carried out.
    #[error("{problem}")]
    NotRecorded {
        /// The error code of the journal's refusal.
        code: &'static str,
        /// A sentence that says what to do.
        problem: String,
    },
    /// A certificate was to be renewed that no authority gives.
    #[error(
        "the certificate of the listener '{listener}' is from no authority; set 'tls.acme' of the \
         listener, or change its key"
    )]
    NoAuthority {
        /// The listener that shows it.
        listener: Name,
    },
    /// No browser is signed in by this id, or at a site that the actor does not see.
    #[error("no browser is signed in as {id} here; 'entrepot sign-in list' shows those that are")]
    NoSignIn {
        /// The id that was asked for.
        id: SessionId,
    },
    /// The first administrator cannot be made by this token.
    #[error("the token for the first administrator is wrong, was used, or has ended")]
    NoSetUp,
    /// The database failed or is away.
    #[error(transparent)]
    Database(#[from] DbError),
}

/// Whose fault a [`Problem`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProblemClass {
    /// There is no such thing.
    NotFound,
    /// What was sent cannot be taken.
    Invalid,
    /// It contradicts what there is.
    Conflict,
    /// It is for a version that is no longer the present one.
    Changed,
    /// Only administrators may.
    Denied,
    /// Try again later.
    Unavailable,
    /// Something inside failed.
    Failed,
}

/// An error as it is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// `EPnnnn`, the page in `docs/errors`.
    pub code: String,
    /// A sentence that says what to do.
    pub message: String,
    /// Whose fault it is.
    pub class: ProblemClass,
}

impl AdminError {
    /// The code of its page in `docs/errors`.
    pub fn code(&self) -> &'static str {
        match self {
            AdminError::Document { .. } => "EP0101",
            AdminError::Field { .. } => "EP0102",
            AdminError::Dangling { .. } => "EP0103",
            AdminError::Twice { .. } => "EP0104",
            AdminError::NotFound { .. } => "EP0105",
            AdminError::Exists { .. } => "EP0106",
            AdminError::InUse { .. } => "EP0107",
            AdminError::Cursor { .. } => "EP1110",
            AdminError::Changed { .. } => "EP1111",
            AdminError::KeyReused { .. } => "EP1112",
            AdminError::JobState { .. } => "EP0109",
            AdminError::OtherSteps { .. } => "EP0116",
            AdminError::NotRun { .. } => "EP0841",
            AdminError::MayNotAnswer { .. } => "EP0834",
            AdminError::OfOthers { .. } => "EP0885",
            AdminError::NotHeld { .. } => "EP0838",
            AdminError::TooMuch { .. } => "EP0110",
            AdminError::Refused { .. } => "EP0111",
            AdminError::Query { .. } => "EP0112",
            AdminError::Internal { .. } => "EP0113",
            AdminError::UnusableKey { .. } => "EP0114",
            AdminError::NotAdministrator { .. } => "EP0115",
            AdminError::Forbidden { .. } => "EP1040",
            AdminError::WeakPassword { .. } => "EP0120",
            AdminError::PasswordList { .. } => "EP0121",
            AdminError::NoSession { .. } => "EP0207",
            AdminError::NothingToUnlock => "EP0215",
            AdminError::NoSignIn { .. } => "EP1041",
            AdminError::NoSetUp => "EP1042",
            AdminError::NoAuthority { .. } => "EP1134",
            AdminError::NodeServes { .. } => "EP0710",
            AdminError::NodeKnown { .. } => "EP0711",
            AdminError::NodeStays { .. } => "EP0712",
            AdminError::SecretsInUse { .. } => "EP0297",
            AdminError::CannotRotate { .. } => "EP0909",
            AdminError::NotRecorded { code, .. } => code,
            AdminError::Database(error) => error.code(),
        }
    }

    /// Whose fault it is.
    pub fn class(&self) -> ProblemClass {
        match self {
            AdminError::NotFound { .. }
            | AdminError::NoSession { .. }
            | AdminError::NoSignIn { .. }
            | AdminError::NothingToUnlock => ProblemClass::NotFound,
            AdminError::Document { .. }
            | AdminError::Field { .. }
            | AdminError::UnusableKey { .. }
            | AdminError::WeakPassword { .. }
            | AdminError::Dangling { .. }
            | AdminError::Twice { .. }
            | AdminError::NotRun { .. }
            | AdminError::TooMuch { .. }
            | AdminError::Cursor { .. }
            | AdminError::KeyReused { .. }
            | AdminError::Query { .. } => ProblemClass::Invalid,
            AdminError::Changed { .. } => ProblemClass::Changed,
            AdminError::Exists { .. }
            | AdminError::InUse { .. }
            | AdminError::JobState { .. }
            | AdminError::OtherSteps { .. }
            | AdminError::NotHeld { .. }
            | AdminError::NodeServes { .. }
            | AdminError::NodeKnown { .. }
            | AdminError::NodeStays { .. }
            | AdminError::SecretsInUse { .. }
            | AdminError::CannotRotate { .. }
            | AdminError::NoAuthority { .. }
            | AdminError::Refused { .. } => ProblemClass::Conflict,
            AdminError::NotAdministrator { .. }
            | AdminError::Forbidden { .. }
            | AdminError::MayNotAnswer { .. }
            | AdminError::OfOthers { .. }
            | AdminError::NoSetUp => ProblemClass::Denied,
            AdminError::Database(error) if error.is_unavailable() => ProblemClass::Unavailable,
            AdminError::Database(DbError::Conflict(_)) => ProblemClass::Conflict,
            AdminError::Internal { .. }
            | AdminError::PasswordList { .. }
            | AdminError::NotRecorded { .. }
            | AdminError::Database(_) => ProblemClass::Failed,
        }
    }
}

impl From<NotRecorded> for AdminError {
    fn from(NotRecorded { code, problem }: NotRecorded) -> Self {
        AdminError::NotRecorded { code, problem }
    }
}

impl From<JournalError> for AdminError {
    fn from(error: JournalError) -> Self {
        AdminError::NotRecorded { code: error.code(), problem: error.to_string() }
    }
}

impl From<AuthError> for AdminError {
    fn from(error: AuthError) -> Self {
        match error {
            AuthError::Unavailable(error) => AdminError::Database(error),
            error => AdminError::NotRecorded { code: error.code(), problem: error.to_string() },
        }
    }
}

impl From<AdminError> for Problem {
    fn from(error: AdminError) -> Self {
        Problem { code: error.code().to_owned(), message: error.to_string(), class: error.class() }
    }
}
