//! `extract`: takes files out of an archive.

use async_trait::async_trait;
use bytes::Bytes;
use entrepot_nouns::VPath;
use entrepot_nouns::rule::{ExtractSpec, PackedFormat};
use entrepot_transform::archive::{self, ArchiveFormat, ArchiveLimits, EntryName};
use entrepot_transform::compress::{self, Compression};
use entrepot_transform::{Bounds, TransformError};
use serde_json::json;

use super::change::{CONTENT, Ends, Output, bounds, change, foreseen_file, made_name};
use super::made::Making;
use super::many::{Place, ToTask, make_files};
use super::{Input, Step, StepError};
use crate::foresight::{Foresee, Foreseen, Foresight};
use crate::ids::StepKey;
use crate::pattern::{self, Values};
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
                run.leave("to", json!(folder.to_string()));
                let work = move |ends: Ends| unpacking.clone().run(ends);
                make_files(run, &Folder(folder), self.existing, work).await
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

/// The folder that the files of an archive go into.
struct Folder(VPath);

impl Place for Folder {
    fn path(&self, _values: Values<'_>, label: &str) -> Result<VPath, StepError> {
        let text = format!("{}/{label}", self.0.to_string().trim_end_matches('/'));
        text.parse().map_err(|error| {
            StepError::permanent("EP0870", format!("an entry would be '{text}': {error}"))
        })
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
