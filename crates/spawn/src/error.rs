//! Why a program was not run.

/// Why a program did not run to its end, or perhaps not at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpawnError {
    /// The operator of the machine did not allow it.
    #[error("the program '{0}' is not allowed: list it in the process file under [exec] allow")]
    NotAllowed(String),
    /// As many programs run and wait as may, or this one waited too long.
    #[error("too many programs run or wait, it was not started")]
    Busy,
    /// The system does not start it: it does not exist, is not executable, or has too long
    /// arguments.
    #[error("'{program}' cannot be started: {why}")]
    NotStarted {
        /// The path of the program.
        program: String,
        /// The message of the system.
        why: String,
    },
    /// No helper can be started.
    #[error("the helper that starts programs cannot be had: {0}")]
    Unavailable(String),
    /// The helper died meanwhile: the program may have run or not.
    #[error("the helper that starts programs died, it is not known how the program ended")]
    Lost,
}

impl SpawnError {
    /// Its code in the error catalogue.
    pub fn code(&self) -> &'static str {
        match self {
            SpawnError::NotAllowed(_) => "EP0820",
            SpawnError::Busy => "EP0821",
            SpawnError::Unavailable(_) | SpawnError::Lost => "EP0822",
            SpawnError::NotStarted { .. } => "EP0823",
        }
    }
}
