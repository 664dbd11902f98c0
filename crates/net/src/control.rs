//! Control connections of FTP: accepted, guarded until login, in clear text or under TLS.
//!
//! What it guarantees:
//! 1. After [`Control::start_tls`] nothing that came in clear text is ever read: what was read
//!    ahead is dropped, and what is in the kernel is no TLS and fails the handshake
//!    (CVE-2011-1575).
//! 2. A control connection waits for no throttle: ABOR is heard in the slowest transfer.
//! 3. Whoever does not log in in time, or must go, is told by [`SessionMeter::end`] and cut half a
//!    second later ([`ControlProtocol`]).

mod server;

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::acknowledging::Acknowledging;
use crate::limits::UNAUTHENTICATED_BYTES;
use crate::meter::{SessionMeter, Stage, StreamWakers, cut};
use crate::socket;
use crate::tls::{HandshakeError, TlsInfo, TlsSession, TlsStream};

pub use crate::socket::PeerState;
pub use server::{ControlGuest, ControlOptions, ControlProtocol, ControlSessions, ControlTls};

/// A control connection. Between reading a command and answering it, nothing is read by itself;
/// so whoever answers AUTH must not read between the command and [`Control::start_tls`].
#[derive(Debug)]
pub struct Control {
    transport: ControlTransport,
    /// Clear text that came right behind the end of TLS.
    ahead: Bytes,
    meter: Arc<SessionMeter>,
    ends: ControlEnds,
}

/// The two ends of a control connection.
#[derive(Clone, Copy, Debug)]
struct ControlEnds {
    /// The client, also behind a balancer.
    peer: SocketAddr,
    local: SocketAddr,
}

#[derive(Debug)]
enum ControlTransport {
    Clear(Counted),
    Tls(Box<TlsStream<Counted>>),
    /// A change to or from TLS failed.
    Gone,
}

impl Control {
    /// Takes a connection that was accepted by a socket of [`ControlProtocol`]: without Nagle's
    /// delay, and urgent bytes are read in line.
    fn new(stream: TcpStream, ends: ControlEnds, meter: Arc<SessionMeter>) -> Control {
        let inner = Acknowledging::new(stream);
        let wakers = meter.stream();
        let counted = Counted {
            inner,
            meter: Arc::clone(&meter),
            wakers,
            has_written: false,
            within_line: false,
        };
        let transport = ControlTransport::Clear(counted);
        Control { transport, ahead: Bytes::new(), meter, ends }
    }

    /// Where the client is.
    pub fn peer(&self) -> SocketAddr {
        self.ends.peer
    }

    /// Where it reached us: data connections come here, and go out from here.
    pub fn local(&self) -> SocketAddr {
        self.ends.local
    }

    /// The meter of the session.
    pub fn meter(&self) -> &Arc<SessionMeter> {
        &self.meter
    }

    /// What was agreed on, under TLS.
    pub fn tls_info(&self) -> Option<&TlsInfo> {
        match &self.transport {
            ControlTransport::Tls(stream) => Some(stream.info()),
            ControlTransport::Clear(_) | ControlTransport::Gone => None,
        }
    }

    /// Goes under TLS, as soon as 234 has been written (RFC 4217 §4) or at once (implicit TLS).
    /// What the caller itself has read ahead, it must forget.
    ///
    /// # Errors
    /// The handshake failed, or it is under TLS already; then the connection is of no use.
    pub async fn start_tls(&mut self, session: &TlsSession) -> Result<(), HandshakeError> {
        self.ahead = Bytes::new();
        match std::mem::replace(&mut self.transport, ControlTransport::Gone) {
            ControlTransport::Clear(stream) => {
                self.transport =
                    ControlTransport::Tls(Box::new(session.accept_control(stream).await?));
                self.meter.advance(Stage::Encrypted);
                Ok(())
            }
            ControlTransport::Tls(_) | ControlTransport::Gone => Err(gone().into()),
        }
    }

    /// Goes back to clear text (CCC, RFC 4217 §6; REIN, §13), as soon as the answer has been
    /// written. Clear text right behind the client's close_notify is kept to be read.
    ///
    /// # Errors
    /// The client does not end TLS, or it is not under TLS; then the connection is of no use.
    pub async fn stop_tls(&mut self) -> io::Result<()> {
        match std::mem::replace(&mut self.transport, ControlTransport::Gone) {
            ControlTransport::Tls(stream) => {
                let (stream, ahead) = stream.into_clear().await?;
                (self.transport, self.ahead) = (ControlTransport::Clear(stream), ahead);
                Ok(())
            }
            ControlTransport::Clear(_) | ControlTransport::Gone => Err(gone()),
        }
    }

    /// Queues a session ticket for one more data connection in front of what is written next, where
    /// that means something.
    ///
    /// # Errors
    /// TLS on the control connection has failed.
    pub fn send_ticket(&mut self) -> io::Result<()> {
        match &mut self.transport {
            ControlTransport::Tls(stream) => stream.send_ticket(),
            ControlTransport::Clear(_) | ControlTransport::Gone => Ok(()),
        }
    }

    /// How the client stands right now, without reading or waiting. To be asked at the end of an
    /// upload in clear text, which has no sign of its own that it is whole: a program that is
    /// killed closes its control connection before its data connection.
    pub fn peer_state(&self) -> PeerState {
        match &self.transport {
            ControlTransport::Clear(stream) => socket::peer_state(&stream.inner),
            ControlTransport::Tls(stream) => socket::peer_state(&stream.transport().inner),
            ControlTransport::Gone => PeerState::Closed,
        }
    }
}

fn gone() -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, "the control connection is of no use any more")
}

impl AsyncRead for Control {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if !this.ahead.is_empty() {
            let count = this.ahead.len().min(out.remaining());
            out.put_slice(&this.ahead.split_to(count));
            return Poll::Ready(Ok(()));
        }
        match &mut this.transport {
            ControlTransport::Clear(stream) => Pin::new(stream).poll_read(cx, out),
            ControlTransport::Tls(stream) => Pin::new(stream).poll_read(cx, out),
            ControlTransport::Gone => Poll::Ready(Err(gone())),
        }
    }
}

impl AsyncWrite for Control {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.transport {
            ControlTransport::Clear(stream) => Pin::new(stream).poll_write(cx, data),
            ControlTransport::Tls(stream) => Pin::new(stream).poll_write(cx, data),
            ControlTransport::Gone => Poll::Ready(Err(gone())),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.transport {
            ControlTransport::Clear(stream) => Pin::new(stream).poll_flush(cx),
            ControlTransport::Tls(stream) => Pin::new(stream).poll_flush(cx),
            ControlTransport::Gone => Poll::Ready(Err(gone())),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.transport {
            ControlTransport::Clear(stream) => Pin::new(stream).poll_shutdown(cx),
            ControlTransport::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
            ControlTransport::Gone => Poll::Ready(Ok(())),
        }
    }
}

/// Counts both directions, and fails when the session is cut or a client sends too much before it
/// has logged in.
#[derive(Debug)]
struct Counted {
    inner: Acknowledging,
    meter: Arc<SessionMeter>,
    wakers: Arc<StreamWakers>,
    /// Until then the runtime does not know yet whether the socket takes anything, and it does.
    has_written: bool,
    /// The last read ended within a line: an urgent byte ends a read, and what lies behind it is
    /// there although the runtime takes a short read for all there was (ftplib sends `ABOR` so).
    within_line: bool,
}

impl Counted {
    fn or_cut<T>(&self, pending: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if pending.is_pending() && self.meter.is_cut() { Poll::Ready(Err(cut())) } else { pending }
    }

    fn poll_write_socket(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        if !std::mem::replace(&mut self.has_written, true)
            && let Some(count) = socket::write_now(&self.inner, data)?
        {
            return Poll::Ready(Ok(count));
        }
        Pin::new(&mut self.inner).poll_write(cx, data)
    }

    fn poll_socket(&mut self, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if std::mem::take(&mut self.within_line) {
            match socket::read_now(&self.inner, out.initialize_unfilled()) {
                Ok(Some(count)) => {
                    out.advance(count);
                    self.inner.note_read(count);
                    return Poll::Ready(Ok(()));
                }
                Ok(None) => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Pin::new(&mut self.inner).poll_read(cx, out)
    }
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.meter.is_cut() {
            return Poll::Ready(Err(cut()));
        }
        let before = out.filled().len();
        let read = self.poll_socket(cx, out);
        if read.is_pending() {
            self.wakers.reader.register(cx.waker());
            return self.or_cut(read);
        }
        ready!(read)?;
        let came = out.filled().get(before..).unwrap_or_default();
        self.within_line = came.last().is_some_and(|last| *last != b'\n');
        let received = self.meter.received(came.len());
        if received > UNAUTHENTICATED_BYTES && self.meter.stage() < Stage::LoggedIn {
            let many = "too many bytes before login";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, many)));
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.meter.is_cut() {
            return Poll::Ready(Err(cut()));
        }
        let written = self.poll_write_socket(cx, data);
        if written.is_pending() {
            self.wakers.writer.register(cx.waker());
            return self.or_cut(written);
        }
        let count = ready!(written)?;
        self.meter.sent(count);
        Poll::Ready(Ok(count))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
