//! Evidence of messages of both directions: it holds as it is, and each part of it that is changed
//! is named.

use std::sync::{Arc, LazyLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use entrepot_as2_proto::{
    As2Name, DigestAlgorithm, Disposition, Mic, MicalgStyle, Receipt as As2Mdn, RsaPadding, Signer,
    signed,
};
use entrepot_crypto::x509::pem_blocks;
use entrepot_crypto::{Certificate, PrivateKey};
use entrepot_db::As2Filter;
use entrepot_journal::Scope;
use entrepot_nouns::event::{
    As2Message, As2Receipt, As2Refusal, As2Rejection, As2Signature, As2Tls, FileFact,
};
use entrepot_nouns::transfer::hex;
use entrepot_nouns::{Digests, Fact, Protocol, SiteId};
use entrepot_testbed::name;
use serde_json::Value;

use super::As2Bundle;
use crate::tests::Bed;

type Pair = (Arc<Certificate>, Arc<PrivateKey>);

fn pair() -> Pair {
    let keys = rcgen::KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256).unwrap();
    let parameters = rcgen::CertificateParams::new(vec!["as2.example".to_owned()]).unwrap();
    let pem = parameters.self_signed(&keys).unwrap().pem();
    let certificate = Certificate::all_from_pem(&pem).unwrap().remove(0);
    let key = pem_blocks(&keys.serialize_pem(), "PRIVATE KEY").remove(0);
    (Arc::new(certificate), Arc::new(PrivateKey::from_pkcs8(&key).unwrap()))
}

/// Of the two sides. To make keys of RSA takes long.
static PAIRS: LazyLock<[Pair; 2]> = LazyLock::new(|| [pair(), pair()]);

fn mic(of: &[u8]) -> Mic {
    let algorithm = DigestAlgorithm::Sha256;
    Mic { algorithm, digest: algorithm.hash().hash(of) }
}

const ENTITY: &[u8] = b"Content-Type: application/edi-x12\r\n\r\norder";

fn signer((certificate, key): &Pair) -> Signer {
    Signer {
        certificate: certificate.clone(),
        key: key.clone(),
        digest: DigestAlgorithm::Sha256,
        padding: RsaPadding::Pkcs1,
        time: 1_769_903_999,
    }
}

/// A signature over an entity, with its certificate.
fn signature_of(entity: &[u8], pair: &Pair) -> Vec<u8> {
    signer(pair).sign(&mic(entity).digest).unwrap()
}

/// A message that a partner has signed, as it is recorded when it comes.
fn signed_message(cms: &[u8], ours: &Pair, theirs: &Pair) -> As2Message {
    let head = "Content-Type: application/edi-x12\r\n\r\n".to_owned();
    As2Message {
        mic: Some(mic(ENTITY).text(MicalgStyle::Dashed)),
        signed_by: Some(hex(&theirs.0.fingerprint())),
        signature: Some(Box::new(As2Signature { cms: STANDARD.encode(cms), head: Some(head) })),
        ..message(receipt(Disposition::Processed, ENTITY, ours))
    }
}

/// A signed receipt.
fn receipt(disposition: Disposition, of: &[u8], pair: &Pair) -> As2Receipt {
    let recipient = As2Name::new("ACME").unwrap();
    let mdn = As2Mdn {
        recipient: &recipient,
        original_message_id: "<1@globex>",
        disposition,
        mic: Some(&mic(of)),
        style: MicalgStyle::Dashed,
        reporting_ua: "a test",
    };
    let document = mdn.document("inner-0123456789abcdef");
    let document =
        signed(&document, &signer(pair), MicalgStyle::Dashed, "outer-9876543210").unwrap();
    As2Receipt {
        message_id: "<r@acme>".to_owned(),
        content_type: document.content_type,
        body: STANDARD.encode(document.body),
        url: None,
        head: Some("content-type: multipart/signed\r\n".to_owned()),
        certificate: Some(STANDARD.encode(pair.0.der())),
    }
}

fn message(receipt: As2Receipt) -> As2Message {
    As2Message {
        partner: name("globex"),
        from: "GLOBEX".to_owned(),
        to: "ACME".to_owned(),
        message_id: "<1@globex>".to_owned(),
        subject: Some("orders".to_owned()),
        content_type: "application/edi-x12".to_owned(),
        mic: Some(mic(b"order").text(MicalgStyle::Dashed)),
        signed_by: None,
        signature: None,
        cipher: Some("aes-128-cbc".to_owned()),
        compressed: false,
        head: Some("as2-from: GLOBEX\r\nas2-to: ACME\r\n".to_owned()),
        tls: Some(As2Tls {
            version: "TLS 1.3".to_owned(),
            suite: "TLS13_AES_128_GCM_SHA256".to_owned(),
            certificate: None,
        }),
        receipt: Some(Box::new(receipt)),
    }
}

fn file(bed: &Bed, message: As2Message) -> FileFact {
    FileFact {
        transfer: bed.bed.env.new_id(),
        path: "/in/order.x12".to_owned(),
        size: 5,
        digests: Digests { blake3: Some([7; 32]), sha256: Some([8; 32]) },
        protocol: Protocol::Https,
        started_at: bed.bed.env.now(),
        identity: None,
        displaced: None,
        temporary: false,
        as2: Some(Box::new(message)),
    }
}

/// The evidence of what these facts tell of, the newest first.
async fn bundles(bed: &Bed, facts: Vec<Fact>) -> Vec<As2Bundle> {
    for fact in facts {
        bed.recorder.record_durable(&Scope::site(SiteId::MAIN), fact).await.unwrap();
    }
    bed.project().await;
    let heads = bed.sign().await;
    let mut bundles = Vec::new();
    for entry in bed.bed.db.as2_log(SiteId::MAIN, &As2Filter::default()).await.unwrap() {
        let bundle = heads.as2_evidence(SiteId::MAIN, &entry).await.unwrap();
        let text = serde_json::to_string_pretty(&bundle).unwrap();
        assert_eq!(As2Bundle::parse(&text).unwrap(), bundle);
        bundles.push(bundle);
    }
    bundles
}

/// The parts of which something does not hold.
fn failing(bundle: &As2Bundle) -> Vec<&'static str> {
    bundle.check(None).into_iter().filter(|check| !check.holds).map(|check| check.part).collect()
}

/// Every place of a document that holds a text or a number.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| places(value, &format!("{at}/{name}"), found));
        }
        Value::Array(items) => {
            let items = items.iter().enumerate();
            items.for_each(|(index, value)| places(value, &format!("{at}/{index}"), found));
        }
        Value::Null | Value::Bool(_) => {}
        Value::String(_) | Value::Number(_) => found.push(at.to_owned()),
    }
}

/// Another value of the same kind.
fn changed(value: &Value) -> Value {
    match value {
        Value::Number(number) => (number.as_u64().unwrap() + 1).into(),
        Value::String(text) => {
            let middle = text.len() / 2;
            let mut bytes = text.clone().into_bytes();
            bytes[middle] = if bytes[middle] == b'A' { b'B' } else { b'A' };
            String::from_utf8(bytes).unwrap().into()
        }
        other => panic!("{other}"),
    }
}

/// The part that a place of a bundle belongs to.
fn part(place: &str) -> &str {
    let mut words = place.split('/').skip(1);
    match words.next() {
        Some("parts") => words.next().unwrap(),
        Some(word) => word,
        None => "",
    }
}

#[tokio::test]
async fn evidence_holds_and_what_was_changed_in_it_is_named() {
    let bed = Bed::start().await;
    let [ours, theirs] = &*PAIRS;
    let uploaded = signed_message(&signature_of(ENTITY, theirs), ours, theirs);
    let delivered = message(receipt(Disposition::Processed, b"order", theirs));
    let facts = vec![
        Fact::FileUploaded { file: file(&bed, uploaded) },
        Fact::FileDelivered {
            file: file(&bed, delivered),
            endpoint: name("globex"),
            rule: name("orders"),
        },
    ];
    let bundles = bundles(&bed, facts).await;
    assert_eq!(bundles.len(), 2);
    for bundle in &bundles {
        assert_eq!(failing(bundle), [""; 0], "{:#?}", bundle.check(None));
        let document = serde_json::to_value(bundle).unwrap();
        let mut all = Vec::new();
        places(&document, "", &mut all);
        assert!(all.len() > 40, "{all:?}");
        for place in all {
            let mut other = document.clone();
            let value = other.pointer_mut(&place).unwrap();
            *value = changed(value);
            // What is no bundle any more is refused as such.
            let Ok(other) = As2Bundle::parse(&other.to_string()) else { continue };
            let failing = failing(&other);
            assert!(failing.contains(&part(&place)), "{place}: {failing:?}");
        }
    }
    // By another key than the one that was given nothing of it is proven.
    let stranger = entrepot_crypto::NoteSigner::new("x", &entrepot_nouns::Secret::new([9; 32]));
    let stranger = stranger.unwrap().verifier().clone();
    let checks = bundles[0].check(Some(&stranger));
    assert!(checks.iter().any(|check| check.part == "record" && !check.holds), "{checks:?}");
    let own = bundles[0].record.key.parse().unwrap();
    assert!(bundles[0].check(Some(&own)).iter().all(|check| check.holds));
    assert_eq!(
        bundles[0].signer(),
        bundles[0].certificates.first().map(|it| it.fingerprint.clone())
    );
}

#[tokio::test]
async fn what_was_refused_or_rejected_has_its_evidence_too() {
    let bed = Bed::start().await;
    let [ours, theirs] = &*PAIRS;
    let refusal = As2Refusal {
        partner: Some(name("globex")),
        from: "GLOBEX".to_owned(),
        to: "ACME".to_owned(),
        message_id: Some("<1@globex>".to_owned()),
        disposition: "processed/error: decryption-failed".to_owned(),
        address: "192.0.2.1".to_owned(),
        head: Some("as2-from: GLOBEX\r\n".to_owned()),
        tls: None,
        receipt: Some(Box::new(receipt(Disposition::DecryptionFailed, b"", ours))),
    };
    let rejected = |disposition: Disposition, of: &[u8]| As2Rejection {
        transfer: bed.bed.env.new_id(),
        path: "order.x12".to_owned(),
        size: 5,
        disposition: disposition.text().to_owned(),
        message: Box::new(message(receipt(disposition, of, theirs))),
        rule: name("orders"),
    };
    let facts = vec![
        Fact::As2Refused { refusal },
        Fact::As2Rejected { rejection: rejected(Disposition::IntegrityCheckFailed, b"order") },
        Fact::As2Rejected { rejection: rejected(Disposition::Processed, b"other bytes") },
    ];
    let bundles = bundles(&bed, facts).await;
    assert_eq!(bundles.len(), 3);
    for bundle in &bundles {
        assert_eq!(failing(bundle), [""; 0], "{:#?}", bundle.check(None));
    }
    // A receipt that says the opposite does not go with it.
    let mut other = bundles[2].clone();
    other.parts.receipt = Some(receipt(Disposition::Processed, b"", ours));
    assert!(failing(&other).contains(&"receipt"));
}

#[tokio::test]
async fn the_signature_of_a_message_proves_itself() {
    let bed = Bed::start().await;
    let [ours, theirs] = &*PAIRS;
    let right = signature_of(ENTITY, theirs);
    let flipped = |at: usize| {
        let mut cms = right.clone();
        cms[at] ^= 1;
        signed_message(&cms, ours, theirs)
    };
    let digest = mic(ENTITY).digest;
    let in_attributes = right.windows(digest.len()).position(|part| part == digest).unwrap();
    let in_certificate = right.windows(8).position(|part| part == &theirs.0.der()[300..308]);
    let whole = || signed_message(&right, ours, theirs);
    let by_us = hex(&ours.0.fingerprint());
    let unsigned = As2Message { signed_by: None, signature: None, ..whole() };
    let signature: &[&str] = &["signature"];
    let certificates: &[&str] = &["signature", "certificates"];
    // What the node recorded, word by word: nothing but the signature can tell.
    let cases: [(&str, As2Message, &[&str]); 11] = [
        ("as it came", whole(), &[]),
        ("its end", flipped(right.len() - 1), signature),
        ("its beginning", flipped(right.len() - 256), signature),
        ("its digest", flipped(in_attributes), signature),
        ("its attributes", flipped(in_attributes - 20), signature),
        // Then the certificate is not the one that is recorded, and the right one is not known.
        ("its certificate", flipped(in_certificate.unwrap() + 4), certificates),
        ("another signer", As2Message { signed_by: Some(by_us), ..whole() }, certificates),
        (
            "a signature of ours",
            signed_message(&signature_of(ENTITY, ours), ours, theirs),
            signature,
        ),
        (
            "other content",
            signed_message(&signature_of(b"Another: one", theirs), ours, theirs),
            signature,
        ),
        ("unsigned", unsigned, &[]),
        ("before signatures were kept", As2Message { signature: None, ..whole() }, &[]),
    ];
    let facts = cases.iter().map(|(_, message, _)| {
        let file = file(&bed, message.clone());
        Fact::FileUploaded { file }
    });
    let facts = facts.collect();
    let mut bundles = bundles(&bed, facts).await;
    bundles.reverse();
    for ((what, message, expected), bundle) in cases.iter().zip(&bundles) {
        let checks = bundle.check(None);
        assert_eq!(failing(bundle), *expected, "{what}: {checks:#?}");
        assert_eq!(bundle.parts.signature.as_ref(), message.signature.as_deref(), "{what}");
    }
}

#[tokio::test]
async fn evidence_says_whether_the_signature_of_the_message_is_there() {
    let bed = Bed::start().await;
    let [ours, theirs] = &*PAIRS;
    let whole = || signed_message(&signature_of(ENTITY, theirs), ours, theirs);
    let messages = [
        whole(),
        As2Message { signed_by: None, signature: None, ..whole() },
        As2Message { signature: None, ..whole() },
    ];
    let facts = messages.map(|message| Fact::FileUploaded { file: file(&bed, message) });
    let bundles = bundles(&bed, facts.into()).await;
    let [old, unsigned, whole] = &bundles[..] else { panic!("not three") };
    let said = |bundle: &As2Bundle, what: &str| {
        bundle.check(None).iter().any(|it| it.part == "signature" && it.found.contains(what))
    };
    assert!(said(whole, "signed the content with the recorded MIC"));
    assert!(said(unsigned, "the message was not signed"));
    assert!(said(old, "before signatures were kept"));
    for bundle in [old, unsigned] {
        assert!(!said(bundle, "recorded MIC") && bundle.signed_file().is_none());
        // A bundle that was written before has no such field.
        let document = serde_json::to_value(bundle).unwrap();
        assert!(document["parts"].get("signature").is_none());
        assert_eq!(failing(bundle), [""; 0]);
    }
    // Who takes it out of a bundle is found out by the record.
    let mut without = whole.clone();
    without.parts.signature = None;
    assert_eq!(failing(&without), ["signature"]);
    let signed = whole.signed_file().unwrap();
    assert_eq!(mic(&[signed.head.as_bytes(), b"order"].concat()), signed.mic);
}
