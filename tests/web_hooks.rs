//! Web hooks that start rules, in the real program: who is believed, what is refused, and that
//! nothing which was answered 202 is lost.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use entrepot_testkit::clients::text;
use entrepot_testkit::server::{Node, run};
use serde_json::Value;

use crate::book::Book;
use crate::hooks::apply;
use crate::program;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

const DOCUMENTS: &str = "key: {name: shop, type: web-hook, private: SECRET}
---
rule:
  name: orders
  when: {hook: {keys: [shop], headers: [X-Topic], limit_bytes: 2000}}
  if: hook.body.type == 'order' && hook.headers['x-topic'] != 'tests'
  do:
    - exec: {argv: [ENTER, BOOK, '{hook.body.id}', '{hook.headers.x-topic}']}
---
rule:
  name: batch
  when: {hook: {keys: [shop]}}
  do:
    - each:
        in: hook.body.orders
        do: [exec: {argv: [ENTER, BOOK, '{item.id}', '{index}']}]
---
rule:
  name: large
  when: {hook: {keys: [shop], limit_bytes: 524288}}
  do:
    - exec: {argv: [ENTER, BOOK, '{hook.body.id}', large]}
";

/// Signs as the specification says, with nothing of ours: prints the fields of a request.
const SIGN: &str = "import base64, hashlib, hmac, sys, time
secret, id, late, body = sys.argv[1], sys.argv[2], int(sys.argv[3]), open(sys.argv[4], 'rb').read()
at = str(int(time.time()) - late)
key = base64.b64decode(secret.removeprefix('whsec_'))
signed = hmac.new(key, f'{id}.{at}.'.encode() + body, hashlib.sha256).digest()
print(f'webhook-id: {id}')
print(f'webhook-timestamp: {at}')
print('webhook-signature: v1,' + base64.b64encode(signed).decode())
";

/// A node whose rule `orders` notes the id and topic of each order.
struct Shop {
    node: Node,
    book: Book,
}

struct Answer {
    status: u16,
    body: Value,
}

impl Shop {
    fn start() -> Result<Shop> {
        let mut node = Node::new(program(), None)?;
        let book = Book::of(&node)?;
        apply(&node, &book.fill(DOCUMENTS)?.replace("SECRET", SECRET))?;
        let shown = node.cli(&["export"])? + &node.cli(&["key", "show", "shop"])?;
        ensure!(!shown.contains(SECRET), "the key is shown");
        node.cli(&["listener", "create", "https", "protocol=https", "address=127.0.0.1:0"])?;
        node.start()?;
        Ok(Shop { node, book })
    }

    /// Posts a message to the rule `orders` that was signed so many seconds ago.
    fn post(&self, secret: &str, id: &str, late: i64, body: &str) -> Result<Answer> {
        let fields = self.signed(secret, id, late, body)?;
        self.send("orders", fields.lines().chain(["X-Topic: goods"]))
    }

    /// Writes the file `body`; the fields that sign it.
    fn signed(&self, secret: &str, id: &str, late: i64, body: &str) -> Result<String> {
        let file = self.node.scratch().join("body");
        std::fs::write(&file, body)?;
        let mut sign = Command::new("python3");
        sign.args(["-c", SIGN, secret, id, &late.to_string(), text(&file)?]);
        Ok(String::from_utf8(run(&mut sign)?.stdout)?)
    }

    /// Posts what lies in the file `body` to a rule.
    fn send<'a>(&self, rule: &str, fields: impl Iterator<Item = &'a str>) -> Result<Answer> {
        let address = format!("https://127.0.0.1:{}/hooks/{rule}", self.node.port_of("https")?);
        let body = format!("@{}", text(&self.node.scratch().join("body"))?);
        let mut curl = Command::new("curl");
        curl.args(["-sSk", "--max-time", "60", "-w", "\n%{http_code}", "--data-binary", &body]);
        for field in fields.chain(["Content-Type: application/json"]) {
            curl.args(["-H", field]);
        }
        let output = String::from_utf8(run(curl.arg(&address))?.stdout)?;
        let (body, status) = output.rsplit_once('\n').context("a status")?;
        Ok(Answer { status: status.parse()?, body: serde_json::from_str(body)? })
    }
}

fn order(id: u32) -> String {
    format!(r#"{{"type": "order", "id": {id}}}"#)
}

#[test]
fn a_web_hook_starts_a_rule_once_and_only_if_its_sender_is_known() -> Result<()> {
    let mut shop = Shop::start()?;
    let first = shop.post(SECRET, "msg_1", 0, &order(1))?;
    ensure!(first.status == 202, "{}", first.body);
    let again = shop.post(SECRET, "msg_1", 0, &order(1))?;
    assert_eq!((again.status, &again.body["event"]), (202, &first.body["event"]));
    let other = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
    let deep = format!("{}{}", "[".repeat(40), "]".repeat(40));
    let mut unproven = BTreeSet::new();
    for (secret, late, body, status, code) in [
        (other, 0, order(2), 401, "EP0845"),
        (SECRET, 400, order(2), 401, "EP0845"),
        (SECRET, -400, order(2), 401, "EP0845"),
        (SECRET, 0, format!("[\"{}\"]", "x".repeat(2000)), 413, "EP0847"),
        (SECRET, 0, deep, 400, "EP0848"),
        (SECRET, 0, "{".to_owned(), 400, "EP0848"),
    ] {
        let answer = shop.post(secret, "msg_2", late, &body)?;
        assert_eq!((answer.status, &answer.body["code"]), (status, &code.into()));
        if status == 401 {
            unproven.insert(answer.body["detail"].to_string());
        }
    }
    std::fs::write(shop.node.scratch().join("body"), order(2))?;
    let absent = shop.send("orders", std::iter::empty())?;
    assert_eq!(absent.status, 401);
    unproven.insert(absent.body["detail"].to_string());
    assert_eq!(unproven.len(), 1, "refusals tell senders apart: {unproven:?}");
    let ignored = shop.post(SECRET, "msg_3", 0, r#"{"type": "ping"}"#)?;
    assert_eq!(ignored.status, 202, "the condition decides later");
    let last = shop.post(SECRET, "msg_4", 0, &order(4))?;
    assert_eq!(last.status, 202);
    shop.node.until("the orders to be noted", || {
        Ok(shop.book.runs().contains(&"4 goods".to_owned()).then_some(()))
    })?;
    assert_eq!(shop.book.runs(), ["1 goods", "4 goods"]);
    assert_eq!(shop.node.events("hook.received")?.len(), 3);
    let event = last.body["event"].as_str().context("an id")?;
    let why = shop.node.cli(&["rule", "explain", event])?;
    ensure!(why.contains("orders") && why.contains("hook.body.type"), "{why}");
    shop.node.stop()
}

#[test]
fn no_web_hook_is_lost_that_was_answered_202() -> Result<()> {
    let mut shop = Shop::start()?;
    let mut taken = BTreeSet::new();
    for round in 0..4 {
        for number in 0..5 {
            let id = round * 10 + number;
            let answer = shop.post(SECRET, &format!("msg_{id}"), 0, &order(id))?;
            ensure!(answer.status == 202, "{}", answer.body);
            taken.insert(answer.body["event"].to_string());
        }
        shop.node.kill()?;
        shop.node.start()?;
        // A sender that did not hear the answer sends it again.
        let last = round * 10 + 4;
        let again = shop.post(SECRET, &format!("msg_{last}"), 0, &order(last))?;
        ensure!(taken.contains(&again.body["event"].to_string()), "{}", again.body);
    }
    shop.node.until("all jobs to end", || {
        Ok((shop.node.events("job.done")?.len() >= taken.len()).then_some(()))
    })?;
    let recorded = shop.node.events("hook.received")?;
    let recorded: BTreeSet<_> = recorded.iter().map(|event| event["id"].to_string()).collect();
    assert_eq!(recorded, taken);
    let noted: BTreeSet<_> = shop.book.runs().into_iter().collect();
    assert_eq!(noted.len(), 20, "{noted:?}");
    shop.node.stop()
}

#[test]
fn each_order_of_a_message_has_its_turn_though_the_node_dies_among_them() -> Result<()> {
    let mut shop = Shop::start()?;
    let orders: Vec<String> = (0..60).map(|id| format!(r#"{{"id": {id}}}"#)).collect();
    let body = format!(r#"{{"orders": [{}]}}"#, orders.join(", "));
    let fields = shop.signed(SECRET, "batch_1", 0, &body)?;
    let taken = shop.send("batch", fields.lines())?;
    ensure!(taken.status == 202, "{}", taken.body);
    shop.node.until("some turns", || Ok((shop.book.runs().len() >= 5).then_some(())))?;
    shop.node.kill()?;
    let before = shop.book.runs().len();
    ensure!(before < 60, "it was done before the kill");
    shop.node.start()?;
    shop.node.until("the end of the job", || {
        let done = shop.node.events("job.done")?;
        Ok(done.iter().any(|event| event["rule"] == "batch").then_some(()))
    })?;
    let runs = shop.book.runs();
    let wanted: BTreeSet<String> = (0..60).map(|id| format!("{id} {id}")).collect();
    ensure!(runs.iter().cloned().collect::<BTreeSet<_>>() == wanted, "{runs:?}");
    // Only the program that ran when the node died may have run twice.
    ensure!(runs.len() <= 61, "{} runs after {before}", runs.len());
    shop.node.stop()
}

/// An order of exactly so many bytes.
fn order_of(id: u32, bytes: usize) -> String {
    let head = format!(r#"{{"id": {id}, "more": ""#);
    let fill = bytes - head.len() - 2;
    format!(r#"{head}{}"}}"#, "x".repeat(fill))
}

/// To the last byte that it may have, whether its length is said before or not, and not beyond.
#[test]
fn a_message_may_be_as_long_as_its_rule_says_and_no_longer() -> Result<()> {
    const USUAL: usize = 256 << 10;
    const MOST: usize = 512 << 10;
    let mut shop = Shop::start()?;
    let mut id = 0;
    let mut taken = Vec::new();
    for (rule, bytes, status) in [
        ("batch", USUAL, 202),
        ("batch", USUAL + 1, 413),
        ("large", USUAL + 1, 202),
        ("large", MOST, 202),
        ("large", MOST + 1, 413),
        ("large", 1 << 20, 413),
    ] {
        for framing in ["Expect:", "Transfer-Encoding: chunked"] {
            id += 1;
            let body = order_of(id, bytes);
            assert_eq!(body.len(), bytes);
            let fields = shop.signed(SECRET, &format!("msg_{id}"), 0, &body)?;
            let answer = shop.send(rule, fields.lines().chain([framing]))?;
            assert_eq!(answer.status, status, "{rule} {bytes} {framing}: {}", answer.body);
            if status == 202 {
                taken.push((id, bytes, answer.body["event"].clone()));
            } else {
                assert_eq!(answer.body["code"], "EP0847", "{rule} {bytes} {framing}");
            }
        }
    }
    let recorded = shop.node.events("hook.received")?;
    assert_eq!(recorded.len(), taken.len());
    for (id, bytes, event) in taken {
        let of = recorded.iter().find(|it| it["id"] == event).context("its event")?;
        let more = of["body"]["more"].as_str().context("its text")?;
        assert_eq!((&of["body"]["id"], order_of(id, bytes).len()), (&id.into(), bytes));
        ensure!(order_of(id, bytes).contains(more), "message {id} was recorded otherwise");
        ensure!(bytes - more.len() < 40, "message {id} was recorded in part");
    }
    shop.node.until("the large ones to be noted", || {
        let large = shop.book.runs().iter().filter(|run| run.ends_with("large")).count();
        Ok((large == 4).then_some(()))
    })?;
    shop.node.stop()
}
