//! Messages both ways: what is sent is received, in every form and cut, and what was changed is
//! refused with the right disposition.

mod oracle;
mod receipts;
mod refused;

use std::sync::{Arc, LazyLock};

use entrepot_crypto::cipher::ContentSecrets;
use entrepot_crypto::{Certificate, ContentCipher, DigestAlgorithm, KeyTransport, PrivateKey};
use zeroize::Zeroizing;

use crate::ber::tests::indefinite;
use crate::*;

/// A certificate and its key.
pub(crate) struct Party {
    pub(crate) own: OwnKey,
}

impl Party {
    fn new(algorithm: &'static rcgen::SignatureAlgorithm) -> Party {
        let pair = rcgen::KeyPair::generate_for(algorithm).unwrap();
        let parameters = rcgen::CertificateParams::new(vec!["as2.example".to_owned()]).unwrap();
        let certificate = parameters.self_signed(&pair).unwrap();
        let key = PrivateKey::from_pkcs8(&pair.serialize_der()).unwrap();
        let certificate = Certificate::from_der(certificate.der()).unwrap();
        assert!(key.belongs_to(&certificate.key));
        Party { own: OwnKey { certificate: Arc::new(certificate), key: Arc::new(key) } }
    }

    pub(crate) fn signer(&self, digest: DigestAlgorithm, padding: RsaPadding) -> Signer {
        let OwnKey { certificate, key } = self.own.clone();
        Signer { certificate, key, digest, padding, time: 1_769_903_999 }
    }
}

pub(crate) static ALICE: LazyLock<Party> = LazyLock::new(|| Party::new(&rcgen::PKCS_RSA_SHA256));
pub(crate) static BOB: LazyLock<Party> = LazyLock::new(|| Party::new(&rcgen::PKCS_RSA_SHA256));
pub(crate) static CURVE: LazyLock<Party> =
    LazyLock::new(|| Party::new(&rcgen::PKCS_ECDSA_P384_SHA384));

pub(crate) fn random() -> SendRandom {
    let key = Zeroizing::new([0x5a; 32]);
    SendRandom {
        boundary: "boundary-0123456789abcdefghijklmn".to_owned(),
        secrets: ContentSecrets { key, iv: [0xa5; 16] },
    }
}

/// What Bob receives from Alice with.
pub(crate) fn options() -> ReceiveOptions {
    ReceiveOptions {
        keys: vec![BOB.own.clone()],
        trusted: vec![Arc::clone(&ALICE.own.certificate), Arc::clone(&CURVE.own.certificate)],
        substitute_key: Zeroizing::new([0x77; 32]),
        mic_algorithms: vec![DigestAlgorithm::Sha256],
        other_digests: vec![DigestAlgorithm::Sha1, DigestAlgorithm::Sha256],
        max_payload_bytes: 1 << 30,
        max_inflate_ratio: 2000,
    }
}

pub(crate) fn plan(payload: &[u8]) -> SendPlan {
    SendPlan {
        content_type: "application/edi-x12".to_owned(),
        file_name: Some("an order.edi".to_owned()),
        payload_bytes: payload.len() as u64,
        compression: Compression::None,
        signing: None,
        envelope: None,
        mic_algorithm: DigestAlgorithm::Sha256,
    }
}

pub(crate) fn signing(digest: DigestAlgorithm) -> Option<Signing> {
    let signer = ALICE.signer(digest, RsaPadding::Pkcs1);
    Some(Signing { signer, style: MicalgStyle::Dashed })
}

pub(crate) fn envelope(cipher: ContentCipher) -> Option<Envelope> {
    let recipient = Arc::clone(&BOB.own.certificate);
    Some(Envelope { recipient, cipher, transport: KeyTransport::Pkcs1 })
}

pub(crate) struct Sent {
    pub(crate) headers: Headers,
    pub(crate) body: Vec<u8>,
    pub(crate) mic: SentMic,
}

fn field(name: &str, value: &str) -> Field {
    Field { name: name.to_owned(), value: value.to_owned() }
}

pub(crate) fn send(plan: &SendPlan, payload: &[u8]) -> Sent {
    let random = random();
    let measured = plan.measure(&random).unwrap().map(|mut measure| {
        payload.chunks(700).for_each(|piece| measure.push(piece).unwrap());
        measure.finish().unwrap()
    });
    let mut outgoing = plan.start(&random, measured).unwrap();
    let mut fields = vec![field("Content-Type", outgoing.content_type())];
    if let Some(disposition) = outgoing.content_disposition() {
        fields.push(field("Content-Disposition", disposition));
    }
    let length = outgoing.content_length();
    let mut body = outgoing.head().unwrap();
    for piece in payload.chunks(999) {
        body.extend(outgoing.push(piece).unwrap());
    }
    let finish = outgoing.finish().unwrap();
    body.extend(finish.last);
    assert_eq!(body.len() as u64, length, "{fields:?}");
    Sent { headers: Headers::new(fields), body, mic: finish.sent }
}

pub(crate) struct Got {
    pub(crate) payload: Vec<u8>,
    pub(crate) result: Result<Received, ReceiveError>,
}

pub(crate) fn receive(
    headers: &Headers,
    body: &[u8],
    piece: usize,
    options: ReceiveOptions,
) -> Got {
    let mut receiver = Receiver::new(headers, options);
    let mut payload = Vec::new();
    let mut most = 0;
    for piece in body.chunks(piece) {
        receiver.receive(piece);
        while let Some(output) = receiver.output() {
            most = most.max(output.len());
            payload.extend(output);
        }
    }
    receiver.end();
    while let Some(output) = receiver.output() {
        most = most.max(output.len());
        payload.extend(output);
    }
    assert!(most <= limits::OUTPUT_BYTES + 1040 * limits::INFLATE_STEP, "{most}");
    Got { payload, result: receiver.outcome() }
}

fn payload(bytes: usize) -> Vec<u8> {
    // Lines that look like boundaries, bare line ends, and blank lines at the end.
    let line = b"ISA*00*  --boundary\r\n--boundary-0123\r\nUNH+1\n\n--\r\n";
    let mut payload: Vec<u8> = line.iter().copied().cycle().take(bytes).collect();
    payload.extend_from_slice(b"\r\n\r\n");
    payload
}

#[test]
fn every_combination_arrives_as_it_was_sent_with_the_same_mic() {
    use Compression::{AfterSigning, BeforeSigning, None as Plain};
    let payload = payload(5000);
    for compression in [Plain, BeforeSigning, AfterSigning] {
        for signs in [None, signing(DigestAlgorithm::Sha256)] {
            for seals in [None, envelope(ContentCipher::Aes128Cbc)] {
                let plan = SendPlan {
                    compression,
                    signing: signs.clone(),
                    envelope: seals.clone(),
                    ..plan(&payload)
                };
                let sent = send(&plan, &payload);
                for piece in [1, 17, 1000, 1 << 20] {
                    let got = receive(&sent.headers, &sent.body, piece, options());
                    let received = got.result.unwrap();
                    assert_eq!(got.payload, payload);
                    assert_eq!(received.payload_bytes, payload.len() as u64);
                    assert_eq!(received.signature.is_some(), signs.is_some());
                    assert_eq!(received.cipher.is_some(), seals.is_some());
                    assert_eq!(received.compressed, compression != Plain);
                    let mic = received.mic(DigestAlgorithm::Sha256).unwrap();
                    assert_eq!(mic, sent.mic.mic, "{compression:?}");
                    assert!(sent.mic.is_matched_by(&mic));
                    assert_eq!(received.payload.file_name().as_deref(), Some("an order.edi"));
                }
            }
        }
    }
}

#[test]
fn every_cipher_digest_and_signature_arrives_from_der_and_from_ber() {
    use ContentCipher::*;
    let payload = payload(3000);
    let ciphers = [Aes128Cbc, Aes192Cbc, Aes256Cbc, Aes128Gcm, Aes192Gcm, Aes256Gcm, TripleDesCbc];
    for (number, cipher) in ciphers.into_iter().enumerate() {
        let digest = DigestAlgorithm::ALL[number % 4];
        let party: &Party = if number % 3 == 2 { &CURVE } else { &ALICE };
        let padding = if number % 2 == 0 { RsaPadding::Pkcs1 } else { RsaPadding::Pss };
        let mut sealing = envelope(cipher).unwrap();
        if number % 2 == 1 {
            sealing.transport =
                KeyTransport::Oaep { digest: DigestAlgorithm::Sha256, mask: digest };
        }
        let signer = party.signer(digest, padding);
        let style = MicalgStyle::Plain;
        let plan = SendPlan {
            signing: Some(Signing { signer, style }),
            envelope: Some(sealing),
            ..plan(&payload)
        };
        let sent = send(&plan, &payload);
        for body in [&sent.body, &indefinite(&sent.body)] {
            for piece in [3, 4096] {
                let got = receive(&sent.headers, body, piece, options());
                let received = got.result.unwrap();
                assert_eq!(got.payload, payload);
                assert_eq!(received.cipher, Some(cipher));
                let signature = received.signature.as_ref().unwrap();
                assert_eq!(signature.mic.algorithm, digest);
                assert!(Arc::ptr_eq(&signature.certificate, &party.own.certificate));
                assert_eq!(received.mic(DigestAlgorithm::Sha1), Some(sent.mic.mic.clone()));
            }
        }
    }
}

#[test]
fn gcm_within_enveloped_data_is_read_and_its_tag_is_checked() {
    let payload = payload(3000);
    let plan = SendPlan { envelope: envelope(ContentCipher::Aes256Gcm), ..plan(&payload) };
    let sent = send(&plan, &payload);
    // What BouncyCastle makes: the tag joins the content, and the type is EnvelopedData.
    let mut body = gcm_within(&sent.body);
    for piece in [1, 50, 10_000] {
        let got = receive(&sent.headers, &body, piece, options());
        assert_eq!(got.payload, payload);
        assert_eq!(got.result.unwrap().mic(DigestAlgorithm::Sha256), Some(sent.mic.mic.clone()));
    }
    *body.last_mut().unwrap() ^= 1;
    let got = receive(&sent.headers, &body, 100, options());
    assert_eq!(got.result.unwrap_err(), ReceiveError::Decryption);
}

/// Rewrites AuthEnvelopedData as EnvelopedData with the tag behind the content.
fn gcm_within(body: &[u8]) -> Vec<u8> {
    use entrepot_crypto::der::{self, Reader};
    let mut info = Reader::new(body).tagged(der::SEQUENCE).unwrap().values();
    info.tagged(der::OID).unwrap();
    let mut data = info.read().unwrap().values().read().unwrap().values();
    let (version, recipients) = (data.read().unwrap(), data.read().unwrap());
    let mut inner = data.read().unwrap().values();
    let tag = data.read().unwrap();
    let (oid, algorithm, content) =
        (inner.read().unwrap(), inner.read().unwrap(), inner.read().unwrap());
    let joined = [content.content, tag.content].concat();
    let inner =
        der::write_all(der::SEQUENCE, &[oid.raw, algorithm.raw, &der::write(content.tag, &joined)]);
    let data = der::write_all(der::SEQUENCE, &[version.raw, recipients.raw, &inner]);
    let kind = der::write(der::OID, crate::oid::ENVELOPED_DATA);
    der::write_all(der::SEQUENCE, &[&kind, &der::write(der::context(0), &data)])
}

#[test]
fn outer_base64_and_odd_headers_are_read() {
    use base64::Engine as _;
    let payload = payload(2000);
    let plan = SendPlan {
        signing: signing(DigestAlgorithm::Sha256),
        envelope: envelope(ContentCipher::Aes128Cbc),
        ..plan(&payload)
    };
    let sent = send(&plan, &payload);
    let digits = base64::engine::general_purpose::STANDARD.encode(&sent.body);
    let lines: Vec<String> = digits
        .as_bytes()
        .chunks(64)
        .map(|line| String::from_utf8_lossy(line).into_owned())
        .collect();
    let text = lines.join("\r\n") + "\r\n";
    let kinds = [
        "application/pkcs7-mime; smime-type=enveloped-data",
        "Application/X-PKCS7-Mime ;NAME = smime.p7m",
        "application/pkcs7-mime",
    ];
    for kind in kinds {
        let headers = Headers::new(vec![
            field("content-type", kind),
            field("CONTENT-TRANSFER-ENCODING", "Base64"),
        ]);
        // The field may say base64 of a body that is DER.
        for body in [text.as_bytes(), &sent.body[..]] {
            let got = receive(&headers, body, 61, options());
            assert_eq!(
                got.result.unwrap().mic(DigestAlgorithm::Sha256),
                Some(sent.mic.mic.clone())
            );
            assert_eq!(got.payload, payload);
        }
    }
}

/// A signed message as text, of parts whose bytes a test chooses.
fn signed_by_hand(entity: &str, to_sign: &str, parameters: &str) -> Sent {
    let signer = ALICE.signer(DigestAlgorithm::Sha256, RsaPadding::Pkcs1);
    let digest = DigestAlgorithm::Sha256.hash().hash(to_sign.as_bytes());
    let signature = signer.sign(&digest).unwrap();
    let close = crate::mdn::signature_part(&signature, "b");
    let body = format!("preamble\r\n--b\r\n{entity}{close}epilogue");
    let headers = Headers::new(vec![field(
        "Content-Type",
        &format!("multipart/signed; boundary=b{parameters}"),
    )]);
    let mic = Mic { algorithm: DigestAlgorithm::Sha256, digest };
    Sent { headers, body: body.into_bytes(), mic: SentMic { mic, uncompressed: None } }
}

#[test]
fn signed_bytes_are_those_that_came_whatever_the_header_looks_like() {
    let table = [
        // Folded, with tabs, odd case, no transfer encoding; micalg missing, wrong and unknown.
        ("content-TYPE:\r\n\ttext/plain\r\n\r\nbody\r\n\r\n", "body\r\n\r\n", ""),
        ("\r\nno header", "no header", "; micalg=sha1"),
        ("Content-Type: a/b\r\n\r\n", "", "; micalg=md5"),
        (
            "Content-Type: a/b\r\nContent-Transfer-Encoding: base64\r\n\r\naGVsbG8=\r\n",
            "hello",
            "; micalg=\"SHA-256\"",
        ),
        (
            "Content-Type: a/b\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\na=3Db",
            "a=b",
            "; micalg=sha-256",
        ),
        // The parts of a payload of several are delivered as they are.
        (
            "Content-Type: multipart/related; boundary=c\r\n\r\n--c\r\n\r\none\r\n--c--\r\n",
            "--c\r\n\r\none\r\n--c--\r\n",
            "",
        ),
    ];
    for (entity, expected, parameters) in table {
        let sent = signed_by_hand(entity, entity, parameters);
        for piece in [1, 13, 4096] {
            let got = receive(&sent.headers, &sent.body, piece, options());
            let received = got.result.unwrap();
            assert_eq!(String::from_utf8(got.payload).unwrap(), expected);
            assert_eq!(received.mic(DigestAlgorithm::Sha1), Some(sent.mic.mic.clone()));
            assert_eq!(received.signature.unwrap().line_ends, LineEnds::AsReceived);
        }
    }
}

/// What is too weak in any case is not computed, and the answer is the same.
#[test]
fn a_digest_that_is_not_taken_is_too_weak_or_unknown() {
    let entity = "Content-Type: a/b\r\n\r\ncontent";
    let mut changed = signed_by_hand(entity, entity, "; micalg=sha1");
    let sent = signed_by_hand(entity, entity, "; micalg=sha1");
    let at = changed.body.windows(7).position(|bytes| bytes == b"content").unwrap();
    changed.body[at] ^= 1;
    let strong = vec![DigestAlgorithm::Sha512];
    let least = |digest| LeastSecurity {
        encryption: Protection::Optional,
        digest,
        ..LeastSecurity::default()
    };
    for (other_digests, digest, sent, wanted) in [
        (strong.clone(), DigestAlgorithm::Sha512, &sent, Disposition::InsufficientMessageSecurity),
        (strong, DigestAlgorithm::Sha256, &sent, Disposition::IntegrityCheckFailed),
        (
            options().other_digests,
            DigestAlgorithm::Sha256,
            &changed,
            Disposition::IntegrityCheckFailed,
        ),
    ] {
        let mut receiver =
            Receiver::new(&sent.headers, ReceiveOptions { other_digests, ..options() });
        receiver.receive(&sent.body);
        receiver.end();
        while receiver.output().is_some() {}
        assert_eq!(receiver.outcome_under(&least(digest)).err(), Some(wanted));
    }
}

#[test]
fn text_may_be_signed_with_other_line_ends_and_binary_content_may_not() {
    let canonical = "Content-Type: text/plain\r\n\r\none\r\ntwo\r\n";
    let sent = signed_by_hand(&canonical.replace('\r', ""), canonical, "; micalg=sha-256");
    let got = receive(&sent.headers, &sent.body, 7, options());
    let received = got.result.unwrap();
    assert_eq!(received.signature.as_ref().unwrap().line_ends, LineEnds::Canonical);
    assert_eq!(received.mic(DigestAlgorithm::Sha256), Some(sent.mic.mic));

    let head = "Content-Type: a/b\r\nContent-Transfer-Encoding: binary\r\n\r\n";
    let sent = signed_by_hand(&format!("{head}one\n"), &format!("{head}one\r\n"), "");
    let got = receive(&sent.headers, &sent.body, 7, options());
    assert_eq!(got.result.unwrap_err(), ReceiveError::Integrity);
}

#[test]
fn the_mic_of_what_is_not_signed_counts_header_or_body_by_its_form() {
    let payload = b"content".to_vec();
    let of = |bytes: &[u8]| DigestAlgorithm::Sha256.hash().hash(bytes);
    // Plain: the body without any header.
    let sent = send(&plan(&payload), &payload);
    assert_eq!(sent.body, payload);
    assert_eq!(sent.mic.mic.digest, of(&payload));
    // Encrypted: the entity with its header.
    let sealed = SendPlan { envelope: envelope(ContentCipher::Aes128Cbc), ..plan(&payload) };
    let sent = send(&sealed, &payload);
    let entity = b"Content-Type: application/edi-x12\r\nContent-Transfer-Encoding: binary\r\n\
                   Content-Disposition: attachment; filename=\"an order.edi\"\r\n\r\ncontent";
    assert_eq!(sent.mic.mic.digest, of(entity));
    // Compressed and then signed: of the compressed entity, or of the one before.
    let compressed = SendPlan {
        compression: Compression::BeforeSigning,
        signing: signing(DigestAlgorithm::Sha256),
        ..plan(&payload)
    };
    let sent = send(&compressed, &payload);
    assert_ne!(sent.mic.mic.digest, of(entity));
    assert_eq!(sent.mic.uncompressed.as_ref().unwrap().digest, of(entity));
    assert!(sent.mic.is_matched_by(&sent.mic.uncompressed.clone().unwrap()));
    // Signed and then compressed: of the inner signed entity.
    let compressed = SendPlan { compression: Compression::AfterSigning, ..compressed };
    let sent = send(&compressed, &payload);
    assert_eq!(sent.mic.mic.digest, of(entity));
    assert_eq!(sent.mic.uncompressed, None);
}

#[test]
fn a_file_that_changes_while_it_is_sent_is_no_message() {
    let payload = b"content".to_vec();
    let plan = plan(&payload);
    let mut outgoing = plan.start(&random(), None).unwrap();
    outgoing.head().unwrap();
    outgoing.push(b"short").unwrap();
    assert_eq!(outgoing.finish().unwrap_err(), SendError::Changed);
    let mut outgoing = plan.start(&random(), None).unwrap();
    assert_eq!(outgoing.push(b"longer than said").unwrap_err(), SendError::Changed);
    let injected = SendPlan { file_name: Some("a\r\nb".to_owned()), ..plan };
    assert_eq!(injected.start(&random(), None).err(), Some(SendError::Header));
}

#[test]
fn file_names_beyond_ascii_arrive() {
    let payload = b"x".to_vec();
    let plan = SendPlan { file_name: Some("Bestellung ü 7.edi".to_owned()), ..plan(&payload) };
    let sent = send(&plan, &payload);
    let got = receive(&sent.headers, &sent.body, 9, options());
    assert_eq!(got.result.unwrap().payload.file_name().as_deref(), Some("Bestellung ü 7.edi"));
}

#[test]
fn what_comes_from_a_large_message_never_waits_in_memory() {
    // `receive` holds that no output is larger than a step makes it.
    let payload = vec![0u8; 24 << 20];
    let plan = SendPlan {
        compression: Compression::BeforeSigning,
        signing: signing(DigestAlgorithm::Sha256),
        envelope: envelope(ContentCipher::Aes128Cbc),
        ..plan(&payload)
    };
    let sent = send(&plan, &payload);
    assert!(sent.body.len() < payload.len() / 100);
    let got = receive(&sent.headers, &sent.body, 64 * 1024, options());
    assert_eq!(got.payload.len(), payload.len());
    assert_eq!(got.result.unwrap().mic(DigestAlgorithm::Sha256), Some(sent.mic.mic));
}

#[test]
fn a_message_may_be_handed_over_whole() {
    // It waits in the stage while the caller takes what came of it, 256 KiB at a time.
    let payload = vec![b'x'; 24 << 20];
    let sent =
        send(&SendPlan { signing: signing(DigestAlgorithm::Sha256), ..plan(&payload) }, &payload);
    let got = receive(&sent.headers, &sent.body, sent.body.len(), options());
    assert!(got.payload == payload);
    assert_eq!(got.result.unwrap().mic(DigestAlgorithm::Sha256), Some(sent.mic.mic));
}
