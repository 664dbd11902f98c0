//! The configuration as a value: what it holds, and that it answers as the tables do.

use entrepot_nouns::{Account, Env, Key, Kind, Listener, Mount, Name, Noun, Site, SiteId};
use entrepot_testkit::postgres::Postgres;
use serde_json::json;

use super::{account, both, name, noun};
use crate::{Configuration, Db, DbError, DbOptions};

both!(a_copy_answers_as_the_tables_do);

async fn put<N: Noun>(db: &Db, site: SiteId, noun: &N) {
    let env = Env::real();
    let mut tx = db.begin().await.unwrap();
    tx.put(site, env.new_id(), noun, env.now()).await.unwrap();
    tx.commit().await.unwrap();
}

/// Two sites, accounts with keys and mounts, and keys of nobody.
async fn configured(db: &Db) -> SiteId {
    let env = Env::real();
    let north = SiteId(env.new_id());
    let mut tx = db.begin().await.unwrap();
    let site: Site = noun(json!({"name": "north"}));
    tx.put(SiteId::MAIN, north.0, &site, env.now()).await.unwrap();
    tx.commit().await.unwrap();
    for site in [SiteId::MAIN, north] {
        for who in ["acme", "betty", "carl"] {
            put(db, site, &account(who)).await;
        }
        for (key, owner) in [("k1", Some("acme")), ("k2", None), ("k0", Some("acme"))] {
            let public = "ssh-ed25519 AAAA";
            let key: Key = noun(json!({
                "name": key, "type": "ssh-user", "account": owner, "public": public
            }));
            put(db, site, &key).await;
        }
        let mount: Mount = noun(json!({
            "name": "home", "account": "acme", "path": "/", "endpoint": "files"
        }));
        put(db, site, &mount).await;
    }
    north
}

/// Everything that may be asked of the configuration.
async fn answers(db: &Db, north: SiteId) -> String {
    let mut found = String::new();
    for site in [SiteId::MAIN, north, SiteId(Env::real().new_id())] {
        let acme = name("acme");
        let groups: [Name; 2] = [name("betty"), acme.clone()];
        found += &format!(
            "{:?}\n{:?}\n{:?}\n{:?}\n{:?}\n{:?}\n{:?}\n{:?}\n{:?}\n",
            db.site_name(site).await.unwrap(),
            db.list::<Account>(site).await.unwrap(),
            db.list::<Listener>(site).await.unwrap(),
            db.page::<Account>(site, Some(&acme), 1).await.unwrap(),
            db.page::<Account>(site, None, 2).await.unwrap(),
            db.find::<Account>(site, &name("carl")).await.unwrap(),
            db.find::<Key>(site, &name("carl")).await.unwrap(),
            db.keys_of(site, &acme).await.unwrap(),
            db.keys_of_nobody(site).await.unwrap(),
        );
        found += &format!("{:?}\n", db.mounts_of(site, &groups).await.unwrap());
    }
    found + &format!("{:?}", db.sites().await.unwrap())
}

async fn a_copy_answers_as_the_tables_do(db: Db) {
    let north = configured(&db).await;
    let copy = db.configuration().await.unwrap();
    assert_eq!(copy.revision, db.config_revision().await.unwrap());
    assert!(copy.nouns() >= Kind::ALL.len() && !copy.era.is_empty());
    let text = serde_json::to_string(&copy).unwrap();
    assert_eq!(serde_json::from_str::<Configuration>(&text).unwrap(), copy);
    let of_tables = answers(&db, north).await;
    db.answer_from(copy.clone()).unwrap();
    assert!(db.answers_from_copy());
    assert_eq!(answers(&db, north).await, of_tables);
    // A revision that no database has: what was read from the copy is read anew afterwards.
    let known = db.config_revision().await.unwrap();
    assert!(known < -1 && known == -copy.revision - 2);
    let refused = db.begin().await.err().unwrap();
    assert!(matches!(refused, DbError::Copied) && refused.is_unavailable(), "{refused}");
    db.answer_itself();
    assert_eq!(db.config_revision().await.unwrap(), copy.revision);
    put(&db, SiteId::MAIN, &account("dora")).await;
    assert_ne!(answers(&db, north).await, of_tables);
}

/// It is opened as any other once it is there, and not a question is answered before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_is_away_is_opened_when_it_comes() {
    let (server, url) = tokio::task::spawn_blocking(|| {
        let server = Postgres::launch().unwrap();
        let url = server.create_database().unwrap();
        server.stop().unwrap();
        (server, url)
    })
    .await
    .unwrap();
    let refused = Db::open(&url, DbOptions::default()).await.unwrap_err();
    assert!(refused.is_unavailable(), "{refused}");
    let db = Db::open_later(&url, DbOptions::default()).unwrap();
    assert!(db.reach().await.unwrap_err().is_unavailable());
    assert!(db.sites().await.unwrap_err().is_unavailable());
    let _server = tokio::task::spawn_blocking(move || {
        server.start().unwrap();
        server
    })
    .await
    .unwrap();
    // The tables are made, and the site main, as by any other way to open it.
    db.reach().await.unwrap();
    assert_eq!(db.sites().await.unwrap().len(), 1);
    for url in ["sqlite:///tmp/x.db", "mysql://x/y"] {
        let refused = Db::open_later(url, DbOptions::default()).unwrap_err();
        assert!(matches!(refused, DbError::Setup(_)), "{url}: {refused}");
    }
}
