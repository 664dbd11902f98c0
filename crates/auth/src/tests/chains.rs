//! Orders of methods, codes, rounds of keyboard-interactive, and options of keys.

use entrepot_crypto::{SealingContext, recovery_code, totp};
use entrepot_journal::Recorder;
use entrepot_nouns::AuthMethod::{Password, PublicKey, Totp};
use entrepot_nouns::{AccountId, Fact};

use super::*;

/// An account with a code generator; gives its secret.
async fn with_codes(world: &World, account: &str, login: Vec<Vec<AuthMethod>>) -> Secret {
    let secret = totp::new_secret(&world.env);
    let master = world.directory.master();
    let context = SealingContext::code_generator(&name("main"), &name(account));
    let sealed = master.seal(&world.env, &context, &secret).unwrap();
    let change = |noun: &mut Account| {
        noun.totp_sealed = Some(sealed);
        noun.login = login;
    };
    world.account(account, change).await;
    secret
}

fn code(world: &World, secret: &Secret) -> Secret {
    Secret::new(totp::code_at(secret, world.env.now().seconds()).unwrap())
}

async fn next_code(world: &World, secret: &Secret) -> Secret {
    world.env.advance(Duration::from_secs(30));
    code(world, secret)
}

fn partial(verdict: &Verdict, wanted: &[AuthMethod]) -> bool {
    matches!(verdict, Verdict::Partial { next } if next == wanted)
}

fn refused(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Refused { .. })
}

#[tokio::test(start_paused = true)]
async fn each_order_is_walked_forwards_only() {
    let world = World::new().await;
    let orders = vec![vec![PublicKey, Password], vec![PublicKey, Totp], vec![Password, Totp]];
    let secret = with_codes(&world, "acme", orders).await;
    world.key("acme").await;
    let password = super::secret("acme");

    let mut attempt = world.attempt();
    let step = attempt.public_key("acme", KEY, "ssh-ed25519").await;
    assert!(partial(&step, &[Password, Totp]), "{step:?}");
    assert!(granted(&attempt.password("acme", &password).await), "key, password");

    let mut attempt = world.attempt();
    attempt.public_key("acme", KEY, "ssh-ed25519").await;
    let verdict = attempt.code("acme", &code(&world, &secret)).await;
    let Verdict::Granted(grant) = verdict else { panic!("key, code") };
    assert!(grant.proof().ends_with(" + code"), "{}", grant.proof());

    let mut attempt = world.attempt();
    let step = attempt.password("acme", &password).await;
    assert!(partial(&step, &[Totp]), "{step:?}");
    let again = attempt.public_key("acme", KEY, "ssh-ed25519").await;
    assert!(refused(&again), "a key after the password is no order");
    let next = next_code(&world, &secret).await;
    assert!(granted(&attempt.code("acme", &next).await), "password, code");

    let next = next_code(&world, &secret).await;
    assert!(refused(&world.attempt().code("acme", &next).await), "a code alone");
    let mut attempt = world.attempt();
    attempt.password("acme", &password).await;
    assert!(refused(&attempt.password("acme", &password).await), "a step twice");
}

#[tokio::test(start_paused = true)]
async fn a_generator_asks_for_its_code_behind_every_single_method() {
    let world = World::new().await;
    let secret = with_codes(&world, "acme", Vec::new()).await;
    world.key("acme").await;
    let mut attempt = world.attempt();
    assert!(partial(&attempt.password("acme", &super::secret("acme")).await, &[Totp]));
    assert!(granted(&attempt.code("acme", &code(&world, &secret)).await));
    let mut attempt = world.attempt();
    assert!(partial(&attempt.public_key("acme", KEY, "ssh-ed25519").await, &[Totp]));
}

#[tokio::test(start_paused = true)]
async fn a_code_is_good_once_whichever_session_it_comes_from() {
    let world = World::new().await;
    let secret = with_codes(&world, "acme", vec![vec![Password, Totp]]).await;
    let password = super::secret("acme");
    let given = [(Password, password), (Totp, code(&world, &secret))];
    assert!(granted(&world.attempt().answers("acme", &given).await));
    assert!(refused(&world.attempt().answers("acme", &given).await), "used before");
    let other = world.attempt_from("198.51.100.9").answers("acme", &given).await;
    assert!(refused(&other), "used before, elsewhere");
    // Another node, or this one after a restart: nothing is in its memory.
    let recorder = Recorder::new(world.journal.clone(), world.env.clone(), name("n2"));
    let options = GateOptions { cost: HashCost::for_tests() };
    let node = Gate::new(world.directory.clone(), recorder, options);
    let peer = world.attempt_from("203.0.113.8").peer.clone();
    let mut there = node.attempt(peer.clone());
    assert!(refused(&there.answers("acme", &given).await), "used before, on another node");
    let fresh = [given[0].clone(), (Totp, next_code(&world, &secret).await)];
    assert!(granted(&node.attempt(peer).answers("acme", &fresh).await));
}

#[tokio::test(start_paused = true)]
async fn wrong_codes_count_like_wrong_passwords() {
    let world = World::new().await;
    with_codes(&world, "acme", vec![vec![PublicKey, Totp]]).await;
    world.key("acme").await;
    let wrong = Secret::new(*b"000000");
    let mut heard = 0;
    for _ in 0..30 {
        let mut attempt = world.attempt();
        attempt.public_key("acme", KEY, "ssh-ed25519").await;
        for round in 1..=3 {
            let before = world.gate.meters().refused();
            let Verdict::Refused { end, .. } = attempt.code("acme", &wrong).await else {
                panic!("a wrong code was taken")
            };
            heard += world.gate.meters().refused() - before;
            if end {
                break;
            }
            assert!(round < 3, "a fourth code on one connection");
        }
    }
    assert!(heard <= 20, "{heard} codes of one address were heard");
}

#[tokio::test(start_paused = true)]
async fn one_round_asks_for_both_and_tells_not_which_was_wrong() {
    let world = World::new().await;
    let secret = with_codes(&world, "acme", vec![vec![Password, Totp]]).await;
    world.account("plain", |_| {}).await;
    assert_eq!(world.attempt().asked("acme").await, [Password, Totp]);
    for name in ["plain", "nobody", "../x", ""] {
        assert_eq!(world.attempt().asked(name).await, [Password], "{name:?}");
    }
    let password = super::secret("acme");
    let right_and_wrong = [(Password, password.clone()), (Totp, Secret::new(*b"000000"))];
    let wrong_and_right = [(Password, wrong()), (Totp, code(&world, &secret))];
    for given in [right_and_wrong, wrong_and_right] {
        let mut attempt = world.attempt_from("203.0.113.1");
        let Verdict::Refused { next, end } = attempt.answers("acme", &given).await else {
            panic!("half was enough")
        };
        assert_eq!((next, end), (vec![PublicKey, Password], false));
        assert!(refused(&attempt.code("acme", &code(&world, &secret)).await), "half was kept");
    }
    let alone = [(Password, super::secret("plain"))];
    assert!(granted(&world.attempt_from("203.0.113.2").answers("plain", &alone).await));
    assert!(refused(&world.attempt_from("203.0.113.2").answers("plain", &[]).await), "nothing");
}

#[tokio::test(start_paused = true)]
async fn after_a_key_only_the_code_is_asked() {
    let world = World::new().await;
    let secret = with_codes(&world, "acme", vec![vec![PublicKey, Totp]]).await;
    world.key("acme").await;
    let mut attempt = world.attempt();
    assert_eq!(attempt.asked("acme").await, [Password], "nothing is told before the key");
    attempt.public_key("acme", KEY, "ssh-ed25519").await;
    assert_eq!(attempt.asked("acme").await, [Totp]);
    assert_eq!(attempt.asked("other").await, [Password], "of another name nothing");
    assert!(granted(&attempt.answers("acme", &[(Totp, code(&world, &secret))]).await));
}

#[tokio::test(start_paused = true)]
async fn a_session_ends_when_its_generator_is_changed() {
    let world = World::new().await;
    let secret = with_codes(&world, "acme", vec![vec![Password, Totp]]).await;
    let given = [(Password, super::secret("acme")), (Totp, code(&world, &secret))];
    let Verdict::Granted(grant) = world.attempt().answers("acme", &given).await else {
        panic!("refused")
    };
    let live = world.enlist(&grant).unwrap();
    world.directory.refresh().await.unwrap();
    assert_eq!(live.end_reason(), None);
    with_codes(&world, "acme", vec![vec![Password, Totp]]).await;
    assert!(live.end_reason().unwrap().contains("code generator"));
}

#[tokio::test(start_paused = true)]
async fn a_key_counts_from_its_addresses_and_not_while_disabled() {
    let world = World::new().await;
    world.account("acme", |_| {}).await;
    let from = |key: &mut Key| {
        key.from = vec!["192.0.2.0/24".parse().unwrap(), "!192.0.2.66".parse().unwrap()];
    };
    world.key_with("acme", from).await;
    let tries = [("192.0.2.1", true), ("198.51.100.1", false), ("192.0.2.66", false)];
    for (address, admitted) in tries {
        let mut attempt = world.attempt_from(address);
        assert_eq!(attempt.offered("acme", KEY).await, admitted, "{address}");
        let verdict = attempt.public_key("acme", KEY, "ssh-ed25519").await;
        assert_eq!(granted(&verdict), admitted, "{address}");
    }
    let Verdict::Granted(grant) = world.attempt().public_key("acme", KEY, "ssh-ed25519").await
    else {
        panic!("refused")
    };
    let live = world.enlist(&grant).unwrap();
    world.key_with("acme", |key| key.enabled = false).await;
    assert!(live.end_reason().is_some(), "the session outlived its key");
    assert!(refused(&world.attempt().public_key("acme", KEY, "ssh-ed25519").await));
}

#[tokio::test(start_paused = true)]
async fn a_read_only_key_narrows_the_session_and_follows_changes() {
    let world = World::new().await;
    world.account("acme", |_| {}).await;
    world.mount("acme").await;
    world.key_with("acme", |key| key.read_only = true).await;
    let rights = |live: &LiveSession| live.principal().mounts[0].rights;
    let Verdict::Granted(grant) = world.attempt().public_key("acme", KEY, "ssh-ed25519").await
    else {
        panic!("refused")
    };
    assert_eq!(grant.principal().mounts[0].rights, Rights::read_only());
    let by_key = world.enlist(&grant).unwrap();
    let by_password = world.enlist(&world.grant("acme").await).unwrap();
    assert_eq!(rights(&by_key), Rights::read_only());
    assert!(rights(&by_password).is_all(), "another proof, all rights");
    world.key_with("acme", |key| key.read_only = false).await;
    assert!(rights(&by_key).is_all());
    world.key_with("acme", |key| key.read_only = true).await;
    assert_eq!(rights(&by_key), Rights::read_only(), "it was not narrowed again");
    let mut again = Key::new(name("a-first"), KeyType::SshUser, KEY.to_owned());
    again.account = Some(name("acme"));
    world.put(&again).await;
    assert_eq!(rights(&by_key), Rights::read_only(), "the strictest noun of a key counts");
}

/// Gives the account a recovery code.
async fn with_recovery_code(world: &World, account: &str) -> Secret {
    let stored = world.db.find::<Account>(SiteId::MAIN, &name(account)).await.unwrap().unwrap();
    let id = AccountId(stored.id);
    let code = recovery_code::make(&world.env);
    let hashes = [recovery_code::hash(id, &code).unwrap(), "another".to_owned()];
    let mut tx = world.db.begin().await.unwrap();
    tx.set_recovery_codes(id, &hashes).await.unwrap();
    tx.commit().await.unwrap();
    code
}

#[tokio::test(start_paused = true)]
async fn a_recovery_code_stands_in_for_a_code_once_and_the_audit_log_says_so() {
    let world = World::new().await;
    with_codes(&world, "acme", Vec::new()).await;
    let code = with_recovery_code(&world, "acme").await;
    assert!(refused(&world.attempt().code("acme", &code).await), "a code alone");
    let mut attempt = world.attempt();
    attempt.password("acme", &super::secret("acme")).await;
    let wrong = recovery_code::make(&world.env);
    assert!(refused(&attempt.code("acme", &wrong).await), "of nobody");
    let Verdict::Granted(grant) = attempt.code("acme", &code).await else { panic!("refused") };
    assert_eq!(grant.proof(), "password + recovery code");
    let mut again = world.attempt();
    again.password("acme", &super::secret("acme")).await;
    assert!(refused(&again.code("acme", &code).await), "it was used");
    let used: Vec<_> = world
        .recorded()
        .await
        .into_iter()
        .filter_map(|event| match event.fact {
            Fact::RecoveryCodeUsed { address, left } => Some((event.account, address, left)),
            _ => None,
        })
        .collect();
    assert_eq!(used, [(Some(name("acme")), "192.0.2.1".to_owned(), 1)]);
}
