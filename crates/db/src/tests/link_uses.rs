//! Uses of links are counted once, and never beyond what is allowed, also where two ask at once.

use entrepot_nouns::{AccountId, SiteId, Timestamp};
use uuid::Uuid;

use super::both;
use crate::{Db, LinkAllowance, LinkPlace, LinkUse};

async fn a_link_is_used_as_often_as_it_may_be(db: Db) {
    let account = AccountId(Uuid::from_u128(7));
    let link = LinkPlace { site: SiteId::MAIN, account };
    let now = Timestamp::from_seconds(9);
    let most = LinkAllowance { downloads: Some(2), uploads: Some(2), upload_bytes: Some(10) };
    let take = async |used: LinkUse| db.take_link_use(link, used, most, now).await.unwrap();
    assert_eq!(db.link_uses(account).await.unwrap().used_at, None);
    assert!(!take(LinkUse::Upload(11)).await, "it does not fit from the start");
    assert!(take(LinkUse::Download).await);
    let (one, other) = tokio::join!(take(LinkUse::Download), take(LinkUse::Download));
    assert_ne!(one, other, "one of them took the last");
    db.give_back_link_use(account, LinkUse::Download).await.unwrap();
    assert!(take(LinkUse::Download).await);
    assert!(take(LinkUse::Upload(4)).await);
    assert!(!take(LinkUse::Upload(7)).await, "the bytes are 10 in all");
    assert!(take(LinkUse::Upload(6)).await);
    assert!(!take(LinkUse::Upload(0)).await, "there are two files");
    let uses = db.link_uses(account).await.unwrap();
    assert_eq!((uses.downloads, uses.uploads, uses.upload_bytes), (2, 2, 10));
    assert_eq!(uses.used_at, Some(now));
    assert_eq!(db.link_uses_of(SiteId::MAIN).await.unwrap(), [(account, uses)]);
    let any = LinkAllowance::default();
    let free = LinkPlace { account: AccountId(Uuid::from_u128(8)), ..link };
    for _ in 0..3 {
        let taken = db.take_link_use(free, LinkUse::Upload(1 << 40), any, now).await;
        assert!(taken.unwrap());
    }
    let mut tx = db.begin().await.unwrap();
    tx.forget_link_uses(account).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(db.link_uses(account).await.unwrap().downloads, 0);
}

both!(a_link_is_used_as_often_as_it_may_be);
