//! A node that started while its database was away: it serves from its copy of the configuration,
//! and waits for the database to become one node of several again.

use std::sync::Arc;
use std::time::Duration;

use entrepot_admin::{Admin, AdminError, Problem};
use entrepot_db::{DbError, Incarnation};
use entrepot_engine::Engine;
use tokio_util::sync::CancellationToken;

use crate::failure::{Exit, Failure};
use crate::parts::NodeStart;

/// How often the database is looked for.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What the node needs to come back.
pub(crate) struct Return {
    pub(crate) start: NodeStart,
    pub(crate) admin: Arc<Admin>,
    pub(crate) engine: Arc<Engine>,
}

/// What stands between the node and its database.
enum Obstacle {
    /// It may be gone at the next look.
    Passing(Failure),
    /// The database is there, and this node is none of its nodes.
    Refused(Failure),
}

impl Obstacle {
    fn of(error: DbError) -> Obstacle {
        Obstacle::Passing(Failure::new(error.code(), Exit::Unavailable, error.to_string()))
    }
}

impl Return {
    /// Waits for the database; then the node is claimed as at any start, and the engine begins.
    /// Gives the reason if the node may not serve, `None` once it does or at `until`.
    pub(crate) async fn wait(self, until: CancellationToken) -> Option<Failure> {
        let mut told = String::new();
        loop {
            match self.claim().await {
                Ok(incarnation) => {
                    self.engine.counted(incarnation);
                    self.start.db.answer_itself();
                    tracing::info!("the database is back: the node serves from it again");
                    return None;
                }
                Err(Obstacle::Refused(failure)) => return Some(failure),
                Err(Obstacle::Passing(failure)) if failure.message != told => {
                    let Failure { code, message, .. } = failure;
                    tracing::warn!(code, "served from the copy of the configuration: {message}");
                    told = message;
                }
                Err(Obstacle::Passing(_)) => {}
            }
            tokio::select! {
                () = until.cancelled() => return None,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    }

    async fn claim(&self) -> Result<Incarnation, Obstacle> {
        let NodeStart { db, recorder, .. } = &self.start;
        db.reach().await.map_err(Obstacle::of)?;
        let joined = match self.admin.join().await {
            // The node is not in the list: it joins anew, which is a change.
            Err(AdminError::Database(DbError::Copied)) => {
                db.answer_itself();
                self.admin.join().await
            }
            joined => joined,
        };
        joined.map_err(|error| match error {
            AdminError::Database(error) => Obstacle::of(error),
            error => Obstacle::Refused(crate::ask::problem(Problem::from(error))),
        })?;
        let checked = entrepot_proof::check_end(db, recorder).await;
        checked.map_err(|error| {
            Obstacle::Passing(Failure::new(error.code(), Exit::Failed, error.to_string()))
        })?;
        self.start.count().await.map_err(Obstacle::Passing)
    }
}
