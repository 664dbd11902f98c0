//! Several nodes on one directory: each with a journal on a disk of its own.

use std::collections::HashMap;

use entrepot_nouns::{Displaced, Fact};
use entrepot_storage::fault::{SimDisk, SimStore};

use super::{How, Node, World, name, path, put, read};
use crate::Existing;

/// A node whose journal lies on `own`, and its files on `shared`, in a store of its own.
async fn node(world: &World, own: &SimDisk, shared: &SimDisk) -> Node {
    let files = SimStore::open_in(shared, "files", &world.env).unwrap();
    let stores = HashMap::from([(name("files"), files.clone())]);
    let mut node = world.start_on(own, &How::default(), stores).await.unwrap();
    node.files = Some(files);
    node
}

#[tokio::test]
async fn each_upload_names_the_file_that_it_took_the_name_from() {
    for flags in [true, false] {
        let world = World::new().await;
        let disk = SimDisk::new(&world.env);
        if !flags {
            disk.forget_rename_flags();
        }
        let one = node(&world, &SimDisk::new(&world.env), &disk).await;
        let other = node(&world, &SimDisk::new(&world.env), &disk).await;
        let (alice, bob) = (world.session(&one, "alice").await, world.session(&other, "bob").await);
        put(alice.vfs(), "/f", b"first").await.unwrap();
        put(bob.vfs(), "/f", b"second").await.unwrap();
        put(alice.vfs(), "/f", b"third").await.unwrap();
        let (ours, theirs) = (one.arrivals().await, other.arrivals().await);
        let line = [&ours[0], &theirs[0], &ours[1]];
        assert_eq!(line[0].displaced, None);
        for pair in line.windows(2) {
            let identity = pair[0].identity.clone();
            assert!(identity.is_some());
            assert_eq!(pair[1].displaced, Some(Displaced { identity }), "flags: {flags}");
        }
        // So does a rename that replaces; one to a free name names nothing.
        put(bob.vfs(), "/g", b"fourth").await.unwrap();
        bob.vfs().rename(&path("/g"), &path("/f"), Existing::Replace).await.unwrap();
        bob.vfs().rename(&path("/f"), &path("/h"), Existing::Replace).await.unwrap();
        assert_eq!(read(alice.vfs(), "/h").await.unwrap(), b"fourth");
        let renames: Vec<_> = other
            .events()
            .await
            .into_iter()
            .filter_map(|event| match event.fact {
                Fact::FileRenamed { displaced, .. } => Some(displaced),
                _ => None,
            })
            .collect();
        let third = Displaced { identity: line[2].identity.clone() };
        assert_eq!(renames, [Some(third), None], "flags: {flags}");
        assert_eq!((one.staged().await, other.staged().await), (0, 0));
    }
}
