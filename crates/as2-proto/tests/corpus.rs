//! Replays the fuzzer's corpus on stable, and makes it: with `UPDATE_CORPUS=1` messages, receipts,
//! headers and structures, whole and cut, are written to `fuzz/corpus/as2_proto`.

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// What each choice of the fuzz function begins with: see there.
const STRUCTURES: u8 = 0;
const MESSAGE: u8 = 1;
const HEADERS: u8 = 2;
const RECEIPT: u8 = 3;

/// The twelve headers of a message in a published load test of a gateway.
const PAPER: &str = "AS2-Version: 1.2\nEDIINT-Features: multiple-attachments, AS2-Reliability\n\
    Message-ID: <1234567@sender.example>\nAS2-To: Receiver\nAS2-From: \"The Sender\"\n\
    Subject: \"Quoted subject\"\nDate: Mon, 02 Mar 2020 10:00:00 GMT\n\
    Disposition-Notification-To: sender@sender.example\nDisposition-Notification-Options: \
    signed-receipt-protocol=required, pkcs7-signature; signed-receipt-micalg=required, sha1\n\
    Content-Type: application/pkcs7-mime; smime-type=enveloped-data; name=smime.p7m\n\
    Content-Disposition: attachment; filename=\"smime.p7m\"\nMime-Version: 1.0\n\n";

const SIGNED: &str = "Content-Type: multipart/signed; boundary=b; micalg=sha-256\n\n--b\r\n\
    Content-Type: text/plain\r\n\r\nbody\nbody\r\n--b\r\nContent-Type: application/pkcs7-signature\
    \r\nContent-Transfer-Encoding: base64\r\n\r\nMAYGASoCAQE=\r\n--b--\r\n";

const REPORT: &str = "Content-Type: multipart/report; boundary=b\n\n--b\r\n\r\nThanks\r\n--b\r\n\
    Content-Type: message/disposition-notification\r\n\r\nOriginal-Message-ID: <1@x>\r\n\
    Disposition: automatic-action/MDN-sent-automatically; processed/error:\r\n unknown\r\n\
    Received-Content-MIC: 47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=, sha256\r\n\r\n--b--\r\n";

/// A SEQUENCE with an indefinite length that holds the OID of CompressedData, the algorithm zlib
/// and a string in pieces.
const COMPRESSED: &[u8] = &[
    0x30, 0x80, 0x06, 0x0b, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x10, 0x01, 0x09, 0xa0,
    0x80, 0x30, 0x80, 0x02, 0x01, 0x00, 0x30, 0x0d, 0x06, 0x0b, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d,
    0x01, 0x09, 0x10, 0x03, 0x08, 0x30, 0x80, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01,
    0x07, 0x01, 0xa0, 0x80, 0x24, 0x80, 0x04, 0x0b, 0x78, 0x01, 0xe3, 0xe2, 0xe2, 0x4a, 0xe4, 0x02,
    0x00, 0x02, 0xb4, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
];

fn corpus() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/as2_proto")
}

fn seeds() -> Vec<Vec<u8>> {
    let with = |choice: u8, bytes: &[u8]| [&[choice], bytes].concat();
    let kind = "Content-Type: application/pkcs7-mime\n\n";
    let enveloped = kind.as_bytes();
    let digits = STANDARD.encode(COMPRESSED);
    vec![
        with(STRUCTURES, COMPRESSED),
        with(STRUCTURES, &[0x30, 0x84, 0xff, 0xff, 0xff, 0xff]),
        with(MESSAGE, SIGNED.as_bytes()),
        with(MESSAGE + 4 * 60, SIGNED.as_bytes()),
        with(MESSAGE + 4 * 10, &[enveloped, COMPRESSED].concat()),
        with(MESSAGE, &[PAPER.as_bytes(), COMPRESSED].concat()),
        with(MESSAGE, b"Content-Type: text/plain\nContent-Transfer-Encoding: base64\n\naGVsbG8="),
        with(HEADERS, PAPER.as_bytes()),
        with(RECEIPT, REPORT.as_bytes()),
        with(RECEIPT, SIGNED.as_bytes()),
        // Digits behind the padding, and something behind the structure.
        with(MESSAGE + 4 * 10, format!("{kind}{digits}\r\nMTIz=QUJD").as_bytes()),
    ]
}

#[test]
fn the_corpus_passes() {
    if std::env::var_os("UPDATE_CORPUS").is_some() {
        std::fs::create_dir_all(corpus()).unwrap();
        for (number, seed) in seeds().iter().enumerate() {
            for cut in 1..5 {
                let bytes = &seed[..seed.len() * cut / 4];
                std::fs::write(corpus().join(format!("{number}-{cut}")), bytes).unwrap();
            }
        }
    }
    let mut count = 0;
    for entry in std::fs::read_dir(corpus()).unwrap() {
        entrepot_as2_proto::fuzz(&std::fs::read(entry.unwrap().path()).unwrap());
        count += 1;
    }
    assert!((30..=200).contains(&count), "{count} files");
}

#[test]
fn changed_seeds_pass_too() {
    // Each byte of each seed with each of three changes: what a fuzzer does first.
    for seed in seeds() {
        for at in 0..seed.len() {
            for change in [1, 0x80, 0xff] {
                let mut bytes = seed.clone();
                bytes[at] ^= change;
                entrepot_as2_proto::fuzz(&bytes);
            }
        }
    }
}
