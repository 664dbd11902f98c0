//! What ends soon is told before it does.

use std::time::Duration;

use entrepot_nouns::event::ExpiringFact;
use entrepot_nouns::{Fact, Key, KeyType};

use super::world::{World, name};

const DAY: Duration = Duration::from_secs(24 * 3600);

#[tokio::test(start_paused = true)]
async fn a_key_that_ends_is_told_once_for_each_of_its_days_over_restarts() {
    let mut world = World::new(131).await;
    let start = world.env.now();
    let line = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJzE6Dnp0ZQm3zrrzYPTKR2yKqGmV9CmHhYwbZxOkTGs";
    for (label, days) in [("soon", 29), ("later", 400)] {
        let key = Key::new(name(label), KeyType::SshUserCa, line.to_owned());
        let not_after = Some(start.plus(DAY * days));
        world.put(&Key { not_after, ..key }).await;
    }
    let off = Key::new(name("off"), KeyType::SshUserCa, line.to_owned());
    world.put(&Key { not_after: Some(start.plus(DAY)), enabled: false, ..off }).await;
    for (after, told) in [(0, vec![30]), (0, vec![30]), (22, vec![30, 7]), (30, vec![30, 7, 0])] {
        world.env.set_now(start.plus(DAY * after));
        world.start();
        let count = told.len();
        world.until(async |world| world.events("key.expiring").await.len() >= count).await;
        world.projected().await;
        let events = world.events("key.expiring").await;
        let days = events.iter().map(|event| match &event.fact {
            Fact::KeyExpiring { end: ExpiringFact { key, not_after, days } } => {
                assert_eq!((key.as_str(), *not_after), ("soon", start.plus(DAY * 29)));
                *days
            }
            fact => panic!("{fact:?}"),
        });
        let mut days: Vec<u32> = days.collect();
        days.sort_by(|one, other| other.cmp(one));
        assert_eq!(days, told, "after {after} days");
        world.kill().await;
    }
}
