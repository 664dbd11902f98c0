//! Answers to requests that may be repeated under the same key, so that a client which lost an
//! answer gets it again instead of a second change.

use entrepot_nouns::{SiteId, Timestamp};

use crate::Db;
use crate::error::Result;
use crate::sql::{Value, sql, statements};
use crate::tx::Tx;

/// What names a request that may be repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerKey {
    /// The site at which it was asked.
    pub site: SiteId,
    /// Who asked, as events name the actor.
    pub actor: String,
    /// The key that the client chose.
    pub key: String,
}

/// An answer that was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredAnswer {
    /// A hash of what was asked.
    pub request: String,
    /// The answer, as JSON.
    pub answer: String,
    /// When it was given.
    pub at: Timestamp,
}

statements! {
    FIND = sql!(
        "SELECT request, answer, at FROM request_answers ",
        "WHERE site = $1 AND actor = $2 AND request_key = $3",
    );
    KEEP = sql!(
        "INSERT INTO request_answers (site, actor, request_key, request, answer, at) ",
        "VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING",
    );
    FORGET = sql!("DELETE FROM request_answers WHERE at < $1");
}

impl AnswerKey {
    fn values(&self) -> Vec<Value> {
        vec![self.site.0.into(), Value::text(&*self.actor), Value::text(&*self.key)]
    }

    fn row(&self, answer: &StoredAnswer) -> Vec<Value> {
        let mut row = self.values();
        row.push(Value::text(&*answer.request));
        row.push(Value::text(&*answer.answer));
        row.push(answer.at.into());
        row
    }
}

impl Db {
    /// The answer that was given to the request of this key; `None` if none is kept.
    pub async fn answer(&self, key: &AnswerKey) -> Result<Option<StoredAnswer>> {
        let found = self.read(FIND, key.values(), |row| {
            Ok(StoredAnswer { request: row.text(0)?, answer: row.text(1)?, at: row.time(2)? })
        });
        Ok(found.await?.pop())
    }

    /// Keeps an answer, unless there is one of this key already.
    pub async fn keep_answer(&self, key: &AnswerKey, answer: &StoredAnswer) -> Result<()> {
        self.execute(KEEP, key.row(answer)).await.map(drop)
    }

    /// Forgets the answers that were given before this moment. Says how many.
    pub async fn forget_answers(&self, before: Timestamp) -> Result<u64> {
        self.execute(FORGET, vec![before.into()]).await
    }
}

impl Tx {
    /// As [`Db::keep_answer`], in the transaction of the change that the answer tells of.
    pub async fn keep_answer(&mut self, key: &AnswerKey, answer: &StoredAnswer) -> Result<()> {
        self.work.execute(KEEP, key.row(answer)).await.map(drop)
    }
}
