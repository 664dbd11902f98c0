//! Where the steps of a job run: in the place that it was claimed with, or in those of branches.
//! And what is recorded before they do.

use entrepot_db::{HandOver, JobChange, LaneKey, PassedStep};
use entrepot_nouns::rule::{Step, StepSpec};
use entrepot_nouns::{JobLane, JobStep, StepAddress};

use super::branch_places::{BranchPlaces, Entry, Rest, RunPlace, Wanted};
use super::{Behind, Run};
use crate::limits::UNRECORDED_STEPS;
use crate::step::StepError;

/// Whether a step leaves nothing outside of its job and takes no time: another attempt may run it
/// again, and come to something else, as long as nobody has seen what this one came to.
fn is_repeatable(step: &Step) -> bool {
    let spec = &step.spec;
    matches!(spec, StepSpec::Set(_) | StepSpec::Check(_) | StepSpec::If(_) | StepSpec::Stop(_))
}

impl Run<'_> {
    /// Takes note of a step that has ended, to be recorded later.
    pub(super) fn leave_behind(&mut self, step: &Step, record: Option<JobStep>, top: u32) {
        let before = self.behind.as_ref().is_none_or(|behind| behind.is_repeatable);
        let is_repeatable = before && is_repeatable(step);
        let records = self.unrecorded(record);
        self.behind = Some(Behind { records, top, is_repeatable });
    }

    /// Whether `next` may run before what ended before it is recorded: a node that dies then
    /// repeats all of them, and nobody knows what they came to. So steps that decide cost no write
    /// of their own.
    fn may_record_later(&self, next: &Step) -> bool {
        let is_short =
            |behind: &Behind| behind.is_repeatable && behind.records.len() < UNRECORDED_STEPS;
        self.behind.as_ref().is_some_and(is_short)
            && is_repeatable(next)
            && self.giving_up.is_none()
            && self.used_up.is_empty()
    }

    /// Begins a step, which is the step `top` of the rule's own list or stands in it: what ended
    /// before is recorded first, and the job goes over to the lane of the step.
    pub(super) async fn enter(
        &mut self,
        step: &Step,
        address: &StepAddress,
        top: u32,
    ) -> Result<(), StepError> {
        self.hold.ended()?;
        if let RunPlace::Branch(places, number) = self.place {
            return self.enter_beside(step, address, Beside { places, number, top }).await;
        }
        let lane = match self.wanted(step, address) {
            Wanted::In(lane) => lane,
            Wanted::Nothing | Wanted::Again(_) => self.place.lane(),
        };
        let at = self.shared.recorder.env().now();
        let due_at = self.rests_until.take().filter(|until| *until > at);
        let fits = match &mut self.place {
            RunPlace::Alone(place) => due_at.is_none() && place.change(&lane),
            RunPlace::Branch(..) | RunPlace::Lent(_) => false,
        };
        if fits && self.may_record_later(step) {
            self.begin(address);
            return Ok(());
        }
        let passed = self.passed_before(address, top, &lane);
        if !fits {
            let over = HandOver { lane, at, due_at, passed, rests_for: Vec::new() };
            let ended = self.hand_over(over).await;
            if ended == Err(StepError::HandedOver) {
                self.remove_used_up().await;
            }
            return ended;
        }
        if let Some(passed) = passed {
            self.pass(passed).await?;
        }
        self.remove_used_up().await;
        self.begin(address);
        Ok(())
    }

    /// What is to be recorded before the step at `next` begins, if anything is.
    fn passed_before(
        &mut self,
        next: &StepAddress,
        top: u32,
        lane: &LaneKey,
    ) -> Option<PassedStep> {
        let (steps, count) = match (&mut self.giving_up, self.behind.take()) {
            (Some(giving_up), behind) => {
                let failed = std::mem::take(&mut giving_up.failed);
                (behind.map_or(failed, |behind| behind.records), giving_up.count(top))
            }
            (None, Some(behind)) => (behind.records, behind.top.saturating_add(1)),
            (None, None) => return None,
        };
        Some(PassedStep { steps, next: next.clone(), count, lane: lane.clone() })
    }

    /// Records what ended before, if that is to be done yet, while `next` is what follows.
    pub(super) async fn record_behind(
        &mut self,
        next: &StepAddress,
        top: u32,
    ) -> Result<(), StepError> {
        let lane = self.place.lane();
        if let Some(passed) = self.passed_before(next, top, &lane) {
            self.pass(passed).await?;
        }
        self.remove_used_up().await;
        Ok(())
    }

    /// See [`PassedStep::count`], inside the step `top` of the rule's own list.
    pub(super) fn count(&self, top: u32) -> u32 {
        match &self.giving_up {
            Some(giving_up) => giving_up.count(top),
            None => top.saturating_add(1),
        }
    }

    /// As [`Run::enter`], where other branches of the job run at the same time: what ended before
    /// is recorded whether there is a place or not.
    async fn enter_beside(
        &mut self,
        step: &Step,
        address: &StepAddress,
        beside: Beside<'_>,
    ) -> Result<(), StepError> {
        let Beside { places, number, top } = beside;
        self.record_behind(address, top).await?;
        let now = self.shared.recorder.env().now();
        if let Some(until) = self.rests_until.take().filter(|until| *until > now) {
            let step = address.clone();
            self.rests = Some(Rest { rests_for: None, due_at: until, step });
            return Err(StepError::Rests);
        }
        let wanted = self.wanted(step, address);
        if places.enter(number, &wanted).await == Entry::Refused {
            return Err(StepError::Decided);
        }
        self.hold.ended()?;
        if let Some(lane) = places.moved() {
            let (next, count) = (address.clone(), self.count(top));
            let passed = PassedStep { steps: Vec::new(), next, count, lane };
            self.hold.write(JobChange::Pass(passed)).await?;
        }
        self.begin(address);
        Ok(())
    }

    /// Where a step is to run. One that made a file and runs again because the file is not here
    /// runs in the place of the step that needs it: a job that went back for it could come by here
    /// for ever, with the file on the other node each time.
    fn wanted(&self, step: &Step, address: &StepAddress) -> Wanted {
        let lane = self.rule.noun.lane_of(&step.spec, self.job.event.fact.endpoint());
        let key = |lane: JobLane| LaneKey::new(self.job.site, &self.job.rule, &lane);
        match (lane.map(key), self.progress.passed(address)) {
            (None, _) => Wanted::Nothing,
            (Some(lane), None) => Wanted::In(lane),
            (Some(lane), Some(_)) => Wanted::Again(lane),
        }
    }

    /// Lets the job wait for a place, or as a step says; always an error, for its steps end here.
    pub(super) async fn hand_over(&self, over: HandOver) -> Result<(), StepError> {
        self.hold.hand_over(over).await
    }
}

/// The branch that enters a step.
struct Beside<'p> {
    places: &'p BranchPlaces,
    number: usize,
    top: u32,
}
