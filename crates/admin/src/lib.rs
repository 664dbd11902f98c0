//! Every configuration change: role check, row and event in one transaction.
//! Used by REST, the command line and `apply`.
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

mod admin;
mod diff;
mod document;
mod error;
mod jobs;
pub mod limits;
mod near;
mod passwords;
mod plan;
mod query;
mod relations;
mod request;
mod secrets;
#[cfg(test)]
mod tests;

pub use admin::{Admin, AdminParts, ProgramCheck};
pub use error::{AdminError, Problem, ProblemClass, Result};
pub use near::explained;
pub use request::*;
pub use secrets::{ListenerCheck, RuleCheck};
