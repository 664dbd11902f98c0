//! Browsers that are signed in, as every node knows them.

use entrepot_nouns::{AccountId, SessionId, SiteId, Timestamp};
use uuid::Uuid;

use super::{both, name};
use crate::{Db, SignInRow};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_seconds(seconds)
}

fn sign_in(number: u128, account: &str, seen: i64) -> SignInRow {
    SignInRow {
        id: SessionId(Uuid::from_u128(number)),
        hash: format!("{number:064x}"),
        site: SiteId::MAIN,
        account: name(account),
        account_id: AccountId(Uuid::from_u128(70)),
        opened_at: at(0),
        seen_at: at(seen),
        proved_at: at(0),
        ends_at: at(1000),
        idle_us: 100_000_000,
        address: "192.0.2.1".to_owned(),
        user_agent: "Firefox/1 'x'".to_owned(),
        proof: "password + code".to_owned(),
        credentials: "[]".to_owned(),
    }
}

async fn what_was_added_is_found_changed_and_ended_once(db: Db) {
    let (one, two) = (sign_in(1, "acme", 10), sign_in(2, "acme", 20));
    let other = sign_in(3, "anna", 30);
    for row in [&one, &two, &other] {
        db.add_sign_in(row).await.unwrap();
    }
    assert_eq!(db.find_sign_in(&one.hash).await.unwrap(), Some(one.clone()));
    assert_eq!(db.sign_in(SiteId::MAIN, one.id).await.unwrap(), Some(one.clone()));
    assert_eq!(db.find_sign_in("none").await.unwrap(), None);
    let of_acme = db.sign_ins(SiteId::MAIN, Some(&name("acme")), 10).await.unwrap();
    assert_eq!(of_acme, [two.clone(), one.clone()]);
    let first = db.sign_ins(SiteId::MAIN, None, 1).await.unwrap();
    assert_eq!(first, std::slice::from_ref(&other));
    let elsewhere = SiteId(Uuid::from_u128(9));
    assert_eq!(db.sign_ins(elsewhere, None, 10).await.unwrap(), []);

    db.note_sign_in_seen(one.id, at(50), "192.0.2.5").await.unwrap();
    db.note_sign_in_seen(one.id, at(40), "192.0.2.4").await.unwrap();
    assert!(db.note_sign_in_proved(one.id, at(60)).await.unwrap());
    let changed = SignInRow {
        seen_at: at(50),
        proved_at: at(60),
        address: "192.0.2.5".to_owned(),
        ..one.clone()
    };
    assert_eq!(db.find_sign_in(&one.hash).await.unwrap(), Some(changed.clone()));

    assert_eq!(db.end_sign_in(elsewhere, one.id).await.unwrap(), None, "of another site");
    assert_eq!(db.end_sign_in(SiteId::MAIN, one.id).await.unwrap(), Some(changed));
    assert_eq!(db.end_sign_in(SiteId::MAIN, one.id).await.unwrap(), None);
    assert!(!db.note_sign_in_proved(one.id, at(61)).await.unwrap());
    let again = db.add_sign_in(&SignInRow { hash: two.hash.clone(), ..one }).await;
    assert!(again.is_err(), "two with one cookie");
}

async fn those_that_are_over_are_ended_together(db: Db) {
    let idle = sign_in(1, "acme", 10);
    let seen = sign_in(2, "acme", 900);
    for row in [&idle, &seen] {
        db.add_sign_in(row).await.unwrap();
    }
    assert!(!idle.is_over(at(109)) && idle.is_over(at(110)) && !seen.is_over(at(999)));
    assert_eq!(db.end_sign_ins_over(at(109)).await.unwrap(), []);
    assert_eq!(db.end_sign_ins_over(at(110)).await.unwrap(), [idle]);
    assert_eq!(db.end_sign_ins_over(at(999)).await.unwrap(), []);
    assert!(seen.is_over(at(1000)));
    assert_eq!(db.end_sign_ins_over(at(1000)).await.unwrap(), [seen]);
}

both!(what_was_added_is_found_changed_and_ended_once, those_that_are_over_are_ended_together);
