//! The directory that a mount shows: made when it is needed, also a second time.

use entrepot_nouns::EndpointTarget;
use entrepot_nouns::endpoint::DirectoryTarget;
use entrepot_storage::Existing;
use entrepot_storage::fault::{SimDisk, SimStore};
use entrepot_testbed::endpoint;

use super::{How, NEW, World, name, names, path, put, read, write};

#[tokio::test]
async fn a_changed_path_of_an_endpoint_counts_at_once() {
    let world = World::new().await;
    let folder = tempfile::tempdir().unwrap();
    let target = |at: &str| {
        let path = folder.path().join(at).to_str().unwrap().to_owned();
        endpoint("disk", EndpointTarget::Directory(DirectoryTarget::new(path)))
    };
    world.put(&target("a")).await;
    world
        .account("home", "/", |mount| {
            mount.endpoint = name("disk");
            mount.prefix = "homes/h".to_owned();
        })
        .await;
    let node = world.start(&SimDisk::new(&world.env), &How::default()).await;
    let session = world.session(&node, "home").await;
    put(session.vfs(), "/f", b"before").await.unwrap();
    world.put(&target("b")).await;
    world.directory.refresh().await.unwrap();
    put(session.vfs(), "/g", b"after").await.unwrap();
    assert_eq!(names(session.vfs(), "/").await.unwrap(), ["g"]);
    assert!(folder.path().join("b/homes/h/g").is_file());
    assert!(folder.path().join("a/homes/h/f").is_file());
}

#[tokio::test]
async fn a_folder_of_a_mount_that_was_removed_is_made_again() {
    let world = World::new().await;
    world.account("home", "/", |mount| mount.prefix = "homes/h".to_owned()).await;
    let disk = SimDisk::new(&world.env);
    let node = world.start(&disk, &How::default()).await;
    let session = world.session(&node, "home").await;
    let vfs = session.vfs();
    let operator = SimStore::open_in(&disk, "files", &world.env).unwrap();
    let removed = async || {
        let home = "homes/h".parse().unwrap();
        operator.remove_directory(&home).await.unwrap();
        operator.remove_directory(&"homes".parse().unwrap()).await.unwrap();
    };
    assert!(names(vfs, "/").await.unwrap().is_empty());
    removed().await;
    assert!(names(vfs, "/").await.unwrap().is_empty());
    removed().await;
    vfs.stat(&path("/")).await.unwrap();
    removed().await;
    vfs.make_directory(&path("/d")).await.unwrap();
    vfs.remove_directory(&path("/d")).await.unwrap();
    removed().await;
    put(vfs, "/f", b"whole").await.unwrap();
    vfs.remove(&path("/f")).await.unwrap();
    // Also while an upload is under way.
    let mut upload = vfs.create(&path("/f"), NEW).await.unwrap();
    write(&mut upload, 0, b"late").await.unwrap();
    removed().await;
    upload.finish().await.unwrap();
    assert_eq!(read(vfs, "/f").await.unwrap(), b"late");
    // Other directories are not.
    assert!(put(vfs, "/none/f", b"x").await.is_err());
    let moved = vfs.rename(&path("/f"), &path("/none/f"), Existing::Replace).await;
    assert!(moved.is_err());
}
