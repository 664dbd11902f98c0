//! Who is let in, who gives way and who is refused, on a simulated clock.

use entrepot_nouns::Env;

use super::*;
use crate::meter::Stage;

/// A crowd with a clock of its own.
struct Hall {
    env: Env,
    unauthenticated: UnauthenticatedConnections,
    named: Vec<UnauthenticatedLimit>,
}

/// One that was let in, while it has not left.
struct Guest {
    meter: Arc<SessionMeter>,
    unauthenticated: UnauthenticatedConnection,
}

impl Hall {
    fn new(most: usize, most_per_address: usize) -> Hall {
        let unauthenticated = UnauthenticatedConnections::new(most, most_per_address);
        Hall { env: Env::simulated(1), unauthenticated, named: Vec::new() }
    }

    /// `None`: refused.
    fn comes(&self, address: &str, stage: Stage) -> Option<Guest> {
        let meter = Arc::new(SessionMeter::new(self.env.clone()));
        meter.advance(stage);
        let admitted = self.unauthenticated.admit(address.parse().unwrap(), &self.named, &meter);
        admitted.ok().map(|unauthenticated| Guest { meter, unauthenticated })
    }

    fn enters(&self, address: &str, stage: Stage) -> Guest {
        self.comes(address, stage).expect("there was no room")
    }

    /// So many of one address.
    fn crowd(&self, count: usize, address: &str) -> Vec<Guest> {
        (0..count).map(|_| self.enters(address, Stage::Connected)).collect()
    }

    fn waits(&self, time: Duration) {
        self.env.advance(time);
    }

    fn is_empty(&self) -> bool {
        let crowd = self.unauthenticated.crowd.lock();
        crowd.present.is_empty()
            && crowd.of_origin.is_empty()
            && crowd.leaving.is_empty()
            && (crowd.counted, crowd.exempt) == (0, 0)
    }
}

/// Which of them had to give way.
fn gone(guests: &[Guest]) -> Vec<bool> {
    guests.iter().map(|guest| guest.meter.ended().is_some()).collect()
}

#[test]
fn who_makes_no_progress_gives_way_the_least_far_and_oldest_first() {
    let hall = Hall::new(3, 3);
    let guests = [
        hall.enters("192.0.2.1", Stage::Encrypted),
        hall.enters("192.0.2.2", Stage::Identified),
        hall.enters("192.0.2.3", Stage::Identified),
    ];
    hall.waits(STALLED_TIME);
    let newcomer = hall.enters("192.0.2.4", Stage::Connected);
    assert_eq!(gone(&guests), [false, true, false]);
    assert_eq!(guests[1].meter.ended().unwrap().reason, TOO_MANY);
    assert!(!guests[1].meter.is_cut(), "it is told first");
    let counts = hall.unauthenticated.counts();
    assert_eq!((counts.waiting, counts.evicted, counts.refused), (3, 1, 0));
    drop((guests, newcomer));
    assert!(hall.is_empty(), "somebody is counted for ever");
}

#[test]
fn the_newest_is_refused_while_all_others_make_progress() {
    let hall = Hall::new(100, 3);
    let guests = hall.crowd(3, "192.0.2.1");
    hall.waits(STALLED_TIME - Duration::from_millis(1));
    assert!(hall.comes("192.0.2.1", Stage::Connected).is_none());
    assert!(hall.comes("::ffff:192.0.2.1", Stage::Connected).is_none(), "the same address");
    guests.iter().for_each(|guest| guest.meter.advance(Stage::Identified));
    hall.waits(STALLED_TIME - Duration::from_millis(1));
    assert!(hall.comes("192.0.2.1", Stage::Connected).is_none(), "they got further meanwhile");
    assert_eq!(gone(&guests), [false, false, false]);
    assert_eq!(hall.unauthenticated.counts().refused, 3);
    hall.enters("192.0.2.2", Stage::Connected);
    drop(guests);
    assert!(hall.is_empty());
}

#[test]
fn a_slow_crowd_shuts_nobody_out() {
    let hall = Hall::new(100, 20);
    let crowd = hall.crowd(20, "192.0.2.1");
    hall.waits(STALLED_TIME);
    // Each newcomer goes on to log in, while the crowd stays as it is.
    for _ in 0..50 {
        let newcomer = hall.enters("192.0.2.1", Stage::Identified);
        hall.waits(Duration::from_millis(300));
        newcomer.meter.advance(Stage::Authenticating);
        assert!(newcomer.meter.ended().is_none());
        newcomer.unauthenticated.logged_in();
    }
    let left = gone(&crowd).iter().filter(|gone| !**gone).count();
    assert_eq!(left, 19, "one gave way, and then there was room");
}

#[test]
fn whose_credentials_are_checked_does_not_count_and_never_gives_way() {
    let hall = Hall::new(100, 3);
    let guests = hall.crowd(3, "192.0.2.1");
    let checking: Vec<_> =
        guests.iter().filter_map(|guest| guest.unauthenticated.checking()).collect();
    let others = hall.crowd(3, "192.0.2.1");
    let counts = hall.unauthenticated.counts();
    assert_eq!((counts.waiting, counts.checking), (3, 3));
    hall.waits(STALLED_TIME * 10);
    let more = hall.crowd(3, "192.0.2.1");
    assert_eq!((gone(&guests), gone(&others)), (vec![false; 3], vec![true; 3]));
    // An answer is progress: who may try again is not the first to go.
    drop(checking);
    assert_eq!(hall.unauthenticated.counts().waiting, 6);
    assert!(hall.comes("192.0.2.1", Stage::Connected).is_none());
    drop((guests, others, more));
    assert!(hall.is_empty());
}

#[test]
fn who_logs_in_or_leaves_while_its_credentials_are_checked_is_counted_no_more() {
    let hall = Hall::new(10, 10);
    let (one, other) = (hall.crowd(1, "192.0.2.1"), hall.crowd(1, "192.0.2.1"));
    let checks = [one[0].unauthenticated.checking(), other[0].unauthenticated.checking()];
    for guest in one {
        guest.unauthenticated.logged_in();
    }
    drop(other);
    drop(checks);
    assert!(hall.is_empty());
}

#[test]
fn only_so_many_are_exempt_but_none_that_is_checked_gives_way() {
    let hall = Hall::new(CHECKED + 2, CHECKED + 2);
    let guests = hall.crowd(CHECKED + 2, "192.0.2.1");
    let checking: Vec<_> =
        guests.iter().filter_map(|guest| guest.unauthenticated.checking()).collect();
    let counts = hall.unauthenticated.counts();
    assert_eq!((counts.checking, counts.waiting), (CHECKED, 2));
    let others = hall.crowd(CHECKED, "192.0.2.1");
    hall.waits(STALLED_TIME);
    let more = hall.crowd(1, "192.0.2.1");
    assert!(gone(&guests).iter().all(|gone| !gone), "it was being checked");
    drop((guests, others, more, checking));
    assert!(hall.is_empty());
}

#[test]
fn an_address_has_its_own_limit_and_hurts_only_itself() {
    let hall = Hall::new(100, 2);
    let other = hall.crowd(1, "198.51.100.1");
    let crowd = [hall.enters("2001:db8::1", Stage::Connected), {
        hall.waits(STALLED_TIME);
        hall.enters("2001:db8::2", Stage::Connected)
    }];
    let newcomer = hall.enters("2001:db8::3", Stage::Connected);
    assert_eq!((gone(&other), gone(&crowd)), (vec![false], vec![true, false]));
    assert!(hall.comes("2001:db8::4", Stage::Connected).is_none(), "one /64 is one address");
    drop(newcomer);
}

#[test]
fn an_address_with_many_gives_way_to_one_with_few() {
    let hall = Hall::new(6, 4);
    let crowds = [hall.crowd(4, "192.0.2.1"), hall.crowd(2, "192.0.2.2")];
    crowds[0][3].meter.advance(Stage::Identified);
    let newcomer = hall.enters("198.51.100.1", Stage::Connected);
    assert_eq!(gone(&crowds[0]), [false, false, true, false], "the newest of the least far");
    let second = hall.enters("198.51.100.1", Stage::Connected);
    assert_eq!(gone(&crowds[0]), [false, true, true, false]);
    assert!(hall.comes("198.51.100.1", Stage::Connected).is_none(), "all have as many now");
    assert_eq!(gone(&crowds[1]), [false, false]);
    drop((newcomer, second));
}

#[test]
fn known_addresses_go_last_and_take_the_place_of_unknown_ones() {
    let hall = Hall::new(3, 3);
    hall.enters("192.0.2.7", Stage::LoggedIn).unauthenticated.logged_in();
    let known = hall.crowd(2, "192.0.2.7");
    let unknown = hall.crowd(1, "198.51.100.1");
    assert!(hall.comes("198.51.100.2", Stage::Connected).is_none(), "it has fewer, but is unknown");
    let third = hall.crowd(1, "192.0.2.7");
    assert_eq!((gone(&known), gone(&unknown)), (vec![false; 2], vec![true]));
    drop(third);
    let unknown = hall.crowd(1, "198.51.100.3");
    unknown[0].meter.advance(Stage::Exchanging);
    hall.waits(STALLED_TIME);
    let newcomer = hall.crowd(1, "198.51.100.4");
    assert_eq!((gone(&known), gone(&unknown)), (vec![false; 2], vec![true]), "it got furthest");
    drop(newcomer);
}

#[test]
fn who_is_being_checked_gives_way_neither_to_known_addresses_nor_to_smaller_ones() {
    let hall = Hall::new(2, 4);
    hall.enters("192.0.2.7", Stage::LoggedIn).unauthenticated.logged_in();
    let guests = hall.crowd(2, "198.51.100.1");
    let checking = guests[0].unauthenticated.checking();
    let third = hall.crowd(1, "198.51.100.1");
    let newcomer = hall.crowd(1, "192.0.2.7");
    assert_eq!((gone(&guests), gone(&third)), (vec![false, true], vec![false]));
    let smaller = hall.comes("203.0.113.1", Stage::Connected);
    assert!(smaller.is_none(), "each of the others has one that counts");
    drop((checking, newcomer));
}

#[test]
fn a_named_network_has_a_limit_of_its_own_and_takes_no_room_from_others() {
    let mut hall = Hall::new(3, 2);
    let network: IpNet = "192.0.2.0/24".parse().unwrap();
    hall.named = vec![UnauthenticatedLimit { network, connections: 4 }];
    let first = hall.crowd(1, "198.51.100.1");
    // Of one address, and in the IPv6 form of it.
    let crowd = hall.crowd(4, "::ffff:192.0.2.7");
    assert!(hall.comes("192.0.2.8", Stage::Connected).is_none());
    let second = hall.crowd(1, "198.51.100.2");
    hall.waits(STALLED_TIME);
    let fifth = hall.crowd(1, "192.0.2.9");
    assert_eq!(gone(&crowd), [true, false, false, false]);
    assert_eq!((gone(&first), gone(&second)), (vec![false], vec![false]), "room was taken");
    let others = [hall.crowd(1, "203.0.113.1"), hall.crowd(1, "203.0.113.2")];
    assert_eq!(gone(&first), [true], "those that are not named have their own limit");
    assert_eq!(gone(&crowd), [true, false, false, false], "and take none from those");
    drop((first, second, others, crowd, fifth));
    assert!(hall.is_empty());
}

#[test]
fn only_so_many_that_give_way_are_told_and_the_others_cut() {
    let hall = Hall::new(1000, FAREWELLS + 1);
    let crowd = hall.crowd(FAREWELLS + 1, "192.0.2.1");
    hall.waits(STALLED_TIME);
    let _newcomers = hall.crowd(FAREWELLS + 1, "192.0.2.1");
    assert!(gone(&crowd).iter().all(|gone| *gone));
    assert_eq!(crowd.iter().filter(|guest| guest.meter.is_cut()).count(), 1);
}

#[test]
fn the_log_speaks_of_refusals_now_and_then() {
    let hall = Hall::new(1, 1);
    let _guest = hall.crowd(1, "192.0.2.1");
    let logged = || hall.unauthenticated.crowd.lock().logged;
    let first = hall.env.elapsed();
    assert!(hall.comes("192.0.2.1", Stage::Connected).is_none());
    hall.waits(Duration::from_secs(1));
    assert!(hall.comes("192.0.2.1", Stage::Connected).is_none());
    assert_eq!(logged(), Some(first));
}

#[test]
fn a_node_with_few_descriptors_lets_fewer_in_and_needs_no_more_than_it_has() {
    for descriptors in [64, 128, 1000] {
        let limits = CrowdLimits::within(descriptors);
        let needed = limits.most + limits.checked + 2 * limits.told;
        assert!(needed as u64 <= descriptors, "{limits:?} of {descriptors}");
        assert!(limits.per_address < limits.most, "one address alone fills it");
    }
    assert_eq!(CrowdLimits::within(u64::MAX).most, UNAUTHENTICATED);
    let hall = Hall { unauthenticated: UnauthenticatedConnections::within(32), ..Hall::new(1, 1) };
    let crowds = [hall.crowd(8, "192.0.2.1"), hall.crowd(8, "192.0.2.2")];
    let newcomer = hall.enters("198.51.100.1", Stage::Connected);
    assert_eq!(hall.unauthenticated.counts().waiting, 16);
    drop((crowds, newcomer));
}
