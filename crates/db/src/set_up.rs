//! The token by which the first administrator is made.

use entrepot_nouns::Timestamp;

use crate::Db;
use crate::error::Result;
use crate::sql::{sql, statements};
use crate::tx::Tx;

statements! {
    FORGET = sql!("DELETE FROM set_up_tokens");
    ADD = sql!("INSERT INTO set_up_tokens (hash, ends_at) VALUES ($1, $2)");
    TAKE = sql!("DELETE FROM set_up_tokens WHERE hash = $1 AND ends_at > $2");
    HAS = sql!("SELECT COUNT(*) FROM set_up_tokens WHERE hash = $1 AND ends_at > $2");
    WAITS = sql!("SELECT COUNT(*) FROM set_up_tokens WHERE ends_at > $1");
}

impl Tx {
    /// Makes this token, by its hash, the only one.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn set_set_up_token(&mut self, hash: &str, ends_at: Timestamp) -> Result<()> {
        self.work.execute(FORGET, Vec::new()).await?;
        self.work.execute(ADD, vec![hash.into(), ends_at.into()]).await.map(drop)
    }

    /// Takes a token by its hash; false if there is none, it was taken before, or has ended.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn take_set_up_token(&mut self, hash: &str, now: Timestamp) -> Result<bool> {
        Ok(self.work.execute(TAKE, vec![hash.into(), now.into()]).await? > 0)
    }
}

impl Db {
    /// True if there is a token of this hash that was not taken.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn has_set_up_token(&self, hash: &str, now: Timestamp) -> Result<bool> {
        let count = self.read(HAS, vec![hash.into(), now.into()], |row| row.int(0)).await?;
        Ok(count.first().is_some_and(|count| *count > 0))
    }

    /// True if there is a token by which the first administrator can be made.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn waits_for_set_up(&self, now: Timestamp) -> Result<bool> {
        let count = self.read(WAITS, vec![now.into()], |row| row.int(0)).await?;
        Ok(count.first().is_some_and(|count| *count > 0))
    }
}
