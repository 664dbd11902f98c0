//! New events as they happen: server-sent events (HTML Living Standard §9.2), resumed by
//! `Last-Event-ID`.
//!
//! A client that names an event first gets what came behind it, from the database; then, and
//! without a name at once, what is new, from the node's feed. One that is slower than the feed is
//! cut, with a comment that says so: it connects again and names the last event that it has.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use entrepot_admin::{AdminError, EventQuery, NumberedEvent};
use entrepot_nouns::AdminRight;
use futures_util::stream;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Interval;

use super::call::Call;
use super::events::conditions;
use super::feed::{FedEvent, Follower, events};
use super::query::refused;
use super::served::Api;
use crate::body::EndlessAnswer;
use crate::limits::{FEED_PAGE, STREAM_SIGN_OF_LIFE};
use crate::login::SignedIn;
use crate::problem::Problem;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// How long a client waits before it connects again, milliseconds.
pub(crate) const RETRY: &str = "retry: 2000\n\n";

/// Events from now on, or from behind the event that the client names.
pub(crate) async fn events_stream(mut call: Call) -> Result<Response, Problem> {
    let filter = conditions(&mut call.query)?;
    if filter.path.is_some() {
        return Err(refused("a stream of events cannot be filtered by path".to_owned()));
    }
    let in_query: Option<i64> = call.query.one("last_event_id")?;
    call.query.finish()?;
    let named = match call.headers.get(LAST_EVENT_ID) {
        None => in_query,
        Some(value) => {
            let text = value.to_str().unwrap_or_default();
            let unknown = || refused(format!("'Last-Event-ID' is no event of ours: '{text}'"));
            Some(text.parse().map_err(|_| unknown())?)
        }
    };
    // The feed reads for everybody.
    let (site, right) = (call.actor.site, AdminRight::Audit);
    if !call.actor.may(right) {
        return Err(AdminError::Forbidden { actor: call.actor.name, right }.into());
    }
    let follower = call.api.feeds.follow(site).ok_or_else(too_many)?;
    let (last, phase) = match named {
        Some(last) => (last, Phase::CatchUp),
        None => {
            let newest = EventQuery { limit: Some(1), ..EventQuery::default() };
            let found = events(&call.api.admin, site, newest).await.ok_or_else(away)?;
            (found.events.last().map_or(0, |event| event.sequence), Phase::Live)
        }
    };
    // A client that is cut before the first event knows where to go on.
    let waiting = VecDeque::from([Bytes::from(format!("{RETRY}id: {last}\n\n"))]);
    let mut beats = tokio::time::interval(STREAM_SIGN_OF_LIFE);
    beats.reset();
    let Call { api, signed_in, .. } = call;
    let followed = Followed { api, signed_in, site, filter, follower, last, phase, waiting, beats };
    let body = stream::unfold(followed, |mut followed| async move {
        Some((Ok::<_, Infallible>(followed.next().await?), followed))
    });
    Ok(stream_answer(Body::from_stream(body)))
}

/// The answer that a stream of server-sent events is.
pub(crate) fn stream_answer(body: Body) -> Response {
    let mut response = Response::new(body);
    response.extensions_mut().insert(EndlessAnswer);
    let fields = response.headers_mut();
    fields.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    fields.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

enum Phase {
    /// What came behind the last event is read from the database.
    CatchUp,
    /// What is new comes from the feed.
    Live,
    /// Nothing comes any more.
    Over,
}

/// A client that follows.
struct Followed {
    api: Api,
    signed_in: SignedIn,
    site: entrepot_nouns::SiteId,
    filter: EventQuery,
    follower: Follower,
    /// The last event that was looked at.
    last: i64,
    phase: Phase,
    /// What is sent next.
    waiting: VecDeque<Bytes>,
    beats: Interval,
}

impl Followed {
    /// What is sent next; waits for it. `None`: the stream ends.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(text) = self.waiting.pop_front() {
                return Some(text);
            }
            match self.phase {
                Phase::CatchUp => self.catch_up().await,
                Phase::Live => self.live().await,
                Phase::Over => return None,
            }
        }
    }

    async fn catch_up(&mut self) {
        let (after, limit) = (Some(self.last), Some(FEED_PAGE));
        let filter = EventQuery { after, limit, ..self.filter.clone() };
        let Some(found) = events(&self.api.admin, self.site, filter).await else {
            return self.end(": the database is away; connect again\n\n");
        };
        for numbered in found.events {
            self.last = numbered.sequence;
            self.waiting.extend(FedEvent::new(numbered).map(|event| event.text));
        }
        match found.next {
            Some(next) => self.last = next,
            // What is committed from here on has come, or comes, from the feed.
            None => self.phase = Phase::Live,
        }
    }

    async fn live(&mut self) {
        let received = tokio::select! {
            biased;
            () = self.signed_in.ended() => {
                return self.end(": the account may not go on\n\n");
            }
            received = self.follower.events.recv() => received,
            _ = self.beats.tick() => {
                self.waiting.push_back(Bytes::from_static(b":\n\n"));
                return;
            }
        };
        match received {
            Ok(event) => self.send(&event),
            Err(RecvError::Lagged(missed)) => {
                let comment = format!(
                    ": {missed} events were missed because this client is slow; connect again \
                     with the last id\n\n"
                );
                self.waiting.push_back(Bytes::from(comment));
                self.phase = Phase::Over;
            }
            Err(RecvError::Closed) => self.end(": the server stops; connect again\n\n"),
        }
    }

    fn send(&mut self, event: &Arc<FedEvent>) {
        let numbered = &event.numbered;
        if numbered.sequence > self.last {
            self.last = numbered.sequence;
            if passes(&self.filter, numbered) {
                self.waiting.push_back(event.text.clone());
            }
        }
    }

    fn end(&mut self, comment: &'static str) {
        self.waiting.push_back(Bytes::from_static(comment.as_bytes()));
        self.phase = Phase::Over;
    }
}

/// As the database filters events.
fn passes(filter: &EventQuery, numbered: &NumberedEvent) -> bool {
    let (event, file) = (&numbered.event, numbered.event.fact.file());
    let of_kind = filter.kinds.is_empty() || filter.kinds.iter().any(|it| it == event.fact.kind());
    let of_account = filter.account.is_none() || filter.account == event.account;
    let of_session = filter.session.is_none() || filter.session == event.session;
    let of_job = filter.job.is_none() || filter.job == event.job;
    let of_transfer = filter.transfer.is_none_or(|id| file.is_some_and(|file| file.transfer == id));
    of_kind && of_account && of_session && of_job && of_transfer
}

pub(crate) fn too_many() -> Problem {
    let problem = "as many clients follow the events of this node as it serves; try again later";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "EP1115", problem)
}

fn away() -> Problem {
    let problem = "the database is away, so new events cannot be read; try again later";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "EP0701", problem)
}
