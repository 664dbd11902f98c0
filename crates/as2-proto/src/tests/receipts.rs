//! Receipts as we make them and as partners do.

use super::*;

fn receipt<'a>(name: &'a As2Name, mic: &'a Mic) -> Receipt<'a> {
    Receipt {
        recipient: name,
        original_message_id: "<1@x>",
        disposition: Disposition::Processed,
        mic: Some(mic),
        style: MicalgStyle::Plain,
        reporting_ua: "Entrepot",
    }
}

fn headers(document: &Document) -> Headers {
    Headers::new(vec![field("content-type", &document.content_type)])
}

#[test]
fn receipts_are_read_as_they_are_made() {
    let name = As2Name::new("My Company").unwrap();
    let mic = Mic { algorithm: DigestAlgorithm::Sha256, digest: vec![7; 32] };
    let made = receipt(&name, &mic);
    let document = made.document("report-boundary");
    let read = read_receipt(&headers(&document), &document.body, &[]).unwrap();
    assert_eq!(read.original_message_id.as_deref(), Some("<1@x>"));
    assert_eq!(read.outcome, Outcome::Processed);
    assert_eq!(read.mic, Some(mic.clone()));
    assert_eq!(read.final_recipient.as_deref(), Some("My Company"));
    assert_eq!(read.text, Disposition::Processed.explanation());
    assert!(read.signature.is_none() && may_be_receipt(&headers(&document)));

    let signer = BOB.signer(DigestAlgorithm::Sha256, RsaPadding::Pkcs1);
    let style = MicalgStyle::Dashed;
    let document = signed(&document, &signer, style, "outer-boundary").unwrap();
    let trusted = [Arc::clone(&BOB.own.certificate)];
    let read = read_receipt(&headers(&document), &document.body, &trusted).unwrap();
    assert_eq!(read.mic, Some(mic));
    assert!(read.signature.is_some());
    let stranger = read_receipt(&headers(&document), &document.body, &[]);
    assert_eq!(stranger.err(), Some(ReceiptError::Signature(ReceiveError::Authentication)));
    let text = String::from_utf8(document.body).unwrap();
    let changed = text.replace("MDN-sent", "MDN-SENT");
    let changed = read_receipt(&headers_of(&document.content_type), changed.as_bytes(), &trusted);
    assert_eq!(changed.err(), Some(ReceiptError::Signature(ReceiveError::Integrity)));
}

fn headers_of(kind: &str) -> Headers {
    Headers::new(vec![field("Content-Type", kind)])
}

#[test]
fn receipts_of_partners() {
    let kind = "multipart/Report; Report-Type=disposition-notification; boundary=\"----x\"";
    let digest = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=";
    // Folded fields, odd case, no blank line behind the header, RFC 8098's fields of errors.
    let body = format!(
        "------x\r\ncontent-type: text/plain\r\n\r\nThanks.\r\n------x\r\n\
         Content-Type: message/disposition-notification\r\n\r\n\
         original-message-id: <1@x>\r\nFinal-Recipient: RFC822;\r\n \"My Company\"\r\n\
         DISPOSITION: Automatic-Action/MDN-Sent-Automatically;\r\n\tProcessed / Error\r\n\
         Error: decryption-failed\r\nreceived-content-mic: {digest},SHA256\r\n\r\n------x--"
    );
    let read = read_receipt(&headers_of(kind), body.as_bytes(), &[]).unwrap();
    assert_eq!(read.outcome, Outcome::Error("decryption-failed".to_owned()));
    assert_eq!(read.text, "Thanks.");
    assert_eq!(read.mic.unwrap().algorithm, DigestAlgorithm::Sha256);
    let without = body.replace(digest, "???");
    let read = read_receipt(&headers_of(kind), without.as_bytes(), &[]).unwrap();
    assert!(read.mic.is_none() && read.mic_unreadable);

    let none = [
        ("text/html", "<p>Error</p>"),
        (kind, "------x\r\n\r\ntext\r\n------x--"),
        (
            kind,
            "------x\r\nContent-Type: message/disposition-notification\r\n\r\nA: b\r\n------x--",
        ),
        ("multipart/report", "no boundary"),
        (kind, "cut"),
    ];
    for (kind, body) in none {
        let read = read_receipt(&headers_of(kind), body.as_bytes(), &[]);
        assert_eq!(read.err(), Some(ReceiptError::Malformed), "{body}");
    }
    let large = vec![b'x'; limits::MDN_BYTES + 1];
    let read = read_receipt(&headers_of(kind), &large, &[]);
    assert_eq!(read.err(), Some(ReceiptError::Malformed));
}

#[test]
fn a_receipt_may_come_base64_encoded() {
    use base64::Engine as _;
    let fields = "Disposition: a/b; processed\r\nOriginal-Message-ID: <2@y>\r\n";
    let encoded = base64::engine::general_purpose::STANDARD.encode(fields);
    let body = format!(
        "--b\r\nContent-Type: message/disposition-notification\r\n\
         Content-Transfer-Encoding: base64\r\n\r\n{encoded}\r\n--b--\r\n"
    );
    let read = read_receipt(&headers_of("multipart/report; boundary=b"), body.as_bytes(), &[]);
    assert_eq!(read.unwrap().original_message_id.as_deref(), Some("<2@y>"));
}

#[test]
fn an_id_cannot_write_fields_of_the_receipt() {
    let name = As2Name::new("Company").unwrap();
    let mic = Mic { algorithm: DigestAlgorithm::Sha256, digest: vec![7; 32] };
    let id = "<1@x>\r\nDisposition: a/b; failed\r\n\r\n--b";
    let made = Receipt { original_message_id: id, ..receipt(&name, &mic) };
    let document = made.document("b");
    let read = read_receipt(&headers(&document), &document.body, &[]).unwrap();
    assert_eq!(read.outcome, Outcome::Processed);
    assert_eq!(read.original_message_id.as_deref(), Some("<1@x>Disposition: a/b; failed--b"));
}

#[test]
fn a_receipt_is_told_from_a_message_by_how_it_begins() {
    let signed = "multipart/signed; protocol=\"application/pkcs7-signature\"; boundary=b";
    let report = "Content-Type: multipart/report; report-type=disposition-notification; \
                  boundary=r\r\n\r\n--r\r\n";
    let whole = format!("preamble\r\n--b\r\n{report}");
    let is = |kind: &str, body: &[u8]| is_receipt(&headers_of(kind), body);
    assert_eq!(is(signed, whole.as_bytes()), Some(true));
    assert_eq!(is(signed, whole.replace('\r', "").as_bytes()), Some(true));
    let edi = whole.replace("multipart/report", "application/edi-x12");
    assert_eq!(is(signed, edi.as_bytes()), Some(false));
    // Nothing is decided before the header of the first part is there.
    let end = whole.find("\r\n\r\n").unwrap() + 4;
    for length in 0..end {
        assert_eq!(is(signed, &whole.as_bytes()[..length]), None, "{length}");
    }
    assert_eq!(is(signed, &[b'x'; limits::RECOGNISED_BYTES]), Some(false));
    assert_eq!(is("multipart/report; boundary=r", b""), Some(true));
    assert_eq!(is("multipart/signed", b"--b"), Some(false));
    assert_eq!(is("application/pkcs7-mime; smime-type=enveloped-data", b""), Some(false));
}

#[test]
fn the_digests_of_a_message_are_kept_as_text() {
    let mic = |byte| Mic { algorithm: DigestAlgorithm::Sha384, digest: vec![byte; 48] };
    for uncompressed in [None, Some(mic(9))] {
        let sent = SentMic { mic: mic(7), uncompressed };
        assert_eq!(SentMic::from_texts(&sent.texts()), Some(sent));
    }
    assert_eq!(SentMic::from_texts(&[]), None);
    assert_eq!(SentMic::from_texts(&["x".to_owned()]), None);
}
