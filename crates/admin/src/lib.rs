//! The control plane: every configuration change, with row and event in one transaction; live
//! sessions, rates, locked logins and the end of a node, with their events. Used by the command
//! line and `apply`. Every request needs an [`Actor`]: an administrator whose role allows it
//! ([`needed`]).
//!
//! What it guarantees:
//! 1. A change is checked whole, against the configuration as it shall be, before anything is
//!    written; row and event are one transaction. Nothing is ever half applied.
//! 2. Passwords are hashed and secrets sealed before they reach the database; no answer, plan,
//!    event or error holds one. Exported documents hold the hash or the sealed form.
//! 3. Applying what was exported, or the same documents twice, changes nothing. A plan hashes
//!    nothing: where a password is given in clear text and is not known to be the stored one, it
//!    says that `apply` will compare it.
//! 4. The event of a change is in the database with it and soon after in the chain of this node's
//!    journal; what a crash kept out of the chain is sealed at the next start.
//! 5. What an order to the live node changes is in the journal before it takes effect. An actor of
//!    a site other than `main` sees and ends sessions of its own site only, and steers no node.

mod actor;
mod admin;
mod approvals;
mod as2;
mod as2_orders;
mod as2_request;
mod calls;
mod certificate_row;
mod certificates;
mod checks;
mod credentials;
mod cursor;
mod diff;
mod document;
mod document_text;
mod dry_run;
mod error;
mod explain;
mod fact_queries;
mod filter;
mod held;
mod job_orders;
mod jobs;
pub mod limits;
mod link_order;
mod links;
mod listing;
mod live;
mod log_levels;
mod login_limits;
mod near;
mod node_row;
mod nodes;
mod noun_change;
mod noun_users;
mod once;
mod own_passkeys;
mod own_tokens;
mod parts;
mod passkeys;
mod password_rules;
mod passwords;
mod permissions;
mod plan;
mod planned_change;
mod query;
mod reader;
mod recovery_codes;
mod refused_passwords;
mod relations;
mod renewal;
mod repeated;
mod replay;
mod request;
mod rotation;
mod rule_orders;
mod rule_pauses;
mod rule_question;
mod rule_reports;
mod rule_requests;
mod rule_source;
mod secrets;
mod serving;
mod set_up;
mod shown_job;
mod shown_rows;
mod side_by_side;
mod sign_ins;
mod site;
#[cfg(test)]
mod tests;
mod tokens;
mod touched;
mod trace;
mod watch_remarks;
mod watches;

pub use actor::Actor;
pub use admin::{Admin, Answering, ProgramCheck};
pub use as2_request::As2Request;
pub use certificate_row::*;
pub use credentials::*;
pub use cursor::Cursor;
pub use diff::shown_body;
pub use error::{AdminError, Problem, ProblemClass, Result};
pub use fact_queries::{As2Query, EventQuery, JobQuery, TransferQuery};
pub use filter::{Comparison, FieldFilter, SortOrder};
pub use link_order::*;
pub use live::{CarriedOut, HeldDecision, HeldOrder, LiveNode, NotRecorded, TestedAs2};
pub use log_levels::{LogLevel, LogLevels, LogSubject};
pub use login_limits::*;
pub use near::explained;
pub use node_row::{NodeRow, NodeState};
pub use once::Once;
pub use own_passkeys::OwnPasskeyOrder;
pub use own_tokens::OwnTokenOrder;
pub use parts::{AdminParts, ServingParts};
pub use permissions::{is_dangerous, needed};
pub use planned_change::*;
pub use refused_passwords::{OpenList, RefusedPasswords};
pub use request::*;
pub use rule_orders::*;
pub use rule_question::{RuleExplainer, RuleQuestion, RuleSubject};
pub use secrets::{EndpointCheck, ListenerCheck, ModelCheck, RuleCheck};
pub use shown_job::{RetryRule, RulePause, ShownJob, StartedRule};
