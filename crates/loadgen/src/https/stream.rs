//! One stream of requests: a user with a connection, or with a part of one.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use entrepot_nouns::Env;
use hyper::body::Incoming;
use hyper::{Method, Response};

use super::bench::{HttpsBench, Workload};
use super::connection::{Client, Dialler, Fields, Line, Sender, read};
use super::content::Content;
use super::error::BenchError;
use crate::limits::{FAILURES_IN_A_ROW, LEAST_RATE};
use crate::tally::Tally;

/// What all streams of a workload have in common.
pub(super) struct Shared {
    pub(super) bench: HttpsBench,
    pub(super) workload: Workload,
    pub(super) env: Env,
    pub(super) pattern: Bytes,
    pub(super) dialler: Dialler,
}

/// One after another, its requests.
pub(super) struct Stream {
    pub(super) shared: Arc<Shared>,
    /// Users count from 1; it stands for `{n}` in names.
    pub(super) number: usize,
    pub(super) line: Arc<Line>,
    fields: Fields,
    sender: Option<Sender>,
    /// What it has stored in this round.
    pub(super) stored: Vec<String>,
}

/// A field of a request besides those that all requests have.
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) value: String,
}

impl Field {
    /// The version of tus that is spoken; servers without it do not look at it.
    pub(super) fn tus() -> Field {
        Field { name: "tus-resumable", value: "1.0.0".to_owned() }
    }
}

impl Shared {
    /// The address of the file that downloads of all streams read, in the folder of the first.
    pub(super) fn source(&self) -> String {
        let name = if self.workload.is_large() { "bench-large" } else { "bench-small" };
        self.address(1, name)
    }

    /// The address of a file of a user; of its folder, if there is no name.
    fn address(&self, number: usize, name: &str) -> String {
        let folder = self.bench.target.folder.replace("{n}", &number.to_string());
        format!("{folder}{name}")
    }

    /// Bytes of each file.
    pub(super) fn size(&self) -> u64 {
        if self.workload.is_large() { self.bench.size } else { self.bench.small_size }
    }

    /// What an operation that moves `size` bytes may take, beside all others.
    fn deadline(&self, size: u64) -> Duration {
        let beside = match self.workload {
            Workload::Users => self.bench.crowd.uploading,
            _ => self.bench.concurrency,
        };
        let bytes = size.saturating_mul(beside.max(1) as u64);
        self.bench.deadline + Duration::from_secs(bytes / LEAST_RATE)
    }

    pub(super) async fn in_time<T>(
        &self,
        size: u64,
        operation: impl Future<Output = Result<T, BenchError>>,
    ) -> Result<T, BenchError> {
        let deadline = self.deadline(size);
        let over = tokio::time::timeout(deadline, operation).await;
        over.unwrap_or(Err(BenchError::Hung(deadline)))
    }
}

impl Stream {
    pub(super) fn new(
        shared: &Arc<Shared>,
        number: usize,
        line: Arc<Line>,
    ) -> Result<Stream, BenchError> {
        let HttpsBench { target, version, login, .. } = &shared.bench;
        let login = login.as_ref();
        let fields = Fields::new(Client { target, version: *version, login, number })?;
        let shared = Arc::clone(shared);
        Ok(Stream { shared, number, line, fields, sender: None, stored: Vec::new() })
    }

    /// The address of a file of this user; of its folder, if there is no name.
    pub(super) fn address(&self, name: &str) -> String {
        self.shared.address(self.number, name)
    }

    /// Connects, if that was not done.
    pub(super) async fn open(&mut self) -> Result<&mut Sender, BenchError> {
        let sender = match self.sender.take() {
            Some(sender) if !sender.is_closed() => sender,
            _ => self.shared.dialler.open(&self.line).await?,
        };
        Ok(self.sender.insert(sender))
    }

    /// The state of its connection is unknown from now on.
    pub(super) fn let_go(&mut self) {
        self.sender = None;
    }

    pub(super) async fn send(
        &mut self,
        method: Method,
        path: &str,
        content: Content,
        fields: &[Field],
    ) -> Result<Response<Incoming>, BenchError> {
        let mut request = self.fields.request(method, path, content)?;
        for field in fields {
            let value = field.value.parse().map_err(hyper::http::Error::from)?;
            request.headers_mut().insert(field.name, value);
        }
        self.open().await?.send(request).await
    }

    pub(super) async fn put(&mut self, path: &str, size: u64) -> Result<(), BenchError> {
        let content = Content::range(&self.shared.pattern, 0, size);
        let answer = self.send(Method::PUT, path, content, &[]).await?;
        read("PUT", answer).await.map(drop)
    }

    pub(super) async fn get(&mut self, path: &str) -> Result<u64, BenchError> {
        let answer = self.send(Method::GET, path, Content::none(), &[]).await?;
        read("GET", answer).await
    }

    /// Its share of a round.
    pub(super) async fn work(mut self) -> (Stream, Tally) {
        let mut tally = Tally::default();
        let shared = Arc::clone(&self.shared);
        let count = if shared.workload.is_large() { 1 } else { shared.bench.count };
        let (mut in_a_row, mut tried) = (0, 0);
        while tried < count && in_a_row < FAILURES_IN_A_ROW {
            let began = shared.env.elapsed();
            let result = shared.in_time(shared.size(), self.once(tried)).await;
            tried += 1;
            match result {
                Ok(bytes) => {
                    tally.done(shared.env.elapsed().saturating_sub(began), bytes);
                    in_a_row = 0;
                }
                Err(error) => {
                    self.let_go();
                    tally.tell(error.to_string());
                    if matches!(error, BenchError::Hung(_)) {
                        tally.counts.hung += 1;
                        break;
                    }
                    tally.counts.failed += 1;
                    in_a_row += 1;
                }
            }
        }
        tally.counts.not_tried += count - tried;
        (self, tally)
    }

    /// One operation; answers the bytes it moved.
    async fn once(&mut self, number: u64) -> Result<u64, BenchError> {
        let shared = Arc::clone(&self.shared);
        let size = shared.size();
        match shared.workload {
            Workload::Fetch => self.get(&shared.bench.path).await,
            Workload::Download | Workload::Get => {
                let got = self.get(&shared.source()).await?;
                let wanted = size;
                if got == wanted { Ok(got) } else { Err(BenchError::Length { wanted, got }) }
            }
            Workload::Upload | Workload::Put | Workload::Users => {
                let path = self.address(&format!("bench-put-{}-{number}", self.number));
                // Also what fails may leave something.
                self.stored.push(path.clone());
                self.put(&path, size).await?;
                Ok(size)
            }
            Workload::Tus => self.upload_by_tus(number, size).await.map(|()| size),
        }
    }

    /// Removes what it has stored; what failed may have left nothing.
    pub(super) async fn remove_uploads(mut self) -> Stream {
        for path in std::mem::take(&mut self.stored) {
            let shared = Arc::clone(&self.shared);
            let fields = [Field::tus()];
            let removing = async {
                let answer = self.send(Method::DELETE, &path, Content::none(), &fields).await?;
                read("DELETE", answer).await
            };
            match shared.in_time(0, removing).await {
                Ok(_) | Err(BenchError::Refused { .. }) => {}
                Err(_) => {
                    self.let_go();
                    break;
                }
            }
        }
        self
    }
}
