//! Steps that send messages of AS2. Real connections take real time, so the clock of the runtime is
//! not stopped here.

pub(super) mod partner;

use std::sync::atomic::Ordering;

use entrepot_as2_proto::{Disposition, Field, Headers, read_receipt};
use entrepot_crypto::SealingContext;
use entrepot_nouns::event::As2Message;
use entrepot_nouns::{Endpoint, Fact, Job, JobState, Key, KeyType, Rule, Secret, Timestamp};
use serde_json::{Value as Json, json};

use super::talk::{doing, ended, job};
use super::world::{SITE, World, content, drop_once, name};
use crate::Pause;
use partner::{ACME, Does, GLOBEX, Message, Partner, Party};

/// A key of AS2 with its private half, or a certificate alone.
async fn key(world: &World, called: &str, party: &Party, private: Option<&str>) -> Key {
    let mut key = Key::new(name(called), KeyType::As2, party.certificate_pem.clone());
    key.private_sealed = private.map(|pem| {
        let context = SealingContext::private_key(&name("main"), &key.name);
        world.bed.master.seal(&world.env, &context, &Secret::new(pem)).unwrap()
    });
    world.put(&key).await;
    key
}

/// The partner GLOBEX at this port, with `more` in its endpoint.
pub(super) async fn agreed(world: &World, port: u16, more: Json) {
    key(world, "ours", &ACME, Some(&ACME.key_pem)).await;
    key(world, "theirs", &GLOBEX, None).await;
    let mut target = json!({"partner": "GLOBEX", "station": "ACME Inc", "keys": ["ours"],
        "certificates": ["theirs"], "url": format!("http://127.0.0.1:{port}/as2"),
        "allow_private": true});
    target.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let endpoint = json!({"name": "globex", "target": {"as2": target}});
    let endpoint: Endpoint = serde_json::from_value(endpoint).unwrap();
    entrepot_nouns::noun::Noun::check(&endpoint).unwrap();
    world.put(&endpoint).await;
}

pub(super) fn sending() -> Rule {
    let send = json!({"name": "send", "as2": {"endpoint": "globex", "subject": "File {name}"}});
    // Of a job of one step that was done nothing is kept but its end.
    doing(json!([send, {"check": {"that": "has(steps.send.message_id)", "message": "no id"}}]))
}

/// The job of one file of a world where the partner does this.
async fn sent(
    world: &mut World,
    does: &'static [Does],
    more: Json,
    file: &[u8],
) -> (Job, Vec<Message>) {
    let partner = Partner::start(does).await;
    agreed(world, partner.port, more).await;
    let job = job(world, &sending(), "/in/order.x12", file).await;
    (job, partner.messages())
}

fn error(job: &Job) -> &str {
    assert_eq!(job.state, JobState::Failed, "{job:?}");
    job.error.as_deref().unwrap()
}

/// What the last attempt of the step left.
pub(super) async fn left(world: &World, job: &Job) -> Json {
    let steps = world.db.job_steps(job.id).await.unwrap();
    let step = steps.iter().rfind(|step| step.address.0 == "send");
    step.map(|step| step.result.clone().unwrap()).unwrap_or_default()
}

/// Waits, in real time.
pub(super) async fn until(world: &World, mut is: impl AsyncFnMut(&World) -> bool) {
    while !is(world).await {
        tokio::task::yield_now().await;
    }
}

pub(super) async fn delivered(world: &World) -> As2Message {
    until(world, async |world| !world.events("file.delivered").await.is_empty()).await;
    let events = world.events("file.delivered").await;
    let [event] = &events[..] else { panic!("{} deliveries", events.len()) };
    let Fact::FileDelivered { file, endpoint, .. } = &event.fact else { panic!("{event:?}") };
    assert_eq!((file.path.as_str(), endpoint.as_str()), ("order.x12", "globex"));
    *file.as2.clone().unwrap()
}

#[tokio::test]
async fn a_file_arrives_signed_and_encrypted_and_its_receipt_is_kept() {
    let mut world = World::new(1201).await;
    let file = content(3, 5);
    let steps = json!([
        {"name": "send", "as2": {"endpoint": "globex", "subject": "File {name}"}},
        {"check": {"that": "steps.send.verified && steps.send.disposition == 'processed'",
            "message": "no"}}]);
    let partner = Partner::start(&[Does::Receives]).await;
    agreed(&world, partner.port, json!({"user": "courier"})).await;
    world.file_access.secrets.lock().insert("globex".to_owned(), Secret::new("geheim"));
    let job = job(&mut world, &doing(steps), "/in/order.x12", &file).await;
    assert_eq!(job.state, JobState::Done, "{:?}", job.error);
    let messages = partner.messages();
    let [message] = &messages[..] else { panic!("{} messages", messages.len()) };
    assert_eq!(message.payload, file);
    let received = message.received.clone().unwrap();
    assert!(received.signature.is_some() && received.cipher.is_some());
    assert_eq!(received.payload.file_name().as_deref(), Some("order.x12"));
    assert_eq!(received.payload.value("content-type"), Some("application/edi-x12"));
    let field = |name: &str| message.got.field(name).unwrap();
    assert!(message.got.head.starts_with("POST /as2 HTTP/1.1\r\n"));
    assert!(message.got.head.contains("\r\nAs2-From: \"ACME Inc\"\r\nAs2-To: GLOBEX\r\n"));
    assert_eq!((field("as2-version"), field("mime-version")), ("1.2".into(), "1.0".into()));
    assert_eq!(field("subject"), "File order.x12");
    assert_eq!(field("content-length"), message.got.body.len().to_string());
    assert_eq!(field("authorization"), "Basic Y291cmllcjpnZWhlaW0=");
    assert!(field("date").ends_with(" GMT"), "{}", field("date"));
    assert!(field("disposition-notification-options").ends_with("optional, sha-256"));
    let told = delivered(&world).await;
    assert_eq!(told.message_id, field("message-id"));
    let mic = received.mic(entrepot_as2_proto::DigestAlgorithm::Sha256).unwrap();
    assert_eq!(told.mic, Some(mic.to_string()));
    assert_eq!(left(&world, &job).await["mic"], mic.to_string());
    assert_eq!((told.cipher.as_deref(), told.compressed), (Some("aes-128-cbc"), false));
    let receipt = told.receipt.unwrap();
    use base64::Engine as _;
    let body = base64::engine::general_purpose::STANDARD.decode(&receipt.body).unwrap();
    let kind = Field { name: "content-type".to_owned(), value: receipt.content_type };
    let trusted = [GLOBEX.own.certificate.clone()];
    let read = read_receipt(&Headers::new(vec![kind]), &body, &trusted).unwrap();
    assert!(read.outcome.is_success() && read.signature.is_some(), "the evidence does not hold");
}

#[tokio::test]
async fn every_form_of_a_message_arrives_and_is_verified() {
    let forms = [
        json!({"signature": "pss", "cipher": "aes-256-gcm", "key_transport": "oaep"}),
        json!({"digest": "sha-1", "micalg": "plain", "cipher": "triple-des-cbc"}),
        json!({"compression": "before-signing", "cipher": "aes-256-cbc"}),
        json!({"compression": "after-signing", "digest": "sha-512", "cipher": "none"}),
        json!({"signature": "none", "compression": "before-signing", "cipher": "aes-128-gcm",
            "key_transport": "oaep-sha-1"}),
        json!({"signature": "none", "cipher": "none", "receipt": "unsigned", "mic": "required"}),
    ];
    let file = content(1, 9);
    for (seed, form) in forms.into_iter().enumerate() {
        let mut world = World::new(1210 + seed as u64).await;
        let more = json!({ "send": form });
        let (job, messages) = sent(&mut world, &[Does::Receives], more, &file).await;
        assert_eq!(job.state, JobState::Done, "{form}: {:?}", job.error);
        assert_eq!(messages[0].payload, file, "{form}");
        assert_eq!(left(&world, &job).await["verified"], true, "{form}");
        let options = messages[0].got.field("disposition-notification-options");
        assert_eq!(options.is_some(), form["receipt"].is_null(), "{form}");
    }
    let mut world = World::new(1220).await;
    let more = json!({"send": {"receipt": "none"}});
    let (job, messages) = sent(&mut world, &[Does::Receives], more, b"").await;
    assert_eq!((job.state, messages[0].payload.len()), (JobState::Done, 0));
    assert!(messages[0].got.field("disposition-notification-to").is_none());
    let left = left(&world, &job).await;
    assert_eq!((&left["verified"], &left["disposition"]), (&json!(false), &Json::Null));
    assert_eq!(delivered(&world).await.mic, None);
}

/// What the partner says for certain is not asked again.
#[tokio::test]
async fn a_negative_receipt_fails_the_job_at_once() {
    use Disposition::{DecryptionFailed, UnexpectedProcessingError, UnsupportedFormat};
    let cases: [&'static [Does]; 3] = [
        &[Does::Says(DecryptionFailed)],
        &[Does::Says(UnsupportedFormat)],
        &[Does::Says(UnexpectedProcessingError)],
    ];
    for (seed, does) in cases.into_iter().enumerate() {
        let mut world = World::new(1221 + seed as u64).await;
        let (job, messages) = sent(&mut world, does, json!({}), b"file").await;
        assert!(error(&job).starts_with("EP1212: "), "{job:?}");
        let Does::Says(disposition) = does[0] else { panic!() };
        assert!(error(&job).contains(disposition.text()), "{job:?}");
        assert_eq!((messages.len(), job.attempts), (1, 1));
        assert_eq!(left(&world, &job).await["disposition"], disposition.text());
        assert!(world.events("file.delivered").await.is_empty());
    }
}

#[tokio::test]
async fn a_partner_that_knows_nobody_says_so_before_it_has_read_a_large_file() {
    let mut world = World::new(1225).await;
    let (job, messages) = sent(&mut world, &[Does::KnowsNobody], json!({}), &content(40, 1)).await;
    assert!(error(&job).starts_with("EP1212: "), "{job:?}");
    assert!(error(&job).contains("unknown-trading-relationship (receipt without signature)"));
    assert_eq!(messages.len(), 1);
}

/// Nobody knows whether the partner has the message, so it comes again under its id.
#[tokio::test]
async fn what_is_no_receipt_for_the_message_is_asked_for_again_under_the_same_id() {
    const HTML: &str =
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 4\r\n\r\n<p>x";
    const BUSY: &str = "HTTP/1.1 503 Busy\r\nRetry-After: 30\r\nContent-Length: 0\r\n\r\n";
    const LATER: &str = "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n";
    let cases: [&'static [Does]; 7] = [
        &[Does::Answers(HTML), Does::Receives],
        &[Does::Answers(BUSY), Does::Answers(LATER), Does::Receives],
        &[Does::HangsUp, Does::Receives],
        &[Does::LeavesItUnsigned, Does::Receives],
        &[Does::LetsAStrangerSign, Does::Receives],
        &[Does::MixesUp, Does::Receives],
        &[Does::HangsUp, Does::Says(Disposition::DuplicateDocument)],
    ];
    for (seed, does) in cases.into_iter().enumerate() {
        let mut world = World::new(1230 + seed as u64).await;
        let (job, messages) = sent(&mut world, does, json!({}), b"file").await;
        assert_eq!(job.state, JobState::Done, "{does:?}: {:?}", job.error);
        assert_eq!(messages.len(), does.len(), "{does:?}");
        let id = |message: &Message| message.got.field("message-id").unwrap();
        assert!(messages.iter().all(|message| id(message) == id(&messages[0])), "{does:?}");
        let bodies = |at: usize| &messages[at].got.body;
        assert_ne!(bodies(0), bodies(1), "a content key was used twice");
        assert_eq!(left(&world, &job).await["verified"], true);
        delivered(&world).await;
    }
    let mut world = World::new(1239).await;
    let (job, messages) = sent(&mut world, &[Does::LetsAStrangerSign], json!({}), b"file").await;
    assert!(error(&job).starts_with("EP1213: "), "{job:?}");
    assert_eq!((messages.len(), job.attempts), (3, 3));
}

#[tokio::test]
async fn a_refusal_of_http_fails_the_job() {
    const NO: &str = "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno";
    let mut world = World::new(1240).await;
    let (job, messages) = sent(&mut world, &[Does::Answers(NO)], json!({}), b"file").await;
    assert!(error(&job).starts_with("EP0891: "), "{job:?}");
    assert_eq!(messages.len(), 1);
}

#[tokio::test]
async fn a_receipt_for_other_bytes_is_no_delivery() {
    let mut world = World::new(1241).await;
    let (job, messages) = sent(&mut world, &[Does::ReceivesOtherBytes], json!({}), b"file").await;
    assert!(error(&job).starts_with("EP1214: "), "{job:?}");
    assert_eq!(messages.len(), 1);
    let left = left(&world, &job).await;
    assert_eq!((&left["disposition"], &left["verified"]), (&json!("processed"), &json!(false)));
}

#[tokio::test]
async fn a_receipt_without_a_mic_is_a_delivery_unless_one_was_agreed() {
    let mut world = World::new(1242).await;
    let (job, _) = sent(&mut world, &[Does::GivesNoMic], json!({}), b"file").await;
    assert_eq!(job.state, JobState::Done, "{job:?}");
    assert_eq!(left(&world, &job).await["verified"], false);
    let mut world = World::new(1243).await;
    let more = json!({"send": {"mic": "required"}});
    let (job, _) = sent(&mut world, &[Does::GivesNoMic], more, b"file").await;
    assert!(error(&job).starts_with("EP1214: "), "{job:?}");
}

#[tokio::test]
async fn a_partner_cannot_have_had_what_was_never_sent() {
    let mut world = World::new(1244).await;
    let does = &[Does::Says(Disposition::DuplicateDocument)];
    let (job, _) = sent(&mut world, does, json!({}), b"file").await;
    assert!(error(&job).starts_with("EP1215: "), "{job:?}");
}

#[tokio::test]
async fn a_partner_that_is_down_gets_the_file_when_it_is_up() {
    let down = Partner::start(&[Does::Receives]).await;
    let mut world = World::new(1245).await;
    // Nobody listens at port 1.
    agreed(&world, 1, json!({})).await;
    let rule = sending();
    world.put(&rule).await;
    let event = world.upload("/in/order.x12", b"file").await;
    world.start();
    let id = world.job_of(&event, "r").await;
    let has_failed = |job: Job| job.attempts == 1 && job.state == JobState::Ready;
    until(&world, async |world| world.db.job(SITE, id).await.unwrap().is_some_and(has_failed))
        .await;
    agreed(&world, down.port, json!({})).await;
    let job = ended(&world, &event).await;
    assert_eq!((job.state, down.messages().len()), (JobState::Done, 1), "{:?}", job.error);
}

#[tokio::test]
async fn with_a_key_that_has_ended_nothing_is_sent() {
    for (seed, which) in ["ours", "theirs"].into_iter().enumerate() {
        let mut world = World::new(1246 + seed as u64).await;
        let partner = Partner::start(&[Does::Receives]).await;
        agreed(&world, partner.port, json!({})).await;
        let (party, private) = match which {
            "ours" => (&*ACME, Some(ACME.key_pem.as_str())),
            _ => (&*GLOBEX, None),
        };
        let mut old = key(&world, which, party, private).await;
        old.not_after = Some(Timestamp::from_seconds(world.env.now().seconds() - 1));
        world.put(&old).await;
        let job = job(&mut world, &sending(), "/in/order.x12", b"file").await;
        assert!(error(&job).starts_with("EP1211: "), "{job:?}");
        assert!(partner.messages().is_empty());
    }
}

#[tokio::test]
async fn a_private_address_is_not_dialled_unless_the_endpoint_allows_it() {
    let mut world = World::new(1250).await;
    let more = json!({"allow_private": false});
    let (job, messages) = sent(&mut world, &[Does::Receives], more, b"file").await;
    assert_eq!((job.state, messages.len()), (JobState::Failed, 0), "{:?}", job.error);
}

/// A file that changed after its event is not taken for the one of the event.
#[tokio::test]
async fn the_end_of_a_file_that_changed_does_not_leave() {
    let partner = Partner::start(&[Does::Receives]).await;
    let mut world = World::new(1251).await;
    let plain = json!({"send": {"signature": "none", "cipher": "none"}});
    agreed(&world, partner.port, plain).await;
    world.put(&sending()).await;
    let event = world.publish("/in/a", &content(2, 1)).await;
    world.publish("/in/a", &content(2, 2)).await;
    world.recorder.seal(&event).await.unwrap();
    world.start();
    let job = ended(&world, &event).await;
    assert!(error(&job).starts_with("EP0808: "), "{job:?}");
    while partner.messages().is_empty() {
        tokio::task::yield_now().await;
    }
    assert!(partner.messages()[0].got.cut, "the partner took it for whole");
}

/// The node dies with the receipt in its hands, and when the delivery is recorded.
#[tokio::test]
async fn after_a_crash_the_message_comes_again_under_its_id_or_not_at_all() {
    for (seed, point, messages) in [(1252, Pause::Published, 2), (1253, Pause::Recorded, 1)] {
        let does = &[Does::Receives, Does::Says(Disposition::DuplicateDocument)];
        let partner = Partner::start(does).await;
        let mut world = World::new(seed).await;
        agreed(&world, partner.port, json!({})).await;
        world.put(&sending()).await;
        let (pauses, dropped) = drop_once(point);
        world.options.pauses = Some(pauses);
        let event = world.upload("/in/order.x12", b"file").await;
        world.start();
        until(&world, async |_| dropped.load(Ordering::SeqCst)).await;
        world.kill().await;
        world.env.advance(world.options.lease);
        world.start();
        let job = ended(&world, &event).await;
        assert_eq!(job.state, JobState::Done, "{point:?}: {:?}", job.error);
        let got = partner.messages();
        assert_eq!(got.len(), messages, "{point:?}");
        let id = |message: &Message| message.got.field("message-id").unwrap();
        assert!(got.iter().all(|message| id(message) == id(&got[0])), "{point:?}");
        let told = delivered(&world).await;
        let left = left(&world, &job).await;
        assert_eq!(left["message_id"], told.message_id, "{point:?}");
        assert_eq!((&left["verified"], &left["mic"]), (&json!(true), &json!(told.mic)));
    }
}

#[test]
fn a_message_that_cannot_be_is_refused_when_the_rule_is_stored() {
    let refused = |more: Json| {
        let mut step = json!({"endpoint": "globex"});
        step.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let rule = json!({"name": "r", "when": {"event": "file.uploaded"},
            "do": [{ "as2": step }]});
        let rule: Rule = serde_json::from_value(rule).unwrap();
        let checked = entrepot_nouns::noun::Noun::check(&rule);
        checked.and_then(|()| crate::check_rule(&rule)).unwrap_err().field
    };
    assert_eq!(refused(json!({"name": " "})), "do.0.as2.name");
    assert_eq!(refused(json!({"content_type": "edi"})), "do.0.as2.content_type");
    assert_eq!(refused(json!({"content_type": "multipart/mixed"})), "do.0.as2");
    assert_eq!(refused(json!({"name": "a/{name}"})), "do.0.as2");
    assert_eq!(refused(json!({"subject": "{nme}"})), "do.0.as2");
}
