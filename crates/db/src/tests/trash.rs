//! What can be put back follows from events.

use entrepot_nouns::event::VersionFact;
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
        most_bytes: None,
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
    let place = TrashPlace { site: SiteId::MAIN, endpoint: &files, prefix: "in", version_of: None };
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

fn limited(env: &Env, size: u64, most_bytes: Option<u64>) -> Event {
    let Event { fact, .. } = trashed(env, "in");
    let Fact::FileTrashed { path, endpoint, prefix, stored, until, .. } = fact else {
        panic!("another fact")
    };
    let directory = size == 0;
    let fact =
        Fact::FileTrashed { path, directory, size, endpoint, prefix, stored, until, most_bytes };
    event(env, fact)
}

fn replaced(env: &Env, stored: &str, keep: Option<u16>) -> Event {
    env.advance(std::time::Duration::from_secs(1));
    let version = VersionFact {
        path: format!("/{stored}"),
        size: 10,
        modified: env.now(),
        endpoint: name("files"),
        prefix: "in".to_owned(),
        stored: stored.to_owned(),
        until: None,
        keep,
        most_bytes: None,
    };
    event(env, Fact::FileVersioned { version })
}

async fn what_is_too_much_is_over(db: Db) {
    let env = Env::simulated(3);
    // The newest limit counts, also for what was removed before there was one.
    let before = limited(&env, 40, None);
    let folder = limited(&env, 0, Some(1));
    let newest = [limited(&env, 30, Some(1_000)), limited(&env, 20, Some(60))];
    let versions: Vec<Event> = (0..5)
        .map(|nth| replaced(&env, "in/a", Some(if nth == 4 { 3 } else { 9 })))
        .chain((0..5).map(|_| replaced(&env, "in/b", None)))
        .collect();
    let mut events = vec![before.clone(), folder.clone()];
    events.extend(newest.clone());
    events.extend(versions.clone());
    project(&db, "n1", &journal(events), &[]).await;
    let files = name("files");
    let removed =
        TrashPlace { site: SiteId::MAIN, endpoint: &files, prefix: "in", version_of: None };
    let found = db.newest_trash(removed, None, 9).await.unwrap();
    assert_eq!(
        ids(&found),
        ids(&[newest[1].clone(), newest[0].clone(), folder.clone(), before.clone()])
    );
    let of_a = TrashPlace { version_of: Some("in/a"), ..removed };
    let found = db.newest_trash(of_a, Some(versions[4].id), 2).await.unwrap();
    assert_eq!(ids(&found), [versions[3].id, versions[2].id]);

    let over = db.trash_over(env.now(), None, 9).await.unwrap();
    assert_eq!(ids(&over), [before.id, versions[0].id, versions[1].id]);
    let uncounted = db.uncounted_trash(None, 9).await.unwrap();
    assert_eq!(ids(&uncounted), [folder.id]);
    db.count_trash(folder.id, 11).await.unwrap();
    assert_eq!(db.uncounted_trash(None, 9).await.unwrap(), []);
    let over = db.trash_over(env.now(), None, 9).await.unwrap();
    assert_eq!(ids(&over), [before.id, folder.id, versions[0].id, versions[1].id]);
    let over = db.trash_over(env.now(), Some(folder.id), 1).await.unwrap();
    assert_eq!(ids(&over), [versions[0].id]);
    // Without an end, they stay.
    env.advance(std::time::Duration::from_secs(400 * 86_400));
    let over = db.trash_over(env.now(), Some(newest[1].id), 9).await.unwrap();
    assert_eq!(ids(&over), [versions[0].id, versions[1].id]);
}

both!(rows_come_and_go_with_events, what_is_too_much_is_over);
