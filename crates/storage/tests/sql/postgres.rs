//! PostgreSQL over a line: what does not answer, and what is too large to be heard to its end.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use entrepot_nouns::endpoint::SqlTarget;
use entrepot_storage::*;
use entrepot_testkit::postgres::Postgres;

use crate::line::Line;
use crate::{get, names, open_target, path, put, target};

const TABLE: &str = "CREATE TABLE files (name TEXT PRIMARY KEY, content TEXT, modified BIGINT)";
const LIST: &str = "SELECT name, octet_length(content) AS size, modified FROM files";

/// A new database with `statements` done, by a line of its own.
fn database(statements: &str) -> (SqlTarget, Arc<Line>) {
    let server = Postgres::shared();
    let url = server.create_database().unwrap();
    let (before, name) = url.rsplit_once('/').unwrap();
    server.run_sql(name, statements).unwrap();
    let port = before.rsplit(':').next().unwrap();
    let (line, near) = Line::to(port.parse().unwrap());
    let url = url.replace(&format!(":{port}/"), &format!(":{near}/"));
    (SqlTarget { list: Some(LIST.to_owned()), ..target(url) }, line)
}

#[tokio::test]
async fn a_server_that_goes_without_a_word_holds_nobody_up_for_ever() {
    let (target, line) = database(TABLE);
    let store = open_target(target).await;
    put(&store, "a", b"x").await.unwrap();
    *line.dies_at.lock().unwrap() = Some("COMMIT");
    let theirs = Arc::clone(&store);
    let hung = tokio::spawn(async move { put(&theirs, "b", b"x").await });
    line.died.notified().await;
    // Nothing else waits here: the clock goes to where it is given up.
    tokio::time::pause();
    let late = hung.await.unwrap();
    tokio::time::resume();
    assert!(matches!(late, Err(StoreError::Unavailable(_))), "{late:?}");
    // Neither the name nor the others' turn is held.
    put(&store, "b", b"xy").await.unwrap();
    assert_eq!(names(&store).await, ["a", "b"]);
    *line.dies_at.lock().unwrap() = Some("SELECT content");
    let theirs = Arc::clone(&store);
    let hung = tokio::spawn(async move { get(&theirs, "b").await });
    line.died.notified().await;
    tokio::time::pause();
    let late = hung.await.unwrap();
    tokio::time::resume();
    assert!(matches!(late, Err(StoreError::Unavailable(_))), "{late:?}");
    assert_eq!(get(&store, "b").await.unwrap(), b"xy");
}

#[tokio::test]
async fn what_is_too_large_is_not_heard_to_its_end() {
    let rows = "INSERT INTO files SELECT name, repeat('x', 70000000), 0 FROM (VALUES ('lie'), \
                ('true')) AS names (name); INSERT INTO files VALUES ('small', 'abc', 0)";
    let (full, line) = database(&format!("{TABLE}; {rows}"));
    let list = "SELECT name, CASE name WHEN 'true' THEN octet_length(content) ELSE 3 END AS size, \
                modified FROM files";
    let report = "SELECT repeat('x', 1000000) FROM generate_series(1, 1000)".to_owned();
    let reports = BTreeMap::from([("all.csv".to_owned(), report)]);
    let store = open_target(SqlTarget { list: Some(list.to_owned()), reports, ..full }).await;
    for name in ["lie", "true"] {
        let refused = get(&store, name).await;
        assert!(matches!(refused, Err(StoreError::Denied(_))), "{name}");
        let renamed = store.rename(&path(name), &path("new"), Existing::Refuse).await;
        assert!(matches!(renamed, Err(StoreError::Denied(_))), "{renamed:?}");
    }
    assert!(line.came.load(Ordering::SeqCst) < 1_000_000, "the content was sent");
    let refused = get(&store, "all.csv").await;
    assert!(matches!(refused, Err(StoreError::Denied(_))));
    assert!(line.came.load(Ordering::SeqCst) < 2 * limits::SQL_FILE_BYTES, "all of it was sent");
    assert_eq!(get(&store, "small").await.unwrap(), b"abc");
}

#[tokio::test]
async fn connections_that_fail_are_tried_again_and_wrong_columns_are_not() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let resets = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = resets.local_addr().unwrap().port();
    std::thread::spawn(move || resets.incoming().for_each(drop));
    for at in [format!("127.0.0.1:{closed}"), format!("127.0.0.1:{port}"), "no.invalid".into()] {
        let store = open_target(target(format!("postgres://u@{at}/d?sslmode=disable"))).await;
        let away = store.stat(&path("a")).await;
        assert!(matches!(away, Err(StoreError::Unavailable(_))), "{at}: {away:?}");
    }
    let (full, _line) = database(&format!("{TABLE}; INSERT INTO files VALUES ('a', 'x', 0)"));
    for columns in ["name, octet_length(content) AS size, 'now' AS modified", "name, 1 AS size"] {
        let list = Some(format!("SELECT {columns} FROM files"));
        let store = open_target(SqlTarget { list, ..full.clone() }).await;
        let wrong = store.stat(&path("a")).await;
        assert!(matches!(wrong, Err(StoreError::Denied(_))), "{columns}: {wrong:?}");
    }
    let read = Some("SELECT modified FROM files WHERE name = $1".to_owned());
    let store = open_target(SqlTarget { read, ..full }).await;
    assert!(matches!(get(&store, "a").await, Err(StoreError::Denied(_))));
}

#[tokio::test]
async fn names_differ_by_case_whatever_the_column_says() {
    let collation = "CREATE COLLATION ignores_case (provider = icu, locale = 'und-u-ks-level2', \
                     deterministic = false)";
    let key = "name TEXT COLLATE ignores_case PRIMARY KEY";
    let table = TABLE.replace("name TEXT PRIMARY KEY", key);
    let (target, _line) = database(&format!("{collation}; {table}"));
    crate::case_only_renames_lose_nothing(target).await;
    let (target, _line) = database(&format!("{collation}; {}", table.replace(" PRIMARY KEY", "")));
    crate::case_only_renames_are_refused_where_both_names_are_removed(target).await;
}
