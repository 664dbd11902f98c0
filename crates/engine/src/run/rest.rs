//! A step that waits for what others do: its job rests at it, holds no place meanwhile, and comes
//! back to it when that has happened. Whoever makes it happen wakes the job in the same
//! transaction; that it also looks by itself, ever more seldom, is for a wake-up that was lost with
//! the database that had it.

use entrepot_db::{HandOver, JobChange, RestsFor};
use entrepot_nouns::{JobStep, StepState, Timestamp};

use super::Run;
use crate::limits::{REST_FIRST, REST_LONGEST};
use crate::step::StepError;

impl Run<'_> {
    /// Lets the job rest at the step under way, no longer than until `latest`; always an error, for
    /// the attempt ends here. What the step has left so far is recorded.
    pub(crate) async fn rest(
        &self,
        rests_for: RestsFor,
        latest: Option<Timestamp>,
    ) -> Result<(), StepError> {
        let address = self.address()?;
        let now = self.shared.recorder.env().now();
        let begun = self.progress.begun.get(address).copied();
        if begun.is_none()
            && let Some(record) = self.record(StepState::Begun, None)
        {
            self.hold.write(JobChange::Begin(JobStep { ended_at: None, ..record })).await?;
        }
        let rested = now.since(begun.unwrap_or(now)).clamp(REST_FIRST, REST_LONGEST);
        let next = now.plus(rested);
        let due_at = Some(latest.map_or(next, |latest| latest.min(next)));
        let (lane, rests_for) = (self.place.lane(), Some(rests_for));
        let over = HandOver { lane, at: now, due_at, passed: None, rests_for };
        self.hand_over(over).await
    }
}
