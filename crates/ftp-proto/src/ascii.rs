//! TYPE A as streaming converters (facts of RFC 959 §3.1.1.1 as servers live them): the files
//! of this server end their lines with LF, the wire with CRLF.

/// LF becomes CRLF; a CRLF that is in the file already stays one. For RETR.
#[derive(Debug, Clone, Default)]
pub struct ToNetwork {
    last_cr: bool,
    skip: u64,
}

impl ToNetwork {
    /// From the beginning of the file.
    pub fn new() -> Self {
        Self::default()
    }

    /// Drops the first `bytes` of the wire form: REST counts those. Still feed it the file from
    /// its beginning.
    pub fn skipping(bytes: u64) -> Self {
        ToNetwork { last_cr: false, skip: bytes }
    }

    /// Wire bytes that are still to be dropped. Above 0 at the end of the file, the offset of
    /// REST lies beyond the end: 554.
    pub fn to_skip(&self) -> u64 {
        self.skip
    }

    /// Appends the wire form of the next piece.
    pub fn convert(&mut self, mut input: &[u8], out: &mut Vec<u8>) {
        while let Some(at) = input.iter().position(|byte| *byte == b'\n') {
            let (line, rest) = input.split_at(at);
            self.push(line, out);
            let ends_in_cr = line.last().map_or(self.last_cr, |byte| *byte == b'\r');
            self.push(if ends_in_cr { b"\n" } else { b"\r\n" }, out);
            self.last_cr = false;
            input = rest.get(1..).unwrap_or(&[]);
        }
        self.push(input, out);
        if let Some(last) = input.last() {
            self.last_cr = *last == b'\r';
        }
    }

    fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let dropped = usize::try_from(self.skip).unwrap_or(usize::MAX).min(bytes.len());
        self.skip -= dropped as u64;
        out.extend_from_slice(bytes.get(dropped..).unwrap_or(&[]));
    }
}

/// CRLF becomes LF; a CR alone stays. For STOR. Ask [`FromNetwork::finish`] at the end.
#[derive(Debug, Clone, Default)]
pub struct FromNetwork {
    held_cr: bool,
}

impl FromNetwork {
    /// At the beginning of the data.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends the stored form of the next piece. A CR at its end waits for the next byte.
    pub fn convert(&mut self, mut input: &[u8], out: &mut Vec<u8>) {
        if input.is_empty() {
            return;
        }
        if std::mem::take(&mut self.held_cr) && input.first() != Some(&b'\n') {
            out.push(b'\r');
        }
        while let Some(at) = input.iter().position(|byte| *byte == b'\r') {
            let (line, rest) = input.split_at(at);
            out.extend_from_slice(line);
            match rest.get(1) {
                Some(b'\n') => {}
                Some(_) => out.push(b'\r'),
                None => self.held_cr = true,
            }
            input = rest.get(1..).unwrap_or(&[]);
        }
        out.extend_from_slice(input);
    }

    /// The CR that was the last byte of all, if there was one.
    pub fn finish(self, out: &mut Vec<u8>) {
        if self.held_cr {
            out.push(b'\r');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn to(pieces: &[&[u8]]) -> Vec<u8> {
        let (mut converter, mut out) = (ToNetwork::new(), Vec::new());
        pieces.iter().for_each(|piece| converter.convert(piece, &mut out));
        out
    }

    fn from(pieces: &[&[u8]]) -> Vec<u8> {
        let (mut converter, mut out) = (FromNetwork::new(), Vec::new());
        pieces.iter().for_each(|piece| converter.convert(piece, &mut out));
        converter.finish(&mut out);
        out
    }

    #[test]
    fn ends_of_lines() {
        assert_eq!(to(&[b"a\nb\r\n\n\rc"]), b"a\r\nb\r\n\r\n\rc");
        assert_eq!(to(&[b"a\r", b"\nb"]), b"a\r\nb");
        assert_eq!(to(&[b"a\r", b"", b"\nb"]), b"a\r\nb");
        assert_eq!(from(&[b"a\r\nb\rc\n\r\r\n"]), b"a\nb\rc\n\r\n");
        assert_eq!(from(&[b"a\r", b"", b"\n\r"]), b"a\n\r");
        assert_eq!(from(&[b"a\r", b"\r", b"b"]), b"a\r\rb");
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(text in "[a\r\n]{0,30}", cut in 0usize..30) {
            let bytes = text.as_bytes();
            let (left, right) = bytes.split_at(cut.min(bytes.len()));
            prop_assert_eq!(to(&[bytes]), to(&[left, right]));
            prop_assert_eq!(from(&[bytes]), from(&[left, right]));
            let mut byte_by_byte = Vec::new();
            let mut converter = FromNetwork::new();
            bytes.iter().for_each(|byte| converter.convert(&[*byte], &mut byte_by_byte));
            converter.finish(&mut byte_by_byte);
            prop_assert_eq!(from(&[bytes]), byte_by_byte);
        }

        #[test]
        fn skipping_gives_the_rest(text in "[a\r\n]{0,30}", skip in 0usize..40) {
            let whole = to(&[text.as_bytes()]);
            let (mut converter, mut out) = (ToNetwork::skipping(skip as u64), Vec::new());
            converter.convert(text.as_bytes(), &mut out);
            prop_assert_eq!(&out[..], whole.get(skip..).unwrap_or(&[]));
            prop_assert_eq!(converter.to_skip() as usize, skip.saturating_sub(whole.len()));
        }
    }
}
