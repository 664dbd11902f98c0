//! Receipts of AS2 that do not travel as the answers to their messages, both ways.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use entrepot_as2_proto::Disposition;
use entrepot_journal::Scope;
use entrepot_nouns::event::{As2Message, As2Receipt, As2ReceiptSending, As2ReceivedReceipt};
use entrepot_nouns::{Event, Fact, Job, JobId, JobState, JobStep, Secret};
use serde_json::{Value as Json, json};

use super::as2::partner::{Does, Message, Partner};
use super::as2::{agreed, delivered, left, sending, until};
use super::talk::ended;
use super::world::{SITE, World, fact, name};

/// What a partner answers that sends its receipt later.
const LATER: &str = "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n";

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
const BUSY: &str = "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n";
const SENT: &str = "as2-receipt.sent";
const UNSENT: &str = "as2-receipt.unsent";

fn apart(within: &str) -> Json {
    json!({"receipt_url": "https://acme.example/as2", "send": {"receipt_within": within}})
}

/// The receipt of the partner for a message, as the listener records it.
async fn comes(world: &World, job: &Job, message: &Message, says: Disposition) {
    let document = message.receipt(says);
    let receipt = As2Receipt {
        message_id: "<r@globex>".to_owned(),
        content_type: document.content_type.clone(),
        body: STANDARD.encode(&document.body),
        url: None,
        head: None,
        certificate: None,
    };
    let received = As2ReceivedReceipt {
        partner: name("globex"),
        message_id: message.got.field("message-id").unwrap(),
        disposition: says.text().to_owned(),
        mic: None,
        signed_by: None,
        address: "127.0.0.1".to_owned(),
        tls: None,
        receipt: Box::new(receipt),
    };
    let scope = Scope { job: Some(job.id), ..Scope::site(SITE) };
    let fact = Fact::As2ReceiptReceived { received };
    world.recorder.record_durable(&scope, fact).await.unwrap();
}

/// Until so many receipts are in the database, and jobs that rest for them may look.
async fn came(world: &World, count: usize) {
    until(world, async |world| world.events("as2-receipt.received").await.len() == count).await;
    // One that has looked just now looks again two seconds later.
    world.env.advance(Duration::from_secs(3));
    world.engine().wake();
}

/// The job of a file whose message has left, when it rests.
async fn resting(world: &mut World, does: &'static [Does], more: Json) -> (Event, Job, Partner) {
    let partner = Partner::start(does).await;
    agreed(world, partner.port, more).await;
    world.put(&sending()).await;
    world.start();
    let event = world.upload("/in/order.x12", b"file").await;
    let id = world.job_of(&event, "r").await;
    rests(world, &partner, id, 1).await;
    let job = world.db.job(SITE, id).await.unwrap().unwrap();
    (event, job, partner)
}

/// Waits until so many messages have left, and the job holds no place.
async fn rests(world: &World, partner: &Partner, id: JobId, messages: usize) {
    until(world, async |world| {
        let job = world.db.job(SITE, id).await.unwrap();
        let rests = job.is_some_and(|job| job.state == JobState::Ready && job.epoch > 0);
        rests && partner.messages().len() == messages
    })
    .await;
}

#[tokio::test]
async fn a_step_rests_until_the_receipt_comes_by_itself() {
    let mut world = World::new(1300).await;
    let (event, job, partner) = resting(&mut world, &[Does::Answers(LATER)], apart("1h")).await;
    let message = partner.messages().remove(0);
    let field = |name: &str| message.got.field(name);
    assert_eq!(field("receipt-delivery-option").unwrap(), "https://acme.example/as2");
    assert!(field("disposition-notification-options").is_some());
    assert!(world.events("file.delivered").await.is_empty());
    comes(&world, &job, &message, Disposition::Processed).await;
    came(&world, 1).await;
    let job = ended(&world, &event).await;
    assert_eq!(job.state, JobState::Done, "{:?}", job.error);
    assert_eq!(partner.messages().len(), 1, "it was sent twice");
    let told = delivered(&world).await;
    let left = left(&world, &job).await;
    assert_eq!((&left["verified"], &left["mic"]), (&json!(true), &json!(told.mic)));
    assert_eq!(left["disposition"], "processed");
    assert!(told.receipt.is_some() && told.mic.is_some());
    assert!(left.get("awaited").is_none(), "{left}");
}

#[tokio::test]
async fn a_partner_may_give_the_receipt_as_the_answer_all_the_same() {
    let mut world = World::new(1301).await;
    let partner = Partner::start(&[Does::Receives]).await;
    agreed(&world, partner.port, apart("1h")).await;
    let job = super::talk::job(&mut world, &sending(), "/in/order.x12", b"file").await;
    assert_eq!(job.state, JobState::Done, "{:?}", job.error);
    assert_eq!(left(&world, &job).await["verified"], true);
}

#[tokio::test]
async fn a_receipt_that_refuses_fails_the_job_and_a_retry_sends_the_message_once_more() {
    let mut world = World::new(1302).await;
    let (event, job, partner) = resting(&mut world, &[Does::Answers(LATER)], apart("1h")).await;
    let message = partner.messages().remove(0);
    comes(&world, &job, &message, Disposition::DecryptionFailed).await;
    came(&world, 1).await;
    let job = ended(&world, &event).await;
    assert_eq!(job.state, JobState::Failed, "{job:?}");
    assert!(job.error.as_deref().unwrap().starts_with("EP1212: "), "{job:?}");
    assert!(world.retry(job.id, world.env.now()).await);
    world.engine().wake();
    rests(&world, &partner, job.id, 2).await;
    let again = partner.messages().remove(1);
    assert_eq!(again.got.field("message-id"), message.got.field("message-id"));
    comes(&world, &job, &again, Disposition::Processed).await;
    came(&world, 2).await;
    let job = ended(&world, &event).await;
    assert_eq!(job.state, JobState::Done, "{:?}", job.error);
    assert_eq!(partner.messages().len(), 2);
}

#[tokio::test]
async fn without_a_receipt_in_time_the_message_is_sent_again_and_a_late_one_counts() {
    let mut world = World::new(1303).await;
    let (event, job, partner) = resting(&mut world, &[Does::Answers(LATER)], apart("10m")).await;
    let message = partner.messages().remove(0);
    world.env.advance(Duration::from_secs(601));
    world.engine().wake();
    let is_over = |step: &JobStep| step.error.as_ref().is_some_and(|it| it.starts_with("EP1243: "));
    until(&world, async |world| world.db.job_steps(job.id).await.unwrap().iter().any(is_over))
        .await;
    // It comes before the message has left again: that is not needed any more.
    comes(&world, &job, &message, Disposition::Processed).await;
    came(&world, 1).await;
    let job = ended(&world, &event).await;
    assert_eq!(job.state, JobState::Done, "{:?}", job.error);
    assert_eq!(partner.messages().len(), 1);
    assert_eq!(left(&world, &job).await["verified"], true);
}

#[tokio::test]
async fn a_node_that_dies_while_a_step_rests_forgets_nothing() {
    let mut world = World::new(1304).await;
    let (event, job, partner) = resting(&mut world, &[Does::Answers(LATER)], apart("1h")).await;
    let message = partner.messages().remove(0);
    world.kill().await;
    comes(&world, &job, &message, Disposition::Processed).await;
    world.start();
    came(&world, 1).await;
    let job = ended(&world, &event).await;
    assert_eq!((job.state, partner.messages().len()), (JobState::Done, 1), "{:?}", job.error);
    assert_eq!(left(&world, &job).await["verified"], true);
}

/// A message that was received, whose receipt shall go to this port.
async fn received(world: &World, port: u16, id: &str) -> As2Receipt {
    let receipt = As2Receipt {
        message_id: format!("<receipt-of-{}", id.trim_start_matches('<')),
        content_type: "multipart/report; boundary=x".to_owned(),
        body: STANDARD.encode(id),
        url: Some(format!("http://127.0.0.1:{port}/receipts")),
        head: None,
        certificate: None,
    };
    let message = As2Message {
        partner: name("globex"),
        from: "GLOBEX".to_owned(),
        to: "ACME Inc".to_owned(),
        message_id: id.to_owned(),
        subject: None,
        content_type: "application/edi-x12".to_owned(),
        mic: None,
        signed_by: None,
        signature: None,
        cipher: None,
        compressed: false,
        head: None,
        tls: None,
        receipt: Some(Box::new(receipt.clone())),
    };
    let mut file = fact(&world.env, &"/in/order".parse().unwrap(), b"file");
    file.as2 = Some(Box::new(message));
    let uploaded = Fact::FileUploaded { file };
    world.recorder.record_durable(&Scope::site(SITE), uploaded).await.unwrap();
    receipt
}

/// The receipts of these ends that are told of.
async fn told(world: &World, kind: &str) -> Vec<As2ReceiptSending> {
    let of = |event: Event| match event.fact {
        Fact::As2ReceiptSent { sending } | Fact::As2ReceiptUnsent { sending } => Some(sending),
        _ => None,
    };
    world.events(kind).await.into_iter().filter_map(of).collect()
}

/// Until so many are told of; time passes.
async fn told_of(world: &World, kind: &str, count: usize) -> Vec<As2ReceiptSending> {
    until(world, async |world| {
        // The pause behind an attempt passes at once, and none for which one is under way.
        let pause = world.db.next_as2_receipt().await.unwrap();
        let pause = pause.map_or(Duration::ZERO, |due| due.since(world.env.now()));
        if pause < Duration::from_secs(100) {
            world.env.advance(pause);
            world.engine().shared.as2_receipts.notify_one();
        }
        told(world, kind).await.len() >= count
    })
    .await;
    told(world, kind).await
}

#[tokio::test]
async fn a_receipt_goes_to_where_its_partner_wants_it_with_the_password_of_its_server() {
    let mut world = World::new(1310).await;
    let there = Partner::start(&[Does::Answers(OK)]).await;
    agreed(&world, there.port, json!({"user": "courier"})).await;
    world.file_access.secrets.lock().insert("globex".to_owned(), Secret::new("geheim"));
    world.start();
    let receipt = received(&world, there.port, "<1@globex>").await;
    let told = told_of(&world, SENT, 1).await;
    assert_eq!((told[0].message_id.as_str(), told[0].attempts), ("<1@globex>", 1));
    assert_eq!((&told[0].receipt, &told[0].reason), (&receipt.message_id, &None));
    let messages = there.messages();
    let [message] = &messages[..] else { panic!("{} receipts", messages.len()) };
    assert!(message.got.head.starts_with("POST /receipts HTTP/1.1\r\n"));
    let field = |name: &str| message.got.field(name).unwrap_or_default();
    assert_eq!((field("as2-from").as_str(), field("as2-to").as_str()), ("\"ACME Inc\"", "GLOBEX"));
    assert_eq!(field("message-id"), receipt.message_id);
    assert_eq!(field("content-type"), receipt.content_type);
    assert_eq!(field("authorization"), "Basic Y291cmllcjpnZWhlaW0=");
    assert_eq!(message.got.body, b"<1@globex>");
    assert_eq!(world.db.next_as2_receipt().await.unwrap(), None);
    // At another port the password is not for it.
    let other = Partner::start(&[Does::Answers(OK)]).await;
    received(&world, other.port, "<2@globex>").await;
    told_of(&world, SENT, 2).await;
    assert_eq!(other.messages()[0].got.field("authorization"), None);
}

#[tokio::test]
async fn a_receipt_that_is_not_taken_comes_again_and_the_others_of_its_partner_wait() {
    let mut world = World::new(1311).await;
    let there = Partner::start(&[Does::Answers(BUSY), Does::HangsUp, Does::Answers(OK)]).await;
    agreed(&world, there.port, json!({})).await;
    for id in ["<1@globex>", "<2@globex>", "<3@globex>"] {
        received(&world, there.port, id).await;
    }
    world.start();
    let told = told_of(&world, SENT, 3).await;
    let mut ids: Vec<&str> = told.iter().map(|sending| sending.message_id.as_str()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["<1@globex>", "<2@globex>", "<3@globex>"]);
    // Two attempts failed, and each was the only one of its look.
    assert_eq!(there.messages().len(), 5);
    assert_eq!(world.db.next_as2_receipt().await.unwrap(), None);
}

#[tokio::test]
async fn a_receipt_is_given_up_after_a_day_or_when_it_may_not_go_there_any_more() {
    let mut world = World::new(1312).await;
    let there = Partner::start(&[Does::Answers(BUSY)]).await;
    agreed(&world, there.port, json!({})).await;
    received(&world, there.port, "<1@globex>").await;
    world.start();
    until(&world, async |_| there.messages().len() == 1).await;
    world.env.advance(Duration::from_secs(25 * 3600));
    let told = told_of(&world, UNSENT, 1).await;
    assert!(told[0].reason.as_deref().unwrap().contains("503"), "{told:?}");
    let elsewhere = json!({"url": "http://globex.example/as2"});
    agreed(&world, there.port, elsewhere).await;
    let tried = there.messages().len();
    received(&world, there.port, "<2@globex>").await;
    let told = told_of(&world, UNSENT, 2).await;
    let second = told.iter().find(|sending| sending.message_id == "<2@globex>").unwrap();
    assert!(
        second.reason.as_deref().unwrap().contains("not at a host that was agreed"),
        "{second:?}"
    );
    assert_eq!(there.messages().len(), tried);
    assert_eq!(world.db.next_as2_receipt().await.unwrap(), None);
}
