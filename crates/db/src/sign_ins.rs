//! Browsers that are signed in.

use entrepot_nouns::{AccountId, Name, SessionId, SiteId, Timestamp};

use crate::Db;
use crate::error::Result;
use crate::sql::{Row, Value, sql, statements};

/// A browser that is signed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignInRow {
    /// By which lists and events name it.
    pub id: SessionId,
    /// Hash of its cookie, 64 hexadecimal digits.
    pub hash: String,
    /// The site of its account.
    pub site: SiteId,
    /// The account that signed in.
    pub account: Name,
    /// An account that is deleted and made anew under the same name has another id.
    pub account_id: AccountId,
    /// When it signed in.
    pub opened_at: Timestamp,
    /// When it was seen last, within a minute.
    pub seen_at: Timestamp,
    /// When it proved last who it is.
    pub proved_at: Timestamp,
    /// Signed out then, whatever it does.
    pub ends_at: Timestamp,
    /// Signed out when it was not seen for so long, microseconds.
    pub idle_us: i64,
    /// The IP address that it was seen at last.
    pub address: String,
    /// How the browser names itself.
    pub user_agent: String,
    /// What proved the login, for people.
    pub proof: String,
    /// The same as JSON, to see whether it would still count.
    pub credentials: String,
}

impl SignInRow {
    /// True if it is over at `now`: by its time, or because it was not seen for too long.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.ends_at <= now || self.seen_at.micros().saturating_add(self.idle_us) <= now.micros()
    }
}

macro_rules! columns {
    () => {
        "id, hash, site, account, account_id, opened_at, seen_at, proved_at, ends_at, idle_us, \
         address, user_agent, proof, credentials"
    };
}

statements! {
    ADD = sql!(
        "INSERT INTO sign_ins (",
        columns!(),
        ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)",
    );
    FIND = sql!("SELECT ", columns!(), " FROM sign_ins WHERE hash = $1");
    BY_ID = sql!("SELECT ", columns!(), " FROM sign_ins WHERE site = $1 AND id = $2");
    SEEN = sql!(
        "UPDATE sign_ins SET seen_at = $1, address = $2 WHERE id = $3 AND seen_at < $4",
    );
    PROVED = sql!("UPDATE sign_ins SET proved_at = $1 WHERE id = $2");
    OF_SITE = sql!(
        "SELECT ",
        columns!(),
        " FROM sign_ins WHERE site = $1 ORDER BY seen_at DESC, id LIMIT $2",
    );
    OF_ACCOUNT = sql!(
        "SELECT ",
        columns!(),
        " FROM sign_ins WHERE site = $1 AND account = $2 ORDER BY seen_at DESC, id LIMIT $3",
    );
    END = sql!("DELETE FROM sign_ins WHERE site = $1 AND id = $2 RETURNING ", columns!());
    END_OVER = sql!(
        "DELETE FROM sign_ins WHERE ends_at <= $1 OR seen_at + idle_us <= $2 RETURNING ",
        columns!(),
    );
}

fn row(row: &Row<'_>) -> Result<SignInRow> {
    Ok(SignInRow {
        id: SessionId(row.id(0)?),
        hash: row.text(1)?,
        site: SiteId(row.id(2)?),
        account: row.name(3)?,
        account_id: AccountId(row.id(4)?),
        opened_at: row.time(5)?,
        seen_at: row.time(6)?,
        proved_at: row.time(7)?,
        ends_at: row.time(8)?,
        idle_us: row.int(9)?,
        address: row.text(10)?,
        user_agent: row.text(11)?,
        proof: row.text(12)?,
        credentials: row.text(13)?,
    })
}

impl Db {
    /// Adds a browser that has signed in.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn add_sign_in(&self, added: &SignInRow) -> Result<()> {
        let values = vec![
            added.id.0.into(),
            added.hash.as_str().into(),
            added.site.0.into(),
            (&added.account).into(),
            added.account_id.0.into(),
            added.opened_at.into(),
            added.seen_at.into(),
            added.proved_at.into(),
            added.ends_at.into(),
            added.idle_us.into(),
            added.address.as_str().into(),
            added.user_agent.as_str().into(),
            added.proof.as_str().into(),
            added.credentials.as_str().into(),
        ];
        self.execute(ADD, values).await.map(drop)
    }

    /// The browser with this cookie, by the hash of it.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn find_sign_in(&self, hash: &str) -> Result<Option<SignInRow>> {
        Ok(self.read(FIND, vec![hash.into()], row).await?.pop())
    }

    /// A browser that is signed in at a site, by the id that lists show.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn sign_in(&self, site: SiteId, id: SessionId) -> Result<Option<SignInRow>> {
        Ok(self.read(BY_ID, vec![site.0.into(), id.0.into()], row).await?.pop())
    }

    /// Notes that a browser was seen at an IP address.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn note_sign_in_seen(
        &self,
        id: SessionId,
        at: Timestamp,
        address: &str,
    ) -> Result<()> {
        let values = vec![at.into(), address.into(), id.0.into(), at.into()];
        self.execute(SEEN, values).await.map(drop)
    }

    /// Notes that a browser proved once more who it is; false if it is signed in no more.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn note_sign_in_proved(&self, id: SessionId, at: Timestamp) -> Result<bool> {
        Ok(self.execute(PROVED, vec![at.into(), id.0.into()]).await? > 0)
    }

    /// Browsers that are signed in at a site, or as one of its accounts, the last seen first; at
    /// most `limit`.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn sign_ins(
        &self,
        site: SiteId,
        account: Option<&Name>,
        limit: u32,
    ) -> Result<Vec<SignInRow>> {
        let limit = Value::unsigned(limit.into());
        match account {
            Some(name) => self.read(OF_ACCOUNT, vec![site.0.into(), name.into(), limit], row).await,
            None => self.read(OF_SITE, vec![site.0.into(), limit], row).await,
        }
    }

    /// Signs a browser out; `None` if it is signed in no more.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn end_sign_in(&self, site: SiteId, id: SessionId) -> Result<Option<SignInRow>> {
        Ok(self.write(END, vec![site.0.into(), id.0.into()], row).await?.pop())
    }

    /// Signs out all browsers whose time is over, or that were not seen for too long. Of several
    /// nodes one gets each.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn end_sign_ins_over(&self, now: Timestamp) -> Result<Vec<SignInRow>> {
        self.write(END_OVER, vec![now.into(), now.into()], row).await
    }
}
