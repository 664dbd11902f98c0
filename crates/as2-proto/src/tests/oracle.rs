//! What a peer who changes encrypted bytes learns from the answers: never whether they end with
//! padding.

use super::*;

fn signed_plan(payload: &[u8]) -> SendPlan {
    SendPlan { signing: signing(DigestAlgorithm::Sha256), ..plan(payload) }
}

/// An entity of that type and content, encrypted as it is.
fn enveloped(kind: &str, content: &[u8], cipher: ContentCipher) -> Sent {
    let plan = SendPlan {
        content_type: kind.to_owned(),
        file_name: None,
        envelope: envelope(cipher),
        ..plan(content)
    };
    send(&plan, content)
}

fn kind_of(sent: &Sent) -> String {
    sent.headers.value("content-type").unwrap().to_owned()
}

fn error(sent: &Sent, options: ReceiveOptions) -> Option<ReceiveError> {
    receive(&sent.headers, &sent.body, 333, options).result.err()
}

/// The same with another last block, whose padding is wrong.
fn without_padding(sent: &Sent) -> Sent {
    let mut body = sent.body.clone();
    let at = body.len() - 17;
    body[at] ^= 0xf0;
    Sent { headers: sent.headers.clone(), body, mic: sent.mic.clone() }
}

fn nobody() -> ReceiveOptions {
    ReceiveOptions { trusted: Vec::new(), ..options() }
}

#[test]
fn blocks_behind_a_compressed_message_are_no_oracle() {
    let payload = payload(500);
    let compression = Compression::AfterSigning;
    let inner = send(&SendPlan { compression, ..signed_plan(&payload) }, &payload);
    let with = |behind: &[u8]| {
        let content = [&inner.body[..], behind].concat();
        enveloped(&kind_of(&inner), &content, ContentCipher::Aes128Cbc)
    };
    // As a partner sends it, and with a line end behind.
    for behind in [&b""[..], b"\r\n"] {
        assert_eq!(error(&with(behind), options()), None);
        assert_eq!(error(&with(behind), nobody()), Some(ReceiveError::Authentication));
    }
    // With blocks that somebody else put there, whoever is said to be the sender.
    for behind in [&b"0123456789abcdef"[..], &[0; 64]] {
        for sent in [with(behind), without_padding(&with(behind))] {
            assert_eq!(error(&sent, options()), Some(ReceiveError::Decryption));
            assert_eq!(error(&sent, nobody()), Some(ReceiveError::Decryption));
        }
    }
}

#[test]
fn what_ends_early_is_called_the_same_with_padding_and_without() {
    let payload = payload(5000);
    for compression in [Compression::BeforeSigning, Compression::AfterSigning] {
        let inner = send(&SendPlan { compression, ..signed_plan(&payload) }, &payload);
        for length in [10, 50, 100, inner.body.len() / 2, inner.body.len() - 10] {
            let cipher = ContentCipher::Aes256Cbc;
            let sent = enveloped(&kind_of(&inner), &inner.body[..length], cipher);
            for sent in [without_padding(&sent), sent] {
                assert_eq!(error(&sent, options()), Some(ReceiveError::Decryption), "{length}");
            }
        }
    }
}

#[test]
fn damaged_compression_is_told_behind_a_tag_and_not_behind_padding() {
    let payload = payload(5000);
    let compression = Compression::BeforeSigning;
    let inner = send(&SendPlan { compression, ..plan(&payload) }, &payload);
    let mut damaged = inner.body.clone();
    let middle = damaged.len() / 2;
    damaged[middle..middle + 8].fill(0xff);
    let table = [
        (ContentCipher::Aes128Cbc, ReceiveError::Decryption),
        (ContentCipher::TripleDesCbc, ReceiveError::Decryption),
        (ContentCipher::Aes128Gcm, ReceiveError::Decompression),
    ];
    for (cipher, expected) in table {
        let sent = enveloped(&kind_of(&inner), &damaged, cipher);
        assert_eq!(error(&sent, options()), Some(expected), "{cipher:?}");
    }
    // A wrong tag counts before all else.
    let mut sent = enveloped(&kind_of(&inner), &damaged, ContentCipher::Aes128Gcm);
    *sent.body.last_mut().unwrap() ^= 1;
    assert_eq!(error(&sent, options()), Some(ReceiveError::Decryption));
}

#[test]
fn a_payload_that_is_too_large_is_so_with_padding_and_without() {
    let payload = payload(200_000);
    let sent = send(
        &SendPlan { envelope: envelope(ContentCipher::Aes128Cbc), ..signed_plan(&payload) },
        &payload,
    );
    let small = || ReceiveOptions { max_payload_bytes: 1000, ..options() };
    for sent in [without_padding(&sent), sent] {
        assert_eq!(error(&sent, small()), Some(ReceiveError::TooLarge));
    }
}

fn under(sent: &Sent, least: &LeastSecurity) -> Result<Received, Disposition> {
    let mut receiver = Receiver::new(&sent.headers, options());
    for piece in sent.body.chunks(500) {
        receiver.receive(piece);
        while receiver.output().is_some() {}
    }
    receiver.end();
    while receiver.output().is_some() {}
    receiver.outcome_under(least)
}

#[test]
fn what_is_too_weak_is_so_with_padding_and_without() {
    let payload = payload(500);
    let strict = LeastSecurity::default();
    let insufficient = Some(Disposition::InsufficientMessageSecurity);
    let sealed =
        |plan: SendPlan, cipher| send(&SendPlan { envelope: envelope(cipher), ..plan }, &payload);
    let good = sealed(signed_plan(&payload), ContentCipher::Aes128Cbc);
    assert!(under(&good, &strict).is_ok());
    let bad = without_padding(&good);
    assert_eq!(under(&bad, &strict).err(), Some(Disposition::DecryptionFailed));
    // Not signed, by 3DES, and not encrypted.
    let unsigned = sealed(plan(&payload), ContentCipher::Aes128Cbc);
    let weak = sealed(signed_plan(&payload), ContentCipher::TripleDesCbc);
    let open = send(&signed_plan(&payload), &payload);
    let mut changed = weak.body.clone();
    let at = changed.len() - 9;
    changed[at] ^= 0xf0;
    let weak_without = Sent { headers: weak.headers.clone(), body: changed, mic: weak.mic.clone() };
    for sent in [&without_padding(&unsigned), &unsigned, &weak, &weak_without, &open] {
        assert_eq!(under(sent, &strict).err(), insufficient);
    }
    // Where that was agreed, an error has its own name.
    let lax = LeastSecurity {
        signature: Protection::Optional,
        encryption: Protection::Optional,
        triple_des: Legacy::Accepted,
        ..strict
    };
    for sent in [&unsigned, &weak, &open] {
        assert!(under(sent, &lax).is_ok());
    }
    for sent in [&without_padding(&unsigned), &weak_without] {
        assert_eq!(under(sent, &lax).err(), Some(Disposition::DecryptionFailed));
    }
    let sha1 = sealed(
        SendPlan { signing: signing(DigestAlgorithm::Sha1), ..plan(&payload) },
        ContentCipher::Aes128Cbc,
    );
    assert_eq!(under(&sha1, &strict).err(), insufficient);
}
