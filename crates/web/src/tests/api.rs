//! The API of administrators.

use serde_json::{Value, json};

use super::client::{Answer, Client, basic};
use super::fixture::Node;
use crate::api::routes::{self, Callers};

const JSON: &str = "Content-Type: application/json\r\n";

/// An administrator on one connection.
struct Caller {
    client: Client,
    fields: String,
}

impl Caller {
    async fn new(node: &Node, account: &str) -> Caller {
        Caller { client: node.connect().await, fields: basic(account) }
    }

    async fn get(&mut self, path: &str) -> Answer {
        self.client.request(&format!("GET /api/v1{path}"), &self.fields).await
    }

    async fn send(&mut self, method: &str, path: &str, body: Value) -> Answer {
        self.send_with(method, path, "", body).await
    }

    async fn send_with(&mut self, method: &str, path: &str, more: &str, body: Value) -> Answer {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let fields = format!("{}{JSON}{more}", self.fields);
        self.client.upload(&format!("{method} /api/v1{path}"), &fields, body.as_bytes()).await
    }
}

fn names(answer: &Answer) -> Vec<String> {
    let page = answer.json();
    let items = page["items"].as_array().unwrap_or_else(|| panic!("{answer:?}"));
    items.iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
}

/// A path of the table with words in place of its parameters.
fn filled(path: &str) -> String {
    let id = "0192f1c4-7d7a-7abc-8def-0123456789ab";
    path.replace("{name}", "nothing").replace("{id}", id)
}

#[tokio::test]
async fn every_route_is_for_administrators_only() {
    let node = Node::start().await;
    let mut nobody = node.connect().await;
    let mut anna = node.connect().await;
    let mut count = 0;
    for route in routes::all() {
        let line = format!("{} {}", route.method, filled(&route.path));
        let answer = nobody.upload(&line, JSON, b"{}").await;
        assert_eq!((answer.status, answer.code().as_str()), (401, "EP1000"), "{line}");
        let fields = format!("{}{JSON}", basic("anna"));
        let answer = anna.upload(&line, &fields, b"{}").await;
        match route.callers {
            Callers::Administrators => {
                assert_eq!((answer.status, answer.code().as_str()), (403, "EP0115"), "{line}");
            }
            // What is its own alone: there is nothing of the name that the line has.
            Callers::Accounts => assert!(![401, 403].contains(&answer.status), "{line}"),
        }
        count += 1;
    }
    assert!(count > 60);
    let line = "GET /api/v1/openapi.json";
    assert_eq!(nobody.request(line, "").await.status, 401);
    assert_eq!(anna.request(line, &basic("anna")).await.status, 403);
}

#[tokio::test]
async fn every_described_operation_is_served_and_fails_as_a_problem() {
    let node = Node::start().await;
    let mut admin = Caller::new(&node, "admin").await;
    let described = admin.get("/openapi.json").await.json();
    let mut operations = 0;
    for (path, methods) in described["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            operations += 1;
            if path.ends_with("/stream") {
                continue;
            }
            let method = method.to_uppercase();
            let path = filled(path.strip_prefix("/api/v1").unwrap());
            let answer = admin.send(&method, &path, json!({})).await;
            assert!(answer.status < 500, "{method} {path}: {answer:?}");
            if answer.status >= 400 {
                let code = answer.code();
                assert!(code != "EP1011" && code != "EP1012", "{method} {path}: {answer:?}");
            }
        }
    }
    assert_eq!(operations, routes::all().len());
    let answer = admin.send("DELETE", "/accounts", Value::Null).await;
    assert_eq!((answer.status, answer.code().as_str()), (405, "EP1012"));
    assert_eq!(admin.get("/nothing").await.code(), "EP1011");
}

#[tokio::test]
async fn the_change_of_a_rule_says_what_is_probably_not_meant_of_it() {
    let node = Node::start().await;
    let mut admin = Caller::new(&node, "admin").await;
    let rule = |note: &str| {
        json!({"name": "r", "note": note, "when": {"event": "file.uploaded"},
            "do": [{"set": {"a": "1"}}]})
    };
    let odd = json!(["rule 'r', if: it is odd"]);
    let (path, none) = ("/rules/r", Value::Null);
    for (method, path, body, wanted) in [
        ("POST", "/rules", rule("odd"), &odd),
        ("GET", path, Value::Null, &none),
        ("PUT", path, rule("fine"), &none),
        ("PUT", path, rule("odd"), &odd),
        ("PATCH", path, json!({"enabled": false}), &odd),
        ("PATCH", path, json!({"note": ""}), &none),
    ] {
        let answer = admin.send(method, path, body).await;
        assert!([200, 201].contains(&answer.status), "{method}: {}", answer.text());
        assert_eq!(answer.json()["warnings"], *wanted, "{method}");
    }
}

#[tokio::test]
async fn a_noun_lives_and_only_its_present_version_is_changed() {
    let node = Node::start().await;
    let mut admin = Caller::new(&node, "admin").await;
    let acme = json!({"name": "acme", "type": "partner", "password": "open sesame 7"});
    let made = admin.send("POST", "/accounts", acme.clone()).await;
    assert_eq!(made.status, 201, "{}", made.text());
    assert_eq!(made.field("location"), "/api/v1/accounts/acme");
    let first = made.field("etag").to_owned();
    let body = made.json();
    assert_eq!((&body["password_hash"], &body["revision"]), (&json!("***"), &json!(1)));
    assert!(!made.text().contains("sesame"));
    let again = admin.send("POST", "/accounts", acme).await;
    assert_eq!((again.status, again.code().as_str()), (409, "EP0106"));

    let line = "GET /api/v1/accounts/acme";
    let known = format!("{}If-None-Match: {first}\r\n", admin.fields);
    assert_eq!(admin.client.request(line, &known).await.status, 304);
    // What was read may be sent back, and says what is stored.
    let read = admin.get("/accounts/acme").await;
    assert_eq!(read.field("etag"), first);
    let condition = format!("If-Match: {first}\r\n");
    let same = admin.send_with("PUT", "/accounts/acme", &condition, read.json()).await;
    assert_eq!((same.status, same.field("etag")), (200, first.as_str()), "{}", same.text());

    let patch = json!({"note": "n", "groups": null});
    let tried = admin.send("PATCH", "/accounts/acme?dry_run=true", patch.clone()).await;
    assert_eq!(tried.status, 200, "{}", tried.text());
    assert_eq!(tried.json()["changes"][0]["action"], "change");
    assert_eq!(tried.json()["changes"][0]["fields"][0]["field"], "note");
    assert_eq!(admin.get("/accounts/acme").await.field("etag"), first);
    let changed = admin.send_with("PATCH", "/accounts/acme", &condition, patch.clone()).await;
    assert_eq!((changed.status, &changed.json()["note"]), (200, &json!("n")));
    assert_ne!(changed.field("etag"), first);
    for method in ["PATCH", "PUT", "DELETE"] {
        let late = admin.send_with(method, "/accounts/acme", &condition, json!({})).await;
        assert_eq!((late.status, late.code().as_str()), (412, "EP1111"), "{method}");
    }
    let strange = "If-Match: \"of another server\"\r\n";
    let late = admin.send_with("PATCH", "/accounts/acme", strange, patch.clone()).await;
    assert_eq!(late.status, 412);
    let any = admin.send_with("PATCH", "/accounts/acme", "If-Match: *\r\n", patch).await;
    assert_eq!(any.status, 200);
    assert_eq!(admin.send("DELETE", "/accounts/acme?dry_run", Value::Null).await.status, 200);
    assert_eq!(admin.send("DELETE", "/accounts/acme", Value::Null).await.status, 204);
    let gone = admin.get("/accounts/acme").await;
    assert_eq!((gone.status, gone.code().as_str()), (404, "EP0105"));
}

#[tokio::test]
async fn lists_come_in_pages_with_the_wanted_fields() {
    let node = Node::start().await;
    let mut admin = Caller::new(&node, "admin").await;
    for at in 0..5 {
        let noun =
            json!({"name": format!("p{at}"), "type": "partner", "note": format!("{}", 9 - at)});
        assert_eq!(admin.send("POST", "/accounts", noun).await.status, 201);
    }
    let mut path = "/accounts?limit=2&filter=type:partner&filter=name:p*".to_owned();
    let mut seen = Vec::new();
    loop {
        let answer = admin.get(&path).await;
        seen.extend(names(&answer));
        match answer.json()["next"].as_str() {
            Some(next) => {
                path = format!("/accounts?limit=2&filter=type:partner&filter=name:p*&cursor={next}")
            }
            None => break,
        }
    }
    assert_eq!(seen, ["p0", "p1", "p2", "p3", "p4"]);
    let sorted = admin.get("/accounts?filter=name:p*&sort=note&limit=3").await;
    assert_eq!(names(&sorted), ["p4", "p3", "p2"]);
    let policy = "\"requests\";q=2000;qu=\"concurrent-requests\"";
    assert_eq!(sorted.field("ratelimit-policy"), policy);
    assert_eq!(sorted.field("ratelimit"), "\"requests\";r=1999");
    let few = admin.get("/accounts?filter=name:p0&fields=name,note").await.json();
    assert_eq!(few, json!({"items": [{"name": "p0", "note": "9"}]}));
    for (query, code) in [
        ("limit=0", "EP1114"),
        ("flter=name:p0", "EP1114"),
        ("filter=name", "EP1114"),
        ("cursor=x", "EP1110"),
        ("site=nowhere", "EP0105"),
    ] {
        assert_eq!(admin.get(&format!("/accounts?{query}")).await.code(), code, "{query}");
    }
    let events = admin.get("/events?limit=2&kind=config.changed").await.json();
    let newest = events["items"].as_array().unwrap();
    assert_eq!((newest.len(), &newest[0]["name"]), (2, &json!("p4")));
    let next = events["next"].as_str().unwrap();
    let older = admin.get(&format!("/events?limit=2&kind=config.changed&cursor={next}")).await;
    assert_eq!(older.json()["items"][0]["name"], "p2");
    let oldest = admin.get("/events?limit=1&kind=config.changed&order=oldest").await.json();
    assert!(oldest["items"][0]["sequence"].as_i64() <= newest[1]["sequence"].as_i64());
}

#[tokio::test]
async fn a_repeated_request_has_its_first_answer() {
    let node = Node::start().await;
    let mut admin = Caller::new(&node, "admin").await;
    let noun = json!({"name": "once"});
    let key = "Idempotency-Key: 7f2d\r\n";
    let first = admin.send_with("POST", "/accounts", key, noun.clone()).await;
    let second = admin.send_with("POST", "/accounts", key, noun).await;
    assert_eq!((first.status, second.status), (201, 201));
    assert_eq!((first.field("etag"), first.text()), (second.field("etag"), second.text()));
    let other = admin.send_with("POST", "/accounts", key, json!({"name": "twice"})).await;
    assert_eq!((other.status, other.code().as_str()), (422, "EP1112"));
}

#[tokio::test]
async fn what_cannot_be_taken_is_said() {
    let node = Node::start().await;
    let mut admin = Caller::new(&node, "admin").await;
    for (method, path, body, code) in [
        ("POST", "/accounts", json!({"name": "a", "tpye": "partner"}), "EP0205"),
        ("POST", "/accounts", json!([1]), "EP0205"),
        ("POST", "/accounts", json!({"name": "a b"}), "EP0205"),
        ("POST", "/accounts", json!({"name": "a", "groups": ["none"]}), "EP0103"),
        ("PUT", "/accounts/anna", json!({"name": "berta"}), "EP1114"),
        ("PATCH", "/accounts/anna", json!({"name": "berta"}), "EP0102"),
        ("GET", "/jobs/x", Value::Null, "EP1013"),
        ("GET", "/jobs?state=odd", Value::Null, "EP1114"),
        ("POST", "/accounts?dry_run=maybe", json!({"name": "a"}), "EP1114"),
    ] {
        let answer = admin.send(method, path, body).await;
        assert_eq!(answer.code(), code, "{method} {path}: {answer:?}");
    }
    let fields = format!("{}Content-Type: text/plain\r\n", admin.fields);
    let answer = admin.client.upload("POST /api/v1/accounts", &fields, b"{}").await;
    assert_eq!((answer.status, answer.code().as_str()), (415, "EP1113"));
    assert_eq!(admin.get("/accounts").await.status, 200);
}

#[tokio::test]
async fn sessions_are_seen_limited_and_ended() {
    let node = Node::start().await;
    let mut admin = Caller::new(&node, "admin").await;
    let mut anna = node.connect().await;
    let before = anna.request("GET /api/v1/session", &basic("anna")).await.json();
    let listed = admin.get("/sessions?account=anna&fields=id,account").await.json();
    assert_eq!(listed["items"], json!([{"id": before["id"], "account": "anna"}]));
    let path = format!("/sessions/{}", before["id"].as_str().unwrap());
    let limits = format!("{path}/limits");
    assert_eq!(admin.send("PUT", &limits, json!({"upload": 1000})).await.status, 204);
    assert_eq!(admin.send("DELETE", &limits, Value::Null).await.status, 204);
    assert_eq!(admin.send("DELETE", &path, Value::Null).await.status, 204);
    let after = anna.request("GET /api/v1/session", &basic("anna")).await.json();
    assert_ne!(after["id"], before["id"]);
    let gone = admin.get(&path).await;
    assert_eq!((gone.status, gone.code().as_str()), (404, "EP0207"));
}

/// Reads a stream until this text has come.
async fn until(client: &mut Client, text: &str) -> String {
    let mut seen = String::new();
    while !seen.contains(text) {
        seen += &client.more().await;
    }
    seen
}

#[tokio::test]
async fn events_are_followed_and_resumed_without_a_gap() {
    let node = Node::start_limited(|limits| limits.requests = 4).await;
    let mut admin = Caller::new(&node, "admin").await;
    let open = async |named: &str| {
        let mut client = node.connect().await;
        let line = "GET /api/v1/events/stream?kind=config.changed HTTP/1.1";
        let fields = format!("Host: localhost\r\n{}{named}", basic("admin"));
        client.send(format!("{line}\r\n{fields}\r\n")).await;
        let begun = until(&mut client, "\nid: ").await;
        assert!(begun.contains("text/event-stream"), "{begun}");
        client
    };
    let mut first = open("").await;
    let mut second = open("").await;
    for name in ["e1", "e2"] {
        assert_eq!(admin.send("POST", "/accounts", json!({"name": name})).await.status, 201);
    }
    let seen = until(&mut first, "\"e2\"").await;
    assert!(until(&mut second, "\"e2\"").await.contains("\"e1\""));
    assert!(seen.contains("event: config.changed"), "{seen}");
    let of_e1 = seen.split("\"e1\"").next().unwrap();
    let id = of_e1.rsplit("id: ").next().unwrap().lines().next().unwrap().to_owned();
    drop(first);
    for name in ["e3", "e4"] {
        assert_eq!(admin.send("POST", "/accounts", json!({"name": name})).await.status, 201);
    }
    let mut client = node.connect().await;
    let fields = format!("{}Last-Event-ID: {id}\r\n", basic("admin"));
    let line = "GET /api/v1/events/stream HTTP/1.1\r\nHost: localhost";
    client.send(format!("{line}\r\n{fields}\r\n")).await;
    let mut seen = until(&mut client, "\"e4\"").await;
    assert_eq!(admin.send("POST", "/accounts", json!({"name": "e5"})).await.status, 201);
    seen += &until(&mut client, "\"e5\"").await;
    assert!(!seen.contains("\"e1\""), "{seen}");
    for name in ["e2", "e3", "e4", "e5"] {
        assert_eq!(seen.matches(&format!("\"name\":\"{name}\"")).count(), 1, "{name}: {seen}");
    }
    // Clients that follow do not take the places of other requests, and hold no stop up.
    drop(client);
    let mut followers = Vec::new();
    for _ in 0..5 {
        followers.push(open("").await);
    }
    let line = "GET /api/v1/events/stream?last_event_id=x";
    assert_eq!(admin.client.request(line, &admin.fields).await.code(), "EP1114");
    let before = std::time::Instant::now();
    node.stop().await;
    assert!(before.elapsed() < std::time::Duration::from_secs(10), "{:?}", before.elapsed());
}

/// A connection that follows a stream of the API, as the administrator; its head has been read.
async fn follow(node: &Node, path: &str) -> Client {
    let mut client = node.connect().await;
    let fields = format!("Host: localhost\r\n{}", basic("admin"));
    client.send(format!("GET /api/v1{path} HTTP/1.1\r\n{fields}\r\n")).await;
    let begun = until(&mut client, "retry: ").await;
    assert!(begun.contains("text/event-stream"), "{begun}");
    client
}

#[tokio::test]
async fn sessions_transfers_and_throughput_are_followed_as_they_happen() {
    let node = Node::start().await;
    let mut admin = Caller::new(&node, "admin").await;
    let mut sessions = follow(&node, "/sessions/stream").await;
    let mut transfers = follow(&node, "/transfers/stream").await;
    let mut throughput = follow(&node, "/throughput/stream").await;
    let mut anna = node.connect().await;
    let fields = format!("Host: localhost\r\n{}Content-Length: 8\r\n", basic("anna"));
    anna.send(format!("PUT /files/slow HTTP/1.1\r\n{fields}\r\nhalf")).await;
    let opened = until(&mut sessions, "\"account\":\"anna\"").await;
    assert!(opened.contains("event: opened") && opened.contains("\"site\":\"main\""), "{opened}");
    let begun = until(&mut transfers, "\"path\":\"/slow\"").await;
    assert!(begun.contains("event: begun") && begun.contains("\"account\":\"anna\""), "{begun}");
    assert!(begun.contains("\"size\":8"), "{begun}");
    let moving = until(&mut throughput, "\"transfers\":1").await;
    assert!(moving.contains("event: throughput"), "{moving}");
    anna.send("rest").await;
    assert_eq!(anna.answer().await.status, 201);
    until(&mut transfers, "event: ended").await;
    let id = anna.request("GET /api/v1/session", &basic("anna")).await.json()["id"].clone();
    let path = format!("/sessions/{}", id.as_str().unwrap());
    assert_eq!(admin.send("DELETE", &path, Value::Null).await.status, 204);
    let ended = until(&mut sessions, "event: ended").await;
    assert!(ended.contains(id.as_str().unwrap()), "{ended}");
    node.stop().await;
}

#[tokio::test]
async fn a_body_that_is_too_long_or_comes_too_slowly_is_refused() {
    let node = Node::start_limited(|limits| {
        (limits.api_body_bytes, limits.api_body_seconds) = (100, 1);
    })
    .await;
    let mut admin = Caller::new(&node, "admin").await;
    let long = json!({"name": "a", "note": "x".repeat(200)});
    let refused = admin.send("POST", "/accounts", long).await;
    assert_eq!((refused.status, refused.code().as_str()), (413, "EP0110"));
    let mut slow = node.connect().await;
    let fields = format!("Host: localhost\r\n{}{JSON}Content-Length: 50\r\n", basic("admin"));
    slow.send(format!("POST /api/v1/accounts HTTP/1.1\r\n{fields}\r\n{{")).await;
    let refused = slow.answer().await;
    assert_eq!((refused.status, refused.code().as_str()), (408, "EP1007"));
}
