//! Renaming a file on the server, over another one if that is wanted.
//!
//! With `posix-rename@openssh.com` a file is replaced in one step. Without it, and if the endpoint
//! allows it ([`PublishBy::RemoveAndRename`]), it takes three: the old file is moved aside, the new
//! one gets the name, the old one is removed. If the second step fails, the old file gets its name
//! back, on a new connection if the first one broke. If the server cannot be reached any more, the
//! old file still exists beside its name.

use std::sync::Arc;

use entrepot_nouns::StorePath;
use entrepot_nouns::endpoint::PublishBy;
use entrepot_sftp_proto::Status;

use super::errors::Failed;
use super::lookup::find;
use super::pool::Pool;
use super::remote::Remote;
use crate::error::{Result, StoreError};
use crate::parts::names;
use crate::store::{EntryKind, Existing};

/// The rename of one file.
pub(super) struct FileRename<'a> {
    pub(super) from: &'a StorePath,
    pub(super) to: &'a StorePath,
    pub(super) existing: Existing,
    /// Whether an existing file may be replaced in several steps.
    pub(super) publish: PublishBy,
}

impl FileRename<'_> {
    /// Renames the file on `remote`. `true`: it replaced a file. A new connection comes from
    /// `pool` if `remote` is lost between the steps of a replacement.
    pub(super) async fn run(&self, pool: &Pool, remote: &Arc<Remote>) -> Result<bool> {
        let (from, to) = (remote.path(self.from), remote.path(self.to));
        let old = find(remote, self.to).await?;
        let renamed = match (&old, self.existing) {
            (Some(meta), _) if meta.kind == EntryKind::Directory => {
                return Err(StoreError::IsDirectory);
            }
            (Some(_), Existing::Refuse) => return Err(StoreError::Exists),
            (None, Existing::Refuse) => rename(remote, &from, &to).await,
            (_, Existing::Replace) => {
                match remote.ask(|client| client.posix_rename(&from, &to)).await.map(drop) {
                    Err(Failed::NotBegun(_)) if old.is_some() => {
                        return self.replace_in_steps(pool, remote).await.map(|()| true);
                    }
                    Err(Failed::NotBegun(_)) => rename(remote, &from, &to).await,
                    answered => answered,
                }
            }
        };
        match renamed {
            Ok(()) => Ok(old.is_some()),
            Err(failed) if failed.is(Status::Failure) => match find(remote, self.to).await? {
                Some(meta) if meta.kind == EntryKind::Directory => Err(StoreError::IsDirectory),
                Some(_) if self.existing == Existing::Refuse => Err(StoreError::Exists),
                _ => Err(failed.into()),
            },
            Err(failed) => Err(failed.into()),
        }
    }

    /// Replaces a file on a server whose RENAME does not replace.
    async fn replace_in_steps(&self, pool: &Pool, remote: &Arc<Remote>) -> Result<()> {
        if self.publish != PublishBy::RemoveAndRename {
            return Err(StoreError::Unsupported(
                "the server cannot replace a file in one step (posix-rename@openssh.com); see \
                 'publish' of the endpoint",
            ));
        }
        let aside = names::replaced_name_of(self.to)?;
        tracing::info!(path = remote.path(self.to), "replaced in several steps");
        match self.move_aside_and_rename(remote, &aside).await {
            Ok(()) => {}
            Err(failed) => self.undo(pool, remote, &aside, failed).await?,
        }
        if let Err(error) = remove_old(pool, remote, &aside).await {
            tracing::warn!(%error, path = %aside, "a file that was replaced cannot be removed");
        }
        Ok(())
    }

    async fn move_aside_and_rename(
        &self,
        remote: &Remote,
        aside: &StorePath,
    ) -> Result<(), Failed> {
        let (from, to) = (remote.path(self.from), remote.path(self.to));
        let aside = remote.path(aside);
        match rename(remote, &to, &aside).await {
            Err(failed) if failed.is(Status::Failure) => {
                // An earlier replacement may have left its old file. Since then the name was given
                // to a newer one, which is the one to keep.
                remove(remote, &aside).await.map_err(|_| failed)?;
                rename(remote, &to, &aside).await?;
            }
            moved => moved?,
        }
        rename(remote, &from, &to).await
    }

    /// Gives the old file its name back after `failed`. `Ok` if the new file has the name after
    /// all: the connection broke when the server had done the rename.
    async fn undo(
        &self,
        pool: &Pool,
        remote: &Arc<Remote>,
        aside: &StorePath,
        failed: Failed,
    ) -> Result<()> {
        let restored = self.restore(pool, remote, aside).await;
        match (restored, failed) {
            (Ok(Restored::NewFileHasName), Failed::Lost(_)) => Ok(()),
            (Ok(_), failed) => Err(failed.into()),
            (Err(error), failed) => {
                tracing::error!(
                    %error,
                    path = %self.to,
                    aside = %aside,
                    "a replacement failed, and the old file may not have its name back"
                );
                Err(failed.into())
            }
        }
    }

    async fn restore(
        &self,
        pool: &Pool,
        remote: &Arc<Remote>,
        aside: &StorePath,
    ) -> Result<Restored> {
        let remote = usable(pool, remote).await?;
        if find(&remote, self.to).await?.is_some() {
            return Ok(match find(&remote, self.from).await? {
                Some(_) => Restored::OldFileHasName,
                None => Restored::NewFileHasName,
            });
        }
        rename(&remote, &remote.path(aside), &remote.path(self.to)).await?;
        Ok(Restored::OldFileHasName)
    }
}

/// Which file has the name after a replacement that failed.
enum Restored {
    OldFileHasName,
    NewFileHasName,
}

/// The connection, or another one if it is lost.
async fn usable(pool: &Pool, remote: &Arc<Remote>) -> Result<Arc<Remote>> {
    if remote.is_lost() { pool.common().await } else { Ok(Arc::clone(remote)) }
}

async fn remove_old(pool: &Pool, remote: &Arc<Remote>, aside: &StorePath) -> Result<()> {
    let remote = usable(pool, remote).await?;
    Ok(remove(&remote, &remote.path(aside)).await?)
}

async fn rename(remote: &Remote, from: &str, to: &str) -> Result<(), Failed> {
    remote.ask(|client| client.rename(from, to)).await.map(drop)
}

async fn remove(remote: &Remote, path: &str) -> Result<(), Failed> {
    remote.ask(|client| client.remove(path)).await.map(drop)
}
