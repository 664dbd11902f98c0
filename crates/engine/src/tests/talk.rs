//! Steps that talk to other servers. Real connections take real time, so the clock of the runtime
//! is not stopped here.

use std::net::SocketAddr;
use std::sync::Arc;

use entrepot_crypto::webhook::{SignedMessage, signatures};
use entrepot_nouns::noun::Noun as _;
use entrepot_nouns::{Endpoint, EndpointTarget, Event, Fact, Job, JobState, Rule, Secret};
use parking_lot::Mutex;
use serde_json::{Value as Json, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::world::{SITE, World, content, name};

/// A request as the server of a test got it.
#[derive(Clone)]
pub(super) struct Got {
    pub(super) head: String,
    pub(super) body: Vec<u8>,
    /// The connection ended before the body did.
    pub(super) cut: bool,
}

impl Got {
    pub(super) fn field(&self, name: &str) -> Option<String> {
        let lines = self.head.lines().skip(1);
        let mut fields = lines.filter_map(|line| line.split_once(": "));
        fields.find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, it)| it.to_owned())
    }
}

/// A server that gives each answer of a list once, and the last one ever after.
pub(super) struct Server {
    pub(super) port: u16,
    requests: Arc<Mutex<Vec<Got>>>,
}

impl Server {
    pub(super) async fn start(answers: &'static [&'static str]) -> Server {
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests: Arc<Mutex<Vec<Got>>> = Arc::default();
        let seen = requests.clone();
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let got = read(&mut stream).await;
                let number = {
                    let mut seen = seen.lock();
                    seen.push(got);
                    seen.len() - 1
                };
                let answer = answers[number.min(answers.len() - 1)];
                // A client whose request was cut off is gone.
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        Server { port, requests }
    }

    pub(super) fn got(&self) -> Vec<Got> {
        self.requests.lock().clone()
    }
}

pub(super) async fn read(stream: &mut TcpStream) -> Got {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    let mut got = Got { head: String::from_utf8(head).unwrap(), body: Vec::new(), cut: false };
    let length = got.field("content-length").map_or(0, |length| length.parse().unwrap());
    while got.body.len() < length {
        if stream.read_buf(&mut got.body).await.unwrap_or(0) == 0 {
            got.cut = true;
            break;
        }
    }
    got
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
const BUSY: &str = "HTTP/1.1 503 Unavailable\r\nRetry-After: 120\r\nContent-Length: 4\r\n\r\nbusy";
const NO: &str = "HTTP/1.1 422 Unprocessable\r\nContent-Length: 10\r\n\r\nno\x1bsuch it";
const GONE: &str = "HTTP/1.1 410 Gone\r\nContent-Length: 8\r\n\r\nno more!";

pub(super) async fn endpoint(world: &World, target: Json, secret: &str) {
    let endpoint: Endpoint =
        serde_json::from_value(json!({"name": "there", "target": target})).unwrap();
    world.put(&endpoint).await;
    world.file_access.secrets.lock().insert("there".to_owned(), Secret::new(secret));
}

pub(super) fn doing(steps: Json) -> Rule {
    let rule = json!({"name": "r", "when": {"event": "file.uploaded"}, "do": steps,
        "retry": {"attempts": 3, "first_delay_seconds": 1, "longest_delay_seconds": 60}});
    let rule: Rule = serde_json::from_value(rule).unwrap();
    rule.check().unwrap();
    crate::check_rule(&rule).unwrap();
    rule
}

/// The job of one upload, when it has ended.
pub(super) async fn job(world: &mut World, rule: &Rule, path: &str, bytes: &[u8]) -> Job {
    world.put(rule).await;
    world.start();
    let event = world.upload(path, bytes).await;
    ended(world, &event).await
}

pub(super) async fn ended(world: &World, event: &entrepot_nouns::Event) -> Job {
    let id = world.job_of(event, "r").await;
    loop {
        let Some(job) = world.db.job(SITE, id).await.unwrap() else { continue };
        match job.state {
            JobState::Done | JobState::Failed => return job,
            // The time that it waits for its next attempt passes at once, and no more than that:
            // its lease must not run out while it is claimed.
            JobState::Ready if job.attempts > 0 && job.due_at > world.env.now() => {
                world.env.advance(job.due_at.since(world.env.now()));
                world.engine().wake();
            }
            _ => {}
        }
    }
}

pub(super) fn web(server: &Server) -> Json {
    json!({"web": {"url": format!("http://127.0.0.1:{}/api/", server.port), "user": "courier",
        "allow_private": true}})
}

#[tokio::test]
async fn a_request_says_what_the_rule_says_and_its_answer_is_there_for_later_steps() {
    let server = Server::start(&[
        "HTTP/1.1 201 Created\r\nContent-Length: 14\r\n\r\n{\"order\":\"A7\"}",
        OK,
    ])
    .await;
    let mut world = World::new(901).await;
    endpoint(&world, web(&server), "geheim").await;
    let rule = doing(json!([
        {"name": "order", "http": {"endpoint": "there", "path": "/orders?file={name}",
            "headers": {"X-Size": "{size}"}, "body": {"json": {"name": "{name}"}},
            "answer": "json"}},
        {"http": {"endpoint": "there", "method": "PUT",
            "path": "/orders/{steps.order.answer.order}/file", "body": "file"},
            "if": "steps.order.status == 201"},
    ]));
    let bytes = content(3, 7);
    let job = job(&mut world, &rule, "/in/a \"b\".csv", &bytes).await;
    assert_eq!((job.state, job.error), (JobState::Done, None));
    let got = server.got();
    assert_eq!(got.len(), 2);
    assert!(got[0].head.starts_with("POST /api/orders?file=a%20%22b%22.csv HTTP/1.1\r\n"));
    assert_eq!(got[0].field("authorization").as_deref(), Some("Basic Y291cmllcjpnZWhlaW0="));
    assert_eq!(got[0].field("x-size"), Some(bytes.len().to_string()));
    assert_eq!(got[0].field("content-type").as_deref(), Some("application/json"));
    let body: Json = serde_json::from_slice(&got[0].body).unwrap();
    assert_eq!(body, json!({"name": "a \"b\".csv"}));
    assert!(got[1].head.starts_with("PUT /api/orders/A7/file HTTP/1.1\r\n"), "{}", got[1].head);
    assert!(got[1].body == bytes && !got[1].cut, "the file did not arrive as it is");
    assert_ne!(got[0].field("idempotency-key"), got[1].field("idempotency-key"));
    let steps = world.db.job_steps(job.id).await.unwrap();
    let left = json!({"status": 201, "answer": {"order": "A7"}});
    assert_eq!(steps.iter().find(|step| step.address.0 == "order").unwrap().result, Some(left));
    assert!(!format!("{steps:?}").contains("geheim"));
}

const TOKEN: &str = "HTTP/1.1 200 OK\r\nContent-Length: 71\r\n\r\n\
    {\"access_token\":\"a-token-1\",\"token_type\":\"Bearer\",\"expires_in\": 3600  }";
const OTHER: &str = "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n\
    {\"access_token\":\"a-token-2\",\"token_type\":\"bearer\"}";
const STALE: &str = "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n";

fn oauth(server: &Server, more: Json) -> Json {
    let url = |path: &str| format!("http://127.0.0.1:{}{path}", server.port);
    let mut oauth = json!({"token_url": url("/token"), "client": "us:1", "scopes": ["a", "b"]});
    oauth.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"web": {"url": url("/api"), "allow_private": true, "oauth": oauth}})
}

#[tokio::test]
async fn a_token_is_asked_for_once_and_again_when_it_is_refused() {
    let server = Server::start(&[TOKEN, OK, OK, STALE, OTHER, OK]).await;
    let mut world = World::new(2_931).await;
    endpoint(&world, oauth(&server, json!({})), "geheim&").await;
    let rule = doing(json!([
        {"http": {"endpoint": "there", "path": "/1"}},
        {"http": {"endpoint": "there", "path": "/2"}},
        {"http": {"endpoint": "there", "path": "/3"}},
    ]));
    let job = job(&mut world, &rule, "/in/a", b"content").await;
    assert_eq!((job.state, job.error, job.attempts), (JobState::Done, None, 2));
    let got = server.got();
    let asked: Vec<_> = got.iter().map(|got| got.head.lines().next().unwrap().to_owned()).collect();
    let wanted = ["/token", "/api/1", "/api/2", "/api/3", "/token", "/api/3"];
    assert_eq!(asked, wanted.map(|path| format!("POST {path} HTTP/1.1")));
    assert_eq!(got[0].body, b"grant_type=client_credentials&scope=a%20b");
    // The name and secret as in a form: us%3A1 and geheim%26.
    assert_eq!(got[0].field("authorization").as_deref(), Some("Basic dXMlM0ExOmdlaGVpbSUyNg=="));
    for (number, token) in [(1, "a-token-1"), (2, "a-token-1"), (5, "a-token-2")] {
        assert_eq!(got[number].field("authorization"), Some(format!("Bearer {token}")));
    }
    let steps = format!("{:?}", world.db.job_steps(job.id).await.unwrap());
    assert!(!steps.contains("geheim") && !steps.contains("a-token"), "{steps}");
}

#[tokio::test]
async fn a_server_that_gives_no_token_says_why_and_gets_no_request() {
    const NONE: &str = "HTTP/1.1 401 Unauthorized\r\nContent-Length: 59\r\n\r\n\
        {\"error\":\"invalid_client\",\"error_description\":\"unknown us\"}";
    let server = Server::start(&[NONE]).await;
    let mut world = World::new(2_932).await;
    endpoint(&world, oauth(&server, json!({"proof": "body", "audience": "x y"})), "geheim").await;
    let rule = doing(json!([{"http": {"endpoint": "there"}}]));
    let job = job(&mut world, &rule, "/in/a", b"content").await;
    let said = "EP0882: no token for endpoint 'there': its server answered 401 Unauthorized: \
                invalid_client: unknown us";
    assert_eq!((job.state, job.error.as_deref()), (JobState::Failed, Some(said)));
    let got = server.got();
    assert_eq!(got.len(), 1, "a request went without a token");
    let body = String::from_utf8(got[0].body.clone()).unwrap();
    let wanted = "grant_type=client_credentials&scope=a%20b&audience=x%20y&client_id=us%3A1\
                  &client_secret=geheim";
    assert_eq!((body.as_str(), got[0].field("authorization")), (wanted, None));
}

#[tokio::test]
async fn a_server_that_is_busy_is_asked_again_when_it_says_under_the_same_key() {
    let server = Server::start(&[BUSY, OK]).await;
    let mut world = World::new(902).await;
    endpoint(&world, web(&server), "geheim").await;
    let rule = doing(json!([{"http": {"endpoint": "there"}}]));
    let began = world.env.now();
    let job = job(&mut world, &rule, "/in/a", b"content").await;
    assert_eq!((job.state, job.attempts), (JobState::Done, 2));
    let keys: Vec<_> = server.got().iter().map(|got| got.field("idempotency-key")).collect();
    assert!(keys.len() == 2 && keys[0].is_some() && keys[0] == keys[1], "{keys:?}");
    // It asked for 120 s; the rule waits 60 s at most.
    let waited = world.env.now().since(began).as_secs();
    assert!((60..100).contains(&waited), "{waited}");
}

#[tokio::test]
async fn a_refusal_fails_the_job_with_the_words_of_the_server() {
    let server = Server::start(&[NO]).await;
    let mut world = World::new(903).await;
    endpoint(&world, web(&server), "geheim").await;
    let first = doing(json!([{"http": {"endpoint": "there"}}]));
    let job = job(&mut world, &first, "/in/a", b"content").await;
    assert_eq!((job.state, job.attempts), (JobState::Failed, 1));
    let error = job.error.unwrap();
    let said = "EP0891: endpoint 'there' answered 422 Unprocessable Entity: no such it";
    assert_eq!(error, said);
    world.put(&doing(json!([{"http": {"endpoint": "there", "done": [422]}}]))).await;
    let event = world.upload("/in/b", b"content").await;
    assert_eq!(ended(&world, &event).await.state, JobState::Done);
}

#[tokio::test]
async fn a_server_in_a_private_network_is_not_asked_unless_the_endpoint_allows_it() {
    let server = Server::start(&[OK]).await;
    let mut world = World::new(904).await;
    let url = format!("http://127.0.0.1:{}/", server.port);
    endpoint(&world, json!({"web": {"url": url}}), "geheim").await;
    let rule = doing(json!([{"http": {"endpoint": "there"}}]));
    let job = job(&mut world, &rule, "/in/a", b"content").await;
    assert!(job.error.unwrap().starts_with("EP0221: "));
    assert!(server.got().is_empty());
}

/// A file that changed after its event is not taken for the one of the event.
#[tokio::test]
async fn the_end_of_a_file_that_changed_is_not_sent() {
    let server = Server::start(&[OK]).await;
    let mut world = World::new(905).await;
    endpoint(&world, web(&server), "geheim").await;
    let rule = doing(json!([{"http": {"endpoint": "there", "body": "file"}}]));
    world.put(&rule).await;
    let event = world.publish("/in/a", &content(2, 1)).await;
    world.publish("/in/a", &content(2, 2)).await;
    world.recorder.seal(&event).await.unwrap();
    world.start();
    let job = ended(&world, &event).await;
    assert!(job.error.unwrap().starts_with("EP0808: "));
    while server.got().is_empty() {
        tokio::task::yield_now().await;
    }
    let got = server.got();
    assert!(got.len() == 1 && got[0].cut, "the receiver took it for whole");
}

#[tokio::test]
async fn a_web_hook_is_signed_by_both_keys_and_comes_again_under_its_id() {
    let server = Server::start(&[BUSY, "HTTP/1.1 204 No Content\r\n\r\n"]).await;
    let mut world = World::new(906).await;
    let url = format!("http://127.0.0.1:{}/hook", server.port);
    let keys = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
    endpoint(&world, json!({"webhook": {"url": url, "allow_private": true}}), keys).await;
    let rule = doing(json!([{"webhook": {"endpoint": "there"}}]));
    let job = job(&mut world, &rule, "/in/a", b"content").await;
    assert_eq!((job.state, job.attempts), (JobState::Done, 2));
    let got = server.got();
    assert_eq!(got[0].field("webhook-id"), got[1].field("webhook-id"));
    let times: Vec<i64> =
        got.iter().map(|got| got.field("webhook-timestamp").unwrap().parse().unwrap()).collect();
    assert!(times[1] >= times[0] + 60, "the time is that of the attempt: {times:?}");
    for (one, at_seconds) in got.iter().zip(times) {
        let id = one.field("webhook-id").unwrap();
        let message = SignedMessage { id: &id, at_seconds, body: &one.body };
        assert_eq!(one.field("webhook-signature"), signatures(&Secret::new(keys), message));
        let body: Json = serde_json::from_slice(&one.body).unwrap();
        assert_eq!(body["type"], "file.uploaded");
        assert_eq!(body["data"]["path"], "/in/a", "{body}");
    }
}

#[tokio::test]
async fn a_receiver_that_is_gone_is_sent_nothing_more_until_somebody_enables_it() {
    let server = Server::start(&[GONE, OK]).await;
    let mut world = World::new(507).await;
    let url = format!("http://127.0.0.1:{}/hooks", server.port);
    let keys = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let target = json!({"webhook": {"url": url, "allow_private": true}});
    endpoint(&world, target.clone(), keys).await;
    let rule = doing(json!([{"webhook": {"endpoint": "there"}}]));
    let first = job(&mut world, &rule, "/in/a", b"content").await;
    assert_eq!((first.state, first.attempts), (JobState::Failed, 1));
    let error = first.error.unwrap();
    assert!(error.starts_with("EP0891: ") && error.contains("410 Gone: no more!"), "{error}");
    let there = world.db.find::<Endpoint>(SITE, &name("there")).await.unwrap().unwrap();
    assert!(matches!(&there.noun.target, EndpointTarget::Webhook(target) if !target.enabled));
    let told = world.events("endpoint.disabled").await;
    let [Event { job, fact: Fact::EndpointDisabled { disabled }, .. }] = told.as_slice() else {
        panic!("{told:?}")
    };
    assert_eq!((*job, disabled.rule.as_str()), (Some(first.id), "r"));
    assert!(disabled.reason.contains("410"), "{}", disabled.reason);
    let changed = world.events("config.changed").await;
    assert!(
        matches!(&changed[..], [Event { fact: Fact::ConfigChanged { by, .. }, .. }]
            if by.starts_with("node:")),
        "{changed:?}"
    );
    let event = world.upload("/in/b", b"content").await;
    let second = ended(&world, &event).await;
    assert_eq!((second.state, second.attempts), (JobState::Failed, 1));
    assert!(second.error.unwrap().starts_with("EP0899: "));
    assert_eq!(server.got().len(), 1, "it was told although it is disabled");
    endpoint(&world, target, keys).await;
    assert!(world.retry(second.id, world.env.now()).await);
    assert_eq!(ended(&world, &event).await.state, JobState::Done);
    assert_eq!(world.events("endpoint.disabled").await.len(), 1);
}

#[test]
fn what_cannot_be_sent_is_refused_when_the_rule_is_stored() {
    let refused = |step: Json| {
        let rule = json!({"name": "r", "when": {"event": "file.uploaded"}, "do": [step]});
        let rule: Rule = serde_json::from_value(rule).unwrap();
        rule.check().and_then(|()| crate::check_rule(&rule)).err().map(|error| error.field)
    };
    let http = |fields: Json| {
        let mut whole = json!({"endpoint": "there"});
        whole.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        json!({ "http": whole })
    };
    assert_eq!(refused(http(json!({"path": "/a/{name}"}))), None);
    for (fields, field) in [
        (json!({"path": "a"}), "do.0.http.path"),
        (json!({"path": "/a#b"}), "do.0.http.path"),
        (json!({"path": "/{nme}"}), "do.0.http"),
        (json!({"path": "/../{name}"}), "do.0.http"),
        (json!({"headers": {"Authorization": "Bearer x"}}), "do.0.http.headers"),
        (json!({"headers": {"Host": "elsewhere"}}), "do.0.http.headers"),
        (json!({"body": {"json": {"a": ["{nme}"]}}}), "do.0.http"),
        (json!({"method": "GET", "body": "file"}), "do.0.http.body"),
        (json!({"done": [99]}), "do.0.http.done"),
        (json!({"timeout_seconds": 0}), "do.0.http.timeout_seconds"),
    ] {
        assert_eq!(refused(http(fields.clone())).as_deref(), Some(field), "{fields}");
    }
}

/// A server of mail that takes messages for all but some. What it was told comes back.
pub(super) async fn post_office(
    refused: &'static [(&'static str, &'static str)],
) -> (u16, Arc<Mutex<String>>) {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let told: Arc<Mutex<String>> = Arc::default();
    let tell = told.clone();
    tokio::spawn(async move {
        for session in 0.. {
            let mut stream = BufReader::new(listener.accept().await.unwrap().0);
            stream.write_all(b"220 here\r\n").await.unwrap();
            let mut in_data = false;
            loop {
                let mut line = String::new();
                if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
                    break;
                }
                tell.lock().push_str(&line);
                let no = refused.iter().find(|(to, _)| session == 0 && line.contains(to));
                let answer = match (line.trim_end(), no) {
                    (".", _) => {
                        in_data = false;
                        "250 taken"
                    }
                    _ if in_data => continue,
                    ("DATA", _) => {
                        in_data = true;
                        "354 go on"
                    }
                    ("QUIT", _) => "221 bye",
                    (_, Some((_, answer))) => answer,
                    _ => "250 ok",
                };
                stream.write_all(format!("{answer}\r\n").as_bytes()).await.unwrap();
            }
        }
    });
    (port, told)
}

pub(super) fn mail(port: u16) -> Json {
    let from = "Files <us@example.com>";
    json!({"mail": {"host": "127.0.0.1", "port": port, "tls": "off", "from": from,
        "allow_private": true}})
}

fn lines<'a>(told: &'a str, start: &str) -> Vec<&'a str> {
    told.lines().filter(|line| line.starts_with(start)).collect()
}

#[tokio::test]
async fn who_got_a_message_gets_it_once_though_others_are_tried_again() {
    let (port, told) = post_office(&[("b@example.com", "451 later")]).await;
    let mut world = World::new(911).await;
    endpoint(&world, mail(port), "").await;
    let rule = doing(json!([{"name": "tell", "mail": {"endpoint": "there", "attach": "file",
        "to": ["a@example.com", "B <b@example.com>", "{account}@example.com"],
        "subject": "Arrived: {name}", "text": "{size} bytes\n.\nthe end",
        "html": "<b>{name}</b>"}}]));
    let name = "/in/<i>\r\nBcc: all@example.com";
    let job = job(&mut world, &rule, name, &content(1, 3)).await;
    assert_eq!((job.state, job.attempts), (JobState::Done, 2), "{:?}", job.error);
    let told = told.lock().clone();
    let to = |name: &str| format!("RCPT TO:<{name}@example.com>");
    assert_eq!(lines(&told, "RCPT"), [to("a"), to("b"), to("acme"), to("b")]);
    let ids = lines(&told, "Message-ID: ");
    assert!(ids.len() == 2 && ids[0] == ids[1] && ids[0].ends_with("@example.com>"), "{ids:?}");
    let (head, _) = told.split_once("From: ").unwrap().1.split_once("\r\n\r\n").unwrap();
    assert_eq!(lines(head, "Bcc:"), Vec::<&str>::new(), "a name made a field of its own");
    assert_eq!(lines(&told, "Auto-Submitted: ").len(), 2);
    assert_eq!(lines(&told, "MAIL FROM:"), ["MAIL FROM:<us@example.com>"; 2]);
    assert!(!told.contains("<b><i>"), "HTML of a name was taken for markup");
    assert!(told.contains("application/octet-stream") && told.contains("\r\n..\r\n"), "{told}");
    let steps = world.db.job_steps(job.id).await.unwrap();
    // Of the last attempt of a job of one step its end says all there is to say.
    let left = steps.last().unwrap().result.clone().unwrap();
    assert_eq!(left["accepted"], json!(["a@example.com", "acme@example.com"]));
}

#[tokio::test]
async fn an_address_that_does_not_exist_fails_the_job_and_no_other_recipient() {
    let (port, told) = post_office(&[("b@example.com", "550 no such user")]).await;
    let mut world = World::new(912).await;
    endpoint(&world, mail(port), "").await;
    let rule = doing(json!([{"mail": {"endpoint": "there", "subject": "s", "text": "t",
        "to": ["b@example.com", "a@example.com"]}}]));
    let first = job(&mut world, &rule, "/in/a", b"content").await;
    assert_eq!((first.state, first.attempts), (JobState::Failed, 1));
    let said = "EP0894: endpoint 'there': 'b@example.com' was refused with 550: no such user";
    assert_eq!(first.error.as_deref(), Some(said));
    assert!(world.retry(first.id, world.env.now()).await);
    world.engine().wake();
    let id = first.id;
    while world.db.job(SITE, id).await.unwrap().unwrap().state != JobState::Done {
        tokio::task::yield_now().await;
    }
    let told = told.lock().clone();
    let to = |name: &str| format!("RCPT TO:<{name}@example.com>");
    assert_eq!(lines(&told, "RCPT"), [to("b"), to("a"), to("b")], "a was written to twice");
}

#[tokio::test]
async fn a_file_that_is_too_large_to_be_attached_is_said_to_be() {
    let (port, told) = post_office(&[]).await;
    let mut world = World::new(913).await;
    endpoint(&world, mail(port), "").await;
    let rule = doing(json!([{"mail": {"endpoint": "there", "to": ["a@example.com"],
        "subject": "s", "text": "t", "attach": "file"}}]));
    let large = vec![0; 10 * 1024 * 1024 + 1];
    let job = job(&mut world, &rule, "/in/a", &large).await;
    assert!(job.error.unwrap().starts_with("EP0896: "));
    assert_eq!(*told.lock(), "");
}

/// A clamd that answers each file alike, once it has read it. What it read comes back.
pub(super) async fn clamd(answer: &'static [u8]) -> (u16, Arc<Mutex<Vec<Vec<u8>>>>) {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let files: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
    let seen = files.clone();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut command = [0; 10];
            stream.read_exact(&mut command).await.unwrap();
            assert_eq!(&command, b"zINSTREAM\0");
            let mut file = Vec::new();
            while let Ok(length @ 1..) = stream.read_u32().await {
                let begin = file.len();
                file.resize(begin + length as usize, 0);
                if stream.read_exact(&mut file[begin..]).await.is_err() {
                    break;
                }
            }
            seen.lock().push(file);
            // A client that has given up is gone.
            let _ = stream.write_all(answer).await;
        }
    });
    (port, files)
}

pub(super) async fn scanner(world: &World, url: String) {
    endpoint(world, json!({"scanner": {"url": url, "allow_private": true}}), "").await;
}

fn scanning(more: Json) -> Rule {
    let mut scan = json!({"endpoint": "there"});
    scan.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    doing(json!([
        {"name": "look", "scan": scan},
        {"if": {"when": "steps.look.verdict != 'clean'",
            "then": [{"stop": {"message": "not clean: {steps.look.verdict}"}}]}},
        {"move": {"to": "/done/{name}"}},
    ]))
}

#[tokio::test]
async fn a_clean_file_goes_on_and_was_shown_whole() {
    let (port, files) = clamd(b"stream: OK\0").await;
    let mut world = World::new(921).await;
    scanner(&world, format!("clamd://127.0.0.1:{port}")).await;
    let bytes = content(3, 9);
    let job = job(&mut world, &scanning(json!({})), "/in/a", &bytes).await;
    assert_eq!((job.state, job.error), (JobState::Done, None));
    assert!(*files.lock() == [bytes], "it was shown another file");
    assert!(super::world::files(&world.file_access.home).await.contains_key("done/a"));
}

#[tokio::test]
async fn what_was_found_fails_the_job_or_is_left_to_later_steps() {
    let (port, _) = clamd(b"stream: Eicar FOUND\0").await;
    let mut world = World::new(922).await;
    scanner(&world, format!("clamd://127.0.0.1:{port}")).await;
    let first = job(&mut world, &scanning(json!({})), "/in/a", b"content").await;
    assert_eq!((first.state, first.attempts), (JobState::Failed, 1));
    let said = "EP0897: scanner 'there' found 'Eicar' in 'a'";
    assert_eq!(first.error.as_deref(), Some(said));
    world.put(&scanning(json!({"found": "continue"}))).await;
    let event = world.upload("/in/b", b"content").await;
    let second = ended(&world, &event).await;
    assert_eq!(second.state, JobState::Done);
    let steps = world.db.job_steps(second.id).await.unwrap();
    assert_eq!(
        steps.iter().find(|step| step.address.0 == "look").unwrap().result,
        Some(json!({"verdict": "found", "threat": "Eicar"}))
    );
    let home = super::world::files(&world.file_access.home).await;
    assert!(!home.keys().any(|path| path.starts_with("done/")), "{:?}", home.keys());
}

/// Away, silent in words that mean nothing, or not whole: never clean.
#[tokio::test]
async fn a_scanner_that_does_not_say_clean_lets_nothing_through() {
    for (seed, answer) in [
        (923, &b"INSTREAM size limit exceeded. ERROR\0"[..]),
        (924, b"stream: "),
        (925, b""),
        (926, b"PONG\0"),
    ] {
        let (port, _) = clamd(answer).await;
        let mut world = World::new(seed).await;
        scanner(&world, format!("clamd://127.0.0.1:{port}")).await;
        let job = job(&mut world, &scanning(json!({})), "/in/a", b"content").await;
        assert_eq!((job.state, job.attempts), (JobState::Failed, 3), "{answer:?}");
        assert!(job.error.unwrap().starts_with("EP0898: "), "{answer:?}");
    }
    let mut world = World::new(927).await;
    scanner(&world, "clamd:/nowhere/clamd.sock".to_owned()).await;
    let gone = job(&mut world, &scanning(json!({})), "/in/a", b"content").await;
    assert!(gone.state == JobState::Failed && gone.attempts == 3, "{gone:?}");
    world.put(&scanning(json!({"unsure": "continue"}))).await;
    let event = world.upload("/in/b", b"content").await;
    let job = ended(&world, &event).await;
    assert_eq!(job.state, JobState::Done);
    let steps = world.db.job_steps(job.id).await.unwrap();
    let look = steps.iter().find(|step| step.address.0 == "look").unwrap();
    assert_eq!(look.result.as_ref().unwrap()["verdict"], "unsure");
}

/// Clean is what was shown: if that is not the file of the event, it says nothing about it.
#[tokio::test]
async fn the_verdict_of_another_file_does_not_count() {
    let (port, _) = clamd(b"stream: OK\0").await;
    let mut world = World::new(928).await;
    scanner(&world, format!("clamd://127.0.0.1:{port}")).await;
    world.put(&scanning(json!({}))).await;
    let event = world.publish("/in/a", &content(2, 1)).await;
    world.publish("/in/a", &content(2, 2)).await;
    world.recorder.seal(&event).await.unwrap();
    world.start();
    let job = ended(&world, &event).await;
    assert!(job.error.unwrap().starts_with("EP0808: "));
}
