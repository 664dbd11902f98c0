//! The ids of messages of AS2: each is had by one, until it is known what became of the message.

use entrepot_nouns::event::As2Message;
use entrepot_nouns::{Env, Event, Fact, NodeId, SiteId, Timestamp};
use uuid::Uuid;

use super::{both, event, file, journal, name, node_id, piece};
use crate::{As2Claim, As2MessageKey, As2Publisher, Db, Projected};

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
        cipher: None,
        compressed: false,
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

both!(
    an_id_is_had_by_one_until_it_is_given_back,
    a_message_is_received_once_its_event_is_projected,
);
