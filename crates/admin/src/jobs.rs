//! What administrators do to jobs: the row and the event in one transaction.

use entrepot_journal::Scope;
use entrepot_nouns::{Event, Fact, Job, JobId};

use crate::actor::Actor;
use crate::error::{AdminError, Result};
use crate::parts::AdminParts;
use crate::query;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobAction {
    /// Due at once, with its attempts counted anew.
    Retry,
    /// Ended for good.
    Cancel,
}

impl JobAction {
    fn participle(self) -> &'static str {
        match self {
            JobAction::Retry => "retried",
            JobAction::Cancel => "cancelled",
        }
    }

    fn fact(self, job: &Job, by: &str) -> Fact {
        let (rule, by) = (job.rule.clone(), by.to_owned());
        match self {
            JobAction::Retry => Fact::JobRetried { rule, by },
            JobAction::Cancel => Fact::JobCancelled { rule, by },
        }
    }
}

/// Does it, and returns the committed event, to be sealed.
pub(crate) async fn act(
    parts: &AdminParts,
    actor: &Actor,
    id: JobId,
    action: JobAction,
) -> Result<Event> {
    let job = query::job(parts, actor.site, id).await?;
    let mut tx = parts.db.begin().await?;
    let now = parts.env.now();
    let done = match action {
        JobAction::Retry => tx.retry_job(actor.site, id, now).await?,
        JobAction::Cancel => tx.cancel_job(actor.site, id, now).await?,
    };
    if !done {
        drop(tx);
        let state = query::job(parts, actor.site, id).await?.state.as_str();
        let action = action.participle();
        return Err(AdminError::JobState { id: id.to_string(), state, action });
    }
    let scope = Scope {
        account: actor.account(),
        job: Some(id),
        cause: Some(job.event_id),
        ..Scope::site(actor.site)
    };
    let event = parts.recorder.event(&scope, action.fact(&job, &actor.name));
    tx.insert_event(&event).await?;
    tx.commit().await?;
    Ok(event)
}
