//! What is behind a job: its steps, as earlier leases recorded them.

use std::collections::HashMap;

use entrepot_nouns::rule::{
    HttpBody, MailAttachment, ParallelNeed, Step, StepList, StepSpec, StepsAt,
};
use entrepot_nouns::{Job, JobStep, Rule, StepAddress, StepState, Timestamp, VPath};
use serde_json::Value as Json;

use crate::exec::reads_file;
use crate::noted::{self, BRANCH};

/// The steps that a job has gone past.
#[derive(Default)]
pub(crate) struct Progress {
    passed: HashMap<StepAddress, Passed>,
    /// The step of `do` with which the last attempt of this life of the job ended.
    pub(crate) failed: Option<JobStep>,
    /// Steps that were begun under the last lease that came to them, and of which nothing is known
    /// since, or at which the job rests; and when.
    pub(crate) begun: HashMap<StepAddress, Timestamp>,
    /// What steps left at which the job rests, in this life of it.
    pub(crate) left_at_rest: HashMap<StepAddress, Json>,
    /// How often each step failed in this life of the job.
    failures: HashMap<StepAddress, u32>,
    /// What attempts of steps left that failed, also in earlier lives of the job.
    pub(crate) left_by_failed: HashMap<StepAddress, Json>,
}

/// Whether a step, or one inside it, opens the file which the steps work on.
fn opens_file(step: &Step) -> bool {
    let opens = match &step.spec {
        StepSpec::Exec(exec) => reads_file(exec),
        StepSpec::Http(http) => http.body == HttpBody::File,
        StepSpec::Mail(mail) => mail.attach == MailAttachment::File,
        spec => spec.needs_file(),
    };
    opens || step.branches().into_iter().any(|(_, inside)| inside.iter().any(opens_file))
}

/// What follows in a step that is behind a job.
pub(crate) enum Inside<'s> {
    /// The next step of its list.
    Nothing,
    /// No other step.
    Stopped,
    /// The steps of the branch that it took, behind this key.
    Branch(&'static str, &'s [Step]),
    /// The steps behind this key, once for each item of its list.
    Turns(&'static str, &'s [Step]),
    /// Lists of steps, each behind its key, beside each other; and how many must be through.
    Branches(ParallelNeed, Vec<(&'static str, &'s [Step])>),
}

/// How much of a list of steps is behind a job.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behind {
    Part,
    All,
    /// A step said that no other is to follow.
    Stopped,
}

/// What a step left that the job has gone past.
#[derive(Clone, Default)]
pub(crate) struct Passed {
    /// What was recorded; nothing of a job of a program that only counted steps.
    pub(crate) record: Option<JobStep>,
}

impl Passed {
    /// False if the step was passed over, or failed.
    pub(crate) fn is_done(&self) -> bool {
        self.record.as_ref().is_none_or(|record| record.state == StepState::Done)
    }

    /// What follows in the step that this is of.
    pub(crate) fn inside<'s>(&self, step: &'s Step) -> Inside<'s> {
        let done = self.record.as_ref().filter(|record| record.state == StepState::Done);
        let Some(record) = done else { return Inside::Nothing };
        if matches!(step.spec, StepSpec::Stop(_)) {
            return Inside::Stopped;
        }
        if matches!(step.spec, StepSpec::Each(_)) {
            let steps = step.branches().into_iter().next();
            return steps.map_or(Inside::Nothing, |(key, steps)| Inside::Turns(key, steps));
        }
        if let StepSpec::Parallel(parallel) = &step.spec {
            return Inside::Branches(parallel.need, step.branches());
        }
        let taken = record.result.as_ref().and_then(|result| result.get(BRANCH)?.as_str());
        let branch = step.branches().into_iter().find(|(key, _)| Some(*key) == taken);
        branch.map_or(Inside::Nothing, |(key, steps)| Inside::Branch(key, steps))
    }

    /// The lists of steps that follow inside the step that this is of, which stands in `list` at
    /// this place: one for each turn, or branch.
    pub(crate) fn lists<'s>(
        &self,
        step: &'s Step,
        list: &StepsAt,
        at: usize,
    ) -> Vec<(StepsAt, &'s [Step])> {
        match self.inside(step) {
            Inside::Nothing | Inside::Stopped => Vec::new(),
            Inside::Branch(key, inside) => vec![(list.inside(step, at, key), inside)],
            Inside::Turns(key, inside) => {
                let list = list.inside(step, at, key);
                (0..self.items().len()).map(|turn| (list.turn(turn), inside)).collect()
            }
            Inside::Branches(_, branches) => {
                let branches = branches.into_iter();
                branches.map(|(key, inside)| (list.inside(step, at, key), inside)).collect()
            }
        }
    }

    /// What an `each` step goes through.
    pub(crate) fn items(&self) -> &[Json] {
        self.record.as_ref().and_then(noted::items).map_or(&[], Vec::as_slice)
    }

    /// Where the step put the file, if it said so.
    pub(crate) fn path(&self) -> Option<VPath> {
        let result = self.record.as_ref()?.result.as_ref()?;
        result.get("path")?.as_str()?.parse().ok()
    }
}

impl Progress {
    /// Of what earlier leases recorded.
    pub(crate) fn of(job: &Job, rule: &Rule, records: Vec<JobStep>) -> Progress {
        let mut progress = Progress::default();
        let otherwise = rule.places(StepList::Else).into_iter().map(|place| place.address);
        let otherwise: Vec<_> = otherwise.collect();
        // What an operator's retry began is another life of the job: it has its own `else`.
        let life = job.life();
        for record in records {
            let lives = record.epoch > life;
            if record.state == StepState::Begun {
                if let (true, Some(left)) = (lives, record.result) {
                    progress.left_at_rest.insert(record.address.clone(), left);
                }
                progress.begun.entry(record.address).or_insert(record.started_at);
                continue;
            }
            progress.begun.remove(&record.address);
            progress.left_at_rest.remove(&record.address);
            if lives && record.state == StepState::Failed {
                let failures = progress.failures.entry(record.address.clone()).or_default();
                *failures = failures.saturating_add(1);
            }
            if let (StepState::Failed, Some(left)) = (record.state, &record.result) {
                progress.left_by_failed.insert(record.address.clone(), left.clone());
            }
            let passed = if otherwise.contains(&record.address.in_rule()) {
                lives
            } else {
                record.state != StepState::Failed
            };
            if lives && !passed {
                progress.failed = Some(record.clone());
            }
            if passed {
                let address = record.address.clone();
                progress.passed.insert(address, Passed { record: Some(record) });
            }
        }
        if job.rule_version.is_none() {
            progress.count_as_before(job, rule);
        }
        progress
    }

    /// The job has gone past this step.
    pub(crate) fn passed(&self, address: &StepAddress) -> Option<&Passed> {
        self.passed.get(address)
    }

    /// The steps that failed in this life of the job, each in its turns, and how often.
    pub(crate) fn failures(&self) -> impl Iterator<Item = (&StepAddress, u32)> {
        self.failures.iter().map(|(address, count)| (address, *count))
    }

    /// The job has gone past some step.
    pub(crate) fn has_begun(&self) -> bool {
        !self.passed.is_empty()
    }

    /// Whether the job has gone past every step of `do` on its way: what is left is its end.
    pub(crate) fn is_through(&self, rule: &Rule) -> bool {
        self.behind(&rule.steps, &StepsAt::list(StepList::Do)) != Behind::Part
    }

    /// Whether a step of this list is to come that opens the file which the steps work on.
    pub(crate) fn wants_file(&self, steps: &[Step], list: &StepsAt) -> bool {
        steps.iter().enumerate().any(|(at, step)| match self.passed(&list.address(step, at)) {
            None => opens_file(step),
            Some(passed) if self.behind_inside(passed, step, list, at) == Behind::Part => {
                let inside = passed.lists(step, list, at);
                inside.into_iter().any(|(list, steps)| self.wants_file(steps, &list))
            }
            Some(_) => false,
        })
    }

    /// How much of this list is behind the job.
    pub(crate) fn behind(&self, steps: &[Step], list: &StepsAt) -> Behind {
        for (at, step) in steps.iter().enumerate() {
            let Some(passed) = self.passed(&list.address(step, at)) else { return Behind::Part };
            match self.behind_inside(passed, step, list, at) {
                Behind::All => {}
                end => return end,
            }
        }
        Behind::All
    }

    /// How much of what follows in a step is behind the job, which has gone past the step itself.
    fn behind_inside(&self, passed: &Passed, step: &Step, list: &StepsAt, at: usize) -> Behind {
        let need = match passed.inside(step) {
            Inside::Stopped => return Behind::Stopped,
            Inside::Branches(need, _) => need,
            _ => ParallelNeed::All,
        };
        for (list, inside) in passed.lists(step, list, at) {
            match (self.behind(inside, &list), need) {
                (Behind::All, ParallelNeed::Any) => return Behind::All,
                (Behind::All, ParallelNeed::All) | (Behind::Part, ParallelNeed::Any) => {}
                (end, _) => return end,
            }
        }
        match need {
            ParallelNeed::All => Behind::All,
            ParallelNeed::Any => Behind::Part,
        }
    }

    /// What is known of a list of steps that others run beside, and of those inside them.
    pub(crate) fn of_branch(&self, steps: &[Step], list: &StepsAt) -> Progress {
        let addresses = self.passed_steps(steps, list).into_iter().map(|(_, address)| address);
        let passed = addresses.filter_map(|it| Some((it.clone(), self.passed.get(&it)?.clone())));
        Progress {
            passed: passed.collect(),
            failed: self.failed.clone(),
            begun: self.begun.clone(),
            left_at_rest: self.left_at_rest.clone(),
            failures: self.failures.clone(),
            left_by_failed: self.left_by_failed.clone(),
        }
    }

    /// Takes in what became of such a list.
    pub(crate) fn take_in(&mut self, branch: Progress) {
        self.passed.extend(branch.passed);
    }

    /// The steps of this list that are behind the job, and those inside them, as they ran.
    pub(crate) fn passed_steps<'s>(
        &self,
        steps: &'s [Step],
        list: &StepsAt,
    ) -> Vec<(&'s Step, StepAddress)> {
        let mut found = Vec::new();
        self.add_passed(&mut found, steps, list);
        found
    }

    fn add_passed<'s>(
        &self,
        found: &mut Vec<(&'s Step, StepAddress)>,
        steps: &'s [Step],
        list: &StepsAt,
    ) {
        for (at, step) in steps.iter().enumerate() {
            let address = list.address(step, at);
            let Some(passed) = self.passed(&address) else { continue };
            found.push((step, address));
            for (list, inside) in passed.lists(step, list, at) {
                self.add_passed(found, inside, &list);
            }
        }
    }

    /// The job goes past this step now.
    pub(crate) fn pass(&mut self, address: StepAddress, passed: Passed) {
        self.passed.insert(address, passed);
    }

    /// A program that knew no addresses has done the steps before the one that the job is at.
    fn count_as_before(&mut self, job: &Job, rule: &Rule) {
        let Some(at) = &job.at else { return };
        // A job that is at `else` does not come back to `do`, however far it came there.
        for list in [StepList::Do, StepList::Else] {
            let (at_list, places) = (StepsAt::list(list), rule.list(list).iter().enumerate());
            let places: Vec<_> = places.map(|(at, step)| at_list.address(step, at)).collect();
            let Some(next) = places.iter().position(|address| address == at) else { continue };
            for address in places.into_iter().take(next) {
                self.passed.entry(address).or_default();
            }
        }
    }
}
