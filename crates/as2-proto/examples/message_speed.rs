//! CPU time of receiving and of sending a message, beside that of the bare primitives over as many
//! bytes: `cargo run --release -p entrepot-as2-proto --example message_speed -- [MiB] [rounds]`.
//!
//! Receiving is all from the first byte of the body to a signed receipt; sending all from the
//! payload to the last byte of the body. The primitives are the digest, the cipher and the
//! operations of RSA, called on whole buffers that are there already.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use entrepot_as2_proto::*;
use entrepot_crypto::cipher::{ContentSecrets, Decryptor, Encryptor};
use entrepot_crypto::{Certificate, PrivateKey, SignatureScheme};
use zeroize::Zeroizing;

/// Bytes of a body that are handed over at a time.
const PIECE: usize = 64 * 1024;

struct Case {
    name: &'static str,
    cipher: ContentCipher,
    digest: DigestAlgorithm,
}

const CASES: [Case; 3] = [
    Case {
        name: "AES-128-CBC, SHA-256",
        cipher: ContentCipher::Aes128Cbc,
        digest: DigestAlgorithm::Sha256,
    },
    Case {
        name: "3DES-CBC, SHA-1",
        cipher: ContentCipher::TripleDesCbc,
        digest: DigestAlgorithm::Sha1,
    },
    Case {
        name: "AES-256-GCM, SHA-256",
        cipher: ContentCipher::Aes256Gcm,
        digest: DigestAlgorithm::Sha256,
    },
];

/// Nanoseconds of CPU that this thread has had.
fn cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn timed<T>(run: impl FnOnce() -> T) -> (u64, T) {
    let begun = cpu_ns();
    let result = std::hint::black_box(run());
    (cpu_ns() - begun, result)
}

fn party() -> OwnKey {
    let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256).expect("a key");
    let parameters = rcgen::CertificateParams::new(vec!["as2.example".to_owned()]).expect("a name");
    let certificate = parameters.self_signed(&pair).expect("a certificate");
    let key = PrivateKey::from_pkcs8(&pair.serialize_der()).expect("a key");
    let certificate = Certificate::from_der(certificate.der()).expect("a certificate");
    OwnKey { certificate: Arc::new(certificate), key: Arc::new(key) }
}

fn signer(own: &OwnKey, digest: DigestAlgorithm) -> Signer {
    let OwnKey { certificate, key } = own.clone();
    Signer { certificate, key, digest, padding: RsaPadding::Pkcs1, time: 1_769_903_999 }
}

fn secrets() -> ContentSecrets {
    let key = Zeroizing::new(std::array::from_fn(|at| at as u8 * 7 + 1));
    ContentSecrets { key, iv: [0xa5; 16] }
}

struct Bench<'a> {
    case: &'a Case,
    alice: &'a OwnKey,
    bob: &'a OwnKey,
    payload: &'a [u8],
}

impl Bench<'_> {
    fn send(&self) -> (Headers, Vec<u8>) {
        let signer = signer(self.alice, self.case.digest);
        let recipient = Arc::clone(&self.bob.certificate);
        let plan = SendPlan {
            content_type: "application/edi-x12".to_owned(),
            file_name: Some("order.edi".to_owned()),
            payload_bytes: self.payload.len() as u64,
            compression: Compression::None,
            signing: Some(Signing { signer, style: MicalgStyle::Dashed }),
            envelope: Some(Envelope {
                recipient,
                cipher: self.case.cipher,
                transport: KeyTransport::Pkcs1,
            }),
            mic_algorithm: self.case.digest,
        };
        let boundary = "boundary-0123456789abcdefghijklmn".to_owned();
        let random = SendRandom { boundary, secrets: secrets() };
        let mut outgoing = plan.start(&random, None).expect("starts");
        let name = "Content-Type".to_owned();
        let headers = vec![Field { name, value: outgoing.content_type().to_owned() }];
        let mut body = Vec::with_capacity(outgoing.content_length() as usize);
        body.extend(outgoing.head().expect("a head"));
        for piece in self.payload.chunks(PIECE) {
            body.extend(outgoing.push(piece).expect("pushes"));
        }
        body.extend(outgoing.finish().expect("finishes").last);
        (Headers::new(headers), body)
    }

    fn send_primitives(&self, output: &mut Vec<u8>) {
        let Case { cipher, digest, .. } = *self.case;
        let found = digest.hash().hash(self.payload);
        let attributes = digest.hash().hash(&found);
        let scheme = SignatureScheme::RsaPkcs1;
        self.alice.key.sign(scheme, digest, &attributes).expect("signs");
        let secrets = secrets();
        let key = secrets.key_of(cipher);
        self.bob.certificate.key.encrypt_key(KeyTransport::Pkcs1, key).expect("encrypts");
        let mut encryptor = Encryptor::new(cipher, &secrets).expect("a key");
        output.clear();
        encryptor.update(self.payload, output).expect("encrypts");
        encryptor.finish(output).expect("ends");
    }

    fn receive(&self, headers: &Headers, body: &[u8]) {
        let options = ReceiveOptions {
            keys: vec![self.bob.clone()],
            trusted: vec![Arc::clone(&self.alice.certificate)],
            substitute_key: Zeroizing::new([0x77; 32]),
            mic_algorithms: vec![DigestAlgorithm::Sha256],
            other_digests: Vec::new(),
            max_payload_bytes: 1 << 40,
            max_inflate_ratio: 200,
        };
        let mut receiver = Receiver::new(headers, options);
        let mut bytes = 0;
        for piece in body.chunks(PIECE) {
            receiver.receive(piece);
            while let Some(output) = receiver.output() {
                bytes += std::hint::black_box(output).len();
            }
        }
        receiver.end();
        while let Some(output) = receiver.output() {
            bytes += std::hint::black_box(output).len();
        }
        assert_eq!(bytes, self.payload.len());
        let received = receiver.outcome().expect("arrives");
        let mic = received.mic(self.case.digest);
        let name = As2Name::new("Bob").expect("a name");
        let receipt = Receipt {
            recipient: &name,
            original_message_id: "<1@alice.example>",
            disposition: Disposition::Processed,
            mic: mic.as_ref(),
            style: MicalgStyle::Dashed,
            reporting_ua: "Entrepot",
        };
        let document = receipt.document("report-0123456789abcdefghijklmn");
        let signer = signer(self.bob, self.case.digest);
        signed(&document, &signer, MicalgStyle::Dashed, "signed-0123456789abc").expect("signs");
    }

    /// The encrypted content, a content key and a signature as they are in a message.
    fn parts(&self) -> Parts {
        let Case { cipher, digest, .. } = *self.case;
        let mut sealed = Vec::new();
        let mut encryptor = Encryptor::new(cipher, &secrets()).expect("a key");
        encryptor.update(self.payload, &mut sealed).expect("encrypts");
        let tag = encryptor.finish(&mut sealed).expect("ends");
        let key = secrets();
        let key = self.bob.certificate.key.encrypt_key(KeyTransport::Pkcs1, key.key_of(cipher));
        let found = digest.hash().hash(self.payload);
        let signature = self.alice.key.sign(SignatureScheme::RsaPkcs1, digest, &found);
        Parts {
            sealed,
            tag: tag.map_or(Vec::new(), |tag| tag.to_vec()),
            key: key.expect("encrypts"),
            signature: signature.expect("signs"),
        }
    }

    fn receive_primitives(&self, parts: &Parts, output: &mut Vec<u8>) {
        let Case { cipher, digest, .. } = *self.case;
        let substitute = [1; 32];
        let substitute = &substitute[..cipher.key_bytes()];
        let key = self.bob.key.decrypt_key(KeyTransport::Pkcs1, &parts.key, substitute);
        let secrets = secrets();
        let mut decryptor = Decryptor::new(cipher, &key, secrets.iv_of(cipher)).expect("a key");
        output.clear();
        decryptor.update(&parts.sealed, output).expect("decrypts");
        decryptor.finish(&parts.tag, output).expect("is whole");
        let found = digest.hash().hash(output);
        let scheme = SignatureScheme::RsaPkcs1;
        let key = &self.alice.certificate.key;
        assert!(key.verifies(scheme, digest, &found, &parts.signature));
        self.bob.key.sign(scheme, digest, &found).expect("signs");
    }
}

struct Parts {
    sealed: Vec<u8>,
    tag: Vec<u8>,
    key: Vec<u8>,
    signature: Vec<u8>,
}

/// Base64 in lines, as partners send it whose mail libraries do.
fn in_lines(body: &[u8]) -> Vec<u8> {
    let digits = STANDARD.encode(body);
    let mut text = Vec::with_capacity(digits.len() + digits.len() / 38 + 2);
    for line in digits.as_bytes().chunks(76) {
        text.extend_from_slice(line);
        text.extend_from_slice(b"\r\n");
    }
    text
}

fn median(mut times: Vec<u64>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2] as f64 / 1e6
}

fn main() {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse().expect("a number"));
    let (mib, rounds) = (numbers.next().unwrap_or(1usize), numbers.next().unwrap_or(101usize));
    let payload: Vec<u8> = (0..mib << 20).map(|at| ((at * at) >> 7) as u8).collect();
    let (alice, bob) = (party(), party());
    println!("{mib} MiB, medians of {rounds}, CPU ms a message");
    for case in &CASES {
        let bench = Bench { case, alice: &alice, bob: &bob, payload: &payload };
        let (headers, body) = bench.send();
        let parts = bench.parts();
        let mut output = Vec::with_capacity(payload.len() + 64);
        let mut times: [Vec<u64>; 4] = Default::default();
        for _ in 0..rounds {
            times[0].push(timed(|| bench.receive(&headers, &body)).0);
            times[1].push(timed(|| bench.receive_primitives(&parts, &mut output)).0);
            times[2].push(timed(|| bench.send()).0);
            times[3].push(timed(|| bench.send_primitives(&mut output)).0);
        }
        let text = in_lines(&body);
        let encoded = (0..rounds).map(|_| timed(|| bench.receive(&headers, &text)).0).collect();
        let [receive, receive_bare, send, send_bare] = times.map(median);
        println!(
            "{}: receive {receive:.2}, primitives {receive_bare:.2}, ratio {:.2}, \
             as base64 {:.2}; send {send:.2}, primitives {send_bare:.2}, ratio {:.2}",
            case.name,
            receive_bare / receive,
            median(encoded),
            send_bare / send
        );
    }
}
