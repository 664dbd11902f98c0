//! The branches of a `parallel`: lists of steps that run at the same time, each as a run of its own
//! over the same job, its lease and its rule. All of them are in the task of the job. The turns of
//! an `each` with `at_once` are such branches too, of which so many run and the others follow.
//!
//! Each records its own steps, so that an attempt goes on in each branch where the last one was.
//! What a branch did last is recorded when it ends: nothing follows with which it would be.

use std::sync::OnceLock;
use std::time::Duration;

use entrepot_db::{HandOver, JobChange, PassedStep};
use entrepot_nouns::rule::{ParallelNeed, Step, StepSpec, StepsAt};
use entrepot_nouns::{StepAddress, StepState, Timestamp};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use serde_json::Value as Json;

use super::branch_places::{BranchPlaces, Rest, RunPlace, Verdict};
use super::walk::{Fork, Walk, WalkEnd};
use super::{GivingUp, Run};
use crate::noted::Turn;
use crate::progress::{Behind, Progress};
use crate::step::StepError;

/// One of the lists of a `parallel`, or one turn of an `each`, as it runs.
struct Branch<'b> {
    run: Run<'b>,
    fork: ForkUnderWay<'b>,
    /// Which of the places of the fork it has.
    number: usize,
    steps: &'b [Step],
    walk: Walk<'b>,
}

/// What branches have in common.
#[derive(Clone, Copy)]
struct ForkUnderWay<'b> {
    /// The `parallel` or `each`: what follows behind the last step of a branch.
    address: &'b StepAddress,
    fork: &'b Fork<'b>,
    places: &'b BranchPlaces,
}

/// A list that is not behind the job.
struct OpenList<'b> {
    /// Which of the lists of the fork it is.
    index: usize,
    at: &'b StepsAt,
    steps: &'b [Step],
}

/// What became of a branch.
struct BranchEnd {
    /// Which of the places of the fork it had.
    number: usize,
    outcome: Result<(), StepError>,
    progress: Progress,
    /// The step that failed.
    failed: Option<FailedStep>,
    asked_to_wait: Option<Duration>,
    /// In `else`: why the job fails, with what failed in the branch.
    error: Option<String>,
    /// What it waits for.
    rests: Option<Rest>,
}

/// What is known of a step that failed, but for its error.
struct FailedStep {
    begun: (StepAddress, Timestamp),
    result: Option<Json>,
}

impl BranchEnd {
    /// Whether the attempt is over with it: the lease was lost, or the engine stops.
    fn is_gone(&self) -> bool {
        let goes_on = |error: &StepError| {
            is_failure(error) || matches!(error, StepError::Decided | StepError::Rests)
        };
        self.outcome.as_ref().is_err_and(|error| !goes_on(error))
    }
}

/// Whether a step asks people.
fn asks(steps: &[Step]) -> bool {
    let asks_inside = |step: &Step| step.branches().into_iter().any(|(_, inside)| asks(inside));
    steps.iter().any(|step| matches!(step.spec, StepSpec::Approve(_)) || asks_inside(step))
}

/// Whether it is an error of a step.
fn is_failure(error: &StepError) -> bool {
    matches!(error, StepError::Transient { .. } | StepError::Permanent { .. })
}

/// Whether the other branches are to begin nothing more when one ends so.
fn is_decided(outcome: &Result<(), StepError>, need: ParallelNeed) -> bool {
    match (outcome, need) {
        (Ok(()), need) => need == ParallelNeed::Any,
        (Err(error), need) if is_failure(error) => need == ParallelNeed::All,
        (Err(error), _) => !matches!(error, StepError::Decided | StepError::Rests),
    }
}

/// The branch by which the whole fails, if one does. Of `all` one that will not pass comes before
/// one that may, for trying the others again brings nothing. Of `any` it is the other way round,
/// and as long as one waits the whole has not failed for good.
fn failing(ends: &[BranchEnd], need: ParallelNeed) -> Option<usize> {
    if let Some(gone) = ends.iter().position(BranchEnd::is_gone) {
        return Some(gone);
    }
    let passes = |end: &BranchEnd| matches!(end.outcome, Err(StepError::Transient { .. }));
    let lasts = |end: &BranchEnd| matches!(end.outcome, Err(StepError::Permanent { .. }));
    match need {
        ParallelNeed::Any if ends.iter().any(|end| end.outcome.is_ok()) => None,
        ParallelNeed::Any if ends.iter().any(|end| end.rests.is_some()) => {
            ends.iter().position(passes)
        }
        ParallelNeed::Any => ends.iter().position(passes).or(ends.iter().position(lasts)),
        ParallelNeed::All => ends.iter().position(lasts).or(ends.iter().position(passes)),
    }
}

impl<'a> Run<'a> {
    /// The lists of steps inside the `parallel` at this address, which the job has gone past.
    pub(super) async fn branches(
        &mut self,
        parallel: &StepAddress,
        fork: Fork<'_>,
    ) -> Result<WalkEnd, StepError> {
        let behind = |(at, steps): &(StepsAt, &[Step])| self.progress.behind(steps, at);
        let behind: Vec<Behind> = fork.lists.iter().map(behind).collect();
        let is_enough = fork.need == ParallelNeed::Any && behind.contains(&Behind::All);
        if is_enough || !behind.contains(&Behind::Part) {
            self.close_questions(&fork).await?;
            self.follow_beside(fork.lists);
            return Ok(WalkEnd::Through);
        }
        let open = fork.lists.iter().enumerate().zip(behind);
        let open = open.filter(|(_, behind)| *behind == Behind::Part);
        let open: Vec<_> =
            open.map(|((index, (at, steps)), _)| OpenList { index, at, steps }).collect();
        let ended = self.run_branches(parallel, &fork, &open).await;
        self.follow_beside(fork.lists.clone());
        ended?;
        self.close_questions(&fork).await?;
        Ok(WalkEnd::Through)
    }

    async fn run_branches(
        &mut self,
        parallel: &StepAddress,
        fork: &Fork<'_>,
        open: &[OpenList<'_>],
    ) -> Result<(), StepError> {
        self.record_behind(parallel, fork.top).await?;
        let lane = self.place.lane();
        let place = match std::mem::replace(&mut self.place, RunPlace::Lent(lane)) {
            RunPlace::Alone(place) => place,
            other => {
                self.place = other;
                let text = "steps that run at the same time stand in others that do";
                return Err(StepError::permanent("EP0812", text));
            }
        };
        let at_once = open.len().min(fork.at_once);
        let places = BranchPlaces::new(place, at_once, open.len() - at_once);
        let under_way = ForkUnderWay { address: parallel, fork, places: &places };
        let mut ends = self.ends(under_way, at_once, open).await?;
        let (place, verdict) = places.into_place();
        self.place = RunPlace::Alone(place);
        let failing = failing(&ends, fork.need);
        match verdict {
            Some(Verdict::HandOver(lane)) if !ends.iter().any(BranchEnd::is_gone) => {
                self.take_in(ends);
                let at = self.shared.recorder.env().now();
                let rests_for = Vec::new();
                let over = HandOver { lane, at, due_at: None, passed: None, rests_for };
                self.hand_over(over).await
            }
            _ => {
                let is_enough =
                    fork.need == ParallelNeed::Any && ends.iter().any(|end| end.outcome.is_ok());
                let rests = ends.iter_mut().filter_map(|end| end.rests.take()).collect::<Vec<_>>();
                if failing.is_none() && !is_enough && !rests.is_empty() {
                    self.take_in(ends);
                    return self.rest_beside(rests, fork.top).await;
                }
                self.outcome(ends, failing)
            }
        }
    }

    /// Runs so many of the lists at the same time, and another one behind each that is through.
    async fn ends(
        &mut self,
        under_way: ForkUnderWay<'_>,
        at_once: usize,
        open: &[OpenList<'_>],
    ) -> Result<Vec<BranchEnd>, StepError> {
        let (mut lists, mut running) = (open.iter(), FuturesUnordered::new());
        for (number, list) in (0..at_once).zip(lists.by_ref()) {
            running.push(self.branch(under_way, number, list).run());
        }
        let mut ends = Vec::new();
        while let Some(mut end) = running.next().await {
            if end.outcome == Err(StepError::Dropped) {
                return Err(StepError::Dropped);
            }
            self.progress.take_in(std::mem::take(&mut end.progress));
            match lists.next().filter(|_| end.outcome.is_ok()) {
                Some(list) => running.push(self.branch(under_way, end.number, list).run()),
                None => under_way.places.end(end.number),
            }
            ends.push(end);
        }
        Ok(ends)
    }

    /// Of lists of which one was enough, nobody need answer what the others asked.
    async fn close_questions(&self, fork: &Fork<'_>) -> Result<(), StepError> {
        if fork.need == ParallelNeed::All {
            return Ok(());
        }
        if !fork.lists.iter().any(|(_, steps)| asks(steps)) {
            return Ok(());
        }
        let (db, job, life) = (&self.shared.db, self.job.id, self.job.life());
        let asked = self.hold.insist(|| db.approvals_of_job(job)).await?;
        let steps: Vec<StepAddress> = asked.into_iter().map(|asked| asked.step).collect();
        let now = self.shared.recorder.env().now();
        self.hold.insist(|| db.close_approvals(job, life, &steps, now)).await
    }

    /// One branch, which begins as this run is now.
    fn branch<'b>(
        &self,
        under_way: ForkUnderWay<'b>,
        number: usize,
        list: &OpenList<'b>,
    ) -> Branch<'b>
    where
        'a: 'b,
    {
        let (fork, steps, at) = (under_way.fork, list.steps, list.at);
        let mut run = self.run_of_branch(RunPlace::Branch(under_way.places, number), steps, at);
        if let Some(item) = fork.items.get(list.index) {
            run.noted.turn = Some(Turn { item: Some(item.clone()), index: list.index });
        }
        let walk = Walk { list: fork.list, at, above: Some(fork.top) };
        Branch { run, fork: under_way, number, steps, walk }
    }

    fn run_of_branch<'b>(&self, place: RunPlace<'b>, steps: &[Step], at: &StepsAt) -> Run<'b>
    where
        'a: 'b,
    {
        let giving_up = self.giving_up.as_ref().map(|giving_up| GivingUp {
            error: giving_up.error.clone(),
            failed: Vec::new(),
            done: giving_up.done,
        });
        Run {
            shared: self.shared,
            job: self.job,
            hold: self.hold,
            verified: self.verified.clone(),
            result: None,
            noted: self.noted.clone(),
            asked_to_wait: None,
            rule: self.rule.clone(),
            calendars: self.calendars.clone(),
            subject: OnceLock::new(),
            progress: self.progress.of_branch(steps, at),
            behind: None,
            used_up: Vec::new(),
            giving_up,
            is_through: self.is_through,
            wants_file: self.wants_file,
            place,
            rests_until: None,
            rests: None,
            current: None,
            path: self.path.clone(),
            files: None,
            released: self.released,
        }
    }

    /// Takes in what became of the branches, and says how the whole ended: as the branch of this
    /// number did.
    fn outcome(
        &mut self,
        mut ends: Vec<BranchEnd>,
        failing: Option<usize>,
    ) -> Result<(), StepError> {
        let mut outcome = Ok(());
        if let Some(end) = failing.and_then(|at| ends.get_mut(at)) {
            outcome = std::mem::replace(&mut end.outcome, Ok(()));
            if let Some(FailedStep { begun, result }) = end.failed.take() {
                (self.current, self.result) = (Some(begun), result);
            }
        }
        self.take_in(ends);
        outcome
    }

    fn take_in(&mut self, ends: Vec<BranchEnd>) {
        let before = self.giving_up.as_ref().map(|giving_up| giving_up.error.clone());
        for end in ends {
            self.asked_to_wait = self.asked_to_wait.max(end.asked_to_wait);
            let more = end.error.as_deref().zip(before.as_deref());
            let more = more.and_then(|(error, before)| error.strip_prefix(before));
            if let (Some(giving_up), Some(more)) = (&mut self.giving_up, more) {
                giving_up.error.push_str(more);
            }
        }
    }
}

impl Branch<'_> {
    async fn run(self) -> BranchEnd {
        let Branch { mut run, fork, number, steps, walk } = self;
        let ForkUnderWay { address, fork, places } = fork;
        let walked = run.walk(steps, walk).await.map(drop);
        // Before its place is free: else those that wait for it would have the job wait too.
        if is_decided(&walked, fork.need) {
            places.decide();
        }
        match &walked {
            Ok(()) => places.end_well(number),
            Err(_) => places.end(number),
        }
        let top = walk.above.unwrap_or_default();
        let mut failed = None;
        let recorded = match &walked {
            Err(error @ (StepError::Transient { .. } | StepError::Permanent { .. }))
                if run.behind.is_none() =>
            {
                let result = run.result.clone();
                failed = run.current.clone().map(|begun| FailedStep { begun, result });
                run.record_failed(error, address, top).await
            }
            Ok(()) | Err(StepError::Transient { .. } | StepError::Permanent { .. }) => {
                run.record_behind(address, top).await
            }
            Err(_) => Ok(()),
        };
        if let Some(files) = run.files.take() {
            files.close().await;
        }
        // No step behind it works on a file that a branch has made.
        if walked.is_ok() && recorded.is_ok() {
            run.use_up(steps, walk.at);
            run.remove_used_up().await;
        }
        BranchEnd {
            number,
            outcome: recorded.and(walked),
            progress: run.progress,
            failed,
            asked_to_wait: run.asked_to_wait,
            rests: run.rests,
            error: run.giving_up.map(|giving_up| giving_up.error),
        }
    }
}

impl Run<'_> {
    /// Records with which step a branch failed, and what that left: the end of the attempt says it
    /// of one branch alone.
    async fn record_failed(
        &self,
        error: &StepError,
        parallel: &StepAddress,
        top: u32,
    ) -> Result<(), StepError> {
        let steps = self.record(StepState::Failed, Some(error.to_string())).into_iter().collect();
        let (count, lane) = (self.count(top), self.place.lane());
        let passed = PassedStep { steps, next: parallel.clone(), count, lane };
        self.hold.write(JobChange::Pass(passed)).await
    }
}
