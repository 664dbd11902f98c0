//! Why a step with a host did not come about.

use entrepot_net::NetError;
use entrepot_net::tls::{HandshakeError, TlsConfigError};
use entrepot_tn3270_proto::{Lock, Refusal};

/// What failed, and whose fault it is.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The host cannot be reached.
    #[error(transparent)]
    Dial(#[from] NetError),
    /// The certificates that are to be trusted cannot be used.
    #[error(transparent)]
    Trust(#[from] TlsConfigError),
    /// TLS did not come about.
    #[error("no TLS with the host: {0}")]
    Handshake(#[from] HandshakeError),
    /// The connection broke.
    #[error("the connection to the host broke: {0}")]
    Broken(#[from] std::io::Error),
    /// The host closed the connection.
    #[error("the host closed the connection")]
    Closed,
    /// What the host sends is no telnet of a terminal: a record without an end.
    #[error("the host sent a record without an end")]
    Overlong,
    /// It did not show in time.
    #[error("{what} did not come within {seconds} s; the keyboard is {keyboard}")]
    Late {
        /// What was waited for.
        what: String,
        /// For so long.
        seconds: u64,
        /// Whether it takes keys now, in one word.
        keyboard: &'static str,
    },
    /// The keyboard, or the place of the cursor, does not take it.
    #[error("{0}")]
    Locked(&'static str),
    /// The code page of the host has no such character.
    #[error("the code page of the host has no character '{0}'")]
    NoSuchCharacter(char),
}

impl HostError {
    /// True if there is no connection to go on with.
    pub fn has_ended(&self) -> bool {
        !matches!(
            self,
            HostError::Late { .. } | HostError::Locked(_) | HostError::NoSuchCharacter(_)
        )
    }

    /// True if no application has seen us.
    pub(crate) fn was_not_reached(&self) -> bool {
        matches!(self, HostError::Dial(_) | HostError::Trust(_) | HostError::Handshake(_))
    }

    /// The error catalogue's code.
    pub fn code(&self) -> &'static str {
        match self {
            HostError::Dial(error) => error.code(),
            HostError::Trust(error) => error.code(),
            HostError::Handshake(error) => error.code(),
            HostError::Broken(_) | HostError::Closed | HostError::Overlong => "EP1301",
            HostError::Late { .. } => "EP1302",
            HostError::Locked(_) | HostError::NoSuchCharacter(_) => "EP1303",
        }
    }
}

impl From<Refusal> for HostError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NoSuchCharacter(character) => HostError::NoSuchCharacter(character),
            Refusal::Locked(lock) => HostError::Locked(match lock {
                Lock::NotReady => "no application has begun: the keyboard takes nothing yet",
                Lock::Waiting | Lock::System => "the host has not freed the keyboard yet",
                Lock::Protected => {
                    "nothing can be typed here: move the cursor into a field, and free the \
                     keyboard by 'key reset'"
                }
                Lock::Numeric => "the field takes numbers only; free the keyboard by 'key reset'",
                Lock::Overflow => "the field is full; free the keyboard by 'key reset'",
            }),
        }
    }
}
