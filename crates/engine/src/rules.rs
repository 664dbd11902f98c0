//! Which rules an event starts: the rules of all sites, compiled, by what they start on.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use entrepot_as2_proto::bare_message_id;
use entrepot_crypto::document_version;
use entrepot_db::{Arrival, Db, DbError, RuleDocument};
use entrepot_journal::Scope;
use entrepot_nouns::limits::CAUSE_DEPTH;
use entrepot_nouns::noun::Stored;
use entrepot_nouns::rule::{Step, StepSpec, When};
use entrepot_nouns::{
    CommandPattern, Endpoint, Event, Fact, Job, Key, Name, Noun as _, ReplayId, Rule, RuleVersion,
    SiteId, Timestamp,
};
use entrepot_vfs::{Hook, Moment};
use uuid::Uuid;

use crate::calendars::{Calendars, RuleSite};
use crate::condition::{Condition, ConditionError, Subject};
use crate::expecting::{CameFile, CameTo, Expectations};
use crate::ids;
use crate::limits::{HOOK_TIME, LOOP_JOBS, WAITED_SCAN_TIME};
use crate::meters::Meters;
use crate::needs::{EventTexts, Needs};
use crate::pattern;
use crate::versions::RunRule;

/// One rule, its condition compiled or not compilable.
pub(crate) struct Compiled {
    pub(crate) rule: Stored<Rule>,
    pub(crate) condition: Option<Result<Condition, ConditionError>>,
    /// What events must be like for the condition to hold.
    needs: Needs,
}

/// A rule that clients wait for.
pub(crate) struct WaitedRule {
    pub(crate) compiled: Compiled,
    /// With the expressions of its steps.
    pub(crate) run: Arc<RunRule>,
}

impl WaitedRule {
    pub(crate) fn noun(&self) -> &Rule {
        &self.compiled.rule.noun
    }
}

/// What steps talk to for which a client waits.
#[derive(Default)]
pub(crate) struct Servers {
    endpoints: HashMap<Name, Stored<Endpoint>>,
    /// Those that prove to servers who we are.
    keys: HashMap<Name, Key>,
}

impl Servers {
    /// The servers of a site.
    async fn of_site(db: &Db, site: SiteId) -> Result<Servers, DbError> {
        let endpoints = db.list::<Endpoint>(site).await?;
        let names_key = |it: &Stored<Endpoint>| it.noun.target.client_key().is_some();
        let mut keys = Vec::new();
        if endpoints.iter().any(names_key) {
            keys = db.list::<Key>(site).await?;
        }
        let keys = keys.into_iter().map(|key| (key.noun.name.clone(), key.noun));
        let endpoints = endpoints.into_iter().map(|it| (it.noun.name.clone(), it));
        Ok(Servers { endpoints: endpoints.collect(), keys: keys.collect() })
    }

    pub(crate) fn endpoint(&self, name: &Name) -> Option<&Stored<Endpoint>> {
        self.endpoints.get(name)
    }

    /// The key whose certificate is shown to a server.
    pub(crate) fn key_for(&self, server: &Stored<Endpoint>) -> Option<Key> {
        self.keys.get(server.noun.target.client_key()?.1).cloned()
    }
}

/// The enabled rules of one revision of the configuration.
pub(crate) struct Rules {
    revision: i64,
    sites: HashMap<SiteId, RuleSite>,
    /// By site and kind of event.
    starts: Starts,
    /// Those that expect files.
    expectations: Expectations,
    /// What jobs of them run.
    documents: Documents,
    /// The document of each, by the rule's id.
    versions: HashMap<Uuid, RuleVersion>,
    /// How many jobs of each a node makes in a minute for the same path.
    loop_limits: HashMap<(SiteId, Name), u32>,
    /// Those that clients wait for, in the order of their names.
    waited: Vec<WaitedRule>,
    /// The endpoints that those name, by site.
    servers: HashMap<SiteId, Servers>,
    /// What sessions are to ask about, or to tell.
    pub(crate) hooks: Vec<Hook>,
    /// What they ask this node to start.
    pub(crate) programs: Vec<(SiteId, Name, String)>,
}

/// The rules could not be read; no event may pass until they are.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RulesError {
    /// The database is away or refuses.
    #[error(transparent)]
    Db(#[from] DbError),
    /// The runtime is ending.
    #[error("the rules were not compiled: {0}")]
    Compile(#[from] tokio::task::JoinError),
}

/// What one event leads to.
#[derive(Default)]
pub(crate) struct Matched {
    /// Jobs to make.
    pub(crate) jobs: Vec<Job>,
    /// `job.failed` events for rules that should have been asked and could not be.
    pub(crate) refusals: Vec<Event>,
}

impl Rules {
    /// No rules, of no revision.
    pub(crate) fn none() -> Rules {
        Rules {
            revision: -1,
            sites: HashMap::new(),
            starts: HashMap::new(),
            expectations: Expectations::default(),
            waited: Vec::new(),
            servers: HashMap::new(),
            documents: Documents::new(),
            versions: HashMap::new(),
            loop_limits: HashMap::new(),
            hooks: Vec::new(),
            programs: Vec::new(),
        }
    }

    /// Reads the rules anew if the configuration changed since.
    pub(crate) async fn refreshed(self: Arc<Self>, db: &Db) -> Result<Arc<Rules>, RulesError> {
        let revision = db.config_revision().await?;
        if revision == self.revision {
            return Ok(self);
        }
        let (mut sites, mut servers) = (HashMap::new(), HashMap::new());
        let mut rules = Vec::new();
        for site in db.sites().await? {
            let id = SiteId(site.id);
            let of_site = db.list::<Rule>(id).await?;
            if of_site.iter().any(|rule| names_servers(&rule.noun)) {
                servers.insert(id, Servers::of_site(db, id).await?);
            }
            rules.extend(of_site);
            let (name, calendars) = (site.noun.name.to_string(), Calendars::of_site(db, id).await?);
            sites.insert(id, RuleSite { name, calendars: Arc::new(calendars) });
        }
        // Parsing blocks.
        let compile = move || Rules::compiled(revision, sites, rules);
        let compiled = tokio::task::spawn_blocking(compile).await?;
        Ok(Arc::new(Rules { servers, ..compiled }))
    }

    /// These rules, ready to be matched. Blocks for milliseconds a rule.
    pub(crate) fn compiled(
        revision: i64,
        sites: HashMap<SiteId, RuleSite>,
        rules: Vec<Stored<Rule>>,
    ) -> Rules {
        let hooks = rules.iter().filter_map(hook).collect();
        let programs = rules.iter().flat_map(programs).collect();
        let loop_limits = rules.iter().filter_map(loop_limit).collect();
        let expectations = Expectations::of(&rules, &sites);
        let Compilation { starts, waited, documents, versions } = compile(rules, &sites);
        Rules {
            revision,
            sites,
            starts,
            expectations,
            waited,
            servers: HashMap::new(),
            documents,
            versions,
            loop_limits,
            hooks,
            programs,
        }
    }

    /// How many jobs of the rule of `job` a node makes in a minute for the same path; `None`: they
    /// are not counted, for there is no limit, or it is paused.
    pub(crate) fn loop_limit(&self, job: &Job) -> Option<u32> {
        self.loop_limits.get(&(job.site, job.rule.clone())).copied()
    }

    /// The rules that a client waits for at this command, and whether each one's condition holds.
    pub(crate) fn asked(
        &self,
        moment: Moment,
        event: &Event,
    ) -> Vec<(&WaitedRule, Result<bool, ConditionError>)> {
        let mut subject = None;
        let rules = self.waited.iter().filter(|waited| {
            let rule = &waited.compiled.rule;
            rule.site == event.site
                && self::moment(&rule.noun) == Some(moment)
                && rule_is_for(rule, event)
        });
        let holds = |compiled: &Compiled, subject: &mut Option<Subject>| {
            compiled.holds(|| self.subject(event), subject)
        };
        rules.map(|waited| (waited, holds(&waited.compiled, &mut subject))).collect()
    }

    /// The endpoints of a site that steps may use for which a client waits.
    pub(crate) fn servers(&self, site: SiteId) -> Option<&Servers> {
        self.servers.get(&site)
    }

    /// What conditions may look at.
    pub(crate) fn subject(&self, event: &Event) -> Subject {
        match self.sites.get(&event.site) {
            Some(site) => Subject::new(event, site),
            None => Subject::new(event, &RuleSite::default()),
        }
    }

    /// The documents that these jobs run, each once and in one order.
    pub(crate) fn documents(&self, jobs: &[Job]) -> Vec<RuleDocument> {
        let keys = jobs.iter().filter_map(|job| Some((job.site, job.rule_version.clone()?)));
        let keys: BTreeSet<_> = keys.collect();
        keys.iter().filter_map(|key| self.documents.get(key).cloned()).collect()
    }

    /// For which windows of rules that expect files the file of `event` counts.
    pub(crate) fn arrivals(&self, event: &Event, now: Timestamp) -> Vec<Arrival> {
        let Some((place, path)) = came(event) else { return Vec::new() };
        let file = CameFile { event: event.id, at: event.at, path, place };
        self.expectations.arrivals(event.site, &file, now)
    }

    /// Jobs for `event`, and events about rules that could not be asked.
    pub(crate) fn matching(&self, event: &Event, now: Timestamp, meters: &Meters) -> Matched {
        let mut matched = Matched::default();
        let (mut subject, texts) = (None, EventTexts::of(event));
        for kind in kinds(&event.fact) {
            let Some(rules) = self.starts.get(&(event.site, kind.to_owned())) else { continue };
            for compiled in rules {
                let rule = &compiled.rule;
                if !compiled.needs.may_hold(&texts) || fit(rule, event).is_err() {
                    continue;
                }
                match compiled.judged(event, || self.subject(event), &mut subject) {
                    Verdict::ConditionFalse => {}
                    Verdict::TooDeep => {
                        Meters::add(&meters.depth_refused, 1);
                        let error = format!(
                            "EP0804: events caused each other {CAUSE_DEPTH} times, see that rule \
                             '{}' does not start itself",
                            rule.noun.name
                        );
                        matched.refusals.extend(refusal(event, rule, error, now));
                    }
                    Verdict::Starts => {
                        let version = self.versions.get(&rule.id).cloned();
                        matched.jobs.push(Job { rule_version: version, ..job(event, rule, now) });
                    }
                    Verdict::ConditionFails(error) => {
                        meters.conditions_failed.fetch_add(1, Ordering::Relaxed);
                        let error = format!("EP0803: {error}");
                        matched.refusals.extend(refusal(event, rule, error, now));
                    }
                }
            }
        }
        matched
    }
}

/// What a rule makes of an event that it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The condition does not hold.
    ConditionFalse,
    /// The condition cannot be evaluated.
    ConditionFails(ConditionError),
    /// It would start, if not too many events had caused each other.
    TooDeep,
    /// It makes a job.
    Starts,
}

/// Why a rule is not for an event, whatever its condition says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Misfit {
    /// It belongs to another site.
    Site,
    /// Clients wait for it: it makes no jobs.
    Waited,
    /// The file of the event has its client's temporary name.
    Temporary,
    /// It starts on another kind of event.
    Kind,
    /// It starts on other commands.
    Command,
    /// It is disabled.
    Disabled,
}

/// Whether a job may come of `rule` and `event`, if the condition holds.
pub(crate) fn fit(rule: &Stored<Rule>, event: &Event) -> Result<(), Misfit> {
    if rule.site != event.site {
        return Err(Misfit::Site);
    }
    let wanted = start_kinds(&rule.noun);
    if wanted.clone().next().is_none() {
        return Err(Misfit::Waited);
    }
    if !kinds(&event.fact).any(|counted| wanted.clone().any(|kind| kind == counted)) {
        // By its final name it would count as these.
        let would_fit =
            wanted.clone().any(|kind| [event.fact.kind(), "file.uploaded"].contains(&kind));
        let is_early = is_temporary(&event.fact) && would_fit;
        return Err(if is_early { Misfit::Temporary } else { Misfit::Kind });
    }
    if !rule_is_for(rule, event) {
        let is_for_one_rule = rule.noun.when.all().iter().any(When::is_of_one_rule);
        return Err(if is_for_one_rule { Misfit::Kind } else { Misfit::Command });
    }
    if rule.noun.enabled { Ok(()) } else { Err(Misfit::Disabled) }
}

/// The kinds of events that make jobs of `rule`; none of a rule that clients wait for.
fn start_kinds(rule: &Rule) -> impl Iterator<Item = &str> + Clone {
    let is_after = rule.when.after().is_some() && !rule.is_waited_for();
    is_after.then_some("command.done").into_iter().chain(rule.when.kinds())
}

/// The path of the file that came, and where to, if the event tells of one.
fn came(event: &Event) -> Option<(CameTo<'_>, &str)> {
    let account = CameTo::Account(event.account.as_ref());
    match &event.fact {
        Fact::FileDelivered { file, endpoint, .. } | Fact::FileFetched { file, endpoint, .. } => {
            Some((CameTo::Endpoint(endpoint), &file.path))
        }
        fact if kinds(fact).all(|kind| kind != "file.uploaded") => None,
        Fact::FileRenamed { to, .. } => Some((account, to)),
        fact => fact.file().map(|file| (account, file.path.as_str())),
    }
}

/// The path of the file that came or was found, if the event tells of one: what a rule does to it
/// may start the rule again.
pub(crate) fn arrived(event: &Event) -> Option<&str> {
    match &event.fact {
        Fact::WatchFound { path, .. } => Some(path),
        _ => came(event).map(|(_, path)| path),
    }
}

impl Compiled {
    /// Compiles the condition of `rule`. Blocks for milliseconds.
    pub(crate) fn of(rule: Stored<Rule>) -> Compiled {
        let condition = rule.noun.condition.as_deref().map(Condition::compile);
        let needs = condition.as_ref().and_then(|it| it.as_ref().ok()).map(Needs::of);
        Compiled { rule, condition, needs: needs.unwrap_or_default() }
    }

    /// A rule whose condition is not asked for.
    pub(crate) fn unread(rule: Stored<Rule>) -> Compiled {
        Compiled { rule, condition: None, needs: Needs::default() }
    }

    /// What it makes of an event that it is for, with a subject that is made once for all rules.
    pub(crate) fn judged(
        &self,
        event: &Event,
        make: impl FnOnce() -> Subject,
        subject: &mut Option<Subject>,
    ) -> Verdict {
        match self.holds(make, subject) {
            Ok(false) => Verdict::ConditionFalse,
            Ok(true) if event.depth >= CAUSE_DEPTH => Verdict::TooDeep,
            Ok(true) => Verdict::Starts,
            Err(error) => Verdict::ConditionFails(error),
        }
    }

    /// Whether the condition holds for a subject that is made once for all rules.
    fn holds(
        &self,
        make: impl FnOnce() -> Subject,
        subject: &mut Option<Subject>,
    ) -> Result<bool, ConditionError> {
        match &self.condition {
            None => Ok(true),
            Some(Ok(condition)) => condition.holds(subject.get_or_insert_with(make)),
            Some(Err(error)) => Err(error.clone()),
        }
    }
}

/// A rule on commands is for some of them only, and one on a schedule, on a start by hand, on files
/// of a folder or on a web hook for those events alone that name it.
pub(crate) fn rule_is_for(rule: &Stored<Rule>, event: &Event) -> bool {
    let mut triggers = rule.noun.when.all().iter();
    triggers.any(|when| trigger_is_for(&rule.noun.name, when, event))
}

/// As [`rule_is_for`], of one of the triggers of the rule of this name.
fn trigger_is_for(rule: &Name, when: &When, event: &Event) -> bool {
    let mut wanted = when.kinds().peekable();
    let is_of_events = wanted.peek().is_some();
    if is_of_events && !wanted.any(|kind| kinds(&event.fact).any(|counted| counted == kind)) {
        return false;
    }
    if when.is_of_one_rule()
        && let Some(meant) = event.fact.rule_meant()
    {
        return meant == rule;
    }
    let commands = when.commands();
    let Some(command) = event.fact.command() else { return commands.is_empty() };
    let is = |it: &CommandPattern| it.is_for(command.protocol, &command.verb, &command.argument);
    commands.is_empty() || commands.iter().any(is)
}

fn moment(rule: &Rule) -> Option<Moment> {
    match (rule.when.before(), rule.when.after()) {
        (Some(_), _) => Some(Moment::Before),
        (None, Some(_)) if rule.is_waited_for() => Some(Moment::Reply),
        (None, Some(_)) => Some(Moment::Done),
        (None, None) => None,
    }
}

/// What sessions need to know of an enabled rule on commands.
fn hook(rule: &Stored<Rule>) -> Option<Hook> {
    let moment = moment(&rule.noun).filter(|_| rule.noun.enabled)?;
    let limit = HOOK_TIME.saturating_add(longest(&rule.noun));
    Some(Hook { site: rule.site, moment, commands: rule.noun.when.commands().to_vec(), limit })
}

/// How long the steps of a rule may take that a client waits for, besides what each rule has.
fn longest(rule: &Rule) -> Duration {
    let seconds = |seconds: u32| Duration::from_secs(u64::from(seconds));
    let each = rule.all_places().into_iter().map(|place| match &place.step.spec {
        StepSpec::Exec(exec) => seconds(exec.timeout_seconds),
        StepSpec::Http(http) => seconds(http.timeout_seconds),
        StepSpec::Scan(_) => scan_time(place.step),
        _ => Duration::ZERO,
    });
    each.fold(Duration::ZERO, Duration::saturating_add)
}

/// How long a client waits for a `scan` step.
pub(crate) fn scan_time(step: &Step) -> Duration {
    step.timeout.map_or(WAITED_SCAN_TIME, |most| most.duration())
}

/// Whether a client waits for steps of it that talk to servers.
fn names_servers(rule: &Rule) -> bool {
    let talks = || rule.all_places().iter().any(|place| place.step.endpoint().is_some());
    rule.enabled && rule.is_waited_for() && talks()
}

/// Of a rule whose jobs are counted by path.
fn loop_limit(rule: &Stored<Rule>) -> Option<((SiteId, Name), u32)> {
    let limit = rule.noun.loop_limit.unwrap_or(LOOP_JOBS);
    let counts = limit > 0 && rule.noun.enabled && !rule.noun.paused;
    counts.then(|| ((rule.site, rule.noun.name.clone()), limit))
}

fn programs(rule: &Stored<Rule>) -> impl Iterator<Item = (SiteId, Name, String)> {
    let programs = rule.noun.programs().into_iter().filter(|_| rule.noun.enabled);
    programs.map(|program| (rule.site, rule.noun.name.clone(), program.to_owned()))
}

type Starts = HashMap<(SiteId, String), Vec<Arc<Compiled>>>;
type Documents = HashMap<(SiteId, RuleVersion), RuleDocument>;

/// The enabled rules, by what they start on.
struct Compilation {
    starts: Starts,
    waited: Vec<WaitedRule>,
    documents: Documents,
    versions: HashMap<Uuid, RuleVersion>,
}

fn compile(rules: Vec<Stored<Rule>>, sites: &HashMap<SiteId, RuleSite>) -> Compilation {
    let (mut documents, mut versions) = (Documents::new(), HashMap::new());
    let mut starts = Starts::new();
    let mut waited = Vec::new();
    for rule in rules {
        if !rule.noun.enabled {
            continue;
        }
        match RuleDocument::of(&rule, document_version) {
            Ok(document) => {
                versions.insert(rule.id, document.version.clone());
                documents.insert((rule.site, document.version.clone()), document);
            }
            // Its jobs take the rule as it is then.
            Err(error) => tracing::error!(rule = rule.noun.name.as_str(), %error, "no document"),
        }
        let compiled = Compiled::of(rule);
        let rule = &compiled.rule;
        if let Some(Err(error)) = &compiled.condition {
            let name = rule.noun.name.as_str();
            tracing::error!(code = "EP0803", rule = name, %error, "a condition cannot be used");
        }
        let site = rule.site;
        let kinds: Vec<String> = start_kinds(&rule.noun).map(str::to_owned).collect();
        if kinds.is_empty() {
            let site = sites.get(&site).map_or_else(String::new, |site| site.name.clone());
            let run = RunRule::new(rule.noun.clone(), site);
            waited.push(WaitedRule { compiled, run });
            continue;
        }
        let compiled = Arc::new(compiled);
        for kind in kinds {
            starts.entry((site, kind)).or_default().push(compiled.clone());
        }
    }
    waited.sort_by(|one, other| one.noun().name.cmp(&other.noun().name));
    Compilation { starts, waited, documents, versions }
}

/// The kind of a receipt of AS2 that has come.
pub(crate) const RECEIPT_RECEIVED: &str = "as2-receipt.received";

/// What such a receipt counts as for the step that waits for it.
pub(crate) fn receipt_for(message_id: &str) -> String {
    format!("{RECEIPT_RECEIVED} {}", bare_message_id(message_id))
}

/// What an event counts as. A file under its client's temporary name starts nothing; its rename
/// to the final name is the arrival, and so is a file found published after a crash, whose
/// client may have been answered.
pub(crate) fn kinds(fact: &Fact) -> impl Iterator<Item = &str> {
    let temporary = is_temporary(fact);
    let arrival =
        matches!(fact, Fact::FileRenamed { arrival: true, .. } | Fact::FileRecovered { .. });
    let own = (!temporary).then(|| fact.kind());
    own.into_iter().chain((arrival && !temporary).then_some("file.uploaded"))
}

/// Whether the file of the event has its client's temporary name.
fn is_temporary(fact: &Fact) -> bool {
    match fact {
        Fact::FileUploaded { file } | Fact::FileRecovered { file } => file.temporary,
        Fact::FileHeld { held } => held.file.temporary,
        _ => false,
    }
}

/// The job that `event` makes of `rule`.
pub(crate) fn job(event: &Event, rule: &Stored<Rule>, now: Timestamp) -> Job {
    let id = ids::job(event.id, rule.id);
    let lane = rule.noun.first_lane(event.fact.endpoint());
    let order = order(event, rule);
    Job { lane, order, ..Job::new(id, rule.noun.name.clone(), event.clone(), now) }
}

/// In which order the job runs. Events that have nothing for a placeholder follow each other too.
fn order(event: &Event, rule: &Stored<Rule>) -> Option<String> {
    let by = &rule.noun.order.as_ref()?.by;
    let value = pattern::expand(by, event).unwrap_or_default();
    Some(ids::order(event.site, rule.id, &value))
}

/// The job that `event` makes of `rule` again, in a replay.
pub fn replayed_job(event: &Event, rule: &Stored<Rule>, replay: ReplayId, now: Timestamp) -> Job {
    Job { id: ids::replayed(event.id, rule.id, replay), ..job(event, rule, now) }
}

/// Says that `rule` was not started. Not about an event of this very sort, or two broken rules on
/// `job.failed` would feed each other.
fn refusal(event: &Event, rule: &Stored<Rule>, error: String, now: Timestamp) -> Option<Event> {
    let name = rule.noun.name.clone();
    tracing::error!(rule = name.as_str(), event = %event.id, error, "a rule was not started");
    if matches!(event.fact, Fact::JobFailed { attempts: 0, .. }) {
        return None;
    }
    let scope = caused_by(event);
    Some(Event {
        id: ids::not_started(event.id, rule.id),
        at: now,
        clock: None,
        site: scope.site,
        node: event.node.clone(),
        account: scope.account,
        session: None,
        job: None,
        cause: scope.cause,
        depth: scope.depth,
        fact: Fact::JobFailed { rule: name, attempts: 0, error },
    })
}

/// The scope of what happens because of `event`.
pub(crate) fn caused_by(event: &Event) -> Scope {
    Scope {
        site: event.site,
        account: event.account.clone(),
        session: None,
        job: None,
        cause: Some(event.id),
        depth: event.depth.saturating_add(1),
    }
}
