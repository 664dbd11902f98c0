//! The way of a job through the steps of its rule: which follow, and what each leaves for those
//! behind it.

use std::pin::Pin;

use entrepot_nouns::StepAddress;
use entrepot_nouns::VPath;
use entrepot_nouns::rule::{EachSpec, ParallelNeed, Step, StepList, StepSpec, StepsAt};
use serde_json::Value as Json;

use super::Run;
use crate::noted::{self, FileValue, Turn};
use crate::pattern;
use crate::progress::{self, Inside, Passed};
use crate::step::{StepError, source};

/// A list of steps under way.
#[derive(Clone, Copy)]
pub(super) struct Walk<'w> {
    /// The list of the rule that it is, or stands in.
    pub(super) list: StepList,
    pub(super) at: &'w StepsAt,
    /// The steps are inside this one of the rule's own list.
    pub(super) above: Option<u32>,
}

/// A `parallel` under way, or an `each` whose turns run at the same time.
pub(super) struct Fork<'f> {
    pub(super) need: ParallelNeed,
    /// Its lists of steps, and where they stand; of an `each` one for each turn.
    pub(super) lists: Vec<(StepsAt, &'f [Step])>,
    /// Of an `each`: what each turn is for.
    pub(super) items: Vec<Json>,
    /// How many of the lists run at the same time.
    pub(super) at_once: usize,
    /// The list of the rule that it stands in.
    pub(super) list: StepList,
    /// The step of that list that it is, or stands in.
    pub(super) top: u32,
}

/// How a list of steps ended well.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WalkEnd {
    /// All its steps are behind the job.
    Through,
    /// A step says that no other is to follow.
    Stopped,
}

/// What each turn of an `each` begins with, and the steps behind it.
struct Before {
    file: Option<FileValue>,
    path: Option<Result<VPath, StepError>>,
    turn: Option<Turn>,
}

impl Run<'_> {
    /// The steps of a list that are not behind the job.
    pub(super) async fn walk_list(&mut self, list: StepList) -> Result<WalkEnd, StepError> {
        let rule = self.rule.clone();
        let walk = Walk { list, at: &StepsAt::list(list), above: None };
        self.walk(rule.noun.list(list), walk).await
    }

    /// As [`Run::walk_list`], of a list that may stand in another step.
    pub(super) fn walk<'s>(
        &'s mut self,
        steps: &'s [Step],
        walk: Walk<'s>,
    ) -> Pin<Box<dyn Future<Output = Result<WalkEnd, StepError>> + Send + 's>> {
        Box::pin(async move {
            for (number, step) in (0u32..).zip(steps) {
                let address = walk.at.address(step, number as usize);
                let top = walk.above.unwrap_or(number);
                if !self.is_behind(step, &address).await? {
                    self.enter(step, &address, top).await?;
                    let key = self.key(&address, walk.list, walk.above.is_none().then_some(number));
                    let record = if self.progress.passed(&address).is_some() {
                        self.once_more(walk.list, step, &key).await?
                    } else {
                        self.ended(walk.list, step, &key).await?
                    };
                    let passed = Passed { record: record.clone() };
                    self.follow(step, &passed);
                    self.progress.pass(address.clone(), passed);
                    self.leave_behind(step, record, top);
                }
                let inside = self.progress.passed(&address).map(|passed| passed.inside(step));
                let above = Some(top);
                let end = match inside {
                    None | Some(Inside::Nothing) => WalkEnd::Through,
                    Some(Inside::Stopped) => WalkEnd::Stopped,
                    Some(Inside::Branch(key, steps)) => {
                        let at = walk.at.inside(step, number as usize, key);
                        self.walk(steps, Walk { at: &at, above, ..walk }).await?
                    }
                    Some(Inside::Turns(key, steps)) => {
                        let at = walk.at.inside(step, number as usize, key);
                        let walk = Walk { at: &at, above, ..walk };
                        match &step.spec {
                            StepSpec::Each(each) if step.runs_beside() => {
                                self.turns_at_once(&address, each, walk).await?
                            }
                            _ => self.turns(&address, steps, walk).await?,
                        }
                    }
                    Some(Inside::Branches(need, lists)) => {
                        let lists = lists.into_iter();
                        let inside = |key| walk.at.inside(step, number as usize, key);
                        let lists: Vec<_> =
                            lists.map(|(key, steps)| (inside(key), steps)).collect();
                        let (list, items, at_once) = (walk.list, Vec::new(), lists.len());
                        let fork = Fork { need, lists, items, at_once, list, top };
                        self.branches(&address, fork).await?
                    }
                };
                if end == WalkEnd::Stopped {
                    return Ok(end);
                }
            }
            Ok(WalkEnd::Through)
        })
    }

    /// The steps inside an `each`, once for each item of its list, which the record of it has.
    async fn turns(
        &mut self,
        each: &StepAddress,
        steps: &[Step],
        walk: Walk<'_>,
    ) -> Result<WalkEnd, StepError> {
        let items = self.progress.passed(each).map(|passed| passed.items().to_vec());
        let before = self.before();
        for (index, item) in items.unwrap_or_default().into_iter().enumerate() {
            self.go_back(&before);
            self.noted.turn = Some(Turn { item: Some(item), index });
            let at = walk.at.turn(index);
            let end = match self.progress.behind(steps, &at) {
                progress::Behind::Part => self.turn(steps, Walk { at: &at, ..walk }).await?,
                behind => {
                    // Also where a step made a file that is not here: nothing needs it any more.
                    self.follow_list(steps, &at);
                    match behind {
                        progress::Behind::Stopped => WalkEnd::Stopped,
                        _ => WalkEnd::Through,
                    }
                }
            };
            if end == WalkEnd::Stopped {
                return Ok(end);
            }
        }
        self.go_back(&before);
        Ok(WalkEnd::Through)
    }

    /// The same where several turns run at the same time: each is a branch.
    async fn turns_at_once(
        &mut self,
        address: &StepAddress,
        each: &EachSpec,
        walk: Walk<'_>,
    ) -> Result<WalkEnd, StepError> {
        let items = self.progress.passed(address).map(|passed| passed.items().to_vec());
        let items = items.unwrap_or_default();
        let turns = (0..items.len()).map(|index| (walk.at.turn(index), each.steps.as_slice()));
        let fork = Fork {
            need: ParallelNeed::All,
            lists: turns.collect(),
            items,
            at_once: each.at_once as usize,
            list: walk.list,
            top: walk.above.unwrap_or_default(),
        };
        self.branches(address, fork).await
    }

    fn before(&self) -> Before {
        let (noted, path) = (&self.noted, self.path.clone());
        Before { file: noted.file.clone(), path, turn: noted.turn.clone() }
    }

    fn go_back(&mut self, before: &Before) {
        self.noted.file.clone_from(&before.file);
        self.noted.turn.clone_from(&before.turn);
        self.path.clone_from(&before.path);
    }

    /// One turn. The files that its steps made go when its last step is recorded: those of all
    /// turns together could fill the disk.
    async fn turn(&mut self, steps: &[Step], walk: Walk<'_>) -> Result<WalkEnd, StepError> {
        let end = self.walk(steps, walk).await?;
        self.use_up(steps, walk.at);
        Ok(end)
    }

    /// Removes what turns made that are recorded as ended.
    pub(super) async fn remove_used_up(&mut self) {
        for file in std::mem::take(&mut self.used_up) {
            if let Err(error) = self.shared.work.remove_file(self.job, &file).await {
                tracing::warn!(code = "EP0816", %error, "a work file stays until the job ends");
            }
        }
    }

    /// As [`Run::follow_if_passed`]; a step that made a file is to run again where the file is not,
    /// if there are steps yet that may want it. Where `do` goes on without it, an earlier attempt
    /// may have taken away what it would be made of.
    async fn is_behind(&mut self, step: &Step, address: &StepAddress) -> Result<bool, StepError> {
        let passed = self.progress.passed(address);
        let record = passed.and_then(|passed| passed.record.as_ref());
        if let Some(file) = record.and_then(FileValue::of).filter(|_| !self.is_through) {
            let here = self.shared.work.has(self.job, &file);
            if !self.hold.waiting(here).await?? && (self.wants_file || !self.is_taken().await) {
                return Ok(false);
            }
        }
        Ok(self.follow_if_passed(step, address))
    }

    /// Whether the file of the event has gone from where it was.
    async fn is_taken(&mut self) -> bool {
        match self.path() {
            Ok(path) => source::is_there(self, &path).await == Ok(false),
            Err(_) => false,
        }
    }

    /// Leaves a step alone that is behind the job, and takes in what it left; false if it is to
    /// run.
    fn follow_if_passed(&mut self, step: &Step, address: &StepAddress) -> bool {
        let Some(passed) = self.progress.passed(address).cloned() else { return false };
        self.follow(step, &passed);
        true
    }

    /// Takes in what a step left that is behind the job. A move that is done says where the file
    /// is from now on.
    fn follow(&mut self, step: &Step, passed: &Passed) {
        if let Some(record) = &passed.record {
            self.noted.add(record);
        }
        if !passed.is_done() {
            return;
        }
        if let StepSpec::Release(_) = &step.spec {
            self.released = true;
        }
        if let (StepSpec::Wait(_), Some(record)) = (&step.spec, &passed.record) {
            self.rests_until = noted::rests_until(record);
        } else if let Some(path) = passed.path() {
            self.path = Some(Ok(path));
        } else if let StepSpec::Move(rename) = &step.spec {
            let to = pattern::virtual_path(&rename.to, self.values());
            self.path = Some(to.map_err(StepError::from));
        }
    }

    pub(super) fn follow_passed(&mut self, list: StepList) {
        let rule = self.rule.clone();
        self.follow_list(rule.noun.list(list), &StepsAt::list(list));
    }

    /// As [`Run::follow_if_passed`], for all steps of a list and those inside them.
    pub(super) fn follow_list(&mut self, steps: &[Step], at: &StepsAt) {
        for (number, step) in steps.iter().enumerate() {
            let address = at.address(step, number);
            if !self.follow_if_passed(step, &address) {
                continue;
            }
            let passed = self.progress.passed(&address).cloned().unwrap_or_default();
            let lists = passed.lists(step, at, number);
            if step.runs_beside() {
                self.follow_beside(lists);
                continue;
            }
            for (list, inside) in lists {
                self.follow_list(inside, &list);
            }
        }
    }

    /// As [`Run::follow_list`], for lists that run beside each other: of what they leave only
    /// `steps` is there for later steps.
    pub(super) fn follow_beside(&mut self, lists: Vec<(StepsAt, &[Step])>) {
        let (before, vars) = (self.before(), self.noted.vars.clone());
        for (list, inside) in lists {
            self.follow_list(inside, &list);
            self.go_back(&before);
            self.noted.vars.clone_from(&vars);
        }
    }

    /// The files that the steps of a list made are not needed any more, once what ended last is
    /// recorded.
    pub(super) fn use_up(&mut self, steps: &[Step], at: &StepsAt) {
        for (_, address) in self.progress.passed_steps(steps, at) {
            let record = self.progress.passed(&address).and_then(|it| it.record.as_ref());
            self.used_up.extend(record.and_then(FileValue::of));
        }
    }
}
