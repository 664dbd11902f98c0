//! Rules that clients wait for, and the servers that such rules ask.

use std::net::SocketAddr;

use entrepot_nouns::noun::Noun as _;
use entrepot_nouns::{Endpoint, Rule};
use entrepot_vfs::{Hooks, RefusalClass};
use serde_json::{Value as Json, json};
use tokio::net::TcpListener;

use super::programs::before;
use super::talk::Server;
use super::world::World;

const GO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\n{\"wait\":false}";
const LATER: &str = "HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n{\"wait\":true}";
const NO: &str = "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n";
const BUSY: &str = "HTTP/1.1 503 Unavailable\r\nContent-Length: 0\r\n\r\n";

async fn put(world: &World, document: Json) {
    let rule: Rule = serde_json::from_value(document).unwrap();
    rule.check().unwrap();
    crate::check_rule(&rule).unwrap();
    world.put(&rule).await;
}

async fn web(world: &World, name: &str, port: u16) {
    let target = json!({"web": {"url": format!("http://127.0.0.1:{port}"), "allow_private": true}});
    let endpoint: Endpoint =
        serde_json::from_value(json!({"name": name, "target": target})).unwrap();
    world.put(&endpoint).await;
}

/// What a client is told, and the code that an author chose.
type Told = Option<(RefusalClass, Option<u16>)>;

async fn told(hooks: &Hooks, verb: &'static str, path: &str) -> Told {
    let refused = before(hooks, verb, path).await.err();
    refused.map(|refused| (refused.class, refused.ftp_code))
}

#[tokio::test]
async fn a_client_waits_for_what_a_server_says_of_its_command() {
    let mut world = World::new(760).await;
    let server = Server::start(&[GO, LATER, NO, BUSY, GO]).await;
    web(&world, "there", server.port).await;
    let nobody = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    web(&world, "away", nobody.local_addr().unwrap().port()).await;
    drop(nobody);
    let asks = json!({"endpoint": "there", "path": "/may?who={vars.who}&path={path}",
        "answer": "json"});
    let later =
        json!({"refuse": {"code": 450, "text": "Not now."}, "if": "steps.asked.answer.wait"});
    put(
        &world,
        json!({"name": "asks", "when": {"before": ["ftp DELE"]}, "do": [
            {"set": {"who": "command.ip", "inside": "command.path.startsWith('/in/')"}},
            {"if": {"when": "vars.inside", "then": [{"name": "asked", "http": asks}, later]}},
        ]}),
    )
    .await;
    let away = json!({"endpoint": "away"});
    let goes_on = json!([
        {"name": "asked", "http": away, "on_error": "continue"},
        {"refuse": {"code": 553, "text": "No."}, "if": "command.path == '/no'"},
        {"if": {"when": "steps.asked.state != 'ignored'", "then": [{"refuse": {"text": "?"}}]}},
    ]);
    for document in [
        json!({"name": "closed", "when": {"before": ["ftp MKD"]}, "do": [{"http": away}]}),
        json!({"name": "open", "when": {"before": ["ftp RMD"]}, "do": goes_on}),
    ] {
        put(&world, document).await;
    }
    let hooks = Hooks::new(world.recorder.clone());
    world.start();
    world.answer(hooks.clone());
    world.engine().ready().await;
    let denied = RefusalClass::Denied;
    for wanted in [
        None,
        Some((RefusalClass::NotNow, Some(450))),
        Some((denied, None)),
        Some((RefusalClass::RuleFailed, None)),
        None,
    ] {
        assert_eq!(told(&hooks, "DELE", "/in/a b").await, wanted);
    }
    assert_eq!(told(&hooks, "DELE", "/out/a").await, None);
    let asked = server.got();
    assert_eq!(asked.len(), 5, "the server is asked about what lies inside alone");
    assert!(asked[0].head.starts_with("POST /may?who=192.0.2.7&path=%2Fin%2Fa%20b HTTP/1.1\r\n"));
    let keys: Vec<_> = asked.iter().map(|it| it.field("idempotency-key").unwrap()).collect();
    assert!(keys.iter().all(|key| keys.iter().filter(|other| *other == key).count() == 1));

    assert_eq!(told(&hooks, "MKD", "/d").await, Some((RefusalClass::RuleFailed, None)));
    assert_eq!(told(&hooks, "RMD", "/d").await, None);
    assert_eq!(told(&hooks, "RMD", "/no").await, Some((denied, Some(553))));
    world.stop(std::time::Duration::from_secs(5)).await;
}
