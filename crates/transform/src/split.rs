//! A file in parts, by lines or by bytes. One after the other they are the file again.

use std::io::{ErrorKind, Read};
use std::num::NonZeroU64;

use crate::archive::FileSink;
use crate::error::TransformError;
use crate::flow::Flow;
use crate::limits::BLOCK_BYTES;

/// How large a part is, but the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartSize {
    /// So many lines; a line ends with LF.
    Lines(NonZeroU64),
    /// So many bytes.
    Bytes(NonZeroU64),
}

impl PartSize {
    fn whole(self) -> u64 {
        match self {
            PartSize::Lines(count) | PartSize::Bytes(count) => count.get(),
        }
    }

    /// How many of these bytes belong to a part that lacks `left`, and what it lacks then.
    fn taken(self, bytes: &[u8], left: u64) -> (usize, u64) {
        match self {
            PartSize::Bytes(_) => {
                let taken = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                (taken, left - taken as u64)
            }
            PartSize::Lines(_) => {
                let mut left = left;
                for (at, byte) in bytes.iter().enumerate() {
                    if *byte == b'\n' {
                        left -= 1;
                        if left == 0 {
                            return (at + 1, 0);
                        }
                    }
                }
                (bytes.len(), left)
            }
        }
    }
}

/// Gives the parts of a file to `parts`, which are numbered from 1; of an empty file there is none.
/// More than `most` parts are an error.
pub fn split(
    size: PartSize,
    most: u32,
    reader: impl Read,
    parts: &mut impl FileSink<u32>,
) -> Result<(), TransformError> {
    let flow = Flow::default();
    let mut input = flow.input(reader);
    let mut block = vec![0; BLOCK_BYTES];
    // What the part under way lacks; 0: none is under way.
    let (mut number, mut left) = (0, 0);
    loop {
        let read = match input.read(&mut block) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            read => flow.ended(read.map_err(TransformError::Read))?,
        };
        let mut bytes = block.get(..read).unwrap_or_default();
        if bytes.is_empty() {
            break;
        }
        while !bytes.is_empty() {
            if left == 0 {
                if number == most {
                    let text = format!("more than {most} parts come of it");
                    return Err(TransformError::OverBound(text));
                }
                (number, left) = (number + 1, size.whole());
                parts.begin(&number).map_err(TransformError::Write)?;
            }
            let (taken, lacks) = size.taken(bytes, left);
            let (part, rest) = bytes.split_at_checked(taken).unwrap_or((bytes, &[]));
            parts.write(part).map_err(TransformError::Write)?;
            (bytes, left) = (rest, lacks);
            if left == 0 {
                parts.end().map_err(TransformError::Write)?;
            }
        }
    }
    if left > 0 {
        parts.end().map_err(TransformError::Write)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
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
        split(size, 1_000, bytes, &mut parts)?;
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
                if count > 1_000 && size.whole() < 5 {
                    let ended = parts(size, text.as_bytes());
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
                let ours = parts(size, text.as_bytes()).unwrap();
                assert!(ours == read, "{option} of {} bytes", text.len());
                assert!(ours.concat() == text.as_bytes());
            }
        }
    }
}
