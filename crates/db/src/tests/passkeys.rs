//! Passkeys are known by their credential, count their signatures, and challenges are answered
//! once.

use entrepot_nouns::{Key, KeyType, Kind, SiteId, Timestamp};
use uuid::Uuid;

use super::{both, name};
use crate::{Db, PasskeyUse};

fn passkey(called: &str, account: &str, credential: &str) -> Key {
    let public = format!("webauthn-es256 files.example {credential} MFkw");
    let mut key = Key::new(name(called), KeyType::Passkey, public);
    key.account = Some(name(account));
    key
}

async fn put(db: &Db, key: &Key) {
    let mut tx = db.begin().await.unwrap();
    tx.put(SiteId::MAIN, Uuid::from_u128(7), key, Timestamp::from_seconds(1)).await.unwrap();
    tx.commit().await.unwrap();
}

async fn a_passkey_is_known_by_its_credential_and_counts(db: Db) {
    let site = SiteId::MAIN;
    put(&db, &passkey("one", "anna", "AAAA")).await;
    assert_eq!(db.account_of_passkey(site, "AAAA").await.unwrap(), Some(name("anna")));
    assert_eq!(db.account_of_passkey(site, "BBBB").await.unwrap(), None);
    let used = |signatures: u32, at: i64| PasskeyUse {
        site,
        credential: "AAAA".to_owned(),
        signatures,
        at: Timestamp::from_seconds(at),
        address: "192.0.2.1".to_owned(),
    };
    for (signatures, taken) in [(0, true), (0, true), (7, true), (7, false), (6, false), (0, false)]
    {
        let noted = db.note_passkey_use(&used(signatures, 5)).await.unwrap();
        assert_eq!(noted, taken, "{signatures}");
    }
    assert!(db.note_passkey_use(&used(8, 9)).await.unwrap());
    let uses = db.passkey_uses(site).await.unwrap();
    assert_eq!(
        (uses[0].name.clone(), uses[0].used_at),
        (name("one"), Some(Timestamp::from_seconds(9)))
    );
    put(&db, &passkey("one", "anna", "CCCC")).await;
    assert_eq!(db.account_of_passkey(site, "AAAA").await.unwrap(), None, "it was replaced");
    let mut tx = db.begin().await.unwrap();
    tx.delete(site, Kind::Key, &name("one")).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(db.account_of_passkey(site, "CCCC").await.unwrap(), None);
}

async fn a_challenge_is_answered_once(db: Db) {
    let at = Timestamp::from_seconds;
    assert!(db.answer_challenge("aa", at(10)).await.unwrap());
    assert!(!db.answer_challenge("aa", at(10)).await.unwrap());
    db.forget_answered_challenges(at(9)).await.unwrap();
    assert!(!db.answer_challenge("aa", at(10)).await.unwrap());
    db.forget_answered_challenges(at(10)).await.unwrap();
    assert!(db.answer_challenge("aa", at(20)).await.unwrap());
}

both!(a_passkey_is_known_by_its_credential_and_counts, a_challenge_is_answered_once,);
