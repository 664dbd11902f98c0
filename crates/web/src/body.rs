//! Bodies of requests and of answers, with what must happen when they end.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body as AxumBody;
use axum::http::Extensions;
use bytes::Bytes;
use entrepot_net::meter::WaitedFor;
use entrepot_nouns::Env;
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::{Sleep, sleep, timeout};

use crate::activity::RunningRequest;
use crate::limits::{REFUSED_BYTES, REFUSED_TIME};
use crate::shared::CountedRequest;
use crate::tasks::ConnectionTasks;

/// The body of a request. If it is dropped before its end, some of the rest is read and thrown
/// away: a client that is still sending would not read why it was refused. Of HTTP/1.1 it would
/// take a closed connection for a broken one. Of HTTP/2 the stream may be reset behind the answer
/// (RFC 9113 §8.1), but clients lose an answer that comes together with its reset (curl 7.88).
pub(crate) struct RequestBody {
    /// `None` only while it is dropped.
    inner: Option<Incoming>,
    rest: Rest,
    tasks: ConnectionTasks,
    pace: Option<Pace>,
}

/// How fast a body must come.
#[derive(Clone, Copy)]
pub(crate) struct LeastRate {
    pub(crate) bytes_per_second: u32,
    /// Over how long it is looked at.
    pub(crate) window: Duration,
}

/// Set when a body came more slowly than it must.
pub(crate) type TooSlow = Arc<AtomicBool>;

/// How fast a body comes. Only time counts that was spent waiting for the client.
struct Pace {
    env: Env,
    least: LeastRate,
    too_slow: TooSlow,
    bytes: u64,
    waited: Duration,
    /// While the client is waited for: since when, and until when it may be.
    waiting: Option<Waiting>,
}

struct Waiting {
    /// When it began, of [`Env::elapsed`].
    since: Duration,
    timer: Pin<Box<Sleep>>,
}

/// The body of a request broke off, or came too slowly.
#[derive(Debug)]
pub(crate) enum BodyError {
    Broken(hyper::Error),
    TooSlow,
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BodyError::Broken(error) => error.fmt(f),
            BodyError::TooSlow => f.write_str("it came too slowly"),
        }
    }
}

impl std::error::Error for BodyError {}

impl Pace {
    fn new(least: LeastRate, env: Env, too_slow: TooSlow) -> Pace {
        Pace { env, least, too_slow, bytes: 0, waited: Duration::ZERO, waiting: None }
    }

    /// The client has sent something, or the end.
    fn came(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes as u64);
        if let Some(waiting) = self.waiting.take() {
            self.waited += self.env.elapsed().saturating_sub(waiting.since);
        }
        if self.waited >= self.least.window && self.is_fast() {
            (self.bytes, self.waited) = (0, Duration::ZERO);
        }
    }

    fn is_fast(&self) -> bool {
        let millis = u64::try_from(self.waited.as_millis()).unwrap_or(u64::MAX);
        let least = u64::from(self.least.bytes_per_second).saturating_mul(millis) / 1_000;
        self.bytes >= least
    }

    /// Nothing is there yet: ready when the client has been waited for too long.
    fn poll_too_slow(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let left = self.least.window.saturating_sub(self.waited);
        let waiting = self.waiting.get_or_insert_with(|| Waiting {
            since: self.env.elapsed(),
            timer: Box::pin(sleep(left)),
        });
        ready!(waiting.timer.as_mut().poll(cx));
        self.came(0);
        if self.waited < self.least.window {
            // It was fast enough in this window: the next one begins.
            return self.poll_too_slow(cx);
        }
        self.too_slow.store(true, Ordering::Relaxed);
        Poll::Ready(())
    }
}

/// What becomes of the rest of a body that is dropped.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rest {
    /// It is read for a while.
    Read,
    /// The client has sent nothing: it asked first whether it may (`Expect: 100-continue`).
    Unsent,
    /// There is none, or it is of no interest.
    Dropped,
}

impl RequestBody {
    pub(crate) fn new(inner: Incoming, rest: Rest, tasks: ConnectionTasks) -> RequestBody {
        RequestBody { inner: Some(inner), rest, tasks, pace: None }
    }

    /// It must come at this rate, else it breaks off, and what is given back is set.
    pub(crate) fn hold_to(&mut self, least: LeastRate, env: &Env) -> Option<TooSlow> {
        if least.bytes_per_second == 0 || self.is_end_stream() {
            return None;
        }
        let too_slow = TooSlow::default();
        self.pace = Some(Pace::new(least, env.clone(), too_slow.clone()));
        Some(too_slow)
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let Some(inner) = &mut self.inner else { return Poll::Ready(None) };
        let frame = Pin::new(inner).poll_frame(cx);
        self.rest = match (&frame, self.rest) {
            (Poll::Ready(None | Some(Err(_))), _) => Rest::Dropped,
            // To be read is the permission to send.
            (_, Rest::Unsent) => Rest::Read,
            (_, rest) => rest,
        };
        match (&frame, &mut self.pace) {
            (Poll::Ready(Some(Ok(frame))), Some(pace)) => {
                pace.came(frame.data_ref().map_or(0, Bytes::len));
            }
            (Poll::Pending, Some(pace)) => {
                ready!(pace.poll_too_slow(cx));
                // What a slow client goes on sending is not waited for.
                self.rest = Rest::Dropped;
                return Poll::Ready(Some(Err(BodyError::TooSlow)));
            }
            _ => {}
        }
        frame.map_err(BodyError::Broken)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.as_ref().map(Body::size_hint).unwrap_or_default()
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        if let Some(mut inner) = self.inner.take()
            && self.rest == Rest::Read
            && !inner.is_end_stream()
        {
            self.tasks.spawn(async move {
                // Whether the client has read the answer by then is its matter.
                let _ = timeout(REFUSED_TIME, throw_away(&mut inner)).await;
            });
        }
    }
}

async fn throw_away(body: &mut Incoming) {
    let mut left = REFUSED_BYTES;
    while let Some(Ok(frame)) = body.frame().await {
        let count = frame.data_ref().map_or(0, Bytes::len) as u64;
        let Some(rest) = left.checked_sub(count) else { return };
        left = rest;
    }
}

/// What a request holds until its answer has been sent.
pub(crate) struct RequestGuard {
    pub(crate) running: RunningRequest,
    pub(crate) _counted: Option<CountedRequest>,
    /// A draining server waits for it.
    pub(crate) _waited_for: Option<WaitedFor>,
}

/// Marks an answer that ends only when somebody ends it: it counts among the requests that are
/// worked on until its head is sent, and a server that drains does not wait for it.
#[derive(Clone, Copy)]
pub(crate) struct EndlessAnswer;

impl RequestGuard {
    /// What a request holds whose answer has this head.
    #[must_use]
    pub(crate) fn for_answer(self, extensions: &Extensions) -> RequestGuard {
        if extensions.get::<EndlessAnswer>().is_none() {
            return self;
        }
        RequestGuard { running: self.running, _counted: None, _waited_for: None }
    }
}

/// The body of an answer, which notes when the client takes something of it.
pub(crate) struct AnswerBody {
    inner: AxumBody,
    guard: RequestGuard,
}

impl AnswerBody {
    pub(crate) fn new(inner: AxumBody, guard: RequestGuard) -> AnswerBody {
        AnswerBody { inner, guard }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.guard.running.taken();
        let frame = Pin::new(&mut self.inner).poll_frame(cx);
        if frame.is_pending() {
            self.guard.running.waits_for_us();
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[tokio::test]
    async fn a_body_that_comes_more_slowly_than_it_must_breaks_off() {
        let least = LeastRate { bytes_per_second: 1_000, window: Duration::from_millis(20) };
        let too_slow = TooSlow::default();
        let mut pace = Pace::new(least, Env::real(), too_slow.clone());
        // Enough for two windows: the third one has nothing.
        pace.came(10_000_000);
        poll_fn(|cx| pace.poll_too_slow(cx)).await;
        assert!(too_slow.load(Ordering::Relaxed));
        assert_eq!(pace.bytes, 0, "what came in an earlier window does not count");
        assert!(pace.waited >= least.window);
    }
}
