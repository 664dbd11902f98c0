//! What only object stores do: parts, orphans, lost answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use entrepot_storage::*;
use entrepot_testkit::s3::S3Server;
use tokio::sync::{mpsc, watch};

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
    let target = entrepot_nouns::endpoint::ObjectTarget {
        url: Some(server.url()),
        access_key_id: Some("AKIDEXAMPLE".to_owned()),
        allow_private: true,
        ..entrepot_nouns::endpoint::ObjectTarget::new("bucket")
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
    assert_eq!(ended, Some(Ok(Renamed::default())));
}

/// Holds such requests until the sender is told to let them go; the receiver hears of each.
fn hold(
    server: &S3Server,
    held: &'static str,
) -> (watch::Sender<bool>, mpsc::UnboundedReceiver<()>) {
    let (open, opened) = watch::channel(false);
    let (tell, told) = mpsc::unbounded_channel();
    server.set_gate(move |request| {
        let (mut opened, tell) = (opened.clone(), tell.clone());
        async move {
            if request == held {
                let _ = tell.send(());
                let _ = opened.wait_for(|open| *open).await;
            }
            None
        }
    });
    (open, told)
}

fn is_busy<T: std::fmt::Debug>(answer: Result<T>) {
    match answer {
        Err(StoreError::Unavailable(why)) if why.contains("being renamed") => {}
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn nobody_changes_what_is_below_the_new_name_of_a_rename_that_runs() {
    let server = S3Server::start().unwrap();
    let store = on_server(&server);
    for name in ["from/x", "other/y", "lone"] {
        put(&*store, name, b"old").await.unwrap();
    }
    let early = store.stage(id(), &path("to/x")).await.unwrap();
    write(&*early, 0, b"new").await.unwrap();
    early.sync().await.unwrap();
    let (open, mut held) = hold(&server, "COPY some/prefix/to/x");
    let renaming = tokio::spawn({
        let store = store.clone();
        async move { store.rename(&path("from"), &path("to"), Existing::Refuse).await }
    });
    held.recv().await.unwrap();
    is_busy(early.publish(&how(Existing::Replace, 3)).await);
    is_busy(put(&*store, "to", b"new").await);
    is_busy(store.make_directory(&path("to/sub")).await);
    is_busy(store.rename(&path("lone"), &path("to/lone"), Existing::Replace).await);
    // Of another node.
    let folder = server.objects().join("some/prefix/to");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("w"), "another's").unwrap();
    is_busy(store.rename(&path("to/w"), &path("away"), Existing::Replace).await);
    is_busy(store.remove(&path("to/w")).await);
    is_busy(store.remove_directory(&path("to")).await);
    for (from, to) in [("other", "to/deep"), ("from", "elsewhere"), ("other", "from/in")] {
        is_busy(store.rename(&path(from), &path(to), Existing::Refuse).await);
    }
    // What only looks like it, and what is put below the old name.
    put(&*store, "to-other", b"beside").await.unwrap();
    put(&*store, "from/late", b"late").await.unwrap();
    open.send(true).unwrap();
    renaming.await.unwrap().unwrap();
    assert_eq!(names(&*store, "to", 9).await.unwrap(), ["late", "w", "x"]);
    assert_eq!(get(&*store, "to/x").await.unwrap(), b"old");
    early.publish(&how(Existing::Replace, 3)).await.unwrap();
    assert_eq!(get(&*store, "to/x").await.unwrap(), b"new");
}

#[tokio::test]
async fn a_rename_sees_what_was_on_its_way_below_its_new_name() {
    let server = S3Server::start().unwrap();
    let store = on_server(&server);
    put(&*store, "from/x", b"old").await.unwrap();
    let (open, mut held) = hold(&server, "PUT some/prefix/to/x");
    let putting = tokio::spawn({
        let store = store.clone();
        async move { put(&*store, "to/x", b"new").await }
    });
    held.recv().await.unwrap();
    let renaming = tokio::spawn({
        let store = store.clone();
        async move { store.rename(&path("from"), &path("to"), Existing::Refuse).await }
    });
    // Turns enough to end it if it did not wait.
    for _ in 0..100 {
        store.stat(&path("from/x")).await.ok();
    }
    open.send(true).unwrap();
    putting.await.unwrap().unwrap();
    assert_eq!(renaming.await.unwrap(), Err(StoreError::Exists));
    assert_eq!(get(&*store, "to/x").await.unwrap(), b"new");
    assert_eq!(get(&*store, "from/x").await.unwrap(), b"old");
}

#[tokio::test]
async fn a_rename_that_is_dropped_lets_others_go_on_below_its_new_name() {
    let server = S3Server::start().unwrap();
    let store = on_server(&server);
    put(&*store, "from/x", b"old").await.unwrap();
    let (_open, mut held) = hold(&server, "COPY some/prefix/to/x");
    let (from, to) = (path("from"), path("to"));
    let renaming = store.rename(&from, &to, Existing::Refuse);
    tokio::select! {
        _ = held.recv() => {}
        ended = renaming => panic!("{ended:?}"),
    }
    put(&*store, "to/y", b"new").await.unwrap();
    assert_eq!(get(&*store, "to/y").await.unwrap(), b"new");
}

#[tokio::test]
async fn a_rename_that_fails_removes_its_own_copies_and_nothing_else() {
    let server = S3Server::start().unwrap();
    let store = on_server(&server);
    let objects = server.objects().join("some/prefix");
    for name in ["from/a", "from/b", "from/c"] {
        put(&*store, name, name.as_bytes()).await.unwrap();
    }
    std::fs::write(objects.join("from/lost"), "lost").unwrap();
    server.set_gate(move |request| {
        let status = match request.strip_prefix("COPY some/prefix/to/") {
            // Another node puts its own there, and no copy of this one comes to be.
            Some("b") => std::fs::write(objects.join("to/b"), "another's").map(|()| Some(403)),
            // The copy is made, but the answer says otherwise.
            Some("lost") => {
                std::fs::copy(objects.join("from/lost"), objects.join("to/lost")).map(|_| Some(403))
            }
            _ => std::fs::create_dir_all(objects.join("to")).map(|()| None),
        };
        std::future::ready(status.unwrap())
    });
    let failed = store.rename(&path("from"), &path("to"), Existing::Refuse).await;
    assert!(matches!(failed, Err(StoreError::Denied(_))), "{failed:?}");
    assert_eq!(names(&*store, "to", 9).await.unwrap(), ["b"]);
    assert_eq!(get(&*store, "to/b").await.unwrap(), b"another's");
    assert_eq!(names(&*store, "from", 9).await.unwrap(), ["a", "b", "c", "lost"]);
}

#[tokio::test]
async fn a_rename_that_fails_waits_for_its_copies_before_it_removes_them() {
    let server = S3Server::start().unwrap();
    let store = on_server(&server);
    for name in ["from/a", "from/b"] {
        put(&*store, name, b"x").await.unwrap();
    }
    let (open, opened) = watch::channel(false);
    let (tell, mut told) = mpsc::unbounded_channel();
    server.set_gate(move |request| {
        let (mut opened, tell) = (opened.clone(), tell.clone());
        async move {
            match request.strip_prefix("COPY some/prefix/to/") {
                Some("a") => {
                    let _ = opened.wait_for(|open| *open).await;
                    None
                }
                Some(_) => {
                    let _ = tell.send(());
                    Some(403)
                }
                None => None,
            }
        }
    });
    let renaming = tokio::spawn({
        let store = store.clone();
        async move { store.rename(&path("from"), &path("to"), Existing::Refuse).await }
    });
    told.recv().await.unwrap();
    // Turns enough to end it if it did not wait.
    for _ in 0..100 {
        store.stat(&path("from/a")).await.unwrap();
    }
    assert!(!renaming.is_finished());
    open.send(true).unwrap();
    let failed = renaming.await.unwrap();
    assert!(matches!(failed, Err(StoreError::Denied(_))), "{failed:?}");
    assert_eq!(store.stat(&path("to")).await, Err(StoreError::NotFound), "a copy is left");
}

#[tokio::test]
async fn a_rename_whose_parent_cannot_be_held_is_undone() {
    let server = S3Server::start().unwrap();
    let store = on_server(&server);
    put(&*store, "up/from/a", b"x").await.unwrap();
    let marker = format!("PUT some/prefix/up/{}", limits::DIRECTORY_MARKER);
    server.set_gate(move |request| std::future::ready((request == marker).then_some(403)));
    let failed = store.rename(&path("up/from"), &path("to"), Existing::Refuse).await;
    assert!(matches!(failed, Err(StoreError::Denied(_))), "{failed:?}");
    assert_eq!(store.stat(&path("to")).await, Err(StoreError::NotFound), "a copy is left");
    assert_eq!(names(&*store, "up/from", 9).await.unwrap(), ["a"]);
}

#[tokio::test]
async fn old_names_that_do_not_go_are_tried_again_a_few_times() {
    let server = S3Server::start().unwrap();
    let store = on_server(&server);
    for (refused, to) in [(limits::OBJECT_RENAME_TRIES - 1, "to"), (u32::MAX, "never")] {
        put(&*store, "from/a", b"old").await.unwrap();
        let tried = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&tried);
        server.set_gate(move |request| {
            // So the client deletes: by a list of keys, here of one.
            let met = request == "POST " && count.fetch_add(1, Ordering::SeqCst) < refused;
            std::future::ready(met.then_some(403))
        });
        let ended = store.rename(&path("from"), &path(to), Existing::Refuse).await;
        assert_eq!(get(&*store, &format!("{to}/a")).await.unwrap(), b"old");
        if refused == u32::MAX {
            assert!(matches!(ended, Err(StoreError::Denied(_))), "{ended:?}");
            assert_eq!(tried.load(Ordering::SeqCst), limits::OBJECT_RENAME_TRIES);
            assert_eq!(get(&*store, "from/a").await.unwrap(), b"old");
            // Nobody is kept from it for ever.
            put(&*store, "never/a", b"new").await.unwrap();
        } else {
            ended.unwrap();
            assert_eq!(store.stat(&path("from")).await, Err(StoreError::NotFound));
        }
    }
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
