//! The storm: two nodes over one database are killed at random moments, while routes of every step
//! word are started: by files that clients upload, and some by a folder that is watched, by the
//! clock, by web hooks and by files that do not come. Afterwards every effect is counted.
//!
//! `ENTREPOT_STORM_MINUTES` asks for a longer storm than that of every day, `ENTREPOT_STORM_SEED`
//! for the decisions of another one, which says its seed at its beginning.

mod check;
mod found;
mod receiver;
mod routes;
mod site;
mod starts;

use std::hash::{BuildHasher as _, RandomState};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use self::check::Tally;
use self::site::Site;

/// How long the storm of every day lasts.
const SHORT: Duration = Duration::from_secs(25);
/// A longer one goes on with other nodes after so long: the smaller what is looked at, the easier.
const EPISODE: Duration = Duration::from_secs(150);
/// Files that a client uploads in one session.
const FILES: u64 = 4;
/// After this time the other node has noticed that one has died.
const TAKE_OVER_MS: u64 = 8_000;

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// What decides about everything, of one seed.
struct Dice(u64);

impl Dice {
    /// A number below `bound`.
    fn roll(&mut self, bound: u64) -> u64 {
        // xorshift64*, by S. Vigna.
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33).checked_rem(bound).unwrap_or_default()
    }

    fn millis(&mut self, bound: u64) -> Duration {
        Duration::from_millis(self.roll(bound))
    }
}

/// A storm over one installation.
struct Storm {
    site: Site,
    dice: Dice,
    kills: usize,
    /// Folders in the order in which they get files, and how many got one.
    folders: Vec<String>,
    next: usize,
}

impl Storm {
    fn new(seed: u64) -> Result<Storm> {
        let (site, mut dice) = (Site::start()?, Dice(seed | 1));
        let mut folders: Vec<String> = site.folders().into_iter().collect();
        for at in 1..folders.len() {
            folders.swap(at, usize::try_from(dice.roll(at as u64 + 1))?);
        }
        Ok(Storm { site, dice, kills: 0, folders, next: 0 })
    }

    /// The folders of the next files.
    fn some(&mut self, count: u64) -> Vec<String> {
        let from = self.next;
        self.next += usize::try_from(count).unwrap_or_default();
        self.folders.iter().cycle().skip(from).take(self.next - from).cloned().collect()
    }

    /// Clients upload to both nodes, and one or both are killed meanwhile and started again.
    fn round(&mut self) -> Result<()> {
        let mut clients = Vec::new();
        for node in 0..2 {
            let count = 1 + self.dice.roll(FILES);
            let folders = self.some(count);
            clients.push(self.site.upload(node, &folders)?);
            self.site.starts.put()?;
        }
        let posting = [self.site.post(0)?, self.site.post(1)?];
        let victims: &[usize] = match self.dice.roll(7) {
            0..3 => &[0],
            3..6 => &[1],
            _ => &[0, 1],
        };
        // While files are uploaded, or behind that, while jobs run.
        let most = if self.dice.roll(2) == 0 { 500 } else { 2_500 };
        let moment = self.dice.millis(most);
        self.site.nodes[0].work_for(moment);
        for victim in victims {
            self.site.nodes[*victim].kill()?;
            self.kills += 1;
        }
        let away = match self.dice.roll(4) {
            0 => Duration::ZERO,
            1 => self.dice.millis(TAKE_OVER_MS),
            _ => self.dice.millis(1_500),
        };
        self.site.nodes[0].work_for(away);
        for victim in victims {
            self.site.nodes[*victim].start()?;
        }
        for client in clients {
            self.site.uploaded(client)?;
        }
        for message in posting {
            self.site.starts.answered(message)?;
        }
        // A sender that heard no answer may send its message again.
        if self.dice.roll(2) == 0 {
            self.site.starts.post_again(&self.site.nodes[0])?;
        }
        self.site.approve()
    }

    /// Files for the folders that no acknowledged file came to.
    fn complete(&mut self) -> Result<()> {
        let seen = |folder: &String| {
            let begin = format!("/{folder}/");
            self.site.acknowledged.iter().any(|path| path.starts_with(&begin))
        };
        let missing: Vec<String> =
            self.folders.iter().filter(|folder| !seen(folder)).cloned().collect();
        let client = self.site.upload(0, &missing)?;
        self.site.uploaded(client)
    }

    /// Waits until nothing is left to do; as long as something ends, it goes on.
    fn settle(&self) -> Result<()> {
        let node = &self.site.nodes[0];
        let mut last = None;
        loop {
            let now = node.until("a job to go on", || {
                self.site.approve()?;
                let now = self.site.progress()?;
                Ok((now.is_idle() || last.as_ref() != Some(&now)).then_some(now))
            })?;
            if now.is_idle() {
                return Ok(());
            }
            last = Some(now);
        }
    }

    fn whole(&mut self, length: Duration) -> Result<Tally> {
        let began = Instant::now();
        while began.elapsed() < length {
            self.round()?;
        }
        self.complete()?;
        self.site.starts.stop_clock(&self.site.nodes[0])?;
        self.settle()?;
        // What is left of files that jobs made goes at the next start.
        for node in &mut self.site.nodes {
            node.stop()?;
            node.start()?;
        }
        self.settle()?;
        self.site.check()
    }

    /// Keeps what is wrong and what both nodes know, for whoever looks into it.
    fn keep(&self, seed: u64, error: &anyhow::Error) -> Result<PathBuf> {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("storm-{seed}"));
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join("error"), format!("{error:#}\n"))?;
        for (at, node) in (1..).zip(&self.site.nodes) {
            std::fs::write(folder.join(format!("n{at}.log")), node.log())?;
        }
        let jobs = self.site.nodes[0].cli(&["job", "list", "--limit", "10000", "--json"]);
        std::fs::write(folder.join("jobs.json"), jobs.unwrap_or_default())?;
        let events = self.site.nodes[0].cli(&["event", "list", "--limit", "10000", "--json"]);
        std::fs::write(folder.join("events.json"), events.unwrap_or_default())?;
        Ok(folder)
    }
}

#[test]
fn storm_of_kills_over_routes_of_every_step_word() -> Result<()> {
    let first = variable("ENTREPOT_STORM_SEED").unwrap_or_else(|| {
        RandomState::new().hash_one(0).checked_rem(1_000_000_000).unwrap_or_default()
    });
    let whole = variable("ENTREPOT_STORM_MINUTES").map(|it| Duration::from_secs(it * 60));
    let (began, whole) = (Instant::now(), whole.unwrap_or(SHORT));
    let mut seed = first;
    while began.elapsed() < whole {
        println!("the storm of seed {seed} begins");
        let mut storm = Storm::new(seed).with_context(|| format!("the storm of seed {seed}"))?;
        let left = whole.saturating_sub(began.elapsed()).clamp(SHORT, EPISODE);
        let ended = storm.whole(left);
        if let Err(error) = &ended {
            match storm.keep(seed, error) {
                Ok(folder) => println!("logs, jobs and events are in {}", folder.display()),
                Err(failed) => println!("{error:#}; nothing is kept: {failed:#}"),
            }
        }
        let tally = ended.with_context(|| format!("the storm of seed {seed}"))?;
        println!("{} kills, {tally}", storm.kills);
        seed += 1;
    }
    Ok(())
}
