//! Files that are expected and do not come, in the real program, whose clock the test sets.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use entrepot_nouns::Timestamp;
use entrepot_testkit::clients::{Login, local_file, noise, text};
use entrepot_testkit::server::Node;
use serde_json::Value;

use crate::book::Book;
use crate::clocks::FakeClock;
use crate::hooks::{apply, blocks};
use crate::program;

const RULE: &str = "rule:
  name: pay
  when: {expect: {match: ['PAY*.csv'], from: '06:00', by: '18:00', warn: 30m, accounts: [acme]}}
  do:
    - set: {what: event.kind}
    - exec: {argv: [ENTER, BOOK, '{vars.what}', '{seen} of {count}']}
";

const DAY: i64 = 86_400;
const HOUR: i64 = 3_600;

/// A server with a rule that expects a file each day, and notes what it is told.
struct Expecting {
    node: Node,
    book: Book,
    login: Login,
    clock: FakeClock,
    /// Midnight before the first window, in seconds since 1970.
    midnight: i64,
}

pub(crate) fn now() -> Result<i64> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    Ok(i64::try_from(now.as_secs())?)
}

impl Expecting {
    fn start() -> Result<Expecting> {
        let mut node = Node::new(program(), None)?;
        let login = Login::create(&node, "acme")?;
        let book = Book::of(&node)?;
        let rule = book.fill(RULE)?;
        let clock = FakeClock::of(&mut node)?;
        let midnight = now()?.div_euclid(DAY) * DAY + DAY;
        let mut expecting = Expecting { node, book, login, clock, midnight };
        expecting.clock_shows(0, 5 * HOUR)?;
        expecting.node.start()?;
        apply(&expecting.node, &rule)?;
        Ok(expecting)
    }

    /// Sets the clock to a time of a day.
    fn clock_shows(&self, day: i64, seconds: i64) -> Result<()> {
        self.clock.is_off_by(self.midnight + day * DAY + seconds - now()?)
    }

    fn upload(&self, name: &str) -> Result<()> {
        let local = local_file(&self.node, name, &noise(1, 1_000))?;
        self.login.sftp_batch(&self.node, &format!("put {} {name}\n", text(&local)?)).map(drop)
    }

    /// Waits until there are so many events of a kind.
    fn told(&self, kind: &str, count: usize) -> Result<Vec<Value>> {
        let found = self.node.until(&format!("{count} {kind}"), || {
            let found = self.node.events(kind)?;
            Ok((found.len() >= count).then_some(found))
        })?;
        ensure!(found.len() == count, "{kind}: {found:?}");
        Ok(found)
    }
}

#[test]
fn a_file_that_does_not_come_is_told_and_so_is_that_it_comes_late() -> Result<()> {
    let mut expecting = Expecting::start()?;
    expecting.clock_shows(0, 17 * HOUR + 1_800)?;
    expecting.told("expected.soon", 1)?;
    // A program that a kill ends runs again.
    expecting.told("job.done", 1)?;
    // At the deadline the server is down.
    expecting.node.kill()?;
    expecting.clock_shows(0, 20 * HOUR)?;
    expecting.node.start()?;
    let missed = expecting.told("expected.missed", 1)?;
    let deadline = missed[0]["deadline"].as_str().context("no deadline")?;
    ensure!(deadline.ends_with("T18:00:00.000000Z"), "{missed:?}");
    ensure!(missed[0]["seen"] == 0 && missed[0]["count"] == 1, "{missed:?}");
    expecting.upload("other.csv")?;
    expecting.upload("PAY1.csv")?;
    expecting.told("expected.late", 1)?;
    // The lease of a job that runs is over where the clock goes on by hours, and its program runs
    // again.
    expecting.told("job.done", 3)?;
    // The next day it comes in time, and one more with it; on the third none comes.
    expecting.clock_shows(1, 8 * HOUR)?;
    expecting.upload("PAY2.csv")?;
    expecting.upload("PAY3.csv")?;
    expecting.told("expected.extra", 1)?;
    expecting.told("job.done", 4)?;
    expecting.clock_shows(2, 18 * HOUR)?;
    let missed = expecting.told("expected.missed", 2)?;
    let days = missed.iter().filter_map(|event| event["begins"].as_str()).map(|at| &at[..10]);
    let days: Vec<&str> = days.collect();
    let soon = expecting.node.events("expected.soon")?;
    ensure!(days[0] < days[1] && soon.len() == 1, "{days:?} {soon:?}");
    let mut runs = expecting.node.until("five runs", || {
        let runs = expecting.book.runs();
        Ok((runs.len() >= 5).then_some(runs))
    })?;
    runs.sort_unstable();
    let wanted = [
        "expected.extra 2 of 1",
        "expected.late 1 of 1",
        "expected.missed 0 of 1",
        "expected.missed 0 of 1",
        "expected.soon 0 of 1",
    ];
    ensure!(runs == wanted, "{runs:?}");
    expecting.node.stop()
}

#[test]
fn the_rules_of_the_pages_are_taken_and_wait_for_their_first_window() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    Login::create(&node, "acme")?;
    node.start()?;
    let target = "{mail: {host: mail.example.com, from: files@example.com}}";
    let page = include_str!("../docs/howto/notice-a-missing-file.md");
    let rule = blocks(page, "yaml").concat();
    apply(&node, &format!("endpoint: {{name: post, target: {target}}}\n---\n{rule}"))?;
    let days = include_str!("../docs/howto/keep-to-working-days.md");
    apply(&node, &blocks(days, "yaml").join("---\n"))?;
    let told = node.cli(&["event", "list", "--kind", "expected.missed"])?;
    ensure!(!told.contains("payments-missing"), "{told}");
    let run = node.cli(&["rule", "dry-run", "payments-missing"])?;
    ensure!(run.contains("expected.missed"), "{run}");
    node.stop()
}

#[test]
fn the_holidays_of_a_file_are_days_on_which_nothing_is_missed() -> Result<()> {
    let mut expecting = Expecting::start()?;
    let node = &expecting.node;
    let holiday = Timestamp(expecting.midnight * 1_000_000).to_string()[..10].to_owned();
    let file = node.scratch().join("holidays.ics");
    let event = |fields: &str| format!("BEGIN:VEVENT\r\n{fields}\r\nEND:VEVENT\r\n");
    let events = [
        event(&format!("SUMMARY:Day off\r\nDTSTART;VALUE=DATE:{}", holiday.replace('-', ""))),
        event("SUMMARY:Party\r\nDTSTART:20260403T170000Z"),
        event("SUMMARY:New year\r\nDTSTART;VALUE=DATE:20200101\r\nRRULE:FREQ=YEARLY"),
    ];
    let events = events.concat();
    std::fs::write(&file, format!("BEGIN:VCALENDAR\r\n{events}END:VCALENDAR\r\n"))?;
    let import = ["import", "calendar", text(&file)?, "--policy", "bank"];
    let dry = node.cli(&[&import[..], &["--dry-run"]].concat())?;
    ensure!(dry.contains("would get 2 days off") && dry.contains("Party"), "{dry}");
    ensure!(node.cli(&["policy", "show", "bank"]).is_err(), "a dry run made it");
    node.cli(&import)?;
    let policy = node.json(&["policy", "show", "bank"])?;
    let except = policy.pointer("/noun/policy/calendar/except").context("no calendar")?;
    ensure!(*except == serde_json::json!(["01-01", holiday]), "{policy}");
    let again = node.cli(&import)?;
    ensure!(again.contains("has them all"), "{again}");
    let rule = expecting.book.fill(&RULE.replace("warn: 30m", "calendar: bank"))?;
    apply(node, &rule)?;
    expecting.clock_shows(0, 20 * HOUR)?;
    expecting.clock_shows(1, 19 * HOUR)?;
    let missed = expecting.told("expected.missed", 1)?;
    let begins = missed[0]["begins"].as_str().context("no begin")?;
    ensure!(begins[..10] > *holiday.as_str(), "{missed:?}");
    let gone = expecting.node.cli(&["policy", "change", "bank", "calendar=null"]);
    ensure!(gone.is_err_and(|error| error.to_string().contains("no calendar")), "it was taken");
    expecting.node.stop()
}

#[test]
fn what_cannot_be_expected_is_refused_with_its_field_and_why() -> Result<()> {
    let mut node = Node::new(program(), None)?;
    node.start()?;
    for (more, words) in [
        ("by: '25:00'", &["25:00"][..]),
        ("by: '18:00', zone: Europe/Berlln", &["zone", "did you mean 'Europe/Berlin'"]),
        ("by: '18:00', warn: 18h", &["when.expect.warn", "less than the window"]),
        ("by: '18:00', days: mon-fry", &["'fry' is no day"]),
        ("by: '18:00', calendar: bank", &["calendar"]),
        ("by: '18:00', accounts: [nobody]", &["when.expect.accounts.0", "nobody"]),
        ("by: '18:00', endpoint: nowhere", &["when.expect.endpoint", "nowhere"]),
    ] {
        let steps = "do: [{exec: {argv: [/bin/true]}}]";
        let when = format!("{{expect: {{match: ['/in/*'], {more}}}}}");
        let rule = format!("rule:\n  name: bad\n  when: {when}\n  {steps}\n");
        let Err(error) = apply(&node, &rule) else { anyhow::bail!("{more} was taken") };
        let error = error.to_string();
        for word in words {
            ensure!(error.contains(word), "{more}: {error}");
        }
    }
    node.stop()
}
