//! HTTP as no client speaks it, byte for byte: frames of HTTP/2 without end, requests for a host
//! of another site, the PROXY protocol, and a listener that is full.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use entrepot_testkit::clients::Login;
use entrepot_testkit::server::{Node, feed, run};

use crate::program;

/// Types of frames (RFC 9113 §6).
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const ENHANCE_YOUR_CALM: u32 = 0xb;
/// GET of `/` at `localhost` (RFC 7541, static table).
const REQUEST: &[u8] = b"\x82\x84\x87\x41\x09localhost";
/// What does not come by then does not come any more.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection under TLS, as `openssl s_client` makes it.
struct Tls(Child);

impl Tls {
    fn open(port: u16, options: &[&str]) -> Result<Tls> {
        let mut client = Command::new("openssl");
        client.args(["s_client", "-quiet", "-connect", &format!("127.0.0.1:{port}")]);
        client.args(options).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        Ok(Tls(client.spawn()?))
    }

    /// Sends all of it, or what the server takes, and gives back what comes until the server ends
    /// the connection.
    fn talk(mut self, bytes: Vec<u8>) -> Result<Vec<u8>> {
        let mut input = self.0.stdin.take().context("its input")?;
        let mut output = self.0.stdout.take().context("its output")?;
        let writing = std::thread::spawn(move || {
            // A server that has had enough closes the connection.
            let _ = input.write_all(&bytes);
            input
        });
        let mut came = Vec::new();
        output.read_to_end(&mut came)?;
        drop(writing.join());
        self.0.wait()?;
        Ok(came)
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a length").to_be_bytes();
    let head = [&length[1..], &[kind, flags], &stream.to_be_bytes()].concat();
    [&head, payload].concat()
}

/// How a connection of HTTP/2 begins.
fn begun() -> Vec<u8> {
    [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(SETTINGS, 0, 0, &[])].concat()
}

/// The error that the server ended the connection with.
fn error_of(mut frames: &[u8]) -> Option<u32> {
    while let Some((head, rest)) = frames.split_at_checked(9) {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let (payload, behind) = rest.split_at_checked(length)?;
        if head[3] == GOAWAY {
            let code = payload.get(4..8)?.try_into().ok()?;
            return Some(u32::from_be_bytes(code));
        }
        frames = behind;
    }
    None
}

#[test]
fn frames_without_end_end_the_connection_alone() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    node.cli(&["listener", "create", "https", "protocol=https", "address=127.0.0.1:0"])?;
    node.start()?;
    let port = node.port_of("https")?;
    let h2 = ["-alpn", "h2"];

    let mut resets = begun();
    for at in 0..1_000 {
        resets.extend(frame(HEADERS, 0x5, 2 * at + 1, REQUEST));
        resets.extend(frame(RST_STREAM, 0, 2 * at + 1, &8_u32.to_be_bytes()));
    }
    let answer = Tls::open(port, &h2)?.talk(resets)?;
    assert_eq!(error_of(&answer), Some(ENHANCE_YOUR_CALM), "rapid reset");

    // A head that goes on for ever: its fields are never all there.
    let mut endless = [begun(), frame(HEADERS, 0x1, 1, REQUEST)].concat();
    let field = [&b"\x00\x01x\x7f\x81\x07"[..], &[b'a'; 1_024]].concat();
    for _ in 0..2_000 {
        endless.extend(frame(CONTINUATION, 0, 1, &field));
    }
    let answer = Tls::open(port, &h2)?.talk(endless)?;
    ensure!(error_of(&answer).is_some_and(|code| code != 0), "CONTINUATION: {answer:?}");

    // Each of these must be answered; before a sign-in a connection may send only so much.
    let mut flood = begun();
    for _ in 0..1_000 {
        flood.extend(frame(PING, 0, 0, b"01234567"));
    }
    let setting = [0, 4, 0, 0, 0xff, 0xff].repeat(2_000);
    while flood.len() < 24 << 20 {
        flood.extend(frame(SETTINGS, 0, 0, &setting));
    }
    Tls::open(port, &h2)?.talk(flood)?;

    let address = format!("https://127.0.0.1:{port}/docs/errors/EP1000");
    run(Command::new("curl").args(["-sSfk", "--max-time", "60", &address]))?;
    Ok(())
}

/// Sends bytes over TCP and gives back the first answer.
fn answer(stream: &mut TcpStream, bytes: &[u8]) -> Result<String> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(bytes)?;
    let mut came = vec![0; 16 * 1024];
    let count = stream.read(&mut came)?;
    Ok(String::from_utf8_lossy(&came[..count]).into_owned())
}

#[test]
fn a_listener_that_is_full_says_so_and_health_is_answered_all_the_while() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    let login = Login::create(&node, "acme")?;
    node.cli(&[
        "listener",
        "create",
        "web",
        "protocol=http",
        "address=127.0.0.1:0",
        "http={\"limits\": {\"requests\": 1}}",
        "unauthenticated=[{\"network\": \"127.0.0.0/8\", \"connections\": 20}]",
    ])?;
    node.start()?;
    let port = node.port_of("web")?;
    let ops = node.ops_url()?;
    let is_well = || {
        let (live, ready) = (format!("{ops}/live"), format!("{ops}/ready"));
        run(Command::new("curl").args(["-sSf", "--max-time", "60", &live, &ready]))
    };
    let credentials = format!("{}:{}", login.account, login.password);
    let encoded = feed(Command::new("base64").arg("-w0"), &credentials)?.stdout;
    let encoded = String::from_utf8(encoded)?;
    let fields = format!("Host: localhost\r\nAuthorization: Basic {encoded}\r\n");

    // One request is worked on for as long as its body does not come.
    let mut first = TcpStream::connect(("127.0.0.1", port))?;
    write!(first, "PUT /files/slow HTTP/1.1\r\n{fields}Content-Length: 10\r\n\r\nhalf")?;
    node.until("the upload to begin", || {
        let sessions = node.json(&["sessions"])?;
        Ok((sessions[0]["transfers"] == 1).then_some(()))
    })?;
    let refused = node.until("the listener to be full", || {
        let mut other = TcpStream::connect(("127.0.0.1", port))?;
        let told = answer(&mut other, format!("GET /files/ HTTP/1.1\r\n{fields}\r\n").as_bytes())?;
        Ok(told.starts_with("HTTP/1.1 503").then_some(told))
    })?;
    ensure!(refused.contains("retry-after: 2") && refused.contains("EP1003"), "{refused}");
    ensure!(refused.contains("ratelimit: \"requests\";r=0"), "{refused}");
    is_well()?;

    // As many connections as may be without a sign-in, and more.
    let crowd: Vec<TcpStream> = (0..200)
        .map(|_| TcpStream::connect(("127.0.0.1", port)))
        .collect::<std::io::Result<_>>()?;
    is_well()?;
    drop(crowd);
    first.write_all(b"+rest!")?;
    let mut stored = vec![0; 1_024];
    first.set_read_timeout(Some(PATIENCE))?;
    let count = first.read(&mut stored)?;
    ensure!(stored[..count].starts_with(b"HTTP/1.1 201"), "the first request is lost");
    Ok(())
}

#[test]
fn a_proxy_says_who_the_client_is_and_a_host_of_another_site_is_refused() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    let login = Login::create(&node, "acme")?;
    node.cli(&["site", "create", "north", "hosts=[\"north.example\"]"])?;
    node.cli(&["listener", "create", "https", "protocol=https", "address=127.0.0.1:0"])?;
    let proxied = ["protocol=http", "address=127.0.0.1:0", "proxies=[\"127.0.0.1/32\"]"];
    node.cli(&[&["listener", "create", "proxied"][..], &proxied].concat())?;
    node.start()?;

    // The connection was opened for one site, the request is for another (RFC 9110 §15.5.20).
    let options = ["-servername", "north.example"];
    let request = b"GET /files/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let misdirected = Tls::open(node.port_of("https")?, &options)?.talk(request.to_vec())?;
    let misdirected = String::from_utf8_lossy(&misdirected);
    ensure!(
        misdirected.starts_with("HTTP/1.1 421") && misdirected.contains("EP1006"),
        "{misdirected}"
    );

    let port = node.port_of("proxied")?;
    let credentials = format!("{}:{}", login.account, login.password);
    let encoded = feed(Command::new("base64").arg("-w0"), &credentials)?.stdout;
    let request = format!(
        "GET /api/v1/session HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 192.0.2.1\r\n\
         Authorization: Basic {}\r\n\r\n",
        String::from_utf8(encoded)?
    );
    // Version 2, PROXY, TCP over IPv4 from 203.0.113.9:4711 to 198.51.100.1:80.
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c".to_vec();
    header.extend([203, 0, 113, 9, 198, 51, 100, 1]);
    header.extend([4711_u16.to_be_bytes(), 80_u16.to_be_bytes()].concat());
    header.extend(request.as_bytes());
    let told = answer(&mut TcpStream::connect(("127.0.0.1", port))?, &header)?;
    ensure!(told.contains("\"address\":\"203.0.113.9\""), "{told}");
    let mut bare = TcpStream::connect(("127.0.0.1", port))?;
    let told = answer(&mut bare, request.as_bytes()).unwrap_or_default();
    ensure!(!told.contains("200 OK"), "without a header nothing is answered: {told}");
    Ok(())
}
