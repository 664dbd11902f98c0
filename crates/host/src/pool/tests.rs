//! The book of a pool in made-up time.

use std::time::Duration;

use entrepot_nouns::{Period, SessionPool};

use super::book::{Book, CameBack, Deed, Holding, Opened, SessionState, SlotId, User, UserSource};
use super::queue::{CallQueue, Caller};

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn deeds(book: &mut Book, now: u64) -> Vec<Deed> {
    std::iter::from_fn(|| book.next(at(now))).collect()
}

/// Opens what is to be opened until nothing more is.
fn fill(book: &mut Book, now: u64) -> Vec<SlotId> {
    let mut opened = Vec::new();
    loop {
        let found = deeds(book, now);
        if found.is_empty() {
            return opened;
        }
        for deed in found {
            let Deed::Open { slot, .. } = deed else { panic!("{deed:?}") };
            book.opened(at(now), slot, Opened::AtHome, 0.0);
            opened.push(slot);
        }
    }
}

fn now_and_peaks(book: &Book) -> [(usize, usize); 5] {
    [
        book.sessions(SessionState::Pending),
        book.sessions(SessionState::Idle),
        book.sessions(SessionState::Active),
        book.sessions(SessionState::Suspended),
        book.sessions(SessionState::Rogue),
    ]
}

#[test]
fn sessions_are_opened_for_the_start_for_callers_and_to_be_ready() {
    let limits =
        SessionPool { initial: 4, min_idle: 2, max: 6, max_pending: 3, ..SessionPool::default() };
    let mut book = Book::new(limits, 0, None);
    // No more than three at a time.
    assert_eq!(deeds(&mut book, 0).len(), 3);
    for slot in 0..3 {
        book.opened(at(0), slot, Opened::AtHome, 0.0);
    }
    assert_eq!(fill(&mut book, 0), [3]);
    assert_eq!(now_and_peaks(&book), [(0, 3), (4, 4), (0, 0), (0, 0), (0, 0)]);
    // Two callers leave two behind: enough. A third one has another one opened.
    for caller in 0..3 {
        book.ask(Caller(caller), at(10)).unwrap();
    }
    let found = deeds(&mut book, 1);
    let given = found.iter().filter(|deed| matches!(deed, Deed::Give { .. })).count();
    assert_eq!((given, found.len()), (3, 4), "{found:?}");
    // However many ask, there are never more than six; and no new ones to replace those of the
    // start.
    for caller in 0..9 {
        book.ask(Caller(caller), at(10)).unwrap();
    }
    let found = deeds(&mut book, 1);
    assert_eq!(found.iter().filter(|deed| matches!(deed, Deed::Open { .. })).count(), 1);
    assert_eq!(book.total(), 6);
}

#[test]
fn callers_wait_in_turn_for_so_long_and_no_more_of_them_than_there_is_room_for() {
    let limits = SessionPool { max: 1, max_waiting: 3, ..SessionPool::default() };
    let mut book = Book::new(limits, 0, None);
    let tickets: Vec<_> =
        [1, 1, 2].map(|caller| book.ask(Caller(caller), at(10)).unwrap()).to_vec();
    assert_eq!(book.ask(Caller(3), at(10)), None);
    let slot = 0;
    assert_eq!(deeds(&mut book, 0), [Deed::Open { slot, user: None }]);
    book.opened(at(1), slot, Opened::AtHome, 0.0);
    assert_eq!(deeds(&mut book, 1), [Deed::Give { slot, ticket: tickets[0] }]);
    // The second one of the same caller stands behind the other caller.
    book.came_back(at(2), slot, CameBack::AtHome);
    assert_eq!(deeds(&mut book, 2), [Deed::Give { slot, ticket: tickets[2] }]);
    assert_eq!(book.next_time(), Some(at(10)));
    assert_eq!(deeds(&mut book, 10), [Deed::Refuse { ticket: tickets[1] }]);
    // One that has gone makes room.
    let gone: Vec<_> = [1, 2, 3].map(|caller| book.ask(Caller(caller), at(20)).unwrap()).to_vec();
    book.forget(|ticket| ticket == gone[0]);
    let late = book.ask(Caller(4), at(20)).unwrap();
    book.came_back(at(11), slot, CameBack::AtHome);
    assert_eq!(deeds(&mut book, 11), [Deed::Give { slot, ticket: gone[1] }]);
    assert_eq!(book.waiting(), (2, 3));
    assert_eq!(
        deeds(&mut book, 20),
        [Deed::Refuse { ticket: gone[2] }, Deed::Refuse { ticket: late }]
    );
    let counts = book.counts();
    assert_eq!((counts.given, counts.refused, counts.opened), (3, 4, 1));
}

#[test]
fn behind_an_outage_there_is_one_attempt_at_a_time_and_then_no_rush() {
    let limits = SessionPool { min_idle: 8, max: 8, max_pending: 8, ..SessionPool::default() };
    let mut book = Book::new(limits, 0, None);
    let first = deeds(&mut book, 0);
    assert_eq!(first.len(), 8);
    for slot in 0..8 {
        book.opened(at(0), slot, Opened::Unreached, 1.0);
    }
    // Eight failed; the next attempt comes after 2^7 s, of which a minute is the most.
    assert_eq!(deeds(&mut book, 59), []);
    assert_eq!(book.next_time(), Some(at(60)));
    let mut now = 60;
    for slot in 8..11 {
        assert_eq!(deeds(&mut book, now), [Deed::Open { slot, user: None }]);
        book.opened(at(now), slot, Opened::Unreached, 0.0);
        // With the least jitter half of that.
        assert_eq!(book.next_time(), Some(at(now + 30)));
        now += 30;
    }
    // The host is there again: one, then two, then four.
    let mut attempts = Vec::new();
    loop {
        let found = deeds(&mut book, now);
        if found.is_empty() {
            break;
        }
        attempts.push(found.len());
        for deed in found {
            let Deed::Open { slot, .. } = deed else { panic!("{deed:?}") };
            book.opened(at(now), slot, Opened::AtHome, 0.0);
        }
    }
    assert_eq!(attempts, [1, 2, 5]);
    assert_eq!(book.sessions(SessionState::Idle), (8, 8));
}

#[test]
fn sessions_are_checked_kept_alive_and_replaced() {
    let limits = SessionPool {
        min_idle: 1,
        max: 3,
        max_idle: Some(2),
        idle_check: Period::from_seconds(60),
        idle_time: Some(Period::from_seconds(300)),
        max_age: Some(Period::from_seconds(1_000)),
        max_uses: Some(2),
        ..SessionPool::default()
    };
    let mut book = Book::new(limits, 0, Some(at(90)));
    assert_eq!(fill(&mut book, 0), [0]);
    assert_eq!(book.next_time(), Some(at(60)));
    assert_eq!(deeds(&mut book, 60), [Deed::Check { slot: 0 }]);
    // While it is looked at none is missing.
    assert_eq!(deeds(&mut book, 61), []);
    book.came_home(at(61), 0, CameBack::AtHome);
    assert_eq!(book.next_time(), Some(at(90)));
    assert_eq!(deeds(&mut book, 90), [Deed::KeepAlive { slot: 0 }]);
    // It is not there any more, so that another one takes its place.
    book.came_home(at(91), 0, CameBack::Broken);
    assert_eq!(fill(&mut book, 91), [1]);
    // Two calls are all that it is good for.
    for now in [100, 101] {
        book.ask(Caller(1), at(200)).unwrap();
        let found = deeds(&mut book, now);
        assert!(matches!(found.first(), Some(Deed::Give { slot: 1, .. })), "{found:?}");
        for deed in found {
            if let Deed::Open { slot, .. } = deed {
                book.opened(at(now), slot, Opened::AtHome, 0.0);
            }
        }
        // The new one rested before, so that the used one is the next.
        book.came_back(at(now), 1, CameBack::AtHome);
    }
    assert_eq!(deeds(&mut book, 101), [Deed::LogOff { slot: 1 }]);
    book.ended(at(102), 1, User::IsFree);
    assert_eq!(deeds(&mut book, 102), []);
    assert_eq!(book.sessions(SessionState::Idle).0, 1);
}

#[test]
fn what_is_idle_beyond_the_least_goes_after_its_time() {
    let limits = SessionPool {
        min_idle: 1,
        max: 3,
        max_idle: Some(2),
        idle_check: Period::from_seconds(60),
        idle_time: Some(Period::from_seconds(300)),
        max_age: Some(Period::from_seconds(1_000)),
        ..SessionPool::default()
    };
    let mut book = Book::new(limits, 0, Some(at(90)));
    assert_eq!(fill(&mut book, 110), [0]);
    for caller in 0..3 {
        book.ask(Caller(caller), at(200)).unwrap();
    }
    let mut out = Vec::new();
    for deed in deeds(&mut book, 110) {
        match deed {
            Deed::Open { slot, .. } => book.opened(at(110), slot, Opened::AtHome, 0.0),
            Deed::Give { slot, .. } => out.push(slot),
            deed => panic!("{deed:?}"),
        }
    }
    for deed in deeds(&mut book, 110) {
        let Deed::Give { slot, .. } = deed else { panic!("{deed:?}") };
        out.push(slot);
    }
    assert_eq!(out.len(), 3);
    for slot in &out {
        book.came_back(at(111), *slot, CameBack::AtHome);
    }
    // Three came back, and two may be idle.
    let ends = deeds(&mut book, 111);
    assert!(matches!(ends.as_slice(), [Deed::LogOff { .. }]), "{ends:?}");
    let mut ended = 0;
    for now in (112..1_300).step_by(10) {
        for deed in deeds(&mut book, now) {
            match deed {
                Deed::Check { slot } | Deed::KeepAlive { slot } => {
                    book.came_home(at(now), slot, CameBack::AtHome);
                }
                Deed::LogOff { slot } => {
                    ended += 1;
                    book.ended(at(now), slot, User::IsFree);
                }
                Deed::Open { slot, .. } => book.opened(at(now), slot, Opened::AtHome, 0.0),
                deed => panic!("{deed:?}"),
            }
        }
    }
    // One for the idle time, one for its age.
    assert_eq!((ended, book.sessions(SessionState::Idle).0), (2, 1));
}

#[test]
fn a_user_is_given_again_only_when_the_host_knows_that_it_has_gone() {
    let limits = SessionPool {
        min_idle: 3,
        max: 3,
        max_uses: Some(1),
        user_rest: Period::from_seconds(300),
        ..SessionPool::default()
    };
    let mut book = Book::new(limits, 2, None);
    assert_eq!(
        deeds(&mut book, 0),
        [Deed::Open { slot: 0, user: Some(0) }, Deed::Open { slot: 1, user: Some(1) }]
    );
    book.opened(at(0), 0, Opened::AtHome, 0.0);
    book.opened(at(0), 1, Opened::AtHome, 0.0);
    // There are two users, hence no third session.
    assert_eq!(deeds(&mut book, 0), []);
    for _ in 0..2 {
        book.ask(Caller(1), at(9)).unwrap();
    }
    let given = deeds(&mut book, 1);
    assert!(matches!(given.as_slice(), [Deed::Give { .. }, Deed::Give { .. }]), "{given:?}");
    book.came_back(at(2), 0, CameBack::AtHome);
    book.came_back(at(2), 1, CameBack::Broken);
    assert_eq!(deeds(&mut book, 2), [Deed::LogOff { slot: 0 }]);
    book.ended(at(3), 0, User::IsFree);
    assert_eq!(deeds(&mut book, 3), [Deed::Open { slot: 2, user: Some(0) }]);
    // A host that was reached may have seen the user; one that was not has not.
    book.opened(at(4), 2, Opened::Unreached, 0.0);
    assert_eq!(deeds(&mut book, 5), [Deed::Open { slot: 3, user: Some(0) }]);
    book.opened(at(6), 3, Opened::Failed, 0.0);
    assert_eq!(deeds(&mut book, 301), []);
    assert_eq!(deeds(&mut book, 302), [Deed::Open { slot: 4, user: Some(1) }]);
    book.opened(at(302), 4, Opened::AtHome, 0.0);
    assert_eq!(deeds(&mut book, 306), [Deed::Open { slot: 5, user: Some(0) }]);
}

#[test]
fn what_clients_leave_counts_until_it_is_home_or_over() {
    let limits =
        SessionPool { max: 2, suspend: Period::from_seconds(30), ..SessionPool::default() };
    let mut book = Book::new(limits, 0, None);
    for caller in 0..2 {
        book.ask(Caller(caller), at(9)).unwrap();
    }
    let found = deeds(&mut book, 0);
    assert_eq!(found.len(), 2);
    for slot in 0..2 {
        book.opened(at(0), slot, Opened::AtHome, 0.0);
    }
    assert_eq!(deeds(&mut book, 0).len(), 2);
    book.held(at(1), 0, Holding::Suspended, None);
    book.came_back(at(1), 1, CameBack::Left);
    assert_eq!(deeds(&mut book, 1), [Deed::BringHome { slot: 1 }]);
    assert_eq!(now_and_peaks(&book).map(|it| it.0), [0, 0, 0, 1, 1]);
    // Both count against the most.
    book.ask(Caller(7), at(99)).unwrap();
    assert_eq!(deeds(&mut book, 2), []);
    book.resumed(0);
    assert_eq!(deeds(&mut book, 20), []);
    book.held(at(20), 0, Holding::Suspended, None);
    // It does not find home.
    book.came_home(at(21), 1, CameBack::Left);
    assert_eq!(deeds(&mut book, 21), [Deed::LogOff { slot: 1 }]);
    book.ended(at(22), 1, User::Rests);
    assert_eq!(deeds(&mut book, 22), [Deed::Open { slot: 2, user: None }]);
    // Nothing came for too long.
    assert_eq!(deeds(&mut book, 50), [Deed::Retake { slot: 0 }]);
    assert!(book.is(0, SessionState::Rogue));
    book.came_home(at(51), 0, CameBack::AtHome);
    assert!(matches!(deeds(&mut book, 51).as_slice(), [Deed::Give { slot: 0, .. }]));
    assert_eq!(now_and_peaks(&book).map(|it| it.1), [2, 2, 2, 1, 1]);
}

#[test]
fn turns_go_round_the_callers() {
    let mut queue = CallQueue::new(100);
    let asked: Vec<_> =
        [1, 1, 1, 2, 3, 3].map(|caller| queue.ask(Caller(caller), at(1)).unwrap()).to_vec();
    let order: Vec<_> = std::iter::from_fn(|| queue.next()).map(|waiting| waiting.ticket).collect();
    assert_eq!(order, [0, 3, 4, 1, 5, 2].map(|place: usize| asked[place]));
    assert_eq!((queue.counts(), queue.is_empty()), ((0, 6), true));
}

#[test]
fn a_session_of_a_caller_alone_takes_a_place_and_a_user_and_is_given_to_nobody_else() {
    let limits = SessionPool { min_idle: 1, max: 2, max_waiting: 2, ..SessionPool::default() };
    let mut book = Book::new(limits, 2, None);
    assert_eq!(fill(&mut book, 0), [0]);
    // With values of the caller's own it takes no user.
    let ticket = book.ask_own(UserSource::Caller, at(10)).unwrap();
    assert_eq!(deeds(&mut book, 1), [Deed::OpenOwn { slot: 1, user: None, ticket }]);
    book.opened_own(at(1), 1);
    // There is no place for another one before one that rests is logged off.
    let ticket = book.ask_own(UserSource::Pool, at(10)).unwrap();
    assert_eq!(deeds(&mut book, 2), [Deed::LogOff { slot: 0 }]);
    assert_eq!(deeds(&mut book, 2), []);
    book.ended(at(3), 0, User::IsFree);
    assert_eq!(deeds(&mut book, 3), [Deed::OpenOwn { slot: 2, user: Some(1), ticket }]);
    // The host does not open it: one more attempt only after the pause, and for who still waits.
    book.opened(at(3), 2, Opened::Unreached, 1.0);
    let ticket = book.ask_own(UserSource::Pool, at(20)).unwrap();
    let late = book.ask_own(UserSource::Pool, at(4)).unwrap();
    assert_eq!(book.ask_own(UserSource::Pool, at(20)), None);
    assert_eq!(book.next_time(), Some(at(4)));
    let found = deeds(&mut book, 4);
    assert_eq!(
        found,
        [Deed::Refuse { ticket: late }, Deed::OpenOwn { slot: 3, user: Some(0), ticket }]
    );
    book.opened_own(at(5), 3);
    assert_eq!(now_and_peaks(&book).map(|it| it.0), [0, 0, 2, 0, 0]);
    // Wherever they stand, they are logged off.
    book.came_back(at(6), 1, CameBack::AtHome);
    book.held(at(6), 3, Holding::Active, None);
    assert_eq!(deeds(&mut book, 6), [Deed::LogOff { slot: 1 }]);
    book.came_back(at(7), 3, CameBack::Left);
    assert_eq!(deeds(&mut book, 7), [Deed::LogOff { slot: 3 }]);
    assert_eq!(book.sessions(SessionState::Rogue).0, 1);
}

#[test]
fn a_session_with_free_keys_is_logged_off() {
    let limits = SessionPool { max: 1, hold: Period::from_seconds(40), ..SessionPool::default() };
    let mut book = Book::new(limits, 0, None);
    book.ask(Caller(1), at(9)).unwrap();
    deeds(&mut book, 0);
    book.opened(at(0), 0, Opened::AtHome, 0.0);
    assert!(matches!(deeds(&mut book, 0).as_slice(), [Deed::Give { slot: 0, .. }]));
    book.set_apart(0);
    book.held(at(1), 0, Holding::Active, None);
    assert_eq!(book.next_time(), Some(at(41)));
    assert_eq!(deeds(&mut book, 41), [Deed::Retake { slot: 0 }]);
    book.came_back(at(41), 0, CameBack::Left);
    assert_eq!(deeds(&mut book, 41), [Deed::LogOff { slot: 0 }]);
}

/// Any request of its client counts for the time that it may hold the session, and only keys for
/// that of the host.
#[test]
fn a_session_that_a_client_holds_is_kept_alive_where_it_stands() {
    let limits = SessionPool { max: 1, hold: Period::from_seconds(100), ..SessionPool::default() };
    let mut book = Book::new(limits, 0, None);
    book.ask(Caller(1), at(9)).unwrap();
    deeds(&mut book, 0);
    book.opened(at(0), 0, Opened::AtHome, 0.0);
    assert!(matches!(deeds(&mut book, 0).as_slice(), [Deed::Give { slot: 0, .. }]));
    let every = Some(at(30));
    book.pressed(at(5), 0);
    book.held(at(10), 0, Holding::Active, every);
    assert_eq!(book.next_time(), Some(at(35)));
    assert_eq!(deeds(&mut book, 34), []);
    assert_eq!(deeds(&mut book, 35), [Deed::KeepHeld { slot: 0 }]);
    // Meanwhile nothing else is done with it.
    assert_eq!((deeds(&mut book, 200), book.is_held(0)), (vec![], true));
    book.kept_held(0, every);
    // A request without a key.
    book.resumed(0);
    book.held(at(50), 0, Holding::Active, every);
    assert_eq!(deeds(&mut book, 65), [Deed::KeepHeld { slot: 0 }]);
    // Where it stands then, no key keeps it alive.
    book.kept_held(0, None);
    assert_eq!(book.next_time(), Some(at(150)));
    assert_eq!(deeds(&mut book, 150), [Deed::Retake { slot: 0 }]);
}
