//! Every configuration change: role check, row and event in one transaction.
//! Used by REST, the command line and `apply`.

mod error;
mod request;

use entrepot_auth::Directory;
use entrepot_crypto::seal::MasterKey;
use entrepot_db::Db;
use entrepot_journal::Recorder;
use entrepot_model::Env;

pub use error::{AdminError, Problem, ProblemClass, Result};
pub use request::*;

/// What an [`Admin`] works with.
pub struct AdminParts {
    /// The database.
    pub db: Db,
    /// Seals secrets.
    pub master: MasterKey,
    /// Takes the events.
    pub recorder: Recorder,
    /// Told of changes, if there is one in this process.
    pub directory: Option<Directory>,
    /// Clock, ids, randomness.
    pub env: Env,
}

/// The administration.
#[derive(Clone)]
pub struct Admin {}

impl Admin {
    /// Over these parts.
    pub fn new(_parts: AdminParts) -> Self {
        todo!()
    }
    /// Does what `request` says, if `actor` may.
    pub async fn handle(&self, _actor: &Actor, _request: Request) -> Result<Response> {
        todo!()
    }
    /// Seals events of this node that were committed but not sealed. Returns how many.
    pub async fn seal_pending(&self) -> Result<usize> {
        todo!()
    }
}
