use entrepot_nouns::Protocol;
use entrepot_nouns::http::{HttpOptions, HttpService};

use super::client::basic;
use super::fixture::Node;

const SESSION: &str = "GET /api/v1/session";

#[tokio::test]
async fn clear_text_can_send_everybody_to_https() {
    let options = HttpOptions { redirect_to_https: Some(8443), ..HttpOptions::default() };
    let node = Node::start_with(Protocol::Http, options).await;
    let mut client = node.connect().await;
    let answer = client.request("GET /files/a%20b?c=d", &basic("anna")).await;
    assert_eq!(answer.status, 308);
    assert_eq!(answer.field("location"), "https://localhost:8443/files/a%20b?c=d");
    assert!(node.world.vfs.sessions().is_empty(), "the password was read");
}

#[tokio::test]
async fn a_listener_serves_what_it_names() {
    let options = HttpOptions { serve: vec![HttpService::Files], ..HttpOptions::default() };
    let node = Node::start_with(Protocol::Http, options).await;
    let mut client = node.connect().await;
    let answer = client.request(SESSION, &basic("anna")).await;
    assert_eq!((answer.status, answer.code().as_str()), (404, "EP1011"));
    let page = client.request("GET /docs/errors/EP1011", "").await;
    assert!(page.text().starts_with("# EP1011: "), "{page:?}");
    assert_eq!(client.request("GET /docs/errors/..%2f..%2fx", "").await.status, 404);
    assert_eq!(client.request("POST /docs/errors/EP1011", "").await.status, 405);
}

#[tokio::test]
async fn a_head_that_comes_slowly_is_not_waited_for() {
    let node = Node::start_limited(|limits| limits.header_seconds = 1).await;
    let mut client = node.connect().await;
    client.send("GET / HTTP/1.1\r\nHost: loc").await;
    assert_eq!(client.rest().await, "");
}

#[tokio::test]
async fn an_idle_connection_is_closed_and_one_request_too_many_is_the_last() {
    let node = Node::start_limited(|limits| {
        limits.idle_seconds = 1;
        limits.connection_requests = 2;
    })
    .await;
    let mut client = node.connect().await;
    assert_eq!(client.request(SESSION, &basic("anna")).await.status, 200);
    assert_eq!(client.rest().await, "", "it is idle");
    let mut client = node.connect().await;
    assert_eq!(client.request(SESSION, &basic("anna")).await.status, 200);
    let last = client.request(SESSION, &basic("anna")).await;
    assert_eq!((last.status, last.field("connection")), (200, "close"));
    assert_eq!(client.rest().await, "");
}

#[tokio::test]
async fn what_two_readers_could_understand_differently_is_refused() {
    let node = Node::start().await;
    for head in [
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Content-Length: 5, 6\r\n",
        "Content-Length: +5\r\n",
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding : chunked\r\n",
        " folded: a\r\n",
    ] {
        let mut client = node.connect().await;
        let lines = format!("POST /api/v1/session HTTP/1.1\r\nHost: localhost\r\n{head}\r\n");
        client
            .send(format!("{lines}0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"))
            .await;
        let rest = client.rest().await;
        assert!(rest.starts_with("HTTP/1.1 400"), "{head:?}: {rest}");
        assert_eq!(rest.matches("HTTP/1.1").count(), 1, "{head:?}: {rest}");
    }
    // Both lengths at once: the chunks count (RFC 9112 §6.1), and nothing behind them does.
    let mut client = node.connect().await;
    let both = "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n";
    let head = format!("POST /api/v1/session HTTP/1.1\r\nHost: localhost\r\n{both}\r\n");
    client.send(format!("{head}0\r\n\r\nGET / HTTP/1.1\r\nHost: localhost\r\n\r\n")).await;
    let rest = client.rest().await;
    assert!(rest.starts_with("HTTP/1.1 405"), "{rest}");
    assert_eq!(rest.matches("HTTP/1.1 ").count(), 1, "{rest}");
}

#[tokio::test]
async fn pages_of_other_sites_and_hosts_of_nobody_get_nothing() {
    let node = Node::start().await;
    let mut client = node.connect().await;
    let evil = format!("{}Sec-Fetch-Site: cross-site\r\n", basic("anna"));
    let answer = client.request("DELETE /api/v1/session", &evil).await;
    assert_eq!((answer.status, answer.code().as_str()), (403, "EP1005"));
    let packed = format!("{}Content-Encoding: gzip\r\n", basic("anna"));
    let answer = client.request("POST /api/v1/session", &packed).await;
    assert_eq!((answer.status, answer.code().as_str()), (415, "EP1008"));
    client.send("GET /api/v1/session HTTP/1.1\r\n\r\n").await;
    assert_eq!(client.answer().await.code(), "EP1013");
}
