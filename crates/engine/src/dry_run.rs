//! What a rule would do for an event: its steps are walked as `run.rs` walks them, and each says
//! what it would do ([`Foresee`]). Nothing is written anywhere.

use std::pin::Pin;
use std::sync::Arc;

use entrepot_auth::Gate;
use entrepot_db::Db;
use entrepot_nouns::dry_run::{
    DryRunSubject, EventOrigin, ForeseenEnding, ForeseenStep, LookedAt, LookedFor, RuleDryRun,
    StepOutcome,
};
use entrepot_nouns::rule::{EachSpec, OnError, ParallelNeed, Step, StepList, StepSpec, StepsAt};
use entrepot_nouns::{
    Endpoint, Env, Event, Fact, Job, JobStep, Name, Rule, StepAddress, StepState, Stored, VPath,
};
use entrepot_spawn::Allowed;
use entrepot_vfs::Service;
use serde_json::Value as Json;
use tokio::task::JoinError;

use crate::calendars::RuleSite;
use crate::files::{AccountFiles, FileAccess};
use crate::foresight::{Foresee, Foreseen, Foresight, LookedAtParts, look};
use crate::limits::EACH_FORESEEN;
use crate::noted::{BRANCH, FileValue, ITEMS, Noted, Turn};
use crate::session_files::SessionFileAccess;
use crate::step::{StepError, the_step};
use crate::versions::RunRule;
use crate::{check, explain, pattern, rules};

/// Says what rules would do. Cheap to clone.
#[derive(Clone)]
pub struct DryRunner {
    env: Env,
    parts: LookedAtParts,
}

impl DryRunner {
    /// One that looks at no files.
    pub fn new(db: Db, env: Env, allowed: Allowed) -> DryRunner {
        DryRunner { env, parts: LookedAtParts { db, allowed, access: None } }
    }

    /// One that looks at files where jobs would.
    #[must_use]
    pub fn with_files(self, vfs: Service, gate: Gate) -> DryRunner {
        self.with_access(Arc::new(SessionFileAccess::new(vfs, gate)))
    }

    pub(crate) fn with_access(self, access: Arc<dyn FileAccess>) -> DryRunner {
        DryRunner { parts: LookedAtParts { access: Some(access), ..self.parts }, ..self }
    }

    /// What the rule would do. Takes as long as it takes to look at the files that it names.
    ///
    /// # Errors
    /// The runtime is ending.
    pub async fn run(&self, subject: DryRunSubject) -> Result<RuleDryRun, JoinError> {
        let DryRunSubject { rule, site, mut events, path, account } = subject;
        let site = RuleSite::from(&site);
        let best = events.iter().position(|event| explain::trigger_fits(&rule, event));
        let (origin, event) = if events.is_empty() {
            (EventOrigin::MadeUp, self.made_up(&rule, path, account))
        } else {
            (EventOrigin::Recorded, events.swap_remove(best.unwrap_or_default()))
        };
        let mut foresight = self.foresight(&rule, &site, event, origin).await?;
        if let (Some(LookedAt { found: LookedFor::File { size, .. }, .. }), EventOrigin::MadeUp) =
            (&foresight.file, origin)
        {
            set_size(&mut foresight.job.event, *size);
        }
        let event = foresight.event().clone();
        let asked = event.clone();
        let explaining = move || explain::explain_one(&site, rule, &asked);
        let start = tokio::task::spawn_blocking(explaining).await?;
        let mut walk = Walk { foresight, list: StepList::Do, open: None };
        let noun = walk.foresight.rule.clone();
        let (steps, end) = walk.steps(&noun.noun.steps, StepsAt::list(StepList::Do)).await;
        let otherwise = match &end {
            Some(End::Failed(_)) => {
                walk.list = StepList::Else;
                walk.steps(&noun.noun.otherwise, StepsAt::list(StepList::Else)).await.0
            }
            Some(End::Stopped) | None => Vec::new(),
        };
        let Walk { foresight, open, .. } = walk;
        let (ending, why) = ending(end, open);
        let account = account_of(&foresight.rule.noun, &event);
        if let Ok(Some(files)) = foresight.files {
            files.close().await;
        }
        let file = foresight.file;
        Ok(RuleDryRun { event, origin, start, account, file, steps, otherwise, ending, why })
    }

    /// An event like any other that the rule starts on.
    fn made_up(&self, rule: &Stored<Rule>, path: Option<String>, account: Option<Name>) -> Event {
        let mut event = check::example(&rule.noun);
        (event.at, event.site) = (self.env.now(), rule.site);
        event.account = account.or_else(|| rule.noun.run_as.clone());
        match (&mut event.fact, path) {
            (Fact::FileUploaded { file }, Some(path)) => file.path = path,
            (Fact::WatchFound { path: found, .. }, Some(path)) => *found = path,
            (Fact::CommandDone { command }, Some(path)) => {
                let name = path.rsplit('/').next().unwrap_or_default();
                command.argument = name.to_owned();
                command.path = Some(path);
            }
            _ => {}
        }
        event
    }

    async fn foresight(
        &self,
        rule: &Stored<Rule>,
        site: &RuleSite,
        event: Event,
        origin: EventOrigin,
    ) -> Result<Foresight<'_>, JoinError> {
        let job = rules::job(&event, rule, self.env.now());
        let (noun, name) = (rule.noun.clone(), site.name.clone());
        let compiling = move || RunRule::new(noun, name);
        let compiled = tokio::task::spawn_blocking(compiling).await?;
        let path = pattern::event_path(&event).and_then(|path| path.parse::<VPath>().ok());
        let files = self.open_files(&rule.noun, &job).await;
        let file = match &path {
            Some(path) => Some(LookedAt {
                endpoint: None,
                path: path.to_string(),
                found: look(&files, path).await,
            }),
            None => None,
        };
        Ok(Foresight {
            parts: &self.parts,
            rule: compiled,
            calendars: site.calendars.clone(),
            job,
            origin,
            address: StepAddress(String::new()),
            noted: Noted::default(),
            target: None,
            expressions: Vec::new(),
            file,
            path,
            is_gone: false,
            files,
        })
    }

    async fn open_files(
        &self,
        rule: &Rule,
        job: &Job,
    ) -> Result<Option<Box<dyn AccountFiles>>, StepError> {
        if let (Some(watch), Some(access)) = (rule.watched_without_account(), &self.parts.access) {
            let found = self.parts.db.find::<Endpoint>(job.site, &watch.endpoint).await;
            let found = found.map_err(|error| StepError::transient("EP0801", error.to_string()))?;
            let gone = || {
                let text = format!("there is no endpoint '{}'", watch.endpoint);
                StepError::permanent("EP0811", text)
            };
            return access.open_endpoint(&found.ok_or_else(gone)?, &self.env).await.map(Some);
        }
        let account = account_of(rule, &job.event).ok_or_else(|| {
            let text = "the event has no account, say in the rule whom it runs as";
            StepError::permanent("EP0811", text)
        })?;
        match &self.parts.access {
            Some(access) => access.open_account(job, &account).await.map(Some),
            None => Ok(None),
        }
    }
}

/// Whose files the steps work on.
fn account_of(rule: &Rule, event: &Event) -> Option<Name> {
    rule.run_as.clone().or_else(|| event.account.clone())
}

fn set_size(event: &mut Event, size: u64) {
    match &mut event.fact {
        Fact::FileUploaded { file } => file.size = size,
        Fact::WatchFound { size: found, .. } => *found = size,
        Fact::CommandDone { command } => command.bytes = Some(size),
        _ => {}
    }
}

/// How a list of steps ended before its end.
enum End {
    Stopped,
    /// With this error.
    Failed(String),
}

fn ending(end: Option<End>, open: Option<String>) -> (ForeseenEnding, String) {
    match (end, open) {
        (_, Some(open)) => (ForeseenEnding::Unknown, open),
        (Some(End::Stopped), None) => {
            (ForeseenEnding::Stopped, "a step would end the job as done".to_owned())
        }
        (Some(End::Failed(error)), None) => {
            (ForeseenEnding::Failed, format!("the job would fail: {error}"))
        }
        (None, None) => (ForeseenEnding::Done, "the job would be done".to_owned()),
    }
}

/// The steps that follow each other, and what is known at the one under way.
struct Walk<'a> {
    foresight: Foresight<'a>,
    list: StepList,
    /// Why what follows is not certain: the first step of which nobody can say how it ends.
    open: Option<String>,
}

/// What each turn of an `each`, and each list of a `parallel`, begins with.
struct Before {
    file: Option<FileValue>,
    path: Option<VPath>,
    turn: Option<Turn>,
}

type Walked = (Vec<ForeseenStep>, Option<End>);

impl Walk<'_> {
    /// The steps of one list.
    fn steps<'s>(
        &'s mut self,
        steps: &'s [Step],
        list: StepsAt,
    ) -> Pin<Box<dyn Future<Output = Walked> + Send + 's>> {
        Box::pin(async move {
            let (mut seen, mut end) = (Vec::new(), None);
            for (number, step) in steps.iter().enumerate() {
                if end.is_some() {
                    seen.push(not_reached(step, &list, number));
                    continue;
                }
                let (foreseen, ended) = self.step(step, &list, number).await;
                seen.push(foreseen);
                end = ended;
            }
            (seen, end)
        })
    }

    async fn step(
        &mut self,
        step: &Step,
        list: &StepsAt,
        number: usize,
    ) -> (ForeseenStep, Option<End>) {
        self.foresight.target = None;
        self.foresight.expressions.clear();
        self.foresight.address = list.address(step, number);
        let ended = self.tried(step).await;
        let mut foreseen = not_reached(step, list, number);
        foreseen.values = self.foresight.placeholders(&step.spec);
        foreseen.target = self.foresight.target.take();
        foreseen.expressions = std::mem::take(&mut self.foresight.expressions);
        let end = match ended {
            Ok(None) => {
                foreseen.outcome = StepOutcome::Skipped;
                foreseen.what = "is passed over: its 'if' is false".to_owned();
                self.note(&foreseen, StepState::Skipped, None);
                None
            }
            Ok(Some(done)) => {
                foreseen.what.clone_from(&done.what);
                foreseen.outcome = StepOutcome::Runs;
                if let Some(why) = &done.open {
                    foreseen.outcome = StepOutcome::Unknown;
                    foreseen.what = format!("{}; {why}", done.what);
                    self.doubt(&foreseen);
                }
                return self
                    .behind(step, foreseen, done, |key| list.inside(step, number, key))
                    .await;
            }
            Err(error) if self.open.is_some() => {
                foreseen.outcome = StepOutcome::Unknown;
                foreseen.what = format!("depends on what the steps before it leave: {error}");
                None
            }
            Err(error) => {
                foreseen.outcome = StepOutcome::Fails;
                let goes_on = step.on_error == OnError::Continue || self.list == StepList::Else;
                let more = if goes_on { "; the job goes on" } else { "" };
                foreseen.what = format!("fails: {error}{more}");
                self.note(&foreseen, StepState::Ignored, None);
                (!goes_on).then(|| End::Failed(error.to_string()))
            }
        };
        (foreseen, end)
    }

    /// What follows a step that would run: what it leaves, and the steps inside it.
    async fn behind(
        &mut self,
        step: &Step,
        mut foreseen: ForeseenStep,
        done: Foreseen,
        list: impl Fn(&str) -> StepsAt,
    ) -> (ForeseenStep, Option<End>) {
        let is_open = done.open.is_some();
        let taken = done.result.as_ref().and_then(|result| result.get(BRANCH)?.as_str());
        foreseen.branch = taken.map(str::to_owned);
        if let Some(path) = done.result.as_ref().and_then(|result| result.get("path")?.as_str()) {
            self.foresight.path = path.parse().ok();
        }
        let items = done.result.as_ref().and_then(|result| result.get(ITEMS)?.as_array()).cloned();
        // What a step would make is known by its name at least: what follows is called open anyway.
        if !is_open || done.result.is_some() {
            self.note(&foreseen, StepState::Done, done.result);
        }
        if matches!(step.spec, StepSpec::Stop(_)) {
            return (foreseen, Some(End::Stopped));
        }
        if let (StepSpec::Each(each), Some(items)) = (&step.spec, items) {
            let (inside, end) = self.turns(items, each, list("do")).await;
            foreseen.steps = inside;
            return (foreseen, end);
        }
        if let StepSpec::Parallel(parallel) = &step.spec {
            let lists = step.branches().into_iter().map(|(key, steps)| (list(key), steps));
            let (inside, end) = self.beside(lists.collect(), parallel.need).await;
            foreseen.steps = inside;
            return (foreseen, end);
        }
        let branch = foreseen.branch.as_deref();
        let inside = step.branches().into_iter().find(|(key, _)| Some(*key) == branch);
        let Some((key, steps)) = inside else { return (foreseen, None) };
        let (inside, end) = self.steps(steps, list(key)).await;
        foreseen.steps = inside;
        (foreseen, end)
    }

    /// The lists of steps inside a `parallel`, each to the step at which it would fail.
    async fn beside(&mut self, lists: Vec<(StepsAt, &[Step])>, need: ParallelNeed) -> Walked {
        let (before, vars) = (self.before(), self.foresight.noted.vars.clone());
        let (mut seen, mut ends) = (Vec::new(), Vec::new());
        for (list, steps) in lists {
            let (foreseen, ended) = self.steps(steps, list).await;
            seen.extend(foreseen);
            ends.push(ended);
            self.go_back(&before);
            self.foresight.noted.vars.clone_from(&vars);
        }
        let is_through = need == ParallelNeed::Any && ends.iter().any(Option::is_none);
        (seen, ends.into_iter().flatten().next().filter(|_| !is_through))
    }

    fn before(&self) -> Before {
        let (noted, path) = (&self.foresight.noted, self.foresight.path.clone());
        Before { file: noted.file.clone(), path, turn: noted.turn.clone() }
    }

    fn go_back(&mut self, before: &Before) {
        self.foresight.noted.file.clone_from(&before.file);
        self.foresight.noted.turn.clone_from(&before.turn);
        self.foresight.path.clone_from(&before.path);
    }

    /// The steps inside an `each`, in the turns that are shown.
    async fn turns(&mut self, items: Vec<Json>, each: &EachSpec, list: StepsAt) -> Walked {
        let (before, mut seen, mut end) = (self.before(), Vec::new(), None);
        let vars = (each.at_once > 1).then(|| self.foresight.noted.vars.clone());
        for (index, item) in items.into_iter().take(EACH_FORESEEN).enumerate() {
            self.go_back(&before);
            self.foresight.noted.turn = Some(Turn { item: Some(item), index });
            let (foreseen, ended) = self.steps(&each.steps, list.turn(index)).await;
            seen.extend(foreseen);
            if let Some(vars) = &vars {
                self.foresight.noted.vars.clone_from(vars);
            }
            end = ended;
            if end.is_some() {
                break;
            }
        }
        self.go_back(&before);
        (seen, end)
    }

    /// `None`: its `if` is false.
    async fn tried(&mut self, step: &Step) -> Result<Option<Foreseen>, StepError> {
        if let Some(condition) = &step.condition
            && !self.foresight.holds("if", condition)?
        {
            return Ok(None);
        }
        of(&step.spec).foresee(&mut self.foresight).await.map(Some)
    }

    /// What follows is not certain from here on.
    fn doubt(&mut self, step: &ForeseenStep) {
        let address = &step.address.0;
        self.open.get_or_insert_with(|| {
            format!("how a job ends depends on step '{address}', which {}", step.what)
        });
    }

    /// Takes in what a step would leave for later ones.
    fn note(&mut self, step: &ForeseenStep, state: StepState, result: Option<Json>) {
        let at = self.foresight.job.created_at;
        let error = (state == StepState::Ignored).then(|| step.what.clone());
        let address = step.address.clone();
        let record =
            JobStep { address, state, epoch: 1, started_at: at, ended_at: Some(at), result, error };
        self.foresight.noted.add(&record);
    }
}

/// The step that `spec` is, to those who foresee it.
fn of(spec: &StepSpec) -> &dyn Foresee {
    the_step!(spec)
}

fn not_reached(step: &Step, list: &StepsAt, number: usize) -> ForeseenStep {
    ForeseenStep {
        address: list.address(step, number),
        word: step.spec.word().to_owned(),
        outcome: StepOutcome::NotReached,
        what: "is not reached".to_owned(),
        expressions: Vec::new(),
        values: Default::default(),
        target: None,
        branch: None,
        steps: Vec::new(),
    }
}
