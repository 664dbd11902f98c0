//! Heads of messages (RFC 3507 §4.3): a line with the status, and fields, which may be folded.

use thiserror::Error;

use crate::limits::HEAD_BYTES;

/// What a server sent is no answer of ICAP.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum IcapError {
    /// The head does not end within the limit.
    #[error("the head of the answer is longer than {HEAD_BYTES} bytes")]
    HeadTooLong,
    /// The first line is none of ICAP or, inside, of HTTP.
    #[error("the answer begins with no status: '{0}'")]
    NoStatus(String),
    /// A line of the head is no field.
    #[error("the answer has a line that is no field: '{0}'")]
    NoField(String),
    /// The connection ended before the answer did.
    #[error("the connection ended before the answer did")]
    Cut,
}

/// The head of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) status: u16,
    /// Names in lower case.
    fields: Vec<(String, String)>,
}

impl Head {
    /// Takes a whole head, the empty line at its end included, off the front of `bytes`. `None`: it
    /// is not all there.
    pub(crate) fn take(bytes: &mut Vec<u8>, protocol: &str) -> Result<Option<Head>, IcapError> {
        let Some(end) = end_of_head(bytes) else {
            return if bytes.len() > HEAD_BYTES { Err(IcapError::HeadTooLong) } else { Ok(None) };
        };
        if end > HEAD_BYTES {
            return Err(IcapError::HeadTooLong);
        }
        let head: Vec<u8> = bytes.drain(..end).collect();
        Head::parse(&String::from_utf8_lossy(&head), protocol).map(Some)
    }

    fn parse(text: &str, protocol: &str) -> Result<Head, IcapError> {
        let shown = |line: &str| line.chars().take(80).collect::<String>();
        let mut lines = text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
        let first = lines.next().unwrap_or_default();
        let mut words = first.split(' ');
        let named = words.next().and_then(|word| word.split_once('/'));
        let status = words.next().and_then(|word| word.parse().ok());
        let (Some((name, _)), Some(status @ 100..=599)) = (named, status) else {
            return Err(IcapError::NoStatus(shown(first)));
        };
        if name != protocol {
            return Err(IcapError::NoStatus(shown(first)));
        }
        let mut fields: Vec<(String, String)> = Vec::new();
        for line in lines.filter(|line| !line.is_empty()) {
            if line.starts_with([' ', '\t']) {
                let last = fields.last_mut().ok_or_else(|| IcapError::NoField(shown(line)))?;
                last.1.push(' ');
                last.1.push_str(line.trim());
            } else {
                let (name, value) =
                    line.split_once(':').ok_or_else(|| IcapError::NoField(shown(line)))?;
                fields.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
            }
        }
        Ok(Head { status, fields })
    }

    /// The first field of that name, which is in lower case.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.fields.iter();
        fields.find(|(field, _)| field == name).map(|(_, value)| value.as_str())
    }
}

/// Behind the empty line.
fn end_of_head(bytes: &[u8]) -> Option<usize> {
    let lines = bytes.windows(2).position(|pair| pair == b"\n\n").map(|at| at + 2);
    let crlf = bytes.windows(3).position(|three| three == b"\n\r\n").map(|at| at + 3);
    match (lines, crlf) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(text: &str) -> Result<Option<Head>, IcapError> {
        Head::take(&mut text.as_bytes().to_vec(), "ICAP")
    }

    #[test]
    fn a_folded_field_is_one_field() {
        let text =
            "ICAP/1.0 200 OK\r\nX-Violations-Found: 1\r\n\ta.bin\r\n  Eicar\r\nISTag: x\r\n\r\n";
        let head = take(text).unwrap().unwrap();
        assert_eq!(head.field("x-violations-found"), Some("1 a.bin Eicar"));
        assert_eq!((head.status, head.field("istag"), head.field("allow")), (200, Some("x"), None));
    }

    #[test]
    fn what_is_no_head_is_refused_and_half_a_head_waited_for() {
        assert_eq!(take("ICAP/1.0 200 OK\r\nISTag: x\r\n"), Ok(None));
        for bad in ["HTTP/1.1 200 OK\r\n\r\n", "ICAP/1.0 abc\r\n\r\n", "ICAP/1.0\r\n\r\n", "\n\n"] {
            assert!(matches!(take(bad), Err(IcapError::NoStatus(_))), "{bad:?}");
        }
        for bad in ["ICAP/1.0 200 OK\r\n folded\r\n\r\n", "ICAP/1.0 200 OK\r\nno field\r\n\r\n"] {
            assert!(matches!(take(bad), Err(IcapError::NoField(_))), "{bad:?}");
        }
        let long = format!("ICAP/1.0 200 OK\r\nA: {}", "a".repeat(HEAD_BYTES));
        assert_eq!(take(&long), Err(IcapError::HeadTooLong));
    }
}
