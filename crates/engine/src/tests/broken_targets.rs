//! Servers that refuse, hang, cut and answer late, one after the other: the step says each time
//! what happened, tries again ever more seldom, and sends nothing under another id. Real
//! connections take real time, so the clock of the runtime is stopped for a moment only.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use entrepot_net::dial::DialPolicy;
use entrepot_net::http::{Client, Method, Request};
use entrepot_net::limits::{SMTP_QUIT_TIME, SMTP_TIME};
use entrepot_net::tls::ServerTrust;
use entrepot_nouns::event::RetryingFact;
use entrepot_nouns::{Event, Fact, Job, JobId, JobState, Rule};
use parking_lot::Mutex;
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Notify;

use super::as2::partner::answered;
use super::as2::{agreed, sending, until};
use super::talk::{doing, endpoint, mail, read};
use super::world::{SITE, World, content};
use crate::limits::{SCAN_TIME, WEBHOOK_TIME};

/// What a server does with a request.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Does {
    /// Says nothing.
    Hangs,
    /// Closes the connection.
    Cuts,
    /// Closes it in the middle of its answer.
    CutsItsAnswer,
    /// Answers when nobody waits any more.
    IsLate,
    /// Answers as it should.
    Answers,
}

/// Before these it refuses connections.
const IN_TURN: [Does; 5] =
    [Does::Hangs, Does::Cuts, Does::CutsItsAnswer, Does::IsLate, Does::Answers];

/// What a server speaks, and which request is the one that is answered so badly.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Speaks {
    Http,
    As2,
    Clamd,
    /// The file.
    Icap,
    /// What the service can.
    IcapOptions,
    /// The message.
    Smtp,
}

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
const OPTIONS: &[u8] = b"ICAP/1.0 200 OK\r\nISTag: \"1\"\r\nOptions-TTL: 3600\r\n\r\n";
const CLEAN: &[u8] = b"ICAP/1.0 204 No Content\r\nISTag: \"1\"\r\n\r\n";

/// A request, and the answer that it should have.
struct Asked {
    request: Vec<u8>,
    answer: Vec<u8>,
}

/// Reads until what came ends so.
async fn read_until(stream: &mut TcpStream, end: &[u8]) -> Vec<u8> {
    let mut got = Vec::new();
    while !got.ends_with(end) {
        got.push(stream.read_u8().await.unwrap());
    }
    got
}

/// The request that counts; any other one is answered.
async fn asked(stream: &mut TcpStream, speaks: Speaks) -> Option<Asked> {
    let known = |request, answer: &[u8]| Some(Asked { request, answer: answer.to_vec() });
    match speaks {
        Speaks::Http | Speaks::As2 => {
            let got = read(stream).await;
            assert!(!got.cut, "a request was cut off");
            let answer = if speaks == Speaks::As2 { answered(&got) } else { OK.to_vec() };
            let request = [got.head.as_bytes(), &got.body].concat();
            Some(Asked { request, answer })
        }
        Speaks::Clamd => {
            let mut command = [0; 10];
            stream.read_exact(&mut command).await.unwrap();
            let mut file = Vec::new();
            while let Ok(length @ 1..) = stream.read_u32().await {
                let begin = file.len();
                file.resize(begin + length as usize, 0);
                stream.read_exact(&mut file[begin..]).await.unwrap();
            }
            known(file, b"stream: OK\0")
        }
        Speaks::Icap | Speaks::IcapOptions => {
            let mut request = read_until(stream, b"\r\n\r\n").await;
            let is_options = request.starts_with(b"OPTIONS");
            if !is_options {
                request.extend(read_until(stream, b"\r\n0\r\n\r\n").await);
            }
            let answer = if is_options { OPTIONS } else { CLEAN };
            if is_options == (speaks == Speaks::IcapOptions) {
                return known(request, answer);
            }
            stream.write_all(answer).await.unwrap();
            None
        }
        Speaks::Smtp => known(letter(stream).await, b"250 taken\r\n"),
    }
}

/// All that a client says up to the end of its message.
async fn letter(stream: &mut TcpStream) -> Vec<u8> {
    stream.write_all(b"220 here\r\n").await.unwrap();
    let mut told = Vec::new();
    while !told.ends_with(b"DATA\r\n") {
        told.extend(read_until(stream, b"\r\n").await);
        let answer: &[u8] =
            if told.ends_with(b"DATA\r\n") { b"354 go on\r\n" } else { b"250 ok\r\n" };
        stream.write_all(answer).await.unwrap();
    }
    told.extend(read_until(stream, b"\r\n.\r\n").await);
    told
}

/// A server at a port where nobody listens yet.
struct Target {
    port: u16,
    speaks: Speaks,
    socket: Option<TcpSocket>,
    requests: Arc<Mutex<Vec<Vec<u8>>>>,
    /// It has a request that it does not answer.
    is_silent: Arc<Notify>,
    /// Nobody waits for the answer any more.
    has_given_up: Arc<Notify>,
}

impl Target {
    fn start(speaks: Speaks) -> Target {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let port = socket.local_addr().unwrap().port();
        let (is_silent, has_given_up) = Default::default();
        let (socket, requests) = (Some(socket), Arc::default());
        Target { port, speaks, socket, requests, is_silent, has_given_up }
    }

    fn listen(&mut self) {
        let listener = self.socket.take().unwrap().listen(16).unwrap();
        let (speaks, requests) = (self.speaks, self.requests.clone());
        let (is_silent, has_given_up) = (self.is_silent.clone(), self.has_given_up.clone());
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let Some(Asked { request, answer }) = asked(&mut stream, speaks).await else {
                    continue;
                };
                let number = {
                    let mut requests = requests.lock();
                    requests.push(request);
                    requests.len() - 1
                };
                let does = IN_TURN[number.min(IN_TURN.len() - 1)];
                if matches!(does, Does::Hangs | Does::IsLate) {
                    is_silent.notify_one();
                    has_given_up.notified().await;
                }
                let said = match does {
                    Does::Hangs | Does::Cuts => &[],
                    Does::CutsItsAnswer => &answer[..answer.len() / 2],
                    Does::IsLate | Does::Answers => &answer[..],
                };
                // Who has given up is gone.
                let _ = stream.write_all(said).await;
                if speaks == Speaks::Smtp && does == Does::Answers {
                    read_until(&mut stream, b"QUIT\r\n").await;
                    stream.write_all(b"221 bye\r\n").await.unwrap();
                }
            }
        });
    }
}

/// A step, and how it is to take what its server does.
struct Case {
    rule: Rule,
    /// For how long it listens to silence.
    limit: Duration,
    /// The field by which the server knows what comes again.
    id: Option<&'static str>,
    /// What the job says of a server that refuses, hangs, cuts, cuts its answer and is late.
    said: [String; 5],
}

async fn job(world: &World, id: JobId) -> Job {
    loop {
        if let Some(job) = world.db.job(SITE, id).await.unwrap() {
            return job;
        }
        tokio::task::yield_now().await;
    }
}

/// The job when its attempt of this number has failed.
async fn failed(world: &World, id: JobId, attempt: u32) -> Job {
    loop {
        let job = job(world, id).await;
        assert!(job.attempts <= attempt, "{job:?}");
        assert!(!matches!(job.state, JobState::Done | JobState::Failed), "{attempt}: {job:?}");
        if job.attempts == attempt && job.state == JobState::Ready {
            return job;
        }
        tokio::task::yield_now().await;
    }
}

/// Its next attempt is due.
fn hurry(world: &World, job: &Job) {
    world.env.advance(job.due_at.since(world.env.now()));
    world.engine().wake();
}

async fn done(world: &World, id: JobId) -> Job {
    loop {
        let job = job(world, id).await;
        assert_ne!(job.state, JobState::Failed, "{job:?}");
        if job.state == JobState::Done {
            return job;
        }
        tokio::task::yield_now().await;
    }
}

/// So much time passes for whoever waits, and none for the machine.
async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

/// The job when its attempt of this number has failed for a server that is silent: so much time
/// passes, and again if nobody had begun to wait by then.
async fn given_up(world: &World, id: JobId, attempt: u32, limit: Duration) -> Job {
    loop {
        pass(limit).await;
        for _ in 0..300 {
            let job = job(world, id).await;
            if job.attempts == attempt && job.state == JobState::Ready {
                return job;
            }
            tokio::task::yield_now().await;
        }
    }
}

/// What the job said of its failed attempts, in their order.
async fn retried(world: &World, count: usize) -> Vec<(Event, RetryingFact)> {
    loop {
        let events = world.events("job.retrying").await;
        assert!(events.len() <= count, "{events:?}");
        if events.len() < count {
            tokio::task::yield_now().await;
            continue;
        }
        let fact = |event: Event| match event.fact.clone() {
            Fact::JobRetrying { retrying } => (event, retrying),
            fact => panic!("{fact:?}"),
        };
        let mut told: Vec<_> = events.into_iter().map(fact).collect();
        told.sort_by_key(|(_, told)| told.attempts);
        return told;
    }
}

/// The value of a field of a head.
fn field(request: &[u8], name: &str) -> Option<String> {
    let text = String::from_utf8_lossy(request);
    let mut fields = text.split("\r\n").filter_map(|line| line.split_once(": "));
    fields.find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
}

/// Sends a file through a server that does all of it.
async fn tried(world: &mut World, mut target: Target, mut case: Case) {
    case.rule.retry.attempts = 10;
    case.rule.retry.longest_delay_seconds = 600;
    world.put(&case.rule).await;
    world.start();
    let event = world.upload("/in/a", &content(1, 7)).await;
    let id = world.job_of(&event, "r").await;
    let refused = failed(world, id, 1).await;
    target.listen();
    hurry(world, &refused);
    for (attempt, does) in (2..).zip(IN_TURN) {
        if does == Does::Answers {
            break;
        }
        if matches!(does, Does::Hangs | Does::IsLate) {
            target.is_silent.notified().await;
            pass(case.limit - Duration::from_secs(1)).await;
            assert_eq!(job(world, id).await.state, JobState::Running, "{does:?}");
            given_up(world, id, attempt, case.limit).await;
        }
        let failed = failed(world, id, attempt).await;
        if matches!(does, Does::Hangs | Does::IsLate) {
            target.has_given_up.notify_one();
        }
        hurry(world, &failed);
    }
    let job = done(world, id).await;
    assert_eq!(job.attempts, 6);
    let told = retried(world, 5).await;
    let port = target.port.to_string();
    let said: Vec<_> = told.iter().map(|(_, told)| told.error.replace(&port, "PORT")).collect();
    assert_eq!(said, case.said);
    for (at, (event, told)) in told.iter().enumerate() {
        // Twice as long each time, spread by a fifth.
        let pause = told.due_at.since(event.at).as_millis();
        let wanted = 1_000 << at;
        assert!((wanted * 8 / 10..=wanted * 12 / 10 + 100).contains(&pause), "{at}: {pause} ms");
    }
    let requests = target.requests.lock().clone();
    assert_eq!(requests.len(), IN_TURN.len(), "it was sent more often than it was tried");
    if let Some(name) = case.id {
        let ids: Vec<_> = requests.iter().map(|request| field(request, name)).collect();
        assert!(ids[0].is_some() && ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    }
}

/// What a job says of a server that refuses, hangs, cuts, cuts its answer and is late.
fn sentences(endpoint: &str, late: (&str, &str), cuts: [&str; 2]) -> [String; 5] {
    let of = |(code, text): (&str, &str)| format!("{code}: endpoint '{endpoint}': {text}");
    let refused = "cannot connect to '127.0.0.1:PORT': Connection refused (os error 111)";
    let [cut, half] = cuts.map(|text| of((late.0.replace("EP0263", "EP0265").as_str(), text)));
    [of(("EP0223", refused)), of(late), cut, half, of(late)]
}

/// The same of a server of HTTP, for which is waited so long.
fn of_http(seconds: u64) -> [String; 5] {
    let late = format!("the server did not answer within {seconds}s");
    let cut = "the HTTP exchange failed: connection closed before message completed";
    sentences("there", ("EP0263", &late), [cut; 2])
}

#[tokio::test]
async fn a_request_gets_through_a_server_that_breaks_in_every_way() {
    for (seed, body) in [(2_991, json!("none")), (2_992, json!("file"))] {
        let mut world = World::new(seed).await;
        let target = Target::start(Speaks::Http);
        let url = format!("http://127.0.0.1:{}/", target.port);
        endpoint(&world, json!({"web": {"url": url, "allow_private": true}}), "").await;
        let rule = doing(json!([{"http": {"endpoint": "there", "body": body}}]));
        let limit = Duration::from_secs(60);
        let case = Case { rule, limit, id: Some("idempotency-key"), said: of_http(60) };
        tried(&mut world, target, case).await;
    }
}

#[tokio::test]
async fn a_web_hook_gets_through_a_server_that_breaks_in_every_way() {
    let mut world = World::new(2_993).await;
    let target = Target::start(Speaks::Http);
    let url = format!("http://127.0.0.1:{}/", target.port);
    let key = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    endpoint(&world, json!({"webhook": {"url": url, "allow_private": true}}), key).await;
    let rule = doing(json!([{"webhook": {"endpoint": "there"}}]));
    let limit = WEBHOOK_TIME;
    let case = Case { rule, limit, id: Some("webhook-id"), said: of_http(15) };
    tried(&mut world, target, case).await;
}

#[tokio::test]
async fn a_message_of_as2_gets_through_a_partner_that_breaks_in_every_way() {
    let mut world = World::new(2_994).await;
    let target = Target::start(Speaks::As2);
    agreed(&world, target.port, json!({"send": {"timeout": "40s"}})).await;
    let limit = Duration::from_secs(40);
    let cut = "the HTTP exchange failed: connection closed before message completed";
    let half = "the HTTP exchange failed: error reading a body from connection: end of file before \
                message length reached";
    let late = ("EP0263", "the server did not answer within 40s");
    let said = sentences("globex", late, [cut, half]);
    let case = Case { rule: sending(), limit, id: Some("message-id"), said };
    tried(&mut world, target, case).await;
    until(&world, async |world| world.events("file.delivered").await.len() == 1).await;
}

#[tokio::test]
async fn a_file_is_scanned_by_a_server_that_broke_in_every_way() {
    let cases = [
        (2_995, Speaks::Clamd, "clamd://127.0.0.1:PORT"),
        (2_996, Speaks::Icap, "icap://127.0.0.1:PORT/avscan"),
        (2_997, Speaks::IcapOptions, "icap://127.0.0.1:PORT/avscan"),
    ];
    for (seed, speaks, url) in cases {
        let mut world = World::new(seed).await;
        let target = Target::start(speaks);
        let url = url.replace("PORT", &target.port.to_string());
        endpoint(&world, json!({"scanner": {"url": url, "allow_private": true}}), "").await;
        let rule =
            doing(json!([{"scan": {"endpoint": "there"}}, {"move": {"to": "/done/{name}"}}]));
        let of =
            |why: &str| format!("EP0898: scanner 'there' does not say whether 'a' is clean: {why}");
        let refused = "cannot connect to '127.0.0.1:PORT': Connection refused (os error 111)";
        let (late, cut) =
            ("it did not answer within 120s", "the connection ended before the answer did");
        let said = [refused, late, cut, cut, late].map(of);
        tried(&mut world, target, Case { rule, limit: SCAN_TIME, id: None, said }).await;
    }
}

#[tokio::test]
async fn a_mail_gets_through_a_server_that_breaks_in_every_way() {
    let mut world = World::new(2_998).await;
    let target = Target::start(Speaks::Smtp);
    endpoint(&world, mail(target.port), "").await;
    let rule = doing(json!([{"mail": {"endpoint": "there", "to": ["a@example.com"],
        "subject": "s", "text": "t", "attach": "file"}}]));
    let late = ("EP0895", "the server did not answer within 120s");
    let said = sentences("there", late, ["the SMTP exchange failed: the connection ended"; 2]);
    let limit = SMTP_TIME;
    let case = Case { rule, limit, id: Some("message-id"), said };
    tried(&mut world, target, case).await;
}

/// Where in a session a server of mail breaks, by what it was told last.
const STAGES: [&str; 5] = ["", "EHLO", "MAIL", "RCPT", "DATA"];

/// Says what the client hears before it is told the command `until`; what it was told.
async fn before(stream: &mut BufReader<TcpStream>, until: &str) -> String {
    let mut told = String::new();
    if until.is_empty() {
        return told;
    }
    stream.write_all(b"220 here\r\n").await.unwrap();
    loop {
        let begin = told.len();
        if stream.read_line(&mut told).await.unwrap_or(0) == 0 {
            return told;
        }
        let line = &told[begin..];
        if line.starts_with(until) {
            return told;
        }
        let answer: &[u8] = if line == "DATA\r\n" { b"354 go on\r\n" } else { b"250 ok\r\n" };
        stream.write_all(answer).await.unwrap();
        if line == "DATA\r\n" {
            while !told.ends_with("\r\n.\r\n") {
                stream.read_line(&mut told).await.unwrap();
            }
            stream.write_all(b"250 taken\r\n").await.unwrap();
        }
    }
}

/// Whatever it says first, it is heard out no longer than a reply may take.
#[tokio::test]
async fn a_server_of_mail_may_hang_and_cut_at_every_word() {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let mut world = World::new(2_999).await;
    endpoint(&world, mail(listener.local_addr().unwrap().port()), "").await;
    let mut rule = doing(json!([{"mail": {"endpoint": "there", "to": ["a@example.com"],
        "subject": "s", "text": "t"}}]));
    rule.retry.attempts = 20;
    world.put(&rule).await;
    world.start();
    let event = world.upload("/in/a", b"content").await;
    let id = world.job_of(&event, "r").await;
    let mut attempt = 0;
    for stage in STAGES {
        for does in [Does::Hangs, Does::Cuts] {
            attempt += 1;
            let mut stream = BufReader::new(listener.accept().await.unwrap().0);
            let told = before(&mut stream, stage).await;
            assert!(told.lines().last().unwrap_or_default().starts_with(stage), "{told}");
            if does == Does::Hangs {
                given_up(&world, id, attempt, SMTP_TIME).await;
            } else {
                drop(stream);
            }
            let failed = failed(&world, id, attempt).await;
            let said = match does {
                Does::Hangs => "EP0895: endpoint 'there': the server did not answer within 120s",
                _ => "EP0895: endpoint 'there': the SMTP exchange failed: the connection ended",
            };
            assert_eq!(failed.error.as_deref(), Some(said), "{stage} {does:?}");
            hurry(&world, &failed);
        }
    }
    let mut stream = BufReader::new(listener.accept().await.unwrap().0);
    before(&mut stream, "QUIT").await;
    stream.write_all(b"221 bye\r\n").await.unwrap();
    assert_eq!(done(&world, id).await.attempts, attempt + 1);
}

/// It has the message, so the step must not end as if it had not.
#[tokio::test]
async fn a_server_of_mail_that_hangs_when_it_has_the_message_gets_it_once() {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let mut world = World::new(3_000).await;
    endpoint(&world, mail(listener.local_addr().unwrap().port()), "").await;
    let rule = doing(json!([{"mail": {"endpoint": "there", "to": ["a@example.com"],
        "subject": "s", "text": "t"}, "timeout": "30s"}]));
    world.put(&rule).await;
    world.start();
    let event = world.upload("/in/a", b"content").await;
    let id = world.job_of(&event, "r").await;
    let mut stream = BufReader::new(listener.accept().await.unwrap().0);
    let told = before(&mut stream, "QUIT").await;
    assert!(told.ends_with("QUIT\r\n"), "{told}");
    pass(SMTP_QUIT_TIME + Duration::from_secs(1)).await;
    for _ in 0..300 {
        if job(&world, id).await.state == JobState::Done {
            break;
        }
        tokio::task::yield_now().await;
    }
    // The time of the step is over.
    pass(Duration::from_secs(30)).await;
    loop {
        let job = job(&world, id).await;
        assert_ne!(job.state, JobState::Ready, "it is sent once more: {job:?}");
        if job.state == JobState::Done {
            break;
        }
        tokio::task::yield_now().await;
    }
}

/// A server that refuses, and never comes to the end of what it says, is not listened to for long.
#[tokio::test]
async fn the_words_of_a_refusal_may_never_end() {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let mut stream = listener.accept().await.unwrap().0;
        read(&mut stream).await;
        let head = "HTTP/1.1 503 Busy\r\nContent-Length: 1000\r\n\r\nbusy\tnow";
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut seconds = tokio::time::interval(Duration::from_secs(1));
        while stream.write_all(b".").await.is_ok() {
            seconds.tick().await;
        }
    });
    let mut request = Request::new(Method::GET, &url).unwrap();
    request.dial = DialPolicy { allow_private: true };
    let response = Client::new(ServerTrust::System).send(request).await.unwrap();
    tokio::time::pause();
    let saying = crate::web_client::said(response);
    let said = tokio::time::timeout(WEBHOOK_TIME, saying).await.expect("it is listened to still");
    let words = said.strip_prefix("503 Service Unavailable: busy now").unwrap_or_default();
    assert!(!words.is_empty() && words.chars().all(|letter| letter == '.'), "{said}");
    server.await.unwrap();
}
