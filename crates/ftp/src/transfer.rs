//! Transfers: what is checked before 150, the data connection, and the bytes.

mod outlet;
mod receive;
mod send;

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use entrepot_ftp_proto::{Answer, Channel, Data, End, Refusal, Request, Why};
use entrepot_model::VPath;
use entrepot_net::data::{
    self, ActiveFrom, DataError, DataPeer, DataStream, DataTls, Lingerer, Metered, PassiveSeat,
};
use entrepot_net::meter::SessionMeter;
use entrepot_net::tls::HandshakeError;
use entrepot_vfs::{Upload, Uploaded, Vfs, VfsError};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::limits::{CONNECT_TIME, VERDICT_TIME};
use crate::listing::{self, Listed};
use crate::session::{Conversation, Over};
use crate::stats::View;
use crate::status::refusal;
pub(crate) use outlet::Outlet;
use receive::{Receive, Target};
pub(crate) use send::Fault;
use send::Send as Sending;

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
    Received {
        upload: Box<Upload>,
        /// The data connection said that it was whole, as TLS does by close_notify.
        certain: bool,
    },
}

type Work = Pin<Box<dyn Future<Output = Ran> + std::marker::Send>>;

/// The transfer that runs.
pub(crate) struct Running {
    stage: Stage,
    bytes: Arc<AtomicU64>,
    /// Says, once, whether an upload is to be published; whoever drops it says no.
    verdict: Option<oneshot::Sender<()>>,
    /// The client went away; counts until the publish is recorded.
    is_gone: Arc<AtomicBool>,
    /// A draining server waits for it.
    _running: entrepot_net::meter::Running,
}

enum Stage {
    Moving(Work),
    Publishing(Work),
}

impl Running {
    /// What is to be waited for.
    pub(crate) fn work(&mut self) -> Pin<&mut (dyn Future<Output = Ran> + std::marker::Send)> {
        match &mut self.stage {
            Stage::Moving(work) | Stage::Publishing(work) => work.as_mut(),
        }
    }

    /// Bytes so far.
    pub(crate) fn progress(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The client is still there.
    pub(crate) fn approve(&mut self) {
        if let Some(verdict) = self.verdict.take() {
            // Whoever waited for it has failed already.
            let _ = verdict.send(());
        }
    }

    pub(crate) fn is_publishing(&self) -> bool {
        matches!(self.stage, Stage::Publishing(_))
    }

    /// The bytes are made durable while it becomes clear whether the client is still there.
    pub(crate) fn publish(&mut self, upload: Box<Upload>) {
        let (verdict, heard) = oneshot::channel();
        self.verdict = Some(verdict);
        let is_gone = Arc::clone(&self.is_gone);
        let wanted = async move {
            let heard = timeout(VERDICT_TIME, heard).await;
            matches!(heard, Ok(Ok(()))) && !is_gone.load(Ordering::Acquire)
        };
        self.stage = Stage::Publishing(Box::pin(async move {
            let outcome = match upload.finish_if(wanted).await {
                Ok(uploaded) => Outcome::Published(Box::new(uploaded)),
                Err(VfsError::Gone) => Outcome::Ended(End::Cut),
                Err(error) => Outcome::Ended(End::Refused(refusal(&error))),
            };
            Ran { seat: None, outcome }
        }));
    }

    /// Ends it before its end; what came of an upload is kept to resume. What has been recorded as
    /// being published goes on until it is known how it ended: that is told.
    pub(crate) async fn stop(mut self) -> Option<Outcome> {
        self.is_gone.store(true, Ordering::Release);
        self.verdict = None;
        match self.stage {
            Stage::Publishing(work) => Some(work.await.outcome),
            Stage::Moving(_) => None,
        }
    }
}

/// What the session knows of an upload.
#[derive(Default)]
struct Known {
    /// The client was told of its own cut upload of this name.
    told: Option<VPath>,
    /// The policy asks for as many bytes as were announced.
    strict_size: bool,
}

/// What will happen on the data connection.
enum Job {
    Send(Sending),
    Receive(Box<Receive>),
    List(Listed),
}

impl Job {
    async fn prepare(
        vfs: &Vfs,
        view: &View,
        known: Known,
        request: Request,
    ) -> Result<Job, Refusal> {
        match request {
            Request::Retrieve { path, offset, length, ascii, .. } => {
                Ok(Job::Send(Sending::open(vfs, &path, (offset, length), ascii).await?))
            }
            Request::Store { path, how, ascii, allocated, .. } => {
                // ALLO counts bytes of the file.
                let announced = allocated.filter(|_| known.strict_size && !ascii);
                let target = Target { path: &path, how, told: known.told, announced };
                let receive = Receive::open(vfs, &view.env, target, ascii).await?;
                Ok(Job::Receive(Box::new(receive)))
            }
            Request::List { target, format, recursive, .. } => {
                Ok(Job::List(listing::prepare(vfs, view, target, (format, recursive)).await?))
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
                let stream = Outlet::new(stream, line.compression);
                Outcome::Ended(send.run(stream, &line.lingerer, &bytes).await)
            }
            (Ok(stream), Job::Receive(receive)) => {
                receive.run(stream, line.compression.is_some(), &bytes).await
            }
            (Ok(stream), Job::List(list)) => {
                let stream = Outlet::new(stream, line.compression);
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
    /// MODE Z, with this level.
    compression: Option<u8>,
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
                DataError::Tls(HandshakeError::NotResumed) => End::NotResumed,
                DataError::Tls(HandshakeError::OtherClient) => End::OtherCertificate,
                DataError::Tls(_) => End::TlsFailed,
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
        let (Request::Store { channel, .. }
        | Request::Retrieve { channel, .. }
        | Request::List { channel, .. }) = request
        else {
            return Ok(());
        };
        // From here on the transfer reserves for itself.
        self.room = None;
        self.commands.transfers();
        let running = self.meter.running();
        let prepared = match &self.live {
            _ if self.house.stop.is_cancelled() => Err(Refusal::new(Why::Closing)),
            None => Err(Refusal::new(Why::Denied)),
            Some(live) => {
                let vfs = live.session.vfs().clone();
                let view = self.house.view.clone();
                let known = match &request {
                    Request::Store { .. } => Known {
                        told: self.told.take(),
                        strict_size: live.session.principal().policy.strict_size,
                    },
                    _ => Known::default(),
                };
                let prepare = async move { Job::prepare(&vfs, &view, known, request).await };
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
        self.ticket_is_due = channel.protected;
        let line = self.line(channel);
        let bytes = Arc::new(AtomicU64::new(0));
        let work = Box::pin(job.run(line, Arc::clone(&bytes)));
        self.transfer = Some(Running {
            stage: Stage::Moving(work),
            bytes,
            verdict: None,
            is_gone: Arc::default(),
            _running: running,
        });
        Ok(())
    }

    fn line(&mut self, channel: Channel) -> Line {
        let way = match channel.data {
            Data::Passive => Way::Passive(self.seat.take()),
            Data::Active(target) => Way::Active(target),
        };
        let tls = self.tls.clone().filter(|_| channel.protected);
        let live = self.live.as_ref();
        let reuse = live.and_then(|live| live.session.principal().policy.tls_reuse);
        let reuse = self.config.reuse(reuse);
        Line {
            way,
            tls: tls.map(|session| DataTls { session, reuse }),
            local: self.control.local(),
            peer: self.control.peer(),
            data_peer: self.config.data_peer().clone(),
            meter: Arc::clone(&self.meter),
            lingerer: self.house.lingerer.clone(),
            compression: channel.compression,
        }
    }
}
