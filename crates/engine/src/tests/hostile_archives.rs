//! Archives of people who mean harm, taken apart on a real disk, in sessions of `vfs`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use entrepot_nouns::{Account, AccountType, Job, JobState, Rights};
use entrepot_testbed::mount;
use entrepot_vfs::ServiceOptions;
use serde_json::json;

use super::world::{SITE, World, doing, name};

#[path = "../../../transform/src/archive/tests/hostile.rs"]
mod hostile;

/// The files of `acme` are in the folder `home` of a folder in which nothing else is.
struct Disk {
    world: World,
    node: entrepot_world::World,
    around: PathBuf,
}

impl Disk {
    async fn new(seed: u64) -> Disk {
        let mut world = World::new(seed).await;
        let around = world.bed.folder().join("around");
        std::fs::create_dir_all(around.join("home/in")).unwrap();
        let home = entrepot_storage::fs::open(&around.join("home"), &world.env).await.unwrap();
        world.target("home", home.clone()).await;
        world.file_access.home = home.clone();
        let stores = [(name("home"), home)].into();
        let options = ServiceOptions { stores, ..ServiceOptions::default() };
        let node = entrepot_world::World::over(world.bed.clone(), options).await;
        world.put(&Account::new(name("acme"), AccountType::Partner)).await;
        let mount = mount("acme-home", "acme", "/", "home");
        world.put(&entrepot_nouns::Mount { rights: Rights::all(), ..mount }).await;
        node.directory.refresh().await.unwrap();
        Disk { world, node, around }
    }

    /// The job of an archive, when it has ended and nothing is done to files any more.
    async fn job(&mut self, name: &str, bytes: &[u8]) -> Job {
        let event = self.world.upload(&format!("/in/{name}"), bytes).await;
        let job = self.world.ended(self.world.job_of(&event, "r").await).await;
        let open = || self.node.directory.sessions_of(SITE, &super::world::name("acme"));
        self.world.until(async |_| open() == 0).await;
        job
    }

    /// All that is there but folders, hidden files too.
    fn found(&self) -> BTreeMap<String, Vec<u8>> {
        let mut found = BTreeMap::new();
        add(&self.around, &self.around, &mut found);
        found
    }
}

fn add(top: &Path, folder: &Path, found: &mut BTreeMap<String, Vec<u8>>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let path = entry.path();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            add(top, &path, found);
            continue;
        }
        assert!(kind.is_file(), "{} is no file", path.display());
        let below = path.strip_prefix(top).unwrap().to_str().unwrap().to_owned();
        found.insert(below, std::fs::read(&path).unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_of_a_hostile_archive_lies_anywhere_on_the_disk() {
    let mut disk = Disk::new(2_961).await;
    disk.world.put(&doing(json!([{"extract": {"to": "/new/{stem}"}}]))).await;
    disk.world.start_with(disk.node.vfs.clone(), disk.node.gate.clone());
    let mut wanted = BTreeMap::new();
    // What a harmful name may want to replace.
    for path in ["a", "b", "good"] {
        disk.world.publish(&format!("/{path}"), b"ours").await;
        wanted.insert(format!("home/{path}"), b"ours".to_vec());
    }
    for hostile::Archive { what, name, bytes } in hostile::archives() {
        wanted.insert(format!("home/in/{name}"), bytes.clone());
        let job = disk.job(&name, &bytes).await;
        let error = job.error.unwrap_or_default();
        assert_eq!((job.state, job.attempts), (JobState::Failed, 1), "{what}, {name}: {error}");
        let is_refused = ["EP0870: ", "EP0871: "].iter().any(|code| error.starts_with(code));
        assert!(is_refused, "{what}, {name}: {error}");
        let found = disk.found();
        assert!(found == wanted, "{what}, {name}: {:?}", found.keys());
    }
    for hostile::Archive { what, name, bytes } in hostile::of_one_file() {
        let job = disk.job(&name, &bytes).await;
        assert_eq!((job.state, job.error), (JobState::Done, None), "{what}");
        let mut found = disk.found();
        let stem = name.split('.').next().unwrap();
        assert!(found.remove(&format!("home/new/{stem}/a")).is_some(), "{what}");
        assert!(found.remove(&format!("home/in/{name}")).is_some(), "{what}");
        assert!(found == wanted, "{what}, {name}: {:?}", found.keys());
        for path in [format!("in/{name}"), format!("new/{stem}/a")] {
            std::fs::remove_file(disk.around.join("home").join(path)).unwrap();
        }
    }
    // A whole one, after all those: the folder and the node take it.
    let bytes = hostile::python("z.writestr('a', b'x' * 700_000); z.writestr('b/c', b'y')");
    let job = disk.job("whole.zip", &bytes).await;
    assert_eq!((job.state, job.error), (JobState::Done, None));
    let found = disk.found();
    assert!(found["home/new/whole/a"] == vec![b'x'; 700_000], "the file differs");
    assert_eq!(found["home/new/whole/b/c"], b"y");
}
