//! [`FileAccess`] as they are: sessions of `vfs`, opened for accounts that `auth` admits, and the
//! stores of endpoints.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use entrepot_auth::{As2Partner, AuthError, Gate};
use entrepot_net::meter::Lane as RateLane;
use entrepot_nouns::dry_run::LookedFor;
use entrepot_nouns::event::HeldFact;
use entrepot_nouns::noun::Stored;
use entrepot_nouns::rule::Existing;
use entrepot_nouns::{
    Endpoint, EndpointTarget, Env, Job, Key, Name, Secret, SiteId, StorePath, Timestamp, VPath,
};
use entrepot_storage::{AnyStore, EntryKind, Publish, ReadFile, StagedFile, StoreError};
use entrepot_vfs::{Create, CreateIntent, Download, HeldName, Service, Session, Upload, VfsError};

use crate::files::{AccountFiles, FileAccess, Sink, Source};
use crate::limits::WATCH_PAGE;
use crate::step::{StepError, is_same_time};

/// Sessions of `vfs`.
pub(crate) struct SessionFileAccess {
    vfs: Service,
    gate: Gate,
}

impl SessionFileAccess {
    pub(crate) fn new(vfs: Service, gate: Gate) -> Self {
        SessionFileAccess { vfs, gate }
    }
}

#[async_trait]
impl FileAccess for SessionFileAccess {
    async fn open_account(
        &self,
        job: &Job,
        account: &Name,
    ) -> Result<Box<dyn AccountFiles>, StepError> {
        let why = format!("rule {}", job.rule);
        let grant = self.gate.internal(job.site, account, &why).await.map_err(refused)?;
        let depth = job.event.depth.saturating_add(1);
        let opened = Session::open_for_job(&self.vfs, grant, job.id, job.event.id, depth).await;
        let session = opened.map_err(|error| {
            StepError::transient("EP0805", format!("no session for account '{account}': {error}"))
        })?;
        Ok(Box::new(SessionFiles(session)))
    }

    async fn secret(&self, endpoint: &Stored<Endpoint>) -> Result<Option<Secret>, StepError> {
        self.vfs.endpoint_secret(endpoint).await.map_err(|error| {
            let name = &endpoint.noun.name;
            StepError::transient("EP0805", format!("the secret of endpoint '{name}': {error}"))
        })
    }

    async fn as2_partner(
        &self,
        site: SiteId,
        endpoint: &Name,
    ) -> Result<Option<Arc<As2Partner>>, StepError> {
        self.gate.as2_partner_at(site, endpoint).await.map_err(refused)
    }

    async fn store(&self, endpoint: &Stored<Endpoint>) -> Result<AnyStore, StepError> {
        self.vfs.store(endpoint).await.map_err(|error| {
            let name = &endpoint.noun.name;
            StepError::transient("EP0805", format!("endpoint '{name}' cannot be opened: {error}"))
        })
    }

    async fn private_key(&self, site: SiteId, key: &Key) -> Result<Secret, StepError> {
        let name = &key.name;
        let found = self.vfs.private_key(site, key).await.map_err(|error| {
            StepError::transient("EP0805", format!("key '{name}' cannot be opened: {error}"))
        })?;
        found.ok_or_else(|| {
            StepError::permanent("EP0872", format!("key '{name}' has no private half here"))
        })
    }

    async fn open_endpoint(
        &self,
        endpoint: &Stored<Endpoint>,
        env: &Env,
    ) -> Result<Box<dyn AccountFiles>, StepError> {
        let (name, store) = (endpoint.noun.name.clone(), self.store(endpoint).await?);
        let directory = match &endpoint.noun.target {
            EndpointTarget::Directory(target) => Some(PathBuf::from(&target.path)),
            _ => None,
        };
        Ok(Box::new(EndpointFiles { endpoint: name, store, directory, env: env.clone() }))
    }

    async fn hold_name(
        &self,
        endpoint: &Stored<Endpoint>,
        path: &StorePath,
        size: u64,
    ) -> Result<Option<HeldName>, StepError> {
        let held = self.vfs.hold_name(endpoint, path, size).await;
        held.map(Some).map_err(|error| {
            let is_quota = matches!(error, VfsError::Quota { .. });
            let code = if is_quota { "EP0534" } else { "EP0805" };
            let name = &endpoint.noun.name;
            StepError::transient(code, format!("'{path}' at endpoint '{name}': {error}"))
        })
    }
}

fn refused(error: AuthError) -> StepError {
    match error {
        AuthError::Unavailable(_) | AuthError::Journal(_) => {
            StepError::transient("EP0805", error.to_string())
        }
        _ => StepError::permanent("EP0811", error.to_string()),
    }
}

struct SessionFiles(Session);

/// What `error` about `path` means for a job.
fn failed(path: &VPath, error: &VfsError) -> StepError {
    match error {
        VfsError::NotFound => StepError::missing(path),
        VfsError::Exists => StepError::taken(path),
        VfsError::Denied { .. }
        | VfsError::IsDirectory
        | VfsError::NotDirectory
        | VfsError::NotEmpty
        | VfsError::OtherMount
        | VfsError::Unsupported => StepError::permanent("EP0812", format!("'{path}': {error}")),
        _ => StepError::transient("EP0805", format!("'{path}': {error}")),
    }
}

/// As [`failed`], about a file that is held.
fn held_failed(held: &HeldFact, error: &VfsError) -> StepError {
    match held.file.path.parse() {
        Ok(path) => failed(&path, error),
        Err(error) => StepError::permanent("EP0812", format!("'{}': {error}", held.file.path)),
    }
}

#[async_trait]
impl AccountFiles for SessionFiles {
    async fn open(&self, path: &VPath) -> Result<Box<dyn Source>, StepError> {
        let opened = self.0.vfs().open(path).await;
        let file = opened.map_err(|error| failed(path, &error))?;
        let rates = self.0.throttles().download;
        Ok(Box::new(SessionFile { file, path: path.clone(), rates }))
    }

    async fn look(&self, path: &VPath) -> Result<LookedFor, StepError> {
        let found = self.0.vfs().published(path).await.map_err(|error| failed(path, &error))?;
        Ok(match found {
            None => LookedFor::Nothing,
            Some(found) if found.kind == EntryKind::File => {
                LookedFor::File { size: found.size, modified: found.modified }
            }
            Some(_) => LookedFor::Directory,
        })
    }

    async fn names(
        &self,
        directory: &VPath,
        wanted: &(dyn for<'n> Fn(&'n str) -> bool + Sync),
    ) -> Result<Vec<String>, StepError> {
        let wrong = |error: VfsError| failed(directory, &error);
        let mut listing = self.0.vfs().list(directory).await.map_err(wrong)?;
        let mut names = Vec::new();
        loop {
            let page = listing.next_page(WATCH_PAGE).await.map_err(wrong)?;
            if page.is_empty() {
                return Ok(names);
            }
            let files = page.into_iter().filter(|it| it.attributes.kind == EntryKind::File);
            names.extend(files.map(|entry| entry.name).filter(|name| wanted(name)));
        }
    }

    async fn local(&self, path: &VPath) -> Result<Option<PathBuf>, StepError> {
        self.0.vfs().local_path(path).await.map_err(|error| failed(path, &error))
    }

    async fn rename(&self, from: &VPath, to: &VPath, existing: Existing) -> Result<(), StepError> {
        let existing = existing.into();
        let done = self.0.vfs().rename(from, to, existing).await;
        done.map_err(|error| match error {
            VfsError::Exists => StepError::taken(to),
            error => failed(from, &error),
        })?;
        Ok(())
    }

    async fn release(&self, held: &HeldFact, existing: Existing) -> Result<(), StepError> {
        let released = self.0.vfs().release(held, existing.into()).await;
        released.map_err(|error| held_failed(held, &error))
    }

    async fn remove(&self, path: &VPath) -> Result<(), StepError> {
        self.0.vfs().remove(path).await.map_err(|error| failed(path, &error))
    }

    async fn make_directory(&self, path: &VPath) -> Result<(), StepError> {
        self.0.vfs().make_directory(path).await.map_err(|error| failed(path, &error))
    }

    async fn create(
        &self,
        path: &VPath,
        existing: Existing,
        size: u64,
    ) -> Result<Box<dyn Sink>, StepError> {
        let intent = match existing {
            Existing::Replace => CreateIntent::New,
            Existing::Refuse => CreateIntent::Exclusive,
        };
        let create = Create { intent, expected_size: Some(size), append: false };
        let upload = self.0.vfs().create(path, create).await;
        let upload = upload.map_err(|error| failed(path, &error))?;
        let rates = self.0.throttles().upload;
        Ok(Box::new(SessionUpload { upload, path: path.clone(), rates }))
    }

    async fn close(self: Box<Self>) {
        self.0.close("the job's attempt ended", 0, 0).await;
    }
}

/// A file of an account, read as fast as what the policies of the account say of downloads.
struct SessionFile {
    file: Download,
    path: VPath,
    rates: RateLane,
}

#[async_trait]
impl Source for SessionFile {
    fn size(&self) -> u64 {
        self.file.attributes().size
    }

    fn modified(&self) -> Timestamp {
        self.file.attributes().modified
    }

    async fn read_at(&self, offset: u64, buf: BytesMut, len: usize) -> Result<BytesMut, StepError> {
        self.rates.pause().await;
        let before = buf.len();
        let read = self.file.read_at(offset, buf, len).await;
        let read = read.map_err(|error| failed(&self.path, &error))?;
        self.rates.take(read.len().saturating_sub(before));
        Ok(read)
    }
}

/// A new file of an account, written as fast as what its policies say of uploads.
struct SessionUpload {
    upload: Upload,
    path: VPath,
    rates: RateLane,
}

#[async_trait]
impl Sink for SessionUpload {
    async fn write_at(&mut self, offset: u64, block: Bytes) -> Result<(), StepError> {
        self.rates.pause().await;
        self.rates.take(block.len());
        let written = self.upload.write_at(offset, block).await;
        written.map_err(|error| failed(&self.path, &error))
    }

    async fn finish(self: Box<Self>) -> Result<(), StepError> {
        let SessionUpload { upload, path, .. } = *self;
        upload.finish().await.map(drop).map_err(|error| failed(&path, &error))
    }

    async fn abort(self: Box<Self>) {
        self.upload.abort().await;
    }
}

/// The files of one endpoint, its root as `/`: those of a rule that watches a folder there and
/// names no account.
pub(crate) struct EndpointFiles {
    pub(crate) endpoint: Name,
    pub(crate) store: AnyStore,
    /// Where its root is on a disk of this machine, if it is.
    pub(crate) directory: Option<PathBuf>,
    pub(crate) env: Env,
}

fn at_endpoint(path: &VPath) -> StorePath {
    path.below(&VPath::root()).unwrap_or_default()
}

impl EndpointFiles {
    fn failed(&self, path: &VPath, error: &StoreError) -> StepError {
        failed_there(&self.endpoint, path, error)
    }
}

fn failed_there(endpoint: &Name, path: &VPath, error: &StoreError) -> StepError {
    match error {
        StoreError::NotFound => StepError::missing(path),
        StoreError::Exists => StepError::taken(path),
        error => StepError::at_endpoint(endpoint.as_str(), path.as_str(), error),
    }
}

#[async_trait]
impl AccountFiles for EndpointFiles {
    async fn open(&self, path: &VPath) -> Result<Box<dyn Source>, StepError> {
        let opened = self.store.open(&at_endpoint(path)).await;
        let file = opened.map_err(|error| self.failed(path, &error))?;
        let (endpoint, store) = (self.endpoint.clone(), self.store.clone());
        Ok(Box::new(EndpointSource { endpoint, store, file, path: path.clone() }))
    }

    async fn look(&self, path: &VPath) -> Result<LookedFor, StepError> {
        match self.store.stat(&at_endpoint(path)).await {
            Ok(meta) => Ok(match meta.kind {
                EntryKind::File => LookedFor::File { size: meta.size, modified: meta.modified },
                EntryKind::Directory | EntryKind::Link => LookedFor::Directory,
            }),
            Err(StoreError::NotFound) => Ok(LookedFor::Nothing),
            Err(error) => Err(self.failed(path, &error)),
        }
    }

    async fn names(
        &self,
        directory: &VPath,
        wanted: &(dyn for<'n> Fn(&'n str) -> bool + Sync),
    ) -> Result<Vec<String>, StepError> {
        let wrong = |error: StoreError| self.failed(directory, &error);
        let mut listing = self.store.list(&at_endpoint(directory)).await.map_err(wrong)?;
        let mut names = Vec::new();
        loop {
            let page = listing.next_page(WATCH_PAGE).await.map_err(wrong)?;
            if page.is_empty() {
                return Ok(names);
            }
            let files = page.into_iter().filter(|entry| entry.meta.kind == EntryKind::File);
            names.extend(files.map(|entry| entry.name).filter(|name| wanted(name)));
        }
    }

    /// Programs get a copy of what lies elsewhere only by standard input.
    async fn local(&self, path: &VPath) -> Result<Option<PathBuf>, StepError> {
        Ok(self.directory.as_ref().map(|root| root.join(at_endpoint(path).as_str())))
    }

    async fn rename(&self, from: &VPath, to: &VPath, existing: Existing) -> Result<(), StepError> {
        let (at, new) = (at_endpoint(from), at_endpoint(to));
        let renamed = self.store.rename(&at, &new, existing.into()).await;
        renamed.map(drop).map_err(|error| match error {
            StoreError::Exists => StepError::taken(to),
            error => self.failed(from, &error),
        })
    }

    /// No mount of an account is here.
    async fn release(&self, held: &HeldFact, _existing: Existing) -> Result<(), StepError> {
        Err(held_failed(held, &VfsError::Unsupported))
    }

    async fn remove(&self, path: &VPath) -> Result<(), StepError> {
        self.store.remove(&at_endpoint(path)).await.map_err(|error| self.failed(path, &error))
    }

    async fn make_directory(&self, path: &VPath) -> Result<(), StepError> {
        let made = self.store.make_directory(&at_endpoint(path)).await;
        made.map_err(|error| self.failed(path, &error))
    }

    async fn create(
        &self,
        path: &VPath,
        existing: Existing,
        size: u64,
    ) -> Result<Box<dyn Sink>, StepError> {
        let id = self.env.new_id();
        let staged = self.store.stage(id, &at_endpoint(path)).await;
        let staged = staged.map_err(|error| self.failed(path, &error))?;
        let (endpoint, path) = (self.endpoint.clone(), path.clone());
        Ok(Box::new(EndpointSink { endpoint, path, staged, existing, size }))
    }

    async fn close(self: Box<Self>) {}
}

struct EndpointSource {
    endpoint: Name,
    store: AnyStore,
    file: Box<dyn ReadFile>,
    path: VPath,
}

#[async_trait]
impl Source for EndpointSource {
    fn size(&self) -> u64 {
        self.file.meta().size
    }

    fn modified(&self) -> Timestamp {
        self.file.meta().modified
    }

    async fn read_at(&self, offset: u64, buf: BytesMut, len: usize) -> Result<BytesMut, StepError> {
        let read = self.file.read_at(offset, buf, len).await;
        read.map_err(|error| failed_there(&self.endpoint, &self.path, &error))
    }

    /// A server may let others write into a file that we read.
    async fn is_as_opened(&self) -> Result<bool, StepError> {
        match self.store.stat(&at_endpoint(&self.path)).await {
            Ok(meta) => {
                Ok(meta.size == self.size() && is_same_time(meta.modified, self.modified()))
            }
            Err(StoreError::NotFound) => Ok(false),
            Err(error) => Err(failed_there(&self.endpoint, &self.path, &error)),
        }
    }
}

struct EndpointSink {
    endpoint: Name,
    path: VPath,
    staged: Box<dyn StagedFile>,
    existing: Existing,
    size: u64,
}

impl EndpointSink {
    fn failed(&self, error: &StoreError) -> StepError {
        failed_there(&self.endpoint, &self.path, error)
    }
}

#[async_trait]
impl Sink for EndpointSink {
    async fn write_at(&mut self, offset: u64, block: Bytes) -> Result<(), StepError> {
        let written = self.staged.write_at(offset, block).await;
        written.map_err(|error| self.failed(&error))
    }

    async fn finish(self: Box<Self>) -> Result<(), StepError> {
        let (existing, size) = (self.existing.into(), self.size);
        let how = Publish { existing, accessed: None, modified: None, mode: None, size };
        self.staged.sync().await.map_err(|error| self.failed(&error))?;
        self.staged.publish(&how).await.map(drop).map_err(|error| self.failed(&error))
    }

    async fn abort(self: Box<Self>) {
        // Best effort: the sweeper discards it after all.
        let _ = self.staged.discard().await;
    }
}
