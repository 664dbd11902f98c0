//! `get`: each file comes down under a hidden name beside its target and gets its name when it is
//! whole. The hidden name holds size and time of the file on the server, so that `--resume` goes on
//! only with a part of what is still there.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use bytes::BytesMut;
use entrepot_nouns::{StorePath, Timestamp};
use entrepot_storage::{EntryKind, Meta, ReadFile};

use super::{Moved, PIECE_BYTES, Session, failed, local_failed};
use crate::args::GetArgs;
use crate::failure::Failure;
use crate::output::Output;

/// Entries asked of a listing at a time.
const PAGE: usize = 1000;

/// Fetches the file or directory of the URL, and prints what was moved.
pub(crate) async fn run(output: Output, args: GetArgs) -> Result<(), Failure> {
    let mut session = Session::open(&args.from, &args.server).await?;
    let from = session.place.path.clone();
    let to = match from.file_name() {
        Some(name) if args.local.is_dir() => args.local.join(name),
        _ => args.local,
    };
    session.get(&from, &to).await?;
    session.tell(output)
}

/// The hidden local file that a download is written to.
struct Part {
    path: PathBuf,
    file: File,
    /// Bytes of an earlier run that are kept: this run goes on behind them.
    kept_bytes: u64,
}

impl Session {
    /// A file, or a directory and what is in it.
    async fn get(&mut self, from: &StorePath, to: &Path) -> Result<(), Failure> {
        let meta = self.store.stat(from).await.map_err(|error| failed(&self.url(from), &error))?;
        if meta.kind == EntryKind::File {
            return self.get_file(from, to).await;
        }
        if !self.recursive {
            let why = "is a directory; directories come with --recursive";
            return Err(Failure::usage(format!("'{}' {why}", self.url(from))));
        }
        let mut open = vec![(from.clone(), to.to_owned())];
        while let Some((from, to)) = open.pop() {
            std::fs::create_dir_all(&to).map_err(|error| local_failed(&to, &error))?;
            for (name, kind) in self.list(&from).await? {
                // One component, which the store has checked: it cannot lead out of the folder.
                let there = from.join(&name).map_err(|error| Failure::usage(error.to_string()))?;
                match kind {
                    EntryKind::Directory => open.push((there, to.join(&name))),
                    EntryKind::File => self.get_file(&there, &to.join(&name)).await?,
                    // Not told by this store.
                    EntryKind::Link => {}
                }
            }
        }
        Ok(())
    }

    async fn list(&self, path: &StorePath) -> Result<Vec<(String, EntryKind)>, Failure> {
        let remote = |error| failed(&self.url(path), &error);
        let mut listing = self.store.list(path).await.map_err(remote)?;
        let mut found = Vec::new();
        loop {
            let page = listing.next_page(PAGE).await.map_err(remote)?;
            if page.is_empty() {
                found.sort_by(|(a, _): &(String, _), (b, _)| a.cmp(b));
                return Ok(found);
            }
            found.extend(page.into_iter().map(|entry| (entry.name, entry.meta.kind)));
        }
    }

    async fn get_file(&mut self, from: &StorePath, to: &Path) -> Result<(), Failure> {
        let url = self.url(from);
        let file = self.store.open(from).await.map_err(|error| failed(&url, &error))?;
        let meta = file.meta().clone();
        let mut part = self.open_part(part_of(to, &meta)?, meta.size)?;
        self.begin(&url, meta.size, part.kept_bytes);
        let bytes = self.receive(&*file, &url, &mut part).await?;
        keep(&part.file, &meta).map_err(|error| local_failed(&part.path, &error))?;
        std::fs::rename(&part.path, to).map_err(|error| local_failed(to, &error))?;
        let to = to.display().to_string();
        self.moved.push(Moved { from: url, to, bytes, resumed_at: part.kept_bytes });
        Ok(())
    }

    /// Opens the part of a file of `size` bytes; what `--resume` cannot go on with is dropped.
    fn open_part(&self, path: PathBuf, size: u64) -> Result<Part, Failure> {
        let failed = |error| local_failed(&path, &error);
        let mut options = File::options();
        options.write(true).create(true).truncate(!self.resume);
        let mut file = options.open(&path).map_err(failed)?;
        let found = file.metadata().map_err(failed)?.len();
        let kept_bytes = if found > size { 0 } else { found };
        file.set_len(kept_bytes).map_err(failed)?;
        file.seek(SeekFrom::Start(kept_bytes)).map_err(failed)?;
        Ok(Part { path, file, kept_bytes })
    }

    /// Reads to the end and gives the size; the store checks there that the file did not change
    /// meanwhile.
    async fn receive(
        &self,
        from: &dyn ReadFile,
        url: &str,
        part: &mut Part,
    ) -> Result<u64, Failure> {
        let mut at = part.kept_bytes;
        let mut buffer = BytesMut::with_capacity(PIECE_BYTES);
        loop {
            buffer.clear();
            let read = from.read_at(at, buffer, PIECE_BYTES).await;
            buffer = read.map_err(|error| failed(url, &error))?;
            part.file.write_all(&buffer).map_err(|error| local_failed(&part.path, &error))?;
            at += buffer.len() as u64;
            self.progress.set_position(at);
            if buffer.len() < PIECE_BYTES {
                return Ok(at);
            }
        }
    }
}

/// The file is durable, with the time it has on the server.
fn keep(file: &File, meta: &Meta) -> std::io::Result<()> {
    file.set_modified(system_time(meta.modified))?;
    file.sync_all()
}

fn system_time(at: Timestamp) -> SystemTime {
    let seconds = Duration::from_secs(u64::try_from(at.seconds()).unwrap_or(0));
    SystemTime::UNIX_EPOCH + seconds
}

/// `.<name>.<size>-<time>.part` beside the target.
fn part_of(to: &Path, meta: &Meta) -> Result<PathBuf, Failure> {
    let name = to.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| Failure::usage(format!("'{}' names no file", to.display())))?;
    let state = format!("{}-{}.part", meta.size, meta.modified.seconds());
    let room = 250usize.saturating_sub(state.len());
    let name = name.get(..name.floor_char_boundary(room)).unwrap_or(name);
    Ok(to.with_file_name(format!(".{name}.{state}")))
}
