//! CSV (RFC 4180): a line of names, then the rows; lines end in CRLF.

use super::row::check_size;
use crate::error::Result;

/// A report as it grows; bounded as any file of a database is.
#[derive(Default)]
pub(super) struct Csv {
    text: Vec<u8>,
}

impl Csv {
    /// Adds a line. `None` is NULL: nothing between its commas, where an empty text has quotes.
    pub(super) fn line<'a>(&mut self, fields: impl Iterator<Item = Option<&'a str>>) -> Result<()> {
        for (number, field) in fields.enumerate() {
            if number > 0 {
                self.text.push(b',');
            }
            let Some(field) = field else { continue };
            if field.is_empty() || field.contains(['"', ',', '\r', '\n']) {
                self.text.push(b'"');
                self.text.extend_from_slice(field.replace('"', "\"\"").as_bytes());
                self.text.push(b'"');
            } else {
                self.text.extend_from_slice(field.as_bytes());
            }
        }
        self.text.extend_from_slice(b"\r\n");
        check_size(self.text.len() as u64)
    }

    pub(super) fn finish(self) -> bytes::Bytes {
        self.text.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_need_quotes_have_them() {
        let mut csv = Csv::default();
        csv.line([Some("id"), Some("what, when")].into_iter()).unwrap();
        csv.line([Some("1"), None, Some(""), Some("say \"hi\"\n")].into_iter()).unwrap();
        assert_eq!(csv.finish(), "id,\"what, when\"\r\n1,,\"\",\"say \"\"hi\"\"\n\"\r\n");
        let mut csv = Csv::default();
        let large = "x".repeat(1 << 20);
        assert!((0..65).any(|_| csv.line([Some(large.as_str())].into_iter()).is_err()));
    }
}
