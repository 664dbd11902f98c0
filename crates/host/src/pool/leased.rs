//! A session of a pool while a caller has it.

use std::collections::BTreeMap;

use serde_json::Value as Json;
use tokio::sync::mpsc;

use super::book::{CameBack, SlotId};
use crate::error::HostError;
use crate::procedure::{Application, CallError};
use crate::view::ScreenView;

/// A session that a client holds between its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HeldSession {
    pub(super) slot: SlotId,
    pub(super) lease: Lease,
}

/// The number of one time that a session was given to somebody.
pub(super) type Lease = u64;

/// A session that comes back from a caller.
#[derive(Debug)]
pub(super) struct Return {
    pub(super) held: HeldSession,
    pub(super) application: Box<Application>,
    pub(super) kind: ReturnKind,
}

/// What becomes of a session that comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReturnKind {
    /// It is free.
    Back(CameBack),
    /// Its client goes on with it later.
    Held,
}

/// A session of a pool. Dropping it gives it back.
#[derive(Debug)]
pub struct PooledSession {
    held: HeldSession,
    /// Unset once it is on its way back.
    application: Option<Box<Application>>,
    how: CameBack,
    back: mpsc::Sender<Return>,
}

impl PooledSession {
    pub(super) fn new(
        held: HeldSession,
        application: Box<Application>,
        back: mpsc::Sender<Return>,
    ) -> PooledSession {
        PooledSession { held, application: Some(application), how: CameBack::AtHome, back }
    }

    /// Calls a procedure; answers what it has read.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn call(
        &mut self,
        procedure: &str,
        input: BTreeMap<String, String>,
    ) -> Result<Json, CallError> {
        let Some(application) = &mut self.application else { return Err(closed()) };
        // Where the caller goes away in the midst of it.
        self.how = CameBack::Left;
        let given = application.call(procedure, input).await;
        self.how = match &given {
            Err(CallError::Host(error)) if error.has_ended() => CameBack::Broken,
            Err(CallError::Host(_) | CallError::Lost { .. } | CallError::Kind { .. }) => {
                CameBack::Left
            }
            Ok(_) | Err(CallError::Caller(_) | CallError::Outcome { .. }) => {
                match application.is_at_home().await {
                    Ok(true) => CameBack::AtHome,
                    Ok(false) => CameBack::Elsewhere,
                    Err(_) => CameBack::Broken,
                }
            }
        };
        given
    }

    /// The entity that stands.
    pub fn standing(&self) -> Option<&str> {
        self.application.as_ref().and_then(|application| application.standing())
    }

    /// What the screen shows, without what the model calls secret.
    pub fn screen(&self) -> Option<ScreenView> {
        self.application.as_ref().map(|application| application.screen())
    }

    /// Leaves it where it is, for its client to go on with.
    pub fn suspend(mut self) -> HeldSession {
        self.give_back(ReturnKind::Held);
        self.held
    }

    /// Whether the host still has it, and it is at home.
    pub(super) async fn is_fresh(&mut self) -> bool {
        let Some(application) = &mut self.application else { return false };
        self.how = match application.is_at_home().await {
            Ok(true) => CameBack::AtHome,
            Ok(false) => CameBack::Left,
            Err(_) => CameBack::Broken,
        };
        self.how == CameBack::AtHome
    }

    fn give_back(&mut self, kind: ReturnKind) {
        let Some(application) = self.application.take() else { return };
        let whole = application.is_whole();
        let kind = if whole { kind } else { ReturnKind::Back(CameBack::Broken) };
        // There is a place for each session. A pool that has stopped takes nothing: the connection
        // is closed.
        let _ = self.back.try_send(Return { held: self.held, application, kind });
    }
}

impl Drop for PooledSession {
    fn drop(&mut self) {
        self.give_back(ReturnKind::Back(self.how));
    }
}

fn closed() -> CallError {
    CallError::Host(HostError::Closed)
}
