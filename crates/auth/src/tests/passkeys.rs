//! Logins with passkeys: what proves one, and what is refused.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use entrepot_nouns::{Fact, Site};
use entrepot_testbed::authenticator::{Authenticator, PRESENT};

use super::*;
use crate::limits::CHALLENGE_TIME;
use crate::{
    Challenge, ChallengePurpose, Encryption, NewPasskey, PageOrigin, PasskeyAnswer, PasskeyError,
    PasskeyLogin, Principal,
};

const HOST: &str = "files.example";

fn page() -> PageOrigin {
    PageOrigin::new(HOST, None, Encryption::Here).unwrap()
}

/// Gives an account a passkey of this authenticator.
async fn enroll(world: &World, account: &str, device: &Authenticator) {
    let public =
        format!("webauthn-es256 {} {} {}", device.host, device.credential, device.public());
    let mut key = Key::new(name(&format!("{account}-passkey")), KeyType::Passkey, public);
    key.account = Some(name(account));
    world.put(&key).await;
}

async fn world_with(device: &Authenticator) -> World {
    let world = World::new().await;
    world.account("acme", |_| {}).await;
    world.mount("acme").await;
    enroll(&world, "acme", device).await;
    world
}

async fn challenge(world: &World) -> Challenge {
    world.gate.challenge(SiteId::MAIN, ChallengePurpose::LogIn).await.unwrap()
}

fn answer(device: &Authenticator, to: &str) -> PasskeyAnswer {
    let said = device.used(to);
    PasskeyAnswer {
        credential: device.credential.clone(),
        client_data: said.client_data,
        authenticator_data: said.authenticator_data,
        signature: said.proof,
        user_handle: String::new(),
    }
}

async fn log_in(world: &World, cookie: &Secret, answer: &PasskeyAnswer) -> Verdict {
    world.attempt().passkey(&PasskeyLogin { cookie, page: &page(), answer }).await
}

/// Why the last login was refused.
async fn refusal(world: &World) -> String {
    let refused = |event: Event| match event.fact {
        Fact::LoginRefused { reason, .. } => Some(reason),
        _ => None,
    };
    world.recorded().await.into_iter().filter_map(refused).next_back().unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn a_passkey_signs_its_account_in_once_for_each_challenge() {
    let mut device = Authenticator::new(HOST);
    let world = world_with(&device).await;
    let asked = challenge(&world).await;
    device.signatures = 7;
    let mut shown = answer(&device, &asked.challenge);
    let account = world.directory.resolve(SiteId::MAIN, &name("acme")).await.unwrap().unwrap();
    shown.user_handle = URL_SAFE_NO_PAD.encode(account.id.0.as_bytes());
    let Verdict::Granted(grant) = log_in(&world, &asked.cookie, &shown).await else {
        panic!("refused: {}", refusal(&world).await)
    };
    assert_eq!(grant.proof(), "passkey acme-passkey");
    assert!(grant.principal().mounts[0].rights.is_all());
    assert!(!granted(&log_in(&world, &asked.cookie, &shown).await), "it was replayed");
    assert!(refusal(&world).await.contains("was answered"), "{}", refusal(&world).await);
    // A copy of the authenticator would count on from where it was copied.
    let asked = challenge(&world).await;
    assert!(!granted(&log_in(&world, &asked.cookie, &answer(&device, &asked.challenge)).await));
    assert!(refusal(&world).await.contains("copied"), "{}", refusal(&world).await);
    device.signatures = 8;
    let asked = challenge(&world).await;
    assert!(granted(&log_in(&world, &asked.cookie, &answer(&device, &asked.challenge)).await));

    // The cookie of the browser, too, stands for the login only as long as the passkey does.
    let opened = world.gate.open_sign_in(&grant, "Firefox").await.unwrap();
    let peer = world.attempt().peer.clone();
    assert!(world.gate.signed_in(&opened.cookie, peer.clone()).await.unwrap().is_some());
    let stored = world.db.find::<Key>(SiteId::MAIN, &name("acme-passkey")).await.unwrap();
    world.put(&Key { enabled: false, ..stored.unwrap().noun }).await;
    assert!(world.gate.signed_in(&opened.cookie, peer).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn what_proves_nothing_is_refused() {
    let mut device = Authenticator::new(HOST);
    let world = world_with(&device).await;
    let try_it = async |device: &Authenticator, change: fn(&mut PasskeyAnswer), why: &str| {
        let asked = challenge(&world).await;
        let mut shown = answer(device, &asked.challenge);
        change(&mut shown);
        assert!(!granted(&log_in(&world, &asked.cookie, &shown).await), "{why}");
        assert!(refusal(&world).await.contains(why), "{why}: {}", refusal(&world).await);
        world.gate.unlock_address(SiteId::MAIN, "192.0.2.1".parse().unwrap(), "test").unwrap();
    };
    device.origin = "https://evil.example".to_owned();
    try_it(&device, |_| {}, "another site").await;
    device.origin = format!("http://{HOST}");
    try_it(&device, |_| {}, "another site").await;
    device.origin = format!("https://{HOST}");
    device.flags = PRESENT;
    try_it(&device, |_| {}, "not verified").await;
    device.flags = 0x15;
    try_it(&device, |_| {}, "contradicts").await;
    device.flags = 0x05;
    device.host = "evil.example".to_owned();
    try_it(&device, |_| {}, "another host").await;
    device.host = HOST.to_owned();
    try_it(&device, |answer| answer.signature.replace_range(8..12, "AAAA"), "signature").await;
    try_it(&device, |answer| answer.user_handle = "AAAA".to_owned(), "another account").await;
    try_it(&device, |answer| answer.credential = "AAAA".to_owned(), "no such passkey").await;
    try_it(&device, |answer| answer.client_data = "e30".to_owned(), "cannot be read").await;
    try_it(&device, |answer| answer.client_data = "A".repeat(9_999), "too long").await;
    try_it(&device, |answer| answer.authenticator_data.truncate(40), "cannot be read").await;
    let mut stranger = Authenticator::new(HOST);
    stranger.credential = device.credential.clone();
    try_it(&stranger, |_| {}, "signature").await;

    // An answer to another challenge than that of the browser's cookie, and to one that is too old.
    let (asked, other) = (challenge(&world).await, challenge(&world).await);
    assert!(!granted(&log_in(&world, &asked.cookie, &answer(&device, &other.challenge)).await));
    assert!(refusal(&world).await.contains("another challenge"));
    world.env.advance(CHALLENGE_TIME);
    assert!(!granted(&log_in(&world, &asked.cookie, &answer(&device, &asked.challenge)).await));
    assert!(refusal(&world).await.contains("begin again"));
    let none = Secret::new(b"");
    assert!(!granted(&log_in(&world, &none, &answer(&device, &asked.challenge)).await));
    let account = world.directory.resolve(SiteId::MAIN, &name("acme")).await.unwrap().unwrap();
    let adding = ChallengePurpose::Add(account.id);
    let adding = world.gate.challenge(SiteId::MAIN, adding).await.unwrap();
    assert!(!granted(&log_in(&world, &adding.cookie, &answer(&device, &adding.challenge)).await));
}

#[tokio::test(start_paused = true)]
async fn a_passkey_counts_at_its_site_and_where_the_account_asks_for_no_more() {
    use AuthMethod::{Passkey, Password, PublicKey, Totp};
    let device = Authenticator::new(HOST);
    let world = world_with(&device).await;
    for (login, taken) in [
        (vec![vec![Password, Totp]], true),
        (vec![vec![PublicKey], vec![Passkey]], true),
        (vec![vec![PublicKey, Password]], false),
        (vec![vec![PublicKey]], false),
    ] {
        world.account("acme", |account| account.login = login.clone()).await;
        let asked = challenge(&world).await;
        let verdict = log_in(&world, &asked.cookie, &answer(&device, &asked.challenge)).await;
        assert_eq!(granted(&verdict), taken, "{login:?}");
    }
    world.account("acme", |account| account.login = vec![vec![Passkey]]).await;
    let verdict = world.attempt().password("acme", &secret("acme")).await;
    assert!(!granted(&verdict), "the password alone");
    let site: Site = serde_json::from_str(r#"{"name": "north"}"#).unwrap();
    world.put(&site).await;
    let sites = world.db.sites().await.unwrap();
    let north = sites.iter().find(|site| site.noun.name == name("north")).unwrap();
    let north = SiteId(north.id);
    let asked = world.gate.challenge(north, ChallengePurpose::LogIn).await.unwrap();
    let mut attempt = world.attempt();
    attempt.peer.site = north;
    let shown = answer(&device, &asked.challenge);
    let login = PasskeyLogin { cookie: &asked.cookie, page: &page(), answer: &shown };
    assert!(!granted(&attempt.passkey(&login).await), "another site");
    let verdict = log_in(&world, &asked.cookie, &shown).await;
    assert!(!granted(&verdict), "a challenge of another site");
}

#[tokio::test(start_paused = true)]
async fn a_new_passkey_answers_the_challenge_that_its_account_was_given() {
    let device = Authenticator::new(HOST);
    let world = World::new().await;
    world.account("acme", |_| {}).await;
    world.account("anna", |_| {}).await;
    let of = async |account: &str| {
        world.directory.resolve(SiteId::MAIN, &name(account)).await.unwrap().unwrap()
    };
    let (acme, anna) = (of("acme").await, of("anna").await);
    let purpose = ChallengePurpose::Add(acme.id);
    let asked = world.gate.challenge(SiteId::MAIN, purpose).await.unwrap();
    let new = |device: &Authenticator| {
        let said = device.made(&asked.challenge);
        NewPasskey {
            credential: device.credential.clone(),
            client_data: said.client_data,
            authenticator_data: said.authenticator_data,
            public_key: said.proof,
            algorithm: -7,
        }
    };
    let add = async |owner: &Principal, new: &NewPasskey| {
        world.gate.new_passkey(owner, &asked.cookie, &page(), new).await
    };
    let refused = async |owner: &Principal, new: NewPasskey| match add(owner, &new).await {
        Err(PasskeyError::Refused(why)) => why,
        other => panic!("{other:?}"),
    };
    assert!(refused(&anna, new(&device)).await.contains("begin again"));
    assert!(refused(&acme, NewPasskey { algorithm: -8, ..new(&device) }).await.contains("read"));
    assert!(refused(&acme, NewPasskey { algorithm: -65535, ..new(&device) }).await.contains("way"));
    let other = NewPasskey { credential: "AAAA".to_owned(), ..new(&device) };
    assert!(refused(&acme, other).await.contains("different passkeys"));
    let mut bad = Authenticator::new(HOST);
    bad.flags = PRESENT;
    assert!(refused(&acme, new(&bad)).await.contains("not verified"));
    let public = add(&acme, &new(&device)).await.unwrap();
    assert_eq!((public.host.as_str(), &public.credential), (HOST, &device.credential));
    assert!(refused(&acme, new(&device)).await.contains("answered"), "it was replayed");
}
