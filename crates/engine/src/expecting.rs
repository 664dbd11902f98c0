//! Tells when files that rules expect have not come. The projector counts files in the windows of
//! each rule, in the transaction that brings their events into the database; here it is decided
//! what follows. No node leads: the row of a window lets one of them decide about it, and the id of
//! an event follows from the rule, the window and what is told, so that telling it twice tells it
//! once. The rule starts on that event like on any other.
//!
//! That a file has not come is decided when all nodes have brought into the database what they knew
//! until the end of the window. What comes after that decision all the same counts as late.
//!
//! A decision is in the database before its event is in a journal. The row remembers it until the
//! event is projected: if the node ends in between, any other one tells of it.

mod arrivals;
mod judgement;
mod windows;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use entrepot_db::{Db, DbError, Decision, ExpectTelling, Expectation, ExpectedWindow, Node};
use entrepot_journal::{Recorder, Scope};
use entrepot_nouns::event::ExpectedFact;
use entrepot_nouns::noun::Stored;
use entrepot_nouns::{Event, Expect, Fact, FieldError, Name, NodeId, Rule, SiteId, Timestamp};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::backoff::Looks;
use crate::calendars::Calendars;
use crate::ids;
use crate::limits::{
    EXPECT_BACK, EXPECT_BATCH, EXPECT_DEAD_WAIT, EXPECT_KEPT, EXPECT_LOOK, EXPECT_MARGIN,
    EXPECT_SWEEP, EXPECT_UNTOLD,
};
use crate::membership::Membership;
use crate::schedule;
use judgement::{Demand, Judged, Moment};
use windows::{Window, Windows};

pub(crate) use arrivals::{CameFile, CameTo, Expectations};

/// What is needed to judge windows.
pub(crate) struct ExpecterParts {
    pub(crate) db: Db,
    pub(crate) recorder: Recorder,
    pub(crate) membership: Arc<Membership>,
    /// How long jobs are leased: how far off the clock of the node may be follows from it.
    pub(crate) lease: Duration,
}

/// Says what of an `expect` cannot be used.
///
/// # Errors
/// The field of the rule, and why.
pub(crate) fn check(expect: &Expect) -> Result<(), FieldError> {
    schedule::zone(&expect.zone, "when.expect.zone").map(drop)
}

/// Judges windows until `stop`.
pub(crate) async fn run(parts: ExpecterParts, stop: CancellationToken) {
    if !parts.membership.is_counted(&stop).await {
        return;
    }
    let env = parts.recorder.env().clone();
    let mut expecter = Expecter::new(parts);
    let mut looks = Looks::new(&env, &stop, "expected files cannot be looked at");
    while !stop.is_cancelled() {
        looks.pause(expecter.look().await.map(|()| EXPECT_LOOK)).await;
    }
}

/// An enabled rule that expects files.
struct Entry {
    site: SiteId,
    name: Name,
    terms: Uuid,
    /// Windows that began before are none of its.
    since: Timestamp,
    demand: Demand,
    windows: Windows,
    /// When it is looked at next, whatever comes.
    due: Timestamp,
}

/// A window that is looked at.
struct Candidate {
    window: ExpectedWindow,
    /// There is a row of it.
    is_known: bool,
    judged: Judged,
}

struct Expecter {
    parts: ExpecterParts,
    /// Of the configuration that `entries` are from; none before the first look.
    revision: Option<i64>,
    entries: HashMap<Uuid, Entry>,
    /// When these are due by `Env::elapsed`: decisions that may not be told, and old windows.
    untold_at: Duration,
    sweep_at: Duration,
}

impl Expecter {
    fn new(parts: ExpecterParts) -> Expecter {
        Expecter {
            parts,
            revision: None,
            entries: HashMap::new(),
            untold_at: Duration::ZERO,
            sweep_at: Duration::ZERO,
        }
    }

    /// Does what is due.
    async fn look(&mut self) -> Result<(), DbError> {
        let env = &self.parts.recorder.env().clone();
        // As for jobs: the clock of this node may not be the one of the installation.
        if !self.parts.membership.may_claim(env.elapsed(), self.parts.lease) {
            return Ok(());
        }
        self.refresh().await?;
        if self.entries.is_empty() || self.revision.is_none() {
            return Ok(());
        }
        let (db, now) = (self.parts.db.clone(), env.now());
        if env.elapsed() >= self.untold_at {
            self.tell_again().await?;
            self.untold_at = env.elapsed().saturating_add(EXPECT_UNTOLD);
        }
        if env.elapsed() >= self.sweep_at {
            db.forget_windows(now.minus(EXPECT_KEPT)).await?;
            self.sweep_at = env.elapsed().saturating_add(EXPECT_SWEEP);
        }
        let is_due = |(_, entry): &(&Uuid, &Entry)| entry.due <= now;
        let mut due: BTreeSet<Uuid> =
            self.entries.iter().filter(is_due).map(|(rule, _)| *rule).collect();
        due.extend(db.touched_expectations().await?);
        due.retain(|rule| self.entries.contains_key(rule));
        if due.is_empty() {
            return Ok(());
        }
        let counted_until = counted_until(&db.nodes().await?, self.parts.recorder.node_id());
        let due: Vec<Uuid> = due.into_iter().collect();
        for rules in due.chunks(EXPECT_BATCH) {
            self.decide(rules, Moment { now, counted_until }).await?;
        }
        Ok(())
    }

    /// Reads the rules anew if the configuration has changed.
    async fn refresh(&mut self) -> Result<(), DbError> {
        let db = self.parts.db.clone();
        let revision = db.config_revision().await?;
        if self.revision == Some(revision) {
            return Ok(());
        }
        let (mut wanted, mut entries) = (Vec::new(), HashMap::new());
        for site in db.sites().await? {
            let site = SiteId(site.id);
            let rules = db.list::<Rule>(site).await?;
            let calendars = Calendars::of_site(&db, site).await?;
            for rule in rules.iter().filter(|rule| rule.noun.enabled) {
                let Some(expect) = rule.noun.when.expected() else { continue };
                let (terms, since) = (ids::terms(rule.id, expect), rule.changed_at);
                wanted.push(Expectation { rule: rule.id, terms, since });
                let known = self.entries.remove(&rule.id).filter(|known| known.terms == terms);
                let windows = Windows::of(expect, &calendars);
                entries.extend(entry(rule, windows, known).map(|entry| (rule.id, entry)));
            }
        }
        // What is left of the entries before is not needed any more.
        self.entries = entries;
        self.revision = None;
        let Some(since) = db.keep_expectations(revision, &wanted).await? else { return Ok(()) };
        for (rule, entry) in &mut self.entries {
            entry.since = since.get(rule).copied().unwrap_or(entry.since);
        }
        self.revision = Some(revision);
        Ok(())
    }

    /// Decides about the windows of rules, in the order of their ids, and tells of it.
    async fn decide(&mut self, rules: &[Uuid], moment: Moment) -> Result<(), DbError> {
        let mut judging = self.parts.db.judge().await?;
        let (mut events, mut looked) = (Vec::new(), Vec::with_capacity(rules.len()));
        for rule in rules {
            let Some(entry) = self.entries.get(rule) else { continue };
            let known = judging.windows(*rule).await?;
            let (candidates, others) = entry.candidates(*rule, known, moment.now);
            // Nothing follows of windows before its own. Those of other terms may be of a newer
            // configuration.
            let oldest = moment.now.minus(EXPECT_BACK);
            let is_done = |window: &&ExpectedWindow| {
                window.touched && (window.terms == entry.terms || window.ends < oldest)
            };
            for window in others.iter().filter(is_done) {
                judging.change(window).await?;
            }
            let mut waits = false;
            for Candidate { mut window, is_known, judged } in candidates {
                let outcome = entry.demand.decide(&mut window, moment, judged);
                waits |= outcome.waits;
                if outcome.decided.is_empty() && !window.touched {
                    continue;
                }
                let told = outcome.decided.iter().filter(|it| it.decision != Decision::Met);
                let told: Vec<ExpectTelling> = told.cloned().collect();
                if !outcome.decided.is_empty() {
                    window.decided_at = moment.now;
                }
                window.telling.extend(told.iter().cloned());
                if is_known {
                    judging.change(&window).await?;
                } else if !judging.add(&window).await? {
                    // A file, or another node, came first: it is looked at once more.
                    waits = true;
                    continue;
                }
                events.extend(told.iter().map(|it| self.event(entry, &window, it)));
            }
            let next = if waits { moment.now } else { entry.next(moment.now) };
            looked.push((*rule, next));
        }
        judging.commit().await?;
        for (rule, next) in looked {
            if let Some(entry) = self.entries.get_mut(&rule) {
                entry.due = next;
            }
        }
        tell(&self.parts.recorder, events).await;
        Ok(())
    }

    /// Tells of decisions whose nodes did not, or whose journals are not projected.
    async fn tell_again(&self) -> Result<(), DbError> {
        let (db, now) = (&self.parts.db, self.parts.recorder.env().now());
        let (before, after) = (now.minus(EXPECT_UNTOLD), now.plus(EXPECT_UNTOLD));
        let most = u32::try_from(EXPECT_BATCH).unwrap_or(u32::MAX);
        let mut events = Vec::new();
        for window in db.untold_windows(before, after, most).await? {
            let Some(entry) = self.entries.get(&window.rule) else { continue };
            let mut is_told = true;
            for telling in &window.telling {
                let event = self.event(entry, &window, telling);
                if db.event(event.id).await?.is_none() {
                    is_told = false;
                    events.push(event);
                }
            }
            if is_told {
                db.told_window(&window).await?;
            }
        }
        tell(&self.parts.recorder, events).await;
        Ok(())
    }

    fn event(&self, entry: &Entry, window: &ExpectedWindow, telling: &ExpectTelling) -> Event {
        let ExpectTelling { decision, seen, count } = *telling;
        let id = ids::expected(window.rule, window.begins, decision);
        let (rule, begins, deadline) = (entry.name.clone(), window.begins, window.ends);
        let window = ExpectedFact { rule, begins, deadline, seen, count };
        let fact = match decision {
            Decision::Soon => Fact::ExpectedSoon { window },
            Decision::Late => Fact::ExpectedLate { window },
            Decision::Extra => Fact::ExpectedExtra { window },
            Decision::Missed | Decision::Met => Fact::ExpectedMissed { window },
        };
        Event { id, ..self.parts.recorder.event(&Scope::site(entry.site), fact) }
    }
}

impl Entry {
    /// The windows that something may follow of, and what else is known of the rule.
    fn candidates(
        &self,
        rule: Uuid,
        known: Vec<ExpectedWindow>,
        now: Timestamp,
    ) -> (Vec<Candidate>, Vec<ExpectedWindow>) {
        let oldest = now.minus(EXPECT_BACK);
        let is_ours = |window: &ExpectedWindow| {
            let is_of_terms = window.terms == self.terms && window.begins >= self.since;
            // Also one of which something is known may have come to begin on a holiday.
            is_of_terms && self.windows.has_day_of(window.begins)
        };
        let (ours, others): (Vec<_>, Vec<_>) = known.into_iter().partition(is_ours);
        let begins: HashSet<Timestamp> = ours.iter().map(|window| window.begins).collect();
        let mut candidates: Vec<Candidate> = Vec::new();
        for window in ours {
            let judged = if window.ends > oldest { Judged::Yes } else { Judged::TooLate };
            candidates.push(Candidate { window, is_known: true, judged });
        }
        let all = self.windows.between(oldest, now).into_iter();
        // A day that was a holiday until it was over had no files to wait for.
        let judged_from = self.windows.judged_from();
        let is_new = |it: &Window| it.begins >= self.since && it.ends > judged_from;
        let new = all.filter(|it| is_new(it) && !begins.contains(&it.begins));
        candidates.extend(new.map(|it| {
            let window = ExpectedWindow {
                rule,
                terms: self.terms,
                begins: it.begins,
                ends: it.ends,
                seen: 0,
                late: 0,
                touched: false,
                decided: Vec::new(),
                telling: Vec::new(),
                decided_at: Timestamp::default(),
            };
            Candidate { window, is_known: false, judged: Judged::Yes }
        }));
        candidates.sort_by_key(|candidate| candidate.window.begins);
        (candidates, others)
    }

    /// The next time at which something may be due, whatever comes.
    fn next(&self, now: Timestamp) -> Timestamp {
        let windows = [self.windows.latest(now), self.windows.next(now)];
        let instants = windows.into_iter().flatten().flat_map(|it| self.demand.instants(it.ends));
        let next = instants.filter(|at| *at > now).min();
        next.unwrap_or_else(|| now.plus(EXPECT_SWEEP))
    }
}

/// What a rule expects, if that can be used; `known` is the entry that it had.
fn entry(
    rule: &Stored<Rule>,
    windows: Result<Windows, FieldError>,
    known: Option<Entry>,
) -> Option<Entry> {
    let expect = rule.noun.when.expected()?;
    let demand = Demand::of(expect);
    let windows = match windows {
        Ok(windows) => windows,
        Err(error) => {
            let rule = rule.noun.name.as_str();
            tracing::error!(code = "EP0835", rule, %error, "what a rule expects cannot be used");
            return None;
        }
    };
    let known = known.filter(|known| known.demand == demand && known.windows == windows);
    let due = known.map(|known| known.due);
    Some(Entry {
        site: rule.site,
        name: rule.noun.name.clone(),
        terms: ids::terms(rule.id, expect),
        since: rule.changed_at,
        demand,
        windows,
        due: due.unwrap_or_default(),
    })
}

/// All files that came before are counted, whatever node they came to. A node that is silent for
/// longer than [`EXPECT_DEAD_WAIT`] is not waited for. `None`: not even `own` is known.
fn counted_until(nodes: &[Node], own: NodeId) -> Option<Timestamp> {
    let has_ended = |node: &Node| node.stopped && node.unprojected == 0;
    let counts = |node: &&Node| node.silent_for <= EXPECT_DEAD_WAIT && !has_ended(node);
    let waited: Vec<&Node> = nodes.iter().filter(counts).collect();
    let is_there = waited.iter().any(|node| node.id == own);
    let until = waited.iter().map(|node| node.projected_until).min();
    // An event has its time before it is in the journal.
    until.filter(|_| is_there).map(|until| until.minus(EXPECT_MARGIN))
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
            tracing::error!(code = "EP0801", %error, "an expected file is told of later");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(number: u128, until: i64) -> Node {
        Node {
            id: NodeId(Uuid::from_u128(number)),
            name: "n".parse().unwrap(),
            slot: None,
            incarnation: 1,
            program: String::new(),
            speaks: 1,
            drained: false,
            stopped: false,
            rebuilding: false,
            heartbeat_at: Timestamp(0),
            silent_for: Duration::ZERO,
            clock_ahead_us: 0,
            round_trip_us: 0,
            unprojected: 0,
            projected_up_to: 0,
            projected_until: Timestamp(0)
                .plus(EXPECT_MARGIN)
                .plus(Duration::from_micros(u64::try_from(until).unwrap())),
            pools: entrepot_nouns::PoolPlaces::default(),
        }
    }

    #[test]
    fn all_nodes_are_waited_for_but_those_that_ended_or_are_dead_for_long() {
        let own = NodeId(Uuid::from_u128(1));
        let until = |other: Node| counted_until(&[node(1, 50), other], own).map(Timestamp::micros);
        assert_eq!(until(node(2, 40)), Some(40));
        let silent = |silent_for| Node { silent_for, ..node(2, 40) };
        assert_eq!(until(silent(EXPECT_DEAD_WAIT)), Some(40), "it may come back");
        assert_eq!(until(silent(EXPECT_DEAD_WAIT + Duration::from_secs(1))), Some(50));
        assert_eq!(until(Node { stopped: true, ..node(2, 40) }), Some(50));
        let ended = Node { stopped: true, unprojected: 3, ..node(2, 40) };
        assert_eq!(until(ended), Some(40), "its journal has more");
        assert_eq!(counted_until(&[node(2, 40)], own), None);
        assert_eq!(counted_until(&[], own), None);
    }
}
