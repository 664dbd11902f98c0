//! What a database endpoint adds to the conformance suite: statements that do less or something
//! else, rows that are no files, reports, databases that are away.

mod line;
mod postgres;

use std::collections::BTreeMap;
use std::path::Path;

use bytes::{Bytes, BytesMut};
use entrepot_nouns::endpoint::{Endpoint, EndpointTarget, SqlContent, SqlTarget};
use entrepot_nouns::{Env, Noun as _, StorePath};
use entrepot_storage::*;
use entrepot_testkit::postgres::Postgres;

const UPSERT: &str = "INSERT INTO files VALUES ($1, $2, $3) ON CONFLICT (name) DO UPDATE SET \
                      content = excluded.content, modified = excluded.modified";

fn path(text: &str) -> StorePath {
    text.parse().unwrap()
}

fn target(url: String) -> SqlTarget {
    SqlTarget {
        url,
        password_sealed: None,
        password: None,
        authorities: None,
        allow_private: true,
        list: Some("SELECT name, length(content) AS size, modified FROM files".to_owned()),
        read: Some("SELECT content FROM files WHERE name = $1".to_owned()),
        write: Some(UPSERT.to_owned()),
        delete: Some("DELETE FROM files WHERE name = $1".to_owned()),
        content: SqlContent::Bytes,
        reports: BTreeMap::new(),
    }
}

fn sqlite(folder: &Path) -> (SqlTarget, rusqlite::Connection) {
    let file = folder.join("files.db");
    let connection = rusqlite::Connection::open(&file).unwrap();
    let table = "CREATE TABLE files (name PRIMARY KEY, content, modified)";
    connection.execute_batch(table).unwrap();
    (target(format!("sqlite:{}", file.display())), connection)
}

async fn open_target(target: SqlTarget) -> AnyStore {
    open(&EndpointTarget::Sql(target), &ResolvedSecrets::default(), &Env::real()).await.unwrap()
}

async fn put(store: &AnyStore, name: &str, data: &[u8]) -> Result<Published> {
    let file = store.stage(Env::real().new_id(), &path(name)).await?;
    file.write_at(0, Bytes::copy_from_slice(data)).await?;
    file.sync().await?;
    let how = Publish {
        existing: Existing::Replace,
        accessed: None,
        modified: None,
        mode: None,
        size: data.len() as u64,
    };
    let published = file.publish(&how).await;
    if published.is_err() {
        file.discard().await?;
    }
    published
}

async fn get(store: &AnyStore, name: &str) -> Result<Vec<u8>> {
    let file = store.open(&path(name)).await?;
    Ok(file.read_at(0, BytesMut::new(), 1 << 27).await?.to_vec())
}

async fn names(store: &AnyStore) -> Vec<String> {
    let mut listing = store.list(&path("")).await.unwrap();
    let page = listing.next_page(100).await.unwrap();
    page.into_iter().map(|entry| entry.name).collect()
}

#[tokio::test]
async fn without_statements_nothing_is_written_or_removed() {
    let folder = tempfile::tempdir().unwrap();
    let (full, connection) = sqlite(folder.path());
    connection.execute_batch("INSERT INTO files VALUES ('a', x'616263', 5)").unwrap();
    let store = open_target(SqlTarget { write: None, delete: None, ..full.clone() }).await;
    assert_eq!(get(&store, "a").await.unwrap(), b"abc");
    let unsupported = |result: Result<()>| matches!(result, Err(StoreError::Unsupported(_)));
    assert!(unsupported(put(&store, "b", b"x").await.map(drop)));
    assert!(unsupported(store.remove(&path("a")).await));
    let store = open_target(SqlTarget { delete: None, ..full }).await;
    put(&store, "b", b"x").await.unwrap();
    let renamed = store.rename(&path("b"), &path("c"), Existing::Refuse).await;
    assert!(unsupported(renamed.map(drop)));
    assert_eq!(names(&store).await, ["a", "b"], "a rename is done whole or not at all");
}

#[tokio::test]
async fn rows_whose_names_are_no_names_are_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let (target, connection) = sqlite(folder.path());
    let rows = "INSERT INTO files VALUES ('a/b', x'00', 0), ('..', x'00', 0), ('.', x'00', 0), \
                ('', x'00', 0), (NULL, x'00', 0), (x'ff', x'00', 0), (7, x'00', 0), \
                ('.entrepot-staging', x'00', 0), ('good', x'00', 0)";
    connection.execute_batch(rows).unwrap();
    let store = open_target(target).await;
    assert_eq!(names(&store).await, ["good"]);
    assert_eq!(store.stat(&path("a/b")).await, Err(StoreError::NotFound));
}

#[tokio::test]
async fn times_are_numbers_or_texts_and_contents_bytes_or_texts() {
    let folder = tempfile::tempdir().unwrap();
    let (target, connection) = sqlite(folder.path());
    let rows = "INSERT INTO files VALUES ('text', 'h\u{e9}', '2026-11-21 03:45:00'), \
                ('none', NULL, NULL), ('number', 5, 9.5)";
    connection.execute_batch(rows).unwrap();
    let list =
        "SELECT name, coalesce(length(CAST(content AS BLOB)), 0) AS size, modified FROM files";
    let target = SqlTarget { list: Some(list.to_owned()), ..target };
    let store = open_target(target.clone()).await;
    assert_eq!(store.stat(&path("text")).await.unwrap().modified.seconds(), 1_795_232_700);
    assert_eq!(store.stat(&path("number")).await.unwrap().modified.seconds(), 9);
    assert_eq!(get(&store, "text").await.unwrap(), "h\u{e9}".as_bytes());
    assert_eq!(get(&store, "none").await.unwrap(), b"");
    assert!(matches!(get(&store, "number").await, Err(StoreError::Denied(_))));
    let store = open_target(SqlTarget { content: SqlContent::Text, ..target }).await;
    put(&store, "new", b"text").await.unwrap();
    let kind = "SELECT typeof(content) FROM files WHERE name = 'new'";
    let kind: String = connection.query_row(kind, [], |row| row.get(0)).unwrap();
    assert_eq!(kind, "text");
    assert!(matches!(put(&store, "bad", b"\xff").await, Err(StoreError::Denied(_))));
}

#[tokio::test]
async fn statements_that_do_something_else_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (full, connection) = sqlite(folder.path());
    connection.execute_batch("INSERT INTO files VALUES ('a', x'61', 5)").unwrap();
    let rows = || -> i64 {
        connection.query_row("SELECT count(*) FROM files", [], |row| row.get(0)).unwrap()
    };
    let writes = [
        "INSERT INTO files VALUES ('other', $2, $3)",
        "INSERT INTO files VALUES ($1, x'00', $3)",
        "INSERT INTO nowhere VALUES ($1, $2, $3)",
        "nonsense",
    ];
    for write in writes {
        let target = SqlTarget { write: Some(write.to_owned()), ..full.clone() };
        let store = open_target(target).await;
        let refused = put(&store, "b", b"content").await;
        assert!(matches!(refused, Err(StoreError::Denied(_))), "{write}: {refused:?}");
        assert_eq!(rows(), 1, "{write}");
    }
    let delete = Some("DELETE FROM files WHERE name = 'z'".to_owned());
    let store = open_target(SqlTarget { delete, ..full.clone() }).await;
    assert!(matches!(store.remove(&path("a")).await, Err(StoreError::Denied(_))));
    for read in ["DELETE FROM files RETURNING content", "UPDATE files SET name = 'x'"] {
        let store = open_target(SqlTarget { read: Some(read.to_owned()), ..full.clone() }).await;
        assert!(matches!(get(&store, "a").await, Err(StoreError::Denied(_))), "{read}");
        assert_eq!(rows(), 1);
    }
    let list = Some("SELECT name, 7 AS size, modified FROM files".to_owned());
    let store = open_target(SqlTarget { list, ..full }).await;
    let Err(StoreError::Io(why)) = get(&store, "a").await else { panic!("a wrong size is taken") };
    assert!(why.contains("7 bytes") && why.contains("gives 1"), "{why}");
}

#[tokio::test]
async fn files_have_a_limit() {
    let folder = tempfile::tempdir().unwrap();
    let (target, _connection) = sqlite(folder.path());
    let store = open_target(target).await;
    let file = store.stage(Env::real().new_id(), &path("f")).await.unwrap();
    let last = limits::SQL_FILE_BYTES - 1;
    file.write_at(last, Bytes::from_static(b"x")).await.unwrap();
    let over = file.write_at(last + 1, Bytes::from_static(b"x")).await;
    assert!(matches!(over, Err(StoreError::Denied(_))), "{over:?}");
    assert!(file.set_len(last + 2).await.is_err());
    file.discard().await.unwrap();
}

#[tokio::test]
async fn reports_are_files_that_nobody_writes() {
    let folder = tempfile::tempdir().unwrap();
    let (full, connection) = sqlite(folder.path());
    connection.execute_batch("INSERT INTO files VALUES ('a', 'x,y', 5), ('b', NULL, 6)").unwrap();
    let report = "SELECT name, content, modified FROM files ORDER BY name;".to_owned();
    let reports = BTreeMap::from([
        ("all.csv".to_owned(), report),
        ("bad.csv".to_owned(), "DELETE FROM files".to_owned()),
    ]);
    let store = open_target(SqlTarget { reports, ..full }).await;
    let wanted = b"name,content,modified\r\na,\"x,y\",5\r\nb,,6\r\n";
    assert_eq!(get(&store, "all.csv").await.unwrap(), wanted);
    assert_eq!(store.stat(&path("all.csv")).await.unwrap().size, wanted.len() as u64);
    assert!(matches!(get(&store, "bad.csv").await, Err(StoreError::Denied(_))));
    assert!(matches!(put(&store, "all.csv", b"x").await, Err(StoreError::Denied(_))));
    assert!(matches!(store.remove(&path("all.csv")).await, Err(StoreError::Denied(_))));
    let onto = store.rename(&path("a"), &path("all.csv"), Existing::Replace).await;
    assert!(matches!(onto, Err(StoreError::Denied(_))), "{onto:?}");
}

#[tokio::test]
async fn a_database_that_is_away_or_full_of_others_is_tried_again_later() {
    let missing = open_target(target("sqlite:/no/such/file.db".to_owned())).await;
    let away = missing.stat(&path("a")).await;
    assert!(matches!(away, Err(StoreError::Unavailable(_))), "{away:?}");
    let server = Postgres::launch().unwrap();
    let url = server.create_database().unwrap();
    let table = "CREATE TABLE files (name TEXT PRIMARY KEY, content TEXT, modified BIGINT)";
    server.run_sql(url.rsplit('/').next().unwrap(), table).unwrap();
    let list = "SELECT name, octet_length(content) AS size, modified FROM files";
    let reports = "SELECT name, modified FROM files ORDER BY name";
    let target = SqlTarget {
        list: Some(list.to_owned()),
        reports: BTreeMap::from([("all.csv".to_owned(), reports.to_owned())]),
        ..target(url)
    };
    let store = open_target(target.clone()).await;
    put(&store, "a", "text \u{e9}".as_bytes()).await.unwrap();
    assert_eq!(get(&store, "a").await.unwrap(), "text \u{e9}".as_bytes());
    assert!(get(&store, "all.csv").await.unwrap().starts_with(b"name,modified\r\na,"));
    let refused = put(&store, "b", b"\xff").await;
    assert!(matches!(refused, Err(StoreError::Denied(_))), "{refused:?}");
    server.stop().unwrap();
    let away = store.stat(&path("a")).await;
    assert!(matches!(away, Err(StoreError::Unavailable(_))), "{away:?}");
    server.start().unwrap();
    assert_eq!(get(&store, "a").await.unwrap(), "text \u{e9}".as_bytes());
    let private = open_target(SqlTarget { allow_private: false, ..target }).await;
    assert!(matches!(private.stat(&path("a")).await, Err(StoreError::Denied(_))));
}

/// Of a table with one row for all names that differ by case only.
async fn case_only_renames_lose_nothing(full: SqlTarget) {
    let store = open_target(full.clone()).await;
    put(&store, "a", b"content").await.unwrap();
    assert_eq!(store.stat(&path("A")).await, Err(StoreError::NotFound));
    // The table's 'write' keeps the old name: nothing is renamed then.
    let kept = store.rename(&path("a"), &path("A"), Existing::Refuse).await;
    assert!(matches!(kept, Err(StoreError::Denied(_))), "{kept:?}");
    assert!(matches!(put(&store, "A", b"x").await, Err(StoreError::Denied(_))));
    assert_eq!(get(&store, "a").await.unwrap(), b"content");
    let write = UPSERT.replace("SET", "SET name = excluded.name,");
    let store = open_target(SqlTarget { write: Some(write), ..full }).await;
    store.rename(&path("a"), &path("A"), Existing::Refuse).await.unwrap();
    assert_eq!(names(&store).await, ["A"]);
    assert_eq!(get(&store, "A").await.unwrap(), b"content");
}

/// Of a table with a row for each name, whose 'delete' takes them for one.
async fn case_only_renames_are_refused_where_both_names_are_removed(full: SqlTarget) {
    let write = Some("INSERT INTO files VALUES ($1, $2, $3)".to_owned());
    let store = open_target(SqlTarget { write, ..full }).await;
    put(&store, "a", b"content").await.unwrap();
    let both = store.rename(&path("a"), &path("A"), Existing::Refuse).await;
    assert!(matches!(both, Err(StoreError::Denied(_))), "{both:?}");
    assert_eq!(names(&store).await, ["a"]);
    assert_eq!(get(&store, "a").await.unwrap(), b"content");
}

#[tokio::test]
async fn names_differ_by_case_whatever_the_column_says() {
    for (key, unique) in [("PRIMARY KEY", true), ("", false)] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("files.db");
        let table =
            format!("CREATE TABLE files (name TEXT COLLATE NOCASE {key}, content, modified)");
        rusqlite::Connection::open(&file).unwrap().execute_batch(&table).unwrap();
        let target = target(format!("sqlite:{}", file.display()));
        if unique {
            case_only_renames_lose_nothing(target).await
        } else {
            case_only_renames_are_refused_where_both_names_are_removed(target).await
        }
    }
}

#[test]
fn targets_that_cannot_work_are_refused() {
    let check = |target: SqlTarget| {
        let target = EndpointTarget::Sql(target);
        let name = "e".parse().unwrap();
        Endpoint {
            name,
            target,
            paused: false,
            at_once: None,
            users: Vec::new(),
            note: String::new(),
        }
        .check()
    };
    let good = |url: &str| target(url.to_owned());
    assert!(check(good("sqlite:/srv/a.db")).is_ok());
    assert!(check(good("postgres://u@h/d?sslmode=require")).is_ok());
    for url in ["sqlite:a.db", "sqlite:", "mysql://u@h/d", "/srv/a.db", "postgres://u:secret@h/d"] {
        assert!(check(good(url)).is_err(), "{url}");
    }
    let good = || good("sqlite:/srv/a.db");
    assert!(check(SqlTarget { read: None, ..good() }).is_err());
    assert!(check(SqlTarget { list: None, read: None, ..good() }).is_err());
    let reports = BTreeMap::from([("a/b".to_owned(), "SELECT 1".to_owned())]);
    assert!(check(SqlTarget { reports, ..good() }).is_err());
}
