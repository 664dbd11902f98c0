use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use entrepot_net::tls::{LoadClient, TlsVersion};
use entrepot_nouns::Protocol;
use entrepot_nouns::http::{HttpOptions, HttpService};
use hyper::Request;
use hyper::body::{Body, Frame};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::client::basic;
use super::fixture::Node;

/// A part of a body.
const PIECE: &[u8] = &[b'x'; 64 << 10];
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

/// The body of a request, which tells how much of it was taken.
struct Told {
    left: usize,
    ended: Option<oneshot::Sender<()>>,
}

impl Body for Told {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(left) = self.left.checked_sub(PIECE.len()) else {
            let _ = self.ended.take().map(|ended| ended.send(()));
            return Poll::Ready(None);
        };
        self.left = left;
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(PIECE)))))
    }
}

/// Some clients of HTTP/2 lose an answer that comes together with the reset of its stream.
#[tokio::test]
async fn the_rest_of_a_refused_body_is_read_in_http2() {
    let mut options = HttpOptions::default();
    options.limits.api_body_bytes = 100;
    let node = Node::start_with(Protocol::Https, options).await;
    let client = LoadClient::unverified("localhost", TlsVersion::Tls13).unwrap().speaking(&[b"h2"]);
    let stream = TcpStream::connect(node.address).await.unwrap();
    let (stream, _) = client.connect(stream).await.unwrap();
    let (mut requests, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    let connection = tokio::spawn(connection);
    let (sender, ended) = oneshot::channel();
    let request = Request::post("https://localhost/api/v1/accounts")
        .header("authorization", basic("admin").trim_start_matches("Authorization: ").trim())
        .header("content-type", "application/json")
        .body(Told { left: 15 << 20, ended: Some(sender) })
        .unwrap();
    let answer = requests.send_request(request).await.unwrap();
    assert_eq!(answer.status(), 413);
    timeout(Duration::from_secs(20), ended).await.unwrap().expect("it was cut");
    drop((requests, answer));
    connection.await.unwrap().unwrap();
}
