//! Where steps stand in their rule, and what jobs know them by.

use super::{ParallelNeed, ParallelSpec, Step, StepFlaw, StepSpec, StopEnding};
use crate::name::Name;
use crate::rule_version::StepAddress;

/// The two lists of steps of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StepList {
    /// What the rule is for.
    Do,
    /// What follows the failure of the last attempt.
    Else,
}

impl StepList {
    /// Its key in a document.
    pub fn as_str(self) -> &'static str {
        match self {
            StepList::Do => "do",
            StepList::Else => "else",
        }
    }
}

/// Where a list of steps stands: one of the rule, or one inside a step. Of steps inside an `each`
/// also in which turn of it, for each turn has its own records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepsAt {
    /// What the addresses of its steps begin with, such as `do.3.each.do[5]`.
    prefix: String,
    /// The turns of the `each` steps around it, such as `[5]`.
    turns: String,
}

impl StepsAt {
    /// One of the two lists of a rule.
    pub fn list(list: StepList) -> StepsAt {
        StepsAt { prefix: list.as_str().to_owned(), turns: String::new() }
    }

    /// What the step that stands there at this place is known by: its name, or its place.
    pub fn address(&self, step: &Step, at: usize) -> StepAddress {
        let StepsAt { prefix, turns } = self;
        let named = |name: &Name| format!("{name}{turns}");
        StepAddress(step.name.as_ref().map_or_else(|| format!("{prefix}.{at}"), named))
    }

    /// The list inside that step that has this key.
    #[must_use]
    pub fn inside(&self, step: &Step, at: usize, key: &str) -> StepsAt {
        let prefix = format!("{}.{at}.{}.{key}", self.prefix, step.spec.word());
        StepsAt { prefix, turns: self.turns.clone() }
    }

    /// The list in this turn.
    #[must_use]
    pub fn turn(&self, number: usize) -> StepsAt {
        let turn = format!("[{number}]");
        StepsAt { prefix: format!("{}{turn}", self.prefix), turns: format!("{}{turn}", self.turns) }
    }
}

/// What runs steps at the same time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Beside<'a> {
    /// Lists of steps.
    Lists(&'a ParallelSpec),
    /// One list, in several turns of an `each`.
    Turns,
}

impl Beside<'_> {
    /// Whether a step, whose own parts are right, may stand in there.
    pub(crate) fn check_inside(self, step: &StepSpec) -> Result<(), StepFlaw> {
        let takes = match self {
            Beside::Lists(_) => {
                "steps beside it may need the file of the event: put it behind the 'parallel'"
            }
            Beside::Turns => {
                "turns beside it may need the file of the event: put it behind the 'each'"
            }
        };
        match step {
            StepSpec::Parallel(_) => Err((
                "parallel",
                "steps beside it run at the same time already: make their lists those of one",
            )),
            StepSpec::Each(each) if each.at_once > 1 => Err((
                "each.at_once",
                "steps beside it run at the same time already: go through it one by one",
            )),
            StepSpec::Stop(stop) if stop.ending == StopEnding::Done => {
                Err(("stop", "would end the steps beside it too: put it behind them"))
            }
            StepSpec::Move(_) => Err(("move", takes)),
            StepSpec::Delete(delete) if delete.path.is_none() => Err(("delete.path", takes)),
            StepSpec::Release(_) => Err(("release", takes)),
            StepSpec::Quarantine(_) => Err(("quarantine", takes)),
            StepSpec::Fetch(_) if self.needs_one() && step.takes_source() => {
                Err(("fetch.after", "it may be for nothing that it was fetched: say 'keep'"))
            }
            _ => Ok(()),
        }
    }

    /// Whether what one of them did may be for nothing.
    fn needs_one(self) -> bool {
        matches!(self, Beside::Lists(parallel) if parallel.need == ParallelNeed::Any)
    }
}

/// A step of a rule, and where it stands.
#[derive(Clone, Debug)]
pub struct StepPlace<'a> {
    /// What jobs know it by, in whatever turn.
    pub address: StepAddress,
    /// Its field in the document, such as `do.1.if.then.0`.
    pub field: String,
    /// In how many other steps it stands.
    pub depth: usize,
    /// Whether one of those runs it in turns.
    pub in_turns: bool,
    /// The one of those that runs others beside it.
    pub(crate) beside: Option<Beside<'a>>,
    /// It is right in a list that others run beside.
    pub(crate) is_in_branch: bool,
    /// It is the first of such a list.
    begins_branch: bool,
    /// What it does, and what any step may have.
    pub step: &'a Step,
    /// The steps behind it in the same list.
    pub(crate) following: &'a [Step],
}

/// The steps of a list of a rule and those inside them, each behind the one that it stands in.
pub(crate) fn of_list(list: StepList, steps: &[Step]) -> Vec<StepPlace<'_>> {
    let mut found = Vec::new();
    let above = Above { depth: 0, in_turns: false, beside: None, is_branch: false };
    add(&mut found, &StepsAt::list(list), steps, above);
    found
}

/// What a list of steps stands in.
#[derive(Clone, Copy)]
struct Above<'a> {
    depth: usize,
    in_turns: bool,
    beside: Option<Beside<'a>>,
    /// It is one of the lists of that step, and not further inside.
    is_branch: bool,
}

fn add<'a>(found: &mut Vec<StepPlace<'a>>, list: &StepsAt, steps: &'a [Step], above: Above<'a>) {
    let Above { depth, in_turns, beside, is_branch } = above;
    for (at, step) in steps.iter().enumerate() {
        let field = format!("{}.{at}", list.prefix);
        let following = steps.get(at + 1..).unwrap_or_default();
        let address = list.address(step, at);
        let begins_branch = is_branch && at == 0;
        found.push(StepPlace {
            address,
            field,
            depth,
            in_turns,
            beside,
            is_in_branch: is_branch,
            begins_branch,
            step,
            following,
        });
        let in_turns = in_turns || matches!(step.spec, StepSpec::Each(_));
        let (beside, is_branch) = match &step.spec {
            StepSpec::Parallel(parallel) => (Some(Beside::Lists(parallel)), true),
            StepSpec::Each(each) if each.at_once > 1 => (Some(Beside::Turns), true),
            _ => (beside, false),
        };
        for (key, inside) in step.branches() {
            let above = Above { depth: depth + 1, in_turns, beside, is_branch };
            add(found, &list.inside(step, at, key), inside, above);
        }
    }
}

/// What is so at the steps of a rule, one after the other. Each turn of an `each` begins with what
/// was so before the `each`, and so do the steps behind it; the same goes for each list of a
/// `parallel`.
pub struct Following<T> {
    now: T,
    /// What was so before each of those around the present step, with its depth.
    kept: Vec<(usize, T)>,
}

impl<T: Clone> Following<T> {
    /// At the first step.
    pub fn new(now: T) -> Following<T> {
        Following { now, kept: Vec::new() }
    }

    /// At this step, which is the present one or the next of [`crate::Rule::places`].
    pub fn at(&mut self, place: &StepPlace<'_>) -> &mut T {
        while let Some((depth, before)) = self.kept.pop() {
            if depth < place.depth {
                self.kept.push((depth, before));
                break;
            }
            self.now = before;
        }
        if let (true, Some((_, before))) = (place.begins_branch, self.kept.last()) {
            self.now.clone_from(before);
        }
        if matches!(place.step.spec, StepSpec::Each(_) | StepSpec::Parallel(_)) {
            self.kept.push((place.depth, self.now.clone()));
        }
        &mut self.now
    }
}
