//! The clock of the machine jumps while the server runs, by libfaketime.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use entrepot_testkit::clients::{Login, local_file, noise, text};
use entrepot_testkit::server::Node;

use crate::program;

/// Where Debian has the library, on any processor.
fn library() -> Result<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib")?.flatten().map(|entry| entry.path());
    let mut found = folders.map(|folder| folder.join("faketime/libfaketimeMT.so.1"));
    found.find(|path| path.exists()).context("install the Debian package libfaketime")
}

/// The clock of a server, which the test sets.
pub(crate) struct FakeClock(PathBuf);

impl FakeClock {
    /// From its next start on the server has this clock, which is right at first.
    pub(crate) fn of(node: &mut Node) -> Result<FakeClock> {
        let clock = node.home().join("data/clock");
        node.set("LD_PRELOAD", text(&library()?)?);
        node.set("FAKETIME_TIMESTAMP_FILE", text(&clock)?);
        node.set("FAKETIME_NO_CACHE", "1");
        node.set("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        let clock = FakeClock(clock);
        clock.is_off_by(0)?;
        Ok(clock)
    }

    /// Sets the server's clock so many seconds off the machine's.
    pub(crate) fn is_off_by(&self, seconds: i64) -> Result<()> {
        // A rename: the server may read at any moment.
        let new = self.0.with_extension("new");
        std::fs::write(&new, format!("{seconds:+}\n"))?;
        std::fs::rename(&new, &self.0).context("set the clock")
    }
}

/// A node whose clock the test sets, with a rule that delivers to `inbox`.
struct Jumping {
    node: Node,
    login: Login,
    inbox: PathBuf,
    clock: FakeClock,
}

impl Jumping {
    fn new() -> Result<Jumping> {
        let mut node = Node::new(program(), None)?;
        let login = Login::create(&node, "acme")?;
        let inbox = node.scratch().join("partner/inbox");
        let documents = format!(
            "endpoint: {{name: inbox, target: {{directory: {{path: {}}}}}}}\n---\n\
             rule:\n  name: to-inbox\n  when: {{event: file.uploaded}}\n  do:\n    \
             - deliver: {{endpoint: inbox}}\n  \
             retry: {{attempts: 20, first_delay_seconds: 1, longest_delay_seconds: 1}}\n",
            text(&inbox)?
        );
        node.cli_with_input(&["apply", "-"], &documents)?;
        let clock = FakeClock::of(&mut node)?;
        Ok(Jumping { node, login, inbox, clock })
    }

    /// Uploads a file of this name, and waits for its delivery.
    fn goes_through(&self, name: &str) -> Result<()> {
        self.upload(name)?;
        self.arrives(name)
    }

    fn upload(&self, name: &str) -> Result<()> {
        let local = local_file(&self.node, name, &noise(1, 50_000))?;
        self.login.sftp_batch(&self.node, &format!("put {} {name}\n", text(&local)?)).map(drop)
    }

    fn arrives(&self, name: &str) -> Result<()> {
        self.node.until(&format!("the delivery of {name}"), || {
            let found = std::fs::read(self.inbox.join(name));
            Ok(found.is_ok_and(|found| found == noise(1, 50_000)).then_some(()))
        })
    }

    /// The times of the server's records of uploads, in the order in which they were recorded.
    fn times(&self) -> Result<Vec<String>> {
        let events = self.node.events("file.uploaded")?;
        let time = |event: &serde_json::Value| Some(event["at"].as_str()?.to_owned());
        events.iter().map(|event| time(event).context("no time")).collect()
    }
}

/// Forward and back by hours: logins, uploads and deliveries go on, each is recorded once and in
/// its order, and the chain of the journal holds.
#[test]
fn a_clock_that_jumps_stops_nothing() -> Result<()> {
    let mut jumping = Jumping::new()?;
    std::fs::create_dir_all(&jumping.inbox)?;
    jumping.node.start()?;
    jumping.goes_through("now")?;
    jumping.clock.is_off_by(2 * 3600)?;
    jumping.goes_through("later")?;
    jumping.clock.is_off_by(-2 * 3600)?;
    jumping.goes_through("earlier")?;
    let times = jumping.times()?;
    ensure!(times.len() == 3, "{times:?}");
    let mut sorted = times.clone();
    sorted.sort();
    ensure!(sorted != times, "the clock did not jump: {times:?}");
    jumping.node.kill()?;
    jumping.node.start()?;
    jumping.goes_through("after-a-restart")?;
    let delivered = jumping.node.until("the records of the deliveries", || {
        let delivered = jumping.node.events("file.delivered")?;
        Ok((delivered.len() >= 4).then_some(delivered))
    })?;
    ensure!(delivered.len() == 4, "{delivered:?}");
    ensure!(jumping.node.cli(&["journal", "verify"])?.contains("intact"));
    jumping.node.stop()
}

/// A job that was to be tried again a second later is tried soon, though the clock was set back by
/// hours meanwhile.
#[test]
fn a_job_that_waits_does_not_wait_for_a_clock_that_was_set_back() -> Result<()> {
    let mut jumping = Jumping::new()?;
    jumping.clock.is_off_by(2 * 3600)?;
    jumping.node.start()?;
    jumping.upload("waits")?;
    jumping.node.until("a try that fails", || {
        let jobs = jumping.node.json(&["job", "list", "--state", "ready"])?;
        Ok((jobs[0]["attempts"].as_u64() > Some(0)).then_some(()))
    })?;
    jumping.clock.is_off_by(0)?;
    std::fs::create_dir_all(&jumping.inbox)?;
    jumping.arrives("waits")?;
    jumping.node.stop()
}
