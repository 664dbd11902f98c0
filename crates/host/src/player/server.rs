//! The sockets of a player: a task for each client, and what they share.

use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use entrepot_net::NetError;
use entrepot_net::accepted::Accepted;
use entrepot_net::listen::{self, TcpAcceptor};
use entrepot_net::tls::{HandshakeError, TlsServer};
use entrepot_nouns::Env;
use entrepot_tn3270_proto::client::Wish;
use entrepot_tn3270_proto::enhanced::Functions;
use entrepot_tn3270_proto::host::HostOptions;
use serde::Serialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::client::{Action, Answer, AtEnd, PlayedClient, Treatment};
use super::matching::{Match, NoMatch};
use super::recording::Recording;
use crate::limits::{CLIENTS, WAITING_BYTES};

/// What a player speaks with its clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Speak {
    /// TN3270E with clients that have it, TN3270 with others.
    #[default]
    Either,
    /// TN3270 with all of them.
    Plain,
}

/// When TLS begins.
#[derive(Clone, Debug, Default)]
pub enum PlayerTls {
    /// All is in clear text.
    #[default]
    Off,
    /// With the first byte.
    FromTheStart(TlsServer),
    /// By the option STARTTLS; a client without it goes on in clear text.
    Asked(TlsServer),
}

/// Answers that come later, as those of a host with much to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lag {
    /// How much later.
    pub delay: Duration,
    /// Of a hundred answers so many are late.
    pub percent: u8,
}

/// How a player plays.
#[derive(Clone, Debug)]
pub struct PlayerOptions {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Clients take them in turn: the first client the first one.
    pub recordings: Vec<Arc<Recording>>,
    /// What is spoken.
    pub speak: Speak,
    /// How much of a key must be as recorded.
    pub matching: Match,
    /// What follows on another key.
    pub no_match: NoMatch,
    /// The next key behind the end of the recording brings its first screen.
    pub loops: bool,
    /// Answers that come later.
    pub lag: Option<Lag>,
    /// Which answers are late follows from it, and from the number of the client.
    pub seed: u64,
    /// Each so many answers, counted over all clients, the connection is closed in place of one.
    pub cut_every: Option<NonZeroU64>,
    /// More clients at once are closed when they come.
    pub clients: usize,
    /// A client that sends nothing for so long is closed.
    pub time_limit: Option<Duration>,
    /// When TLS begins.
    pub tls: PlayerTls,
}

impl PlayerOptions {
    /// The usual options for one recording, on a free port of this machine.
    pub fn of(recording: Arc<Recording>) -> Self {
        PlayerOptions {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            recordings: vec![recording],
            speak: Speak::default(),
            matching: Match::default(),
            no_match: NoMatch::default(),
            loops: false,
            lag: None,
            seed: 0,
            cut_every: None,
            clients: CLIENTS,
            time_limit: None,
            tls: PlayerTls::default(),
        }
    }
}

/// What a player has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PlayerReport {
    /// Clients that were served, one after another and at once.
    pub clients: u64,
    /// So many of them at once.
    pub most_at_once: u64,
    /// Clients that were closed because there were too many.
    pub refused: u64,
    /// Keys that were answered as recorded.
    pub answered: u64,
    /// Keys that were not awaited: the screen was sent again.
    pub repeated: u64,
    /// Connections that were closed in place of an answer.
    pub cut: u64,
    /// Answers that came later.
    pub late: u64,
}

/// A player that listens.
#[derive(Debug)]
pub struct Player {
    acceptor: TcpAcceptor,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    options: PlayerOptions,
    counts: Counts,
}

#[derive(Debug, Default)]
struct Counts {
    /// Keys that were answered, or cut.
    keys: AtomicU64,
    answered: AtomicU64,
    repeated: AtomicU64,
    cut: AtomicU64,
    late: AtomicU64,
}

impl Player {
    /// Binds; clients can connect from now on.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub fn bind(options: PlayerOptions) -> Result<Self, NetError> {
        let acceptor = listen::bind(options.listen)?;
        let shared = Arc::new(Shared { options, counts: Counts::default() });
        Ok(Player { acceptor, shared })
    }

    /// Where it listens, with the real port.
    pub fn address(&self) -> SocketAddr {
        self.acceptor.local_address()
    }

    /// Plays until `stop`, and closes all connections then.
    pub async fn run(self, stop: CancellationToken) -> PlayerReport {
        let mut report = PlayerReport::default();
        let mut clients = JoinSet::new();
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                (stream, peer) = self.acceptor.accept() => {
                    if clients.len() >= self.shared.options.clients {
                        report.refused += 1;
                        continue;
                    }
                    let number = report.clients;
                    report.clients += 1;
                    clients.spawn(serve(Arc::clone(&self.shared), stream, peer, number));
                    report.most_at_once = report.most_at_once.max(clients.len() as u64);
                }
                Some(_) = clients.join_next() => {}
            }
        }
        clients.shutdown().await;
        let counts = &self.shared.counts;
        report.answered = counts.answered.load(Ordering::Relaxed);
        report.repeated = counts.repeated.load(Ordering::Relaxed);
        report.cut = counts.cut.load(Ordering::Relaxed);
        report.late = counts.late.load(Ordering::Relaxed);
        report
    }
}

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error("the client closed the connection")]
    ByClient,
    #[error("the recording or its rules ended it")]
    ByRecording,
    #[error("it was cut, as was asked for")]
    Cut,
    #[error("the client sent nothing within the time limit")]
    Idle,
    #[error("the client sent too much while it was to wait")]
    Overlong,
    #[error("no TLS with the client: {0}")]
    Handshake(#[from] HandshakeError),
    #[error("the connection broke: {0}")]
    Broken(#[from] std::io::Error),
}

async fn serve(shared: Arc<Shared>, stream: TcpStream, peer: SocketAddr, number: u64) {
    let options = &shared.options;
    // The invariant: a number is below the length that it is divided by.
    let chosen = usize::try_from(number).unwrap_or(0) % options.recordings.len().max(1);
    let Some(recording) = options.recordings.get(chosen) else { return };
    let wish = |is_wanted| if is_wanted { Wish::Accept } else { Wish::Refuse };
    let offered = HostOptions {
        enhanced: wish(options.speak == Speak::Either),
        functions: Functions::DISPLAY,
        start_tls: wish(matches!(options.tls, PlayerTls::Asked(_))),
        device_name: format!("PLAY{:04}", number % 10_000),
    };
    let at_end = if options.loops { AtEnd::BeginAnew } else { AtEnd::Stay };
    let treatment = Treatment { matching: options.matching, no_match: options.no_match, at_end };
    let connection = Connection {
        stream: Some(Accepted::new(stream)),
        client: PlayedClient::new(Arc::clone(recording), treatment, offered),
        late: LateAnswers::new(options.lag, options.seed, number),
        shared: &shared,
    };
    if let Err(ended) = connection.run().await {
        tracing::debug!(%peer, number, recording = recording.name(), %ended, "a client has gone");
    }
}

struct Connection<'a> {
    /// Unset after TLS failed: then there is no connection any more.
    stream: Option<Accepted>,
    client: PlayedClient,
    late: LateAnswers,
    shared: &'a Shared,
}

impl Connection<'_> {
    async fn run(mut self) -> Result<(), Ended> {
        if let PlayerTls::FromTheStart(server) = &self.shared.options.tls {
            self.start_tls(server).await?;
        }
        let mut input = Vec::new();
        loop {
            let mut rest = input.as_slice();
            let mut action = self.client.next(&mut rest);
            let read = input.len() - rest.len();
            input.drain(..read);
            if let Some(Action::Answer(answer)) = action {
                action = self.answer(answer, &mut input).await?;
            }
            match action {
                // The client has sent more while its answer was late.
                None if !input.is_empty() => {}
                None => {
                    self.send().await?;
                    self.read(&mut input).await?;
                }
                Some(Action::StartTls) => {
                    self.send().await?;
                    input.clear();
                    if let PlayerTls::Asked(server) = &self.shared.options.tls {
                        self.start_tls(server).await?;
                    }
                    self.client.tls_started();
                }
                Some(Action::Close | Action::Answer(_)) => {
                    self.send().await?;
                    self.stream()?.shutdown().await?;
                    return Err(Ended::ByRecording);
                }
            }
        }
    }

    fn stream(&mut self) -> Result<&mut Accepted, Ended> {
        self.stream.as_mut().ok_or(Ended::ByClient)
    }

    async fn start_tls(&mut self, server: &TlsServer) -> Result<(), Ended> {
        let stream = self.stream.take().ok_or(Ended::ByClient)?;
        self.stream = Some(stream.start_tls(server).await?);
        Ok(())
    }

    /// Lets an answer out, at once or later, or cuts the connection in its place.
    async fn answer(
        &mut self,
        answer: Answer,
        input: &mut Vec<u8>,
    ) -> Result<Option<Action>, Ended> {
        let (options, counts) = (&self.shared.options, &self.shared.counts);
        let count = |counter: &AtomicU64| counter.fetch_add(1, Ordering::Relaxed) + 1;
        let keys = count(&counts.keys);
        if options.cut_every.is_some_and(|every| keys.is_multiple_of(every.get())) {
            count(&counts.cut);
            return Err(Ended::Cut);
        }
        if let Some(delay) = self.late.next() {
            count(&counts.late);
            self.send().await?;
            self.wait(delay, input).await?;
        }
        count(match answer {
            Answer::Recorded => &counts.answered,
            Answer::Again => &counts.repeated,
        });
        Ok(self.client.release())
    }

    /// Waits, and notices meanwhile when the client goes away.
    async fn wait(&mut self, delay: Duration, input: &mut Vec<u8>) -> Result<(), Ended> {
        let stream = self.stream()?;
        let sleep = tokio::time::sleep(delay);
        tokio::pin!(sleep);
        loop {
            tokio::select! {
                () = &mut sleep => return Ok(()),
                read = stream.read_buf(input) => {
                    if read? == 0 {
                        return Err(Ended::ByClient);
                    }
                    if input.len() > WAITING_BYTES {
                        return Err(Ended::Overlong);
                    }
                }
            }
        }
    }

    async fn read(&mut self, input: &mut Vec<u8>) -> Result<(), Ended> {
        let limit = self.shared.options.time_limit;
        let reading = self.stream()?.read_buf(input);
        let length = match limit {
            Some(limit) => {
                tokio::time::timeout(limit, reading).await.map_err(|_| Ended::Idle)??
            }
            None => reading.await?,
        };
        if length == 0 { Err(Ended::ByClient) } else { Ok(()) }
    }

    /// Sends all that is to be sent, in one write.
    async fn send(&mut self) -> Result<(), Ended> {
        let stream = self.stream.as_mut().ok_or(Ended::ByClient)?;
        // The memory of one answer is used again for the next one.
        let output = self.client.output();
        if output.is_empty() {
            return Ok(());
        }
        stream.write_all(output).await?;
        output.clear();
        Ok(stream.flush().await?)
    }
}

/// Which answers to one client are late: drawn from the seed, so that a run can be repeated.
struct LateAnswers {
    lag: Option<Lag>,
    draws: Env,
}

impl LateAnswers {
    fn new(lag: Option<Lag>, seed: u64, client: u64) -> Self {
        /// Far from each other, so that clients have draws of their own (Weyl sequence).
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let seed = seed ^ (client + 1).wrapping_mul(STEP).rotate_left(32);
        LateAnswers { lag, draws: Env::simulated(seed) }
    }

    /// How late the next answer is.
    fn next(&mut self) -> Option<Duration> {
        let lag = self.lag?;
        let mut draw = [0; 8];
        self.draws.fill_random(&mut draw);
        (u64::from_le_bytes(draw) % 100 < u64::from(lag.percent)).then_some(lag.delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_decides_which_answers_are_late() {
        let draws = |percent, seed, client| {
            let lag = Lag { delay: Duration::from_millis(250), percent };
            let mut late = LateAnswers::new(Some(lag), seed, client);
            let drawn = std::iter::repeat_with(|| late.next().is_some());
            drawn.take(1000).collect::<Vec<_>>()
        };
        let late = |draws: Vec<bool>| draws.iter().filter(|late| **late).count();
        assert_eq!(draws(30, 7, 0), draws(30, 7, 0));
        assert_ne!(draws(30, 7, 0), draws(30, 7, 1));
        assert_ne!(draws(30, 7, 0), draws(30, 8, 0));
        assert!((250..350).contains(&late(draws(30, 7, 0))));
        assert_eq!((late(draws(0, 7, 0)), late(draws(100, 7, 0))), (0, 1000));
        assert_eq!(LateAnswers::new(None, 7, 0).next(), None);
    }
}
