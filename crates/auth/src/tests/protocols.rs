//! Protocols that accounts may log in over.

use entrepot_nouns::{AccountType, LoginProtocol, Protocol};

use super::{KEY, World, granted, name, secret, wrong};
use crate::{Attempt, Peer};

/// A connection over this protocol.
fn over(world: &World, protocol: LoginProtocol) -> Attempt {
    let (protocol, encrypted) = match protocol {
        LoginProtocol::Sftp => (Protocol::Sftp, true),
        LoginProtocol::Ftps => (Protocol::Ftp, true),
        LoginProtocol::Ftp => (Protocol::Ftp, false),
        LoginProtocol::Https => (Protocol::Https, true),
    };
    world.gate.attempt(Peer { protocol, encrypted, ..world.attempt().peer.clone() })
}

async fn let_in(world: &World, protocol: LoginProtocol) -> bool {
    granted(&over(world, protocol).password("acme", &secret("acme")).await)
}

/// Why the last login was refused.
async fn reason(world: &World) -> String {
    world.journal.sync(world.journal.usage().appended).await.unwrap();
    let last = serde_json::to_value(entrepot_testbed::events(&world.journal).last()).unwrap();
    last["reason"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_protocol_that_is_not_listed_is_refused_as_a_wrong_password_is() {
    use LoginProtocol::{Ftp, Ftps, Https, Sftp};
    let world = World::new().await;
    let mut account = world.account("acme", |_| {}).await;
    world.key("acme").await;
    for protocol in [Sftp, Ftps, Ftp, Https] {
        assert!(let_in(&world, protocol).await, "{protocol:?} without a list");
    }
    account.protocols = vec![Ftps];
    world.put(&account).await;
    for protocol in [Sftp, Ftp, Https] {
        let before = world.gate.hashes();
        let barred = over(&world, protocol).password("acme", &secret("acme")).await;
        assert!(reason(&world).await.contains("this protocol"), "{protocol:?}");
        let of_barred = world.gate.hashes() - before;
        let wrong = over(&world, protocol).password("acme", &wrong()).await;
        assert_eq!(format!("{barred:?}"), format!("{wrong:?}"), "{protocol:?}");
        assert_eq!((of_barred, world.gate.hashes() - before), (1, 2), "not the same work");
    }
    let by_key = world.attempt().public_key("acme", KEY, "ssh-ed25519").await;
    assert!(!granted(&by_key), "a key gets around the list");
    assert!(let_in(&world, Ftps).await);
}

#[tokio::test(start_paused = true)]
async fn groups_list_protocols_for_those_who_list_none() {
    use LoginProtocol::{Ftp, Ftps, Sftp};
    let world = World::new().await;
    let group = |account: &mut entrepot_nouns::Account| {
        account.account_type = AccountType::Group;
        account.password_hash = None;
        account.protocols = vec![Sftp, Ftps];
    };
    world.account("partners", group).await;
    let mut account = world.account("acme", |acme| acme.groups = vec![name("partners")]).await;
    assert!(let_in(&world, Sftp).await && let_in(&world, Ftps).await);
    assert!(!let_in(&world, Ftp).await);
    account.protocols = vec![Ftp];
    world.put(&account).await;
    assert!(let_in(&world, Ftp).await && !let_in(&world, Sftp).await, "its own list goes first");
}

#[tokio::test(start_paused = true)]
async fn a_session_ends_when_its_protocol_is_taken_away() {
    let world = World::new().await;
    let mut account = world.account("acme", |_| {}).await;
    let grant = world.grant("acme").await;
    let live = world.enlist(&grant).unwrap();
    account.protocols = vec![LoginProtocol::Sftp];
    world.put(&account).await;
    assert_eq!(live.end_reason(), None);
    account.protocols = vec![LoginProtocol::Ftps];
    world.put(&account).await;
    let reason = live.end_reason().unwrap_or_default();
    assert!(reason.contains("this protocol"), "{reason:?}");
}
