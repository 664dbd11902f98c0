//! What can be put back follows from events.

use entrepot_nouns::{Env, Event, EventId, Fact, SiteId};

use super::{both, event, journal, name, project};
use crate::{Db, TrashPlace};

fn trashed(env: &Env, prefix: &str) -> Event {
    env.advance(std::time::Duration::from_secs(1));
    let fact = Fact::FileTrashed {
        path: "/a".to_owned(),
        directory: false,
        size: 3,
        endpoint: name("files"),
        prefix: prefix.to_owned(),
        stored: format!("{prefix}/a"),
        until: env.now().plus(std::time::Duration::from_secs(86_400)),
    };
    event(env, fact)
}

fn ids(events: &[Event]) -> Vec<EventId> {
    events.iter().map(|event| event.id).collect()
}

async fn rows_come_and_go_with_events(db: Db) {
    let env = Env::simulated(3);
    let all: Vec<Event> = (0..5).map(|_| trashed(&env, "in")).collect();
    let other = trashed(&env, "out");
    let mut events = all.clone();
    events.push(other.clone());
    let back =
        Fact::FileRestored { path: "/a".to_owned(), directory: false, size: 3, trashed: all[1].id };
    events.push(event(&env, back));
    // A piece that is repeated changes nothing.
    for _ in 0..2 {
        project(&db, "n1", &journal(events.clone()), &[]).await;
    }
    let files = name("files");
    let place = TrashPlace { site: SiteId::MAIN, endpoint: &files, prefix: "in" };
    let found = db.newest_trash(place, None, 2).await.unwrap();
    assert_eq!(ids(&found), [all[4].id, all[3].id]);
    assert_eq!(found[0], all[4]);
    let found = db.newest_trash(place, Some(all[3].id), 9).await.unwrap();
    assert_eq!(ids(&found), [all[2].id, all[0].id], "what was put back is not there");
    assert_eq!(db.trashed(SiteId::MAIN, other.id).await.unwrap(), Some(other.clone()));
    let elsewhere = SiteId(uuid::Uuid::from_u128(45));
    assert_eq!(db.trashed(elsewhere, other.id).await.unwrap(), None);
    assert_eq!(db.trash_over(env.now(), None, 9).await.unwrap(), []);
    env.advance(std::time::Duration::from_secs(86_401));
    let over = db.trash_over(env.now(), Some(all[3].id), 9).await.unwrap();
    assert_eq!(ids(&over), [all[4].id, other.id]);
    let gone = Fact::FilePurged { path: "/a".to_owned(), trashed: all[4].id };
    events.push(event(&env, gone));
    project(&db, "n1", &journal(events), &[]).await;
    let over = db.trash_over(env.now(), Some(all[3].id), 9).await.unwrap();
    assert_eq!(ids(&over), [other.id]);
}

both!(rows_come_and_go_with_events);
