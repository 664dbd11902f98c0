//! Connections side by side, each of which sends one message after another.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use entrepot_as2_proto::{Field, SentMic};
use entrepot_nouns::{Env, EventId};
use http_body_util::{BodyExt as _, Limited};
use hyper::header::{CONNECTION, HeaderMap, HeaderName, HeaderValue};
use hyper::http::response::Parts;
use hyper::{Method, StatusCode, Version};
use tokio::task::JoinSet;

use super::bench::{As2Bench, MessageSource};
use super::error::As2BenchError;
use super::expected::{Answer, Checked, Expected, ReceiptFault};
use super::iteration::Done;
use super::recipe::{BuiltMessage, Making, MessageRecipe};
use crate::https::connection::{Client, Dialler, Fields, Line, Sender};
use crate::https::content::Content;
use crate::https::{BenchError, HttpVersion};
use crate::limits::{AS2_RECEIPT_BYTES, CONCURRENCY, FAILURES_IN_A_ROW};

/// When an iteration ends.
#[derive(Clone, Copy)]
pub(super) enum Limit {
    Messages(u64),
    Time(Duration),
}

/// A measurement whose messages can be made, and its connections.
pub(super) struct Prepared<'a> {
    bench: &'a As2Bench,
    shared: Arc<Shared>,
    streams: Vec<Stream>,
}

/// What all streams have in common.
struct Shared {
    dialler: Dialler,
    path: String,
    expected: Expected,
    env: Env,
    deadline: Duration,
}

/// Where the messages of an iteration come from.
#[derive(Clone)]
enum Maker {
    Each(Arc<MessageRecipe>),
    Same(Arc<Ready>),
}

/// A message as it is sent, but for its id.
struct Ready {
    fields: HeaderMap,
    body: Bytes,
    mic: Option<SentMic>,
}

/// One connection, on which one message follows the other.
struct Stream {
    shared: Arc<Shared>,
    fields: Arc<Fields>,
    sender: Option<Sender>,
}

/// What the streams of an iteration take their turns from.
struct Turns {
    limit: Limit,
    rate: Option<f64>,
    began: Duration,
    taken: AtomicU64,
}

/// Why a message does not count as delivered.
#[derive(Debug, thiserror::Error)]
enum Missed {
    #[error(transparent)]
    Bench(#[from] BenchError),
    #[error("{0}")]
    Write(BenchError),
    #[error("the message was answered with {0}")]
    Refused(StatusCode),
    #[error("the answer breaks off: {0}")]
    Answer(String),
    #[error(transparent)]
    Receipt(#[from] ReceiptFault),
    #[error("not over within {0:?}")]
    Hung(Duration),
}

impl<'a> Prepared<'a> {
    pub(super) fn new(bench: &'a As2Bench, env: &Env) -> Result<Prepared<'a>, As2BenchError> {
        let version = HttpVersion::Http1;
        let dialler = Dialler::new(&bench.target, version, bench.tls_version)?;
        let (target, login) = (&bench.target, bench.login.as_ref());
        let headers = match &bench.source {
            MessageSource::Built(recipe) => recipe.headers(),
            MessageSource::Saved(saved) => saved.headers().clone(),
        };
        let shared = Arc::new(Shared {
            dialler,
            path: target.folder.clone(),
            expected: Expected::new(&headers, &bench.trusted)?,
            env: env.clone(),
            deadline: bench.deadline,
        });
        let number = bench.concurrency.clamp(1, CONCURRENCY);
        let streams = (1..=number).map(|number| {
            let fields = Arc::new(Fields::new(Client { target, version, login, number })?);
            Ok(Stream { shared: Arc::clone(&shared), fields, sender: None })
        });
        let streams = streams.collect::<Result<_, BenchError>>()?;
        Ok(Prepared { bench, shared, streams })
    }

    fn maker(&self) -> Result<Maker, As2BenchError> {
        let ready = match &self.bench.source {
            MessageSource::Built(recipe) if recipe.making == Making::Each => {
                return Ok(Maker::Each(Arc::clone(recipe)));
            }
            MessageSource::Built(recipe) => Ready::built(recipe.build(&self.shared.env)?)?,
            MessageSource::Saved(saved) => Ready {
                fields: header_map(&saved.fields())?,
                body: saved.body().clone(),
                mic: None,
            },
        };
        Ok(Maker::Same(Arc::new(ready)))
    }

    /// One iteration; what is made once for it is made before its time begins.
    pub(super) async fn run(&mut self, limit: Limit) -> Result<Ran, As2BenchError> {
        let maker = self.maker()?;
        let env = &self.shared.env;
        let began = env.elapsed();
        let rate = self.bench.rate.filter(|rate| *rate > 0.0);
        let turns = Arc::new(Turns { limit, rate, began, taken: AtomicU64::new(0) });
        let mut working = JoinSet::new();
        for stream in self.streams.drain(..) {
            working.spawn(stream.work(Arc::clone(&turns), maker.clone()));
        }
        let (mut done, mut streams) = (Done::default(), Vec::new());
        while let Some(worked) = working.join_next().await {
            match worked {
                Ok((stream, worked)) => {
                    done.add(worked);
                    streams.push(stream);
                }
                Err(error) => done.tally.tell(error.to_string()),
            }
        }
        let time = env.elapsed().saturating_sub(began);
        self.streams = streams;
        if let Limit::Messages(messages) = limit {
            let counts = &mut done.tally.counts;
            counts.not_tried = messages.saturating_sub(counts.done + counts.failed + counts.hung);
        }
        self.shared.dialler.count_handshakes(&mut done.tally.counts);
        Ok(Ran { done, time })
    }
}

/// What came of an iteration.
pub(super) struct Ran {
    pub(super) done: Done,
    pub(super) time: Duration,
}

impl Turns {
    /// When the next message is due; none: there is none in this iteration.
    fn next(&self) -> Option<Duration> {
        let number = self.taken.fetch_add(1, Ordering::Relaxed);
        let later = self.rate.map(|rate| Duration::from_secs_f64(number as f64 / rate));
        let due = self.began.saturating_add(later.unwrap_or_default());
        let within = match self.limit {
            Limit::Messages(messages) => number < messages,
            Limit::Time(time) => due < self.began.saturating_add(time),
        };
        within.then_some(due)
    }

    /// Whether the iteration is over for a stream that has nothing that is due.
    fn is_over(&self, now: Duration) -> bool {
        match self.limit {
            Limit::Messages(_) => false,
            Limit::Time(time) => now >= self.began.saturating_add(time),
        }
    }
}

impl Stream {
    async fn work(mut self, turns: Arc<Turns>, maker: Maker) -> (Stream, Done) {
        let mut done = Done::default();
        let mut failures = 0;
        while failures < FAILURES_IN_A_ROW
            && !turns.is_over(self.shared.env.elapsed())
            && let Some(due) = turns.next()
        {
            let env = self.shared.env.clone();
            tokio::time::sleep(due.saturating_sub(env.elapsed())).await;
            let ready = match maker.next(&env) {
                Ok(ready) => ready,
                Err(error) => {
                    done.tally.tell(error.to_string());
                    break;
                }
            };
            // A message that had to wait for a free connection is late: that time counts.
            let began = if turns.rate.is_some() { due } else { env.elapsed() };
            let deadline = self.shared.deadline;
            let sent = tokio::time::timeout(deadline, self.exchange(&ready, &mut done)).await;
            match sent.unwrap_or(Err(Missed::Hung(deadline))) {
                Ok(()) => {
                    failures = 0;
                    done.tally.counts.done += 1;
                    done.tally.latency.record(env.elapsed().saturating_sub(began));
                }
                Err(missed) => {
                    failures += 1;
                    self.sender = None;
                    done.miss(&missed);
                }
            }
        }
        (self, done)
    }

    /// One message and its answer.
    async fn exchange(&mut self, ready: &Ready, done: &mut Done) -> Result<(), Missed> {
        let shared = Arc::clone(&self.shared);
        let id = format!("<{}@bench.invalid>", shared.env.new_id::<EventId>());
        let size = ready.body.len() as u64;
        let content = Content::range(&ready.body, 0, size);
        let mut request = self.fields.request(Method::POST, &shared.path, content)?;
        request.headers_mut().extend(ready.fields.clone());
        let value = HeaderValue::from_str(&id).map_err(hyper::http::Error::from);
        request.headers_mut().insert("message-id", value.map_err(BenchError::from)?);
        let sender = match self.sender.take() {
            Some(sender) if !sender.is_closed() => sender,
            _ => shared.dialler.open(&Line::default()).await?,
        };
        let sender = self.sender.insert(sender);
        let response = sender.send(request).await.map_err(Missed::Write)?;
        let (parts, body) = response.into_parts();
        let is_last = closes(&parts);
        let body = Limited::new(body, AS2_RECEIPT_BYTES).collect().await;
        let body = body.map_err(|error| Missed::Answer(error.to_string()))?.to_bytes();
        if is_last {
            self.sender = None;
        }
        done.answered += 1;
        done.document_bytes = size;
        done.sent_bytes += size;
        done.received_bytes += body.len() as u64;
        if !parts.status.is_success() {
            return Err(Missed::Refused(parts.status));
        }
        let answer = Answer { headers: &parts.headers, body: &body };
        let verified = shared.expected.check(&id, ready.mic.as_ref(), answer)?;
        done.verified += u64::from(verified == Checked::Receipt);
        Ok(())
    }
}

/// Whether a server ends the connection behind its answer (RFC 9112 §9.3). Until that is noticed
/// the connection looks as if it could still be used.
fn closes(answer: &Parts) -> bool {
    let named = answer.headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let mut options = named.flat_map(|value| value.split(',')).map(str::trim);
    match answer.version {
        Version::HTTP_09 | Version::HTTP_10 => {
            !options.any(|option| option.eq_ignore_ascii_case("keep-alive"))
        }
        _ => options.any(|option| option.eq_ignore_ascii_case("close")),
    }
}

impl Done {
    fn miss(&mut self, missed: &Missed) {
        match missed {
            Missed::Hung(_) => self.tally.counts.hung += 1,
            Missed::Write(_) => {
                self.write_errors += 1;
                self.tally.counts.failed += 1;
            }
            _ => self.tally.counts.failed += 1,
        }
        self.tally.tell(missed.to_string());
    }
}

impl Maker {
    fn next(&self, env: &Env) -> Result<Arc<Ready>, As2BenchError> {
        match self {
            Maker::Each(recipe) => Ready::built(recipe.build(env)?).map(Arc::new),
            Maker::Same(ready) => Ok(Arc::clone(ready)),
        }
    }
}

impl Ready {
    fn built(message: BuiltMessage) -> Result<Ready, As2BenchError> {
        let BuiltMessage { fields, body, mic } = message;
        Ok(Ready { fields: header_map(&fields)?, body, mic: Some(mic) })
    }
}

fn header_map(fields: &[Field]) -> Result<HeaderMap, As2BenchError> {
    let mut map = HeaderMap::new();
    for Field { name, value } in fields {
        let wrong = || As2BenchError::Field(name.clone());
        let value = HeaderValue::from_str(value).map_err(|_| wrong())?;
        map.append(HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?, value);
    }
    Ok(map)
}
