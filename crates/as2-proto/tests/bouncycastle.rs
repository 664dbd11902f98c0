//! Messages both ways with BouncyCastle, which OpenAS2, as2-lib and Camel stand on: indefinite
//! lengths, content in pieces, GCM inside of EnvelopedData, a header that says base64 of what is
//! none. It comes from the packages that `scripts/need test` installs.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use entrepot_as2_proto::*;
use entrepot_crypto::cipher::ContentSecrets;
use entrepot_crypto::{Certificate, PrivateKey};
use zeroize::Zeroizing;

/// Longer than a few pieces, with every byte, bare line ends and what looks like a boundary.
fn payload() -> Vec<u8> {
    let every: Vec<u8> = (0..=255u8).cycle().take(10_000).collect();
    [b"ISA*00*~\r\n", &every[..], b"\n------=_Part_7_\r\n\r\n"].concat()
}

struct Identity {
    own: OwnKey,
    key_der: Vec<u8>,
}

fn identity(name: &str, algorithm: &'static rcgen::SignatureAlgorithm) -> Identity {
    let pair = rcgen::KeyPair::generate_for(algorithm).unwrap();
    let mut parameters = rcgen::CertificateParams::new(Vec::new()).unwrap();
    parameters.distinguished_name.push(rcgen::DnType::CommonName, name);
    // So that the certificate has an identifier of its key.
    parameters.is_ca = rcgen::IsCa::ExplicitNoCa;
    let certificate = parameters.self_signed(&pair).unwrap();
    let key_der = pair.serialize_der();
    let key = Arc::new(PrivateKey::from_pkcs8(&key_der).unwrap());
    let certificate = Arc::new(Certificate::from_der(certificate.der()).unwrap());
    Identity { own: OwnKey { certificate, key }, key_der }
}

fn run(folder: &Path) {
    let jar = |name: &str| {
        let path = format!("/usr/share/java/{name}.jar");
        assert!(Path::new(&path).exists(), "'{path}' is missing: run scripts/need test");
        path
    };
    let jars = ["bcprov", "bcutil", "bcpkix"].map(jar).join(":");
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/BouncyCastle.java");
    let arguments = ["-XX:TieredStopAtLevel=1", "-cp", &jars, program];
    let output = Command::new("java").args(arguments).arg(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The messages that are sent: a name and a plan for each.
fn plans(own: &OwnKey, partner: &Arc<Certificate>) -> Vec<(String, SendPlan)> {
    use ContentCipher::{Aes128Cbc, Aes128Gcm, Aes256Cbc, Aes256Gcm, TripleDesCbc};
    use DigestAlgorithm::{Sha1, Sha256};
    let plain = SendPlan {
        content_type: "application/edi-x12".to_owned(),
        file_name: Some("an order.edi".to_owned()),
        payload_bytes: payload().len() as u64,
        compression: Compression::None,
        signing: None,
        envelope: None,
        mic_algorithm: Sha256,
    };
    let mut plans = vec![("plain".to_owned(), plain.clone())];
    for digest in DigestAlgorithm::ALL {
        for padding in [RsaPadding::Pkcs1, RsaPadding::Pss] {
            let OwnKey { certificate, key } = own.clone();
            let signer = Signer { certificate, key, digest, padding, time: 1_769_903_999 };
            let signing = Some(Signing { signer, style: MicalgStyle::Dashed });
            plans.push((format!("{digest:?}-{padding:?}"), SendPlan { signing, ..plain.clone() }));
        }
    }
    let signing = plans[3].1.signing.clone();
    let oaep = |digest, mask| KeyTransport::Oaep { digest, mask };
    let ways = [
        (Aes128Cbc, KeyTransport::Pkcs1),
        (Aes256Cbc, oaep(Sha1, Sha1)),
        (TripleDesCbc, KeyTransport::Pkcs1),
        (Aes128Gcm, oaep(Sha256, Sha256)),
        (Aes256Gcm, oaep(Sha256, Sha1)),
    ];
    for compression in [Compression::None, Compression::BeforeSigning, Compression::AfterSigning] {
        for (cipher, transport) in ways {
            let recipient = Arc::clone(partner);
            let envelope = Some(Envelope { recipient, cipher, transport });
            let signing = signing.clone();
            let plan = SendPlan { compression, signing, envelope, ..plain.clone() };
            plans.push((format!("{compression:?}-{cipher:?}"), plan));
        }
    }
    plans
}

/// The header and the body of what is sent.
fn send(plan: &SendPlan, payload: &[u8]) -> Vec<u8> {
    let key = Zeroizing::new(std::array::from_fn(|at| at as u8 * 5 + 3));
    let random = SendRandom {
        boundary: "boundary-abcdefghijklmnopqrstuvwxyz".to_owned(),
        secrets: ContentSecrets { key, iv: [0xa5; 16] },
    };
    let measured = plan.measure(&random).unwrap().map(|mut measure| {
        measure.push(payload).unwrap();
        measure.finish().unwrap()
    });
    let mut outgoing = plan.start(&random, measured).unwrap();
    let head = format!("Content-Type: {}\r\n\r\n", outgoing.content_type());
    let mut message = head.into_bytes();
    message.extend(outgoing.head().unwrap());
    message.extend(outgoing.push(payload).unwrap());
    message.extend(outgoing.finish().unwrap().last);
    message
}

struct Got {
    payload: Vec<u8>,
    received: Received,
}

fn receive(keys: &[OwnKey], partner: &Arc<Certificate>, message: &[u8], piece: usize) -> Got {
    let end = message.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    let headers = Headers::parse(&message[..end]).unwrap();
    let options = ReceiveOptions {
        keys: keys.to_vec(),
        trusted: vec![Arc::clone(partner)],
        substitute_key: Zeroizing::new([1; 32]),
        mic_algorithms: vec![DigestAlgorithm::Sha256],
        other_digests: Vec::new(),
        max_payload_bytes: 1 << 20,
        max_inflate_ratio: 1000,
    };
    let mut receiver = Receiver::new(&headers, options);
    let mut payload = Vec::new();
    let mut take = |receiver: &mut Receiver| {
        while let Some(output) = receiver.output() {
            payload.extend(output);
        }
    };
    for piece in message[end..].chunks(piece) {
        receiver.receive(piece);
        take(&mut receiver);
    }
    receiver.end();
    take(&mut receiver);
    Got { payload, received: receiver.outcome().unwrap() }
}

#[test]
fn messages_go_both_ways() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let [rust, bouncy] = ["rust", "bouncy"].map(|name| identity(name, &rcgen::PKCS_RSA_SHA256));
    let curves = [
        ("P-256", identity("256", &rcgen::PKCS_ECDSA_P256_SHA256)),
        ("P-384", identity("384", &rcgen::PKCS_ECDSA_P384_SHA384)),
    ];
    let payload = payload();
    let write = |name: &str, bytes: &[u8]| std::fs::write(path.join(name), bytes).unwrap();
    write("payload", &payload);
    write("own.key", &bouncy.key_der);
    write("own.crt", bouncy.own.certificate.der());
    write("partner.crt", rust.own.certificate.der());
    for (curve, identity) in &curves {
        write(&format!("partner-{curve}.crt"), identity.own.certificate.der());
    }
    let keys: Vec<OwnKey> =
        [&rust].into_iter().chain(curves.iter().map(|it| &it.1)).map(|it| it.own.clone()).collect();
    let plans = plans(&rust.own, &bouncy.own.certificate);
    for (name, plan) in &plans {
        write(&format!("{name}.sent"), &send(plan, &payload));
    }
    run(path);
    for (name, _) in &plans {
        let read = std::fs::read(path.join(format!("{name}.read"))).unwrap();
        assert!(read == payload, "{name}");
    }
    let mut names = Vec::new();
    for entry in std::fs::read_dir(path).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let Some(name) = name.strip_suffix(".message") else { continue };
        let message = std::fs::read(entry.path()).unwrap();
        for piece in [7, 1000, 1 << 20] {
            let got = receive(&keys, &bouncy.own.certificate, &message, piece);
            assert!(got.payload == payload, "{name}");
            check(name, &got.received, &payload);
        }
        names.push(name.to_owned());
    }
    assert_eq!(names.len(), 28, "{names:?}");
}

/// Whether what was found fits the name of the message.
fn check(name: &str, received: &Received, payload: &[u8]) {
    use DigestAlgorithm::{Sha1, Sha256, Sha384, Sha512};
    assert_eq!(received.payload.file_name().as_deref(), Some("an order.edi"), "{name}");
    assert_eq!(received.compressed, name.contains("compressed"), "{name}");
    let encrypted = !name.starts_with("signed-") && !name.starts_with("compressed");
    assert_eq!(received.cipher.is_some(), encrypted || name.ends_with("-encrypted"), "{name}");
    let digest = match name {
        "compressed" => return,
        "signed-SHA1" | "compressed-signed-encrypted" => Sha1,
        "signed-SHA384" => Sha384,
        "signed-SHA512" => Sha512,
        _ => Sha256,
    };
    let mic = received.mic(Sha256).unwrap();
    assert_eq!(mic.algorithm, digest, "{name}");
    // But where it was compressed before, the signed entity is that of the payload.
    if !name.starts_with("compressed") {
        let head = "Content-Type: application/edi-x12\r\nContent-Transfer-Encoding: binary\r\n\
                    Content-Disposition: attachment;\r\n\tfilename=\"an order.edi\"\r\n\r\n";
        let entity = [head.as_bytes(), payload].concat();
        assert_eq!(mic.digest, digest.hash().hash(&entity), "{name}");
    }
}
