//! What flows through one change of a file: counted, bounded, and the first thing that went wrong
//! below a library, which may wrap or drop the error.

use std::fmt;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::TransformError;
use crate::limits::{BLOCK_BYTES, OUTPUT_BYTES, RATIO, RATIO_FREE_BYTES, SILENT_BYTES};

/// How much may come of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// So many bytes at most, whatever the size of the source.
    pub output_bytes: u64,
    /// In sizes of the source, once it is past a mebibyte.
    pub ratio: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds { output_bytes: OUTPUT_BYTES, ratio: RATIO }
    }
}

impl Bounds {
    /// For what grows by a constant part at most.
    pub(crate) fn none() -> Self {
        Bounds { output_bytes: u64::MAX, ratio: u64::MAX }
    }

    pub(crate) fn check(&self, source: u64, output: u64) -> Result<(), TransformError> {
        if output > self.output_bytes {
            let most = self.output_bytes;
            return Err(TransformError::OverBound(format!("more than {most} bytes come of it")));
        }
        if output > RATIO_FREE_BYTES && output > source.saturating_mul(self.ratio) {
            let text = format!("more than {} times its size comes of it", self.ratio);
            return Err(TransformError::OverBound(text));
        }
        Ok(())
    }
}

/// The counters of one change of a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flow(Arc<Counters>);

#[derive(Debug, Default)]
struct Counters {
    read: AtomicU64,
    written: AtomicU64,
    /// Moves whenever something was written.
    progress: AtomicU64,
    fault: Mutex<Option<TransformError>>,
}

impl Flow {
    pub(crate) fn read(&self) -> u64 {
        self.0.read.load(Ordering::Relaxed)
    }

    pub(crate) fn written(&self) -> u64 {
        self.0.written.load(Ordering::Relaxed)
    }

    /// What was read up to now counts as progress.
    pub(crate) fn progressed(&self) {
        self.0.progress.fetch_add(1, Ordering::Relaxed);
    }

    /// Remembers the first fault, and gives the library something to fail with.
    pub(crate) fn fail(&self, fault: TransformError) -> io::Error {
        let text = fault.to_string();
        let mut first = self.0.fault.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert(fault);
        io::Error::other(text)
    }

    /// The result of a library: what went wrong below it comes first.
    pub(crate) fn ended<T>(
        &self,
        result: Result<T, impl Into<TransformError>>,
    ) -> Result<T, TransformError> {
        match self.0.fault.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(fault) => Err(fault),
            None => result.map_err(Into::into),
        }
    }

    pub(crate) fn input<R>(&self, inner: R) -> Input<R> {
        Input {
            inner,
            flow: self.clone(),
            role: Role::Source,
            most_silent: u64::MAX,
            silence: too_silent,
            silent: 0,
            seen: 0,
        }
    }

    /// The source of a decoder, which may not read much without writing.
    pub(crate) fn decoded<R>(&self, inner: R) -> Input<R> {
        self.input(inner).limited_to(SILENT_BYTES, too_silent)
    }

    /// What comes of a decoder and goes into another one.
    pub(crate) fn layer<R>(&self, inner: R) -> Input<R> {
        Input { role: Role::Layer, ..self.input(inner) }
    }

    pub(crate) fn output<W>(&self, inner: W, bounds: Bounds) -> Output<W> {
        Output { inner, flow: self.clone(), bounds }
    }
}

/// Counts what a library reads.
pub(crate) struct Input<R> {
    inner: R,
    flow: Flow,
    role: Role,
    /// So much may be read at most between two writes.
    most_silent: u64,
    /// What it means that more was read.
    silence: fn() -> TransformError,
    silent: u64,
    /// The progress when something was read last.
    seen: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// What is read here is the source.
    Source,
    /// It is made of the source: it has no faults but those of the source, and is not counted.
    Layer,
}

/// Of a decoder that reads on and on and writes nothing.
pub(crate) fn too_silent() -> TransformError {
    TransformError::OverBound("it has too many bytes without content".to_owned())
}

impl<R> Input<R> {
    pub(crate) fn limited_to(self, most_silent: u64, silence: fn() -> TransformError) -> Self {
        Input { most_silent, silence, ..self }
    }

    fn count(&mut self, read: u64) -> io::Result<()> {
        if self.role == Role::Source {
            self.flow.0.read.fetch_add(read, Ordering::Relaxed);
        }
        let progress = self.flow.0.progress.load(Ordering::Relaxed);
        self.silent = if progress == self.seen { self.silent + read } else { read };
        self.seen = progress;
        if self.silent > self.most_silent {
            return Err(self.flow.fail((self.silence)()));
        }
        Ok(())
    }
}

impl<R> fmt::Debug for Input<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Input").field("flow", &self.flow).finish_non_exhaustive()
    }
}

impl<R: Read> Read for Input<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.inner.read(buffer) {
            Ok(read) => {
                self.count(read as u64)?;
                Ok(read)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            Err(error) if self.role == Role::Layer => Err(error),
            Err(error) => Err(self.flow.fail(TransformError::Read(error))),
        }
    }
}

impl<R: Seek> Seek for Input<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.inner.seek(to)
    }
}

/// Counts and bounds what a library writes.
pub(crate) struct Output<W> {
    inner: W,
    flow: Flow,
    bounds: Bounds,
}

impl<W: Write> Write for Output<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.flow.written() + bytes.len() as u64;
        if let Err(fault) = self.bounds.check(self.flow.read(), written) {
            return Err(self.flow.fail(fault));
        }
        match self.inner.write(bytes) {
            Ok(written) => {
                self.flow.0.written.fetch_add(written as u64, Ordering::Relaxed);
                self.flow.progressed();
                Ok(written)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            Err(error) => Err(self.flow.fail(TransformError::Write(error))),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush().map_err(|error| self.flow.fail(TransformError::Write(error)))
    }
}

impl<W: Seek> Seek for Output<W> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.inner.seek(to).map_err(|error| self.flow.fail(TransformError::Write(error)))
    }
}

/// Copies by large blocks; how many bytes.
pub(crate) fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<u64> {
    let mut block = vec![0; BLOCK_BYTES];
    let mut copied = 0;
    loop {
        let read = match from.read(&mut block) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        if read == 0 {
            return Ok(copied);
        }
        to.write_all(block.get(..read).unwrap_or_default())?;
        copied += read as u64;
    }
}
