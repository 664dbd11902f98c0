//! Why a procedure, or a request in a session, did not come to its end.

use entrepot_journal::JournalError;
use entrepot_nouns::{Name, SessionId};

use crate::pool::{PoolError, PooledSession};
use crate::procedure::CallError;
use crate::view::ScreenView;

/// A procedure was not called, or did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum ProcedureError {
    /// Nothing of this name is deployed.
    #[error("there is no model '{0}' that can be called on this node")]
    NoModel(String),
    /// The model does not name the account among its callers.
    #[error("the account may not call '{procedure}' of the model '{model}'")]
    NotAllowed {
        /// Which model it is.
        model: Name,
        /// Which procedure of it.
        procedure: String,
    },
    /// The model does not name the account among those that may work at its screens.
    #[error("the account may not work at the screens of the model '{0}'")]
    NoTerminal(Name),
    /// The model does not name the account at all.
    #[error("the account may not hold a session of the model '{0}'")]
    NoSession(Name),
    /// It holds as many sessions as it may.
    #[error("the account holds {most} sessions of the model, as many as it may: end one first")]
    HoldsEnough {
        /// What the model allows.
        most: u32,
    },
    /// Another request works in the session.
    #[error("another request works in the session '{0}'")]
    Busy(SessionId),
    /// Its client has suspended the session.
    #[error("the session '{0}' is suspended: resume it first")]
    Suspended(SessionId),
    /// There is no session for it.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// It ended with an error.
    #[error("{error}")]
    Call {
        /// What went wrong.
        error: CallError,
        /// The entity that stood then, and what the screen showed.
        stood: Box<Stood>,
    },
    /// The call could not be recorded, so that its result is not given.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// Where a session stood when a procedure failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stood {
    /// The entity, where it was one of the model.
    pub entity: Option<String>,
    /// The rows of the screen, without secrets.
    pub screen: Option<ScreenView>,
}

impl ProcedureError {
    /// With where the session stands now.
    pub(crate) fn of(error: CallError, session: &PooledSession) -> ProcedureError {
        let entity = session.standing().map(str::to_owned);
        let stood = Box::new(Stood { entity, screen: session.screen() });
        ProcedureError::Call { error, stood }
    }

    /// The error catalogue's code.
    pub fn code(&self) -> &'static str {
        match self {
            ProcedureError::NoModel(_) => "EP1314",
            ProcedureError::NotAllowed { .. }
            | ProcedureError::NoTerminal(_)
            | ProcedureError::NoSession(_) => "EP1315",
            ProcedureError::Busy(_) => "EP1317",
            ProcedureError::Suspended(_) => "EP1318",
            ProcedureError::HoldsEnough { .. } => "EP1320",
            ProcedureError::Pool(error) => error.code(),
            ProcedureError::Call { error, .. } => error.code(),
            ProcedureError::Journal(error) => error.code(),
        }
    }

    /// The word of the model for it, where the application refused.
    pub fn outcome(&self) -> Option<&str> {
        match self {
            ProcedureError::Call { error: CallError::Outcome { error, .. }, .. } => Some(error),
            _ => None,
        }
    }
}
