//! Messages that count for nothing, and which disposition says so.

use super::*;

fn both(payload: &[u8]) -> SendPlan {
    SendPlan {
        signing: signing(DigestAlgorithm::Sha256),
        envelope: envelope(ContentCipher::Aes128Cbc),
        ..plan(payload)
    }
}

fn outcome(headers: &Headers, body: &[u8], options: ReceiveOptions) -> ReceiveError {
    receive(headers, body, 100, options).result.unwrap_err()
}

#[test]
fn whatever_is_wrong_with_encryption_has_one_answer() {
    let payload = payload(500);
    let sent = send(&both(&payload), &payload);
    // No key of ours.
    let none = ReceiveOptions { keys: Vec::new(), ..options() };
    assert_eq!(outcome(&sent.headers, &sent.body, none), ReceiveError::Decryption);
    // A key of the right name that is another: the content key is replaced.
    let certificate = Arc::clone(&BOB.own.certificate);
    let key = Arc::clone(&ALICE.own.key);
    let wrong = ReceiveOptions { keys: vec![OwnKey { certificate, key }], ..options() };
    assert_eq!(outcome(&sent.headers, &sent.body, wrong), ReceiveError::Decryption);
    // Padding, the first block and so the header, and what is cut.
    let length = sent.body.len();
    let content_at = length - 700;
    let mut cases = vec![sent.body[..length - 1].to_vec(), sent.body[..content_at].to_vec()];
    for at in [length - 1, length - 17] {
        let mut changed = sent.body.clone();
        changed[at] ^= 0xf0;
        cases.push(changed);
    }
    for body in cases {
        assert_eq!(outcome(&sent.headers, &body, options()), ReceiveError::Decryption);
    }
    // Every byte of the head: never anything else than this or success of what it does not touch.
    for at in 0..300 {
        let mut changed = sent.body.clone();
        changed[at] ^= 1;
        if let Err(error) = receive(&sent.headers, &changed, 4096, options()).result {
            assert_eq!(error, ReceiveError::Decryption, "{at}");
        }
    }
}

#[test]
fn a_tag_of_gcm_is_checked_before_anything_else() {
    let payload = payload(500);
    let plan = SendPlan { envelope: envelope(ContentCipher::Aes128Gcm), ..both(&payload) };
    let sent = send(&plan, &payload);
    for at in [sent.body.len() - 1, sent.body.len() - 400] {
        let mut changed = sent.body.clone();
        changed[at] ^= 1;
        assert_eq!(outcome(&sent.headers, &changed, options()), ReceiveError::Decryption);
    }
}

#[test]
fn blocks_behind_the_last_boundary_are_no_oracle() {
    // What an attacker does who appends blocks to CBC: the epilogue becomes garbage.
    let signer = ALICE.signer(DigestAlgorithm::Sha256, RsaPadding::Pkcs1);
    let entity = "Content-Type: a/b\r\n\r\nbody";
    let digest = DigestAlgorithm::Sha256.hash().hash(entity.as_bytes());
    let close = crate::mdn::signature_part(&signer.sign(&digest).unwrap(), "b");
    for (epilogue, expected) in [("garbage", Some(ReceiveError::Decryption)), ("\r\n \r\n", None)] {
        let inner = format!("--b\r\n{entity}{close}{epilogue}");
        let plan = SendPlan {
            content_type: "multipart/signed; boundary=b".to_owned(),
            envelope: envelope(ContentCipher::Aes128Cbc),
            file_name: None,
            ..plan(inner.as_bytes())
        };
        let sent = send(&plan, inner.as_bytes());
        let got = receive(&sent.headers, &sent.body, 64, options());
        assert_eq!(got.result.err(), expected);
    }
}

#[test]
fn signatures_of_others_and_of_other_content_are_told_apart() {
    let payload = payload(500);
    let signed = SendPlan { envelope: None, ..both(&payload) };
    let sent = send(&signed, &payload);
    let mut changed = sent.body.clone();
    let at = changed.len() - 2600;
    changed[at] ^= 1;
    assert_eq!(outcome(&sent.headers, &changed, options()), ReceiveError::Integrity);
    // The certificate in the message says nothing: it is not among the trusted ones.
    let strange = ReceiveOptions { trusted: vec![Arc::clone(&BOB.own.certificate)], ..options() };
    assert_eq!(outcome(&sent.headers, &sent.body, strange), ReceiveError::Authentication);
    let nobody = ReceiveOptions { trusted: Vec::new(), ..options() };
    assert_eq!(outcome(&sent.headers, &sent.body, nobody), ReceiveError::Authentication);
}

#[test]
fn parts_beside_the_signed_one_are_refused() {
    let entity = "Content-Type: a/b\r\n\r\nbody";
    let sent = signed_by_hand(entity, entity, "");
    let text = String::from_utf8(sent.body.clone()).unwrap();
    let third = text.replace("--b--", "--b\r\n\r\nthird\r\n--b--");
    let swapped =
        text.replace("\r\n--b\r\nContent-Type: a", "\r\n--b\r\n\r\nx\r\n--b\r\nContent-Type: a");
    let unsigned = format!("--b\r\n{entity}\r\n--b--\r\n");
    let cut = text[..text.len() - 20].to_owned();
    for body in [third, swapped, unsigned, cut] {
        let error = outcome(&sent.headers, body.as_bytes(), options());
        let known = [ReceiveError::Malformed, ReceiveError::UnsupportedFormat];
        assert!(known.contains(&error), "{error:?}");
    }
    // Content inside the signature is other content than what is beside it.
    let nested = format!("Content-Type: multipart/signed; boundary=c\r\n\r\n{text}");
    let sent = signed_by_hand(&nested, &nested, "");
    assert_eq!(outcome(&sent.headers, &sent.body, options()), ReceiveError::UnsupportedFormat);
}

#[test]
fn wrappers_that_are_not_known_are_no_payload() {
    let kinds = [
        "multipart/encrypted; boundary=b",
        "application/pkcs7-signature",
        "application/x-pkcs7-certs",
        "application/pgp-encrypted",
        "multipart/signed; boundary=b; protocol=\"application/pgp-signature\"",
    ];
    for kind in kinds {
        let headers = Headers::new(vec![field("Content-Type", kind)]);
        assert_eq!(outcome(&headers, b"x", options()), ReceiveError::UnsupportedFormat, "{kind}");
    }
    let headers = Headers::new(vec![field("Content-Type", "application/pkcs7-mime")]);
    assert_eq!(outcome(&headers, b"0 no CMS", options()), ReceiveError::Decryption);
}

#[test]
fn an_encryption_inside_another_or_inside_a_signature_is_refused() {
    let payload = payload(100);
    let inner = send(&SendPlan { signing: None, ..both(&payload) }, &payload);
    let kind = inner.headers.value("content-type").unwrap().to_owned();
    let outer = SendPlan { content_type: kind, file_name: None, ..plan(&inner.body) };
    let signed = SendPlan { signing: signing(DigestAlgorithm::Sha256), ..outer.clone() };
    let sent = send(&signed, &inner.body);
    assert_eq!(outcome(&sent.headers, &sent.body, options()), ReceiveError::UnsupportedFormat);
    let sealed = SendPlan { envelope: envelope(ContentCipher::Aes128Cbc), ..outer };
    let sent = send(&sealed, &inner.body);
    assert_eq!(outcome(&sent.headers, &sent.body, options()), ReceiveError::Decryption);
}

#[test]
fn bombs_and_damaged_compression_are_refused() {
    let payload = vec![0u8; 20 << 20];
    let bomb = SendPlan { compression: Compression::BeforeSigning, ..plan(&payload) };
    let sent = send(&bomb, &payload);
    let strict = || ReceiveOptions { max_inflate_ratio: 100, ..options() };
    assert_eq!(outcome(&sent.headers, &sent.body, strict()), ReceiveError::Decompression);
    let small = ReceiveOptions { max_payload_bytes: 1 << 20, ..options() };
    assert_eq!(outcome(&sent.headers, &sent.body, small), ReceiveError::TooLarge);
    let mut changed = sent.body.clone();
    let middle = changed.len() / 2;
    changed[middle] ^= 0xff;
    changed[middle + 1] ^= 0xff;
    assert_eq!(outcome(&sent.headers, &changed, options()), ReceiveError::Decompression);
    let cut = &sent.body[..sent.body.len() - 1];
    assert_eq!(outcome(&sent.headers, cut, options()), ReceiveError::Decompression);
}

#[test]
fn bombs_that_are_no_payload_are_refused() {
    // 40 MiB before the first boundary, which nobody looks at.
    let preamble = vec![b' '; 40 << 20];
    let bomb = SendPlan {
        content_type: "multipart/signed; boundary=b".to_owned(),
        file_name: None,
        compression: Compression::BeforeSigning,
        ..plan(&preamble)
    };
    let sent = send(&bomb, &preamble);
    assert!(sent.body.len() < 1 << 20);
    let small = ReceiveOptions { max_payload_bytes: 1 << 20, ..options() };
    assert_eq!(outcome(&sent.headers, &sent.body, small), ReceiveError::Decompression);
}

#[test]
fn layers_have_an_end() {
    let mut content = b"x".to_vec();
    let mut kind = "text/plain".to_owned();
    for layer in 1..limits::COMPRESSIONS + 3 {
        let plan = SendPlan {
            content_type: kind.clone(),
            file_name: None,
            compression: Compression::BeforeSigning,
            ..plan(&content)
        };
        let sent = send(&plan, &content);
        let error = receive(&sent.headers, &sent.body, 100, options()).result.err();
        let many = (layer > limits::COMPRESSIONS).then_some(ReceiveError::UnsupportedFormat);
        assert_eq!(error, many, "{layer}");
        kind = sent.headers.value("content-type").unwrap().to_owned();
        content = sent.body;
    }
}

#[test]
fn what_is_wrong_is_so_in_whatever_pieces_it_comes() {
    use Compression::{AfterSigning, BeforeSigning, None as Plain};
    let payload = payload(1000);
    let gcm = envelope(ContentCipher::Aes256Gcm);
    let triple_des = envelope(ContentCipher::TripleDesCbc);
    for compression in [Plain, BeforeSigning, AfterSigning] {
        for envelope in [None, envelope(ContentCipher::Aes128Cbc), triple_des.clone(), gcm.clone()]
        {
            let sent = send(&SendPlan { compression, envelope, ..both(&payload) }, &payload);
            let length = sent.body.len();
            let mut errors = 0;
            for step in 0..60 {
                // Everywhere, and every byte of the end.
                let at = if step < 40 { length * step / 40 } else { length - 60 + step };
                let mut body = sent.body.clone();
                body[at] ^= 0x11;
                let result = |piece| receive(&sent.headers, &body, piece, options()).result.err();
                let whole = result(length);
                errors += usize::from(whole.is_some());
                for piece in [1, 61, 1000] {
                    assert_eq!(result(piece), whole, "{compression:?} {at} {piece}");
                }
            }
            assert!(errors > 30, "{errors}");
        }
    }
}

#[test]
fn policies_admit_what_was_agreed() {
    let payload = payload(100);
    let arrives = |plan: &SendPlan| {
        let sent = send(plan, &payload);
        receive(&sent.headers, &sent.body, 4096, options()).result.unwrap()
    };
    let strict = LeastSecurity::default();
    let good = arrives(&both(&payload));
    let unsigned = arrives(&SendPlan { signing: None, ..both(&payload) });
    let open = arrives(&SendPlan { envelope: None, ..both(&payload) });
    let sha1 = arrives(&SendPlan { signing: signing(DigestAlgorithm::Sha1), ..both(&payload) });
    let des =
        arrives(&SendPlan { envelope: envelope(ContentCipher::TripleDesCbc), ..both(&payload) });
    assert!(strict.admits(&good));
    for weak in [&unsigned, &open, &sha1, &des] {
        assert!(!strict.admits(weak));
    }
    let signature = LeastSecurity { signature: Protection::Optional, ..strict };
    let encryption = LeastSecurity { encryption: Protection::Optional, ..strict };
    let digest = LeastSecurity { digest: DigestAlgorithm::Sha1, ..strict };
    let cipher = LeastSecurity { triple_des: Legacy::Accepted, ..strict };
    let long = LeastSecurity { rsa_bits: 4096, ..strict };
    assert!(signature.admits(&unsigned) && !signature.admits(&open));
    assert!(encryption.admits(&open) && !encryption.admits(&unsigned));
    assert!(digest.admits(&sha1) && cipher.admits(&des) && !long.admits(&good));
}

#[test]
fn every_error_has_its_disposition() {
    let table = [
        (ReceiveError::Decryption, "processed/error: decryption-failed"),
        (ReceiveError::Authentication, "processed/error: authentication-failed"),
        (ReceiveError::Integrity, "processed/error: integrity-check-failed"),
        (ReceiveError::Decompression, "processed/error: decompression-failed"),
        (ReceiveError::UnsupportedFormat, "failed/failure: unsupported format"),
        (ReceiveError::Malformed, "processed/error: unexpected-processing-error"),
        (ReceiveError::TooLarge, "processed/error: unexpected-processing-error"),
    ];
    for (error, text) in table {
        assert_eq!(error.disposition().text(), text);
    }
}
