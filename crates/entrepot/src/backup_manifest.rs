//! The manifest of a backup: what it is of, and the size and digest of each of its parts.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use entrepot_crypto::digest::{Sha256, StreamDigest};
use entrepot_nouns::{Name, NodeId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::failure::{Exit, Failure};

/// Its name in the folder of the backup. It is written last: a folder without it is no backup.
pub(crate) const MANIFEST: &str = "manifest.json";
/// The copy of a SQLite database.
pub(crate) const DATABASE: &str = "entrepot.db";
/// The configuration as documents, where the database is PostgreSQL.
pub(crate) const CONFIGURATION: &str = "configuration";
/// The copy of the journal's folder.
pub(crate) const JOURNAL: &str = "journal";
/// The process file.
pub(crate) const PROCESS_FILE: &str = "entrepot.toml";
/// The master key, where that was asked for.
pub(crate) const MASTER_KEY: &str = "master.key";
/// The list of published files, a JSON object a line.
pub(crate) const FILES: &str = "files.jsonl";

/// The only version of the format.
const FORMAT: u32 = 1;
/// Most bytes of a manifest that is read.
const MANIFEST_BYTES: u64 = 256 << 20;
/// Bytes that are read at a time.
const READ_BYTES: usize = 1 << 20;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub(crate) format: u32,
    pub(crate) made_at: Timestamp,
    /// Version of the program that made it.
    pub(crate) program: String,
    pub(crate) node: Name,
    pub(crate) node_id: NodeId,
    /// `sqlite` or `postgres`: of the latter it holds no copy.
    pub(crate) database: String,
    /// Names the master key that opens the secrets; tells nothing of it.
    pub(crate) master_key_id: String,
    /// The data folder of the node.
    pub(crate) data: PathBuf,
    pub(crate) journal: JournalEnd,
    /// How far the journal of each node was in the database.
    pub(crate) nodes: Vec<NodePosition>,
    pub(crate) files: FileCounts,
    pub(crate) parts: Vec<Part>,
}

/// Where the copied journal ends.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct JournalEnd {
    /// Its last record.
    pub(crate) records: u64,
    /// The chain hash of that record.
    pub(crate) chain: String,
    /// Verifying the copy found nothing wrong.
    pub(crate) intact: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct NodePosition {
    pub(crate) name: Name,
    pub(crate) projected_up_to: u64,
}

/// What the list of published files holds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct FileCounts {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    /// Files and folders that could not be read, and so are not listed.
    pub(crate) unreadable: u64,
    /// The list has digests.
    pub(crate) digests: bool,
}

/// One file of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Part {
    /// Below the folder of the backup.
    pub(crate) path: String,
    pub(crate) size: u64,
    pub(crate) blake3: String,
}

impl Manifest {
    pub(crate) fn new_format() -> u32 {
        FORMAT
    }

    /// Reads the manifest of the backup in `folder`; its parts are not looked at.
    pub(crate) fn read(folder: &Path) -> Result<Manifest, Failure> {
        let path = folder.join(MANIFEST);
        let mut text = String::new();
        let opened =
            File::open(&path).and_then(|file| file.take(MANIFEST_BYTES).read_to_string(&mut text));
        match opened {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let folder = folder.display();
                let why = format!("'{folder}' is no backup, or one that was not finished");
                return Err(damaged(format!("{why}: it has no {MANIFEST}")));
            }
            Err(error) => {
                return Err(damaged(format!("cannot read '{}': {error}", path.display())));
            }
        }
        let manifest: Manifest = serde_json::from_str(&text)
            .map_err(|error| damaged(format!("'{}': {error}", path.display())))?;
        if manifest.format != FORMAT {
            let why = format!("a newer program made this backup ({})", manifest.program);
            return Err(damaged(why));
        }
        let escapes = |part: &&Part| {
            Path::new(&part.path)
                .components()
                .any(|it| !matches!(it, std::path::Component::Normal(_)))
        };
        if let Some(part) = manifest.parts.iter().find(escapes) {
            return Err(damaged(format!("'{}' is no name of a part", part.path)));
        }
        Ok(manifest)
    }

    /// Compares every part with its digest.
    ///
    /// # Errors
    /// The first that is missing or another one.
    pub(crate) fn verify(&self, folder: &Path) -> Result<(), Failure> {
        self.parts.iter().try_for_each(|part| part.verify(folder))
    }
}

impl Part {
    /// The part that lies at `path` below `folder`.
    pub(crate) fn of(folder: &Path, path: &str) -> Result<Part, Failure> {
        let (size, blake3) = digest_of(&folder.join(path))?;
        Ok(Part { path: path.to_owned(), size, blake3 })
    }

    /// Compares it with its digest.
    pub(crate) fn verify(&self, folder: &Path) -> Result<(), Failure> {
        let found = Part::of(folder, &self.path)?;
        if found == *self {
            return Ok(());
        }
        Err(damaged(format!("'{}' is not as it was when the backup was made", self.path)))
    }
}

/// Size and BLAKE3 of a file.
fn digest_of(path: &Path) -> Result<(u64, String), Failure> {
    let cannot = |error| damaged(format!("cannot read '{}': {error}", path.display()));
    let mut file = File::open(path).map_err(cannot)?;
    let mut digest = StreamDigest::new(Sha256::Unwanted);
    let mut buffer = vec![0; READ_BYTES];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => digest.update(buffer.get(..read).unwrap_or_default()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(cannot(error)),
        }
    }
    Ok((digest.length(), blake3_of(&digest)))
}

/// BLAKE3 of what was fed, in hexadecimal.
pub(crate) fn blake3_of(digest: &StreamDigest) -> String {
    digest.finish().blake3.map(|it| entrepot_nouns::transfer::hex(&it)).unwrap_or_default()
}

/// The backup cannot be used as it is.
pub(crate) fn damaged(why: impl Into<String>) -> Failure {
    Failure::new("EP0293", Exit::Invalid, why)
}
