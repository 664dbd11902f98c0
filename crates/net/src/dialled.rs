//! A connection that we made, in clear text or under TLS: the client's side of FTP, control and
//! data alike.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::socket::{self, PeerState};
use crate::tls::{ClientTlsStream, HandshakeError, ServerTls, TlsClient};

/// A connection that we made. `Ok(0)` of a read is the server's FIN in clear text, and under TLS
/// its close_notify and nothing else: a bare FIN there is [`io::ErrorKind::UnexpectedEof`].
#[derive(Debug)]
pub enum Dialled {
    /// In clear text.
    Clear(TcpStream),
    /// Under TLS, the certificate of the server checked.
    Tls(Box<ClientTlsStream>),
}

impl Dialled {
    /// Goes under TLS; answers also whether an earlier session was resumed.
    ///
    /// # Errors
    /// The handshake failed, the certificate is not trusted, or it is under TLS already.
    pub async fn start_tls(self, client: &TlsClient) -> Result<(Self, bool), HandshakeError> {
        match self {
            Dialled::Clear(stream) => {
                let (stream, resumed) = client.connect(stream).await?;
                Ok((Dialled::Tls(Box::new(stream)), resumed))
            }
            Dialled::Tls(_) => Err(io::Error::from(io::ErrorKind::AlreadyExists).into()),
        }
    }

    /// What was agreed on, under TLS.
    pub fn tls(&self) -> Option<ServerTls> {
        match self {
            Dialled::Clear(_) => None,
            Dialled::Tls(stream) => Some(ServerTls::of(stream.get_ref().1)),
        }
    }

    /// True if the server has not closed or reset it, as far as this machine knows. Needs no
    /// waiting and reads nothing.
    pub fn is_open(&self) -> bool {
        let socket = match self {
            Dialled::Clear(stream) => stream,
            Dialled::Tls(stream) => stream.get_ref().0,
        };
        socket::peer_state(socket) == PeerState::Open
    }
}

/// True if the end of the stream that was read is the peer's close_notify.
fn was_closed_by_peer(stream: &mut ClientTlsStream) -> bool {
    // The reader answers 0 at a close_notify, and with an error everywhere else.
    matches!(io::Read::read(&mut stream.get_mut().1.reader(), &mut [0]), Ok(0))
}

impl AsyncRead for Dialled {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (before, room) = (out.filled().len(), out.remaining());
        match &mut *self {
            Dialled::Clear(stream) => Pin::new(stream).poll_read(cx, out),
            Dialled::Tls(stream) => {
                ready!(Pin::new(&mut *stream).poll_read(cx, out))?;
                if out.filled().len() == before && room > 0 && !was_closed_by_peer(stream) {
                    let cut = "the stream ended without close_notify";
                    return Poll::Ready(Err(io::Error::new(io::ErrorKind::UnexpectedEof, cut)));
                }
                Poll::Ready(Ok(()))
            }
        }
    }
}

impl AsyncWrite for Dialled {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut *self {
            Dialled::Clear(stream) => Pin::new(stream).poll_write(cx, data),
            Dialled::Tls(stream) => Pin::new(stream).poll_write(cx, data),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Dialled::Clear(stream) => Pin::new(stream).poll_flush(cx),
            Dialled::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Dialled::Clear(stream) => Pin::new(stream).poll_shutdown(cx),
            Dialled::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
