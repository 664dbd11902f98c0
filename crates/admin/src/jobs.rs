//! What administrators do to jobs: the row and the event in one transaction.

use entrepot_crypto::document_version;
use entrepot_db::RuleDocument;
use entrepot_journal::Scope;
use entrepot_nouns::event::RetriedFact;
use entrepot_nouns::{Event, Fact, Job, JobId, Rule};

use crate::actor::Actor;
use crate::error::{AdminError, Result};
use crate::parts::AdminParts;
use crate::query;
use crate::shown_job::RetryRule;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobAction {
    /// Due at once, with its attempts counted anew.
    Retry(RetryRule),
    /// Ended for good.
    Cancel,
}

impl JobAction {
    fn participle(self) -> &'static str {
        match self {
            JobAction::Retry(_) => "retried",
            JobAction::Cancel => "cancelled",
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
        JobAction::Retry(_) => tx.retry_job(actor.site, id, now).await?,
        JobAction::Cancel => tx.cancel_job(actor.site, id, now).await?,
    };
    if !done {
        drop(tx);
        let state = query::job(parts, actor.site, id).await?.state.as_str();
        let action = action.participle();
        return Err(AdminError::JobState { id: id.to_string(), state, action });
    }
    let (rule, by) = (job.rule.clone(), actor.name.clone());
    let document = match action {
        JobAction::Retry(RetryRule::Current) => Some(current_document(parts, &job).await?),
        JobAction::Retry(RetryRule::Pinned) | JobAction::Cancel => None,
    };
    let rule_version = document.as_ref().map(|document| document.version.clone());
    let fact = match action {
        JobAction::Cancel => Fact::JobCancelled { rule, by },
        JobAction::Retry(_) => Fact::JobRetried { retried: RetriedFact { rule, by, rule_version } },
    };
    let scope = Scope {
        account: actor.account(),
        job: Some(id),
        cause: Some(job.event_id),
        ..Scope::site(actor.site)
    };
    let event = parts.recorder.event(&scope, fact);
    tx.insert_event(&event).await?;
    if let (JobAction::Cancel, Some(caller)) = (action, job.caller()) {
        tx.wake_job(caller, now).await?;
    }
    if let Some(document) = &document {
        tx.move_job(id, document, now).await?;
    }
    tx.commit().await?;
    Ok(event)
}

/// The rule of a job as it is now, if the job, which nobody can claim before the transaction ends,
/// can go on by it.
async fn current_document(parts: &AdminParts, job: &Job) -> Result<RuleDocument> {
    let other = |problem: String| AdminError::OtherSteps { id: job.id.to_string(), problem };
    let found = parts.db.find::<Rule>(job.site, &job.rule).await?;
    let current = found.ok_or_else(|| other(format!("rule '{}' was deleted", job.rule)))?;
    let document = RuleDocument::of(&current, document_version)?;
    let recorded = parts.db.job_steps(job.id).await?;
    let before = match &job.rule_version {
        Some(version) => parts.db.rule_document(job.site, version).await?,
        None => None,
    };
    match before {
        Some(before) => {
            let recorded = recorded.iter().map(|step| &step.address);
            RuleDocument::read(&before)?.check_move(recorded, &current.noun).map_err(other)?;
        }
        None if recorded.is_empty() => {}
        None => {
            let problem = "the document that it ran is not kept any more, so nobody can say what \
                           its steps were; cancel it";
            return Err(other(problem.to_owned()));
        }
    }
    Ok(document)
}
