//! `backup`: copies what a node needs to go on elsewhere into a new folder, while it runs or not.
//!
//! The database comes first, then the journal: so the copied journal has all that the copied
//! database has of it, and what it has besides is projected at the start behind a restore.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use entrepot_admin::{BackupNote, Problem, Request, Response, explained};
use entrepot_db::{Db, DbOptions, OldTables};
use entrepot_nouns::Name;
use serde_json::{Value, json};

use crate::args::BackupArgs;
use crate::ask::{actor_of, ask, problem, server_answers};
use crate::backup_manifest::{
    CONFIGURATION, DATABASE, FILES, FileCounts, JOURNAL, JournalEnd, MANIFEST, MASTER_KEY,
    Manifest, NodePosition, PROCESS_FILE, Part,
};
use crate::config::Config;
use crate::failure::{Exit, Failure};
use crate::output::{Output, unexpected};
use crate::parts::{self, Opening, Parts, db_failure, journal_failure, private_folder};
use crate::process_file::write_new;
use crate::published::{Contents, Published};

/// Makes the backup and prints what is in it.
pub(crate) async fn run(config: &Config, output: Output, args: &BackupArgs) -> Result<(), Failure> {
    let source = Source::open(config).await?;
    let made = make(config, &source, args).await;
    let made = match made {
        Ok(made) => {
            let note = Request::NoteBackup { backup: made.note.clone() };
            source.request(config, None, json!(note)).await.map(|_| made)
        }
        Err(failure) => Err(failure),
    };
    source.close().await?;
    let Made { manifest, note } = made?;
    let value = json!({"folder": args.folder, "manifest": manifest, "blake3": note.manifest});
    output.value(&value, || print(args, &manifest, &note))?;
    if args.with_master_key {
        eprintln!(
            "WARNING: '{}' holds the master key: whoever can read it can read every secret of the \
             database. Keep it as you keep the key itself",
            args.folder.display()
        );
    }
    if manifest.journal.intact && manifest.files.unreadable == 0 {
        return Ok(());
    }
    let why = "the backup was made, but not all of what it is of is whole: see above";
    Err(Failure::new("EP0294", Exit::Findings, why))
}

fn print(args: &BackupArgs, manifest: &Manifest, note: &BackupNote) {
    let files = &manifest.files;
    println!("backup of node '{}' in {}", manifest.node, args.folder.display());
    match manifest.database.as_str() {
        "sqlite" => println!("database  a copy of the SQLite file"),
        _ => println!("database  PostgreSQL: configuration only; use pg_dump for the rest"),
    }
    let broken = if manifest.journal.intact { "" } else { "; its chain is BROKEN" };
    println!("journal   {} records{broken}", manifest.journal.records);
    let digests = if files.digests { "" } else { ", without digests" };
    println!("files     {} listed, {}{digests}", files.files, crate::table::bytes(files.bytes));
    if files.unreadable > 0 {
        println!("          {} could NOT be read", files.unreadable);
    }
    let key = if note.with_master_key { "in the backup" } else { "not in the backup: keep it" };
    println!("key       {}, {key}", manifest.master_key_id);
    println!("manifest  blake3 {}", note.manifest);
}

/// A running server, or the parts of a stopped node, which nobody can start meanwhile.
enum Source {
    Server(Db),
    Stopped(Box<Parts>),
}

impl Source {
    async fn open(config: &Config) -> Result<Source, Failure> {
        if server_answers(config).await? {
            let options = DbOptions { old_tables: OldTables::Refuse, ..DbOptions::default() };
            return Ok(Source::Server(
                Db::open(&config.database, options).await.map_err(db_failure)?,
            ));
        }
        let parts = Parts::open(config, Opening::MustBeSound).await?;
        let joined = parts.admin(None).join().await;
        joined.map_err(|error| problem(Problem::from(error)))?;
        Ok(Source::Stopped(Box::new(parts)))
    }

    fn db(&self) -> &Db {
        match self {
            Source::Server(db) => db,
            Source::Stopped(parts) => &parts.db,
        }
    }

    async fn request(
        &self,
        config: &Config,
        site: Option<&Name>,
        request: Value,
    ) -> Result<Response, Failure> {
        let parts = match self {
            Source::Server(_) => {
                let config = Config { site: site.cloned(), ..config.clone() };
                return ask(&config, request).await;
            }
            Source::Stopped(parts) => parts,
        };
        let request: Request = serde_json::from_value(request)
            .map_err(|error| Failure::usage(explained(&error.to_string())))?;
        let admin = parts.admin(None);
        let actor = actor_of(rustix::process::getuid().as_raw());
        let answer = match admin.at_site(actor, site).await {
            Ok(actor) => admin.handle(&actor, request).await,
            Err(error) => Err(error),
        };
        answer.map_err(|error| problem(Problem::from(error)))
    }

    async fn close(self) -> Result<(), Failure> {
        match self {
            Source::Server(_) => Ok(()),
            Source::Stopped(parts) => parts.close().await,
        }
    }
}

/// A backup, and what is recorded of it.
struct Made {
    manifest: Manifest,
    note: BackupNote,
}

async fn make(config: &Config, source: &Source, args: &BackupArgs) -> Result<Made, Failure> {
    let folder = &new_folder(&args.folder)?;
    let env = entrepot_nouns::Env::real();
    let master = parts::master_key(&config.master_key)?;
    let mut parts = vec![copy_process_file(config, folder)?];
    let db = source.db();
    // Of the database's time or later: it is never ahead of the journal.
    let nodes = db.nodes().await.map_err(db_failure)?;
    let own = nodes.iter().find(|node| node.name == config.node);
    let own = own.ok_or_else(|| Failure::start("this node is not in its database"))?.id;
    let database = folder.join(DATABASE);
    if db.copy_to(&database).await.map_err(db_failure)? {
        parts.push(Part::of(folder, DATABASE)?);
    } else {
        parts.extend(export(config, source, folder).await?);
    }
    let journal = copy_journal(config, folder, &mut parts)?;
    if args.with_master_key {
        write_new(&folder.join(MASTER_KEY), 0o600, master.to_text().expose())?;
        parts.push(Part::of(folder, MASTER_KEY)?);
    }
    let files = list_files(config, db, folder, args).await?;
    parts.push(Part::of(folder, FILES)?);
    let position = |node: &entrepot_db::Node| NodePosition {
        name: node.name.clone(),
        projected_up_to: node.projected_up_to,
    };
    let manifest = Manifest {
        format: Manifest::new_format(),
        made_at: env.now(),
        program: env!("CARGO_PKG_VERSION").to_owned(),
        node: config.node.clone(),
        node_id: own,
        database: db.dialect().to_string(),
        master_key_id: master.id(),
        data: config.data.clone(),
        journal,
        nodes: nodes.iter().map(position).collect(),
        files,
        parts,
    };
    let text = serde_json::to_vec_pretty(&manifest)
        .map_err(|error| Failure::file(format!("the manifest has no JSON form: {error}")))?;
    write_new(&folder.join(MANIFEST), 0o600, &text)?;
    sync_folder(folder)?;
    let note = BackupNote {
        folder: folder.display().to_string(),
        manifest: Part::of(folder, MANIFEST)?.blake3,
        records: manifest.journal.records,
        files: manifest.files.files,
        with_master_key: args.with_master_key,
    };
    Ok(Made { manifest, note })
}

/// The folder of the backup, empty; its absolute path.
fn new_folder(folder: &Path) -> Result<PathBuf, Failure> {
    private_folder(folder)?;
    let cannot = |error: std::io::Error| Failure::file(format!("'{}': {error}", folder.display()));
    if std::fs::read_dir(folder).map_err(cannot)?.next().is_some() {
        let why = format!("'{}' is not empty; name a new folder", folder.display());
        return Err(Failure::new("EP0295", Exit::Invalid, why));
    }
    std::path::absolute(folder).map_err(cannot)
}

fn copy_process_file(config: &Config, folder: &Path) -> Result<Part, Failure> {
    let text = std::fs::read(&config.file).map_err(|error| {
        Failure::file(format!("cannot read '{}': {error}", config.file.display()))
    })?;
    write_new(&folder.join(PROCESS_FILE), 0o600, &text)?;
    Part::of(folder, PROCESS_FILE)
}

/// Copies the journal and verifies the copy.
fn copy_journal(
    config: &Config,
    folder: &Path,
    parts: &mut Vec<Part>,
) -> Result<JournalEnd, Failure> {
    let to = folder.join(JOURNAL);
    let copied = entrepot_journal::copy(&config.journal(), &to).map_err(journal_failure)?;
    parts.extend(copied.into_iter().map(|file| Part {
        path: format!("{JOURNAL}/{}", file.name),
        size: file.size,
        blake3: entrepot_nouns::transfer::hex(&file.blake3),
    }));
    let report = entrepot_journal::verify(&to).map_err(journal_failure)?;
    // Verifying makes a lock where there is none.
    let _ = std::fs::remove_file(to.join("lock"));
    if !report.is_intact() {
        eprintln!("{report}");
    }
    let intact = report.is_intact();
    let head = report.head;
    Ok(JournalEnd {
        records: head.as_ref().map_or(0, |head| head.sequence),
        chain: head.map(|head| head.chain).unwrap_or_default(),
        intact,
    })
}

/// The configuration of each site as documents.
async fn export(config: &Config, source: &Source, folder: &Path) -> Result<Vec<Part>, Failure> {
    let mut parts = Vec::new();
    for site in source.db().sites().await.map_err(db_failure)? {
        let site = site.noun.name;
        let request = json!({"request": "export", "kinds": []});
        let answer = source.request(config, Some(&site), request).await?;
        let Response::Documents { documents } = answer else { return Err(unexpected()) };
        let below = format!("{CONFIGURATION}/{site}");
        private_folder(&folder.join(&below))?;
        for document in documents {
            let path = format!("{below}/{}", document.file);
            write_new(&folder.join(&path), 0o600, document.text.as_bytes())?;
            parts.push(Part::of(folder, &path)?);
        }
        sync_folder(&folder.join(&below))?;
    }
    Ok(parts)
}

async fn list_files(
    config: &Config,
    db: &Db,
    folder: &Path,
    args: &BackupArgs,
) -> Result<FileCounts, Failure> {
    let path = folder.join(FILES);
    let cannot = |error: std::io::Error| {
        Failure::file(format!("cannot write '{}': {error}", path.display()))
    };
    let mut options = std::fs::OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(&path).map_err(cannot)?;
    let mut list = BufWriter::new(file);
    let contents = if args.no_digests { Contents::NotRead } else { Contents::Digested };
    let counts = Published::open(config, db, &entrepot_nouns::Env::real())
        .await?
        .list(contents, &mut list)
        .await?;
    list.flush().map_err(cannot)?;
    list.get_ref().sync_all().map_err(cannot)?;
    Ok(counts)
}

/// Makes the names in a folder durable.
pub(crate) fn sync_folder(folder: &Path) -> Result<(), Failure> {
    File::open(folder)
        .and_then(|opened| opened.sync_all())
        .map_err(|error| Failure::file(format!("cannot sync '{}': {error}", folder.display())))
}
