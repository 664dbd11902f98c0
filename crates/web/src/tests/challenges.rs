//! Authorities (ACME) that check names: what one node has asked for is answered by each.

use std::time::Duration;

use entrepot_db::AcmeAnswer;
use entrepot_net::tls::{LoadClient, TlsVersion};
use entrepot_nouns::Protocol;
use entrepot_nouns::acme::AcmeChallenge;
use entrepot_nouns::http::HttpOptions;
use tokio::net::TcpStream;

use super::fixture::Node;

const TOKEN: &str = "LoqXcYV8q5ONbJQxbmR7SCTNo3tiAXDfowyjxAjEuX0";
const FETCH: &str = "GET /.well-known/acme-challenge/";

/// As another node does that has asked for a certificate.
async fn asked_for(node: &Node) {
    let now = node.world.env.now();
    let answer = AcmeAnswer {
        token: TOKEN.to_owned(),
        name: "files.example".to_owned(),
        key_authorization: format!("{TOKEN}.thumb"),
        expires_at: now.plus(Duration::from_secs(60)),
    };
    node.world.bed.db.add_acme_answer(&answer).await.unwrap();
}

#[tokio::test]
async fn a_listener_that_sends_clients_to_https_answers_authorities() {
    let options = HttpOptions { redirect_to_https: Some(443), ..HttpOptions::default() };
    let node = Node::start_with(Protocol::Http, options).await;
    let mut client = node.connect().await;
    let unknown = client.request(&format!("{FETCH}{TOKEN}"), "").await;
    assert_eq!((unknown.status, unknown.code().as_str()), (404, "EP1011"));
    asked_for(&node).await;
    let answer = client.request(&format!("{FETCH}{TOKEN}"), "").await;
    assert_eq!((answer.status, answer.text()), (200, &*format!("{TOKEN}.thumb")));
    assert_eq!(answer.field("content-type"), "application/octet-stream");
    for other in ["", "a.b", "%2e%2e", "a/b"] {
        let elsewhere = client.request(&format!("{FETCH}{other}"), "").await;
        assert_eq!(elsewhere.status, 308, "{other}");
    }
}

/// The protocol that a client gets of those it offers, or why it gets none.
async fn speaks(node: &Node, protocols: &[&[u8]]) -> Result<Vec<u8>, String> {
    let client = LoadClient::unverified("files.example", TlsVersion::Tls13).unwrap();
    let stream = TcpStream::connect(node.address).await.unwrap();
    match client.speaking(protocols).connect(stream).await {
        Ok((stream, _)) => Ok(stream.get_ref().1.alpn_protocol().unwrap_or_default().to_vec()),
        Err(error) => Err(error.to_string()),
    }
}

/// True if a client that asks as an authority does is shown the certificate of a challenge, which
/// this client, being none, knows by its critical extension.
async fn is_answered(node: &Node) -> bool {
    let refused = speaks(node, &[b"acme-tls/1"]).await.unwrap_err();
    refused.contains("UnsupportedCriticalExtension")
}

#[tokio::test]
async fn a_listener_answers_authorities_under_tls_where_it_is_to() {
    let node = Node::start_challenged(AcmeChallenge::TlsAlpn01).await;
    assert!(!is_answered(&node).await, "nobody asked for it");
    asked_for(&node).await;
    assert!(is_answered(&node).await);
    assert_eq!(speaks(&node, &[b"h2", b"http/1.1"]).await, Ok(b"h2".to_vec()));
    let mut client = node.connect_tls().await;
    assert_eq!(client.request("GET /docs/errors/EP1131", "").await.status, 200);
    let node = Node::start_challenged(AcmeChallenge::Http01).await;
    asked_for(&node).await;
    assert!(!is_answered(&node).await);
}
