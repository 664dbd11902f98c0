//! What steps of jobs ask people: the questions that wait, and the answers. An answer, its event
//! and what lets the job go on are one transaction.

use entrepot_auth::groups_of;
use entrepot_db::{AnswerOutcome, ApprovalKey};
use entrepot_journal::Scope;
use entrepot_nouns::approval::{Approval, ApprovalAnswer, ApprovalVerdict};
use entrepot_nouns::event::ApprovalFact;
use entrepot_nouns::limits::APPROVAL_WHY_BYTES;
use entrepot_nouns::{Account, AccountType, Event, Fact, Job, JobId, Name, StepAddress};

use crate::actor::Actor;
use crate::admin::Admin;
use crate::error::{AdminError, Result};
use crate::limits::QUERY_ROWS;
use crate::query;
use crate::request::{Request, Response};

/// What somebody says.
struct Said {
    /// To what: unset where a job asks one thing alone.
    step: Option<StepAddress>,
    verdict: ApprovalVerdict,
    why: Option<String>,
}

impl Admin {
    /// Shows the questions that wait, or answers one.
    pub(crate) async fn asked(&self, actor: &Actor, request: Request) -> Result<Response> {
        match request {
            Request::Approvals => {
                let approvals = self.parts().db.open_approvals(actor.site, QUERY_ROWS).await?;
                Ok(Response::Approvals { approvals })
            }
            Request::AnswerApproval { id, step, verdict, why } => {
                let event = self.answer(actor, id, Said { step, verdict, why }).await?;
                self.seal_now(&[event]).await;
                Ok(Response::Done)
            }
            other => {
                let problem = format!("{other:?} is not about approvals");
                Err(AdminError::Internal { what: "asking for approvals", problem })
            }
        }
    }

    /// Writes an answer, and returns the committed event, to be sealed.
    async fn answer(&self, actor: &Actor, id: JobId, said: Said) -> Result<Event> {
        check_why(&said)?;
        let parts = self.parts();
        let job = query::job(parts, actor.site, id).await?;
        let (asked, account) = self.question(actor, &job, said.step.as_ref()).await?;
        let now = parts.env.now();
        let Said { verdict, why, .. } = said;
        let answer = ApprovalAnswer { account: account.clone(), verdict, why, at: now };
        let mut tx = parts.db.begin().await?;
        match tx.answer_approval(&ApprovalKey::of(&asked), &answer).await? {
            AnswerOutcome::Counted => {}
            AnswerOutcome::Before => {
                let problem = format!("'{account}' has answered before and counts once");
                return Err(refused(&job, problem));
            }
            AnswerOutcome::Closed => {
                return Err(closed(&job, "answered: it was decided, or the time is over"));
            }
        }
        let scope = Scope {
            account: Some(account),
            job: Some(id),
            cause: Some(job.event_id),
            ..Scope::site(actor.site)
        };
        let event = parts.recorder.event(&scope, fact(actor, asked, answer));
        tx.insert_event(&event).await?;
        tx.wake_job(id, now).await?;
        tx.commit().await?;
        Ok(event)
    }

    /// What is answered, and the account that does. Without a step it is the one question of the
    /// job that the actor may answer.
    async fn question(
        &self,
        actor: &Actor,
        job: &Job,
        step: Option<&StepAddress>,
    ) -> Result<(Approval, Name)> {
        let mut open = self.parts().db.approvals_of_job(job.id).await?;
        open.retain(|asked| step.is_none_or(|step| asked.step == *step));
        let (mut mine, mut why_not) = (Vec::new(), None);
        for asked in open {
            match self.person(actor, job, &asked).await {
                Ok(account) => mine.push((asked, account)),
                Err(error @ AdminError::MayNotAnswer { .. }) => why_not = why_not.or(Some(error)),
                Err(error) => return Err(error),
            }
        }
        let Some(found) = mine.pop() else {
            let none = || closed(job, "answered: it waits for no approval");
            return Err(why_not.unwrap_or_else(none));
        };
        if mine.is_empty() {
            return Ok(found);
        }
        let problem = "the job asks several things: name the step whose question this answers, as \
                       'job approvals' shows it"
            .to_owned();
        Err(AdminError::Query { problem })
    }

    /// The account of the actor, if its answer counts.
    async fn person(&self, actor: &Actor, job: &Job, asked: &Approval) -> Result<Name> {
        let db = &self.parts().db;
        let account = match actor.own_account() {
            Some(name) => db.find::<Account>(actor.site, &name).await?.map(|stored| stored.noun),
            None => None,
        };
        let account = account.filter(|account| account.account_type == AccountType::Admin);
        let account = account.ok_or_else(|| {
            let problem = format!(
                "'{}' is no account of type admin of its site: answer as such an account, from a \
                 machine by '--server' and its API token",
                actor.name
            );
            refused(job, problem)
        })?;
        if caused(job, &account.name) {
            let problem = format!("'{}' caused what is to be approved", account.name);
            return Err(refused(job, problem));
        }
        let groups = groups_of(db, actor.site, &account).await?;
        if asked.by.iter().any(|by| *by == account.name || groups.contains(by)) {
            return Ok(account.name);
        }
        let by: Vec<&str> = asked.by.iter().map(Name::as_str).collect();
        let problem = format!("'{}' is not asked, but {}", account.name, by.join(" or "));
        Err(refused(job, problem))
    }
}

/// Whether the account brought about what the job works on.
fn caused(job: &Job, account: &Name) -> bool {
    let called_by = match &job.event.fact {
        Fact::RuleCalled { by, .. } => Some(by.as_str()),
        _ => None,
    };
    job.event.account.as_ref() == Some(account) || called_by == Some(account.as_str())
}

fn fact(actor: &Actor, asked: Approval, answer: ApprovalAnswer) -> Fact {
    let Approval { rule, step, text, .. } = asked;
    let said = ApprovalFact { rule, step, text, by: actor.name.clone(), why: answer.why };
    match answer.verdict {
        ApprovalVerdict::Approved => Fact::JobApproved { answer: said },
        ApprovalVerdict::Refused => Fact::JobRefused { answer: said },
    }
}

fn check_why(said: &Said) -> Result<()> {
    let why = said.why.as_deref().unwrap_or_default();
    if said.verdict == ApprovalVerdict::Refused && why.trim().is_empty() {
        let problem = "say why it is refused: the job fails with these words".to_owned();
        return Err(AdminError::Query { problem });
    }
    if why.len() > APPROVAL_WHY_BYTES {
        let (what, size, limit) = ("the reason of an answer", why.len(), APPROVAL_WHY_BYTES);
        return Err(AdminError::TooMuch { what, size, limit });
    }
    Ok(())
}

fn refused(job: &Job, problem: String) -> AdminError {
    AdminError::MayNotAnswer { id: job.id.to_string(), problem }
}

fn closed(job: &Job, action: &'static str) -> AdminError {
    AdminError::JobState { id: job.id.to_string(), state: job.state.as_str(), action }
}
