//! What only object stores do: parts, orphans, lost answers.

use bytes::Bytes;
use entrepot_storage::*;
use entrepot_testkit::s3::S3Server;

use crate::*;

#[tokio::test]
async fn a_big_file_goes_up_in_parts_and_down_in_ranges() {
    let server = S3Server::start().unwrap();
    let store = on_server(&server);
    let data = pattern(3, 2 * limits::PART_BYTES + 12_345);
    let file = store.stage(id(), &path("big")).await.unwrap();
    let mut offset = 0;
    for chunk in data.chunks(700_001) {
        write(&*file, offset, chunk).await.unwrap();
        offset += chunk.len() as u64;
    }
    assert!(server.orphan_parts().unwrap() > 0, "nothing was sent before the publish");
    file.sync().await.unwrap();
    assert_eq!(store.stat(&path("big")).await, Err(StoreError::NotFound));
    let done = file.publish(&how(Existing::Refuse, data.len())).await.unwrap();
    assert_eq!(done.identity, file.identity());
    assert_eq!(store.stat(&path("big")).await.unwrap().identity, done.identity);
    assert!(get(&*store, "big").await.unwrap() == data);
    assert_eq!(server.orphan_parts().unwrap(), 0);
    let on_disk = std::fs::read(server.objects().join("some/prefix/big")).unwrap();
    assert!(on_disk == data, "the object is not the file");
}

#[tokio::test]
async fn a_multipart_upload_refuses_a_name_taken_meanwhile() {
    let server = S3Server::start().unwrap();
    let store = on_server(&server);
    let data = pattern(4, limits::PART_BYTES + 1);
    let file = store.stage(id(), &path("f")).await.unwrap();
    file.write_at(0, Bytes::from(data.clone())).await.unwrap();
    file.sync().await.unwrap();
    put(&*store, "f", b"first").await.unwrap();
    let late = file.publish(&how(Existing::Refuse, data.len())).await;
    assert_eq!(late, Err(StoreError::Exists));
    file.discard().await.unwrap();
    assert_eq!(server.orphan_parts().unwrap(), 0);
    assert_eq!(get(&*store, "f").await.unwrap(), b"first");
}

#[tokio::test]
async fn writes_out_of_order_are_refused_and_dropped_uploads_can_be_discarded() {
    let server = S3Server::start().unwrap();
    let store = on_server(&server);
    let id = id();
    let file = store.stage(id, &path("f")).await.unwrap();
    file.write_at(0, Bytes::from(pattern(5, limits::PART_BYTES + 1))).await.unwrap();
    for offset in [0, 7, limits::PART_BYTES as u64 + 2] {
        let skipped = file.write_at(offset, Bytes::from_static(b"x")).await;
        assert!(matches!(skipped, Err(StoreError::Unsupported(_))), "{skipped:?}");
    }
    drop(file);
    assert_eq!(store.staged().await.unwrap().len(), 1);
    assert!(server.orphan_parts().unwrap() > 0);
    store.discard_staged(id).await.unwrap();
    assert_eq!(server.orphan_parts().unwrap(), 0);
    assert!(store.staged().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_wrong_key_and_a_dead_server_are_told_apart() {
    let server = S3Server::start().unwrap();
    let target = entrepot_model::endpoint::ObjectTarget {
        bucket: "bucket".to_owned(),
        url: Some(server.url()),
        access_key_id: Some("AKIDEXAMPLE".to_owned()),
        allow_private: true,
        provider: Default::default(),
        prefix: String::new(),
        region: None,
        secret_key_sealed: None,
        secret_key: None,
    };
    let secret = Some("wrong".to_owned().into());
    let secrets = ResolvedSecrets { secret, private_key: None };
    let store = object::open(&target, &secrets, &env()).unwrap();
    let denied = store.stat(&path("f")).await;
    assert!(matches!(denied, Err(StoreError::Denied(_))), "{denied:?}");
    drop(server);
    let gone = store.stat(&path("f")).await;
    assert!(matches!(gone, Err(StoreError::Unavailable(_))), "{gone:?}");
}

#[tokio::test]
async fn a_directory_stays_when_its_last_file_goes() {
    let server = S3Server::start().unwrap();
    let store = on_server(&server);
    put(&*store, "made/by/name", b"x").await.unwrap();
    store.remove(&path("made/by/name")).await.unwrap();
    assert_eq!(store.stat(&path("made/by")).await.unwrap().kind, EntryKind::Directory);
    assert!(names(&*store, "made/by", 10).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_directory_of_many_pages_is_renamed_whole_and_its_parent_stays() {
    let server = S3Server::start().unwrap();
    let store = on_server(&server);
    let folder = server.objects().join("some/prefix/up/from/deep");
    std::fs::create_dir_all(&folder).unwrap();
    let mut want = Vec::new();
    for number in 0..2 * limits::OBJECT_RENAME_PAGE + 30 {
        want.push(format!("f{number:03}"));
        std::fs::write(folder.join(&want[number]), number.to_string()).unwrap();
    }
    put(&*store, "up/from/own", b"own").await.unwrap();
    let identity = store.stat(&path("up/from/own")).await.unwrap().identity;
    put(&*store, "up/from-other", b"stays").await.unwrap();
    store.rename(&path("up/from"), &path("to/there"), Existing::Refuse).await.unwrap();
    assert_eq!(names(&*store, "to/there/deep", 1000).await.unwrap(), want);
    assert_eq!(get(&*store, "to/there/deep/f229").await.unwrap(), b"229");
    assert_eq!(store.stat(&path("to/there/own")).await.unwrap().identity, identity);
    assert_eq!(names(&*store, "up", 9).await.unwrap(), ["from-other"]);
    store.remove(&path("up/from-other")).await.unwrap();
    // An empty one, out of a directory in which nothing else is.
    store.make_directory(&path("up/empty")).await.unwrap();
    store.rename(&path("up/empty"), &path("empty"), Existing::Refuse).await.unwrap();
    assert!(names(&*store, "empty", 9).await.unwrap().is_empty());
    assert!(names(&*store, "up", 9).await.unwrap().is_empty());
    assert_eq!(names(&*store, "", 9).await.unwrap(), ["empty", "to", "up"]);
}

#[tokio::test]
async fn a_directory_rename_that_fails_or_is_too_much_leaves_all_as_it_was() {
    let server = S3Server::start().unwrap();
    let store = on_server(&server);
    for name in ["from/a", "from/b", "from/c"] {
        put(&*store, name, name.as_bytes()).await.unwrap();
    }
    // No object, and yet the server cannot put one there.
    std::fs::create_dir_all(server.objects().join("some/prefix/to/b/x")).unwrap();
    let failed = store.rename(&path("from"), &path("to"), Existing::Refuse).await;
    assert!(matches!(failed, Err(StoreError::Unavailable(_))), "{failed:?}");
    assert_eq!(store.stat(&path("to")).await, Err(StoreError::NotFound), "copies are left");
    assert_eq!(names(&*store, "from", 9).await.unwrap(), ["a", "b", "c"]);
    let folder = server.objects().join("some/prefix/large");
    std::fs::create_dir_all(&folder).unwrap();
    for number in 0..=limits::OBJECT_RENAME_OBJECTS {
        std::fs::write(folder.join(number.to_string()), "").unwrap();
    }
    let refused = store.rename(&path("large"), &path("to"), Existing::Refuse).await;
    let Err(StoreError::Unsupported(why)) = refused else { panic!("{refused:?}") };
    assert!(why.contains("10,000"), "{why}");
    assert_eq!(store.stat(&path("to")).await, Err(StoreError::NotFound));
}

/// As a process that ends anywhere in it.
#[tokio::test]
async fn a_directory_rename_that_is_dropped_anywhere_loses_nothing() {
    let server = S3Server::start().unwrap();
    let store = on_server(&server);
    let files = ["a", "b", "deep/c", "deep/d", "e"];
    let mut ended = None;
    for polls in (1..4000).step_by(3) {
        let (from, to) = (format!("from{polls}"), format!("to{polls}"));
        for name in files {
            put(&*store, &format!("{from}/{name}"), name.as_bytes()).await.unwrap();
        }
        let (old, new) = (path(&from), path(&to));
        let mut renaming = store.rename(&old, &new, Existing::Refuse);
        let mut left = polls;
        let dropped = std::future::poll_fn(|context| {
            left -= 1;
            match renaming.as_mut().poll(context) {
                std::task::Poll::Pending if left == 0 => std::task::Poll::Ready(None),
                other => other.map(Some),
            }
        });
        ended = dropped.await;
        drop(renaming);
        for name in files {
            let there = match get(&*store, &format!("{from}/{name}")).await {
                Err(StoreError::NotFound) => get(&*store, &format!("{to}/{name}")).await,
                found => found,
            };
            assert_eq!(there.unwrap(), name.as_bytes(), "after {polls} polls");
        }
        if ended.is_some() {
            break;
        }
    }
    assert_eq!(ended, Some(Ok(Renamed { replaced: false })));
}

/// Another process knows of an upload only by its ticket.
#[tokio::test]
async fn an_upload_is_resumed_by_its_ticket() {
    let server = S3Server::start().unwrap();
    let data = pattern(6, 3 * limits::PART_BYTES + 77);
    let part = limits::PART_BYTES as u64;
    let (id, other) = (id(), id());
    let file = on_server(&server).stage(id, &path("f")).await.unwrap();
    assert_eq!((file.kept(), file.ticket()), (Some(0), None));
    file.write_at(0, Bytes::from(data[..2 * limits::PART_BYTES + 1].to_vec())).await.unwrap();
    let ticket = file.ticket().unwrap();
    file.write_at(2 * part + 1, Bytes::from(data[2 * limits::PART_BYTES + 1..].to_vec()))
        .await
        .unwrap();
    assert_eq!(file.kept(), Some(3 * part));
    drop(file);

    let store = on_server(&server);
    assert!(matches!(store.resume(id, &path("f")).await, Err(StoreError::NotFound)));
    assert!(store.adopt(id, &path("elsewhere"), &ticket).is_err());
    store.adopt(id, &path("f"), &ticket).unwrap();
    // Parts that came after the ticket are sent again, and so is what is cut off.
    let file = store.resume(id, &path("f")).await.unwrap();
    assert_eq!(file.size(), 2 * part);
    assert!(file.set_len(part + 1).await.is_err());
    file.set_len(part).await.unwrap();
    file.write_at(part, Bytes::from(data[limits::PART_BYTES..].to_vec())).await.unwrap();
    file.sync().await.unwrap();
    let done = file.publish(&how(Existing::Refuse, data.len())).await.unwrap();
    assert_eq!(store.stat(&path("f")).await.unwrap().identity, done.identity);
    assert!(get(&*store, "f").await.unwrap() == data);
    drop(file);

    store.adopt(other, &path("f"), &ticket).unwrap();
    let file = store.resume(other, &path("f")).await.unwrap();
    store.discard_staged(other).await.unwrap();
    drop(file);
    assert!(store.staged().await.unwrap().is_empty(), "dropped while a handle was at work");
}
