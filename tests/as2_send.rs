//! Two partners of AS2 on one node: what one uploads is sent, received, and acknowledged.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use entrepot_testkit::clients::{Login, local_file, noise, text};
use entrepot_testkit::server::{Node, run};
use serde_json::{Value, json};

use crate::hooks::apply;
use crate::program;
use crate::scan::status_kib;

/// Two accounts that are stations and partners of each other.
struct Pair {
    node: Node,
    acme: Login,
}

/// A certificate and its key, made by nothing of ours, as a key of AS2; of ours with both halves.
pub(crate) fn key(node: &Node, name: &str) -> Result<(Value, Value)> {
    let (private, public) = (node.scratch().join("as2.key"), node.scratch().join("as2.pem"));
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=x"]);
    run(openssl.arg("-keyout").arg(&private).arg("-out").arg(&public))?;
    let certificate = std::fs::read_to_string(&public)?;
    let theirs = json!({"key": {"name": format!("{name}-public"), "type": "as2",
        "public": certificate}});
    let mut ours = json!({"key": {"name": name, "type": "as2", "public": certificate}});
    ours["key"]["private"] = std::fs::read_to_string(&private)?.into();
    Ok((ours, theirs))
}

impl Pair {
    /// Messages of ACME to GLOBEX go to this path of the node, in the form that `send` says.
    fn start(send: &Value, path: &str) -> Result<Pair> {
        let mut node = Node::new(program(), None)?;
        let acme = Login::create(&node, "acme")?;
        Login::create(&node, "globex")?;
        let plain = ["protocol=http", "address=127.0.0.1:0", r#"http={"serve":["as2"]}"#];
        node.cli(&[&["listener", "create", "as2"], &plain[..]].concat())?;
        node.start()?;
        let url = format!("http://127.0.0.1:{}{path}", node.port_of("as2")?);
        let mut documents = Vec::new();
        for name in ["acme", "globex"] {
            let (ours, theirs) = key(&node, &format!("{name}-as2"))?;
            documents.extend([ours, theirs]);
        }
        documents.push(json!({"endpoint": {"name": "to-globex", "target": {"as2": {
            "partner": "Globex Corp", "station": "ACME", "keys": ["acme-as2"],
            "certificates": ["globex-as2-public"], "url": url, "allow_private": true,
            "send": send}}}}));
        documents.push(json!({"endpoint": {"name": "from-acme", "target": {"as2": {
            "partner": "ACME", "station": "Globex Corp", "keys": ["globex-as2"],
            "certificates": ["acme-as2-public"], "account": "globex"}}}}));
        let steps = json!([{"name": "send", "as2": {"endpoint": "to-globex"}}]);
        documents.push(json!({"rule": {"name": "edi", "when": {"event": "file.uploaded"},
            "if": "event.account == 'acme'", "do": steps,
            "retry": {"attempts": 20, "first_delay_seconds": 1, "longest_delay_seconds": 1}}}));
        let documents: Vec<String> = documents.iter().map(Value::to_string).collect();
        apply(&node, &documents.join("\n---\n"))?;
        Ok(Pair { node, acme })
    }

    /// The job of an upload, when it has ended.
    fn upload(&self, name: &str, content: &[u8]) -> Result<Value> {
        let local = local_file(&self.node, name, content)?;
        self.acme.sftp_batch(&self.node, &format!("put \"{}\" \"{name}\"\n", text(&local)?))?;
        self.ended(name)
    }

    /// Starts anew; the partner's server has another port then.
    fn start_again(&mut self) -> Result<()> {
        self.node.start()?;
        let port = self.node.port_of("as2")?;
        let url = format!("target.as2.url=http://127.0.0.1:{port}/as2");
        self.node.cli(&["endpoint", "change", "to-globex", &url])?;
        Ok(())
    }

    /// From now on receipts are sent by themselves.
    fn receipts_apart(&self) -> Result<()> {
        let port = self.node.port_of("as2")?;
        let url = format!("target.as2.receipt_url=http://127.0.0.1:{port}/as2");
        self.node.cli(&["endpoint", "change", "to-globex", &url])?;
        let hosts = r#"target.as2.receipt_hosts=["127.0.0.1"]"#;
        let private = "target.as2.allow_private=true";
        self.node.cli(&["endpoint", "change", "from-acme", hosts, private])?;
        Ok(())
    }

    fn ended(&self, name: &str) -> Result<Value> {
        self.node.until("the job to end", || {
            let jobs = self.node.json(&["job", "list"])?;
            let jobs = jobs.as_array().context("a list")?.iter();
            let mut ended = jobs.filter(|job| {
                job["event"]["path"] == format!("/{name}")
                    && (job["state"] == "done" || job["state"] == "failed")
            });
            Ok(ended.next().cloned())
        })
    }

    /// What the partner has.
    fn names(&self) -> Result<Vec<String>> {
        let folder = std::fs::read_dir(self.received(""))?;
        let names = folder.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        let mut names: Vec<String> = names.collect::<Result<_>>()?;
        names.retain(|name| !name.starts_with('.'));
        names.sort();
        Ok(names)
    }

    fn received(&self, name: &str) -> PathBuf {
        self.node.files().join("globex").join(name)
    }
}

#[test]
fn what_one_partner_uploads_arrives_at_the_other_and_both_know_it() -> Result<()> {
    let mut pair = Pair::start(&json!({"mic": "required"}), "/as2")?;
    let files = [
        ("order 7.x12", noise(71, 3_000_000)),
        ("empty.txt", Vec::new()),
        ("gr\u{fc}n.bin", noise(72, 100)),
    ];
    for (name, content) in &files {
        let job = pair.upload(name, content)?;
        ensure!(job["state"] == "done", "{name}: {job}");
        ensure!(std::fs::read(pair.received(name))? == *content, "{name} is another file");
    }
    let sent = pair.node.events("file.delivered")?;
    let uploaded = pair.node.events("file.uploaded")?;
    let arrived: Vec<&Value> = uploaded.iter().filter(|event| !event["as2"].is_null()).collect();
    assert_eq!((sent.len(), arrived.len()), (files.len(), files.len()));
    for event in &sent {
        let (here, of) = (&event["as2"], &event["as2"]["message_id"]);
        let there = arrived.iter().find(|other| other["as2"]["message_id"] == *of);
        let there = &there.context("it did not arrive")?["as2"];
        assert_eq!(here["mic"], there["mic"]);
        assert_eq!(here["signed_by"], there["signed_by"]);
        assert_eq!(here["receipt"]["body"], there["receipt"]["body"]);
        ensure!(here["receipt"]["body"].is_string(), "no receipt is kept: {event}");
        assert_eq!((&here["cipher"], &here["to"]), (&json!("aes-128-cbc"), &json!("Globex Corp")));
    }
    pair.node.stop()
}

/// The messages that `as2 messages` lists with these arguments.
fn messages(node: &Node, arguments: &[&str]) -> Result<Vec<Value>> {
    let listed = node.json(&[&["as2", "messages"], arguments].concat())?;
    Ok(listed.as_array().context("a list")?.clone())
}

#[test]
fn each_message_has_its_evidence_which_is_checked_offline() -> Result<()> {
    let mut pair = Pair::start(&json!({"mic": "required"}), "/as2")?;
    let content = noise(74, 100_000);
    let job = pair.upload("order.x12", &content)?;
    ensure!(job["state"] == "done", "{job}");
    pair.node.cli(&["endpoint", "change", "to-globex", "target.as2.send.cipher=triple-des-cbc"])?;
    let job = pair.upload("weak.x12", &content)?;
    ensure!(job["state"] == "failed", "{job}");
    let all = pair.node.until("all four to be listed", || {
        Ok(Some(messages(&pair.node, &[])?).filter(|all| all.len() == 4))
    })?;
    let mut states: Vec<&str> = all.iter().filter_map(|row| row["state"].as_str()).collect();
    states.sort_unstable();
    assert_eq!(states, ["delivered", "received", "refused", "rejected"]);
    assert_eq!(messages(&pair.node, &["--direction", "in", "--partner", "from-acme"])?.len(), 2);
    assert_eq!(messages(&pair.node, &["--state", "delivered"])?.len(), 1);
    assert_eq!(messages(&pair.node, &["--until", "2020-01-01T00:00:00Z"])?.len(), 0);
    let key = pair.node.cli(&["receipt", "key"])?.trim().to_owned();
    let bundle = pair.node.scratch().join("evidence.json");
    // The last one that was made.
    let certificate = pair.node.scratch().join("as2.pem");
    let order = local_file(&pair.node, "order", &content)?;
    for row in &all {
        let id = row["id"].as_str().context("an id")?;
        let shown = pair.node.cli(&["as2", "show", id])?;
        ensure!(shown.contains(row["message_id"].as_str().context("its id")?), "{shown}");
        ensure!(shown.to_ascii_lowercase().contains("header        as2-to: "), "{shown}");
        pair.node.cli(&["as2", "evidence", id, "-o", text(&bundle)?])?;
        let verify = ["as2", "verify", text(&bundle)?, "--key", &key];
        let signed = ["--certificate", text(&certificate)?];
        let told = pair.node.cli(&[&verify[..], &signed].concat())?;
        ensure!(told.contains("signed by certificate") && !told.contains("FAILS"), "{told}");
        let made = std::fs::read_to_string(&bundle)?;
        let state = row["state"].as_str().unwrap_or_default();
        let whole = ["delivered", "received"].contains(&state);
        let with_file = [&verify[..], &["--file", text(&order)?]].concat();
        let compared = pair.node.command(&with_file).output()?;
        assert_eq!(compared.status.success(), whole, "{state}");
        // The partner's own signature covers this file, and no other.
        let told = String::from_utf8(compared.stdout)?;
        let covers = told.contains("signed the content with the recorded MIC")
            && told.contains("it covers the file that was given");
        assert_eq!(covers, state == "received", "{told}");
        let with_other = [&verify[..], &["--file", text(&bundle)?]].concat();
        let told = String::from_utf8(pair.node.command(&with_other).output()?.stdout)?;
        assert_eq!(told.contains("it does not cover the file"), state == "received", "{told}");
        let other = made.replacen("as2-version", "as2-versiom", 1);
        let other = other.replacen("As2-Version", "As2-Versiom", 1);
        std::fs::write(&bundle, other)?;
        let refused = pair.node.command(&verify).output()?;
        assert_eq!(refused.status.code(), Some(6));
        let errors = String::from_utf8_lossy(&refused.stderr);
        ensure!(errors.contains("EP1218") && errors.contains("head"), "{errors}");
    }
    pair.node.stop()?;
    // Without a server, and of something that there is not.
    let id = all[0]["id"].as_str().context("an id")?;
    pair.node.cli(&["as2", "evidence", id, "-o", text(&bundle)?])?;
    pair.node.cli(&["as2", "verify", text(&bundle)?])?;
    let unknown = pair.node.command(&["as2", "evidence", "<no@one>"]).output()?;
    assert_eq!(unknown.status.code(), Some(3));
    std::fs::write(&bundle, "{}")?;
    let odd = pair.node.command(&["as2", "verify", text(&bundle)?]).output()?;
    ensure!(String::from_utf8_lossy(&odd.stderr).contains("EP1220"));
    Ok(())
}

#[test]
fn a_file_that_no_rule_sends_is_sent_by_hand() -> Result<()> {
    let mut pair = Pair::start(&json!({"mic": "required"}), "/as2")?;
    let out = pair.node.scratch().join("outbox");
    std::fs::create_dir_all(out.join("today"))?;
    let content = noise(75, 300_000);
    std::fs::write(out.join("today/{4711}.x12"), &content)?;
    let target = format!("target.directory.path={}", text(&out)?);
    pair.node.cli(&["endpoint", "create", "outbox", &target])?;
    let send = |file: &str| pair.node.command(&["as2", "send", "to-globex", file]).output();
    let wrong = [("outbox", "in orders:/"), ("no:/a", "'no'"), ("to-globex:/a", "has no files")];
    for (file, why) in wrong {
        let refused = send(file)?;
        let error = text_of(&refused.stderr);
        ensure!(!refused.status.success() && error.contains(why), "{file}: {error}");
    }
    let no_partner = pair.node.command(&["as2", "send", "outbox", "outbox:/a"]).output()?;
    ensure!(text_of(&no_partner.stderr).contains("no partner of AS2"), "{no_partner:?}");
    let odd = ["as2", "send", "to-globex", "outbox:/a", "--name", "{nmae}"];
    let odd = text_of(&pair.node.command(&odd).output()?.stderr);
    ensure!(odd.contains("nmae"), "{odd}");
    let job = |file: &str| -> Result<Value> {
        let subject = ["--subject", "By hand"];
        let sent = pair.node.json(&[&["as2", "send", "to-globex", file], &subject[..]].concat())?;
        let id = sent["job"].as_str().context("a job")?.to_owned();
        pair.node.until("the job to end", || {
            let job = pair.node.json(&["job", "show", &id])?;
            Ok(Some(job).filter(|job| job["state"] == "done" || job["state"] == "failed"))
        })
    };
    let done = job("outbox:/today/{4711}.x12")?;
    ensure!(done["state"] == "done" && done["rule"] == "as2-send", "{done}");
    ensure!(std::fs::read(pair.received("{4711}.x12"))? == content, "another file arrived");
    let sent = pair.node.events("file.delivered")?;
    assert_eq!((sent.len(), sent[0]["as2"]["to"].as_str()), (1, Some("Globex Corp")));
    let called = pair.node.events("rule.called")?;
    assert_eq!(called[0]["parameters"], json!({"path": "/today/{4711}.x12"}));
    let trace = pair.node.cli(&["trace", done["id"].as_str().context("an id")?])?;
    ensure!(trace.contains("file.delivered"), "{trace}");
    // It was confirmed, so it goes again as a message of its own.
    let id = messages(&pair.node, &["--state", "delivered"])?[0]["id"].clone();
    let again = pair.node.json(&["as2", "resend", id.as_str().context("an id")?])?;
    ensure!(again["job"] != done["id"] && again["message_id"].is_null(), "{again}");
    pair.node.until("both to be delivered", || {
        let sent = messages(&pair.node, &["--state", "delivered"])?;
        Ok((sent.len() == 2).then_some(()))
    })?;
    let missing = job("outbox:/today/none")?;
    ensure!(missing["state"] == "failed", "{missing}");
    pair.node.stop()
}

#[test]
fn a_partner_is_tried_step_by_step() -> Result<()> {
    let mut pair = Pair::start(&json!({"mic": "required"}), "/as2")?;
    let told = pair.node.cli(&["as2", "test", "to-globex"])?;
    for step in ["keys", "connection", "message", "receipt"] {
        ensure!(told.contains(&format!("ok      {step}")), "{step}: {told}");
    }
    ensure!(told.contains("signed by a certificate of the partner, and its MIC is ours"), "{told}");
    assert_eq!(pair.names()?, ["entrepot-test.txt"]);
    let failing = |change: &str, step: &str, why: &str| -> Result<()> {
        pair.node.cli(&["endpoint", "change", "to-globex", change])?;
        let tried = pair.node.command(&["as2", "test", "to-globex"]).output()?;
        let (told, error) = (text_of(&tried.stdout), text_of(&tried.stderr));
        assert_eq!(tried.status.code(), Some(6), "{change}: {told} {error}");
        ensure!(told.contains(&format!("FAILED  {step}")), "{change}: {told}");
        ensure!(error.contains("EP1221") && error.contains(why), "{change}: {error}");
        Ok(())
    };
    failing("target.as2.send.cipher=triple-des-cbc", "receipt", "insufficient")?;
    let port = pair.node.port_of("as2")?;
    failing(&format!("target.as2.url=http://127.0.0.1:{port}/no"), "message", "404")?;
    failing(&format!("target.as2.url=https://127.0.0.1:{port}/as2"), "tls", "")?;
    failing("target.as2.url=http://127.0.0.1:1/as2", "connection", "127.0.0.1:1")?;
    failing("target.as2.allow_private=false", "connection", "127.0.0.1")?;
    pair.node.cli(&["key", "change", "globex-as2-public", "enabled=false"])?;
    failing("target.as2.allow_private=true", "keys", "no certificate of the partner")?;
    let unknown = pair.node.command(&["as2", "test", "nobody"]).output()?;
    assert_eq!(unknown.status.code(), Some(3));
    pair.node.stop()
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_message_that_the_partner_does_not_take_fails_the_job_with_its_reason() -> Result<()> {
    let weak = json!({"cipher": "triple-des-cbc", "compression": "before-signing"});
    let mut pair = Pair::start(&weak, "/as2")?;
    let job = pair.upload("a.edi", b"UNB")?;
    let error = job["error"].as_str().unwrap_or_default();
    ensure!(error.starts_with("EP1212: ") && error.contains("insufficient"), "{job}");
    ensure!(!pair.received("a.edi").exists(), "it was kept");
    pair.node.stop()?;
    let mut pair = Pair::start(&json!({}), "/elsewhere")?;
    let job = pair.upload("a.edi", b"UNB")?;
    ensure!(job["error"].as_str().is_some_and(|why| why.starts_with("EP0891: ")), "{job}");
    pair.node.stop()
}

#[test]
fn a_node_that_dies_with_the_receipt_in_its_hands_makes_no_second_file() -> Result<()> {
    let mut pair = Pair::start(&json!({}), "/as2")?;
    for step in ["as2.answered", "as2.recorded"] {
        pair.node.stop()?;
        pair.node.set("ENTREPOT_CRASH_AT", &format!("{step}:1"));
        pair.start_again()?;
        let local = local_file(&pair.node, step, step.as_bytes())?;
        // Its client may see the node die.
        let put = format!("put {} {step}\n", text(&local)?);
        drop(pair.acme.sftp_batch(&pair.node, &put));
        let status = pair.node.wait()?;
        ensure!(!status.success(), "the node did not die at {step}");
        pair.node.unset();
        pair.start_again()?;
        let job = pair.ended(step)?;
        ensure!(job["state"] == "done", "{job}");
    }
    assert_eq!(pair.names()?, ["as2.answered", "as2.recorded"]);
    assert_eq!(pair.node.events("file.delivered")?.len(), 2);
    pair.node.stop()
}

#[test]
fn a_receipt_that_comes_by_itself_ends_the_job_that_rests_for_it() -> Result<()> {
    let mut pair = Pair::start(&json!({"mic": "required"}), "/as2")?;
    pair.receipts_apart()?;
    let content = noise(73, 400_000);
    let job = pair.upload("apart.bin", &content)?;
    ensure!(job["state"] == "done", "{job}");
    ensure!(std::fs::read(pair.received("apart.bin"))? == content, "it is another file");
    let one = |kind: &str| {
        let events = pair.node.events(kind)?;
        ensure!(events.len() == 1, "{} of {kind}", events.len());
        events.into_iter().next().context("one")
    };
    let (sent, came) = (one("as2-receipt.sent")?, one("as2-receipt.received")?);
    assert_eq!((&sent["message_id"], &sent["partner"]), (&came["message_id"], &json!("from-acme")));
    assert_eq!((&came["job"], &came["partner"]), (&job["id"], &json!("to-globex")));
    let delivered = one("file.delivered")?;
    assert_eq!(delivered["as2"]["receipt"]["body"], came["receipt"]["body"]);
    ensure!(delivered["as2"]["mic"].is_string(), "it is not verified: {delivered}");
    // Who refuses says so in a receipt that travels the same way.
    let weak = r#"target.as2.send={"cipher":"triple-des-cbc"}"#;
    pair.node.cli(&["endpoint", "change", "to-globex", weak])?;
    let job = pair.upload("weak.bin", b"weak")?;
    let error = job["error"].as_str().unwrap_or_default();
    ensure!(error.starts_with("EP1212: ") && error.contains("insufficient"), "{job}");
    pair.node.stop()
}

#[test]
fn a_node_that_dies_when_a_receipt_has_left_loses_neither_side_of_it() -> Result<()> {
    let mut pair = Pair::start(&json!({}), "/as2")?;
    pair.node.stop()?;
    pair.node.set("ENTREPOT_CRASH_AT", "as2.receipt-sent:1");
    pair.start_again()?;
    pair.receipts_apart()?;
    let local = local_file(&pair.node, "a.bin", b"content")?;
    drop(pair.acme.sftp_batch(&pair.node, &format!("put {} a.bin\n", text(&local)?)));
    let status = pair.node.wait()?;
    ensure!(!status.success(), "the node did not die");
    pair.node.unset();
    pair.start_again()?;
    let job = pair.ended("a.bin")?;
    ensure!(job["state"] == "done", "{job}");
    assert_eq!(pair.names()?, ["a.bin"]);
    assert_eq!(pair.node.events("file.delivered")?.len(), 1);
    pair.node.stop()
}

#[test]
fn what_was_sent_is_sent_again_or_no_more() -> Result<()> {
    let mut pair = Pair::start(&json!({"cipher": "triple-des-cbc"}), "/as2")?;
    let failed = pair.upload("a.edi", b"UNB")?;
    ensure!(failed["state"] == "failed", "{failed}");
    let of_state = |state: &str, count: usize| {
        pair.node.until(&format!("{count} messages to be {state}"), || {
            let sent = messages(&pair.node, &["--direction", "out", "--state", state])?;
            Ok((sent.len() == count).then_some(sent))
        })
    };
    let rejected = of_state("rejected", 1)?;
    let id = rejected[0]["id"].as_str().context("an id")?;
    pair.node.cli(&["endpoint", "change", "to-globex", "target.as2.send.cipher=aes-128-cbc"])?;
    // What failed is sent under its id, by its job.
    let again = pair.node.json(&["as2", "resend", id])?;
    assert_eq!((&again["job"], &again["message_id"]), (&failed["id"], &rejected[0]["message_id"]));
    let delivered = of_state("delivered", 1)?;
    assert_eq!(delivered[0]["message_id"], rejected[0]["message_id"]);
    assert_eq!(pair.names()?, ["a.edi"]);
    // What the partner has is sent as a message of its own.
    let anew = pair.node.json(&["as2", "resend", id])?;
    ensure!(anew["job"] != failed["id"] && anew["message_id"].is_null(), "{anew}");
    of_state("delivered", 2)?;
    assert_eq!(pair.names()?.len(), 2);
    // Nobody takes the receipt of the third one, so its job rests until it is cancelled.
    pair.receipts_apart()?;
    let nowhere = "target.as2.receipt_url=http://127.0.0.1:1/as2";
    pair.node.cli(&["endpoint", "change", "to-globex", nowhere])?;
    let local = local_file(&pair.node, "b.edi", b"UNB")?;
    pair.acme.sftp_batch(&pair.node, &format!("put \"{}\" b.edi\n", text(&local)?))?;
    let awaiting = of_state("awaiting", 1)?;
    let id = awaiting[0]["id"].as_str().context("an id")?;
    let refused = pair.node.command(&["as2", "resend", id]).output()?;
    ensure!(text_of(&refused.stderr).contains("still sends it"), "{}", text_of(&refused.stderr));
    pair.node.cli(&["as2", "cancel", id])?;
    of_state("unconfirmed", 1)?;
    let received = messages(&pair.node, &["--direction", "in", "--state", "received"])?;
    let received = received[0]["id"].as_str().context("an id")?;
    let refused = pair.node.command(&["as2", "resend", received]).output()?;
    ensure!(text_of(&refused.stderr).contains("rule replay"), "{}", text_of(&refused.stderr));
    pair.node.stop()
}

/// What a node that sends and receives a message may have resident. The optimised program: one for
/// debugging has more of itself alone.
const RESIDENT_KIB: u64 = 100 << 10;
/// What a long message may take of it.
const LONG_KIB: u64 = 32 << 10;

/// Sends a file of so many MiB by hand. A long one may take as long as others do together.
fn send_whole(pair: &Pair, file: &str, mib: u64) -> Result<()> {
    let sent = pair.node.json(&["as2", "send", "to-globex", file])?;
    let id = sent["job"].as_str().context("a job")?.to_owned();
    let ended = || {
        pair.node.until("the job to end", || {
            let state = pair.node.json(&["job", "show", &id])?["state"].clone();
            Ok((state == "done" || state == "failed").then_some(state))
        })
    };
    let mut state = ended();
    for _ in 0..mib / 256 {
        state = state.or_else(|_| ended());
    }
    ensure!(state? == "done", "the job of {file} has failed");
    Ok(())
}

/// `AS2_MIB=10240` is the full length, for the optimised program.
#[test]
fn a_long_message_goes_both_ways_in_little_memory() -> Result<()> {
    let full = std::env::var("AS2_MIB").ok();
    let mib = full.as_ref().map_or(Ok(96), |mib| mib.parse::<u64>())?;
    let mut pair = Pair::start(&json!({}), "/as2")?;
    let out = pair.node.scratch().join("outbox");
    std::fs::create_dir(&out)?;
    let target = format!("target.directory.path={}", text(&out)?);
    pair.node.cli(&["endpoint", "create", "outbox", &target])?;
    for (name, mib) in [("short", 4), ("long", mib)] {
        std::fs::File::create(out.join(name))?.set_len(mib << 20)?;
    }
    // What a message takes at all is there after the first one.
    send_whole(&pair, "outbox:/short", 4)?;
    let pid = pair.node.pid()?;
    std::fs::write(format!("/proc/{pid}/clear_refs"), "5")?;
    let before = status_kib(pid, "VmRSS:")?;
    send_whole(&pair, "outbox:/long", mib)?;
    let most = status_kib(pid, "VmHWM:")?;
    let taken = most.saturating_sub(before);
    println!("{mib} MiB sent and received: {most} KiB resident at most, {taken} of them for it");
    ensure!(taken <= LONG_KIB, "{taken} KiB for {mib} MiB");
    ensure!(full.is_none() || most <= RESIDENT_KIB, "{most} KiB are resident");
    assert_eq!(std::fs::metadata(pair.received("long"))?.len(), mib << 20);
    let digest = |kind: &str| -> Result<Value> {
        let events = pair.node.events(kind)?;
        let of_long = |event: &&Value| event["size"] == mib << 20;
        Ok(events.iter().find(of_long).context("its event")?["blake3"].clone())
    };
    let (sent, arrived) = (digest("file.delivered")?, digest("file.uploaded")?);
    ensure!(sent.is_string() && sent == arrived, "{sent} {arrived}");
    pair.node.stop()
}
