//! DER (ITU-T X.690): values read in place and written. What is not DER, such as indefinite
//! lengths, is refused; messages come through a reader of BER first.

/// The tag of BOOLEAN.
pub const BOOLEAN: u8 = 0x01;
/// The tag of INTEGER.
pub const INTEGER: u8 = 0x02;
/// The tag of BIT STRING, primitive.
pub const BIT_STRING: u8 = 0x03;
/// The tag of OCTET STRING, primitive.
pub const OCTET_STRING: u8 = 0x04;
/// The tag of NULL.
pub const NULL: u8 = 0x05;
/// The tag of OBJECT IDENTIFIER.
pub const OID: u8 = 0x06;
/// The tag of UTF8String.
pub const UTF8_STRING: u8 = 0x0c;
/// The tag of UTCTime.
pub const UTC_TIME: u8 = 0x17;
/// The tag of GeneralizedTime.
pub const GENERALIZED_TIME: u8 = 0x18;
/// The tag of SEQUENCE, constructed.
pub const SEQUENCE: u8 = 0x30;
/// The tag of SET, constructed.
pub const SET: u8 = 0x31;

/// The tag `[number]` around other values; numbers reach 30.
pub const fn context(number: u8) -> u8 {
    0xa0 | number
}

/// The tag `[number]` in place of a primitive one; numbers reach 30.
pub const fn context_primitive(number: u8) -> u8 {
    0x80 | number
}

/// The bytes are no DER, or not the values that belong there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed DER")]
pub struct DerError;

/// One value, where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Value<'a> {
    /// Class, form and number in one byte.
    pub tag: u8,
    /// What is between header and end.
    pub content: &'a [u8],
    /// Header and content.
    pub raw: &'a [u8],
}

impl<'a> Value<'a> {
    /// The values inside.
    pub fn values(&self) -> Reader<'a> {
        Reader(self.content)
    }
}

/// Reads values one after the other.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Reads from the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader(bytes)
    }

    /// Whether nothing follows.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The tag of the value that follows.
    pub fn peek(&self) -> Option<u8> {
        self.0.first().copied()
    }

    /// The next value. A tag number above 30 is refused.
    pub fn read(&mut self) -> Result<Value<'a>, DerError> {
        let (&[tag, first], rest) = self.0.split_first_chunk::<2>().ok_or(DerError)?;
        if tag & 0x1f == 0x1f {
            return Err(DerError);
        }
        let (length, content) = match first {
            0..=0x7f => (usize::from(first), rest),
            0x81..=0x84 => {
                let (length, content) =
                    rest.split_at_checked(usize::from(first & 0x7f)).ok_or(DerError)?;
                let value = length.iter().fold(0u64, |all, byte| all << 8 | u64::from(*byte));
                (usize::try_from(value).or(Err(DerError))?, content)
            }
            _ => return Err(DerError),
        };
        let (content, rest) = content.split_at_checked(length).ok_or(DerError)?;
        let (raw, _) = self.0.split_at_checked(self.0.len() - rest.len()).ok_or(DerError)?;
        self.0 = rest;
        Ok(Value { tag, content, raw })
    }

    /// The next value, which has this tag.
    pub fn tagged(&mut self, tag: u8) -> Result<Value<'a>, DerError> {
        self.optional(tag)?.ok_or(DerError)
    }

    /// The next value where it has this tag; else nothing is read.
    pub fn optional(&mut self, tag: u8) -> Result<Option<Value<'a>>, DerError> {
        if self.peek() != Some(tag) {
            return Ok(None);
        }
        self.read().map(Some)
    }

    /// A small INTEGER that is not negative.
    pub fn small_integer(&mut self) -> Result<u64, DerError> {
        let content = self.tagged(INTEGER)?.content;
        if content.is_empty() || content.len() > 8 || content.first().is_some_and(|b| b & 0x80 != 0)
        {
            return Err(DerError);
        }
        Ok(content.iter().fold(0, |all, byte| all << 8 | u64::from(*byte)))
    }

    /// That nothing follows.
    pub fn end(&self) -> Result<(), DerError> {
        if self.is_empty() { Ok(()) } else { Err(DerError) }
    }
}

/// The header of a value: its tag and the length of its content.
pub fn header(tag: u8, length: u64) -> Vec<u8> {
    let mut bytes = vec![tag];
    if let Ok(short @ 0..=0x7f) = u8::try_from(length) {
        bytes.push(short);
        return bytes;
    }
    let all = length.to_be_bytes();
    let digits: Vec<u8> = all.into_iter().skip_while(|byte| *byte == 0).collect();
    bytes.push(0x80 | digits.len() as u8);
    bytes.extend(digits);
    bytes
}

/// A value around `content`.
pub fn write(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = header(tag, content.len() as u64);
    bytes.extend_from_slice(content);
    bytes
}

/// A value around the parts one after the other.
pub fn write_all(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    write(tag, &parts.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_written() {
        for length in [0usize, 1, 127, 128, 255, 256, 65_535, 65_536] {
            let bytes = write(OCTET_STRING, &vec![7; length]);
            let mut reader = Reader::new(&bytes);
            let value = reader.tagged(OCTET_STRING).unwrap();
            assert_eq!((value.content.len(), value.raw), (length, &bytes[..]));
            reader.end().unwrap();
        }
        assert_eq!(header(SEQUENCE, 10 << 30), [0x30, 0x85, 2, 0x80, 0, 0, 0]);
    }

    #[test]
    fn what_is_no_der_is_refused() {
        for bad in [&[][..], &[4], &[4, 1], &[4, 0x80, 0, 0], &[4, 0x85, 0, 0, 0, 0, 0], &[0x1f, 0]]
        {
            assert_eq!(Reader::new(bad).read(), Err(DerError), "{bad:?}");
        }
        assert_eq!(Reader::new(&[2, 1, 0x80]).small_integer(), Err(DerError));
        assert_eq!(Reader::new(&[2, 2, 1, 0]).small_integer(), Ok(256));
        assert_eq!(Reader::new(&[2, 0]).small_integer(), Err(DerError));
    }
}
