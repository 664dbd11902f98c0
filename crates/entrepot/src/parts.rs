//! The parts of a node that every command which works on the state needs: master key, database,
//! journal. Only one process of a node may hold them.
//!
//! The server and `entrepot migrate` bring old tables up to date and cut off a torn end of the
//! journal. No other command does: it refuses, and changes nothing.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use entrepot_admin::{Admin, AdminParts, RefusedPasswords, RuleCritics, RuleDryRunner};
use entrepot_auth::Directory;
use entrepot_crypto::HashCost;
use entrepot_crypto::seal::MasterKey;
use entrepot_db::{Db, DbError, DbOptions, Incarnation, NodeIdentity, OldTables};
use entrepot_engine::DryRunner;
use entrepot_journal::{Journal, JournalError, Options, Recorder, Recovered, TornEnd};
use entrepot_nouns::{EndpointTarget, Env, FieldError};
use entrepot_spawn::Allowed;
use entrepot_storage::OwnFiles;

use crate::config::{Config, MasterKeySource};
use crate::failure::{Exit, Failure};
use crate::local_copy::{CopyError, KeptState, LocalCopy};
use crate::owner;

/// Master key, database, journal.
pub(crate) struct Parts {
    pub(crate) env: Env,
    pub(crate) master: MasterKey,
    pub(crate) db: Db,
    pub(crate) recorder: Recorder,
    pub(crate) recovered: Recovered,
    /// What the node serves from, if the database is away.
    pub(crate) away: Option<KeptState>,
    /// Programs that this node starts.
    allowed: Allowed,
    own_files: OwnFiles,
    /// Passwords that nobody may set.
    refused_passwords: Option<PathBuf>,
    hash_cost: HashCost,
}

/// What opening may change of a state that an older program, or a crash, left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// Old tables are brought up to date and a torn end of the journal is cut off.
    MayMend,
    /// Either is an error, and nothing is changed.
    MustBeSound,
}

/// What there is without the database.
struct LocalParts {
    env: Env,
    master: MasterKey,
    journal: Journal,
    recovered: Recovered,
}

impl LocalParts {
    fn open(config: &Config, opening: Opening, master: MasterKey) -> Result<LocalParts, Failure> {
        let env = Env::real();
        if !config.data.is_dir() {
            return Err(Failure::config(format!(
                "the data directory '{}' does not exist; make it with 'entrepot init'",
                config.data.display()
            )));
        }
        let torn_end = match opening {
            Opening::MayMend => TornEnd::SetAside,
            Opening::MustBeSound => TornEnd::Refuse,
        };
        let limit_bytes = config.journal_limit_bytes;
        let options = Options { limit_bytes, torn_end, ..Options::default() };
        let (journal, recovered) =
            Journal::open(&config.journal(), &config.node, env.clone(), options)
                .map_err(journal_failure)?;
        Ok(LocalParts { env, master, journal, recovered })
    }

    fn with(self, config: &Config, db: Db) -> Parts {
        let LocalParts { env, master, journal, recovered } = self;
        Parts {
            recorder: Recorder::new(journal, env.clone(), config.node.clone()),
            env,
            master,
            db,
            recovered,
            away: None,
            allowed: config.exec.allowed.clone(),
            own_files: config.kept_from_endpoints(),
            refused_passwords: config.refused_passwords.clone(),
            hash_cost: config.hash_cost,
        }
    }
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
        if opening == Opening::MustBeSound {
            owner::refuse_root(&config.data)?;
            // Before the journal is opened, which notes that it was.
            refuse_old_tables(&config.database).await?;
        }
        let local = LocalParts::open(config, opening, master)?;
        let old_tables = match opening {
            Opening::MayMend => OldTables::Update,
            Opening::MustBeSound => OldTables::MakeOnly,
        };
        let options = DbOptions { old_tables, ..DbOptions::default() };
        let db = Db::open(&config.database, options).await.map_err(db_failure)?;
        let parts = local.with(config, db);
        parts.check_end().await?;
        Ok(parts)
    }

    /// The same for a server. While PostgreSQL is away, the node's copy of the configuration stands
    /// in for it, if there is one.
    pub(crate) async fn open_to_serve(config: &Config) -> Result<Parts, Failure> {
        let local = LocalParts::open(config, Opening::MayMend, master_key(&config.master_key)?)?;
        let away = match Db::open(&config.database, DbOptions::default()).await {
            Ok(db) => {
                let parts = local.with(config, db);
                parts.check_end().await?;
                return Ok(parts);
            }
            Err(error) if error.is_unavailable() && is_remote(&config.database) => error,
            Err(error) => return Err(db_failure(error)),
        };
        let copy = LocalCopy::new(&config.data, local.master.clone());
        let kept = copy.read_to_serve(local.journal.node_id(), local.env.now());
        let kept = kept.map_err(|error| match error {
            CopyError::Missing => {
                Failure::new(away.code(), Exit::Unavailable, format!("{away}; {error}"))
            }
            error => Failure::new("EP0720", Exit::Unavailable, format!("{away}; {error}")),
        })?;
        let (end, wanted) = (local.recovered.last_sequence, kept.journal_end);
        if end < wanted {
            let why = format!(
                "{away}; the journal ends at record {end} and had {wanted}: it was cut or \
                 replaced, and only the database tells how it goes on"
            );
            return Err(Failure::new("EP0720", Exit::Unavailable, why));
        }
        let db = Db::open_later(&config.database, DbOptions::default()).map_err(db_failure)?;
        db.answer_from(kept.configuration.clone()).map_err(db_failure)?;
        let mut parts = local.with(config, db);
        if let Some(slot) = kept.slot {
            parts.recorder.set_slot(slot);
        }
        let (revision, copied_at) = (kept.configuration.revision, kept.written_at);
        tracing::warn!(
            code = "EP0722",
            revision,
            %copied_at,
            error = %away,
            "the database is away: served from the node's copy of the configuration"
        );
        parts.away = Some(kept);
        Ok(parts)
    }

    /// Compares the end of the journal with what the database knows of it.
    async fn check_end(&self) -> Result<(), Failure> {
        let checked = entrepot_proof::check_end(&self.db, &self.recorder).await;
        checked.map_err(|error| Failure::new(error.code(), Exit::Failed, error.to_string()))
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
        .with_hash_cost(self.hash_cost)
        .with_refused_passwords(self.refused_passwords.clone().map(refused_passwords))
        .with_rule_check(entrepot_engine::check_rule)
        .with_rule_explainer(entrepot_engine::explain)
        .with_rule_critics(RuleCritics {
            test: entrepot_engine::test_rule,
            lint: entrepot_engine::lint,
            replayed: entrepot_engine::replayed_job,
        })
        .with_rule_dry_runner(dry_runner(self.dry_runner()))
        .with_listener_check(crate::listeners::tls::check)
        .with_endpoint_check({
            let own_files = self.own_files.clone();
            Arc::new(move |endpoint| {
                match (own_files.why_not(&endpoint.target), &endpoint.target) {
                    (Some(problem), _) => Err(FieldError::new("target", problem)),
                    (None, EndpointTarget::Tn3270(host)) => entrepot_host::check_target(host),
                    (None, _) => Ok(()),
                }
            })
        })
        .with_model_check(entrepot_host::check_model)
        .with_program_check({
            let allowed = self.allowed.clone();
            Arc::new(move |program| allowed.check(program).map_err(|error| error.to_string()))
        })
    }

    /// What says what rules would do; it looks at no files.
    pub(crate) fn dry_runner(&self) -> DryRunner {
        DryRunner::new(self.db.clone(), self.env.clone(), self.allowed.clone())
    }

    /// What counts a start of this node.
    pub(crate) fn node_start(&self) -> NodeStart {
        NodeStart { db: self.db.clone(), recorder: self.recorder.clone() }
    }

    /// Makes the journal's tail durable and lets go of it.
    pub(crate) async fn close(self) -> Result<(), Failure> {
        let closed = self.recorder.journal().close().await;
        closed.map_err(|error| Failure::new(error.code(), Exit::Failed, error.to_string()))
    }
}

/// As the administration asks for it.
pub(crate) fn dry_runner(runner: DryRunner) -> RuleDryRunner {
    Arc::new(move |subject| {
        let runner = runner.clone();
        Box::pin(async move { runner.run(subject).await.map_err(|error| error.to_string()) })
    })
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

/// Counts starts of this node in the database.
pub(crate) struct NodeStart {
    pub(crate) db: Db,
    pub(crate) recorder: Recorder,
}

impl NodeStart {
    /// Counts a start of this node, which has joined before.
    pub(crate) async fn count(&self) -> Result<Incarnation, Failure> {
        let node = NodeIdentity {
            id: self.recorder.node_id(),
            name: self.recorder.node().clone(),
            program: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let started = self.db.start_node(&node, 0).await.map_err(db_failure)?;
        let removed = || Failure::start("this node was removed while it started");
        let started = started.ok_or_else(removed)?;
        if let Some(slot) = started.slot {
            self.recorder.set_slot(slot);
        }
        Ok(started)
    }
}

/// True of a database on another machine, or one that may be there without this process.
fn is_remote(url: &str) -> bool {
    !url.starts_with("sqlite:")
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
