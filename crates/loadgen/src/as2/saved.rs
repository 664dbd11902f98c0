//! A message that was saved, with its header.

use bytes::Bytes;
use entrepot_as2_proto::{Field, Headers};

use super::error::As2BenchError;
use crate::limits::AS2_MESSAGE_BYTES;

/// A message as somebody else made it. Its fields are sent as they are, but for the Message-ID and
/// those that belong to one connection.
#[derive(Debug)]
pub struct SavedMessage {
    headers: Headers,
    body: Bytes,
}

/// Fields of the connection that a message came by, or that follow from the body; receipts are
/// wanted as the answer.
const DROPPED: [&str; 12] = [
    "host",
    "message-id",
    "content-length",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "upgrade",
    "expect",
    "receipt-delivery-option",
];

impl SavedMessage {
    /// A file with all of it: the lines of the header, an empty line, the body.
    ///
    /// # Errors
    /// It has no header, or is too large.
    pub fn whole(bytes: Vec<u8>) -> Result<SavedMessage, As2BenchError> {
        let end = |mark: &[u8]| {
            let found = bytes.windows(mark.len()).position(|window| window == mark);
            found.map(|at| at + mark.len())
        };
        let at = [end(b"\r\n\r\n"), end(b"\n\n")].into_iter().flatten().min();
        let at = at.ok_or(As2BenchError::NoHeader)?;
        let mut head = Bytes::from(bytes);
        let body = head.split_off(at);
        SavedMessage::parts(&head, body)
    }

    /// Header and body from two files.
    ///
    /// # Errors
    /// As of [`SavedMessage::whole`].
    pub fn parts(head: &[u8], body: Bytes) -> Result<SavedMessage, As2BenchError> {
        let headers = Headers::parse(without_request_line(head));
        let headers = headers.or(Err(As2BenchError::NoHeader))?;
        if body.len() > AS2_MESSAGE_BYTES {
            return Err(As2BenchError::TooLarge);
        }
        Ok(SavedMessage { headers, body })
    }

    /// The header, unfolded.
    pub(super) fn headers(&self) -> &Headers {
        &self.headers
    }

    pub(super) fn body(&self) -> &Bytes {
        &self.body
    }

    /// What is sent again.
    pub(super) fn fields(&self) -> Vec<Field> {
        let kept = |name: &str| !DROPPED.iter().any(|dropped| dropped.eq_ignore_ascii_case(name));
        self.headers.fields().iter().filter(|field| kept(&field.name)).cloned().collect()
    }
}

/// Tools that save requests put `POST … HTTP/1.1` before the header.
fn without_request_line(head: &[u8]) -> &[u8] {
    if !head.starts_with(b"POST ") {
        return head;
    }
    let line = head.iter().position(|byte| *byte == b'\n');
    line.and_then(|at| head.get(at + 1..)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_saved_message_keeps_its_fields_but_those_of_its_connection() {
        let text = "POST /as2 HTTP/1.1\r\nHost: a\r\nAS2-From: \"A B\"\r\nMessage-ID: <1@a>\r\n\
                    Subject: one\r\n two\r\nContent-Length: 4\r\n\r\n\r\n\r\nx";
        let saved = SavedMessage::whole(text.as_bytes().to_vec()).unwrap();
        assert_eq!(&saved.body()[..], b"\r\n\r\nx");
        let field =
            |name: &str, value: &str| Field { name: name.to_owned(), value: value.to_owned() };
        assert_eq!(saved.fields(), [field("AS2-From", "\"A B\""), field("Subject", "one two")]);
        assert!(SavedMessage::whole(b"0\x82\x01".to_vec()).is_err());
        assert!(SavedMessage::whole(b"no header\n\nx".to_vec()).is_err());
    }
}
