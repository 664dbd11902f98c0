//! A store whose n-th call fails.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use entrepot_nouns::{StorePath, Timestamp, TransferId};
use parking_lot::Mutex;

use crate::error::{Result, StoreError};
use crate::store::{
    AnyStore, Caps, CopyRange, Entry, Existing, Identity, KernelFile, Listing, Meta, ModeChange,
    Publish, Published, ReadFile, Renamed, Space, Staged, StagedFile, Store, TakenBack,
};
use crate::thread::Threads;

/// What happens at the chosen call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It fails as a broken disk does, without effect.
    Io,
    /// It fails as a full disk does, without effect.
    NoSpace,
    /// A write does half of its work, then fails as a full disk does; other calls fail without
    /// effect.
    ShortWrite,
    /// It is done, but its answer is an error: the effect is there.
    LostAnswer,
    /// It takes this much longer (tokio's time, so virtual in tests that pause it).
    Delay(Duration),
}

/// The calls of a store and of its files, to aim at one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StoreCall {
    Stat,
    List,
    NextPage,
    Open,
    Read,
    Stage,
    Resume,
    Staged,
    DiscardStaged,
    Remove,
    MakeDirectory,
    RemoveDirectory,
    Rename,
    Link,
    ReadLink,
    MakeLink,
    SetTimes,
    SetMode,
    Space,
    Probe,
    Write,
    SetLen,
    Sync,
    Publish,
    TakeBack,
    Discard,
}

#[derive(Default)]
struct Plan {
    calls: u64,
    log: Vec<StoreCall>,
    faults: Vec<(Option<StoreCall>, u64, Fault)>,
    met: u64,
}

/// Wraps a store; counts every call on it and on its files, and fails chosen ones. Clones share
/// the count.
#[derive(Clone)]
pub struct FaultStore {
    inner: AnyStore,
    plan: Arc<Mutex<Plan>>,
}

/// Most calls that are logged.
const LOG: usize = 100_000;

impl FaultStore {
    /// Wraps `inner`; nothing fails until told.
    pub fn new(inner: AnyStore) -> Self {
        FaultStore { inner, plan: Arc::default() }
    }

    /// The `nth` call from now on (1 is the next), of one kind or of any, meets `fault`, once.
    pub fn fail(&self, kind: Option<StoreCall>, nth: u64, fault: Fault) {
        self.plan.lock().faults.push((kind, nth, fault));
    }

    /// Forgets all faults that were not met.
    pub fn heal(&self) {
        self.plan.lock().faults.clear();
    }

    /// Calls so far.
    pub fn calls(&self) -> u64 {
        self.plan.lock().calls
    }

    /// Faults met so far: a scenario that ends without meeting its fault has no more calls.
    pub fn met(&self) -> u64 {
        self.plan.lock().met
    }

    /// The calls so far, in order.
    pub fn log(&self) -> Vec<StoreCall> {
        self.plan.lock().log.clone()
    }

    /// True if the next call of `kind` would be delayed: what must not wait asks first.
    fn would_delay(&self, kind: StoreCall) -> bool {
        let plan = self.plan.lock();
        let due = |fault: &(Option<StoreCall>, u64, Fault)| {
            fault.1 == 1 && fault.0.is_none_or(|of| of == kind)
        };
        plan.faults.iter().any(|fault| due(fault) && matches!(fault.2, Fault::Delay(_)))
    }

    /// Counts a call and says which fault it meets.
    fn count(&self, kind: StoreCall) -> Option<Fault> {
        let mut plan = self.plan.lock();
        plan.calls += 1;
        if plan.log.len() < LOG {
            plan.log.push(kind);
        }
        let mut due = None;
        plan.faults.retain_mut(|(of, left, fault)| {
            if of.is_none_or(|of| of == kind) {
                *left = left.saturating_sub(1);
                if *left == 0 && due.is_none() {
                    due = Some(*fault);
                    return false;
                }
            }
            true
        });
        plan.met += u64::from(due.is_some());
        due
    }

    /// Does `work` unless this call is to fail.
    async fn call<T>(&self, kind: StoreCall, work: impl Future<Output = Result<T>>) -> Result<T> {
        match self.count(kind) {
            None => work.await,
            Some(Fault::Delay(time)) => {
                tokio::time::sleep(time).await;
                work.await
            }
            Some(Fault::LostAnswer) => {
                work.await?;
                Err(io())
            }
            Some(fault) => Err(error_of(fault)),
        }
    }
}

fn io() -> StoreError {
    StoreError::Io("injected by a test".to_owned())
}

fn error_of(fault: Fault) -> StoreError {
    match fault {
        Fault::NoSpace | Fault::ShortWrite => StoreError::NoSpace,
        Fault::Io | Fault::LostAnswer | Fault::Delay(_) => io(),
    }
}

struct FaultListing(FaultStore, Box<dyn Listing>);

#[async_trait]
impl Listing for FaultListing {
    async fn next_page(&mut self, max: usize) -> Result<Vec<Entry>> {
        self.0.call(StoreCall::NextPage, self.1.next_page(max)).await
    }
}

struct FaultRead(FaultStore, Box<dyn ReadFile>);

#[async_trait]
impl ReadFile for FaultRead {
    fn meta(&self) -> &Meta {
        self.1.meta()
    }

    fn try_read_at(&self, offset: u64, buf: &mut [u8]) -> Result<Option<usize>> {
        if self.0.would_delay(StoreCall::Read) {
            return Ok(None);
        }
        match self.0.count(StoreCall::Read) {
            None => self.1.try_read_at(offset, buf),
            Some(fault) => Err(error_of(fault)),
        }
    }

    async fn read_at(&self, offset: u64, buf: BytesMut, len: usize) -> Result<BytesMut> {
        self.0.call(StoreCall::Read, self.1.read_at(offset, buf, len)).await
    }

    fn kernel_file(&self) -> Option<KernelFile> {
        self.1.kernel_file()
    }
}

struct FaultStaged(FaultStore, Box<dyn StagedFile>);

impl FaultStaged {
    /// Writes the first half of `data` for [`Fault::ShortWrite`].
    async fn half(&self, offset: u64, data: &Bytes) -> Result<()> {
        self.1.write_at(offset, data.slice(..data.len() / 2)).await?;
        Err(StoreError::NoSpace)
    }
}

#[async_trait]
impl StagedFile for FaultStaged {
    fn identity(&self) -> Option<Identity> {
        self.1.identity()
    }

    fn size(&self) -> u64 {
        self.1.size()
    }

    fn kept(&self) -> Option<u64> {
        self.1.kept()
    }

    fn ticket(&self) -> Option<String> {
        self.1.ticket()
    }

    fn try_write_at(&self, offset: u64, data: &[u8]) -> Result<bool> {
        if self.0.would_delay(StoreCall::Write) {
            return Ok(false);
        }
        match self.0.count(StoreCall::Write) {
            None => self.1.try_write_at(offset, data),
            Some(Fault::ShortWrite) => {
                let half = data.get(..data.len() / 2).unwrap_or_default();
                self.1.try_write_at(offset, half)?;
                Err(StoreError::NoSpace)
            }
            Some(Fault::LostAnswer) => {
                self.1.try_write_at(offset, data)?;
                Err(io())
            }
            Some(fault) => Err(error_of(fault)),
        }
    }

    async fn write_at(&self, offset: u64, data: Bytes) -> Result<()> {
        match self.0.count(StoreCall::Write) {
            None => self.1.write_at(offset, data).await,
            Some(Fault::ShortWrite) => self.half(offset, &data).await,
            Some(Fault::Delay(time)) => {
                tokio::time::sleep(time).await;
                self.1.write_at(offset, data).await
            }
            Some(Fault::LostAnswer) => {
                self.1.write_at(offset, data).await?;
                Err(io())
            }
            Some(fault) => Err(error_of(fault)),
        }
    }

    async fn read_at(&self, offset: u64, buf: BytesMut, len: usize) -> Result<BytesMut> {
        self.0.call(StoreCall::Read, self.1.read_at(offset, buf, len)).await
    }

    async fn copy_in(&self, source: &dyn ReadFile, range: CopyRange) -> Result<Option<u64>> {
        self.0.call(StoreCall::Write, self.1.copy_in(source, range)).await
    }

    async fn set_len(&self, size: u64) -> Result<()> {
        self.0.call(StoreCall::SetLen, self.1.set_len(size)).await
    }

    async fn sync(&self) -> Result<()> {
        self.0.call(StoreCall::Sync, self.1.sync()).await
    }

    async fn sync_name(&self) -> Result<()> {
        self.0.call(StoreCall::Sync, self.1.sync_name()).await
    }

    async fn publish(&self, how: &Publish) -> Result<Published> {
        self.0.call(StoreCall::Publish, self.1.publish(how)).await
    }

    async fn publish_undoably(&self, how: &Publish) -> Result<Published> {
        self.0.call(StoreCall::Publish, self.1.publish_undoably(how)).await
    }

    async fn settle(&self) {
        self.1.settle().await;
    }

    async fn take_back(&self) -> Result<TakenBack> {
        self.0.call(StoreCall::TakeBack, self.1.take_back()).await
    }

    async fn discard(&self) -> Result<()> {
        self.0.call(StoreCall::Discard, self.1.discard()).await
    }
}

#[async_trait]
impl Store for FaultStore {
    fn caps(&self) -> Caps {
        self.inner.caps()
    }

    fn threads(&self) -> Option<Threads> {
        self.inner.threads()
    }

    async fn stat(&self, path: &StorePath) -> Result<Meta> {
        self.call(StoreCall::Stat, self.inner.stat(path)).await
    }

    async fn list(&self, path: &StorePath) -> Result<Box<dyn Listing>> {
        let listing = self.call(StoreCall::List, self.inner.list(path)).await?;
        Ok(Box::new(FaultListing(self.clone(), listing)))
    }

    async fn open(&self, path: &StorePath) -> Result<Box<dyn ReadFile>> {
        let file = self.call(StoreCall::Open, self.inner.open(path)).await?;
        Ok(Box::new(FaultRead(self.clone(), file)))
    }

    async fn stage(&self, id: TransferId, target: &StorePath) -> Result<Box<dyn StagedFile>> {
        let file = self.call(StoreCall::Stage, self.inner.stage(id, target)).await?;
        Ok(Box::new(FaultStaged(self.clone(), file)))
    }

    async fn resume(&self, id: TransferId, target: &StorePath) -> Result<Box<dyn StagedFile>> {
        let file = self.call(StoreCall::Resume, self.inner.resume(id, target)).await?;
        Ok(Box::new(FaultStaged(self.clone(), file)))
    }

    fn adopt(&self, id: TransferId, target: &StorePath, ticket: &str) -> Result<()> {
        self.inner.adopt(id, target, ticket)
    }

    fn may_be_staged(&self, id: TransferId, target: &StorePath) {
        self.inner.may_be_staged(id, target);
    }

    async fn staged(&self) -> Result<Vec<Staged>> {
        self.call(StoreCall::Staged, self.inner.staged()).await
    }

    async fn discard_staged(&self, id: TransferId) -> Result<()> {
        self.call(StoreCall::DiscardStaged, self.inner.discard_staged(id)).await
    }

    async fn remove(&self, path: &StorePath) -> Result<()> {
        self.call(StoreCall::Remove, self.inner.remove(path)).await
    }

    async fn make_directory(&self, path: &StorePath) -> Result<()> {
        self.call(StoreCall::MakeDirectory, self.inner.make_directory(path)).await
    }

    async fn make_directory_with(&self, path: &StorePath, mode: ModeChange) -> Result<()> {
        self.call(StoreCall::MakeDirectory, self.inner.make_directory_with(path, mode)).await
    }

    async fn remove_directory(&self, path: &StorePath) -> Result<()> {
        self.call(StoreCall::RemoveDirectory, self.inner.remove_directory(path)).await
    }

    async fn rename(
        &self,
        from: &StorePath,
        to: &StorePath,
        existing: Existing,
    ) -> Result<Renamed> {
        self.call(StoreCall::Rename, self.inner.rename(from, to, existing)).await
    }

    async fn link(&self, from: &StorePath, to: &StorePath) -> Result<()> {
        self.call(StoreCall::Link, self.inner.link(from, to)).await
    }

    fn with_links(&self) -> Option<AnyStore> {
        let inner = self.inner.with_links()?;
        Some(Arc::new(FaultStore { inner, plan: Arc::clone(&self.plan) }))
    }

    async fn read_link(&self, path: &StorePath) -> Result<Option<String>> {
        self.call(StoreCall::ReadLink, self.inner.read_link(path)).await
    }

    async fn make_link(&self, target: &str, path: &StorePath) -> Result<()> {
        self.call(StoreCall::MakeLink, self.inner.make_link(target, path)).await
    }

    async fn set_times(
        &self,
        path: &StorePath,
        accessed: Option<Timestamp>,
        modified: Option<Timestamp>,
    ) -> Result<()> {
        self.call(StoreCall::SetTimes, self.inner.set_times(path, accessed, modified)).await
    }

    async fn set_mode(&self, path: &StorePath, change: ModeChange) -> Result<u32> {
        self.call(StoreCall::SetMode, self.inner.set_mode(path, change)).await
    }

    async fn space(&self) -> Result<Space> {
        self.call(StoreCall::Space, self.inner.space()).await
    }

    fn is_sick(&self) -> bool {
        self.inner.is_sick()
    }

    async fn probe(&self) -> Result<()> {
        self.call(StoreCall::Probe, self.inner.probe()).await
    }
}
