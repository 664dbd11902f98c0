//! `get`: each file comes down under a hidden name beside its target and gets its name when it is
//! whole. The hidden name holds size and time of the file on the server, so that `--resume` goes on
//! only with a part of what is still there.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use bytes::BytesMut;
use entrepot_model::{StorePath, Timestamp};
use entrepot_storage::{EntryKind, Meta, ReadFile};

use super::{Moved, PIECE_BYTES, Session, failed, local_failed};
use crate::args::GetArgs;
use crate::failure::Failure;
use crate::output::Output;

/// Entries asked of a listing at a time.
const PAGE: usize = 1000;

/// Runs `get`.
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
        let part = part_of(to, &meta)?;
        let (mut local, at) = self.open_part(&part, meta.size)?;
        self.begin(&url, meta.size, at);
        let size = self.receive(&*file, &mut local, at, (&url, &part)).await?;
        keep(&local, &meta).map_err(|error| local_failed(&part, &error))?;
        std::fs::rename(&part, to).map_err(|error| local_failed(to, &error))?;
        let to = to.display().to_string();
        self.moved.push(Moved { from: url, to, bytes: size, resumed_at: at });
        Ok(())
    }

    /// The part, and where to go on.
    fn open_part(&self, part: &Path, size: u64) -> Result<(File, u64), Failure> {
        let failed = |error| local_failed(part, &error);
        let mut options = File::options();
        options.write(true).create(true).truncate(!self.resume);
        let mut file = options.open(part).map_err(failed)?;
        let at = file.metadata().map_err(failed)?.len();
        let at = if at > size { 0 } else { at };
        file.set_len(at).map_err(failed)?;
        file.seek(SeekFrom::Start(at)).map_err(failed)?;
        Ok((file, at))
    }

    /// Reads to the end; the store checks there that the file did not change meanwhile.
    async fn receive(
        &self,
        from: &dyn ReadFile,
        to: &mut File,
        at: u64,
        (url, part): (&str, &Path),
    ) -> Result<u64, Failure> {
        let mut at = at;
        let mut buffer = BytesMut::with_capacity(PIECE_BYTES);
        loop {
            buffer.clear();
            let read = from.read_at(at, buffer, PIECE_BYTES).await;
            buffer = read.map_err(|error| failed(url, &error))?;
            to.write_all(&buffer).map_err(|error| local_failed(part, &error))?;
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
