//! Transfers follow from events, in whatever order and how often these come.

use entrepot_nouns::event::FileFact;
use entrepot_nouns::{
    Digests, Direction, Env, Event, Fact, SiteId, Transfer, TransferId, TransferState,
};

use super::{both, event, file, journal, name, project};
use crate::{Db, RowPosition, TransferFilter};

fn interrupted(env: &Env, id: TransferId, size: u64, kept: bool) -> Event {
    let file = FileFact { size, ..file(env, id, "/in/a") };
    event(env, Fact::FileInterrupted { file, kept, reason: "the client went away".to_owned() })
}

async fn facts_become_states(db: Db) {
    use Direction::{In, Out};
    use TransferState::{Completed, Failed, Partial, Unknown};
    let env = Env::simulated(1);
    let fact = |id| file(&env, id, "/in/a");
    let id = || env.new_id::<TransferId>();
    let delivered =
        Fact::FileDelivered { file: fact(id()), endpoint: name("partner"), rule: name("route") };
    let cases = [
        (event(&env, Fact::FileUploaded { file: fact(id()) }), In, Completed),
        (event(&env, Fact::FileRecovered { file: fact(id()) }), In, Completed),
        (event(&env, Fact::FileDownloaded { file: fact(id()) }), Out, Completed),
        (event(&env, delivered), Out, Completed),
        (interrupted(&env, id(), 3, true), In, Partial),
        (interrupted(&env, id(), 3, false), In, Failed),
        (event(&env, Fact::FileUnknown { file: fact(id()) }), In, Unknown),
    ];
    let mut events: Vec<Event> = cases.iter().map(|(event, ..)| event.clone()).collect();
    events[0].session = Some(env.new_id());
    events[3].job = Some(env.new_id());
    project(&db, "n1", &journal(events.clone()), &[]).await;
    for ((_, direction, state), event) in cases.iter().zip(&events) {
        let file = event.fact.file().unwrap();
        let found = db.transfer(SiteId::MAIN, file.transfer).await.unwrap().unwrap();
        assert_eq!((found.direction, found.state), (*direction, *state));
        assert_eq!((found.session, found.job), (event.session, event.job));
        assert_eq!((found.path.as_str(), found.size), (file.path.as_str(), file.size));
        assert_eq!(found.digests, Digests { blake3: Some([9; 32]), sha256: None });
        assert_eq!(found.error.is_some(), matches!(state, Partial | Failed | Unknown));
        assert_eq!(found.endpoint.is_some(), matches!(event.fact, Fact::FileDelivered { .. }));
        let elsewhere = SiteId(uuid::Uuid::from_u128(45));
        assert_eq!(db.transfer(elsewhere, file.transfer).await.unwrap(), None);
        assert_eq!(db.transfers_named(elsewhere, "a", 64).await.unwrap(), []);
    }
    let named = db.transfers_named(SiteId::MAIN, "A", 64).await.unwrap();
    assert_eq!(named.len(), cases.len());
    assert!(named.is_sorted_by_key(|it| std::cmp::Reverse(it.changed_at)));
    assert_eq!(db.transfers_named(SiteId::MAIN, "in", 64).await.unwrap(), []);
    let same = db.transfers_with_digest(SiteId::MAIN, &[9; 32], 3).await.unwrap();
    assert_eq!(same, named[..3]);
    assert_eq!(db.transfers_with_digest(SiteId::MAIN, &[8; 32], 3).await.unwrap(), []);
}

/// The next of a repeatable sequence of numbers below `below`.
fn pick(env: &Env, below: usize) -> usize {
    let mut bytes = [0; 8];
    env.fill_random(&mut bytes);
    usize::try_from(u64::from_le_bytes(bytes) % below as u64).unwrap()
}

/// Transfers that are cut, resumed on other nodes, completed; told in any order, in pieces of any
/// size that overlap and repeat: always the same rows.
async fn order_and_repetition_make_no_difference(db: Db) {
    let env = Env::simulated(42);
    let mut events = Vec::new();
    let mut expected: Vec<Transfer> = Vec::new();
    for n in 0..20 {
        let (id, cuts) = (env.new_id::<TransferId>(), pick(&env, 4));
        for cut in 0..=cuts {
            env.advance(std::time::Duration::from_secs(1));
            events.push(interrupted(&env, id, cut as u64, true));
        }
        env.advance(std::time::Duration::from_secs(1));
        if n % 3 != 0 {
            let whole = FileFact { size: 99, ..file(&env, id, "/in/a") };
            events.push(event(&env, Fact::FileUploaded { file: whole }));
        }
        project(&db, "n1", &journal(events.clone()), &[]).await;
        expected.push(db.transfer(SiteId::MAIN, id).await.unwrap().unwrap());
        let state = if n % 3 == 0 { TransferState::Partial } else { TransferState::Completed };
        let size = if n % 3 == 0 { cuts as u64 } else { 99 };
        assert_eq!((expected[n].state, expected[n].size), (state, size));
    }
    for _ in 0..8 {
        super::raw(&db, "DELETE FROM events; DELETE FROM transfers; DELETE FROM nodes").await;
        for at in (1..events.len()).rev() {
            events.swap(at, pick(&env, at + 1));
        }
        let lines = journal(events.clone());
        let mut from = 0;
        while from < lines.len() {
            let to = (from + 1 + pick(&env, 30)).min(lines.len());
            project(&db, "n1", &lines[from..to], &[]).await;
            // Go back a little, or to the start.
            from = if pick(&env, 3) == 0 { to - pick(&env, to - from) } else { to };
        }
        project(&db, "n2", &lines[..pick(&env, lines.len())], &[]).await;
        for transfer in &expected {
            let mut found = db.transfer(SiteId::MAIN, transfer.id).await.unwrap().unwrap();
            // Of a transfer told backwards the first start is not the first row.
            found.started_at = transfer.started_at;
            assert_eq!(found, *transfer);
        }
    }
}

/// An ended transfer stays as it is, whatever comes later, in the same batch or another.
async fn ended_transfers_stay_ended(db: Db) {
    let env = Env::simulated(1);
    let id = env.new_id::<TransferId>();
    let mut events = vec![event(&env, Fact::FileUploaded { file: file(&env, id, "/in/a") })];
    for kept in [true, false] {
        env.advance(std::time::Duration::from_secs(1));
        events.push(interrupted(&env, id, 1, kept));
    }
    events.push(event(&env, Fact::FileUnknown { file: file(&env, id, "/in/b") }));
    let lines = journal(events);
    project(&db, "n1", &lines[..2], &[]).await;
    let ended = db.transfer(SiteId::MAIN, id).await.unwrap().unwrap();
    assert_eq!(ended.state, TransferState::Completed);
    for line in &lines {
        project(&db, "n1", std::slice::from_ref(line), &[]).await;
        assert_eq!(db.transfer(SiteId::MAIN, id).await.unwrap().unwrap(), ended);
    }
    project(&db, "n1", &lines, &[]).await;
    assert_eq!(db.transfer(SiteId::MAIN, id).await.unwrap().unwrap(), ended);
}

async fn filters_find_what_they_say(db: Db) {
    let env = Env::simulated(1);
    let mut events = Vec::new();
    for n in 0..5 {
        env.advance(std::time::Duration::from_secs(1));
        let file = file(&env, env.new_id(), &format!("/in/{n}"));
        events.push(event(&env, Fact::FileUploaded { file }));
    }
    events[1].account = Some(name("other"));
    let fact = events[2].fact.file().unwrap().clone();
    events[2].fact = Fact::FileDownloaded { file: fact };
    events[3] = interrupted(&env, events[3].fact.file().unwrap().transfer, 1, true);
    events[4].account = None;
    project(&db, "n1", &journal(events.clone()), &[]).await;
    let cases: Vec<(&[usize], TransferFilter)> = vec![
        (&[1], TransferFilter { account: Some(name("other")), ..Default::default() }),
        (&[3, 2, 0], TransferFilter { account: Some(name("acme")), ..Default::default() }),
        (&[4], TransferFilter { account: Some(name("nobody")), ..Default::default() }),
        (&[3], TransferFilter { state: Some(TransferState::Partial), ..Default::default() }),
        (&[2], TransferFilter { direction: Some(Direction::Out), ..Default::default() }),
        (&[1], TransferFilter { path_contains: Some("n/1".to_owned()), ..Default::default() }),
        (&[4, 3], TransferFilter { since: Some(events[3].at), ..Default::default() }),
        (&[4, 3], TransferFilter { limit: 2, ..Default::default() }),
    ];
    for (expected, filter) in cases {
        let found = db.transfers(SiteId::MAIN, &filter).await.unwrap();
        let mut found: Vec<TransferId> = found.iter().map(|transfer| transfer.id).collect();
        let mut expected: Vec<TransferId> =
            expected.iter().map(|at| events[*at].fact.file().unwrap().transfer).collect();
        // Two of them changed at the same moment: their order is that of their ids.
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "{filter:?}");
    }
    let all = db.transfers(SiteId::MAIN, &TransferFilter::default()).await.unwrap();
    for account in [None, Some(name("acme"))] {
        let of = |transfer: &&Transfer| account.as_ref().is_none_or(|it| transfer.account == *it);
        let (mut paged, mut after) = (Vec::new(), None);
        loop {
            let account = account.clone();
            let page = TransferFilter { account, after, limit: 2, ..Default::default() };
            let page = db.transfers(SiteId::MAIN, &page).await.unwrap();
            let Some(last) = page.last() else { break };
            after = Some(RowPosition { at: last.changed_at, id: last.id.0 });
            paged.extend(page);
        }
        assert_eq!(paged, all.iter().filter(of).cloned().collect::<Vec<_>>());
    }
    let elsewhere = SiteId(uuid::Uuid::from_u128(45));
    assert_eq!(db.transfers(elsewhere, &TransferFilter::default()).await.unwrap(), []);
}

both!(
    facts_become_states,
    ended_transfers_stay_ended,
    order_and_repetition_make_no_difference,
    filters_find_what_they_say,
);
