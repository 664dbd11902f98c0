//! API tokens are found by their hash as long as their key is stored, and know their last use.

use entrepot_nouns::{Key, KeyType, Kind, SiteId, Timestamp};
use uuid::Uuid;

use super::{both, name};
use crate::{ApiTokenUse, Db, DbError};

const AT: Timestamp = Timestamp(1_800_000_000_000_000);

fn hash(digit: &str) -> String {
    digit.repeat(64)
}

fn token(of: &str, account: &str, digit: &str) -> Key {
    let mut key = Key::new(name(of), KeyType::ApiToken, format!("blake3:{}", hash(digit)));
    key.account = Some(name(account));
    key.not_after = Some(AT);
    key
}

async fn put(db: &Db, id: u128, key: &Key) -> crate::Result<()> {
    let mut tx = db.begin().await?;
    tx.put(SiteId::MAIN, Uuid::from_u128(id), key, AT).await?;
    tx.commit().await
}

async fn account_of(db: &Db, digit: &str) -> Option<String> {
    let found = db.account_of_token(SiteId::MAIN, &hash(digit)).await.unwrap();
    found.map(|name| name.to_string())
}

async fn a_token_is_found_by_the_hash_that_its_key_has_now(db: Db) {
    put(&db, 10, &token("t", "acme", "a")).await.unwrap();
    put(&db, 11, &token("u", "other", "b")).await.unwrap();
    assert_eq!(account_of(&db, "a").await.as_deref(), Some("acme"));
    let elsewhere = SiteId(Uuid::from_u128(99));
    assert_eq!(db.account_of_token(elsewhere, &hash("a")).await.unwrap(), None);
    put(&db, 10, &token("t", "anna", "c")).await.unwrap();
    assert_eq!(account_of(&db, "a").await, None, "the old hash");
    assert_eq!(account_of(&db, "c").await.as_deref(), Some("anna"));
    let same = put(&db, 12, &token("v", "anna", "b")).await.unwrap_err();
    assert!(matches!(same, DbError::Conflict(_)), "{same}");
    assert_eq!(account_of(&db, "b").await.as_deref(), Some("other"), "it is still the first one's");
    let mut tx = db.begin().await.unwrap();
    assert!(tx.delete(SiteId::MAIN, Kind::Key, &name("t")).await.unwrap());
    tx.commit().await.unwrap();
    assert_eq!(account_of(&db, "c").await, None, "deleted");
    let mut other_type = token("u", "other", "b");
    (other_type.key_type, other_type.public) = (KeyType::SshUser, "ssh-ed25519 A".to_owned());
    put(&db, 11, &other_type).await.unwrap();
    assert_eq!(account_of(&db, "b").await, None, "of another type");
}

async fn the_latest_use_counts_and_outlives_changes_of_the_key(db: Db) {
    put(&db, 10, &token("t", "acme", "a")).await.unwrap();
    let used = |seconds: i64, address: &str| ApiTokenUse {
        site: SiteId::MAIN,
        hash: hash("a"),
        at: Timestamp::from_seconds(seconds),
        address: address.to_owned(),
    };
    assert_eq!(db.api_tokens(SiteId::MAIN).await.unwrap()[0].used_at, None);
    let gone = ApiTokenUse { hash: hash("f"), ..used(9, "192.0.2.9") };
    db.note_token_uses(&[used(20, "192.0.2.2"), gone]).await.unwrap();
    db.note_token_uses(&[used(10, "192.0.2.1")]).await.unwrap();
    let mut changed = token("t", "acme", "a");
    changed.enabled = false;
    put(&db, 10, &changed).await.unwrap();
    let rows = db.api_tokens(SiteId::MAIN).await.unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].used_at, Some(Timestamp::from_seconds(20)));
    assert_eq!(rows[0].used_from.as_deref(), Some("192.0.2.2"));
}

async fn the_copy_knows_tokens_while_the_database_is_away(db: Db) {
    put(&db, 10, &token("t", "acme", "a")).await.unwrap();
    let configuration = db.configuration().await.unwrap();
    put(&db, 10, &token("t", "acme", "b")).await.unwrap();
    db.answer_from(configuration).unwrap();
    assert_eq!(account_of(&db, "a").await.as_deref(), Some("acme"));
    assert_eq!(account_of(&db, "b").await, None);
    db.answer_itself();
    assert_eq!(account_of(&db, "b").await.as_deref(), Some("acme"));
}

both!(
    a_token_is_found_by_the_hash_that_its_key_has_now,
    the_latest_use_counts_and_outlives_changes_of_the_key,
    the_copy_knows_tokens_while_the_database_is_away,
);
