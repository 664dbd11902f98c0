//! Which jobs a node claims next: from lane to lane, as long as there are places.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use entrepot_db::{Db, DbError, Dialect, LaneKey, LaneWant};
use entrepot_nouns::{Endpoint, Job, Name, Pool, Rule, SiteId, Timestamp};

use crate::ahead::JobsAhead;
use crate::limits::{CLAIM_AHEAD, CLAIM_JOBS, CLAIM_LANES, LOOK_BETWEEN, LOOK_SLOW};
use crate::places::{JobPlace, Places, Waiting};

/// What a node remembers of the queue from one look to the next.
#[derive(Default)]
pub(crate) struct QueueLook {
    /// The lane of each pool whose turn it was last.
    turns: HashMap<Pool, Turn>,
    known: KnownLanes,
    /// The configuration whose limits of endpoints, and whose paused rules, are known.
    revision: Option<i64>,
    /// Rules whose jobs wait until somebody resumes them.
    paused: HashSet<(SiteId, Name)>,
}

/// What the last look at the whole queue found.
#[derive(Default)]
struct KnownLanes {
    /// The lanes, and from where on their jobs wait. Older ones may come there later, of nodes
    /// whose clocks are behind, or handed over: the next look at the whole queue finds them.
    lanes: BTreeMap<LaneKey, Timestamp>,
    /// Those of them of which the last claim brought as many jobs as it wanted: there are more.
    full: BTreeSet<LaneKey>,
    /// What `Env::elapsed` was then.
    looked: Duration,
    /// How long it took.
    took: Duration,
}

impl KnownLanes {
    /// Whether a look at these lanes is enough now.
    fn will_do(&self, now: Duration) -> bool {
        let (least, most) = (*LOOK_BETWEEN.start(), *LOOK_BETWEEN.end());
        let pause = self.took.saturating_mul(20).clamp(least, most);
        self.took >= LOOK_SLOW
            && now.saturating_sub(self.looked) < pause
            && self.lanes.len() < CLAIM_LANES
    }

    /// The lanes that a look found which began at `began` and has just ended.
    fn learn(&mut self, found: &[LaneKey], began: Duration, ended: Duration) {
        let since = |lane: &LaneKey| self.lanes.get(lane).copied().unwrap_or(Timestamp(i64::MIN));
        self.lanes = found.iter().map(|lane| (lane.clone(), since(lane))).collect();
        self.full.clear();
        (self.looked, self.took) = (ended, ended.saturating_sub(began));
    }

    /// These were claimed, of each lane the longest due ones, for `wants`.
    fn claimed(&mut self, wants: &[LaneWant], jobs: &[Job]) {
        let mut found: HashMap<LaneKey, usize> = HashMap::new();
        for job in jobs {
            let lane = LaneKey::of(job);
            if let Some(since) = self.lanes.get_mut(&lane) {
                *since = (*since).max(job.due_at);
            }
            *found.entry(lane).or_default() += 1;
        }
        for LaneWant { lane, max, .. } in wants {
            if found.get(lane) == Some(max) && self.lanes.contains_key(lane) {
                self.full.insert(lane.clone());
            } else {
                self.full.remove(lane);
            }
        }
    }

    /// The lanes of which it must be asked whether they have jobs that are due.
    fn unsure(&self) -> BTreeMap<LaneKey, Timestamp> {
        let is_unsure = |(lane, _): &(&LaneKey, &Timestamp)| !self.full.contains(*lane);
        let lanes = self.lanes.iter().filter(is_unsure);
        lanes.map(|(lane, since)| (lane.clone(), *since)).collect()
    }
}

/// The turn of a lane.
struct Turn {
    lane: LaneKey,
    /// Places that it still gets before another lane has its turn.
    left: usize,
}

/// Places that were taken for jobs that are to be claimed.
#[derive(Default)]
pub(crate) struct TakenPlaces {
    lanes: HashMap<LaneKey, Vec<JobPlace>>,
    /// Pools in which no lane comes before another one: those may have jobs ahead.
    even: HashSet<Pool>,
    /// Where to begin in lanes that have been looked at before; empty: at the beginning.
    since: BTreeMap<LaneKey, Timestamp>,
}

impl TakenPlaces {
    /// What to claim for them; of lanes whose jobs end quickly more than that, if none of them has
    /// longer turns than others.
    pub(crate) fn wants(&self, places: &Places) -> Vec<LaneWant> {
        let is_quick = |lane: &&LaneKey| {
            lane.is_known() && self.even.contains(&lane.pool()) && places.is_quick(lane)
        };
        let quick: HashSet<&LaneKey> = self.lanes.keys().filter(is_quick).collect();
        let share = CLAIM_AHEAD / quick.len().max(1);
        let want = |(lane, taken): (&LaneKey, &Vec<JobPlace>)| LaneWant {
            lane: lane.clone(),
            max: taken.len().saturating_add(if quick.contains(lane) { share } else { 0 }),
            since: self.since.get(lane).copied(),
            at_once: places.limit(lane),
        };
        self.lanes.iter().map(want).collect()
    }

    /// The place that was taken for this job.
    pub(crate) fn place(&mut self, job: &Job) -> Option<JobPlace> {
        let lane = LaneKey::of(job);
        match self.lanes.get_mut(&lane) {
            Some(places) => places.pop(),
            // Programs that knew no lanes left its lane open.
            None => self.lanes.iter_mut().find(|(lane, _)| !lane.is_known())?.1.pop(),
        }
    }

    /// How many they are.
    pub(crate) fn len(&self) -> usize {
        self.lanes.values().map(Vec::len).sum()
    }
}

/// The lanes of a pool: those behind `after`, and then those before it.
fn behind(all: &[LaneKey], pool: Pool, after: Option<&LaneKey>) -> Vec<LaneKey> {
    let lanes: Vec<&LaneKey> = all.iter().filter(|lane| lane.pool() == pool).collect();
    let (later, earlier): (Vec<&LaneKey>, Vec<&LaneKey>) =
        lanes.into_iter().partition(|lane| after.is_none_or(|after| *lane > after));
    later.into_iter().chain(earlier).cloned().collect()
}

impl QueueLook {
    /// Takes places for the jobs that come next, at most [`CLAIM_JOBS`]; of a lane that has jobs
    /// ahead none.
    pub(crate) async fn take(
        &mut self,
        db: &Db,
        places: &Arc<Places>,
        ahead: &JobsAhead,
        now: Timestamp,
    ) -> Result<TakenPlaces, DbError> {
        self.learn(db, places).await?;
        let mut taken = TakenPlaces::default();
        let all = self.due_lanes(db, places, now, &mut taken).await?;
        for pool in Pool::ALL {
            if places.free(pool) == 0 {
                places.note(pool, Waiting::Jobs);
                continue;
            }
            let after = self.turns.get(&pool).map(|turn| &turn.lane);
            let lanes = match all.len() {
                // There may be more, of this pool or of others.
                CLAIM_LANES => db.due_lanes(pool, after, now, CLAIM_LANES).await?,
                _ => behind(&all, pool, after),
            };
            let (before, found, last) = (taken.len(), lanes.len(), lanes.last().cloned());
            let may_go_on = |lane: &LaneKey| !self.is_paused(lane, places) && !ahead.has(lane);
            let lanes: Vec<_> = lanes.into_iter().filter(may_go_on).collect();
            let mut priorities = lanes.iter().map(|lane| lane.lane().priority);
            let first = priorities.next();
            if priorities.all(|priority| Some(priority) == first) {
                taken.even.insert(pool);
            }
            self.take_of(pool, &lanes, places, &mut taken);
            if let (CLAIM_LANES, true, Some(last)) = (found, taken.len() == before, last) {
                // Partners that may have no more places, or paused rules, fill this look: the next
                // one goes on.
                self.turns.insert(pool, Turn { lane: last, left: 0 });
            }
            // Whoever waits in a lane of the pool comes before jobs that would change to it.
            let is_free = lanes.is_empty() && !ahead.has_any_of(pool);
            let waiting = if is_free { Waiting::Nobody } else { Waiting::Jobs };
            places.note(pool, waiting);
        }
        Ok(taken)
    }

    /// Lanes with jobs that are due: all, or, where finding them takes long, those that are known.
    async fn due_lanes(
        &mut self,
        db: &Db,
        places: &Places,
        now: Timestamp,
        taken: &mut TakenPlaces,
    ) -> Result<Vec<LaneKey>, DbError> {
        let began = places.elapsed();
        // In SQLite no transaction of others keeps what has ended.
        if db.dialect() == Dialect::Postgres && self.known.will_do(began) {
            taken.since.clone_from(&self.known.lanes);
            let unsure = self.known.unsure();
            let mut due: Vec<LaneKey> = self.known.full.iter().cloned().collect();
            if !unsure.is_empty() {
                due.extend(db.due_lanes_since(&unsure, now).await?);
                due.sort();
            }
            return Ok(due);
        }
        let found = db.all_due_lanes(now, CLAIM_LANES).await?;
        self.known.learn(&found, began, places.elapsed());
        Ok(found)
    }

    /// Remembers what was claimed.
    pub(crate) fn claimed(&mut self, wants: &[LaneWant], jobs: &[Job]) {
        self.known.claimed(wants, jobs);
    }

    /// Goes round the lanes of a pool: each gets as many places as its priority says, again and
    /// again, until none may have more.
    fn take_of(
        &mut self,
        pool: Pool,
        lanes: &[LaneKey],
        places: &Arc<Places>,
        taken: &mut TakenPlaces,
    ) {
        let weight = |lane: &LaneKey| lane.lane().priority.weight();
        let mut open: VecDeque<(&LaneKey, usize)> =
            lanes.iter().map(|lane| (lane, weight(lane))).collect();
        if let Some(turn) = self.turns.get(&pool).filter(|turn| turn.left > 0)
            && open.back().is_some_and(|(lane, _)| **lane == turn.lane)
            && let Some((lane, _)) = open.pop_back()
        {
            // Its turn was not over when there were no more places.
            open.push_front((lane, turn.left));
        }
        while let Some((lane, left)) = open.pop_front() {
            if taken.len() == CLAIM_JOBS {
                return;
            }
            let Some(place) = places.take(lane) else { continue };
            taken.lanes.entry(lane.clone()).or_default().push(place);
            let left = left.saturating_sub(1);
            self.turns.insert(pool, Turn { lane: lane.clone(), left });
            if left > 0 {
                open.push_front((lane, left));
            } else {
                open.push_back((lane, weight(lane)));
            }
        }
    }

    /// Whether the rule of the jobs in a lane is paused, or their endpoint.
    fn is_paused(&self, lane: &LaneKey, places: &Places) -> bool {
        if places.limit(lane).is_some_and(|limit| limit.most == 0) {
            return true;
        }
        if self.paused.is_empty() {
            return false;
        }
        let name = lane.rule().and_then(|name| name.parse().ok());
        lane.site().zip(name).is_some_and(|of| self.paused.contains(&of))
    }

    /// Reads the limits of endpoints, and which rules are paused, anew if the configuration changed
    /// since.
    async fn learn(&mut self, db: &Db, places: &Places) -> Result<(), DbError> {
        let revision = db.config_revision().await?;
        if self.revision == Some(revision) {
            return Ok(());
        }
        let mut endpoints = Vec::new();
        self.paused.clear();
        for site in db.sites().await? {
            let site = SiteId(site.id);
            let rules = db.list::<Rule>(site).await?.into_iter().map(|rule| rule.noun);
            let paused = rules.filter(|rule| rule.paused);
            self.paused.extend(paused.map(|rule| (site, rule.name)));
            let found = db.list::<Endpoint>(site).await?;
            endpoints.extend(found.into_iter().map(|endpoint| (site, endpoint.noun)));
        }
        places.set_limits(endpoints.iter().map(|(site, endpoint)| (*site, endpoint)));
        self.revision = Some(revision);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use entrepot_nouns::JobId;
    use uuid::Uuid;

    use super::*;
    use crate::fixture::uploaded;

    fn lane(rule: &str) -> LaneKey {
        LaneKey::new(SiteId::MAIN, &rule.parse().unwrap(), &Default::default())
    }

    #[test]
    fn the_lanes_that_are_known_do_for_a_while_where_a_whole_look_takes_long() {
        let ms = Duration::from_millis;
        let mut known = KnownLanes::default();
        assert!(!known.will_do(ms(0)), "nothing is known yet");
        known.learn(&[lane("r")], ms(1_000), ms(1_002));
        assert!(!known.will_do(ms(1_003)), "a look takes no time");
        known.learn(&[lane("r")], ms(2_000), ms(2_050));
        assert!(known.will_do(ms(3_000)) && !known.will_do(ms(3_050)));
        known.learn(&[lane("r")], ms(3_000), ms(4_000));
        assert!(known.will_do(ms(5_999)) && !known.will_do(ms(6_000)), "at most two seconds");
    }

    /// A job that is due then.
    fn due(rule: &str, due_at: Timestamp) -> Job {
        let event = uploaded("/in/a");
        Job { due_at, ..Job::new(JobId(Uuid::nil()), rule.parse().unwrap(), event, due_at) }
    }

    #[test]
    fn a_known_lane_is_read_from_what_was_claimed_last() {
        let mut known = KnownLanes::default();
        known.learn(&[lane("r")], Duration::ZERO, Duration::ZERO);
        assert_eq!(known.lanes[&lane("r")], Timestamp(i64::MIN));
        let at = Timestamp(1_800_000_000_000_000);
        known.claimed(&[], &[due("r", at), due("r", Timestamp(7))]);
        known.learn(&[lane("r"), lane("s")], Duration::ZERO, Duration::ZERO);
        assert_eq!(known.lanes[&lane("r")], at);
        assert_eq!(known.lanes[&lane("s")], Timestamp(i64::MIN));
    }

    #[test]
    fn a_lane_that_gave_all_that_was_wanted_is_claimed_from_without_a_look() {
        let mut known = KnownLanes::default();
        known.learn(&[lane("r"), lane("s")], Duration::ZERO, Duration::ZERO);
        let want = |rule: &str| LaneWant { lane: lane(rule), max: 2, since: None, at_once: None };
        let jobs = [due("r", Timestamp(1)), due("r", Timestamp(2)), due("s", Timestamp(3))];
        known.claimed(&[want("r"), want("s")], &jobs);
        assert!(known.unsure().into_keys().eq([lane("s")]));
        known.claimed(&[want("r")], &jobs[1..]);
        assert_eq!(known.unsure().len(), 2, "the last claim says it");
        known.claimed(&[want("r")], &jobs[..2]);
        known.learn(&[lane("r")], Duration::ZERO, Duration::ZERO);
        assert_eq!(known.unsure().len(), 1, "a look at all says it better");
    }
}
