//! Rates by the hour, and of everything together on the node.

use std::time::Duration;

use entrepot_nouns::{Account, AccountType, Noun, PerDirection, Policy, Site};

use super::{World, listener, name};

/// What a policy says in JSON.
fn policy(json: &str) -> Policy {
    let policy: Policy = serde_json::from_str(json).unwrap();
    policy.check().unwrap();
    policy
}

#[tokio::test(start_paused = true)]
async fn rates_follow_the_hours_at_every_level() {
    let world = World::new().await;
    let hours = |field: &str, rate: u32| {
        let zone = r#""from": "08:00", "to": "18:00", "timezone": "Europe/Paris""#;
        format!(r#""hours": [{{"days": ["mon"], {zone}, "{field}": {rate}}}]"#)
    };
    let session = "session_upload_bytes_per_second";
    for json in [
        format!(r#"{{"name": "own", {}, "{session}": 90000}}"#, hours(session, 8000)),
        format!(r#"{{"name": "group", {}}}"#, hours("shared_upload_bytes_per_second", 7000)),
        format!(r#"{{"name": "door", {}}}"#, hours("shared_download_bytes_per_second", 6000)),
        format!(r#"{{"name": "all", {}}}"#, hours("global_download_bytes_per_second", 5000)),
    ] {
        world.put(&policy(&json)).await;
    }
    let mut group = Account::new(name("partners"), AccountType::Group);
    group.policy = Some(name("group"));
    world.put(&group).await;
    world.put(&listener("door")).await;
    world
        .account("acme", |account| {
            account.policy = Some(name("own"));
            account.groups = vec![name("partners")];
        })
        .await;
    let site = world.db.sites().await.unwrap().remove(0).noun;
    world.put(&Site { policy: Some(name("all")), ..site }).await;
    let live = world.enlist(&world.grant("acme").await).unwrap();
    let throttles = live.throttles();
    let rates = || (throttles.upload.rate(), throttles.download.rate());
    // 2026-10-26 is a Monday, the first in winter: Paris is one hour ahead.
    for (at, wanted) in [
        ("2026-10-26T06:59:59Z", (Some(90_000), None)),
        ("2026-10-26T07:00:00Z", (Some(7_000), Some(5_000))),
        ("2026-10-26T16:59:59Z", (Some(7_000), Some(5_000))),
        ("2026-10-26T17:00:00Z", (Some(90_000), None)),
        ("2026-10-27T08:00:00Z", (Some(90_000), None)),
    ] {
        world.env.set_now(at.parse().unwrap());
        world.directory.keep_hours();
        assert_eq!(rates(), wanted, "{at}");
        let began = world.enlist(&world.grant("acme").await).unwrap().throttles();
        assert_eq!((began.upload.rate(), began.download.rate()), wanted, "new at {at}");
    }
    // Whoever waits by day goes on in the evening.
    world.env.set_now("2026-10-26T16:59:00Z".parse().unwrap());
    world.directory.keep_hours();
    throttles.download.take(50_000);
    assert!(throttles.download.wait().is_some_and(|wait| wait > Duration::from_secs(9)));
    world.env.set_now("2026-10-26T17:00:00Z".parse().unwrap());
    world.directory.keep_hours();
    assert_eq!(throttles.download.wait(), None, "the wait of the day goes on in the evening");
}

#[tokio::test(start_paused = true)]
async fn all_sites_share_the_rate_of_the_node_and_an_order_replaces_it() {
    let world = World::new().await;
    world.account("acme", |_| {}).await;
    let live = world.enlist(&world.grant("acme").await).unwrap();
    let rate = || live.throttles().upload.rate();
    assert_eq!(rate(), None);
    let mut all = policy(r#"{"name": "all", "global_upload_bytes_per_second": 9000}"#);
    world.put(&all).await;
    let site = world.db.sites().await.unwrap().remove(0).noun;
    world.put(&Site { policy: Some(name("all")), ..site }).await;
    assert_eq!(rate(), Some(9_000), "a session that was open before");
    let order = PerDirection { upload: Some(2_000), download: Some(3_000) };
    world.directory.order_node_rates(Some(order));
    assert_eq!((rate(), live.throttles().download.rate()), (Some(2_000), Some(3_000)));
    all.global_upload_bytes_per_second = Some(8_000);
    world.put(&all).await;
    assert_eq!(rate(), Some(2_000), "the order was forgotten");
    world.directory.order_node_rates(None);
    assert_eq!((rate(), live.throttles().download.rate()), (Some(8_000), None));
}
