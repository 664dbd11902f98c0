//! The node's append-only, hash-chained, group-committed record of facts: written before anyone
//! is told (`DESIGN` sections 4 and 5, promise 1). API skeleton, bodies follow.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use entrepot_model::event::{Event, Fact};
use entrepot_model::{Env, EventId, JobId, Name, SessionId, SiteId};

pub type Result<T> = std::result::Result<T, JournalError>;

#[derive(Clone, Debug)]
pub struct Options {
    pub segment_bytes: u64,
    pub limit_bytes: u64,
    pub max_tail_delay: Duration,
    pub inline_below: Duration,
    pub archive_keep: Option<Duration>,
}
impl Default for Options {
    fn default() -> Self {
        todo!()
    }
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RecordKind {
    Event = 1,
    Intent = 2,
    Closed = 3,
}
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub sequence: u64,
    pub kind: RecordKind,
    pub payload: Vec<u8>,
}
#[derive(Clone, Debug)]
pub struct Recovered {
    pub last_sequence: u64,
    pub torn_bytes: u64,
}
#[derive(Clone, Debug)]
pub struct Usage {
    pub appended: u64,
    pub durable: u64,
    pub released: u64,
    pub unreleased_bytes: u64,
    pub limit_bytes: u64,
    pub full: bool,
    pub suspect: bool,
}
#[derive(Clone, Debug, thiserror::Error)]
pub enum JournalError {
    #[error("full")]
    Full { used: u64, limit: u64 },
    #[error("suspect")]
    Suspect { problem: String },
    #[error("locked")]
    Locked { dir: String },
    #[error("io")]
    Io { what: String, problem: String },
    #[error("corrupt")]
    Corrupt { segment: String, offset: u64, problem: String },
}
impl JournalError {
    pub fn code(&self) -> &'static str {
        todo!()
    }
    pub fn is_temporary(&self) -> bool {
        todo!()
    }
}
pub trait Medium: Send + Sync + 'static {}
pub struct FsMedium;
impl Medium for FsMedium {}
#[derive(Clone)]
pub struct Journal(Arc<()>);
pub struct Meters;
pub struct Reader;
pub struct Report;
impl Journal {
    pub fn open(_: &Path, _: &Name, _: Env, _: Options) -> Result<(Journal, Recovered)> {
        todo!()
    }
    pub fn open_on(
        _: Arc<dyn Medium>,
        _: &Name,
        _: Env,
        _: Options,
    ) -> Result<(Journal, Recovered)> {
        todo!()
    }
    pub fn append(&self, _kind: RecordKind, _payload: &[u8]) -> Result<u64> {
        todo!()
    }
    pub async fn append_durable(&self, _kind: RecordKind, _payload: &[u8]) -> Result<u64> {
        todo!()
    }
    pub async fn sync(&self, _sequence: u64) -> Result<()> {
        todo!()
    }
    pub fn reader(&self, _after: u64) -> Reader {
        todo!()
    }
    pub fn release(&self, _up_to: u64) -> Result<()> {
        todo!()
    }
    pub fn usage(&self) -> Usage {
        todo!()
    }
    pub fn meters(&self) -> &Meters {
        todo!()
    }
    pub async fn close(&self) -> Result<()> {
        todo!()
    }
}
impl Reader {
    pub async fn next_batch(&mut self, _max: usize) -> Result<Vec<Record>> {
        todo!()
    }
    pub fn read_now(&mut self, _max: usize) -> Result<Vec<Record>> {
        todo!()
    }
}
pub fn verify(_dir: &Path) -> Result<Report> {
    todo!()
}
#[derive(Clone)]
pub struct Recorder {
    journal: Journal,
    env: Env,
    node: Name,
}
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    pub site: SiteId,
    pub account: Option<Name>,
    pub session: Option<SessionId>,
    pub job: Option<JobId>,
    pub cause: Option<EventId>,
    pub depth: u8,
}
impl Scope {
    pub fn site(site: SiteId) -> Self {
        Scope { site, account: None, session: None, job: None, cause: None, depth: 0 }
    }
}
impl Recorder {
    pub fn new(journal: Journal, env: Env, node: Name) -> Self {
        Recorder { journal, env, node }
    }
    pub fn env(&self) -> &Env {
        &self.env
    }
    pub fn journal(&self) -> &Journal {
        &self.journal
    }
    pub fn node(&self) -> &Name {
        &self.node
    }
    pub fn event(&self, _scope: &Scope, _fact: Fact) -> Event {
        todo!()
    }
    pub fn record(&self, _scope: &Scope, _fact: Fact) -> Result<Event> {
        todo!()
    }
    pub async fn record_durable(&self, _scope: &Scope, _fact: Fact) -> Result<Event> {
        todo!()
    }
}
