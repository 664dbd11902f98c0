//! Wrong passwords and what follows from them, shared by the nodes.

use entrepot_nouns::{Name, SiteId, Timestamp};

use crate::Db;
use crate::error::{DbError, Result};
use crate::sql::{Row, Value, sql, statements};

/// What happened, or was done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PenaltyKind {
    /// A wrong password from an address.
    Address,
    /// One for an account, from an address that it never logged in from.
    Account,
    /// One for an account at an address that it is known at.
    Known,
    /// One from an address that is locked, for an account that is known there.
    Spared,
    /// A login, which makes an account known at an address.
    Login,
    /// An operator unlocked an address, or an account: what was wrong before counts no more.
    Unlocked,
}

impl PenaltyKind {
    const ALL: [PenaltyKind; 6] = [
        PenaltyKind::Address,
        PenaltyKind::Account,
        PenaltyKind::Known,
        PenaltyKind::Spared,
        PenaltyKind::Login,
        PenaltyKind::Unlocked,
    ];

    fn as_str(self) -> &'static str {
        match self {
            PenaltyKind::Address => "address",
            PenaltyKind::Account => "account",
            PenaltyKind::Known => "known",
            PenaltyKind::Spared => "spared",
            PenaltyKind::Login => "login",
            PenaltyKind::Unlocked => "unlocked",
        }
    }
}

/// An account, by its site and name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PenaltyAccount {
    /// The site that owns it.
    pub site: SiteId,
    /// Its name, or one that no account has.
    pub name: Name,
}

/// One entry, as it is added and read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Penalty {
    /// What happened, or was done about it.
    pub kind: PenaltyKind,
    /// The account that it counts against.
    pub account: Option<PenaltyAccount>,
    /// The address that it counts against, without the part of it that does not count.
    pub address: Option<String>,
    /// So many of its kind, account and address are worth remembering.
    pub most: u32,
    /// When it happened.
    pub at: Timestamp,
    /// It may be deleted from then on.
    pub expires_at: Timestamp,
}

/// Where an entry stands among all; they are read in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PenaltyPosition {
    revision: i64,
    number: i64,
}

/// An entry as it was added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PenaltyRow {
    /// Where it stands.
    pub position: PenaltyPosition,
    /// The node that added it.
    pub node: Name,
    /// The entry itself.
    pub penalty: Penalty,
}

statements! {
    NEXT_REVISION = sql!(
        "UPDATE penalty_revision SET revision = revision + 1 RETURNING revision",
    );
    ADD = sql!(
        "INSERT INTO penalties (revision, number, node, kind, site, account, address, most, at, ",
        "expires_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
    );
    FORGET_LOGIN = sql!(
        "DELETE FROM penalties WHERE address = $1 AND site = $2 AND account = $3 ",
        "AND kind = 'login'",
    );
    FORGET_ADDRESS = sql!("DELETE FROM penalties WHERE address = $1 AND kind <> 'login'");
    FORGET_ACCOUNT =
        sql!("DELETE FROM penalties WHERE site = $1 AND account = $2 AND kind <> 'login'");
    FORGET_EXPIRED = sql!("DELETE FROM penalties WHERE expires_at <= $1");
    AFTER = sql!(
        "SELECT revision, number, node, kind, site, account, address, most, at, expires_at ",
        "FROM penalties WHERE (revision, number) > ($1, $2) ",
        "ORDER BY revision, number LIMIT $3",
    );
}

impl Db {
    /// Adds what `node` has seen, in one transaction. A login takes the place of the last one of
    /// the account from that address; what an operator unlocks is removed.
    ///
    /// # Errors
    /// As everywhere; nothing was added then, but see [`crate::DbError`].
    pub async fn add_penalties(&self, node: &Name, penalties: &[Penalty]) -> Result<()> {
        let mut work = self.work(crate::Purpose::Other).await?;
        let revision = work.query(NEXT_REVISION, Vec::new(), |row| row.int(0)).await?;
        let revision = revision.into_iter().next();
        let revision =
            revision.ok_or_else(|| DbError::Corrupt("penalty_revision is empty".to_owned()))?;
        for (number, penalty) in (1..).zip(penalties) {
            let (account, address) = (penalty.account.as_ref(), penalty.address.as_deref());
            match (penalty.kind, account, address) {
                (PenaltyKind::Login, Some(account), Some(address)) => {
                    let values =
                        vec![address.into(), account.site.0.into(), (&account.name).into()];
                    work.execute(FORGET_LOGIN, values).await?;
                }
                (PenaltyKind::Unlocked, Some(account), None) => {
                    let values = vec![account.site.0.into(), (&account.name).into()];
                    work.execute(FORGET_ACCOUNT, values).await?;
                }
                (PenaltyKind::Unlocked, None, Some(address)) => {
                    work.execute(FORGET_ADDRESS, vec![address.into()]).await?;
                }
                _ => {}
            }
            let values = vec![
                Value::Int(Some(revision)),
                Value::Int(Some(number)),
                node.into(),
                penalty.kind.as_str().into(),
                account.map(|account| account.site.0).into(),
                Value::maybe_text(account.map(|account| account.name.as_str())),
                Value::maybe_text(address),
                Value::unsigned(penalty.most.into()),
                penalty.at.into(),
                penalty.expires_at.into(),
            ];
            work.execute(ADD, values).await?;
        }
        work.commit().await
    }

    /// What nodes have added behind `position`, in order, at most `limit`.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn penalties_after(
        &self,
        position: PenaltyPosition,
        limit: u32,
    ) -> Result<Vec<PenaltyRow>> {
        let values =
            vec![position.revision.into(), position.number.into(), Value::unsigned(limit.into())];
        self.read(AFTER, values, row).await
    }

    /// Deletes what has expired: how many.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn forget_penalties(&self, now: Timestamp) -> Result<u64> {
        self.execute(FORGET_EXPIRED, vec![now.into()]).await
    }
}

fn row(row: &Row<'_>) -> Result<PenaltyRow> {
    let word = row.text(3)?;
    let kind = PenaltyKind::ALL.into_iter().find(|kind| kind.as_str() == word);
    let kind = kind.ok_or_else(|| DbError::Corrupt(format!("'{word}' is no kind of penalty")))?;
    let account = match (row.maybe_id(4)?, row.maybe_name(5)?) {
        (Some(site), Some(name)) => Some(PenaltyAccount { site: SiteId(site), name }),
        _ => None,
    };
    Ok(PenaltyRow {
        position: PenaltyPosition { revision: row.int(0)?, number: row.int(1)? },
        node: row.name(2)?,
        penalty: Penalty {
            kind,
            account,
            address: row.maybe_text(6)?,
            most: row.small(7)?,
            at: row.time(8)?,
            expires_at: row.time(9)?,
        },
    })
}
