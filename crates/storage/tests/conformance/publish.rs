//! Publishing: replace, refuse, races, times.

use std::sync::Arc;

use entrepot_nouns::Timestamp;
use entrepot_storage::*;

use crate::*;

#[tokio::test]
async fn a_taken_name_is_refused_when_asked() {
    for kind in each().await {
        let store = &*kind.store;
        put_as(store, "f", b"first", Existing::Refuse).await.unwrap();
        let second = put_as(store, "f", b"second", Existing::Refuse).await;
        assert_eq!(second, Err(StoreError::Exists), "{}", kind.name);
        assert_eq!(get(store, "f").await.unwrap(), b"first", "{}", kind.name);
        assert!(store.staged().await.unwrap().is_empty(), "{}", kind.name);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_several_who_refuse_to_replace_one_wins() {
    for kind in each().await.into_iter().filter(|kind| kind.refuses_in_one_step) {
        for round in 0..20 {
            let name = format!("f{round}");
            let tasks: Vec<_> = (0..4u8)
                .map(|writer| {
                    let (store, name) = (Arc::clone(&kind.store), name.clone());
                    let put = async move {
                        put_as(&*store, &name, &[writer; 100], Existing::Refuse).await
                    };
                    tokio::spawn(put)
                })
                .collect();
            let mut winners = Vec::new();
            for (writer, task) in (0u8..).zip(tasks) {
                match task.await.unwrap() {
                    Ok(_) => winners.push(writer),
                    Err(error) => assert_eq!(error, StoreError::Exists, "{}", kind.name),
                }
            }
            assert_eq!(winners.len(), 1, "{}: {winners:?}", kind.name);
            assert_eq!(get(&*kind.store, &name).await.unwrap(), [winners[0]; 100]);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn six_writers_of_one_name_leave_one_whole_file() {
    for kind in each().await {
        let tasks: Vec<_> = (0..6u64)
            .map(|writer| {
                let store = Arc::clone(&kind.store);
                tokio::spawn(async move {
                    for round in 0..5 {
                        let data = pattern(writer * 100 + round, 20_000);
                        put(&*store, "f", &data).await.unwrap();
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        let found = get(&*kind.store, "f").await.unwrap();
        let whole = (0..6).any(|writer| found == pattern(writer * 100 + 4, 20_000));
        assert!(whole, "{}: the file is of no writer's last round", kind.name);
        assert!(kind.store.staged().await.unwrap().is_empty(), "{}", kind.name);
    }
}

#[tokio::test]
async fn what_becomes_of_a_taken_name_meanwhile_is_seen() {
    for kind in each().await.into_iter().filter(|kind| kind.store.caps().directories) {
        let store = &*kind.store;
        for name in ["removed", "directory"] {
            put(store, name, b"first").await.unwrap();
            let file = store.stage(id(), &path(name)).await.unwrap();
            write(&*file, 0, b"second").await.unwrap();
            file.sync().await.unwrap();
            store.remove(&path(name)).await.unwrap();
            if name == "directory" {
                store.make_directory(&path(name)).await.unwrap();
                let refused = file.publish(&how(Existing::Replace, 6)).await;
                assert_eq!(refused, Err(StoreError::IsDirectory), "{}", kind.name);
                assert_eq!(store.stat(&path(name)).await.unwrap().kind, EntryKind::Directory);
                file.discard().await.unwrap();
            } else {
                let published = file.publish(&how(Existing::Replace, 6)).await.unwrap();
                assert!(!published.replaced(), "{}", kind.name);
                assert_eq!(get(store, name).await.unwrap(), b"second", "{}", kind.name);
            }
        }
    }
}

#[tokio::test]
async fn a_wrong_size_and_unsynced_bytes_publish_nothing() {
    for kind in each().await {
        let store = &*kind.store;
        let file = store.stage(id(), &path("f")).await.unwrap();
        write(&*file, 0, b"12345").await.unwrap();
        assert!(file.publish(&how(Existing::Replace, 5)).await.is_err(), "{} unsynced", kind.name);
        file.sync().await.unwrap();
        assert!(file.publish(&how(Existing::Replace, 4)).await.is_err(), "{}", kind.name);
        assert_eq!(store.stat(&path("f")).await, Err(StoreError::NotFound), "{}", kind.name);
        file.publish(&how(Existing::Replace, 5)).await.unwrap();
        assert!(file.try_write_at(5, b"more").is_err(), "{} written after", kind.name);
        assert_eq!(get(store, "f").await.unwrap(), b"12345");
    }
}

#[tokio::test]
async fn times_are_set_with_the_publish_and_after() {
    for kind in each().await.into_iter().filter(|kind| kind.sets_times) {
        let store = &*kind.store;
        let older = if kind.seconds { Timestamp::from_seconds(2) } else { Timestamp(-1_500_000) };
        let old = Timestamp::from_seconds(1_500_000_000);
        let file = store.stage(id(), &path("f")).await.unwrap();
        file.sync().await.unwrap();
        let times =
            Publish { modified: Some(old), accessed: Some(older), ..how(Existing::Replace, 0) };
        let meta = file.publish(&times).await.unwrap().meta;
        assert_eq!((meta.modified, meta.accessed), (old, older), "{}", kind.name);
        assert_eq!(store.stat(&path("f")).await.unwrap(), meta, "{}", kind.name);
        store.set_times(&path("f"), None, Some(older)).await.unwrap();
        let meta = store.stat(&path("f")).await.unwrap();
        assert_eq!((meta.modified, meta.accessed), (older, older), "{}", kind.name);
        store.make_directory(&path("d")).await.unwrap();
        store.set_times(&path("d"), Some(old), Some(old)).await.unwrap();
        assert_eq!(store.stat(&path("d")).await.unwrap().modified, old, "{}", kind.name);
        let missing = store.set_times(&path("x"), None, Some(old)).await;
        assert_eq!(missing, Err(StoreError::NotFound), "{}", kind.name);
    }
}

#[tokio::test]
async fn targets_that_cannot_be_are_refused_early() {
    for kind in each().await.into_iter().filter(|kind| kind.store.caps().directories) {
        let store = &*kind.store;
        store.make_directory(&path("d")).await.unwrap();
        let onto = store.stage(id(), &path("d")).await.err();
        assert_eq!(onto, Some(StoreError::IsDirectory), "{}", kind.name);
        let missing = store.stage(id(), &path("no/f")).await.err();
        assert_eq!(missing, Some(StoreError::NotFound), "{}", kind.name);
        let late = store.stage(id(), &path("late")).await.unwrap();
        late.sync().await.unwrap();
        store.make_directory(&path("late")).await.unwrap();
        let onto = late.publish(&how(Existing::Replace, 0)).await.err();
        assert_eq!(onto, Some(StoreError::IsDirectory), "{}", kind.name);
        assert_eq!(store.stat(&path("late")).await.unwrap().kind, EntryKind::Directory);
        let root = store.stage(id(), &path("")).await;
        assert!(root.is_err(), "{}", kind.name);
    }
}
