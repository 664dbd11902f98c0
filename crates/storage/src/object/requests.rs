//! Requests to an object store within the limits of its endpoint: as many at a time as it may have
//! connections, and none that hangs. What is slow and moves may take as long as it needs.

use std::error::Error as _;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use entrepot_nouns::endpoint::ObjectRequests;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{DATE, HeaderMap, HeaderName, RETRY_AFTER};
use object_store::client::{
    HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse, HttpResponseBody,
};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;

use crate::limits::OBJECT_RETRY_AFTER;

/// The client of one store.
#[derive(Debug)]
pub(super) struct Requests {
    client: reqwest::Client,
    connect: Duration,
    answer: Duration,
    idle: Duration,
    /// Whether a request that fails is tried again.
    retried: bool,
    connections: Arc<Semaphore>,
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct RequestFailure(String);

impl Requests {
    /// Over `client`, which has the time limit of connecting.
    pub(super) fn new(client: reqwest::Client, requests: &ObjectRequests) -> Requests {
        Requests {
            client,
            connect: requests.connect_timeout().duration(),
            answer: requests.answer_timeout().duration(),
            idle: requests.idle_timeout().duration(),
            retried: requests.attempts() > 1,
            connections: Arc::new(Semaphore::new(requests.connections() as usize)),
        }
    }

    /// One try of a request. Its connection is counted until the answer was read or dropped.
    pub(super) async fn send(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let failed = |text: &str| HttpError::new(HttpErrorKind::Unknown, failure(text));
        let connection = Arc::clone(&self.connections).acquire_owned().await;
        let connection = connection.map_err(|_| failed("the store was closed"))?;
        let (parts, body) = request.into_parts();
        let url = parts.uri.to_string().parse().map_err(|_| failed("the address is no URL"))?;
        let mut request = reqwest::Request::new(parts.method, url);
        *request.headers_mut() = parts.headers;
        let progress = Arc::new(Progress::default());
        *request.body_mut() = Some(Outgoing::wrap(body, &progress));
        let answer: hyper::Response<reqwest::Body> = self.answer(request, &progress).await?.into();
        let (parts, body) = answer.into_parts();
        if self.retried && matches!(parts.status.as_u16(), 429 | 503) {
            // The client library makes its own pause behind this one.
            tokio::time::sleep(named_pause(&parts.headers)).await;
        }
        let body = Incoming { body, idle: self.idle, silence: None, _connection: connection };
        Ok(HttpResponse::from_parts(parts, HttpResponseBody::new(body)))
    }

    /// Waits until the answer begins.
    async fn answer(
        &self,
        request: reqwest::Request,
        progress: &Progress,
    ) -> Result<reqwest::Response, HttpError> {
        let mut answer = std::pin::pin!(self.client.execute(request));
        // Until a byte is asked for it is not known whether there is a connection yet.
        let mut more = self.connect;
        loop {
            let (limit, what) = if progress.is_sent() {
                (self.answer, "the store did not begin to answer within")
            } else {
                (self.idle, "the store took no byte of the request for")
            };
            tokio::select! {
                answer = &mut answer => return answer.map_err(http_error),
                () = progress.moved.notified() => more = Duration::ZERO,
                () = tokio::time::sleep(limit + more) => {
                    let why = failure(&format!("{what} {limit:?}"));
                    return Err(HttpError::new(HttpErrorKind::Timeout, why));
                }
            }
        }
    }
}

fn failure(text: &str) -> RequestFailure {
    RequestFailure(text.to_owned())
}

/// How far a request is.
#[derive(Debug, Default)]
struct Progress {
    sent: AtomicBool,
    moved: Notify,
}

impl Progress {
    fn is_sent(&self) -> bool {
        self.sent.load(Ordering::Acquire)
    }
}

/// The body of a request, as it is asked for by the connection.
struct Outgoing {
    body: HttpRequestBody,
    progress: Arc<Progress>,
}

impl Outgoing {
    fn wrap(body: HttpRequestBody, progress: &Arc<Progress>) -> reqwest::Body {
        if body.is_end_stream() {
            progress.sent.store(true, Ordering::Release);
            return Bytes::new().into();
        }
        reqwest::Body::wrap(Outgoing { body, progress: Arc::clone(progress) })
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if self.body.is_end_stream() {
            self.progress.sent.store(true, Ordering::Release);
        }
        self.progress.moved.notify_one();
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of an answer, which may not be silent for long.
struct Incoming {
    body: reqwest::Body,
    idle: Duration,
    silence: Option<Pin<Box<Sleep>>>,
    _connection: OwnedSemaphorePermit,
}

impl Body for Incoming {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let this = &mut *self;
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(context) {
            this.silence = None;
            return Poll::Ready(frame.map(|frame| frame.map_err(http_error)));
        }
        let idle = this.idle;
        let silence = this.silence.get_or_insert_with(|| Box::pin(tokio::time::sleep(idle)));
        silence.as_mut().poll(context).map(|()| {
            let why = failure(&format!("no byte of the answer came for {idle:?}"));
            Some(Err(HttpError::new(HttpErrorKind::Timeout, why)))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The error of the HTTP client, of the kind by which the client library decides whether the
/// request may be tried again. What it says is why, down to the last cause.
fn http_error(error: reqwest::Error) -> HttpError {
    let kind = kind(&error);
    let error = error.without_url();
    let (mut text, mut cause) = (error.to_string(), error.source());
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    HttpError::new(kind, RequestFailure(text))
}

fn kind(error: &reqwest::Error) -> HttpErrorKind {
    // First: a connection that took too long is both, and nothing was asked over it.
    if error.is_connect() {
        return HttpErrorKind::Connect;
    }
    if error.is_timeout() {
        return HttpErrorKind::Timeout;
    }
    if error.is_decode() {
        return HttpErrorKind::Decode;
    }
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<hyper::Error>()
            && (error.is_closed() || error.is_incomplete_message() || error.is_body_write_aborted())
        {
            return HttpErrorKind::Request;
        }
        if let Some(error) = error.downcast_ref::<std::io::Error>() {
            use std::io::ErrorKind;
            match error.kind() {
                ErrorKind::TimedOut => return HttpErrorKind::Timeout,
                ErrorKind::ConnectionAborted
                | ErrorKind::ConnectionReset
                | ErrorKind::BrokenPipe
                | ErrorKind::UnexpectedEof => return HttpErrorKind::Interrupted,
                _ => {}
            }
        }
        cause = error.source();
    }
    HttpErrorKind::Unknown
}

/// The pause that a server asks for (`Retry-After`, RFC 9110 §10.2.3), up to the longest one.
fn named_pause(headers: &HeaderMap) -> Duration {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let instant = |text: &str| httpdate::parse_http_date(text).ok();
    let Some(named) = text(RETRY_AFTER) else { return Duration::ZERO };
    let pause = match named.parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        // By the server's own clock.
        Err(_) => instant(named)
            .zip(text(DATE).and_then(instant))
            .and_then(|(then, now)| then.duration_since(now).ok()),
    };
    pause.unwrap_or_default().min(OBJECT_RETRY_AFTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_names_a_pause_in_seconds_or_as_a_date() {
        let date = "Wed, 21 Oct 2015 07:28:00 GMT";
        for (named, now, seconds) in [
            ("7", None, 7),
            ("0", None, 0),
            ("86400", None, 60),
            ("99999999999999999999", None, 0),
            ("-1", None, 0),
            ("Wed, 21 Oct 2015 07:28:09 GMT", Some(date), 9),
            ("Wed, 21 Oct 2015 07:27:00 GMT", Some(date), 0),
            ("Wed, 21 Oct 2015 07:28:09 GMT", None, 0),
            ("soon", Some(date), 0),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, named.parse().unwrap());
            headers.extend(now.map(|now| (DATE, now.parse().unwrap())));
            assert_eq!(named_pause(&headers), Duration::from_secs(seconds), "{named}");
        }
        assert_eq!(named_pause(&HeaderMap::new()), Duration::ZERO);
    }
}
