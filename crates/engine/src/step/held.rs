//! `release` and `quarantine`: what becomes of a file that its mount holds. Until it is released it
//! lies hidden in its mount, and the steps before work on it there.

use async_trait::async_trait;
use entrepot_nouns::dry_run::LookedFor;
use entrepot_nouns::event::HeldFact;
use entrepot_nouns::rule::{Existing, QuarantineSpec, ReleaseSpec};
use entrepot_nouns::{Event, Fact, TransferState, VPath};
use serde_json::json;

use super::{Step, StepError, source};
use crate::foresight::{Foresee, Foreseen, Foresight};
use crate::ids::{self, StepKey};
use crate::pause::Pause;
use crate::run::Run;
use crate::{pattern, rules};

/// The file of the event: rules are checked for having one.
fn held<'r>(run: &'r Run<'_>) -> Result<&'r HeldFact, StepError> {
    match &run.job.event.fact {
        Fact::FileHeld { held } => Ok(held),
        fact => {
            let text = format!("event '{}' is about no file that is held", fact.kind());
            Err(StepError::permanent("EP0812", text))
        }
    }
}

/// What has become of the file, as far as the database knows; `None`: it is held.
async fn decided(run: &Run<'_>, held: &HeldFact) -> Result<Option<TransferState>, StepError> {
    let (db, id) = (&run.shared.db, held.file.transfer);
    let known = run.hold.insist(|| db.transfer(run.job.site, id)).await?;
    Ok(known.map(|known| known.state).filter(|state| *state != TransferState::Held))
}

#[async_trait]
impl Step for ReleaseSpec {
    /// Done if the file is no longer held and has its name.
    async fn run(&self, run: &mut Run<'_>, _key: &StepKey) -> Result<(), StepError> {
        let held = held(run)?.clone();
        let path = &held.file.path;
        match decided(run, &held).await? {
            None | Some(TransferState::Active | TransferState::Partial) => {}
            Some(TransferState::Completed) => {
                run.released = true;
                return Ok(());
            }
            Some(TransferState::Quarantined) => {
                let text = format!("'{path}' is in quarantine, and only an admin can release it");
                return Err(StepError::permanent("EP0836", text));
            }
            Some(_) => {
                let text = format!("'{path}' is held no more, an admin has deleted it");
                return Err(StepError::permanent("EP0837", text));
            }
        }
        run.hold.fence().await?;
        let released = release(run, &held, self.existing).await;
        match released {
            Err(error) if error.is_missing() && run.again() => {
                // Only an earlier attempt can have released it.
                let at: VPath = path.parse().map_err(|_| error.clone())?;
                run.released = true;
                if !source::is_there(run, &at).await? {
                    run.released = false;
                    return Err(error);
                }
            }
            released => released?,
        }
        run.released = true;
        run.reached(Pause::Changed)
    }
}

/// In the name of the account that uploaded it.
async fn release(run: &Run<'_>, held: &HeldFact, existing: Existing) -> Result<(), StepError> {
    let account = run.job.event.account.as_ref().ok_or_else(|| {
        StepError::permanent("EP0811", "the event names no account that uploaded the file")
    })?;
    let opening = run.shared.file_access.open_account(run.job, account);
    let files = run.hold.waiting(opening).await??;
    let released = files.release(held, existing).await;
    files.close().await;
    released
}

#[async_trait]
impl Foresee for ReleaseSpec {
    async fn foresee(&self, foresight: &mut Foresight<'_>) -> Result<Foreseen, StepError> {
        let path = foresight.path()?;
        let what = format!("lets '{path}' be seen");
        Ok(match (foresight.look(&path).await?, self.existing) {
            (LookedFor::Nothing, _) => Foreseen::doing(what),
            (LookedFor::File { .. }, Existing::Replace) => {
                Foreseen::doing(format!("{what} in place of the file there"))
            }
            (LookedFor::File { .. } | LookedFor::Directory, _) => {
                return Err(StepError::taken(&path));
            }
            (LookedFor::Unknown { why }, _) => Foreseen::open(what, why),
        })
    }
}

#[async_trait]
impl Step for QuarantineSpec {
    /// The event has the same id at each attempt, and is one.
    async fn run(&self, run: &mut Run<'_>, _key: &StepKey) -> Result<(), StepError> {
        let held = held(run)?.clone();
        let reason = pattern::expand(&self.reason, run.values())?;
        if let Some(TransferState::Completed | TransferState::Failed) = decided(run, &held).await? {
            let text = format!("'{}' is held no more", held.file.path);
            return Err(StepError::permanent("EP0837", text));
        }
        run.hold.fence().await?;
        let mut scope = rules::caused_by(&run.job.event);
        scope.job = Some(run.job.id);
        run.result = Some(json!({ "reason": reason }));
        let fact = Fact::FileQuarantined { held, reason };
        let id = ids::told(run.job.id, "quarantined", 0);
        let event = Event { id, ..run.shared.recorder.event(&scope, fact) };
        // `release` asks the database.
        run.tell(&event).await?;
        run.reached(Pause::Changed)
    }
}

#[async_trait]
impl Foresee for QuarantineSpec {
    async fn foresee(&self, foresight: &mut Foresight<'_>) -> Result<Foreseen, StepError> {
        let path = foresight.path()?;
        let reason = pattern::expand(&self.reason, foresight.values())?;
        let what = format!("keeps '{path}' hidden until an admin decides: {reason}");
        Ok(Foreseen { what, result: Some(json!({ "reason": reason })), open: None })
    }
}
