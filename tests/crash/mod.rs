//! The program is killed at each numbered step of an upload and of a delivery, and at random
//! moments, and the power of its disk fails: no acknowledged file is lost, none is partial, none is
//! delivered twice.

mod ledger;

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use self::ledger::{CLIENTS, Client, Ledger};

/// Steps of an upload (ARCHITECTURE.md, "One upload") and of a delivery.
const STEPS: &[&str] = &[
    "upload.staged",
    "upload.synced",
    "upload.intent",
    "upload.published",
    "upload.recorded",
    "delivery.staged",
    "delivery.synced",
    "delivery.published",
    "delivery.recorded",
    "job.advanced",
];

/// A node is made anew after so many cycles: each looks at all that was acknowledged.
const CYCLES_OF_A_NODE: u64 = 20;

/// Kills or power cuts at random moments; `ENTREPOT_CRASH_CYCLES` asks for more than `few`.
fn cycles(few: u64) -> u64 {
    std::env::var("ENTREPOT_CRASH_CYCLES").ok().and_then(|text| text.parse().ok()).unwrap_or(few)
}

/// A number below `bound` that nobody can foresee.
fn random(bound: u64) -> u64 {
    RandomState::new().hash_one(0).checked_rem(bound).unwrap_or_default()
}

/// Who uploads in this cycle.
fn client_of(cycle: usize) -> Client {
    CLIENTS.get(cycle % CLIENTS.len()).copied().unwrap_or(Client::Sftp)
}

fn names(what: &str, count: usize) -> Vec<String> {
    (0..count).map(|at| format!("{what}-{at}")).collect()
}

#[test]
fn crash_at_each_numbered_step() -> Result<()> {
    let mut ledger = Ledger::new()?;
    for (round, step) in STEPS.iter().enumerate() {
        let client = client_of(round);
        ledger.node.set("ENTREPOT_CRASH_AT", &format!("{step}:3"));
        ledger.node.start()?;
        ledger.upload(client, &names(&format!("step{round}"), 6), |_, _| Ok(()))?;
        let status =
            ledger.node.wait().with_context(|| format!("step {step} was never reached"))?;
        ensure!(!status.success(), "the server did not crash at {step}");
        ledger.node.unset();
        ledger.node.start()?;
        ledger.check().with_context(|| format!("after a crash at {step}, {client:?}"))?;
        ledger.node.stop()?;
    }
    ensure!(ledger.acknowledged() >= STEPS.len(), "too little was acknowledged to mean much");
    Ok(())
}

/// How long a client needs for an upload of all these files, by one that nobody disturbs.
fn duration_of(ledger: &mut Ledger, client: Client, files: &[String]) -> Result<Duration> {
    ledger.node.start_unless_it_runs()?;
    let began = Instant::now();
    let before = ledger.acknowledged();
    ledger.upload(client, files, |_, _| Ok(()))?;
    let took = began.elapsed();
    ensure!(ledger.acknowledged() - before == files.len(), "{client:?} cannot upload");
    ledger.node.kill()?;
    Ok(took)
}

/// A moment while files are uploaded or, behind that, delivered.
fn moment(took: Duration) -> Duration {
    let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
    Duration::from_micros(random(micros.saturating_mul(3) / 2))
}

#[test]
fn crash_at_random_moments() -> Result<()> {
    let mut ledger = Ledger::new()?;
    let (mut acknowledged, mut took) = (0, Vec::new());
    for cycle in 0..cycles(12) {
        let client = client_of(usize::try_from(cycle)?);
        if cycle > 0 && cycle % CYCLES_OF_A_NODE == 0 {
            acknowledged += ledger.acknowledged();
            println!("{cycle} kills, {acknowledged} acknowledged files, none lost");
            ledger = Ledger::new()?;
        }
        let at = usize::try_from(cycle)? % CLIENTS.len();
        if took.len() == at {
            took.push(duration_of(&mut ledger, client, &names(&format!("first{at}"), 40))?);
        }
        let moment = moment(took.get(at).copied().unwrap_or_default());
        // What the cycle before has recovered goes on, until it is killed in its turn.
        ledger.node.start_unless_it_runs()?;
        let files = names(&format!("cycle{cycle}"), 40);
        ledger.upload(client, &files, |node, _| node.kill_after(moment))?;
        ledger.node.start()?;
        ledger.check().with_context(|| format!("cycle {cycle}, {client:?}, {moment:?}"))?;
    }
    acknowledged += ledger.acknowledged();
    println!("{} kills, {acknowledged} acknowledged files, none lost", cycles(12));
    Ok(())
}

/// Uploads files until the power of the node's disk fails, then goes on with what survived.
fn cut(ledger: &mut Ledger, client: Client, files: &[String], moment: Duration) -> Result<()> {
    let seed = random(u64::MAX);
    let told = || format!("{client:?}, {moment:?}, seed {seed}");
    ledger.node.start()?;
    ledger.upload(client, files, |node, disk| {
        node.work_for(moment);
        disk.context("a disk")?.power_off();
        node.kill()
    })?;
    ledger.power_on(seed)?;
    ledger.node.start().with_context(told)?;
    ledger.check().with_context(told)?;
    ledger.node.kill()
}

/// The whole program, with SQLite, journal, files and two places it delivers to on a disk that
/// loses what was not synced.
#[test]
fn power_cuts_at_random_moments() -> Result<()> {
    let test = "power cuts of the whole program";
    let Some(mut ledger) = Ledger::on_a_disk_that_forgets(test)? else { return Ok(()) };
    let (mut acknowledged, mut took) = (0, Vec::new());
    for cycle in 0..cycles(6) {
        let client = client_of(usize::try_from(cycle)?);
        if cycle > 0 && cycle % CYCLES_OF_A_NODE == 0 {
            acknowledged += ledger.acknowledged();
            println!("{cycle} power cuts, {acknowledged} acknowledged files, none lost");
            drop(ledger);
            let Some(another) = Ledger::on_a_disk_that_forgets(test)? else { return Ok(()) };
            ledger = another;
        }
        let at = usize::try_from(cycle)? % CLIENTS.len();
        if took.len() == at {
            took.push(duration_of(&mut ledger, client, &names(&format!("first{at}"), 20))?);
        }
        let moment = moment(took.get(at).copied().unwrap_or_default());
        cut(&mut ledger, client, &names(&format!("cut{cycle}"), 20), moment)
            .with_context(|| format!("cut {cycle}"))?;
    }
    acknowledged += ledger.acknowledged();
    println!("{} power cuts, {acknowledged} acknowledged files, none lost", cycles(6));
    Ok(())
}

/// The test before this one would notice a program that syncs nothing.
#[test]
fn a_disk_that_lies_about_its_syncs_is_noticed() -> Result<()> {
    let test = "a disk that lies";
    let Some(mut ledger) = Ledger::on_a_disk_that_forgets(test)? else { return Ok(()) };
    let files = names("whole", 20);
    let took = duration_of(&mut ledger, Client::Sftp, &files)?;
    ledger.lie()?;
    for round in 0..5 {
        let survived = cut(&mut ledger, Client::Sftp, &names(&format!("lost{round}"), 20), took);
        if let Err(error) = survived {
            println!("noticed: {error:#}");
            return Ok(());
        }
    }
    anyhow::bail!("five power cuts of a disk that syncs nothing, and nothing was noticed")
}
