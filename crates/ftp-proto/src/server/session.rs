//! What a session has chosen and who it is.

use crate::answer::Login;
use crate::facts::FactSet;
use crate::request::{ByteRange, Data};
use crate::settings::{Algorithm, Settings};

/// How far the login is.
#[derive(Debug, Clone)]
pub(super) enum Who {
    Nobody,
    /// USER was said.
    Named(String),
    /// The password was right, an account is missing.
    Unaccounted(String),
    In(String, Login),
}

/// What AUTH and REIN reset.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) who: Who,
    pub(super) directory: String,
    pub(super) ascii: bool,
    /// MODE Z, with this level.
    pub(super) compressed: bool,
    pub(super) level: u8,
    /// By REST, for one transfer.
    pub(super) offset: u64,
    /// By RANG, for one transfer or HASH.
    pub(super) range: Option<ByteRange>,
    /// By ALLO, for one transfer.
    pub(super) allocated: Option<u64>,
    /// RNFR, for the very next command.
    pub(super) rename_from: Option<String>,
    /// SITE SHUTDOWN, for the very next command.
    pub(super) shutdown_armed: bool,
    /// PASV or PORT, for one transfer.
    pub(super) data: Option<Data>,
    /// EPSV ALL was sent: no other command may choose the data connection.
    pub(super) extended_only: bool,
    pub(super) facts: FactSet,
    pub(super) algorithm: Algorithm,
    pub(super) client: Option<String>,
    pub(super) host: Option<String>,
}

impl Session {
    pub(super) fn new(settings: &Settings) -> Session {
        Session {
            who: Who::Nobody,
            directory: "/".to_owned(),
            ascii: true,
            compressed: false,
            level: settings.compression.unwrap_or(0),
            offset: 0,
            range: None,
            allocated: None,
            rename_from: None,
            shutdown_armed: false,
            data: None,
            extended_only: false,
            facts: FactSet::default(),
            algorithm: settings.algorithms.first().copied().unwrap_or(Algorithm::Sha256),
            client: None,
            host: None,
        }
    }

    pub(super) fn is_logged_in(&self) -> bool {
        matches!(self.who, Who::In(..))
    }

    pub(super) fn login(&self) -> Option<&Login> {
        match &self.who {
            Who::In(_, login) => Some(login),
            _ => None,
        }
    }

    pub(super) fn user(&self) -> Option<&str> {
        match &self.who {
            Who::In(user, _) => Some(user),
            _ => None,
        }
    }

    /// What only the very next command may use.
    pub(super) fn forget_next_only(&mut self) {
        self.rename_from = None;
        self.shutdown_armed = false;
    }

    /// What serves one transfer, done or not.
    pub(super) fn forget_transfer(&mut self) {
        self.offset = 0;
        self.range = None;
        self.allocated = None;
    }
}

/// TLS on the control connection (RFC 4217).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Secure {
    pub(super) tls: bool,
    pub(super) implicit: bool,
    /// PBSZ was said.
    pub(super) sized: bool,
    /// PROT P was sent: data connections begin TLS.
    pub(super) protected: bool,
    /// CCC was said: clear text, PROT stays as it is.
    pub(super) cleared: bool,
}

impl Secure {
    pub(super) fn implicit() -> Secure {
        Secure { tls: true, implicit: true, sized: true, protected: true, cleared: false }
    }

    pub(super) fn explicit() -> Secure {
        Secure { tls: true, ..Secure::default() }
    }
}
