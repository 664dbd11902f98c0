//! Tables of an older program: looked at, refused, and changed only where that is asked for.

use std::path::Path;

use super::{postgres_url, raw};
use crate::{Db, DbError, DbOptions, OldTables};

const FORGET_LAST_STEP: &str = "DELETE FROM refinery_schema_history \
     WHERE version = (SELECT MAX(version) FROM refinery_schema_history)";

fn content(folder: &Path) -> Vec<(std::ffi::OsString, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let mut found: Vec<_> =
        entries.map(|entry| (entry.file_name(), std::fs::read(entry.path()).unwrap())).collect();
    found.sort();
    found
}

async fn is_refused(url: &str) {
    let state = Db::look(url).await.unwrap();
    let all = Db::look("sqlite:///nothing/is/here.db").await.unwrap();
    assert!(state.found < state.known);
    assert_eq!(state.missing, all.missing[all.missing.len() - 1..]);
    for old_tables in [OldTables::Refuse, OldTables::MakeOnly] {
        let options = DbOptions { old_tables, ..DbOptions::default() };
        let refused = Db::open(url, options).await.unwrap_err();
        assert!(matches!(refused, DbError::Outdated { .. }), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_with_old_tables_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a%b?c#.db");
    let url = format!("sqlite://{}", path.display());
    let refuse = DbOptions { old_tables: OldTables::Refuse, ..DbOptions::default() };
    assert_eq!(Db::look(&url).await.unwrap().found, 0);
    assert!(matches!(Db::open(&url, refuse).await, Err(DbError::Outdated { found: 0, .. })));
    assert!(content(folder.path()).is_empty(), "a file was made");
    let make = DbOptions { old_tables: OldTables::MakeOnly, ..DbOptions::default() };
    let db = Db::open(&url, make).await.unwrap();
    assert!(Db::look(&url).await.unwrap().missing.is_empty());
    raw(&db, FORGET_LAST_STEP).await;
    // While its log is not in the file yet, and behind that.
    is_refused(&url).await;
    drop(db);
    let before = content(folder.path());
    is_refused(&url).await;
    assert_eq!(content(folder.path()), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_old_tables_is_refused() {
    let url = postgres_url().await;
    let options = DbOptions { connections: Some(2), ..DbOptions::default() };
    let db = Db::open(&url, options).await.unwrap();
    raw(&db, FORGET_LAST_STEP).await;
    is_refused(&url).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_of_a_file_in_use_opens_with_all_that_was_committed() {
    let (db, folder) = super::sqlite_db().await;
    let site = super::noun::<entrepot_nouns::Site>(serde_json::json!({"name": "north"}));
    let mut tx = db.begin().await.unwrap();
    let id = uuid::Uuid::from_u128(7);
    tx.put(entrepot_nouns::SiteId::MAIN, id, &site, db.env.now()).await.unwrap();
    tx.commit().await.unwrap();
    let target = folder.path().join("copy.db");
    assert!(db.copy_to(&target).await.unwrap());
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(std::fs::metadata(&target).unwrap().permissions().mode() & 0o777, 0o600);
    let copy = Db::open(&format!("sqlite://{}", target.display()), DbOptions::default()).await;
    assert_eq!(copy.unwrap().sites().await.unwrap().len(), 2);
}
