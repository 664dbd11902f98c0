//! Connections that have not logged in yet: how many there may be, and who must give way when there
//! are more.
//!
//! 1. A connection whose credentials are being checked does not count, and is never cut for others.
//! 2. One that makes no progress for [`STALLED_TIME`] gives way to a newcomer: the one that got
//!    least far, of those the oldest. So a slow crowd, also behind one address, shuts nobody out.
//! 3. If all of them make progress the newcomer is refused, and told so. Where all addresses
//!    together are too many, an address with few connections takes the place of one with many, and
//!    one that somebody has logged in from lately takes the place of one that nobody has.
//! 4. All of them together need no more descriptors than the node has for them, however few.
//! 5. A network that an operator has named has a limit of its own, and takes no room from others.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::limits::{
    CHECKED, FAREWELLS, KNOWN_ADDRESSES, REFUSAL_LOG_INTERVAL, REFUSALS_TOLD, STALLED_TIME,
    UNAUTHENTICATED, UNAUTHENTICATED_PER_ADDRESS,
};
use crate::meter::{EndClass, SessionMeter};
use crate::refusal::Refused;

/// Said to a client that finds no room, or whose connection gives way to another.
pub const TOO_MANY: &str = "too many connections have not logged in yet, try again in a moment";

/// All connections of the process that have not logged in. Cheap to clone.
#[derive(Clone, Debug)]
pub struct UnauthenticatedConnections {
    crowd: Arc<Mutex<Crowd>>,
    /// Refused newcomers that are being told why.
    told: Arc<Semaphore>,
}

/// Connections without a login since start, and now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnauthenticatedCounts {
    /// Those that count towards a limit now.
    pub waiting: usize,
    /// Those whose credentials are being checked now, which do not count.
    pub checking: usize,
    /// Newcomers that were refused, since start.
    pub refused: u64,
    /// Connections that were ended to make room for a newcomer, since start.
    pub evicted: u64,
}

#[derive(Debug)]
struct Crowd {
    limits: CrowdLimits,
    next: u64,
    present: BTreeMap<u64, Present>,
    /// How many come from each, without those that do not count.
    of_origin: HashMap<Origin, usize>,
    /// Those of them that come from no named network.
    counted: usize,
    /// Being checked, and therefore not counted.
    exempt: usize,
    /// They gave way and are being told so.
    leaving: HashSet<u64>,
    /// Where logins came from.
    known: HashSet<Origin>,
    evicted: u64,
    refused: u64,
    /// When the log last said that newcomers are refused.
    logged: Option<Duration>,
}

/// How many connections without a login may come from a network, all its addresses together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnauthenticatedLimit {
    /// Of several networks that contain an address, the first of the list counts.
    pub network: IpNet,
    /// So many at a time.
    pub connections: usize,
}

/// How many there may be of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CrowdLimits {
    most: usize,
    per_address: usize,
    /// Whose credentials are being checked, without being counted among `most`.
    checked: usize,
    /// Newcomers that were refused and are being told, and as many that gave way.
    told: usize,
}

impl CrowdLimits {
    /// At most what this crate allows, and no more than `descriptors` in all.
    fn within(descriptors: u64) -> CrowdLimits {
        let descriptors = usize::try_from(descriptors).unwrap_or(usize::MAX);
        let part = |of: usize, most: usize| (descriptors / of).clamp(1, most);
        let most = part(2, UNAUTHENTICATED);
        CrowdLimits {
            most,
            per_address: part(4, UNAUTHENTICATED_PER_ADDRESS),
            checked: part(4, CHECKED).min(most),
            told: part(8, REFUSALS_TOLD.min(FAREWELLS)),
        }
    }
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
    checks: Checks,
}

/// Whether credentials of a connection are being checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Checks {
    None,
    /// Yes, and so it does not count.
    Exempt,
    /// Yes, but so many others are exempt already that it counts all the same.
    Counted,
}

impl Default for UnauthenticatedConnections {
    fn default() -> Self {
        UnauthenticatedConnections::with(CrowdLimits::within(u64::MAX))
    }
}

impl UnauthenticatedConnections {
    /// At most `most` in all and `most_per_address` of one address (IPv6: one /64).
    pub fn new(most: usize, most_per_address: usize) -> Self {
        let usual = CrowdLimits::within(u64::MAX);
        UnauthenticatedConnections::with(CrowdLimits {
            most,
            per_address: most_per_address,
            ..usual
        })
    }

    /// As many as the limits of this crate say, but none that would need more than so many
    /// descriptors in all.
    pub fn within(descriptors: u64) -> Self {
        UnauthenticatedConnections::with(CrowdLimits::within(descriptors))
    }

    fn with(limits: CrowdLimits) -> Self {
        let crowd = Crowd {
            limits,
            next: 0,
            present: BTreeMap::new(),
            of_origin: HashMap::new(),
            counted: 0,
            exempt: 0,
            leaving: HashSet::new(),
            known: HashSet::new(),
            evicted: 0,
            refused: 0,
            logged: None,
        };
        UnauthenticatedConnections {
            crowd: Arc::new(Mutex::new(crowd)),
            told: Arc::new(Semaphore::new(limits.told)),
        }
    }

    /// Takes a newcomer in; another may be ended to make room. Keep the answer until login. The
    /// first of `named` that fits the address counts in place of the usual limits.
    ///
    /// # Errors
    /// There is no room: [`Refused::tell`] says so to the client.
    pub fn admit(
        &self,
        address: IpAddr,
        named: &[UnauthenticatedLimit],
        meter: &Arc<SessionMeter>,
    ) -> Result<UnauthenticatedConnection, Refused> {
        let canonical = address.to_canonical();
        let limit = named.iter().find(|limit| limit.network.contains(&canonical));
        let origin = limit
            .map_or_else(|| Origin::Address(origin(address)), |it| Origin::Network(it.network));
        let mut crowd = self.crowd.lock();
        let most = limit.map_or(crowd.limits.per_address, |limit| limit.connections);
        if !crowd.make_room(origin, most) {
            crowd.refuse(address, meter.now());
            return Err(Refused::new(&self.told));
        }
        let id = crowd.next;
        crowd.next += 1;
        let present = Present { origin, meter: Arc::clone(meter), checks: Checks::None };
        crowd.present.insert(id, present);
        crowd.count(origin);
        drop(crowd);
        Ok(UnauthenticatedConnection { unauthenticated: self.clone(), id, origin })
    }

    /// How many there are, and how many found no room.
    pub fn counts(&self) -> UnauthenticatedCounts {
        let crowd = self.crowd.lock();
        UnauthenticatedCounts {
            waiting: crowd.present.len() - crowd.exempt,
            checking: crowd.exempt,
            refused: crowd.refused,
            evicted: crowd.evicted,
        }
    }
}

impl Crowd {
    fn count(&mut self, origin: Origin) {
        self.counted += usize::from(matches!(origin, Origin::Address(_)));
        *self.of_origin.entry(origin).or_default() += 1;
    }

    fn uncount(&mut self, origin: Origin) {
        self.counted -= usize::from(matches!(origin, Origin::Address(_)));
        if let Entry::Occupied(mut same) = self.of_origin.entry(origin) {
            *same.get_mut() -= 1;
            if *same.get() == 0 {
                same.remove();
            }
        }
    }

    fn leave(&mut self, id: u64) -> Option<Present> {
        self.leaving.remove(&id);
        let gone = self.present.remove(&id)?;
        match gone.checks {
            Checks::Exempt => self.exempt -= 1,
            Checks::None | Checks::Counted => self.uncount(gone.origin),
        }
        Some(gone)
    }

    /// False if a newcomer of `origin`, which may have `most` connections, finds no room.
    fn make_room(&mut self, origin: Origin, most: usize) -> bool {
        let own = self.of_origin.get(&origin).copied().unwrap_or(0);
        let chosen = if own >= most {
            self.stalled(|present| present.origin == origin)
        } else if matches!(origin, Origin::Address(_)) && self.counted >= self.limits.most {
            self.stalled(|present| matches!(present.origin, Origin::Address(_)))
                .or_else(|| self.unknown_for_known(origin))
                .or_else(|| self.of_larger_company(origin, own))
        } else {
            return true;
        };
        chosen.is_some_and(|id| self.evict(id))
    }

    /// Who makes no progress: of those the one that got least far and is oldest, known addresses
    /// last.
    fn stalled(&self, among: impl Fn(&Present) -> bool) -> Option<u64> {
        self.present
            .iter()
            .filter(|(_, present)| among(present) && present.is_stalled())
            .min_by_key(|(id, present)| {
                (self.known.contains(&present.origin), present.meter.stage(), **id)
            })
            .map(|(id, _)| *id)
    }

    /// Who gives way to a newcomer from an address that somebody has logged in from.
    fn unknown_for_known(&self, newcomer: Origin) -> Option<u64> {
        if !self.known.contains(&newcomer) {
            return None;
        }
        let may_go = |present: &Present| {
            matches!(present.origin, Origin::Address(_)) && !self.known.contains(&present.origin)
        };
        self.present
            .iter()
            .filter(|(_, present)| present.checks == Checks::None && may_go(present))
            .min_by_key(|(id, present)| (present.meter.stage(), **id))
            .map(|(id, _)| *id)
    }

    /// Who gives way to a newcomer whose address has fewer connections than another: the newest of
    /// those of the other that got least far.
    fn of_larger_company(&self, newcomer: Origin, own: usize) -> Option<u64> {
        let may_go = |origin: &Origin| {
            matches!(origin, Origin::Address(_))
                && (self.known.contains(&newcomer) || !self.known.contains(origin))
        };
        let (largest, _) = self
            .of_origin
            .iter()
            .filter(|(origin, count)| may_go(origin) && **count > own + 1)
            .max_by_key(|(_, count)| **count)?;
        self.present
            .iter()
            .rev()
            .filter(|(_, present)| present.checks == Checks::None && present.origin == *largest)
            .min_by_key(|(_, present)| present.meter.stage())
            .map(|(id, _)| *id)
    }

    /// Ends a connection for another one; the client is told if not too many are at this moment.
    fn evict(&mut self, id: u64) -> bool {
        let Some(gone) = self.leave(id) else { return false };
        self.evicted += 1;
        gone.meter.end(EndClass::TooMany, TOO_MANY);
        if self.leaving.len() < self.limits.told {
            self.leaving.insert(id);
        } else {
            gone.meter.cut();
        }
        true
    }

    /// Counts a refusal, and says now and then in the log that there are some.
    fn refuse(&mut self, address: IpAddr, now: Duration) {
        self.refused += 1;
        let recent = |at: Duration| now.saturating_sub(at) < REFUSAL_LOG_INTERVAL;
        if self.logged.is_some_and(recent) {
            return;
        }
        self.logged = Some(now);
        tracing::warn!(
            code = "EP0214", %address, refused = self.refused, without_login = self.present.len(),
            "a connection was refused: {TOO_MANY}"
        );
    }
}

impl Present {
    fn is_stalled(&self) -> bool {
        self.checks == Checks::None && self.meter.since_progress() >= STALLED_TIME
    }
}

/// A connection that has not logged in; dropping it leaves the crowd.
#[derive(Debug)]
pub struct UnauthenticatedConnection {
    unauthenticated: UnauthenticatedConnections,
    id: u64,
    origin: Origin,
}

impl UnauthenticatedConnection {
    /// Its credentials are being checked until the guard is dropped: meanwhile it does not count,
    /// it gives way to nobody, and its time to log in does not run. `None`: it gave way before.
    #[must_use]
    pub fn checking(&self) -> Option<Checking> {
        let mut crowd = self.unauthenticated.crowd.lock();
        let checks =
            if crowd.exempt < crowd.limits.checked { Checks::Exempt } else { Checks::Counted };
        let present = crowd.present.get_mut(&self.id)?;
        present.checks = checks;
        let meter = Arc::clone(&present.meter);
        if checks == Checks::Exempt {
            crowd.exempt += 1;
            crowd.uncount(self.origin);
        }
        meter.check_begins();
        Some(Checking { unauthenticated: self.unauthenticated.clone(), id: self.id, meter })
    }

    /// It has logged in: others from there are known from now on.
    pub fn logged_in(self) {
        let mut crowd = self.unauthenticated.crowd.lock();
        // Above the limit it begins anew: whoever comes often is soon known again.
        if crowd.known.len() >= KNOWN_ADDRESSES && !crowd.known.contains(&self.origin) {
            crowd.known.clear();
        }
        crowd.known.insert(self.origin);
    }
}

impl Drop for UnauthenticatedConnection {
    fn drop(&mut self) {
        self.unauthenticated.crowd.lock().leave(self.id);
    }
}

/// See [`UnauthenticatedConnection::checking`]; at most one of a connection at a time.
#[derive(Debug)]
pub struct Checking {
    unauthenticated: UnauthenticatedConnections,
    id: u64,
    meter: Arc<SessionMeter>,
}

impl Drop for Checking {
    fn drop(&mut self) {
        self.meter.check_ends();
        let mut crowd = self.unauthenticated.crowd.lock();
        // Whoever has logged in meanwhile is not there any more.
        let Some(present) = crowd.present.get_mut(&self.id) else { return };
        let (checks, origin) = (present.checks, present.origin);
        present.checks = Checks::None;
        if checks == Checks::Exempt {
            crowd.exempt -= 1;
            crowd.count(origin);
        }
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
mod tests;
