//! Transfers: what is checked before 150, the data connection, and the bytes.

mod receive;
mod send;

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use entrepot_ftp_proto::{Answer, Channel, Data, End, Refusal, Request, Why};
use entrepot_model::{Env, VPath};
use entrepot_net::data::{
    self, ActiveFrom, DataError, DataPeer, DataStream, DataTls, Lingerer, Metered, PassiveSeat,
};
use entrepot_net::meter::SessionMeter;
use entrepot_net::tls::Carries;
use entrepot_vfs::{Upload, Uploaded, Vfs};

use crate::limits::CONNECT_TIME;
use crate::listing::{self, Listed};
use crate::session::{Conversation, Over};
use crate::status::refusal;
use receive::{Receive, Target};
use send::Send as Sending;
pub(crate) use send::{Fault, conclude, write};

/// What a transfer came to; the passive seat comes back with it.
pub(crate) struct Ran {
    pub(crate) seat: Option<PassiveSeat>,
    pub(crate) outcome: Outcome,
}

pub(crate) enum Outcome {
    /// It is over.
    Ended(End),
    /// An upload is published.
    Published(Box<Uploaded>),
    /// All bytes of an upload came; nothing is published yet.
    Received(Box<Upload>),
}

type Work = Pin<Box<dyn Future<Output = Ran> + std::marker::Send>>;

/// The transfer that runs.
pub(crate) struct Running {
    stage: Stage,
    bytes: Arc<AtomicU64>,
    /// A draining server waits for it.
    _running: entrepot_net::meter::Running,
}

enum Stage {
    Moving(Work),
    /// Waits for a look at the control connection.
    Received(Box<Upload>),
    Publishing(Work),
    Over,
}

impl Running {
    /// What is to be waited for.
    pub(crate) fn work(
        &mut self,
    ) -> Option<Pin<&mut (dyn Future<Output = Ran> + std::marker::Send)>> {
        match &mut self.stage {
            Stage::Moving(work) | Stage::Publishing(work) => Some(work.as_mut()),
            Stage::Received(_) | Stage::Over => None,
        }
    }

    /// Bytes so far.
    pub(crate) fn progress(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn waits_for_publish(&self) -> bool {
        matches!(self.stage, Stage::Received(_))
    }

    pub(crate) fn is_publishing(&self) -> bool {
        matches!(self.stage, Stage::Publishing(_))
    }

    pub(crate) fn received(&mut self, upload: Box<Upload>) {
        self.stage = Stage::Received(upload);
    }

    /// The client is still there: what came is published.
    pub(crate) fn publish(&mut self) {
        self.stage = match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Received(upload) => Stage::Publishing(Box::pin(async move {
                let outcome = match upload.finish().await {
                    Ok(uploaded) => Outcome::Published(Box::new(uploaded)),
                    Err(error) => Outcome::Ended(End::Refused(refusal(&error))),
                };
                Ran { seat: None, outcome }
            })),
            other => other,
        };
    }

    /// Ends it before its end; what came of an upload is kept to resume. What is being published
    /// goes on until it is known how it ended.
    pub(crate) async fn stop(self, reason: &str) {
        match self.stage {
            Stage::Received(upload) => upload.interrupt(reason).await,
            Stage::Publishing(work) => drop(work.await),
            Stage::Moving(_) | Stage::Over => {}
        }
    }
}

/// What will happen on the data connection.
enum Job {
    Send(Sending),
    Receive(Receive),
    List(Listed),
}

impl Job {
    async fn prepare(
        vfs: &Vfs,
        env: &Env,
        told: Option<VPath>,
        request: Request,
    ) -> Result<Job, Refusal> {
        match request {
            Request::Retrieve { path, offset, length, ascii, .. } => {
                Ok(Job::Send(Sending::open(vfs, &path, (offset, length), ascii).await?))
            }
            Request::Store { path, how, ascii, .. } => {
                let target = Target { path: &path, how, told };
                Ok(Job::Receive(Receive::open(vfs, env, target, ascii).await?))
            }
            Request::List { target, format, recursive, .. } => {
                Ok(Job::List(listing::prepare(vfs, env, target, (format, recursive)).await?))
            }
            _ => Err(Refusal::new(Why::Unsupported)),
        }
    }

    /// What the 150 says.
    fn started(&self) -> Answer {
        let (size, name) = match self {
            Job::Send(send) => (send.wire_size(), None),
            Job::Receive(receive) => (None, receive.chosen().map(str::to_owned)),
            Job::List(_) => (None, None),
        };
        Answer::TransferStarted { connected: false, size, name }
    }

    async fn run(self, mut line: Line, bytes: Arc<AtomicU64>) -> Ran {
        let connected = line.connect().await;
        let outcome = match (connected, self) {
            (Ok(stream), Job::Send(send)) => {
                Outcome::Ended(send.run(stream, &line.lingerer, &bytes).await)
            }
            (Ok(stream), Job::Receive(receive)) => receive.run(stream, &bytes).await,
            (Ok(stream), Job::List(list)) => {
                Outcome::Ended(list.run(stream, &line.lingerer, &bytes).await)
            }
            (Err(end), Job::Receive(receive)) => {
                receive.give_up().await;
                Outcome::Ended(end)
            }
            (Err(end), _) => Outcome::Ended(end),
        };
        Ran { seat: line.into_seat(), outcome }
    }
}

/// How a data connection comes to be.
struct Line {
    way: Way,
    tls: Option<DataTls>,
    local: SocketAddr,
    peer: SocketAddr,
    data_peer: DataPeer,
    meter: Arc<SessionMeter>,
    lingerer: Lingerer,
}

enum Way {
    Passive(Option<PassiveSeat>),
    Active(SocketAddr),
}

impl Line {
    async fn connect(&mut self) -> Result<DataStream, End> {
        let connected = match &mut self.way {
            Way::Passive(Some(seat)) => seat.take(self.tls.as_ref(), CONNECT_TIME).await,
            Way::Passive(None) => Err(DataError::NotExpected),
            Way::Active(target) => {
                let target = *target;
                self.dial(target).await
            }
        };
        connected.map_err(|error| {
            tracing::debug!(code = error.code(), %error, "no data connection");
            match error {
                DataError::Tls(_) => End::TlsRefused,
                _ => End::NoConnection,
            }
        })
    }

    async fn dial(&self, target: SocketAddr) -> Result<DataStream, DataError> {
        self.data_peer.may_dial(target, self.peer.ip())?;
        let from = ActiveFrom { local: self.local, port: None };
        let stream = data::connect(from, target, CONNECT_TIME).await?;
        match &self.tls {
            Some(tls) => Ok(tls.accept(stream, target, &self.meter).await?),
            None => {
                let metered = Metered::new(stream, Arc::clone(&self.meter));
                Ok(DataStream::clear(metered, target))
            }
        }
    }

    fn into_seat(self) -> Option<PassiveSeat> {
        match self.way {
            Way::Passive(seat) => seat,
            Way::Active(_) => None,
        }
    }
}

impl Conversation {
    /// Begins a transfer, or refuses it.
    pub(crate) async fn begin(&mut self, request: Request) -> Result<(), Over> {
        let (channel, carries) = match &request {
            Request::Store { channel, .. } => (*channel, Carries::Upload),
            Request::Retrieve { channel, .. } | Request::List { channel, .. } => {
                (*channel, Carries::Download)
            }
            _ => return Ok(()),
        };
        self.commands.transfers();
        let running = self.meter.running();
        let prepared = match &self.live {
            _ if self.house.stop.is_cancelled() => Err(Refusal::new(Why::Closing)),
            None => Err(Refusal::new(Why::Denied)),
            Some(live) => {
                let vfs = live.session.vfs().clone();
                let env = self.house.context.env.clone();
                let told = match &request {
                    Request::Store { .. } => self.told.take(),
                    _ => None,
                };
                let prepare = async move { Job::prepare(&vfs, &env, told, request).await };
                self.patiently(prepare).await?
            }
        };
        let job = match prepared {
            Ok(job) => job,
            Err(refused) => {
                self.forget_expected();
                self.answer(Answer::TransferEnded(End::Refused(refused)));
                return Ok(());
            }
        };
        self.answer(job.started());
        self.flush().await?;
        let line = self.line(channel, carries);
        let bytes = Arc::new(AtomicU64::new(0));
        let work = Box::pin(job.run(line, Arc::clone(&bytes)));
        self.transfer = Some(Running { stage: Stage::Moving(work), bytes, _running: running });
        Ok(())
    }

    fn line(&mut self, channel: Channel, carries: Carries) -> Line {
        let way = match channel.data {
            Data::Passive => Way::Passive(self.seat.take()),
            Data::Active(target) => Way::Active(target),
        };
        let tls = self.tls.clone().filter(|_| channel.protected);
        let reuse = self.config.reuse();
        Line {
            way,
            tls: tls.map(|session| DataTls { session, carries, reuse }),
            local: self.control.local(),
            peer: self.control.peer(),
            data_peer: self.config.data_peer().clone(),
            meter: Arc::clone(&self.meter),
            lingerer: self.house.lingerer.clone(),
        }
    }
}
