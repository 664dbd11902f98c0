//! What a fuzzer calls: bytes of a stranger as headers, message, receipt and structures.

use entrepot_crypto::DigestAlgorithm;
use zeroize::Zeroizing;

use crate::ber::BerReader;
use crate::cms::{CmsReader, to_der};
use crate::headers::{As2Headers, ReceiptOptions};
use crate::mdn::read_receipt;
use crate::mic::Finished;
use crate::mime::Headers;
use crate::options::ReceiveOptions;
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

fn message(bytes: &[u8], piece: usize) {
    let Some((headers, body)) = split(bytes) else { return };
    let options = ReceiveOptions {
        keys: Vec::new(),
        trusted: Vec::new(),
        substitute_key: Zeroizing::new([0; 32]),
        mic_algorithms: vec![DigestAlgorithm::Sha256],
        other_digests: vec![DigestAlgorithm::Sha1],
        max_payload_bytes: 1 << 20,
        max_inflate_ratio: 100,
    };
    let mut receiver = Receiver::new(&headers, options);
    let mut total = 0;
    for piece in body.chunks(piece) {
        receiver.receive(piece);
        while let Some(output) = receiver.output() {
            total += output.len();
        }
    }
    receiver.end();
    while let Some(output) = receiver.output() {
        total += output.len();
    }
    if let Ok(received) = receiver.outcome() {
        assert_eq!(received.payload_bytes, total as u64);
        // Nobody is trusted, so that no signature holds.
        assert!(received.signature.is_none());
        let _ = received.payload.file_name();
    }
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
        let _ = read_receipt(&headers, body, &[]);
    }
}
