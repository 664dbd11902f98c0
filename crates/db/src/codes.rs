//! Steps of code generators that were taken.

use entrepot_nouns::{Name, SiteId};

use crate::Db;
use crate::error::Result;
use crate::sql::{Value, sql, statements};

statements! {
    TAKE = sql!(
        "INSERT INTO codes (site, account, step) VALUES ($1, $2, $3) ",
        "ON CONFLICT (site, account) DO UPDATE SET step = excluded.step ",
        "WHERE codes.step < excluded.step",
    );
}

impl Db {
    /// Takes a step of an account's code generator; false if it, or a later one, was taken
    /// before, on this node or another.
    pub async fn take_code(&self, site: SiteId, account: &Name, step: i64) -> Result<bool> {
        let values = vec![site.0.into(), account.into(), Value::Int(Some(step))];
        Ok(self.execute(TAKE, values).await? > 0)
    }
}
