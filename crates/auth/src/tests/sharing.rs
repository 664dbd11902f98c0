//! Wrong passwords count on every node, and after a restart.

use std::time::Duration;

use entrepot_journal::Recorder;
use entrepot_nouns::{Env, SiteId};

use super::{World, granted, secret, wrong};
use crate::{Attempt, Directory, Gate, GateOptions, PenaltySharing, Verdict};

/// Another node over the database of `world`.
struct Other {
    gate: Gate,
    sharing: PenaltySharing,
    recorder: Recorder,
}

impl Other {
    async fn start(world: &World, node: &str) -> Other {
        Other::with(world, world.bed.recorder_beside(node)).await
    }

    /// The same node, by a process that has just begun.
    async fn again(&self, world: &World) -> Other {
        Other::with(world, self.recorder.clone()).await
    }

    /// The monotonic clock of a process begins with it.
    async fn with(world: &World, recorder: Recorder) -> Other {
        let env = Env::simulated(9);
        env.set_now(world.env.now());
        let directory = Directory::new(world.db.clone(), env, world.bed.master.clone());
        directory.refresh().await.unwrap();
        let options = GateOptions { cost: entrepot_crypto::HashCost::for_tests() };
        let gate = Gate::new(directory, recorder.clone(), options);
        let mut sharing = PenaltySharing::default();
        gate.begin_sharing(&mut sharing).await.unwrap();
        Other { gate, sharing, recorder }
    }

    async fn share(&mut self) {
        self.gate.share_penalties(&mut self.sharing).await.unwrap();
    }

    fn attempt(&self, world: &World) -> Attempt {
        self.gate.attempt(world.attempt().peer.clone())
    }

    async fn lets_in(&self, world: &World) -> bool {
        granted(&self.attempt(world).password("acme", &secret("acme")).await)
    }

    /// Wrong passwords, one a connection, until no more are checked.
    async fn guess(&self, world: &World, most: usize) -> usize {
        for done in 0..most {
            let before = self.gate.hashes();
            let verdict = self.attempt(world).password("acme", &wrong()).await;
            assert!(matches!(verdict, Verdict::Refused { .. }), "{verdict:?}");
            if self.gate.hashes() == before {
                return done;
            }
        }
        most
    }
}

#[tokio::test(start_paused = true)]
async fn guesses_on_one_node_count_on_the_other_and_after_a_restart() {
    let world = World::new().await;
    world.account("acme", |_| {}).await;
    let mut first = Other::start(&world, "one").await;
    let mut second = Other::start(&world, "two").await;
    assert_eq!(first.guess(&world, 12).await, 12);
    first.share().await;
    second.share().await;
    assert_eq!(second.guess(&world, 30).await, 8, "twenty an hour, on both together");
    second.share().await;
    first.share().await;
    assert!(!first.lets_in(&world).await && !second.lets_in(&world).await);
    for restarted in [first.again(&world).await, Other::start(&world, "three").await] {
        assert!(!restarted.lets_in(&world).await, "it has just begun");
        let listed = restarted.gate.login_limits(SiteId::MAIN).await;
        assert_eq!(listed[0].failures, 20, "{listed:?}");
        let left = listed[0].until.since(world.env.now());
        assert!(left > Duration::from_secs(3500) && left <= Duration::from_secs(3600), "{left:?}");
    }
    // What was read once is not counted twice.
    for _ in 0..3 {
        first.share().await;
        second.share().await;
    }
    let address = world.attempt().peer.address.ip();
    let site = SiteId::MAIN;
    assert_eq!(second.gate.unlock_address(site, address, "cli:root").unwrap(), Some(20));
    assert!(second.lets_in(&world).await);
    second.share().await;
    first.share().await;
    assert!(first.lets_in(&world).await, "it was unlocked on the other node");
    assert!(Other::start(&world, "four").await.lets_in(&world).await, "and stays so");
}

#[tokio::test(start_paused = true)]
async fn an_account_is_known_at_its_addresses_after_a_restart_too() {
    let world = World::new().await;
    world.account("acme", |_| {}).await;
    let mut first = Other::start(&world, "one").await;
    assert!(first.lets_in(&world).await);
    first.share().await;
    // Somebody behind the same address guesses another account.
    world.account("other", |_| {}).await;
    let mut second = Other::start(&world, "two").await;
    for _ in 0..20 {
        let verdict = second.attempt(&world).password("other", &wrong()).await;
        assert!(matches!(verdict, Verdict::Refused { .. }), "{verdict:?}");
    }
    second.share().await;
    let restarted = first.again(&world).await;
    assert!(restarted.lets_in(&world).await, "its address is locked for others only");
    let other = restarted.attempt(&world).password("other", &secret("other")).await;
    assert!(!granted(&other));
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_shared_is_shared_later() {
    let world = World::new().await;
    world.account("acme", |_| {}).await;
    let mut first = Other::start(&world, "one").await;
    first.guess(&world, 5).await;
    let unshared = first.gate.penalties().take_unshared(3);
    assert_eq!(unshared.len(), 3, "an entry for the address and one for the account");
    first.gate.penalties().give_back_unshared(unshared);
    first.share().await;
    let listed = Other::start(&world, "two").await;
    let listed = listed.gate.login_limits(SiteId::MAIN).await;
    assert_eq!(listed.first().map(|row| row.failures), Some(5), "{listed:?}");
}
