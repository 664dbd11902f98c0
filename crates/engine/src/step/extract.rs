//! `extract`: takes files out of an archive.
//!
//! With `to` the archive is read twice: first to its end, so that nothing of a bad one is
//! published, then file by file into the account's view. An attempt after a crash leaves those
//! alone that are there already with their very bytes.

use async_trait::async_trait;
use bytes::Bytes;
use entrepot_crypto::{Sha256, StreamDigest};
use entrepot_nouns::rule::{Existing, ExtractSpec, PackedFormat};
use entrepot_nouns::{Digests, VPath};
use entrepot_transform::archive::{self, ArchiveFormat, ArchiveLimits, EntryName, FileSink};
use entrepot_transform::compress::{self, Compression};
use entrepot_transform::{Bounds, TransformError};
use serde_json::json;

use super::change::{CONTENT, Ends, Line, Output, bounds, change, foreseen_file, made_name};
use super::made::Making;
use super::mkdir::make_directories_above;
use super::{Expected, Input, Step, StepError, source};
use crate::files::Sink;
use crate::foresight::{Foresee, Foreseen, Foresight};
use crate::ids::StepKey;
use crate::pattern;
use crate::pause::Pause;
use crate::run::Run;

#[async_trait]
impl Step for ExtractSpec {
    async fn run(&self, run: &mut Run<'_>, key: &StepKey) -> Result<(), StepError> {
        let name = pattern::expand("{name}", run.values())?;
        let format = format(self, &name)?;
        let unpacking = Unpacking {
            format,
            entries: self.entries as usize,
            bounds: bounds(self.output_mib, self.ratio),
            whole: without_end(&name).to_owned(),
        };
        match &self.to {
            None => extract_one(run, key, unpacking).await,
            Some(to) => {
                let folder = pattern::virtual_path(to, run.values())?;
                extract_all(run, unpacking, Folder { path: folder, existing: self.existing }).await
            }
        }
    }
}

#[async_trait]
impl Foresee for ExtractSpec {
    async fn foresee(&self, foresight: &mut Foresight<'_>) -> Result<Foreseen, StepError> {
        let name = pattern::expand("{name}", foresight.values())?;
        let format = format(self, &name)?;
        let file = foresight.input()?.file;
        if let Some(to) = &self.to {
            let folder = pattern::virtual_path(to, foresight.values())?;
            return Ok(Foreseen::open(format!("extracts {file} into '{folder}'"), CONTENT));
        }
        let what = format!("extracts the one file of {file}");
        match format {
            PackedFormat::Gz | PackedFormat::Zst => {
                Ok(foreseen_file(foresight, what, without_end(&name).to_owned()))
            }
            // The file is called what the archive says.
            _ => Ok(Foreseen::open(what, CONTENT)),
        }
    }
}

/// What the file of this name is.
fn format(spec: &ExtractSpec, name: &str) -> Result<PackedFormat, StepError> {
    spec.format.or_else(|| of_name(name)).ok_or_else(|| {
        let text = format!("'{name}' does not say what it is: set 'format'");
        StepError::permanent("EP0870", text)
    })
}

/// What a file is by the end of its name.
fn of_name(name: &str) -> Option<PackedFormat> {
    Some(match ArchiveFormat::of_name(name) {
        Some(ArchiveFormat::Zip) => PackedFormat::Zip,
        Some(ArchiveFormat::Tar(None)) => PackedFormat::Tar,
        Some(ArchiveFormat::Tar(Some(Compression::Gzip))) => PackedFormat::TarGz,
        Some(ArchiveFormat::Tar(Some(Compression::Zstd))) => PackedFormat::TarZst,
        None => match name.rsplit_once('.')?.1.to_ascii_lowercase().as_str() {
            "gz" => PackedFormat::Gz,
            "zst" => PackedFormat::Zst,
            _ => return None,
        },
    })
}

fn without_end(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(stem, _)| stem)
}

#[derive(Clone)]
struct Unpacking {
    format: PackedFormat,
    entries: usize,
    bounds: Bounds,
    /// What the file in a compressed one is called.
    whole: String,
}

impl Unpacking {
    /// Gives each file to the task, between its begin and its end.
    fn run(self, ends: Ends) -> Result<(), TransformError> {
        let Unpacking { format, entries, bounds, whole } = self;
        let Ends { reader, mut writer, line } = ends;
        let mut archive = |format, reader| {
            let limits = ArchiveLimits { entries, bounds };
            let mut files = ToTask { line: line.clone(), writer: &mut writer };
            archive::extract(format, &limits, reader, &mut files)
        };
        match format {
            PackedFormat::Zip => archive(ArchiveFormat::Zip, reader),
            PackedFormat::Tar => archive(ArchiveFormat::Tar(None), reader),
            PackedFormat::TarGz => archive(ArchiveFormat::Tar(Some(Compression::Gzip)), reader),
            PackedFormat::TarZst => archive(ArchiveFormat::Tar(Some(Compression::Zstd)), reader),
            PackedFormat::Gz | PackedFormat::Zst => {
                let name = EntryName::new(&whole)?;
                line.begin(name.as_str()).map_err(TransformError::Write)?;
                let compression = match format {
                    PackedFormat::Gz => Compression::Gzip,
                    _ => Compression::Zstd,
                };
                compress::decompress(compression, bounds, reader, writer)?;
                line.end().map_err(TransformError::Write)
            }
        }
    }
}

struct ToTask<'a> {
    line: Line,
    writer: &'a mut super::change::LineWriter,
}

impl FileSink<EntryName> for ToTask<'_> {
    fn begin(&mut self, label: &EntryName) -> std::io::Result<()> {
        self.line.begin(label.as_str())
    }

    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        std::io::Write::write_all(self.writer, bytes)
    }

    fn end(&mut self) -> std::io::Result<()> {
        std::io::Write::flush(self.writer)?;
        self.line.end()
    }
}

/// The one file of an archive, on its way into the file that later steps work on.
struct One {
    making: Making,
    path: Option<String>,
}

#[async_trait]
impl Output for One {
    async fn begin(&mut self, _run: &mut Run<'_>, path: String) -> Result<(), StepError> {
        if self.path.replace(path).is_none() {
            return Ok(());
        }
        let text = "the archive has more than one file: say with 'to' where they go";
        Err(StepError::permanent("EP0870", text))
    }

    async fn write(&mut self, run: &mut Run<'_>, block: Bytes) -> Result<(), StepError> {
        self.making.write(run, block).await?;
        run.reached(Pause::BlockWritten)
    }

    async fn end(&mut self, _run: &mut Run<'_>) -> Result<(), StepError> {
        Ok(())
    }
}

async fn extract_one(
    run: &mut Run<'_>,
    key: &StepKey,
    unpacking: Unpacking,
) -> Result<(), StepError> {
    let input = Input::open(run).await?;
    run.reached(Pause::SourceOpen)?;
    let mut one = One { making: Making::begin(run, key).await?, path: None };
    let changed = change(run, &input, &mut one, |ends| unpacking.run(ends)).await;
    let name = changed.and_then(|()| {
        let none = || StepError::permanent("EP0870", "the archive has no file");
        let path = one.path.take().ok_or_else(none)?;
        let plain = path.rsplit('/').next().unwrap_or_default().to_owned();
        made_name(run.values(), None, |_| plain)
    });
    match name {
        Ok(name) => {
            run.reached(Pause::Written)?;
            one.making.finish(run, name).await?;
            run.reached(Pause::Published)
        }
        Err(error) => {
            one.making.discard().await;
            Err(error)
        }
    }
}

/// Where the files go.
struct Folder {
    path: VPath,
    existing: Existing,
}

/// A file of the archive, as the first look saw it.
struct Entry {
    path: VPath,
    size: u64,
    digests: Digests,
}

/// Looks at every file, and keeps none.
struct Looking<'a> {
    folder: &'a Folder,
    entries: Vec<Entry>,
    digest: StreamDigest,
}

fn digest() -> StreamDigest {
    StreamDigest::new(Sha256::Unwanted)
}

#[async_trait]
impl Output for Looking<'_> {
    async fn begin(&mut self, _run: &mut Run<'_>, path: String) -> Result<(), StepError> {
        let folder = self.folder.path.to_string();
        let text = format!("{}/{path}", folder.trim_end_matches('/'));
        let path = text.parse::<VPath>().map_err(|error| {
            StepError::permanent("EP0870", format!("an entry would be '{text}': {error}"))
        })?;
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
        let more = || StepError::transient("EP0875", "the archive has other files than before");
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

async fn extract_all(
    run: &mut Run<'_>,
    unpacking: Unpacking,
    folder: Folder,
) -> Result<(), StepError> {
    let input = Input::open(run).await?;
    run.reached(Pause::SourceOpen)?;
    let mut looking = Looking { folder: &folder, entries: Vec::new(), digest: digest() };
    let first = unpacking.clone();
    change(run, &input, &mut looking, |ends| first.run(ends)).await?;
    let entries = looking.entries;
    let bytes: u64 = entries.iter().map(|entry| entry.size).sum();
    run.leave("files", json!(entries.len()));
    run.leave("bytes", json!(bytes));
    run.leave("to", json!(folder.path.to_string()));
    if folder.existing == Existing::Refuse && !run.again() {
        for entry in &entries {
            let hold = run.hold;
            match hold.waiting(run.files().await?.open(&entry.path)).await? {
                Err(error) if error.is_missing() => {}
                Err(error) => return Err(error),
                Ok(_) => return Err(StepError::taken(&entry.path)),
            }
        }
    }
    let entries = entries.into_iter();
    let mut writing = Writing { existing: folder.existing, entries, open: None };
    let written = change(run, &input, &mut writing, |ends| unpacking.run(ends)).await;
    if let Some((sink, _)) = writing.open.take() {
        sink.abort().await;
    }
    written
}
