//! How the data connection of one transfer is made.

use std::net::SocketAddr;
use std::sync::Arc;

use entrepot_ftp_proto::End;
use entrepot_net::data::{
    self, ActiveFrom, DataError, DataPeer, DataStream, DataTls, Lingerer, PassiveSeat,
};
use entrepot_net::meter::SessionMeter;
use entrepot_net::tls::HandshakeError;

use crate::limits::CONNECT_TIME;

/// What the data connection of one transfer is made with.
pub(crate) struct DataLine {
    pub(crate) mode: DataMode,
    /// TLS on it, as PROT P asked for.
    pub(crate) tls: Option<DataTls>,
    /// Our end of the control connection.
    pub(crate) local: SocketAddr,
    /// The client's end of the control connection.
    pub(crate) peer: SocketAddr,
    pub(crate) data_peer: DataPeer,
    pub(crate) meter: Arc<SessionMeter>,
    pub(crate) lingerer: Lingerer,
    /// MODE Z, with this level.
    pub(crate) compression: Option<u8>,
}

/// Which side connects.
pub(crate) enum DataMode {
    /// The client, to the port of this seat; without one none was agreed.
    Passive(Option<PassiveSeat>),
    /// The server, to this address.
    Active(SocketAddr),
}

impl DataLine {
    pub(super) async fn connect(&mut self) -> Result<DataStream, End> {
        let connected = match &mut self.mode {
            DataMode::Passive(Some(seat)) => seat.take(self.tls.as_ref(), CONNECT_TIME).await,
            DataMode::Passive(None) => Err(DataError::NotExpected),
            DataMode::Active(target) => {
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
            None => Ok(DataStream::clear(stream, target, &self.meter)),
        }
    }

    pub(super) fn into_seat(self) -> Option<PassiveSeat> {
        match self.mode {
            DataMode::Passive(seat) => seat,
            DataMode::Active(_) => None,
        }
    }
}
