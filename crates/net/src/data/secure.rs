//! Which of those who connect is the client: under TLS, the one that resumes its session.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::DataSocket;
use super::error::DataError;
use super::lazy::LazySocket;
use super::slot::{Arrived, Slot};
use super::stream::DataStream;
use crate::gather::Gathering;
use crate::limits::{DATA_CANDIDATE_GRACE, DATA_CANDIDATE_TIME};
use crate::meter::SessionMeter;
use crate::tls::{HandshakeError, Reuse, TlsSession};

/// How a data connection is protected.
#[derive(Clone, Debug)]
pub struct DataTls {
    /// The session whose tickets it resumes.
    pub session: TlsSession,
    /// Whether it must resume.
    pub reuse: Reuse,
}

impl DataTls {
    /// Shakes hands on a connection that we dialled or took.
    ///
    /// # Errors
    /// It failed, took too long, or did not resume though it must.
    pub async fn accept(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        meter: &Arc<SessionMeter>,
    ) -> Result<DataStream, HandshakeError> {
        self.accept_over(stream.into(), peer, meter).await
    }

    async fn accept_over(
        &self,
        stream: LazySocket,
        peer: SocketAddr,
        meter: &Arc<SessionMeter>,
    ) -> Result<DataStream, HandshakeError> {
        let metered = DataSocket::new(Gathering::one_way(stream), Arc::clone(meter));
        let stream = self.session.accept_data(metered, self.reuse).await?;
        Ok(DataStream::tls(stream, peer))
    }
}

/// The first candidate whose handshake succeeds. All shake hands at the same time, so that a
/// silent one holds up nobody. When one has failed, others are waited for a short while only: a
/// client that cannot resume is to be told soon.
pub(super) async fn first_resumed(
    slot: &Slot,
    tls: &DataTls,
    meter: &Arc<SessionMeter>,
    wait: Duration,
) -> Result<DataStream, DataError> {
    let mut failed = None;
    let choosing = choose(slot, tls, meter, &mut failed);
    match timeout(wait.min(DATA_CANDIDATE_TIME), choosing).await {
        Ok(Some(stream)) => stream,
        Ok(None) | Err(_) => Err(failed.map_or(DataError::Timeout, DataError::Tls)),
    }
}

/// `None`: nobody is left.
async fn choose(
    slot: &Slot,
    tls: &DataTls,
    meter: &Arc<SessionMeter>,
    failed: &mut Option<HandshakeError>,
) -> Option<Result<DataStream, DataError>> {
    let accept = async |Arrived { stream, peer, .. }: Arrived| {
        let mut tls = tls.clone();
        if !slot.policy.takes(peer.ip(), slot.control) {
            // Anybody's, if it resumes: whatever the account says of the client's own address.
            tls.reuse = Reuse::Required;
        }
        tls.accept_over(stream, peer, meter).await
    };
    let mut candidates = FuturesUnordered::new();
    let mut may_come = true;
    loop {
        let is_idle = candidates.is_empty();
        if is_idle && !may_come {
            return None;
        }
        let grace = is_idle && failed.is_some();
        tokio::select! {
            next = slot.next(), if may_come => match next {
                Ok(Some(arrived)) => candidates.push(accept(arrived)),
                Ok(None) => may_come = false,
                Err(error) => return Some(Err(error)),
            },
            Some(done) = candidates.next(), if !is_idle => match done {
                Ok(stream) => return Some(Ok(stream)),
                Err(error) => *failed = Some(error),
            },
            () = sleep(DATA_CANDIDATE_GRACE), if grace => return None,
        }
    }
}
