//! Logins with API tokens: what they allow, when they count, and that nothing repeats them.

use entrepot_crypto::{BearerKind, bearer_token};
use entrepot_nouns::key::TOKEN_HASH;
use entrepot_nouns::{Fact, Right, Timestamp, TokenScope};

use super::*;

/// What becomes of a key, given a moment that lies a minute ahead.
type Change = fn(&mut Key, Timestamp);

/// Makes a token of the account; gives it.
async fn token(world: &World, account: &str, change: impl FnOnce(&mut Key)) -> Secret {
    let token = bearer_token::make(&world.env, BearerKind::Api);
    let hash = bearer_token::hash(BearerKind::Api, &token).unwrap();
    let name_of = name(&format!("{account}-token"));
    let mut key = Key::new(name_of, KeyType::ApiToken, format!("{TOKEN_HASH}{hash}"));
    key.account = Some(name(account));
    key.scopes = vec![TokenScope::FilesRead];
    key.not_after = Some(world.env.now().plus(Duration::from_secs(3600)));
    change(&mut key);
    world.put(&key).await;
    token
}

async fn log_in(world: &World, token: &Secret) -> Verdict {
    world.attempt().api_token(token).await
}

async fn refusals(world: &World) -> Vec<(String, String)> {
    let refused = |event: Event| match event.fact {
        Fact::LoginRefused { name, reason, .. } => Some((name, reason)),
        _ => None,
    };
    world.recorded().await.into_iter().filter_map(refused).collect()
}

#[tokio::test(start_paused = true)]
async fn a_token_lets_its_account_in_with_the_rights_of_its_scopes() {
    let world = World::new().await;
    // Whatever a login asks for otherwise.
    let both = vec![vec![AuthMethod::PublicKey, AuthMethod::Password]];
    world.account("acme", |account| account.login = both).await;
    world.mount("acme").await;
    let all = token(&world, "acme", |key| {
        key.scopes = vec![TokenScope::FilesRead, TokenScope::FilesWrite];
    });
    let all = all.await;
    let Verdict::Granted(grant) = log_in(&world, &all).await else { panic!("refused") };
    assert_eq!(grant.proof(), "api-token acme-token");
    assert_eq!(grant.scopes(), Some([TokenScope::FilesRead, TokenScope::FilesWrite].as_slice()));
    assert!(grant.principal().mounts[0].rights.is_all());
    let live = world.enlist(&grant).unwrap();

    let reading = token(&world, "acme", |_| {}).await;
    assert!(!granted(&log_in(&world, &all).await), "its hash was replaced");
    assert!(live.end_reason().unwrap().contains("deleted"), "{:?}", live.end_reason());
    let Verdict::Granted(grant) = log_in(&world, &reading).await else { panic!("refused") };
    assert_eq!(grant.principal().mounts[0].rights, Rights::read_only());
    for (scopes, right) in [(vec![TokenScope::FilesWrite], Some(Right::Write)), (Vec::new(), None)]
    {
        let other = token(&world, "acme", |key| key.scopes = scopes).await;
        let Verdict::Granted(grant) = log_in(&world, &other).await else { panic!("refused") };
        let rights = grant.principal().mounts[0].rights;
        assert_eq!((rights.has(Right::Read), rights.iter().next()), (false, right));
    }
    // A password is no token, and needs no scope.
    world.account("anna", |_| {}).await;
    assert_eq!(world.grant("anna").await.scopes(), None);
}

#[tokio::test(start_paused = true)]
async fn the_scopes_of_a_live_session_follow_its_token() {
    let world = World::new().await;
    world.account("acme", |_| {}).await;
    world.mount("acme").await;
    let given = token(&world, "acme", |key| key.scopes = TokenScope::ALL.to_vec()).await;
    let Verdict::Granted(grant) = log_in(&world, &given).await else { panic!("refused") };
    let live = world.enlist(&grant).unwrap();
    let known = world.db.find::<Key>(SiteId::MAIN, &name("acme-token")).await.unwrap();
    let mut key = known.unwrap().noun;
    key.scopes = vec![TokenScope::FilesRead];
    world.put(&key).await;
    assert_eq!(live.principal().mounts[0].rights, Rights::read_only());
    key.enabled = false;
    world.put(&key).await;
    assert_eq!(live.end_reason().as_deref(), Some("the API token was revoked"));
}

#[tokio::test(start_paused = true)]
async fn what_does_not_count_is_refused_alike_and_only_the_audit_log_says_why() {
    let world = World::new().await;
    world.account("acme", |_| {}).await;
    world.account("off", |account| account.enabled = false).await;
    let soon = world.env.now().plus(Duration::from_secs(60));
    let cases: [(&str, &str, Change); 5] = [
        ("acme", "the API token was revoked", |key, _| key.enabled = false),
        ("acme", "the API token is not valid yet", |key, soon| key.not_before = Some(soon)),
        ("acme", "the API token may not be used from this address", |key, _| {
            key.from = vec!["10.0.0.0/8".parse().unwrap()];
        }),
        ("off", "the account is disabled", |_, _| {}),
        ("acme", "the API token has expired", |key, soon| key.not_after = Some(soon)),
    ];
    for (at, (account, reason, change)) in cases.into_iter().enumerate() {
        let given = token(&world, account, |key| change(key, soon)).await;
        if reason.contains("expired") {
            world.env.advance(Duration::from_secs(60));
        }
        // Each from an address of its own, so that none is delayed.
        let mut attempt = world.attempt_from(&format!("192.0.2.{}", 10 + at));
        let verdict = attempt.api_token(&given).await;
        let expected = vec![AuthMethod::PublicKey, AuthMethod::Password];
        let alike = matches!(&verdict, Verdict::Refused { next, end: false } if *next == expected);
        assert!(alike, "{reason}: {verdict:?}");
        let last = refusals(&world).await.pop().unwrap();
        assert_eq!(last, (account.to_owned(), reason.to_owned()));
    }
}

#[tokio::test(start_paused = true)]
async fn wrong_tokens_count_like_wrong_passwords_and_a_right_one_passes_a_lock() {
    let world = World::new().await;
    world.account("acme", |_| {}).await;
    let right = token(&world, "acme", |_| {}).await;
    let unknown = bearer_token::make(&world.env, BearerKind::Api);
    for _ in 0..20 {
        assert!(!granted(&log_in(&world, &unknown).await));
    }
    assert_eq!(
        refusals(&world).await.pop().unwrap(),
        (String::new(), "no such API token".to_owned())
    );
    assert!(!granted(&world.attempt().password("acme", &secret("acme")).await), "not locked");
    assert!(world.gate.meters().limited() > 0, "the address is not locked");
    assert!(granted(&log_in(&world, &right).await), "nobody guesses a token");
}

#[tokio::test(start_paused = true)]
async fn no_event_no_error_and_no_debug_form_holds_a_token() {
    let world = World::new().await;
    world.account("acme", |_| {}).await;
    let right = token(&world, "acme", |_| {}).await;
    let text = std::str::from_utf8(right.expose()).unwrap().to_owned();
    let mut typo = text.clone();
    typo.replace_range(10..12, if &text[10..12] == "AA" { "BB" } else { "AA" });
    let mut said = String::new();
    for given in [&text, &typo, &text[..40], &format!("{text} "), &text.replace("ept_", "abc_")] {
        let verdict = log_in(&world, &Secret::new(given.to_owned())).await;
        said.push_str(&format!("{verdict:?}\n"));
    }
    world.gate.write_token_uses().await.unwrap();
    for event in world.recorded().await {
        said.push_str(&serde_json::to_string(&event).unwrap());
    }
    let stored = world.db.configuration().await.unwrap();
    said.push_str(&serde_json::to_string(&stored).unwrap());
    assert!(said.contains("acme-token") && said.contains("mistyped"), "{said}");
    for part in [&text[4..14], &text[20..40], &typo[4..14]] {
        assert!(!said.contains(part), "{part} is in {said}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_use_is_written_apart_from_logins() {
    let world = World::new().await;
    world.account("acme", |_| {}).await;
    let right = token(&world, "acme", |_| {}).await;
    let used = async || world.db.api_tokens(SiteId::MAIN).await.unwrap()[0].used_at;
    for _ in 0..3 {
        world.env.advance(Duration::from_secs(1));
        assert!(granted(&log_in(&world, &right).await));
    }
    assert_eq!(used().await, None, "no login writes");
    world.gate.write_token_uses().await.unwrap();
    assert_eq!(used().await, Some(world.env.now()));
}
