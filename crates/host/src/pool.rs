//! Sessions with an application that are kept ready: callers are given one that rests at home, and
//! it goes back there behind them.
//!
//! One task, the [`PoolKeeper`], has all sessions that rest and decides what is done with each
//! (`book.rs`, which knows no IO); opening, checking, bringing home and logging off are tasks of
//! its own.

mod book;
mod figures;
mod keeper;
mod leased;
mod queue;
mod settings;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use entrepot_nouns::Env;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use crate::limits::{ORDERS, STALE_SESSIONS};
pub use book::Holding;
pub use figures::{Gauge, PoolFigures, StateGauge};
pub use keeper::PoolKeeper;
use keeper::{Given, Order};
pub use leased::{HeldSession, PooledSession, Retaken, WhyRetaken};
pub use queue::Caller;
pub use settings::{PoolError, PoolSettings};

/// Sessions with one application. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Pool {
    orders: mpsc::Sender<Order>,
    figures: Arc<Mutex<PoolFigures>>,
    settings: Arc<PoolSettings>,
    env: Env,
}

impl Pool {
    /// A pool, and the task that keeps it. Nothing is opened before that runs.
    pub fn new(settings: PoolSettings, env: Env) -> (Pool, PoolKeeper) {
        let (orders, ordered) = mpsc::channel(ORDERS);
        let figures = Arc::new(Mutex::new(PoolFigures::default()));
        let settings = Arc::new(settings);
        let pool = Pool {
            orders,
            figures: Arc::clone(&figures),
            settings: Arc::clone(&settings),
            env: env.clone(),
        };
        (pool, PoolKeeper::new(settings, ordered, figures, env))
    }

    /// What its sessions are.
    pub fn settings(&self) -> &PoolSettings {
        &self.settings
    }

    /// Its sessions by state, and what became of others.
    pub fn figures(&self) -> PoolFigures {
        self.figures.lock().clone()
    }

    /// Waits for a session that rests at home. Callers take turns.
    ///
    /// # Errors
    /// There is none in time.
    pub async fn session(&self, caller: Caller) -> Result<PooledSession, PoolError> {
        let wait = self.settings.limits.wait.duration();
        let until = self.env.elapsed() + wait;
        for _ in 0..STALE_SESSIONS {
            let (reply, given) = oneshot::channel();
            let mut session = self.ask(Order::Ask { caller, until, reply }, given).await?;
            // It goes back by itself, if not: as one that has ended.
            if session.is_fresh().await {
                return Ok(session);
            }
        }
        Err(PoolError::Late { seconds: wait.as_secs(), failure: None })
    }

    /// Waits for a session that nobody else has had or will have: it stands where the host begins,
    /// and has these variables or, if there are none, those of sessions of the pool.
    ///
    /// # Errors
    /// There is none in time, or none can be opened.
    pub async fn own_session(
        &self,
        variables: BTreeMap<String, String>,
    ) -> Result<PooledSession, PoolError> {
        let until = self.env.elapsed() + self.settings.limits.wait.duration();
        let (reply, given) = oneshot::channel();
        self.ask(Order::Own { variables, until, reply }, given).await
    }

    /// Goes on with a session that is held.
    ///
    /// # Errors
    /// It is not held any more.
    pub async fn resume(&self, held: HeldSession) -> Result<PooledSession, PoolError> {
        let (reply, given) = oneshot::channel();
        self.ask(Order::Resume { held, reply }, given).await
    }

    async fn ask(
        &self,
        order: Order,
        given: oneshot::Receiver<Given>,
    ) -> Result<PooledSession, PoolError> {
        self.orders.send(order).await.map_err(|_| PoolError::Stopped)?;
        given.await.map_err(|_| PoolError::Stopped)?
    }
}
