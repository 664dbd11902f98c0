//! The body of a request: a pattern, again and again.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

use crate::limits::BODY_PIECE_BYTES;

/// So many bytes of an endless pattern; or fewer than were announced, and then a broken connection.
pub(crate) struct Content {
    pattern: Bytes,
    /// Where in the endless pattern it goes on.
    at: u64,
    /// Bytes that are still sent.
    left: u64,
    /// Bytes that are announced besides and never come.
    missing: u64,
}

/// The connection is to break here.
#[derive(Debug)]
pub(crate) struct CutOff;

impl std::error::Error for CutOff {}

impl fmt::Display for CutOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the request was cut off, as it should be")
    }
}

impl Content {
    pub(crate) fn none() -> Content {
        Content { pattern: Bytes::new(), at: 0, left: 0, missing: 0 }
    }

    /// The bytes from `at` to `end` of the endless pattern.
    pub(crate) fn range(pattern: &Bytes, at: u64, end: u64) -> Content {
        Content { pattern: pattern.clone(), at, left: end.saturating_sub(at), missing: 0 }
    }

    /// Breaks the connection at `cut`, before the announced end.
    pub(crate) fn cut_at(mut self, cut: u64) -> Content {
        let sent = self.left.min(cut.saturating_sub(self.at));
        self.missing = self.left.saturating_sub(sent);
        self.left = sent;
        self
    }

    /// Bytes that are announced.
    pub(crate) fn length(&self) -> u64 {
        self.left.saturating_add(self.missing)
    }
}

impl Body for Content {
    type Data = Bytes;
    type Error = CutOff;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, CutOff>>> {
        let length = self.pattern.len();
        if self.left == 0 || length == 0 {
            return Poll::Ready((self.missing > 0).then_some(Err(CutOff)));
        }
        let from = usize::try_from(self.at % length as u64).unwrap_or(0);
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(BODY_PIECE_BYTES);
        let piece = self.pattern.slice(from..length.min(from.saturating_add(most)));
        self.at = self.at.saturating_add(piece.len() as u64);
        self.left = self.left.saturating_sub(piece.len() as u64);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.length() == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.length())
    }
}
