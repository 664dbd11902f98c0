//! Certificates from authorities: one node asks, all answer, and nothing outlives its listener.

use std::collections::BTreeSet;
use std::time::Duration;

use entrepot_nouns::acme::AcmeSubject;
use entrepot_nouns::{NodeId, Sealed, SiteId, Timestamp};
use uuid::Uuid;

use super::both;
use crate::{AcmeAnswer, AcmeFailure, AcmeIssued, AcmeOrder, Db, ListenerPlace};

const LEASE: Duration = Duration::from_secs(600);
const DIRECTORY: &str = "https://ca.example/dir";

fn place(listener: &str) -> ListenerPlace {
    ListenerPlace { site: SiteId::MAIN, listener: listener.parse().unwrap() }
}

async fn one_node_asks_for_a_certificate_at_a_time(db: Db) {
    let [one, other] = [7, 8].map(|number| NodeId(Uuid::from_u128(number)));
    let web = place("web");
    assert!(db.lease_acme_order(&web, one, LEASE).await.unwrap());
    assert!(db.lease_acme_order(&web, one, LEASE).await.unwrap(), "it is its own");
    assert!(!db.lease_acme_order(&web, other, LEASE).await.unwrap());
    assert!(db.lease_acme_order(&place("ftp"), other, LEASE).await.unwrap());
    db.release_acme_order(&web, other).await.unwrap();
    assert!(!db.lease_acme_order(&web, other, LEASE).await.unwrap(), "another one's was released");
    db.release_acme_order(&web, one).await.unwrap();
    assert!(db.lease_acme_order(&web, other, LEASE).await.unwrap());
}

async fn what_came_and_what_failed_is_known(db: Db) {
    let web = place("web");
    assert_eq!(db.acme_order(&web).await.unwrap(), None);
    db.ask_for_acme_renewal(&web).await.unwrap();
    assert!(db.acme_order(&web).await.unwrap().unwrap().asked);
    let failure = AcmeFailure {
        count: 2,
        code: "EP1131".to_owned(),
        problem: "no answer".to_owned(),
        retry_at: Timestamp(9),
    };
    db.note_acme_failed(&web, &failure, "{}").await.unwrap();
    let settings = Some("{}".to_owned());
    let failed =
        AcmeOrder { settings: settings.clone(), failure: Some(failure), ..Default::default() };
    assert_eq!(db.acme_order(&web).await.unwrap(), Some(failed));
    let names = BTreeSet::from(["a.example".parse().unwrap()]);
    let issued = AcmeIssued {
        subject: AcmeSubject { directory: DIRECTORY.to_owned(), names },
        not_before: Timestamp(1),
        not_after: Timestamp(2),
    };
    db.note_acme_issued(&web, &issued, "{}").await.unwrap();
    let known = AcmeOrder { issued: Some(issued), settings, failure: None, asked: false };
    assert_eq!(db.acme_orders().await.unwrap(), [(web.clone(), known)]);
    let sealed = Sealed("sealed".to_owned());
    db.set_acme_account(&web, DIRECTORY, &sealed).await.unwrap();
    assert_eq!(db.acme_account(&web, DIRECTORY).await.unwrap(), Some(sealed.clone()));
    assert_eq!(db.acme_account(&web, "https://other.example/").await.unwrap(), None);
    let mut tx = db.begin().await.unwrap();
    let mut accounts = tx.acme_accounts(SiteId::MAIN).await.unwrap();
    assert_eq!(accounts.len(), 1);
    accounts[0].sealed = Sealed("anew".to_owned());
    tx.reseal_acme_account(&accounts[0]).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(db.acme_account(&web, DIRECTORY).await.unwrap(), Some(Sealed("anew".to_owned())));
    let mut tx = db.begin().await.unwrap();
    tx.forget_acme(&web).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(db.acme_order(&web).await.unwrap(), None);
    assert_eq!(db.acme_account(&web, DIRECTORY).await.unwrap(), None);
}

async fn challenges_are_answered_by_token_and_by_name_until_they_are_over(db: Db) {
    let answer = |token: &str, name: &str, at: i64| AcmeAnswer {
        token: token.to_owned(),
        name: name.to_owned(),
        key_authorization: format!("{token}.thumb"),
        expires_at: Timestamp(at),
    };
    db.add_acme_answer(&answer("t1", "a.example", 10)).await.unwrap();
    db.add_acme_answer(&answer("t2", "a.example", 20)).await.unwrap();
    db.add_acme_answer(&answer("t3", "b.example", 30)).await.unwrap();
    assert_eq!(db.acme_answer_to("t1").await.unwrap().as_deref(), Some("t1.thumb"));
    assert_eq!(db.acme_answer_for("a.example").await.unwrap().as_deref(), Some("t2.thumb"));
    assert_eq!(db.acme_answer_for("c.example").await.unwrap(), None);
    db.forget_acme_answer("t3", Timestamp(10)).await.unwrap();
    assert_eq!(db.acme_answer_to("t1").await.unwrap(), None, "its time is over");
    assert_eq!(db.acme_answer_to("t3").await.unwrap(), None);
    assert_eq!(db.acme_answer_to("t2").await.unwrap().as_deref(), Some("t2.thumb"));
}

both!(
    one_node_asks_for_a_certificate_at_a_time,
    what_came_and_what_failed_is_known,
    challenges_are_answered_by_token_and_by_name_until_they_are_over,
);
