//! Addresses that are locked by wrong passwords, and who is let try from there all the same.

use super::*;
use crate::limits::{KNOWN_FAILURES, KNOWN_FOR, SPARED_FACTOR};

/// Where a company comes from.
const NAT: &str = "192.0.2.1";
/// Wrong passwords of an address before it is locked, unless a policy says otherwise.
const ADDRESS_FAILURES: u64 = 20;

impl World {
    /// So many wrong passwords; how many of them were compared.
    async fn guesses(&self, account: &str, count: usize) -> u64 {
        let before = self.gate.hashes();
        for _ in 0..count {
            let verdict = self.attempt_from(NAT).password(account, &wrong()).await;
            assert!(matches!(verdict, Verdict::Refused { .. }), "{verdict:?}");
        }
        self.gate.hashes() - before
    }

    async fn is_let_in(&self, account: &str) -> bool {
        granted(&self.attempt_from(NAT).password(account, &secret(account)).await)
    }
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_job_does_not_shut_out_those_who_logged_in_from_there() {
    let world = World::new().await;
    for account in ["acme", "beta", "new"] {
        world.account(account, |_| {}).await;
    }
    for account in ["acme", "beta"] {
        assert!(world.is_let_in(account).await);
    }
    assert_eq!(world.guesses("beta", 50).await, ADDRESS_FAILURES);
    assert!(world.is_let_in("acme").await, "the job of another shut it out");
    assert!(!world.is_let_in("new").await, "nobody knows it there");
    assert!(!world.is_let_in("beta").await, "its own job goes on guessing");
    let elsewhere = world.attempt_from("198.51.100.1").password("beta", &secret("beta")).await;
    assert!(granted(&elsewhere));
    world.env.advance(Duration::from_secs(3601));
    assert!(world.is_let_in("new").await && world.is_let_in("beta").await);
}

#[tokio::test(start_paused = true)]
async fn who_is_let_try_from_a_locked_address_may_not_guess() {
    let world = World::new().await;
    for account in ["acme", "nobody"] {
        world.account(account, |_| {}).await;
    }
    assert!(world.is_let_in("acme").await);
    world.guesses("nobody", 50).await;
    assert_eq!(world.guesses("acme", 50).await, u64::from(KNOWN_FAILURES));
    assert!(!world.is_let_in("acme").await, "the right password was not heard any more");
    // Right ones in between give no guesses back.
    world.env.advance(Duration::from_secs(3601));
    world.guesses("nobody", 50).await;
    let mut heard = 0;
    for _ in 0..50 {
        heard += world.guesses("acme", 1).await;
        world.is_let_in("acme").await;
    }
    assert_eq!(heard, u64::from(KNOWN_FAILURES));
}

#[tokio::test(start_paused = true)]
async fn guesses_over_many_known_accounts_of_a_locked_address_have_a_limit_together() {
    let world = World::new().await;
    let accounts: Vec<String> = (0..40).map(|at| format!("a{at}")).collect();
    for account in &accounts {
        world.account(account, |_| {}).await;
        assert!(world.is_let_in(account).await);
    }
    world.guesses("nobody", 50).await;
    let mut heard = 0;
    for account in &accounts {
        heard += world.guesses(account, 10).await;
    }
    assert_eq!(heard, ADDRESS_FAILURES * u64::from(SPARED_FACTOR));
}

#[tokio::test(start_paused = true)]
async fn an_address_is_known_for_a_while() {
    let world = World::new().await;
    world.account("acme", |_| {}).await;
    assert!(world.is_let_in("acme").await);
    world.env.advance(KNOWN_FOR + Duration::from_secs(1));
    world.guesses("nobody", 50).await;
    assert!(!world.is_let_in("acme").await, "it logged in from there too long ago");
}

#[tokio::test(start_paused = true)]
async fn a_hundred_accounts_log_in_at_once_from_one_address() {
    let world = World::new().await;
    let accounts: Vec<String> = (0..100).map(|at| format!("a{at}")).collect();
    for account in &accounts {
        world.account(account, |_| {}).await;
    }
    // Once as usual, once from an address that is locked.
    for round in 1..=2 {
        let mut tasks = tokio::task::JoinSet::new();
        for account in accounts.clone() {
            let mut attempt = world.attempt_from(NAT);
            tasks.spawn(async move { attempt.password(&account, &secret(&account)).await });
        }
        while let Some(verdict) = tasks.join_next().await {
            let verdict = verdict.unwrap();
            assert!(granted(&verdict), "round {round}: {verdict:?}");
        }
        world.guesses("nobody", 50).await;
        world.env.advance(crate::limits::REMEMBERED_FOR + Duration::from_secs(1));
    }
    assert_eq!(world.gate.hashes(), 200 + ADDRESS_FAILURES, "each was compared");
}

#[tokio::test(start_paused = true)]
async fn an_operator_sees_who_is_locked_and_lets_an_address_go() {
    let world = World::new().await;
    let mut policy = Policy::new(name("few"));
    policy.account_failures = Some(4);
    world.put(&policy).await;
    world.account("watched", |account| account.policy = Some(name("few"))).await;
    world.account("acme", |_| {}).await;
    assert!(world.is_let_in("acme").await);
    let (began, limits) = (world.env.now(), world.gate.login_limits(SiteId::MAIN).await);
    assert_eq!(limits, []);
    for host in 1..=4 {
        let mut attempt = world.attempt_from(&format!("203.0.113.{host}"));
        attempt.password("watched", &wrong()).await;
        world.env.advance(Duration::from_secs(1));
    }
    for _ in 0..3 {
        world.attempt_from("[2001:db8::7]").password("nobody", &wrong()).await;
    }
    world.guesses("nobody", 50).await;
    world.guesses("acme", 50).await;
    let limits = world.gate.login_limits(SiteId::MAIN).await;
    let seen: Vec<_> = limits
        .iter()
        .map(|limit| {
            let account = limit.account.as_ref().map(Name::as_str);
            let seconds = (limit.since.since(began).as_secs(), limit.until.since(began).as_secs());
            (limit.address.as_deref(), account, limit.state.as_str(), limit.failures, seconds)
        })
        .collect();
    let (hour, day) = (3600, 86_400);
    let want = [
        (None, Some("watched"), "locked", 4, (3, day)),
        (Some(NAT), None, "locked", 20, (4, 4 + hour)),
        (Some(NAT), Some("acme"), "locked", KNOWN_FAILURES, (4, 4 + hour)),
        (Some("2001:db8::/64"), None, "delayed", 3, (4, 4 + hour)),
    ];
    assert_eq!(seen, want);

    let address = NAT.parse().unwrap();
    let failures = 20 + KNOWN_FAILURES;
    let unlocked = world.gate.unlock_address(SiteId::MAIN, address, "cli:uid-0").unwrap();
    assert_eq!(unlocked, Some(failures));
    assert!(world.is_let_in("acme").await, "it is locked still");
    assert_eq!(world.guesses("nobody", 50).await, ADDRESS_FAILURES, "it may be wrong again");
    let unlocked = world.gate.unlock_account(SiteId::MAIN, &name("watched"), "cli:uid-0").unwrap();
    assert_eq!(unlocked, Some(4));
    let unlocked = world.gate.unlock_account(SiteId::MAIN, &name("watched"), "cli:uid-0").unwrap();
    assert_eq!(unlocked, None, "there is nothing to forget");
    let nowhere = "192.0.2.99".parse().unwrap();
    assert_eq!(world.gate.unlock_address(SiteId::MAIN, nowhere, "cli:uid-0").unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn who_is_known_may_not_be_wrong_more_often_than_a_strict_policy_says() {
    let world = World::new().await;
    let mut policy = Policy::new(name("strict"));
    policy.address_failures = Some(3);
    world.put(&policy).await;
    let mut site = world.db.sites().await.unwrap().pop().unwrap().noun;
    site.policy = Some(name("strict"));
    world.put(&site).await;
    world.account("acme", |_| {}).await;
    assert!(world.is_let_in("acme").await);
    assert_eq!(world.guesses("acme", 20).await, 3);
    assert!(!world.is_let_in("acme").await);
}
