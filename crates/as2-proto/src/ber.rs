//! A reader of BER (ITU-T X.690 §8) that is fed in pieces: definite and indefinite lengths, with
//! only the headers that are open in memory.

use crate::limits;

/// What comes next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Event<'a> {
    /// A value begins that holds others.
    Constructed {
        /// Class, form and number in one byte.
        tag: u8,
    },
    /// A value begins whose content follows.
    Primitive {
        /// Class, form and number in one byte.
        tag: u8,
    },
    /// The next bytes of a primitive value.
    Content(&'a [u8]),
    /// The value that began last and has not ended yet is over.
    End,
}

/// The bytes are no BER, or values lie too deep inside each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed BER")]
pub(crate) struct BerError;

/// Where a value that holds others ends.
#[derive(Clone, Copy)]
enum Extent {
    /// At this offset from the start.
    At(u64),
    /// At end-of-contents octets, at the latest before the end of what is around it.
    Marked { before: u64 },
}

impl Extent {
    fn bound(self) -> u64 {
        match self {
            Extent::At(end) => end,
            Extent::Marked { before } => before,
        }
    }
}

/// What the next byte belongs to.
enum State {
    Header(Vec<u8>),
    Content { left: u64 },
    Finished,
}

/// Reads one value.
pub(crate) struct BerReader {
    open: Vec<Extent>,
    offset: u64,
    state: State,
}

/// The header of a value.
struct Head {
    tag: u8,
    /// `None` is an indefinite length.
    length: Option<u64>,
}

impl Default for BerReader {
    fn default() -> Self {
        BerReader { open: Vec::new(), offset: 0, state: State::Header(Vec::new()) }
    }
}

impl BerReader {
    /// Whether the whole value was read.
    pub(crate) fn is_finished(&self) -> bool {
        matches!(self.state, State::Finished)
    }

    /// The next event, taken from the start of `input`; `None` when that is used up, or nothing is
    /// expected any more.
    pub(crate) fn event<'a>(
        &mut self,
        input: &mut &'a [u8],
    ) -> Result<Option<Event<'a>>, BerError> {
        match &mut self.state {
            State::Finished => Ok(None),
            State::Content { left: 0 } => Ok(Some(self.ended())),
            State::Content { left } => {
                let room = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
                let (content, rest) = input.split_at(room);
                *input = rest;
                *left -= room as u64;
                self.offset += room as u64;
                Ok(if content.is_empty() { None } else { Some(Event::Content(content)) })
            }
            State::Header(_) => {
                if let Some(Extent::At(end)) = self.open.last()
                    && *end == self.offset
                    && matches!(&self.state, State::Header(bytes) if bytes.is_empty())
                {
                    self.open.pop();
                    return Ok(Some(self.ended()));
                }
                self.header(input)
            }
        }
    }

    /// Goes on behind a value.
    fn ended(&mut self) -> Event<'static> {
        let over = self.open.is_empty();
        self.state = if over { State::Finished } else { State::Header(Vec::new()) };
        Event::End
    }

    fn header<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Event<'a>>, BerError> {
        let bound = self.open.last().map_or(u64::MAX, |extent| extent.bound());
        let State::Header(bytes) = &mut self.state else { return Err(BerError) };
        let head = loop {
            let Some((byte, rest)) = input.split_first() else { return Ok(None) };
            if self.offset >= bound {
                return Err(BerError);
            }
            bytes.push(*byte);
            *input = rest;
            self.offset += 1;
            if let Some(head) = head(bytes)? {
                break head;
            }
        };
        if head.tag == 0 {
            return match (self.open.pop(), head.length) {
                (Some(Extent::Marked { .. }), Some(0)) => Ok(Some(self.ended())),
                _ => Err(BerError),
            };
        }
        let end = head.length.map(|length| self.offset.checked_add(length));
        if end.is_some_and(|end| end.is_none_or(|end| end > bound)) {
            return Err(BerError);
        }
        let constructed = head.tag & 0x20 != 0;
        match (constructed, head.length, end.flatten()) {
            (false, Some(left), _) => {
                self.state = State::Content { left };
                Ok(Some(Event::Primitive { tag: head.tag }))
            }
            (true, _, end) => {
                let extent = end.map_or(Extent::Marked { before: bound }, Extent::At);
                self.open.push(extent);
                if self.open.len() > limits::BER_DEPTH {
                    return Err(BerError);
                }
                self.state = State::Header(Vec::new());
                Ok(Some(Event::Constructed { tag: head.tag }))
            }
            (false, None, _) => Err(BerError),
        }
    }
}

/// The header in `bytes`, once it is whole.
fn head(bytes: &[u8]) -> Result<Option<Head>, BerError> {
    let &[tag, first, ref digits @ ..] = bytes else {
        return match bytes {
            // Tag numbers above 30 occur nowhere in CMS.
            [tag] if tag & 0x1f == 0x1f => Err(BerError),
            _ => Ok(None),
        };
    };
    let count = usize::from(first & 0x7f);
    match first {
        0..=0x7f => Ok(Some(Head { tag, length: Some(u64::from(first)) })),
        0x80 => Ok(Some(Head { tag, length: None })),
        0x81..=0x88 if digits.len() < count => Ok(None),
        0x81..=0x88 => {
            let length = digits.iter().fold(0u64, |all, byte| all << 8 | u64::from(*byte));
            Ok(Some(Head { tag, length: Some(length) }))
        }
        _ => Err(BerError),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn events(bytes: &[u8], piece: usize) -> Result<Vec<String>, BerError> {
        let mut reader = BerReader::default();
        let mut events: Vec<String> = Vec::new();
        for mut input in bytes.chunks(piece) {
            while let Some(event) = reader.event(&mut input)? {
                match (event, events.last_mut()) {
                    (Event::Content(more), Some(last)) if last.starts_with("content") => {
                        more.iter().for_each(|byte| last.push_str(&format!(" {byte}")));
                    }
                    (Event::Content(more), _) => {
                        events.push(format!("content {more:?}").replace(['[', ']', ','], ""))
                    }
                    (event, _) => events.push(format!("{event:?}")),
                }
            }
        }
        assert!(reader.is_finished() || !events.is_empty());
        Ok(events)
    }

    /// Rewrites definite lengths as indefinite ones, and strings as constructed ones of three
    /// bytes each: what BouncyCastle makes.
    pub(crate) fn indefinite(der: &[u8]) -> Vec<u8> {
        let mut reader = entrepot_crypto::der::Reader::new(der);
        let mut output = Vec::new();
        while let Ok(value) = reader.read() {
            let string = value.tag == 4 || value.tag == 0x80 && value.content.len() > 20;
            if value.tag & 0x20 != 0 {
                output.extend([value.tag, 0x80]);
                output.extend(indefinite(value.content));
                output.extend([0, 0]);
            } else if string {
                output.extend([value.tag | 0x20, 0x80]);
                for piece in value.content.chunks(100) {
                    output.extend(entrepot_crypto::der::write(4, piece));
                }
                output.extend([0, 0]);
            } else {
                output.extend_from_slice(value.raw);
            }
        }
        output
    }

    #[test]
    fn definite_and_indefinite_lengths_give_the_same_events_at_every_cut() {
        let definite = [0x30, 7, 2, 1, 5, 4, 2, 9, 8];
        let marked = [0x30, 0x80, 2, 1, 5, 4, 2, 9, 8, 0, 0];
        let expected = [
            "Constructed { tag: 48 }",
            "Primitive { tag: 2 }",
            "content 5",
            "End",
            "Primitive { tag: 4 }",
            "content 9 8",
            "End",
            "End",
        ];
        for piece in 1..12 {
            assert_eq!(events(&definite, piece).unwrap(), expected, "{piece}");
            assert_eq!(events(&marked, piece).unwrap(), expected, "{piece}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let refused: [&[u8]; 9] = [
            &[0x1f, 1],                            // a long tag
            &[0x30, 2, 4, 1],                      // longer than what is around it
            &[0x30, 0x80, 0x30, 0x80, 0, 1],       // an end mark with content
            &[0x30, 2, 0, 0],                      // an end mark where the length is definite
            &[0, 0],                               // an end mark of nothing
            &[4, 0x80],                            // a primitive without a length
            &[4, 0x89, 1, 1, 1, 1, 1, 1, 1, 1, 1], // a length of nine bytes
            &[0x30, 3, 0x30, 0x80, 4, 0, 0],       // no end mark before the end around it
            &[0x30, 0x80].repeat(limits::BER_DEPTH + 1),
        ];
        for bytes in refused {
            assert_eq!(events(bytes, 3), Err(BerError), "{bytes:?}");
        }
        // So long a value overflows an offset.
        let mut long = vec![0x30, 0x80, 4, 0x88];
        long.extend([0xff; 8]);
        assert_eq!(events(&long, 3), Err(BerError));
    }

    #[test]
    fn a_length_beyond_memory_is_only_counted() {
        let mut reader = BerReader::default();
        let bytes = [4, 0x85, 2, 0x80, 0, 0, 0, 1, 2, 3];
        let mut input = &bytes[..];
        assert_eq!(reader.event(&mut input), Ok(Some(Event::Primitive { tag: 4 })));
        assert_eq!(reader.event(&mut input), Ok(Some(Event::Content(&[1, 2, 3]))));
        assert_eq!(reader.event(&mut input), Ok(None));
        assert!(!reader.is_finished());
    }
}
