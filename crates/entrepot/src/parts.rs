//! The parts of a node that every command which works on the state needs: master key, database,
//! journal. Only one process of a node may hold them.
//!
//! The server and `entrepot migrate` bring old tables up to date and cut off a torn end of the
//! journal. No other command does: it refuses, and changes nothing.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use entrepot_admin::{Admin, AdminParts, RefusedPasswords};
use entrepot_auth::Directory;
use entrepot_crypto::seal::MasterKey;
use entrepot_db::{Db, DbError, DbOptions, Incarnation, NodeIdentity, OldTables};
use entrepot_journal::{Journal, JournalError, Options, Recorder, Recovered, TornEnd};
use entrepot_nouns::Env;
use entrepot_spawn::Allowed;

use crate::config::{Config, MasterKeySource};
use crate::failure::{Exit, Failure};
use crate::owner;

/// Master key, database, journal.
pub(crate) struct Parts {
    pub(crate) env: Env,
    pub(crate) master: MasterKey,
    pub(crate) db: Db,
    pub(crate) recorder: Recorder,
    pub(crate) recovered: Recovered,
    /// Programs that this node starts.
    allowed: Allowed,
    /// Passwords that nobody may set.
    refused_passwords: Option<PathBuf>,
}

/// What opening may change of a state that an older program, or a crash, left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// Old tables are brought up to date and a torn end of the journal is cut off.
    MayMend,
    /// Either is an error, and nothing is changed.
    MustBeSound,
}

impl Parts {
    /// Opens all of them.
    pub(crate) async fn open(config: &Config, opening: Opening) -> Result<Parts, Failure> {
        Parts::open_under(config, opening, master_key(&config.master_key)?).await
    }

    /// Opens all of them with this master key.
    pub(crate) async fn open_under(
        config: &Config,
        opening: Opening,
        master: MasterKey,
    ) -> Result<Parts, Failure> {
        let env = Env::real();
        if !config.data.is_dir() {
            return Err(Failure::config(format!(
                "the data directory '{}' does not exist; make it with 'entrepot init'",
                config.data.display()
            )));
        }
        let (torn_end, old_tables) = match opening {
            Opening::MayMend => (TornEnd::SetAside, OldTables::Update),
            Opening::MustBeSound => {
                owner::refuse_root(&config.data)?;
                // Before the journal is opened, which notes that it was.
                refuse_old_tables(&config.database).await?;
                (TornEnd::Refuse, OldTables::MakeOnly)
            }
        };
        let limit_bytes = config.journal_limit_bytes;
        let options = Options { limit_bytes, torn_end, ..Options::default() };
        let (journal, recovered) =
            Journal::open(&config.journal(), &config.node, env.clone(), options)
                .map_err(journal_failure)?;
        let options = DbOptions { old_tables, ..DbOptions::default() };
        let db = Db::open(&config.database, options).await.map_err(db_failure)?;
        let recorder = Recorder::new(journal, env.clone(), config.node.clone());
        entrepot_proof::check_end(&db, &recorder)
            .await
            .map_err(|error| Failure::new(error.code(), Exit::Failed, error.to_string()))?;
        let allowed = config.exec.allowed.clone();
        let refused_passwords = config.refused_passwords.clone();
        Ok(Parts { env, master, db, recorder, recovered, allowed, refused_passwords })
    }

    /// The administration over these parts.
    pub(crate) fn admin(&self, directory: Option<Directory>) -> Admin {
        Admin::new(AdminParts {
            db: self.db.clone(),
            master: self.master.clone(),
            recorder: self.recorder.clone(),
            directory,
            env: self.env.clone(),
        })
        .with_refused_passwords(self.refused_passwords.clone().map(refused_passwords))
        .with_rule_check(entrepot_engine::check_rule)
        .with_listener_check(crate::listeners::tls::check)
        .with_program_check({
            let allowed = self.allowed.clone();
            Arc::new(move |program| allowed.check(program).map_err(|error| error.to_string()))
        })
    }

    /// Counts a start of this node, which has joined before.
    pub(crate) async fn start_node(&self) -> Result<Incarnation, Failure> {
        let node = NodeIdentity {
            id: self.recorder.node_id(),
            name: self.recorder.node().clone(),
            program: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let started = self.db.start_node(&node, 0).await;
        let started = started
            .map_err(|error| Failure::new(error.code(), Exit::Unavailable, error.to_string()))?;
        let removed = || Failure::start("this node was removed while it started");
        let started = started.ok_or_else(removed)?;
        if let Some(slot) = started.slot {
            self.recorder.set_slot(slot);
        }
        Ok(started)
    }

    /// Makes the journal's tail durable and lets go of it.
    pub(crate) async fn close(self) -> Result<(), Failure> {
        let closed = self.recorder.journal().close().await;
        closed.map_err(|error| Failure::new(error.code(), Exit::Failed, error.to_string()))
    }
}

/// An error if the tables are older than this program; an empty database is not.
async fn refuse_old_tables(url: &str) -> Result<(), Failure> {
    let state = Db::look(url).await.map_err(db_failure)?;
    if state.found == 0 || state.missing.is_empty() {
        return Ok(());
    }
    Err(db_failure(DbError::Outdated { found: state.found, known: state.known }))
}

/// The database cannot be opened.
pub(crate) fn db_failure(error: DbError) -> Failure {
    let exit = match error {
        DbError::Outdated { .. } => Exit::Outdated,
        _ => Exit::Unavailable,
    };
    Failure::new(error.code(), exit, error.to_string())
}

/// The journal cannot be opened.
pub(crate) fn journal_failure(error: JournalError) -> Failure {
    let exit = match error {
        JournalError::Torn { .. } => Exit::Outdated,
        _ => Exit::Failed,
    };
    Failure::new(error.code(), exit, error.to_string())
}

fn refused_passwords(file: PathBuf) -> RefusedPasswords {
    let name = file.display().to_string();
    let open = move || {
        let lines = BufReader::new(File::open(&file)?);
        Ok(Box::new(lines) as Box<dyn BufRead>)
    };
    RefusedPasswords { name, open: Arc::new(open) }
}

/// Where a rotation of the master key in `path` keeps the new one until it takes its place.
pub(crate) fn key_beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    path.with_file_name(name)
}

/// Reads the master key; never makes one.
pub(crate) fn master_key(source: &MasterKeySource) -> Result<MasterKey, Failure> {
    if let MasterKeySource::File(path) = source
        && key_beside(path).exists()
    {
        let why = format!(
            "a rotation of the master key '{}' was cut: some secrets may be sealed under the new \
             one; run 'entrepot secrets rotate', which ends it",
            path.display()
        );
        return Err(Failure::new("EP0908", Exit::Failed, why));
    }
    let key = match source {
        MasterKeySource::File(path) => MasterKey::from_file(path),
        MasterKeySource::Environment(name) => MasterKey::from_env(name),
    };
    key.map_err(|error| Failure::config(format!("master key: {error}")))
}

/// Makes a folder that only its owner may enter.
pub(crate) fn private_folder(path: &Path) -> Result<(), Failure> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|error| Failure::file(format!("cannot make '{}': {error}", path.display())))
}
