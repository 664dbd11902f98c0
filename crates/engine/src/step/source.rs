//! The file a step works on: what the event says it is, and whether it still is that.

use std::path::PathBuf;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use entrepot_crypto::{Sha256, StreamDigest};
use entrepot_nouns::event::HeldFact;
use entrepot_nouns::{Digests, Event, Fact, StorePath, Timestamp, VPath};
use entrepot_storage::{ReadFile, StoreError};
use entrepot_vfs::held_at;

use super::StepError;
use crate::files::{AccountFiles, Source};
use crate::limits::BLOCK_BYTES;
use crate::noted::FileValue;
use crate::run::Run;
use crate::work::WorkError;

/// What the event says about the file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Expected {
    /// Size of the whole file, in bytes.
    pub(crate) size: u64,
    /// Digests, as far as known.
    pub(crate) digests: Digests,
}

impl Expected {
    /// `None`: the event does not describe a whole file.
    pub(crate) fn of(event: &Event) -> Option<Expected> {
        match &event.fact {
            Fact::FileRenamed { file: None, size, arrival: true, .. }
            | Fact::WatchFound { size, .. } => {
                Some(Expected { size: *size, digests: Digests::default() })
            }
            fact @ (Fact::FileRenamed { .. }
            | Fact::FileUploaded { .. }
            | Fact::FileHeld { .. }
            | Fact::FileRecovered { .. }) => {
                fact.file().map(|file| Expected { size: file.size, digests: file.digests })
            }
            _ => None,
        }
    }

    /// A digest that computes what there is to compare.
    pub(crate) fn digest(expected: Option<Expected>) -> StreamDigest {
        let sha256 = expected.is_some_and(|expected| expected.digests.sha256.is_some());
        StreamDigest::new(if sha256 { Sha256::Wanted } else { Sha256::Unwanted })
    }

    /// Whether `size` bytes with `found` are that file.
    pub(crate) fn is(&self, size: u64, found: &Digests) -> bool {
        let same = |mine: Option<[u8; 32]>, theirs: Option<[u8; 32]>| match (mine, theirs) {
            (Some(mine), Some(theirs)) => mine == theirs,
            _ => true,
        };
        self.size == size
            && same(self.digests.blake3, found.blake3)
            && same(self.digests.sha256, found.sha256)
    }

    /// Whether there is a digest to compare.
    pub(crate) fn has_digest(&self) -> bool {
        self.digests.blake3.is_some() || self.digests.sha256.is_some()
    }
}

/// The file that steps work on now, opened: that of the event, or what a step before this one made.
pub(crate) struct Input {
    pub(crate) source: Box<dyn Source>,
    /// What it must be, as far as known.
    pub(crate) expected: Option<Expected>,
    place: InputPlace,
}

enum InputPlace {
    /// In the account's view.
    Account(VPath),
    /// Among the files that the job's steps made.
    Work(FileValue),
}

impl Input {
    /// Opens it and looks at its size.
    pub(crate) async fn open(run: &mut Run<'_>) -> Result<Input, StepError> {
        if let Some(file) = run.noted.file.clone() {
            let opening = run.shared.work.open(run.job, &file);
            let source = Box::new(Made(run.hold.waiting(opening).await??));
            let digests = Digests { blake3: file.blake3(), ..Digests::default() };
            let expected = Some(Expected { size: file.size, digests });
            return Ok(Input { source, expected, place: InputPlace::Work(file) });
        }
        let path = run.path()?;
        let source = open(run, &path).await?;
        let expected = Expected::of(&run.job.event);
        Ok(Input { source, expected, place: InputPlace::Account(path) })
    }

    /// A file of an account's view of which nothing is known before.
    pub(crate) fn whatever(path: VPath, source: Box<dyn Source>) -> Input {
        Input { source, expected: None, place: InputPlace::Account(path) }
    }

    /// The error for a file that is not the one any more that it was.
    pub(crate) fn changed(&self) -> StepError {
        match &self.place {
            InputPlace::Account(path) => changed(path),
            InputPlace::Work(file) => StepError::permanent(
                "EP0816",
                format!(
                    "'{}', which step '{}' made, was changed on the disk",
                    file.name, file.step.0
                ),
            ),
        }
    }

    /// Its name, without the directories above it.
    pub(crate) fn name(&self) -> &str {
        match &self.place {
            InputPlace::Account(path) => path.file_name().unwrap_or_default(),
            InputPlace::Work(file) => &file.name,
        }
    }

    pub(crate) fn read(&self) -> Reading<'_> {
        Reading { input: self, digest: Expected::digest(self.expected) }
    }

    /// What its bytes are; reads them where nobody has said it.
    pub(crate) async fn described(&self, run: &Run<'_>) -> Result<Expected, StepError> {
        match self.expected.filter(Expected::has_digest) {
            Some(expected) => Ok(expected),
            None => {
                let digests = digest(run, self.source.as_ref(), self.expected).await?;
                Ok(Expected { size: self.source.size(), digests })
            }
        }
    }

    /// Remembers that its content was compared just now.
    pub(crate) fn verified(&self) -> Option<Seen> {
        match &self.place {
            InputPlace::Account(path) => Some(Seen::of(path, self.source.as_ref())),
            InputPlace::Work(_) => None,
        }
    }

    /// Confirms that `size` bytes with `found` are the file that it has to be.
    pub(crate) fn check(&self, size: u64, found: &Digests) -> Result<(), StepError> {
        match self.expected {
            Some(expected) if !expected.is(size, found) => Err(self.changed()),
            _ => Ok(()),
        }
    }
}

/// Reads an [`Input`] from its beginning to its end.
pub(crate) struct Reading<'i> {
    input: &'i Input,
    digest: StreamDigest,
}

impl Reading<'_> {
    /// The next block; `None` at the end of the file.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, StepError> {
        let room = BytesMut::with_capacity(BLOCK_BYTES);
        let block = self.input.source.read_at(self.position(), room, BLOCK_BYTES).await?;
        self.digest.update(&block);
        if block.is_empty() && !self.input.source.is_as_opened().await? {
            return Err(self.input.changed());
        }
        Ok((!block.is_empty()).then(|| block.freeze()))
    }

    /// Bytes so far.
    pub(crate) fn position(&self) -> u64 {
        self.digest.length()
    }

    /// Confirms that what was read is the file that it has to be; its digests.
    pub(crate) fn end(self) -> Result<Digests, StepError> {
        let (size, digests) = (self.position(), self.digest.finish());
        self.input.check(size, &digests)?;
        Ok(digests)
    }
}

/// A file that an earlier step made.
struct Made(Box<dyn ReadFile>);

#[async_trait]
impl Source for Made {
    fn size(&self) -> u64 {
        self.0.meta().size
    }

    fn modified(&self) -> Timestamp {
        self.0.meta().modified
    }

    async fn read_at(&self, offset: u64, buf: BytesMut, len: usize) -> Result<BytesMut, StepError> {
        Ok(self.0.read_at(offset, buf, len).await.map_err(WorkError::Store)?)
    }
}

/// The error for a file that is not the one of the event any more.
pub(crate) fn changed(path: &VPath) -> StepError {
    StepError::permanent(
        "EP0808",
        format!("'{path}' changed after the event, a later event speaks of the new file"),
    )
}

/// Opens the file of the event and looks at its size.
pub(crate) async fn open(run: &mut Run<'_>, path: &VPath) -> Result<Box<dyn Source>, StepError> {
    let hold = run.hold;
    let source = match run.held() {
        Some(held) if held.file.path == path.as_str() => open_held(run, held).await?,
        _ => hold.waiting(run.files().await?.open(path)).await??,
    };
    if Expected::of(&run.job.event).is_some_and(|expected| expected.size != source.size())
        || is_another_version(&run.job.event.fact, path, source.as_ref())
    {
        return Err(changed(path));
    }
    Ok(source)
}

/// Opens a file where it is held.
async fn open_held(run: &Run<'_>, held: &HeldFact) -> Result<Box<dyn Source>, StepError> {
    let files = files_of(run, held).await?;
    run.hold.waiting(files.open(&held_place(held)?)).await?
}

/// Where a file that is held lies on a disk of this machine, if it does.
pub(super) async fn local_held(
    run: &Run<'_>,
    held: &HeldFact,
) -> Result<Option<PathBuf>, StepError> {
    let files = files_of(run, held).await?;
    run.hold.waiting(files.local(&held_place(held)?)).await?
}

/// The files of the endpoint that has it.
async fn files_of(run: &Run<'_>, held: &HeldFact) -> Result<Box<dyn AccountFiles>, StepError> {
    let endpoint = run.endpoint(&held.endpoint).await?;
    let access = &run.shared.file_access;
    let opening = access.open_endpoint(&endpoint, run.shared.recorder.env());
    run.hold.waiting(opening).await?
}

/// Where it is held, as a path of its endpoint.
fn held_place(held: &HeldFact) -> Result<VPath, StepError> {
    let refused = |text: String| StepError::permanent("EP0812", text);
    let prefix: StorePath = held.prefix.parse().map_err(|_| refused(held.prefix.clone()))?;
    let at = held_at(&prefix, held.file.transfer).map_err(|error| refused(error.to_string()))?;
    format!("/{at}").parse().map_err(|_| refused(at.to_string()))
}

/// Whether a file was written after it was found in a watched folder; where a step put it its time
/// may be another one.
fn is_another_version(fact: &Fact, path: &VPath, source: &dyn Source) -> bool {
    match fact {
        Fact::WatchFound { path: found, modified, .. } if found == path.as_str() => {
            !is_same_time(*modified, source.modified())
        }
        _ => false,
    }
}

/// Whether two times can be the same one: listings of some servers tell it to the minute, and
/// others tell it to the second of a single file only.
pub(crate) fn is_same_time(one: Timestamp, other: Timestamp) -> bool {
    const STEPS: [i64; 3] = [1, 1_000_000, 60_000_000];
    let (one, other) = (one.micros(), other.micros());
    let (earlier, later) = (one.min(other), one.max(other));
    STEPS.iter().any(|step| earlier % step == 0 && later - later.rem_euclid(*step) == earlier)
}

/// Confirms that the file at `path` is still the one of the event, before it is moved or removed:
/// a newer upload under the same name has a job of its own and must not lose its file to this
/// one. Reads the file, unless a step before this one just did.
pub(crate) async fn verify(run: &mut Run<'_>, path: &VPath) -> Result<(), StepError> {
    let Some(expected) = Expected::of(&run.job.event) else { return Ok(()) };
    let source = open(run, path).await?;
    let seen = Seen::of(path, source.as_ref());
    if !expected.has_digest() || run.verified.as_ref() == Some(&seen) {
        return Ok(());
    }
    let digests = digest(run, source.as_ref(), Some(expected)).await?;
    if !expected.is(seen.size, &digests) {
        return Err(changed(path));
    }
    run.verified = Some(seen);
    Ok(())
}

/// Whether the file at `path` is the one of the event; for looking where an earlier attempt may
/// have put it.
pub(crate) async fn is_there(run: &mut Run<'_>, path: &VPath) -> Result<bool, StepError> {
    match verify(run, path).await {
        Ok(()) => Ok(true),
        Err(StepError::Permanent { code: "EP0808", .. }) => Ok(false),
        Err(error) if error.is_missing() => Ok(false),
        Err(error) => Err(error),
    }
}

/// What a file looked like when its content was verified.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Seen {
    path: VPath,
    size: u64,
    modified: Timestamp,
}

impl Seen {
    pub(crate) fn of(path: &VPath, source: &dyn Source) -> Seen {
        Seen { path: path.clone(), size: source.size(), modified: source.modified() }
    }
}

/// The digests of a file, those that `expected` has among them.
pub(crate) async fn digest(
    run: &Run<'_>,
    source: &dyn Source,
    expected: Option<Expected>,
) -> Result<Digests, StepError> {
    let mut digest = Expected::digest(expected);
    let mut block = BytesMut::with_capacity(BLOCK_BYTES);
    loop {
        block.clear();
        let read = source.read_at(digest.length(), block, BLOCK_BYTES);
        block = run.hold.waiting(read).await??;
        if block.is_empty() {
            return Ok(digest.finish());
        }
        digest.update(&block);
    }
}

/// The digests of a file at an endpoint.
pub(crate) async fn digest_at_endpoint(
    run: &Run<'_>,
    file: &dyn ReadFile,
    expected: Option<Expected>,
) -> Result<Result<Digests, StoreError>, StepError> {
    let mut digest = Expected::digest(expected);
    let mut block = BytesMut::with_capacity(BLOCK_BYTES);
    loop {
        block.clear();
        match run.hold.waiting(file.read_at(digest.length(), block, BLOCK_BYTES)).await? {
            Ok(read) if read.is_empty() => return Ok(Ok(digest.finish())),
            Ok(read) => {
                digest.update(&read);
                block = read;
            }
            Err(error) => return Ok(Err(error)),
        }
    }
}
