//! Where steps find files: the view of an account, and endpoints. A narrow seam over `vfs`, so
//! that the simulations of this crate run on simulated disks.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use entrepot_auth::As2Partner;
use entrepot_nouns::dry_run::LookedFor;
use entrepot_nouns::event::HeldFact;
use entrepot_nouns::noun::Stored;
use entrepot_nouns::rule::Existing;
use entrepot_nouns::{Endpoint, Env, Job, Key, Name, Secret, SiteId, StorePath, Timestamp, VPath};
use entrepot_storage::AnyStore;
use entrepot_vfs::HeldName;

use crate::step::StepError;

/// Opens the files of accounts, and endpoints.
#[async_trait]
pub(crate) trait FileAccess: Send + Sync {
    /// The files of `account`, for the time of one attempt of `job`. Events of what happens there
    /// name the job, its cause and its depth.
    async fn open_account(
        &self,
        job: &Job,
        account: &Name,
    ) -> Result<Box<dyn AccountFiles>, StepError>;

    /// The secret of an endpoint that steps talk to.
    async fn secret(&self, endpoint: &Stored<Endpoint>) -> Result<Option<Secret>, StepError>;

    /// The partner of AS2 that an endpoint is, with the keys of both sides; `None`: it is none.
    async fn as2_partner(
        &self,
        site: SiteId,
        endpoint: &Name,
    ) -> Result<Option<Arc<As2Partner>>, StepError>;

    /// The store of an endpoint.
    async fn store(&self, endpoint: &Stored<Endpoint>) -> Result<AnyStore, StepError>;

    /// The private half of a key.
    async fn private_key(&self, site: SiteId, key: &Key) -> Result<Secret, StepError>;

    /// The files of an endpoint, its root as `/`.
    async fn open_endpoint(
        &self,
        endpoint: &Stored<Endpoint>,
        env: &Env,
    ) -> Result<Box<dyn AccountFiles>, StepError>;

    /// Keeps sessions of this node from changing a name at an endpoint, and takes room for `size`
    /// bytes in the quotas that count it. `None`: there are no sessions.
    async fn hold_name(
        &self,
        endpoint: &Stored<Endpoint>,
        path: &StorePath,
        size: u64,
    ) -> Result<Option<HeldName>, StepError>;
}

/// Files as one account sees them. A file that is not there is [`StepError::missing`], a name
/// that is taken [`StepError::taken`].
#[async_trait]
pub(crate) trait AccountFiles: Send + Sync {
    /// Opens a file to read.
    async fn open(&self, path: &VPath) -> Result<Box<dyn Source>, StepError>;
    /// What is at a path; nothing there is changed, and nothing is recorded.
    async fn look(&self, path: &VPath) -> Result<LookedFor, StepError>;
    /// The names of the files right in a directory that `wanted` wants.
    async fn names(
        &self,
        directory: &VPath,
        wanted: &(dyn for<'n> Fn(&'n str) -> bool + Sync),
    ) -> Result<Vec<String>, StepError>;
    /// Where a file lies on a disk of this machine, if it does.
    async fn local(&self, path: &VPath) -> Result<Option<PathBuf>, StepError>;
    /// Renames a file.
    async fn rename(&self, from: &VPath, to: &VPath, existing: Existing) -> Result<(), StepError>;
    /// Gives a file its name that its mount holds.
    async fn release(&self, held: &HeldFact, existing: Existing) -> Result<(), StepError>;
    /// Removes a file.
    async fn remove(&self, path: &VPath) -> Result<(), StepError>;
    /// Makes a directory; one that is there is [`StepError::taken`].
    async fn make_directory(&self, path: &VPath) -> Result<(), StepError>;
    /// Begins a file of `size` bytes, which gets its name when it is finished.
    async fn create(
        &self,
        path: &VPath,
        existing: Existing,
        size: u64,
    ) -> Result<Box<dyn Sink>, StepError>;
    /// Closes the session behind it, which lasts for one attempt of a job.
    async fn close(self: Box<Self>);
}

/// A file opened to read.
#[async_trait]
pub(crate) trait Source: Send + Sync {
    /// Size in bytes, when the file was opened.
    fn size(&self) -> u64;
    /// Time of the last change, when the file was opened.
    fn modified(&self) -> Timestamp;
    /// Appends at most `len` bytes at `offset` to `buf`; none at the end of the file.
    async fn read_at(&self, offset: u64, buf: BytesMut, len: usize) -> Result<BytesMut, StepError>;
    /// Whether what was read is one version of the file. What stays readable as it was opened is.
    async fn is_as_opened(&self) -> Result<bool, StepError> {
        Ok(true)
    }
}

/// A file that is written from its beginning to its end.
#[async_trait]
pub(crate) trait Sink: Send + Sync {
    /// Writes a block behind the last one.
    async fn write_at(&mut self, offset: u64, block: Bytes) -> Result<(), StepError>;
    /// Gives the file its name, whole and durable.
    async fn finish(self: Box<Self>) -> Result<(), StepError>;
    /// Drops what was written.
    async fn abort(self: Box<Self>);
}
