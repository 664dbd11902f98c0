//! How often share links were used: each use is taken once, on whichever node.

use entrepot_nouns::{AccountId, SiteId, Timestamp};

use crate::Db;
use crate::error::Result;
use crate::sql::{Row, Value, sql, statements};
use crate::tx::Tx;

statements! {
    TAKE = sql!(
        "INSERT INTO link_uses (account_id, site, downloads, uploads, upload_bytes, used_at) ",
        "VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (account_id) DO UPDATE SET ",
        "downloads = link_uses.downloads + excluded.downloads, ",
        "uploads = link_uses.uploads + excluded.uploads, ",
        "upload_bytes = link_uses.upload_bytes + excluded.upload_bytes, ",
        "used_at = excluded.used_at ",
        "WHERE link_uses.downloads + excluded.downloads <= $7 ",
        "AND link_uses.uploads + excluded.uploads <= $8 ",
        "AND link_uses.upload_bytes + excluded.upload_bytes <= $9",
    );
    GIVE_BACK = sql!(
        "UPDATE link_uses SET downloads = downloads - $1, uploads = uploads - $2, ",
        "upload_bytes = upload_bytes - $3 WHERE account_id = $4",
    );
    FORGET = sql!("DELETE FROM link_uses WHERE account_id = $1");
    OF_LINK = sql!(
        "SELECT account_id, downloads, uploads, upload_bytes, used_at FROM link_uses ",
        "WHERE account_id = $1",
    );
    OF_SITE = sql!(
        "SELECT account_id, downloads, uploads, upload_bytes, used_at FROM link_uses ",
        "WHERE site = $1",
    );
}

/// How often a link was used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkUses {
    /// Files and archives that were downloaded.
    pub downloads: u64,
    /// Files that were added.
    pub uploads: u64,
    /// Bytes of the files that were added.
    pub upload_bytes: u64,
    /// The last use; never used: `None`.
    pub used_at: Option<Timestamp>,
}

/// What one use takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkUse {
    /// A file or an archive is downloaded.
    Download,
    /// A file of so many bytes is added.
    Upload(u64),
}

/// The account of a link, and the site that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkPlace {
    /// The site of the account.
    pub site: SiteId,
    /// A link that is made anew under the same name has another id.
    pub account: AccountId,
}

/// How often a link may be used, all in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkAllowance {
    /// Downloads; `None`: any number.
    pub downloads: Option<u32>,
    /// Uploads; `None`: any number.
    pub uploads: Option<u32>,
    /// Bytes of uploads; `None`: any number.
    pub upload_bytes: Option<u64>,
}

impl LinkUse {
    fn counts(self) -> [Value; 3] {
        let (downloads, uploads, bytes) = match self {
            LinkUse::Download => (1, 0, 0),
            LinkUse::Upload(bytes) => (0, 1, bytes),
        };
        [downloads, uploads, bytes].map(Value::unsigned)
    }

    /// Whether it fits where nothing was used yet.
    fn fits(self, most: LinkAllowance) -> bool {
        match self {
            LinkUse::Download => most.downloads != Some(0),
            LinkUse::Upload(bytes) => {
                most.uploads != Some(0) && most.upload_bytes.is_none_or(|most| bytes <= most)
            }
        }
    }
}

fn uses(row: &Row<'_>) -> Result<(AccountId, LinkUses)> {
    let uses = LinkUses {
        downloads: row.unsigned(1)?,
        uploads: row.unsigned(2)?,
        upload_bytes: row.unsigned(3)?,
        used_at: Some(row.time(4)?),
    };
    Ok((AccountId(row.id(0)?), uses))
}

impl Db {
    /// Takes one use of a link; false if it would be more than is allowed.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn take_link_use(
        &self,
        link: LinkPlace,
        used: LinkUse,
        most: LinkAllowance,
        now: Timestamp,
    ) -> Result<bool> {
        if !used.fits(most) {
            return Ok(false);
        }
        let LinkPlace { site, account } = link;
        let most = [most.downloads.map(u64::from), most.uploads.map(u64::from), most.upload_bytes];
        let mut values = vec![account.0.into(), site.0.into()];
        values.extend(used.counts());
        values.push(now.into());
        values.extend(most.map(|most| Value::unsigned(most.unwrap_or(u64::MAX))));
        Ok(self.execute(TAKE, values).await? > 0)
    }

    /// Gives back a use that came to nothing.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn give_back_link_use(&self, account: AccountId, used: LinkUse) -> Result<()> {
        let mut values = Vec::from(used.counts());
        values.push(account.0.into());
        self.execute(GIVE_BACK, values).await.map(drop)
    }

    /// How often a link was used.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn link_uses(&self, account: AccountId) -> Result<LinkUses> {
        let found = self.read(OF_LINK, vec![account.0.into()], uses).await?;
        Ok(found.into_iter().next().map(|(_, uses)| uses).unwrap_or_default())
    }

    /// How often the links of a site were used; those that never were are not among them.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn link_uses_of(&self, site: SiteId) -> Result<Vec<(AccountId, LinkUses)>> {
        self.read(OF_SITE, vec![site.0.into()], uses).await
    }
}

impl Tx {
    /// Forgets how often a link was used that is deleted.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn forget_link_uses(&mut self, account: AccountId) -> Result<()> {
        self.work.execute(FORGET, vec![account.0.into()]).await.map(drop)
    }
}
