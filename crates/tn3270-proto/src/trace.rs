//! Traces in the format of the x3270 family: text in which `< 0xOFF HEX` are bytes from the host
//! and `> 0xOFF HEX` bytes from the terminal. An offset of 0 begins a new read or write, a larger
//! one goes on with it. Times stand in the lines before; all else is comment.

use std::fmt::Write as _;

use crate::limits::TRACE_LINE_BYTES;

/// Where bytes came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The host sent them.
    Host,
    /// The terminal sent them.
    Terminal,
}

/// The bytes of one read or write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Who sent it.
    pub origin: Origin,
    /// The last time that stood before it, as it is written: `20241103.175904.105`.
    pub time: Option<String>,
    /// All of its bytes, telnet included.
    pub bytes: Vec<u8>,
}

/// Reads a trace. What is not a line of bytes is skipped, so that this never fails; a trace without
/// any has no blocks.
pub fn read(text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut time = None;
    for line in text.lines().filter(|line| line.len() <= TRACE_LINE_BYTES) {
        let Some(part) = Part::of(line) else {
            time = time_of(line).or(time);
            continue;
        };
        match blocks.last_mut() {
            Some(last) if part.offset > 0 && last.origin == part.origin => {
                last.bytes.extend(part.bytes);
            }
            _ => {
                let time = time.clone();
                blocks.push(Block { origin: part.origin, time, bytes: part.bytes });
            }
        }
    }
    blocks
}

struct Part {
    origin: Origin,
    offset: usize,
    bytes: Vec<u8>,
}

impl Part {
    fn of(line: &str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let origin = match words.next()? {
            "<" => Origin::Host,
            ">" => Origin::Terminal,
            _ => return None,
        };
        let offset = usize::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
        let bytes = bytes_of(words.next()?)?;
        Some(Part { origin, offset, bytes })
    }
}

fn bytes_of(hex: &str) -> Option<Vec<u8>> {
    if !hex.len().is_multiple_of(2) || !hex.is_ascii() {
        return None;
    }
    let digits = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    hex.as_bytes().chunks(2).map(digits).collect()
}

/// `20241103.175904.105` at the begin of a line.
fn time_of(line: &str) -> Option<String> {
    let word = line.split(' ').next()?;
    let mut parts = word
        .split('.')
        .map(|part| part.bytes().all(|byte| byte.is_ascii_digit()).then_some(part.len()));
    let is_time = [8, 6, 3].iter().all(|length| parts.next() == Some(Some(*length)));
    (is_time && parts.next().is_none()).then(|| word.to_owned())
}

/// How many bytes a line of bytes has.
const LINE_BYTES: usize = 32;

/// The lines of one block, with its time in a line before if there is one.
pub fn write(block: &Block) -> String {
    let mut text = String::with_capacity(block.bytes.len() * 2 + 80);
    if let Some(time) = &block.time {
        text.push_str(time);
        text.push_str(match block.origin {
            Origin::Host => " Host sent\n",
            Origin::Terminal => " Terminal sent\n",
        });
    }
    let sign = match block.origin {
        Origin::Host => '<',
        Origin::Terminal => '>',
    };
    for (number, line) in block.bytes.chunks(LINE_BYTES).enumerate() {
        // Writing to a string cannot fail.
        let _ = write!(text, "{sign} {:<5} ", format!("{:#x}", number * LINE_BYTES));
        for byte in line {
            let _ = write!(text, "{byte:02x}");
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_begin_at_offset_0_and_comments_are_skipped() {
        let text = "Trace\n20240101.000000.001 x\n< 0x0   c1c2\n< 0x2 c3\n< Write(y)\n> 'foo'\n\
            > 0x0 7d\n< 0x0 zz\n< 0x0 c\n";
        let blocks = read(text);
        assert_eq!(blocks.len(), 2);
        assert_eq!(blocks[0].bytes, [0xc1, 0xc2, 0xc3]);
        assert_eq!(blocks[0].time.as_deref(), Some("20240101.000000.001"));
        assert_eq!((blocks[1].origin, &blocks[1].bytes[..]), (Origin::Terminal, &[0x7d][..]));
    }

    #[test]
    fn what_is_written_is_read_again() {
        let block = Block {
            origin: Origin::Host,
            time: Some("20240101.000000.001".to_owned()),
            bytes: (0..=255).collect(),
        };
        let text = write(&block) + &write(&Block { time: None, ..block.clone() });
        assert_eq!(read(&text), [block.clone(), block]);
        assert!(text.contains("\n< 0x20  2021"));
        // An offset as wide as its column, and wider ones.
        let long = Block { origin: Origin::Terminal, time: None, bytes: vec![0xc1; 70_000] };
        assert_eq!(read(&write(&long)), [long]);
    }
}
