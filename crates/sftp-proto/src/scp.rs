//! SCP, the protocol of rcp over SSH (there is no specification but OpenSSH `scp.c`): the sink
//! that takes files (`scp -t`), and what the source needs that gives them (`scp -f`). No IO.
//!
//! The source sends records, one line each, and the file's bytes; the sink answers each record and
//! each file by one byte 0, or by 1 or 2, a text and a line feed: 1 goes on, 2 stops.

use bytes::Bytes;

use crate::attrs::MODE_MASK;
use crate::limits::SCP_LINE_BYTES;
use crate::shell::Word;

/// `scp -t` or `scp -f`, as the client's scp runs it on our side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// Whether we take or give.
    pub role: Role,
    /// Directories too (`-r`).
    pub recursive: bool,
    /// With times, and with permission bits exactly as at the source (`-p`). A sink takes times
    /// whenever they come.
    pub preserve: bool,
    /// The target must be a directory (`-d`).
    pub directory: bool,
    /// One for a sink, at least one for a source.
    pub paths: Vec<Word>,
}

/// Which way the files go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// We take files (`-t`).
    Sink,
    /// We give files (`-f`).
    Source,
}

impl Command {
    /// The options and paths behind `scp`; `None`: not the far side of a copy.
    pub fn parse(words: &[Word]) -> Option<Command> {
        let (mut role, mut paths, mut options) = (None, Vec::new(), true);
        let (mut recursive, mut preserve, mut directory) = (false, false, false);
        for word in words {
            let letters = word.text().strip_prefix('-').filter(|rest| options && !rest.is_empty());
            let Some(letters) = letters else {
                options = false;
                paths.push(word.clone());
                continue;
            };
            if letters == "-" {
                options = false;
                continue;
            }
            for letter in letters.chars() {
                match letter {
                    't' if role.is_none() => role = Some(Role::Sink),
                    'f' if role.is_none() => role = Some(Role::Source),
                    'r' => recursive = true,
                    'p' => preserve = true,
                    'd' => directory = true,
                    // Talkative, quiet, batch, compressed: the client's own matter.
                    'v' | 'q' | 'B' | 'C' => {}
                    _ => return None,
                }
            }
        }
        let role = role?;
        let fits = match role {
            Role::Sink => paths.len() == 1,
            Role::Source => !paths.is_empty(),
        };
        fits.then_some(Command { role, recursive, preserve, directory, paths })
    }
}

/// Times in whole seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// When the content was last changed.
    pub modified: i64,
    /// When the content was last read.
    pub accessed: i64,
}

/// What the source says to a sink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Incoming<'a> {
    /// Times of the next record. Answer [`ACK`].
    Times(Times),
    /// A file. Call [`Sink::accept`] and answer [`ACK`], or answer [`warning`]: then its bytes do
    /// not come.
    File {
        /// Permission bits at the source, with set-uid, set-gid and sticky.
        mode: u32,
        /// Bytes that will come.
        size: u64,
        /// One plain component.
        name: &'a str,
    },
    /// Bytes of the file that was accepted. No answer.
    Data(&'a [u8]),
    /// All bytes have come and the source vouches for them. Publish, then answer.
    FileEnd,
    /// All bytes have come, but the source could not read them all: publish nothing. Answer.
    FileBroken(&'a str),
    /// A directory, entered. [`Sink::accept`] and [`ACK`], or [`warning`]: it is left out then.
    Directory {
        /// Permission bits at the source.
        mode: u32,
        /// One plain component.
        name: &'a str,
    },
    /// The end of the directory entered last. Answer [`ACK`].
    DirectoryEnd,
    /// Something went wrong at the source, which goes on. No answer.
    Told(&'a str),
    /// A record that cannot be carried out. Answer [`warning`] with the sentence.
    Refused(&'static str),
}

/// After which the channel ends. The sentence goes out as [`stop`] unless the peer stopped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fatal {
    /// The peer does not speak SCP.
    #[error("protocol error: {0}")]
    Protocol(&'static str),
    /// The peer gave up.
    #[error("the peer stopped: {0}")]
    Stopped(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The next record is awaited.
    Record,
    /// A file or directory was told and waits for the decision.
    AskedFile(u64),
    AskedDirectory,
    /// So many bytes are to come.
    Data(u64),
    /// The byte behind a file.
    Verdict,
    /// The text behind a bad one.
    VerdictText {
        stop: bool,
    },
    Ended,
}

/// What a sink does with the directories of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Directories {
    /// Takes them (`-r`).
    Taken,
    /// Ends the copy: a source that was not asked for directories sends none.
    Refused,
}

/// The machine of a sink.
#[derive(Debug)]
pub struct Sink {
    directories: Directories,
    state: State,
    line: Vec<u8>,
    /// The line was told and may be forgotten.
    told: bool,
    depth: usize,
}

impl Sink {
    /// A sink that waits for the first record; [`ACK`] is to be sent first.
    pub fn new(directories: Directories) -> Sink {
        Sink { directories, state: State::Record, line: Vec::new(), told: false, depth: 0 }
    }

    /// Takes the file or directory just told.
    pub fn accept(&mut self) {
        match self.state {
            State::AskedFile(0) => self.state = State::Verdict,
            State::AskedFile(size) => self.state = State::Data(size),
            State::AskedDirectory => {
                self.depth += 1;
                self.state = State::Record;
            }
            _ => {}
        }
    }

    /// True between files: if the source ends here nothing is cut.
    pub fn is_between(&self) -> bool {
        let asked = matches!(self.state, State::AskedFile(_) | State::AskedDirectory);
        (asked || self.state == State::Record) && (self.told || self.line.is_empty())
    }

    /// True if every byte of a file came and only the word behind it is missing: libssh2 (curl)
    /// never says it, and ends the channel instead.
    pub fn has_whole_file(&self) -> bool {
        self.state == State::Verdict
    }

    /// The next of what the source says, taken from the front of `input`; `None`: the input is
    /// used up.
    ///
    /// # Errors
    /// What ends the channel.
    pub fn next<'a, 'd: 'a>(
        &'a mut self,
        input: &mut &'d [u8],
    ) -> Result<Option<Incoming<'a>>, Fatal> {
        let step = self.step(input);
        let told = match step {
            Ok(None) => return Ok(None),
            Ok(Some(Step::Data(data))) => return Ok(Some(Incoming::Data(data))),
            Ok(Some(Step::FileEnd)) => return Ok(Some(Incoming::FileEnd)),
            Ok(Some(Step::Line)) => {
                self.told = true;
                self.record()
            }
            Err(fatal) => Err(fatal),
        };
        match told {
            Ok(kind) => Ok(Some(self.tell(kind))),
            Err(fatal) => {
                self.state = State::Ended;
                Err(fatal)
            }
        }
    }

    fn step<'d>(&mut self, input: &mut &'d [u8]) -> Result<Option<Step<'d>>, Fatal> {
        if std::mem::take(&mut self.told) {
            self.line.clear();
        }
        match self.state {
            State::Ended => return Err(Fatal::Protocol("the copy has ended")),
            // Not accepted: the source does not send it either.
            State::AskedFile(_) | State::AskedDirectory => self.state = State::Record,
            _ => {}
        }
        if let State::Data(left) = self.state {
            let count = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
            let Some((data, rest)) = input.split_at_checked(count).filter(|_| count > 0) else {
                return Ok(None);
            };
            *input = rest;
            let left = left.saturating_sub(u64::try_from(count).unwrap_or(u64::MAX));
            self.state = if left == 0 { State::Verdict } else { State::Data(left) };
            return Ok(Some(Step::Data(data)));
        }
        if self.state == State::Verdict {
            let Some((byte, rest)) = input.split_first() else { return Ok(None) };
            *input = rest;
            match byte {
                0 => {
                    self.state = State::Record;
                    return Ok(Some(Step::FileEnd));
                }
                1 | 2 => self.state = State::VerdictText { stop: *byte == 2 },
                _ => return Err(Fatal::Protocol("no end of the file")),
            }
        }
        Ok(take_line(&mut self.line, input)?.then_some(Step::Line))
    }

    /// What the line is, by its kind, with the state that follows.
    fn record(&mut self) -> Result<Kind, Fatal> {
        if let State::VerdictText { stop } = self.state {
            if stop {
                return Err(Fatal::Stopped(text_of(&self.line).to_owned()));
            }
            self.state = State::Record;
            return Ok(Kind::Broken);
        }
        let (kind, rest) = match self.line.split_first() {
            Some((kind, rest)) => (*kind, rest),
            None => return Err(Fatal::Protocol("an empty record")),
        };
        match kind {
            1 => Ok(Kind::Told),
            2 => Err(Fatal::Stopped(text_of(rest).to_owned())),
            b'E' if self.depth == 0 => Err(Fatal::Protocol("an end without a directory")),
            b'E' => {
                self.depth -= 1;
                Ok(Kind::DirectoryEnd)
            }
            b'T' => parse_times(rest)
                .map(Kind::Times)
                .ok_or(Fatal::Protocol("times that cannot be read")),
            b'C' | b'D' => {
                let Head { mode, size, start } = parse_head(&self.line)
                    .ok_or(Fatal::Protocol("a record that cannot be read"))?;
                let name = self.line.get(start..).unwrap_or_default();
                if kind == b'D' && self.directories == Directories::Refused {
                    return Err(Fatal::Protocol("a directory without -r"));
                }
                if let Some(refusal) = flaw_of(name) {
                    return Ok(Kind::Refused(refusal));
                }
                self.state = match kind {
                    b'C' => State::AskedFile(size),
                    _ => State::AskedDirectory,
                };
                Ok(Kind::Named { head: Head { mode, size, start }, directory: kind == b'D' })
            }
            _ => Err(Fatal::Protocol("a record of an unknown kind")),
        }
    }

    fn tell(&self, kind: Kind) -> Incoming<'_> {
        match kind {
            Kind::Told => Incoming::Told(text_of(self.line.get(1..).unwrap_or_default())),
            Kind::Broken => Incoming::FileBroken(text_of(&self.line)),
            Kind::DirectoryEnd => Incoming::DirectoryEnd,
            Kind::Times(times) => Incoming::Times(times),
            Kind::Refused(refusal) => Incoming::Refused(refusal),
            Kind::Named { head: Head { mode, size, start }, directory } => {
                let name = text_of(self.line.get(start..).unwrap_or_default());
                if directory {
                    Incoming::Directory { mode, name }
                } else {
                    Incoming::File { mode, size, name }
                }
            }
        }
    }
}

enum Step<'d> {
    Data(&'d [u8]),
    FileEnd,
    Line,
}

enum Kind {
    Told,
    Broken,
    DirectoryEnd,
    Times(Times),
    Refused(&'static str),
    Named { head: Head, directory: bool },
}

/// What a record of a file or directory says.
struct Head {
    mode: u32,
    size: u64,
    /// Where the name begins.
    start: usize,
}

/// Moves input to `line` up to a line feed, which is dropped; true if it came.
fn take_line(line: &mut Vec<u8>, input: &mut &[u8]) -> Result<bool, Fatal> {
    let end = input.iter().position(|byte| *byte == b'\n');
    let (taken, rest) = input.split_at(end.unwrap_or(input.len()));
    if line.len() + taken.len() > SCP_LINE_BYTES {
        return Err(Fatal::Protocol("a line longer than 8192 bytes"));
    }
    line.extend_from_slice(taken);
    *input = rest.get(usize::from(end.is_some())..).unwrap_or_default();
    Ok(end.is_some())
}

/// As much of a text as is UTF-8.
fn text_of(bytes: &[u8]) -> &str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => bytes
            .get(..error.valid_up_to())
            .and_then(|valid| std::str::from_utf8(valid).ok())
            .unwrap_or_default(),
    }
}

/// `C0644 12 name`.
fn parse_head(line: &[u8]) -> Option<Head> {
    let mut fields = line.splitn(3, |byte| *byte == b' ');
    let digits = fields.next()?.get(1..)?;
    let is_mode =
        (1..=7).contains(&digits.len()) && digits.iter().all(|b| (b'0'..=b'7').contains(b));
    let size = number(fields.next()?).filter(|_| is_mode)?;
    let mode = u32::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()? & MODE_MASK;
    let name = fields.next()?;
    // No file is longer than system calls can speak of.
    let fits = i64::try_from(size).is_ok();
    fits.then_some(Head { mode, size, start: line.len() - name.len() })
}

fn number(digits: &[u8]) -> Option<u64> {
    let all = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(digits).ok().filter(|_| all)?.parse().ok()
}

/// `1183832947 0 1183832947 0`: seconds and microseconds of change and of access.
fn parse_times(rest: &[u8]) -> Option<Times> {
    let fields: Vec<i64> = rest
        .split(|byte| *byte == b' ')
        .map(|field| number(field).and_then(|number| i64::try_from(number).ok()))
        .collect::<Option<_>>()?;
    match fields.as_slice() {
        [modified, _, accessed, _] => Some(Times { modified: *modified, accessed: *accessed }),
        _ => None,
    }
}

/// Why a name is not one plain component.
fn flaw_of(name: &[u8]) -> Option<&'static str> {
    match name {
        b"" | b"." | b".." => Some("that is no name of a file: send it under another one"),
        _ if name.contains(&b'/') => Some("the name has a slash: send it under another one"),
        _ if name.contains(&0) => Some("the name has a NUL byte: send it under another one"),
        _ if std::str::from_utf8(name).is_err() => Some("the name is not valid UTF-8"),
        _ => None,
    }
}

/// An answer of the sink to the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The record or file was taken: the source goes on.
    Ok,
    /// It did not work; go on with the next.
    Failed(String),
}

/// Reads the answers to a source.
#[derive(Debug, Default)]
pub struct Answers {
    kind: Option<u8>,
    text: Vec<u8>,
}

impl Answers {
    /// The next answer; `None`: the input is used up.
    ///
    /// # Errors
    /// The sink gave up or speaks something else.
    pub fn next(&mut self, input: &mut &[u8]) -> Result<Option<Answer>, Fatal> {
        let kind = match self.kind {
            Some(kind) => kind,
            None => {
                let Some((kind, rest)) = input.split_first() else { return Ok(None) };
                *input = rest;
                *kind
            }
        };
        match kind {
            0 => return Ok(Some(Answer::Ok)),
            1 | 2 => self.kind = Some(kind),
            _ => return Err(Fatal::Protocol("an answer of an unknown kind")),
        }
        if !take_line(&mut self.text, input)? {
            return Ok(None);
        }
        self.kind = None;
        let text = text_of(&std::mem::take(&mut self.text)).to_owned();
        if kind == 2 { Err(Fatal::Stopped(text)) } else { Ok(Some(Answer::Failed(text))) }
    }
}

/// The good answer.
pub const ACK: Bytes = Bytes::from_static(b"\0");
/// The end of a directory.
pub const END: Bytes = Bytes::from_static(b"E\n");

/// The record of a file.
pub fn file(mode: u32, size: u64, name: &str) -> Bytes {
    Bytes::from(format!("C{:04o} {size} {name}\n", mode & MODE_MASK))
}

/// The record of a directory.
pub fn directory(mode: u32, name: &str) -> Bytes {
    Bytes::from(format!("D{:04o} 0 {name}\n", mode & MODE_MASK))
}

/// The record of times; what lies before 1970 is shown as its first second.
pub fn times(times: Times) -> Bytes {
    Bytes::from(format!("T{} 0 {} 0\n", times.modified.max(0), times.accessed.max(0)))
}

/// A bad answer, or word of the source, after which the copy goes on.
pub fn warning(sentence: &str) -> Bytes {
    spoken(1, sentence)
}

/// A bad answer after which it ends.
pub fn stop(sentence: &str) -> Bytes {
    spoken(2, sentence)
}

fn spoken(kind: u8, sentence: &str) -> Bytes {
    let sentence = sentence.get(..sentence.floor_char_boundary(4096)).unwrap_or_default();
    let mut bytes = vec![kind];
    bytes.extend_from_slice(b"scp: ");
    bytes.extend(sentence.bytes().map(|byte| if byte == b'\n' { b' ' } else { byte }));
    bytes.push(b'\n');
    Bytes::from(bytes)
}

/// True if a name can stand in a record.
pub fn can_be_sent(name: &str) -> bool {
    flaw_of(name.as_bytes()).is_none() && !name.contains('\n')
}

/// Entry point of the fuzzer: the first byte chooses sink (even) or the source's reader (odd), the
/// second the size of the pieces, the third what is accepted; the rest is what the peer sends.
///
/// # Panics
/// If pieces give another result than the whole: what the fuzzer looks for.
pub fn fuzz(bytes: &[u8]) {
    let Some(([role, piece, taken], stream)) = bytes.split_first_chunk::<3>() else { return };
    let piece = usize::from(*piece) + 1;
    let run = if role % 2 == 0 { run_sink } else { run_answers };
    assert_eq!(run(stream, stream.len().max(1), *taken), run(stream, piece, *taken));
}

fn run_sink(stream: &[u8], piece: usize, taken: u8) -> Vec<String> {
    let directories = if taken & 1 != 0 { Directories::Taken } else { Directories::Refused };
    let (mut sink, mut told, mut asked) = (Sink::new(directories), Vec::new(), 0u32);
    for mut input in stream.chunks(piece) {
        loop {
            let (line, accepts) = match sink.next(&mut input) {
                Ok(None) => break,
                Err(fatal) => {
                    told.push(fatal.to_string());
                    return told;
                }
                // Pieces of data differ; only their bytes count.
                Ok(Some(Incoming::Data(data))) => {
                    told.extend(data.iter().map(|byte| format!("{byte}")));
                    continue;
                }
                Ok(Some(incoming)) => {
                    if let Incoming::File { name, .. } | Incoming::Directory { name, .. } =
                        &incoming
                    {
                        assert!(flaw_of(name.as_bytes()).is_none());
                    }
                    let asks =
                        matches!(incoming, Incoming::File { .. } | Incoming::Directory { .. });
                    (format!("{incoming:?}"), asks)
                }
            };
            told.push(line);
            if accepts {
                asked += 1;
                if taken.rotate_right(asked % 8) & 1 != 0 {
                    sink.accept();
                }
            }
        }
        assert!(input.is_empty(), "input was left");
        assert!(sink.line.len() <= SCP_LINE_BYTES);
    }
    told.push(format!("{}", sink.is_between()));
    told
}

fn run_answers(stream: &[u8], piece: usize, _: u8) -> Vec<String> {
    let (mut answers, mut told) = (Answers::default(), Vec::new());
    for mut input in stream.chunks(piece) {
        loop {
            match answers.next(&mut input) {
                Ok(None) => break,
                Ok(Some(answer)) => told.push(format!("{answer:?}")),
                Err(fatal) => {
                    told.push(fatal.to_string());
                    return told;
                }
            }
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell;

    fn command(line: &str) -> Option<Command> {
        Command::parse(&shell::split(line.as_bytes()).unwrap())
    }

    #[test]
    fn the_far_sides_that_clients_run_are_understood() {
        for (line, role, recursive, times, directory) in [
            ("-t /in", Role::Sink, false, false, false),
            ("-p -t .", Role::Sink, false, true, false),
            ("-r -p -t x", Role::Sink, true, true, false),
            ("-d -t 'a b'", Role::Sink, false, false, true),
            ("-f /a", Role::Source, false, false, false),
            ("-r -f a b", Role::Source, true, false, false),
            ("-pf '/tmp/x'", Role::Source, false, true, false),
            ("-v -t -- -x", Role::Sink, false, false, false),
        ] {
            let found = command(line).unwrap();
            let told = (found.role, found.recursive, found.preserve, found.directory);
            assert_eq!(told, (role, recursive, times, directory), "{line}");
        }
        assert_eq!(command("-v -t -- -x").unwrap().paths[0].text(), "-x");
        for line in ["", "a b", "-t", "-t a b", "-f", "-t -f a", "-S x -t a", "-o Foo -f a"] {
            assert_eq!(command(line), None, "{line}");
        }
    }

    fn feed(sink: &mut Sink, stream: &[u8]) -> Vec<String> {
        let (mut input, mut told) = (stream, Vec::new());
        loop {
            let incoming = match sink.next(&mut input) {
                Ok(None) => return told,
                Ok(Some(incoming)) => format!("{incoming:?}"),
                Err(fatal) => {
                    told.push(fatal.to_string());
                    return told;
                }
            };
            if incoming.starts_with("File {") || incoming.starts_with("Directory {") {
                sink.accept();
            }
            told.push(incoming);
        }
    }

    #[test]
    fn a_tree_with_times_is_told_record_by_record() {
        let mut sink = Sink::new(Directories::Taken);
        let stream = b"T10 0 20 0\nD0755 0 d\nC0644 3 a b\nabc\0C0600 0 empty\n\0E\n";
        let told = feed(&mut sink, stream).join(" ");
        assert_eq!(
            told,
            "Times(Times { modified: 10, accessed: 20 }) Directory { mode: 493, name: \"d\" } \
             File { mode: 420, size: 3, name: \"a b\" } Data([97, 98, 99]) FileEnd \
             File { mode: 384, size: 0, name: \"empty\" } FileEnd DirectoryEnd"
        );
        assert!(sink.is_between());
        assert_eq!(feed(&mut sink, b"E\n"), ["protocol error: an end without a directory"]);
    }

    #[test]
    fn what_was_not_accepted_does_not_come() {
        let mut sink = Sink::new(Directories::Taken);
        let mut input: &[u8] = b"C0644 3 a\nC0644 1 b\nx\0";
        assert!(matches!(sink.next(&mut input), Ok(Some(Incoming::File { name: "a", .. }))));
        assert!(matches!(sink.next(&mut input), Ok(Some(Incoming::File { name: "b", .. }))));
        sink.accept();
        assert!(!sink.is_between());
        assert_eq!(sink.next(&mut input), Ok(Some(Incoming::Data(b"x"))));
        assert!(!sink.is_between(), "the source has not vouched for it");
        assert_eq!(sink.next(&mut input), Ok(Some(Incoming::FileEnd)));
    }

    #[test]
    fn a_source_that_could_not_read_says_so_behind_the_bytes() {
        let mut sink = Sink::new(Directories::Refused);
        let told = feed(&mut sink, b"C0644 2 a\nab\x01scp: a: I/O error\n\x01other\n");
        assert_eq!(told[2..], ["FileBroken(\"scp: a: I/O error\")", "Told(\"other\")"]);
        assert_eq!(feed(&mut sink, b"\x02no more\n"), ["the peer stopped: no more"]);
        assert_eq!(feed(&mut sink, b"C0644 2 a\n"), ["protocol error: the copy has ended"]);
    }

    #[test]
    fn what_is_malformed_ends_it_and_bad_names_do_not() {
        let long = [b'C'; SCP_LINE_BYTES + 1];
        for stream in [
            &b"\n"[..],
            b"X\n",
            b"C0644 x a\n",
            b"C0648 1 a\n",
            b"C 1 a\n",
            b"C0644 9223372036854775808 a\n",
            b"C0644 1\n",
            b"T1 2 3\n",
            b"T1 2 3 -4\n",
            b"D0755 0 d\n",
            b"C0644 0 a\n\x07",
            &long,
        ] {
            let told = feed(&mut Sink::new(Directories::Refused), stream);
            assert!(told.last().unwrap().starts_with("protocol error"), "{stream:?} {told:?}");
        }
        for name in ["", ".", "..", "a/b", "\0", "../../etc/passwd"] {
            let told =
                feed(&mut Sink::new(Directories::Refused), format!("C0644 0 {name}\n").as_bytes());
            assert!(told.len() == 1 && told[0].starts_with("Refused"), "{name} {told:?}");
        }
        assert_eq!(feed(&mut Sink::new(Directories::Refused), b"C0644 0 \xff\n").len(), 1);
    }

    #[test]
    fn what_a_source_sends_a_sink_understands() {
        let stream = [
            times(Times { modified: 5, accessed: -1 }),
            directory(0o755, "d"),
            file(0o644, 2, "ä b"),
            Bytes::from_static(b"xy\0"),
            END,
            warning("a\nb"),
        ]
        .concat();
        let whole = run_sink(&stream, stream.len(), 0xff);
        assert_eq!(whole.len(), 9, "{whole:?}");
        for piece in 1..stream.len() {
            assert_eq!(run_sink(&stream, piece, 0xff), whole);
        }
        let mut answers = Answers::default();
        let stream = [ACK, warning("no"), ACK, stop("never")].concat();
        let mut input = stream.as_slice();
        assert_eq!(answers.next(&mut input), Ok(Some(Answer::Ok)));
        assert_eq!(answers.next(&mut input), Ok(Some(Answer::Failed("scp: no".to_owned()))));
        assert_eq!(answers.next(&mut input), Ok(Some(Answer::Ok)));
        assert_eq!(answers.next(&mut input), Err(Fatal::Stopped("scp: never".to_owned())));
        assert!(!can_be_sent("a\nb") && !can_be_sent("..") && can_be_sent("a b"));
    }
}
