//! A step that waits for what others do: its job rests at it, holds no place meanwhile, and comes
//! back to it when that has happened. Whoever makes it happen wakes the job in the same
//! transaction; that it also looks by itself, ever more seldom, is for a wake-up that was lost with
//! the database that had it.
//!
//! In a branch of a `parallel` the branch ends there for now. The job rests when the others have
//! come to their end or wait too, and comes back when the first of what they wait for has happened.

use entrepot_db::{HandOver, JobChange, PassedStep, RestsFor};
use entrepot_nouns::{JobStep, StepState, Timestamp};

use super::Run;
use super::branch_places::Rest;
use crate::limits::{REST_FIRST, REST_LONGEST};
use crate::step::StepError;

impl Run<'_> {
    /// Lets the job rest at the step under way, no longer than until `latest`; always an error, for
    /// the attempt ends here, or the branch does. What the step has left so far is recorded.
    pub(crate) async fn rest(
        &mut self,
        rests_for: RestsFor,
        latest: Option<Timestamp>,
    ) -> Result<(), StepError> {
        let step = self.address()?.clone();
        let now = self.shared.recorder.env().now();
        let begun = self.progress.begun.get(&step).copied();
        if begun.is_none()
            && let Some(record) = self.record(StepState::Begun, None)
        {
            self.hold.write(JobChange::Begin(JobStep { ended_at: None, ..record })).await?;
        }
        let rested = now.since(begun.unwrap_or(now)).clamp(REST_FIRST, REST_LONGEST);
        let next = now.plus(rested);
        let due_at = latest.map_or(next, |latest| latest.min(next));
        if self.place.is_beside() {
            self.rests = Some(Rest { rests_for: Some(rests_for), due_at, step });
            return Err(StepError::Rests);
        }
        let (lane, rests_for, due_at) = (self.place.lane(), vec![rests_for], Some(due_at));
        let over = HandOver { lane, at: now, due_at, passed: None, rests_for };
        self.hand_over(over).await
    }

    /// Lets the job rest for the first of these to come; always an error. It stands at a step that
    /// rests for something, if one does, so that it is woken by that.
    pub(super) async fn rest_beside(
        &self,
        mut rests: Vec<Rest>,
        top: u32,
    ) -> Result<(), StepError> {
        rests.sort_by_key(|rest| rest.rests_for.is_none());
        let (lane, at) = (self.place.lane(), self.shared.recorder.env().now());
        let count = self.count(top);
        let passed = rests.first().map(|rest| PassedStep {
            steps: Vec::new(),
            next: rest.step.clone(),
            count,
            lane: lane.clone(),
        });
        let due_at = rests.iter().map(|rest| rest.due_at).min();
        let rests_for = rests.into_iter().filter_map(|rest| rest.rests_for).collect();
        self.hand_over(HandOver { lane, at, due_at, passed, rests_for }).await
    }
}
