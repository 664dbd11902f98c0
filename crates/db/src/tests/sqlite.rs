//! What is SQLite's alone: settings, file, full disk, other processes.

use std::os::unix::fs::PermissionsExt;

use entrepot_nouns::{Env, SiteId};

use super::{journal, name, sqlite_db, uploaded};
use crate::{Backend, Db, DbError, DbOptions, EventFilter};

#[tokio::test]
async fn commits_are_durable_and_the_file_is_private() {
    let (db, folder) = sqlite_db().await;
    let Backend::Sqlite(sqlite) = &*db.backend else { panic!("not SQLite") };
    for of_reader in [false, true] {
        let wanted = [("synchronous", "2"), ("journal_mode", "wal"), ("foreign_keys", "1")];
        for (setting, value) in wanted {
            assert_eq!(sqlite.setting(setting, of_reader).await, value, "{setting}");
        }
    }
    let mode = |name: &str| {
        std::fs::metadata(folder.path().join(name)).unwrap().permissions().mode() & 0o777
    };
    for file in ["entrepot.db", "entrepot.db-wal"] {
        assert_eq!(mode(file), 0o600, "{file}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn several_may_open_a_new_file_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}/new.db", folder.path().display());
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let url = url.clone();
        tasks.spawn(async move { Db::open(&url, DbOptions::default()).await });
    }
    while let Some(opened) = tasks.join_next().await {
        let db = opened.unwrap().unwrap();
        assert_eq!(db.sites().await.unwrap().len(), 1);
    }
}

#[tokio::test]
async fn what_was_projected_is_there_after_reopening() {
    let (db, folder) = sqlite_db().await;
    let env = Env::simulated(1);
    super::project(&db, "n1", &journal(vec![uploaded(&env, "/a")]), &[]).await;
    drop(db);
    let url = format!("sqlite://{}/entrepot.db", folder.path().display());
    let db = Db::open(&url, DbOptions::default()).await.unwrap();
    assert_eq!(db.events(SiteId::MAIN, &EventFilter::default()).await.unwrap().len(), 1);
    assert_eq!(db.projected_up_to(super::node_id("n1")).await.unwrap(), 1);
}

#[tokio::test]
async fn a_full_disk_is_a_reason_to_wait_and_leaves_nothing_torn() {
    let (db, _folder) = sqlite_db().await;
    let env = Env::simulated(1);
    let events = journal((0..500).map(|n| uploaded(&env, &format!("/in/{n}"))).collect());
    let node = name("n1");
    let piece = super::piece(&node, &events, &[]);
    super::raw(&db, "PRAGMA max_page_count = 60").await;
    let error = db.project(&piece).await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    assert_eq!(db.events(SiteId::MAIN, &EventFilter::default()).await.unwrap(), []);
    super::raw(&db, "PRAGMA max_page_count = 1000000").await;
    db.project(&piece).await.unwrap();
    assert_eq!(db.events(SiteId::MAIN, &EventFilter::default()).await.unwrap().len(), 500);
}

#[tokio::test]
async fn tables_of_a_newer_program_are_left_alone() {
    let (db, folder) = sqlite_db().await;
    let newer = "INSERT INTO refinery_schema_history (version, name, applied_on, checksum) \
                 VALUES (99, 'future', '2027-01-01T00:00:00Z', '1')";
    super::raw(&db, newer).await;
    let url = format!("sqlite://{}/entrepot.db", folder.path().display());
    // They say that they still serve this program.
    drop(Db::open(&url, DbOptions::default()).await.unwrap());
    super::raw(&db, "UPDATE schema_compatibility SET oldest_program = 99").await;
    let refused = Db::open(&url, DbOptions::default()).await.unwrap_err();
    assert!(matches!(refused, DbError::Schema(_)), "{refused}");
}

#[tokio::test]
async fn unusable_urls_say_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("text"), vec![b'x'; 4096]).unwrap();
    let missing = format!("sqlite://{}/no/such/folder/x.db", folder.path().display());
    for url in ["", "entrepot.db", "sqlite://relative.db", "mysql://h/d", &missing] {
        let refused = Db::open(url, DbOptions::default()).await.unwrap_err();
        assert!(matches!(refused, DbError::Setup(_)), "{url}: {refused}");
        assert_eq!(refused.code(), "EP0705");
    }
    let text = format!("sqlite://{}/text", folder.path().display());
    let refused = Db::open(&text, DbOptions::default()).await.unwrap_err();
    assert!(matches!(refused, DbError::Corrupt(_)), "{refused}");
}

/// A reader is never held up by an open transaction.
#[tokio::test]
async fn readers_do_not_wait_for_the_writer() {
    let (db, _folder) = sqlite_db().await;
    let mut tx = db.begin().await.unwrap();
    let account = super::account("acme");
    tx.put(SiteId::MAIN, uuid::Uuid::from_u128(4), &account, Env::real().now()).await.unwrap();
    assert_eq!(db.list::<entrepot_nouns::Account>(SiteId::MAIN).await.unwrap(), []);
    tx.commit().await.unwrap();
    assert_eq!(db.list::<entrepot_nouns::Account>(SiteId::MAIN).await.unwrap().len(), 1);
}
