//! A data connection, in clear text or under TLS.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;

use super::DataSocket;
use super::buffer::UploadBuffer;
use super::lazy::LazySocket;
use super::linger::Lingerer;
use super::send_file::FileRange;
use crate::gather::Gathering;
use crate::meter::SessionMeter;
use crate::metered::Metered;
use crate::tls::{TlsInfo, TlsStream};

/// A data connection: metered and throttled as its session is.
#[derive(Debug)]
pub struct DataStream {
    transport: DataTransport,
    peer: SocketAddr,
    /// Why reading failed. The kernel tells a reset once, and then an end as of a whole file.
    failed: Option<io::ErrorKind>,
}

#[derive(Debug)]
enum DataTransport {
    Clear(DataSocket),
    Tls(Box<TlsStream<DataSocket>>),
}

impl DataStream {
    /// A connection in clear text, for PROT C.
    pub fn clear(stream: TcpStream, peer: SocketAddr, meter: &Arc<SessionMeter>) -> Self {
        DataStream::over(stream.into(), peer, meter)
    }

    /// A connection in clear text that the runtime need not watch yet.
    pub(super) fn over(stream: LazySocket, peer: SocketAddr, meter: &Arc<SessionMeter>) -> Self {
        let stream = Metered::new(Gathering::one_way(stream), Arc::clone(meter));
        DataStream { transport: DataTransport::Clear(stream), peer, failed: None }
    }

    /// A connection whose TLS handshake is done, for PROT P.
    pub(super) fn tls(stream: TlsStream<DataSocket>, peer: SocketAddr) -> Self {
        DataStream { transport: DataTransport::Tls(Box::new(stream)), peer, failed: None }
    }

    /// Where the client is.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// What was agreed on, under TLS.
    pub fn tls_info(&self) -> Option<&TlsInfo> {
        match &self.transport {
            DataTransport::Clear(_) => None,
            DataTransport::Tls(stream) => Some(stream.info()),
        }
    }

    /// True if [`DataStream::send_file`] works.
    pub fn can_send_file(&self) -> bool {
        matches!(self.transport, DataTransport::Clear(_))
    }

    /// Sends one step of a file by sendfile(2): at most 1 MiB, and what the throttles let pass.
    /// Answers how much; 0: nothing is left. May be dropped while it waits, nothing is lost. To be
    /// called in a loop with a limit on each step: a peer that takes nothing holds it up.
    ///
    /// # Errors
    /// The connection is broken or cut, the file is shorter than the range, or this is TLS.
    pub async fn send_file(&mut self, range: &mut FileRange) -> io::Result<usize> {
        match &mut self.transport {
            DataTransport::Clear(stream) => {
                let sent = stream.send_step(range).await?;
                // sendfile costs no budget of the runtime: others have their turn between steps.
                if range.left() > 0 {
                    tokio::task::yield_now().await;
                }
                Ok(sent)
            }
            DataTransport::Tls(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Takes what has come into `buffer`; 0 is the end: under TLS the peer's close_notify, in
    /// clear text its FIN. Waits for the first byte only, then takes what is there. An error
    /// behind some bytes comes with the next call.
    ///
    /// # Errors
    /// The connection is broken or cut; under TLS, it ended without close_notify
    /// ([`io::ErrorKind::UnexpectedEof`]).
    pub async fn receive(&mut self, buffer: &mut UploadBuffer) -> io::Result<usize> {
        buffer.fill(self).await
    }

    /// The end of a download: close_notify, FIN; then the client may be told, and the rest happens
    /// in the background. Under TLS it waits until the socket has taken everything: to be limited
    /// as a step is.
    ///
    /// # Errors
    /// What was written before cannot be sent.
    pub async fn finish_download(mut self, lingerer: &Lingerer) -> io::Result<()> {
        self.shutdown().await?;
        if let DataTransport::Clear(stream) = self.transport {
            lingerer.take(stream.into_inner().into_inner());
        } else if let DataTransport::Tls(stream) = self.transport {
            lingerer.take(stream.into_transport().into_inner().into_inner());
        }
        Ok(())
    }

    /// The end of an upload that was read to its end: answers with our close_notify and FIN.
    ///
    /// # Errors
    /// The peer is gone; the upload is whole all the same.
    pub async fn finish_upload(mut self) -> io::Result<()> {
        match self.transport {
            // With nothing unread, closing is a FIN.
            DataTransport::Clear(_) => Ok(()),
            DataTransport::Tls(_) => self.shutdown().await,
        }
    }

    /// Ends the connection at once, so that the peer sees that it was cut.
    pub fn reset(self) {
        self.socket().reset_when_closed();
    }

    pub(super) fn socket(&self) -> &LazySocket {
        match &self.transport {
            DataTransport::Clear(stream) => stream.get_ref().get_ref(),
            DataTransport::Tls(stream) => stream.transport().get_ref().get_ref(),
        }
    }
}

impl AsFd for DataStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket().as_fd()
    }
}

impl AsyncRead for DataStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(kind) = self.failed {
            return Poll::Ready(Err(kind.into()));
        }
        let read = match &mut self.transport {
            DataTransport::Clear(stream) => Pin::new(stream).poll_read(cx, out),
            DataTransport::Tls(stream) => Pin::new(stream).poll_read(cx, out),
        };
        if let Poll::Ready(Err(error)) = &read {
            self.failed = Some(error.kind());
        }
        read
    }
}

impl AsyncWrite for DataStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.transport {
            DataTransport::Clear(stream) => Pin::new(stream).poll_write(cx, data),
            DataTransport::Tls(stream) => Pin::new(stream).poll_write(cx, data),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.transport {
            DataTransport::Clear(stream) => Pin::new(stream).poll_flush(cx),
            DataTransport::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.transport {
            DataTransport::Clear(stream) => Pin::new(stream).poll_shutdown(cx),
            DataTransport::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
