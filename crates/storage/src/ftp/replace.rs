//! Renaming a file on the server, over another one if that is wanted.
//!
//! Most servers replace by RNTO in one step. On others, and if the endpoint allows it
//! ([`PublishBy::RemoveAndRename`]), the old file is moved aside, the new one gets the name, and
//! the old one is removed. If the second step is refused, the old file gets its name back.

use entrepot_ftp_proto::client::Op;
use entrepot_nouns::StorePath;
use entrepot_nouns::endpoint::PublishBy;

use super::lookup::name_state;
use super::remote::Remote;
use crate::error::{Result, StoreError};
use crate::parts::names;
use crate::store::Existing;

/// The rename of one file.
#[derive(Clone, Copy)]
pub(super) struct FileRename<'a> {
    pub(super) from: &'a StorePath,
    pub(super) to: &'a StorePath,
    pub(super) existing: Existing,
    /// Whether an existing file may be replaced in several steps.
    pub(super) publish: PublishBy,
}

impl FileRename<'_> {
    /// Renames the file. `true`: it replaced a file.
    pub(super) async fn run(self, remote: &mut Remote) -> Result<bool> {
        let state = name_state(remote, self.to).await?;
        if state.is_directory() {
            return Err(StoreError::IsDirectory);
        }
        let is_taken = state.is_taken();
        if is_taken && self.existing == Existing::Refuse {
            return Err(StoreError::Exists);
        }
        let rename = Op::Rename { from: remote.path(self.from), to: remote.path(self.to) };
        match remote.change(rename).await {
            Ok(()) => Ok(is_taken),
            Err(failed) if is_taken && failed.code() >= 500 => {
                if self.publish != PublishBy::RemoveAndRename {
                    return Err(StoreError::Unsupported(
                        "the server does not replace a file by renaming another; see 'publish' of \
                         the endpoint",
                    ));
                }
                self.replace_in_steps(remote).await?;
                Ok(true)
            }
            Err(failed) => Err(failed.into()),
        }
    }

    /// Whatever fails, either of the two files has the name, or the old one still exists beside it.
    async fn replace_in_steps(self, remote: &mut Remote) -> Result<()> {
        let aside = names::replaced_name_of(self.to)?;
        tracing::info!(path = remote.path(self.to), "replaced in several steps");
        let (from, to, aside) = (remote.path(self.from), remote.path(self.to), remote.path(&aside));
        remote.change(Op::Rename { from: to.clone(), to: aside.clone() }).await?;
        if let Err(failed) = remote.change(Op::Rename { from, to: to.clone() }).await {
            remote.change(Op::Rename { from: aside, to }).await?;
            return Err(failed.into());
        }
        if let Err(failed) = remote.change(Op::Delete(aside)).await {
            let error = StoreError::from(failed);
            tracing::warn!(%error, "a file that was replaced cannot be removed");
        }
        Ok(())
    }
}
