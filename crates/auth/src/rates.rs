//! How fast who may go together: rates as policies say them by the hour, and the buckets of those
//! who share them.

use entrepot_net::meter::Throttle;
use entrepot_nouns::{Env, Name, PerDirection, Policy, Rates, Timestamp, Window};

/// Picks one of the rates that a policy, or an entry of its hours, sets.
pub(crate) type Pick = fn(&Rates) -> PerDirection;

/// A rate as policies say it, bytes a second: what is set for hours that hold, in order, then what
/// is set for all times.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TimedRate(Vec<(Option<Window>, u64)>);

impl TimedRate {
    fn of(policies: &[Policy], pick: impl Fn(&Rates) -> Option<u64>) -> Self {
        let mut said = Vec::new();
        for policy in policies {
            for hours in &policy.hours {
                said.extend(pick(&hours.rates()).map(|rate| (Some(hours.window()), rate)));
            }
            if let Some(rate) = pick(&policy.rates()) {
                said.push((None, rate));
                break;
            }
        }
        TimedRate(said)
    }

    /// What it is at `now`; `None`: no limit.
    pub fn at(&self, now: Timestamp) -> Option<u64> {
        let holds = |window: &Option<Window>| window.as_ref().is_none_or(|it| it.contains(now));
        self.0.iter().find(|(window, _)| holds(window)).map(|(_, rate)| *rate)
    }
}

/// A [`TimedRate`] for each direction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TimedRates {
    /// From the peer to us.
    pub upload: TimedRate,
    /// From us to the peer.
    pub download: TimedRate,
}

impl TimedRates {
    /// Of the first of `policies` that sets it, each direction by itself.
    pub(crate) fn of(policies: &[Policy], pick: Pick) -> Self {
        TimedRates {
            upload: TimedRate::of(policies, |rates| pick(rates).upload),
            download: TimedRate::of(policies, |rates| pick(rates).download),
        }
    }

    /// True if there never is a limit.
    pub(crate) fn is_none(&self) -> bool {
        self.upload.0.is_empty() && self.download.0.is_empty()
    }

    pub(crate) fn at(&self, now: Timestamp) -> PerDirection {
        PerDirection { upload: self.upload.at(now), download: self.download.at(now) }
    }
}

/// Who shares a rate.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Sharers {
    /// All sessions of an account.
    Account(Name),
    /// All members of a group.
    Group(Name),
    /// All sessions that came in by one listener.
    Listener(Name),
    /// All of a site.
    Site,
}

/// Rates of several together; of all that are said the least counts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SharedRates {
    pub(crate) of: Sharers,
    said: Vec<TimedRates>,
}

impl SharedRates {
    /// What their policy says that they share.
    pub(crate) fn new(of: Sharers, policy: Option<&Policy>) -> Self {
        let policy = policy.map_or(&[][..], std::slice::from_ref);
        SharedRates { of, said: Vec::new() }.and(&TimedRates::of(policy, |rates| rates.shared))
    }

    /// This counts too.
    pub(crate) fn and(mut self, said: &TimedRates) -> Self {
        if !said.is_none() {
            self.said.push(said.clone());
        }
        self
    }

    /// True if there never is a limit.
    pub(crate) fn is_none(&self) -> bool {
        self.said.is_empty()
    }

    fn at(&self, now: Timestamp) -> PerDirection {
        let all = || self.said.iter().map(|said| said.at(now));
        PerDirection {
            upload: all().filter_map(|rates| rates.upload).min(),
            download: all().filter_map(|rates| rates.download).min(),
        }
    }
}

/// A bucket for each direction.
#[derive(Clone)]
pub(crate) struct Buckets {
    pub(crate) upload: Throttle,
    pub(crate) download: Throttle,
}

impl Buckets {
    pub(crate) fn new(env: &Env) -> Buckets {
        let throttle = || Throttle::new(env.clone(), None);
        Buckets { upload: throttle(), download: throttle() }
    }

    pub(crate) fn set(&self, rates: PerDirection) {
        self.upload.set(rates.upload);
        self.download.set(rates.download);
    }
}

/// Buckets of those who share a rate, and what was said of it last.
pub(crate) struct SharedBuckets {
    pub(crate) buckets: Buckets,
    said: SharedRates,
}

impl SharedBuckets {
    pub(crate) fn new(env: &Env, said: &SharedRates) -> Self {
        SharedBuckets { buckets: Buckets::new(env), said: said.clone() }
    }

    /// From now on this holds.
    pub(crate) fn follow(&mut self, said: &SharedRates, now: Timestamp) -> Buckets {
        if self.said != *said {
            self.said = said.clone();
        }
        self.keep(now);
        self.buckets.clone()
    }

    /// Fills as is said for this hour.
    pub(crate) fn keep(&self, now: Timestamp) {
        self.buckets.set(self.said.at(now));
    }
}

/// The buckets that everything on this node goes through, of whichever site, and what is said of
/// them: an administrator's order, else the policy of the site `main`.
pub(crate) struct NodeBuckets {
    pub(crate) buckets: Buckets,
    pub(crate) said: TimedRates,
    pub(crate) ordered: Option<PerDirection>,
}

impl NodeBuckets {
    pub(crate) fn new(env: &Env) -> Self {
        NodeBuckets { buckets: Buckets::new(env), said: TimedRates::default(), ordered: None }
    }

    /// Fills as is said for this hour.
    pub(crate) fn keep(&self, now: Timestamp) {
        self.buckets.set(self.ordered.unwrap_or_else(|| self.said.at(now)));
    }
}
