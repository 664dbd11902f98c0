//! Transfers: a projection of events.

use std::collections::HashMap;

use entrepot_nouns::event::FileFact;
use entrepot_nouns::transfer::{hex, unhex32};
use entrepot_nouns::{
    Digests, Direction, Event, EventId, Fact, JobId, Name, SessionId, SiteId, Timestamp, Transfer,
    TransferId, TransferState,
};

use crate::error::{DbError, Result};
use crate::sql::{Row, Sql, Value, sql, statements};
use crate::tx::Batch;
use crate::{Db, RowPosition, name_filter, page};

/// The account of a transfer whose event names none.
const NOBODY: &str = "nobody";

/// Which transfers are wanted. The default wants all, newest first.
#[derive(Clone, Debug)]
pub struct TransferFilter {
    /// Only of this account.
    pub account: Option<Name>,
    /// Only in this state.
    pub state: Option<TransferState>,
    /// Only in this direction.
    pub direction: Option<Direction>,
    /// Only with this text in the path, as written.
    pub path_contains: Option<String>,
    /// Only those that reached their state at or after this moment.
    pub since: Option<Timestamp>,
    /// Only those that come after this row, newest first.
    pub after: Option<RowPosition>,
    /// At most this many, and never more than [`crate::limits::PAGE_ROWS`].
    pub limit: u32,
}

impl Default for TransferFilter {
    fn default() -> Self {
        TransferFilter {
            account: None,
            state: None,
            direction: None,
            path_contains: None,
            since: None,
            after: None,
            limit: crate::limits::PAGE_ROWS,
        }
    }
}

macro_rules! select {
    ($rest:literal) => {
        sql!(
            "SELECT id, site, direction, state, protocol, account, path, endpoint, session, job, ",
            "size, blake3, sha256, started_at, changed_at, error FROM transfers WHERE site = $1 ",
            $rest,
        )
    };
}

macro_rules! search {
    ($lead:literal) => {
        sql!(
            "SELECT id, site, direction, state, protocol, account, path, endpoint, session, job, ",
            "size, blake3, sha256, started_at, changed_at, error FROM transfers WHERE site = $1 ",
            "AND (CAST($2 AS TEXT) IS NULL OR state = $2) ",
            "AND (CAST($3 AS TEXT) IS NULL OR direction = $3) ",
            "AND (CAST($4 AS TEXT) IS NULL OR replace(path, $4, '') <> path) ",
            "AND (CAST($5 AS BIGINT) IS NULL OR changed_at >= $5) ",
            "AND (CAST($6 AS BIGINT) IS NULL OR (changed_at, id) < ($6, $7)) ",
            $lead,
            " ORDER BY changed_at DESC, id DESC LIMIT $9",
        )
    };
}

/// Ended transfers stay as they are; of two facts that end nothing the later one holds. So the
/// order in which nodes are projected, and a repetition of any of it, make no difference.
macro_rules! upsert {
    ($values:literal) => {
        sql!(
            "INSERT INTO transfers (id, site, direction, state, protocol, account, path, ",
            "endpoint, session, job, size, blake3, sha256, started_at, changed_at, fact_id, ",
            "error, name) ",
            $values,
            " ON CONFLICT (id) DO UPDATE SET state = excluded.state, path = excluded.path, ",
            "endpoint = excluded.endpoint, session = excluded.session, job = excluded.job, ",
            "size = excluded.size, blake3 = excluded.blake3, sha256 = excluded.sha256, ",
            "changed_at = excluded.changed_at, fact_id = excluded.fact_id, ",
            "error = excluded.error, name = excluded.name ",
            "WHERE transfers.state IN ('active', 'partial', 'held', 'quarantined') AND ",
            "(excluded.state NOT IN ('active', 'partial', 'held', 'quarantined') OR ",
            "(excluded.changed_at, excluded.fact_id) > (transfers.changed_at, transfers.fact_id))",
        )
    };
}

statements! {
    FIND = select!("AND id = $2");
    BY_TIME = search!("AND CAST($8 AS TEXT) IS NULL");
    BY_ACCOUNT = search!("AND account = $8");
    UPSERT_SQLITE = upsert!(
        "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)"
    );
    BY_NAME = select!("AND name = $2 ORDER BY changed_at DESC, id DESC LIMIT $3");
    BY_BLAKE3 = select!("AND blake3 = $2 ORDER BY changed_at DESC, id DESC LIMIT $3");
    BY_SHA256 = select!("AND sha256 = $2 ORDER BY changed_at DESC, id DESC LIMIT $3");
}

/// As `UPSERT_SQLITE`, an array a column.
pub(crate) const UPSERT_POSTGRES: Sql = upsert!(
    "SELECT * FROM UNNEST($1::UUID[], $2::UUID[], $3::TEXT[], $4::TEXT[], $5::TEXT[], \
     $6::TEXT[], $7::TEXT[], $8::TEXT[], $9::UUID[], $10::UUID[], $11::BIGINT[], $12::TEXT[], \
     $13::TEXT[], $14::BIGINT[], $15::BIGINT[], $16::UUID[], $17::TEXT[], $18::TEXT[])"
);

/// Rows of [`push_row`].
pub(crate) const UPSERT: Batch =
    Batch { sqlite: UPSERT_SQLITE, postgres: UPSERT_POSTGRES, width: 18 };

/// Transfers as the facts of a batch leave them.
#[derive(Default)]
pub(crate) struct Changes(HashMap<TransferId, (Transfer, EventId)>, Vec<TransferId>);

impl Changes {
    /// Takes one more event into account, by the same rule as the statement.
    pub(crate) fn add(&mut self, event: &Event) {
        let Some(transfer) = of_event(event) else { return };
        let id = transfer.id;
        match self.0.get_mut(&id) {
            None => {
                self.1.push(id);
                self.0.insert(id, (transfer, event.id));
            }
            Some((known, fact)) => {
                let later = (transfer.changed_at, event.id) > (known.changed_at, *fact);
                if !has_ended(known.state) && (has_ended(transfer.state) || later) {
                    *known = Transfer { started_at: known.started_at, ..transfer };
                    *fact = event.id;
                }
            }
        }
    }

    /// The rows, in the order of their first fact.
    pub(crate) fn rows(mut self) -> Vec<Value> {
        let mut rows = Vec::with_capacity(self.1.len() * UPSERT.width);
        for id in &self.1 {
            if let Some((transfer, fact)) = self.0.remove(id) {
                push_row(&transfer, fact, &mut rows);
            }
        }
        rows
    }
}

fn has_ended(state: TransferState) -> bool {
    use TransferState::{Completed, Failed, Unknown};
    matches!(state, Completed | Failed | Unknown)
}

/// The transfer an event tells of, in the state it tells.
fn of_event(event: &Event) -> Option<Transfer> {
    use Direction::{In, Out};
    use TransferState::{Completed, Failed, Held, Partial, Quarantined, Unknown};
    let (file, direction, state, endpoint, error) = match &event.fact {
        Fact::FileUploaded { file } | Fact::FileRecovered { file } => {
            (file, In, Completed, None, None)
        }
        Fact::FileDownloaded { file } => (file, Out, Completed, None, None),
        Fact::FileDelivered { file, endpoint, .. } => {
            (file, Out, Completed, Some(endpoint.clone()), None)
        }
        Fact::FileFetched { file, endpoint, .. } => {
            (file, In, Completed, Some(endpoint.clone()), None)
        }
        Fact::FileHeld { held } => (&held.file, In, Held, None, None),
        Fact::FileQuarantined { held, reason } => {
            (&held.file, In, Quarantined, None, Some(reason.clone()))
        }
        Fact::FileDiscarded { decided } => {
            let why = format!("it was held, and deleted by {}", decided.by);
            (&decided.held.file, In, Failed, None, Some(why))
        }
        Fact::FileInterrupted { file, kept, reason } => {
            (file, In, if *kept { Partial } else { Failed }, None, Some(reason.clone()))
        }
        Fact::FileUnknown { file } => {
            let why = "after a crash neither the staged nor the published file was there";
            (file, In, Unknown, None, Some(why.to_owned()))
        }
        _ => return None,
    };
    Some(Transfer { endpoint, error, ..ended(event, file, direction, state) })
}

fn ended(event: &Event, file: &FileFact, direction: Direction, state: TransferState) -> Transfer {
    Transfer {
        id: file.transfer,
        site: event.site,
        direction,
        state,
        protocol: file.protocol,
        account: event.account.clone().unwrap_or_else(nobody),
        path: file.path.clone(),
        endpoint: None,
        session: event.session,
        job: event.job,
        size: file.size,
        digests: file.digests,
        started_at: file.started_at,
        changed_at: event.at,
        error: None,
    }
}

fn nobody() -> Name {
    // The invariant: the constant is a name; a test reads it.
    NOBODY.parse().expect("'nobody' is a name")
}

fn push_row(transfer: &Transfer, fact: EventId, row: &mut Vec<Value>) {
    let digest = |digest: Option<[u8; 32]>| Value::maybe_text(digest.map(|bytes| hex(&bytes)));
    row.extend([
        transfer.id.0.into(),
        transfer.site.0.into(),
        transfer.direction.as_str().into(),
        transfer.state.as_str().into(),
        transfer.protocol.as_str().into(),
        (&transfer.account).into(),
        Value::text(&*transfer.path),
        name_filter(transfer.endpoint.as_ref()),
        transfer.session.map(|id| id.0).into(),
        transfer.job.map(|id| id.0).into(),
        Value::unsigned(transfer.size),
        digest(transfer.digests.blake3),
        digest(transfer.digests.sha256),
        transfer.started_at.into(),
        transfer.changed_at.into(),
        fact.0.into(),
        Value::maybe_text(transfer.error.as_deref()),
        Value::text(file_name(&transfer.path)),
    ]);
}

/// The last component of a path, as transfers are found by it.
fn file_name(path: &str) -> String {
    path.rsplit('/').next().unwrap_or(path).to_lowercase()
}

fn digest(row: &Row<'_>, index: usize) -> Result<Option<[u8; 32]>> {
    let Some(text) = row.maybe_text(index)? else { return Ok(None) };
    let bytes = unhex32(&text);
    bytes.map(Some).ok_or_else(|| DbError::Corrupt(format!("'{text}' is not a digest")))
}

fn read_row(row: &Row<'_>) -> Result<Transfer> {
    Ok(Transfer {
        id: TransferId(row.id(0)?),
        site: SiteId(row.id(1)?),
        direction: row.word(2)?,
        state: row.word(3)?,
        protocol: row.word(4)?,
        account: row.name(5)?,
        path: row.text(6)?,
        endpoint: row.maybe_name(7)?,
        session: row.maybe_id(8)?.map(SessionId),
        job: row.maybe_id(9)?.map(JobId),
        size: row.unsigned(10)?,
        digests: Digests { blake3: digest(row, 11)?, sha256: digest(row, 12)? },
        started_at: row.time(13)?,
        changed_at: row.time(14)?,
        error: row.maybe_text(15)?,
    })
}

impl Db {
    /// Transfers of a site that match, newest first.
    pub async fn transfers(&self, site: SiteId, filter: &TransferFilter) -> Result<Vec<Transfer>> {
        let sql = if filter.account.is_some() { BY_ACCOUNT } else { BY_TIME };
        let path = filter.path_contains.as_deref().filter(|text| !text.is_empty());
        let values = vec![
            site.0.into(),
            Value::maybe_text(filter.state.map(TransferState::as_str)),
            Value::maybe_text(filter.direction.map(Direction::as_str)),
            Value::maybe_text(path),
            filter.since.into(),
            filter.after.map(|row| row.at).into(),
            filter.after.map(|row| row.id).into(),
            name_filter(filter.account.as_ref()),
            page(filter.limit),
        ];
        self.read(sql, values, read_row).await
    }

    /// The newest transfers of files of this name, whatever the case of its letters and in whatever
    /// folder or at whatever endpoint.
    pub async fn transfers_named(
        &self,
        site: SiteId,
        name: &str,
        limit: u32,
    ) -> Result<Vec<Transfer>> {
        let values = vec![site.0.into(), Value::text(file_name(name)), page(limit)];
        self.read(BY_NAME, values, read_row).await
    }

    /// The newest transfers of files with this digest, BLAKE3 or SHA-256.
    pub async fn transfers_with_digest(
        &self,
        site: SiteId,
        digest: &[u8; 32],
        limit: u32,
    ) -> Result<Vec<Transfer>> {
        let mut found = Vec::new();
        for sql in [BY_BLAKE3, BY_SHA256] {
            let values = vec![site.0.into(), Value::text(hex(digest)), page(limit)];
            found.extend(self.read(sql, values, read_row).await?);
        }
        Ok(found)
    }

    /// The transfer with this id, in whatever state; `None` if the site has no such transfer.
    pub async fn transfer(&self, site: SiteId, id: TransferId) -> Result<Option<Transfer>> {
        Ok(self.read(FIND, vec![site.0.into(), id.0.into()], read_row).await?.pop())
    }
}
