//! The gate as a whole, on a real database and journal, with a simulated clock.

use std::net::IpAddr;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use entrepot_crypto::{HashCost, password};
use entrepot_db::Db;
use entrepot_journal::Journal;
use entrepot_nouns::{
    Account, AccountType, AuthMethod, Env, Event, Key, KeyType, Listener, Mount, Name, Noun,
    PerDirection, Policy, Protocol, Rights, Secret, SiteId, VPath,
};
use entrepot_testbed::{Testbed, memory_endpoint, mount, name};
use uuid::Uuid;

use crate::penalties::Origin;
use crate::{Attempt, Directory, Gate, GateOptions, Grant, LiveSession, Peer, Verdict};

const KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBMq5LdC0q0aWkq4M1gAAAAAAAAAAAAAAAAAAAAAAAAA a";
const OTHER: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBMq5LdC0q0aWkq4M1gBBBBBBBBBBBBBBBBBBBBBBBBB b";

struct World {
    env: Env,
    db: Db,
    directory: Directory,
    gate: Gate,
    journal: Journal,
    bed: Testbed,
}

impl World {
    async fn new() -> World {
        let bed = Testbed::start(Env::simulated(5)).await;
        let (env, db, journal) = (bed.env.clone(), bed.db.clone(), bed.journal.clone());
        let directory = Directory::new(db.clone(), env.clone(), bed.master.clone());
        let options = GateOptions { cost: HashCost::for_tests() };
        let gate = Gate::new(directory.clone(), bed.recorder.clone(), options);
        World { env, db, directory, gate, journal, bed }
    }

    /// Everything that was recorded, in its order.
    async fn recorded(&self) -> Vec<Event> {
        self.journal.sync(self.journal.usage().appended).await.unwrap();
        entrepot_testbed::events(&self.journal)
    }

    async fn put<N: Noun>(&self, noun: &N) {
        self.bed.put(noun).await;
        self.directory.refresh().await.unwrap();
    }

    async fn account(&self, text: &str, change: impl FnOnce(&mut Account)) -> Account {
        let mut account = entrepot_testbed::account(text, &secret(text));
        change(&mut account);
        self.put(&account).await;
        account
    }

    async fn key(&self, account: &str) {
        self.key_with(account, |_| {}).await;
    }

    async fn key_with(&self, account: &str, change: impl FnOnce(&mut Key)) {
        let name_of = name(&format!("{account}-key"));
        let mut key = Key::new(name_of, KeyType::SshUser, KEY.to_owned());
        key.account = Some(name(account));
        change(&mut key);
        self.put(&key).await;
    }

    /// Gives the account all rights at `/`.
    async fn mount(&self, account: &str) {
        self.put(&memory_endpoint("e")).await;
        self.put(&mount(&format!("{account}-home"), account, "/", "e")).await;
    }

    /// A login that is let in.
    async fn grant(&self, account: &str) -> Grant {
        match self.attempt().password(account, &secret(account)).await {
            Verdict::Granted(grant) => grant,
            other => panic!("{account} was refused: {other:?}"),
        }
    }

    fn enlist(&self, grant: &Grant) -> crate::Result<LiveSession> {
        self.directory.enlist(grant, self.env.new_id())
    }

    fn attempt(&self) -> Attempt {
        self.attempt_from("192.0.2.1")
    }

    fn attempt_from(&self, address: &str) -> Attempt {
        self.gate.attempt(Peer {
            site: SiteId::MAIN,
            home: SiteId::MAIN,
            protocol: Protocol::Sftp,
            encrypted: true,
            listener: name("sftp"),
            address: format!("{address}:999").parse().unwrap(),
            client: "test".to_owned(),
            algorithms: String::new(),
        })
    }
}

mod api_tokens;
mod chains;
mod hours;
mod login_hook;
mod login_limits;
mod oidc;
mod passkeys;
mod protocols;
mod sharing;
mod sign_ins;
mod ssh_certificates;
mod tls_certificates;
mod web_hooks;

fn secret(account: &str) -> Secret {
    Secret::new(format!("password of {account}"))
}

fn wrong() -> Secret {
    Secret::new(*b"wrong")
}

fn granted(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Granted(_))
}

#[tokio::test(start_paused = true)]
async fn a_password_or_a_key_admits() {
    let world = World::new().await;
    world.account("acme", |_| {}).await;
    world.key("acme").await;
    assert!(granted(&world.attempt().password("acme", &secret("acme")).await));
    assert!(!granted(&world.attempt().password("acme", &wrong()).await));
    assert!(world.attempt().offered("acme", KEY).await);
    assert!(!world.attempt().offered("acme", OTHER).await);
    let verdict = world.attempt().public_key("acme", KEY, "ssh-ed25519").await;
    let Verdict::Granted(grant) = verdict else { panic!("refused") };
    assert!(grant.proof().starts_with("public-key SHA256:"), "{}", grant.proof());
    assert!(!granted(&world.attempt().public_key("acme", OTHER, "ssh-ed25519").await));
    assert!(!granted(&world.attempt().public_key("acme", KEY, "ssh-rsa").await));
}

#[tokio::test(start_paused = true)]
async fn chains_are_walked_in_their_order_by_one_name_on_one_connection() {
    let world = World::new().await;
    let both = vec![vec![AuthMethod::PublicKey, AuthMethod::Password]];
    world.account("acme", |account| account.login = both.clone()).await;
    world.account("other", |_| {}).await;
    world.key("acme").await;
    let mut attempt = world.attempt();
    assert!(!granted(&attempt.password("acme", &secret("acme")).await), "out of order");
    let step = attempt.public_key("acme", KEY, "ssh-ed25519").await;
    assert!(matches!(step, Verdict::Partial { ref next } if *next == [AuthMethod::Password]));
    assert!(granted(&attempt.password("acme", &secret("acme")).await));

    let mut attempt = world.attempt();
    attempt.public_key("acme", KEY, "ssh-ed25519").await;
    let changed = attempt.password("other", &secret("other")).await;
    assert!(matches!(changed, Verdict::Refused { end: true, .. }), "the name changed mid-way");
}

#[tokio::test(start_paused = true)]
async fn a_disabled_account_is_refused_at_every_step() {
    let world = World::new().await;
    let both = vec![vec![AuthMethod::PublicKey, AuthMethod::Password]];
    let mut account = world.account("acme", |account| account.login = both).await;
    world.key("acme").await;
    let mut attempt = world.attempt();
    attempt.public_key("acme", KEY, "ssh-ed25519").await;
    account.enabled = false;
    world.put(&account).await;
    assert!(!granted(&attempt.password("acme", &secret("acme")).await));
    assert!(!granted(&world.attempt().public_key("acme", KEY, "ssh-ed25519").await));
    assert!(world.gate.internal(SiteId::MAIN, &name("acme"), "rule r").await.is_err());
    account.enabled = true;
    account.expires_at = Some(world.env.now().plus(Duration::from_secs(60)));
    world.put(&account).await;
    assert!(world.gate.internal(SiteId::MAIN, &name("acme"), "rule r").await.is_ok());
    world.env.advance(Duration::from_secs(61));
    assert!(world.gate.internal(SiteId::MAIN, &name("acme"), "rule r").await.is_err());
}

#[tokio::test(start_paused = true)]
async fn unknown_names_cost_the_same_work() {
    let world = World::new().await;
    world.account("acme", |_| {}).await;
    world.account("off", |account| account.enabled = false).await;
    for user in ["acme", "nobody", "off", "../etc", ""] {
        let before = world.gate.hashes();
        let verdict = world.attempt_from("198.51.100.1").password(user, &wrong()).await;
        assert_eq!(world.gate.hashes() - before, 1, "{user:?}");
        let next = vec![AuthMethod::PublicKey, AuthMethod::Password];
        assert!(matches!(verdict, Verdict::Refused { next: ref n, end: false } if *n == next));
    }
}

#[tokio::test(start_paused = true)]
async fn a_right_password_is_remembered_until_the_account_changes() {
    let world = World::new().await;
    let mut account = world.account("acme", |_| {}).await;
    let hashes_of = async |world: &World| {
        let before = world.gate.hashes();
        assert!(granted(&world.attempt().password("acme", &secret("acme")).await));
        world.gate.hashes() - before
    };
    assert_eq!(hashes_of(&world).await, 1);
    assert_eq!(hashes_of(&world).await, 0, "it was not remembered");
    let before = world.gate.hashes();
    assert!(!granted(&world.attempt().password("acme", &wrong()).await));
    assert_eq!(world.gate.hashes() - before, 1, "a wrong one must cost the work");
    world.env.advance(Duration::from_secs(601));
    assert_eq!(hashes_of(&world).await, 1, "it was remembered too long");
    let new = Secret::new(*b"new password");
    account.password_hash = Some(password::hash(&new, HashCost::for_tests(), &[2; 16]).unwrap());
    world.put(&account).await;
    assert!(!granted(&world.attempt().password("acme", &secret("acme")).await));
    assert!(granted(&world.attempt().password("acme", &new).await));
}

#[tokio::test(start_paused = true)]
async fn a_login_behind_a_full_queue_is_told_to_come_again_and_counts_against_nobody() {
    let world = World::new().await;
    world.account("acme", |_| {}).await;
    let origin = |at: u32| Origin::of(IpAddr::from((0x0a00_0000 + at).to_be_bytes()));
    let queue = world.gate.hash_queue();
    let mut held: Vec<_> =
        (0..).map(|at| Box::pin(queue.acquire(origin(at), 64))).take(514).collect();
    let mut context = Context::from_waker(Waker::noop());
    let running = held.iter_mut().map(|take| take.as_mut().poll(&mut context));
    let running: Vec<_> = running.filter(Poll::is_ready).collect();
    for _ in 0..30 {
        let verdict = world.attempt().password("acme", &secret("acme")).await;
        assert!(matches!(verdict, Verdict::Busy), "{verdict:?}");
    }
    assert_eq!((world.gate.hashes(), world.gate.meters().limited()), (0, 30));
    drop((held, running));
    assert!(granted(&world.attempt().password("acme", &secret("acme")).await));
}

#[tokio::test(start_paused = true)]
async fn any_change_of_the_account_forgets_its_password() {
    let world = World::new().await;
    let mut account = world.account("acme", |_| {}).await;
    for change in ["off", "on", "note", "rights"] {
        let before = world.gate.hashes();
        let let_in = granted(&world.attempt().password("acme", &secret("acme")).await);
        assert_eq!((let_in, world.gate.hashes() - before), (account.enabled, 1), "before {change}");
        let before = world.gate.hashes();
        world.attempt().password("acme", &secret("acme")).await;
        assert_eq!(world.gate.hashes() - before, u64::from(!account.enabled), "again {change}");
        match change {
            "off" => account.enabled = false,
            "on" => account.enabled = true,
            "note" => account.note = "x".to_owned(),
            _ => account.rights = Rights::read_only(),
        }
        world.put(&account).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_guesser_is_ended_and_then_unheard() {
    let world = World::new().await;
    world.account("acme", |_| {}).await;
    let mut attempt = world.attempt();
    for round in 1..=3 {
        let Verdict::Refused { end, .. } = attempt.password("acme", &wrong()).await else {
            panic!("a wrong password was taken")
        };
        assert_eq!(end, round == 3, "round {round}");
    }
    for _ in 0..30 {
        world.attempt().password("acme", &wrong()).await;
    }
    let heard = world.gate.hashes();
    assert!(heard <= 20, "{heard} guesses were heard");
    assert!(!granted(&world.attempt().password("acme", &secret("acme")).await));
    let elsewhere = world.attempt_from("203.0.113.9").password("acme", &secret("acme")).await;
    assert!(granted(&elsewhere), "the owner was shut out by a guesser");
}

#[tokio::test(start_paused = true)]
async fn many_logins_at_once_keep_their_names() {
    let world = World::new().await;
    for at in 0..16 {
        world.account(&format!("a{at}"), |_| {}).await;
    }
    let mut tasks = Vec::new();
    for at in 0..64 {
        let user = format!("a{}", at % 16);
        let mut attempt = world.attempt_from(&format!("10.0.0.{at}"));
        tasks.push(tokio::spawn(async move {
            let verdict = attempt.password(&user, &secret(&user)).await;
            let Verdict::Granted(grant) = verdict else { panic!("{user} was refused") };
            assert_eq!(grant.principal().account.name.as_str(), user);
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn mounts_and_policies_are_inherited_from_groups() {
    let world = World::new().await;
    world.put(&memory_endpoint("e")).await;
    let mut policy = Policy::new(name("p"));
    policy.sessions = Some(1);
    world.put(&policy).await;
    let mut outer = Account::new(name("outer"), AccountType::Group);
    outer.policy = Some(name("p"));
    world.put(&outer).await;
    let mut group = Account::new(name("group"), AccountType::Group);
    group.groups = vec![name("outer")];
    world.put(&group).await;
    world.account("acme", |account| account.groups = vec![name("group")]).await;
    let mount = |text: &str, account: &str, path: &str| Mount {
        prefix: format!("{text}/{{account}}"),
        ..mount(text, account, path, "e")
    };
    for noun in [mount("m1", "outer", "/"), mount("m2", "group", "/in"), mount("m3", "acme", "/in")]
    {
        world.put(&noun).await;
    }
    let found = world.directory.resolve(SiteId::MAIN, &name("acme")).await.unwrap().unwrap();
    let seen: Vec<(String, String)> = found
        .mounts
        .iter()
        .map(|mount| (mount.path.to_string(), mount.prefix.to_string()))
        .collect();
    let want = [("/in", "m3/acme"), ("/", "m1/acme")];
    assert_eq!(seen, want.map(|(path, prefix)| (path.to_owned(), prefix.to_owned())));
    assert_eq!(found.policy.sessions, 1);
    let grant = world.grant("acme").await;
    let _live = world.enlist(&grant).unwrap();
    let second = world.attempt().password("acme", &secret("acme")).await;
    assert!(!granted(&second), "the limit of sessions was passed");
}

#[tokio::test(start_paused = true)]
async fn groups_in_a_circle_are_refused() {
    let world = World::new().await;
    for (one, other) in [("g1", "g2"), ("g2", "g1")] {
        let mut group = Account::new(name(one), AccountType::Group);
        group.groups = vec![name(other)];
        world.put(&group).await;
    }
    world.account("acme", |account| account.groups = vec![name("g1")]).await;
    let found = world.directory.resolve(SiteId::MAIN, &name("acme")).await.unwrap().unwrap();
    assert_eq!(found.lineage.len(), 3, "each group counts once");
    world.account("person", |_| {}).await;
    world.account("odd", |account| account.groups = vec![name("person")]).await;
    assert!(world.directory.resolve(SiteId::MAIN, &name("odd")).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn live_sessions_follow_changes_and_end_with_their_account() {
    let world = World::new().await;
    let mut account = world.account("acme", |_| {}).await;
    let principal = world.directory.resolve(SiteId::MAIN, &name("acme")).await.unwrap().unwrap();
    let grant = world.grant("acme").await;
    let live = world.enlist(&grant).unwrap();
    let before = live.generation();
    account.home = VPath::root().join("in").unwrap();
    world.put(&account).await;
    assert!(live.generation() > before);
    assert_eq!(live.principal().account.home.as_str(), "/in");
    assert_eq!(live.end_reason(), None);
    account.enabled = false;
    world.put(&account).await;
    assert_eq!(live.ended().await, "the account is disabled");
    let mut tx = world.db.begin().await.unwrap();
    tx.delete(SiteId::MAIN, entrepot_nouns::Kind::Account, &name("acme")).await.unwrap();
    tx.commit().await.unwrap();
    let other = world.enlist(&grant).unwrap();
    world.directory.refresh().await.unwrap();
    assert_eq!(other.ended().await, "the account was deleted");
    drop((live, other));
    assert_eq!(world.directory.sessions_of(SiteId::MAIN, &name("acme")), 0);
    assert_ne!(Uuid::nil(), principal.id.0);
}

#[tokio::test(start_paused = true)]
async fn guesses_at_the_same_time_share_the_tries_of_their_address() {
    let world = World::new().await;
    world.account("acme", |_| {}).await;
    let mut tasks = Vec::new();
    for _ in 0..60 {
        let mut attempt = world.attempt();
        tasks.push(tokio::spawn(async move { attempt.password("acme", &wrong()).await }));
    }
    for task in tasks {
        assert!(!granted(&task.await.unwrap()));
    }
    assert_eq!(world.gate.hashes(), 20, "guesses heard");
    assert_eq!(world.gate.meters().limited(), 40);
}

#[tokio::test(start_paused = true)]
async fn many_right_logins_from_one_address_are_all_let_in() {
    let world = World::new().await;
    world.account("acme", |_| {}).await;
    let mut tasks = Vec::new();
    for _ in 0..60 {
        let mut attempt = world.attempt();
        tasks.push(tokio::spawn(async move { attempt.password("acme", &secret("acme")).await }));
    }
    for task in tasks {
        assert!(granted(&task.await.unwrap()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_is_let_in_where_passwords_are_no_longer_heard() {
    let world = World::new().await;
    world.account("acme", |_| {}).await;
    world.key("acme").await;
    for _ in 0..25 {
        world.attempt().password("nobody", &wrong()).await;
    }
    assert!(!granted(&world.attempt().password("acme", &secret("acme")).await));
    assert!(granted(&world.attempt().public_key("acme", KEY, "ssh-ed25519").await));
}

#[tokio::test(start_paused = true)]
async fn the_limit_of_an_address_does_not_tell_which_names_exist() {
    let world = World::new().await;
    let mut policy = Policy::new(name("strict"));
    policy.address_failures = Some(5);
    world.put(&policy).await;
    let main = world.db.sites().await.unwrap().pop().unwrap();
    let mut site = main.noun;
    site.policy = Some(name("strict"));
    world.put(&site).await;
    world.account("acme", |_| {}).await;
    world.account("off", |account| account.enabled = false).await;
    for (at, user) in ["acme", "off", "nobody"].into_iter().enumerate() {
        let before = world.gate.hashes();
        for _ in 0..10 {
            world.attempt_from(&format!("198.51.100.{at}")).password(user, &wrong()).await;
        }
        assert_eq!(world.gate.hashes() - before, 5, "{user}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_group_asks_for_at_login_binds_its_members() {
    let world = World::new().await;
    let mut group = Account::new(name("group"), AccountType::Group);
    group.login = vec![vec![AuthMethod::PublicKey, AuthMethod::Password]];
    world.put(&group).await;
    world.account("acme", |account| account.groups = vec![name("group")]).await;
    world.key("acme").await;
    assert!(!granted(&world.attempt().password("acme", &secret("acme")).await));
    let mut attempt = world.attempt();
    let step = attempt.public_key("acme", KEY, "ssh-ed25519").await;
    assert!(matches!(step, Verdict::Partial { .. }));
    assert!(granted(&attempt.password("acme", &secret("acme")).await));
}

#[tokio::test(start_paused = true)]
async fn a_session_that_begins_while_its_account_is_disabled_ends() {
    let world = World::new().await;
    let mut account = world.account("acme", |_| {}).await;
    let grant = world.grant("acme").await;
    account.enabled = false;
    world.put(&account).await;
    let live = world.enlist(&grant).unwrap();
    world.directory.refresh().await.unwrap();
    assert_eq!(live.end_reason().as_deref(), Some("the account is disabled"));
}

#[tokio::test(start_paused = true)]
async fn a_name_without_account_is_looked_up_once_until_the_configuration_changes() {
    let world = World::new().await;
    world.directory.refresh().await.unwrap();
    assert!(world.directory.resolve(SiteId::MAIN, &name("new")).await.unwrap().is_none());
    let account = Account::new(name("new"), AccountType::Partner);
    let mut tx = world.db.begin().await.unwrap();
    let id = world.env.new_id::<entrepot_nouns::AccountId>().0;
    tx.put(SiteId::MAIN, id, &account, world.env.now()).await.unwrap();
    tx.commit().await.unwrap();
    assert!(world.directory.resolve(SiteId::MAIN, &name("new")).await.unwrap().is_none());
    world.directory.refresh().await.unwrap();
    assert!(world.directory.resolve(SiteId::MAIN, &name("new")).await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_refusals_neither_goes_on_nor_fills_the_journal() {
    let world = World::new().await;
    world.account("acme", |_| {}).await;
    let mut attempt = world.attempt();
    for round in 1..=10 {
        let verdict = attempt.public_key("acme", OTHER, "ssh-ed25519").await;
        let Verdict::Refused { end, .. } = verdict else { panic!("an unknown key was taken") };
        assert_eq!(end, round == 10, "round {round}");
    }
    let before = world.journal.usage().appended;
    for _ in 0..500 {
        world.attempt().public_key("acme", OTHER, "ssh-ed25519").await;
        world.attempt().password("acme", &wrong()).await;
    }
    let written = world.journal.usage().appended - before;
    assert!((20..=70).contains(&written), "{written} records");
}

#[tokio::test(start_paused = true)]
async fn a_session_ends_when_what_it_logged_in_with_is_taken_away() {
    let world = World::new().await;
    let mut account = world.account("acme", |_| {}).await;
    world.key("acme").await;
    let by_password = world.enlist(&world.grant("acme").await).unwrap();
    let verdict = world.attempt().public_key("acme", KEY, "ssh-ed25519").await;
    let Verdict::Granted(grant) = verdict else { panic!("refused") };
    let by_key = world.enlist(&grant).unwrap();
    account.note = "changed".to_owned();
    world.put(&account).await;
    assert_eq!((by_password.end_reason(), by_key.end_reason()), (None, None));

    let other = Secret::new(*b"another password");
    account.password_hash = Some(password::hash(&other, HashCost::for_tests(), &[2; 16]).unwrap());
    world.put(&account).await;
    let reason = "the password that it logged in with was changed";
    assert_eq!(by_password.end_reason().as_deref(), Some(reason));
    assert_eq!(by_key.end_reason(), None, "the key still counts");

    let mut tx = world.db.begin().await.unwrap();
    tx.delete(SiteId::MAIN, entrepot_nouns::Kind::Key, &name("acme-key")).await.unwrap();
    tx.commit().await.unwrap();
    world.directory.refresh().await.unwrap();
    let reason = "the key that it logged in with was taken away";
    assert_eq!(by_key.end_reason().as_deref(), Some(reason));
}

#[tokio::test(start_paused = true)]
async fn a_session_ends_when_its_address_is_admitted_no_longer() {
    let world = World::new().await;
    let mut account = world.account("acme", |_| {}).await;
    let live = world.enlist(&world.grant("acme").await).unwrap();
    let rule = world.gate.internal(SiteId::MAIN, &name("acme"), "rule 'x'").await.unwrap();
    let job = world.enlist(&rule).unwrap();
    let mut policy = Policy::new(name("elsewhere"));
    policy.deny = vec!["192.0.2.0/24".parse().unwrap()];
    world.put(&policy).await;
    account.policy = Some(name("elsewhere"));
    world.put(&account).await;
    let reason = "its policy does not admit this address";
    assert_eq!(live.end_reason().as_deref(), Some(reason));
    assert_eq!(job.end_reason(), None, "a rule comes from no address");
}

#[tokio::test(start_paused = true)]
async fn logins_at_the_same_time_do_not_pass_the_limit_of_sessions() {
    let world = World::new().await;
    let mut policy = Policy::new(name("two"));
    policy.sessions = Some(2);
    world.put(&policy).await;
    world.account("acme", |account| account.policy = Some(name("two"))).await;
    let mut grants = Vec::new();
    for _ in 0..4 {
        grants.push(world.grant("acme").await);
    }
    let rule = world.gate.internal(SiteId::MAIN, &name("acme"), "rule 'x'").await.unwrap();
    let _job = world.enlist(&rule).unwrap();
    let mut live: Vec<_> = grants.iter().filter_map(|grant| world.enlist(grant).ok()).collect();
    assert_eq!(live.len(), 2, "sessions of four logins; a rule's does not count");
    live.pop();
    assert!(world.enlist(&grants[3]).is_ok(), "a place that was left is free");
}

#[tokio::test(start_paused = true)]
async fn a_group_that_is_disabled_or_expires_takes_its_members_along() {
    let world = World::new().await;
    let mut group = Account::new(name("partners"), AccountType::Group);
    world.put(&group).await;
    world.account("acme", |account| account.groups = vec![name("partners")]).await;
    let live = world.enlist(&world.grant("acme").await).unwrap();
    group.expires_at = Some(world.env.now().plus(Duration::from_secs(60)));
    world.put(&group).await;
    assert_eq!(live.end_reason(), None);
    world.env.advance(Duration::from_secs(61));
    world.directory.refresh().await.unwrap();
    assert_eq!(live.end_reason().as_deref(), Some("a group of the account has expired"));
    group.expires_at = None;
    world.put(&group).await;
    let live = world.enlist(&world.grant("acme").await).unwrap();
    group.enabled = false;
    world.put(&group).await;
    assert_eq!(live.end_reason().as_deref(), Some("a group of the account is disabled"));
    assert!(!granted(&world.attempt().password("acme", &secret("acme")).await));
}

/// The listener that the tests come in by, with a policy.
fn listener(policy: &str) -> Listener {
    Listener {
        name: name("sftp"),
        protocol: Protocol::Sftp,
        address: "0.0.0.0:22".parse().unwrap(),
        enabled: true,
        host_keys: Vec::new(),
        proxies: Vec::new(),
        unauthenticated: Vec::new(),
        login: None,
        policy: Some(name(policy)),
        banner: String::new(),
        tls: entrepot_nouns::tls::ListenerTls::default(),
        ftp: None,
        http: None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_listener_admits_the_addresses_of_its_policy_only() {
    let world = World::new().await;
    world.account("acme", |_| {}).await;
    world.key("acme").await;
    let live = world.enlist(&world.grant("acme").await).unwrap();
    let mut policy = Policy::new(name("office"));
    policy.allow = vec!["198.51.100.0/24".parse().unwrap()];
    world.put(&policy).await;
    let mut listener = listener("office");
    world.put(&listener).await;
    let reason = "the listener does not admit this address";
    assert_eq!(live.end_reason().as_deref(), Some(reason));
    assert!(!granted(&world.attempt().password("acme", &secret("acme")).await));
    assert!(!world.attempt().offered("acme", KEY).await);
    assert!(!granted(&world.attempt().public_key("acme", KEY, "ssh-ed25519").await));
    let mut near = world.attempt_from("198.51.100.7");
    assert!(granted(&near.password("acme", &secret("acme")).await));
    listener.policy = None;
    world.put(&listener).await;
    assert!(granted(&world.attempt().password("acme", &secret("acme")).await));
}

#[tokio::test(start_paused = true)]
async fn members_of_a_group_and_guests_of_a_listener_share_their_rates() {
    let world = World::new().await;
    let mut of_group = Policy::new(name("of-group"));
    of_group.shared_upload_bytes_per_second = Some(10_000);
    let mut of_listener = Policy::new(name("of-listener"));
    of_listener.shared_download_bytes_per_second = Some(20_000);
    let mut of_acme = Policy::new(name("of-acme"));
    of_acme.upload_bytes_per_second = Some(8_000);
    for policy in [&of_group, &of_listener, &of_acme] {
        world.put(policy).await;
    }
    let mut group = Account::new(name("partners"), AccountType::Group);
    group.policy = Some(name("of-group"));
    world.put(&group).await;
    world.put(&listener("of-listener")).await;
    let member = |account: &mut Account| account.groups = vec![name("partners")];
    world
        .account("acme", |account| {
            member(account);
            account.policy = Some(name("of-acme"));
        })
        .await;
    world.account("beta", member).await;
    world.account("lone", |_| {}).await;
    let mut live = Vec::new();
    for account in ["acme", "beta", "lone"] {
        live.push(world.enlist(&world.grant(account).await).unwrap());
    }
    let rates = |live: &[LiveSession]| -> Vec<_> {
        let rate = |live: &LiveSession| {
            (live.throttles().upload.rate(), { live.throttles().download.rate() })
        };
        live.iter().map(rate).collect()
    };
    assert_eq!(
        rates(&live),
        [(Some(8_000), Some(20_000)), (Some(10_000), Some(20_000)), (None, Some(20_000))]
    );
    // What one takes, the others of its group wait for, and nobody else.
    live[0].throttles().upload.take(10_000);
    live[1].throttles().upload.take(1_000);
    live[2].throttles().upload.take(1_000_000);
    assert_eq!(live[1].throttles().upload.wait(), Some(Duration::from_millis(1_100)));
    assert_eq!(live[2].throttles().upload.wait(), None);
    // A change is felt at once, also that of membership.
    of_group.shared_upload_bytes_per_second = Some(5_000);
    world.put(&of_group).await;
    world.account("lone", member).await;
    let uploads: Vec<_> = rates(&live).into_iter().map(|(upload, _)| upload).collect();
    assert_eq!(uploads, [Some(5_000), Some(5_000), Some(5_000)]);
    // One session alone can be limited, until its order is taken back.
    let order = PerDirection { upload: Some(2_000), download: None };
    live[1].order_rates(Some(order));
    world.put(&of_group).await;
    assert_eq!(rates(&live)[1], (Some(2_000), Some(20_000)));
    live[1].order_rates(None);
    assert_eq!(rates(&live)[1], (Some(5_000), Some(20_000)));
}

#[tokio::test(start_paused = true)]
async fn transfers_of_an_account_are_counted_over_its_sessions() {
    let world = World::new().await;
    let mut policy = Policy::new(name("few"));
    policy.transfers = Some(2);
    world.put(&policy).await;
    world.account("acme", |account| account.policy = Some(name("few"))).await;
    let (one, other) = (
        world.enlist(&world.grant("acme").await).unwrap(),
        world.enlist(&world.grant("acme").await).unwrap(),
    );
    let first = one.begin_transfer();
    let second = other.begin_transfer();
    assert!(first.is_some() && second.is_some());
    assert!(one.begin_transfer().is_none());
    drop(second);
    assert!(one.begin_transfer().is_some());
    let grant = world.gate.internal(SiteId::MAIN, &name("acme"), "rule").await.unwrap();
    let rule = world.enlist(&grant).unwrap();
    let many: Vec<_> = (0..5).map(|_| rule.begin_transfer()).collect();
    assert!(many.iter().all(Option::is_some), "those of rules do not count");
}
