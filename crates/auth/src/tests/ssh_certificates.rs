//! Certificates: each reason to refuse one, and what one allows.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use entrepot_ssh::Certificate;

use super::*;

/// The key that signs: one line, not one of the account's.
const SIGNER: &str = OTHER;

fn wire(line: &str) -> Vec<u8> {
    STANDARD.decode(line.split(' ').nth(1).unwrap()).unwrap()
}

/// A good certificate for `acme`, of now and an hour either way.
fn certificate(world: &World) -> Certificate {
    let now = u64::try_from(world.env.now().seconds()).unwrap();
    Certificate {
        key: wire(KEY),
        authority: wire(SIGNER),
        signature_algorithm: "ssh-ed25519".to_owned(),
        is_user: true,
        serial: 7,
        key_id: "anna's laptop\n".to_owned(),
        principals: vec!["acme".to_owned()],
        valid_after: now - 3600,
        valid_before: now + 3600,
        critical: Vec::new(),
    }
}

async fn signer(world: &World, change: impl FnOnce(&mut Key)) {
    let mut key = Key::new(name("signer"), KeyType::SshUserCa, SIGNER.to_owned());
    change(&mut key);
    world.put(&key).await;
}

async fn world() -> World {
    let world = World::new().await;
    world.account("acme", |_| {}).await;
    world.mount("acme").await;
    world
}

async fn shown(world: &World, change: impl FnOnce(&mut Certificate)) -> Verdict {
    let mut certificate = certificate(world);
    change(&mut certificate);
    world.attempt().ssh_certificate("acme", &certificate).await
}

fn critical(name: &str, value: &str) -> Vec<(String, String)> {
    vec![(name.to_owned(), value.to_owned())]
}

#[tokio::test(start_paused = true)]
async fn a_certificate_admits_and_the_audit_names_it() {
    let world = world().await;
    assert!(!granted(&shown(&world, |_| {}).await), "nobody signs here");
    signer(&world, |_| {}).await;
    let Verdict::Granted(grant) = shown(&world, |_| {}).await else { panic!("refused") };
    let proof = grant.proof();
    assert!(proof.starts_with("certificate 7 'anna's laptop' of SHA256:"), "{proof}");
    assert!(proof.contains(" signed by SHA256:"), "{proof}");
    assert!(!granted(&world.attempt().public_key("acme", KEY, "ssh-ed25519").await), "bare");
    assert!(!granted(&world.attempt().public_key("acme", SIGNER, "ssh-ed25519").await), "signer");
}

#[tokio::test(start_paused = true)]
async fn each_thing_wrong_refuses() {
    let world = world().await;
    signer(&world, |key| {
        key.revoked_serials = vec![13];
        key.revoked_key_ids = vec!["lost".to_owned()];
    })
    .await;
    type Spoil = fn(&mut Certificate);
    let wrong: [(&str, Spoil); 14] = [
        ("of a host", |c| c.is_user = false),
        ("expired", |c| c.valid_before = c.valid_after + 3600),
        ("not yet", |c| c.valid_after = c.valid_before - 3599),
        ("no principal", |c| c.principals.clear()),
        ("of another", |c| c.principals = vec!["Acme".to_owned(), "acme2".to_owned()]),
        ("SHA-1", |c| c.signature_algorithm = "ssh-rsa".to_owned()),
        ("unknown signer", |c| c.authority = wire(KEY)),
        ("serial", |c| c.serial = 13),
        ("key id", |c| c.key_id = "lost".to_owned()),
        ("address", |c| c.critical = critical("source-address", "10.0.0.0/8,192.0.2.2")),
        ("bad address", |c| c.critical = critical("source-address", "192.0.2.1,*")),
        ("command", |c| c.critical = critical("force-command", "/bin/sh")),
        ("touch", |c| c.critical = critical("verify-required", "")),
        ("unknown option", |c| c.critical = critical("moon@example.com", "full")),
    ];
    assert!(granted(&shown(&world, |_| {}).await));
    for (what, spoil) in wrong {
        assert!(!granted(&shown(&world, spoil).await), "{what}");
    }
    let weak = "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAQQC7";
    assert!(!granted(&shown(&world, |c| c.key = wire(weak)).await), "a weak key");
}

#[tokio::test(start_paused = true)]
async fn options_are_obeyed() {
    let world = world().await;
    signer(&world, |_| {}).await;
    let here = critical("source-address", "192.0.2.0/24,10.0.0.1");
    assert!(granted(&shown(&world, |c| c.critical = here).await));
    let forced = critical("force-command", "internal-sftp -l INFO");
    let Verdict::Granted(grant) = shown(&world, |c| c.critical = forced).await else {
        panic!("refused")
    };
    assert!(grant.principal().mounts[0].rights.is_all());
    let read_only = critical("force-command", "internal-sftp -R");
    let Verdict::Granted(grant) = shown(&world, |c| c.critical = read_only).await else {
        panic!("refused")
    };
    assert_eq!(grant.principal().mounts[0].rights, Rights::read_only());
    let live = world.enlist(&grant).unwrap();
    assert_eq!(live.principal().mounts[0].rights, Rights::read_only());
}

#[tokio::test(start_paused = true)]
async fn a_signer_of_one_account_means_it_by_its_principals() {
    let world = world().await;
    world.account("other", |_| {}).await;
    let of = |key: &mut Key| {
        key.account = Some(name("acme"));
        key.principals = vec!["ops".to_owned(), "batch".to_owned()];
    };
    signer(&world, of).await;
    assert!(!granted(&shown(&world, |_| {}).await), "its name is none of them");
    assert!(granted(&shown(&world, |c| c.principals = vec!["batch".to_owned()]).await));
    let mut batch = certificate(&world);
    batch.principals = vec!["batch".to_owned(), "other".to_owned()];
    let other = world.attempt().ssh_certificate("other", &batch).await;
    assert!(!granted(&other), "the signer belongs to acme");
}

#[tokio::test(start_paused = true)]
async fn a_session_lives_as_long_as_its_certificate_and_signer() {
    let world = world().await;
    signer(&world, |_| {}).await;
    let enlisted = async || {
        let Verdict::Granted(grant) = shown(&world, |_| {}).await else { panic!("refused") };
        world.enlist(&grant).unwrap()
    };
    let live = enlisted().await;
    signer(&world, |key| key.revoked_serials = vec![7]).await;
    assert!(live.end_reason().unwrap().contains("revoked"));
    signer(&world, |_| {}).await;
    let live = enlisted().await;
    signer(&world, |key| key.enabled = false).await;
    assert!(live.end_reason().is_some(), "it outlived its signer");
    signer(&world, |_| {}).await;
    let live = enlisted().await;
    world.env.advance(Duration::from_secs(3601));
    world.directory.refresh().await.unwrap();
    assert!(live.end_reason().unwrap().contains("not valid at this time"));
}

#[tokio::test(start_paused = true)]
async fn where_a_key_of_the_site_signs_any_key_is_heard_for_any_name() {
    let world = world().await;
    for user in ["acme", "nobody", "../x"] {
        assert!(!world.attempt().offered(user, OTHER).await, "{user}");
    }
    signer(&world, |_| {}).await;
    for user in ["acme", "nobody", "../x"] {
        assert!(world.attempt().offered(user, OTHER).await, "{user}");
    }
    signer(&world, |key| key.account = Some(name("acme"))).await;
    assert!(world.attempt().offered("acme", OTHER).await);
    assert!(!world.attempt().offered("nobody", OTHER).await);
}

#[tokio::test(start_paused = true)]
async fn a_certificate_is_a_step_of_a_chain() {
    let world = world().await;
    let both = vec![vec![AuthMethod::PublicKey, AuthMethod::Password]];
    world.account("acme", |account| account.login = both).await;
    signer(&world, |_| {}).await;
    let mut attempt = world.attempt();
    let step = attempt.ssh_certificate("acme", &certificate(&world)).await;
    assert!(matches!(step, Verdict::Partial { ref next } if *next == [AuthMethod::Password]));
    assert!(granted(&attempt.password("acme", &secret("acme")).await));
}
