//! Rules that ask people, in the real program: who may answer, that answers outlive a node, and
//! that the audit says who let a file go.

use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use entrepot_testkit::clients::{Login, local_file, text};
use entrepot_testkit::server::{Node, run};
use serde_json::Value;

use crate::hooks::apply;
use crate::{far, program};

const PASSWORD: &str = "a password of an admin";

const RULES: &str = "endpoint: {name: bank, target: {directory: {path: BANK}}}
---
account: {name: treasury, type: group}
---
rule:
  name: payments
  when: {event: file.uploaded}
  do:
    - approve: {by: [treasury], need: 2, text: 'send {name} to the bank?'}
      name: seen
    - deliver: {endpoint: bank}
---
rule:
  name: purge
  when: {call: {}}
  do: [approve: {by: [treasury], text: 'remove the old files?'}]
---
rule:
  name: both
  when: {call: {}}
  do:
    - parallel:
        do:
          - [{approve: {by: [treasury], text: 'one?'}, name: one}]
          - [{approve: {by: [treasury], text: 'two?'}, name: two}]
---
rule:
  name: hasty
  when: {call: {}}
  do: [approve: {by: [treasury], within: 1s, text: 'now?'}]
";

/// A node whose rules ask the treasury, which is `tina`, `tom` and `tess`.
struct Treasury {
    node: Node,
    partner: Login,
    /// The API token of each.
    tokens: Vec<(&'static str, String)>,
}

impl Treasury {
    fn start() -> Result<Treasury> {
        let mut node = Node::new(program(), None)?;
        let partner = Login::create(&node, "acme")?;
        let bank = node.scratch().join("bank");
        std::fs::create_dir(&bank)?;
        apply(&node, &RULES.replace("BANK", text(&bank)?))?;
        let mut tokens = Vec::new();
        for name in ["tina", "tom", "tess", "boss"] {
            let group = if name == "boss" { "groups=[]" } else { "groups=[\"treasury\"]" };
            // Who approves payments need not be able to do more than see.
            let role = if name == "tess" { "role=operator" } else { "role=viewer" };
            let words = ["account", "create", name, "type=admin", role, group, "--password-stdin"];
            node.cli_with_input(&words, PASSWORD)?;
            let scopes = ["--scope", "admin:read", "--scope", "admin:write"];
            let made = node.json(&[&["token", "create", name][..], &scopes].concat())?;
            tokens.push((name, made["token"].as_str().context("no token")?.to_owned()));
        }
        node.cli(&["listener", "create", "https", "protocol=https", "address=127.0.0.1:0"])?;
        node.start()?;
        Ok(Treasury { node, partner, tokens })
    }

    /// Runs the command line of one of them, far from the node.
    fn says(&self, who: &str, words: &[&str]) -> Result<Output> {
        let token = self.tokens.iter().find(|(name, _)| *name == who).context("no such person")?;
        Ok(far(&self.node)?.env("ENTREPOT_TOKEN", &token.1).args(words).output()?)
    }

    fn is_taken(&self, who: &str, words: &[&str]) -> Result<String> {
        let output = self.says(who, words)?;
        let told = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{who} {words:?}: {told}");
        Ok(String::from_utf8(output.stdout)?)
    }

    fn is_refused(&self, who: &str, words: &[&str], why: &str) -> Result<()> {
        let output = self.says(who, words)?;
        let told = String::from_utf8_lossy(&output.stderr);
        ensure!(!output.status.success() && told.contains(why), "{who} {words:?}: {told}");
        Ok(())
    }

    fn upload(&self, name: &str) -> Result<()> {
        let file = local_file(&self.node, name, name.as_bytes())?;
        let address = format!("https://127.0.0.1:{}/files/{name}", self.node.port_of("https")?);
        let login = format!("{}:{}", self.partner.account, self.partner.password);
        let mut curl = Command::new("curl");
        curl.args(["-sSkf", "--max-time", "60", "-u", &login, "-T", text(&file)?, &address]);
        run(&mut curl)?;
        Ok(())
    }

    /// The job that asks this, once it asks.
    fn asks(&self, what: &str) -> Result<String> {
        self.node.until("a question", || {
            let asked: Value =
                serde_json::from_str(&self.is_taken("tina", &["job", "approvals", "--json"])?)?;
            let found = asked.as_array().into_iter().flatten().find(|row| row["text"] == what);
            Ok(found.and_then(|row| row["job"].as_str()).map(str::to_owned))
        })
    }

    /// The event of this kind that tells of the job, once there is one.
    fn event(&self, kind: &str, job: &str) -> Result<Value> {
        self.node.until(kind, || {
            let events = self.node.events(kind)?;
            Ok(events.into_iter().find(|event| event["job"] == job))
        })
    }

    fn is_at_bank(&self, name: &str) -> bool {
        self.node.scratch().join("bank").join(name).exists()
    }
}

#[test]
fn a_payment_leaves_when_two_people_have_said_yes_though_the_node_dies_between() -> Result<()> {
    let mut treasury = Treasury::start()?;
    treasury.upload("pay-1")?;
    let job = treasury.asks("send pay-1 to the bank?")?;
    treasury.is_refused("boss", &["job", "approve", &job], "'boss' is not asked, but treasury")?;
    treasury.is_taken("tina", &["job", "approve", &job, "--why", "as agreed"])?;
    treasury.node.kill()?;
    treasury.node.start()?;
    treasury.is_refused("tina", &["job", "approve", &job], "'tina' has answered before")?;
    let beside = treasury.node.command(&["job", "approve", &job]).output()?;
    let told = String::from_utf8_lossy(&beside.stderr);
    ensure!(!beside.status.success() && told.contains("EP0834"), "{told}");
    let shown = treasury.is_taken("tom", &["job", "approvals"])?;
    ensure!(shown.contains("1 of 2") && shown.contains(&job), "{shown}");
    ensure!(!treasury.is_at_bank("pay-1"), "one yes was enough");
    treasury.is_taken("tom", &["job", "approve", &job])?;
    treasury.event("job.done", &job)?;
    ensure!(treasury.is_at_bank("pay-1"), "two were not");
    treasury.is_refused("tess", &["job", "refuse", &job, "--why", "late"], "EP0109")?;
    let said = treasury.node.events("job.approved")?;
    let by = |event: &Value| (event["by"].to_string(), event["account"].to_string());
    let by: Vec<_> = said.iter().filter(|event| event["job"] == job.as_str()).map(by).collect();
    ensure!(by.len() == 2 && by[0].0.contains("tina") && by[1].1 == "\"tom\"", "{by:?}");
    let [first] = &said[..1] else { unreachable!("there are two") };
    ensure!(first["why"] == "as agreed" && first["step"] == "seen", "{first}");
    treasury.node.stop()
}

#[test]
fn one_no_and_the_end_of_the_time_fail_a_job_and_nobody_answers_for_himself() -> Result<()> {
    let mut treasury = Treasury::start()?;
    treasury.upload("pay-2")?;
    let job = treasury.asks("send pay-2 to the bank?")?;
    treasury.is_taken("tina", &["job", "approve", &job])?;
    treasury.is_taken("tom", &["job", "refuse", &job, "--why", "the total is wrong"])?;
    let failed = treasury.event("job.failed", &job)?.to_string();
    ensure!(failed.contains("'tom' did not approve: the total is wrong"), "{failed}");
    ensure!(!treasury.is_at_bank("pay-2"), "it was sent all the same");
    // A retry by hand is a new question: nobody's earlier answer counts.
    treasury.node.cli(&["job", "retry", &job])?;
    ensure!(treasury.asks("send pay-2 to the bank?")? == job, "another job asks");
    for who in ["tina", "tess"] {
        treasury.is_taken(who, &["job", "approve", &job])?;
    }
    treasury.event("job.done", &job)?;
    ensure!(treasury.is_at_bank("pay-2"), "two of three are enough");

    treasury.is_taken("tess", &["rule", "run", "purge"])?;
    let job = treasury.asks("remove the old files?")?;
    treasury.is_refused("tess", &["job", "approve", &job], "'tess' caused")?;
    treasury.is_taken("tom", &["job", "approve", &job])?;
    treasury.event("job.done", &job)?;

    treasury.is_taken("tess", &["rule", "run", "hasty"])?;
    let failed = treasury.node.until("the end of the time", || {
        let failed = treasury.node.events("job.failed")?;
        Ok(failed.into_iter().find(|event| event["rule"] == "hasty"))
    })?;
    ensure!(failed.to_string().contains("0 of 1 approvals"), "{failed}");
    treasury.node.stop()
}

#[test]
fn who_may_answer_several_things_that_a_job_asks_says_which() -> Result<()> {
    let mut treasury = Treasury::start()?;
    treasury.is_taken("tess", &["rule", "run", "both"])?;
    let job = treasury.asks("one?")?;
    ensure!(treasury.asks("two?")? == job);
    treasury.is_refused("tina", &["job", "approve", &job], "asks several things")?;
    let shown = treasury.is_taken("tina", &["job", "approvals"])?;
    ensure!(shown.contains("one?") && shown.contains("two?"), "{shown}");
    treasury.is_taken("tina", &["job", "approve", &job, "--step", "two"])?;
    // What is left is the only one.
    treasury.node.until("the other question alone", || {
        let asked: Value =
            serde_json::from_str(&treasury.is_taken("tina", &["job", "approvals", "--json"])?)?;
        let texts: Vec<_> =
            asked.as_array().into_iter().flatten().map(|row| &row["text"]).collect();
        Ok((texts == ["one?"]).then_some(()))
    })?;
    treasury.is_taken("tina", &["job", "approve", &job])?;
    treasury.event("job.done", &job)?;
    treasury.node.stop()
}
