//! A connection under TLS.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use rustls::pki_types::CertificateDer;
use rustls::{HandshakeKind, ProtocolVersion};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio_rustls::server::TlsStream as Inner;

use super::records::Records;
use super::version::TlsVersion;
use crate::limits::CLOSE_NOTIFY_TIME;

/// What was agreed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsInfo {
    /// The version, TLS 1.2 or later.
    pub version: TlsVersion,
    /// The cipher suite, by its name in the registry (RFC 8446 §B.4).
    pub suite: String,
    /// True if the client resumed an earlier session.
    pub resumed: bool,
    /// The name of the server that the client asked for (SNI, RFC 6066 §3), in small letters.
    pub server_name: Option<String>,
    /// The protocol that was chosen among those that the client offered (ALPN, RFC 7301).
    pub protocol: Option<Vec<u8>>,
    /// The certificates of the client, its own first; also those of the session it resumed.
    pub client_certificates: Vec<CertificateDer<'static>>,
}

/// True if a handshake resumed an earlier session.
pub(super) fn resumed(kind: Option<HandshakeKind>) -> bool {
    kind == Some(HandshakeKind::Resumed)
}

/// A connection under TLS. `Ok(0)` of a read is the peer's close_notify and nothing else; a bare
/// FIN is [`io::ErrorKind::UnexpectedEof`]. Shutting down sends close_notify and then FIN.
#[derive(Debug)]
pub struct TlsStream<S> {
    inner: Inner<Records<S>>,
    info: Box<TlsInfo>,
}

impl<S> TlsStream<S> {
    pub(super) fn new(inner: Inner<Records<S>>) -> Self {
        let connection = inner.get_ref().1;
        let is_new = connection.protocol_version() == Some(ProtocolVersion::TLSv1_3);
        let suite = connection.negotiated_cipher_suite().map(|suite| suite.suite());
        let certificates = connection.peer_certificates().unwrap_or_default();
        let info = TlsInfo {
            version: if is_new { TlsVersion::Tls13 } else { TlsVersion::Tls12 },
            suite: suite.and_then(|suite| suite.as_str()).unwrap_or_default().to_owned(),
            resumed: resumed(connection.handshake_kind()),
            server_name: connection.server_name().map(str::to_ascii_lowercase),
            protocol: connection.alpn_protocol().map(<[u8]>::to_vec),
            client_certificates: certificates.iter().map(|one| one.clone().into_owned()).collect(),
        };
        TlsStream { inner, info: Box::new(info) }
    }

    /// What was agreed on.
    pub fn info(&self) -> &TlsInfo {
        &self.info
    }

    /// Queues one more session ticket in front of what is written next. In TLS 1.3 many clients
    /// use a ticket once (RFC 8446 §C.4), so each connection that is to resume this session costs
    /// them one; in TLS 1.2 a session is resumed any number of times, and this does nothing.
    ///
    /// # Errors
    /// The connection has failed.
    pub fn send_ticket(&mut self) -> io::Result<()> {
        match self.info.version {
            TlsVersion::Tls12 => Ok(()),
            TlsVersion::Tls13 => {
                self.inner.get_mut().1.send_tls13_ticket().map_err(io::Error::other)
            }
        }
    }

    /// What it runs over.
    pub fn transport(&self) -> &S {
        self.inner.get_ref().0.io()
    }

    /// What it runs over, when it is over.
    pub fn into_transport(self) -> S {
        self.inner.into_inner().0.into_parts().0
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream<S> {
    /// Back to clear text (RFC 4217 §12.3): our close_notify, then the peer's. Answers with the
    /// stream beneath, and the clear text that the peer sent right behind its close_notify.
    ///
    /// # Errors
    /// The peer goes on under TLS, hangs up, or takes more than 10 s.
    pub async fn into_clear(mut self) -> io::Result<(S, Bytes)> {
        let closing = async {
            self.inner.get_mut().1.send_close_notify();
            self.inner.flush().await?;
            match self.read(&mut [0]).await? {
                0 => Ok(()),
                _ => Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "the client went on under TLS after it had asked for clear text",
                )),
            }
        };
        match tokio::time::timeout(CLOSE_NOTIFY_TIME, closing).await {
            Ok(closed) => closed?,
            Err(_) => {
                let late = "the client did not end TLS in time";
                return Err(io::Error::new(io::ErrorKind::TimedOut, late));
            }
        }
        Ok(self.inner.into_inner().0.into_parts())
    }

    /// True if the end of the stream that was read is the peer's close_notify.
    fn was_closed_by_peer(&mut self) -> bool {
        // The reader answers 0 at a close_notify, and with an error everywhere else.
        matches!(io::Read::read(&mut self.inner.get_mut().1.reader(), &mut [0]), Ok(0))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for TlsStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (before, room) = (out.filled().len(), out.remaining());
        ready!(Pin::new(&mut self.inner).poll_read(cx, out))?;
        if out.filled().len() == before && room > 0 && !self.was_closed_by_peer() {
            let cut = "the stream ended without close_notify";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::UnexpectedEof, cut)));
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for TlsStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, data)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
