use entrepot_nouns::{AuthMethod, Event, Fact, LoginProtocol};
use entrepot_world::World;

use super::client::{basic, basic_with};
use super::fixture::Node;

const SESSION: &str = "GET /api/v1/session";

#[tokio::test]
async fn a_request_is_from_an_account_or_is_told_to_sign_in() {
    let node = Node::start_tls().await;
    let mut client = node.connect_tls().await;
    let answer = client.request(SESSION, "").await;
    assert_eq!((answer.status, answer.code().as_str()), (401, "EP1000"));
    assert!(answer.field("www-authenticate").starts_with("Basic "), "{answer:?}");
    let answer = client.request(SESSION, &basic_with("anna", "wrong")).await;
    assert_eq!((answer.status, answer.code().as_str()), (401, "EP1001"));
    let answer = client.request(SESSION, &basic("anna")).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.json()["account"], "anna");
    assert_eq!(answer.field("x-content-type-options"), "nosniff");
    assert!(answer.field("strict-transport-security").starts_with("max-age="));
    // What HTTPS serves has no other credentials than those of the request.
    assert_eq!(client.request(SESSION, "").await.status, 401);
}

#[tokio::test]
async fn a_password_is_compared_once_and_its_session_is_one_of_the_node() {
    let node = Node::start().await;
    let before = node.world.gate.hashes();
    let mut ids = Vec::new();
    for _ in 0..3 {
        let mut client = node.connect().await;
        for _ in 0..2 {
            let answer = client.request(SESSION, &basic("anna")).await;
            ids.push(answer.json()["id"].as_str().unwrap().to_owned());
        }
    }
    assert_eq!(node.world.gate.hashes() - before, 1);
    ids.dedup();
    let sessions = node.world.vfs.sessions();
    assert_eq!((sessions.len(), ids), (1, vec![sessions[0].id.to_string()]));
    assert_eq!(sessions[0].protocol.as_str(), "http");
    // Another password is another matter.
    let mut client = node.connect().await;
    assert_eq!(client.request(SESSION, &basic_with("anna", "x")).await.status, 401);
    // An administrator ends it: the next request begins a new one.
    assert!(node.world.vfs.end_session(sessions[0].id, "enough"));
    let answer = client.request(SESSION, &basic("anna")).await;
    assert_ne!(answer.json()["id"], sessions[0].id.to_string());
    let world = node.stop().await;
    assert!(world.vfs.sessions().is_empty());
    let reasons = closed(&world).await;
    assert_eq!(reasons, ["enough", "the server is stopping"]);
}

async fn closed(world: &World) -> Vec<String> {
    let reason = |event: Event| match event.fact {
        Fact::SessionClosed { reason, .. } => Some(reason),
        _ => None,
    };
    world.events().await.into_iter().filter_map(reason).collect()
}

#[tokio::test]
async fn requests_beside_each_other_share_a_sign_in() {
    let node = Node::start().await;
    let before = node.world.gate.hashes();
    let ask = async || {
        let mut client = node.connect().await;
        client.request(SESSION, &basic("anna")).await.status
    };
    let answers = tokio::join!(ask(), ask(), ask(), ask());
    assert_eq!(answers, (200, 200, 200, 200));
    assert_eq!(node.world.gate.hashes() - before, 1);
    assert_eq!(node.world.vfs.sessions().len(), 1);
}

#[tokio::test]
async fn an_account_that_changes_is_asked_anew() {
    let node = Node::start().await;
    let mut client = node.connect().await;
    assert_eq!(client.request(SESSION, &basic("anna")).await.status, 200);
    node.world.account("anna", |account| account.enabled = false).await;
    let answer = client.request(SESSION, &basic("anna")).await;
    assert_eq!((answer.status, answer.code().as_str()), (401, "EP1001"));
}

#[tokio::test]
async fn accounts_that_may_not_come_by_https_are_refused() {
    let node = Node::start().await;
    let only = vec![LoginProtocol::Sftp];
    node.world.account("mule", |account| account.protocols = only).await;
    let mut client = node.connect().await;
    assert_eq!(client.request(SESSION, &basic("mule")).await.status, 401);
    let web = vec![LoginProtocol::Https];
    node.world.account("surfer", |account| account.protocols = web).await;
    assert_eq!(client.request(SESSION, &basic("surfer")).await.status, 200);
}

#[tokio::test]
async fn a_second_step_is_more_than_basic_can_ask_for() {
    let node = Node::start().await;
    let both = vec![vec![AuthMethod::Password, AuthMethod::Totp]];
    node.world.account("careful", |account| account.login = both).await;
    let mut client = node.connect().await;
    let answer = client.request(SESSION, &basic("careful")).await;
    assert_eq!((answer.status, answer.code().as_str()), (401, "EP1002"));
}

#[tokio::test]
async fn guessing_ends_the_connection() {
    let node = Node::start().await;
    let mut client = node.connect().await;
    for _ in 0..3 {
        let answer = client.request(SESSION, &basic_with("anna", "guess")).await;
        assert_eq!(answer.status, 401);
    }
    assert_eq!(client.rest().await, "", "the connection lives on");
}

#[tokio::test]
async fn who_is_no_administrator_sees_no_sessions_of_others() {
    let node = Node::start().await;
    let mut client = node.connect().await;
    let answer = client.request("GET /api/v1/sessions", &basic("anna")).await;
    assert_eq!((answer.status, answer.code().as_str()), (403, "EP0115"));
}
