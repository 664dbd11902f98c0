//! The ids of messages of AS2: each is had by one, until it is known what became of the message.

use std::time::Duration;

use entrepot_nouns::as2::{As2Entry, As2MessageName, As2State};
use entrepot_nouns::event::{As2Message, As2Receipt, As2Refusal, As2Rejection, FileFact, HeldFact};
use entrepot_nouns::{Direction, Env, Event, Fact, JobId, NodeId, SiteId, Timestamp, TransferId};
use uuid::Uuid;

use super::{both, event, file, journal, name, node_id, piece};
use crate::{
    As2Claim, As2Filter, As2MessageKey, As2Publisher, As2QueuedReceipt, As2SentMessage, Db,
    EventRange, Projected, RowPosition,
};

fn message(id: &str) -> As2Message {
    As2Message {
        partner: name("globex"),
        from: "GLOBEX".to_owned(),
        to: "ACME".to_owned(),
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
        receipt: None,
    }
}

fn key(id: &str) -> As2MessageKey {
    As2MessageKey::of(SiteId::MAIN, &message(id))
}

fn publisher(node: NodeId, start: u128) -> As2Publisher {
    As2Publisher { node, start: Uuid::from_u128(start) }
}

fn received(env: &Env, id: &str) -> Event {
    let mut file = file(env, env.new_id(), "/in/order");
    file.as2 = Some(Box::new(message(id)));
    event(env, Fact::FileUploaded { file })
}

async fn claim(db: &Db, id: &str, by: As2Publisher) -> As2Claim {
    db.claim_as2_message(&key(id), by, Timestamp(5)).await.unwrap()
}

async fn an_id_is_had_by_one_until_it_is_given_back(db: Db) {
    let (one, other) = (publisher(node_id("n1"), 1), publisher(node_id("n2"), 2));
    assert_eq!(claim(&db, "<a>", one).await, As2Claim::Ours);
    assert_eq!(claim(&db, "<a>", other).await, As2Claim::Claimed(one));
    assert_eq!(claim(&db, "<a>", one).await, As2Claim::Claimed(one));
    assert_eq!(claim(&db, "<b>", other).await, As2Claim::Ours);
    // Only who has it gives it back.
    db.give_back_as2_message(&key("<a>"), other.start).await.unwrap();
    assert_eq!(claim(&db, "<a>", other).await, As2Claim::Claimed(one));
    db.give_back_as2_message(&key("<a>"), one.start).await.unwrap();
    assert_eq!(claim(&db, "<a>", other).await, As2Claim::Ours);
    // A later start of a node ends the claims of its earlier ones, and of no other node.
    let later = publisher(node_id("n2"), 3);
    assert_eq!(claim(&db, "<c>", one).await, As2Claim::Ours);
    assert_eq!(db.end_earlier_as2_claims(later).await.unwrap(), 2);
    assert_eq!(claim(&db, "<a>", later).await, As2Claim::Ours);
    assert_eq!(claim(&db, "<c>", later).await, As2Claim::Claimed(one));
}

async fn a_message_is_received_once_its_event_is_projected(db: Db) {
    let env = Env::simulated(3);
    let (node, by) = (name("n1"), publisher(node_id("n1"), 1));
    assert_eq!(claim(&db, "<a>", by).await, As2Claim::Ours);
    // The second one was claimed by nobody, as after the loss of a database.
    let events = journal(vec![received(&env, "<a>"), received(&env, "<b>")]);
    let mut again = events.clone();
    again.push((3, received(&env, "<b>")));
    for events in [&events, &again] {
        let projected = db.project(&piece(&node, events, &[])).await.unwrap();
        assert_eq!(projected, Projected::Kept);
    }
    let later = publisher(node_id("n2"), 9);
    for (id, at) in [("<a>", 0), ("<b>", 1)] {
        assert_eq!(claim(&db, id, later).await, As2Claim::Received(events[at].1.id), "{id}");
    }
    db.give_back_as2_message(&key("<a>"), by.start).await.unwrap();
    let same_node = publisher(by.node, 4);
    assert_eq!(db.end_earlier_as2_claims(same_node).await.unwrap(), 0);
    assert_eq!(claim(&db, "<a>", later).await, As2Claim::Received(events[0].1.id));
    // What is old is forgotten, but never what is still claimed.
    assert_eq!(claim(&db, "<c>", by).await, As2Claim::Ours);
    let until = env.now().plus(std::time::Duration::from_secs(1));
    assert_eq!(db.forget_as2_messages(until).await.unwrap(), 2);
    assert_eq!(claim(&db, "<b>", later).await, As2Claim::Ours);
    assert_eq!(claim(&db, "<c>", later).await, As2Claim::Claimed(by));
}

fn asked_for_at(url: &str, id: &str) -> As2Message {
    let receipt = As2Receipt {
        message_id: format!("<receipt-{}", id.trim_start_matches('<')),
        content_type: "multipart/report".to_owned(),
        body: "YQ==".to_owned(),
        url: Some(url.to_owned()),
        head: None,
        certificate: None,
    };
    As2Message { receipt: Some(Box::new(receipt)), ..message(id) }
}

fn told(env: &Env, message: As2Message, fact: fn(FileFact) -> Fact) -> Event {
    let mut file = file(env, env.new_id(), "/in/order");
    file.as2 = Some(Box::new(message));
    event(env, fact(file))
}

fn held(file: FileFact) -> Fact {
    let (prefix, stored) = (String::new(), "in/order".to_owned());
    Fact::FileHeld { held: HeldFact { file, endpoint: name("e"), prefix, stored } }
}

async fn a_receipt_that_goes_elsewhere_is_sent_by_one_until_it_is_done(db: Db) {
    let env = Env::simulated(4);
    let node = name("n1");
    let there = |id: &str| asked_for_at("http://globex.example/mdn", id);
    let uploaded = |file| Fact::FileUploaded { file };
    let refusal = As2Refusal {
        partner: Some(name("globex")),
        from: "GLOBEX".to_owned(),
        to: "ACME".to_owned(),
        // A whole message came under this id, this one was changed on its way.
        message_id: Some("<b>".to_owned()),
        disposition: "processed/error: decryption-failed".to_owned(),
        address: "192.0.2.1".to_owned(),
        head: None,
        tls: None,
        receipt: there("<c>").receipt,
    };
    let events = journal(vec![
        told(&env, there("<a>"), held),
        told(&env, there("<b>"), uploaded),
        event(&env, Fact::As2Refused { refusal }),
        received(&env, "<d>"),
    ]);
    db.project(&piece(&node, &events, &[])).await.unwrap();
    let (now, second) = (env.now(), Duration::from_secs(1));
    assert_eq!(db.next_as2_receipt().await.unwrap(), Some(events[0].1.at));
    let taken = db.claim_as2_receipts(now, now.plus(second), 10).await.unwrap();
    let mut ids: Vec<&str> = taken.iter().map(|it| it.message_id.as_str()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["<a>", "<b>", "<b>"]);
    let first = taken.iter().find(|it| it.message_id == "<a>").unwrap();
    let wanted = As2QueuedReceipt {
        attempts: 1,
        ..As2QueuedReceipt::of_message(SiteId::MAIN, &there("<a>"), events[0].1.at).unwrap()
    };
    assert_eq!(first, &wanted);
    assert_eq!((first.sender.as_str(), first.receiver.as_str()), ("ACME", "GLOBEX"));
    // Nobody else has them before that time is over, nor where their partner is put off.
    assert_eq!(db.claim_as2_receipts(now, now.plus(second), 10).await.unwrap(), []);
    let later = now.plus(second * 60);
    db.put_off_as2_receipts(SiteId::MAIN, &name("globex"), later).await.unwrap();
    assert_eq!(db.next_as2_receipt().await.unwrap(), Some(later));
    db.end_as2_receipt("<receipt-a>").await.unwrap();
    db.end_as2_receipt("<receipt-c>").await.unwrap();
    // The message that was held is released: its receipt has been sent.
    let (_, first_event) = &events[0];
    let Fact::FileHeld { held } = &first_event.fact else { panic!() };
    let released = event(&env, Fact::FileUploaded { file: held.file.clone() });
    let more = vec![(5, released), (6, events[1].1.clone())];
    db.project(&piece(&node, &more, &[])).await.unwrap();
    let left = db.claim_as2_receipts(later, later.plus(second), 10).await.unwrap();
    let [left] = &left[..] else { panic!("{left:?}") };
    assert_eq!((left.message_id.as_str(), left.attempts), ("<b>", 2));
    // A copy of the message that came again wants it once more.
    db.queue_as2_receipt(first).await.unwrap();
    db.queue_as2_receipt(first).await.unwrap();
    let again = db.claim_as2_receipts(later, later.plus(second), 10).await.unwrap();
    assert_eq!(again, [wanted]);
}

async fn it_is_known_who_has_sent_a_message(db: Db) {
    let (one, other) = (JobId(Uuid::from_u128(1)), JobId(Uuid::from_u128(2)));
    let partner = name("globex");
    let of = |message_id| As2SentMessage { site: SiteId::MAIN, partner: &partner, message_id };
    assert_eq!(db.sender_of_as2(&of("a")).await.unwrap(), None);
    db.as2_sent(&of("a"), one, Timestamp(5)).await.unwrap();
    db.as2_sent(&of("a"), one, Timestamp(9)).await.unwrap();
    db.as2_sent(&of("b"), other, Timestamp(5)).await.unwrap();
    assert_eq!(db.sender_of_as2(&of("a")).await.unwrap(), Some(one));
    assert_eq!(db.forget_as2_sent(Timestamp(6)).await.unwrap(), 1);
    assert_eq!(db.sender_of_as2(&of("b")).await.unwrap(), None);
    assert_eq!(db.sender_of_as2(&of("a")).await.unwrap(), Some(one));
    let stranger = name("initech");
    let theirs = As2SentMessage { site: SiteId::MAIN, partner: &stranger, message_id: "a" };
    assert_eq!(db.sender_of_as2(&theirs).await.unwrap(), None);
}

fn delivered(env: &Env, id: Uuid, message: As2Message) -> Event {
    let file = FileFact { as2: Some(Box::new(message)), ..file(env, TransferId(id), "order") };
    event(env, Fact::FileDelivered { file, endpoint: name("globex"), rule: name("orders") })
}

fn rejected(env: &Env, id: Uuid, message: As2Message) -> Event {
    let rejection = As2Rejection {
        transfer: TransferId(id),
        path: "order".to_owned(),
        size: 5,
        disposition: "processed/error: decryption-failed".to_owned(),
        message: Box::new(message),
        rule: name("orders"),
    };
    event(env, Fact::As2Rejected { rejection })
}

/// Message-ID and state of each message that passes, the newest first.
async fn listed(db: &Db, filter: As2Filter) -> Vec<(String, As2State)> {
    let found = db.as2_log(SiteId::MAIN, &filter).await.unwrap();
    found.into_iter().map(|entry| (entry.message_id.unwrap_or_default(), entry.state)).collect()
}

/// The Message-IDs, a page of one after the other.
async fn paged(db: &Db) -> Vec<String> {
    let mut page = As2Filter { limit: 1, ..As2Filter::default() };
    let mut found = Vec::new();
    while let Some(entry) = db.as2_log(SiteId::MAIN, &page).await.unwrap().pop() {
        page.after = Some(RowPosition { at: entry.at, id: entry.id });
        found.push(entry.message_id.unwrap());
    }
    found
}

/// A message of ours, before it leaves.
fn leaving(at: u128, id: &str, now: Timestamp) -> As2Entry {
    As2Entry {
        id: Uuid::from_u128(at),
        at: now,
        direction: Direction::Out,
        state: As2State::Awaiting,
        partner: Some(name("globex")),
        from: "ACME".to_owned(),
        to: "GLOBEX".to_owned(),
        message_id: Some(id.to_owned()),
        about: Some("order".to_owned()),
        event: None,
        job: Some(JobId(Uuid::from_u128(9))),
    }
}

async fn messages_of_both_directions_are_listed_by_what_became_of_them(db: Db) {
    let env = Env::simulated(5);
    let node = name("n1");
    let leaves = |at: u128, id: &str| leaving(at, id, env.now());
    for (at, id) in [(1, "<s1>"), (2, "<s2>")] {
        db.as2_leaves(SiteId::MAIN, &leaves(at, id)).await.unwrap();
    }
    // Nobody waits for these receipts: there is no such job.
    let all = listed(&db, As2Filter::default()).await;
    let unconfirmed = As2State::Unconfirmed;
    assert_eq!(all, [("<s2>".to_owned(), unconfirmed), ("<s1>".to_owned(), unconfirmed)]);
    let (one, two) = (Uuid::from_u128(1), Uuid::from_u128(2));
    let mut events = Vec::new();
    let mut tell = |event: Event| {
        events.push(event);
        env.advance(Duration::from_secs(1));
    };
    tell(told(&env, message("<r1>"), held));
    tell(rejected(&env, one, message("<s1>")));
    tell(delivered(&env, one, message("<s1>")));
    // Late, of an attempt before.
    tell(rejected(&env, one, message("<s1>")));
    tell(rejected(&env, two, message("<s2>")));
    let events = journal(events);
    for _ in 0..2 {
        let projected = db.project(&piece(&node, &events, &[])).await.unwrap();
        assert_eq!(projected, Projected::Kept);
    }
    let all = listed(&db, As2Filter::default()).await;
    let (s1, s2, r1) = ("<s1>".to_owned(), "<s2>".to_owned(), "<r1>".to_owned());
    let (r, d, j) = (As2State::Received, As2State::Delivered, As2State::Rejected);
    assert_eq!(all, [(s2.clone(), j), (s1.clone(), d), (r1.clone(), r)]);
    let of = |state| As2Filter { state: Some(state), ..As2Filter::default() };
    assert_eq!(listed(&db, of(As2State::Delivered)).await, [(s1.clone(), d)]);
    let named = |text: &str| As2Filter {
        message: Some(As2MessageName::from(text.to_owned())),
        ..As2Filter::default()
    };
    for text in ["s2", "<s2>", &two.to_string()] {
        assert_eq!(listed(&db, named(text)).await, [(s2.clone(), j)], "{text}");
    }
    let incoming = As2Filter { direction: Some(Direction::In), ..As2Filter::default() };
    assert_eq!(listed(&db, incoming).await, [(r1.clone(), r)]);
    let partner = |text: &str| As2Filter { partner: Some(name(text)), ..As2Filter::default() };
    assert_eq!(listed(&db, partner("globex")).await.len(), 3);
    assert_eq!(listed(&db, partner("initech")).await, []);
    assert_eq!(paged(&db).await, [s2, s1, r1]);
    // It is sent once more after that.
    db.as2_leaves(SiteId::MAIN, &leaves(2, "<s2>")).await.unwrap();
    db.as2_leaves(SiteId::MAIN, &leaves(1, "<s1>")).await.unwrap();
    let states = listed(&db, As2Filter::default()).await;
    assert_eq!(states.iter().filter(|(_, state)| *state == unconfirmed).count(), 1);
    // With the events that tell of them, messages go.
    let range = EventRange { site: SiteId::MAIN, node: &node, after: 0, up_to: 99 };
    while db.delete_events(range, 2).await.unwrap() > 0 {}
    assert_eq!(listed(&db, As2Filter::default()).await, [("<s2>".to_owned(), unconfirmed)]);
    let later = env.now().plus(Duration::from_secs(1));
    assert_eq!(db.forget_as2_log(later).await.unwrap(), 1);
}

both!(
    messages_of_both_directions_are_listed_by_what_became_of_them,
    a_receipt_that_goes_elsewhere_is_sent_by_one_until_it_is_done,
    it_is_known_who_has_sent_a_message,
    an_id_is_had_by_one_until_it_is_given_back,
    a_message_is_received_once_its_event_is_projected,
);
