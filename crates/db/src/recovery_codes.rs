//! Recovery codes of accounts: each is taken once, on whichever node.

use entrepot_nouns::AccountId;

use crate::Db;
use crate::error::Result;
use crate::sql::{sql, statements};
use crate::tx::Tx;

statements! {
    FORGET = sql!("DELETE FROM recovery_codes WHERE account_id = $1");
    ADD = sql!("INSERT INTO recovery_codes (account_id, hash) VALUES ($1, $2)");
    TAKE = sql!("DELETE FROM recovery_codes WHERE account_id = $1 AND hash = $2");
    LEFT = sql!("SELECT COUNT(*) FROM recovery_codes WHERE account_id = $1");
}

impl Tx {
    /// Gives an account these codes, by their hashes, in place of all that it has.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn set_recovery_codes(
        &mut self,
        account: AccountId,
        hashes: &[String],
    ) -> Result<()> {
        self.work.execute(FORGET, vec![account.0.into()]).await?;
        for hash in hashes {
            self.work.execute(ADD, vec![account.0.into(), hash.as_str().into()]).await?;
        }
        Ok(())
    }
}

impl Db {
    /// Takes a code of an account by its hash; false if there is none, or it was taken before.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn take_recovery_code(&self, account: AccountId, hash: &str) -> Result<bool> {
        Ok(self.execute(TAKE, vec![account.0.into(), hash.into()]).await? > 0)
    }

    /// How many codes an account has that were not taken.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn recovery_codes_left(&self, account: AccountId) -> Result<u64> {
        let left = self.read(LEFT, vec![account.0.into()], |row| row.unsigned(0)).await?;
        Ok(left.into_iter().next().unwrap_or_default())
    }
}
