//! How far schedules have come: one decision at a time, told once.

use std::collections::BTreeSet;

use entrepot_nouns::{Env, Event, EventId, Fact, Timestamp};
use uuid::Uuid;

use super::{both, event, job, journal, name, project};
use crate::{Db, Schedule, Telling};

fn schedule(number: u128) -> Schedule {
    Schedule {
        rule: Uuid::from_u128(number),
        expression: "0 3 * * *".to_owned(),
        zone: "UTC".to_owned(),
        planned: Timestamp(5),
        due: None,
        missed: vec![Timestamp(3), Timestamp(4)],
        queued: None,
        telling: None,
        changed_at: Timestamp(7),
    }
}

async fn add(db: &Db, schedule: &Schedule) -> bool {
    let mut deciding = db.decide().await.unwrap();
    let added = deciding.add(schedule).await.unwrap();
    deciding.commit().await.unwrap();
    added
}

async fn found(db: &Db, rule: Uuid) -> Option<Schedule> {
    db.decide().await.unwrap().schedule(rule).await.unwrap()
}

async fn a_decision_is_kept_until_its_event_is_among_the_events(db: Db) {
    let env = Env::simulated(9);
    let mut row = schedule(1);
    assert!(add(&db, &row).await);
    assert!(!add(&db, &Schedule { planned: Timestamp(9), ..row.clone() }).await, "not the first");
    assert_eq!(found(&db, row.rule).await.as_ref(), Some(&row));

    let fact = Fact::ScheduleDue { rule: name("r"), planned: Timestamp(3) };
    let due = Event { id: EventId(Uuid::from_u128(77)), ..event(&env, fact) };
    row.due = Some(Timestamp(3));
    row.missed.remove(0);
    row.queued = Some(Timestamp(5));
    let skipped = Some("why".to_owned());
    row.telling = Some(Telling { event: due.id, planned: Timestamp(3), skipped });
    let mut deciding = db.decide().await.unwrap();
    assert!(deciding.schedule(row.rule).await.unwrap().is_some());
    deciding.change(&row).await.unwrap();
    deciding.commit().await.unwrap();
    assert_eq!(found(&db, row.rule).await.as_ref(), Some(&row));

    let now = Timestamp(10);
    assert_eq!(db.untold_schedules(Timestamp(7), now, 9).await.unwrap(), []);
    let untold = db.untold_schedules(Timestamp(8), now, 9).await.unwrap();
    assert_eq!(untold, [row.clone()]);
    let ahead = db.untold_schedules(Timestamp(0), Timestamp(6), 9).await.unwrap();
    assert_eq!(ahead, [row.clone()], "decided by a clock that is ahead");
    project(&db, "n1", &journal(vec![due]), &[]).await;
    row.telling = None;
    assert_eq!(found(&db, row.rule).await.as_ref(), Some(&row));
    assert_eq!(db.untold_schedules(Timestamp(8), now, 9).await.unwrap(), []);
}

async fn a_job_is_open_until_it_has_ended(db: Db) {
    let env = Env::simulated(9);
    let job = job(&env, "r", env.now());
    let event = job.event.clone();
    let open = async || db.decide().await.unwrap().is_open(job.id).await.unwrap();
    assert!(!open().await, "there is none");
    project(&db, "n1", &journal(vec![event]), std::slice::from_ref(&job)).await;
    assert!(open().await);
    let mut tx = db.begin().await.unwrap();
    assert!(tx.cancel_job(job.site, job.id, env.now()).await.unwrap());
    tx.commit().await.unwrap();
    assert!(!open().await);
}

async fn rules_that_are_gone_are_forgotten_by_those_who_know_the_newest_configuration(db: Db) {
    for number in 1..=3 {
        assert!(add(&db, &schedule(number)).await);
    }
    let kept = BTreeSet::from([Uuid::from_u128(2)]);
    let revision = db.config_revision().await.unwrap();
    db.keep_schedules(revision - 1, &kept).await.unwrap();
    assert!(found(&db, Uuid::from_u128(1)).await.is_some(), "by an old configuration");
    db.keep_schedules(revision, &kept).await.unwrap();
    for number in 1..=3 {
        let is_known = found(&db, Uuid::from_u128(number)).await.is_some();
        assert_eq!(is_known, number == 2, "{number}");
    }
}

both!(
    a_decision_is_kept_until_its_event_is_among_the_events,
    a_job_is_open_until_it_has_ended,
    rules_that_are_gone_are_forgotten_by_those_who_know_the_newest_configuration,
);
