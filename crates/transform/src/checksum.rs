//! Checksum files, as `sha256sum` and its like write and check them.

use std::fmt;
use std::io::{self, Read, Write};

use aws_lc_rs::digest;
use md5::{Digest as _, Md5};

use crate::error::TransformError;
use crate::flow::{Bounds, Flow, copy};
use crate::limits::CHECKSUM_FILE_BYTES;

/// How a checksum is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// Against accidents only: others can make files with the same.
    Md5,
    /// Against accidents only: others can make files with the same.
    Sha1,
    /// The usual one.
    Sha256,
    /// The longest one.
    Sha512,
}

impl Algorithm {
    /// As in the names of checksum files: `sha256`.
    pub fn as_str(self) -> &'static str {
        match self {
            Algorithm::Md5 => "md5",
            Algorithm::Sha1 => "sha1",
            Algorithm::Sha256 => "sha256",
            Algorithm::Sha512 => "sha512",
        }
    }
}

/// A checksum under way.
enum Hasher {
    Md5(Md5),
    Other(digest::Context),
}

impl Hasher {
    fn new(algorithm: Algorithm) -> Hasher {
        let other = |algorithm| Hasher::Other(digest::Context::new(algorithm));
        match algorithm {
            Algorithm::Md5 => Hasher::Md5(Md5::new()),
            Algorithm::Sha1 => other(&digest::SHA1_FOR_LEGACY_USE_ONLY),
            Algorithm::Sha256 => other(&digest::SHA256),
            Algorithm::Sha512 => other(&digest::SHA512),
        }
    }

    fn finish(self) -> Checksum {
        Checksum(match self {
            Hasher::Md5(hasher) => hasher.finalize().to_vec(),
            Hasher::Other(hasher) => hasher.finish().as_ref().to_vec(),
        })
    }
}

impl Write for Hasher {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Hasher::Md5(hasher) => hasher.update(bytes),
            Hasher::Other(hasher) => hasher.update(bytes),
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The checksum of a file. Displays as hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checksum(Vec<u8>);

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Checksum {
    /// Of all of `reader`.
    pub fn of(algorithm: Algorithm, reader: impl Read) -> Result<Checksum, TransformError> {
        let flow = Flow::default();
        let mut hasher = Hasher::new(algorithm);
        let copied = copy(&mut flow.input(reader), &mut hasher).map(drop);
        flow.ended(copied.map_err(TransformError::Read))?;
        Ok(hasher.finish())
    }

    /// The line of a checksum file about a file of this name, as GNU writes it: names with line
    /// ends or backslashes are escaped, and say so by a backslash before the line.
    pub fn line(&self, name: &str) -> String {
        let escaped = name.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r");
        let mark = if escaped == name { "" } else { "\\" };
        format!("{mark}{self}  {escaped}\n")
    }

    /// What a checksum file says about the file called `name`: a line of GNU (`DIGITS  NAME`) or
    /// BSD (`SHA256 (NAME) = DIGITS`) form, or the digits alone. Folders before names count for
    /// nothing.
    pub fn find(algorithm: Algorithm, file: &[u8], name: &str) -> Result<Checksum, TransformError> {
        if file.len() > CHECKSUM_FILE_BYTES {
            let text = format!("a checksum file has {CHECKSUM_FILE_BYTES} bytes at most");
            return Err(TransformError::OverBound(text));
        }
        let text = std::str::from_utf8(file);
        let text = text.map_err(|_| TransformError::bad("the checksum file is not UTF-8"))?;
        let text = text.trim_start_matches('\u{feff}');
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        if let [line] = lines.as_slice()
            && let Some(checksum) = Checksum::parse(algorithm, line.trim())
        {
            return Ok(checksum);
        }
        let mut found = lines.iter().filter_map(|line| Line::parse(algorithm, line));
        let mut found = found.by_ref().filter(|line| base_name(&line.name) == base_name(name));
        let first = found.next().ok_or_else(|| {
            TransformError::bad(format!(
                "the checksum file has no {} checksum of '{}'",
                algorithm.as_str(),
                base_name(name)
            ))
        })?;
        if found.any(|line| line.checksum != first.checksum) {
            let text = format!("the checksum file has two checksums of '{}'", base_name(name));
            return Err(TransformError::bad(text));
        }
        Ok(first.checksum)
    }

    fn parse(algorithm: Algorithm, digits: &str) -> Option<Checksum> {
        let length = match algorithm {
            Algorithm::Md5 => 16,
            Algorithm::Sha1 => 20,
            Algorithm::Sha256 => 32,
            Algorithm::Sha512 => 64,
        };
        if digits.len() != length * 2 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let pair = |at: usize| u8::from_str_radix(digits.get(at * 2..at * 2 + 2)?, 16).ok();
        (0..length).map(pair).collect::<Option<_>>().map(Checksum)
    }
}

/// Copies a file whose checksum is known; if it has another one, what was written counts for
/// nothing.
pub fn copy_checked(
    algorithm: Algorithm,
    expected: &Checksum,
    reader: impl Read,
    writer: impl Write,
) -> Result<(), TransformError> {
    let flow = Flow::default();
    let mut input = Hashing { inner: flow.input(reader), hasher: Hasher::new(algorithm) };
    let mut output = flow.output(writer, Bounds::none());
    let copied = copy(&mut input, &mut output).and_then(|_| output.flush());
    flow.ended(copied.map_err(TransformError::Read))?;
    let found = input.hasher.finish();
    if found != *expected {
        let kind = algorithm.as_str();
        let text = format!("its {kind} checksum is {found} and should be {expected}");
        return Err(TransformError::BadInput(text));
    }
    Ok(())
}

struct Hashing<R> {
    inner: R,
    hasher: Hasher,
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.hasher.write_all(buffer.get(..read).unwrap_or_default())?;
        Ok(read)
    }
}

/// A line of a checksum file.
struct Line {
    checksum: Checksum,
    name: String,
}

impl Line {
    fn parse(algorithm: Algorithm, line: &str) -> Option<Line> {
        let (escaped, line) = match line.strip_prefix('\\') {
            Some(rest) => (true, rest),
            None => (false, line),
        };
        let (checksum, name) = Line::gnu(algorithm, line).or_else(|| Line::bsd(algorithm, line))?;
        let name = if escaped { unescaped(name)? } else { name.to_owned() };
        Some(Line { checksum, name })
    }

    fn gnu(algorithm: Algorithm, line: &str) -> Option<(Checksum, &str)> {
        let (digits, name) = line.split_once(' ')?;
        let name = name.strip_prefix([' ', '*']).unwrap_or(name);
        Some((Checksum::parse(algorithm, digits)?, name))
    }

    fn bsd(algorithm: Algorithm, line: &str) -> Option<(Checksum, &str)> {
        let (kind, rest) = line.split_once(" (")?;
        let (name, digits) = rest.rsplit_once(") = ")?;
        if !kind.eq_ignore_ascii_case(algorithm.as_str()) {
            return None;
        }
        Some((Checksum::parse(algorithm, digits.trim())?, name))
    }
}

fn unescaped(name: &str) -> Option<String> {
    let mut plain = String::with_capacity(name.len());
    let mut characters = name.chars();
    while let Some(character) = characters.next() {
        plain.push(match character {
            '\\' => match characters.next()? {
                '\\' => '\\',
                'n' => '\n',
                'r' => '\r',
                _ => return None,
            },
            other => other,
        });
    }
    Some(plain)
}

fn base_name(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools;

    const ALL: [Algorithm; 4] =
        [Algorithm::Md5, Algorithm::Sha1, Algorithm::Sha256, Algorithm::Sha512];

    #[test]
    fn the_usual_tools_check_our_files_and_we_theirs() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["plain.csv", "two words", "back\\slash", "line\nend", "ä(x) = y"] {
            std::fs::write(folder.path().join(name), b"content\n").unwrap();
            for algorithm in ALL {
                let program = format!("{}sum", algorithm.as_str());
                let checksum = Checksum::of(algorithm, b"content\n".as_slice()).unwrap();
                std::fs::write(folder.path().join("sums"), checksum.line(name)).unwrap();
                let run = |arguments: &[&str]| {
                    let mut command = std::process::Command::new(&program);
                    tools::run(command.current_dir(folder.path()).args(arguments), b"")
                };
                run(&["--check", "--strict", "sums"]).unwrap();
                for form in [&["--", name][..], &["--tag", name]] {
                    let theirs = run(form).unwrap();
                    let found = Checksum::find(algorithm, &theirs, name).unwrap();
                    assert_eq!(found, checksum, "{name}: {}", String::from_utf8_lossy(&theirs));
                }
            }
        }
    }

    #[test]
    fn the_line_of_the_file_is_found_and_no_other() {
        let sums = |list: &[(&str, &str)]| -> String {
            let line = |(content, name): &(&str, &str)| {
                Checksum::of(Algorithm::Sha256, content.as_bytes()).unwrap().line(name)
            };
            list.iter().map(line).collect()
        };
        let find =
            |file: &str, name: &str| Checksum::find(Algorithm::Sha256, file.as_bytes(), name);
        let two = sums(&[("1", "a"), ("2", "./out/b")]);
        let second = Checksum::of(Algorithm::Sha256, b"2".as_slice()).unwrap();
        assert_eq!(find(&two, "/in/b").unwrap(), second);
        assert!(find(&two, "c").is_err());
        assert!(find(&sums(&[("1", "a"), ("2", "a")]), "a").is_err());
        assert_eq!(find(&format!("\u{feff}{second}\r\n"), "x").unwrap(), second);
        assert_eq!(find(&second.to_string().to_uppercase(), "x").unwrap(), second);
        for bad in ["", "zz", "a  b", &format!("{second}0  a"), &format!("MD5 (a) = {second}")] {
            assert!(find(bad, "a").is_err(), "{bad}");
        }
    }

    #[test]
    fn a_changed_file_is_no_copy() {
        let checksum = Checksum::of(Algorithm::Sha256, b"content".as_slice()).unwrap();
        let mut copied = Vec::new();
        let checked = |content: &'static [u8], to: &mut Vec<u8>| {
            copy_checked(Algorithm::Sha256, &checksum, content, to)
        };
        checked(b"content", &mut copied).unwrap();
        assert_eq!(copied, b"content");
        assert!(matches!(checked(b"Content", &mut copied), Err(TransformError::BadInput(_))));
    }
}
