//! What ends soon is told in time by a rule, in the real program: certificates that openssl made,
//! and keys with a date of their own.

use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, ensure};
use entrepot_nouns::Timestamp;
use entrepot_testkit::clients::text;
use entrepot_testkit::server::{Node, run};

use crate::book::Book;
use crate::hooks::apply;
use crate::program;

const RULES: &str = "rule:
  name: certificates
  when: {event: certificate.expiring}
  do: [exec: {argv: [ENTER, BOOK, '{vars.key}', '{vars.days}']}]
---
rule:
  name: keys
  when: {event: key.expiring}
  do: [exec: {argv: [ENTER, BOOK, '{vars.key}', '{vars.days}']}]
";

const SET: &str = "do: [set: {key: event.key, days: event.days}, exec:";

#[test]
fn who_asks_for_it_is_told_of_keys_that_end_soon_once() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    let book = Book::of(&node)?;
    apply(&node, &book.fill(&RULES.replace("do: [exec:", SET))?)?;
    for (name, days) in [("week", "5"), ("month", "20"), ("years", "800")] {
        let (key, certificate) = (node.scratch().join("key.pem"), node.scratch().join("cert.pem"));
        let mut openssl = Command::new("openssl");
        openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]);
        openssl.args(["-nodes", "-subj", "/CN=localhost", "-days", days]);
        run(openssl.arg("-keyout").arg(&key).arg("-out").arg(&certificate))?;
        let both = [std::fs::read(&certificate)?, std::fs::read(&key)?].concat();
        std::fs::write(&certificate, both)?;
        node.cli(&["key", "import", name, text(&certificate)?])?;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let soon = Timestamp::from_seconds(i64::try_from(now)? + 43_200);
    let line = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJzE6Dnp0ZQm3zrrzYPTKR2yKqGmV9CmHhYwbZxOkTGs";
    apply(
        &node,
        &format!("key: {{name: ca, type: ssh-user-ca, public: '{line}', not_after: '{soon}'}}"),
    )?;
    node.start()?;
    let wanted = ["ca 1", "month 30", "week 7"];
    let mut runs = node.until("three runs", || {
        let runs = book.runs();
        Ok((runs.len() >= wanted.len()).then_some(runs))
    })?;
    runs.sort_unstable();
    ensure!(runs == wanted, "{runs:?}");
    // A start looks again, and tells nothing twice.
    node.stop()?;
    node.start()?;
    apply(&node, "policy: {name: later}")?;
    node.until("the log to go on", || {
        let told = node.events("config.changed")?;
        Ok(told.iter().any(|event| event["name"] == "later").then_some(()))
    })?;
    let told = [node.events("key.expiring")?, node.events("certificate.expiring")?].concat();
    ensure!(told.len() == wanted.len() && book.runs().len() == wanted.len(), "{told:?}");
    node.stop()
}
