//! Nouns and their transactions.

use std::sync::Arc;

use entrepot_nouns::{
    Account, AnyNoun, Endpoint, Env, Event, Fact, Key, Kind, Listener, Mount, Policy, Rule, Site,
    SiteId,
};
use serde_json::json;
use uuid::Uuid;

use super::{account, both, event, name, noun};
use crate::{Db, DbError, EventFilter};

fn changed(env: &Env, what: &str) -> Event {
    event(
        env,
        Fact::ConfigChanged {
            noun: Kind::Account,
            name: name(what),
            action: "changed".to_owned(),
            by: "cli:root".to_owned(),
            fields: vec!["note".to_owned()],
        },
    )
}

async fn put_one(db: &Db, site: SiteId, noun: impl Into<AnyNoun>) -> Uuid {
    let env = Env::real();
    let id: SiteId = env.new_id();
    let mut tx = db.begin().await.unwrap();
    tx.put_any(site, id.0, &noun.into(), env.now()).await.unwrap();
    tx.commit().await.unwrap();
    id.0
}

async fn users_and_pages_follow_the_nouns(db: Db) {
    for name in ["staff", "north", "south"] {
        put_one(&db, SiteId::MAIN, account(name)).await;
    }
    let of =
        |name: &str, groups: &[&str]| noun::<Account>(json!({ "name": name, "groups": groups }));
    let id = put_one(&db, SiteId::MAIN, of("acme", &["staff", "north", "staff"])).await;
    put_one(&db, SiteId::MAIN, of("beta", &["staff"])).await;
    let users = async |of: &str, limit: u32| -> Vec<String> {
        let users = db.users(SiteId::MAIN, Kind::Account, &name(of), limit).await.unwrap();
        users.iter().map(|user| format!("{} {}", user.kind, user.name)).collect()
    };
    assert_eq!(users("staff", 9).await, ["account acme", "account beta"]);
    assert_eq!(users("staff", 1).await, ["account acme"]);
    assert_eq!(users("north", 9).await, ["account acme"]);

    let mut tx = db.begin().await.unwrap();
    let changed = of("acme", &["south"]);
    tx.put(SiteId::MAIN, id, &changed, Env::real().now()).await.unwrap();
    assert!(tx.delete(SiteId::MAIN, Kind::Account, &name("beta")).await.unwrap());
    tx.commit().await.unwrap();
    assert!(users("staff", 9).await.is_empty() && users("north", 9).await.is_empty());
    assert_eq!(users("south", 9).await, ["account acme"]);

    let page = async |after: Option<&str>| -> Vec<String> {
        let after = after.map(name);
        let page = db.page::<Account>(SiteId::MAIN, after.as_ref(), 2).await.unwrap();
        page.iter().map(|stored| stored.noun.name.to_string()).collect()
    };
    assert_eq!(page(None).await, ["acme", "north"]);
    assert_eq!(page(Some("north")).await, ["south", "staff"]);
    assert!(page(Some("staff")).await.is_empty());
}

async fn every_kind_goes_round(db: Db) {
    let env = Env::simulated(1);
    let nouns: Vec<AnyNoun> = vec![
        noun::<Site>(json!({ "name": "north" })).into(),
        noun::<Policy>(json!({ "name": "strict", "sessions": 3 })).into(),
        noun::<Endpoint>(json!({ "name": "disk", "target": { "directory": { "path": "/d" } } }))
            .into(),
        account("acme").into(),
        noun::<Key>(json!({
            "name": "acme-key", "type": "ssh-user", "account": "acme", "public": "ssh-ed25519 AAAA"
        }))
        .into(),
        noun::<Mount>(json!({
            "name": "acme-in", "account": "acme", "path": "/in", "endpoint": "disk"
        }))
        .into(),
        noun::<Listener>(json!({ "name": "l", "protocol": "sftp", "address": "[::]:2022" })).into(),
        noun::<Rule>(json!({ "name": "r", "when": { "event": "file.uploaded" }, "do": [] })).into(),
    ];
    let mut tx = db.begin().await.unwrap();
    for any in &nouns {
        let id: SiteId = env.new_id();
        assert_eq!(tx.put_any(SiteId::MAIN, id.0, any, env.now()).await.unwrap(), 1);
        // Once more, with the same id: the next revision.
        assert_eq!(tx.put_any(SiteId::MAIN, id.0, any, env.now()).await.unwrap(), 2);
    }
    tx.commit().await.unwrap();
    macro_rules! check {
        ($($type:ident)*) => { $(
            let listed = db.list::<$type>(SiteId::MAIN).await.unwrap();
            let stored = listed.into_iter().filter(|s| s.noun.name != name("main"));
            let any: Vec<AnyNoun> = stored.map(|s| s.noun.into()).collect();
            let wanted: Vec<AnyNoun> =
                nouns.iter().filter(|n| matches!(n, AnyNoun::$type(_))).cloned().collect();
            assert_eq!(any, wanted);
            let found = db.find::<$type>(SiteId::MAIN, wanted[0].name()).await.unwrap().unwrap();
            assert_eq!((found.revision, found.changed_at), (2, env.now()));
            let mut tx = db.begin().await.unwrap();
            assert!(tx.delete(SiteId::MAIN, wanted[0].kind(), wanted[0].name()).await.unwrap());
            assert!(!tx.delete(SiteId::MAIN, wanted[0].kind(), wanted[0].name()).await.unwrap());
            tx.commit().await.unwrap();
            assert_eq!(db.find::<$type>(SiteId::MAIN, wanted[0].name()).await.unwrap(), None);
        )* };
    }
    check!(Site Policy Endpoint Account Key Mount Listener Rule);
}

async fn the_revision_counts_committed_changes(db: Db) {
    let env = Env::simulated(1);
    let before = db.config_revision().await.unwrap();
    put_one(&db, SiteId::MAIN, account("a")).await;
    assert_eq!(db.config_revision().await.unwrap(), before + 1);
    // Dropped, failed or empty transactions change nothing.
    let mut dropped = db.begin().await.unwrap();
    dropped.put(SiteId::MAIN, Uuid::from_u128(7), &account("b"), env.now()).await.unwrap();
    dropped.insert_event(&changed(&env, "b")).await.unwrap();
    assert!(dropped.find::<Account>(SiteId::MAIN, &name("b")).await.unwrap().is_some());
    drop(dropped);
    db.begin().await.unwrap().commit().await.unwrap();
    let mut nothing = db.begin().await.unwrap();
    assert!(!nothing.delete(SiteId::MAIN, Kind::Account, &name("none")).await.unwrap());
    nothing.commit().await.unwrap();
    assert_eq!(db.config_revision().await.unwrap(), before + 1);
    assert_eq!(db.list::<Account>(SiteId::MAIN).await.unwrap().len(), 1);
    assert_eq!(db.events(SiteId::MAIN, &EventFilter::default()).await.unwrap(), []);
    // A change and its event come together.
    let mut tx = db.begin().await.unwrap();
    assert!(tx.delete(SiteId::MAIN, Kind::Account, &name("a")).await.unwrap());
    tx.insert_event(&changed(&env, "a")).await.unwrap();
    assert_eq!(db.list::<Account>(SiteId::MAIN).await.unwrap().len(), 1);
    tx.commit().await.unwrap();
    assert_eq!(db.list::<Account>(SiteId::MAIN).await.unwrap().len(), 0);
    assert_eq!(db.config_revision().await.unwrap(), before + 2);
    assert_eq!(db.events(SiteId::MAIN, &EventFilter::default()).await.unwrap().len(), 1);
}

async fn contradictions_are_refused(db: Db) {
    let env = Env::simulated(1);
    let (site, at) = (SiteId::MAIN, env.now());
    let id = put_one(&db, site, account("a")).await;
    let north = put_one(&db, site, noun::<Site>(json!({ "name": "north" }))).await;
    let in_north = put_one(&db, SiteId(north), account("a")).await;
    let attempts: Vec<(SiteId, Uuid, AnyNoun)> = vec![
        // The name is another id's, the id another name's, another site's, no site's.
        (site, Uuid::from_u128(8), account("a").into()),
        (site, id, account("b").into()),
        (SiteId(north), id, account("a").into()),
        (SiteId(Uuid::from_u128(9)), Uuid::from_u128(9), account("c").into()),
        // Sites belong to the site main.
        (SiteId(north), Uuid::from_u128(9), noun::<Site>(json!({ "name": "x" })).into()),
        (site, Uuid::from_u128(9), noun::<Site>(json!({ "name": "main" })).into()),
    ];
    let revision = db.config_revision().await.unwrap();
    for (site, id, any) in attempts {
        let mut tx = db.begin().await.unwrap();
        tx.put(SiteId::MAIN, Uuid::from_u128(77), &account("good"), at).await.unwrap();
        let refused = tx.put_any(site, id, &any, at).await.unwrap_err();
        assert!(matches!(refused, DbError::Conflict(_)), "{any:?}: {refused}");
        // What came before in the transaction is not kept either, on no database.
        assert!(tx.commit().await.is_err(), "{any:?}");
    }
    let mut tx = db.begin().await.unwrap();
    let refused = tx.delete(site, Kind::Site, &name("north")).await.unwrap_err();
    assert!(matches!(refused, DbError::Conflict(_)), "{refused}");
    drop(tx);
    let mut tx = db.begin().await.unwrap();
    assert!(!tx.delete(site, Kind::Site, &name("main")).await.unwrap());
    tx.commit().await.unwrap();
    assert_eq!(db.config_revision().await.unwrap(), revision);
    // The sites do not see each other.
    assert_eq!(db.list::<Account>(site).await.unwrap()[0].id, id);
    assert_eq!(db.list::<Account>(SiteId(north)).await.unwrap()[0].id, in_north);
    let mut tx = db.begin().await.unwrap();
    assert!(tx.delete(SiteId(north), Kind::Account, &name("a")).await.unwrap());
    tx.commit().await.unwrap();
    assert_eq!(db.list::<Account>(site).await.unwrap().len(), 1);
    assert_eq!(db.sites().await.unwrap().len(), 2);
}

async fn keys_and_mounts_are_found_by_account(db: Db) {
    for (key, owner) in [("k2", "acme"), ("k1", "acme"), ("k3", "other")] {
        let key = json!({
            "name": key, "type": "ssh-user", "account": owner, "public": "ssh-ed25519 AAAA"
        });
        put_one(&db, SiteId::MAIN, noun::<Key>(key)).await;
    }
    for (mount, owner) in [("m1", "staff"), ("m2", "acme"), ("m3", "other")] {
        let mount = json!({ "name": mount, "account": owner, "path": "/", "endpoint": "disk" });
        put_one(&db, SiteId::MAIN, noun::<Mount>(mount)).await;
    }
    let keys = db.keys_of(SiteId::MAIN, &name("acme")).await.unwrap();
    let names: Vec<_> = keys.iter().map(|key| key.noun.name.as_str()).collect();
    assert_eq!(names, ["k1", "k2"]);
    let lineage = [name("acme"), name("staff")];
    let mounts = db.mounts_of(SiteId::MAIN, &lineage).await.unwrap();
    let names: Vec<_> = mounts.iter().map(|mount| mount.noun.name.as_str()).collect();
    assert_eq!(names, ["m2", "m1"]);
    // A key that changes hands is found by its new owner only.
    let stored = &keys[0];
    let mut tx = db.begin().await.unwrap();
    let moved = Key { account: Some(name("other")), ..stored.noun.clone() };
    tx.put(SiteId::MAIN, stored.id, &moved, Env::real().now()).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(db.keys_of(SiteId::MAIN, &name("acme")).await.unwrap().len(), 1);
    assert_eq!(db.keys_of(SiteId::MAIN, &name("other")).await.unwrap().len(), 2);
    let elsewhere = SiteId(Uuid::from_u128(5));
    assert_eq!(db.keys_of(elsewhere, &name("other")).await.unwrap(), []);
    assert_eq!(db.mounts_of(elsewhere, &lineage).await.unwrap(), []);
}

/// Read, add one, write: with transactions side by side nothing is lost.
async fn changes_come_one_after_the_other(db: Db) {
    let id = put_one(&db, SiteId::MAIN, account("counter")).await;
    let db = Arc::new(db);
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let db = db.clone();
        tasks.spawn(async move {
            for _ in 0..5 {
                let mut tx = db.begin().await.unwrap();
                let found = tx.find::<Account>(SiteId::MAIN, &name("counter")).await.unwrap();
                let mut account = found.unwrap().noun;
                let count: u32 = account.note.parse().unwrap_or(0);
                account.note = (count + 1).to_string();
                tx.put(SiteId::MAIN, id, &account, Env::real().now()).await.unwrap();
                tx.commit().await.unwrap();
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    let found = db.find::<Account>(SiteId::MAIN, &name("counter")).await.unwrap().unwrap();
    assert_eq!((found.noun.note.as_str(), found.revision), ("20", 21));
}

/// A caller that goes away in the middle of a statement leaves no open transaction behind.
async fn an_abandoned_transaction_is_rolled_back(db: Db) {
    for polls in 0..6 {
        let mut tx = db.begin().await.unwrap();
        let account = account("ghost");
        let mut put =
            Box::pin(tx.put(SiteId::MAIN, Uuid::from_u128(3), &account, Env::real().now()));
        for _ in 0..polls {
            let poll = std::future::poll_fn(|context| {
                std::task::Poll::Ready(put.as_mut().poll(context).is_ready())
            });
            if poll.await {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(put);
        drop(tx);
        assert_eq!(db.list::<Account>(SiteId::MAIN).await.unwrap(), []);
    }
    put_one(&db, SiteId::MAIN, account("ghost")).await;
    assert_eq!(db.list::<Account>(SiteId::MAIN).await.unwrap().len(), 1);
}

async fn a_step_of_a_code_is_taken_once_and_none_before_it(db: Db) {
    let (acme, other) = (name("acme"), name("other"));
    for (account, step, taken) in [
        (&acme, 100, true),
        (&acme, 100, false),
        (&acme, 99, false),
        (&other, 99, true),
        (&acme, 101, true),
    ] {
        assert_eq!(db.take_code(SiteId::MAIN, account, step).await.unwrap(), taken, "{step}");
    }
    let north: SiteId = Env::real().new_id();
    assert!(db.take_code(north, &acme, 100).await.unwrap(), "another site");
    let at_once = (0..16).map(|_| {
        let (db, acme) = (db.clone(), acme.clone());
        tokio::spawn(async move { db.take_code(SiteId::MAIN, &acme, 200).await.unwrap() })
    });
    let at_once: Vec<_> = at_once.collect();
    let mut taken = 0;
    for task in at_once {
        taken += usize::from(task.await.unwrap());
    }
    assert_eq!(taken, 1, "of sixteen at once");
}

both!(
    a_step_of_a_code_is_taken_once_and_none_before_it,
    every_kind_goes_round,
    users_and_pages_follow_the_nouns,
    the_revision_counts_committed_changes,
    contradictions_are_refused,
    keys_and_mounts_are_found_by_account,
    changes_come_one_after_the_other,
    an_abandoned_transaction_is_rolled_back,
);
