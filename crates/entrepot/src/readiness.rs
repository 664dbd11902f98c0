//! Whether this node works, whether it takes new sessions, and why not: what service managers and
//! balancers ask.
//!
//! A balancer has two questions. Whether the node works at all decides about open sessions: they
//! are cut where it does not. Whether it takes new sessions does not: a node whose journal is full,
//! or that is drained, serves those that it has. A database that is away is no reason either, as
//! long as accounts that the node knows can log in; otherwise all nodes would leave at once.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use entrepot_engine::Drained;
use entrepot_journal::Recorder;
use entrepot_vfs::Service;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

/// A node whose journal takes no records for longer than this, because a sync failed, does not
/// work any more. By then it should have ended to be started again.
const FAILED_JOURNAL: Duration = Duration::from_secs(30);
/// How long a balancer may take to fetch the line of the agent.
const AGENT_TIME: Duration = Duration::from_secs(1);
/// The pause after no connection could be accepted, such as for want of descriptors.
const AGENT_PAUSE: Duration = Duration::from_millis(100);

/// Why the node takes no new sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Its listeners are not open yet.
    Starting,
    /// It was asked to end.
    Stopping,
    /// An operator drained it.
    Drained,
    /// Its journal holds as much as it may that the database does not have.
    JournalFull,
    /// A sync of its journal failed.
    JournalFailed,
    /// No store that was used since the start takes changes.
    StoresSick,
}

impl Reason {
    /// The word that stands for it in answers.
    fn word(self) -> &'static str {
        match self {
            Reason::Starting => "starting",
            Reason::Stopping => "stopping",
            Reason::Drained => "drained",
            Reason::JournalFull => "journal-full",
            Reason::JournalFailed => "journal-failed",
            Reason::StoresSick => "stores-sick",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sentence = match self {
            Reason::Starting => "the listeners are not open yet",
            Reason::Stopping => "the server is stopping",
            Reason::Drained => "drained by an operator",
            Reason::JournalFull => "the journal takes no new uploads before the database has more",
            Reason::JournalFailed => "the journal takes no records, a write to its disk failed",
            Reason::StoresSick => "no store takes changes, a failed one could not be undone",
        };
        write!(f, "{}: {sentence}", self.word())
    }
}

/// What the answers follow from.
pub(crate) struct ReadinessParts {
    pub(crate) recorder: Recorder,
    pub(crate) vfs: Service,
    pub(crate) drained: Drained,
    /// Cancelled when the server is asked to end.
    pub(crate) stop: CancellationToken,
}

/// Answers for the node. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Readiness(Arc<Inner>);

struct Inner {
    parts: ReadinessParts,
    listening: AtomicBool,
}

impl Readiness {
    /// Of a node whose listeners are not open yet.
    pub(crate) fn new(parts: ReadinessParts) -> Readiness {
        Readiness(Arc::new(Inner { parts, listening: AtomicBool::new(false) }))
    }

    /// The listeners are open.
    pub(crate) fn listens(&self) {
        self.0.listening.store(true, Ordering::Release);
    }

    /// Why the node does not work, if so.
    pub(crate) fn why_not_live(&self) -> Option<Reason> {
        let failed = self.0.parts.recorder.journal().failed_for();
        failed.filter(|time| *time > FAILED_JOURNAL).map(|_| Reason::JournalFailed)
    }

    /// Why the node takes no new sessions; empty if it does.
    pub(crate) fn reasons(&self) -> Vec<Reason> {
        let ReadinessParts { recorder, vfs, drained, stop } = &self.0.parts;
        let stores = vfs.stores();
        let usage = recorder.journal().usage();
        let reasons = [
            (!self.0.listening.load(Ordering::Acquire), Reason::Starting),
            (stop.is_cancelled(), Reason::Stopping),
            (drained.is_drained(), Reason::Drained),
            (usage.full, Reason::JournalFull),
            (usage.suspect, Reason::JournalFailed),
            // Those of one store that is well can be served.
            (!stores.is_empty() && stores.iter().all(|store| store.is_sick), Reason::StoresSick),
        ];
        reasons.into_iter().filter(|(is, _)| *is).map(|(_, reason)| reason).collect()
    }

    /// The line of the agent for HAProxy (Configuration Manual, `agent-check`). It always says both
    /// what the node is and what it takes, for only the agent takes back what the agent said.
    pub(crate) fn agent_line(&self) -> String {
        let reasons = self.reasons();
        let is = |reason| reasons.contains(&reason);
        if let Some(why) = self.why_not_live() {
            format!("down#{}\n", why.word())
        } else if is(Reason::Starting) || is(Reason::JournalFailed) {
            let why = if is(Reason::Starting) { Reason::Starting } else { Reason::JournalFailed };
            format!("down#{}\n", why.word())
        } else if reasons.is_empty() {
            format!("up ready {}%\n", self.free_percent())
        } else {
            "up drain\n".to_owned()
        }
    }

    /// How much is free of what accounts share, of which there is least; never 0, which would
    /// keep every new session away.
    fn free_percent(&self) -> u64 {
        let budgets = self.0.parts.vfs.budgets();
        let free = budgets.iter().filter(|budget| budget.limit > 0).map(|budget| {
            let free = budget.limit.saturating_sub(budget.used);
            u128::from(free) * 100 / u128::from(budget.limit)
        });
        u64::try_from(free.min().unwrap_or(100)).unwrap_or(100).clamp(1, 100)
    }
}

/// Writes the line of the agent to each balancer that connects, until `until`.
pub(crate) async fn serve_agent(
    listener: TcpListener,
    readiness: Readiness,
    until: CancellationToken,
) {
    loop {
        let accepted = tokio::select! {
            () = until.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                let told = tell(stream, readiness.agent_line());
                // A balancer that does not take a line of a few bytes asks again.
                let _ = tokio::time::timeout(AGENT_TIME, told).await;
            }
            Err(error) => {
                tracing::warn!(%error, "the port for balancers cannot accept a connection");
                tokio::time::sleep(AGENT_PAUSE).await;
            }
        }
    }
}

async fn tell(mut stream: TcpStream, line: String) -> std::io::Result<()> {
    stream.write_all(line.as_bytes()).await?;
    stream.shutdown().await
}
