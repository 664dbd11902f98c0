//! The places of a node's pools, and who has them.
//!
//! A job has a place while a step of it runs. A partner gets one more place of a pool only while
//! more places are free than it has already: so one that hangs has half of the pool at most, a
//! second one half of the rest, and the next one still finds places. Nothing needs to be set for
//! that.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use entrepot_db::{EndpointLimit, LaneKey};
use entrepot_nouns::{Endpoint, Env, Name, Pool, PoolPlaces, SiteId};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::limits::{KNOWN_PACES, POOL_PLACES, QUICK_JOB};

/// How many places each pool of a node has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSizes {
    /// For steps that work on the node itself.
    pub instance: usize,
    /// For steps that read from partners.
    pub source: usize,
    /// For steps that write to partners.
    pub target: usize,
}

impl PoolSizes {
    /// As many in each.
    pub fn each(places: usize) -> PoolSizes {
        PoolSizes { instance: places, source: places, target: places }
    }

    /// With what an operator said of them, and never more than [`POOL_PLACES`].
    pub(crate) fn changed(&self, places: PoolPlaces) -> PoolSizes {
        let size = |said: Option<u32>, size: usize| {
            said.and_then(|said| usize::try_from(said).ok()).unwrap_or(size).min(POOL_PLACES)
        };
        PoolSizes {
            instance: size(places.instance, self.instance),
            source: size(places.source, self.source),
            target: size(places.target, self.target),
        }
    }

    /// Of one pool.
    pub fn of(&self, pool: Pool) -> usize {
        match pool {
            Pool::Instance => self.instance,
            Pool::Source => self.source,
            Pool::Target => self.target,
        }
    }
}

/// Who waits for places of a pool, as far as the last look at the queue showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// Whoever wants one may have it.
    Nobody,
    /// There are jobs in the queue that come first.
    Jobs,
}

/// The pools of a node.
pub(crate) struct Places {
    env: Env,
    state: Mutex<PlacesState>,
    /// Somebody may find a place now.
    freed: Arc<Notify>,
    /// The same, for branches of jobs that run.
    found: Notify,
}

struct PlacesState {
    sizes: PoolSizes,
    taken: HashMap<Pool, usize>,
    parties: HashMap<String, usize>,
    /// Pools in which a job waits for a place, as far as the last look at the queue showed.
    waiting: HashMap<Pool, Waiting>,
    limits: HashMap<(SiteId, Name), u32>,
    /// How long a job of each party has had its place, on average, the last ones above all.
    paces: HashMap<String, Duration>,
}

impl PlacesState {
    fn free(&self, pool: Pool) -> usize {
        let taken = self.taken.get(&pool).copied().unwrap_or_default();
        self.sizes.of(pool).saturating_sub(taken)
    }

    fn waiting(&self, pool: Pool) -> Waiting {
        self.waiting.get(&pool).copied().unwrap_or(Waiting::Nobody)
    }

    fn take(&mut self, pool: Pool, party: &str) -> bool {
        let has = self.parties.get(party).copied().unwrap_or_default();
        if has >= self.free(pool) {
            return false;
        }
        *self.taken.entry(pool).or_default() += 1;
        *self.parties.entry(party.to_owned()).or_default() += 1;
        true
    }

    fn note_pace(&mut self, party: &str, had: Duration) {
        if let Some(pace) = self.paces.get_mut(party) {
            *pace = pace.saturating_mul(7).saturating_add(had) / 8;
            return;
        }
        if self.paces.len() >= KNOWN_PACES {
            self.paces.clear();
        }
        self.paces.insert(party.to_owned(), had);
    }

    fn give_back(&mut self, pool: Pool, party: &str) {
        if let Some(taken) = self.taken.get_mut(&pool) {
            *taken = taken.saturating_sub(1);
        }
        if let Some(has) = self.parties.get_mut(party) {
            *has = has.saturating_sub(1);
            if *has == 0 {
                self.parties.remove(party);
            }
        }
    }
}

impl Places {
    pub(crate) fn new(env: Env, sizes: PoolSizes, freed: Arc<Notify>) -> Arc<Places> {
        let state = PlacesState {
            sizes,
            taken: HashMap::new(),
            parties: HashMap::new(),
            waiting: HashMap::new(),
            limits: HashMap::new(),
            paces: HashMap::new(),
        };
        Arc::new(Places { env, state: Mutex::new(state), freed, found: Notify::new() })
    }

    /// What `Env::elapsed` is.
    pub(crate) fn elapsed(&self) -> Duration {
        self.env.elapsed()
    }

    /// From now on; jobs that have a place keep it.
    pub(crate) fn resize(&self, sizes: PoolSizes) {
        self.state.lock().sizes = sizes;
    }

    /// Places that nobody has.
    pub(crate) fn free(&self, pool: Pool) -> usize {
        self.state.lock().free(pool)
    }

    /// Places that jobs have.
    pub(crate) fn taken(&self, pool: Pool) -> usize {
        self.state.lock().taken.get(&pool).copied().unwrap_or_default()
    }

    /// Places that there are.
    pub(crate) fn size(&self, pool: Pool) -> usize {
        self.state.lock().sizes.of(pool)
    }

    /// Places that there are in all pools.
    pub(crate) fn all(&self) -> usize {
        let state = self.state.lock();
        Pool::ALL.into_iter().map(|pool| state.sizes.of(pool)).sum()
    }

    /// A place for a job of `lane`, if its partner may have one more.
    pub(crate) fn take(self: &Arc<Self>, lane: &LaneKey) -> Option<JobPlace> {
        let (pool, party) = (lane.lane().pool, lane.party());
        let taken = self.state.lock().take(pool, &party);
        let lane = lane.clone();
        let places = self.clone();
        taken.then(|| JobPlace { places, lane, pool, party, since: None, given_back: false })
    }

    /// Whether jobs of a lane end so soon that places wait for jobs, rather than jobs for places.
    /// No jobs are counted over all nodes there.
    pub(crate) fn is_quick(&self, lane: &LaneKey) -> bool {
        let is_quick =
            self.state.lock().paces.get(&lane.party()).is_some_and(|pace| *pace < QUICK_JOB);
        is_quick && self.limit(lane).is_none()
    }

    fn tell_of_place(&self) {
        self.freed.notify_one();
        self.found.notify_waiters();
    }

    /// Notes who waits for a place of `pool`.
    pub(crate) fn note(&self, pool: Pool, waiting: Waiting) {
        let before = self.state.lock().waiting.insert(pool, waiting);
        if before == Some(Waiting::Jobs) && waiting == Waiting::Nobody {
            self.found.notify_waiters();
        }
    }

    /// What ends when there may be a place that was not there before this was called.
    pub(crate) fn found(&self) -> Notified<'_> {
        self.found.notified()
    }

    fn waiting(&self, lane: &LaneKey) -> Waiting {
        self.state.lock().waiting(lane.lane().pool)
    }

    /// The limits that endpoints have, from now on; one that is paused takes no jobs.
    pub(crate) fn set_limits<'a>(&self, endpoints: impl Iterator<Item = (SiteId, &'a Endpoint)>) {
        let limits = endpoints.filter_map(|(site, endpoint)| {
            let most = if endpoint.paused { 0 } else { endpoint.at_once? };
            Some(((site, endpoint.name.clone()), most))
        });
        self.state.lock().limits = limits.collect();
    }

    /// What else limits the jobs of a lane.
    pub(crate) fn limit(&self, lane: &LaneKey) -> Option<EndpointLimit> {
        let (site, endpoint) = (lane.site()?, lane.lane().endpoint?);
        let most = self.state.lock().limits.get(&(site, endpoint.clone())).copied()?;
        Some(EndpointLimit { site, endpoint, most })
    }
}

/// The place of one job; free again when it is dropped, or when nothing is left to do but to write
/// down how the job ended.
pub(crate) struct JobPlace {
    places: Arc<Places>,
    lane: LaneKey,
    pool: Pool,
    party: String,
    /// What `Env::elapsed` was when its job began; none: it has not.
    since: Option<Duration>,
    given_back: bool,
}

impl JobPlace {
    /// The lane that the job is in.
    pub(crate) fn lane(&self) -> &LaneKey {
        &self.lane
    }

    /// Its job begins.
    pub(crate) fn begin(&mut self) {
        self.since = Some(self.places.env.elapsed());
    }

    /// All places of the node.
    pub(crate) fn all(&self) -> Arc<Places> {
        self.places.clone()
    }

    /// Whether it is one of those that jobs in this lane have.
    pub(crate) fn is_for(&self, lane: &LaneKey) -> bool {
        (lane.lane().pool, lane.party().as_str()) == (self.pool, self.party.as_str())
    }

    /// One more place, for a step of the same job that runs at the same time, if it may be had
    /// without regard to anybody: as in [`JobPlace::change`].
    pub(crate) fn beside(&self, lane: &LaneKey) -> Option<JobPlace> {
        if self.places.limit(lane).is_some() || self.places.waiting(lane) == Waiting::Jobs {
            return None;
        }
        self.places.take(lane)
    }

    /// Goes over to another lane, if that may be done without regard to anybody: no job waits for
    /// a place there, the partner may have one more, and only this node counts who has them.
    pub(crate) fn change(&mut self, lane: &LaneKey) -> bool {
        let (pool, party) = (lane.lane().pool, lane.party());
        if self.is_for(lane) {
            self.lane = lane.clone();
            return true;
        }
        // The limit of an endpoint is kept where jobs are claimed, and the lane of a job that has
        // none yet is written down by handing it over.
        if self.places.limit(lane).is_some() || !self.lane.is_known() {
            return false;
        }
        let mut state = self.places.state.lock();
        if state.waiting(pool) == Waiting::Jobs || !state.take(pool, &party) {
            return false;
        }
        let now = self.places.env.elapsed();
        if let Some(since) = self.since.replace(now) {
            state.note_pace(&self.party, now.saturating_sub(since));
        }
        state.give_back(self.pool, &self.party);
        drop(state);
        self.places.tell_of_place();
        (self.lane, self.pool, self.party) = (lane.clone(), pool, party);
        true
    }

    /// Lets another job have the place: no step of this one runs any more.
    pub(crate) fn give_back(&mut self) {
        if !std::mem::replace(&mut self.given_back, true) {
            self.end();
            self.places.tell_of_place();
        }
    }

    fn end(&self) {
        let mut state = self.places.state.lock();
        if let Some(since) = self.since {
            let had = self.places.env.elapsed().saturating_sub(since);
            state.note_pace(&self.party, had);
        }
        state.give_back(self.pool, &self.party);
    }
}

impl Drop for JobPlace {
    fn drop(&mut self) {
        if !self.given_back {
            self.end();
            // The end of its job wakes whoever claims others.
            self.places.found.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use entrepot_nouns::{JobLane, Priority};

    use super::*;

    fn lane(pool: Pool, endpoint: &str) -> LaneKey {
        let endpoint = Some(endpoint.parse().unwrap());
        let lane = JobLane { pool, endpoint, priority: Priority::Normal };
        LaneKey::new(SiteId::MAIN, &"r".parse().unwrap(), &lane)
    }

    fn places(each: usize) -> Arc<Places> {
        Places::new(Env::simulated(1), PoolSizes::each(each), Arc::default())
    }

    fn all(places: &Arc<Places>, lane: &LaneKey) -> Vec<JobPlace> {
        std::iter::from_fn(|| places.take(lane)).collect()
    }

    #[test]
    fn each_partner_that_hangs_leaves_half_of_what_is_free() {
        let places = places(25);
        let mut held = Vec::new();
        for (partner, share) in [("a", 13), ("b", 6), ("c", 3), ("d", 2), ("e", 1)] {
            let has = all(&places, &lane(Pool::Target, partner));
            assert_eq!(has.len(), share, "{partner}");
            held.push(has);
        }
        assert_eq!(places.free(Pool::Target), 0);
        assert_eq!(all(&places, &lane(Pool::Source, "a")).len(), 13, "another pool");
        held.remove(0);
        assert_eq!(all(&places, &lane(Pool::Target, "f")).len(), 7);
    }

    #[test]
    fn a_pool_that_shrinks_gives_nothing_before_it_is_small_enough() {
        let places = places(8);
        let to = lane(Pool::Target, "a");
        let mut held = all(&places, &to);
        assert_eq!(held.len(), 4);
        places.resize(PoolSizes { target: 2, ..PoolSizes::each(8) });
        held.truncate(2);
        assert!(places.take(&lane(Pool::Target, "b")).is_none());
        held.clear();
        assert!(places.take(&to).is_some());
    }

    #[test]
    fn a_lane_is_quick_while_its_last_jobs_ended_soon() {
        let places = places(9);
        let to = lane(Pool::Target, "a");
        let run = |millis: u64| {
            let mut place = places.take(&to).unwrap();
            place.begin();
            places.env.advance(Duration::from_millis(millis));
        };
        drop(places.take(&to));
        assert!(!places.is_quick(&to), "no job of it has run");
        run(5);
        assert!(places.is_quick(&to));
        run(1_000);
        assert!(!places.is_quick(&to));
        for _ in 0..30 {
            run(5);
        }
        assert!(places.is_quick(&to));
        let limited = Endpoint { at_once: Some(9), ..entrepot_testbed::memory_endpoint("a") };
        places.set_limits([(SiteId::MAIN, &limited)].into_iter());
        assert!(!places.is_quick(&to), "its jobs are counted over all nodes");
    }

    #[test]
    fn a_place_is_given_back_once() {
        let places = places(2);
        let to = lane(Pool::Target, "a");
        let mut ending = places.take(&to).unwrap();
        assert!(places.take(&to).is_none());
        ending.give_back();
        ending.give_back();
        assert_eq!(places.taken(Pool::Target), 0);
        let other = places.take(&to).unwrap();
        drop(ending);
        assert_eq!(places.taken(Pool::Target), 1, "that of another job");
        drop(other);
        assert_eq!((places.taken(Pool::Target), places.all()), (0, 6));
    }

    #[test]
    fn a_job_changes_its_lane_only_where_nobody_waits() {
        let places = places(2);
        let (here, there) = (lane(Pool::Target, "a"), lane(Pool::Source, "b"));
        let mut place = places.take(&here).unwrap();
        places.note(Pool::Source, Waiting::Jobs);
        assert!(!place.change(&there));
        places.note(Pool::Source, Waiting::Nobody);
        assert!(place.change(&there));
        assert_eq!((places.taken(Pool::Target), places.taken(Pool::Source)), (0, 1));
        let endpoint: Endpoint = serde_json::from_value(serde_json::json!({
            "name": "a", "at_once": 1, "target": { "memory": {} },
        }))
        .unwrap();
        places.set_limits([(SiteId::MAIN, &endpoint)].into_iter());
        assert!(!place.change(&here), "other nodes have a say in it");
        drop(place);
        assert_eq!(places.taken(Pool::Source), 0);
    }
}
