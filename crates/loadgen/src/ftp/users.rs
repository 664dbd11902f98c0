//! The users of a workload, side by side, each with its session.

use std::sync::Arc;
use std::time::Duration;

use entrepot_net::data::Pattern;
use entrepot_net::tls::LoadClient;
use entrepot_nouns::Env;
use futures_util::StreamExt as _;
use tokio::task::JoinSet;

use super::bench::{FtpBench, Step, Workload};
use super::error::BenchError;
use super::link::Link;
use crate::limits::{CONCURRENCY, CONNECTING, FAILURES_IN_A_ROW, LEAST_RATE, PATTERN_BYTES};
use crate::tally::Tally;

/// A workload with its users logged in and its files in place.
pub(super) struct Prepared {
    users: Vec<User>,
    /// The file that downloads read.
    source: Option<String>,
    /// What went wrong before the first round.
    trouble: Vec<String>,
}

struct User {
    shared: Arc<Shared>,
    number: usize,
    /// Its sessions to resume.
    tls: Option<LoadClient>,
    link: Option<Link>,
    /// The names of what it sent in the last round.
    uploaded: Vec<String>,
}

struct Shared {
    bench: FtpBench,
    step: Step,
    env: Env,
    pattern: Pattern,
}

impl Shared {
    fn path(&self, name: &str) -> String {
        match self.bench.folder.as_str() {
            "" => name.to_owned(),
            folder => format!("{folder}/{name}"),
        }
    }

    fn source(&self) -> String {
        self.path(match self.step.workload {
            Workload::Download | Workload::Upload => "bench-large",
            Workload::Exec => "bench-exec",
            _ => "bench-small",
        })
    }

    /// Bytes of each file.
    fn size(&self) -> u64 {
        if self.step.workload.is_large() { self.bench.size } else { self.bench.small_size }
    }

    /// What one operation may take.
    fn deadline(&self) -> Duration {
        if self.step.workload.is_large() {
            self.bench.deadline + Duration::from_secs(self.bench.size / LEAST_RATE)
        } else {
            self.bench.deadline
        }
    }

    async fn in_time<T>(
        &self,
        operation: impl Future<Output = Result<T, BenchError>>,
    ) -> Result<T, BenchError> {
        let deadline = self.deadline();
        let over = tokio::time::timeout(deadline, operation).await;
        over.unwrap_or(Err(BenchError::Hung(deadline)))
    }
}

impl Prepared {
    /// Logs the users in and stores what they will read; this is not measured.
    pub(super) async fn new(
        bench: &FtpBench,
        step: Step,
        env: &Env,
    ) -> Result<Prepared, BenchError> {
        let mut pattern = vec![0; PATTERN_BYTES];
        env.fill_random(&mut pattern);
        let (bench, env, pattern) = (bench.clone(), env.clone(), Pattern::new(pattern)?);
        let number = if step.workload.is_large() { 1 } else { bench.concurrency };
        let shared = Arc::new(Shared { bench, step, env, pattern });
        let users = (0..number.clamp(1, CONCURRENCY)).map(|number| User::new(&shared, number));
        let users = users.collect::<Result<_, _>>()?;
        let mut prepared = Prepared { users, source: None, trouble: Vec::new() };
        if step.workload.moves_files()
            && let Err(error) = prepared.set_up(&shared).await
        {
            prepared.trouble.push(error.to_string());
        }
        Ok(prepared)
    }

    async fn set_up(&mut self, shared: &Arc<Shared>) -> Result<(), BenchError> {
        let Some((first, others)) = self.users.split_first_mut() else { return Ok(()) };
        // If the first gets nowhere, the others need not wait for the same.
        shared.in_time(first.log_in()).await?;
        if shared.step.workload.reads() {
            let source = shared.source();
            self.source = Some(source.clone());
            let size = shared.size();
            shared.in_time(first.store(&source, size)).await?;
        }
        let opening = others.iter_mut().map(|user| shared.in_time(user.log_in()));
        let opened = futures_util::stream::iter(opening).buffer_unordered(CONNECTING);
        let opened: Vec<Result<(), BenchError>> = opened.collect().await;
        opened.into_iter().collect()
    }

    fn is_idle(&self) -> bool {
        let first = self.users.first();
        first.is_some_and(|user| user.shared.step.workload == Workload::IdleSessions)
    }

    /// A session that comes and goes: the first pays for what all share.
    pub(super) async fn warm_up(&mut self) {
        if let Some(first) = self.users.first_mut()
            && let Err(error) = first.log_in().await
        {
            self.trouble.push(error.to_string());
        }
        self.log_out().await;
    }

    /// One round of all users.
    pub(super) async fn run(&mut self) -> Tally {
        let mut total = Tally::default();
        for sentence in std::mem::take(&mut self.trouble) {
            total.tell(sentence);
        }
        if self.is_idle() {
            let logins = self.users.drain(..).map(User::work);
            let logins = futures_util::stream::iter(logins).buffer_unordered(CONNECTING);
            let logged_in: Vec<(User, Tally)> = logins.collect().await;
            for (user, tally) in logged_in {
                total.add(tally);
                self.users.push(user);
            }
            return total;
        }
        let mut working = JoinSet::new();
        for user in self.users.drain(..) {
            working.spawn(user.work());
        }
        while let Some(worked) = working.join_next().await {
            match worked {
                Ok((user, tally)) => {
                    total.add(tally);
                    self.users.push(user);
                }
                Err(error) => total.tell(error.to_string()),
            }
        }
        total
    }

    /// Removes what the users sent, so that the next round makes it anew.
    pub(super) async fn remove_uploads(&mut self) {
        let mut removing = JoinSet::new();
        for user in self.users.drain(..) {
            removing.spawn(user.remove_uploads());
        }
        while let Some(user) = removing.join_next().await {
            self.users.extend(user);
        }
    }

    /// Removes the file that was read and says goodbye.
    pub(super) async fn close(mut self) {
        if let (Some(source), Some(user)) = (self.source.take(), self.users.first_mut()) {
            user.uploaded.push(source);
        }
        self.remove_uploads().await;
        self.log_out().await;
    }

    /// Says goodbye in all sessions.
    pub(super) async fn log_out(&mut self) {
        let links = self.users.iter_mut().filter_map(|user| {
            let link = user.link.take()?;
            let shared = Arc::clone(&user.shared);
            Some(async move { shared.in_time(link.quit()).await })
        });
        // Who does not answer is left.
        let _: Vec<Result<(), BenchError>> =
            futures_util::stream::iter(links).buffer_unordered(CONNECTING).collect().await;
    }
}

impl User {
    fn new(shared: &Arc<Shared>, number: usize) -> Result<User, BenchError> {
        let bench = &shared.bench;
        let version = bench.version_of(shared.step);
        let tls = version.map(|version| LoadClient::unverified(&bench.host, version));
        let (shared, tls) = (Arc::clone(shared), tls.transpose()?);
        Ok(User { shared, number, tls, link: None, uploaded: Vec::new() })
    }

    async fn log_in(&mut self) -> Result<(), BenchError> {
        self.logged_in().await.map(drop)
    }

    async fn logged_in(&mut self) -> Result<&mut Link, BenchError> {
        let link = match self.link.take() {
            Some(link) => link,
            None => {
                let mode = self.shared.step.mode();
                Link::open(&self.shared.bench, mode, self.tls.as_ref()).await?
            }
        };
        Ok(self.link.insert(link))
    }

    async fn store(&mut self, path: &str, size: u64) -> Result<(), BenchError> {
        let shared = Arc::clone(&self.shared);
        self.logged_in().await?.store(path, &shared.pattern, size).await
    }

    /// Its share of a round.
    async fn work(mut self) -> (User, Tally) {
        let mut tally = Tally::default();
        let shared = Arc::clone(&self.shared);
        let count = match shared.step.workload {
            Workload::Download | Workload::Upload | Workload::IdleSessions => 1,
            _ => shared.bench.count,
        };
        let (mut in_a_row, mut tried) = (0, 0);
        while tried < count && in_a_row < FAILURES_IN_A_ROW {
            let began = shared.env.elapsed();
            let result = shared.in_time(self.once(tried, &mut tally)).await;
            if let Some(link) = &mut self.link {
                link.count_handshakes(&mut tally.counts);
            }
            tried += 1;
            match result {
                Ok(bytes) => {
                    tally.done(shared.env.elapsed().saturating_sub(began), bytes);
                    in_a_row = 0;
                }
                Err(error) => {
                    // The state of the session is unknown now.
                    self.link = None;
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
    async fn once(&mut self, number: u64, tally: &mut Tally) -> Result<u64, BenchError> {
        let shared = Arc::clone(&self.shared);
        let size = shared.size();
        let down = match shared.step.workload {
            Workload::Logins => {
                self.log_in().await?;
                if let Some(mut link) = self.link.take() {
                    link.count_handshakes(&mut tally.counts);
                    link.quit().await?;
                }
                return Ok(0);
            }
            Workload::IdleSessions => {
                self.log_in().await?;
                return Ok(0);
            }
            Workload::Retr | Workload::Exec | Workload::Download => true,
            Workload::Stor | Workload::Upload => false,
            Workload::Mixed => number.is_multiple_of(2),
        };
        if down {
            self.logged_in().await?.retrieve(&shared.source(), size).await?;
        } else {
            let path = shared.path(&format!("bench-stor-{}-{number}", self.number));
            // Also what fails may leave something.
            self.uploaded.push(path.clone());
            self.store(&path, size).await?;
        }
        Ok(size)
    }

    async fn remove_uploads(mut self) -> User {
        let shared = Arc::clone(&self.shared);
        for path in std::mem::take(&mut self.uploaded) {
            let removing = async { self.logged_in().await?.delete(&path).await };
            match shared.in_time(removing).await {
                // What failed may have left nothing.
                Ok(()) | Err(BenchError::Refused(_)) => {}
                Err(_) => {
                    self.link = None;
                    break;
                }
            }
        }
        self
    }
}
