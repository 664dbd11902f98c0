//! What can go wrong with a database.

/// Result of this crate.
pub type Result<T> = std::result::Result<T, DbError>;

/// An operation on the database failed. Nothing of a failed transaction is kept, with one
/// exception that no database avoids: when the connection is lost during a commit
/// ([`DbError::Unavailable`]), the commit may or may not have happened. Every operation that is
/// repeated automatically is therefore written so that a repetition changes nothing.
#[derive(Debug, thiserror::Error)]
pub enum DbError {
    /// The database cannot be reached, is full, busy or shutting down: try again later.
    #[error("the database is not available ({0}); try again once it is back")]
    Unavailable(String),
    /// A copy of the configuration answers for the database, which is away.
    #[error(
        "the database is away and this node serves from its copy of the configuration, which \
         nobody can change; try again once the database is back"
    )]
    Copied,
    /// The change contradicts what is stored: a name that is taken, a row still referred to.
    #[error("the change conflicts with what the database holds: {0}")]
    Conflict(String),
    /// A stored row cannot be read back.
    #[error(
        "the database holds a row that cannot be read: {0}; restore it from a backup or repair \
         it with the program version that wrote it"
    )]
    Corrupt(String),
    /// A statement was refused: a fault of this program or a foreign change of the tables.
    #[error("the database refused a statement: {0}; please report this")]
    Sql(String),
    /// The database URL or what it points to cannot be used.
    #[error("the database cannot be opened: {0}")]
    Setup(String),
    /// The tables are not those of this program version.
    #[error("the database schema does not fit this program: {0}")]
    Schema(String),
    /// The tables are older than this program and were not to be changed, see [`crate::OldTables`].
    #[error(
        "the database has tables of version {found}, this program works with version {known}; \
         nothing was changed; run 'entrepot migrate', or start the server"
    )]
    Outdated {
        /// The newest step that the tables have; 0: there are none.
        found: i64,
        /// The newest one that this program knows.
        known: i64,
    },
    /// The server is configured to lose commits.
    #[error(
        "the database server would lose acknowledged records at a power cut: '{setting}' is \
         '{value}'; set it to 'on' in postgresql.conf"
    )]
    NotDurable {
        /// The server's setting.
        setting: &'static str,
        /// What it is set to.
        value: String,
    },
}

impl DbError {
    /// The code of the error page, `docs/errors/EPnnnn.md`.
    pub fn code(&self) -> &'static str {
        match self {
            DbError::Unavailable(_) => "EP0701",
            DbError::Copied => "EP0719",
            DbError::Conflict(_) => "EP0702",
            DbError::Corrupt(_) => "EP0703",
            DbError::Sql(_) => "EP0704",
            DbError::Setup(_) => "EP0705",
            DbError::Schema(_) => "EP0706",
            DbError::Outdated { .. } => "EP0290",
            DbError::NotDurable { .. } => "EP0707",
        }
    }

    /// True if the same call may succeed later without anybody changing anything in it.
    pub fn is_unavailable(&self) -> bool {
        matches!(self, DbError::Unavailable(_) | DbError::Copied)
    }
}
