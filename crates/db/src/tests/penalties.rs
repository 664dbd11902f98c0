//! Penalties: each node adds, all read in one order.

use std::time::Duration;

use entrepot_nouns::{SiteId, Timestamp};

use super::{both, name};
use crate::penalties::{Penalty, PenaltyAccount, PenaltyKind, PenaltyPosition};
use crate::{Db, PenaltyRow};

const NOW: Timestamp = Timestamp(1_800_000_000_000_000);

fn penalty(kind: PenaltyKind, account: Option<&str>, address: Option<&str>) -> Penalty {
    Penalty {
        kind,
        account: account.map(|text| PenaltyAccount { site: SiteId::MAIN, name: name(text) }),
        address: address.map(str::to_owned),
        most: 20,
        at: NOW,
        expires_at: NOW.plus(Duration::from_secs(3600)),
    }
}

async fn all(db: &Db) -> Vec<PenaltyRow> {
    db.penalties_after(PenaltyPosition::default(), 1000).await.unwrap()
}

async fn each_node_reads_what_the_others_added_in_one_order(db: Db) {
    use PenaltyKind::{Account, Address, Known};
    let first = [penalty(Address, None, Some("192.0.2.1")), penalty(Account, Some("acme"), None)];
    db.add_penalties(&name("n1"), &first).await.unwrap();
    let second = [penalty(Known, Some("acme"), Some("2001:db8::/64"))];
    db.add_penalties(&name("n2"), &second).await.unwrap();
    let rows = all(&db).await;
    let nodes: Vec<&str> = rows.iter().map(|row| row.node.as_str()).collect();
    assert_eq!(nodes, ["n1", "n1", "n2"]);
    let read: Vec<Penalty> = rows.iter().map(|row| row.penalty.clone()).collect();
    assert_eq!(read, [first.as_slice(), second.as_slice()].concat());
    assert!(rows.is_sorted_by_key(|row| row.position));
    let page = db.penalties_after(rows[0].position, 1).await.unwrap();
    assert_eq!(page, rows[1..2]);
    assert_eq!(db.penalties_after(rows[2].position, 9).await.unwrap(), []);
}

async fn nodes_that_add_at_the_same_time_lose_nothing(db: Db) {
    let mut adding = tokio::task::JoinSet::new();
    for node in 0..6 {
        let db = db.clone();
        adding.spawn(async move {
            let node = name(&format!("n{node}"));
            for _ in 0..10 {
                let one = penalty(PenaltyKind::Address, None, Some("192.0.2.1"));
                let both = [one.clone(), one];
                db.add_penalties(&node, &both).await.unwrap();
            }
        });
    }
    // Who reads on meanwhile sees each once.
    let (mut position, mut seen) = (PenaltyPosition::default(), 0);
    while seen < 120 {
        let rows = db.penalties_after(position, 7).await.unwrap();
        seen += rows.len();
        position = rows.last().map_or(position, |row| row.position);
    }
    while let Some(done) = adding.join_next().await {
        done.unwrap();
    }
    assert_eq!((seen, all(&db).await.len()), (120, 120));
}

async fn a_login_replaces_the_last_and_an_unlock_removes_failures(db: Db) {
    use PenaltyKind::{Account, Address, Known, Login, Unlocked};
    let (acme, here, there) = (Some("acme"), Some("192.0.2.1"), Some("192.0.2.2"));
    let seen = [
        penalty(Login, acme, here),
        penalty(Login, acme, there),
        penalty(Address, None, here),
        penalty(Address, None, there),
        penalty(Account, acme, None),
        penalty(Known, acme, there),
    ];
    db.add_penalties(&name("n1"), &seen).await.unwrap();
    db.add_penalties(&name("n2"), &[penalty(Login, acme, here)]).await.unwrap();
    assert_eq!(all(&db).await.len(), 6);
    db.add_penalties(&name("n2"), &[penalty(Unlocked, None, here)]).await.unwrap();
    db.add_penalties(&name("n2"), &[penalty(Unlocked, acme, None)]).await.unwrap();
    let left: Vec<_> = all(&db).await.into_iter().map(|row| row.penalty.kind).collect();
    assert_eq!(left, [Login, Address, Login, Unlocked, Unlocked], "{left:?}");
    assert_eq!(db.forget_penalties(NOW).await.unwrap(), 0);
    assert_eq!(db.forget_penalties(NOW.plus(Duration::from_secs(3600))).await.unwrap(), 5);
    assert_eq!(all(&db).await, []);
}

both!(
    each_node_reads_what_the_others_added_in_one_order,
    nodes_that_add_at_the_same_time_lose_nothing,
    a_login_replaces_the_last_and_an_unlock_removes_failures,
);
