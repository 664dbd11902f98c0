//! A connection that we accepted and that needs no meter: in clear text or under TLS. What was read
//! is acknowledged at once, for clients that hold back their next segment until then.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::acknowledging::Acknowledging;
use crate::tls::{HandshakeError, TlsServer, TlsStream};

/// An accepted connection. `Ok(0)` of a read is the client's FIN in clear text, and under TLS its
/// close_notify and nothing else.
#[derive(Debug)]
pub struct Accepted(Inner);

#[derive(Debug)]
enum Inner {
    Clear(Acknowledging),
    Tls(Box<TlsStream<Acknowledging>>),
}

impl Accepted {
    /// A connection of a listener, in clear text.
    pub fn new(stream: TcpStream) -> Self {
        Accepted(Inner::Clear(Acknowledging::new(stream)))
    }

    /// Goes under TLS.
    ///
    /// # Errors
    /// The handshake failed, or it is under TLS already.
    pub async fn start_tls(self, server: &TlsServer) -> Result<Self, HandshakeError> {
        match self.0 {
            Inner::Clear(stream) => {
                let stream = server.accept(stream).await?;
                Ok(Accepted(Inner::Tls(Box::new(stream))))
            }
            Inner::Tls(_) => Err(io::Error::from(io::ErrorKind::AlreadyExists).into()),
        }
    }
}

impl AsyncRead for Accepted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Inner::Clear(stream) => Pin::new(stream).poll_read(cx, out),
            Inner::Tls(stream) => Pin::new(stream).poll_read(cx, out),
        }
    }
}

impl AsyncWrite for Accepted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.0 {
            Inner::Clear(stream) => Pin::new(stream).poll_write(cx, data),
            Inner::Tls(stream) => Pin::new(stream).poll_write(cx, data),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Inner::Clear(stream) => Pin::new(stream).poll_flush(cx),
            Inner::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Inner::Clear(stream) => Pin::new(stream).poll_shutdown(cx),
            Inner::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
