//! `delete`: removes the file of the event, or another one that the rule names.

use async_trait::async_trait;
use entrepot_nouns::rule::DeleteSpec;

use super::{Step, StepError, source};
use crate::ids::StepKey;
use crate::pause::Pause;
use crate::run::Run;

#[async_trait]
impl Step for DeleteSpec {
    /// A file that is gone is what was wanted. The file of the event is removed only while it
    /// still is that file.
    async fn run(&self, run: &mut Run<'_>, _key: &StepKey) -> Result<(), StepError> {
        let path = match &self.path {
            Some(path) => path.clone(),
            None => {
                let path = run.path()?;
                match source::verify(run, &path).await {
                    Err(error) if error.is_missing() => return Ok(()),
                    verified => verified?,
                }
                path
            }
        };
        run.hold.fence().await?;
        match run.files().await?.remove(&path).await {
            Err(error) if !error.is_missing() => return Err(error),
            _ => {}
        }
        run.reached(Pause::Changed)
    }
}
