//! How much a node logs, by subject, changed while it runs.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A part of the program that logs; most are crates.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum LogSubject {
    /// Everything that is not named besides.
    All,
    /// Changes of the configuration, and orders to the node.
    Admin,
    /// Logins, penalties, accounts.
    Auth,
    /// Connections to the database, and what it refuses.
    Db,
    /// Rules and jobs.
    Engine,
    /// What happens in sessions of FTP.
    Ftp,
    /// What is appended to the journal, and what it archives.
    Journal,
    /// Connections, TLS, limits before a login.
    Net,
    /// Listeners, and the start and end of the server.
    Server,
    /// Sessions of SFTP and SCP.
    Sftp,
    /// Programs that are started.
    Spawn,
    /// SSH below SFTP.
    Ssh,
    /// Reading and writing at endpoints.
    Storage,
    /// Files as sessions see them.
    Vfs,
}

impl LogSubject {
    /// The word in requests, events and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            LogSubject::All => "all",
            LogSubject::Admin => "admin",
            LogSubject::Auth => "auth",
            LogSubject::Db => "db",
            LogSubject::Engine => "engine",
            LogSubject::Ftp => "ftp",
            LogSubject::Journal => "journal",
            LogSubject::Net => "net",
            LogSubject::Server => "server",
            LogSubject::Sftp => "sftp",
            LogSubject::Spawn => "spawn",
            LogSubject::Ssh => "ssh",
            LogSubject::Storage => "storage",
            LogSubject::Vfs => "vfs",
        }
    }
}

impl fmt::Display for LogSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// From what weight on something is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Not even errors.
    Off,
    /// What failed and needs a person.
    Error,
    /// What may need one.
    Warn,
    /// What an operator may want to see each day.
    Info,
    /// What helps to understand one session or job.
    Debug,
    /// Each step of a protocol, which may be very much.
    Trace,
}

impl LogLevel {
    /// The word in requests, events and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            LogLevel::Off => "off",
            LogLevel::Error => "error",
            LogLevel::Warn => "warn",
            LogLevel::Info => "info",
            LogLevel::Debug => "debug",
            LogLevel::Trace => "trace",
        }
    }
}

/// What differs from the process file.
pub type LogLevels = BTreeMap<LogSubject, LogLevel>;

/// As `subject=level`, in the order of subjects.
pub(crate) fn words(levels: &LogLevels) -> Vec<String> {
    levels.iter().map(|(subject, level)| format!("{subject}={}", level.as_str())).collect()
}
