//! Steps that run once more, because what they made lies on the disk of another node.

use entrepot_nouns::rule::{Step, StepList, StepSpec};
use entrepot_nouns::{JobStep, VPath};

use super::Run;
use crate::ids::StepKey;
use crate::pattern::{self, Values};
use crate::step::{StepError, source};

impl Run<'_> {
    /// Runs such a step. It finds its file where a later step has put it by now, for an earlier
    /// attempt came further; where it is nowhere, the step says that it is gone.
    pub(super) async fn once_more(
        &mut self,
        list: StepList,
        step: &Step,
        key: &StepKey,
    ) -> Result<Option<JobStep>, StepError> {
        let path = self.path.clone();
        if step.spec.needs_file() && self.noted.file.is_none() {
            self.find_moved(list).await?;
        }
        let ended = self.ended(list, step, key).await;
        self.path = path;
        ended
    }

    async fn find_moved(&mut self, list: StepList) -> Result<(), StepError> {
        let Ok(path) = self.path() else { return Ok(()) };
        let (moved_to, is_released) = self.put_by_later_steps(list);
        self.released |= is_released;
        if moved_to.is_empty() || source::is_there(self, &path).await? {
            return Ok(());
        }
        for to in moved_to {
            if source::is_there(self, &to).await? {
                self.path = Some(Ok(to));
                return Ok(());
            }
        }
        Ok(())
    }

    /// Where `move` steps of the list have put the file, or may have before their node died, the
    /// last one first; and whether its mount has released it.
    fn put_by_later_steps(&self, list: StepList) -> (Vec<VPath>, bool) {
        let (mut moved_to, mut is_released) = (Vec::new(), false);
        // What the steps left, up to each of them.
        let mut noted = self.noted.clone();
        for place in self.rule.noun.places(list) {
            let passed = self.progress.passed(&place.address).filter(|passed| passed.is_done());
            if let Some(record) = passed.and_then(|passed| passed.record.as_ref()) {
                noted.add(record);
            }
            match &place.step.spec {
                StepSpec::Release(_) => is_released |= passed.is_some(),
                StepSpec::Move(rename) => {
                    let values = Values { event: &self.job.event, noted: Some(&noted) };
                    let expanded = || pattern::virtual_path(&rename.to, values).ok();
                    moved_to.extend(passed.and_then(|it| it.path()).or_else(expanded));
                }
                _ => {}
            }
        }
        moved_to.reverse();
        (moved_to, is_released)
    }
}
