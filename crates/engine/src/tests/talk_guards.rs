//! Where steps that talk to other servers may be led, and for how long they listen. Real
//! connections take real time, so the clock of the runtime is not stopped here.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use entrepot_nouns::{JobState, Rule};
use serde_json::{Value as Json, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::Notify;

use super::talk::{Server, doing, ended, endpoint};
use super::world::{World, files};
use crate::limits::SCAN_TIME;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
const KEY: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Whether an endpoint may lead into our own network.
#[derive(Clone, Copy, PartialEq)]
enum Private {
    Allowed,
    Refused,
}

/// Steps that send a request to `url`: what they are, their endpoint, its secret.
fn senders(url: &str, private: Private) -> Vec<(Rule, Json, &'static str)> {
    let target = |kind: &str, more: Json| {
        let mut fields = json!({"url": url});
        fields["allow_private"] = (private == Private::Allowed).into();
        fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ kind: fields })
    };
    let oauth = json!({"url": "http://203.0.113.1/", "oauth": {"token_url": url, "client": "us"}});
    let http = || doing(json!([{"http": {"endpoint": "there"}}]));
    let file = doing(json!([{"http": {"endpoint": "there", "method": "PUT", "body": "file"}}]));
    vec![
        (http(), target("web", json!({})), ""),
        (file, target("web", json!({})), ""),
        (doing(json!([{"webhook": {"endpoint": "there"}}])), target("webhook", json!({})), KEY),
        (http(), target("web", oauth), "geheim"),
    ]
}

/// Wherever a server points to, nobody is asked there; not even where the endpoint may be led into
/// our own network.
#[tokio::test]
async fn no_redirection_is_followed() {
    let inner = Server::start(&[OK]).await;
    let mut world = World::new(2_981).await;
    world.start();
    let own = format!("http://127.0.0.1:{}/inner", inner.port);
    let relative = own.trim_start_matches("http:").to_owned();
    let metadata = "http://169.254.169.254/latest/meta-data/".to_owned();
    for (status, to) in [
        ("301 Moved Permanently", &own),
        ("302 Found", &relative),
        ("303 See Other", &metadata),
        ("307 Temporary Redirect", &own),
        ("308 Permanent Redirect", &metadata),
    ] {
        let answer = format!("HTTP/1.1 {status}\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n");
        let answer: &'static str = answer.leak();
        let outer = Server::start(vec![answer].leak()).await;
        let url = format!("http://127.0.0.1:{}/outer", outer.port);
        for (rule, target, secret) in senders(&url, Private::Allowed) {
            let before = outer.got().len();
            endpoint(&world, target.clone(), secret).await;
            world.put(&rule).await;
            let event = world.upload("/in/a", b"content").await;
            let job = ended(&world, &event).await;
            let error = job.error.unwrap_or_default();
            let code = if secret == "geheim" { "EP0882: " } else { "EP0891: " };
            assert_eq!((job.state, job.attempts), (JobState::Failed, 1), "{error}");
            assert!(error.starts_with(code) && error.contains(&status[..3]), "{error}");
            let asked: Vec<_> = outer.got().split_off(before);
            assert_eq!(asked.len(), 1, "{status}: {target}");
            assert!(inner.got().is_empty(), "{status}: {target}");
        }
    }
}

/// The job of a rule fails, for its endpoint with this target and secret leads to where it may not.
async fn refused(world: &mut World, rule: &Rule, (target, secret): (Json, &str)) {
    endpoint(world, target.clone(), secret).await;
    world.put(rule).await;
    let event = world.upload("/in/a", b"content").await;
    let job = ended(world, &event).await;
    let error = job.error.unwrap_or_default();
    assert_eq!(job.state, JobState::Failed, "{target}: {error}");
    assert!(error.contains("EP0221") || error.contains("private"), "{target}: {error}");
}

/// However the address of our own network is written; that of a token, too.
#[tokio::test]
async fn nobody_is_led_into_our_own_network() {
    let server = Server::start(&[OK]).await;
    let mut world = World::new(2_982).await;
    world.start();
    let hosts =
        ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "[::1]", "0.0.0.0", "2130706433", "127.1"];
    for host in hosts {
        let url = format!("http://{host}:{}/", server.port);
        for (rule, target, secret) in senders(&url, Private::Refused) {
            refused(&mut world, &rule, (target, secret)).await;
            assert!(server.got().is_empty(), "{host}: {rule:?}");
        }
    }
}

/// Neither are mails and files for a scanner.
#[tokio::test]
async fn mails_and_files_to_scan_stay_out_of_our_own_network() {
    let server = Server::start(&[OK]).await;
    let mut world = World::new(2_984).await;
    world.start();
    let port = server.port;
    let scan = || doing(json!([{"scan": {"endpoint": "there"}}, {"move": {"to": "/done/a"}}]));
    let to = json!(["a@example.com"]);
    let mail = json!([{"mail": {"endpoint": "there", "to": to, "subject": "s", "text": "t"}}]);
    for host in ["127.0.0.1", "localhost", "0.0.0.0", "2130706433", "127.1"] {
        let icap = json!({"scanner": {"url": format!("icap://{host}:{port}/avscan")}});
        let clamd = json!({"scanner": {"url": format!("clamd://{host}:{port}")}});
        let post =
            json!({"mail": {"host": host, "port": port, "tls": "off", "from": "us@example.com"}});
        for (mut rule, target) in [(scan(), icap), (scan(), clamd), (doing(mail.clone()), post)] {
            rule.retry.attempts = 1;
            refused(&mut world, &rule, (target, "")).await;
            assert!(server.got().is_empty(), "{host}: {rule:?}");
        }
    }
}

/// A scanner that reads the file and says nothing until it is told to.
async fn slow_scanner() -> (u16, Arc<Notify>, Arc<Notify>) {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (read, answer) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (has_read, may_answer) = (read.clone(), answer.clone());
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut got = Vec::new();
            // The length of 0 at the end of a file.
            while !got.ends_with(&[0; 4]) || got.len() < 20 {
                stream.read_buf(&mut got).await.unwrap();
            }
            has_read.notify_one();
            may_answer.notified().await;
            // Nobody listens any more.
            let _ = stream.write_all(b"stream: OK\0").await;
        }
    });
    (port, read, answer)
}

/// What it says after its time does not count.
#[tokio::test]
async fn a_scanner_that_hangs_or_answers_late_lets_nothing_through() {
    let (port, read, answer) = slow_scanner().await;
    let mut world = World::new(2_983).await;
    let url = format!("clamd://127.0.0.1:{port}");
    endpoint(&world, json!({"scanner": {"url": url, "allow_private": true}}), "").await;
    let mut rule = doing(json!([
        {"scan": {"endpoint": "there"}}, {"move": {"to": "/done/{name}"}},
    ]));
    rule.retry.attempts = 1;
    world.put(&rule).await;
    world.start();
    let event = world.upload("/in/a", b"content of a file").await;
    read.notified().await;
    tokio::time::pause();
    tokio::time::advance(SCAN_TIME + Duration::from_secs(1)).await;
    tokio::time::resume();
    let job = ended(&world, &event).await;
    assert_eq!(job.state, JobState::Failed);
    assert!(job.error.unwrap_or_default().starts_with("EP0898: "));
    answer.notify_one();
    let event = world.upload("/in/b", b"content of a file").await;
    read.notified().await;
    let home = files(&world.file_access.home).await;
    assert!(home.keys().all(|path| path.starts_with("in/")), "{:?}", home.keys());
    // In time it counts.
    answer.notify_one();
    assert_eq!(ended(&world, &event).await.state, JobState::Done);
}
