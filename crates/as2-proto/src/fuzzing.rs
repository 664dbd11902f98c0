//! What a fuzzer calls: bytes of a stranger as headers, message, receipt and structures.

use entrepot_crypto::DigestAlgorithm;
use zeroize::Zeroizing;

use crate::ber::BerReader;
use crate::cms::{CmsReader, to_der};
use crate::headers::{As2Headers, ReceiptOptions};
use crate::mdn::{is_receipt, read_receipt};
use crate::mic::Finished;
use crate::mime::Headers;
use crate::options::{ReceiveError, ReceiveOptions};
use crate::receive::Receiver;
use crate::signed_data;

/// Feeds bytes of a fuzzer: the first one chooses what they are.
pub fn fuzz(bytes: &[u8]) {
    let Some((choice, rest)) = bytes.split_first() else { return };
    match choice % 4 {
        0 => structures(rest),
        1 => message(rest, usize::from(*choice / 4) + 1),
        2 => headers(rest),
        _ => receipt(rest),
    }
}

fn structures(bytes: &[u8]) {
    let mut reader = BerReader::default();
    let mut input = bytes;
    while let Ok(Some(_)) = reader.event(&mut input) {}
    let mut reader = CmsReader::default();
    for mut piece in bytes.chunks(7) {
        while let Ok(Some(_)) = reader.event(&mut piece) {}
    }
    let _ = to_der(bytes);
    let _ = signed_data::verify(bytes, &Finished::default(), &[]);
    let _ = entrepot_crypto::Certificate::from_der(bytes);
}

/// Header and body, split at the first empty line.
fn split(bytes: &[u8]) -> Option<(Headers, &[u8])> {
    let at = memchr::memmem::find(bytes, b"\n\n")?;
    let (head, body) = bytes.split_at_checked(at + 2)?;
    Some((Headers::parse(head).ok()?, body))
}

fn options() -> ReceiveOptions {
    ReceiveOptions {
        keys: Vec::new(),
        trusted: Vec::new(),
        substitute_key: Zeroizing::new([0; 32]),
        mic_algorithms: vec![DigestAlgorithm::Sha256],
        other_digests: vec![DigestAlgorithm::Sha1],
        max_payload_bytes: 1 << 20,
        max_inflate_ratio: 100,
    }
}

/// A message, and the same bytes as if they had been decrypted.
fn message(bytes: &[u8], piece: usize) {
    if let Some((headers, body)) = split(bytes) {
        let receiver = || Receiver::new(&headers, options());
        alike(receiver, body, piece);
    }
    alike(|| Receiver::inside_encryption(options()), bytes, piece);
}

/// That the pieces in which bytes come change nothing.
fn alike(receiver: impl Fn() -> Receiver, body: &[u8], piece: usize) {
    let pieces = received(receiver(), body, piece);
    assert_eq!(pieces, received(receiver(), body, body.len().max(1)));
}

/// The payload, or what was wrong.
fn received(mut receiver: Receiver, body: &[u8], piece: usize) -> Result<Vec<u8>, ReceiveError> {
    let mut payload = Vec::new();
    for piece in body.chunks(piece) {
        receiver.receive(piece);
        while let Some(output) = receiver.output() {
            payload.extend(output);
        }
    }
    receiver.end();
    while let Some(output) = receiver.output() {
        payload.extend(output);
    }
    let received = receiver.outcome()?;
    assert_eq!(received.payload_bytes, payload.len() as u64);
    // Nobody is trusted, so that no signature holds.
    assert!(received.signature.is_none());
    let _ = received.payload.file_name();
    Ok(payload)
}

fn headers(bytes: &[u8]) {
    let Ok(headers) = Headers::parse(bytes) else { return };
    let _ = As2Headers::parse(&headers);
    let _ = headers.file_name();
    for field in headers.fields() {
        let _ = ReceiptOptions::parse(&field.value);
        let _ = crate::mic::Mic::parse(&field.value);
        let _ = crate::disposition::Outcome::parse(&field.value, &[]);
    }
}

fn receipt(bytes: &[u8]) {
    if let Some((headers, body)) = split(bytes) {
        let _ = is_receipt(&headers, body);
        let _ = read_receipt(&headers, body, &[]);
    }
}
