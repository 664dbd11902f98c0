//! How many messages may be on their way, and how long one may take to be published.

use entrepot_vfs::RuleQuestion;
use tokio::sync::mpsc::Receiver;

use super::super::client::Answer;
use super::super::fixture::Node;
use super::super::{hooks, soon};
use super::partner::Partner;
use super::{PAYLOAD, outcome, received, refused};

/// Rules that are asked before messages, and answer when the test does: so long a message is
/// published.
fn held(node: &Node) -> Receiver<RuleQuestion> {
    let questions = node.world.vfs.hooks().attach().unwrap();
    hooks::look(node, "as2 write");
    questions
}

/// The next message is published; whoever is told of messages is satisfied.
async fn let_pass(questions: &mut Receiver<RuleQuestion>, mut asked: RuleQuestion, told: usize) {
    let _ = asked.answer.send(Ok(()));
    for _ in 0..told {
        asked = soon(questions.recv()).await.unwrap();
        let _ = asked.answer.send(Ok(()));
    }
}

fn is_refused(answer: &Answer, code: &str) {
    assert_eq!((answer.status, answer.code().as_str()), (503, code), "{answer:?}");
    assert!(!answer.field("retry-after").is_empty(), "{answer:?}");
}

#[tokio::test]
async fn messages_are_accepted_while_others_are_published_up_to_a_limit() {
    let node = Node::start_limited(|limits| {
        (limits.as2_messages, limits.as2_at_once) = (2, 1);
    })
    .await;
    let partner = Partner::agree(&node, |_| {}).await;
    let mut questions = held(&node);
    let [first, second, third] =
        ["<1@globex>", "<2@globex>", "<3@globex>"].map(|id| partner.message(id, PAYLOAD));
    let publishing = first.post(&node);
    tokio::pin!(publishing);
    let asked = tokio::select! {
        asked = soon(questions.recv()) => asked.unwrap(),
        answer = &mut publishing => panic!("{answer:?}"),
    };
    // One of the others is accepted and waits, the other one is not.
    let (mut second, mut third) = (Box::pin(second.post(&node)), Box::pin(third.post(&node)));
    let (refused_one, waiting) = soon(async {
        tokio::select! {
            answer = &mut second => (answer, third),
            answer = &mut third => (answer, second),
        }
    })
    .await;
    is_refused(&refused_one, "EP1224");
    assert!(questions.try_recv().is_err(), "two messages are published at a time");
    let_pass(&mut questions, asked, 1).await;
    assert_eq!(outcome(&partner, &soon(publishing).await), "processed");
    let asked = soon(questions.recv()).await.unwrap();
    let_pass(&mut questions, asked, 1).await;
    assert_eq!(outcome(&partner, &soon(waiting).await), "processed");
    assert_eq!(received(&node).await.len(), 2);
    assert_eq!(refused(&node).await, Vec::<String>::new(), "it was asked to come again");
    // There is room again.
    node.world.vfs.hooks().set(Vec::new());
    for id in ["<2@globex>", "<3@globex>"] {
        let again = partner.message(id, PAYLOAD);
        assert_eq!(outcome(&partner, &again.post(&node).await), "processed");
    }
    assert_eq!(received(&node).await.len(), 3);
}

#[tokio::test]
async fn a_message_that_is_not_published_in_time_is_told_and_may_come_again() {
    let node = Node::start_limited(|limits| {
        (limits.as2_at_once, limits.as2_seconds) = (1, 1);
    })
    .await;
    let partner = Partner::agree(&node, |_| {}).await;
    let mut questions = held(&node);
    let (first, second) = (partner.message("<1@globex>", PAYLOAD), {
        let mut second = partner.message("<2@globex>", PAYLOAD);
        second.plan.file_name = Some("second.edi".to_owned());
        second
    });
    // The first one is held while it is published.
    is_refused(&soon(first.post(&node)).await, "EP1225");
    let asked = soon(questions.recv()).await.unwrap();
    // The second one has no place.
    is_refused(&soon(second.post(&node)).await, "EP1225");
    let why = "not published within 1 s";
    assert_eq!(refused(&node).await, [why, why]);
    is_refused(&soon(first.post(&node)).await, "EP1225");
    assert_eq!(received(&node).await, []);
    // What has begun ends, and its sender gets the receipt of then. Nobody waits any more who
    // would tell rules of the message.
    let_pass(&mut questions, asked, 0).await;
    node.world.vfs.hooks().set(Vec::new());
    assert_eq!(outcome(&partner, &soon(first.post(&node)).await), "processed");
    assert_eq!(partner.names(&node).await, ["order.edi"]);
    assert_eq!(outcome(&partner, &soon(second.post(&node)).await), "processed");
    assert_eq!(partner.names(&node).await, ["order.edi", "second.edi"]);
    assert_eq!(received(&node).await.len(), 2);
}
