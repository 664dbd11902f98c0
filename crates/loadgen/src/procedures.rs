//! Procedures of a host application, called over HTTP by many clients at once: how many screens of
//! the host that makes a second, and what each of them costs. A failure is counted and does not end
//! the measurement.

mod row;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use entrepot_net::tls::TlsVersion;
use entrepot_nouns::Env;
use hyper::Method;
use tokio::task::JoinSet;

use crate::https::connection::{Client, Dialler, Fields, Line, Sender, read};
use crate::https::content::Content;
use crate::https::{BenchError, HttpVersion, Login, Target};
use crate::limits::FAILURES_IN_A_ROW;
use crate::process::{spent, spent_here};
use crate::tally::Tally;
use crate::watch::WatchError;

pub use row::{HostReport, HostRow, RowCosts, RowName, Transactions};

/// What is measured, and against what.
#[derive(Clone, Debug)]
pub struct ProcedureBench {
    /// The address of the procedure: [`Target::address`].
    pub target: Target,
    /// Who signs in, with every request.
    pub login: Option<Login>,
    /// What the procedure is given, as JSON.
    pub input: Bytes,
    /// Clients at a time, each with a connection of its own.
    pub clients: usize,
    /// Transactions of each of them.
    pub transactions: u64,
    /// What becomes of its connection between them.
    pub connections: Connections,
    /// What one transaction may take.
    pub deadline: Duration,
    /// Processes on this machine, for what they spend.
    pub watched: Watched,
}

/// Processes on this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Watched {
    /// The server that is called.
    pub server: Option<u32>,
    /// The host that it works at.
    pub host: Option<u32>,
}

/// What becomes of connections between transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connections {
    /// They are kept.
    KeptAlive,
    /// Each transaction has a new one.
    NewEachTime,
}

struct Shared {
    bench: ProcedureBench,
    dialler: Dialler,
    env: Env,
}

/// One client, with its connection.
struct ProcedureClient {
    shared: Arc<Shared>,
    fields: Fields,
    sender: Option<Sender>,
    /// Bytes of the answer: all transactions have the same.
    answer: Option<u64>,
}

/// Calls the procedure. Before the time begins each client has called it once, so that connections
/// and sessions are there.
///
/// # Errors
/// The host is no name, or a process to watch does not exist. What the server does wrong is
/// counted.
pub async fn run(name: RowName, bench: &ProcedureBench, env: &Env) -> Result<HostRow, BenchError> {
    let dialler = Dialler::new(&bench.target, HttpVersion::Http1, TlsVersion::Tls13)?;
    let shared = Arc::new(Shared { bench: bench.clone(), dialler, env: env.clone() });
    let clients = (1..=bench.clients.max(1)).map(|number| ProcedureClient::new(&shared, number));
    let clients = clients.collect::<Result<Vec<_>, _>>()?;
    let mut tally = Tally::default();
    let mut warm = Vec::new();
    for (client, warmed) in at_once(clients, ProcedureClient::warm_up).await {
        warmed.failures.into_iter().for_each(|failure| tally.tell(failure));
        warm.push(client);
    }
    let before = RowCosts::read(bench.watched)?;
    let began = env.elapsed();
    let done = at_once(warm, ProcedureClient::work).await;
    let time = env.elapsed().saturating_sub(began);
    let costs = RowCosts::read(bench.watched)?.since(&before);
    done.into_iter().for_each(|(_, done)| tally.add(done));
    Ok(HostRow::of(name, bench.clients, &tally, time, costs))
}

/// Has all clients do the same at once.
async fn at_once<F>(
    clients: Vec<ProcedureClient>,
    does: impl Fn(ProcedureClient) -> F,
) -> Vec<(ProcedureClient, Tally)>
where
    F: Future<Output = (ProcedureClient, Tally)> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    for client in clients {
        tasks.spawn(does(client));
    }
    // One that panicked has said so.
    tasks.join_all().await
}

impl ProcedureClient {
    fn new(shared: &Arc<Shared>, number: usize) -> Result<ProcedureClient, BenchError> {
        let ProcedureBench { target, login, .. } = &shared.bench;
        let (version, login) = (HttpVersion::Http1, login.as_ref());
        let mut fields = Fields::new(Client { target, version, login, number })?;
        fields.speak_json();
        Ok(ProcedureClient { shared: Arc::clone(shared), fields, sender: None, answer: None })
    }

    async fn warm_up(mut self) -> (ProcedureClient, Tally) {
        let mut tally = Tally::default();
        if let Err(error) = self.once_in_time().await {
            tally.tell(format!("before the time: {error}"));
        }
        (self, tally)
    }

    async fn work(mut self) -> (ProcedureClient, Tally) {
        let mut tally = Tally::default();
        let shared = Arc::clone(&self.shared);
        let (mut in_a_row, mut tried) = (0, 0);
        while tried < shared.bench.transactions && in_a_row < FAILURES_IN_A_ROW {
            let began = shared.env.elapsed();
            let result = self.once_in_time().await;
            tried += 1;
            match result {
                Ok(bytes) => {
                    tally.done(shared.env.elapsed().saturating_sub(began), bytes);
                    in_a_row = 0;
                }
                Err(error) => {
                    tally.tell(error.to_string());
                    tally.counts.failed += 1;
                    in_a_row += 1;
                }
            }
        }
        tally.counts.not_tried += shared.bench.transactions - tried;
        (self, tally)
    }

    async fn once_in_time(&mut self) -> Result<u64, BenchError> {
        let deadline = self.shared.bench.deadline;
        let done = tokio::time::timeout(deadline, self.once()).await;
        let done = done.unwrap_or(Err(BenchError::Hung(deadline)));
        if done.is_err() {
            // The state of its connection is unknown.
            self.sender = None;
        }
        done
    }

    /// One transaction; answers the bytes of what came.
    async fn once(&mut self) -> Result<u64, BenchError> {
        let shared = Arc::clone(&self.shared);
        let ProcedureBench { target, input, connections, .. } = &shared.bench;
        let content = Content::range(input, 0, input.len() as u64);
        let request = self.fields.request(Method::POST, &target.folder, content)?;
        let kept = self.sender.take().filter(|sender| !sender.is_closed());
        let mut sender = match kept {
            Some(sender) => sender,
            None => shared.dialler.open(&Line::default()).await?,
        };
        let got = read("POST", sender.send(request).await?).await?;
        if *connections == Connections::KeptAlive {
            self.sender = Some(sender);
        }
        let wanted = *self.answer.get_or_insert(got);
        if got == wanted { Ok(got) } else { Err(BenchError::Length { wanted, got }) }
    }
}

impl RowCosts {
    /// What was spent so far.
    ///
    /// # Errors
    /// There is no such process.
    pub fn read(watched: Watched) -> Result<RowCosts, WatchError> {
        let of = |pid: u32| spent(pid).ok_or(WatchError::NoProcess(pid));
        let server = watched.server.map(of).transpose()?;
        let host = watched.host.map(of).transpose()?;
        Ok(RowCosts {
            server: server.map(|spent| spent.cpu),
            host: host.map(|spent| spent.cpu),
            client: spent_here(),
            server_bytes: server.map(|spent| spent.memory_bytes),
        })
    }
}
