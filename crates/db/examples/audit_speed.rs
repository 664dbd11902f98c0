//! How fast a large audit log is searched, and how long a projection waits while old events are
//! deleted: `audit_speed [URL [EVENTS]]`, by default a new SQLite file with a million events of one
//! year; a table that has events is searched as it is. Prints bytes, the time of one page of each
//! search, and the longest projections.

use std::error::Error;
use std::time::Duration;

use entrepot_db::{Db, DbOptions, EventFilter, EventRange, Projection};
use entrepot_nouns::event::FileFact;
use entrepot_nouns::{
    Digests, Env, Event, Fact, Name, NodeId, Protocol, SessionId, SiteId, Timestamp,
};

/// Events of one transaction while the table is filled.
const BATCH: u64 = 500;
/// Events of one transaction while others are deleted.
const SMALL_BATCH: u64 = 20;
/// Rows that retention deletes at a time, and how often: as the limits of the engine allow.
const DELETED: u32 = 200;
const PAUSE: Duration = Duration::from_millis(40);
const YEAR: Duration = Duration::from_secs(365 * 86_400);

type Done<T = ()> = Result<T, Box<dyn Error>>;

/// What is filled and searched.
struct Log {
    env: Env,
    db: Db,
    node: Name,
    id: NodeId,
    sessions: Vec<SessionId>,
    begin: Timestamp,
    step: Duration,
    last: u64,
}

#[tokio::main]
async fn main() -> Done {
    let folder = tempfile::tempdir()?;
    let mut arguments = std::env::args().skip(1);
    let file = folder.path().join("speed.db");
    let url = arguments.next().unwrap_or_else(|| format!("sqlite://{}", file.display()));
    let count: u64 = arguments.next().map_or(Ok(1_000_000), |text| text.parse())?;
    let env = Env::real();
    let db = Db::open(&url, DbOptions::default()).await?;
    let sessions = (0..1_000).map(|_| env.new_id()).collect();
    let begin = env.now().minus(YEAR);
    let step = YEAR / u32::try_from(count)?;
    let (node, id) = ("n1".parse()?, env.new_id());
    let mut log = Log { env, db, node, id, sessions, begin, step, last: 0 };
    let newest = EventFilter { limit: 1, newest_first: true, ..EventFilter::default() };
    if !log.db.events(SiteId::MAIN, &newest).await?.is_empty() {
        println!("{}: filled before", log.db.dialect());
        return log.searches(count).await;
    }
    let started = log.env.elapsed();
    while log.last < count {
        log.project(BATCH).await?;
    }
    let seconds = (log.env.elapsed() - started).as_secs_f64();
    println!("{}: {count} events, {:.0} a second", log.db.dialect(), count as f64 / seconds);
    if let Ok(meta) = std::fs::metadata(&file) {
        println!("{} bytes an event, indexes included", meta.len() / count);
    }
    log.searches(count).await?;
    log.projections("before", None).await?;
    log.projections("while old events are deleted", Some(count / 2)).await
}

impl Log {
    fn at(&self, number: u64) -> Timestamp {
        self.begin.plus(self.step * u32::try_from(number).unwrap_or(u32::MAX))
    }

    async fn project(&mut self, count: u64) -> Done<Duration> {
        let events: Vec<(u64, Event)> = (self.last + 1..=self.last + count)
            .map(|number| (number, self.event(number)))
            .collect();
        let before = self.env.elapsed();
        let piece = Projection { after: self.last, ..Projection::of(self.id, &self.node, &events) };
        self.db.project(&piece).await?;
        self.last += count;
        Ok(self.env.elapsed() - before)
    }

    /// Of seven events one is a login; one of 100,000 has an account and a kind of its own.
    fn event(&self, number: u64) -> Event {
        let account = if number.is_multiple_of(100_000) { 999 } else { number % 20 };
        let fact = match number % 7 {
            0 => Fact::SessionOpened {
                protocol: Protocol::Sftp,
                address: "192.0.2.17".to_owned(),
                client: "SSH-2.0-OpenSSH_9.9".to_owned(),
                proof: "public-key SHA256:jvNBLbYhQ2eVQAvzk1Q6UQRLyFq5vV0bVPmqOeiUQ8g".to_owned(),
            },
            _ => Fact::FileUploaded {
                file: FileFact {
                    transfer: self.env.new_id(),
                    path: format!("/incoming/2026/11/21/invoice-{number}.xml"),
                    size: 4096,
                    digests: Digests { blake3: Some([7; 32]), sha256: None },
                    protocol: Protocol::Sftp,
                    started_at: self.at(number),
                    identity: None,
                    displaced: None,
                    temporary: false,
                    as2: None,
                },
            },
        };
        let session = usize::try_from(number / 50).unwrap_or(0) % self.sessions.len();
        Event {
            id: self.env.new_id(),
            at: self.at(number),
            clock: None,
            site: SiteId::MAIN,
            node: self.node.clone(),
            account: format!("partner-{account}").parse().ok(),
            session: self.sessions.get(session).copied(),
            job: None,
            cause: None,
            depth: 0,
            fact,
        }
    }

    async fn searches(&self, count: u64) -> Done {
        let page = EventFilter { limit: 100, newest_first: true, ..EventFilter::default() };
        let (since, until) = (Some(self.at(count / 4)), Some(self.at(count / 4 + count / 100)));
        let account = Some("partner-3".parse()?);
        let kinds = vec!["session.opened".to_owned()];
        let rare = vec!["file.removed".to_owned()];
        let searches = [
            ("the newest", page.clone()),
            ("of an account", EventFilter { account: account.clone(), ..page.clone() }),
            ("of a kind", EventFilter { kinds: kinds.clone(), ..page.clone() }),
            ("of four days, nine months ago", EventFilter { since, until, ..page.clone() }),
            (
                "of an account then",
                EventFilter { account: account.clone(), since, until, ..page.clone() },
            ),
            ("of a kind then", EventFilter { kinds, since, until, ..page.clone() }),
            ("before then", EventFilter { until: since, ..page.clone() }),
            (
                "with a text in the path",
                EventFilter { path_contains: Some("invoice-".to_owned()), ..page.clone() },
            ),
            (
                "with a path that is rare, in four days",
                EventFilter {
                    path_contains: Some(format!("invoice-{}.xml", count / 4 + 5)),
                    since,
                    until,
                    ..page.clone()
                },
            ),
            (
                "with a path that is rare, in all",
                EventFilter { path_contains: Some("invoice-5.xml".to_owned()), ..page.clone() },
            ),
            (
                "of an account, of a kind it does not have",
                EventFilter { account: account.clone(), kinds: rare, ..page },
            ),
        ];
        for (what, filter) in searches {
            let before = self.env.elapsed();
            let page = self.db.event_page(SiteId::MAIN, &filter).await?;
            let took = (self.env.elapsed() - before).as_secs_f64() * 1e3;
            let more = if page.next.is_some() { ", and there may be more" } else { "" };
            println!("{took:9.2} ms  {:>3} events {what}{more}", page.rows.len());
        }
        Ok(())
    }

    /// The longest of many small projections, while events up to a record are deleted, or without.
    async fn projections(&mut self, what: &str, delete: Option<u64>) -> Done {
        let (db, node) = (self.db.clone(), self.node.clone());
        let deleting = delete.map(|up_to| {
            tokio::spawn(async move {
                let mut pauses = tokio::time::interval(PAUSE);
                loop {
                    let range = EventRange { site: SiteId::MAIN, node: &node, after: 0, up_to };
                    if db.delete_events(range, DELETED).await.unwrap_or(0) == 0 {
                        return;
                    }
                    pauses.tick().await;
                }
            })
        });
        let mut times = Vec::new();
        let mut ticks = tokio::time::interval(Duration::from_millis(10));
        for _ in 0..500 {
            times.push(self.project(SMALL_BATCH).await?);
            ticks.tick().await;
        }
        if let Some(deleting) = deleting {
            deleting.abort();
        }
        times.sort_unstable();
        let ms = |place: usize| times.get(place).map_or(0.0, |time| time.as_secs_f64() * 1e3);
        println!("projections {what}: median {:.1} ms, longest {:.1} ms", ms(250), ms(499));
        Ok(())
    }
}
