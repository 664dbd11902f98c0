//! Staging, writing, reading back, resuming.

use bytes::{Bytes, BytesMut};
use entrepot_storage::*;

use crate::*;

#[tokio::test]
async fn what_was_written_is_read_back() {
    for kind in each().await {
        let store = &*kind.store;
        for size in [0, 1, 1000, 65_536, 300_001] {
            let data = pattern(size as u64, size);
            let done = put(store, "a.bin", &data).await.unwrap();
            assert_eq!(done.meta.size, size as u64, "{}", kind.name);
            assert_eq!(done.meta.kind, EntryKind::File);
            assert_eq!(get(store, "a.bin").await.unwrap(), data, "{}", kind.name);
            let meta = store.stat(&path("a.bin")).await.unwrap();
            assert_eq!((meta.size, &meta.identity), (size as u64, &done.identity), "{}", kind.name);
        }
    }
}

#[tokio::test]
async fn nothing_is_visible_before_the_publish() {
    for kind in each().await {
        let store = &*kind.store;
        put(store, "old", b"old version").await.unwrap();
        let file = store.stage(id(), &path("old")).await.unwrap();
        let fresh = store.stage(id(), &path("new")).await.unwrap();
        for file in [&file, &fresh] {
            write(&**file, 0, b"new version!").await.unwrap();
            file.sync().await.unwrap();
        }
        assert_eq!(names(store, "", 10).await.unwrap(), ["old"], "{}", kind.name);
        assert_eq!(get(store, "old").await.unwrap(), b"old version", "{}", kind.name);
        assert_eq!(store.stat(&path("new")).await, Err(StoreError::NotFound), "{}", kind.name);
        let reader = store.open(&path("old")).await.unwrap();
        assert!(file.publish(&how(Existing::Replace, 12)).await.unwrap().replaced());
        assert!(!fresh.publish(&how(Existing::Replace, 12)).await.unwrap().replaced());
        assert_eq!(get(store, "old").await.unwrap(), b"new version!", "{}", kind.name);
        if kind.store.caps().random_write {
            let old = reader.read_at(0, BytesMut::new(), 100).await.unwrap();
            assert_eq!(&old[..], b"old version", "{}: an open file changed", kind.name);
        }
    }
}

#[tokio::test]
async fn writes_come_in_any_order_and_overlap() {
    for kind in each().await.into_iter().filter(|kind| kind.store.caps().random_write) {
        let store = &*kind.store;
        let data = pattern(1, 100_000);
        let file = store.stage(id(), &path("f")).await.unwrap();
        for start in [60_000, 0, 30_000, 90_000, 20_000] {
            let end = (start + 40_000).min(data.len());
            write(&*file, start as u64, &data[start..end]).await.unwrap();
        }
        assert_eq!(file.size(), 100_000);
        let back = file.read_at(50_000, BytesMut::from("x"), 10).await.unwrap();
        assert_eq!(&back[1..], &data[50_000..50_010], "{}", kind.name);
        file.sync().await.unwrap();
        file.publish(&how(Existing::Refuse, data.len())).await.unwrap();
        assert_eq!(get(store, "f").await.unwrap(), data, "{}", kind.name);
    }
}

#[tokio::test]
async fn holes_read_as_zeros_and_lengths_can_be_set() {
    for kind in each().await.into_iter().filter(|kind| kind.store.caps().random_write) {
        let store = &*kind.store;
        let file = store.stage(id(), &path("f")).await.unwrap();
        write(&*file, 10_000, b"end").await.unwrap();
        file.set_len(20_000).await.unwrap();
        file.set_len(10_002).await.unwrap();
        assert_eq!(file.size(), 10_002);
        file.sync().await.unwrap();
        file.publish(&how(Existing::Refuse, 10_002)).await.unwrap();
        let mut want = vec![0; 10_000];
        want.extend_from_slice(b"en");
        assert_eq!(get(store, "f").await.unwrap(), want, "{}", kind.name);
    }
}

#[tokio::test]
async fn a_kept_file_is_resumed() {
    for kind in each().await {
        let store = &*kind.store;
        let id = id();
        let file = store.stage(id, &path("f")).await.unwrap();
        // Where only whole parts are kept: more than one of them.
        let len = if file.kept().is_some() { 2 * limits::PART_BYTES + 1000 } else { 6 };
        let data = pattern(12, len + 100);
        file.write_at(0, Bytes::copy_from_slice(&data[..len])).await.unwrap();
        let identity = file.identity();
        let kept = file.kept().unwrap_or(len as u64);
        assert!(kept > len as u64 / 2, "{}", kind.name);
        let twice = store.resume(id, &path("f")).await;
        assert!(matches!(twice, Err(StoreError::Unavailable(_))), "{}: two writers", kind.name);
        drop(file);
        let staged = store.staged().await.unwrap();
        assert_eq!(staged.len(), 1, "{}", kind.name);
        assert_eq!((staged[0].id, staged[0].size), (id, kept));
        assert_eq!(staged[0].identity, identity);
        let file = store.resume(id, &path("f")).await.unwrap();
        assert_eq!((file.size(), file.identity()), (kept, identity));
        write(&*file, kept, &data[kept as usize..]).await.unwrap();
        file.sync().await.unwrap();
        file.publish(&how(Existing::Refuse, data.len())).await.unwrap();
        drop(file);
        assert!(get(store, "f").await.unwrap() == data, "{}", kind.name);
        assert!(store.staged().await.unwrap().is_empty(), "{}", kind.name);
        let gone = store.resume(id, &path("f")).await;
        assert!(matches!(gone, Err(StoreError::NotFound)), "{}", kind.name);
    }
}

#[tokio::test]
async fn discarding_leaves_nothing() {
    for kind in each().await {
        let store = &*kind.store;
        let (first, second) = (id(), id());
        let file = store.stage(first, &path("f")).await.unwrap();
        write(&*file, 0, &pattern(1, 1000)).await.unwrap();
        file.discard().await.unwrap();
        drop(file);
        if kind.store.caps().resume {
            drop(store.stage(second, &path("f")).await.unwrap());
        }
        store.discard_staged(second).await.unwrap();
        store.discard_staged(second).await.unwrap();
        assert!(store.staged().await.unwrap().is_empty(), "{}", kind.name);
        assert!(names(store, "", 10).await.unwrap().is_empty(), "{}", kind.name);
    }
}

#[tokio::test]
async fn reads_at_odd_places() {
    for kind in each().await {
        let store = &*kind.store;
        let data = pattern(9, 10_000);
        put(store, "f", &data).await.unwrap();
        let file = store.open(&path("f")).await.unwrap();
        for (offset, len) in [(0, 1), (9_999, 1), (9_999, 5), (10_000, 5), (50_000, 5), (17, 0)] {
            let want = data.get(offset..(offset + len).min(data.len())).unwrap_or_default();
            let got = file.read_at(offset as u64, BytesMut::new(), len).await.unwrap();
            assert_eq!(&got[..], want, "{} at {offset}", kind.name);
            let mut buf = vec![0; len];
            if let Some(count) = file.try_read_at(offset as u64, &mut buf).unwrap() {
                assert_eq!(&buf[..count], want, "{} at {offset}", kind.name);
            }
        }
    }
}

#[tokio::test]
async fn impossible_offsets_are_refused() {
    for kind in each().await {
        let file = kind.store.stage(id(), &path("f")).await.unwrap();
        for offset in [u64::MAX, u64::MAX - 2, i64::MAX as u64] {
            assert!(file.try_write_at(offset, b"abc").is_err(), "{}", kind.name);
            let data = Bytes::from_static(b"abc");
            assert!(file.write_at(offset, data).await.is_err(), "{}", kind.name);
        }
        file.discard().await.unwrap();
    }
}

#[tokio::test]
async fn a_range_is_copied_where_it_lies_or_not_at_all() {
    for kind in each().await {
        let store = &kind.store;
        let bytes = pattern(9, 300_000);
        put(&**store, "source", &bytes).await.unwrap();
        let source = store.open(&path("source")).await.unwrap();
        let staged = store.stage(id(), &path("copy")).await.unwrap();
        let range = CopyRange { from: 1000, at: 0, len: 200_000 };
        let Some(copied) = staged.copy_in(&*source, range).await.unwrap() else {
            assert!(!kind.name.starts_with("fs"), "the disk of this machine copies");
            continue;
        };
        assert_eq!(copied, 200_000, "{}", kind.name);
        let behind = CopyRange { from: 299_990, at: 200_000, len: 100 };
        assert_eq!(staged.copy_in(&*source, behind).await.unwrap(), Some(10));
        let past = CopyRange { from: 300_000, at: 200_010, len: 100 };
        assert_eq!(staged.copy_in(&*source, past).await.unwrap(), Some(0));
        staged.sync().await.unwrap();
        staged.publish(&how(Existing::Refuse, 200_010)).await.unwrap();
        let wanted = [&bytes[1000..201_000], &bytes[299_990..]].concat();
        assert_eq!(get(&**store, "copy").await.unwrap(), wanted);
        let impossible = CopyRange { from: u64::MAX - 5, at: 0, len: 100 };
        let staged = store.stage(id(), &path("other")).await.unwrap();
        assert!(staged.copy_in(&*source, impossible).await.is_err());
    }
}
