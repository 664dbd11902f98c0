//! A session of a pool while a caller has it.

use std::collections::BTreeMap;

use serde_json::Value as Json;
use tokio::sync::mpsc;

use super::book::{CameBack, Holding, SlotId};
use crate::error::HostError;
use crate::procedure::{Application, CallError};
use crate::view::ScreenView;

/// A session that a client holds between its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HeldSession {
    pub(super) slot: SlotId,
    pub(super) lease: Lease,
}

/// A session that is not its client's any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retaken {
    /// By which its client knew it.
    pub held: HeldSession,
    /// Why it was taken.
    pub why: WhyRetaken,
}

/// Why a session is not its client's any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhyRetaken {
    /// Its client did not go on with it in time.
    Left,
    /// The connection has ended.
    Broken,
}

/// The number of one time that a session was given to somebody.
pub(super) type Lease = u64;

/// A session that comes back from a caller.
#[derive(Debug)]
pub(super) struct Return {
    pub(super) held: HeldSession,
    pub(super) application: Box<Application>,
    pub(super) kind: ReturnKind,
    pub(super) worked: Worked,
}

/// What a client has done in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Worked {
    /// What the model knows.
    ByModel,
    /// It has typed and pressed what it liked.
    AtScreens,
}

/// What becomes of a session that comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReturnKind {
    /// It is free.
    Back(CameBack),
    /// Its client goes on with it.
    Held(Holding),
}

/// A session of a pool. Dropping it gives it back.
#[derive(Debug)]
pub struct PooledSession {
    held: HeldSession,
    /// Unset once it is on its way back.
    application: Option<Box<Application>>,
    how: CameBack,
    worked: Worked,
    back: mpsc::Sender<Return>,
}

impl PooledSession {
    pub(super) fn new(
        held: HeldSession,
        application: Box<Application>,
        how: CameBack,
        back: mpsc::Sender<Return>,
    ) -> PooledSession {
        let (application, worked) = (Some(application), Worked::ByModel);
        PooledSession { held, application, how, worked, back }
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

    /// Leaves it where it is, for its client to go on with. `None`: the connection has ended, and
    /// the session with it.
    pub fn hold(mut self, how: Holding) -> Option<HeldSession> {
        let is_whole = self.application.as_ref().is_some_and(|it| it.is_whole());
        if self.how == CameBack::Broken || !is_whole {
            return None;
        }
        self.give_back(ReturnKind::Held(how)).then_some(self.held)
    }

    /// Gives it back as one that somebody has worked with in order.
    pub fn release(mut self) {
        if self.how != CameBack::Broken {
            self.how = CameBack::Elsewhere;
        }
    }

    /// Somebody works at its screens: nobody else is given it behind that.
    pub(crate) fn set_apart(&mut self) {
        self.worked = Worked::AtScreens;
    }

    /// Does something in it; what comes of it says whether the connection has ended.
    pub(crate) async fn work<T>(
        &mut self,
        work: impl AsyncFnOnce(&mut Application) -> Result<T, CallError>,
    ) -> Result<T, CallError> {
        let Some(application) = &mut self.application else { return Err(closed()) };
        let done = work(application).await;
        if let Err(CallError::Host(error)) = &done
            && error.has_ended()
        {
            self.how = CameBack::Broken;
        }
        done
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

    /// False: it is on its way back already, or its pool has ended.
    fn give_back(&mut self, kind: ReturnKind) -> bool {
        let Some(application) = self.application.take() else { return false };
        let whole = application.is_whole();
        let kind = if whole { kind } else { ReturnKind::Back(CameBack::Broken) };
        // There is a place for each session. A pool that has stopped takes nothing: the connection
        // is closed.
        let (held, worked) = (self.held, self.worked);
        self.back.try_send(Return { held, application, kind, worked }).is_ok()
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
