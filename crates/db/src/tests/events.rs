//! The audit log: exactly once, in order, found again.

use std::sync::Arc;

use entrepot_nouns::{Env, Event, Fact, JobId, Kind, SessionId, SiteId};

use super::{both, event, job, journal, name, node_id, project, uploaded};
use crate::limits::SEARCHED_ROWS;
use crate::{Db, EventFilter, JobFilter, TransferFilter};

async fn all(db: &Db) -> Vec<Event> {
    let rows = db.events(SiteId::MAIN, &EventFilter::default()).await.unwrap();
    assert!(rows.is_sorted_by_key(|row| row.sequence));
    rows.into_iter().map(|row| row.event).collect()
}

async fn repeated_and_overlapping_pieces_change_nothing(db: Db) {
    let env = Env::simulated(1);
    let events: Vec<Event> = (0..60).map(|n| uploaded(&env, &format!("/in/{n}"))).collect();
    let jobs: Vec<_> = (0..60).map(|_| job(&env, "route", env.now())).collect();
    let lines = journal(events.clone());
    for (from, to) in [(0, 20), (0, 20), (10, 30), (30, 60), (5, 45), (0, 60)] {
        project(&db, "n1", &lines[from..to], &jobs[from..to]).await;
        let most = db.projected_up_to(node_id("n1")).await.unwrap();
        assert!(most >= to as u64, "the cursor went back to {most}");
    }
    // A piece that holds an event twice, known or new.
    let twice = [lines[3].clone(), lines[3].clone()];
    project(&db, "n1", &twice, &[jobs[3].clone(), jobs[3].clone()]).await;
    let (fresh, its_job) = (uploaded(&env, "/in/60"), job(&env, "route", env.now()));
    let elsewhere = Event { site: SiteId(uuid::Uuid::from_u128(44)), ..fresh };
    let twice = [(61, elsewhere.clone()), (61, elsewhere)];
    let other = entrepot_nouns::Job { site: SiteId(uuid::Uuid::from_u128(44)), ..its_job };
    project(&db, "n3", &twice, &[other.clone(), other]).await;
    assert_eq!(all(&db).await, events);
    let transfers = db.transfers(SiteId::MAIN, &TransferFilter::default()).await.unwrap();
    assert_eq!(transfers.len(), 60);
    assert_eq!(db.jobs(SiteId::MAIN, &JobFilter::default()).await.unwrap().len(), 60);
    assert_eq!(db.projected_up_to(node_id("n1")).await.unwrap(), 60);
    assert_eq!(db.projected_up_to(node_id("n2")).await.unwrap(), 0);
    // A repeated piece does not start an ended job again.
    let sixty = super::started(&db, "n1").await;
    let claimed = super::take(&db, &sixty, 60, env.now(), std::time::Duration::MAX).await;
    assert_eq!(claimed.unwrap().len(), 60);
    let rest = super::take(&db, &sixty, 60, env.now(), std::time::Duration::MAX).await;
    assert_eq!(rest.unwrap().len(), 1);
    project(&db, "n1", &lines, &jobs).await;
    let other = super::started(&db, "n2").await;
    let again = super::take(&db, &other, 60, env.now(), std::time::Duration::MAX).await;
    assert_eq!(again.unwrap(), []);
}

async fn a_piece_is_taken_whole_or_not_at_all(db: Db) {
    let env = Env::simulated(1);
    let good = journal(vec![uploaded(&env, "/a")]);
    let jobs = [job(&env, "route", env.now())];
    let node = name("n1");
    let piece = super::piece(&node, &good, &jobs);
    // The jobs' statement is the third of the piece.
    super::raw(&db, "ALTER TABLE jobs RENAME TO away").await;
    assert!(matches!(db.project(&piece).await, Err(crate::DbError::Sql(_))));
    super::raw(&db, "ALTER TABLE away RENAME TO jobs").await;
    assert_eq!(all(&db).await, []);
    assert_eq!(db.transfers(SiteId::MAIN, &TransferFilter::default()).await.unwrap(), []);
    assert_eq!(db.projected_up_to(node_id("n1")).await.unwrap(), 0);
    db.project(&piece).await.unwrap();
    assert_eq!(all(&db).await.len(), 1);
}

async fn filters_find_what_they_say(db: Db) {
    let env = Env::simulated(1);
    let (session, job): (SessionId, JobId) = (env.new_id(), env.new_id());
    let mut events = Vec::new();
    for n in 0..6 {
        env.advance(std::time::Duration::from_secs(1));
        events.push(uploaded(&env, &format!("/in/{n}")));
    }
    events[1].account = Some(name("other"));
    events[2].session = Some(session);
    events[3].job = Some(job);
    events[4].fact = Fact::FileRenamed {
        from: "/in/tmp".to_owned(),
        to: "/out/final".to_owned(),
        displaced: None,
        arrival: false,
        size: 0,
        file: None,
    };
    events[5].site = SiteId(uuid::Uuid::from_u128(44));
    project(&db, "n1", &journal(events.clone()), &[]).await;
    let transfer = events[0].fact.file().unwrap().transfer;
    let kind = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let cases: Vec<(&[usize], EventFilter)> = vec![
        (&[0, 1, 2, 3, 4], EventFilter::default()),
        (&[1], EventFilter { account: Some(name("other")), ..Default::default() }),
        (&[2], EventFilter { session: Some(session), ..Default::default() }),
        (&[3], EventFilter { job: Some(job), ..Default::default() }),
        (&[0], EventFilter { transfer: Some(transfer), ..Default::default() }),
        (&[4], EventFilter { kinds: kind(&["file.renamed"]), ..Default::default() }),
        (&[], EventFilter { kinds: kind(&["file"]), ..Default::default() }),
        (
            &[0, 1, 2, 3, 4],
            EventFilter { kinds: kind(&["file.uploaded", "file.renamed"]), ..Default::default() },
        ),
        (&[], EventFilter { kinds: kind(&["file.removed", "uploaded"]), ..Default::default() }),
        (&[4], EventFilter { path_contains: Some("/tmp".to_owned()), ..Default::default() }),
        (&[4], EventFilter { path_contains: Some("/out/fi".to_owned()), ..Default::default() }),
        (&[2, 3, 4], EventFilter { since: Some(events[2].at), ..Default::default() }),
        (&[0, 1], EventFilter { until: Some(events[2].at), ..Default::default() }),
        (&[0, 1], EventFilter { limit: 2, ..Default::default() }),
        (&[4, 3], EventFilter { limit: 2, newest_first: true, ..Default::default() }),
        (&[], EventFilter { limit: 0, ..Default::default() }),
        (
            &[],
            EventFilter { session: Some(session), account: Some(name("x")), ..Default::default() },
        ),
        (
            &[],
            EventFilter { session: Some(session), transfer: Some(transfer), ..Default::default() },
        ),
        (&[], EventFilter { session: Some(session), job: Some(job), ..Default::default() }),
    ];
    for (expected, filter) in cases {
        let found = db.events(SiteId::MAIN, &filter).await.unwrap();
        let found: Vec<&Event> = found.iter().map(|row| &row.event).collect();
        let expected: Vec<&Event> = expected.iter().map(|index| &events[*index]).collect();
        assert_eq!(found, expected, "{filter:?}");
    }
    // Another site, even with the right transfer, session, job or account.
    let elsewhere = SiteId(uuid::Uuid::from_u128(45));
    for filter in [
        EventFilter { session: Some(session), ..Default::default() },
        EventFilter { job: Some(job), ..Default::default() },
        EventFilter { transfer: Some(transfer), ..Default::default() },
        EventFilter { account: Some(name("acme")), ..Default::default() },
    ] {
        assert_eq!(db.events(elsewhere, &filter).await.unwrap(), []);
    }
}

async fn pages_follow_each_other(db: Db) {
    let env = Env::simulated(1);
    let events = (0..5).map(|n| uploaded(&env, &format!("/in/{n}"))).collect();
    project(&db, "n1", &journal(events), &[]).await;
    let (mut after, mut seen) = (None, 0);
    loop {
        let page = EventFilter { after_sequence: after, limit: 2, ..EventFilter::default() };
        let rows = db.events(SiteId::MAIN, &page).await.unwrap();
        let Some(last) = rows.last() else { break };
        (after, seen) = (Some(last.sequence), seen + rows.len());
    }
    assert_eq!(seen, 5);
}

async fn what_is_rare_is_found_by_pages_that_are_short_of_rows(db: Db) {
    let env = Env::simulated(1);
    let path = |n: usize| if n == 3 { "/in/rare".to_owned() } else { format!("/in/{n}") };
    let count = SEARCHED_ROWS as usize * 2 + 10;
    let lines = journal((0..count).map(|n| uploaded(&env, &path(n))).collect());
    for piece in lines.chunks(1_000) {
        project(&db, "n1", piece, &[]).await;
    }
    let rare = EventFilter { path_contains: Some("rare".to_owned()), ..EventFilter::default() };
    for newest_first in [false, true] {
        let mut filter = EventFilter { newest_first, ..rare.clone() };
        let (mut found, mut pages) = (0, 0);
        loop {
            let page = db.event_page(SiteId::MAIN, &filter).await.unwrap();
            (found, pages) = (found + page.rows.len(), pages + 1);
            let Some(next) = page.next else { break };
            if newest_first {
                filter.before_sequence = Some(next);
            } else {
                filter.after_sequence = Some(next);
            }
        }
        assert_eq!((found, pages), (1, 3), "newest first: {newest_first}");
        let filter = EventFilter { newest_first, ..rare.clone() };
        assert_eq!(db.events(SiteId::MAIN, &filter).await.unwrap().len(), 1);
    }
    // The index alone answers: the page is as long as was asked for.
    let all = db.event_page(SiteId::MAIN, &EventFilter::default()).await.unwrap();
    assert_eq!((all.rows.len(), all.next), (count, None));
}

async fn an_event_is_found_by_its_id_at_any_site(db: Db) {
    let env = Env::simulated(2);
    let here = uploaded(&env, "/in/here");
    let there = Event { site: SiteId(uuid::Uuid::from_u128(44)), ..uploaded(&env, "/in/there") };
    project(&db, "n1", &journal(vec![here.clone(), there.clone()]), &[]).await;
    for event in [here, there] {
        assert_eq!(crate::event_paths(&event.fact).len(), 1);
        assert_eq!(db.event(event.id).await.unwrap().map(|row| row.event), Some(event));
    }
    assert_eq!(db.event(env.new_id()).await.unwrap(), None);
}

async fn unsealed_events_are_sealed_once(db: Db) {
    let env = Env::simulated(1);
    let fact = |what: &str| Fact::ConfigChanged {
        noun: Kind::Account,
        name: name(what),
        action: "created".to_owned(),
        by: "cli:root".to_owned(),
        fields: Vec::new(),
    };
    let events: Vec<Event> = ["a", "b", "c"].map(|what| event(&env, fact(what))).into();
    let mut tx = db.begin().await.unwrap();
    for event in &events {
        tx.insert_event(event).await.unwrap();
        tx.insert_event(event).await.unwrap();
    }
    tx.commit().await.unwrap();
    let n1 = name("n1");
    assert_eq!(db.unsealed_events(&n1).await.unwrap(), events);
    assert_eq!(db.unsealed_events(&name("n2")).await.unwrap(), []);
    db.mark_sealed(&[events[0].id]).await.unwrap();
    db.mark_sealed(&[]).await.unwrap();
    assert_eq!(db.unsealed_events(&n1).await.unwrap(), events[1..]);
    // The node sealed "b" and died before it could mark it: the projection marks it.
    project(&db, "n1", &[(9, events[1].clone())], &[]).await;
    assert_eq!(db.unsealed_events(&n1).await.unwrap(), events[2..]);
    assert_eq!(all(&db).await, events);
}

/// Who reads on from the last sequence seen misses nothing, with several nodes projecting.
async fn sequences_appear_in_order(db: Db) {
    let db = Arc::new(db);
    let mut tasks = tokio::task::JoinSet::new();
    for node in ["n1", "n2", "n3"] {
        let db = db.clone();
        tasks.spawn(async move {
            let env = Env::real();
            for piece in 0..10 {
                let events: Vec<_> = (0..5).map(|n| uploaded(&env, &format!("/{n}"))).collect();
                let lines: Vec<_> = (piece * 5 + 1..).zip(events).collect();
                project(&db, node, &lines, &[]).await;
            }
        });
    }
    let (mut after, mut seen) = (0, 0);
    loop {
        let finished = tasks.is_empty();
        let page = EventFilter { after_sequence: Some(after), ..EventFilter::default() };
        let rows = db.events(SiteId::MAIN, &page).await.unwrap();
        seen += rows.len();
        after = rows.last().map_or(after, |row| row.sequence);
        while let Some(done) = tasks.try_join_next() {
            done.unwrap();
        }
        if finished {
            break;
        }
    }
    assert_eq!(seen, 150);
}

/// Events of a year in the order of their numbers, but for some that came much later, as from a
/// node that was away; at the end of the table are some that no stretch has yet.
async fn a_search_by_time_finds_what_is_there_wherever_it_lies(db: Db) {
    const DAY: std::time::Duration = std::time::Duration::from_secs(86_400);
    let env = Env::simulated(1);
    let begin = env.now();
    let rows = u64::from(crate::limits::STRETCH_ROWS);
    let day_of = |number: u64| if number % 700 == 699 { number / 20 } else { number / 10 };
    let events: Vec<Event> = (0..rows * 7 / 2)
        .map(|number| {
            let at = begin.plus(DAY * u32::try_from(day_of(number)).unwrap());
            Event { at, ..uploaded(&env, &format!("/in/{number}")) }
        })
        .collect();
    let lines = journal(events.clone());
    for piece in lines.chunks(100) {
        project(&db, "n1", piece, &[]).await;
    }
    for (from, to) in [(0, 1), (10, 12), (60, 61), (100, 102), (200, 250), (340, 400), (900, 901)] {
        let (since, until) = (begin.plus(DAY * from), begin.plus(DAY * to));
        let within = |event: &&Event| since <= event.at && event.at < until;
        let wanted: Vec<Event> = events.iter().filter(within).cloned().collect();
        for newest_first in [false, true] {
            let (since, until) = (Some(since), Some(until));
            let filter = EventFilter { since, until, newest_first, ..EventFilter::default() };
            let found = db.events(SiteId::MAIN, &filter).await.unwrap();
            let mut found: Vec<Event> = found.into_iter().map(|row| row.event).collect();
            if newest_first {
                found.reverse();
            }
            assert_eq!(found, wanted, "days {from} to {to}, newest first: {newest_first}");
            let few = EventFilter { limit: 3, ..filter };
            let few = db.events(SiteId::MAIN, &few).await.unwrap();
            assert_eq!(few.len(), wanted.len().min(3));
        }
    }
    // Nothing outside of the stretches that may have such events is looked at.
    let (since, until) = (Some(begin.plus(DAY * 110)), Some(begin.plus(DAY * 111)));
    let filter = EventFilter { since, until, ..EventFilter::default() };
    let (first, rest) = match &*db.stretches(&filter).await.unwrap() {
        [first, rest] => (*first, *rest),
        other => panic!("{other:?}"),
    };
    let looked_at = first.up_to - first.after;
    assert!(looked_at <= i64::try_from(rows * 2).unwrap(), "{looked_at} of {}", events.len());
    let open = events.len() as i64 - rest.after;
    assert!(open < i64::from(crate::limits::STRETCH_ROWS) + 100, "{open} are in no stretch");
}

both!(
    repeated_and_overlapping_pieces_change_nothing,
    a_piece_is_taken_whole_or_not_at_all,
    filters_find_what_they_say,
    pages_follow_each_other,
    what_is_rare_is_found_by_pages_that_are_short_of_rows,
    a_search_by_time_finds_what_is_there_wherever_it_lies,
    an_event_is_found_by_its_id_at_any_site,
    unsealed_events_are_sealed_once,
    sequences_appear_in_order,
);
