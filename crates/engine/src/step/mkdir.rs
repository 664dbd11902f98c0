//! `mkdir`: makes a directory where the account sees it, or at an endpoint.

use async_trait::async_trait;
use entrepot_nouns::dry_run::LookedFor;
use entrepot_nouns::rule::MkdirSpec;
use entrepot_nouns::{Name, StorePath, VPath};
use entrepot_storage::{EntryKind, StoreError};

use super::{Step, StepError};
use crate::foresight::{Foresee, Foreseen, Foresight};
use crate::ids::StepKey;
use crate::pattern;
use crate::pause::Pause;
use crate::run::Run;

#[async_trait]
impl Step for MkdirSpec {
    /// A directory that is there is what was wanted.
    async fn run(&self, run: &mut Run<'_>, _key: &StepKey) -> Result<(), StepError> {
        match &self.endpoint {
            Some(endpoint) => {
                let path = pattern::store_path(&self.path, run.values())?;
                at_endpoint(run, endpoint, &path).await?;
            }
            None => {
                let path = pattern::virtual_path(&self.path, run.values())?;
                run.hold.fence().await?;
                make_directories_above(run, &path).await?;
                match run.files().await?.make_directory(&path).await {
                    // Of a file of that name the error says that it is taken, as of a directory.
                    Err(error) if error.is_taken() => {
                        let is_file = run.files().await?.open(&path).await.is_ok();
                        if is_file {
                            return Err(error);
                        }
                    }
                    made => made?,
                }
            }
        }
        run.reached(Pause::Changed)
    }
}

#[async_trait]
impl Foresee for MkdirSpec {
    async fn foresee(&self, foresight: &mut Foresight<'_>) -> Result<Foreseen, StepError> {
        let found = match &self.endpoint {
            Some(endpoint) => {
                let path = pattern::store_path(&self.path, foresight.values())?;
                let endpoint = foresight.endpoint(endpoint).await?;
                foresight.look_at_endpoint(&endpoint, &path).await
            }
            None => {
                let path = pattern::virtual_path(&self.path, foresight.values())?;
                foresight.look(&path).await?
            }
        };
        let path = foresight.target.as_ref().map_or("", |target| target.path.as_str());
        match found {
            LookedFor::Nothing => Ok(Foreseen::doing(format!("makes the directory '{path}'"))),
            LookedFor::Directory => Ok(Foreseen::doing(format!("finds the directory '{path}'"))),
            LookedFor::File { .. } => {
                let text = format!("'{path}' is a file");
                Err(StepError::permanent("EP0809", text))
            }
            LookedFor::Unknown { why } => {
                Ok(Foreseen::open(format!("makes the directory '{path}'"), why))
            }
        }
    }
}

async fn at_endpoint(run: &mut Run<'_>, name: &Name, path: &StorePath) -> Result<(), StepError> {
    let endpoint = run.endpoint(name).await?;
    let store = run.hold.waiting(run.shared.file_access.store(&endpoint)).await??;
    if !store.caps().directories {
        // There the names of files make directories.
        return Ok(());
    }
    let failed = |error: &StoreError| StepError::at_endpoint(name.as_str(), path.as_str(), error);
    run.hold.fence().await?;
    let above = entrepot_storage::make_directories_above(&store, path).await;
    above.map_err(|error| failed(&error))?;
    match store.make_directory(path).await {
        Err(StoreError::Exists) => {}
        made => return made.map_err(|error| failed(&error)),
    }
    let there = store.stat(path).await.map_err(|error| failed(&error))?;
    if there.kind == EntryKind::Directory {
        return Ok(());
    }
    Err(StepError::refused(name.as_str(), path.as_str()))
}

/// Makes the directories above `path` that are not there.
pub(super) async fn make_directories_above(
    run: &mut Run<'_>,
    path: &VPath,
) -> Result<(), StepError> {
    let mut above: Vec<VPath> = std::iter::successors(path.parent(), VPath::parent).collect();
    above.retain(|directory| !directory.is_root());
    for directory in above.iter().rev() {
        let made = run.files().await?.make_directory(directory).await;
        // One that cannot be made is either there, or what follows says what is wrong.
        if let Err(error @ (StepError::Lost | StepError::Stopped | StepError::Dropped)) = made {
            return Err(error);
        }
    }
    Ok(())
}
