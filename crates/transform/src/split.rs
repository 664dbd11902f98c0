//! A file in parts: by lines, bytes or records, or at lines that begin with a text. One after the
//! other they are the file again.

use std::io::{ErrorKind, Read};
use std::num::NonZeroU64;

use crate::archive::FileSink;
use crate::error::TransformError;
use crate::flow::Flow;
use crate::limits::BLOCK_BYTES;
use crate::records::{Record, RecordCursor, Records};

/// Where the parts of a file end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartSize {
    /// Behind so many lines; a line ends with LF.
    Lines(NonZeroU64),
    /// Behind so many bytes.
    Bytes(NonZeroU64),
    /// Behind so many records.
    Records(NonZeroU64, Records),
    /// In front of each line that begins with these bytes, of which there is one at least.
    Header(Vec<u8>),
}

/// Gives the parts of a file to `parts`, which are numbered from 1; of an empty file there is none.
/// More than `most` parts are an error.
pub fn split(
    size: &PartSize,
    most: u32,
    reader: impl Read,
    parts: &mut impl FileSink<u32>,
) -> Result<(), TransformError> {
    let flow = Flow::default();
    let mut input = flow.input(reader);
    let mut block = vec![0; BLOCK_BYTES];
    let mut parts = Parts { sink: parts, most, number: 0, is_open: false };
    let mut cutter = Cutter::new(size);
    loop {
        let read = match input.read(&mut block) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            read => flow.ended(read.map_err(TransformError::Read))?,
        };
        let bytes = block.get(..read).unwrap_or_default();
        if bytes.is_empty() {
            break;
        }
        cutter.push(bytes, &mut parts)?;
    }
    cutter.finish(&mut parts)?;
    parts.end()
}

/// The parts so far.
struct Parts<'p, S> {
    sink: &'p mut S,
    most: u32,
    number: u32,
    is_open: bool,
}

impl<S: FileSink<u32>> Parts<'_, S> {
    /// Writes to the part under way, or to the next one.
    fn write(&mut self, bytes: &[u8]) -> Result<(), TransformError> {
        if bytes.is_empty() {
            return Ok(());
        }
        if !self.is_open {
            if self.number == self.most {
                let text = format!("more than {} parts come of it", self.most);
                return Err(TransformError::OverBound(text));
            }
            self.number += 1;
            self.sink.begin(&self.number).map_err(TransformError::Write)?;
            self.is_open = true;
        }
        self.sink.write(bytes).map_err(TransformError::Write)
    }

    fn end(&mut self) -> Result<(), TransformError> {
        if !std::mem::take(&mut self.is_open) {
            return Ok(());
        }
        self.sink.end().map_err(TransformError::Write)
    }
}

/// Where the part under way ends.
enum Cutter<'c> {
    /// When this is 0, of so many.
    Lines {
        whole: u64,
        left: u64,
    },
    Bytes {
        whole: u64,
        left: u64,
    },
    Records {
        whole: u64,
        left: u64,
        cursor: RecordCursor,
    },
    Header(Header<'c>),
}

impl<'c> Cutter<'c> {
    fn new(size: &'c PartSize) -> Cutter<'c> {
        match size {
            PartSize::Lines(count) => Cutter::Lines { whole: count.get(), left: count.get() },
            PartSize::Bytes(count) => Cutter::Bytes { whole: count.get(), left: count.get() },
            PartSize::Records(count, form) => Cutter::Records {
                whole: count.get(),
                left: count.get(),
                cursor: RecordCursor::new(*form),
            },
            PartSize::Header(text) => Cutter::Header(Header { text, found: Some(0) }),
        }
    }

    fn push<S: FileSink<u32>>(
        &mut self,
        mut bytes: &[u8],
        parts: &mut Parts<'_, S>,
    ) -> Result<(), TransformError> {
        if let Cutter::Header(header) = self {
            return header.push(bytes, parts);
        }
        while !bytes.is_empty() {
            let (taken, is_end) = self.taken(bytes)?;
            let (part, rest) = bytes.split_at_checked(taken).unwrap_or((bytes, &[]));
            parts.write(part)?;
            bytes = rest;
            if is_end {
                parts.end()?;
            }
        }
        Ok(())
    }

    /// How many of these bytes belong to the part under way, and whether it ends there.
    fn taken(&mut self, bytes: &[u8]) -> Result<(usize, bool), TransformError> {
        match self {
            Cutter::Bytes { whole, left } => {
                let taken = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                Ok((taken, is_over(left, *whole, taken as u64)))
            }
            Cutter::Lines { whole, left } => {
                for (at, byte) in bytes.iter().enumerate() {
                    if *byte == b'\n' && is_over(left, *whole, 1) {
                        return Ok((at + 1, true));
                    }
                }
                Ok((bytes.len(), false))
            }
            Cutter::Records { whole, left, cursor } => {
                let mut taken = 0;
                while let Some(rest) = bytes.get(taken..).filter(|rest| !rest.is_empty()) {
                    let (more, record) = cursor.advance(rest)?;
                    taken += more;
                    if record == Record::Ended && is_over(left, *whole, 1) {
                        return Ok((taken, true));
                    }
                }
                Ok((taken, false))
            }
            Cutter::Header(_) => Ok((bytes.len(), false)),
        }
    }

    fn finish<S: FileSink<u32>>(&self, parts: &mut Parts<'_, S>) -> Result<(), TransformError> {
        match self {
            Cutter::Records { cursor, .. } => cursor.finish(),
            Cutter::Header(header) => parts.write(header.held()),
            Cutter::Lines { .. } | Cutter::Bytes { .. } => Ok(()),
        }
    }
}

/// Counts down, and says whether a part is over: then it begins anew.
fn is_over(left: &mut u64, whole: u64, count: u64) -> bool {
    *left -= count;
    let is_over = *left == 0;
    if is_over {
        *left = whole;
    }
    is_over
}

/// Lines that begin with a text.
struct Header<'c> {
    text: &'c [u8],
    /// How much of it the present line begins with, none of which has been written; `None`: the
    /// line is another one, or was found to be one already.
    found: Option<usize>,
}

impl Header<'_> {
    /// What of the text has come and is not written.
    fn held(&self) -> &[u8] {
        self.found.and_then(|found| self.text.get(..found)).unwrap_or_default()
    }

    fn push<S: FileSink<u32>>(
        &mut self,
        mut bytes: &[u8],
        parts: &mut Parts<'_, S>,
    ) -> Result<(), TransformError> {
        while let Some(first) = bytes.first() {
            let Some(found) = self.found else {
                let end = bytes.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
                let taken = end.unwrap_or(bytes.len());
                let (line, rest) = bytes.split_at_checked(taken).unwrap_or((bytes, &[]));
                parts.write(line)?;
                self.found = end.map(|_| 0);
                bytes = rest;
                continue;
            };
            if self.text.get(found) != Some(first) {
                parts.write(self.held())?;
                self.found = None;
                continue;
            }
            bytes = bytes.get(1..).unwrap_or_default();
            self.found = Some(found + 1);
            if found + 1 == self.text.len() {
                parts.end()?;
                parts.write(self.text)?;
                self.found = None;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::{FileSink, NonZeroU64, PartSize, Read, Records, TransformError, split};
    use crate::tools::tool;

    #[derive(Default)]
    struct Parts {
        whole: Vec<Vec<u8>>,
        open: Option<Vec<u8>>,
    }

    impl FileSink<u32> for Parts {
        fn begin(&mut self, label: &u32) -> io::Result<()> {
            assert_eq!(*label as usize, self.whole.len() + 1);
            assert!(self.open.replace(Vec::new()).is_none());
            Ok(())
        }

        fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
            self.open.as_mut().unwrap().extend_from_slice(bytes);
            Ok(())
        }

        fn end(&mut self) -> io::Result<()> {
            self.whole.push(self.open.take().unwrap());
            Ok(())
        }
    }

    fn parts(size: PartSize, bytes: &[u8]) -> Result<Vec<Vec<u8>>, TransformError> {
        let mut parts = Parts::default();
        split(&size, 1_000, bytes, &mut parts)?;
        assert!(parts.open.is_none(), "the last part has no end");
        Ok(parts.whole)
    }

    fn lines(count: u64) -> PartSize {
        PartSize::Lines(NonZeroU64::new(count).unwrap())
    }

    fn bytes(count: u64) -> PartSize {
        PartSize::Bytes(NonZeroU64::new(count).unwrap())
    }

    #[test]
    fn the_usual_tool_makes_the_same_parts() {
        let folder = tempfile::tempdir().unwrap();
        let prefix = folder.path().join("p.");
        let long = "a line\n".repeat(50_000) + "and no end";
        for text in ["", "\n", "a", "a\n", "a\nb", "a\n\nb\n", &long] {
            for (size, option) in [
                (lines(1), "-l1"),
                (lines(2), "-l2"),
                (lines(9_999), "-l9999"),
                (bytes(1), "-b1"),
                (bytes(3), "-b3"),
                (bytes(65_536), "-b65536"),
                (bytes(100_000), "-b100000"),
            ] {
                let count =
                    if option.starts_with("-l") { text.lines().count() } else { text.len() };
                if count > 1_000 && option.len() == 3 {
                    let ended = parts(size.clone(), text.as_bytes());
                    assert!(matches!(ended, Err(TransformError::OverBound(_))), "{option}");
                    continue;
                }
                tool(
                    &["split", "-a4", "-d", option, "-", prefix.to_str().unwrap()],
                    text.as_bytes(),
                );
                let mut theirs: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
                theirs.sort_by_key(|entry| entry.as_ref().unwrap().path());
                let mut read = Vec::new();
                for entry in theirs {
                    let path = entry.unwrap().path();
                    read.push(std::fs::read(&path).unwrap());
                    std::fs::remove_file(path).unwrap();
                }
                let ours = parts(size.clone(), text.as_bytes()).unwrap();
                assert!(ours == read, "{option} of {} bytes", text.len());
                assert!(ours.concat() == text.as_bytes());
            }
        }
    }

    /// Each byte comes by itself, so that records and headers are cut at every place.
    struct Drops<'a>(&'a [u8]);

    impl Read for Drops<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let most = buffer.len().min(1);
            self.0.read(&mut buffer[..most])
        }
    }

    /// The parts as texts, whichever blocks the file comes in.
    fn texts(size: &PartSize, bytes: &[u8]) -> Result<Vec<String>, String> {
        let of = |reader: &mut dyn Read| {
            let mut parts = Parts::default();
            split(size, 100, reader, &mut parts).map_err(|error| error.to_string())?;
            assert_eq!(parts.whole.concat(), bytes);
            let text = |part: &Vec<u8>| String::from_utf8_lossy(part).into_owned();
            Ok(parts.whole.iter().map(text).collect())
        };
        let whole = of(&mut &*bytes);
        assert_eq!(of(&mut Drops(bytes)), whole);
        whole
    }

    #[test]
    fn parts_have_whole_records() {
        let size = |form| PartSize::Records(NonZeroU64::new(2).unwrap(), form);
        let fixed = size(Records::Fixed(3));
        assert_eq!(texts(&fixed, b"aaabbbccc"), Ok(vec!["aaabbb".into(), "ccc".into()]));
        assert_eq!(texts(&fixed, b""), Ok(vec![]));
        assert_eq!(texts(&fixed, b"aaabb").unwrap_err(), "the file ends within record 2");
        let rdw = size(Records::Rdw);
        let file = b"\0\x06\0\0ab\0\x04\0\0\0\x05\0\0c";
        let wanted = ["\0\x06\0\0ab\0\x04\0\0", "\0\x05\0\0c"].map(str::to_owned).to_vec();
        assert_eq!(texts(&rdw, file), Ok(wanted));
        for (file, said) in [
            (&b"\0\x06\0\0a"[..], "the file ends within record 1"),
            (b"\0\x04\0\0\0\x05\0", "the file ends within record 2"),
            (b"\0\x03\0\0", "record 1 says that it has 3 bytes"),
            (b"\0\x06\x01\0ab", "bytes 3 and 4 are not zero"),
        ] {
            let error = texts(&rdw, file).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn a_part_begins_at_each_header() {
        let size = PartSize::Header(b"HDR".to_vec());
        for (file, wanted) in [
            ("", &[][..]),
            ("HDR", &["HDR"]),
            ("HD", &["HD"]),
            ("HDR1\na\nHDR2\n", &["HDR1\na\n", "HDR2\n"]),
            ("before\nHDR\nxHDR\nHHDR\nHD\nHDR", &["before\n", "HDR\nxHDR\nHHDR\nHD\n", "HDR"]),
            ("HDRHDR\n\nHDHDR\n", &["HDRHDR\n\nHDHDR\n"]),
        ] {
            assert_eq!(texts(&size, file.as_bytes()).unwrap(), wanted, "{file:?}");
        }
        let many = "HDR\n".repeat(101);
        assert!(texts(&size, many.as_bytes()).unwrap_err().contains("more than 100 parts"));
    }
}
