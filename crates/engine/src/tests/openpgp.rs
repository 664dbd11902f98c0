//! Messages of OpenPGP that must not be opened, on a real disk: nothing of them is left anywhere,
//! and whoever sent them learns nothing from the answer.

use std::path::{Path, PathBuf};

use entrepot_nouns::{Job, JobState, Key, KeyType, Rule, Sealed};
use entrepot_transform::openpgp::{self, Armor, PublicKey, Sealing, SecretKey};
use serde_json::{Value as Json, json};

use super::world::{World, content, doing, files};
use crate::check_rule;

/// A node with the keys `ours`, `theirs` and `ended`, whose files lie on a disk.
struct Desk {
    world: World,
    /// What was made by steps, and what was delivered.
    folders: [PathBuf; 2],
    ours: SecretKey,
    theirs: SecretKey,
    ended: SecretKey,
}

impl Desk {
    async fn new(seed: u64) -> Desk {
        let mut world = World::new(seed).await;
        let folders = ["work", "out"].map(|name| world.bed.folder().join(name));
        for folder in &folders {
            std::fs::create_dir_all(folder).unwrap();
        }
        world.work.store = entrepot_storage::fs::open(&folders[0], &world.env).await.unwrap();
        world.work.path = Some(folders[0].clone());
        let out = entrepot_storage::fs::open(&folders[1], &world.env).await.unwrap();
        world.target("out", out).await;
        let mut keys = Vec::new();
        for name in ["ours", "theirs", "ended"] {
            keys.push(key(&world, name).await);
        }
        let [ours, theirs, ended] = keys.try_into().unwrap();
        world.start();
        Desk { world, folders, ours, theirs, ended }
    }

    fn message(&self, to: &SecretKey, signer: Option<&SecretKey>, bytes: &[u8]) -> Vec<u8> {
        let (to, signers): ([&PublicKey; 1], Vec<_>) =
            ([to.public()], signer.into_iter().collect());
        let (armor, at) = (Armor::Binary, self.world.env.now());
        let sealing = Sealing { to: &to, signers: &signers, armor, at };
        let mut message = Vec::new();
        openpgp::encrypt(&sealing, &self.world.env, bytes, &mut message).unwrap();
        message
    }

    /// The job of a file, when it has ended and its work files are gone.
    async fn job(&mut self, rule: &Rule, bytes: &[u8]) -> Job {
        check_rule(rule).unwrap();
        self.world.put(rule).await;
        let event = self.world.upload("/in/a.pgp", bytes).await;
        let job = self.world.ended(self.world.job_of(&event, "r").await).await;
        let work = self.folders[0].clone();
        self.world.until(async |_| found(&work).is_empty()).await;
        job
    }
}

async fn key(world: &World, name: &str) -> SecretKey {
    let made = openpgp::make(&format!("{name} <{name}@example.com>"), &world.env).unwrap();
    let mut key = Key::new(name.parse().unwrap(), KeyType::OpenPgp, made.public);
    let private = std::str::from_utf8(made.private.expose()).unwrap().to_owned();
    key.private_sealed = Some(Sealed(private));
    key.not_after = (name == "ended").then(|| world.env.now());
    world.put(&key).await;
    SecretKey::parse(made.private.expose()).unwrap()
}

/// Each file of a folder and those in it, hidden ones too.
fn found(folder: &Path) -> Vec<String> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            all.extend(found(&entry.path()));
        } else {
            all.push(entry.path().display().to_string());
        }
    }
    all
}

fn opening(step: &Json) -> Rule {
    let rule = doing(json!([step, {"deliver": {"endpoint": "out", "path": "{name}"}}]));
    check_rule(&rule).unwrap();
    rule
}

#[tokio::test(start_paused = true)]
async fn whatever_is_wrong_with_a_message_the_answer_is_the_same_and_nothing_is_left() {
    let mut desk = Desk::new(2_991).await;
    // More than what is read and written at once, so that its begin is opened before its end.
    let bytes = content(5, 7);
    let good = desk.message(&desk.ours, Some(&desk.theirs), &bytes);
    let flipped = |at: usize| {
        let mut message = good.clone();
        message[at] ^= 1;
        message
    };
    let length = good.len();
    let rule = opening(&json!({"decrypt": {"keys": ["ours"], "signed_by": ["theirs"]}}));
    let anyone = opening(&json!({"decrypt": {"keys": ["ours"]}}));
    let for_another = desk.message(&desk.theirs, Some(&desk.theirs), &bytes);
    let unsigned = desk.message(&desk.ours, None, &bytes);
    let signed_by_us = desk.message(&desk.ours, Some(&desk.ours), &bytes);
    let opens = "EP0873: no key opens the message, or it was changed on its way";
    for (what, message) in [
        ("its head", flipped(30)),
        ("its first half", flipped(length / 3)),
        ("its second half", flipped(length - length / 4)),
        ("its last byte", flipped(length - 1)),
        ("cut", good[..length - 1].to_vec()),
        ("half", good[..length / 2].to_vec()),
        ("two", [good.as_slice(), &good].concat()),
        ("another key", for_another),
        ("no message", bytes.clone()),
        ("nothing", Vec::new()),
    ] {
        for rule in [&rule, &anyone] {
            let job = desk.job(rule, &message).await;
            assert_eq!((job.state, job.attempts), (JobState::Failed, 1), "{what}");
            assert_eq!(job.error.as_deref(), Some(opens), "{what}");
            assert_eq!(found(&desk.folders[1]), [""; 0], "{what}");
        }
    }
    let mut said = Vec::new();
    for (what, message) in [("no signature", unsigned), ("another's signature", signed_by_us)] {
        let job = desk.job(&rule, &message).await;
        let error = job.error.unwrap_or_default();
        assert_eq!((job.state, job.attempts), (JobState::Failed, 1), "{what}: {error}");
        assert!(error.starts_with("EP0874: "), "{what}: {error}");
        assert_eq!(found(&desk.folders[1]), [""; 0], "{what}");
        said.push(error);
    }
    assert_eq!(said[0], said[1]);
    let home = files(&desk.world.file_access.home).await;
    assert_eq!(home.keys().collect::<Vec<_>>(), ["in/a.pgp"]);
    let job = desk.job(&rule, &good).await;
    assert_eq!((job.state, job.error), (JobState::Done, None));
    assert!(std::fs::read(desk.folders[1].join("a")).unwrap() == bytes, "the file differs");
}

/// A key that has ended for us is none: nothing is made with it, and what it signed counts for
/// nothing.
#[tokio::test(start_paused = true)]
async fn a_key_that_has_ended_is_not_used() {
    let mut desk = Desk::new(2_992).await;
    let bytes = content(1, 3);
    let message = desk.message(&desk.ours, Some(&desk.ended), &bytes);
    let to_it = desk.message(&desk.ended, None, &bytes);
    for (step, bytes) in [
        (json!({"encrypt": {"keys": ["ended"]}}), &bytes),
        (json!({"encrypt": {"keys": ["theirs", "ended"]}}), &bytes),
        (json!({"encrypt": {"keys": ["theirs"], "signers": ["ended"]}}), &bytes),
        (json!({"sign": {"key": "ended"}}), &bytes),
        (json!({"sign": {"key": "ended", "detached": true}}), &bytes),
        (json!({"decrypt": {"keys": ["ours"], "signed_by": ["ended"]}}), &message),
        (json!({"decrypt": {"keys": ["ended"]}}), &to_it),
        (json!({"verify": {"signed_by": ["ended"]}}), &bytes),
    ] {
        let job = desk.job(&opening(&step), bytes).await;
        let said = "EP0872: key 'ended' is not valid any more";
        assert_eq!((job.state, job.attempts), (JobState::Failed, 1), "{step}");
        assert_eq!(job.error.as_deref(), Some(said), "{step}");
        assert_eq!(found(&desk.folders[1]), [""; 0], "{step}");
    }
}
