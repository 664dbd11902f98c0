//! `gzip`, `zstd`, `zip`, `tar`: pack the file. What is packed has no times, so that an attempt
//! after a crash makes the same bytes.

use async_trait::async_trait;
use entrepot_nouns::rule::{GzipSpec, TarCompression, TarSpec, ZipSpec, ZstdSpec};
use entrepot_transform::archive::{self, ArchiveFormat, EntryName, Packed};
use entrepot_transform::compress::{self, Compression};

use super::change::{Ends, MakesFile, made_name, make};
use super::{Input, Step, StepError};
use crate::ids::StepKey;
use crate::pattern::{self, Values};
use crate::run::Run;

#[async_trait]
impl Step for GzipSpec {
    async fn run(&self, run: &mut Run<'_>, key: &StepKey) -> Result<(), StepError> {
        let name = self.made_name(run.values())?;
        compress(run, key, name, Level { format: Compression::Gzip, level: self.level }).await
    }
}

impl MakesFile for GzipSpec {
    const VERB: &'static str = "compresses";

    fn made_name(&self, values: Values<'_>) -> Result<String, StepError> {
        made_name(values, self.name.as_deref(), |name| format!("{name}.gz"))
    }
}

#[async_trait]
impl Step for ZstdSpec {
    async fn run(&self, run: &mut Run<'_>, key: &StepKey) -> Result<(), StepError> {
        let name = self.made_name(run.values())?;
        compress(run, key, name, Level { format: Compression::Zstd, level: self.level }).await
    }
}

impl MakesFile for ZstdSpec {
    const VERB: &'static str = "compresses";

    fn made_name(&self, values: Values<'_>) -> Result<String, StepError> {
        made_name(values, self.name.as_deref(), |name| format!("{name}.zst"))
    }
}

struct Level {
    format: Compression,
    level: Option<u32>,
}

async fn compress(
    run: &mut Run<'_>,
    key: &StepKey,
    name: String,
    level: Level,
) -> Result<(), StepError> {
    let Level { format, level } = level;
    let level = level.unwrap_or(format.usual_level());
    make(run, key, name, move |ends| compress::compress(format, level, ends.reader, ends.writer))
        .await
}

#[async_trait]
impl Step for ZipSpec {
    async fn run(&self, run: &mut Run<'_>, key: &StepKey) -> Result<(), StepError> {
        let name = self.made_name(run.values())?;
        let packed = OneFile { entry: self.entry.as_deref(), format: ArchiveFormat::Zip };
        archive(run, key, name, packed).await
    }
}

impl MakesFile for ZipSpec {
    const VERB: &'static str = "packs";

    fn made_name(&self, values: Values<'_>) -> Result<String, StepError> {
        made_name(values, self.name.as_deref(), |name| format!("{name}.zip"))
    }
}

#[async_trait]
impl Step for TarSpec {
    async fn run(&self, run: &mut Run<'_>, key: &StepKey) -> Result<(), StepError> {
        let name = self.made_name(run.values())?;
        let format = ArchiveFormat::Tar(compression(self.compress));
        archive(run, key, name, OneFile { entry: self.entry.as_deref(), format }).await
    }
}

impl MakesFile for TarSpec {
    const VERB: &'static str = "packs";

    fn made_name(&self, values: Values<'_>) -> Result<String, StepError> {
        let end = compression(self.compress).map(|it| format!(".{}", it.extension()));
        let end = end.unwrap_or_default();
        made_name(values, self.name.as_deref(), |name| format!("{name}.tar{end}"))
    }
}

fn compression(of: TarCompression) -> Option<Compression> {
    match of {
        TarCompression::None => None,
        TarCompression::Gzip => Some(Compression::Gzip),
        TarCompression::Zstd => Some(Compression::Zstd),
    }
}

/// An archive of one file.
struct OneFile<'a> {
    entry: Option<&'a str>,
    format: ArchiveFormat,
}

async fn archive(
    run: &mut Run<'_>,
    key: &StepKey,
    name: String,
    packed: OneFile<'_>,
) -> Result<(), StepError> {
    let entry = pattern::expand(packed.entry.unwrap_or("{name}"), run.values())?;
    let entry = EntryName::new(&entry)?;
    let size = Input::open(run).await?.source.size();
    let format = packed.format;
    make(run, key, name, move |ends| {
        let Ends { mut reader, writer, .. } = ends;
        let file = Packed { name: entry, size, content: &mut reader };
        archive::create(format, [file], writer)
    })
    .await
}
