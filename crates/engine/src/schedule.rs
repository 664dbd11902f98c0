//! Rules that start by the clock. No node leads: each computes the next instants of all schedules,
//! and the row of a rule in the database lets one of them decide about an instant. The decision is
//! an event whose id follows from rule and instant, so that telling of it twice tells it once; the
//! rule starts on that event like on any other.
//!
//! A decision is in the database before its event is in a journal. The row remembers it until the
//! event is projected: if the node ends in between, any other one tells of it.

mod decision;
mod instants;

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use entrepot_db::{Db, DbError, Schedule, Telling};
use entrepot_journal::{Recorder, Scope};
use entrepot_nouns::cron::Overlap;
use entrepot_nouns::noun::Stored;
use entrepot_nouns::{Event, Fact, Name, Rule, SiteId, Timestamp};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::backoff::Looks;
use crate::calendars::Calendars;
use crate::ids;
use crate::limits::{CRON_BATCH, CRON_LOOK, CRON_UNTOLD, CRON_WAIT, CRON_WAIT_EACH};
use crate::membership::Membership;
use decision::{LastRun, Plan};
use instants::Instants;

pub(crate) use instants::{check, zone};

/// What starts rules by the clock works with.
pub(crate) struct SchedulerParts {
    pub(crate) db: Db,
    pub(crate) recorder: Recorder,
    pub(crate) membership: Arc<Membership>,
    /// How long jobs are leased: how far off the clock of the node may be follows from it.
    pub(crate) lease: Duration,
}

/// Starts rules by the clock until `stop`.
pub(crate) async fn run(parts: SchedulerParts, stop: CancellationToken) {
    if !parts.membership.is_counted(&stop).await {
        return;
    }
    let env = parts.recorder.env().clone();
    let mut scheduler = Scheduler::new(parts);
    let mut looks = Looks::new(&env, &stop, "schedules cannot be looked at");
    while !stop.is_cancelled() {
        looks.pause(scheduler.look().await).await;
    }
}

/// The database is away, or the runtime is ending.
#[derive(Debug, thiserror::Error)]
enum ScheduleError {
    #[error(transparent)]
    Db(#[from] DbError),
    #[error("the expressions were not read: {0}")]
    Read(#[from] tokio::task::JoinError),
}

/// An enabled rule that starts by the clock, and when it does next.
struct Entry {
    site: SiteId,
    name: Name,
    plan: Plan,
    /// The next instant, if it is among [`Scheduler::instants`].
    next: Option<Timestamp>,
}

struct Scheduler {
    parts: SchedulerParts,
    /// Of the configuration that `entries` are from; none before the first look.
    revision: Option<i64>,
    entries: HashMap<Uuid, Entry>,
    /// The next instant of each rule. One that its entry does not name any more is none.
    instants: BinaryHeap<Reverse<(Timestamp, Uuid)>>,
    /// New ones, changed ones, and such as wait for a run or an event.
    waiting: BTreeSet<Uuid>,
    /// When these are due, the configuration and untold decisions, by `Env::elapsed`.
    waiting_at: Duration,
    revision_at: Duration,
    untold_at: Duration,
}

impl Scheduler {
    fn new(parts: SchedulerParts) -> Scheduler {
        Scheduler {
            parts,
            revision: None,
            entries: HashMap::new(),
            instants: BinaryHeap::new(),
            waiting: BTreeSet::new(),
            waiting_at: Duration::ZERO,
            revision_at: Duration::ZERO,
            untold_at: Duration::ZERO,
        }
    }

    /// Does what is due, and says how long nothing will be.
    async fn look(&mut self) -> Result<Duration, ScheduleError> {
        let env = &self.parts.recorder.env().clone();
        // As for jobs: the clock of this node may not be the one of the installation.
        if !self.parts.membership.may_claim(env.elapsed(), self.parts.lease) {
            return Ok(CRON_WAIT);
        }
        if env.elapsed() >= self.revision_at {
            self.refresh().await?;
            self.revision_at = env.elapsed().saturating_add(CRON_LOOK);
        }
        if env.elapsed() >= self.untold_at {
            self.tell_again().await?;
            self.untold_at = env.elapsed().saturating_add(CRON_UNTOLD);
        }
        let mut due = self.due();
        if !due.is_empty() {
            // A rule that has been turned off since starts no more.
            let refreshed = self.refresh().await;
            due.retain(|rule| self.entries.contains_key(rule));
            if let Err(error) = refreshed {
                self.waiting.extend(due);
                return Err(error);
            }
        }
        let due: Vec<Uuid> = due.into_iter().collect();
        for (number, rules) in due.chunks(CRON_BATCH).enumerate() {
            if let Err(error) = self.decide(rules).await {
                let undone = due.get(number.saturating_mul(CRON_BATCH)..).unwrap_or_default();
                self.waiting.extend(undone);
                return Err(error.into());
            }
        }
        Ok(self.pause())
    }

    /// Reads the rules anew if the configuration has changed.
    async fn refresh(&mut self) -> Result<(), ScheduleError> {
        let db = self.parts.db.clone();
        let revision = db.config_revision().await?;
        if self.revision == Some(revision) {
            return Ok(());
        }
        let (mut rules, mut calendars) = (Vec::new(), HashMap::new());
        for site in db.sites().await? {
            let site = SiteId(site.id);
            let found = db.list::<Rule>(site).await?;
            rules.extend(found.into_iter().filter(|rule| rule.noun.enabled));
            calendars.insert(site, Calendars::of_site(&db, site).await?);
        }
        let known = self.entries.iter();
        let known: HashMap<_, _> = known.map(|(id, entry)| (*id, entry.plan.clone())).collect();
        // Parsing, and thousands of schedules at once, block.
        let read = move || {
            let entries = rules.iter().filter_map(|rule| {
                let calendars = calendars.get(&rule.site)?;
                entry(rule, calendars, known.get(&rule.id))
            });
            entries.collect()
        };
        let entries: HashMap<Uuid, Entry> = tokio::task::spawn_blocking(read).await?;
        let is_gone = self.entries.keys().any(|rule| !entries.contains_key(rule));
        if is_gone || self.revision.is_none() {
            db.keep_schedules(revision, &entries.keys().copied().collect()).await?;
        }
        let before = std::mem::replace(&mut self.entries, entries);
        for (rule, entry) in &mut self.entries {
            match before.get(rule) {
                Some(old) if old.plan.is_of(&entry.plan.cron, entry.plan.instants.calendar()) => {
                    entry.next = old.next;
                }
                _ => drop(self.waiting.insert(*rule)),
            }
        }
        self.waiting_at = Duration::ZERO;
        self.revision = Some(revision);
        Ok(())
    }

    /// Takes out the rules to be looked at now.
    fn due(&mut self) -> BTreeSet<Uuid> {
        let env = self.parts.recorder.env();
        let mut due = BTreeSet::new();
        if env.elapsed() >= self.waiting_at {
            due = std::mem::take(&mut self.waiting);
        }
        let now = env.now();
        while let Some(Reverse((at, rule))) = self.instants.peek().copied()
            && at <= now
        {
            self.instants.pop();
            if let Some(entry) = self.entries.get_mut(&rule)
                && entry.next == Some(at)
            {
                entry.next = None;
                due.insert(rule);
            }
        }
        due
    }

    /// Decides about rules, in the order of their ids, and tells of it.
    async fn decide(&mut self, rules: &[Uuid]) -> Result<(), DbError> {
        let now = self.parts.recorder.env().now();
        let mut deciding = self.parts.db.decide().await?;
        let (mut decided, mut events) = (Vec::with_capacity(rules.len()), Vec::new());
        for rule in rules {
            let Some(entry) = self.entries.get(rule) else { continue };
            let found = deciding.schedule(*rule).await?;
            let mut at = entry.plan.standing(found.clone(), now);
            let last = match at.due {
                Some(due) if entry.plan.cron.overlap != Overlap::Parallel => {
                    let job = ids::job(ids::planned(*rule, due), *rule);
                    if deciding.is_open(job).await? { LastRun::Open } else { LastRun::Ended }
                }
                _ => LastRun::Ended,
            };
            let is_new = entry.plan.decide(&mut at, now, last);
            let is_ours = match &found {
                None => deciding.add(&at).await?,
                Some(found) if *found == at => true,
                Some(_) => {
                    deciding.change(&at).await?;
                    true
                }
            };
            if is_new && is_ours {
                events.extend(at.telling.as_ref().map(|telling| self.event(entry, telling)));
            }
            decided.push((at, is_ours));
        }
        deciding.commit().await?;
        tell(&self.parts.recorder, events).await;
        for (at, is_ours) in decided {
            if !is_ours || decision::is_waiting(&at) {
                self.waiting.insert(at.rule);
            }
            self.plan_next(&at, now);
        }
        let each = CRON_WAIT_EACH.saturating_mul(u32::try_from(self.waiting.len()).unwrap_or(0));
        let elapsed = self.parts.recorder.env().elapsed();
        self.waiting_at = elapsed.saturating_add(CRON_WAIT).saturating_add(each);
        Ok(())
    }

    /// Waits for the first instant after those that are decided. One that has come already cannot
    /// be decided before the decision before it is told.
    fn plan_next(&mut self, at: &Schedule, now: Timestamp) {
        let Some(entry) = self.entries.get_mut(&at.rule) else { return };
        entry.next = entry.plan.instants.after(at.planned).filter(|next| *next > now);
        match entry.next {
            Some(next) => self.instants.push(Reverse((next, at.rule))),
            None => drop(self.waiting.insert(at.rule)),
        }
    }

    /// Tells of decisions whose nodes did not, or whose journals are not projected.
    async fn tell_again(&self) -> Result<(), DbError> {
        let recorder = &self.parts.recorder;
        let now = recorder.env().now();
        let (before, after) = (now.minus(CRON_UNTOLD), now.plus(CRON_UNTOLD));
        let most = u32::try_from(CRON_BATCH).unwrap_or(u32::MAX);
        let untold = self.parts.db.untold_schedules(before, after, most).await?;
        let events = untold.iter().filter_map(|at| {
            let (entry, telling) = (self.entries.get(&at.rule)?, at.telling.as_ref()?);
            Some(self.event(entry, telling))
        });
        tell(recorder, events.collect()).await;
        Ok(())
    }

    fn event(&self, entry: &Entry, telling: &Telling) -> Event {
        let (rule, planned) = (entry.name.clone(), telling.planned);
        let fact = match telling.skipped.clone() {
            None => Fact::ScheduleDue { rule, planned },
            Some(reason) => Fact::ScheduleSkipped { rule, planned, reason },
        };
        let recorder = &self.parts.recorder;
        Event { id: telling.event, ..recorder.event(&Scope::site(entry.site), fact) }
    }

    /// How long nothing is due.
    fn pause(&self) -> Duration {
        let env = self.parts.recorder.env();
        let waits =
            (!self.waiting.is_empty()).then(|| self.waiting_at.saturating_sub(env.elapsed()));
        let instant = self.instants.peek().map(|Reverse((at, _))| at.since(env.now()));
        waits.into_iter().chain(instant).fold(CRON_LOOK, Duration::min)
    }
}

/// The schedule of a rule, if it has one that can be used. It is read anew if it is not the one
/// that is known.
fn entry(
    rule: &Stored<Rule>,
    calendars: &Calendars,
    known: Option<&Plan>,
) -> Option<(Uuid, Entry)> {
    let cron = rule.noun.when.cron()?;
    let read = || {
        let calendar = calendars.named(cron.calendar.as_ref(), "when.cron.calendar")?;
        let calendar = calendar.map(|named| named.calendar);
        match known.filter(|known| known.is_of(cron, calendar.as_ref())) {
            Some(known) => Ok(known.instants.clone()),
            None => Instants::of(cron, calendar),
        }
    };
    let instants = match read() {
        Ok(instants) => instants,
        Err(error) => {
            let rule = rule.noun.name.as_str();
            tracing::error!(code = "EP0840", rule, %error, "a schedule cannot be used");
            return None;
        }
    };
    let plan = Plan { rule: rule.id, cron: cron.clone(), instants, since: rule.changed_at };
    let (site, name) = (rule.site, rule.noun.name.clone());
    Some((rule.id, Entry { site, name, plan, next: None }))
}

/// Records events; returns when all are durable here. Together, for one sync.
async fn tell(recorder: &Recorder, events: Vec<Event>) {
    let mut telling = JoinSet::new();
    for event in events {
        let recorder = recorder.clone();
        telling.spawn(async move { recorder.seal(&event).await });
    }
    while let Some(told) = telling.join_next().await {
        if let Ok(Err(error)) = told {
            tracing::error!(code = "EP0801", %error, "an instant of a schedule is told of later");
        }
    }
}
