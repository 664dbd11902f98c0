//! `move`: gives the file of the event another name in the account's view.

use async_trait::async_trait;
use entrepot_nouns::dry_run::LookedFor;
use entrepot_nouns::rule::{Existing, MoveSpec};
use serde_json::json;

use super::mkdir::make_directories_above;
use super::{Step, StepError, source};
use crate::foresight::{Foresee, Foreseen, Foresight, Source};
use crate::ids::StepKey;
use crate::pattern;
use crate::pause::Pause;
use crate::run::Run;

#[async_trait]
impl Step for MoveSpec {
    /// Done if the old name is gone and the new one has the file of the event.
    async fn run(&self, run: &mut Run<'_>, _key: &StepKey) -> Result<(), StepError> {
        let from = run.path()?;
        let to = pattern::virtual_path(&self.to, run.values())?;
        run.result = Some(json!({"path": to.to_string()}));
        if from == to {
            return Ok(());
        }
        match source::verify(run, &from).await {
            Err(error) if error.is_missing() => {
                // Only an earlier attempt can have moved it.
                if run.again() && source::is_there(run, &to).await? {
                    return Ok(());
                }
                return Err(error);
            }
            verified => verified?,
        }
        run.hold.fence().await?;
        let moved = run.files().await?.rename(&from, &to, self.existing).await;
        if let Err(error) = moved {
            if !error.is_missing() {
                return Err(error);
            }
            // The file was there a moment ago: it is the directory that is missing.
            make_directories_above(run, &to).await?;
            run.hold.fence().await?;
            run.files().await?.rename(&from, &to, self.existing).await?;
        }
        run.reached(Pause::Changed)
    }
}

#[async_trait]
impl Foresee for MoveSpec {
    async fn foresee(&self, foresight: &mut Foresight<'_>) -> Result<Foreseen, StepError> {
        let to = pattern::virtual_path(&self.to, foresight.values())?;
        let found = foresight.look(&to).await?;
        let Source { path, open } = foresight.source()?;
        let result = Some(json!({"path": to.to_string()}));
        if path == to {
            let what = format!("leaves '{path}' where it is");
            return Ok(Foreseen { what, result, open });
        }
        let what = format!("renames '{path}' to '{to}'");
        let (there, unseen) = match (found, self.existing) {
            (LookedFor::Nothing, _) => ("", None),
            (LookedFor::File { .. }, Existing::Replace) => (" in place of the file there", None),
            (LookedFor::File { .. } | LookedFor::Directory, _) => {
                return Err(StepError::taken(&to));
            }
            (LookedFor::Unknown { why }, _) => ("", Some(why)),
        };
        let what = format!("{what}{there}");
        Ok(Foreseen { what, result, open: unseen.or(open) })
    }
}
