//! What happens on the node at this moment, as server-sent events (HTML Living Standard §9.2).
//! Nothing is kept for a client that was away: it lists what there is, and follows from then on.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::response::Response;
use entrepot_admin::AdminError;
use entrepot_nouns::AdminRight;
use futures_util::stream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Interval;

use super::call::Call;
use super::live::LiveSubject;
use super::stream::{RETRY, stream_answer, too_many};
use crate::limits::STREAM_SIGN_OF_LIFE;
use crate::login::SignedIn;
use crate::problem::Problem;

/// Follows a subject from now on.
pub(crate) async fn follow(call: Call, subject: LiveSubject) -> Result<Response, Problem> {
    call.query.finish()?;
    let right = AdminRight::See;
    if !call.actor.may(right) {
        return Err(AdminError::Forbidden { actor: call.actor.name, right }.into());
    }
    let place = call.api.feeds.place().ok_or_else(too_many)?;
    let messages = call.api.live.follow(call.actor.site, subject);
    let mut beats = tokio::time::interval(STREAM_SIGN_OF_LIFE);
    beats.reset();
    let begun = Some(Bytes::from_static(RETRY.as_bytes()));
    let signed_in = call.signed_in;
    let follower = Follower { messages, signed_in, beats, begun, is_over: false, _place: place };
    let body = stream::unfold(follower, |mut follower| async move {
        Some((Ok::<_, Infallible>(follower.next().await?), follower))
    });
    Ok(stream_answer(Body::from_stream(body)))
}

/// A client that follows.
struct Follower {
    messages: Receiver<Bytes>,
    signed_in: SignedIn,
    beats: Interval,
    /// What is sent first.
    begun: Option<Bytes>,
    is_over: bool,
    _place: OwnedSemaphorePermit,
}

impl Follower {
    /// What is sent next; waits for it. `None`: the stream ends.
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(begun) = self.begun.take() {
            return Some(begun);
        }
        if self.is_over {
            return None;
        }
        tokio::select! {
            biased;
            () = self.signed_in.ended() => self.end(": the account may not go on\n\n"),
            received = self.messages.recv() => match received {
                Ok(message) => Some(message),
                Err(RecvError::Lagged(_)) => {
                    self.end(": this client is too slow for what happens; connect again\n\n")
                }
                Err(RecvError::Closed) => self.end(": the server stops; connect again\n\n"),
            },
            _ = self.beats.tick() => Some(Bytes::from_static(b":\n\n")),
        }
    }

    fn end(&mut self, comment: &'static str) -> Option<Bytes> {
        self.is_over = true;
        Some(Bytes::from_static(comment.as_bytes()))
    }
}
