//! The stream of one connection, in clear text or under TLS. Below it is the metered stream of the
//! session.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use entrepot_net::gather::Gathering;
use entrepot_net::meter::{SessionMeter, Stage};
use entrepot_net::metered::Metered;
use entrepot_net::tls::TlsStream;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::time::timeout;

use crate::activity::Activity;
use crate::heads::{HeadReader, KeptHeads};
use crate::limits::{REFUSED_BYTES, REFUSED_TIME, UNAUTHENTICATED_BYTES};

/// The metered stream below TLS.
pub(crate) type Socket = Metered<Gathering>;

/// What a connection is carried by.
#[derive(Debug)]
pub(crate) enum Transport {
    Clear(Socket),
    Tls(Box<TlsStream<Socket>>),
}

/// Reads nothing while the password of a client that has not signed in is checked, and fails when
/// such a client sends too much.
#[derive(Debug)]
pub(crate) struct GuardedStream {
    /// Gone only when it is dropped.
    transport: Option<Transport>,
    activity: Arc<Activity>,
    meter: Arc<SessionMeter>,
    remains: Remains,
    /// Of HTTP/1.1, where somebody wants heads as they came.
    heads: Option<HeadReader>,
}

/// The socket of a conversation that is over, where its stream has left it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Remains(Arc<Mutex<Option<Socket>>>);

impl Remains {
    /// Reads on for a while over what the client still sends. The kernel resets a connection that
    /// is closed over unread bytes, and then the client loses the reason that it was sent (RFC
    /// 9112 §9.6; it holds for the GOAWAY of HTTP/2 too).
    pub(crate) async fn read_on(self) {
        let Some(mut socket) = self.0.lock().take() else { return };
        let reading = async {
            // After an error of reading nobody has ended our side yet.
            socket.shutdown().await?;
            let mut unread = vec![0; 16 * 1024];
            let mut left = REFUSED_BYTES;
            while let Ok(count @ 1..) = socket.read(&mut unread).await
                && left > 0
            {
                left = left.saturating_sub(count as u64);
            }
            io::Result::Ok(())
        };
        let _ = timeout(REFUSED_TIME, reading).await;
    }
}

impl GuardedStream {
    pub(crate) fn new(
        transport: Transport,
        activity: Arc<Activity>,
        meter: Arc<SessionMeter>,
    ) -> GuardedStream {
        let remains = Remains::default();
        GuardedStream { transport: Some(transport), activity, meter, remains, heads: None }
    }

    /// With heads that are unfolded, and kept as they came.
    pub(crate) fn with_heads(mut self, kept: KeptHeads) -> GuardedStream {
        self.heads = Some(HeadReader::new(kept));
        self
    }

    /// Where the socket is when the stream has been dropped.
    pub(crate) fn remains(&self) -> Remains {
        self.remains.clone()
    }

    /// Reads once; how many bytes came, some of which may be held back until more come.
    fn poll_some(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<usize>> {
        let start = out.filled().len();
        let held = self.heads.as_ref().map(HeadReader::held).unwrap_or_default();
        if held.len() >= out.remaining() && !held.is_empty() {
            // There is no space to look further: the library reads what there is.
            let count = held.len().min(out.remaining());
            out.put_slice(held.get(..count).unwrap_or_default());
            self.heads = None;
            return Poll::Ready(Ok(count));
        }
        out.put_slice(held);
        let before = out.filled().len();
        let read = match self.transport() {
            Transport::Clear(stream) => Pin::new(stream).poll_read(cx, out),
            Transport::Tls(stream) => Pin::new(&mut **stream).poll_read(cx, out),
        };
        let came = out.filled().len().saturating_sub(before);
        let Some(heads) = &mut self.heads else { return read.map_ok(|()| came) };
        match read {
            Poll::Ready(Ok(())) if came > 0 => {
                let bytes = out.filled_mut().get_mut(start..).unwrap_or_default();
                let passed = heads.pass(bytes);
                out.set_filled(start + passed);
            }
            Poll::Ready(Ok(())) => heads.end(),
            Poll::Pending | Poll::Ready(Err(_)) => out.set_filled(start),
        }
        read.map_ok(|()| came)
    }

    fn transport(&mut self) -> &mut Transport {
        // The invariant: only `drop` takes it.
        self.transport.as_mut().expect("the stream has its transport")
    }
}

impl Drop for GuardedStream {
    fn drop(&mut self) {
        *self.remains.0.lock() = match self.transport.take() {
            Some(Transport::Clear(socket)) => Some(socket),
            Some(Transport::Tls(stream)) => Some(stream.into_transport()),
            None => None,
        };
    }
}

impl AsyncRead for GuardedStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let has_signed_in = this.meter.stage() == Stage::LoggedIn;
        if !has_signed_in {
            ready!(this.activity.poll_may_read(cx));
        }
        let before = out.filled().len();
        loop {
            let came = ready!(this.poll_some(cx, out))?;
            if came > 0 {
                this.activity.received();
            }
            // What is held back must not look like the end.
            if came == 0 || out.filled().len() > before {
                break;
            }
        }
        if !has_signed_in && this.meter.bytes_in() > UNAUTHENTICATED_BYTES {
            let many = "too many bytes before a sign-in";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, many)));
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for GuardedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.transport() {
            Transport::Clear(stream) => Pin::new(stream).poll_write(cx, data),
            Transport::Tls(stream) => Pin::new(&mut **stream).poll_write(cx, data),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.transport() {
            Transport::Clear(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Transport::Tls(stream) => Pin::new(&mut **stream).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.transport {
            Some(Transport::Clear(stream)) => stream.is_write_vectored(),
            Some(Transport::Tls(stream)) => stream.is_write_vectored(),
            None => false,
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.transport() {
            Transport::Clear(stream) => Pin::new(stream).poll_flush(cx),
            Transport::Tls(stream) => Pin::new(&mut **stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.transport() {
            Transport::Clear(stream) => Pin::new(stream).poll_shutdown(cx),
            Transport::Tls(stream) => Pin::new(&mut **stream).poll_shutdown(cx),
        }
    }
}
