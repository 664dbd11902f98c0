//! Rules that talk to other servers: web servers, receivers of web hooks, mail.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};

use anyhow::{Context as _, Result, ensure};
use entrepot_testkit::clients::{Login, local_file, noise, text};
use entrepot_testkit::maild::Maild;
use entrepot_testkit::ports::free_port;
use entrepot_testkit::server::Node;
use serde_json::{Value, json};

use crate::hooks::apply;
use crate::program;

/// A request as a server got it: its head and its body.
struct Got {
    head: String,
    body: Vec<u8>,
}

impl Got {
    fn field(&self, name: &str) -> Option<&str> {
        let fields = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        fields.into_iter().find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, it)| it)
    }
}

/// A server that answers every request alike, and tells of it.
fn server(answer: &'static str) -> Result<(u16, Receiver<Got>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    Ok((port, served(listener, answer)))
}

fn served(listener: TcpListener, answer: &'static str) -> Receiver<Got> {
    let (tell, told) = channel();
    std::thread::spawn(move || {
        // It ends with the test.
        for stream in listener.incoming().flatten() {
            let _ = serve(stream, answer, &tell);
        }
    });
    told
}

fn serve(mut stream: TcpStream, answer: &str, tell: &Sender<Got>) -> Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.extend(byte);
    }
    let mut got = Got { head: String::from_utf8(head)?, body: Vec::new() };
    let length = got.field("content-length").map_or(Ok(0), str::parse)?;
    got.body = vec![0; length];
    stream.read_exact(&mut got.body)?;
    stream.write_all(answer.as_bytes())?;
    tell.send(got)?;
    Ok(())
}

#[test]
fn an_upload_is_announced_sent_and_told_of_with_secrets_that_nobody_sees() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    let login = Login::create(&node, "acme")?;
    let (web, asked) = server("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n{\"id\":7}")?;
    let (hook, told) = server("HTTP/1.1 204 No Content\r\n\r\n")?;
    let key = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let documents = format!(
        "endpoint:
  name: erp
  target: {{web: {{url: 'http://127.0.0.1:{web}/api', password: geheim-99, allow_private: true}}}}
---
endpoint:
  name: shop
  target:
    webhook: {{url: 'http://127.0.0.1:{hook}/in', secret_key: '{key}', allow_private: true}}
---
rule:
  name: order
  when: {{event: file.uploaded}}
  do:
    - name: ask
      http: {{endpoint: erp, path: '/orders', body: {{json: {{file: '{{name}}'}}}}, answer: json}}
    - http: {{endpoint: erp, method: PUT, path: '/orders/{{steps.ask.answer.id}}', body: file}}
    - webhook: {{endpoint: shop}}
"
    );
    apply(&node, &documents)?;
    let exported = node.cli(&["export"])?;
    ensure!(!exported.contains("geheim-99") && !exported.contains(key), "an export has secrets");
    node.start()?;
    let content = noise(90, 3 << 20);
    let local = local_file(&node, "a.bin", &content)?;
    login.sftp_batch(&node, &format!("put {} order-1.bin\n", text(&local)?))?;
    node.until("the job to end", || {
        let done = node.events("job.done")?;
        Ok((!done.is_empty()).then_some(()))
    })?;
    let (first, second) = (asked.recv()?, asked.recv()?);
    ensure!(first.head.starts_with("POST /api/orders HTTP/1.1\r\n"), "{}", first.head);
    assert_eq!(first.body, br#"{"file":"order-1.bin"}"#);
    assert_eq!(first.field("authorization"), Some("Bearer geheim-99"));
    ensure!(second.head.starts_with("PUT /api/orders/7 HTTP/1.1\r\n"), "{}", second.head);
    ensure!(second.body == content, "the file arrived otherwise");
    let message = told.recv()?;
    ensure!(message.field("webhook-signature").context("unsigned")?.starts_with("v1,"));
    let body: Value = serde_json::from_slice(&message.body)?;
    assert_eq!(body["type"], "file.uploaded");
    assert_eq!(body["data"]["path"], "/order-1.bin");
    let shown = format!(
        "{}{}",
        node.json(&["job", "list"])?,
        node.cli(&["endpoint", "show", "erp"])? + &node.cli(&["endpoint", "show", "shop"])?
    );
    ensure!(!shown.contains("geheim-99") && !shown.contains(key), "{shown}");
    node.stop()
}

#[test]
fn a_receiver_that_is_gone_is_left_alone_until_an_admin_enables_it() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    let login = Login::create(&node, "acme")?;
    let (hook, told) = server("HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n")?;
    let documents = format!(
        "endpoint:
  name: shop
  target:
    webhook:
      url: http://127.0.0.1:{hook}/in
      secret_key: whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw
      allow_private: true
---
rule:
  name: tell
  when: {{event: file.uploaded}}
  do: [webhook: {{endpoint: shop}}]
---
rule:
  name: alert
  when: {{event: endpoint.disabled}}
  do: [set: {{which: event.endpoint}}]
"
    );
    apply(&node, &documents)?;
    node.start()?;
    let failed = |count: usize| {
        node.until("the jobs to fail", || {
            let failed = node.events("job.failed")?;
            Ok((failed.len() == count).then_some(failed))
        })
    };
    let local = local_file(&node, "a.bin", b"a")?;
    login.sftp_batch(&node, &format!("put {} a\n", text(&local)?))?;
    failed(1)?;
    login.sftp_batch(&node, &format!("put {} b\n", text(&local)?))?;
    let second = failed(2)?.to_vec();
    ensure!(second.iter().any(|event| event["error"].to_string().contains("EP0899")), "{second:?}");
    ensure!(node.events("endpoint.disabled")?.len() == 1);
    node.until("the alert", || {
        let done = node.events("job.done")?;
        Ok(done.iter().any(|event| event["rule"] == "alert").then_some(()))
    })?;
    let shown = node.json(&["endpoint", "show", "shop"])?.to_string();
    ensure!(shown.contains("\"enabled\":false"), "{shown}");
    told.recv()?;
    ensure!(told.try_recv().is_err(), "it was told although it is gone");
    node.cli(&["endpoint", "change", "shop", "target.webhook.enabled=true"])?;
    login.sftp_batch(&node, &format!("put {} c\n", text(&local)?))?;
    told.recv()?;
    node.until("the second disabling", || {
        Ok((node.events("endpoint.disabled")?.len() == 2).then_some(()))
    })?;
    node.stop()
}

#[test]
fn an_endpoint_is_used_for_what_its_kind_is_for() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    node.start()?;
    let erp = "endpoint: {name: erp, target: {web: {url: 'https://erp.example/'}}}\n---\n";
    for (document, words) in [
        (
            "rule: {name: r, when: {event: file.uploaded}, do: [{deliver: {endpoint: erp}}]}",
            "'erp' is an endpoint of kind web: this needs one of kind directory",
        ),
        (
            "rule: {name: r, when: {event: file.uploaded}, do: [{webhook: {endpoint: erp}}]}",
            "this needs one of kind webhook",
        ),
        (
            "account: {name: a, type: service}\n---\n\
             mount: {name: m, account: a, path: /, endpoint: erp}",
            "this needs one of kind directory",
        ),
    ] {
        let refused = apply(&node, &format!("{erp}{document}\n")).unwrap_err().to_string();
        ensure!(refused.contains(words), "{refused}");
    }
    node.stop()
}

#[test]
fn a_message_with_the_file_goes_to_those_who_exist_under_tls() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    let login = Login::create(&node, "acme")?;
    let post = Maild::start()?;
    let indented: String =
        post.certificate().lines().map(|line| format!("        {line}\n")).collect();
    let endpoint = |name: &str, authorities: &str| {
        format!(
            "endpoint:\n  name: {name}\n  target:\n    mail:\n      host: localhost\n      \
             port: {}\n      \
             from: Files <files@example.com>\n      user: us\n      password: 'pa ss'\n      \
             allow_private: true\n{authorities}---\n",
            post.port()
        )
    };
    let known = endpoint("post", &format!("      authorities: |\n{indented}"));
    let rule = |name: &str, endpoint: &str, to: &str| {
        format!(
            "rule:\n  name: {name}\n  when: {{event: file.uploaded}}\n  retry: {{attempts: 1}}\n  \
             do:\n    \
             - mail: {{endpoint: {endpoint}, to: [{to}], subject: 'Da: {{name}}', \
             text: '{{size}} bytes', html: '<b>{{name}}</b>', attach: file}}\n---\n"
        )
    };
    let documents = known
        + &endpoint("stranger", "")
        + &rule("tell", "post", "ops@example.com, nobody@example.com")
        + &rule("untrusted", "stranger", "ops@example.com");
    apply(&node, documents.trim_end_matches("---\n"))?;
    node.start()?;
    let local = local_file(&node, "a.bin", &noise(91, 100_000))?;
    login.sftp_batch(&node, &format!("put {} 'gr\u{fc}n <i>.bin'\n", text(&local)?))?;
    let failed = node.until("both jobs to fail", || {
        let failed = node.events("job.failed")?;
        Ok((failed.len() == 2).then_some(failed))
    })?;
    let error = |rule: &str| {
        let of = failed.iter().find(|event| event["rule"] == rule);
        of.and_then(|event| event["error"].as_str()).unwrap_or_default().to_owned()
    };
    let refused = "'nobody@example.com' was refused with 550: no such user";
    ensure!(error("tell").contains(refused), "{}", error("tell"));
    ensure!(error("untrusted").contains("certificate"), "{}", error("untrusted"));
    let messages = post.messages()?;
    ensure!(messages.len() == 1, "{messages:?}");
    let message = &messages[0];
    ensure!(message.starts_with("ops@example.com\n\n"), "{message}");
    for wanted in [
        "From: Files <files@example.com>",
        "Auto-Submitted: auto-generated",
        "Content-Type: multipart/mixed",
        "&lt;i&gt;",
        "100000 bytes",
    ] {
        ensure!(message.contains(wanted), "no {wanted}: {}", &message[..2000]);
    }
    node.stop()
}

/// Where a name or an address may lead that is none of the public network.
const INNER_HOSTS: [&str; 16] = [
    "127.0.0.1",
    "localhost",
    "[::1]",
    "[::ffff:127.0.0.1]",
    "[::]",
    "0.0.0.0",
    "127.1",
    "2130706433",
    "0x7f000001",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.0.1",
    "100.64.0.1",
    "169.254.169.254",
    "[fe80::1]",
    "[fd00::1]",
];

/// An endpoint of each kind at each of those hosts, and a rule that talks to it.
fn inner_documents(port: u16) -> String {
    let mut documents = Vec::new();
    for (at, host) in INNER_HOSTS.iter().enumerate() {
        let key = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let bare = host.trim_matches(['[', ']']);
        let mail = json!({"host": bare, "port": port, "tls": "off", "from": "us@example.com"});
        let letter = json!({"to": ["you@example.com"], "subject": "s", "text": "t"});
        for (word, target, more) in [
            ("http", json!({"web": {"url": format!("http://{host}:{port}/")}}), json!({})),
            (
                "webhook",
                json!({"webhook": {"url": format!("http://{host}:{port}/"), "secret_key": key}}),
                json!({}),
            ),
            ("scan", json!({"scanner": {"url": format!("icap://{host}:{port}/s")}}), json!({})),
            ("scan", json!({"scanner": {"url": format!("clamd://{host}:{port}")}}), json!({})),
            ("mail", json!({ "mail": mail }), letter),
        ] {
            let kind = target.as_object().and_then(|it| it.keys().next().cloned());
            let name = format!("{}-{word}-{at}-{}", kind.unwrap_or_default(), documents.len());
            let mut step = json!({"endpoint": name});
            step.as_object_mut().expect("a mapping").extend(more.as_object().expect("one").clone());
            documents.push(json!({"endpoint": {"name": name, "target": target}}));
            documents.push(json!({"rule": {"name": name, "when": {"event": "file.uploaded"},
                "retry": {"attempts": 1}, "do": [{word: step}]}}));
        }
    }
    documents.iter().map(Value::to_string).collect::<Vec<_>>().join("\n---\n")
}

#[test]
fn no_step_that_talks_leads_into_an_inner_network() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    let login = Login::create(&node, "acme")?;
    let (listener, inner) = (TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("[::1]:0"));
    let port = listener.local_addr()?.port();
    listener.set_nonblocking(true)?;
    apply(&node, &inner_documents(port))?;
    node.start()?;
    let local = local_file(&node, "a.bin", b"a")?;
    login.sftp_batch(&node, &format!("put {} a\n", text(&local)?))?;
    let failed = node.until("all jobs to fail", || {
        let failed = node.events("job.failed")?;
        Ok((failed.len() >= INNER_HOSTS.len() * 5).then_some(failed))
    })?;
    assert_eq!(failed.len(), INNER_HOSTS.len() * 5);
    for event in &failed {
        let error = event["error"].as_str().context("an error")?;
        // Some spellings of an address are none to some resolvers.
        let is_refused = error.contains("private") || error.contains("EP0220");
        ensure!(is_refused || error.contains("resolve"), "{event}");
    }
    ensure!(failed.iter().filter(|event| event.to_string().contains("private")).count() >= 40);
    let came = listener.accept();
    ensure!(came.is_err(), "somebody connected: {came:?}");
    drop(inner);
    node.stop()
}

/// A receiver that is away while messages for it pile up: `HOOKS=10000` is the full length.
#[test]
fn no_web_hook_is_lost_while_its_receiver_is_away() -> Result<()> {
    let count = std::env::var("HOOKS").map_or(Ok(120), |count| count.parse::<usize>())?;
    let mut node = Node::new(program(), None)?;
    let login = Login::create(&node, "acme")?;
    let port = free_port()?;
    let endpoint = |name: &str| {
        json!({"endpoint": {"name": name, "target": {"webhook": {
            "url": format!("http://127.0.0.1:{port}/{name}"), "allow_private": true,
            "secret_key": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}}}})
    };
    let retry = json!({"attempts": 10_000, "first_delay_seconds": 1, "longest_delay_seconds": 2});
    let rule = |name: &str| {
        json!({"rule": {"name": name, "when": {"event": "file.uploaded"}, "retry": retry,
            "do": [{"webhook": {"endpoint": name}}]}})
    };
    let mut ordered = rule("ordered");
    ordered["rule"]["order"] = "{account}".into();
    let all = [endpoint("free"), endpoint("ordered"), rule("free"), ordered];
    let documents = all.iter().map(Value::to_string).collect::<Vec<_>>().join("\n---\n");
    apply(&node, &documents)?;
    node.start()?;
    let local = local_file(&node, "a.bin", b"a")?;
    let names: Vec<String> = (0..count).map(|number| format!("/f{number}")).collect();
    let local = text(&local)?.to_owned();
    let batch: String = names.iter().map(|name| format!("put {local} {name}\n")).collect();
    login.sftp_batch(&node, &batch)?;
    node.until("messages to be tried in vain", || {
        let retrying = node.events("job.retrying")?;
        let is_free = |event: &&Value| event["rule"] == "free";
        Ok((retrying.iter().filter(is_free).count() >= count.min(100)).then_some(()))
    })?;
    // It dies meanwhile as well.
    node.kill()?;
    node.start()?;
    let told = served(TcpListener::bind(("127.0.0.1", port))?, "HTTP/1.1 204 No Content\r\n\r\n");
    let (mut free, mut ordered) = (BTreeMap::new(), Vec::new());
    while free.len() < count || ordered.len() < count {
        let got = told.recv_timeout(std::time::Duration::from_secs(120))?;
        let body: Value = serde_json::from_slice(&got.body)?;
        let path = body["data"]["path"].as_str().context("a path")?.to_owned();
        let id = got.field("webhook-id").context("an id")?.to_owned();
        if got.head.starts_with("POST /free ") {
            // What comes again has the same id.
            ensure!(free.insert(path, id.clone()).is_none_or(|before| before == id));
        } else if ordered.last() != Some(&path) {
            ordered.push(path);
        }
    }
    assert_eq!(ordered, names, "in the order in which the files came");
    assert!(free.keys().eq(names.iter().collect::<BTreeSet<_>>()), "{free:?}");
    node.stop()
}
