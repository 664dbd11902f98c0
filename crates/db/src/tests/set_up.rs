//! The token by which the first administrator is made is one, and is taken once.

use entrepot_nouns::Timestamp;

use super::both;
use crate::Db;

async fn there_is_one_token_and_it_is_taken_once_before_its_end(db: Db) {
    let at = Timestamp::from_seconds;
    for hash in ["a", "b"] {
        let mut tx = db.begin().await.unwrap();
        tx.set_set_up_token(hash, at(10)).await.unwrap();
        tx.commit().await.unwrap();
    }
    assert!(!db.has_set_up_token("a", at(9)).await.unwrap(), "it was replaced");
    assert!(db.has_set_up_token("b", at(9)).await.unwrap());
    assert!(!db.has_set_up_token("b", at(10)).await.unwrap(), "it has ended");
    assert!(
        db.waits_for_set_up(at(9)).await.unwrap() && !db.waits_for_set_up(at(10)).await.unwrap()
    );
    let mut dropped = db.begin().await.unwrap();
    assert!(dropped.take_set_up_token("b", at(9)).await.unwrap());
    drop(dropped);
    let mut tx = db.begin().await.unwrap();
    assert!(!tx.take_set_up_token("b", at(10)).await.unwrap());
    assert!(tx.take_set_up_token("b", at(9)).await.unwrap(), "what was dropped took nothing");
    assert!(!tx.take_set_up_token("b", at(9)).await.unwrap());
    tx.commit().await.unwrap();
    assert!(!db.waits_for_set_up(at(9)).await.unwrap());
}

both!(there_is_one_token_and_it_is_taken_once_before_its_end);
