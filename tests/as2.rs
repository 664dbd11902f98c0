//! Messages of AS2, made by the openssl command and sent by curl: what a partner gets back, and
//! that each is delivered once whatever dies.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, ensure};
use entrepot_testkit::clients::text;
use entrepot_testkit::server::{Node, feed, run};

use crate::hooks::apply;
use crate::program;

pub(crate) const PAYLOAD: &str = "ISA*00*          *00*          *ZZ*GLOBEX         *ZZ*ACME~\r\n";

/// An account whose files messages of GLOBEX become; certificates come in by their names.
const DOCUMENTS: &str = "account: {name: globex, type: partner}
---
mount: {name: globex, account: globex, path: /, endpoint: files, prefix: globex}
---
endpoint:
  name: globex
  target:
    as2:
      partner: GLOBEX
      station: ACME
      keys: [ours]
      certificates: [theirs]
      account: globex
      folder: /in
---
listener: {name: as2, protocol: http, address: '127.0.0.1:0', http: {serve: [as2]}}
";

/// Answers to what was sent; each has files of its own.
static ANSWERS: AtomicUsize = AtomicUsize::new(0);

/// A node, and a partner that has only files and commands.
pub(crate) struct Exchange {
    pub(crate) node: Node,
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: PathBuf,
}

impl Exchange {
    pub(crate) fn start(database: Option<&str>) -> Result<Exchange> {
        let mut node = Node::new(program(), database)?;
        let exchange = |node: &Node, who: &str| -> Result<()> {
            let at = |ending: &str| node.scratch().join(format!("{who}.{ending}"));
            let (key, certificate) = (at("key"), at("pem"));
            run(Command::new("openssl")
                .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes"])
                .args([
                    "-days",
                    "30",
                    "-subj",
                    &format!("/CN={who}"),
                    "-keyout",
                    text(&key)?,
                    "-out",
                ])
                .arg(certificate))?;
            Ok(())
        };
        exchange(&node, "acme")?;
        exchange(&node, "globex")?;
        let pem = |name: &str| -> Result<String> {
            let text = std::fs::read_to_string(node.scratch().join(name))?;
            Ok(serde_json::to_string(&text)?)
        };
        let mut documents = DOCUMENTS.to_owned();
        let (acme, key, globex) = (pem("acme.pem")?, pem("acme.key")?, pem("globex.pem")?);
        documents.push_str(&format!(
            "---\nkey: {{name: ours, type: as2, public: {acme}, private: {key}}}\n\
             ---\nkey: {{name: theirs, type: as2, public: {globex}}}\n"
        ));
        apply(&node, &documents)?;
        std::fs::create_dir_all(node.files().join("globex/in"))?;
        node.start()?;
        Ok(Exchange { node })
    }

    fn at(&self, name: &str) -> PathBuf {
        self.node.scratch().join(name)
    }

    fn openssl(&self, arguments: &[&str]) -> Result<Vec<u8>> {
        Ok(run(Command::new("openssl").current_dir(self.node.scratch()).args(arguments))?.stdout)
    }

    /// Makes the body of a message: signed, then encrypted. The bytes that were signed.
    pub(crate) fn make(&self, payload: &str) -> Result<Vec<u8>> {
        let entity = format!(
            "Content-Type: application/edi-x12\r\nContent-Transfer-Encoding: binary\r\n\
             Content-Disposition: attachment; filename=\"order 850.edi\"\r\n\r\n{payload}"
        );
        std::fs::write(self.at("entity"), &entity)?;
        let sign = "cms -sign -binary -md sha256 -signer globex.pem -inkey globex.key -in entity \
                    -outform SMIME -out signed";
        self.openssl(&sign.split_whitespace().collect::<Vec<_>>())?;
        let encrypt =
            "cms -encrypt -binary -aes-128-cbc -in signed -outform DER -out body acme.pem";
        self.openssl(&encrypt.split_whitespace().collect::<Vec<_>>())?;
        Ok(entity.into_bytes())
    }

    /// Sends what was made.
    fn send(&self, id: &str) -> Result<Answer> {
        let address = format!("http://127.0.0.1:{}/as2", self.node.port_of("as2")?);
        self.send_to(&address, id, &[])
    }

    /// Sends it to this address, by curl with more arguments.
    pub(crate) fn send_to(&self, address: &str, id: &str, more: &[&str]) -> Result<Answer> {
        let number = ANSWERS.fetch_add(1, Ordering::Relaxed);
        let file = |what: &str| self.at(&format!("{what}-{number}"));
        let (head, body) = (file("head"), file("receipt"));
        let mut curl = Command::new("curl");
        curl.args(["-sS", "--max-time", "60", "-w", "%{http_code}", "-o", text(&body)?]).args([
            "-D",
            text(&head)?,
            "--data-binary",
            &format!("@{}", text(&self.at("body"))?),
        ]);
        let message_id = format!("Message-ID: {id}");
        for field in [
            "Content-Type: application/pkcs7-mime; smime-type=enveloped-data; name=smime.p7m",
            "AS2-Version: 1.2",
            "AS2-From: GLOBEX",
            "AS2-To: ACME",
            "Disposition-Notification-To: edi@globex.example",
            "Disposition-Notification-Options: signed-receipt-protocol=optional, \
             pkcs7-signature; signed-receipt-micalg=optional, sha-256",
            &message_id,
        ] {
            curl.args(["-H", field]);
        }
        let status = String::from_utf8(run(curl.args(more).arg(address))?.stdout)?.parse()?;
        Ok(Answer { status, head: std::fs::read_to_string(head)?, body })
    }

    /// What the receipt says, after the openssl command has checked its signature.
    pub(crate) fn receipt(&self, answer: &Answer) -> Result<String> {
        let kind = answer.head.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("content-type").then(|| value.to_owned())
        });
        let kind = kind.context("a media type")?;
        let mut entity = format!("MIME-Version: 1.0\r\nContent-Type: {kind}\r\n\r\n").into_bytes();
        entity.extend(std::fs::read(&answer.body)?);
        std::fs::write(self.at("signed-receipt"), entity)?;
        let verify = "cms -verify -in signed-receipt -CAfile acme.pem -certfile acme.pem \
                      -purpose any";
        Ok(String::from_utf8(self.openssl(&verify.split_whitespace().collect::<Vec<_>>())?)?)
    }

    /// The names of the files that have come, and whether each is whole.
    pub(crate) fn files(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(self.node.files().join("globex/in"))? {
            let entry = entry?;
            let name =
                entry.file_name().into_string().map_err(|name| anyhow::anyhow!("{name:?}"))?;
            if !name.starts_with('.') {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }
}

#[test]
fn a_message_of_the_openssl_command_is_received_and_its_receipt_verified_by_it() -> Result<()> {
    let mut exchange = Exchange::start(None)?;
    let signed = exchange.make(PAYLOAD)?;
    let answer = exchange.send("<850-1@globex.example>")?;
    ensure!(answer.status == 200, "{}: {}", answer.status, answer.head);
    let receipt = exchange.receipt(&answer)?;
    std::fs::write(exchange.at("digested"), signed)?;
    let digest = exchange.openssl(&["dgst", "-sha256", "-binary", "digested"])?;
    std::fs::write(exchange.at("digest"), digest)?;
    let mic = String::from_utf8(exchange.openssl(&["base64", "-A", "-in", "digest"])?)?;
    ensure!(receipt.contains(&format!("Received-Content-MIC: {mic}, sha-256")), "{receipt}");
    ensure!(receipt.contains("Original-Message-ID: <850-1@globex.example>"), "{receipt}");
    ensure!(receipt.contains("automatic-action/MDN-sent-automatically; processed"), "{receipt}");
    let file = exchange.node.files().join("globex/in/order 850.edi");
    assert_eq!(std::fs::read_to_string(file)?, PAYLOAD);
    // One that comes again gets the same receipt.
    let first = std::fs::read(&answer.body)?;
    let again = exchange.send("<850-1@globex.example>")?;
    ensure!(again.status == 200 && std::fs::read(&again.body)? == first, "{}", again.head);
    assert_eq!(exchange.files()?, ["order 850.edi"]);
    exchange.node.until("the event", || {
        Ok((exchange.node.events("file.uploaded")?.len() == 1).then_some(()))
    })?;
    let event = &exchange.node.events("file.uploaded")?[0];
    assert_eq!(event["as2"]["partner"], "globex");
    assert_eq!(event["as2"]["message_id"], "<850-1@globex.example>");
    // A key of another certificate is refused when it is stored.
    let other = std::fs::read_to_string(exchange.at("globex.key"))?;
    let public = std::fs::read_to_string(exchange.at("acme.pem"))?;
    let key = serde_json::json!({"key": {
        "name": "wrong", "type": "as2", "public": public, "private": other,
    }});
    let refused = feed(&mut exchange.node.command(&["apply", "-"]), &key.to_string());
    let refused = format!("{:#}", refused.err().context("it was taken")?);
    ensure!(refused.contains("not that of the certificate"), "{refused}");
    exchange.node.stop()
}

/// The node dies at each step of a message; its sender sends it until there is a receipt.
#[test]
fn a_message_is_delivered_once_though_the_node_dies_at_any_step() -> Result<()> {
    let mut exchange = Exchange::start(None)?;
    exchange.make(PAYLOAD)?;
    exchange.node.stop()?;
    let points = [
        "upload.staged",
        "as2.claimed",
        "upload.synced",
        "upload.intent",
        "upload.published",
        "upload.recorded",
        "as2.published",
    ];
    for (at, point) in points.into_iter().enumerate() {
        exchange.node.set("ENTREPOT_CRASH_AT", point);
        exchange.node.start()?;
        let id = format!("<{at}@globex.example>");
        ensure!(exchange.send(&id).is_err(), "the node lives on behind {point}");
        exchange.node.wait()?;
        exchange.node.unset();
        exchange.node.start()?;
        let answer = exchange.node.until("a receipt", || {
            let answer = exchange.send(&id)?;
            ensure!([200, 503].contains(&answer.status), "{point}: {}", answer.head);
            Ok((answer.status == 200).then_some(answer))
        })?;
        let receipt = exchange.receipt(&answer)?;
        ensure!(receipt.contains(&format!("Original-Message-ID: {id}")), "{receipt}");
        let files = exchange.files()?;
        assert_eq!(files.len(), at + 1, "{point}: {files:?}");
        exchange.node.stop()?;
    }
    Ok(())
}

/// The keys of both sides in files of every form.
fn containers(exchange: &Exchange) -> Result<()> {
    let make = |line: &str| exchange.openssl(&line.split_whitespace().collect::<Vec<_>>());
    let key = "-inkey acme.key -in acme.pem -certfile globex.pem -passout pass:secret";
    make(&format!("pkcs12 -export {key} -out new.p12"))?;
    let old = "-keypbe PBE-SHA1-3DES -certpbe PBE-SHA1-3DES -macalg sha1";
    make(&format!("pkcs12 -export {key} {old} -out old.p12"))?;
    make("pkcs12 -export -nokeys -in globex.pem -passout pass: -out bare.p12")?;
    make("crl2pkcs7 -nocrl -certfile acme.pem -certfile globex.pem -outform DER -out both.p7b")?;
    make("crl2pkcs7 -nocrl -certfile globex.pem -out one.p7b")?;
    make("x509 -in globex.pem -outform DER -out globex.cer")?;
    make("pkcs8 -topk8 -in acme.key -passout pass:secret -out acme.encrypted")?;
    make("rsa -in acme.key -traditional -out acme.old")?;
    let joined = |other: &str, name: &str| -> Result<()> {
        let both = [std::fs::read(exchange.at("acme.pem"))?, std::fs::read(exchange.at(other))?];
        Ok(std::fs::write(exchange.at(name), both.concat())?)
    };
    joined("acme.encrypted", "encrypted.pem")?;
    joined("acme.old", "old.pem")?;
    Ok(())
}

#[test]
fn keys_in_files_of_other_programs_come_in() -> Result<()> {
    let mut exchange = Exchange::start(None)?;
    containers(&exchange)?;
    let digits = |name: &str| -> Result<String> {
        let line = format!("x509 -in {name} -noout -fingerprint -sha256");
        let line = exchange.openssl(&line.split_whitespace().collect::<Vec<_>>())?;
        let line = String::from_utf8(line)?;
        let (_, digits) = line.trim().split_once('=').context("a fingerprint")?;
        Ok(digits.replace(':', "").to_ascii_lowercase())
    };
    let (acme, globex) = (digits("acme.pem")?, digits("globex.pem")?);
    let import = |name: &str, file: &str, more: &[&str], password: &str| {
        let file = exchange.at(file);
        let file = text(&file)?;
        feed(&mut exchange.node.command(&[&["key", "import", name, file], more].concat()), password)
    };
    let with = ["--password"];
    for (name, file, more, of, private) in [
        ("k1", "new.p12", &with[..], &acme, "with its private key"),
        ("k2", "old.p12", &with, &acme, "with its private key"),
        ("k3", "encrypted.pem", &with, &acme, "with its private key"),
        ("k4", "old.pem", &[], &acme, "with its private key"),
        (
            "k5",
            "new.p12",
            &["--password", "--certificate-only", "--fingerprint", &globex[..12]],
            &globex,
            "without a private key",
        ),
        ("k6", "bare.p12", &[], &globex, "without a private key"),
        ("k7", "one.p7b", &[], &globex, "without a private key"),
        ("k8", "both.p7b", &["--fingerprint", &acme[..12]], &acme, "without a private key"),
        ("k9", "globex.cer", &[], &globex, "without a private key"),
        ("k10", "new.p12", &["--password", "--type", "tls"], &acme, "with its private key"),
    ] {
        let told = import(name, file, more, "secret\n").context(name)?;
        let told = String::from_utf8(told.stdout)?;
        ensure!(told.contains(of.as_str()) && told.contains(private), "{file}: {told}");
    }
    for (file, more, password, why) in [
        ("new.p12", &with[..], "other\n", "the password is not the one"),
        ("old.p12", &with, "other\n", "the password is not the one"),
        ("encrypted.pem", &with, "other\n", "the password is not the one"),
        ("new.p12", &[], "", "none was given"),
        ("encrypted.pem", &[], "", "none was given"),
        ("both.p7b", &[], "", "2 certificates"),
        ("globex.cer", &["--with-private"], "", "no private key"),
        ("globex.cer", &["--type", "tls"], "", "no private key"),
        ("acme.key", &[], "", "no certificate"),
        ("entity", &[], "", "neither PEM"),
        ("both.p7b", &["--fingerprint", "00000000"], "", "none of its certificates"),
    ] {
        std::fs::write(exchange.at("entity"), "order")?;
        let refused = import("no", file, more, password);
        let refused = format!("{:#}", refused.err().context("it was taken")?);
        ensure!(refused.contains("EP1222") && refused.contains(why), "{file}: {refused}");
    }
    // What came in signs and opens: the partner has the same certificate.
    let keys = r#"target.as2.keys=["k2"]"#;
    let certificates = r#"target.as2.certificates=["k7"]"#;
    exchange.node.cli(&["endpoint", "change", "globex", keys, certificates])?;
    exchange.make(PAYLOAD)?;
    let answer = exchange.send("<imported@globex.example>")?;
    ensure!(exchange.receipt(&answer)?.contains("; processed"), "{}", answer.head);
    exchange.node.stop()
}

#[test]
fn a_partner_that_is_to_log_in_shows_its_certificate_or_its_password() -> Result<()> {
    let mut exchange = Exchange::start(None)?;
    let digits =
        exchange.openssl(&["x509", "-in", "globex.pem", "-noout", "-fingerprint", "-sha256"])?;
    let digits = String::from_utf8(digits)?;
    let (_, digits) = digits.trim().split_once('=').context("a fingerprint")?;
    let digits = digits.replace(':', "").to_ascii_lowercase();
    apply(
        &exchange.node,
        &format!(
            "account: {{name: globex, type: partner, certificates: ['SHA256:{digits}'], \
             login: [[certificate]]}}\n---\n\
             listener: {{name: as2s, protocol: https, address: '127.0.0.1:0', \
             http: {{serve: [as2]}}, tls: {{client_certificates: ask}}}}\n"
        ),
    )?;
    let login = "target.as2.require={\"login\":\"account\"}";
    exchange.node.cli(&["endpoint", "change", "globex", login])?;
    exchange.make(PAYLOAD)?;
    let port = exchange.node.until("the listener", || Ok(exchange.node.port_of("as2s").ok()))?;
    let address = format!("https://127.0.0.1:{port}/as2");
    let send = |id: &str, more: &[&str]| exchange.send_to(&address, id, &[&["-k"], more].concat());
    let answer = send("<1@globex.example>", &[])?;
    ensure!(answer.status == 401 && answer.head.contains("401"), "{}", answer.head);
    let (pem, key) = (exchange.at("globex.pem"), exchange.at("globex.key"));
    let shown = ["--cert", text(&pem)?, "--key", text(&key)?];
    let answer = send("<1@globex.example>", &shown)?;
    ensure!(answer.status == 200, "{}", answer.head);
    ensure!(exchange.receipt(&answer)?.contains("; processed"), "{}", answer.head);
    let listed = exchange.node.until("the message", || {
        let listed = exchange.node.json(&["as2", "messages", "--state", "received"])?;
        Ok(listed.as_array().filter(|rows| rows.len() == 1).cloned())
    })?;
    let id = listed[0]["id"].as_str().context("an id")?;
    let told = exchange.node.cli(&["as2", "show", id])?;
    ensure!(told.contains(&format!("certificate {digits}")) && told.contains("TLS"), "{told}");
    // Another certificate is as none.
    let (pem, key) = (exchange.at("acme.pem"), exchange.at("acme.key"));
    let answer = send("<2@globex.example>", &["--cert", text(&pem)?, "--key", text(&key)?])?;
    ensure!(answer.status == 401, "{}", answer.head);
    exchange.node.stop()
}

#[test]
fn a_rule_before_messages_lets_none_pass_and_the_receipt_says_so() -> Result<()> {
    let mut exchange = Exchange::start(None)?;
    exchange.node.stop()?;
    let rule = "rule:\n  name: no-orders\n  when: {before: [as2 write]}\n  \
                if: command.path == '/in/order 850.edi' && command.account == 'globex'\n  do:\n    \
                - refuse: {text: \"No orders today.\"}\n";
    apply(&exchange.node, rule)?;
    exchange.node.start()?;
    exchange.make(PAYLOAD)?;
    let answer = exchange.send("<850-1@globex.example>")?;
    ensure!(answer.status == 200, "{}: {}", answer.status, answer.head);
    let receipt = exchange.receipt(&answer)?;
    ensure!(receipt.contains("processed/error: unexpected-processing-error"), "{receipt}");
    assert_eq!(exchange.files()?, Vec::<String>::new());
    exchange.node.until("the refusal in the log", || {
        let refused = exchange.node.events("command.refused")?;
        let is = |event: &serde_json::Value| {
            event["protocol"] == "as2" && event["reason"] == "No orders today."
        };
        let told = exchange.node.events("as2.refused")?.len() == 1;
        Ok((refused.iter().any(is) && told).then_some(()))
    })?;
    // The rule is taken away: the same message may come again.
    exchange.node.cli(&["rule", "delete", "no-orders"])?;
    exchange.node.until("the message to pass", || {
        let answer = exchange.send("<850-1@globex.example>")?;
        let receipt = exchange.receipt(&answer)?;
        Ok((!receipt.contains("processed/error")).then_some(()))
    })?;
    assert_eq!(exchange.files()?, ["order 850.edi"]);
    Ok(())
}
