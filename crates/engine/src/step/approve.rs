//! `approve`: asks people, and lets the job rest until they have answered. The question is written
//! before the job rests, under the life of the job, so that another attempt, or another node, finds
//! what was asked and answered, and a retry by hand asks anew.

use async_trait::async_trait;
use entrepot_db::{ApprovalKey, RestsFor};
use entrepot_nouns::Name;
use entrepot_nouns::approval::{Approval, ApprovalState, ApprovalVerdict};
use entrepot_nouns::rule::ApproveSpec;
use serde_json::json;

use super::{Step, StepError};
use crate::Pause;
use crate::foresight::{Foresee, Foreseen, Foresight};
use crate::ids::StepKey;
use crate::limits::APPROVAL_CHARACTERS;
use crate::pattern::{self, Values};
use crate::run::Run;

/// What people read.
fn text(spec: &ApproveSpec, values: Values<'_>) -> Result<String, StepError> {
    let text = pattern::expand(&spec.text, values)?;
    Ok(text.chars().take(APPROVAL_CHARACTERS).collect())
}

/// Writes the question; one that another attempt wrote stays as it is.
async fn ask(spec: &ApproveSpec, run: &Run<'_>, key: &ApprovalKey) -> Result<Approval, StepError> {
    let now = run.shared.recorder.env().now();
    let asked = Approval {
        job: key.job,
        step: key.step.clone(),
        life: key.life,
        rule: run.job.rule.clone(),
        text: text(spec, run.values())?,
        by: spec.by.clone(),
        need: spec.need,
        yes: 0,
        asked_at: now,
        until: now.plus(spec.within.duration()),
        decided_at: None,
        answers: Vec::new(),
    };
    run.hold.fence().await?;
    let db = &run.shared.db;
    run.hold.insist(|| db.ask_approval(run.job.site, &asked)).await?;
    run.reached(Pause::Recorded)?;
    Ok(asked)
}

/// The question as it stands now; one whose time is over is closed first, so that no answer counts
/// behind the failure of the job.
async fn asked(
    spec: &ApproveSpec,
    run: &Run<'_>,
    key: &ApprovalKey,
) -> Result<Approval, StepError> {
    let db = &run.shared.db;
    let Some(found) = run.hold.insist(|| db.approval(key)).await? else {
        return ask(spec, run, key).await;
    };
    let now = run.shared.recorder.env().now();
    if found.state() != ApprovalState::Waiting || now < found.until {
        return Ok(found);
    }
    run.hold.fence().await?;
    run.hold.insist(|| db.close_approval(key, now)).await?;
    run.reached(Pause::Changed)?;
    Ok(run.hold.insist(|| db.approval(key)).await?.unwrap_or(found))
}

#[async_trait]
impl Step for ApproveSpec {
    async fn run(&self, run: &mut Run<'_>, _key: &StepKey) -> Result<(), StepError> {
        let (job, life) = (run.job.id, run.job.life());
        let key = ApprovalKey { job, step: run.address()?.clone(), life };
        let asked = asked(self, run, &key).await?;
        match asked.state() {
            ApprovalState::Waiting => run.rest(RestsFor::Answered(key), Some(asked.until)).await,
            ApprovalState::Approved => {
                let said = asked.answers.iter();
                let yes = said.filter(|answer| answer.verdict == ApprovalVerdict::Approved);
                let by: Vec<&Name> = yes.map(|answer| &answer.account).collect();
                run.leave("by", json!(by));
                Ok(())
            }
            ApprovalState::Refused(refusal) => {
                let why = refusal.why.as_deref().unwrap_or("no reason was given");
                let text = format!("'{}' did not approve: {why}", refusal.account);
                Err(StepError::permanent("EP0832", text))
            }
            ApprovalState::Over => {
                let text = format!(
                    "{} of {} approvals were given until {}",
                    asked.yes, asked.need, asked.until
                );
                Err(StepError::permanent("EP0833", text))
            }
        }
    }
}

#[async_trait]
impl Foresee for ApproveSpec {
    async fn foresee(&self, foresight: &mut Foresight<'_>) -> Result<Foreseen, StepError> {
        let text = text(self, foresight.values())?;
        let by: Vec<&str> = self.by.iter().map(Name::as_str).collect();
        let (by, need, within) = (by.join(" or "), self.need, self.within);
        let what = format!("asks {by} within {within} and rests until {need} approved: {text}");
        Ok(Foreseen::open(what, "it ends as people answer"))
    }
}
