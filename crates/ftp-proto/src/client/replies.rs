//! Replies of a server, read strictly (RFC 959 §4.2) and with limits.

use crate::limits::{LINE_BYTES, REPLY_LINES};
use crate::reply::Reply;

/// Why the connection cannot be believed any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A line above [`LINE_BYTES`].
    #[error("the server sent a line of more than 8192 bytes")]
    LineTooLong,
    /// More than [`REPLY_LINES`] in one reply.
    #[error("the server sent a reply of more than 1024 lines")]
    TooManyLines,
    /// A line that is no reply.
    #[error("the server sent '{0}', which is no reply")]
    Malformed(String),
    /// A reply without a command, or one that cannot come here.
    #[error("the server sent an unexpected {0}")]
    Unexpected(u16),
    /// A 421, whatever it answers: the server ends the connection.
    #[error("the server closes: {0}")]
    Closing(String),
    /// It does not begin TLS.
    #[error("the server does not offer TLS: {0}")]
    NoTls(String),
    /// Bytes in clear behind the 234 (CVE-2011-0411 and its like).
    #[error("the server sent clear text behind its 234")]
    Injected,
}

/// Bytes in, replies out.
#[derive(Debug, Default)]
pub(super) struct Replies {
    buffer: Vec<u8>,
    start: usize,
    searched: usize,
    /// The reply of several lines that is being read: code and text.
    open: Option<(u16, String, usize)>,
}

impl Replies {
    pub(super) fn receive(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Whether bytes wait, or half a reply.
    pub(super) fn is_empty(&self) -> bool {
        self.start >= self.buffer.len() && self.open.is_none()
    }

    pub(super) fn next(&mut self) -> Result<Option<Reply>, Fault> {
        while let Some(line) = self.line()? {
            if let Some(reply) = self.take(&line)? {
                return Ok(Some(reply));
            }
        }
        Ok(None)
    }

    fn line(&mut self) -> Result<Option<String>, Fault> {
        let from = self.searched.max(self.start);
        let found = self.buffer.get(from..).unwrap_or(&[]).iter().position(|byte| *byte == b'\n');
        let end = found.map_or(self.buffer.len(), |at| from + at);
        if end - self.start > LINE_BYTES + 1 {
            return Err(Fault::LineTooLong);
        }
        if found.is_none() {
            self.searched = end;
            return Ok(None);
        }
        let line = self.buffer.get(self.start..end).unwrap_or(&[]);
        let line = text(line.strip_suffix(b"\r").unwrap_or(line));
        self.start = end + 1;
        self.searched = self.start;
        if self.start == self.buffer.len() {
            self.buffer.clear();
            (self.start, self.searched) = (0, 0);
        } else if self.start >= LINE_BYTES {
            self.buffer.drain(..self.start);
            (self.start, self.searched) = (0, 0);
        }
        Ok(Some(line))
    }

    fn take(&mut self, line: &str) -> Result<Option<Reply>, Fault> {
        let head = head(line);
        let Some((code, mut open, lines)) = self.open.take() else {
            let malformed = || Fault::Malformed(line.chars().take(80).collect());
            let (code, more, rest) = head.ok_or_else(malformed)?;
            if more {
                self.open = Some((code, rest.to_owned(), 1));
                return Ok(None);
            }
            return Ok(Some(Reply { code, text: rest.to_owned() }));
        };
        if lines >= REPLY_LINES {
            return Err(Fault::TooManyLines);
        }
        open.push('\n');
        match head {
            Some((same, false, rest)) if same == code => {
                open.push_str(rest);
                Ok(Some(Reply { code, text: open }))
            }
            // Lines between may have the code and a hyphen again (RFC 959 wants none, many do).
            _ => {
                open.push_str(line);
                self.open = Some((code, open, lines + 1));
                Ok(None)
            }
        }
    }
}

/// Code, whether more lines follow, and the words.
fn head(line: &str) -> Option<(u16, bool, &str)> {
    let (digits, rest) = line.split_at_checked(3)?;
    let code = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())??;
    let valid = (100..600).contains(&code);
    match rest.bytes().next() {
        _ if !valid => None,
        None => Some((code, false, "")),
        Some(b' ') => Some((code, false, rest.get(1..).unwrap_or(""))),
        Some(b'-') => Some((code, true, rest.get(1..).unwrap_or(""))),
        Some(_) => None,
    }
}

/// As UTF-8, or byte by byte as ISO 8859-1.
pub(super) fn text(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().map(|byte| char::from(*byte)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Vec<Reply>, Fault> {
        let (mut replies, mut found) = (Replies::default(), Vec::new());
        for piece in bytes.chunks(3) {
            replies.receive(piece);
            while let Some(reply) = replies.next()? {
                found.push(reply);
            }
        }
        Ok(found)
    }

    #[test]
    fn replies_of_one_and_of_several_lines() {
        let stream =
            b"220 Hi\r\n211-F:\r\n UTF8\r\n211-x\r\n200 y\r\n211 End\r\n226\n257 \"\xe9\"\r\n";
        let replies = read(stream).unwrap();
        let told: Vec<String> =
            replies.iter().map(|reply| format!("{} {}", reply.code, reply.text)).collect();
        assert_eq!(told, ["220 Hi", "211 F:\n UTF8\n211-x\n200 y\nEnd", "226 ", "257 \"\u{e9}\""]);
    }

    #[test]
    fn what_is_no_reply_is_a_fault() {
        for bad in ["x\r\n", "22 x\r\n", "+20 x\r\n", "220x\r\n", "600 x\r\n", "\r\n", "099 x\r\n"]
        {
            assert!(matches!(read(bad.as_bytes()), Err(Fault::Malformed(_))), "{bad}");
        }
        assert_eq!(read(&[b'2'; 8194]), Err(Fault::LineTooLong));
        let many = format!("211-a\r\n{}", " b\r\n".repeat(1024));
        assert_eq!(read(many.as_bytes()), Err(Fault::TooManyLines));
    }
}
