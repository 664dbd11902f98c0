//! Connections that have not logged in yet: how many there may be, and who goes when there are
//! more. A newcomer is never refused: the one that got least far goes, of those the oldest, so a
//! slow crowd, also behind one address, shuts nobody out. Whoever comes from an address that
//! somebody has logged in from goes last. A network that an operator has named has a limit of its
//! own, and takes no place from others.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use ipnet::IpNet;
use parking_lot::Mutex;

use crate::limits::{KNOWN_ADDRESSES, STRANGERS, STRANGERS_PER_ADDRESS};
use crate::meter::{EndClass, SessionMeter};

/// All strangers of the process. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Strangers(Arc<Mutex<Crowd>>);

#[derive(Debug)]
struct Crowd {
    most: usize,
    most_per_address: usize,
    next: u64,
    present: BTreeMap<u64, Present>,
    /// How many come from each.
    of_origin: HashMap<Origin, usize>,
    /// Those of named networks among the present.
    named: usize,
    /// Where logins came from.
    known: HashSet<Origin>,
    evicted: u64,
}

/// How many connections without a login may come from a network, all its addresses together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StrangerLimit {
    /// The network.
    pub network: IpNet,
    /// So many at a time.
    pub connections: usize,
}

/// Who counts as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Origin {
    /// An IPv4 address, or the /64 of an IPv6 address.
    Address(IpAddr),
    /// A network that an operator has named.
    Network(IpNet),
}

#[derive(Debug)]
struct Present {
    origin: Origin,
    meter: Arc<SessionMeter>,
}

impl Default for Strangers {
    fn default() -> Self {
        Strangers::new(STRANGERS, STRANGERS_PER_ADDRESS)
    }
}

impl Strangers {
    /// At most `most` in all and `most_per_address` of one address (IPv6: one /64).
    pub fn new(most: usize, most_per_address: usize) -> Self {
        Strangers(Arc::new(Mutex::new(Crowd {
            most,
            most_per_address,
            next: 0,
            present: BTreeMap::new(),
            of_origin: HashMap::new(),
            named: 0,
            known: HashSet::new(),
            evicted: 0,
        })))
    }

    /// Takes a newcomer in; another may be cut to make room. Keep the answer until login. The first
    /// of `named` that fits the address counts in place of the usual limits.
    pub fn admit(
        &self,
        address: IpAddr,
        named: &[StrangerLimit],
        meter: &Arc<SessionMeter>,
    ) -> Stranger {
        let canonical = address.to_canonical();
        let limit = named.iter().find(|limit| limit.network.contains(&canonical));
        let origin = limit
            .map_or_else(|| Origin::Address(origin(address)), |it| Origin::Network(it.network));
        let mut crowd = self.0.lock();
        let same = crowd.of_origin.get(&origin).copied().unwrap_or(0);
        if same >= limit.map_or(crowd.most_per_address, |limit| limit.connections) {
            crowd.evict(|present| present.origin == origin);
        } else if limit.is_none() && crowd.present.len() - crowd.named >= crowd.most {
            crowd.evict(|present| matches!(present.origin, Origin::Address(_)));
        }
        let id = crowd.next;
        crowd.next += 1;
        crowd.present.insert(id, Present { origin, meter: Arc::clone(meter) });
        crowd.named += usize::from(limit.is_some());
        *crowd.of_origin.entry(origin).or_default() += 1;
        drop(crowd);
        Stranger { strangers: self.clone(), id, origin }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.lock().present.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many were cut for others, since start.
    pub fn evicted(&self) -> u64 {
        self.0.lock().evicted
    }
}

impl Crowd {
    fn leave(&mut self, id: u64) -> Option<Present> {
        let gone = self.present.remove(&id)?;
        self.named -= usize::from(matches!(gone.origin, Origin::Network(_)));
        if let Entry::Occupied(mut same) = self.of_origin.entry(gone.origin) {
            *same.get_mut() -= 1;
            if *same.get() == 0 {
                same.remove();
            }
        }
        Some(gone)
    }

    fn evict(&mut self, among: impl Fn(&Present) -> bool) {
        let chosen = self
            .present
            .iter()
            .filter(|(_, present)| among(present))
            .min_by_key(|(id, present)| {
                (self.known.contains(&present.origin), present.meter.stage(), **id)
            })
            .map(|(id, _)| *id);
        if let Some(gone) = chosen.and_then(|id| self.leave(id)) {
            self.evicted += 1;
            gone.meter.end(EndClass::TooMany, "too many connections without a login, try again");
            gone.meter.cut();
        }
    }
}

/// A connection that has not logged in; dropping it leaves the crowd.
#[derive(Debug)]
pub struct Stranger {
    strangers: Strangers,
    id: u64,
    origin: Origin,
}

impl Stranger {
    /// It has logged in: others from there are known from now on.
    pub fn logged_in(self) {
        let mut crowd = self.strangers.0.lock();
        // Above the limit it begins anew: whoever comes often is soon known again.
        if crowd.known.len() >= KNOWN_ADDRESSES && !crowd.known.contains(&self.origin) {
            crowd.known.clear();
        }
        crowd.known.insert(self.origin);
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.strangers.0.lock().leave(self.id);
    }
}

/// Whom an address counts for: itself, or its /64, for whoever has one IPv6 address has 2^64.
fn origin(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use entrepot_model::Env;

    use super::*;
    use crate::meter::Stage;

    fn meter(stage: Stage) -> Arc<SessionMeter> {
        let meter = Arc::new(SessionMeter::new(Env::simulated(1)));
        meter.advance(stage);
        meter
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn the_least_far_and_oldest_goes_never_the_newcomer() {
        let strangers = Strangers::new(3, 3);
        let meters = [
            meter(Stage::Encrypted),
            meter(Stage::Identified),
            meter(Stage::Identified),
            meter(Stage::Connected),
        ];
        let _kept: Vec<Stranger> = (1..)
            .zip(&meters)
            .map(|(host, meter)| strangers.admit(ip(&format!("192.0.2.{host}")), &[], meter))
            .collect();
        let cut: Vec<bool> = meters.iter().map(|meter| meter.is_cut()).collect();
        assert_eq!(cut, [false, true, false, false]);
        assert_eq!((strangers.len(), strangers.evicted()), (3, 1));
    }

    #[test]
    fn an_address_has_its_own_limit_and_hurts_only_itself() {
        let strangers = Strangers::new(100, 2);
        let other = meter(Stage::Connected);
        let _other = strangers.admit(ip("198.51.100.1"), &[], &other);
        let crowd: Vec<_> = (0..5).map(|_| meter(Stage::Connected)).collect();
        let _kept: Vec<Stranger> = crowd
            .iter()
            .enumerate()
            .map(|(host, meter)| strangers.admit(ip(&format!("2001:db8::{host}")), &[], meter))
            .collect();
        assert!(!other.is_cut());
        let cut: Vec<bool> = crowd.iter().map(|meter| meter.is_cut()).collect();
        assert_eq!(cut, [true, true, true, false, false], "one /64 is one address");
    }

    #[test]
    fn known_addresses_are_the_last_to_go() {
        let strangers = Strangers::new(3, 3);
        strangers.admit(ip("192.0.2.7"), &[], &meter(Stage::LoggedIn)).logged_in();
        let known = meter(Stage::Connected);
        let _known = strangers.admit(ip("192.0.2.7"), &[], &known);
        let crowd: Vec<_> = (0..20).map(|_| meter(Stage::Exchanging)).collect();
        let _kept: Vec<Stranger> = (1..)
            .zip(&crowd)
            .map(|(host, meter)| strangers.admit(ip(&format!("198.51.100.{host}")), &[], meter))
            .collect();
        assert!(!known.is_cut(), "it got least far, and is known");
        assert_eq!(crowd.iter().filter(|meter| meter.is_cut()).count(), 18);
    }

    #[test]
    fn a_named_network_has_a_limit_of_its_own_and_takes_no_place_from_others() {
        let strangers = Strangers::new(3, 2);
        let network: IpNet = "192.0.2.0/24".parse().unwrap();
        let named = [StrangerLimit { network, connections: 4 }];
        let others: Vec<_> = (0..2).map(|_| meter(Stage::Connected)).collect();
        let crowd: Vec<_> = (0..5).map(|_| meter(Stage::Exchanging)).collect();
        let other =
            |host: u8, meter| strangers.admit(ip(&format!("198.51.100.{host}")), &named, meter);
        let first = other(1, &others[0]);
        // Of one address, and in the IPv6 form of it.
        let mut kept: Vec<Stranger> = crowd
            .iter()
            .map(|meter| strangers.admit(ip("::ffff:192.0.2.7"), &named, meter))
            .collect();
        let second = other(2, &others[1]);
        let cut: Vec<bool> = crowd.iter().map(|meter| meter.is_cut()).collect();
        assert_eq!(cut, [true, false, false, false, false]);
        assert!(others.iter().all(|meter| !meter.is_cut()), "a place was taken from others");
        let last = meter(Stage::Connected);
        kept.push(strangers.admit(ip("203.0.113.1"), &named, &last));
        let more = meter(Stage::Connected);
        let _more = strangers.admit(ip("203.0.113.2"), &named, &more);
        assert!(others[0].is_cut(), "those that are not named have their own limit");
        assert!(crowd[1..].iter().all(|meter| !meter.is_cut()), "and take none from those");
        drop((first, second, kept));
        assert_eq!((strangers.len(), strangers.0.lock().named), (1, 0));
    }

    #[test]
    fn whoever_logs_in_leaves_room() {
        let strangers = Strangers::new(1, 1);
        let first = meter(Stage::LoggedIn);
        drop(strangers.admit(ip("192.0.2.1"), &[], &first));
        let second = strangers.admit(ip("::ffff:192.0.2.1"), &[], &meter(Stage::Connected));
        assert!(!first.is_cut());
        assert_eq!(strangers.len(), 1);
        drop(second);
        assert!(strangers.0.lock().of_origin.is_empty(), "nobody is counted for ever");
    }
}
