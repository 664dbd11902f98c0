//! Messages of AS2 as partners send them: what they are told, and what becomes of the file.

mod limits;
mod partner;

use entrepot_as2_proto::{
    Compression, ContentCipher, DigestAlgorithm, Disposition, MicalgStyle, OwnKey, Receipt,
    RsaPadding, Signer, read_receipt, signed,
};
use entrepot_db::{As2SentMessage, Projected, Projection};
use entrepot_nouns::endpoint::{
    As2Digest, As2Legacy, As2Login, As2Protection, As2ReceiptKind, As2Target,
};
use entrepot_nouns::event::As2Message;
use entrepot_nouns::{Account, Event, Fact, JobId, SiteId};
use entrepot_vfs::{Moment, RefusalClass};
use entrepot_world::name;

use super::client::{Answer, basic};
use super::fixture::Node;
use super::hooks;
use partner::{Message, Partner};

const PAYLOAD: &[u8] = b"ISA*00*          *00*          *ZZ*GLOBEX~\r\n";

/// What the receipt in an answer says.
fn outcome(partner: &Partner, answer: &Answer) -> String {
    assert_eq!(answer.status, 200, "{answer:?}");
    let trusted = [partner.station.certificate.clone()];
    let receipt = read_receipt(&partner::fields_of(answer), &answer.body, &trusted).unwrap();
    receipt.disposition.rsplit("; ").next().unwrap_or_default().to_owned()
}

/// The messages that files came by, in their order.
async fn received(node: &Node) -> Vec<As2Message> {
    let uploaded = |event: Event| match event.fact {
        Fact::FileUploaded { file } => file.as2.map(|message| *message),
        _ => None,
    };
    node.world.events().await.into_iter().filter_map(uploaded).collect()
}

/// Brings the journal into the database, as a projector does.
async fn project(node: &Node) {
    let events: Vec<(u64, Event)> = (1..).zip(node.world.events().await).collect();
    let (id, called) = (node.world.bed.journal.node_id(), name("n1"));
    let projected = node.world.bed.db.project(&Projection::of(id, &called, &events)).await;
    assert_eq!(projected.unwrap(), Projected::Kept);
}

/// The dispositions of messages that were refused.
async fn refused(node: &Node) -> Vec<String> {
    let refused = |event: Event| match event.fact {
        Fact::As2Refused { refusal } => Some(refusal.disposition),
        _ => None,
    };
    node.world.events().await.into_iter().filter_map(refused).collect()
}

#[tokio::test]
async fn a_signed_and_encrypted_message_becomes_a_file_and_a_signed_receipt() {
    let node = Node::start().await;
    let partner = Partner::agree(&node, |_| {}).await;
    let sent = partner.message("<1@globex>", PAYLOAD);
    let answer = sent.post(&node).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.field("as2-from"), "\"Acme Ltd\"");
    assert_eq!(answer.field("as2-to"), "GLOBEX");
    let trusted = [partner.station.certificate.clone()];
    let receipt = read_receipt(&partner::fields_of(&answer), &answer.body, &trusted).unwrap();
    assert!(receipt.signature.is_some(), "the receipt is not signed");
    assert_eq!(receipt.original_message_id.as_deref(), Some("<1@globex>"));
    assert_eq!(receipt.mic.as_ref(), Some(&sent.mic));
    assert_eq!(partner.file(&node, "/in/order.edi").await, PAYLOAD);
    let [message] = &received(&node).await[..] else { panic!("not one message") };
    assert_eq!(message.partner, name("globex"));
    assert_eq!((message.from.as_str(), message.to.as_str()), ("GLOBEX", "Acme Ltd"));
    assert_eq!(message.cipher.as_deref(), Some("aes-128-cbc"));
    assert!(message.signed_by.as_ref().is_some_and(|print| print.len() == 64));
    assert_eq!(message.subject.as_deref(), Some("orders"));
}

#[tokio::test]
async fn every_form_that_is_agreed_is_taken() {
    let node = Node::start().await;
    let partner = Partner::agree(&node, |target| {
        target.require.signature = As2Protection::Optional;
        target.require.encryption = As2Protection::Optional;
        target.require.digest = As2Digest::Sha1;
        target.require.triple_des = As2Legacy::Accepted;
    })
    .await;
    type Change = fn(&mut Message);
    let forms: [Change; 8] = [
        |message| message.plan.envelope = None,
        |message| message.plan.signing = None,
        |message| (message.plan.signing, message.plan.envelope) = (None, None),
        |message| message.plan.compression = Compression::BeforeSigning,
        |message| message.plan.compression = Compression::AfterSigning,
        |message| message.cipher(ContentCipher::TripleDesCbc),
        |message| message.cipher(ContentCipher::Aes256Gcm),
        |message| message.digest(DigestAlgorithm::Sha1),
    ];
    for (at, change) in forms.into_iter().enumerate() {
        let payload = vec![b'a' + at as u8; 300_000];
        let mut sent = partner.message(&format!("<{at}@globex>"), &payload);
        change(&mut sent);
        let answer = sent.post(&node).await;
        assert_eq!(outcome(&partner, &answer), "processed", "{at}");
        let name = if at == 0 { "order.edi".to_owned() } else { format!("order ({at}).edi") };
        assert_eq!(partner.file(&node, &format!("/in/{name}")).await, payload, "{at}");
    }
    let received = received(&node).await;
    // What was signed compressed is not the header and the file.
    let kept = received.iter().map(|it| it.signature.as_ref().map(|it| it.head.is_some()));
    let kept: Vec<Option<bool>> = kept.collect();
    let (whole, compressed, unsigned) = (Some(true), Some(false), None);
    let expected = [whole, unsigned, unsigned, compressed, compressed, whole, whole, whole];
    assert_eq!(kept, expected);
    let ciphers: Vec<_> = received.into_iter().map(|message| message.cipher).collect();
    assert_eq!(ciphers[5].as_deref(), Some("triple-des-cbc"));
    assert_eq!(ciphers[2], None);
}

#[tokio::test]
async fn a_message_that_is_not_as_agreed_leaves_nothing() {
    let node = Node::start().await;
    let partner = Partner::agree(&node, |_| {}).await;
    let stranger = Partner::stranger();
    type Change = Box<dyn Fn(&mut Message)>;
    let cases: Vec<(&str, Change)> = vec![
        ("processed/error: insufficient-message-security", Box::new(|it| it.plan.signing = None)),
        ("processed/error: insufficient-message-security", Box::new(|it| it.plan.envelope = None)),
        (
            "processed/error: insufficient-message-security",
            Box::new(|it| it.digest(DigestAlgorithm::Sha1)),
        ),
        (
            "processed/error: insufficient-message-security",
            Box::new(|it| it.cipher(ContentCipher::TripleDesCbc)),
        ),
        (
            "processed/error: authentication-failed",
            Box::new(move |it| it.signed_by(&stranger.globex)),
        ),
        ("processed/error: decryption-failed", Box::new(Message::encrypt_to_its_sender)),
        ("processed/error: integrity-check-failed", Box::new(|it| it.flip = Some(0.5))),
        ("processed/error: decryption-failed", Box::new(|it| it.cut = Some(0.9))),
        ("processed/error: invalid-message-id", Box::new(|it| it.id = "<a b>".to_owned())),
        (
            "failed/failure: unsupported MIC-algorithms",
            Box::new(|it| it.options = "signed-receipt-micalg=required, md5".to_owned()),
        ),
    ];
    let wanted: Vec<&str> = cases.iter().map(|case| case.0).collect();
    for (at, (disposition, change)) in cases.iter().enumerate() {
        let mut sent = partner.message(&format!("<{at}@globex>"), &[7; 200_000]);
        change(&mut sent);
        let answer = sent.post(&node).await;
        assert_eq!(outcome(&partner, &answer), *disposition, "{at}");
    }
    assert_eq!(refused(&node).await, wanted);
    assert_eq!(received(&node).await, []);
    assert_eq!(partner.names(&node).await, Vec::<String>::new());
    // None of them counts as received: the same ids may be sent again.
    let again = partner.message("<0@globex>", PAYLOAD).post(&node).await;
    assert_eq!(outcome(&partner, &again), "processed");
    // Who tries out messages is not told much in a minute, whatever is wrong with them.
    let mut sent = partner.message("<99@globex>", PAYLOAD);
    sent.plan.signing = None;
    let answer = sent.post(&node).await;
    assert_eq!((answer.status, answer.code().as_str()), (503, "EP1209"));
    assert_eq!(refused(&node).await.len(), wanted.len());
}

#[tokio::test]
async fn what_was_changed_inside_the_encryption_is_told_apart() {
    let node = Node::start().await;
    let partner = Partner::agree(&node, |target| {
        target.require.encryption = As2Protection::Optional;
    })
    .await;
    let mut sent = partner.message("<1@globex>", &[b'x'; 50_000]);
    sent.plan.envelope = None;
    sent.flip = Some(0.5);
    let answer = sent.post(&node).await;
    assert_eq!(outcome(&partner, &answer), "processed/error: integrity-check-failed");
    assert_eq!(partner.names(&node).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_message_that_comes_again_gets_the_same_receipt_and_no_second_file() {
    let node = Node::start().await;
    let partner = Partner::agree(&node, |_| {}).await;
    let sent = partner.message("<1@globex>", PAYLOAD);
    let first = sent.post(&node).await;
    let second = sent.post(&node).await;
    assert_eq!(first.body, second.body);
    assert_eq!(first.field("message-id"), second.field("message-id"));
    // Once it is projected the database alone knows.
    project(&node).await;
    let third = partner.message("<1@globex>", b"something else").post(&node).await;
    assert_eq!(first.body, third.body);
    assert_eq!(partner.names(&node).await, ["order.edi"]);
    assert_eq!(received(&node).await.len(), 1);
    // The id is the sender's: another one may use the same.
    assert_eq!(partner.message("<2@globex>", PAYLOAD).post(&node).await.status, 200);
    assert_eq!(partner.names(&node).await, ["order (1).edi", "order.edi"]);
}

#[tokio::test]
async fn copies_at_the_same_time_become_one_file() {
    let node = Node::start().await;
    let partner = Partner::agree(&node, |_| {}).await;
    let sent = partner.message("<1@globex>", &[9; 400_000]);
    let posts = (0..8).map(|_| sent.post(&node));
    let answers = futures_util::future::join_all(posts).await;
    let receipts: Vec<_> = answers.iter().filter(|answer| answer.status == 200).collect();
    assert!(!receipts.is_empty(), "{answers:?}");
    assert!(receipts.iter().all(|answer| answer.body == receipts[0].body));
    for answer in answers.iter().filter(|answer| answer.status != 200) {
        assert_eq!((answer.status, answer.code().as_str()), (503, "EP1207"), "{answer:?}");
        assert!(!answer.field("retry-after").is_empty(), "{answer:?}");
    }
    assert_eq!(received(&node).await.len(), 1);
    assert_eq!(partner.names(&node).await.len(), 1);
}

#[tokio::test]
async fn messages_that_propose_the_same_name_at_the_same_time_get_names_like_it() {
    let node = Node::start().await;
    let partner = Partner::agree(&node, |_| {}).await;
    let sent: Vec<_> =
        (0..4_u8).map(|id| partner.message(&format!("<{id}@globex>"), &[id; 400_000])).collect();
    let answers = futures_util::future::join_all(sent.iter().map(|it| it.post(&node))).await;
    for answer in &answers {
        assert_eq!(outcome(&partner, answer), "processed");
    }
    let names = ["order (1).edi", "order (2).edi", "order (3).edi", "order.edi"];
    assert_eq!(partner.names(&node).await, names);
}

#[tokio::test]
async fn who_asks_for_no_receipt_gets_none() {
    let node = Node::start().await;
    let partner = Partner::agree(&node, |_| {}).await;
    let mut sent = partner.message("<1@globex>", PAYLOAD);
    sent.wants_receipt = false;
    let answer = sent.post(&node).await;
    assert_eq!((answer.status, answer.body.len()), (200, 0), "{answer:?}");
    let mut bad = partner.message("<2@globex>", PAYLOAD);
    (bad.wants_receipt, bad.plan.signing) = (false, None);
    let answer = bad.post(&node).await;
    assert_eq!((answer.status, answer.code().as_str()), (400, "EP1208"));
    let mut unsigned = partner.message("<3@globex>", PAYLOAD);
    unsigned.options = String::new();
    let answer = unsigned.post(&node).await;
    assert!(answer.field("content-type").starts_with("multipart/report"), "{answer:?}");
}

#[tokio::test]
async fn names_that_nobody_has_agreed_on_get_an_unsigned_receipt() {
    let node = Node::start().await;
    let partner = Partner::agree(&node, |_| {}).await;
    let mut sent = partner.message("<1@globex>", PAYLOAD);
    sent.from = "globex".to_owned();
    let answer = sent.post(&node).await;
    assert_eq!(outcome(&partner, &answer), "processed/error: unknown-trading-relationship");
    assert!(answer.field("content-type").starts_with("multipart/report"), "{answer:?}");
    sent.from = "Acme Ltd".to_owned();
    let answer = sent.post(&node).await;
    assert_eq!(outcome(&partner, &answer), "failed/failure: sender-equals-receiver");
    // Nothing is sent where somebody unknown says.
    sent.delivery = Some("http://127.0.0.1:1/".to_owned());
    let answer = sent.post(&node).await;
    assert_eq!((answer.status, answer.code().as_str()), (403, "EP1204"));
    let told = node.world.events().await.into_iter().filter_map(|event| match event.fact {
        Fact::As2Refused { refusal } if refusal.partner.is_none() => refusal.message_id,
        _ => None,
    });
    assert_eq!(told.collect::<Vec<_>>(), ["<1@globex>"; 3]);
    let line = "POST /as2";
    let answer = node.connect().await.upload(line, "AS2-To: x\r\n", b"").await;
    assert_eq!((answer.status, answer.code().as_str()), (400, "EP1203"));
    assert_eq!(received(&node).await, []);
}

#[tokio::test]
async fn a_store_or_an_account_that_takes_nothing_is_for_later() {
    let node = Node::start().await;
    let partner = Partner::agree(&node, |target| target.folder = "/small".parse().unwrap()).await;
    let sent = partner.message("<1@globex>", &[1; 20_000]);
    let answer = sent.post(&node).await;
    assert_eq!(answer.status, 503, "{answer:?}");
    assert!(!answer.field("retry-after").is_empty(), "{answer:?}");
    let fits = partner.message("<1@globex>", &[1; 2_000]).post(&node).await;
    assert_eq!(outcome(&partner, &fits), "processed");
    let anna = node.world.bed.db.find::<Account>(SiteId::MAIN, &name("anna")).await.unwrap();
    let mut anna = anna.unwrap().noun;
    anna.enabled = false;
    node.world.put(&anna).await;
    let answer = partner.message("<2@globex>", PAYLOAD).post(&node).await;
    assert_eq!((answer.status, answer.code().as_str()), (403, "EP1204"), "{answer:?}");
}

/// Where a receipt shall go that is not the answer.
const THERE: &str = "http://mdn.globex.example/receipts";

#[tokio::test]
async fn a_receipt_is_sent_elsewhere_only_where_that_was_agreed() {
    let node = Node::start().await;
    let partner = Partner::agree(&node, |target| {
        target.receipt_hosts = vec!["MDN.globex.example".to_owned()];
    })
    .await;
    let mut sent = partner.message("<1@globex>", PAYLOAD);
    for elsewhere in [
        "http://globex.example/receipts",
        "http://mdn.globex.example.evil.example/",
        "http://mdn.globex.example@169.254.169.254/",
        "ftp://mdn.globex.example/",
        "mailto:edi@globex.example",
    ] {
        sent.delivery = Some(elsewhere.to_owned());
        let answer = sent.post(&node).await;
        assert_eq!((answer.status, answer.code().as_str()), (403, "EP1206"), "{elsewhere}");
    }
    assert_eq!(received(&node).await, []);
    sent.delivery = Some(THERE.to_owned());
    let answer = sent.post(&node).await;
    assert_eq!((answer.status, answer.body.len()), (204, 0), "{answer:?}");
    let [message] = &received(&node).await[..] else { panic!("not one message") };
    let receipt = message.receipt.clone().unwrap();
    assert_eq!(receipt.url.as_deref(), Some(THERE));
    assert!(receipt.content_type.starts_with("multipart/signed"), "{receipt:?}");
    // It comes again: no second file, and the receipt is to be sent once more.
    assert_eq!(sent.post(&node).await.status, 204);
    assert_eq!(received(&node).await.len(), 1);
    let db = &node.world.bed.db;
    let now = node.world.bed.env.now();
    let queued = db.claim_as2_receipts(now, now, 10).await.unwrap();
    let [queued] = &queued[..] else { panic!("{queued:?}") };
    assert_eq!(queued.receipt, *receipt);
    let mut bad = partner.message("<2@globex>", PAYLOAD);
    (bad.delivery, bad.plan.signing) = (Some(THERE.to_owned()), None);
    assert_eq!(bad.post(&node).await.status, 204);
    let events = node.world.events().await;
    let refusal = events.into_iter().find_map(|event| match event.fact {
        Fact::As2Refused { refusal } => Some(refusal),
        _ => None,
    });
    let receipt = refusal.unwrap().receipt.unwrap();
    assert_eq!(receipt.url.as_deref(), Some(THERE));
}

/// A receipt of the partner for a message of ours.
async fn post_receipt(node: &Node, partner: &Partner, id: &str, by: Option<&OwnKey>) -> Answer {
    let name = entrepot_as2_proto::As2Name::new("GLOBEX").unwrap();
    let receipt = Receipt {
        recipient: &name,
        original_message_id: id,
        disposition: Disposition::Processed,
        mic: Some(&partner.message("<x@x>", PAYLOAD).mic),
        style: MicalgStyle::Dashed,
        reporting_ua: "a test",
    };
    let mut document = receipt.document("inner-0123456789abcdef");
    if let Some(OwnKey { certificate, key }) = by.cloned() {
        let (digest, padding) = (DigestAlgorithm::Sha256, RsaPadding::Pkcs1);
        let signer = Signer { certificate, key, digest, padding, time: 1_769_903_999 };
        document = signed(&document, &signer, MicalgStyle::Dashed, "outer-9876543210").unwrap();
    }
    let fields = format!(
        "AS2-Version: 1.2\r\nAS2-From: GLOBEX\r\nAS2-To: \"Acme Ltd\"\r\n\
         Message-ID: <r@globex>\r\nContent-Type: {}\r\n",
        document.content_type
    );
    node.connect().await.upload("POST /as2", &fields, &document.body).await
}

/// The messages that receipts came for, with the job that had sent each, and whether it was signed.
async fn receipts(node: &Node) -> Vec<(String, Option<JobId>, bool)> {
    let came = |event: Event| match event.fact {
        Fact::As2ReceiptReceived { received } => {
            Some((received.message_id, event.job, received.signed_by.is_some()))
        }
        _ => None,
    };
    node.world.events().await.into_iter().filter_map(came).collect()
}

#[tokio::test]
async fn a_receipt_of_a_partner_counts_if_it_is_signed_or_names_what_was_sent() {
    let node = Node::start().await;
    let agreed = |target: &mut As2Target| {
        target.url = Some("http://globex.example/as2".to_owned());
        target.send.receipt = As2ReceiptKind::Unsigned;
    };
    let partner = Partner::agree(&node, agreed).await;
    let job = JobId(uuid::Uuid::from_u128(7));
    let sent =
        As2SentMessage { site: SiteId::MAIN, partner: &name("globex"), message_id: "1@entrepot" };
    node.world.bed.db.as2_sent(&sent, job, node.world.bed.env.now()).await.unwrap();
    let answer = post_receipt(&node, &partner, "<1@entrepot>", None).await;
    assert_eq!((answer.status, answer.body.len()), (204, 0), "{answer:?}");
    let answer = post_receipt(&node, &partner, "<2@entrepot>", Some(&partner.globex)).await;
    assert_eq!(answer.status, 204, "{answer:?}");
    let answer = post_receipt(&node, &partner, "<3@entrepot>", None).await;
    assert_eq!((answer.status, answer.code().as_str()), (400, "EP1242"));
    let stranger = Partner::stranger();
    let answer = post_receipt(&node, &partner, "<1@entrepot>", Some(&stranger.globex)).await;
    assert_eq!((answer.status, answer.code().as_str()), (400, "EP1242"));
    let came = receipts(&node).await;
    let ids = ["<1@entrepot>", "<2@entrepot>"].map(str::to_owned);
    let [one, two] = ids;
    assert_eq!(came, [(one, Some(job), false), (two, None, true)]);
    let refused = refused(&node).await;
    assert_eq!(refused.len(), 2, "{refused:?}");
    assert!(refused[0].starts_with("receipt: it is not signed"), "{refused:?}");
    // None of them was taken for a file.
    assert_eq!(received(&node).await, []);
    // A message is told from a receipt, whatever it is wrapped in.
    let mut message = partner.message("<m@globex>", PAYLOAD);
    message.plan.envelope = None;
    let answer = message.post(&node).await;
    assert_eq!(outcome(&partner, &answer), "processed/error: insufficient-message-security");
}

#[tokio::test]
async fn where_signed_receipts_were_agreed_no_other_one_says_that_a_file_arrived() {
    let node = Node::start().await;
    let agreed = |target: &mut As2Target| target.url = Some("http://globex.example/as2".to_owned());
    let partner = Partner::agree(&node, agreed).await;
    let (site, endpoint) = (SiteId::MAIN, name("globex"));
    let sent = As2SentMessage { site, partner: &endpoint, message_id: "1@entrepot" };
    let job = JobId(uuid::Uuid::from_u128(7));
    node.world.bed.db.as2_sent(&sent, job, node.world.bed.env.now()).await.unwrap();
    let answer = post_receipt(&node, &partner, "<1@entrepot>", None).await;
    assert_eq!((answer.status, answer.code().as_str()), (400, "EP1242"));
    let answer = post_receipt(&node, &partner, "<1@entrepot>", Some(&partner.globex)).await;
    assert_eq!(answer.status, 204, "{answer:?}");
    assert_eq!(receipts(&node).await, [("<1@entrepot>".to_owned(), Some(job), true)]);
}

#[tokio::test]
async fn fields_over_several_lines_are_read_and_kept_as_they_came() {
    let node = Node::start().await;
    let partner = Partner::agree(&node, |_| {}).await;
    let mut sent = partner.message("<1@globex>", PAYLOAD);
    sent.more = "X-Long: one\r\n two\r\n\tthree\r\nAuthorization: Basic\r\n eDp5\r\n".to_owned();
    sent.options = "signed-receipt-protocol=optional,\r\n pkcs7-signature;\r\n \
                    signed-receipt-micalg=optional, sha-256"
        .to_owned();
    let answer = sent.post(&node).await;
    assert_eq!(outcome(&partner, &answer), "processed");
    let [message] = &received(&node).await[..] else { panic!("not one message") };
    let head = message.head.as_deref().unwrap();
    assert!(head.starts_with("POST /as2 HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("X-Long: one\r\n two\r\n\tthree\r\nAuthorization: ***"), "{head}");
    assert!(head.contains("AS2-From: GLOBEX\r\n") && !head.contains("eDp5"), "{head}");
}

#[tokio::test]
async fn requests_log_in_besides_where_that_was_agreed() {
    let node = Node::start().await;
    let partner = Partner::agree(&node, |target| target.require.login = As2Login::Account).await;
    let mut sent = partner.message("<1@globex>", PAYLOAD);
    let answer = sent.post(&node).await;
    assert_eq!((answer.status, answer.code().as_str()), (401, "EP1223"), "{answer:?}");
    assert!(!answer.field("www-authenticate").is_empty(), "{answer:?}");
    sent.more = basic("berta");
    let answer = sent.post(&node).await;
    assert_eq!((answer.status, answer.code().as_str()), (401, "EP1223"), "{answer:?}");
    sent.more = "Authorization: Basic YW5uYTp3cm9uZw==\r\n".to_owned();
    let answer = sent.post(&node).await;
    assert_eq!((answer.status, answer.code().as_str()), (401, "EP1001"), "{answer:?}");
    assert_eq!(received(&node).await, []);
    sent.more = basic("anna");
    let answer = sent.post(&node).await;
    assert_eq!(outcome(&partner, &answer), "processed");
    let [message] = &received(&node).await[..] else { panic!("not one message") };
    assert!(message.head.as_deref().unwrap().contains("Authorization: ***"), "{message:?}");
}

#[tokio::test]
async fn a_rule_is_asked_before_a_message_counts_and_told_after() {
    let node = Node::start().await;
    let partner = Partner::agree(&node, |_| {}).await;
    let first = partner.message("<1@globex>", PAYLOAD);
    assert_eq!(outcome(&partner, &first.post(&node).await), "processed");
    let told = hooks::rules(&node, "as2 write", |question| {
        let path = question.event.fact.command()?.path.as_deref();
        let class = match path {
            Some("/in/order (1).edi") => RefusalClass::Denied,
            Some("/in/later.edi") => RefusalClass::NotNow,
            _ => return None,
        };
        (question.moment == Moment::Before).then_some(class)
    });
    // A copy of what was received gets its receipt, whatever rules say now.
    assert_eq!(outcome(&partner, &first.post(&node).await), "processed");
    assert_eq!(told.take(), Vec::<String>::new());

    let second = partner.message("<2@globex>", PAYLOAD);
    let refused_as = "processed/error: unexpected-processing-error";
    assert_eq!(outcome(&partner, &second.post(&node).await), refused_as);
    assert_eq!(told.take(), ["? as2 write /in/order (1).edi anna"]);
    assert_eq!(refused(&node).await, [refused_as]);
    let mut later = partner.message("<3@globex>", PAYLOAD);
    later.plan.file_name = Some("later.edi".to_owned());
    let answer = later.post(&node).await;
    assert_eq!((answer.status, answer.code().as_str()), (503, "EP1030"));
    assert!(!answer.field("retry-after").is_empty(), "{answer:?}");
    told.take();
    assert_eq!(partner.names(&node).await, ["order.edi"], "nothing of them is kept");
    assert_eq!(refused(&node).await.len(), 1, "what may come again is not refused");

    let mut fourth = partner.message("<4@globex>", PAYLOAD);
    fourth.plan.file_name = Some("fourth.edi".to_owned());
    assert_eq!(outcome(&partner, &fourth.post(&node).await), "processed");
    let bytes = PAYLOAD.len();
    let done = format!("! as2 write /in/fourth.edi anna 200 {bytes} transfer");
    assert_eq!(told.take(), ["? as2 write /in/fourth.edi anna".to_owned(), done]);

    // What was refused may be sent again, under its id.
    node.world.vfs.hooks().set(Vec::new());
    for again in [&second, &later] {
        assert_eq!(outcome(&partner, &again.post(&node).await), "processed");
    }
    let names = ["fourth.edi", "later.edi", "order (1).edi", "order.edi"];
    assert_eq!(partner.names(&node).await, names);
}
