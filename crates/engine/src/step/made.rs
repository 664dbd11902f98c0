//! Steps that make a file for later steps: it becomes the file that they work on.

use bytes::Bytes;
use entrepot_nouns::transfer::hex;

use super::StepError;
use crate::ids::{self, StepKey};
use crate::noted::{FILE, FileValue};
use crate::run::Run;
use crate::work::{WorkError, WorkFile};

/// A file that the step under way is making.
pub(super) struct Making(WorkFile);

impl Making {
    pub(super) async fn begin(run: &Run<'_>, key: &StepKey) -> Result<Making, StepError> {
        let staging = ids::staging(run.job, key, run.job.epoch);
        let area = run.shared.work.clone();
        let creating = area.create(run.job, run.address()?, staging);
        Ok(Making(run.hold.waiting(creating).await??))
    }

    /// Appends a block.
    pub(super) async fn write(&mut self, run: &Run<'_>, block: Bytes) -> Result<(), StepError> {
        Ok(run.hold.waiting(self.0.write(block)).await??)
    }

    /// Bytes so far.
    pub(super) fn size(&self) -> u64 {
        self.0.size()
    }

    /// Makes it the file that later steps work on, under the plain name `name`.
    pub(super) async fn finish(
        self,
        run: &mut Run<'_>,
        name: String,
    ) -> Result<FileValue, StepError> {
        run.hold.waiting(self.0.sync()).await??;
        run.hold.ended()?;
        let whole = self.0.publish().await?;
        let digest = whole.digests.blake3.map(|bytes| hex(&bytes)).unwrap_or_default();
        let (step, epoch) = (run.address()?.clone(), run.job.epoch);
        let file = FileValue { name, size: whole.size, digest, step, epoch };
        run.leave(FILE, file.told());
        Ok(file)
    }

    /// Drops what was written.
    pub(super) async fn discard(self) {
        self.0.discard().await;
    }
}

impl From<WorkError> for StepError {
    fn from(error: WorkError) -> Self {
        let code = match error {
            WorkError::Store(_) => "EP0816",
            WorkError::Full { .. } => "EP0817",
        };
        StepError::transient(code, error.to_string())
    }
}
