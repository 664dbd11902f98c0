//! What is started, and how it ended.

use std::fmt;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use zeroize::Zeroizing;

use crate::limits::{MEMORY_BYTES, PROGRAM_PROCESSES, TIME};

/// A program to start: never through a shell, each argument as it stands.
#[derive(Debug)]
pub struct Program {
    /// Absolute path and arguments.
    pub argv: Vec<String>,
    /// Its whole environment, but for `PATH`, `LANG` and `TMPDIR` (a folder of its own that is
    /// removed when it has ended), unless named here.
    pub env: Vec<(String, String)>,
    /// What it reads.
    pub stdin: Stdin,
    /// Where its standard output goes.
    pub stdout: Stdout,
    /// Files on this machine that its arguments name. Under Landlock it may read and write them
    /// wherever they lie; a user of its own must have the right to read them.
    pub files: Vec<PathBuf>,
    /// After this time it is killed, with everything it started.
    pub limit: Duration,
    /// Its address space (`RLIMIT_AS`).
    pub memory_bytes: u64,
    /// With more processes than this it is killed. Only a helper process sees to that.
    pub processes: u64,
}

impl Program {
    /// With nothing to read and the usual limits.
    pub fn new(argv: Vec<String>) -> Program {
        Program {
            argv,
            env: Vec::new(),
            stdin: Stdin::Nothing,
            stdout: Stdout::Kept,
            files: Vec::new(),
            limit: TIME,
            memory_bytes: MEMORY_BYTES,
            processes: PROGRAM_PROCESSES,
        }
    }
}

/// What a program reads.
pub enum Stdin {
    /// Nothing: its standard input is `/dev/null`.
    Nothing,
    /// These bytes, then the end. Wiped afterwards; they reach no other process.
    Bytes(Zeroizing<Vec<u8>>),
    /// What comes out of this pipe; see [`pipe`].
    Pipe(OwnedFd),
}

impl fmt::Debug for Stdin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stdin::Nothing => "Nothing",
            Stdin::Bytes(_) => "Bytes(***)",
            Stdin::Pipe(_) => "Pipe",
        })
    }
}

/// Where the standard output of a program goes.
#[derive(Debug)]
pub enum Stdout {
    /// Its last bytes are kept: see [`Ended::stdout`].
    Kept,
    /// Into this pipe, however much it is; see [`output_pipe`].
    Pipe(OwnedFd),
}

/// The end to read from, and what to give the program. Read while the program runs; the end comes
/// when it, and whatever it left running, has closed its standard output.
///
/// # Errors
/// The process has no descriptors left.
pub fn output_pipe() -> std::io::Result<(tokio::net::unix::pipe::Receiver, Stdout)> {
    let (sender, receiver) = tokio::net::unix::pipe::pipe()?;
    Ok((receiver, Stdout::Pipe(sender.into_blocking_fd()?)))
}

/// The end to write to, and what to give the program. Write while the program runs; an error of
/// the kind `BrokenPipe` says that it does not read to the end.
///
/// # Errors
/// The process has no descriptors left.
pub fn pipe() -> std::io::Result<(tokio::net::unix::pipe::Sender, Stdin)> {
    let (sender, receiver) = tokio::net::unix::pipe::pipe()?;
    Ok((sender, Stdin::Pipe(receiver.into_blocking_fd()?)))
}

/// What a program is given besides words.
pub(crate) struct Descriptors {
    pub(crate) stdin: Option<OwnedFd>,
    pub(crate) stdout: Option<OwnedFd>,
}

/// How a program ended, and what it said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// By itself, by a signal, or killed at a limit.
    pub how: How,
    /// From its start to its end.
    pub duration: Duration,
    /// What it wrote to standard output; nothing where that went into a pipe.
    pub stdout: Output,
    /// What it wrote to standard error.
    pub stderr: Output,
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// By itself, with this exit code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// It was killed when its time was over.
    TimeLimit,
    /// It was killed because it wrote more than [`crate::limits::OUTPUT_MOST`].
    OutputLimit,
    /// It was killed because it had more than [`Program::processes`].
    ProcessLimit,
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            How::Code(code) => write!(f, "exit code {code}"),
            How::Signal(signal) => write!(f, "ended by signal {signal}"),
            How::TimeLimit => f.write_str("killed, its time was over"),
            How::OutputLimit => f.write_str("killed, it wrote too much"),
            // No rule can ask for another number.
            How::ProcessLimit => {
                write!(f, "killed, it had more than {PROGRAM_PROCESSES} processes")
            }
        }
    }
}

/// The last bytes that a program wrote to one output.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Output {
    /// The last [`crate::limits::OUTPUT_KEPT`] bytes.
    pub bytes: Vec<u8>,
    /// Bytes before them that were not kept.
    pub dropped: u64,
}

impl Output {
    /// The last lines as one line of at most `characters`, control characters taken out.
    pub fn last_words(&self, characters: usize) -> String {
        let text = String::from_utf8_lossy(&self.bytes);
        let words: Vec<&str> = text.split(|c: char| c.is_whitespace() || c.is_control()).collect();
        let line = words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
        let skip = line.chars().count().saturating_sub(characters);
        line.chars().skip(skip).collect()
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output")
            .field("bytes", &self.bytes.len())
            .field("dropped", &self.dropped)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_words_are_one_clean_line() {
        let output = |text: &str| Output { bytes: text.as_bytes().to_vec(), dropped: 0 };
        assert_eq!(output("one\ntwo\r\n\x1b[31mred\t\0\n").last_words(100), "one two [31mred");
        assert_eq!(output("a long story").last_words(5), "story");
        assert_eq!(output("").last_words(5), "");
        assert_eq!(Output { bytes: vec![0xff, b'x'], dropped: 0 }.last_words(9), "\u{fffd}x");
    }

    #[test]
    fn secrets_are_not_shown() {
        let stdin = Stdin::Bytes(Zeroizing::new(b"secret".to_vec()));
        assert_eq!(format!("{stdin:?}"), "Bytes(***)");
    }
}
