//! Heads of requests of HTTP/1.1 before the HTTP library reads them. Old senders of AS2 fold long
//! fields over several lines, which it refuses; and what it gives has lost the case of names. So
//! those of `/as2` are unfolded on their way (RFC 9112 §5.2: a fold becomes blanks, byte for byte),
//! and all are kept as they came, as evidence.
//!
//! The bytes are changed in place, in heads alone: behind one, as many are passed over as its
//! `Content-Length` says. Where that is not all there is to say of the body, the rest of the
//! connection is passed on as it is.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::limits::{HEAD_BYTES, HEADS_KEPT};

/// Heads as they came, of requests that are not answered yet. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeptHeads(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    heads: VecDeque<Vec<u8>>,
    /// One was not kept: which head belongs to which request is not known any more.
    is_over: bool,
}

impl KeptHeads {
    /// That of the next request.
    pub(crate) fn next(&self) -> Option<Vec<u8>> {
        self.0.lock().heads.pop_front()
    }

    fn keep(&self, head: Vec<u8>) {
        let mut kept = self.0.lock();
        kept.is_over |= kept.heads.len() >= HEADS_KEPT;
        if kept.is_over {
            kept.heads.clear();
        } else {
            kept.heads.push_back(head);
        }
    }
}

/// The head of a request as it came: an extension of requests where heads are kept.
#[derive(Clone, Debug)]
pub(crate) struct RawHead(pub(crate) Vec<u8>);

/// How requests begin whose fields are unfolded. Of all others folds are refused, for readers in
/// front of this one may understand them differently.
const UNFOLDED: &[u8] = b"POST /as2 ";

/// Where in the requests of a connection the next byte stands.
#[derive(Debug)]
enum Place {
    /// In a head.
    Head(Head),
    /// In a body of which so many bytes follow.
    Body(u64),
    /// Nothing is known of it any more.
    Unknown,
}

/// A head as far as it came.
#[derive(Debug, Default)]
struct Head {
    /// As it came.
    bytes: Vec<u8>,
    /// Bytes of its last line.
    line: usize,
    /// Lines that have ended.
    lines: usize,
}

/// Unfolds the heads of one connection.
#[derive(Debug)]
pub(crate) struct HeadReader {
    place: Place,
    /// The end of a line, until it is known what follows.
    held: Vec<u8>,
    kept: KeptHeads,
}

impl HeadReader {
    /// Of a connection that begins.
    pub(crate) fn new(kept: KeptHeads) -> HeadReader {
        HeadReader { place: Place::Head(Head::default()), held: Vec::new(), kept }
    }

    /// What was held back, and comes in front of what is read next.
    pub(crate) fn held(&self) -> &[u8] {
        &self.held
    }

    /// Looks at bytes that came, those held back in front, and changes them. The first so many of
    /// them may be passed on; the others are held.
    pub(crate) fn pass(&mut self, bytes: &mut [u8]) -> usize {
        let mut at = 0;
        while at < bytes.len() {
            let Some(rest) = bytes.get_mut(at..) else { break };
            match &mut self.place {
                Place::Unknown => at = bytes.len(),
                Place::Body(left) => {
                    let taken = usize::try_from(*left).unwrap_or(usize::MAX).min(rest.len());
                    *left -= taken as u64;
                    at += taken;
                    if *left == 0 {
                        self.place = Place::Head(Head::default());
                    }
                }
                Place::Head(head) => match head.pass(rest) {
                    Passed::Some(count) => at += count,
                    Passed::Hold(count) => {
                        at += count;
                        break;
                    }
                    Passed::End(count) => {
                        at += count;
                        let head = std::mem::take(&mut head.bytes);
                        self.place = behind(&head);
                        self.kept.keep(head);
                    }
                    Passed::TooLong => self.place = Place::Unknown,
                },
            }
        }
        self.held = bytes.get(at..).unwrap_or_default().to_vec();
        at
    }

    /// The connection has ended: nothing follows what is held.
    pub(crate) fn end(&mut self) {
        self.held.clear();
        self.place = Place::Unknown;
    }
}

/// How far bytes of a head were looked at.
enum Passed {
    /// So many, and the head goes on.
    Some(usize),
    /// So many; the others are the end of a line, and what follows must be seen.
    Hold(usize),
    /// The head ends behind so many.
    End(usize),
    /// It is longer than one may be.
    TooLong,
}

impl Head {
    /// Looks at bytes up to the end of a line.
    fn pass(&mut self, bytes: &mut [u8]) -> Passed {
        if self.bytes.len() > HEAD_BYTES {
            return Passed::TooLong;
        }
        let Some(end) = memchr::memchr(b'\n', bytes) else {
            // Perhaps the first half of an end.
            let whole = if bytes.last() == Some(&b'\r') { bytes.len() - 1 } else { bytes.len() };
            self.take(bytes.get(..whole).unwrap_or_default());
            return if whole == bytes.len() { Passed::Some(whole) } else { Passed::Hold(whole) };
        };
        let before = bytes.get(..end).unwrap_or_default();
        let text = before.strip_suffix(b"\r").unwrap_or(before).len();
        if self.line + text == 0 {
            // An empty line ends the head, and counts for nothing in front of it.
            self.bytes.extend_from_slice(bytes.get(..=end).unwrap_or_default());
            return if self.lines == 0 { Passed::Some(end + 1) } else { Passed::End(end + 1) };
        }
        let Some(next) = bytes.get(end + 1).copied() else {
            self.take(bytes.get(..text).unwrap_or_default());
            return Passed::Hold(text);
        };
        self.take(bytes.get(..text).unwrap_or_default());
        self.bytes.extend_from_slice(bytes.get(text..=end).unwrap_or_default());
        // The line of the request is none that could be folded.
        if matches!(next, b' ' | b'\t') && self.lines > 0 && self.bytes.starts_with(UNFOLDED) {
            if let Some(fold) = bytes.get_mut(text..=end) {
                fold.fill(b' ');
            }
        } else {
            self.lines += 1;
            self.line = 0;
        }
        Passed::Some(end + 1)
    }

    fn take(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.line += bytes.len();
    }
}

/// What follows a head.
fn behind(head: &[u8]) -> Place {
    let mut length: Option<u64> = None;
    for line in head.split(|byte| *byte == b'\n').skip(1) {
        let Some(colon) = memchr::memchr(b':', line) else { continue };
        let (name, value) = line.split_at(colon);
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        let others = [b"transfer-encoding".as_slice(), b"upgrade", b"expect"];
        if others.iter().any(|other| name.eq_ignore_ascii_case(other)) {
            return Place::Unknown;
        }
        if name.eq_ignore_ascii_case(b"content-length") {
            let number = std::str::from_utf8(value).ok();
            let is_number = value.iter().all(u8::is_ascii_digit);
            let number = number.filter(|_| is_number).and_then(|text| text.parse().ok());
            match (number, length) {
                (Some(number), None) => length = Some(number),
                _ => return Place::Unknown,
            }
        }
    }
    match length.unwrap_or(0) {
        0 => Place::Head(Head::default()),
        length => Place::Body(length),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes out of a connection that gives its bytes in pieces of this size, and its heads.
    fn read(text: &[u8], piece: usize) -> (Vec<u8>, Vec<Vec<u8>>) {
        let kept = KeptHeads::default();
        let mut reader = HeadReader::new(kept.clone());
        let mut out = Vec::new();
        for bytes in text.chunks(piece) {
            let mut bytes = [reader.held(), bytes].concat();
            let count = reader.pass(&mut bytes);
            out.extend_from_slice(&bytes[..count]);
        }
        out.extend_from_slice(reader.held());
        (out, std::iter::from_fn(|| kept.next()).collect())
    }

    #[test]
    fn no_request_gets_the_head_of_another() {
        let kept = KeptHeads::default();
        let mut reader = HeadReader::new(kept.clone());
        let mut send = |count: usize| {
            let mut bytes = b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n".repeat(count);
            reader.pass(&mut bytes);
        };
        send(HEADS_KEPT);
        assert_eq!(std::iter::from_fn(|| kept.next()).count(), HEADS_KEPT);
        // More than are kept, before the first of them was answered.
        send(HEADS_KEPT + 1);
        assert_eq!(kept.next(), None);
        send(1);
        assert_eq!(kept.next(), None);
    }

    #[test]
    fn folds_in_heads_become_blanks_and_bodies_stay() {
        let one =
            "POST /as2 HTTP/1.1\r\nSubject: a\r\n b\r\n\tc\r\nX: y\n z\nContent-Length: 9\r\n\r\n";
        let body = "a\r\n b\r\n c";
        let two = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
        let three = "POST /as2 HTTP/1.1\r\nA: b\r\n c\r\nTransfer-Encoding: chunked\r\n\r\n";
        let text = format!("{one}{body}\r\n{two}{three}5\r\nA\r\n B\r\n0\r\n\r\n");
        let unfolded =
            "POST /as2 HTTP/1.1\r\nSubject: a   b  \tc\r\nX: y  z\nContent-Length: 9\r\n\r\n";
        let unfolded_three = "POST /as2 HTTP/1.1\r\nA: b   c\r\nTransfer-Encoding: chunked\r\n\r\n";
        let wanted = format!("{unfolded}{body}\r\n{two}{unfolded_three}5\r\nA\r\n B\r\n0\r\n\r\n");
        for piece in 1..=text.len() {
            let (out, heads) = read(text.as_bytes(), piece);
            let heads: Vec<_> =
                heads.iter().map(|head| String::from_utf8_lossy(head).into_owned()).collect();
            assert_eq!(heads, [one, &format!("\r\n{two}"), three], "{piece}");
            assert_eq!(String::from_utf8_lossy(&out), wanted, "{piece}");
        }
    }

    #[test]
    fn what_is_not_plain_is_passed_on_as_it_is() {
        for text in [
            // A fold behind the line of the request stays what it is: a fault.
            "POST /as2 HTTP/1.1\r\n Host: x\r\n\r\n",
            // And so does one in a request of something else.
            "POST /as20 HTTP/1.1\r\nHost: x\r\n y\r\n\r\n",
            "POST /as2 HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nA\r\n B",
            "POST /as2 HTTP/1.1\r\nContent-Length: +1\r\n\r\nA\r\n B: c\r\n d",
            "GET / HTTP/1.1\r\nUpgrade: x\r\n\r\nA: b\r\n c",
            "\r\n\r\n\r\n",
        ] {
            for piece in 1..=text.len() {
                assert_eq!(String::from_utf8_lossy(&read(text.as_bytes(), piece).0), text);
            }
        }
        // A head that never ends is left to the library, which refuses it.
        let long = format!("GET / HTTP/1.1\r\nX: {}\r\n y\r\n\r\n", "x".repeat(3 * HEAD_BYTES));
        let (out, heads) = read(long.as_bytes(), 1_000);
        assert_eq!((out.len(), heads.len()), (long.len(), 0));
    }
}
