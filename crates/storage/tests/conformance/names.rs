//! Names: listing, renaming, directories, odd ones, the hidden one.

use entrepot_nouns::Timestamp;
use entrepot_storage::*;

use crate::*;

#[tokio::test]
async fn a_listing_has_everything_once() {
    for kind in each().await {
        let store = &*kind.store;
        let (dir, at) = kind.room().await;
        let mut want: Vec<String> = (0..25).map(|n| format!("f{n:02}")).collect();
        for name in &want {
            put(store, &format!("{at}{name}"), name.as_bytes()).await.unwrap();
        }
        let kept = store.stage(id(), &path(&format!("{at}hidden"))).await.unwrap();
        if kind.flat {
            for page in [1, 7, 1000] {
                assert_eq!(names(store, dir, page).await.unwrap(), want, "{}", kind.name);
            }
            assert_eq!(store.list(&path("no")).await.err(), Some(StoreError::NotFound));
            assert_eq!(store.list(&path("f00")).await.err(), Some(StoreError::NotDirectory));
            kept.discard().await.unwrap();
            continue;
        }
        store.make_directory(&path("d/sub")).await.unwrap();
        put(store, "d/sub/deep", b"x").await.unwrap();
        want.push("sub".to_owned());
        for page in [1, 7, 1000] {
            assert_eq!(names(store, "d", page).await.unwrap(), want, "{} by {page}", kind.name);
        }
        assert_eq!(names(store, "", 10).await.unwrap(), ["d"], "{}", kind.name);
        assert_eq!(names(store, "d/sub", 10).await.unwrap(), ["deep"], "{}", kind.name);
        let mut listing = store.list(&path("d")).await.unwrap();
        for entry in listing.next_page(1000).await.unwrap() {
            let is_dir = entry.name == "sub";
            assert_eq!(entry.meta.kind == EntryKind::Directory, is_dir, "{}", kind.name);
            assert_eq!(entry.meta.size, if is_dir { 0 } else { 3 }, "{}", kind.name);
        }
        kept.discard().await.unwrap();
        assert_eq!(
            store.list(&path("no")).await.err(),
            Some(StoreError::NotFound),
            "{}",
            kind.name
        );
        let file = store.list(&path("d/f00")).await.err();
        assert_eq!(file, Some(StoreError::NotDirectory), "{}", kind.name);
    }
}

#[tokio::test]
async fn directories_are_made_and_removed() {
    for kind in each().await.into_iter().filter(|kind| !kind.flat) {
        let store = &*kind.store;
        let dir = path("d");
        assert_eq!(store.stat(&path("")).await.unwrap().kind, EntryKind::Directory);
        store.make_directory(&dir).await.unwrap();
        assert_eq!(store.stat(&dir).await.unwrap().kind, EntryKind::Directory, "{}", kind.name);
        assert_eq!(store.make_directory(&dir).await, Err(StoreError::Exists), "{}", kind.name);
        put(store, "d/f", b"x").await.unwrap();
        let full = store.remove_directory(&dir).await;
        assert_eq!(full, Err(StoreError::NotEmpty), "{}", kind.name);
        assert_eq!(store.remove(&dir).await, Err(StoreError::IsDirectory), "{}", kind.name);
        let file = store.remove_directory(&path("d/f")).await;
        assert_eq!(file, Err(StoreError::NotDirectory), "{}", kind.name);
        assert_eq!(store.open(&dir).await.err(), Some(StoreError::IsDirectory), "{}", kind.name);
        store.remove(&path("d/f")).await.unwrap();
        assert_eq!(store.stat(&dir).await.unwrap().kind, EntryKind::Directory, "{}", kind.name);
        store.remove_directory(&dir).await.unwrap();
        assert_eq!(store.stat(&dir).await, Err(StoreError::NotFound), "{}", kind.name);
        assert_eq!(store.remove_directory(&dir).await, Err(StoreError::NotFound), "{}", kind.name);
        assert_eq!(store.remove(&path("f")).await, Err(StoreError::NotFound), "{}", kind.name);
        assert!(store.remove_directory(&path("")).await.is_err(), "{}: the root", kind.name);
    }
}

#[tokio::test]
async fn files_are_renamed() {
    for kind in each().await {
        let store = &*kind.store;
        let (dir, at) = kind.room().await;
        let (a, b, deep) = (path("a"), path("b"), format!("{at}c"));
        let c = path(&deep);
        let root = |name: &str| -> Vec<String> {
            [name, dir].iter().filter(|it| !it.is_empty()).map(|it| (*it).to_owned()).collect()
        };
        put(store, "a", b"one").await.unwrap();
        assert!(!store.rename(&a, &b, Existing::Refuse).await.unwrap().replaced(), "{}", kind.name);
        assert_eq!(names(store, "", 9).await.unwrap(), root("b"), "{}", kind.name);
        put(store, "a", b"two").await.unwrap();
        let refused = store.rename(&a, &b, Existing::Refuse).await;
        assert_eq!(refused, Err(StoreError::Exists), "{}", kind.name);
        assert_eq!(get(store, "b").await.unwrap(), b"one", "{}", kind.name);
        assert!(store.rename(&a, &b, Existing::Replace).await.unwrap().replaced(), "{}", kind.name);
        assert_eq!(get(store, "b").await.unwrap(), b"two", "{}", kind.name);
        assert!(
            !store.rename(&b, &c, Existing::Replace).await.unwrap().replaced(),
            "{}",
            kind.name
        );
        assert_eq!(get(store, &deep).await.unwrap(), b"two", "{}", kind.name);
        let left = if kind.flat { "c" } else { "" };
        assert_eq!(names(store, "", 9).await.unwrap(), root(left), "{}", kind.name);
        let missing = store.rename(&a, &b, Existing::Replace).await;
        assert_eq!(missing, Err(StoreError::NotFound), "{}", kind.name);
        let onto = store.rename(&c, &path(dir), Existing::Replace).await;
        assert!(onto.is_err(), "{}: a file onto a directory", kind.name);
        assert_eq!(get(store, &deep).await.unwrap(), b"two", "{}", kind.name);
        assert!(store.staged().await.unwrap().is_empty(), "{}", kind.name);
    }
}

#[tokio::test]
async fn directories_are_renamed_and_never_replace() {
    for kind in each().await.into_iter().filter(|kind| !kind.flat) {
        let store = &*kind.store;
        store.make_directory(&path("a")).await.unwrap();
        store.make_directory(&path("a/deep")).await.unwrap();
        store.make_directory(&path("b")).await.unwrap();
        put(store, "a/f", b"x").await.unwrap();
        put(store, "file", b"x").await.unwrap();
        for to in ["b", "file", "a/inside"] {
            let result = store.rename(&path("a"), &path(to), Existing::Replace).await;
            assert!(result.is_err(), "{}: onto {to}", kind.name);
        }
        store.rename(&path("a"), &path("b/a"), Existing::Refuse).await.unwrap();
        assert_eq!(get(store, "b/a/f").await.unwrap(), b"x", "{}", kind.name);
        assert_eq!(names(store, "b/a", 9).await.unwrap(), ["deep", "f"], "{}", kind.name);
        assert!(names(store, "b/a/deep", 9).await.unwrap().is_empty(), "{}", kind.name);
        assert_eq!(store.stat(&path("a")).await, Err(StoreError::NotFound), "{}", kind.name);
        assert_eq!(names(store, "", 9).await.unwrap(), ["b", "file"], "{}", kind.name);
        let root = store.rename(&path(""), &path("c"), Existing::Refuse).await;
        assert!(root.is_err(), "{}", kind.name);
    }
}

#[tokio::test]
async fn odd_names_are_names() {
    let long = "n".repeat(255);
    let odd = [
        "with space",
        " leading",
        "quote'\"`",
        "back\\slash",
        "ünï-日本語-🚀",
        "%2e%2e",
        "...",
        "a:b",
        "new\nline",
        "tab\t",
        "-rf",
        "*?[x]",
        "~",
        "#hash&amp;",
        "+plus",
        "CON",
        "\u{202e}rtl",
        "percent%",
        "e\u{301}",
        "\u{e9}",
        long.as_str(),
    ];
    for kind in each().await {
        let store = &*kind.store;
        let (dir, at) = kind.room().await;
        // The S3 server of the tests has file names from keys in base64.
        let is_object = kind.name == "object";
        let skip = |name: &str| {
            let control = name.chars().any(|c| c.is_ascii_control());
            (is_object && name.len() > 100) || (kind.printable && control)
        };
        let odd: Vec<&str> = odd.into_iter().filter(|name| !skip(name)).collect();
        for &name in &odd {
            let full = format!("{at}{name}");
            put(store, &full, name.as_bytes()).await.unwrap_or_else(|error| {
                panic!("{}: {name:?}: {error}", kind.name);
            });
            assert_eq!(get(store, &full).await.unwrap(), name.as_bytes(), "{}", kind.name);
        }
        let mut want: Vec<String> = odd.iter().map(|name| (*name).to_owned()).collect();
        want.sort();
        assert_eq!(names(store, dir, 1000).await.unwrap(), want, "{}", kind.name);
        for name in odd {
            store.remove(&path(&format!("{at}{name}"))).await.unwrap();
        }
        assert!(names(store, dir, 1000).await.unwrap().is_empty(), "{}", kind.name);
    }
}

#[tokio::test]
async fn no_path_reaches_the_staging_area() {
    for kind in each().await {
        let store = &*kind.store;
        let id = id();
        let kept = store.stage(id, &path("f")).await.unwrap();
        let hidden = limits::STAGING_NAME;
        for name in [hidden.to_owned(), format!("{hidden}/{id}"), hidden.to_uppercase()] {
            let name = path(&name);
            assert_eq!(store.stat(&name).await, Err(StoreError::NotFound), "{}", kind.name);
            assert_eq!(store.open(&name).await.err(), Some(StoreError::NotFound), "{}", kind.name);
            assert_eq!(store.list(&name).await.err(), Some(StoreError::NotFound), "{}", kind.name);
            assert_eq!(store.remove(&name).await, Err(StoreError::NotFound), "{}", kind.name);
            let gone = store.remove_directory(&name).await;
            assert_eq!(gone, Err(StoreError::NotFound), "{}", kind.name);
            let to = store.rename(&path("f"), &name, Existing::Replace).await;
            assert!(matches!(to, Err(StoreError::Denied(_))), "{}", kind.name);
            let made = store.make_directory(&name).await;
            assert!(matches!(made, Err(StoreError::Denied(_))), "{}", kind.name);
            let staged = store.stage(crate::id(), &name).await.err();
            assert!(matches!(staged, Some(StoreError::Denied(_))), "{}", kind.name);
        }
        kept.discard().await.unwrap();
    }
}

#[tokio::test]
async fn space_is_told() {
    for kind in each().await {
        let space = kind.store.space().await.unwrap();
        assert!(space.free_bytes <= space.total_bytes, "{}", kind.name);
        assert!(space.total_bytes > 0, "{}", kind.name);
    }
}

#[tokio::test]
async fn files_have_second_names_or_the_store_says_that_they_have_not() {
    for kind in each().await {
        let store = &kind.store;
        put(&**store, "f", b"abc").await.unwrap();
        let (_, at) = kind.room().await;
        match store.link(&path("f"), &path(&format!("{at}g"))).await {
            Ok(()) => {}
            Err(StoreError::Unsupported(_)) if !kind.name.starts_with("fs") => continue,
            Err(error) => panic!("{}: {error}", kind.name),
        }
        assert_eq!(get(&**store, "d/g").await.unwrap(), b"abc");
        let (one, two) = (store.stat(&path("f")).await, store.stat(&path("d/g")).await);
        assert_eq!(one.unwrap().identity, two.unwrap().identity, "{}", kind.name);
        for (from, to, error) in [
            ("f", "d/g", StoreError::Exists),
            ("f", "d", StoreError::Exists),
            ("d", "e", StoreError::IsDirectory),
            ("nope", "e", StoreError::NotFound),
            ("f", "nope/e", StoreError::NotFound),
        ] {
            let refused = store.link(&path(from), &path(to)).await;
            assert_eq!(refused, Err(error), "{}: {from} {to}", kind.name);
        }
        store.remove(&path("f")).await.unwrap();
        assert_eq!(get(&**store, "d/g").await.unwrap(), b"abc");
    }
}

#[tokio::test]
async fn links_are_names_where_they_are_told_or_there_are_none() {
    for kind in each().await {
        let store = &kind.store;
        let Some(telling) = store.with_links() else {
            assert!(!kind.name.starts_with("fs"), "{}", kind.name);
            let refused = store.make_link("f", &path("l")).await;
            assert!(matches!(refused, Err(StoreError::Unsupported(_))), "{}", kind.name);
            let refused = store.read_link(&path("l")).await;
            assert!(matches!(refused, Err(StoreError::Unsupported(_))), "{}", kind.name);
            continue;
        };
        put(&**store, "f", b"abc").await.unwrap();
        store.make_directory(&path("d")).await.unwrap();
        store.make_link("../f", &path("d/l")).await.unwrap();
        store.make_link("d", &path("to-d")).await.unwrap();
        assert_eq!(store.read_link(&path("d/l")).await, Ok(Some("../f".to_owned())));
        assert_eq!(store.read_link(&path("f")).await, Ok(None), "{}", kind.name);
        assert_eq!(store.read_link(&path("")).await, Ok(None), "{}", kind.name);
        for (at, error) in [("d/l", StoreError::Exists), ("to-d/x", StoreError::NotFound)] {
            assert_eq!(store.make_link("x", &path(at)).await, Err(error), "{}", kind.name);
        }
        assert_eq!(store.read_link(&path("to-d/l")).await, Err(StoreError::NotFound));
        // Told as links here, not there at all there, and followed by neither.
        let meta = telling.stat(&path("d/l")).await.unwrap();
        assert_eq!((meta.kind, meta.size), (EntryKind::Link, 4), "{}", kind.name);
        assert_eq!(store.stat(&path("d/l")).await, Err(StoreError::NotFound), "{}", kind.name);
        assert_eq!(names(&*telling, "d", 10).await.unwrap(), ["l"], "{}", kind.name);
        assert!(names(&**store, "d", 10).await.unwrap().is_empty(), "{}", kind.name);
        for store in [store, &telling] {
            for at in ["d/l", "to-d", "to-d/l"] {
                assert!(store.open(&path(at)).await.is_err(), "{}: {at}", kind.name);
                assert!(store.list(&path(at)).await.is_err(), "{}: {at}", kind.name);
                assert!(put(&**store, at, b"x").await.is_err(), "{}: {at}", kind.name);
                let set = store.set_times(&path(at), None, Some(Timestamp(0))).await;
                assert!(set.is_err(), "{}: {at}", kind.name);
            }
        }
        assert_eq!(store.remove(&path("d/l")).await, Err(StoreError::NotFound), "{}", kind.name);
        let (from, to) = (path("d/l"), path("m"));
        let hidden = store.rename(&from, &to, Existing::Refuse).await;
        assert_eq!(hidden.err(), Some(StoreError::NotFound), "{}", kind.name);
        telling.rename(&from, &to, Existing::Refuse).await.unwrap();
        assert_eq!(store.read_link(&to).await, Ok(Some("../f".to_owned())), "{}", kind.name);
        put(&**store, "g", b"g").await.unwrap();
        let denied = store.rename(&path("g"), &to, Existing::Replace).await;
        assert!(matches!(denied, Err(StoreError::Denied(_))), "{}", kind.name);
        assert!(telling.rename(&path("g"), &to, Existing::Replace).await.unwrap().replaced());
        assert_eq!(get(&**store, "m").await.unwrap(), b"g", "{}", kind.name);
        let gone = telling.remove_directory(&path("to-d")).await;
        assert_eq!(gone, Err(StoreError::NotDirectory), "{}", kind.name);
        telling.remove(&path("to-d")).await.unwrap();
        assert_eq!(names(&*telling, "", 10).await.unwrap(), ["d", "f", "m"], "{}", kind.name);
    }
}
