//! Messages that the `openssl` command makes are received, and those that are made here are read
//! by it.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use entrepot_as2_proto::*;
use entrepot_crypto::cipher::ContentSecrets;
use entrepot_crypto::x509::pem_blocks;
use entrepot_crypto::{Certificate, PrivateKey};
use zeroize::Zeroizing;

struct Keys {
    folder: tempfile::TempDir,
}

impl Keys {
    fn new() -> Keys {
        let keys = Keys { folder: tempfile::tempdir().unwrap() };
        for name in ["alice", "bob"] {
            keys.openssl(&format!(
                "req -x509 -newkey rsa:2048 -nodes -keyout {name}.key -subj /CN={name} -days 30 \
                 -out {name}.pem"
            ));
        }
        keys
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn openssl(&self, arguments: &str) {
        let output = Command::new("openssl")
            .args(arguments.split_whitespace())
            .current_dir(self.path())
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{arguments}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path().join(name)).unwrap()
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.path().join(name), bytes).unwrap();
    }

    fn own(&self, name: &str) -> OwnKey {
        let text = String::from_utf8(self.read(&format!("{name}.pem"))).unwrap();
        let certificate = Certificate::all_from_pem(&text).unwrap().remove(0);
        let text = String::from_utf8(self.read(&format!("{name}.key"))).unwrap();
        let key = PrivateKey::from_pkcs8(&pem_blocks(&text, "PRIVATE KEY")[0]).unwrap();
        OwnKey { certificate: Arc::new(certificate), key: Arc::new(key) }
    }
}

fn field(name: &str, value: &str) -> Field {
    Field { name: name.to_owned(), value: value.to_owned() }
}

/// Bob receives from Alice.
fn receive(keys: &Keys, headers: &Headers, body: &[u8]) -> (Vec<u8>, Received) {
    receive_by(keys, vec![keys.own("bob")], headers, body)
}

fn receive_by(
    keys: &Keys,
    own: Vec<OwnKey>,
    headers: &Headers,
    body: &[u8],
) -> (Vec<u8>, Received) {
    let (payload, outcome) = outcome_by(keys, own, headers, body);
    (payload, outcome.unwrap())
}

fn outcome_by(
    keys: &Keys,
    own: Vec<OwnKey>,
    headers: &Headers,
    body: &[u8],
) -> (Vec<u8>, Result<Received, ReceiveError>) {
    let options = ReceiveOptions {
        keys: own,
        trusted: vec![keys.own("alice").certificate],
        substitute_key: Zeroizing::new([1; 32]),
        mic_algorithms: vec![DigestAlgorithm::Sha256],
        other_digests: vec![DigestAlgorithm::Sha1, DigestAlgorithm::Sha256],
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
    (payload, receiver.outcome())
}

/// Header and body of an entity that a command wrote.
fn split(entity: &[u8]) -> (Headers, Vec<u8>) {
    let text = String::from_utf8_lossy(entity);
    let at = text.find("\n\n").map(|at| at + 2).or(text.find("\r\n\r\n").map(|at| at + 4));
    let (head, body) = entity.split_at(at.unwrap());
    (Headers::parse(head).unwrap(), body.to_vec())
}

const ENTITY: &[u8] = b"Content-Type: application/edifact\r\n\r\nUNA:+.? '\r\nUNB+...\r\n";
const PAYLOAD: &[u8] = b"UNA:+.? '\r\nUNB+...\r\n";

#[test]
fn messages_of_openssl_are_received() {
    let keys = Keys::new();
    keys.write("entity", ENTITY);
    let signatures = [
        "-md sha256",
        "-md sha1",
        "-md sha512 -noattr",
        "-md sha384 -keyid",
        "-md sha256 -nocerts",
        "-md sha256 -keyopt rsa_padding_mode:pss",
        "-md sha512 -keyopt rsa_padding_mode:pss -keyopt rsa_pss_saltlen:20",
    ];
    let envelopes = [
        "-aes128 -outform DER",
        "-aes-192-cbc -outform DER",
        "-aes256 -outform DER -keyid",
        "-des3 -outform DER",
        "-aes-128-gcm -outform DER",
        "-aes-256-gcm -outform DER",
        "-aes128 -outform DER -stream -indef",
    ];
    let transports = [
        "",
        "-keyopt rsa_padding_mode:oaep",
        "-keyopt rsa_padding_mode:oaep -keyopt rsa_oaep_md:sha256",
    ];
    for (number, signature) in signatures.iter().enumerate() {
        keys.openssl(&format!(
            "cms -sign -binary -in entity -signer alice.pem -inkey alice.key {signature} \
             -out signed"
        ));
        let (headers, body) = split(&keys.read("signed"));
        let (payload, received) = receive(&keys, &headers, &body);
        assert_eq!(payload, PAYLOAD, "{signature}");
        let digest = received.signature.as_ref().unwrap().mic.algorithm;
        let expected = Mic { algorithm: digest, digest: digest.hash().hash(ENTITY) };
        assert_eq!(received.mic(DigestAlgorithm::Sha256), Some(expected), "{signature}");
        is_proven_later(&keys, &received);

        let envelope = envelopes[number];
        let transport = transports[number % 3];
        // Alice's certificate stands first: a message may have several recipients.
        keys.openssl(&format!(
            "cms -encrypt -binary -in signed {envelope} -out sealed -recip alice.pem {transport} \
             -recip bob.pem {transport}"
        ));
        let headers = Headers::new(vec![field("Content-Type", "application/pkcs7-mime")]);
        let (payload, received) = receive(&keys, &headers, &keys.read("sealed"));
        assert_eq!(payload, PAYLOAD, "{envelope} {transport}");
        assert!(received.cipher.is_some() && received.signature.is_some());
    }
}

/// What is kept of a signature says the same again, here and to openssl, and of nothing else.
fn is_proven_later(keys: &Keys, received: &Received) {
    let kept = received.signature_evidence().unwrap();
    assert_eq!(kept.head.as_deref(), Some("Content-Type: application/edifact\r\n\r\n"));
    assert!(kept.detached.len() < 2_500, "{}", kept.detached.len());
    let verified = received.signature.clone().unwrap();
    let alice = [keys.own("alice").certificate];
    let again = |mic: Mic| VerifiedSignature::check_again(&kept.detached, mic, &alice);
    assert_eq!(again(verified.mic.clone()).unwrap().detached, kept.detached);
    let brought = VerifiedSignature::certificates(&kept.detached);
    assert_eq!(brought[0].der(), alice[0].der());
    let mut other = verified.mic;
    other.digest[0] ^= 1;
    assert_eq!(again(other).unwrap_err(), SignatureError::Content);
    keys.write("kept", &kept.detached);
    keys.openssl("cms -verify -binary -inform DER -in kept -content entity -noverify -out same");
    assert_eq!(keys.read("same"), ENTITY);
}

fn send(keys: &Keys, plan: &SendPlan) -> (Vec<u8>, Vec<u8>) {
    let random = SendRandom {
        boundary: "boundary-abcdefghijklmnopqrstuvwxyz".to_owned(),
        secrets: ContentSecrets { key: Zeroizing::new([0x5a; 32]), iv: [0xa5; 16] },
    };
    let mut outgoing = plan.start(&random, None).unwrap();
    let head = format!("Content-Type: {}\r\n\r\n", outgoing.content_type());
    let mut body = outgoing.head().unwrap();
    body.extend(outgoing.push(PAYLOAD).unwrap());
    body.extend(outgoing.finish().unwrap().last);
    keys.write("body", &body);
    keys.write("message", &[head.as_bytes(), &body].concat());
    (head.into_bytes(), body)
}

#[test]
fn openssl_reads_what_is_made_here() {
    let keys = Keys::new();
    let alice = keys.own("alice");
    let bob = keys.own("bob");
    for (number, digest) in DigestAlgorithm::ALL.into_iter().enumerate() {
        let padding = if number % 2 == 0 { RsaPadding::Pkcs1 } else { RsaPadding::Pss };
        let OwnKey { certificate, key } = alice.clone();
        let signer = Signer { certificate, key, digest, padding, time: 1_769_903_999 };
        let mut plan = SendPlan {
            content_type: "application/edifact".to_owned(),
            file_name: None,
            payload_bytes: PAYLOAD.len() as u64,
            compression: Compression::None,
            signing: Some(Signing { signer, style: MicalgStyle::Dashed }),
            envelope: None,
            mic_algorithm: digest,
        };
        send(&keys, &plan);
        keys.openssl("cms -verify -in message -CAfile alice.pem -out verified -purpose any");
        assert!(keys.read("verified").ends_with(PAYLOAD), "{digest:?}");

        let cipher = [
            ContentCipher::Aes128Cbc,
            ContentCipher::Aes256Cbc,
            ContentCipher::Aes256Gcm,
            ContentCipher::TripleDesCbc,
        ][number];
        let transport = match number {
            0 | 1 => KeyTransport::Pkcs1,
            _ => KeyTransport::Oaep { digest, mask: digest },
        };
        let recipient = Arc::clone(&bob.certificate);
        plan.envelope = Some(Envelope { recipient, cipher, transport });
        send(&keys, &plan);
        keys.openssl(
            "cms -decrypt -binary -inform DER -in body -recip bob.pem -inkey bob.key -out opened",
        );
        let (headers, body) = split(&keys.read("opened"));
        let (payload, _) = receive(&keys, &headers, &body);
        assert_eq!(payload, PAYLOAD);
    }
}

#[test]
fn content_keys_for_elliptic_curves_are_agreed() {
    let keys = Keys::new();
    keys.write("entity", ENTITY);
    keys.openssl(
        "cms -sign -binary -in entity -signer alice.pem -inkey alice.key -md sha256 -out signed",
    );
    for curve in ["P-256", "P-384", "P-521"] {
        keys.openssl(&format!(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:{curve} -nodes -keyout curve.key \
             -subj /CN=curve -days 30 -out curve.pem"
        ));
        for how in [
            "-aes128 -recip bob.pem -recip curve.pem",
            "-aes256 -recip curve.pem -keyopt ecdh_kdf_md:sha256",
            "-aes128 -keyid -recip curve.pem -keyopt ecdh_kdf_md:sha384",
            "-aes-256-gcm -recip curve.pem -keyopt ecdh_kdf_md:sha512",
            "-aes128 -recip curve.pem -keyopt ecdh_cofactor_mode:1",
        ] {
            keys.openssl(&format!(
                "cms -encrypt -binary -in signed -outform DER -out sealed {how}"
            ));
            let headers = Headers::new(vec![field("Content-Type", "application/pkcs7-mime")]);
            let own = vec![keys.own("curve")];
            let (payload, received) = receive_by(&keys, own, &headers, &keys.read("sealed"));
            assert_eq!(payload, PAYLOAD, "{curve} {how}");
            assert!(received.cipher.is_some() && received.signature.is_some());
        }
        // A change has one name but where it is in what is signed, or in the signature; and so has
        // a key of the right name that is another.
        let sealed = keys.read("sealed");
        let headers = Headers::new(vec![field("Content-Type", "application/pkcs7-mime")]);
        for at in (0..sealed.len()).step_by(13) {
            let mut changed = sealed.clone();
            changed[at] ^= 4;
            let outcome = outcome_by(&keys, vec![keys.own("curve")], &headers, &changed).1;
            if let Err(error) = outcome {
                use ReceiveError::{Authentication, Decryption, Integrity};
                assert!([Decryption, Authentication, Integrity].contains(&error), "{error}");
            }
        }
        let other = OwnKey { key: keys.own("bob").key, ..keys.own("curve") };
        let outcome = outcome_by(&keys, vec![other], &headers, &sealed).1;
        assert_eq!(outcome.err(), Some(ReceiveError::Decryption));
    }
}
