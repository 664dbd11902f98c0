//! API tokens as `Authorization: Bearer`.

use entrepot_nouns::{AccountType, Event, Fact, Key, Role, SiteId, TokenScope};
use entrepot_world::World;

use super::client::{Answer, basic, bearer};
use super::fixture::Node;

const SESSION: &str = "GET /api/v1/session";

fn outcome(answer: &Answer) -> (u16, String) {
    (answer.status, answer.code())
}

#[tokio::test]
async fn a_token_signs_its_account_in_with_the_rights_of_its_scopes() {
    let node = Node::start().await;
    let reading = bearer(&node.token("anna", &[TokenScope::FilesRead]).await);
    let writing = bearer(&node.token("anna", &[TokenScope::FilesWrite]).await);
    let mut client = node.connect().await;
    let answer = client.request(SESSION, &reading).await;
    assert_eq!((answer.status, answer.json()["account"].as_str()), (200, Some("anna")));
    for place in ["/files/a.txt", "/dav/b.txt"] {
        let denied = client.upload(&format!("PUT {place}"), &reading, b"x").await;
        assert_eq!(outcome(&denied), (403, "EP0402".to_owned()));
        assert!(denied.json()["detail"].as_str().unwrap().ends_with("files:read"), "{denied:?}");
        assert_eq!(client.upload(&format!("PUT {place}"), &writing, b"x").await.status, 201);
        let denied = client.request(&format!("GET {place}"), &writing).await;
        assert_eq!(outcome(&denied), (403, "EP0402".to_owned()));
        assert_eq!(client.request(&format!("GET {place}"), &reading).await.text(), "x");
    }
    // What a session of the same account may do by its password is not less for that.
    assert_eq!(client.request("DELETE /files/a.txt", &basic("anna")).await.status, 204);
}

#[tokio::test]
async fn scopes_hold_in_the_administration_beside_the_role() {
    let node = Node::start().await;
    let mut client = node.connect().await;
    let list = "GET /api/v1/accounts";
    let admin = |scopes: &'static [TokenScope]| node.token("admin", scopes);
    for (scopes, allowed) in [
        (&[TokenScope::FilesRead, TokenScope::FilesWrite][..], [403, 403, 403]),
        (&[TokenScope::AdminRead], [200, 403, 403]),
        (&[TokenScope::AuditRead], [403, 200, 403]),
        (&[TokenScope::AdminWrite], [403, 403, 204]),
        (&TokenScope::ALL, [200, 200, 204]),
    ] {
        node.world.account("victim", |_| {}).await;
        let token = bearer(&admin(scopes).await);
        let lines = [list, "GET /api/v1/events", "DELETE /api/v1/accounts/victim"];
        for (line, status) in lines.into_iter().zip(allowed) {
            let answer = client.request(line, &token).await;
            assert_eq!(answer.status, status, "{scopes:?} {line}: {answer:?}");
            if status == 403 {
                assert_eq!(answer.code(), "EP1040", "{line}");
            }
        }
    }
    // The role of the account still counts.
    let viewer = |account: &mut entrepot_nouns::Account| {
        account.account_type = AccountType::Admin;
        account.role = Some(Role::Viewer);
    };
    node.world.account("viewer", viewer).await;
    let token = bearer(&node.token("viewer", &TokenScope::ALL).await);
    assert_eq!(client.request(list, &token).await.status, 200);
    let denied = client.request("DELETE /api/v1/accounts/anna", &token).await;
    assert_eq!(outcome(&denied), (403, "EP1040".to_owned()));
    let token = bearer(&node.token("anna", &TokenScope::ALL).await);
    assert_eq!(outcome(&client.request(list, &token).await), (403, "EP0115".to_owned()));
}

#[tokio::test]
async fn a_token_counts_until_it_ends_and_not_elsewhere() {
    let node = Node::start().await;
    let token = node.token("anna", &[TokenScope::FilesRead]).await;
    let mut client = node.connect().await;
    assert_eq!(client.request(SESSION, &bearer(&token)).await.status, 200);
    let none = client.request(SESSION, "").await;
    let challenges = none.fields("www-authenticate");
    assert!(challenges[0].starts_with("Basic ") && challenges[1].starts_with("Bearer "));
    let stored = node.world.bed.db.list::<Key>(SiteId::MAIN).await.unwrap();
    let mut key = stored[0].noun.clone();
    key.enabled = false;
    node.world.put(&key).await;
    let answer = client.request(SESSION, &bearer(&token)).await;
    assert_eq!(outcome(&answer), (401, "EP1016".to_owned()));
    assert!(answer.field("www-authenticate").contains("invalid_token"), "{answer:?}");
    let detail = answer.json()["detail"].clone();
    key.enabled = true;
    key.from = vec!["192.0.2.0/24".parse().unwrap()];
    node.world.put(&key).await;
    let mut client = node.connect().await;
    for wrong in [token.clone(), "ept_forged".to_owned()] {
        let answer = client.request(SESSION, &bearer(&wrong)).await;
        assert_eq!(outcome(&answer), (401, "EP1016".to_owned()));
        assert_eq!(answer.json()["detail"], detail, "it says which it is");
    }
    let world = node.stop().await;
    assert!(refusals(&world).await.contains(&"the API token was revoked".to_owned()));
}

async fn refusals(world: &World) -> Vec<String> {
    let refused = |event: Event| match event.fact {
        Fact::LoginRefused { reason, .. } => Some(reason),
        _ => None,
    };
    world.events().await.into_iter().filter_map(refused).collect()
}

#[tokio::test]
async fn requests_of_a_session_are_uses_of_its_token() {
    let node = Node::start().await;
    let token = node.token("anna", &[TokenScope::FilesRead]).await;
    let mut client = node.connect().await;
    let mut seen = Vec::new();
    for _ in 0..2 {
        assert_eq!(client.request(SESSION, &bearer(&token)).await.status, 200);
        node.world.gate.write_token_uses().await.unwrap();
        let uses = node.world.bed.db.api_tokens(SiteId::MAIN).await.unwrap();
        seen.push(uses[0].used_at.unwrap());
    }
    assert!(seen[0] < seen[1], "only the sign-in counts: {seen:?}");
    assert_eq!(node.world.vfs.sessions().len(), 1);
}
