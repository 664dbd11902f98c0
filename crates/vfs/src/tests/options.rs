//! What a mount offers beyond rights.

use entrepot_nouns::MountOption;

use super::*;
use crate::{VfsError, limits};

async fn offering(world: &World, account: &str, option: MountOption) {
    world.account(account, "/", |mount| mount.options = [option].into()).await;
}

#[tokio::test]
async fn files_get_second_names_where_the_mount_offers_it() {
    let world = World::new().await;
    offering(&world, "linker", MountOption::HardLinks).await;
    let node = world.start(&SimDisk::new(&world.env), &How::default()).await;
    let alice = world.session(&node, "alice").await;
    put(alice.vfs(), "/f", b"one").await.unwrap();
    alice.vfs().make_directory(&path("/d")).await.unwrap();
    let refused = alice.vfs().link(&path("/f"), &path("/g")).await;
    assert_eq!(refused, Err(VfsError::Unsupported), "not offered");
    let linker = world.session(&node, "linker").await;
    let vfs = linker.vfs();
    vfs.link(&path("/f"), &path("/d/g")).await.unwrap();
    assert_eq!(read(vfs, "/d/g").await.unwrap(), b"one");
    for (from, to, error) in [
        ("/f", "/d/g", VfsError::Exists),
        ("/f", "/d", VfsError::Exists),
        ("/nope", "/x", VfsError::NotFound),
        ("/d", "/x", VfsError::IsDirectory),
    ] {
        assert_eq!(vfs.link(&path(from), &path(to)).await, Err(error), "{from} {to}");
    }
    // An upload to one name leaves the other as it is.
    put(vfs, "/f", b"two").await.unwrap();
    assert_eq!(read(vfs, "/d/g").await.unwrap(), b"one");
    let told = node.events().await.into_iter().filter_map(|event| match event.fact {
        Fact::FileLinked { from, to, size } => Some((from, to, size)),
        _ => None,
    });
    assert_eq!(told.collect::<Vec<_>>(), [("/f".to_owned(), "/d/g".to_owned(), 3)]);
}

#[tokio::test]
async fn second_names_need_rights_and_room() {
    let world = World::new().await;
    let node = world.start(&SimDisk::new(&world.env), &How::default()).await;
    let alice = world.session(&node, "alice").await;
    put(alice.vfs(), "/f", &[1; 600]).await.unwrap();
    for (account, rights) in [("reads", Rights::read_only()), ("lists", Rights::none())] {
        world
            .account(account, "/", |mount| {
                mount.options = [MountOption::HardLinks].into();
                mount.rights = rights;
            })
            .await;
        let session = world.session(&node, account).await;
        let refused = session.vfs().link(&path("/f"), &path("/g")).await;
        assert!(matches!(refused, Err(VfsError::Denied { .. })), "{account} {refused:?}");
    }
    world
        .account("full", "/", |mount| {
            mount.options = [MountOption::HardLinks].into();
            with_quota(Some(1000), None, None)(mount);
        })
        .await;
    let session = world.session(&node, "full").await;
    let refused = session.vfs().link(&path("/f"), &path("/g")).await;
    assert!(matches!(refused, Err(VfsError::Quota { .. })), "{refused:?}");
    assert_eq!(names(alice.vfs(), "/").await.unwrap(), ["f"]);
}

#[tokio::test]
async fn partials_are_listed_for_their_owner_where_the_mount_offers_it() {
    let world = World::new().await;
    offering(&world, "resumer", MountOption::ListPartials).await;
    offering(&world, "other", MountOption::ListPartials).await;
    let node = world.start(&SimDisk::new(&world.env), &How::default()).await;
    for account in ["resumer", "alice"] {
        let session = world.session(&node, account).await;
        for at in [format!("/{account}.cut"), "/taken".to_owned()] {
            let mut upload = session.vfs().create(&path(&at), NEW).await.unwrap();
            write(&mut upload, 0, &[7; 1000]).await.unwrap();
            upload.interrupt("a test").await;
        }
    }
    let session = world.session(&node, "resumer").await;
    put(world.session(&node, "alice").await.vfs(), "/taken", b"published").await.unwrap();
    assert_eq!(names(session.vfs(), "/").await.unwrap(), ["resumer.cut", "taken"]);
    let mut listing = session.vfs().list(&path("/")).await.unwrap();
    let page = listing.next_page(10).await.unwrap();
    let entry = page.iter().find(|entry| entry.name == "resumer.cut").unwrap();
    assert_eq!((entry.attributes.size, entry.attributes.partial), (1000, true));
    for account in ["other", "alice"] {
        let session = world.session(&node, account).await;
        assert_eq!(names(session.vfs(), "/").await.unwrap(), ["taken"], "{account}");
    }
}

#[tokio::test]
async fn a_file_of_holes_is_not_hashed_for_ever() {
    let world = World::new().await;
    let node = world.start(&SimDisk::new(&world.env), &How::default()).await;
    let session = world.session(&node, "alice").await;
    let mut upload = session.vfs().create(&path("/f"), NEW).await.unwrap();
    write(&mut upload, 0, b"head").await.unwrap();
    upload.set_len(limits::HOLE_BYTES + 5).await.unwrap();
    assert!(matches!(upload.finish().await, Err(VfsError::Quota { .. })));
    assert!(names(session.vfs(), "/").await.unwrap().is_empty());
}
