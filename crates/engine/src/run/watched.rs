//! Jobs whose file lies in a watched folder: how they make it their own, and how they end when it
//! is not there any more.

use entrepot_nouns::dry_run::LookedFor;
use entrepot_nouns::rule::Existing;
use entrepot_nouns::watch::{TAKEN, WatchChange, WatchTake};
use entrepot_nouns::{Fact, Name, StepState, StorePath, VPath};

use super::{Behind, Run, tell};
use crate::ids;
use crate::step::{StepError, changed, is_same_time};

/// The file of the event, and the name under which the job works on it.
struct Taking {
    from: VPath,
    to: VPath,
}

impl Run<'_> {
    /// The name that the rule has the file take, if it has it take one.
    fn taking(&self) -> Option<Taking> {
        let watch = self.rule.noun.when.watch()?;
        let Fact::WatchFound { path, change, .. } = &self.job.event.fact else { return None };
        if watch.take != WatchTake::Rename || *change == WatchChange::Removed {
            return None;
        }
        let from: VPath = path.parse().ok()?;
        let to = from.parent()?.join(&format!("{TAKEN}{}", self.job.event.id)).ok()?;
        Some(Taking { from, to })
    }

    /// The path of the event, or the name that the file was taken under.
    pub(super) fn taken_path(&self) -> Option<VPath> {
        self.taking().map(|taking| taking.to)
    }

    /// Where a file at an endpoint is: that of the event may have been taken under another name.
    pub(crate) fn at_endpoint(&self, endpoint: &Name, path: &StorePath) -> StorePath {
        let is_its = self.job.event.fact.endpoint() == Some(endpoint);
        let taken = self
            .taking()
            .filter(|taking| is_its && taking.from.below(&VPath::root()).as_ref() == Some(path));
        let taken = taken.and_then(|taking| taking.to.below(&VPath::root()));
        taken.unwrap_or_else(|| path.clone())
    }

    /// The path of the event, if it is that of the file of a watched folder at this endpoint.
    pub(crate) fn found_path(&self, endpoint: &Name, path: &StorePath) -> Option<VPath> {
        let Fact::WatchFound { endpoint: its, path: found, .. } = &self.job.event.fact else {
            return None;
        };
        let found: VPath = found.parse().ok()?;
        (its == endpoint && found.below(&VPath::root()).as_ref() == Some(path)).then_some(found)
    }

    /// Gives the file the name under which the job works on it, before the first step.
    pub(super) async fn take_file(&mut self) -> Result<(), StepError> {
        let Some(Taking { from, to }) = self.taking() else { return Ok(()) };
        let Fact::WatchFound { endpoint, size, modified, .. } = &self.job.event.fact else {
            return Ok(());
        };
        if self.progress.has_begun() {
            return Ok(());
        }
        let (endpoint, size, modified) = (endpoint.clone(), *size, *modified);
        let files = self.endpoint_files(&endpoint).await?;
        if self.hold.waiting(files.look(&to)).await?? != LookedFor::Nothing {
            return Ok(());
        }
        match self.hold.waiting(files.look(&from)).await?? {
            LookedFor::File { size: now, modified: at } => {
                if now != size || !is_same_time(modified, at) {
                    return Err(changed(&from));
                }
            }
            // An earlier attempt may have done all there was to do.
            _ if self.again() => return Ok(()),
            _ => return Err(StepError::missing(&from)),
        }
        self.hold.fence().await?;
        files.rename(&from, &to, Existing::Refuse).await?;
        // Between the look and the rename a newer file may have got the name.
        let taken = self.hold.waiting(files.look(&to)).await??;
        if !matches!(taken, LookedFor::File { size: now, .. } if now == size) {
            files.rename(&to, &from, Existing::Refuse).await?;
            return Err(changed(&from));
        }
        Ok(())
    }

    /// Whether an error says that the version that was found in a watched folder is not there any
    /// more.
    pub(super) fn is_over(&self, error: &StepError) -> bool {
        let Fact::WatchFound { path, .. } = &self.job.event.fact else { return false };
        let paths = [path.parse().ok(), self.taken_path()];
        paths
            .iter()
            .flatten()
            .any(|path| *error == StepError::missing(path) || *error == changed(path))
    }

    /// Ends a job of which nothing is to be expected: the file was taken by somebody, or is another
    /// one by now, of which another event tells.
    pub(super) async fn over(&mut self, error: &StepError) -> Result<(), StepError> {
        if let Fact::WatchFound { rule, endpoint, path, .. } = &self.job.event.fact
            && error.is_missing()
        {
            let (rule, endpoint, path) = (rule.clone(), endpoint.clone(), path.clone());
            let fact = Fact::WatchGone { rule, endpoint, path };
            let id = ids::told(self.job.id, "gone", 0);
            self.seal(&tell(self.shared, self.job, id, fact)).await?;
        }
        let record = self.record(StepState::Ignored, Some(error.to_string()));
        let records = self.unrecorded(record);
        self.behind = Some(Behind { records, top: 0, is_repeatable: false });
        self.finish().await
    }
}
