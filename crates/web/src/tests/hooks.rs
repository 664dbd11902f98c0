//! Rules before and after what is asked for over HTTP: every door asks, in the words of rules, and
//! tells what came of it.

use std::sync::Arc;
use std::time::Duration;

use axum::http::Method;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use entrepot_nouns::{CommandProtocol, Mount, SiteId, TokenScope, TrashOptions, VersionOptions};
use entrepot_vfs::{CommandRefusal, Hook, Moment, RefusalClass, RuleQuestion};
use entrepot_world::{mount, name};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::Notify;

use super::client::{Answer, Client, basic, bearer};
use super::fixture::Node;
use super::soon;
use crate::router;

const FORM: &str = "Content-Type: multipart/form-data; boundary=x\r\n";
const JSON: &str = "Content-Type: application/json\r\n";
const TUS: &str = "Tus-Resumable: 1.0.0\r\n";
const OCTETS: &str = "Content-Type: application/offset+octet-stream\r\n";
const TO: &str = "Destination: http://localhost/dav/to\r\n";
const LOCK: &str = "<lockinfo xmlns='DAV:'><lockscope><exclusive/></lockscope><locktype><write/>\
                    </locktype></lockinfo>";

/// What rules were asked (`?`) and told (`!`): protocol, verb, path, account, and what is known.
#[derive(Clone, Default)]
pub(super) struct Told(Arc<ToldShared>);

#[derive(Default)]
struct ToldShared {
    lines: Mutex<Vec<String>>,
    more: Notify,
}

impl Told {
    /// All since the last look.
    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lines.lock())
    }

    /// Waits until so much is told.
    async fn until(&self, count: usize) -> Vec<String> {
        soon(async {
            while self.0.lines.lock().len() < count {
                self.0.more.notified().await;
            }
        })
        .await;
        self.take()
    }
}

/// Rules on these commands; they answer as `decide` says.
pub(super) fn rules(
    node: &Node,
    commands: &str,
    decide: impl Fn(&RuleQuestion) -> Option<RefusalClass> + Send + 'static,
) -> Told {
    let hooks = node.world.vfs.hooks();
    let mut questions = hooks.attach().unwrap();
    let told = Told::default();
    let kept = told.clone();
    tokio::spawn(async move {
        while let Some(question) = questions.recv().await {
            kept.0.lines.lock().push(line(&question));
            kept.0.more.notify_one();
            let refused = decide(&question).map(|class| CommandRefusal {
                class,
                text: "Ask the archive.".to_owned(),
                rule: Some(name("stays")),
                ftp_code: Some(553),
            });
            let _ = question.answer.send(refused.map_or(Ok(()), Err));
        }
    });
    look(node, commands);
    told
}

/// From now on rules look at these commands.
pub(super) fn look(node: &Node, commands: &str) {
    let hook = |moment| Hook {
        site: SiteId::MAIN,
        moment,
        commands: vec![commands.parse().unwrap()],
        limit: Duration::from_secs(60),
    };
    node.world.vfs.hooks().set(vec![hook(Moment::Before), hook(Moment::Reply)]);
}

fn line(question: &RuleQuestion) -> String {
    let command = question.event.fact.command().unwrap();
    let account = question.event.account.as_ref().map_or("nobody", |account| account.as_str());
    let path = command.path.as_deref().unwrap_or("-");
    let about = format!("{} {} {path} {account}", command.protocol.as_str(), command.verb);
    if question.moment == Moment::Before {
        return format!("? {about}");
    }
    let bytes = command.bytes.map(|bytes| format!(" {bytes}")).unwrap_or_default();
    let transfer = if command.transfer.is_some() { " transfer" } else { "" };
    format!("! {about} {}{bytes}{transfer}", command.code.unwrap_or_default())
}

fn is_before(question: &RuleQuestion) -> bool {
    question.moment == Moment::Before
}

/// A node whose files can be put back, with `/a.txt`, `/in/b.txt` and what was removed.
async fn node() -> (Node, Client) {
    let node = Node::start().await;
    let trash = Some(TrashOptions { days: 30, bytes: None });
    let versions = Some(VersionOptions { keep: Some(9), days: None, bytes: None });
    let own = mount("anna-all", "anna", "/", "files");
    node.world.put(&Mount { trash, versions, ..own }).await;
    let mut client = node.connect().await;
    for (line, body) in [
        ("POST /files/in?mkdir", ""),
        ("PUT /files/a.txt", "older"),
        ("PUT /files/a.txt", "content"),
        ("PUT /files/in/b.txt", "b"),
        ("PUT /files/in/gone.txt", "gone"),
        ("DELETE /files/in/gone.txt", ""),
    ] {
        let answer = client.upload(line, &basic("anna"), body.as_bytes()).await;
        assert!(answer.status < 300, "{line}: {answer:?}");
    }
    (node, client)
}

/// One request, and what rules are asked about it first.
struct Door {
    line: String,
    fields: String,
    body: String,
    asked: &'static str,
}

/// A part of a form that is a file.
fn file_part(name: &str) -> String {
    format!(
        "--x\r\nContent-Disposition: form-data; name=\"f\"; filename=\"{name}\"\r\n\r\nbytes\r\n\
         --x--\r\n"
    )
}

fn field_part(name: &str, value: &str) -> String {
    format!("--x\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n--x--\r\n")
}

/// The ids of what is in the trash and of the version, and two links: to a folder, to a file.
struct Things {
    trashed: String,
    version: String,
    link: String,
    file_link: String,
}

async fn things(client: &mut Client) -> Things {
    let anna = basic("anna");
    let trash = client.request("GET /files/?trash", &anna).await.json();
    let versions = client.request("GET /files/a.txt?versions", &anna).await.json();
    let mut links = Vec::new();
    for order in [
        json!({"folder": "/in", "allows": ["download", "upload"]}),
        json!({"folder": "/in", "files": ["b.txt"], "allows": ["download"]}),
    ] {
        let fields = format!("{anna}{JSON}");
        let made = client.upload("POST /api/v1/links", &fields, order.to_string().as_bytes()).await;
        links.push(made.json()["addresses"][0]["address"].as_str().unwrap().to_owned());
    }
    let id = |value: &serde_json::Value| value["id"].as_str().unwrap().to_owned();
    let file_link = links.pop().unwrap();
    Things {
        trashed: id(&trash["trashed"][0]),
        version: id(&versions["versions"][0]),
        link: links.pop().unwrap(),
        file_link,
    }
}

/// Requests without a body, and what they are in the words of rules. What is in capitals behind the
/// path is put in when it is known.
const DOORS: [(&str, &str); 37] = [
    ("GET /files/a.txt", "read /a.txt"),
    ("GET /files/a.txt?version=VERSION", "read /a.txt"),
    ("GET /files/in/", "list /in"),
    ("GET /files/in", "list /in"),
    ("GET /files/", "list /"),
    ("GET /files/?search=txt", "list /"),
    ("GET /files/?trash", "list /"),
    ("GET /files/a.txt?versions", "list /a.txt"),
    ("GET /files/in/?zip", "read /in"),
    ("GET /files/in/?zip&name=b.txt", "read /in/b.txt"),
    ("PUT /files/new?zip", "write /new"),
    ("PUT /files/new", "write /new"),
    ("DELETE /files/a.txt", "remove /a.txt"),
    ("DELETE /files/in/", "remove /in"),
    ("DELETE /files/in/?zip", "remove /in"),
    ("DELETE /files/a.txt?version=VERSION", "remove /a.txt"),
    ("DELETE /files/?trash", "remove /"),
    ("DELETE /files/?trash=TRASHED", "remove /in/gone.txt"),
    ("POST /files/new?mkdir", "mkdir /new"),
    ("POST /files/a.txt?move=/to", "rename /to"),
    ("POST /files/a.txt?copy=/to", "rename /to"),
    ("POST /files/?restore=TRASHED", "write /in/gone.txt"),
    ("POST /files/a.txt?version=VERSION", "write /a.txt"),
    ("GET /dav/a.txt", "read /a.txt"),
    ("GET /dav/in/", "list /in"),
    ("PUT /dav/new", "write /new"),
    ("DELETE /dav/in", "remove /in"),
    ("MKCOL /dav/new", "mkdir /new"),
    ("GET LINK", "list /in"),
    ("GET LINK/b.txt", "read /in/b.txt"),
    ("GET LINK?zip", "read /in"),
    ("GET LINK/?zip&name=b.txt", "read /in/b.txt"),
    ("GET FILELINK", "read /in/b.txt"),
    ("GET FILELINK/b.txt", "read /in/b.txt"),
    ("GET FILELINK?zip", "read /in/b.txt"),
    ("PUT LINK/c.txt", "write /in/c.txt"),
    ("PUT LINK/b.txt", "write /in/b (1).txt"),
];

/// Every request that leads to files, with what it is in the words of rules.
fn doors(things: &Things) -> Vec<Door> {
    let Things { trashed, version, link, file_link } = things;
    let anna = basic("anna");
    let mut doors = Vec::new();
    let mut door = |line: &str, fields: &str, body: &str, asked: &'static str| {
        let line = line.replace("TRASHED", trashed).replace("VERSION", version);
        let by_link = line.replace("FILELINK", file_link).replace("LINK", link);
        let sender = if by_link == line { anna.as_str() } else { "" };
        let (fields, body) = (format!("{sender}{fields}"), body.to_owned());
        doors.push(Door { line: by_link, fields, body, asked });
    };
    for (line, asked) in DOORS {
        door(line, "", "", asked);
    }
    door("GET /files/in/", "Accept: application/zip\r\n", "", "read /in");
    door("GET LINK", "Accept: text/html\r\n", "", "list /in");
    door("GET FILELINK", "Accept: text/html\r\n", "", "list /in");
    door("POST /files/in/?zip", JSON, r#"{"names": ["b.txt"]}"#, "read /in/b.txt");
    door("POST /files/in/?zip&move=/to", JSON, r#"{"names": ["b.txt"]}"#, "read /in/b.txt");
    door("POST /files/in/", FORM, &file_part("new"), "write /in/new");
    door("POST LINK", FORM, &file_part("new"), "write /in/new");
    door("PROPFIND /dav/in", "Depth: 1\r\n", "", "list /in");
    door("COPY /dav/a.txt", TO, "", "rename /to");
    door("MOVE /dav/a.txt", TO, "", "rename /to");
    door("LOCK /dav/new", "", LOCK, "write /new");
    let folder = format!("folder {}", STANDARD.encode("/in"));
    let named = format!("Upload-Metadata: filename {},{folder}\r\n", STANDARD.encode("new"));
    let begins = format!("{TUS}Upload-Length: 4\r\n{named}");
    door("POST /uploads", &begins, "", "write /in/new");
    door("POST /uploads/", &format!("{begins}{OCTETS}"), "four", "write /in/new");
    door("POST /uploads", JSON, r#"{"path": "/new", "size": 4}"#, "write /new");
    for (name, value, asked) in [
        ("mkdir", "new", "mkdir /in/new"),
        ("delete", "b.txt", "remove /in/b.txt"),
        ("restore", trashed.as_str(), "write /in/gone.txt"),
        ("purge", trashed.as_str(), "remove /in/gone.txt"),
        ("purge", "all", "remove /in"),
    ] {
        door("POST /files/in/", FORM, &field_part(name, value), asked);
    }
    door("POST /files/a.txt", FORM, &field_part("restore-version", version), "write /a.txt");
    door("POST /files/a.txt", FORM, &field_part("delete-version", version), "remove /a.txt");
    doors
}

/// What leads to files and asks nothing, with the reason.
const UNASKED: [(&str, &str, &str); 10] = [
    ("HEAD", "/files", "it shows no content"),
    ("HEAD", "/dav", "it shows no content"),
    ("HEAD", "/s", "it shows no content"),
    ("HEAD", "/uploads", "asked when the upload began"),
    ("PATCH", "/uploads", "asked when the upload began"),
    ("PUT", "/uploads", "asked when the upload began"),
    ("DELETE", "/uploads", "nothing was published"),
    ("GET", "/uploads", "the client's own unfinished uploads"),
    ("OPTIONS", "/dav", "about the server"),
    ("PROPPATCH", "/dav", "no content and no name changes"),
];

#[tokio::test]
async fn no_door_is_forgotten() {
    let (node, mut client) = node().await;
    let things = things(&mut client).await;
    // Links open their sessions before.
    let doors = doors(&things);
    let told =
        rules(&node, "http *", |question| is_before(question).then_some(RefusalClass::Denied));
    for Door { line, fields, body, asked } in &doors {
        let answer = node.connect().await.upload(line, fields, body.as_bytes()).await;
        assert_eq!(answer.status, 403, "{line}: {answer:?}");
        if fields.contains("text/html") {
            assert!(answer.text().contains("Ask the archive."), "{}", answer.text());
        } else {
            assert_eq!(answer.code(), "EP1030", "{line}");
            let detail = answer.json()["detail"].as_str().unwrap().to_owned();
            assert!(detail.ends_with("Ask the archive."), "{line}: {detail}");
        }
        // A link acts for who made it.
        assert_eq!(told.take(), [format!("? http {asked} anna")], "{line}");
    }
    every_route_is_in(&node, &doors);
    // Nothing has happened.
    node.world.vfs.hooks().set(Vec::new());
    let listed = client.request("GET /files/", &basic("anna")).await.json();
    let names: Vec<&str> =
        listed["entries"].as_array().unwrap().iter().filter_map(|it| it["name"].as_str()).collect();
    assert_eq!(names, ["a.txt", "in", "small"]);
    let inside = client.request("GET /files/in/", &basic("anna")).await.json();
    assert_eq!(inside["entries"].as_array().unwrap().len(), 1, "{inside}");
    let again = things_left(&mut client).await;
    assert_eq!(again, (1, 1), "the trash and the versions");
    assert_eq!(told.take(), Vec::<String>::new(), "no rule looks any more");
    let refused = node.stop().await.events().await;
    let refused = refused.iter().filter(|event| event.fact.kind() == "command.refused").count();
    assert_eq!(refused, doors.len());
}

async fn things_left(client: &mut Client) -> (usize, usize) {
    let anna = basic("anna");
    let trash = client.request("GET /files/?trash", &anna).await.json();
    let versions = client.request("GET /files/a.txt?versions", &anna).await.json();
    let count = |value: &serde_json::Value| value.as_array().map_or(0, Vec::len);
    (count(&trash["trashed"]), count(&versions["versions"]))
}

/// Each method of each route below the addresses of files is a door above, or asks nothing.
fn every_route_is_in(node: &Node, doors: &[Door]) {
    let root = |path: &str| {
        let first = path.trim_start_matches('/').split(['/', '?']).next().unwrap_or_default();
        format!("/{first}")
    };
    let opened: Vec<(String, String)> = doors
        .iter()
        .filter_map(|door| door.line.split_once(' '))
        .map(|(method, path)| (method.to_owned(), root(path)))
        .collect();
    for served in router::table(&node.api()) {
        let root = root(&served.path);
        if !["/files", "/dav", "/s", "/uploads"].contains(&&*root) || served.path == "/files" {
            continue;
        }
        for method in &served.methods {
            let known = (method.to_string(), root.clone());
            let is_unasked =
                UNASKED.iter().any(|(method, at, _)| *method == known.0 && *at == known.1);
            let is_unlock = *method == Method::from_bytes(b"UNLOCK").unwrap();
            assert!(opened.contains(&known) || is_unasked || is_unlock, "{method} {}", served.path);
        }
    }
}

#[tokio::test]
async fn who_signs_in_is_asked_about_before_the_session_is_open() {
    let node = Node::start().await;
    let token = node.token("anna", &[TokenScope::FilesRead]).await;
    let told = rules(&node, "http login", |question| {
        let who = question.event.account.as_ref().is_some_and(|it| it.as_str() == "anna");
        (is_before(question) && who).then_some(RefusalClass::Denied)
    });
    for fields in [basic("anna"), bearer(&token)] {
        let answer = node.connect().await.request("GET /files/", &fields).await;
        assert_eq!((answer.status, answer.code().as_str()), (403, "EP1030"));
        assert_eq!(told.take(), ["? http login - anna"]);
    }
    // A wrong password is no login.
    let wrong = super::client::basic_with("anna", "wrong");
    assert_eq!(node.connect().await.request("GET /files/", &wrong).await.status, 401);
    assert_eq!(told.take(), Vec::<String>::new());
    let mut client = node.connect().await;
    for _ in 0..2 {
        assert_eq!(client.request("GET /api/v1/session", &basic("reader")).await.status, 200);
    }
    assert_eq!(told.take(), ["? http login - reader", "! http login - reader 200"]);
    let events = node.stop().await.events().await;
    let opened = events.iter().filter(|event| event.fact.kind() == "session.opened");
    let opened: Vec<_> = opened.filter_map(|event| event.account.as_ref()).collect();
    assert!(opened.iter().all(|account| account.as_str() != "anna"), "{opened:?}");
}

/// A request of `anna` on a connection of its own: one that is refused may close it.
async fn ask(node: &Node, line: &str, fields: &str, body: &str) -> Answer {
    let mut client = node.connect().await;
    let fields = format!("{}{fields}", basic("anna"));
    if line.starts_with("HEAD") {
        return client.request(line, &fields).await;
    }
    client.upload(line, &fields, body.as_bytes()).await
}

/// `! W /new 201` in full.
fn spelled(short: &str) -> String {
    let mut words = short.splitn(4, ' ');
    let (mark, verb) = (words.next().unwrap(), words.next().unwrap());
    let verb = match verb {
        "W" => "write",
        "R" => "read",
        "D" => "remove",
        "N" => "rename",
        "M" => "mkdir",
        _ => "list",
    };
    let (path, rest) = (words.next().unwrap(), words.next());
    let rest = rest.map(|rest| format!(" {rest}")).unwrap_or_default();
    format!("{mark} http {verb} {path} anna{rest}")
}

#[tokio::test]
async fn what_was_done_is_told_once_with_what_came_of_it() {
    let (node, _) = node().await;
    let told = rules(&node, "http *", |_| None);
    let form = file_part("f");
    let part = "Range: bytes=2-3\r\n";
    for (line, fields, body, status, wanted) in [
        ("PUT /files/new", "", "12345", 201, vec!["? W /new", "! W /new 201 5 transfer"]),
        ("PUT /dav/new", "", "123", 204, vec!["? W /new", "! W /new 204 3 transfer"]),
        ("GET /files/a.txt", "", "", 200, vec!["? R /a.txt", "! R /a.txt 200 7"]),
        ("GET /files/a.txt", part, "", 206, vec!["? R /a.txt", "! R /a.txt 206 2"]),
        ("GET /files/none", "", "", 404, vec!["? R /none", "! R /none 404"]),
        ("DELETE /files/none", "", "", 404, vec!["? D /none", "! D /none 404"]),
        (
            "POST /files/new?move=/newer",
            "",
            "",
            201,
            vec!["? N /newer", "? N /new", "! N /newer 201"],
        ),
        ("POST /files/new?mkdir", "", "", 201, vec!["? M /new", "! M /new 201"]),
        ("PROPFIND /dav/new", "Depth: 1\r\n", "", 207, vec!["? L /new", "! L /new 207"]),
        ("PROPFIND /dav/new", "Depth: 0\r\n", "", 207, vec![]),
        ("HEAD /files/a.txt", "", "", 200, vec![]),
        ("LOCK /dav/locked", "", LOCK, 201, vec!["? W /locked", "! W /locked 201 0 transfer"]),
        ("POST /files/", FORM, &*form, 201, vec!["? W /f", "! W /f 201 5 transfer"]),
    ] {
        let answer = ask(&node, line, fields, body).await;
        assert_eq!(answer.status, status, "{line}: {answer:?}");
        let wanted: Vec<String> = wanted.into_iter().map(spelled).collect();
        assert_eq!(told.until(wanted.len()).await, wanted, "{line}");
    }
}

#[tokio::test]
async fn an_upload_of_many_requests_is_asked_about_and_told_once() {
    let (node, mut client) = node().await;
    let told = rules(&node, "http write", |_| None);
    let named = format!("{TUS}Upload-Metadata: filename {}\r\n", STANDARD.encode("big"));
    let begins = format!("{named}Upload-Length: 6\r\n");
    let begun = ask(&node, "POST /uploads", &begins, "").await;
    let at = begun.field("location").to_owned();
    assert_eq!(told.take(), ["? http write /big anna"]);
    let patch = format!("PATCH {at}");
    let offset = |offset: usize| format!("{TUS}{OCTETS}Upload-Offset: {offset}\r\n");
    assert_eq!(ask(&node, &patch, &offset(0), "123").await.status, 204);
    assert_eq!(told.take(), Vec::<String>::new());
    // By its ticket there is no session, and the account is known all the same.
    let ticket = format!("{}Upload-Ticket: {}\r\n", offset(3), begun.field("upload-ticket"));
    assert_eq!(client.upload(&patch, &ticket, b"456").await.status, 204);
    assert_eq!(told.take(), ["! http write /big anna 200 6 transfer"]);
    assert_eq!(ask(&node, &format!("POST {at}/complete"), "", "").await.status, 200);
    assert_eq!(told.take(), Vec::<String>::new(), "it was published before");

    // All at once, and under another name than was asked for.
    let both = format!("{begins}{OCTETS}Upload-Conflict: keep-both\r\n");
    assert_eq!(ask(&node, "POST /uploads", &both, "abcdef").await.status, 201);
    let wanted = ["? http write /big anna", "! http write /big (1) anna 200 6 transfer"];
    assert_eq!(told.take(), wanted);
    // One that cannot begin is told of, too.
    let taken = format!("{begins}{OCTETS}");
    let refused = ask(&node, "POST /uploads", &taken, "abcdef").await.status;
    let wanted = ["? http write /big anna".to_owned(), format!("! http write /big anna {refused}")];
    assert_eq!(told.take(), wanted);
    // By parts.
    let document = r#"{"path": "/parts", "size": 65537, "part_bytes": 65536}"#;
    let begun = ask(&node, "POST /uploads", JSON, document).await;
    let at = begun.field("location").to_owned();
    for (number, size) in [(0, 65_536), (1, 1)] {
        let body = "x".repeat(size);
        let sent = ask(&node, &format!("PUT {at}/parts/{number}"), "", &body).await;
        assert_eq!(sent.status, 204, "{sent:?}");
    }
    assert_eq!(told.take(), ["? http write /parts anna"]);
    for _ in 0..2 {
        assert_eq!(ask(&node, &format!("POST {at}/complete"), "", "").await.status, 200);
    }
    assert_eq!(told.take(), ["! http write /parts anna 200 65537 transfer"]);
}

#[tokio::test]
async fn a_rule_after_a_request_takes_the_place_of_a_good_answer() {
    let (node, mut client) = node().await;
    let form = file_part("f");
    let told = rules(&node, "http *", |question| {
        let command = question.event.fact.command().unwrap();
        let class = match command.path.as_deref() {
            Some("/later") => RefusalClass::NotNow,
            _ => RefusalClass::Denied,
        };
        (!is_before(question)).then_some(class)
    });
    for (line, fields, body, status) in [
        ("PUT /files/x", "", "x", 403),
        ("PUT /files/later", "", "x", 503),
        ("POST /files/d?mkdir", "", "", 403),
        ("POST /files/d?mkdir", "", "", 409),
        ("GET /files/d/", "", "", 403),
        ("POST /files/", FORM, &*form, 403),
        ("GET /files/a.txt", "", "", 200),
    ] {
        let answer = ask(&node, line, fields, body).await;
        assert_eq!(answer.status, status, "{line}: {answer:?}");
        if status == 503 {
            assert!(!answer.field("retry-after").is_empty(), "{answer:?}");
        }
    }
    told.until(14).await;
    node.world.vfs.hooks().set(Vec::new());
    for path in ["x", "later", "d", "f"] {
        let there = client.request(&format!("HEAD /files/{path}"), &basic("anna")).await;
        assert_eq!(there.status, 200, "{path} is there");
    }
}

#[tokio::test]
async fn a_download_that_breaks_off_is_told_as_such() {
    let node = Node::start().await;
    let mut client = node.connect().await;
    let size = 32 * 1024 * 1024;
    let stored = client.upload("PUT /files/big", &basic("anna"), &vec![7; size]).await;
    assert_eq!(stored.status, 201);
    let told = rules(&node, "http read", |_| None);
    let mut other = node.connect().await;
    other
        .send(format!("GET /files/big HTTP/1.1\r\nHost: localhost\r\n{}\r\n", basic("anna")))
        .await;
    assert!(other.more().await.starts_with("HTTP/1.1 200"));
    drop(other);
    let lines = told.until(2).await;
    assert!(lines[1].starts_with("! http read /big anna 499 "), "{lines:?}");
}

#[tokio::test]
async fn what_cannot_be_asked_does_not_pass() {
    let (node, _) = node().await;
    // The engine has not read its rules.
    let questions = node.world.vfs.hooks().attach().unwrap();
    for line in ["GET /files/a.txt", "PUT /dav/x", "POST /files/x?mkdir"] {
        let answer = ask(&node, line, "", "").await;
        assert_eq!((answer.status, answer.code().as_str()), (503, "EP0826"), "{line}");
    }
    // It is gone.
    look(&node, "http *");
    drop(questions);
    let answer = ask(&node, "PUT /files/x", "", "x").await;
    assert_eq!((answer.status, answer.code().as_str()), (503, "EP0826"));
    // No rule on HTTP: it is not needed.
    look(&node, "ftp *");
    assert_eq!(ask(&node, "PUT /files/x", "", "x").await.status, 201);
    let hooks = node.world.vfs.hooks();
    assert!(!hooks.are_any(SiteId::MAIN, CommandProtocol::Http));
}
