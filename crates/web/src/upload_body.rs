//! The body of a request that uploads, gathered into batches.

use std::io;

use axum::body::Body;
use axum::http::StatusCode;
use bytes::{Bytes, BytesMut};
use futures_util::future::{BoxFuture, Fuse};
use futures_util::{FutureExt as _, Stream, stream};
use http_body_util::BodyExt as _;
use tokio::time::{Duration, timeout};

use crate::limits::BATCH_BYTES;
use crate::login::SignedIn;
use crate::problem::Problem;

/// The body of an upload, which must not pause for too long, nor go on when its session may not.
pub(crate) struct UploadBody {
    body: Body,
    /// What has come and did not fit into the last batch.
    rest: Bytes,
    /// Completes when the account may not go on.
    ended: Fuse<BoxFuture<'static, ()>>,
    /// Completes when the client has come back by another request.
    displaced: Fuse<BoxFuture<'static, ()>>,
    patience: Duration,
}

impl UploadBody {
    /// Of an account that has signed in. `patience` is how long nothing may come.
    pub(crate) fn new(body: Body, signed_in: SignedIn, patience: Duration) -> UploadBody {
        let ended = async move { signed_in.ended().await };
        UploadBody::until(Box::pin(ended), body, patience)
    }

    /// Of somebody who has not signed in, or not yet.
    pub(crate) fn of_anybody(body: Body, patience: Duration) -> UploadBody {
        UploadBody::until(Box::pin(std::future::pending()), body, patience)
    }

    /// It is of this account from now on.
    pub(crate) fn is_of(&mut self, signed_in: SignedIn) {
        let ended: BoxFuture<'static, ()> = Box::pin(async move { signed_in.ended().await });
        self.ended = ended.fuse();
    }

    /// The first of it, as much as is `enough` or all of it; it comes once more by [`Self::next`].
    pub(crate) async fn beginning(
        &mut self,
        enough: impl Fn(&[u8]) -> bool,
    ) -> Result<Bytes, Problem> {
        let mut beginning = BytesMut::new();
        while !enough(&beginning) {
            let Some(bytes) = self.next().await? else { break };
            beginning.extend_from_slice(&bytes);
        }
        self.rest = beginning.freeze();
        Ok(self.rest.clone())
    }

    /// Of an account that may go on until `ended` completes.
    pub(crate) fn until(
        ended: BoxFuture<'static, ()>,
        body: Body,
        patience: Duration,
    ) -> UploadBody {
        let displaced: BoxFuture<'static, ()> = Box::pin(std::future::pending());
        let (ended, displaced) = (ended.fuse(), displaced.fuse());
        UploadBody { body, rest: Bytes::new(), ended, displaced, patience }
    }

    /// Gives up when this completes: the client has come back by another request.
    pub(crate) fn stop_with(&mut self, displaced: BoxFuture<'static, ()>) {
        self.displaced = displaced.fuse();
    }

    /// Adds what comes until the batch is full or the body ends; it is empty only then. A batch is
    /// never larger than that, for it would be copied to grow.
    pub(crate) async fn fill(&mut self, batch: &mut BytesMut) -> Result<(), Problem> {
        while batch.len() < BATCH_BYTES {
            let Some(mut bytes) = self.next().await? else { break };
            let room = BATCH_BYTES.saturating_sub(batch.len());
            let fitting = bytes.split_to(room.min(bytes.len()));
            batch.extend_from_slice(&fitting);
            self.rest = bytes;
        }
        Ok(())
    }

    /// All of a short body.
    ///
    /// # Errors
    /// It has more than `most` bytes, or breaks off.
    pub(crate) async fn whole(&mut self, most: usize) -> Result<BytesMut, Problem> {
        let mut whole = BytesMut::new();
        while let Some(bytes) = self.next().await? {
            if whole.len().saturating_add(bytes.len()) > most {
                let why = format!("the document has more than {most} bytes");
                return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "EP1013", why));
            }
            whole.extend_from_slice(&bytes);
        }
        Ok(whole)
    }

    /// For what reads forms. The end follows a moment behind the last bytes: multer 3.1 looks twice
    /// for the beginning of a form, and takes one that comes with its end between the two looks
    /// for one that broke off.
    pub(crate) fn into_stream(self) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
        stream::try_unfold(self, |mut body| async move {
            let next = body.next().await.map_err(|problem| io::Error::other(problem.detail))?;
            if next.is_none() {
                tokio::task::yield_now().await;
            }
            Ok(next.map(|bytes| (bytes, body)))
        })
    }

    /// What comes next; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Problem> {
        if !self.rest.is_empty() {
            return Ok(Some(std::mem::take(&mut self.rest)));
        }
        loop {
            let frame = tokio::select! {
                frame = timeout(self.patience, self.body.frame()) => frame,
                () = &mut self.displaced => {
                    let why = "another request of its owner continues this upload";
                    return Err(Problem::new(StatusCode::LOCKED, "EP1081", why));
                }
                () = &mut self.ended => {
                    let why = "the account may not go on; nothing was published";
                    return Err(Problem::new(StatusCode::UNAUTHORIZED, "EP1001", why));
                }
            };
            match frame {
                Ok(None) => return Ok(None),
                Ok(Some(Ok(frame))) => match frame.into_data() {
                    Ok(bytes) => return Ok(Some(bytes)),
                    // Trailers, which say nothing here.
                    Err(_) => continue,
                },
                Ok(Some(Err(error))) => {
                    let why = format!("the body broke off ({error}); nothing was published");
                    return Err(Problem::malformed(why));
                }
                Err(_) => {
                    let why = "nothing more of the body came in time; nothing was published";
                    return Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "EP1007", why));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use multer::Multipart;

    use super::*;

    #[tokio::test]
    async fn a_form_that_comes_between_two_looks_is_whole() {
        let form = "--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nnew\r\n--b--\r\n";
        let mut looks = 0;
        let coming = stream::poll_fn(move |cx| {
            looks += 1;
            match looks {
                1 => {
                    cx.waker().wake_by_ref();
                    Poll::Pending
                }
                2 => Poll::Ready(Some(Ok::<_, io::Error>(form))),
                _ => Poll::Ready(None),
            }
        });
        let body = UploadBody::of_anybody(Body::from_stream(coming), Duration::from_secs(60));
        let mut parts = Multipart::new(body.into_stream(), "b");
        let part = parts.next_field().await.unwrap().unwrap();
        assert_eq!(part.text().await.unwrap(), "new");
        assert!(parts.next_field().await.unwrap().is_none());
    }
}
