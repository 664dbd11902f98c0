//! Search by name: every page goes on where the last one ended, and shows what may be listed.

use entrepot_nouns::Rights;
use entrepot_storage::fault::SimDisk;

use super::{How, World, path, put};
use crate::limits::SEARCH_NAMES;
use crate::{NameQuery, PageLimit, Vfs, VfsError};

/// All that is found, in pages of so many, and the number of pages.
async fn found(vfs: &Vfs, below: &str, text: &str, size: usize) -> (Vec<String>, usize) {
    let query = NameQuery::of(text).unwrap();
    let (mut all, mut cursor, mut pages) = (Vec::new(), None::<String>, 0);
    loop {
        let limit = PageLimit { found: size };
        let page = vfs.search(&path(below), &query, cursor.as_deref(), limit).await.unwrap();
        assert!(page.found.len() <= size);
        all.extend(page.found.into_iter().map(|found| found.path.to_string()));
        pages += 1;
        cursor = page.next;
        if cursor.is_none() {
            return (all, pages);
        }
    }
}

#[tokio::test]
async fn pages_of_any_size_find_the_same() {
    let world = World::new().await;
    let node = world.start(&SimDisk::new(&world.env), &How::default()).await;
    let session = world.session(&node, "alice").await;
    let vfs = session.vfs();
    for directory in ["/a", "/a/report", "/a/report/deep", "/b", "/b/empty"] {
        vfs.make_directory(&path(directory)).await.unwrap();
    }
    let files = ["/a/report 1.pdf", "/a/report/Report.txt", "/a/report/deep/old report", "/b/x"];
    for at in files {
        put(vfs, at, b"x").await.unwrap();
    }
    let wanted =
        ["/a/report", "/a/report/Report.txt", "/a/report/deep/old report", "/a/report 1.pdf"];
    let (whole, pages) = found(vfs, "/", "report", 1000).await;
    assert_eq!((&whole[..], pages), (&wanted.map(str::to_owned)[..], 1));
    for size in [1, 2, 3] {
        assert_eq!(found(vfs, "/", "report", size).await.0, whole, "{size} a page");
    }
    assert_eq!(found(vfs, "/b", "*", 1).await.0, ["/b/empty", "/b/x"]);
    assert_eq!(found(vfs, "/a", "*.PDF", 1).await.0, ["/a/report 1.pdf"]);
    assert!(found(vfs, "/b/empty", "*", 1).await.0.is_empty());
    let query = NameQuery::of("x").unwrap();
    let limit = PageLimit { found: 1 };
    for (below, cursor) in [("/", "x"), ("/none", ""), ("/b/x", ""), ("/", "+../..")] {
        let cursor = Some(cursor).filter(|cursor| !cursor.is_empty());
        assert!(vfs.search(&path(below), &query, cursor, limit).await.is_err(), "{below}");
    }
    // What went meanwhile does not stop the walk.
    let page = vfs.search(&path("/"), &NameQuery::of("report").unwrap(), None, limit).await;
    let cursor = page.unwrap().next.unwrap();
    vfs.remove(&path("/a/report/Report.txt")).await.unwrap();
    let query = NameQuery::of("report").unwrap();
    let next = vfs.search(&path("/"), &query, Some(&cursor), limit).await.unwrap();
    assert_eq!(next.found[0].path, path("/a/report/deep/old report"));
}

#[tokio::test]
async fn a_large_directory_is_walked_in_pieces() {
    let world = World::new().await;
    let node = world.start(&SimDisk::new(&world.env), &How::default()).await;
    let session = world.session(&node, "alice").await;
    let count = 2 * SEARCH_NAMES + 500;
    for number in 0..count {
        session.vfs().make_directory(&path(&format!("/d{number:05}"))).await.unwrap();
    }
    let (all, pages) = found(session.vfs(), "/", "d", 700).await;
    let wanted: Vec<String> = (0..count).map(|number| format!("/d{number:05}")).collect();
    assert!(all == wanted, "{} found", all.len());
    assert!(pages >= count / 700);
}

#[tokio::test]
async fn only_what_may_be_listed_is_found() {
    let world = World::new().await;
    world.account("carol", "/in", |_| {}).await;
    world.mount("carol-box", "carol", "/in/box", |mount| mount.rights = Rights::none()).await;
    let node = world.start(&SimDisk::new(&world.env), &How::default()).await;
    let carol = world.session(&node, "carol").await;
    put(carol.vfs(), "/in/secret", b"x").await.unwrap();
    assert_eq!(found(carol.vfs(), "/", "secret", 9).await.0, ["/in/secret"]);
    let (query, limit) = (NameQuery::of("secret").unwrap(), PageLimit { found: 9 });
    let refused = carol.vfs().search(&path("/in/box"), &query, None, limit).await;
    assert!(matches!(refused, Err(VfsError::Denied { .. })), "{refused:?}");
}
