//! How fast events are projected: `project_speed [URL [EVENTS]]`, by default a new SQLite file.
//! Prints events a second and the CPU time of this process for each event.

use std::error::Error;

use entrepot_db::{Db, DbOptions, Projection};
use entrepot_nouns::event::FileFact;
use entrepot_nouns::{Digests, Env, Event, Fact, Name, Protocol, SessionId, SiteId};

/// Events of one transaction.
const BATCH: usize = 500;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let mut arguments = std::env::args().skip(1);
    let fresh = format!("sqlite://{}/speed.db", folder.path().display());
    let url = arguments.next().unwrap_or(fresh);
    let count: usize = arguments.next().map_or(Ok(200_000), |text| text.parse())?;
    let env = Env::real();
    let db = Db::open(&url, DbOptions::default()).await?;
    let node: Name = "n1".parse()?;
    let events = events(&env, &node, count)?;
    let (cpu, elapsed) = (cpu_micros()?, env.elapsed());
    let (id, mut after) = (env.new_id(), 0);
    for events in events.chunks(BATCH) {
        let piece = Projection { after, ..Projection::of(id, &node, events) };
        db.project(&piece).await?;
        after = piece.up_to;
    }
    let seconds = (env.elapsed() - elapsed).as_secs_f64();
    println!(
        "{}: {count} events, {:.0} a second, {:.1} us CPU of this process each",
        db.dialect(),
        count as f64 / seconds,
        (cpu_micros()? - cpu) / count as f64,
    );
    Ok(())
}

/// Uploads of 100 sessions of 20 accounts, each event a new transfer.
fn events(
    env: &Env,
    node: &Name,
    count: usize,
) -> Result<Vec<(u64, Event)>, entrepot_nouns::name::NameError> {
    let sessions: Vec<SessionId> = (0..100).map(|_| env.new_id()).collect();
    let mut events = Vec::with_capacity(count);
    for (sequence, n) in (1u64..).zip(0..count) {
        let file = FileFact {
            transfer: env.new_id(),
            path: format!("/incoming/2026/11/21/invoice-{n}.xml"),
            size: 4096,
            digests: Digests { blake3: Some([7; 32]), sha256: None },
            protocol: Protocol::Sftp,
            started_at: env.now(),
            identity: None,
            displaced: None,
            temporary: false,
            as2: None,
        };
        let event = Event {
            id: env.new_id(),
            at: env.now(),
            clock: None,
            site: SiteId::MAIN,
            node: node.clone(),
            account: Some(format!("partner-{}", n % 20).parse()?),
            session: sessions.get(n % sessions.len()).copied(),
            job: None,
            cause: None,
            depth: 0,
            fact: Fact::FileUploaded { file },
        };
        events.push((sequence, event));
    }
    Ok(events)
}

/// User and system time of this process so far, microseconds (proc(5), fields 14 and 15 of stat;
/// 100 ticks a second on every Linux).
fn cpu_micros() -> Result<f64, Box<dyn Error>> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let (_, fields) = stat.rsplit_once(')').ok_or("/proc/self/stat has another form")?;
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks: Result<Vec<f64>, _> = ticks.map(str::parse).collect();
    Ok(ticks?.iter().sum::<f64>() * 10_000.0)
}
