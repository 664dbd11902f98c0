//! Files that rules expect: counted once each, decided about by one, told until it is known.

use entrepot_nouns::{Env, Event, Name, Timestamp};
use uuid::Uuid;

use super::{both, journal, name, node_id, piece, uploaded};
use crate::{
    Arrival, ArrivalTime, Db, Decision, ExpectTelling, Expectation, ExpectedWindow, Projected,
    Projection,
};

const RULE: Uuid = Uuid::from_u128(1);
const TERMS: Uuid = Uuid::from_u128(11);

fn arrival(event: &Event, time: ArrivalTime) -> Arrival {
    let (begins, ends) = (Timestamp(100), Timestamp(200));
    Arrival { event: event.id, rule: RULE, terms: TERMS, begins, ends, time }
}

fn window(decided: &[Decision]) -> ExpectedWindow {
    let told = |decision: &Decision| ExpectTelling { decision: *decision, seen: 0, count: 1 };
    ExpectedWindow {
        rule: RULE,
        terms: TERMS,
        begins: Timestamp(100),
        ends: Timestamp(200),
        seen: 0,
        late: 0,
        touched: false,
        decided: decided.to_vec(),
        telling: decided.iter().map(told).collect(),
        decided_at: Timestamp(7),
    }
}

async fn project(db: &Db, node: &Name, events: &[(u64, Event)], arrivals: &[Arrival]) {
    let piece = Projection { arrivals, ..piece(node, events, &[]) };
    assert_eq!(db.project(&piece).await.unwrap(), Projected::Kept);
}

async fn windows(db: &Db) -> Vec<ExpectedWindow> {
    db.judge().await.unwrap().windows(RULE).await.unwrap()
}

async fn numbers(db: &Db) -> Vec<(u64, u64)> {
    windows(db).await.iter().map(|window| (window.seen, window.late)).collect()
}

async fn files_count_once_however_often_their_events_come(db: Db) {
    let env = Env::simulated(9);
    let events = journal((0..4).map(|at| uploaded(&env, &format!("/in/{at}"))).collect());
    let time = |at: usize| if at == 3 { ArrivalTime::Late } else { ArrivalTime::InTime };
    let mut arrivals: Vec<_> =
        events.iter().enumerate().map(|(at, (_, event))| arrival(event, time(at))).collect();
    let node = name("n1");
    project(&db, &node, &events[..2], &arrivals[..2]).await;
    assert_eq!(numbers(&db).await, [(2, 0)]);
    assert_eq!(db.touched_expectations().await.unwrap(), [RULE]);
    // Those before come again, and one of them twice in the piece.
    arrivals.push(arrivals[3].clone());
    project(&db, &node, &events, &arrivals).await;
    assert_eq!(numbers(&db).await, [(3, 1)]);
    project(&db, &node, &events, &arrivals).await;
    assert_eq!(numbers(&db).await, [(3, 1)]);
    // A piece that the database does not take counts nothing.
    let more = [(9, uploaded(&env, "/in/9"))];
    let ahead = [arrival(&more[0].1, ArrivalTime::InTime)];
    let late = Projection { after: 8, arrivals: &ahead, ..piece(&node, &more, &[]) };
    assert_eq!(db.project(&late).await.unwrap(), Projected::Behind(4));
    assert_eq!(numbers(&db).await, [(3, 1)]);
    assert_eq!(db.projected_up_to(node_id("n1")).await.unwrap(), 4);
}

async fn a_decision_leaves_the_numbers_and_is_told_until_it_is_known(db: Db) {
    let env = Env::simulated(9);
    let mut row = window(&[Decision::Missed]);
    let mut judging = db.judge().await.unwrap();
    assert!(judging.add(&row).await.unwrap());
    assert!(!judging.add(&row).await.unwrap(), "it is there");
    judging.commit().await.unwrap();
    assert_eq!(windows(&db).await, [row.clone()]);

    let events = journal(vec![uploaded(&env, "/in/a")]);
    let come = [arrival(&events[0].1, ArrivalTime::Late)];
    project(&db, &name("n1"), &events, &come).await;
    (row.late, row.touched) = (1, true);
    assert_eq!(windows(&db).await, [row.clone()]);
    row.decided.push(Decision::Late);
    row.decided_at = Timestamp(8);
    let mut judging = db.judge().await.unwrap();
    judging.change(&row).await.unwrap();
    judging.commit().await.unwrap();
    row.touched = false;
    assert_eq!(windows(&db).await, [row.clone()]);
    assert!(db.touched_expectations().await.unwrap().is_empty());

    let untold = async |before, after| {
        db.untold_windows(Timestamp(before), Timestamp(after), 9).await.unwrap()
    };
    assert_eq!(untold(8, 9).await, []);
    assert_eq!(untold(9, 10).await, [row.clone()]);
    assert_eq!(untold(0, 7).await, [row.clone()], "decided by a clock that is ahead");
    db.told_window(&ExpectedWindow { decided_at: Timestamp(7), ..row.clone() }).await.unwrap();
    assert_eq!(untold(9, 10).await, [row.clone()], "more was decided since");
    db.told_window(&row).await.unwrap();
    assert_eq!(untold(9, 10).await, []);
    db.forget_windows(Timestamp(200)).await.unwrap();
    assert_eq!(windows(&db).await.len(), 1);
    db.forget_windows(Timestamp(201)).await.unwrap();
    assert_eq!(windows(&db).await, []);
}

async fn rules_go_on_with_the_same_terms_and_begin_anew_with_others(db: Db) {
    let revision = db.config_revision().await.unwrap();
    let of = |terms: Uuid, since: i64| Expectation { rule: RULE, terms, since: Timestamp(since) };
    let since = async |wanted: &[Expectation]| {
        let kept = db.keep_expectations(revision, wanted).await.unwrap();
        kept.unwrap().get(&RULE).copied()
    };
    assert_eq!(since(&[of(TERMS, 5)]).await, Some(Timestamp(5)));
    let mut judging = db.judge().await.unwrap();
    assert!(judging.add(&window(&[Decision::Met])).await.unwrap());
    judging.commit().await.unwrap();
    assert_eq!(since(&[of(TERMS, 9)]).await, Some(Timestamp(5)), "another field was changed");
    assert_eq!(windows(&db).await.len(), 1);
    let other = [of(Uuid::from_u128(12), 9)];
    assert_eq!(db.keep_expectations(revision - 1, &other).await.unwrap(), None);
    assert_eq!(windows(&db).await.len(), 1, "by an old configuration");
    assert_eq!(since(&other).await, Some(Timestamp(9)));
    assert_eq!(windows(&db).await, []);
    assert_eq!(since(&[]).await, None);
    assert_eq!(since(&[of(TERMS, 12)]).await, Some(Timestamp(12)));
}

both!(
    files_count_once_however_often_their_events_come,
    a_decision_leaves_the_numbers_and_is_told_until_it_is_known,
    rules_go_on_with_the_same_terms_and_begin_anew_with_others,
);
