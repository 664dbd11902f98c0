//! Headers of MIME (RFC 2045, 2046, 2183, 2231), read as leniently as partners write them. Bytes
//! that are hashed are never made from these: they are the ones that came.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use crate::limits;

/// The header, or a field of it, cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed header")]
pub struct MimeError;

/// One field, unfolded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// As it was written.
    pub name: String,
    /// Without white space around it. Bytes that are no UTF-8 are replaced.
    pub value: String,
}

/// The head of a request as it came, to be kept as evidence: without what proves who somebody is,
/// and without the lines behind [`limits::EVIDENCE_HEAD_BYTES`].
pub fn head_evidence(head: &[u8]) -> String {
    let head = String::from_utf8_lossy(head);
    let mut text = String::new();
    let mut is_secret = false;
    for line in head.trim_matches(['\r', '\n']).split_inclusive('\n') {
        let goes_on = line.starts_with([' ', '\t']);
        let name = line.split_once(':').map(|(name, _)| name.trim_end());
        let named = name.is_some_and(|name| {
            SECRET_FIELDS.iter().any(|secret| name.eq_ignore_ascii_case(secret))
        });
        if goes_on && is_secret {
            continue;
        }
        is_secret = !goes_on && named;
        let hidden = name.filter(|_| is_secret).map(|name| format!("{name}: ***\r\n"));
        let line = hidden.as_deref().unwrap_or(line);
        if text.len() + line.len() > limits::EVIDENCE_HEAD_BYTES {
            break;
        }
        text.push_str(line);
    }
    text
}

/// Fields whose values prove who somebody is.
const SECRET_FIELDS: [&str; 4] = ["authorization", "proxy-authorization", "cookie", "set-cookie"];

/// The header of a message or part.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Headers(Vec<Field>);

impl Headers {
    /// A header whose fields were already told apart, as those of HTTP.
    pub fn new(fields: Vec<Field>) -> Self {
        Headers(fields)
    }

    /// Reads the lines of a header; the empty line behind it may be there.
    pub fn parse(block: &[u8]) -> Result<Self, MimeError> {
        if block.len() > limits::HEAD_BYTES {
            return Err(MimeError);
        }
        let text = String::from_utf8_lossy(block);
        let mut fields: Vec<Field> = Vec::new();
        for line in text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)) {
            if line.is_empty() {
                continue;
            }
            if line.starts_with([' ', '\t']) {
                let field = fields.last_mut().ok_or(MimeError)?;
                field.value.push(' ');
                field.value.push_str(line.trim());
                continue;
            }
            let (name, value) = line.split_once(':').ok_or(MimeError)?;
            let name = name.trim_end();
            if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(MimeError);
            }
            fields.push(Field { name: name.to_owned(), value: value.trim().to_owned() });
            if fields.len() > limits::HEADER_FIELDS {
                return Err(MimeError);
            }
        }
        Ok(Headers(fields))
    }

    /// As text, a field a line, to be kept as evidence: without what proves who somebody is, and
    /// without the fields behind [`limits::EVIDENCE_HEAD_BYTES`].
    pub fn evidence(&self) -> String {
        let mut text = String::new();
        for Field { name, value } in &self.0 {
            let is_secret = SECRET_FIELDS.iter().any(|secret| name.eq_ignore_ascii_case(secret));
            let value = if is_secret { "***" } else { value };
            if text.len() + name.len() + value.len() + 4 > limits::EVIDENCE_HEAD_BYTES {
                break;
            }
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text
    }

    /// The value of the first field of this name, in any case.
    pub fn value(&self, name: &str) -> Option<&str> {
        let field = self.0.iter().find(|field| field.name.eq_ignore_ascii_case(name));
        field.map(|field| field.value.as_str())
    }

    /// All fields in order.
    pub fn fields(&self) -> &[Field] {
        &self.0
    }

    /// What `Content-Type` says; `text/plain` where there is none (RFC 2045 §5.2).
    pub fn content_type(&self) -> Result<Parameterized, MimeError> {
        let value = self.value("content-type").unwrap_or("text/plain");
        let parsed = Parameterized::parse(value)?;
        if parsed.value.is_empty() {
            return Err(MimeError);
        }
        Ok(parsed)
    }

    /// How the body is encoded.
    pub fn transfer_encoding(&self) -> Result<TransferEncoding, MimeError> {
        let value = self.value("content-transfer-encoding").unwrap_or("");
        match value.trim().to_ascii_lowercase().as_str() {
            "" | "7bit" | "8bit" => Ok(TransferEncoding::Text),
            "binary" => Ok(TransferEncoding::Binary),
            "base64" => Ok(TransferEncoding::Base64),
            "quoted-printable" => Ok(TransferEncoding::QuotedPrintable),
            _ => Err(MimeError),
        }
    }

    /// The name that the sender proposes, without any folder and made safe: of
    /// `Content-Disposition`, else `name` of `Content-Type`.
    pub fn file_name(&self) -> Option<String> {
        let disposition = self.value("content-disposition").map(Parameterized::parse);
        let proposed = disposition.and_then(Result::ok).and_then(|it| it.text("filename"));
        let kind = || self.content_type().ok().and_then(|kind| kind.text("name"));
        proposed.or_else(kind).and_then(|name| safe_file_name(&name))
    }
}

/// How a body is encoded (RFC 2045 §6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransferEncoding {
    /// Lines of text, as they are: `7bit`, `8bit`, or nothing said.
    Text,
    /// Any bytes, as they are.
    Binary,
    /// RFC 2045 §6.8.
    Base64,
    /// RFC 2045 §6.7.
    QuotedPrintable,
}

/// A parameter behind a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// In small letters.
    pub name: String,
    /// The value without its quotes.
    pub value: String,
}

/// A value and its parameters, such as a media type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameterized {
    /// In small letters, without white space.
    pub value: String,
    /// In the order in which they came.
    pub parameters: Vec<Parameter>,
}

impl Parameterized {
    /// Reads `value; name=value; name="value"`, with white space anywhere.
    pub fn parse(text: &str) -> Result<Self, MimeError> {
        let mut pieces = split_outside_quotes(text, ';').into_iter();
        let value = pieces.next().unwrap_or("");
        let value = value.chars().filter(|c| !c.is_whitespace()).collect::<String>();
        let mut parameters = Vec::new();
        for piece in pieces {
            if piece.trim().is_empty() {
                continue;
            }
            let (name, value) = piece.split_once('=').ok_or(MimeError)?;
            let name = name.trim().to_ascii_lowercase();
            parameters.push(Parameter { name, value: unquoted(value.trim()) });
        }
        Ok(Parameterized { value: value.to_ascii_lowercase(), parameters })
    }

    /// The parameter of this name, as it is.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let found = self.parameters.iter().find(|parameter| parameter.name == name);
        found.map(|parameter| parameter.value.as_str())
    }

    /// The parameter of this name, in any form of RFC 2231: plain, `name*=utf-8''…`, or in pieces.
    pub fn text(&self, name: &str) -> Option<String> {
        let extended = |value: &str| {
            let mut parts = value.splitn(3, '\'');
            match (parts.next(), parts.next(), parts.next()) {
                (Some(_), Some(_), Some(text)) => percent_decoded(text),
                _ => percent_decoded(value),
            }
        };
        if let Some(value) = self.parameter(&format!("{name}*")) {
            return Some(String::from_utf8_lossy(&extended(value)).into_owned());
        }
        if let Some(value) = self.parameter(name) {
            return Some(value.to_owned());
        }
        let mut joined = Vec::new();
        for number in 0..16 {
            let plain = self.parameter(&format!("{name}*{number}"));
            let encoded = self.parameter(&format!("{name}*{number}*"));
            match (plain, encoded) {
                (Some(value), _) => joined.extend_from_slice(value.as_bytes()),
                (None, Some(value)) if number == 0 => joined.extend(extended(value)),
                (None, Some(value)) => joined.extend(percent_decoded(value)),
                (None, None) => break,
            }
        }
        (!joined.is_empty()).then(|| String::from_utf8_lossy(&joined).into_owned())
    }
}

/// Splits at a character that is not in quotes.
pub(crate) fn split_outside_quotes(text: &str, at: char) -> Vec<&str> {
    let mut pieces = Vec::new();
    let (mut start, mut quoted, mut escaped) = (0, false, false);
    for (index, character) in text.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ if character == at && !quoted => {
                pieces.push(text.get(start..index).unwrap_or(""));
                start = index + at.len_utf8();
            }
            _ => {}
        }
    }
    pieces.push(text.get(start..).unwrap_or(""));
    pieces
}

/// A quoted string without its quotes and backslashes; anything else as it is.
pub(crate) fn unquoted(text: &str) -> String {
    let inside = text.strip_prefix('"').map(|rest| rest.strip_suffix('"').unwrap_or(rest));
    let Some(inside) = inside else { return text.to_owned() };
    let mut plain = String::with_capacity(inside.len());
    let mut characters = inside.chars();
    while let Some(character) = characters.next() {
        plain.push(match character {
            '\\' => characters.next().unwrap_or('\\'),
            _ => character,
        });
    }
    plain
}

/// A quoted string where the text needs it, by the rule of AS2 names (RFC 4130 §6.2).
pub(crate) fn quoted(text: &str) -> String {
    let token = |c: char| c.is_ascii_alphanumeric() || "-._+~".contains(c);
    if !text.is_empty() && text.chars().all(token) {
        return text.to_owned();
    }
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn percent_decoded(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let digits = text.get(at + 1..at + 3).filter(|_| *byte == b'%');
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(value) => {
                decoded.push(value);
                at += 3;
            }
            None => {
                decoded.push(*byte);
                at += 1;
            }
        }
    }
    decoded
}

/// The last component of a name, without characters that mean something to a file system, and no
/// longer than [`limits::FILE_NAME_BYTES`]. `None` where nothing is left of it.
pub fn safe_file_name(name: &str) -> Option<String> {
    let base = name.rsplit(['/', '\\']).next().unwrap_or("");
    let allowed = |c: &char| !c.is_control() && !"<>:\"|?*\u{fffd}".contains(*c);
    let mut bytes = 0;
    let fits = |c: &char| {
        bytes += c.len_utf8();
        bytes <= limits::FILE_NAME_BYTES
    };
    let kept: String = base.chars().filter(allowed).take_while(fits).collect();
    let kept = kept.trim().trim_end_matches('.');
    // A leading dot would hide it, and names of staging files begin with one.
    let kept = kept.trim_start_matches('.').trim_start();
    (!kept.is_empty()).then(|| kept.to_owned())
}

/// Base64 as peers write it: padding may be missing.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Whole base64 text; characters that are no digits are passed over.
pub(crate) fn base64_decoded(text: &[u8]) -> Result<Vec<u8>, MimeError> {
    let mut decoder = Base64Decoder::default();
    let mut output = Vec::new();
    decoder.update(text, &mut output)?;
    decoder.finish(&mut output)?;
    Ok(output)
}

/// Base64 that comes in pieces. White space and other characters between digits are passed over,
/// as RFC 2045 §6.8 demands.
#[derive(Default)]
pub(crate) struct Base64Decoder {
    digits: Vec<u8>,
    ended: bool,
}

fn is_digit(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/')
}

impl Base64Decoder {
    /// Appends what the next piece is; where it has an error, what is before that.
    pub(crate) fn update(&mut self, text: &[u8], output: &mut Vec<u8>) -> Result<(), MimeError> {
        let taken =
            if self.ended || !self.take_lines(text) { self.take_digits(text) } else { Ok(()) };
        let (held, before) = (self.digits.len(), output.len());
        let whole = self.digits.get(..held / 4 * 4).unwrap_or_default();
        let mut decoded = LENIENT.decode_vec(whole, output);
        if decoded.is_err() {
            // What is no digit, and no line end either, is passed over as well.
            output.truncate(before);
            self.digits.retain(is_digit);
            let whole = self.digits.get(..self.digits.len() / 4 * 4).unwrap_or_default();
            decoded = LENIENT.decode_vec(whole, output);
        }
        decoded.or(Err(MimeError))?;
        self.digits.drain(..self.digits.len() / 4 * 4);
        taken
    }

    /// Takes lines as they are, which is fast; `false` where padding is among them. Whether all
    /// bytes are digits shows when they are decoded, but for the last ones.
    fn take_lines(&mut self, text: &[u8]) -> bool {
        if memchr::memchr(b'=', text).is_some() {
            return false;
        }
        let mut start = 0;
        for end in memchr::memchr2_iter(b'\r', b'\n', text).chain([text.len()]) {
            self.digits.extend_from_slice(text.get(start..end).unwrap_or_default());
            start = end + 1;
        }
        let rest = self.digits.split_off(self.digits.len() / 4 * 4);
        self.digits.extend(rest.into_iter().filter(is_digit));
        true
    }

    fn take_digits(&mut self, text: &[u8]) -> Result<(), MimeError> {
        for byte in text {
            match byte {
                b'=' => self.ended = true,
                // Digits behind the padding belong to no form of base64.
                digit if is_digit(digit) && self.ended => return Err(MimeError),
                digit if is_digit(digit) => self.digits.push(*digit),
                _ => {}
            }
        }
        Ok(())
    }

    pub(crate) fn finish(&mut self, output: &mut Vec<u8>) -> Result<(), MimeError> {
        LENIENT.decode_vec(&self.digits, output).or(Err(MimeError))
    }
}

/// Quoted-printable that comes in pieces.
#[derive(Default)]
pub(crate) struct QuotedPrintableDecoder {
    held: Vec<u8>,
}

impl QuotedPrintableDecoder {
    pub(crate) fn update(&mut self, text: &[u8], output: &mut Vec<u8>) {
        for byte in text {
            self.held.push(*byte);
            match *self.held.as_slice() {
                [b'='] | [b'=', b'\r'] => {}
                [b'=', b'\n'] | [b'=', b'\r', b'\n'] => self.held.clear(),
                [b'=', high] if high.is_ascii_hexdigit() => {}
                [b'=', high, low] if low.is_ascii_hexdigit() => {
                    let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or(0) as u8;
                    output.push(digit(high) << 4 | digit(low));
                    self.held.clear();
                }
                // Whatever is no escape stays as it is (RFC 2045 §6.7, note on robustness).
                _ => output.append(&mut self.held),
            }
        }
    }

    pub(crate) fn finish(&mut self, output: &mut Vec<u8>) {
        output.append(&mut self.held);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_of_a_header_has_no_secrets_and_an_end() {
        let head =
            b"POST /as2 HTTP/1.1\r\nAS2-From: A\r\n B\r\nAuthorization: Basic\r\n c2VjcmV0\r\n\
                     cookie: s=1\r\nX: y\r\n\r\n";
        assert_eq!(
            head_evidence(head),
            "POST /as2 HTTP/1.1\r\nAS2-From: A\r\n B\r\nAuthorization: ***\r\ncookie: ***\r\nX: y"
        );
        let field = |name: &str, value: &str| Field { name: name.into(), value: value.into() };
        let fields = vec![field("authorization", "secret"), field("X", "y")];
        assert_eq!(Headers::new(fields).evidence(), "authorization: ***\r\nX: y\r\n");
        let many = vec![field("X", &"y".repeat(1_000)); 100];
        let kept = Headers::new(many).evidence();
        assert!(kept.len() > 15_000 && kept.len() <= limits::EVIDENCE_HEAD_BYTES);
        let long = "X: yyyyyyyyyyyyyyyyy\r\n".repeat(2_000);
        assert!(head_evidence(long.as_bytes()).len() <= limits::EVIDENCE_HEAD_BYTES);
    }

    #[test]
    fn headers_are_read_in_every_form() {
        let block = b"content-TYPE : Multipart/Signed ;\r\n\tboundary = \"a b\\\"c\"; \
            micalg=SHA-256;\r\n protocol=application/pkcs7-signature;\n\
            Content-Transfer-Encoding: BINARY\r\n\r\n";
        let headers = Headers::parse(block).unwrap();
        let kind = headers.content_type().unwrap();
        assert_eq!(kind.value, "multipart/signed");
        assert_eq!(kind.parameter("boundary"), Some("a b\"c"));
        assert_eq!(kind.parameter("micalg"), Some("SHA-256"));
        assert_eq!(headers.transfer_encoding(), Ok(TransferEncoding::Binary));
        assert_eq!(Headers::parse(b"").unwrap().content_type().unwrap().value, "text/plain");
        for bad in [&b" folded: first\r\n"[..], b"no colon\r\n", b": empty\r\n", b"a b: c\r\n"] {
            assert_eq!(Headers::parse(bad), Err(MimeError));
        }
        let many = "a: b\n".repeat(limits::HEADER_FIELDS + 1);
        assert_eq!(Headers::parse(many.as_bytes()), Err(MimeError));
    }

    #[test]
    fn file_names_come_safe_from_every_form() {
        let name = |text: &str| {
            let header = format!("Content-Disposition: attachment; {text}\r\n");
            Headers::parse(header.as_bytes()).unwrap().file_name()
        };
        let table = [
            ("filename=order.edi", Some("order.edi")),
            ("filename=\"an order.edi\"", Some("an order.edi")),
            ("filename=\"../../etc/passwd\"", Some("passwd")),
            ("filename=\"C:\\\\in\\\\order.edi\"", Some("order.edi")),
            ("filename*=UTF-8''Bestellung%20%C3%BC.edi", Some("Bestellung ü.edi")),
            ("filename*0=\"long \"; filename*1=name.edi", Some("long name.edi")),
            ("filename*0*=utf-8''%C3%BC; filename*1=.edi", Some("ü.edi")),
            ("filename=\".hidden\"", Some("hidden")),
            ("filename=\"a\u{7}b?.edi\"", Some("ab.edi")),
            ("filename=\"..\"", None),
            ("filename=\"/\"", None),
            ("other=1", None),
        ];
        for (text, expected) in table {
            assert_eq!(name(text).as_deref(), expected, "{text}");
        }
        let long = name(&format!("filename={}", "x".repeat(900))).unwrap();
        assert_eq!(long.len(), limits::FILE_NAME_BYTES);
        let kind = Headers::parse(b"Content-Type: a/b; name=\"x y\"\r\n").unwrap();
        assert_eq!(kind.file_name().as_deref(), Some("x y"));
    }

    #[test]
    fn encodings_turn_back_at_every_cut() {
        let text = b"QUJD\r\nREVG  Rw==\r\n";
        for piece in 1..text.len() {
            let mut decoder = Base64Decoder::default();
            let mut output = Vec::new();
            text.chunks(piece).for_each(|piece| decoder.update(piece, &mut output).unwrap());
            decoder.finish(&mut output).unwrap();
            assert_eq!(output, b"ABCDEFG");
        }
        assert_eq!(base64_decoded(b"QUI").unwrap(), b"AB");
        // Other characters anywhere, at every cut.
        let text = b" Q\tU*JDREVGR0hJSktM.QU JD\x00REVG-";
        for piece in 1..text.len() {
            let mut decoder = Base64Decoder::default();
            let mut output = Vec::new();
            text.chunks(piece).for_each(|piece| decoder.update(piece, &mut output).unwrap());
            decoder.finish(&mut output).unwrap();
            assert_eq!(output, b"ABCDEFGHIJKLABCDEF", "{piece}");
        }
        assert_eq!(base64_decoded(b"QUI=QQ=="), Err(MimeError));
        let text = b"a=3Db=\r\nc=\nd=zz=C3=BC=";
        for piece in 1..text.len() {
            let mut decoder = QuotedPrintableDecoder::default();
            let mut output = Vec::new();
            text.chunks(piece).for_each(|piece| decoder.update(piece, &mut output));
            decoder.finish(&mut output);
            assert_eq!(String::from_utf8(output).unwrap(), "a=bcd=zzü=");
        }
    }

    #[test]
    fn quotes_are_put_and_taken_off() {
        for text in ["plain-1.a", "with space", "q\"uote", "back\\slash", ""] {
            assert_eq!(unquoted(&quoted(text)), text);
        }
        assert_eq!(quoted("MyCompany"), "MyCompany");
        assert_eq!(quoted("My Company"), "\"My Company\"");
    }
}
