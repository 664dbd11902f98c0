//! `restore`: puts a backup onto a machine that has no node yet, all or nothing; with `--check`
//! compares the published files of a node with the list of a backup.

use std::fs::{DirBuilder, File};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, chown};
use std::path::{Path, PathBuf};

use entrepot_crypto::MasterKey;
use entrepot_crypto::digest::{Sha256, StreamDigest};
use entrepot_db::{Db, DbOptions, OldTables};
use entrepot_nouns::Env;
use serde_json::json;

use crate::args::RestoreArgs;
use crate::backup::sync_folder;
use crate::backup_manifest::{
    DATABASE, FILES, JOURNAL, MASTER_KEY, Manifest, PROCESS_FILE, Part, blake3_of, damaged,
};
use crate::config::{Config, MasterKeySource};
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::parts::{db_failure, private_folder};
use crate::process_file::write_new;
use crate::published::{Contents, Difference, Published};

/// Bytes that are copied at a time.
const COPY_BYTES: usize = 1 << 20;

/// Compares, or restores.
pub(crate) async fn run(
    config: impl FnOnce() -> Result<Config, Failure>,
    output: Output,
    args: &RestoreArgs,
) -> Result<(), Failure> {
    if args.check {
        return check(&config()?, output, args).await;
    }
    let manifest = Manifest::read(&args.backup)?;
    manifest.verify(&args.backup)?;
    let place = Place::new(args)?;
    let master = master_key(args, &manifest)?;
    place.fill(&args.backup, &manifest, master.as_ref())?;
    let text = process_file(&args.backup, &args.data)?;
    place.write_process_file(&text)?;
    let config = Config::read(&place.process_file)?;
    let value = json!({"config": place.process_file, "data": place.data, "node": manifest.node,
                       "records": manifest.journal.records});
    output.value(&value, || next_steps(&place, &manifest, &config))
}

fn next_steps(place: &Place, manifest: &Manifest, config: &Config) {
    let Manifest { node, made_at, .. } = manifest;
    println!("restored node '{node}' as it was at {made_at}");
    println!("made {} and {}", place.process_file.display(), place.data.display());
    println!();
    println!("next:");
    if let MasterKeySource::File(path) = &config.master_key
        && !path.exists()
    {
        let (id, path) = (&manifest.master_key_id, path.display());
        println!("  put the master key {id} into {path}, mode 0600");
    }
    if manifest.database != "sqlite" {
        println!("  restore the PostgreSQL database, with pg_restore or from its own backup");
    }
    println!("  put the published files back, each endpoint into its folder");
    if place.data != manifest.data {
        let old = manifest.data.display();
        println!("  change endpoints whose folders lay in {old}:");
        println!("      entrepot endpoint change files target.directory.path=…");
    }
    println!("  entrepot serve");
    println!("  entrepot restore --check BACKUP     # which files are missing or not as they were");
}

/// The master key that the restored node is to have: the one of the backup, or the given one;
/// `None` if it has neither.
fn master_key(args: &RestoreArgs, manifest: &Manifest) -> Result<Option<MasterKey>, Failure> {
    let in_backup = manifest.parts.iter().any(|part| part.path == MASTER_KEY);
    let path = match &args.master_key {
        Some(path) => path.clone(),
        None if in_backup => args.backup.join(MASTER_KEY),
        None => return Ok(None),
    };
    let key = MasterKey::from_file(&path)
        .map_err(|error| Failure::config(format!("master key: {error}")))?;
    if key.id() != manifest.master_key_id {
        let (path, wanted) = (path.display(), &manifest.master_key_id);
        let why = format!("'{path}' is the master key {}, the backup needs {wanted}", key.id());
        return Err(Failure::new("EP0298", Exit::Invalid, why));
    }
    Ok(Some(key))
}

/// Where the node is to be.
struct Place {
    process_file: PathBuf,
    data: PathBuf,
    /// Whom an empty data folder that root found belongs to: the files are to be that user's.
    owner: Option<Owner>,
}

#[derive(Clone, Copy)]
struct Owner {
    uid: u32,
    gid: u32,
}

impl Place {
    /// Refuses a place where anything is.
    fn new(args: &RestoreArgs) -> Result<Place, Failure> {
        private_folder(&args.folder)?;
        let cannot =
            |error: std::io::Error| Failure::file(format!("'{}': {error}", args.folder.display()));
        let folder = std::path::absolute(&args.folder).map_err(cannot)?;
        let (process_file, data) = (folder.join("entrepot.toml"), folder.join(&args.data));
        let taken = |path: &Path| {
            let why = format!("there is something in '{}'; restore to a new place", path.display());
            Failure::new("EP0295", Exit::Invalid, why)
        };
        if process_file.exists() {
            return Err(taken(&process_file));
        }
        let mut owner = None;
        match std::fs::read_dir(&data) {
            Ok(mut entries) => {
                if entries.next().is_some() {
                    return Err(taken(&data));
                }
                let meta = std::fs::metadata(&data).map_err(cannot)?;
                let found = Owner { uid: meta.uid(), gid: meta.gid() };
                let is_root = rustix::process::geteuid().is_root();
                owner = (is_root && found.uid != 0).then_some(found);
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(_) => return Err(taken(&data)),
        }
        Ok(Place { process_file, data, owner })
    }

    /// Copies the parts beside the data folder, and gives them its name when all are there.
    fn fill(
        &self,
        backup: &Path,
        manifest: &Manifest,
        master: Option<&MasterKey>,
    ) -> Result<(), Failure> {
        let name = self.data.file_name().unwrap_or_default().to_string_lossy();
        let staging = self.data.with_file_name(format!(".{name}.restoring"));
        let cannot =
            |error: std::io::Error| Failure::file(format!("'{}': {error}", staging.display()));
        // What an interrupted restore left.
        match std::fs::remove_dir_all(&staging) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(cannot(error)),
            _ => {}
        }
        private_folder(&staging)?;
        let mut folders = vec![staging.clone()];
        let wanted =
            |part: &&Part| part.path == DATABASE || Path::new(&part.path).starts_with(JOURNAL);
        for part in manifest.parts.iter().filter(wanted) {
            let to = staging.join(&part.path);
            let folder = to.parent().unwrap_or(&staging).to_owned();
            if !folders.contains(&folder) {
                DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(cannot)?;
                folders.push(folder);
            }
            copy(part, backup, &to)?;
        }
        if let Some(master) = master {
            write_new(&staging.join(MASTER_KEY), 0o600, master.to_text().expose())?;
        }
        folders.iter().try_for_each(|folder| sync_folder(folder))?;
        if let Some(owner) = self.owner {
            give(&staging, owner).map_err(cannot)?;
        }
        std::fs::rename(&staging, &self.data).map_err(cannot)?;
        sync_folder(self.data.parent().unwrap_or(Path::new("/")))
    }

    fn write_process_file(&self, text: &str) -> Result<(), Failure> {
        // Root's own, and readable for the server, as a package has it.
        let mode = if self.owner.is_some() { 0o640 } else { 0o600 };
        write_new(&self.process_file, mode, text.as_bytes())?;
        let given = self.owner.map(|owner| chown(&self.process_file, None, Some(owner.gid)));
        given
            .transpose()
            .map(drop)
            .map_err(|error| Failure::file(format!("'{}': {error}", self.process_file.display())))
    }
}

/// Copies a part; its digest is compared with what was written.
fn copy(part: &Part, backup: &Path, to: &Path) -> Result<(), Failure> {
    let cannot = |error: std::io::Error| Failure::file(format!("'{}': {error}", part.path));
    let mut from = File::open(backup.join(&part.path)).map_err(cannot)?;
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(to).map_err(cannot)?;
    let mut digest = StreamDigest::new(Sha256::Unwanted);
    let mut buffer = vec![0; COPY_BYTES];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => {
                let bytes = buffer.get(..read).unwrap_or_default();
                digest.update(bytes);
                file.write_all(bytes).map_err(cannot)?;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(cannot(error)),
        }
    }
    file.sync_all().map_err(cannot)?;
    if blake3_of(&digest) == part.blake3 {
        return Ok(());
    }
    Err(damaged(format!("'{}' changed while it was restored", part.path)))
}

/// Gives a folder and what is in it to a user.
fn give(folder: &Path, owner: Owner) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            give(&entry.path(), owner)?;
        } else {
            chown(entry.path(), Some(owner.uid), Some(owner.gid))?;
        }
    }
    chown(folder, Some(owner.uid), Some(owner.gid))
}

/// The process file of the backup, as it must be where the data lies now: as it is, if the data lay
/// there before, seen from its folder.
fn process_file(backup: &Path, data: &Path) -> Result<String, Failure> {
    let path = backup.join(PROCESS_FILE);
    let text = std::fs::read_to_string(&path)
        .map_err(|error| damaged(format!("'{}': {error}", path.display())))?;
    let mut table: toml::Table =
        text.parse().map_err(|error| damaged(format!("'{}': {error}", path.display())))?;
    let before = table.clone();
    let said = |table: &toml::Table, key: &str| {
        table.get(key).and_then(toml::Value::as_str).unwrap_or_default().to_owned()
    };
    if said(&table, "data") != data.to_string_lossy() {
        table.insert("data".to_owned(), data.to_string_lossy().into_owned().into());
    }
    // A database file and a master key file lie in the data folder now.
    if said(&table, "database").starts_with("sqlite:") {
        table.insert("database".to_owned(), "sqlite".to_owned().into());
    }
    if said(&table, "master_key").starts_with("file:") {
        table.remove("master_key");
    }
    if table == before {
        return Ok(text);
    }
    Ok(format!("# Restored from a backup, which has the file with its comments.\n{table}"))
}

/// Compares the published files with the list of a backup and names each that differs.
async fn check(config: &Config, output: Output, args: &RestoreArgs) -> Result<(), Failure> {
    let manifest = Manifest::read(&args.backup)?;
    let list = manifest.parts.iter().find(|part| part.path == FILES);
    let list = list.ok_or_else(|| damaged("the backup has no list of files"))?;
    list.verify(&args.backup)?;
    let options = DbOptions { old_tables: OldTables::Refuse, ..DbOptions::default() };
    let db = Db::open(&config.database, options).await.map_err(db_failure)?;
    let published = Published::open(config, &db, &Env::real()).await?;
    let read = if args.no_digests { Contents::NotRead } else { Contents::Digested };
    let (mut missing, mut changed, mut surplus) = (0u64, 0u64, 0u64);
    let list = args.backup.join(FILES);
    let told = published.compare(&list, read, |found| {
        let (word, count) = match found.difference {
            Difference::Missing => ("missing", &mut missing),
            Difference::Changed => ("changed", &mut changed),
            Difference::Surplus => ("surplus", &mut surplus),
        };
        *count += 1;
        match output {
            Output::Json => println!("{}", json!(found)),
            Output::Human => {
                let path = crate::table::printable(found.path);
                println!("{word}  {}/{}  {path}", found.site, found.endpoint);
            }
        }
    });
    told.await?;
    let files = manifest.files.files;
    if missing + changed + surplus == 0 {
        if output == Output::Human {
            println!("{files} files are as they were at {}", manifest.made_at);
        }
        return Ok(());
    }
    let why =
        format!("of {files} files {missing} are missing, {changed} changed; {surplus} surplus");
    Err(Failure::new("EP0296", Exit::Findings, why))
}
