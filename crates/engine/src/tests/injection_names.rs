//! Names that clients give to their files, and accounts that administrators name, through every
//! place that a rule can put them in: a name stays one name there, or the step is refused with a
//! sentence, and nothing is done. Real connections and programs take real time, so where they are
//! the clock of the runtime is not stopped.

use entrepot_nouns::{Job, JobState, Key, KeyType, Rule, Sealed};
use serde_json::{Value as Json, json};

use super::as2::partner::{Does, Partner};
use super::as2::{agreed, sending};
use super::injection::{
    Hooks, OK, Place, conversation, corpus, leads_away, mail_shape, places, refused, shape, tell,
};
use super::talk::{Server, doing, ended, endpoint, mail, post_office};
use super::world::{World, files, memory_store, name};

/// Names that a client of SFTP can give to a file.
fn names() -> Vec<String> {
    let mut all: Vec<String> = corpus().iter().map(|text| text.replace('/', "\u{2044}")).collect();
    all.retain(|text| !leads_away(text));
    // Each byte that may stand in a name alone, in one name, and each that steers, in one of its
    // own.
    all.push((1..=127).map(char::from).filter(|letter| *letter != '/').collect());
    all.extend((1..=31).chain([127]).map(|byte| format!("a{}b.csv", char::from(byte))));
    let more = [
        "...",
        "..a",
        ".a",
        "a.",
        "a..",
        " a",
        "a ",
        "~",
        "-rf",
        "C:evil",
        "con.txt",
        "a;b=c",
        "a\u{85}b",
        "a\u{9b}2J",
        "a\u{feff}b",
    ];
    all.extend(more.map(str::to_owned));
    all.push("n".repeat(251) + ".csv");
    all
}

/// What is in the files of these tests.
const CONTENT: &[u8] = b"what is in it";

/// The job of a file of this name, when it has ended.
async fn uploaded(world: &mut World, called: &str) -> Job {
    let event = world.upload(&format!("/in/{called}"), CONTENT).await;
    ended(world, &event).await
}

fn once(steps: &Json) -> Rule {
    let mut rule = doing(steps.clone());
    rule.retry.attempts = 1;
    // What a step makes is not what it is about.
    rule.condition = Some("file.dir == '/in'".to_owned());
    crate::check_rule(&rule).unwrap();
    rule
}

/// As it is shown where a test fails.
fn shown(what: &str, called: &str) -> String {
    format!("{what} {:?}", called.chars().take(60).collect::<String>())
}

#[tokio::test]
async fn in_a_request_of_http_a_file_name_stays_one_value() {
    let server = Server::start(&[OK]).await;
    let mut world = World::new(3_011).await;
    let url = format!("http://127.0.0.1:{}/api/", server.port);
    endpoint(&world, json!({"web": {"url": url, "allow_private": true}}), "").await;
    world.start();
    for Place { what, fields, read, wanted } in places() {
        let fields = fields.to_string().replace("{hook.body.v}", "{name}");
        let fields: Json = serde_json::from_str(&fields).unwrap();
        let mut http = json!({"endpoint": "there"});
        http.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        world.put(&once(&json!([{ "http": http }]))).await;
        let mut plain = None;
        for called in names() {
            let before = server.got().len();
            let job = uploaded(&mut world, &called).await;
            let got = server.got().split_off(before);
            let what = shown(what, &called);
            if job.state == JobState::Done {
                assert_eq!(got.len(), 1, "{what}");
                assert_eq!(read(&got[0]), wanted(&called), "{what}");
                assert_eq!(shape(&got[0]), *plain.get_or_insert_with(|| shape(&got[0])), "{what}");
            } else {
                refused(&job, &["EP0890", "EP0260"], &what);
                assert!(got.is_empty(), "{what}: something was sent");
                assert!(what.starts_with("header") || what.starts_with("path"), "{what}");
            }
        }
    }
}

/// The audit log and a web hook have the path as it was sent.
#[tokio::test]
async fn in_an_event_and_in_a_web_hook_a_file_name_stays_one_value() {
    let mut world = World::new(3_012).await;
    let mut hooks = Hooks::of(&world).await;
    world.put(&once(&tell())).await;
    world.start();
    for called in names() {
        let job = uploaded(&mut world, &called).await;
        let event = hooks.said(&world, job, &called).await;
        assert_eq!(event["path"], format!("/in/{called}"));
    }
}

/// The names of the fields at the head of each part.
fn part_shape(message: &str) -> Vec<String> {
    let mut names = mail_shape(message);
    let mut lines = message.split("\r\n").skip_while(|line| !line.is_empty());
    while let Some(line) = lines.next() {
        if line.starts_with("--") {
            let head = lines.by_ref().take_while(|line| !line.is_empty());
            let fields = head.filter(|line| !line.starts_with([' ', '\t']));
            let named =
                |line: &str| line.split_once(':').map_or("none", |(name, _)| name).to_owned();
            names.extend(fields.map(named));
        }
    }
    names
}

#[tokio::test]
async fn in_a_mail_a_file_name_is_neither_a_field_nor_a_recipient_nor_a_part() {
    let (port, told) = post_office(&[]).await;
    let mut world = World::new(3_013).await;
    endpoint(&world, mail(port), "").await;
    world.start();
    for (field, pattern) in [
        ("subject", "Arrived: {name}"),
        ("text", "It is\r\n{name}\r\n.\r\nend"),
        ("html", "<b title=\"{name}\">{path}</b>"),
        ("to", "{name}@example.com"),
        ("to", "{stem} <a@example.com>"),
    ] {
        let mut mail = json!({"endpoint": "there", "to": ["a@example.com"], "subject": "s",
            "text": "t", "html": "<b>h</b>", "attach": "file"});
        mail[field] = if field == "to" { json!([pattern]) } else { json!(pattern) };
        world.put(&once(&json!([{ "mail": mail }]))).await;
        let mut plain = None;
        for called in names() {
            told.lock().clear();
            let job = uploaded(&mut world, &called).await;
            let (what, told) = (shown(field, &called), told.lock().clone());
            if job.state != JobState::Done {
                refused(&job, &["EP0890", "EP0894"], &what);
                assert!(field == "to" && !told.contains("RCPT"), "{what}: {told}");
                continue;
            }
            let (commands, message) = conversation(&told);
            let to: Vec<_> = commands.iter().filter(|line| line.starts_with("RCPT")).collect();
            assert!(to.len() == 1 && to[0].ends_with("@example.com>"), "{what}: {commands:?}");
            let parts = part_shape(&message);
            let first = plain.get_or_insert_with(|| (commands.len(), parts.clone()));
            assert_eq!((commands.len(), &parts), (first.0, &first.1), "{what}: {message}");
            assert!(field != "html" || !message.contains("<script>"), "{what}: {message}");
            let steers = |letter: char| letter.is_control() && !"\r\n\t".contains(letter);
            assert!(
                !["subject", "to"].contains(&field) || !message.contains(steers),
                "{what}: {message:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_program_gets_a_file_name_as_one_argument_and_one_variable() {
    let mut world = World::new(3_014).await;
    let out = world.bed.folder().join("out");
    let script = "out=$1; shift; printf '%s\\0' \"$#\" \"$@\" \"$V\" \"$ENTREPOT_NAME\" \
                  \"$ENTREPOT_PATH\" > \"$out\"";
    let path = out.to_str().unwrap();
    let argv = json!(["/bin/sh", "-c", script, "sh", path, "{name}", "--from={path}", "{stem}"]);
    let exec = json!({"argv": argv, "env": {"V": "{name}"}});
    world.put(&once(&json!([{ "exec": exec }]))).await;
    world.start();
    for called in names() {
        let job = uploaded(&mut world, &called).await;
        assert_eq!((job.state, job.error), (JobState::Done, None), "{called:?}");
        let found = std::fs::read(&out).unwrap();
        let found: Vec<_> = found.split(|byte| *byte == 0).collect();
        let path = format!("/in/{called}");
        let from = format!("--from={path}");
        let stem = called.rsplit_once('.').map_or(called.as_str(), |(stem, _)| stem);
        let stem = if stem.is_empty() { &called } else { stem };
        let wanted = ["3", &called, &from, stem, &called, &called, &path, ""];
        assert!(found == wanted.map(str::as_bytes), "{called:?}");
        std::fs::remove_file(&out).unwrap();
    }
}

/// An endpoint `out` and a key with which files are encrypted.
async fn workshop(world: &World) -> entrepot_storage::AnyStore {
    let out = memory_store(&world.env);
    world.target("out", out.clone()).await;
    let public = include_str!("public-key.asc").to_owned();
    let mut key = Key::new(name("ours"), KeyType::OpenPgp, public);
    let private = include_str!("../../../transform/src/fuzzing/key.asc");
    key.private_sealed = Some(Sealed(private.to_owned()));
    world.put(&key).await;
    out
}

/// Where a name stands in a path: the file is there under that name and nowhere else, or nothing
/// is.
#[tokio::test(start_paused = true)]
async fn in_a_path_a_file_name_leads_nowhere_else() {
    type Made = fn(&str) -> String;
    let stem: Made = |called| {
        let stem = called.rsplit_once('.').map_or(called, |(stem, _)| stem);
        if stem.is_empty() { called.to_owned() } else { stem.to_owned() }
    };
    let cases: [(Json, Made); 5] = [
        (json!({"deliver": {"endpoint": "out", "path": "in/{name}"}}), |called| called.to_owned()),
        (json!({"deliver": {"endpoint": "out", "path": "in/{stem}"}}), stem),
        (json!({"deliver": {"endpoint": "out", "path": "in/{account}-{name}.csv"}}), |called| {
            format!("acme-{called}.csv")
        }),
        (json!({"copy": {"to": "/done/{name}"}}), |called| called.to_owned()),
        (json!({"move": {"to": "/done/{stem}"}}), stem),
    ];
    for (seed, (step, made)) in (3_020..).zip(cases) {
        let mut world = World::new(seed).await;
        let out = workshop(&world).await;
        world.put(&once(&json!([step]))).await;
        world.start();
        for called in names() {
            let what = shown(&step.to_string(), &called);
            let event = world.upload(&format!("/in/{called}"), CONTENT).await;
            let job = world.ended(world.job_of(&event, "r").await).await;
            let there = files(&out).await;
            let ours = files(&world.file_access.home).await;
            let mut all: Vec<&str> = there.keys().map(String::as_str).collect();
            all.extend(ours.keys().filter_map(|path| path.strip_prefix("done/")));
            let stray = |path: &&String| !path.starts_with("done/") && !path.starts_with("in/");
            assert_eq!(ours.keys().find(stray), None, "{what}");
            if leads_away(&made(&called)) {
                refused(&job, &["EP0812", "EP0810", "EP0814", "EP0805"], &what);
                assert!(all.is_empty(), "{what}: {all:?}");
            } else {
                assert_eq!((job.state, job.error), (JobState::Done, None), "{what}");
                let at = made(&called);
                assert!(all == [at.as_str()] || all == [format!("in/{at}")], "{what}: {all:?}");
            }
            for store in [&out, &world.file_access.home] {
                for path in files(store).await.into_keys() {
                    store.remove(&path.parse().unwrap()).await.unwrap();
                }
            }
        }
    }
}

/// What is made of a file is called after it, and has in it one file of its name.
#[tokio::test(start_paused = true)]
async fn in_what_is_made_of_a_file_its_name_is_that_of_one_file() {
    let keys = json!(["ours"]);
    for (seed, (there, end, back)) in (3_030..).zip([
        (json!({"zip": {}}), ".zip", Some(json!({"extract": {}}))),
        (json!({"tar": {}}), ".tar", Some(json!({"extract": {}}))),
        (json!({"tar": {"compress": "zstd"}}), ".tar.zst", Some(json!({"extract": {}}))),
        (json!({"gzip": {}}), ".gz", Some(json!({"extract": {}}))),
        (json!({"encrypt": {"keys": keys}}), ".pgp", Some(json!({"decrypt": {"keys": keys}}))),
        (json!({"sign": {"key": "ours", "detached": true, "name": "{name}.sig"}}), ".sig", None),
        (json!({"checksum": {}}), ".sha256", None),
    ]) {
        let mut world = World::new(seed).await;
        let out = workshop(&world).await;
        let deliver = |path: &str| json!({"deliver": {"endpoint": "out", "path": path}});
        let mut steps = vec![there.clone(), deliver("made/{name}")];
        steps.extend(back.clone());
        steps.push(deliver("back/{name}"));
        world.put(&once(&Json::from(steps))).await;
        world.start();
        for called in names() {
            let what = shown(&there.to_string(), &called);
            let event = world.upload(&format!("/in/{called}"), CONTENT).await;
            let job = world.ended(world.job_of(&event, "r").await).await;
            let found = files(&out).await;
            let made = format!("{called}{end}");
            let is_name = !made.contains('\\') && !made.chars().any(char::is_control);
            if job.state == JobState::Done {
                assert!(is_name, "{what}");
                let again = if back.is_some() { called.clone() } else { made.clone() };
                let mut all: Vec<&str> = found.keys().map(String::as_str).collect();
                all.sort_unstable();
                assert_eq!(all, [format!("back/{again}"), format!("made/{made}")], "{what}");
                if back.is_some() {
                    assert_eq!(found[&format!("back/{again}")], CONTENT, "{what}");
                }
                if end == ".sha256" {
                    let text = String::from_utf8(found[&format!("made/{made}")].clone()).unwrap();
                    let (digits, rest) = text.split_at(64);
                    assert!(digits.bytes().all(|byte| byte.is_ascii_hexdigit()), "{what}: {text}");
                    assert_eq!(rest, format!("  {called}\n"), "{what}");
                }
            } else {
                let is_long = made.len() > 255;
                let is_drive = called.starts_with("C:");
                assert!(!is_name || is_long || is_drive, "{what}: {:?}", job.error);
                refused(&job, &["EP0812", "EP0870"], &what);
                // A file may be called so, and what is taken out of one may not.
                let is_made = is_drive && back.is_some() && found.len() == 1;
                assert!(found.is_empty() || is_made, "{what}: {:?}", found.keys());
            }
            for path in found.into_keys() {
                out.remove(&path.parse().unwrap()).await.unwrap();
            }
        }
    }
}

/// The partner reads the name as it is, or gets nothing.
#[tokio::test]
async fn in_a_message_of_as2_a_file_name_stays_one_value() {
    let partner = Partner::start(&[Does::Receives]).await;
    let mut world = World::new(3_040).await;
    agreed(&world, partner.port, json!({})).await;
    let mut rule = sending();
    rule.retry.attempts = 1;
    world.put(&rule).await;
    world.start();
    let mut plain = None;
    for called in names() {
        let before = partner.messages().len();
        let job = uploaded(&mut world, &called).await;
        let got = partner.messages().split_off(before);
        let what = shown("as2", &called);
        if job.state == JobState::Done {
            assert_eq!(got.len(), 1, "{what}");
            let fields = shape(&got[0].got);
            assert_eq!(fields, *plain.get_or_insert_with(|| fields.clone()), "{what}");
            assert_eq!(got[0].payload, CONTENT, "{what}");
            let received = got[0].received.as_ref().unwrap();
            let safe = entrepot_as2_proto::safe_file_name(&called);
            assert_eq!(received.payload.file_name(), safe, "{what}");
        } else {
            refused(&job, &["EP0890", "EP1210", "EP0812"], &what);
            assert!(got.is_empty(), "{what}: something was sent");
        }
    }
}

/// A scanner of ICAP hears of one file, in one line.
#[tokio::test]
async fn before_a_scanner_a_file_name_is_one_part_of_a_path() {
    const OPTIONS: &str = "ICAP/1.0 200 OK\r\nISTag: \"1\"\r\nOptions-TTL: 3600\r\n\r\n";
    const CLEAN: &str = "ICAP/1.0 204 No Content\r\nISTag: \"1\"\r\n\r\n";
    let server = icap(OPTIONS, CLEAN).await;
    let mut world = World::new(3_041).await;
    let url = format!("icap://127.0.0.1:{}/avscan", server.0);
    endpoint(&world, json!({"scanner": {"url": url, "allow_private": true}}), "").await;
    world.put(&once(&json!([{"scan": {"endpoint": "there"}}]))).await;
    world.start();
    let mut plain = None;
    for called in names() {
        let job = uploaded(&mut world, &called).await;
        let what = shown("scan", &called);
        assert_eq!((job.state, job.error), (JobState::Done, None), "{what}");
        let head = server.1.lock().clone();
        let lines: Vec<_> = head.split("\r\n").collect();
        let words: Vec<_> = lines.iter().map(|line| line.split(' ').count()).collect();
        assert_eq!(words, *plain.get_or_insert_with(|| words.clone()), "{what}: {head}");
        let is_plain = |letter: char| letter.is_ascii_graphic() || " \r\n".contains(letter);
        assert!(head.chars().all(is_plain), "{what}: {head:?}");
    }
}

/// A server that finds every file clean, and the head of the last request.
async fn icap(
    options: &'static str,
    clean: &'static str,
) -> (u16, std::sync::Arc<parking_lot::Mutex<String>>) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let last: std::sync::Arc<parking_lot::Mutex<String>> = Default::default();
    let tell = last.clone();
    tokio::spawn(async move {
        loop {
            let mut stream = listener.accept().await.unwrap().0;
            let mut got = Vec::new();
            let is_options = |got: &[u8]| got.starts_with(b"OPTIONS");
            while !got.ends_with(b"\r\n0\r\n\r\n") {
                if is_options(&got) && got.ends_with(b"\r\n\r\n") {
                    break;
                }
                got.push(stream.read_u8().await.unwrap());
            }
            let answer = if is_options(&got) { options } else { clean };
            if !is_options(&got) {
                let text = String::from_utf8_lossy(&got).into_owned();
                *tell.lock() = text.replace(std::str::from_utf8(CONTENT).unwrap(), "");
            }
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    (port, last)
}

/// An account may be called like an address, and makes none of one of ours.
#[tokio::test]
async fn an_account_is_no_address_of_another_domain_and_no_folder_above() {
    let (port, told) = post_office(&[]).await;
    let mut world = World::new(3_042).await;
    endpoint(&world, mail(port), "").await;
    let out = workshop(&world).await;
    world.start();
    let (mail, to) = (json!({"endpoint": "there", "subject": "s", "text": "t"}), "to");
    for account in ["eve@evil.example", "a..", "0.-_@", "x@a@b", "e.x"] {
        for pattern in ["{account}@example.com", "{account} <a@example.com>"] {
            told.lock().clear();
            let mut mail = mail.clone();
            mail[to] = json!([pattern]);
            let path = json!({"deliver": {"endpoint": "out", "path": "in/{account}/{name}"}});
            world.put(&once(&json!([path, { "mail": mail }]))).await;
            let mut event = world.publish("/in/f", CONTENT).await;
            event.account = Some(name(account));
            world.recorder.seal(&event).await.unwrap();
            let job = ended(&world, &event).await;
            let (what, told) = (format!("{pattern} {account}"), told.lock().clone());
            let (commands, _) = conversation(&told);
            let to: Vec<_> = commands.iter().filter(|line| line.starts_with("RCPT")).collect();
            if job.state == JobState::Done {
                assert!(to.len() == 1 && to[0].ends_with("@example.com>"), "{what}: {to:?}");
                assert_eq!(to[0].matches('@').count(), 1, "{what}: {to:?}");
            } else {
                refused(&job, &["EP0890", "EP0894"], &what);
                assert!(to.is_empty(), "{what}: {to:?}");
            }
            assert_eq!(files(&out).await[&format!("in/{account}/f")], CONTENT, "{what}");
        }
    }
}
