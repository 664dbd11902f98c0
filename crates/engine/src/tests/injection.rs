//! What others wrote, through every place that a rule can put it in: it stays one value there, or
//! the step is refused with a sentence, and nothing is done. Real connections and programs take
//! real time, so where they are the clock of the runtime is not stopped.

use std::collections::{BTreeMap, BTreeSet};

use entrepot_journal::Scope;
use entrepot_nouns::noun::Noun as _;
use entrepot_nouns::{Event, Fact, Job, JobState, Rule};
use serde_json::{Value as Json, json};

use super::talk::{Got, Server, ended, endpoint, mail, post_office};
use super::world::{SITE, World, doing, files, memory_store, name};
use crate::limits::NOTED_BYTES;

/// What a partner may write into a web hook.
pub(super) fn corpus() -> Vec<String> {
    let texts = [
        "plain",
        "a b",
        "a\r\nBcc: eve@evil.example",
        "a\nX-Admin: yes\n\nbody",
        "\r\n.\r\nMAIL FROM:<eve@evil.example>\r\n",
        "a\0b",
        "../../etc/passwd",
        "..",
        ".",
        "/etc/passwd",
        "a/../../b",
        "sub/file",
        "..\\..\\windows",
        "{secret:K}",
        "{name}",
        "{hook.body.other}",
        "{",
        ";rm -rf /",
        "$(id)",
        "`id`",
        "a|b&c>d",
        "'\"><script>alert(1)</script>",
        "' OR '1'='1",
        "%0d%0aX-Admin:%20yes",
        "%2e%2e%2fetc",
        "?a=b&c=d#e",
        "//evil.example/",
        "http://169.254.169.254/latest",
        "=HYPERLINK(\"http://evil.example\")",
        "-oProxyCommand=id",
        "\u{202e}fdp.exe",
        "\u{1b}[31m",
        "\u{2028}line",
        "e\u{301}\u{e9}",
        "eve@evil.example, bob",
        "Eve <eve@evil.example>",
        "eve@evil.example (",
        "\",\"admin\":true,\"x\":\"",
        "]]><!--",
        "",
    ];
    let mut all: Vec<String> = texts.map(str::to_owned).into();
    all.push("x".repeat(300));
    all.push("y".repeat(60_000));
    all.push("z".repeat(NOTED_BYTES + 1));
    all
}

fn hooked(steps: &Json) -> Rule {
    let rule = json!({"name": "r", "when": {"hook": {"keys": ["k"]}}, "do": steps, "as": "acme",
        "retry": {"attempts": 1}});
    let rule: Rule = serde_json::from_value(rule).unwrap();
    rule.check().unwrap();
    crate::check_rule(&rule).unwrap();
    rule
}

/// A web hook with this value, as it is recorded.
fn event(world: &World, value: &str) -> Event {
    let (rule, address) = (name("r"), "192.0.2.1".to_owned());
    let body = json!({"v": value, "other": "another value"});
    let fact = Fact::HookReceived { rule, address, headers: BTreeMap::new(), body };
    world.recorder.event(&Scope::site(SITE), fact)
}

/// The job of a web hook with this value, when it has ended.
async fn posted(world: &World, value: &str) -> Job {
    let event = event(world, value);
    world.recorder.seal(&event).await.unwrap();
    ended(world, &event).await
}

/// Fails unless the job says in one sentence what cannot be done.
pub(super) fn refused(job: &Job, codes: &[&str], what: &str) {
    let error = job.error.as_deref().unwrap_or_default();
    assert_eq!(job.state, JobState::Failed, "{what}");
    assert!(codes.iter().any(|code| error.starts_with(&format!("{code}: "))), "{what}: {error}");
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [rest.next().unwrap(), rest.next().unwrap()];
        bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap());
    }
    String::from_utf8(bytes).unwrap()
}

fn json_value(got: &Got) -> String {
    let body: Json = serde_json::from_slice(&got.body).unwrap();
    let fields = body.as_object().unwrap();
    assert_eq!(fields.keys().collect::<Vec<_>>(), ["v"], "it made fields of its own");
    fields["v"].as_str().unwrap().to_owned()
}

fn text(got: &Got) -> String {
    String::from_utf8(got.body.clone()).unwrap()
}

/// The text of an element and of its attribute, which are the same.
fn marked(got: &Got) -> String {
    let body = text(got);
    let inner = body.strip_prefix("<a b=\"").and_then(|rest| rest.strip_suffix("</a>")).unwrap();
    let (attribute, content) = inner.split_once("\">").unwrap();
    assert!(attribute == content && !content.contains(['<', '>', '"', '\'']), "{body}");
    let mut plain = content.to_owned();
    for (coded, letter) in [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'")] {
        plain = plain.replace(coded, letter);
    }
    plain.replace("&amp;", "&")
}

/// The value without the control characters that XML cannot write.
fn of_xml(value: &str) -> String {
    let is_lost = |c: char| c.is_ascii_control() && !"\t\r\n\u{7f}".contains(c);
    value.chars().map(|c| if is_lost(c) { '\u{fffd}' } else { c }).collect()
}

fn same(value: &str) -> String {
    value.to_owned()
}

/// A place in a request of HTTP that takes a value.
pub(super) struct Place {
    pub(super) what: &'static str,
    pub(super) fields: Json,
    /// What the server makes of it.
    pub(super) read: fn(&Got) -> String,
    /// What it is to make of it.
    pub(super) wanted: fn(&str) -> String,
}

pub(super) fn places() -> Vec<Place> {
    let place = |what, fields, read| Place { what, fields, read, wanted: same };
    let typed = |media: &str, text: &str| {
        let headers = json!({ "Content-Type": media });
        json!({"headers": headers, "body": {"text": text}})
    };
    let (as_json, v) = ("[\"{hook.body.v}\"]", "{hook.body.v}");
    vec![
        place("path", json!({"path": "/files/{hook.body.v}/end"}), |got| {
            let target = got.head.split(' ').nth(1).unwrap();
            let parts: Vec<_> = target.split('/').collect();
            let ["", "api", "files", value, "end"] = parts[..] else { panic!("{target}") };
            decoded(value)
        }),
        place("query", json!({"path": "/files?n={hook.body.v}&m=1"}), |got| {
            let target = got.head.split(' ').nth(1).unwrap();
            let query = target.strip_prefix("/api/files?n=").unwrap();
            let value = query.strip_suffix("&m=1").unwrap();
            assert!(!value.contains(['&', '=', '#', '?', '/']), "{target}");
            decoded(value)
        }),
        place("header", json!({"headers": {"X-Value": v}}), |got| got.field("x-value").unwrap()),
        place("json", json!({"body": {"json": {"v": v}}}), json_value),
        place("json as text", typed("application/json", as_json), |got| {
            let [value] = serde_json::from_slice::<[String; 1]>(&got.body).unwrap();
            value
        }),
        place("form", json!({"body": {"form": {"v": v}}}), |got| {
            let body = text(got);
            let value = body.strip_prefix("v=").unwrap();
            assert!(!value.contains(['&', '=']), "{body}");
            decoded(value)
        }),
        Place {
            wanted: of_xml,
            ..place("xml", typed("text/xml", "<a b=\"{hook.body.v}\">{hook.body.v}</a>"), marked)
        },
        place("text", typed("text/plain", v), text),
    ]
}

/// The first line without its path, and the names of the fields.
pub(super) fn shape(got: &Got) -> (Vec<String>, Vec<String>) {
    let mut lines = got.head.trim_end().split("\r\n");
    let words: Vec<_> = lines.next().unwrap().split(' ').map(str::to_owned).collect();
    assert_eq!(words.len(), 3, "{words:?}");
    let names = lines.map(|line| line.split_once(": ").unwrap().0.to_owned());
    // Without a body there is no length of one.
    let names = names.filter(|name| name != "content-length");
    (vec![words[0].clone(), words[2].clone()], names.collect())
}

pub(super) const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

#[tokio::test]
async fn in_a_request_of_http_a_value_stays_one_value() {
    let server = Server::start(&[OK]).await;
    let mut world = World::new(2_971).await;
    let url = format!("http://127.0.0.1:{}/api/", server.port);
    endpoint(&world, json!({"web": {"url": url, "allow_private": true}}), "").await;
    world.start();
    for Place { what, fields, read, wanted } in places() {
        let mut http = json!({"endpoint": "there"});
        http.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        world.put(&hooked(&json!([{ "http": http }]))).await;
        let mut plain = None;
        for value in corpus() {
            let before = server.got().len();
            let job = posted(&world, &value).await;
            let got = server.got().split_off(before);
            let what = format!("{what} {:?}", value.chars().take(40).collect::<String>());
            if job.state == JobState::Done {
                assert_eq!(got.len(), 1, "{what}");
                assert_eq!(read(&got[0]), wanted(&value), "{what}");
                assert_eq!(shape(&got[0]), *plain.get_or_insert_with(|| shape(&got[0])), "{what}");
            } else {
                refused(&job, &["EP0890", "EP0812", "EP0260"], &what);
                assert!(got.is_empty(), "{what}: something was sent");
                let is_picky = what.starts_with("header") || what.starts_with("path");
                assert!(is_picky || value.len() > NOTED_BYTES, "{what}");
            }
        }
    }
}

/// A receiver of our web hooks, to which the endpoint `there` of the world leads.
pub(super) struct Hooks {
    server: Server,
    /// How many came before.
    came: usize,
}

/// The step that sends a web hook there.
pub(super) fn tell() -> Json {
    json!([{"webhook": {"endpoint": "there"}}])
}

impl Hooks {
    pub(super) async fn of(world: &World) -> Hooks {
        let server = Server::start(&[OK]).await;
        let url = format!("http://127.0.0.1:{}/hook", server.port);
        let key = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        endpoint(world, json!({"webhook": {"url": url, "allow_private": true}}), key).await;
        Hooks { server, came: 0 }
    }

    /// What the hook of a job says of its event: what the audit log has, in the shape of all the
    /// others.
    pub(super) async fn said(&mut self, world: &World, job: Job, what: &str) -> Json {
        assert_eq!((job.state, job.error), (JobState::Done, None), "{what}");
        let got = self.server.got();
        let at = std::mem::replace(&mut self.came, got.len());
        assert_eq!((got.len(), shape(&got[at])), (at + 1, shape(&got[0])), "{what}");
        let mut body: Json = serde_json::from_slice(&got[at].body).unwrap();
        let stored = world.db.job(SITE, job.id).await.unwrap().unwrap().event;
        assert_eq!(serde_json::to_value(&stored).unwrap(), body["data"], "{what}");
        let told = world.events(stored.fact.kind()).await;
        assert!(told.contains(&stored), "the audit log has another event: {what}");
        body["data"].take()
    }
}

/// The audit log and a web hook of ours have what came, and none of its text has become a field.
#[tokio::test]
async fn in_an_event_and_in_a_web_hook_a_value_stays_one_value() {
    let mut world = World::new(2_972).await;
    let mut hooks = Hooks::of(&world).await;
    world.put(&hooked(&tell())).await;
    world.start();
    for value in corpus() {
        let job = posted(&world, &value).await;
        let event = hooks.said(&world, job, &value).await;
        assert_eq!(event["body"], json!({"v": value, "other": "another value"}));
    }
}

/// What a server of mail was told: the commands, and the one message between them.
pub(super) fn conversation(told: &str) -> (Vec<String>, String) {
    let (mut commands, mut message, mut in_data) = (Vec::new(), String::new(), false);
    for line in told.split_inclusive("\r\n") {
        match (in_data, line) {
            (true, ".\r\n") => in_data = false,
            (true, line) => message.push_str(line),
            (false, "DATA\r\n") => in_data = true,
            (false, line) => commands.push(line.trim_end().to_owned()),
        }
    }
    (commands, message)
}

/// The names of the fields of a head, and the lines that part the parts.
pub(super) fn mail_shape(message: &str) -> Vec<String> {
    let (head, body) = message.split_once("\r\n\r\n").unwrap();
    let fields = head.split("\r\n").filter(|line| !line.starts_with([' ', '\t']));
    let names = fields.map(|line| line.split_once(':').unwrap().0.to_owned());
    let parts = body.split("\r\n").filter(|line| line.starts_with("--"));
    // Each message has boundaries of its own.
    names.chain(parts.map(|part| part.chars().filter(|c| *c == '-').collect())).collect()
}

#[tokio::test]
async fn in_a_mail_a_value_is_neither_a_field_nor_a_recipient_nor_a_command() {
    let (port, told) = post_office(&[]).await;
    let mut world = World::new(2_973).await;
    endpoint(&world, mail(port), "").await;
    world.start();
    let with = |field: &str, value: &str| {
        let mut mail = json!({"endpoint": "there", "to": ["a@example.com"], "subject": "s",
            "text": "t", "html": "<b>h</b>"});
        mail[field] = if field == "to" { json!([value]) } else { json!(value) };
        json!([{ "mail": mail }])
    };
    for (field, pattern) in [
        ("subject", "Arrived: {hook.body.v}"),
        ("text", "It is\r\n{hook.body.v}\r\n.\r\nend"),
        ("html", "<b title=\"{hook.body.v}\">{hook.body.v}</b>"),
        ("to", "{hook.body.v}@example.com"),
        ("to", "{hook.body.v} <a@example.com>"),
    ] {
        world.put(&hooked(&with(field, pattern))).await;
        let mut plain = None;
        for value in corpus() {
            told.lock().clear();
            let job = posted(&world, &value).await;
            let what = format!("{field} {:?}", value.chars().take(40).collect::<String>());
            let told = told.lock().clone();
            if job.state != JobState::Done {
                refused(&job, &["EP0890", "EP0894"], &what);
                assert!(field == "to" && !told.contains("RCPT"), "{what}: {told}");
                continue;
            }
            let (commands, message) = conversation(&told);
            let to: Vec<_> = commands.iter().filter(|line| line.starts_with("RCPT")).collect();
            assert!(to.len() == 1 && to[0].ends_with("@example.com>"), "{what}: {commands:?}");
            let senders = commands.iter().filter(|line| line.starts_with("MAIL"));
            assert_eq!(senders.collect::<Vec<_>>(), ["MAIL FROM:<us@example.com>"], "{what}");
            let others = mail_shape(&message);
            let first = plain.get_or_insert_with(|| (commands.len(), others.clone()));
            assert_eq!((commands.len(), &others), (first.0, &first.1), "{what}: {message}");
            assert!(field != "html" || !message.contains("<script>"), "{what}: {message}");
        }
    }
}

#[tokio::test]
async fn a_program_gets_a_value_as_one_argument_and_one_variable() {
    let mut world = World::new(2_974).await;
    let out = world.bed.folder().join("out");
    let script = "out=$1; shift; printf '%s\\0' \"$#\" \"$@\" \"$V\" > \"$out\"";
    let argv = json!([
        "/bin/sh",
        "-c",
        script,
        "sh",
        out.to_str().unwrap(),
        "{hook.body.v}",
        "--to={hook.body.v}",
        "{vars.v}"
    ]);
    let exec = json!({"argv": argv, "env": {"V": "{hook.body.v}"}});
    world.put(&hooked(&json!([{"set": {"v": "hook.body.v"}}, { "exec": exec }]))).await;
    world.start();
    for value in corpus() {
        let job = posted(&world, &value).await;
        let what = value.chars().take(40).collect::<String>();
        if value.contains('\0') || value.len() > NOTED_BYTES {
            refused(&job, &["EP0814", "EP0820", "EP0823", "EP0812"], &what);
            assert!(!out.exists(), "{what}");
            continue;
        }
        assert_eq!((job.state, job.error), (JobState::Done, None), "{what:?}");
        let wanted = ["3", &value, &format!("--to={value}"), &value, &value, ""].join("\0");
        assert!(std::fs::read(&out).unwrap() == wanted.as_bytes(), "{what:?}");
        std::fs::remove_file(&out).unwrap();
    }
}

pub(super) fn leads_away(path: &str) -> bool {
    let is_no_name =
        |part: &str| matches!(part, "" | "." | "..") || part.len() > 255 || part.contains('\0');
    path.split('/').any(is_no_name)
}

/// Where a value stands in a path: what is made, and all that was there before, stay where the
/// pattern says.
#[tokio::test]
async fn in_a_path_a_value_leads_nowhere_else() {
    let mut world = World::new(2_975).await;
    let (bank, out) = (memory_store(&world.env), memory_store(&world.env));
    world.target("bank", bank.clone()).await;
    world.target("out", out.clone()).await;
    for path in ["a", "in/a", "etc/passwd"] {
        super::made::write(&world, &bank, path, b"theirs").await;
    }
    world.file_access.home.make_directory(&"new".parse().unwrap()).await.unwrap();
    let home = world.file_access.home.clone();
    world.start();
    let fetch = json!({"fetch": {"endpoint": "bank", "path": "a"}});
    for step in [
        json!({"deliver": {"endpoint": "out", "path": "in/{hook.body.v}.csv"}}),
        json!({"deliver": {"endpoint": "out", "path": "/in/{vars.v}"}}),
        json!({"copy": {"to": "/new/{hook.body.v}"}}),
        json!({"mkdir": {"endpoint": "out", "path": "dirs/{hook.body.v}"}}),
        json!({"fetch": {"endpoint": "bank", "path": "in/{hook.body.v}"}}),
    ] {
        world.put(&hooked(&json!([{"set": {"v": "hook.body.v"}}, fetch, step]))).await;
        for value in corpus() {
            let job = posted(&world, &value).await;
            let what = format!("{step} {:?}", value.chars().take(40).collect::<String>());
            let end = if step.to_string().contains(".csv") { ".csv" } else { "" };
            if leads_away(&format!("{value}{end}")) {
                refused(&job, &["EP0812", "EP0810", "EP0805", "EP0814"], &what);
            }
            let theirs: BTreeSet<String> = files(&bank).await.into_keys().collect();
            assert_eq!(theirs, ["a", "in/a", "etc/passwd"].map(str::to_owned).into(), "{what}");
            let made: Vec<String> = files(&out).await.into_keys().collect();
            assert!(made.iter().all(|path| path.starts_with("in/")), "{what}: {made:?}");
            let ours: Vec<String> = files(&home).await.into_keys().collect();
            assert!(ours.iter().all(|path| path.starts_with("new/")), "{what}: {ours:?}");
        }
    }
    let made = files(&out).await;
    for value in ["{name}", "$(id)", "-oProxyCommand=id", "\u{202e}fdp.exe", "%2e%2e%2fetc"] {
        assert_eq!(made[&format!("in/{value}")], b"theirs", "{value}");
        assert_eq!(made[&format!("in/{value}.csv")], b"theirs", "{value}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_file_is_moved_to_no_other_folder() {
    let mut world = World::new(2_976).await;
    world.start();
    for value in corpus().into_iter().filter(|value| value.len() < 1_000) {
        // As a text of an expression.
        let text = serde_json::to_string(&value).unwrap();
        let steps = json!([{"set": {"v": text}}, {"move": {"to": "/done/{vars.v}"}}]);
        world.put(&doing(steps)).await;
        let event = world.upload("/in/a", value.as_bytes()).await;
        let job = world.ended(world.job_of(&event, "r").await).await;
        let home = files(&world.file_access.home).await;
        if leads_away(&value) {
            refused(&job, &["EP0812"], &value);
            assert_eq!(home["in/a"], value.as_bytes(), "{value:?}");
        } else if job.state == JobState::Done {
            assert_eq!(home[&format!("done/{value}")], value.as_bytes(), "{value:?}");
        }
        let is_there = |path: &String| path.starts_with("done/") || path == "in/a";
        assert!(home.keys().all(is_there), "{value:?}: {:?}", home.keys());
    }
}
