//! Changes of files, which block: a thread makes them, and the task of the job reads and writes for
//! it, so that leases, quotas of work files and the digests of files are looked at as in any step.

use std::io::{self, Read, Seek, SeekFrom, Write};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use entrepot_crypto::StreamDigest;
use entrepot_transform::{Bounds, TransformError};
use serde_json::json;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use super::made::Making;
use super::{Expected, Input, StepError};
use crate::foresight::{Foresee, Foreseen, Foresight, InputFile, UNREAD};
use crate::ids::StepKey;
use crate::limits::BLOCK_BYTES;
use crate::noted::{FILE, FileValue};
use crate::pattern::{self, Values};
use crate::pause::Pause;
use crate::run::Run;

/// Where a change writes.
#[async_trait]
pub(super) trait Output: Send {
    /// Another file follows, for changes that make several: its path among them.
    async fn begin(&mut self, run: &mut Run<'_>, path: String) -> Result<(), StepError>;
    async fn write(&mut self, run: &mut Run<'_>, block: Bytes) -> Result<(), StepError>;
    /// The file is whole.
    async fn end(&mut self, run: &mut Run<'_>) -> Result<(), StepError>;
}

#[async_trait]
impl Output for Making {
    async fn begin(&mut self, _run: &mut Run<'_>, _path: String) -> Result<(), StepError> {
        Ok(())
    }

    async fn write(&mut self, run: &mut Run<'_>, block: Bytes) -> Result<(), StepError> {
        Making::write(self, run, block).await?;
        run.reached(Pause::BlockWritten)
    }

    async fn end(&mut self, _run: &mut Run<'_>) -> Result<(), StepError> {
        Ok(())
    }
}

/// What the thread asks the task for.
enum Asked {
    Read { offset: u64 },
    Begin { path: String },
    Write { block: Bytes },
    End,
}

struct Request {
    asked: Asked,
    /// Gets the bytes that were read, or none.
    done: oneshot::Sender<Bytes>,
}

/// The side of the thread. When the task has gone on without it, whatever it asks for fails.
#[derive(Clone)]
pub(super) struct Line(mpsc::Sender<Request>);

impl Line {
    fn ask(&self, asked: Asked) -> io::Result<Bytes> {
        let (done, answer) = oneshot::channel();
        self.0.blocking_send(Request { asked, done }).map_err(|_| given_up())?;
        self.wait_for(answer)
    }

    fn wait_for(&self, mut answer: oneshot::Receiver<Bytes>) -> io::Result<Bytes> {
        let answered = async {
            tokio::select! {
                biased;
                answered = &mut answer => answered.ok(),
                // A request that was sent in the moment in which its receiver went is dropped by
                // nobody.
                () = self.0.closed() => answer.try_recv().ok(),
            }
        };
        Handle::current().block_on(answered).ok_or_else(given_up)
    }

    /// Begins a file of several.
    pub(super) fn begin(&self, path: &str) -> io::Result<()> {
        self.ask(Asked::Begin { path: path.to_owned() }).map(drop)
    }

    /// Ends a file of several.
    pub(super) fn end(&self) -> io::Result<()> {
        self.ask(Asked::End).map(drop)
    }
}

fn given_up() -> io::Error {
    io::Error::other("the step was given up")
}

/// The file that the change is made of.
pub(super) struct LineReader {
    line: Line,
    size: u64,
    /// Of the first byte of `block`.
    offset: u64,
    block: Bytes,
}

impl Read for LineReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.block.is_empty() {
            self.block = self.line.ask(Asked::Read { offset: self.offset })?;
        }
        let taken = self.block.split_to(self.block.len().min(buffer.len()));
        let room = buffer.get_mut(..taken.len()).unwrap_or_default();
        room.copy_from_slice(&taken);
        self.offset += taken.len() as u64;
        Ok(taken.len())
    }
}

impl Seek for LineReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let to = match to {
            SeekFrom::Start(offset) => Some(offset),
            SeekFrom::End(by) => self.size.checked_add_signed(by),
            SeekFrom::Current(by) => self.offset.checked_add_signed(by),
        };
        let to = to.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        let ahead = to.checked_sub(self.offset).and_then(|ahead| usize::try_from(ahead).ok());
        match ahead.filter(|ahead| *ahead <= self.block.len()) {
            Some(ahead) => drop(self.block.split_to(ahead)),
            None => self.block = Bytes::new(),
        }
        self.offset = to;
        Ok(to)
    }
}

/// What comes of the change.
pub(super) struct LineWriter {
    line: Line,
    block: BytesMut,
}

impl Write for LineWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = BLOCK_BYTES.saturating_sub(self.block.len()).min(bytes.len());
        self.block.extend_from_slice(bytes.get(..room).unwrap_or_default());
        if self.block.len() >= BLOCK_BYTES {
            self.flush()?;
        }
        Ok(room)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        let block = self.block.split().freeze();
        self.block.reserve(BLOCK_BYTES);
        self.line.ask(Asked::Write { block }).map(drop)
    }
}

/// What a change works with.
pub(super) struct Ends {
    pub(super) reader: LineReader,
    pub(super) writer: LineWriter,
    /// For changes that make several files.
    pub(super) line: Line,
}

impl Ends {
    fn new(line: Line, size: u64) -> Ends {
        let reader = LineReader { line: line.clone(), size, offset: 0, block: Bytes::new() };
        let block = BytesMut::with_capacity(BLOCK_BYTES);
        let writer = LineWriter { line: line.clone(), block };
        Ends { reader, writer, line }
    }
}

/// Makes `change` of `input`, all of which is compared with what it must be.
pub(super) async fn change<T: Send + 'static>(
    run: &mut Run<'_>,
    input: &Input,
    output: &mut dyn Output,
    change: impl FnOnce(Ends) -> Result<T, TransformError> + Send + 'static,
) -> Result<T, StepError> {
    let (sender, requests) = mpsc::channel(1);
    let ends = Ends::new(Line(sender), input.source.size());
    let thread = tokio::task::spawn_blocking(move || change(ends));
    let mut digest = Expected::digest(input.expected);
    let serving = Serving { digest: &mut digest, requests };
    let served = serve(run, input, output, serving).await;
    // Nobody answers any more: the thread ends with what it asks for next.
    let ended = thread.await;
    served?;
    let changed = match ended {
        Ok(ended) => ended.map_err(StepError::from),
        Err(error) => Err(StepError::permanent("EP0870", format!("the file broke it: {error}"))),
    };
    // What is behind the part that was needed is looked at too; and a file that was changed under
    // our hands says more than what came of it.
    loop {
        let block = read(run, input, digest.length()).await?;
        if block.is_empty() {
            break;
        }
        digest.update(&block);
    }
    let size = digest.length();
    input.check(size, &digest.finish())?;
    changed
}

/// What the thread asked for, and the digest of what it read in order.
struct Serving<'a> {
    digest: &'a mut StreamDigest,
    requests: mpsc::Receiver<Request>,
}

async fn serve(
    run: &mut Run<'_>,
    input: &Input,
    output: &mut dyn Output,
    mut serving: Serving<'_>,
) -> Result<(), StepError> {
    while let Some(Request { asked, done }) = serving.requests.recv().await {
        let mut answer = Bytes::new();
        match asked {
            Asked::Read { offset } => {
                answer = read(run, input, offset).await?;
                if offset == serving.digest.length() {
                    serving.digest.update(&answer);
                }
            }
            Asked::Begin { path } => output.begin(run, path).await?,
            Asked::Write { block } => output.write(run, block).await?,
            Asked::End => output.end(run).await?,
        }
        // A thread that ended meanwhile says why itself.
        let _ = done.send(answer);
    }
    Ok(())
}

async fn read(run: &Run<'_>, input: &Input, offset: u64) -> Result<Bytes, StepError> {
    let room = BytesMut::with_capacity(BLOCK_BYTES);
    let read = input.source.read_at(offset, room, BLOCK_BYTES);
    Ok(run.hold.waiting(read).await??.freeze())
}

/// Makes another file of the one that steps work on: later steps work on that.
pub(super) async fn make<T: Send + 'static>(
    run: &mut Run<'_>,
    key: &StepKey,
    name: String,
    work: impl FnOnce(Ends) -> Result<T, TransformError> + Send + 'static,
) -> Result<T, StepError> {
    let input = Input::open(run).await?;
    run.reached(Pause::SourceOpen)?;
    let mut making = Making::begin(run, key).await?;
    match change(run, &input, &mut making, work).await {
        Ok(done) => {
            run.reached(Pause::Written)?;
            making.finish(run, name).await?;
            run.reached(Pause::Published)?;
            Ok(done)
        }
        Err(error) => {
            making.discard().await;
            Err(error)
        }
    }
}

/// A step that always makes another file of the one that steps work on.
pub(super) trait MakesFile {
    /// What it does to the file, in a sentence without a subject.
    const VERB: &'static str;

    /// What the new file is called.
    fn made_name(&self, values: Values<'_>) -> Result<String, StepError>;
}

#[async_trait]
impl<S: MakesFile + Send + Sync> Foresee for S {
    async fn foresee(&self, foresight: &mut Foresight<'_>) -> Result<Foreseen, StepError> {
        let name = self.made_name(foresight.values())?;
        let InputFile { file, open } = foresight.input()?;
        let what = format!("{} {file} as '{name}'", S::VERB);
        let foreseen = foreseen_file(foresight, what, name);
        Ok(Foreseen { open: open.or(foreseen.open), ..foreseen })
    }
}

/// Why nobody knows before how a change of a file ends.
pub(super) const CONTENT: &str = "what comes of its content shows only then";

/// What a step would leave that makes a file of this name.
pub(super) fn foreseen_file(foresight: &Foresight<'_>, what: String, name: String) -> Foreseen {
    let (step, digest) = (foresight.address.clone(), UNREAD.to_owned());
    let made = FileValue { name, size: 0, digest, step, epoch: 1 };
    let result = Some(json!({ FILE: made.told() }));
    Foreseen { what, result, open: Some(CONTENT.to_owned()) }
}

/// The name of the file that a step makes: a plain one.
pub(super) fn made_name(
    values: Values<'_>,
    pattern: Option<&str>,
    otherwise: impl FnOnce(&str) -> String,
) -> Result<String, StepError> {
    let name = match pattern {
        Some(pattern) => pattern::expand(pattern, values)?,
        None => otherwise(&pattern::expand("{name}", values)?),
    };
    let plain = !matches!(name.as_str(), "" | "." | "..") && name.len() <= 255;
    if plain && !name.contains(['/', '\\', '\0']) && !name.chars().any(char::is_control) {
        return Ok(name);
    }
    let shown: String = name.chars().take(100).collect();
    Err(StepError::permanent("EP0812", format!("'{}' is no name of a file", shown.escape_debug())))
}

/// How much may come of a file.
pub(super) fn bounds(output_mib: u32, ratio: u32) -> Bounds {
    Bounds { output_bytes: u64::from(output_mib) << 20, ratio: u64::from(ratio) }
}

impl From<TransformError> for StepError {
    fn from(error: TransformError) -> Self {
        let code = match error {
            TransformError::BadInput(_) => "EP0870",
            TransformError::OverBound(_) => "EP0871",
            TransformError::BadText(_) => "EP0877",
            TransformError::BadKey(_) => "EP0872",
            TransformError::NotDecrypted => "EP0873",
            TransformError::NotSigned(_) => "EP0874",
            TransformError::Read(_) | TransformError::Write(_) => "EP0875",
        };
        if error.is_lasting() {
            StepError::permanent(code, error.to_string())
        } else {
            StepError::transient(code, error.to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a thread asks for while the step ends may come into the channel behind the last look of
    /// the step, and then lies there as long as the thread has its end of it.
    #[tokio::test]
    async fn a_request_behind_the_last_look_of_its_step_is_given_up() {
        let (sender, requests) = mpsc::channel(1);
        let (done, answer) = oneshot::channel();
        let place = sender.clone().reserve_owned().await.unwrap();
        drop(requests);
        drop(place.send(Request { asked: Asked::End, done }));
        let asked = tokio::task::spawn_blocking(move || Line(sender).wait_for(answer));
        let told = asked.await.unwrap().unwrap_err();
        assert_eq!(told.to_string(), "the step was given up");
    }
}
