//! What administrators do to messages of AS2 that this server sent: again, or no more.
//!
//! A job sends a message, under an id that follows from the job. So what one job sends again is the
//! same message, which its partner keeps once; another job sends a message of its own.

use entrepot_nouns::as2::{As2Entry, As2MessageName, As2Resent};
use entrepot_nouns::explanation::EventName;
use entrepot_nouns::{Direction, Job, JobState};

use crate::actor::Actor;
use crate::admin::Admin;
use crate::as2;
use crate::error::{AdminError, Result};
use crate::jobs::JobAction;
use crate::query;
use crate::request::Response;
use crate::rule_orders::{Again, ReplayOrder, ReplayedEvents};
use crate::shown_job::RetryRule;

impl Admin {
    /// Sends a message again: the same one if its job failed or was cancelled; if its partner has
    /// confirmed it, the file as a new message.
    pub(crate) async fn resend_as2(&self, actor: &Actor, name: As2MessageName) -> Result<Response> {
        let (entry, job) = self.sent_as2(actor, name).await?;
        let resent = match job.state {
            JobState::Failed | JobState::Cancelled => {
                self.act(actor, job.id, JobAction::Retry(RetryRule::Pinned)).await?;
                As2Resent { job: job.id, message_id: entry.message_id }
            }
            JobState::Done => self.send_anew(actor, &job).await?,
            JobState::Ready | JobState::Running => {
                let problem = format!(
                    "job {} still sends it, and tries again by itself; see 'job show {}'",
                    job.id, job.id
                );
                return Err(AdminError::Refused { problem });
            }
        };
        Ok(Response::As2Resent { resent })
    }

    /// Ends the job that sends a message.
    pub(crate) async fn cancel_as2(&self, actor: &Actor, name: As2MessageName) -> Result<Response> {
        let (_, job) = self.sent_as2(actor, name).await?;
        self.act(actor, job.id, JobAction::Cancel).await
    }

    /// Another job of the same rule for the same event.
    async fn send_anew(&self, actor: &Actor, job: &Job) -> Result<As2Resent> {
        let order = ReplayOrder {
            rule: job.rule.clone(),
            of: ReplayedEvents::Event(EventName::Id(job.event_id)),
            again: Again::Yes,
            replay: Some(self.parts().env.new_id()),
            after: None,
            planned: None,
            rule_version: None,
        };
        let Response::RuleReplay { replay } = self.replay_rule(actor, order).await? else {
            let problem = "its rule was not asked".to_owned();
            return Err(AdminError::Internal { what: "sending a message again", problem });
        };
        let made = replay.jobs.into_iter().next();
        let why = match made {
            Some(row) => match row.job {
                Some(job) => return Ok(As2Resent { job, message_id: None }),
                None => row.left_out.unwrap_or_default(),
            },
            None => format!("rule '{}' does not start on its event any more", job.rule),
        };
        Err(AdminError::Refused { problem: why })
    }

    /// A message that was sent from here, and its job.
    async fn sent_as2(&self, actor: &Actor, name: As2MessageName) -> Result<(As2Entry, Job)> {
        let parts = self.parts();
        let entry = as2::entry(parts, actor.site, name).await?;
        let refused = |problem: &str| AdminError::Refused { problem: problem.to_owned() };
        if entry.direction == Direction::In {
            let problem = "it was received here; 'rule replay' has a rule look at its file again";
            return Err(refused(problem));
        }
        let id = entry.job.ok_or_else(|| refused("no job sent it: it is of a test"))?;
        let job = query::job(parts, actor.site, id).await?;
        Ok((entry, job))
    }
}
