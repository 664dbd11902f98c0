//! `delete`: removes the file of the event, or another one that the rule names.

use async_trait::async_trait;
use entrepot_nouns::dry_run::LookedFor;
use entrepot_nouns::rule::DeleteSpec;

use super::{Step, StepError, source};
use crate::foresight::{Foresee, Foreseen, Foresight, Source};
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

#[async_trait]
impl Foresee for DeleteSpec {
    async fn foresee(&self, foresight: &mut Foresight<'_>) -> Result<Foreseen, StepError> {
        let (path, open) = match &self.path {
            Some(path) => (path.clone(), None),
            None => match foresight.source() {
                Err(error) if error.is_missing() => {
                    return Ok(Foreseen::doing("finds that the file is gone already"));
                }
                source => {
                    let Source { path, open } = source?;
                    foresight.is_gone = true;
                    (path, open)
                }
            },
        };
        let found = foresight.look(&path).await?;
        Ok(match found {
            LookedFor::Nothing if self.path.is_some() => {
                Foreseen::doing(format!("finds that '{path}' is not there"))
            }
            LookedFor::Directory => {
                let text = format!("'{path}' is a directory");
                return Err(StepError::permanent("EP0812", text));
            }
            LookedFor::Unknown { why } => Foreseen::open(format!("removes '{path}'"), why),
            _ => Foreseen { open, ..Foreseen::doing(format!("removes '{path}'")) },
        })
    }
}
