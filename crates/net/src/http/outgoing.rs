//! What requests carry: bytes that are there, or bytes that are made while they are sent.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use hyper::body::{Body, Frame, SizeHint};
use thiserror::Error;
use tokio::sync::mpsc;

/// A body that is made while it is sent. It has a length from the start: a request whose
/// [`BodyWriter`] is dropped before all of it was written is cut off, which its server sees.
pub struct StreamedBody {
    parts: mpsc::Receiver<Bytes>,
    left: u64,
}

/// Where the bytes of a [`StreamedBody`] are written.
pub struct BodyWriter(mpsc::Sender<Bytes>);

/// The request takes no more bytes: it was answered, or its connection broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the request takes no more bytes")]
pub struct NotTaken;

/// A body of `length` bytes, and where they are written.
pub fn streamed(length: u64) -> (BodyWriter, StreamedBody) {
    let (sender, parts) = mpsc::channel(1);
    (BodyWriter(sender), StreamedBody { parts, left: length })
}

impl BodyWriter {
    /// Writes the next bytes; waits while earlier ones are on their way.
    ///
    /// # Errors
    /// The request takes no more.
    pub async fn write(&mut self, bytes: Bytes) -> Result<(), NotTaken> {
        self.0.send(bytes).await.map_err(|_| NotTaken)
    }
}

/// The body was not written as long as was said.
#[derive(Debug, Error)]
#[error("the body of the request was given up")]
pub(super) struct GivenUp;

/// The body of a message on its way.
pub(super) enum Outgoing {
    Whole(Bytes),
    Streamed(StreamedBody),
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = GivenUp;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, GivenUp>>> {
        match self.get_mut() {
            Outgoing::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Outgoing::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Outgoing::Streamed(body) if body.left == 0 => Poll::Ready(None),
            Outgoing::Streamed(body) => {
                let part = ready!(body.parts.poll_recv(cx));
                let left = part
                    .as_ref()
                    .and_then(|part| body.left.checked_sub(u64::try_from(part.remaining()).ok()?));
                let (Some(part), Some(left)) = (part, left) else {
                    return Poll::Ready(Some(Err(GivenUp)));
                };
                body.left = left;
                Poll::Ready(Some(Ok(Frame::data(part))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.size_hint().exact() == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(match self {
            Outgoing::Whole(bytes) => bytes.len() as u64,
            Outgoing::Streamed(body) => body.left,
        })
    }
}
