//! Receipts: disposition notifications (RFC 8098, RFC 4130 §7), made and read.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use entrepot_crypto::cipher::MAX_KEY_BYTES;
use entrepot_crypto::{Certificate, DigestAlgorithm};
use zeroize::Zeroizing;

use crate::disposition::{Disposition, Outcome};
use crate::headers::As2Name;
use crate::limits;
use crate::mic::{Mic, MicalgStyle, micalg_name};
use crate::mime::{Field, Headers, MimeError};
use crate::multipart::{PartEvent, Scanner, Section};
use crate::options::{ReceiveError, ReceiveOptions};
use crate::receive::Receiver;
use crate::signed_data::{self, SignatureError, Signer, VerifiedSignature};

/// A body and the type that goes with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// The value of `Content-Type`.
    pub content_type: String,
    /// The bytes behind the header.
    pub body: Vec<u8>,
}

/// What a receipt says.
#[derive(Debug, Clone)]
pub struct Receipt<'a> {
    /// Our name: who received the message.
    pub recipient: &'a As2Name,
    /// The id of the message exactly as it came; nothing where it had none.
    pub original_message_id: &'a str,
    /// What became of it.
    pub disposition: Disposition,
    /// The digest of what was received.
    pub mic: Option<&'a Mic>,
    /// How that digest's algorithm is called.
    pub style: MicalgStyle,
    /// The product that says so.
    pub reporting_ua: &'a str,
}

impl Receipt<'_> {
    /// Writes it. Boundaries must not occur in it: they are random.
    pub fn document(&self, boundary: &str) -> Document {
        let mut fields = format!("Reporting-UA: {}\r\n", on_a_line(self.reporting_ua));
        let name = self.recipient;
        fields.push_str(&format!("Original-Recipient: rfc822; {name}\r\n"));
        fields.push_str(&format!("Final-Recipient: rfc822; {name}\r\n"));
        let id = on_a_line(self.original_message_id);
        if !id.is_empty() {
            fields.push_str(&format!("Original-Message-ID: {id}\r\n"));
        }
        let disposition = self.disposition.text();
        fields.push_str(&format!(
            "Disposition: automatic-action/MDN-sent-automatically; {disposition}\r\n"
        ));
        if let Some(mic) = self.mic {
            fields.push_str(&format!("Received-Content-MIC: {}\r\n", mic.text(self.style)));
        }
        let text = self.disposition.explanation();
        let body = format!(
            "--{boundary}\r\nContent-Type: text/plain; charset=us-ascii\r\n\
             Content-Transfer-Encoding: 7bit\r\n\r\n{text}\r\n\r\n\
             --{boundary}\r\nContent-Type: message/disposition-notification\r\n\
             Content-Transfer-Encoding: 7bit\r\n\r\n{fields}\r\n--{boundary}--\r\n"
        );
        let content_type = format!(
            "multipart/report; report-type=disposition-notification; boundary=\"{boundary}\""
        );
        Document { content_type, body: body.into_bytes() }
    }
}

/// Without what would end the line: a partner must not write fields of our receipts.
fn on_a_line(text: &str) -> String {
    text.chars().filter(|character| !character.is_control()).collect()
}

/// Puts a document into `multipart/signed` with its signature.
pub fn signed(
    document: &Document,
    signer: &Signer,
    style: MicalgStyle,
    boundary: &str,
) -> Result<Document, SignatureError> {
    let head = format!("Content-Type: {}\r\n\r\n", document.content_type);
    let entity = [head.as_bytes(), &document.body].concat();
    let signature = signer.sign(&signer.digest.hash().hash(&entity))?;
    let open = format!("--{boundary}\r\n");
    let close = signature_part(&signature, boundary);
    let content_type = signed_type(signer.digest, style, boundary);
    Ok(Document { content_type, body: [open.as_bytes(), &entity, close.as_bytes()].concat() })
}

pub(crate) fn signed_type(digest: DigestAlgorithm, style: MicalgStyle, boundary: &str) -> String {
    let micalg = micalg_name(digest, style);
    format!(
        "multipart/signed; protocol=\"application/pkcs7-signature\"; micalg={micalg}; \
         boundary=\"{boundary}\""
    )
}

/// What follows the signed part: its boundary, the part with the signature, the last boundary.
pub(crate) fn signature_part(signature: &[u8], boundary: &str) -> String {
    let digits = STANDARD.encode(signature);
    let mut part = format!(
        "\r\n--{boundary}\r\nContent-Type: application/pkcs7-signature; name=smime.p7s; \
         smime-type=signed-data\r\nContent-Transfer-Encoding: base64\r\n\
         Content-Disposition: attachment; filename=smime.p7s\r\n\r\n"
    );
    for line in digits.as_bytes().chunks(76) {
        // Base64 is ASCII.
        part.push_str(&String::from_utf8_lossy(line));
        part.push_str("\r\n");
    }
    part.push_str(&format!("--{boundary}--\r\n"));
    part
}

/// A receipt that a partner gave.
#[derive(Debug)]
pub struct ReadReceipt {
    /// Which message it is about.
    pub original_message_id: Option<String>,
    /// What became of it.
    pub outcome: Outcome,
    /// The value of `Disposition`, as it came.
    pub disposition: String,
    /// The digest of what the partner received.
    pub mic: Option<Mic>,
    /// Whether a digest was there that could not be read.
    pub mic_unreadable: bool,
    /// Who received it.
    pub final_recipient: Option<String>,
    /// The text for people.
    pub text: String,
    /// The partner's signature, if the receipt was signed.
    pub signature: Option<VerifiedSignature>,
}

/// A receipt cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReceiptError {
    /// It is none, or too large, or malformed.
    #[error("the answer is no receipt")]
    Malformed,
    /// Its signature does not hold.
    #[error("the receipt's signature does not hold: {0}")]
    Signature(ReceiveError),
}

/// Whether a message with this header and this beginning of its body is a receipt, signed or not;
/// `None`: more of it has to be seen. One that is encrypted is taken for another message.
pub fn is_receipt(headers: &Headers, beginning: &[u8]) -> Option<bool> {
    if may_be_receipt(headers) {
        return Some(true);
    }
    let Ok(kind) = headers.content_type() else { return Some(false) };
    let (true, Some(boundary)) = (kind.value == "multipart/signed", kind.parameter("boundary"))
    else {
        return Some(false);
    };
    let seen = beginning.get(..limits::RECOGNISED_BYTES).unwrap_or(beginning);
    let more = if seen.len() < limits::RECOGNISED_BYTES { None } else { Some(false) };
    let delimiter = format!("--{boundary}");
    let Some(at) = memchr::memmem::find(seen, delimiter.as_bytes()) else { return more };
    let part = seen.get(at.saturating_add(delimiter.len())..).unwrap_or_default();
    let Some(line) = memchr::memchr(b'\n', part) else { return more };
    let header = part.get(line.saturating_add(1)..).unwrap_or_default();
    let ends = [b"\r\n\r\n".as_slice(), b"\n\n"].map(|end| memchr::memmem::find(header, end));
    let Some(end) = ends.into_iter().flatten().min() else { return more };
    let header = header.get(..end).unwrap_or_default();
    Some(Headers::parse(header).is_ok_and(|headers| may_be_receipt(&headers)))
}

/// Whether an entity with this header is a receipt.
pub fn may_be_receipt(headers: &Headers) -> bool {
    headers.content_type().is_ok_and(|kind| {
        let report = kind.parameter("report-type");
        kind.value == "multipart/report"
            && report.is_none_or(|it| it.eq_ignore_ascii_case("disposition-notification"))
            || kind.value == "message/disposition-notification"
    })
}

/// Reads a receipt, signed or not. A signature has to be by one of the trusted certificates.
pub fn read_receipt(
    headers: &Headers,
    body: &[u8],
    trusted: &[Arc<Certificate>],
) -> Result<ReadReceipt, ReceiptError> {
    let options = ReceiveOptions {
        keys: Vec::new(),
        trusted: trusted.to_vec(),
        substitute_key: Zeroizing::new([0; MAX_KEY_BYTES]),
        mic_algorithms: Vec::new(),
        other_digests: DigestAlgorithm::ALL.to_vec(),
        max_payload_bytes: limits::MDN_BYTES as u64,
        max_inflate_ratio: 1,
    };
    let mut receiver = Receiver::new(headers, options);
    let mut report = Vec::new();
    receiver.receive(body);
    while let Some(more) = receiver.output() {
        report.extend(more);
    }
    receiver.end();
    while let Some(more) = receiver.output() {
        report.extend(more);
    }
    let received = receiver.outcome().map_err(|error| match error {
        ReceiveError::Authentication | ReceiveError::Integrity => ReceiptError::Signature(error),
        _ => ReceiptError::Malformed,
    })?;
    let report = read_report(&received.payload, &report).or(Err(ReceiptError::Malformed))?;
    let value = |name: &str| report.fields.value(name).map(str::to_owned);
    let disposition = value("Disposition").ok_or(ReceiptError::Malformed)?;
    let details: Vec<String> =
        ["Error", "Failure", "Warning"].iter().filter_map(|name| value(name)).collect();
    let outcome = Outcome::parse(&disposition, &details).ok_or(ReceiptError::Malformed)?;
    let mic = value("Received-Content-MIC").filter(|mic| !mic.is_empty());
    let parsed = mic.as_deref().and_then(Mic::parse);
    Ok(ReadReceipt {
        original_message_id: value("Original-Message-ID"),
        outcome,
        disposition,
        mic_unreadable: mic.is_some() && parsed.is_none(),
        mic: parsed,
        final_recipient: value("Final-Recipient").map(|it| match it.split_once(';') {
            Some((_, name)) => name.trim().to_owned(),
            None => it,
        }),
        text: report.text,
        signature: received.signature,
    })
}

/// The certificates that the signature of a receipt brings along. Nothing says that any of them is
/// to be trusted.
pub fn brought_certificates(headers: &Headers, body: &[u8]) -> Vec<Certificate> {
    let found = || {
        let kind = headers.content_type().ok()?;
        let boundary = kind.parameter("boundary").filter(|_| kind.value == "multipart/signed")?;
        let signature = parts(body, boundary).ok()?.into_iter().nth(1)?;
        let signature = signature.strip_prefix(b"\r\n").unwrap_or(&signature);
        let (head, bytes) = split_head(signature);
        let encoding = Headers::parse(head).ok()?.transfer_encoding().ok()?;
        let bytes = match encoding {
            crate::mime::TransferEncoding::Base64 => crate::mime::base64_decoded(bytes).ok()?,
            _ => bytes.to_vec(),
        };
        signed_data::certificates(&bytes).ok()
    };
    found().unwrap_or_default()
}

struct Report {
    text: String,
    fields: Headers,
}

/// Finds the text and the fields in `multipart/report`, or in a notification that stands alone.
fn read_report(headers: &Headers, body: &[u8]) -> Result<Report, MimeError> {
    let kind = headers.content_type()?;
    if kind.value == "message/disposition-notification" {
        return Ok(Report { text: String::new(), fields: Headers::parse(body)? });
    }
    if kind.value != "multipart/report" {
        return Err(MimeError);
    }
    let mut text = String::new();
    let mut fields: Vec<Field> = Vec::new();
    for part in parts(body, kind.parameter("boundary").ok_or(MimeError)?)? {
        let part = part.strip_prefix(b"\r\n").unwrap_or(&part);
        let (head, body) = split_head(part);
        let headers = Headers::parse(head)?;
        let plain = match headers.transfer_encoding()? {
            crate::mime::TransferEncoding::Base64 => crate::mime::base64_decoded(body)?,
            _ => body.to_vec(),
        };
        match headers.content_type()?.value.as_str() {
            "message/disposition-notification" if fields.is_empty() => {
                fields = Headers::parse(&plain)?.fields().to_vec();
            }
            "text/plain" if text.is_empty() => {
                text = String::from_utf8_lossy(&plain).trim().to_owned();
            }
            _ => {}
        }
    }
    if fields.is_empty() {
        Err(MimeError)
    } else {
        Ok(Report { text, fields: Headers::new(fields) })
    }
}

fn split_head(part: &[u8]) -> (&[u8], &[u8]) {
    let end = |mark: &[u8]| memchr::memmem::find(part, mark).map(|at| at + mark.len());
    let at = [end(b"\r\n\r\n"), end(b"\n\n")].into_iter().flatten().min();
    part.split_at_checked(at.unwrap_or(part.len())).unwrap_or((part, &[]))
}

/// The parts of a body that is whole.
fn parts(body: &[u8], boundary: &str) -> Result<Vec<Vec<u8>>, MimeError> {
    const MOST: usize = 8;
    let mut scanner = Scanner::new(boundary)?;
    let whole = [b"\r\n", body].concat();
    let mut rest = &whole[..];
    let mut parts: Vec<Vec<u8>> = Vec::new();
    while let Some(step) = scanner.event(rest)? {
        let (taken, behind) = rest.split_at_checked(step.taken).ok_or(MimeError)?;
        rest = behind;
        match step.event {
            PartEvent::PartBegins if parts.len() == MOST => return Err(MimeError),
            PartEvent::PartBegins => parts.push(Vec::new()),
            PartEvent::Bytes(_) if scanner.section() == Section::Part => {
                if let Some(part) = parts.last_mut() {
                    part.extend_from_slice(taken);
                }
            }
            PartEvent::Bytes(_) => {}
            PartEvent::LastPartEnds => return Ok(parts),
        }
    }
    Err(MimeError)
}
