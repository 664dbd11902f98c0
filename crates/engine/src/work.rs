//! Files that steps make for later steps of the same job, on a disk of this node. Such a file is
//! whole and durable before its step is recorded. It goes when the job is done; a job that goes on
//! where the file is not, on another node, runs the step again that made it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use entrepot_crypto::{Sha256, StreamDigest};
use entrepot_db::Db;
use entrepot_nouns::{
    Digests, Env, Job, JobId, JobState, SiteId, StepAddress, StorePath, Timestamp, TransferId,
};
use entrepot_storage::{
    AnyStore, Entry, Existing, Publish, ReadFile, StagedFile, StoreError, make_directories_above,
};
use tokio_util::sync::CancellationToken;

use crate::ids;
use crate::limits::{WORK_KEPT, WORK_PAGE, WORK_SWEEP};
use crate::noted::FileValue;

/// A folder of this node for files that live as long as a job.
#[derive(Clone)]
pub struct WorkFolder {
    /// The store of the folder, which nobody else writes to.
    pub store: AnyStore,
    /// Where the folder lies, if programs can open what is in it.
    pub path: Option<PathBuf>,
    /// Most bytes of all files in it.
    pub limit: u64,
}

/// The folder of a running node.
pub(crate) struct WorkArea {
    folder: WorkFolder,
    /// Bytes of all files, whole and unfinished.
    used: AtomicU64,
}

/// Bytes taken for a file that is not whole yet.
struct Taken {
    area: Arc<WorkArea>,
    bytes: u64,
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.area.give_back(self.bytes);
    }
}

/// Why the area cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WorkError {
    /// The disk refused.
    #[error("a work file on this node: {0}")]
    Store(#[from] StoreError),
    /// All of them together would be too large.
    #[error(
        "the work files of this node would take {used} bytes, and {limit} is the limit; jobs that \
         end make room"
    )]
    Full {
        /// Bytes with those that were asked for.
        used: u64,
        limit: u64,
    },
}

/// A file that a step is making.
pub(crate) struct WorkFile {
    staged: Box<dyn StagedFile>,
    digest: StreamDigest,
    taken: Taken,
}

/// What is known of a file that is whole.
pub(crate) struct Whole {
    pub(crate) size: u64,
    pub(crate) digests: Digests,
}

/// Whose files a folder has: its name in the area.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Owner {
    site: SiteId,
    job: JobId,
}

impl Owner {
    pub(crate) fn of(job: &Job) -> Owner {
        Owner { site: job.site, job: job.id }
    }

    fn read(name: &str) -> Option<Owner> {
        let (site, job) = name.split_once('.')?;
        Some(Owner { site: site.parse().ok()?, job: job.parse().ok()? })
    }

    fn folder(self) -> Result<StorePath, StoreError> {
        let name = format!("{}.{}", self.site, self.job);
        name.parse().map_err(|_| StoreError::Escape)
    }
}

/// Where the file is that the step at `address` makes under the lease of `epoch`.
fn place(job: &Job, address: &StepAddress, epoch: i64) -> Result<StorePath, StoreError> {
    let file = ids::work_file(job.id, address, epoch).to_string();
    let folder = Owner::of(job).folder()?;
    folder.join(&file).map_err(|_| StoreError::Escape)
}

impl WorkArea {
    pub(crate) fn new(folder: WorkFolder) -> Arc<WorkArea> {
        Arc::new(WorkArea { folder, used: AtomicU64::new(0) })
    }

    /// Bytes of all files in it.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    fn take(&self, bytes: u64) -> Result<(), WorkError> {
        let used = self.used.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        let limit = self.folder.limit;
        if used <= limit {
            return Ok(());
        }
        self.give_back(bytes);
        Err(WorkError::Full { used, limit })
    }

    fn give_back(&self, bytes: u64) {
        let less = |used: u64| Some(used.saturating_sub(bytes));
        // The closure never refuses.
        let _ = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Whether the file is here as it was made; its content is compared where it is read.
    pub(crate) async fn has(&self, job: &Job, file: &FileValue) -> Result<bool, WorkError> {
        match self.folder.store.stat(&place(job, &file.step, file.epoch)?).await {
            Ok(meta) => Ok(meta.size == file.size),
            Err(StoreError::NotFound) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) async fn open(
        &self,
        job: &Job,
        file: &FileValue,
    ) -> Result<Box<dyn ReadFile>, WorkError> {
        Ok(self.folder.store.open(&place(job, &file.step, file.epoch)?).await?)
    }

    /// Begins the file of the step at `address` of a job.
    pub(crate) async fn create(
        self: Arc<Self>,
        job: &Job,
        address: &StepAddress,
        staging: TransferId,
    ) -> Result<WorkFile, WorkError> {
        let place = place(job, address, job.epoch)?;
        let store = &self.folder.store;
        make_directories_above(store, &place).await?;
        let staged = store.stage(staging, &place).await?;
        let digest = StreamDigest::new(Sha256::Unwanted);
        Ok(WorkFile { staged, digest, taken: Taken { area: self, bytes: 0 } })
    }

    /// Where the file lies on a disk of this machine, if programs can open it there.
    pub(crate) fn local(&self, job: &Job, file: &FileValue) -> Result<Option<PathBuf>, WorkError> {
        let place = place(job, &file.step, file.epoch)?;
        Ok(self.folder.path.as_ref().map(|folder| folder.join(place.as_str())))
    }

    /// Removes one file that a step of a job made; one that is not here is gone already.
    pub(crate) async fn remove_file(&self, job: &Job, file: &FileValue) -> Result<(), StoreError> {
        match self.folder.store.remove(&place(job, &file.step, file.epoch)?).await {
            Ok(()) => {
                self.give_back(file.size);
                Ok(())
            }
            Err(StoreError::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Removes what the steps of a job made.
    pub(crate) async fn remove(&self, owner: Owner) -> Result<(), StoreError> {
        let directory = owner.folder()?;
        let inside = match self.entries(&directory).await {
            Err(StoreError::NotFound) => return Ok(()),
            inside => inside?,
        };
        for entry in inside {
            if let Ok(path) = directory.join(&entry.name) {
                self.folder.store.remove(&path).await?;
                self.give_back(entry.meta.size);
            }
        }
        match self.folder.store.remove_directory(&directory).await {
            Err(StoreError::NotFound) | Ok(()) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// What each job has here.
    async fn jobs(&self) -> Result<Vec<Held>, StoreError> {
        let mut found = Vec::new();
        for entry in self.entries(&StorePath::root()).await? {
            let Some(owner) = Owner::read(&entry.name) else { continue };
            let mut held = Held { owner, bytes: 0, newest: entry.meta.modified };
            for file in self.entries(&owner.folder()?).await? {
                held.bytes = held.bytes.saturating_add(file.meta.size);
                held.newest = held.newest.max(file.meta.modified);
            }
            found.push(held);
        }
        Ok(found)
    }

    async fn entries(&self, directory: &StorePath) -> Result<Vec<Entry>, StoreError> {
        let mut listing = self.folder.store.list(directory).await?;
        let mut found = Vec::new();
        loop {
            let page = listing.next_page(WORK_PAGE).await?;
            if page.is_empty() {
                return Ok(found);
            }
            found.extend(page);
        }
    }
}

/// What a job has in the area.
struct Held {
    owner: Owner,
    bytes: u64,
    newest: Timestamp,
}

/// Removes what no job needs any more, now and every so often until `stop`.
pub(crate) async fn sweep(area: Arc<WorkArea>, db: Db, env: Env, stop: CancellationToken) {
    let mut counted = Counted::No;
    while !stop.is_cancelled() {
        if let Err(problem) = sweep_once(&area, &db, env.now(), &mut counted).await {
            tracing::warn!(code = "EP0816", problem, "the work folder was not tidied");
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = tokio::time::sleep(WORK_SWEEP) => {}
        }
    }
}

/// Whether the files are counted that were there before the engine started.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Counted {
    No,
    Yes,
}

async fn sweep_once(
    area: &WorkArea,
    db: &Db,
    now: Timestamp,
    counted: &mut Counted,
) -> Result<(), String> {
    let store = &area.folder.store;
    let held = area.jobs().await.map_err(|error| error.to_string())?;
    if *counted == Counted::No {
        let bytes = held.iter().map(|held| held.bytes).sum();
        area.used.fetch_add(bytes, Ordering::Relaxed);
        *counted = Counted::Yes;
    }
    for held in held {
        let Owner { site, job } = held.owner;
        let job = db.job(site, job).await.map_err(|error| error.to_string())?;
        let is_over = match job.map(|job| job.state) {
            None | Some(JobState::Done | JobState::Cancelled) => true,
            // Somebody may look into it, and let it go on.
            Some(JobState::Failed) => now.since(held.newest) > WORK_KEPT,
            Some(_) => false,
        };
        if is_over {
            area.remove(held.owner).await.map_err(|error| error.to_string())?;
        }
    }
    for left in store.staged().await.map_err(|error| error.to_string())? {
        if now.since(left.modified) > WORK_KEPT {
            store.discard_staged(left.id).await.map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

impl WorkFile {
    /// Appends a block.
    pub(crate) async fn write(&mut self, block: Bytes) -> Result<(), WorkError> {
        let bytes = block.len() as u64;
        self.taken.area.take(bytes)?;
        self.taken.bytes = self.taken.bytes.saturating_add(bytes);
        let offset = self.digest.length();
        self.digest.update(&block);
        Ok(self.staged.write_at(offset, block).await?)
    }

    /// Bytes so far.
    pub(crate) fn size(&self) -> u64 {
        self.digest.length()
    }

    /// Makes what was written durable.
    pub(crate) async fn sync(&self) -> Result<(), WorkError> {
        Ok(self.staged.sync().await?)
    }

    /// Gives the file its place; its size and digests.
    pub(crate) async fn publish(mut self) -> Result<Whole, WorkError> {
        let (size, digests) = (self.size(), self.digest.finish());
        let existing = Existing::Replace;
        let how = Publish { existing, accessed: None, modified: None, mode: None, size };
        self.staged.publish(&how).await?;
        // It counts as long as it is there.
        self.taken.bytes = 0;
        Ok(Whole { size, digests })
    }

    /// Drops what was written.
    pub(crate) async fn discard(self) {
        // Best effort: what is left goes with the sweeps of the next day.
        let _ = self.staged.discard().await;
    }
}
