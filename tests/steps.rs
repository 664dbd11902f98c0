//! Steps of rules in the real program, each from an upload by a real client to what it leaves.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use entrepot_testkit::clients::{Login, local_file, text};
use entrepot_testkit::server::{Node, feed, run};

use crate::book::Book;
use crate::hooks::{apply, script};
use crate::program;

/// A node with an account and the endpoint `erp`, before it has rules and runs.
struct Steps {
    node: Node,
    login: Login,
    erp: PathBuf,
}

impl Steps {
    fn new() -> Result<Steps> {
        let node = Node::new(program(), None)?;
        let login = Login::create(&node, "acme")?;
        let erp = node.scratch().join("erp");
        std::fs::create_dir(&erp)?;
        apply(&node, &crate::routes::directory("erp", &erp)?)?;
        Ok(Steps { node, login, erp })
    }

    fn put(&self, path: &str, content: &[u8]) -> Result<()> {
        let local = local_file(&self.node, "upload", content)?;
        let folder = path.rsplit_once('/').map(|(folder, _)| folder).unwrap_or_default();
        let mkdir = if folder.is_empty() { String::new() } else { format!("-mkdir {folder}\n") };
        self.login.sftp_batch(&self.node, &format!("{mkdir}put {} {path}\n", text(&local)?))?;
        Ok(())
    }

    /// What has been delivered under this name.
    fn delivered(&self, name: &str) -> Result<Vec<u8>> {
        let path = self.erp.join(name);
        self.node.until(&format!("the delivery of {name}"), || {
            Ok(path.exists().then(|| std::fs::read(&path)).transpose()?)
        })
    }
}

fn iconv(from: &str, to: &str, content: &str) -> Result<Vec<u8>> {
    Ok(feed(Command::new("iconv").args(["-f", from, "-t", to]), content)?.stdout)
}

#[test]
fn records_of_a_mainframe_become_lines_and_parts_and_the_whole_file_again() -> Result<()> {
    let mut steps = Steps::new()?;
    apply(
        &steps.node,
        "rule:
  name: lines
  when: {event: file.uploaded}
  if: file.path.startsWith('/zos/')
  do:
    - transcode: {from: ibm1047, from_records: {fixed: 30}, name: '{stem}.txt'}
    - deliver: {endpoint: erp}
---
rule:
  name: records
  when: {event: file.uploaded}
  if: file.path.startsWith('/text/')
  do:
    - transcode: {from: utf-8, to: ibm1047, to_records: {fixed: 30}, name: '{stem}.rec'}
    - deliver: {endpoint: erp}
---
rule:
  name: cut
  when: {event: file.uploaded}
  if: file.path.startsWith('/cut/')
  do:
    - mkdir: {path: /parts}
    - name: cut
      split: {records: 2, of: {fixed: 30}, to: '/parts/{stem}.{part:04}'}
    - join: {from: '/parts/{stem}.{part:04}', count: steps.cut.files, name: '{stem}.joined'}
    - deliver: {endpoint: erp}
    - copy: {to: '/parts/{steps.cut.files}.count'}
",
    )?;
    steps.node.start()?;
    let lines = "HDR 20261127\nGrüße an alle [x]\n\nTRL 000000003 und noch 5 mehr";
    steps.put("text/a.txt", lines.as_bytes())?;
    let records = steps.delivered("a.rec")?;
    let padded: String = lines.lines().map(|line| format!("{line:<30}")).collect();
    ensure!(records == iconv("UTF-8", "IBM1047", &padded)?, "{records:?}");
    steps.put("zos/b.bin", &records)?;
    let text = String::from_utf8(steps.delivered("b.txt")?)?;
    ensure!(text == format!("{lines}\n"), "{text}");
    steps.put("cut/c.bin", &records)?;
    ensure!(steps.delivered("c.joined")? == records, "the whole differs from its parts");
    // The copy comes behind the delivery.
    steps.node.until("the parts and their count", || {
        let listed = steps.login.sftp_batch(&steps.node, "ls -1 parts\n")?;
        let listed = String::from_utf8_lossy(&listed.stdout);
        let wanted = ["c.0001", "c.0002", "2.count"];
        Ok(wanted.iter().all(|name| listed.contains(name)).then_some(()))
    })?;
    // A record is missing.
    steps.put("zos/d.bin", &records[..100])?;
    let failed = steps.node.until("the job to fail", || {
        Ok(steps.node.json(&["job", "list", "--state", "failed"])?.get(0).cloned())
    })?;
    let error = failed["error"].as_str().context("an error")?;
    ensure!(error.contains("EP0870") && error.contains("within record 4"), "{error}");
    ensure!(!steps.erp.join("d.txt").exists(), "half a file was delivered");
    steps.node.stop()
}

#[test]
fn what_a_program_writes_is_delivered_and_a_calendar_says_on_which_days() -> Result<()> {
    let mut steps = Steps::new()?;
    let upper = script(steps.node.scratch(), "upper", "#!/bin/sh\nexec tr a-z A-Z\n")?;
    let allow = text(&upper)?.to_owned();
    steps.node.configure(&format!("\n[exec]\nallow = ['{allow}']\n"))?;
    // Today counts in one calendar and is left out of the other, whatever day it is, and also if
    // this runs over midnight.
    let day = |more: &str| -> Result<String> {
        let arguments = ["-u", "-d", more, "+%Y-%m-%d"];
        Ok(String::from_utf8(run(Command::new("date").args(arguments))?.stdout)?.trim().to_owned())
    };
    let (today, tomorrow) = (day("now")?, day("tomorrow")?);
    apply(
        &steps.node,
        &format!(
            "policy: {{name: open, calendar: {{also: [{today}, {tomorrow}]}}}}
---
policy: {{name: closed, calendar: {{except: [{today}, {tomorrow}]}}}}
---
rule:
  name: upper
  when: {{event: file.uploaded}}
  if: inCalendar(timestamp(event.at), 'open') && !inCalendar(timestamp(event.at), 'closed')
  do:
    - exec: {{argv: ['{allow}'], stdin: file, stdout: file, name: '{{stem}}.upper'}}
    - deliver: {{endpoint: erp}}
---
rule:
  name: never
  when: {{event: file.uploaded}}
  if: inCalendar(timestamp(event.at), 'closed')
  do:
    - deliver: {{endpoint: erp, path: 'never/{{name}}'}}
"
        ),
    )?;
    steps.node.start()?;
    steps.put("a.txt", b"some text\n")?;
    ensure!(steps.delivered("a.upper")? == b"SOME TEXT\n");
    let shown = steps.node.json(&["job", "list"])?;
    ensure!(shown.as_array().map(Vec::len) == Some(1), "{shown}");
    steps.node.stop()
}

#[test]
fn a_job_waits_for_the_receipt_of_its_file_though_the_node_dies() -> Result<()> {
    let mut steps = Steps::new()?;
    apply(
        &steps.node,
        "rule:
  name: with-receipt
  when: {event: file.uploaded}
  if: file.path.startsWith('/out/')
  do:
    - deliver: {endpoint: erp}
    - set: {receipt: \"'/receipts/' + file.name + '.ok'\"}
    - name: receipt
      wait: {event: {kind: file.uploaded, if: event.path == vars.receipt}, within: 4h}
    - deliver: {endpoint: erp, path: 'done/{name}'}
",
    )?;
    steps.node.start()?;
    steps.put("out/a.xml", b"a")?;
    steps.put("out/b.xml", b"b")?;
    steps.delivered("a.xml")?;
    steps.delivered("b.xml")?;
    steps.node.kill()?;
    steps.node.start()?;
    steps.put("receipts/b.xml.ok", b"")?;
    ensure!(steps.delivered("done/b.xml")? == b"b");
    ensure!(!steps.erp.join("done/a.xml").exists(), "it went on with the receipt of another");
    steps.put("receipts/a.xml.ok", b"")?;
    ensure!(steps.delivered("done/a.xml")? == b"a");
    steps.node.until("all deliveries to be told of", || {
        Ok((steps.node.events("file.delivered")?.len() == 4).then_some(()))
    })?;
    steps.node.stop()
}

/// Each program ends when three of them run.
const MEET: &str = "#!/bin/sh
touch \"$1/$2\"
for _ in $(seq 1200); do
  [ $(ls \"$1\" | grep -c at-) -ge 3 ] && exec \"$3\" \"$1\" \"$2\" met
  sleep 0.05
done
exit 9
";

#[test]
fn turns_of_an_each_run_at_the_same_time() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    let login = Login::create(&node, "acme")?;
    let book = Book::of(&node)?;
    let meet = script(node.scratch(), "meet", MEET)?;
    let file = node.home().join("entrepot.toml");
    let process = std::fs::read_to_string(&file)?;
    let both = format!("allow = ['{}', '", text(&meet)?);
    std::fs::write(&file, process.replace("allow = ['", &both))?;
    let rule = "rule:
  name: meeting
  when: {event: file.uploaded}
  do:
    - each:
        in: \"['at-1', 'at-2', 'at-3']\"
        at_once: 3
        do: [exec: {argv: [MEET, BOOK, '{item}', ENTER]}]
    - exec: {argv: [ENTER, BOOK, all, through]}
";
    apply(&node, &book.fill(&rule.replace("MEET", text(&meet)?))?)?;
    node.start()?;
    let local = local_file(&node, "upload", b"x")?;
    login.sftp_batch(&node, &format!("put {} x\n", text(&local)?))?;
    node.until("the last step", || {
        let runs = book.runs();
        Ok(runs.last().is_some_and(|run| run == "all through").then_some(()))
    })?;
    let mut runs = book.runs();
    runs.sort();
    ensure!(runs == ["all through", "at-1 met", "at-2 met", "at-3 met"], "{runs:?}");
    node.stop()
}
