//! A recovery code is taken once, also where two ask at the same time.

use entrepot_nouns::AccountId;
use uuid::Uuid;

use super::both;
use crate::Db;

async fn set(db: &Db, account: AccountId, hashes: &[&str]) {
    let hashes: Vec<String> = hashes.iter().map(|hash| (*hash).to_owned()).collect();
    let mut tx = db.begin().await.unwrap();
    tx.set_recovery_codes(account, &hashes).await.unwrap();
    tx.commit().await.unwrap();
}

async fn a_code_is_taken_once_and_new_ones_replace_the_old(db: Db) {
    let [acme, anna] = [7, 8].map(|number| AccountId(Uuid::from_u128(number)));
    set(&db, acme, &["a", "b"]).await;
    set(&db, anna, &["a"]).await;
    assert_eq!(db.recovery_codes_left(acme).await.unwrap(), 2);
    let (one, other) =
        tokio::join!(db.take_recovery_code(acme, "a"), db.take_recovery_code(acme, "a"));
    assert_ne!(one.unwrap(), other.unwrap(), "one of them took it");
    assert!(!db.take_recovery_code(acme, "c").await.unwrap());
    assert_eq!(db.recovery_codes_left(acme).await.unwrap(), 1);
    assert_eq!(db.recovery_codes_left(anna).await.unwrap(), 1);
    set(&db, acme, &["d"]).await;
    assert!(!db.take_recovery_code(acme, "b").await.unwrap(), "it was replaced");
    set(&db, acme, &[]).await;
    assert_eq!(db.recovery_codes_left(acme).await.unwrap(), 0);
}

both!(a_code_is_taken_once_and_new_ones_replace_the_old);
