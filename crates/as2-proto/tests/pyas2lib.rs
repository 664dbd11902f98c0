//! Messages and receipts both ways with pyas2lib, a peer that others run: every combination of
//! protection, compression, cipher and digest that it has. It runs in the environment that
//! `scripts/need test` makes.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use entrepot_as2_proto::*;
use entrepot_crypto::cipher::ContentSecrets;
use entrepot_crypto::{Certificate, PrivateKey};
use zeroize::Zeroizing;

const X12: &[u8] = b"ISA*00*          *00*          *ZZ*PYTHON         *ZZ*RUST~\r\nIEA*1~\r\n";

/// What a payload is, and how its type is called.
struct Payload {
    kind: &'static str,
    bytes: Vec<u8>,
}

fn payload(number: usize) -> Payload {
    match number % 2 {
        0 => Payload { kind: "application/edi-x12", bytes: X12.to_vec() },
        // Every byte, bare CR and LF, and what looks like a boundary; no line end at its end.
        _ => {
            let every: Vec<u8> = (0..=255u8).cycle().take(10_000).collect();
            let bytes = [&every[..], b"\r\n--boundary\r\n\n\r\r", b"end"].concat();
            Payload { kind: "application/octet-stream", bytes }
        }
    }
}

/// A cipher and what pyas2lib calls it.
const CIPHERS: [(ContentCipher, &str); 3] = [
    (ContentCipher::Aes128Cbc, "aes_128_cbc"),
    (ContentCipher::Aes256Cbc, "aes_256_cbc"),
    (ContentCipher::TripleDesCbc, "tripledes_192_cbc"),
];

/// A digest and what pyas2lib calls it.
const DIGESTS: [(DigestAlgorithm, &str); 3] = [
    (DigestAlgorithm::Sha256, "sha256"),
    (DigestAlgorithm::Sha1, "sha1"),
    (DigestAlgorithm::Sha512, "sha512"),
];

/// A row of the matrix.
#[derive(Clone, Copy, Debug)]
struct Case {
    digest: Option<(DigestAlgorithm, &'static str)>,
    cipher: Option<(ContentCipher, &'static str)>,
    compression: Compression,
}

/// Every combination once: what is not signed has no digest, and is compressed in one way only.
fn matrix() -> Vec<Case> {
    let some = |list: [(DigestAlgorithm, &'static str); 3]| list.map(Some);
    let digests = [None].into_iter().chain(some(DIGESTS));
    let mut cases = Vec::new();
    for digest in digests {
        for cipher in [None].into_iter().chain(CIPHERS.map(Some)) {
            for compression in
                [Compression::None, Compression::BeforeSigning, Compression::AfterSigning]
            {
                if digest.is_some() || compression != Compression::AfterSigning {
                    cases.push(Case { digest, cipher, compression });
                }
            }
        }
    }
    assert_eq!(cases.len(), 2 + 3 * 2 + 3 * 3 + 3 * 3 * 3);
    cases
}

fn python() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target")),
        PathBuf::from,
    );
    let python = target.join("clients-venv/bin/python3");
    assert!(python.exists(), "'{}' is missing: run scripts/need test", python.display());
    python
}

/// pyas2lib, and what both know of each other.
struct Peer {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    own: OwnKey,
    partner: Arc<Certificate>,
    _folder: tempfile::TempDir,
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

struct Identity {
    own: OwnKey,
    certificate: String,
    key: String,
}

fn identity(name: &str) -> Identity {
    let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256).unwrap();
    let mut parameters = rcgen::CertificateParams::new(Vec::new()).unwrap();
    parameters.distinguished_name.push(rcgen::DnType::CommonName, name);
    let certificate = parameters.self_signed(&pair).unwrap();
    let key = PrivateKey::from_pkcs8(&pair.serialize_der()).unwrap();
    let own = Certificate::from_der(certificate.der()).unwrap();
    Identity {
        own: OwnKey { certificate: Arc::new(own), key: Arc::new(key) },
        certificate: certificate.pem(),
        key: pair.serialize_pem(),
    }
}

impl Peer {
    fn start() -> Peer {
        let folder = tempfile::tempdir().unwrap();
        let (rust, python_identity) = (identity("rust"), identity("python"));
        let Identity { own, certificate, key } = python_identity;
        std::fs::write(folder.path().join("python.pem"), format!("{certificate}{key}")).unwrap();
        std::fs::write(folder.path().join("rust.crt"), &rust.certificate).unwrap();
        let mut child = Command::new(python())
            .arg("-c")
            .arg(include_str!("pyas2lib_peer.py"))
            .arg(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Peer {
            orders: child.stdin.take().unwrap(),
            answers: BufReader::new(child.stdout.take().unwrap()),
            child,
            own: rust.own,
            partner: own.certificate,
            _folder: folder,
        }
    }

    /// One command and the words of its answer.
    fn ask<const WORDS: usize>(&mut self, command: &[&str]) -> [String; WORDS] {
        writeln!(self.orders, "{}", command.join(" ")).unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        let words: Vec<String> = answer.split_whitespace().map(str::to_owned).collect();
        words.try_into().unwrap_or_else(|words| panic!("{command:?}: {words:?}"))
    }

    fn signing(&self, digest: DigestAlgorithm) -> Signing {
        let OwnKey { certificate, key } = self.own.clone();
        let padding = RsaPadding::Pkcs1;
        let signer = Signer { certificate, key, digest, padding, time: 1_769_903_999 };
        Signing { signer, style: MicalgStyle::Plain }
    }
}

fn bytes(word: &str) -> Vec<u8> {
    if word == "-" { Vec::new() } else { STANDARD.decode(word).unwrap() }
}

fn text(word: &str) -> String {
    String::from_utf8(bytes(word)).unwrap()
}

fn field(name: &str, value: &str) -> Field {
    Field { name: name.to_owned(), value: value.to_owned() }
}

/// The header of HTTP and the body of a message.
fn split(message: &[u8]) -> (Headers, Vec<u8>) {
    let end = message.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    (Headers::parse(&message[..end]).unwrap(), message[end..].to_vec())
}

fn joined(fields: &[Field], body: &[u8]) -> Vec<u8> {
    let lines = fields.iter().map(|field| format!("{}: {}\r\n", field.name, field.value));
    let head: String = lines.collect();
    [head.as_bytes(), b"\r\n", body].concat()
}

fn receive(peer: &Peer, headers: &Headers, body: &[u8]) -> (Vec<u8>, Received) {
    let options = ReceiveOptions {
        keys: vec![peer.own.clone()],
        trusted: vec![Arc::clone(&peer.partner)],
        substitute_key: Zeroizing::new([1; 32]),
        mic_algorithms: DigestAlgorithm::ALL.to_vec(),
        other_digests: Vec::new(),
        max_payload_bytes: 1 << 20,
        max_inflate_ratio: 1000,
    };
    let mut receiver = Receiver::new(headers, options);
    let mut payload = Vec::new();
    for piece in body.chunks(1000) {
        receiver.receive(piece);
        while let Some(output) = receiver.output() {
            payload.extend(output);
        }
    }
    receiver.end();
    while let Some(output) = receiver.output() {
        payload.extend(output);
    }
    (payload, receiver.outcome().unwrap())
}

/// The receipt for what was received, as the fields of the message ask for it.
fn answer(peer: &Peer, headers: &Headers, received: &Received) -> Vec<u8> {
    let as2 = As2Headers::parse(headers).unwrap();
    let asked = as2.receipt.unwrap().options;
    assert!(!asked.unsupported_required);
    let digest = asked.digests.first().copied();
    let mic = received.mic(digest.unwrap_or(DigestAlgorithm::Sha256));
    let receipt = Receipt {
        recipient: &as2.to,
        original_message_id: as2.message_id.as_deref().unwrap(),
        disposition: Disposition::Processed,
        mic: mic.as_ref(),
        style: MicalgStyle::Plain,
        reporting_ua: "Entrepot",
    };
    let mut document = receipt.document("report-0123456789abcdefghij");
    if asked.signed {
        let signing = peer.signing(digest.unwrap());
        let boundary = "signed-0123456789abcdefghij";
        document = signed(&document, &signing.signer, MicalgStyle::Plain, boundary).unwrap();
    }
    let fields = [
        field("AS2-Version", "1.2"),
        field("AS2-From", &as2.to.field()),
        field("AS2-To", &as2.from.field()),
        field("Message-ID", "<receipt@rust.example>"),
        field("Content-Type", &document.content_type),
    ];
    joined(&fields, &document.body)
}

#[test]
fn what_pyas2lib_sends_is_received_and_our_receipts_are_taken() {
    let mut peer = Peer::start();
    // It cannot compress what is signed.
    let cases = matrix().into_iter().filter(|it| it.compression != Compression::AfterSigning);
    for (number, case) in cases.enumerate() {
        let payload = payload(number);
        let sign = case.digest.map_or("-", |digest| digest.1);
        let encrypt = case.cipher.map_or("-", |cipher| cipher.1);
        let compress = if case.compression == Compression::None { "-" } else { "yes" };
        for asked in ["unsigned", DIGESTS[number % 3].1] {
            let encoded = STANDARD.encode(&payload.bytes);
            let command = ["send", sign, encrypt, compress, asked, &encoded, payload.kind];
            let [message, their_mic, id] = peer.ask(&command);
            let (headers, body) = split(&bytes(&message));
            let (found, received) = receive(&peer, &headers, &body);
            assert_eq!(found, payload.bytes, "{case:?}");
            assert_eq!(received.cipher, case.cipher.map(|cipher| cipher.0));
            assert_eq!(received.compressed, compress == "yes");
            let signed_by = received.signature.as_ref().map(|it| it.mic.algorithm);
            assert_eq!(signed_by, case.digest.map(|digest| digest.0));
            if let Some(signature) = &received.signature {
                assert_eq!(STANDARD.encode(&signature.mic.digest), their_mic, "{case:?}");
                assert_eq!(signature.line_ends, LineEnds::AsReceived);
            }
            assert_eq!(received.payload.file_name().as_deref(), Some("an order.edi"));
            let receipt = STANDARD.encode(answer(&peer, &headers, &received));
            let [status, detail] = peer.ask(&["receipt", &id, &receipt]);
            assert_eq!((text(&status), text(&detail)), ("processed".into(), String::new()));
        }
    }
}

#[test]
fn pyas2lib_receives_what_is_sent_and_its_receipts_are_read() {
    let mut peer = Peer::start();
    for (number, case) in matrix().into_iter().enumerate() {
        let payload = payload(number);
        let plan = SendPlan {
            compression: case.compression,
            signing: case.digest.map(|digest| peer.signing(digest.0)),
            envelope: case.cipher.map(|cipher| Envelope {
                recipient: Arc::clone(&peer.partner),
                cipher: cipher.0,
                transport: KeyTransport::Pkcs1,
            }),
            ..plan(&payload)
        };
        for asked in [None, Some(DIGESTS[number % 3])] {
            let sent = send(&plan, &payload.bytes, asked);
            let sign = case.digest.map_or("-", |digest| digest.1);
            let encrypt = case.cipher.map_or("-", |cipher| cipher.1);
            let command = ["receive", sign, encrypt, &STANDARD.encode(&sent.message)];
            let [status, found, mic, receipt, error] = peer.ask(&command);
            let failed = format!("{case:?} {}", text(&error));
            assert_eq!(text(&status), "processed", "{failed}");
            assert_eq!(bytes(&found), payload.bytes, "{failed}");
            let (headers, body) = split(&bytes(&receipt));
            assert!(asked.is_some() || may_be_receipt(&headers));
            let trusted = [Arc::clone(&peer.partner)];
            let read = read_receipt(&headers, &body, &trusted).unwrap();
            assert_eq!(read.outcome, Outcome::Processed, "{failed}");
            assert_eq!(read.original_message_id.as_deref(), Some("<1@rust.example>"));
            assert_eq!(read.signature.map(|it| it.mic.algorithm), asked.map(|asked| asked.0));
            // It computes none of what is not signed.
            assert_eq!(read.mic.is_some(), case.digest.is_some());
            if let Some(found) = read.mic {
                assert_eq!(STANDARD.encode(&found.digest), mic);
                assert!(sent.mic.is_matched_by(&found), "{failed}");
            }
        }
    }
}

#[test]
fn signatures_of_pss_are_read_both_ways() {
    let mut peer = Peer::start();
    let payload = payload(0);
    for (digest, name) in DIGESTS {
        let encoded = STANDARD.encode(&payload.bytes);
        let sign = format!("{name}+pss");
        let [message, mic, _] =
            peer.ask(&["send", &sign, "-", "-", "unsigned", &encoded, payload.kind]);
        let (headers, body) = split(&bytes(&message));
        let (_, received) = receive(&peer, &headers, &body);
        let signature = received.signature.unwrap();
        assert!(format!("{:?}", signature.scheme).starts_with("RsaPss"), "{name}");
        assert_eq!(STANDARD.encode(&signature.mic.digest), mic);

        let mut signing = peer.signing(digest);
        signing.signer.padding = RsaPadding::Pss;
        let plan = SendPlan { signing: Some(signing), ..plan(&payload) };
        let sent = send(&plan, &payload.bytes, None);
        let message = STANDARD.encode(&sent.message);
        let [status, found, _, _, error] = peer.ask(&["receive", name, "-", &message]);
        assert_eq!(text(&status), "processed", "{name} {}", text(&error));
        assert_eq!(bytes(&found), payload.bytes);
    }
}

#[test]
fn errors_are_told_both_ways() {
    let mut peer = Peer::start();
    let payload = payload(0);
    let signing = Some(peer.signing(DigestAlgorithm::Sha256));
    let sent = send(&SendPlan { signing, ..plan(&payload) }, &payload.bytes, None);
    let changed = sent.message.windows(3).position(|three| three == b"ISA").unwrap();
    let mut message = sent.message;
    message[changed] ^= 1;
    let command = ["receive", "sha256", "-", &STANDARD.encode(&message)];
    let [status, found, _, receipt, _] = peer.ask(&command);
    assert_eq!((text(&status), bytes(&found)), ("processed/Error".into(), Vec::new()));
    let (headers, body) = split(&bytes(&receipt));
    let read = read_receipt(&headers, &body, &[]).unwrap();
    // It does not tell a wrong digest from a wrong signer.
    assert_eq!(read.outcome, Outcome::Error("authentication-failed".to_owned()));

    let encoded = STANDARD.encode(&payload.bytes);
    let [_, _, id] = peer.ask(&["send", "sha256", "-", "-", "unsigned", &encoded, payload.kind]);
    for disposition in Disposition::all().filter(|it| *it != Disposition::Processed) {
        let name = As2Name::new("Rust Company").unwrap();
        let receipt = Receipt {
            recipient: &name,
            original_message_id: &format!("<{}>", text(&id)),
            disposition,
            mic: None,
            style: MicalgStyle::Plain,
            reporting_ua: "Entrepot",
        };
        let document = receipt.document("report-0123456789abcdefghij");
        let fields = [field("Content-Type", &document.content_type)];
        let whole = STANDARD.encode(joined(&fields, &document.body));
        let [status, detail] = peer.ask(&["receipt", &id, &whole]);
        let (expected, reason) = disposition.text().split_once(": ").unwrap();
        assert_eq!((text(&status), text(&detail)), (expected.into(), reason.into()));
    }
}

/// A message that is neither signed nor encrypted.
fn plan(payload: &Payload) -> SendPlan {
    SendPlan {
        content_type: payload.kind.to_owned(),
        file_name: Some("an order.edi".to_owned()),
        payload_bytes: payload.bytes.len() as u64,
        compression: Compression::None,
        signing: None,
        envelope: None,
        mic_algorithm: DigestAlgorithm::Sha256,
    }
}

struct Sent {
    message: Vec<u8>,
    mic: SentMic,
}

fn send(plan: &SendPlan, payload: &[u8], asked: Option<(DigestAlgorithm, &str)>) -> Sent {
    let random = SendRandom {
        boundary: "boundary-abcdefghijklmnopqrstuvwxyz".to_owned(),
        secrets: ContentSecrets {
            key: Zeroizing::new(std::array::from_fn(|at| at as u8 * 5 + 3)),
            iv: [0xa5; 16],
        },
    };
    let measured = plan.measure(&random).unwrap().map(|mut measure| {
        measure.push(payload).unwrap();
        measure.finish().unwrap()
    });
    let mut outgoing = plan.start(&random, measured).unwrap();
    let mut fields = vec![
        field("AS2-Version", "1.2"),
        field("AS2-From", "\"Rust Company\""),
        field("AS2-To", "Python"),
        field("Message-ID", "<1@rust.example>"),
        field("Disposition-Notification-To", "edi@rust.example"),
        field("Content-Type", outgoing.content_type()),
        field("Content-Transfer-Encoding", "binary"),
    ];
    if let Some(disposition) = outgoing.content_disposition() {
        fields.push(field("Content-Disposition", disposition));
    }
    if let Some((_, name)) = asked {
        let options = format!(
            "signed-receipt-protocol=required, pkcs7-signature; \
             signed-receipt-micalg=required, {name}"
        );
        fields.push(field("Disposition-Notification-Options", &options));
    }
    let mut body = outgoing.head().unwrap();
    body.extend(outgoing.push(payload).unwrap());
    let finish = outgoing.finish().unwrap();
    body.extend(finish.last);
    Sent { message: joined(&fields, &body), mic: finish.sent }
}
