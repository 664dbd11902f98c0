//! Answers that are kept for requests which may be repeated.

use std::time::Duration;

use entrepot_nouns::{SiteId, Timestamp};

use super::both;
use crate::{AnswerKey, Db, StoredAnswer};

const NOW: Timestamp = Timestamp(1_800_000_000_000_000);

fn key(actor: &str, text: &str) -> AnswerKey {
    AnswerKey { site: SiteId::MAIN, actor: actor.to_owned(), key: text.to_owned() }
}

fn answer(text: &str, at: Timestamp) -> StoredAnswer {
    StoredAnswer { request: "hash".to_owned(), answer: text.to_owned(), at }
}

async fn the_first_answer_of_a_key_stays_until_it_is_forgotten(db: Db) {
    let later = NOW.plus(Duration::from_secs(60));
    db.keep_answer(&key("a", "k"), &answer("first", NOW)).await.unwrap();
    db.keep_answer(&key("a", "k"), &answer("second", later)).await.unwrap();
    assert_eq!(db.answer(&key("a", "k")).await.unwrap(), Some(answer("first", NOW)));
    let elsewhere = AnswerKey { site: SiteId(uuid::Uuid::from_u128(45)), ..key("a", "k") };
    for other in [key("b", "k"), key("a", "l"), elsewhere] {
        assert_eq!(db.answer(&other).await.unwrap(), None);
    }
    // An answer is kept with the change that it tells of, or not at all.
    for text in ["dropped", "kept"] {
        let mut tx = db.begin().await.unwrap();
        tx.keep_answer(&key("a", text), &answer(text, later)).await.unwrap();
        if text == "kept" {
            tx.commit().await.unwrap();
        }
    }
    assert_eq!(db.answer(&key("a", "dropped")).await.unwrap(), None);
    assert_eq!(db.answer(&key("a", "kept")).await.unwrap(), Some(answer("kept", later)));
    assert_eq!(db.forget_answers(later).await.unwrap(), 1);
    assert_eq!(db.answer(&key("a", "k")).await.unwrap(), None);
    assert_eq!(db.answer(&key("a", "kept")).await.unwrap(), Some(answer("kept", later)));
}

both!(the_first_answer_of_a_key_stays_until_it_is_forgotten);
