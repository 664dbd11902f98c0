//! `put`: each file goes up under a hidden name beside its target, and gets its name when the
//! server has all of it. What was cut goes on with `--resume`: the hidden name is the same as long
//! as local file and target are, and its last bytes are compared first.

use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use bytes::{Bytes, BytesMut};
use entrepot_crypto::{Sha256, StreamDigest};
use entrepot_nouns::transfer::hex;
use entrepot_nouns::{StorePath, Timestamp, TransferId};
use entrepot_storage::{EntryKind, Existing, Publish, StagedFile, StoreError};

use super::{Moved, PIECE_BYTES, Session, failed, local_failed, name_of};
use crate::args::PutArgs;
use crate::failure::Failure;
use crate::output::Output;

/// Bytes at the end of a part that are read back before it is gone on with.
const TAIL_BYTES: usize = 64 * 1024;

/// Sends files to the URL, and prints what was moved.
pub(crate) async fn run(output: Output, args: PutArgs) -> Result<(), Failure> {
    let mut session = Session::open(&args.to, &args.server).await?;
    let target = session.place.path.clone();
    let below = args.files.len() > 1 || session.place.is_directory || session.has(&target).await?;
    for file in &args.files {
        let target = if below { join(&target, &name_of(file)?)? } else { target.clone() };
        session.put(file, &target).await?;
    }
    session.tell(output)
}

fn join(path: &StorePath, name: &str) -> Result<StorePath, Failure> {
    path.join(name).map_err(|error| Failure::usage(error.to_string()))
}

impl Session {
    /// True for a directory of the server.
    async fn has(&self, path: &StorePath) -> Result<bool, Failure> {
        match self.store.stat(path).await {
            Ok(meta) => Ok(meta.kind == EntryKind::Directory),
            Err(StoreError::NotFound) => Ok(false),
            Err(error) => Err(failed(&self.url(path), &error)),
        }
    }

    /// A file, or a folder and what is in it.
    async fn put(&mut self, from: &Path, to: &StorePath) -> Result<(), Failure> {
        let mut open = VecDeque::from([(from.to_owned(), to.clone())]);
        while let Some((from, to)) = open.pop_front() {
            let meta = from.metadata().map_err(|error| local_failed(&from, &error))?;
            if meta.is_file() {
                self.put_file(&from, &to).await?;
            } else if meta.is_dir() && self.recursive {
                match self.store.make_directory(&to).await {
                    Ok(()) | Err(StoreError::Exists) => {}
                    Err(error) => return Err(failed(&self.url(&to), &error)),
                }
                open.extend(entries(&from, &to)?);
            } else {
                let why = "is no file; folders go with --recursive";
                return Err(Failure::file(format!("'{}' {why}", from.display())));
            }
        }
        Ok(())
    }

    async fn put_file(&mut self, from: &Path, to: &StorePath) -> Result<(), Failure> {
        let unreadable = |error: std::io::Error| local_failed(from, &error);
        let file = File::open(from).map_err(unreadable)?;
        let meta = file.metadata().map_err(unreadable)?;
        let url = self.url(to);
        let remote = |error: StoreError| failed(&url, &error);
        let id = part_id(from, &url, &meta)?;
        let (staged, at) = self.stage(id, to, &file).await.map_err(remote)?;
        self.begin(&from.display().to_string(), meta.len(), at);
        let sent = self.send(&*staged, &file, at).await;
        let published = match sent {
            Ok(size) if size == meta.len() => {
                let how = Publish {
                    existing: Existing::Replace,
                    accessed: Some(Timestamp::from_seconds(meta.atime())),
                    modified: Some(Timestamp::from_seconds(meta.mtime())),
                    mode: None,
                    size,
                };
                staged.publish(&how).await
            }
            Ok(_) => Err(StoreError::Io("the local file changed while it was sent".to_owned())),
            Err(error) => Err(error),
        };
        if let Err(error) = published {
            // What was cut is gone on with; what was refused must not stay.
            if !error.is_temporary() {
                let _ = staged.discard().await;
            }
            return Err(remote(error));
        }
        let from = from.display().to_string();
        self.moved.push(Moved { from, to: url, bytes: meta.len(), resumed_at: at });
        Ok(())
    }

    /// A part to write to, and where to go on.
    async fn stage(
        &self,
        id: TransferId,
        to: &StorePath,
        file: &File,
    ) -> Result<(Box<dyn StagedFile>, u64), StoreError> {
        if self.resume {
            match self.store.resume(id, to).await {
                Ok(staged) => {
                    let at = same_so_far(&*staged, file).await?;
                    if at < staged.size() {
                        staged.set_len(at).await?;
                    }
                    return Ok((staged, at));
                }
                Err(StoreError::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        match self.store.stage(id, to).await {
            Ok(staged) => Ok((staged, 0)),
            Err(error) => {
                // A part of an earlier run has the name.
                let Ok(left) = self.store.resume(id, to).await else { return Err(error) };
                left.discard().await?;
                Ok((self.store.stage(id, to).await?, 0))
            }
        }
    }

    /// Sends all from `at` on; the size of the file.
    async fn send(&self, to: &dyn StagedFile, file: &File, at: u64) -> Result<u64, StoreError> {
        let mut at = at;
        loop {
            let mut piece = vec![0; PIECE_BYTES];
            let read = file.read_at(&mut piece, at);
            let read = read.map_err(|error| StoreError::Io(format!("the local file: {error}")))?;
            if read == 0 {
                break;
            }
            piece.truncate(read);
            to.write_at(at, Bytes::from(piece)).await?;
            at += read as u64;
            self.progress.set_position(at);
        }
        to.sync().await?;
        Ok(at)
    }
}

/// Bytes of the part that are the local file's: all of it or none, by its last ones.
async fn same_so_far(staged: &dyn StagedFile, file: &File) -> Result<u64, StoreError> {
    let size = staged.size();
    let local = |error: std::io::Error| StoreError::Io(format!("the local file: {error}"));
    if size > file.metadata().map_err(local)?.len() {
        return Ok(0);
    }
    let from = size.saturating_sub(TAIL_BYTES as u64);
    let there = staged.read_at(from, BytesMut::new(), TAIL_BYTES).await?;
    let mut here = vec![0; there.len()];
    file.read_exact_at(&mut here, from).map_err(local)?;
    let same = from + there.len() as u64 == size && here == there;
    Ok(if same { size } else { 0 })
}

/// Names the part: the same for the same state of the same file and the same target.
fn part_id(from: &Path, url: &str, meta: &std::fs::Metadata) -> Result<TransferId, Failure> {
    let from = from.canonicalize().map_err(|error| local_failed(from, &error))?;
    let mut digest = StreamDigest::new(Sha256::Unwanted);
    let modified = (meta.mtime(), meta.mtime_nsec());
    let what = format!("{}\0{url}\0{}\0{modified:?}", from.display(), meta.len());
    digest.update(what.as_bytes());
    let digest = digest.finish().blake3.map(|digest| hex(&digest)).unwrap_or_default();
    let text = digest.get(..32).unwrap_or_default();
    text.parse().map_err(|error| Failure::file(format!("the name of the part: {error}")))
}

/// What is in a local folder. Links to folders are not followed: they may lead in circles.
fn entries(from: &Path, to: &StorePath) -> Result<Vec<(PathBuf, StorePath)>, Failure> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(from).map_err(|error| local_failed(from, &error))? {
        let entry = entry.map_err(|error| local_failed(from, &error))?;
        let path = entry.path();
        let kind = entry.file_type().map_err(|error| local_failed(&path, &error))?;
        if kind.is_symlink() && path.is_dir() {
            tracing::warn!(path = %path.display(), "a link to a folder is not followed");
            continue;
        }
        let name = entry.file_name();
        let name = name.to_str().ok_or_else(|| {
            Failure::file(format!("'{}' has no name that is UTF-8", path.display()))
        })?;
        found.push((path, join(to, name)?));
    }
    found.sort();
    Ok(found)
}
