//! Permission bits: of stores that keep them, and of those that do not.

use super::kinds::Kind;
use super::*;

fn change(bits: u32, mask: u32, origin: ModeOrigin) -> ModeChange {
    ModeChange { bits, mask, origin }
}

fn asked(bits: u32) -> ModeChange {
    change(bits, 0o777, ModeOrigin::Request)
}

async fn put_with(kind: &Kind, name: &str, mode: Option<ModeChange>) -> Option<u32> {
    let file = kind.store.stage(id(), &path(name)).await.unwrap();
    file.sync().await.unwrap();
    let how = Publish { mode, ..how(Existing::Replace, 0) };
    let meta = file.publish(&how).await.unwrap().meta;
    assert_eq!(meta.mode, kind.store.stat(&path(name)).await.unwrap().mode, "{}", kind.name);
    meta.mode
}

#[tokio::test]
async fn modes_are_set_with_the_publish_and_after() {
    for kind in each().await.into_iter().filter(|kind| kind.store.caps().modes) {
        let (store, name) = (&*kind.store, kind.name);
        let plain = put_with(&kind, "plain", None).await.unwrap();
        assert_eq!(plain & !0o666, 0, "{name}: {plain:o}");
        assert_eq!(put_with(&kind, "f", Some(asked(0o640))).await, Some(0o640), "{name}");
        assert_eq!(put_with(&kind, "g", Some(asked(0o777))).await, Some(0o777), "{name}");
        // What is named when a file is made is no more than the umask leaves.
        let most = plain | (plain & 0o444) >> 2;
        let made = change(0o777, 0o777, ModeOrigin::Creation);
        assert_eq!(put_with(&kind, "made", Some(made)).await, Some(most), "{name}");
        let private = change(0o600, 0o777, ModeOrigin::Creation);
        assert_eq!(put_with(&kind, "private", Some(private)).await, Some(0o600), "{name}");
        // Only the bits of the mask count, the others stay.
        let narrow = change(0o777, 0o070, ModeOrigin::Request);
        assert_eq!(store.set_mode(&path("f"), narrow).await, Ok(0o670), "{name}");
        assert_eq!(store.set_mode(&path("f"), asked(0o755)).await, Ok(0o755), "{name}");
        assert_eq!(store.stat(&path("f")).await.unwrap().mode, Some(0o755), "{name}");
        let listed = store.list(&path("")).await.unwrap().next_page(1000).await.unwrap();
        let found = listed.iter().find(|entry| entry.name == "f").unwrap();
        assert_eq!(found.meta.mode, Some(0o755), "{name}: in a listing");
        assert_eq!(store.open(&path("f")).await.unwrap().meta().mode, Some(0o755), "{name}");
        let missing = store.set_mode(&path("x"), asked(0o600)).await;
        assert_eq!(missing, Err(StoreError::NotFound), "{name}");
    }
}

#[tokio::test]
async fn no_mode_shuts_this_process_out_or_sets_more_than_the_mask() {
    for kind in each().await.into_iter().filter(|kind| kind.store.caps().modes) {
        let (store, name) = (&*kind.store, kind.name);
        assert_eq!(put_with(&kind, "f", Some(asked(0))).await, Some(0o400), "{name}");
        assert_eq!(get(store, "f").await.unwrap(), b"", "{name}: still read");
        assert_eq!(store.set_mode(&path("f"), asked(0o7777)).await, Ok(0o777), "{name}");
        store.make_directory(&path("d")).await.unwrap();
        assert_eq!(store.set_mode(&path("d"), asked(0)).await, Ok(0o700), "{name}");
        put(store, "d/f", b"").await.unwrap();
        assert_eq!(store.set_mode(&path("d"), asked(0o2775)).await, Ok(0o775), "{name}");
        let found = store.stat(&path("d")).await.unwrap();
        assert_eq!((found.kind, found.mode), (EntryKind::Directory, Some(0o775)), "{name}");
    }
}

#[tokio::test]
async fn directories_are_made_with_their_mode() {
    let kinds = each().await.into_iter();
    for kind in kinds.filter(|kind| kind.store.caps().modes && kind.store.caps().local) {
        let (store, name) = (&*kind.store, kind.name);
        let made = |bits, mask| change(bits, mask, ModeOrigin::Creation);
        for (at, mode, wanted) in [
            ("private", made(0o700, 0o777), 0o700),
            ("shut", made(0, 0o777), 0o700),
            ("more", made(0o7700, 0o777), 0o700),
        ] {
            store.make_directory_with(&path(at), mode).await.unwrap();
            assert_eq!(store.stat(&path(at)).await.unwrap().mode, Some(wanted), "{name}: {at}");
        }
        store.make_directory(&path("plain")).await.unwrap();
        store.make_directory_with(&path("masked"), made(0, 0)).await.unwrap();
        let plain = store.stat(&path("plain")).await.unwrap().mode;
        assert_eq!(store.stat(&path("masked")).await.unwrap().mode, plain, "{name}");
    }
}

#[tokio::test]
async fn stores_without_modes_say_so_and_publish_all_the_same() {
    for kind in each().await.into_iter().filter(|kind| !kind.store.caps().modes) {
        let (store, name) = (&*kind.store, kind.name);
        assert_eq!(put_with(&kind, "f", Some(asked(0o600))).await, None, "{name}");
        let set = store.set_mode(&path("f"), asked(0o600)).await;
        assert!(matches!(set, Err(StoreError::Unsupported(_))), "{name}: {set:?}");
        if store.caps().directories {
            store.make_directory_with(&path("d"), asked(0o700)).await.unwrap();
            assert_eq!(store.stat(&path("d")).await.unwrap().mode, None, "{name}");
        }
    }
}
