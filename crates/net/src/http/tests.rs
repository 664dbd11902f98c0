//! The client against servers of this machine: one that speaks HTTP well (hyper), and ones that
//! answer with given bytes.

use entrepot_nouns::Env;
use http_body_util::Full;
use hyper::service::service_fn;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::mpsc;

use super::*;
use crate::tls::{ClientCertificates, SelfSigned, TlsConfig, TlsOptions, TlsVersion, self_signed};

const LOCAL: DialPolicy = DialPolicy { allow_private: true };

/// What a server got: method, path, host, connection, media type and body.
type Got = (String, String, String, String, String, Vec<u8>);

/// Serves one connection: answers 202 with the body of the request.
async fn echo<S>(stream: S, got: mpsc::Sender<Got>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let got = got.clone();
        async move {
            let (head, body) = request.into_parts();
            let field = |name: HeaderName| {
                let value = head.headers.get(name).map(|value| value.to_str().unwrap().to_owned());
                value.unwrap_or_default()
            };
            let Ok(body) = body.collect().await else {
                return Err(std::io::Error::other("cut off"));
            };
            let body = body.to_bytes();
            let one = (
                head.method.to_string(),
                head.uri.to_string(),
                field(header::HOST),
                field(header::CONNECTION),
                field(header::CONTENT_TYPE),
                body.to_vec(),
            );
            got.send(one).await.unwrap();
            let mut answer = hyper::Response::new(Full::new(body));
            *answer.status_mut() = StatusCode::ACCEPTED;
            answer.headers_mut().insert("x-server", HeaderValue::from_static("echo"));
            Ok(answer)
        }
    });
    // A client that has its response may go.
    let served = hyper::server::conn::http1::Builder::new();
    let _ = served.serve_connection(TokioIo::new(stream), service).await;
}

async fn listen() -> (TcpListener, u16) {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

fn get(url: &str) -> Request {
    let mut request = Request::new(Method::GET, url).unwrap();
    request.dial = LOCAL;
    request
}

fn json(url: &str) -> Request {
    let request = Request { dial: LOCAL, ..Request::new(Method::POST, url).unwrap() };
    request.content(HeaderValue::from_static("application/json"), Bytes::from_static(b"{}"))
}

fn client() -> Client {
    Client::new(ServerTrust::System)
}

/// A server that takes the head of a request and then answers with these bytes, and keeps the
/// connection until the client closes it.
async fn answers(bytes: impl Into<Vec<u8>>) -> String {
    let (listener, port) = listen().await;
    let bytes = bytes.into();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        // A client that refuses what it reads closes before the end.
        let _ = stream.write_all(&bytes).await;
        let _ = stream.read(&mut [0]).await;
    });
    format!("http://127.0.0.1:{port}/")
}

async fn answered(bytes: impl Into<Vec<u8>>) -> Result<(StatusCode, Bytes), HttpError> {
    let mut request = get(&answers(bytes).await);
    request.body_time = Duration::from_millis(100);
    let response = client().send(request).await?;
    Ok((response.status, response.body.read_all(10).await?))
}

#[tokio::test]
async fn a_request_arrives_as_it_is_and_its_response_comes_back() {
    let (listener, port) = listen().await;
    let (got, mut received) = mpsc::channel(1);
    let serving = tokio::spawn(async move { echo(listener.accept().await.unwrap().0, got).await });
    let mut request = json(&format!("http://localhost:{port}/check?a=b#part"));
    // What decides where a message ends is never the caller's.
    request.headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("1"));
    let response = client().send(request).await.unwrap();
    assert_eq!(response.status, StatusCode::ACCEPTED);
    assert_eq!(response.headers["x-server"], "echo");
    assert_eq!(response.body.read_all(2).await.unwrap(), &b"{}"[..]);
    let of = |text: &str| text.to_owned();
    let host = format!("localhost:{port}");
    let expected = (of("POST"), of("/check?a=b"), host, of("close"), of("application/json"));
    let (method, path, host, connection, media_type, body) = received.recv().await.unwrap();
    assert_eq!((method, path, host, connection, media_type), expected);
    assert_eq!(body, b"{}");
    serving.await.unwrap();
}

#[tokio::test]
async fn a_request_without_content_says_so_where_content_is_usual() {
    for (method, length) in [
        (Method::POST, Some("0")),
        (Method::PUT, Some("0")),
        (Method::PATCH, Some("0")),
        (Method::GET, None),
        (Method::HEAD, None),
        (Method::DELETE, None),
    ] {
        let (listener, port) = listen().await;
        let url = format!("http://127.0.0.1:{port}/");
        let request = Request { dial: LOCAL, ..Request::new(method.clone(), &url).unwrap() };
        let sending = tokio::spawn(async move { client().send(request).await.map(drop) });
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap().to_lowercase();
        let said = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        assert_eq!(said, length, "{method}");
        stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
        sending.await.unwrap().unwrap();
    }
}

fn tls_server() -> (TlsConfig, SelfSigned) {
    let own = self_signed(vec!["localhost".to_owned()]).unwrap();
    let options = TlsOptions {
        chain: own.chain.clone().into_bytes(),
        key: own.key.clone(),
        clients: ClientCertificates::Off,
        least: TlsVersion::Tls12,
    };
    (TlsConfig::new(&options, &Env::real()).unwrap(), own)
}

#[tokio::test]
async fn https_reaches_only_the_server_that_is_trusted_under_its_name() {
    let (config, own) = tls_server();
    let other = self_signed(vec!["localhost".to_owned()]).unwrap();
    let (listener, port) = listen().await;
    let (got, mut received) = mpsc::channel(8);
    let serving = tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            // A client that does not trust it ends the handshake.
            if let Ok(stream) = config.session().accept_control(stream).await {
                echo(stream, got.clone()).await;
            }
        }
    });
    let authorities = |chain: &str| ServerTrust::Authorities(chain.as_bytes().to_vec());
    let trusting = Client::new(authorities(&own.chain));
    for (client, host, code) in [
        (trusting.clone(), "localhost", None),
        (trusting.clone(), "127.0.0.1", Some("EP0247")),
        (trusting, "localhost", None),
        (Client::new(authorities(&other.chain)), "localhost", Some("EP0247")),
        (Client::new(ServerTrust::Pinned(vec![own.chain])), "127.0.0.1", None),
        (Client::new(authorities("")), "localhost", Some("EP0245")),
    ] {
        let sent = client.send(json(&format!("https://{host}:{port}/x"))).await;
        match (sent, code) {
            (Ok(response), None) => {
                assert_eq!(response.body.read_all(2).await.unwrap(), &b"{}"[..]);
                assert_eq!(received.recv().await.unwrap().5, b"{}");
            }
            (Err(error), Some(code)) => assert_eq!(error.code(), code, "{host}: {error}"),
            (sent, code) => panic!("{host}: {sent:?}, not {code:?}"),
        }
    }
    assert!(received.try_recv().is_err(), "a server that is not trusted got a request");
    serving.abort();
}

#[tokio::test]
async fn private_addresses_are_dialled_only_where_the_request_allows_it() {
    let (listener, port) = listen().await;
    for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]"] {
        let request = Request::new(Method::GET, &format!("http://{host}:{port}/")).unwrap();
        assert_eq!(client().send(request).await.unwrap_err().code(), "EP0221", "{host}");
    }
    drop(listener);
    let gone = client().send(get(&format!("http://127.0.0.1:{port}/"))).await.unwrap_err();
    assert_eq!((gone.code(), gone.is_temporary()), ("EP0223", true));
}

#[tokio::test]
async fn clear_text_that_is_for_this_machine_goes_to_its_own_addresses_alone() {
    for (peer, is_here) in [
        ("127.0.0.1:80", true),
        ("127.9.9.9:80", true),
        ("[::1]:80", true),
        ("[::ffff:127.0.0.1]:80", true),
        ("192.0.2.1:80", false),
        ("10.0.0.1:80", false),
        ("[2001:db8::1]:80", false),
    ] {
        let peer = peer.parse().unwrap();
        assert_eq!(ClearText::ThisMachine.allows(peer), is_here, "{peer}");
        assert!(ClearText::Anywhere.allows(peer));
    }
    let url = answers("HTTP/1.1 204 No Content\r\n\r\n").await;
    let request = Request { clear_text: ClearText::ThisMachine, ..get(&url) };
    assert_eq!(client().send(request).await.unwrap().status, StatusCode::NO_CONTENT);
}

#[tokio::test]
async fn a_response_is_whole_or_an_error() {
    let ok = answered("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789").await.unwrap();
    assert_eq!(ok, (StatusCode::OK, Bytes::from_static(b"0123456789")));
    let chunked = "HTTP/1.1 500 Oh\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    let ok = answered(chunked).await.unwrap();
    assert_eq!(ok, (StatusCode::INTERNAL_SERVER_ERROR, Bytes::from_static(b"abc")));
    let moved = "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(answered(moved).await.unwrap().0, StatusCode::FOUND, "it is not followed");
    let head = "HTTP/1.1 200 OK\r\n";
    let many: String = (0..=HTTP_FIELDS).map(|at| format!("f{at}: x\r\n")).collect();
    let long = format!("long: {}\r\n", "x".repeat(2 * HTTP_HEAD_BYTES));
    for (bytes, code) in [
        (format!("{head}Content-Length: 11\r\n\r\n0123456789a"), "EP0264"),
        (format!("{head}Content-Length: 99999999999999999999\r\n\r\n"), "EP0265"),
        (
            format!("{head}Transfer-Encoding: chunked\r\n\r\nb\r\n0123456789a\r\n0\r\n\r\n"),
            "EP0264",
        ),
        (format!("{head}Content-Length: 10\r\n\r\n012"), "EP0263"),
        (format!("{head}Transfer-Encoding: chunked\r\n\r\nzz\r\n"), "EP0265"),
        (format!("{head}{many}\r\n"), "EP0265"),
        (format!("{head}{long}\r\n"), "EP0265"),
        (format!("{head}no field\r\n\r\n"), "EP0265"),
        ("SSH-2.0-other\r\n\r\n".to_owned(), "EP0265"),
    ] {
        let error = answered(bytes.clone()).await.unwrap_err();
        assert_eq!(error.code(), code, "{}: {error}", bytes.chars().take(90).collect::<String>());
    }
}

#[tokio::test]
async fn a_body_that_is_cut_is_no_body() {
    for head in ["Content-Length: 10", "Transfer-Encoding: chunked"] {
        let (listener, port) = listen().await;
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let begun = format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n3\r\n");
            stream.write_all(begun.as_bytes()).await.unwrap();
            stream.shutdown().await.unwrap();
            let _ = stream.read_to_end(&mut Vec::new()).await;
        });
        let response = client().send(get(&format!("http://127.0.0.1:{port}/"))).await.unwrap();
        let error = response.body.read_all(100).await.unwrap_err();
        assert_eq!(error.code(), "EP0265", "{head}: {error}");
    }
}

#[tokio::test]
async fn a_silent_server_is_given_up() {
    let (listener, port) = listen().await;
    let mut request = get(&format!("http://127.0.0.1:{port}/"));
    request.head_time = Duration::from_millis(50);
    let error = client().send(request).await.unwrap_err();
    assert_eq!((error.code(), error.is_temporary()), ("EP0263", true));
    drop(listener);
}

#[tokio::test]
async fn a_response_that_is_dropped_closes_its_connection() {
    let (listener, port) = listen().await;
    let serving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let begun = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n012";
        stream.write_all(begun).await.unwrap();
        // Ends when the client closes.
        stream.read_to_end(&mut Vec::new()).await
    });
    let mut response = client().send(get(&format!("http://127.0.0.1:{port}/"))).await.unwrap();
    assert_eq!(response.body.next().await.unwrap().unwrap(), &b"012"[..]);
    drop(response);
    serving.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_unix_socket_serves_the_same_part_by_part() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let client = Client::over_socket(&path);
    let missing = client.send(json("http://entrepot/x")).await.unwrap_err();
    assert_eq!(missing.code(), "EP0262", "{missing}");
    let listener = UnixListener::bind(&path).unwrap();
    let (got, mut received) = mpsc::channel(1);
    let serving = tokio::spawn(async move {
        echo(listener.accept().await.unwrap().0, got).await;
        let (mut stream, _) = listener.accept().await.unwrap();
        let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n";
        stream.write_all(head).await.unwrap();
        stream
    });
    let response = client.send(json("http://entrepot/x?y")).await.unwrap();
    assert_eq!(response.body.read_all(100).await.unwrap(), &b"{}"[..]);
    let (method, path, host, ..) = received.recv().await.unwrap();
    assert_eq!((&*method, &*path, &*host), ("POST", "/x?y", "entrepot"));
    let mut body = client.send(json("http://entrepot/x")).await.unwrap().body;
    assert_eq!(body.next().await.unwrap().unwrap(), &b"a"[..]);
    let mut stream = serving.await.unwrap();
    stream.write_all(b"1\r\nb\r\n0\r\n\r\n").await.unwrap();
    assert_eq!(body.next().await.unwrap().unwrap(), &b"b"[..]);
    assert_eq!(body.next().await.unwrap(), None);
}

#[test]
fn urls_are_of_http_and_name_a_host_and_nobody() {
    for (url, secure, host, port, authority, path) in [
        ("https://a.example/x?y=z#t", true, "a.example", 443, "a.example", "/x?y=z"),
        ("https://a.example:443", true, "a.example", 443, "a.example", "/"),
        ("http://a.example:8080/", false, "a.example", 8080, "a.example:8080", "/"),
        ("http://[2001:db8::1]:9/", false, "[2001:db8::1]", 9, "[2001:db8::1]:9", "/"),
    ] {
        let target = Target::parse(url).unwrap();
        assert_eq!((target.scheme == Scheme::HTTPS, target.port), (secure, port), "{url}");
        assert_eq!((&*target.host, target.path.as_str()), (host, path), "{url}");
        assert_eq!(target.authority, authority, "{url}");
    }
    for url in [
        "",
        "/x",
        "a.example",
        "a.example:80",
        "ftp://a.example/",
        "https://",
        "https:///x",
        "https://user:pw@a.example/",
        "https://a b/",
        "https://a/\r\nHost: b",
        "https://a:x/",
        "https://a:70000/",
        "https://a:+8/",
        "https://a:/",
    ] {
        let error = Request::new(Method::GET, url).err().map(|error| error.code());
        assert_eq!(error, Some("EP0260"), "{url:?}");
    }
}

#[tokio::test]
async fn a_body_that_is_made_while_it_is_sent_arrives_whole_or_is_cut_off() {
    let (listener, port) = listen().await;
    let (got, mut received) = mpsc::channel(1);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let got = got.clone();
            tokio::spawn(async move { echo(stream, got).await });
        }
    });
    let parts: Vec<Bytes> = (0..40u8).map(|at| Bytes::from(vec![at; 30_000])).collect();
    let length = parts.iter().map(|part| part.len() as u64).sum();
    let sent = async |leave: usize| {
        let (mut writer, body) = streamed(length);
        let url = format!("http://127.0.0.1:{port}/up");
        let mut request = Request { dial: LOCAL, ..Request::new(Method::PUT, &url).unwrap() };
        request.streamed = Some(body);
        let writing = async {
            for part in &parts[..parts.len() - leave] {
                writer.write(part.clone()).await.unwrap();
            }
            drop(writer);
        };
        let client = client();
        tokio::join!(client.send(request), writing).0
    };
    let response = sent(0).await.unwrap();
    assert_eq!(response.status, StatusCode::ACCEPTED);
    let (method, _, _, _, _, body) = received.recv().await.unwrap();
    assert_eq!((method.as_str(), body), ("PUT", parts.concat()));
    let error = sent(1).await.unwrap_err();
    assert!(matches!(error, HttpError::Exchange(_)), "{error}");
    assert!(received.try_recv().is_err(), "a body that was cut off was taken for whole");
}

#[test]
fn the_origin_of_a_url_is_its_scheme_host_and_port() {
    assert_eq!(host_of("https://MDN.example:8443/a?b").as_deref(), Some("mdn.example"));
    assert_eq!(host_of("ftp://mdn.example/"), None);
    assert_eq!(host_of("https://a@mdn.example/"), None);
    assert!(is_same_origin("https://A.example/x", "https://a.example:443/y"));
    for other in ["http://a.example/", "https://a.example:444/", "https://b.example/", "x"] {
        assert!(!is_same_origin("https://a.example/", other), "{other}");
    }
    assert!(!is_same_origin("x", "x"));
}
