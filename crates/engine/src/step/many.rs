//! Steps that make several files in the account's view of one: those of an archive, or its parts.
//!
//! The file is read twice: first to its end, so that nothing of a bad one is published, then file
//! by file into the account's view. An attempt after a crash leaves those alone that are there
//! already with their very bytes.

use async_trait::async_trait;
use bytes::Bytes;
use entrepot_crypto::{Sha256, StreamDigest};
use entrepot_nouns::rule::Existing;
use entrepot_nouns::{Digests, VPath};
use entrepot_transform::TransformError;
use entrepot_transform::archive::FileSink;
use serde_json::json;

use super::change::{Ends, Line, LineWriter, Output, change};
use super::mkdir::make_directories_above;
use super::{Expected, Input, StepError, source};
use crate::files::Sink;
use crate::limits::{EACH_BYTES, EACH_ITEMS};
use crate::pattern::Values;
use crate::pause::Pause;
use crate::run::Run;

/// Where the files go.
pub(super) trait Place: Send + Sync {
    /// The path of the file that the change calls `label`.
    fn path(&self, values: Values<'_>, label: &str) -> Result<VPath, StepError>;
}

/// Gives files to the task, each between its begin and its end.
pub(super) struct ToTask<'a> {
    pub(super) line: Line,
    pub(super) writer: &'a mut LineWriter,
}

impl<L: ToString + ?Sized> FileSink<L> for ToTask<'_> {
    fn begin(&mut self, label: &L) -> std::io::Result<()> {
        self.line.begin(&label.to_string())
    }

    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        std::io::Write::write_all(self.writer, bytes)
    }

    fn end(&mut self) -> std::io::Result<()> {
        std::io::Write::flush(self.writer)?;
        self.line.end()
    }
}

/// A file, as the first look saw it.
struct Entry {
    path: VPath,
    size: u64,
    digests: Digests,
}

/// Looks at every file, and keeps none.
struct Looking<'a> {
    place: &'a dyn Place,
    entries: Vec<Entry>,
    digest: StreamDigest,
}

fn digest() -> StreamDigest {
    StreamDigest::new(Sha256::Unwanted)
}

#[async_trait]
impl Output for Looking<'_> {
    async fn begin(&mut self, run: &mut Run<'_>, path: String) -> Result<(), StepError> {
        let path = self.place.path(run.values(), &path)?;
        self.entries.push(Entry { path, size: 0, digests: Digests::default() });
        self.digest = digest();
        Ok(())
    }

    async fn write(&mut self, _run: &mut Run<'_>, block: Bytes) -> Result<(), StepError> {
        self.digest.update(&block);
        Ok(())
    }

    async fn end(&mut self, _run: &mut Run<'_>) -> Result<(), StepError> {
        let digest = std::mem::replace(&mut self.digest, digest());
        if let Some(entry) = self.entries.last_mut() {
            entry.size = digest.length();
            entry.digests = digest.finish();
        }
        Ok(())
    }
}

/// Writes the files, each under its name when it is whole.
struct Writing {
    existing: Existing,
    entries: std::vec::IntoIter<Entry>,
    open: Option<(Box<dyn Sink>, u64)>,
}

#[async_trait]
impl Output for Writing {
    async fn begin(&mut self, run: &mut Run<'_>, _path: String) -> Result<(), StepError> {
        let more = || StepError::transient("EP0875", "other files came of it than before");
        let entry = self.entries.next().ok_or_else(more)?;
        if run.again() && is_there(run, &entry).await? {
            return Ok(());
        }
        run.hold.fence().await?;
        let Entry { path, size, .. } = &entry;
        let created = run.files().await?.create(path, self.existing, *size).await;
        let sink = match created {
            Err(error) if error.is_missing() => {
                make_directories_above(run, path).await?;
                run.files().await?.create(path, self.existing, *size).await?
            }
            created => created?,
        };
        self.open = Some((sink, 0));
        Ok(())
    }

    async fn write(&mut self, run: &mut Run<'_>, block: Bytes) -> Result<(), StepError> {
        if let Some((sink, offset)) = &mut self.open {
            let length = block.len() as u64;
            run.hold.waiting(sink.write_at(*offset, block)).await??;
            *offset += length;
        }
        Ok(())
    }

    async fn end(&mut self, run: &mut Run<'_>) -> Result<(), StepError> {
        if let Some((sink, _)) = self.open.take() {
            run.hold.ended()?;
            sink.finish().await?;
            run.reached(Pause::Changed)?;
        }
        Ok(())
    }
}

async fn is_there(run: &mut Run<'_>, entry: &Entry) -> Result<bool, StepError> {
    let hold = run.hold;
    let there = match hold.waiting(run.files().await?.open(&entry.path)).await? {
        Err(error) if error.is_missing() => return Ok(false),
        there => there?,
    };
    if there.size() != entry.size {
        return Ok(false);
    }
    let found = source::digest(run, there.as_ref(), None).await?;
    Ok(Expected { size: entry.size, digests: entry.digests }.is(entry.size, &found))
}

/// Leaves the paths for later steps, as long as a list of them can be gone through.
pub(super) fn leave_paths<'p>(run: &mut Run<'_>, paths: impl Iterator<Item = &'p VPath>) {
    let paths: Vec<&str> = paths.map(VPath::as_str).collect();
    // With its quotes and the comma or bracket behind it.
    let size: usize = paths.iter().map(|path| path.len().saturating_add(3)).sum();
    if size <= EACH_BYTES && paths.len() <= EACH_ITEMS {
        run.leave("paths", json!(paths));
    }
}

/// Makes the files that `work` makes of the file that steps work on.
pub(super) async fn make_files(
    run: &mut Run<'_>,
    place: &dyn Place,
    existing: Existing,
    work: impl Fn(Ends) -> Result<(), TransformError> + Clone + Send + 'static,
) -> Result<(), StepError> {
    let input = Input::open(run).await?;
    run.reached(Pause::SourceOpen)?;
    let mut looking = Looking { place, entries: Vec::new(), digest: digest() };
    change(run, &input, &mut looking, work.clone()).await?;
    let entries = looking.entries;
    let bytes: u64 = entries.iter().map(|entry| entry.size).sum();
    run.leave("files", json!(entries.len()));
    run.leave("bytes", json!(bytes));
    leave_paths(run, entries.iter().map(|entry| &entry.path));
    if existing == Existing::Refuse && !run.again() {
        for entry in &entries {
            let hold = run.hold;
            match hold.waiting(run.files().await?.open(&entry.path)).await? {
                Err(error) if error.is_missing() => {}
                Err(error) => return Err(error),
                Ok(_) => return Err(StepError::taken(&entry.path)),
            }
        }
    }
    let mut writing = Writing { existing, entries: entries.into_iter(), open: None };
    let written = change(run, &input, &mut writing, work).await;
    if let Some((sink, _)) = writing.open.take() {
        sink.abort().await;
    }
    written
}
