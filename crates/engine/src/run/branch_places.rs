//! The places of a job whose branches run at the same time.
//!
//! The job was claimed with one place. One branch at a time has it, and the others get places of
//! their own as far as that takes nothing from anybody ([`JobPlace::beside`]). A branch that gets
//! none waits for those beside it. When only such are left the job is handed over to the lane of
//! one of them: the place with which it is claimed next is for that one, so that each claim brings
//! the job on.

use std::sync::Arc;

use entrepot_db::{LaneKey, RestsFor};
use entrepot_nouns::{StepAddress, Timestamp};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::places::{JobPlace, Places};

/// What place a step is to have.
#[derive(Clone, Debug)]
pub(super) enum Wanted {
    /// None: it takes no time.
    Nothing,
    /// One in this lane.
    In(LaneKey),
    /// The next that its branch can have, where it has none in this lane: it runs again for the
    /// step that needs what it made.
    Again(LaneKey),
}

/// Where the steps of a run have their place.
pub(super) enum RunPlace<'a> {
    /// In that of the job.
    Alone(JobPlace),
    /// In what the branch of this number gets.
    Branch(&'a BranchPlaces, usize),
    /// Branches of the run have it, in this lane at first: it does nothing meanwhile.
    Lent(LaneKey),
}

/// That a branch waits, and for what.
#[derive(Debug)]
pub(super) struct Rest {
    /// Unset: for a time alone.
    pub(super) rests_for: Option<RestsFor>,
    /// The job looks again then.
    pub(super) due_at: Timestamp,
    /// The step that the branch goes on with.
    pub(super) step: StepAddress,
}

impl RunPlace<'_> {
    /// The lane that the job is in.
    pub(super) fn lane(&self) -> LaneKey {
        match self {
            RunPlace::Alone(place) => place.lane().clone(),
            RunPlace::Branch(places, _) => places.lane(),
            RunPlace::Lent(lane) => lane.clone(),
        }
    }

    /// Whether other branches of the job run at the same time.
    pub(super) fn is_beside(&self) -> bool {
        matches!(self, RunPlace::Branch(..))
    }

    /// Lets another job have it.
    pub(super) fn give_back(&mut self) {
        if let RunPlace::Alone(place) = self {
            place.give_back();
        }
    }
}

/// See the module. Branches are known by their number.
pub(super) struct BranchPlaces {
    state: Mutex<BranchStates>,
    /// A branch that waits may find a place now, or need not wait any more.
    changed: Notify,
    node: Arc<Places>,
}

struct BranchStates {
    /// The place of the job, whose lane is that of the job's row, or will be with the next write.
    main: JobPlace,
    /// The branch that has it.
    has_main: Option<usize>,
    branches: Vec<Branch>,
    /// How many more begin, each when another one has ended well.
    further: usize,
    verdict: Option<Verdict>,
    /// The lane that was written last.
    written: LaneKey,
}

/// Why no branch begins a step any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Enough is known of how they end.
    Ended,
    /// None of them has a place, and one needs one in this lane.
    HandOver(LaneKey),
}

struct Branch {
    stage: Stage,
    /// A place of its own.
    place: Option<JobPlace>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    /// It has not come to a step yet.
    Begun,
    Runs,
    /// For a place in this lane.
    Waits(LaneKey),
    Ended,
}

/// Whether a branch begins its next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// It has its place.
    Granted,
    /// It is to begin none.
    Refused,
}

/// What a branch is told that asks for a place.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Enter,
    Wait,
    GoNoFurther,
}

impl BranchPlaces {
    /// For so many branches of a job that has this place, and so many that follow in their stead.
    pub(super) fn new(main: JobPlace, branches: usize, further: usize) -> BranchPlaces {
        let (written, node) = (main.lane().clone(), main.all());
        let begun = || Branch { stage: Stage::Begun, place: None };
        let branches = std::iter::repeat_with(begun).take(branches).collect();
        let state =
            BranchStates { main, has_main: None, branches, further, verdict: None, written };
        BranchPlaces { state: Mutex::new(state), changed: Notify::new(), node }
    }

    /// Waits until the branch has a place for its next step.
    pub(super) async fn enter(&self, number: usize, wanted: &Wanted) -> Entry {
        loop {
            // It hears of all that changes from here on.
            let (changed, found) = (self.changed.notified(), self.node.found());
            let answer = self.ask(number, wanted);
            match answer {
                Answer::Enter => return Entry::Granted,
                Answer::GoNoFurther => return Entry::Refused,
                Answer::Wait => tokio::select! {
                    () = changed => {}
                    () = found => {}
                },
            }
        }
    }

    /// The branch has come to a good end: another one begins in its stead, if there is one.
    pub(super) fn end_well(&self, number: usize) {
        let mut state = self.state.lock();
        state.let_go(number);
        let next = match state.further.checked_sub(1) {
            Some(further) => {
                state.further = further;
                Stage::Begun
            }
            None => Stage::Ended,
        };
        state.set(number, next);
        state.settle();
        drop(state);
        self.changed.notify_waiters();
    }

    fn ask(&self, number: usize, wanted: &Wanted) -> Answer {
        let mut state = self.state.lock();
        let (answer, is_news) = state.ask(number, wanted);
        drop(state);
        if is_news == News::Yes {
            self.changed.notify_waiters();
        }
        answer
    }

    /// The branch has come to its end, good or bad.
    pub(super) fn end(&self, number: usize) {
        let mut state = self.state.lock();
        state.let_go(number);
        state.set(number, Stage::Ended);
        state.settle();
        drop(state);
        self.changed.notify_waiters();
    }

    /// No branch is to begin a step any more.
    pub(super) fn decide(&self) {
        self.state.lock().verdict.get_or_insert(Verdict::Ended);
        self.changed.notify_waiters();
    }

    /// The lane of the job, which whoever asks is going to write.
    pub(super) fn lane(&self) -> LaneKey {
        let mut state = self.state.lock();
        state.written = state.main.lane().clone();
        state.written.clone()
    }

    /// The same, if it was not written yet.
    pub(super) fn moved(&self) -> Option<LaneKey> {
        let has_moved = {
            let state = self.state.lock();
            state.written != *state.main.lane()
        };
        has_moved.then(|| self.lane())
    }

    /// The place of the job again, and what was decided.
    pub(super) fn into_place(self) -> (JobPlace, Option<Verdict>) {
        let BranchStates { main, verdict, .. } = self.state.into_inner();
        (main, verdict)
    }
}

/// Whether branches that wait have a reason to ask again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum News {
    Yes,
    No,
}

impl BranchStates {
    fn set(&mut self, number: usize, stage: Stage) -> Option<Stage> {
        let branch = self.branches.get_mut(number)?;
        Some(std::mem::replace(&mut branch.stage, stage))
    }

    fn has(&self, is: impl Fn(&Stage) -> bool) -> bool {
        self.branches.iter().any(|branch| is(&branch.stage))
    }

    fn ask(&mut self, number: usize, wanted: &Wanted) -> (Answer, News) {
        if self.verdict.is_some() {
            return (Answer::GoNoFurther, News::No);
        }
        let before = self.set(number, Stage::Runs);
        let mut news = if before == Some(Stage::Begun) { News::Yes } else { News::No };
        let lane = match wanted {
            Wanted::Nothing => return (Answer::Enter, news),
            Wanted::In(lane) | Wanted::Again(lane) => lane,
        };
        if self.keeps(number, wanted) {
            return (Answer::Enter, news);
        }
        if self.let_go(number) == News::Yes {
            news = News::Yes;
        }
        if self.take(number, wanted) {
            self.settle();
            return (Answer::Enter, news);
        }
        self.set(number, Stage::Waits(lane.clone()));
        if self.has(|stage| matches!(stage, Stage::Begun | Stage::Runs)) {
            return (Answer::Wait, news);
        }
        let waiting = self.branches.iter().filter(|it| matches!(it.stage, Stage::Waits(_)));
        if news == News::Yes && waiting.count() > 1 {
            // The others ask once more: what was let go of may be for one of them.
            return (Answer::Wait, news);
        }
        self.verdict = Some(Verdict::HandOver(lane.clone()));
        (Answer::GoNoFurther, News::Yes)
    }

    /// Whether the place that the branch has is one for this step too.
    fn keeps(&mut self, number: usize, wanted: &Wanted) -> bool {
        let own = self.branches.get_mut(number).and_then(|branch| branch.place.as_mut());
        let place = match own {
            Some(own) => own,
            None if self.has_main == Some(number) => &mut self.main,
            None => return false,
        };
        match wanted {
            Wanted::In(lane) => place.change(lane),
            Wanted::Nothing | Wanted::Again(_) => true,
        }
    }

    fn take(&mut self, number: usize, wanted: &Wanted) -> bool {
        let (Wanted::In(lane) | Wanted::Again(lane)) = wanted else { return false };
        let is_free = self.has_main.is_none();
        let fits = matches!(wanted, Wanted::Again(_)) || self.main.is_for(lane);
        if is_free && fits {
            self.has_main = Some(number);
            return true;
        }
        if let (Some(own), Some(branch)) = (self.main.beside(lane), self.branches.get_mut(number)) {
            branch.place = Some(own);
            return true;
        }
        if is_free && !self.is_main_for_another() && self.main.change(lane) {
            self.has_main = Some(number);
            return true;
        }
        false
    }

    /// Whether a branch may need the place of the job where it is.
    fn is_main_for_another(&self) -> bool {
        self.has(|stage| match stage {
            Stage::Begun => true,
            Stage::Waits(lane) => self.main.is_for(lane),
            Stage::Runs | Stage::Ended => false,
        })
    }

    fn let_go(&mut self, number: usize) -> News {
        if self.has_main == Some(number) {
            self.has_main = None;
            return News::Yes;
        }
        match self.branches.get_mut(number).and_then(|branch| branch.place.take()) {
            Some(mut own) => {
                own.give_back();
                News::Yes
            }
            None => News::No,
        }
    }

    /// Gives back the place of the job where no branch has it: one that a branch has is that of the
    /// job from now on. It would keep other jobs waiting for a partner that this one is done with.
    fn settle(&mut self) {
        if self.has_main.is_some() || self.is_main_for_another() {
            return;
        }
        let found = self.branches.iter_mut().enumerate();
        let mut own = found.filter_map(|(number, branch)| Some((number, branch.place.take()?)));
        if let Some((number, place)) = own.next() {
            std::mem::replace(&mut self.main, place).give_back();
            self.has_main = Some(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use entrepot_nouns::{Endpoint, JobLane, Pool, Priority, SiteId};

    use super::*;
    use crate::places::{PoolSizes, Waiting};

    fn lane(endpoint: &str) -> LaneKey {
        let endpoint = Some(endpoint.parse().unwrap());
        let lane = JobLane { pool: Pool::Target, endpoint, priority: Priority::Normal };
        LaneKey::new(SiteId::MAIN, &"r".parse().unwrap(), &lane)
    }

    fn ask(places: &BranchPlaces, number: usize, endpoint: &str) -> Answer {
        places.ask(number, &Wanted::In(lane(endpoint)))
    }

    fn pools() -> std::sync::Arc<Places> {
        Places::new(entrepot_nouns::Env::simulated(1), PoolSizes::each(8), Default::default())
    }

    fn limit(pools: &Places, endpoints: &[&str]) {
        let endpoint = |name: &&str| -> Endpoint {
            let document = serde_json::json!({
                "name": name, "at_once": 1, "target": { "memory": {} },
            });
            serde_json::from_value(document).unwrap()
        };
        let endpoints: Vec<_> = endpoints.iter().map(endpoint).collect();
        pools.set_limits(endpoints.iter().map(|endpoint| (SiteId::MAIN, endpoint)));
    }

    #[test]
    fn where_nobody_waits_each_branch_has_a_place() {
        let pools = pools();
        let places = BranchPlaces::new(pools.take(&lane("a")).unwrap(), 3, 0);
        for (number, endpoint) in ["b", "a", "c"].into_iter().enumerate() {
            assert_eq!(ask(&places, number, endpoint), Answer::Enter, "{endpoint}");
        }
        assert_eq!((pools.taken(Pool::Target), places.moved()), (3, None));
        places.end(1);
        assert_eq!(pools.taken(Pool::Target), 2, "the place of the one that ended");
        assert_eq!(places.moved(), Some(lane("b")), "the job is where a branch is");
        assert_eq!(places.moved(), None);
        places.end(0);
        places.end(2);
        let (place, verdict) = places.into_place();
        assert_eq!((verdict, pools.taken(Pool::Target)), (None, 1));
        drop(place);
        assert_eq!(pools.taken(Pool::Target), 0);
    }

    #[test]
    fn where_jobs_wait_branches_have_the_place_of_the_job_in_turn() {
        let pools = pools();
        let places = BranchPlaces::new(pools.take(&lane("b")).unwrap(), 2, 0);
        pools.note(Pool::Target, Waiting::Jobs);
        assert_eq!(ask(&places, 0, "a"), Answer::Wait, "the place may be for the other");
        assert_eq!(ask(&places, 1, "b"), Answer::Enter);
        assert_eq!(ask(&places, 0, "a"), Answer::Wait);
        places.end(1);
        assert_eq!(ask(&places, 0, "a"), Answer::GoNoFurther);
        places.end(0);
        let (place, verdict) = places.into_place();
        assert_eq!(verdict, Some(Verdict::HandOver(lane("a"))));
        assert_eq!((place.lane(), pools.taken(Pool::Target)), (&lane("b"), 1));
    }

    #[test]
    fn a_limit_of_an_endpoint_holds_for_branches_too() {
        let pools = pools();
        limit(&pools, &["a", "b"]);
        let places = BranchPlaces::new(pools.take(&lane("b")).unwrap(), 3, 0);
        assert_eq!(ask(&places, 0, "b"), Answer::Enter);
        assert_eq!(ask(&places, 1, "b"), Answer::Wait, "one at once");
        assert_eq!(ask(&places, 2, "a"), Answer::Wait);
        assert_eq!(ask(&places, 0, "a"), Answer::Wait);
        assert_eq!(ask(&places, 1, "b"), Answer::Enter);
        places.end(1);
        // Whoever asks first says where the job goes.
        assert_eq!(ask(&places, 2, "a"), Answer::GoNoFurther);
        assert_eq!(ask(&places, 0, "a"), Answer::GoNoFurther);
        assert_eq!(places.into_place().1, Some(Verdict::HandOver(lane("a"))));
    }

    #[test]
    fn the_job_keeps_no_place_of_a_partner_that_it_is_done_with() {
        let pools = pools();
        limit(&pools, &["a"]);
        let places = BranchPlaces::new(pools.take(&lane("a")).unwrap(), 2, 0);
        assert_eq!(ask(&places, 0, "b"), Answer::Enter);
        assert_eq!(ask(&places, 1, "a"), Answer::Enter);
        assert_eq!(places.lane(), lane("a"));
        assert_eq!(ask(&places, 1, "c"), Answer::Enter);
        assert_eq!((places.lane(), pools.taken(Pool::Target)), (lane("c"), 2));
        places.end(1);
        assert_eq!((places.lane(), pools.taken(Pool::Target)), (lane("b"), 1));
    }

    #[test]
    fn a_step_that_makes_its_file_again_runs_in_whatever_place_there_is() {
        let pools = pools();
        pools.note(Pool::Target, Waiting::Jobs);
        let places = BranchPlaces::new(pools.take(&lane("b")).unwrap(), 2, 0);
        assert_eq!(places.ask(0, &Wanted::Again(lane("a"))), Answer::Enter);
        assert_eq!(places.ask(1, &Wanted::Nothing), Answer::Enter);
        assert_eq!(ask(&places, 0, "b"), Answer::Enter);
        assert_eq!(ask(&places, 1, "c"), Answer::Wait);
        assert_eq!(places.lane(), lane("b"));
    }

    #[test]
    fn after_a_verdict_nothing_begins() {
        let pools = pools();
        let places = BranchPlaces::new(pools.take(&lane("a")).unwrap(), 2, 0);
        assert_eq!(ask(&places, 0, "a"), Answer::Enter);
        places.decide();
        assert_eq!(ask(&places, 0, "a"), Answer::GoNoFurther);
        assert_eq!(places.ask(1, &Wanted::Nothing), Answer::GoNoFurther);
        assert_eq!(places.into_place().1, Some(Verdict::Ended));
    }
}
