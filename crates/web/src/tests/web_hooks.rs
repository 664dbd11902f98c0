//! Web hooks that start rules: what their senders are told.

use entrepot_nouns::{Key, KeyType, Rule, Secret, SiteId};
use entrepot_world::name;
use serde_json::json;

use super::client::Answer;
use super::fixture::Node;

const SECRET: &str = "0123456789abcdef0123456789";

async fn node() -> Node {
    let node = Node::start().await;
    let mut key = Key::new(name("shop"), KeyType::WebHook, String::new());
    key.private = Some(Secret::new(SECRET));
    let hook = json!({"scheme": "bearer", "keys": ["shop"], "limit_bytes": 100, "per_minute": 2});
    let rule: Rule = serde_json::from_value(json!({
        "name": "orders",
        "when": {"hook": hook},
        "do": [{"exec": {"argv": ["/bin/true"]}}],
    }))
    .unwrap();
    for noun in [key.into(), rule.into()] {
        let noun = Box::new(noun);
        node.ask(SiteId::MAIN, entrepot_admin::Request::Create { noun }).await;
    }
    node
}

async fn post(node: &Node, path: &str, secret: &str, body: &str) -> Answer {
    let fields = format!("Authorization: Bearer {secret}\r\n");
    node.connect().await.upload(&format!("POST {path}"), &fields, body.as_bytes()).await
}

fn refusal(answer: &Answer) -> (u16, String) {
    (answer.status, answer.code())
}

#[tokio::test]
async fn a_sender_is_told_the_event_or_why_there_is_none() {
    let node = node().await;
    let path = "/hooks/orders";
    let taken = post(&node, path, SECRET, r#"{"id": 1}"#).await;
    assert_eq!(taken.status, 202, "{taken:?}");
    let event = taken.json()["event"].as_str().unwrap().to_owned();
    let appended = node.world.bed.journal.usage().appended;
    let again = post(&node, path, SECRET, r#"{"id": 1}"#).await;
    assert_eq!((again.status, again.json()["event"].as_str()), (202, Some(event.as_str())));
    assert_eq!(node.world.bed.journal.usage().appended, appended, "a repeat was recorded");
    let limited = post(&node, path, SECRET, r#"{"id": 2}"#).await;
    assert_eq!(refusal(&limited), (429, "EP0849".to_owned()));
    let wait: u64 = limited.field("retry-after").parse().unwrap();
    assert!((1..=61).contains(&wait), "{wait}");
    let nobody = node.connect().await.upload(&format!("POST {path}"), "", b"{}").await;
    let forged = post(&node, path, "another secret of nobody", "{}").await;
    for answer in [&nobody, &forged] {
        assert_eq!(refusal(answer), (401, "EP0845".to_owned()));
        assert!(!answer.field("www-authenticate").contains("Basic"), "{answer:?}");
    }
    assert_eq!(nobody.json()["detail"], forged.json()["detail"]);
    let huge = format!("\"{}\"", "x".repeat(99));
    assert_eq!(refusal(&post(&node, path, SECRET, &huge).await), (413, "EP0847".to_owned()));
    for unknown in ["/hooks/nothing", "/hooks/UPPER%20case"] {
        let answer = post(&node, unknown, SECRET, "{}").await;
        assert_eq!(refusal(&answer), (404, "EP0846".to_owned()));
    }
    let mut client = node.connect().await;
    assert_eq!(refusal(&client.request("GET /hooks/orders", "").await), (405, "EP1012".to_owned()));
}

#[tokio::test]
async fn what_is_no_json_is_refused_and_a_listener_may_serve_none() {
    let node = node().await;
    let answer = post(&node, "/hooks/orders", SECRET, "{\"id\":").await;
    assert_eq!(refusal(&answer), (400, "EP0848".to_owned()));
    let only_files = serde_json::from_value(json!({"serve": ["files"]})).unwrap();
    let other = Node::start_with(entrepot_nouns::Protocol::Http, only_files).await;
    let answer = post(&other, "/hooks/orders", SECRET, "{}").await;
    assert_eq!(refusal(&answer), (404, "EP1011".to_owned()));
}
