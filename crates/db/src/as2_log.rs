//! Messages of AS2, both ways, as lists show them: a row each, beside the event that says what
//! became of it. A row of a message that is on its way is written before that leaves.

use entrepot_nouns::as2::{As2Entry, As2MessageName, As2State};
use entrepot_nouns::event::As2Message;
use entrepot_nouns::{Direction, Event, EventId, Fact, JobId, Name, SiteId, Timestamp};
use uuid::Uuid;

use crate::error::Result;
use crate::sql::{Row, Sql, Value, sql, statements};
use crate::tx::Batch;
use crate::{Db, RowPosition, name_filter, page};

/// What has an end keeps it, but for a message that was rejected and is sent again.
macro_rules! upsert {
    ($values:literal, $only:literal) => {
        sql!(
            "INSERT INTO as2_log (id, site, at, direction, state, partner, sender, receiver, ",
            "message_id, about, event_id, job) ",
            $values,
            " ON CONFLICT (id) DO UPDATE SET at = excluded.at, state = excluded.state, ",
            "about = excluded.about, event_id = excluded.event_id ",
            $only,
        )
    };
}

/// Of a message that is on its way the job says whether anybody still waits for its receipt.
macro_rules! select {
    ($lead:literal) => {
        sql!(
            "SELECT id, at, direction, state, partner, sender, receiver, message_id, about, ",
            "event_id, job FROM (SELECT log.id, log.at, log.direction, log.partner, log.sender, ",
            "log.receiver, log.message_id, log.about, log.event_id, log.job, ",
            "CASE WHEN log.state = 'awaiting' AND NOT EXISTS (SELECT 1 FROM jobs ",
            "WHERE jobs.id = log.job AND jobs.state NOT IN ('failed', 'cancelled')) ",
            "THEN 'unconfirmed' ELSE log.state END AS state FROM as2_log AS log ",
            "WHERE log.site = $1 ",
            "AND (CAST($2 AS BIGINT) IS NULL OR log.at >= $2) ",
            "AND (CAST($3 AS BIGINT) IS NULL OR log.at < $3) ",
            "AND (CAST($4 AS TEXT) IS NULL OR log.direction = $4) ",
            "AND (CAST($5 AS BIGINT) IS NULL OR (log.at, log.id) < ($5, $6)) ",
            $lead,
            ") AS found WHERE (CAST($8 AS TEXT) IS NULL OR state = $8) ",
            "ORDER BY at DESC, id DESC LIMIT $9",
        )
    };
}

statements! {
    BY_TIME = select!("AND CAST($7 AS TEXT) IS NULL");
    BY_PARTNER = select!("AND log.partner = $7");
    BY_MESSAGE = select!("AND log.message_id IN ($7, '<' || $7 || '>')");
    BY_ID = select!("AND log.id = $7");
    PROJECT_SQLITE = upsert!(
        "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
        "WHERE as2_log.state IN ('awaiting', 'rejected')"
    );
    LEAVES = upsert!(
        "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
        "WHERE as2_log.state IN ('awaiting', 'rejected')"
    );
    FORGET = sql!("DELETE FROM as2_log WHERE event_id IS NULL AND at < $1");
    FORGET_TOLD = sql!(
        "DELETE FROM as2_log WHERE event_id IN (SELECT id FROM events WHERE node = $1 ",
        "AND node_sequence > $2 AND node_sequence <= $3 AND site = $4 ",
        "ORDER BY node_sequence LIMIT $5)",
    );
}

/// What is told by the first events of a range, in front of their own deletion.
pub(crate) const PRUNE: Sql = FORGET_TOLD;

/// As `PROJECT_SQLITE`, an array a column.
pub(crate) const PROJECT_POSTGRES: Sql = upsert!(
    "SELECT * FROM UNNEST($1::UUID[], $2::UUID[], $3::BIGINT[], $4::TEXT[], $5::TEXT[], \
     $6::TEXT[], $7::TEXT[], $8::TEXT[], $9::TEXT[], $10::TEXT[], $11::UUID[], $12::UUID[])",
    "WHERE as2_log.state IN ('awaiting', 'rejected')"
);
/// Messages that events tell of.
pub(crate) const PROJECT: Batch =
    Batch { sqlite: PROJECT_SQLITE, postgres: PROJECT_POSTGRES, width: 12 };

/// Which messages are wanted. The default wants all, newest first.
#[derive(Clone, Debug)]
pub struct As2Filter {
    /// Only of the partner of this endpoint.
    pub partner: Option<Name>,
    /// Only this one, or those with this Message-ID.
    pub message: Option<As2MessageName>,
    /// Only in this direction.
    pub direction: Option<Direction>,
    /// Only in this state.
    pub state: Option<As2State>,
    /// Only those that reached their state at or after this moment.
    pub since: Option<Timestamp>,
    /// Only those that reached it before this moment.
    pub until: Option<Timestamp>,
    /// Only those that come after this row, newest first.
    pub after: Option<RowPosition>,
    /// At most this many, and never more than [`crate::limits::PAGE_ROWS`].
    pub limit: u32,
}

impl Default for As2Filter {
    fn default() -> Self {
        As2Filter {
            partner: None,
            message: None,
            direction: None,
            state: None,
            since: None,
            until: None,
            after: None,
            limit: crate::limits::PAGE_ROWS,
        }
    }
}

impl As2Filter {
    /// The search by the index that fits best, and what that is asked for. A message that is named
    /// is one of few: what else is asked of it is looked at there.
    fn search(&self) -> (Sql, Value) {
        match (&self.message, &self.partner) {
            (Some(As2MessageName::Id(id)), _) => (BY_ID, (*id).into()),
            (Some(As2MessageName::MessageId(id)), _) => {
                (BY_MESSAGE, Value::text(id.trim_matches(['<', '>'])))
            }
            (None, Some(partner)) => (BY_PARTNER, partner.into()),
            (None, None) => (BY_TIME, Value::Text(None)),
        }
    }
}

impl Db {
    /// Messages of a site that match, newest first.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn as2_log(&self, site: SiteId, filter: &As2Filter) -> Result<Vec<As2Entry>> {
        let (find, key) = filter.search();
        let after = filter.after.as_ref();
        let values = vec![
            site.0.into(),
            filter.since.into(),
            filter.until.into(),
            Value::maybe_text(filter.direction.map(Direction::as_str)),
            after.map(|row| row.at).into(),
            after.map_or(Uuid::nil(), |row| row.id).into(),
            key,
            Value::maybe_text(filter.state.map(As2State::as_str)),
            page(filter.limit),
        ];
        let mut found = self.read(find, values, read_row).await?;
        if let (Some(_), Some(partner)) = (&filter.message, &filter.partner) {
            found.retain(|entry| entry.partner.as_ref() == Some(partner));
        }
        Ok(found)
    }

    /// A message of ours leaves: to be called before it does.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn as2_leaves(&self, site: SiteId, entry: &As2Entry) -> Result<()> {
        let mut row = Vec::with_capacity(PROJECT.width);
        push_row(site, entry, &mut row);
        self.execute(LEAVES, row).await.map(drop)
    }

    /// Forgets what left before `before` and was never told by an event.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn forget_as2_log(&self, before: Timestamp) -> Result<u64> {
        self.execute(FORGET, vec![before.into()]).await
    }
}

/// What [`PROJECT`] is to be run for.
pub(crate) fn rows(events: &[(u64, Event)]) -> Vec<Value> {
    let mut rows: Vec<(As2Entry, SiteId)> = Vec::new();
    for (_, event) in events {
        let Some(entry) = entry_of(event) else { continue };
        // PostgreSQL does not change a row twice in a statement; what has an end keeps it.
        match rows.iter_mut().find(|(known, _)| known.id == entry.id) {
            None => rows.push((entry, event.site)),
            Some((known, _)) if known.state == As2State::Rejected => *known = entry,
            Some(_) => {}
        }
    }
    let mut values = Vec::with_capacity(rows.len() * PROJECT.width);
    rows.iter().for_each(|(entry, site)| push_row(*site, entry, &mut values));
    values
}

/// The message that an event tells of, if it tells of one.
fn entry_of(event: &Event) -> Option<As2Entry> {
    let of = |message: &As2Message, direction, state, id, about: &str| As2Entry {
        id,
        at: event.at,
        direction,
        state,
        partner: Some(message.partner.clone()),
        from: message.from.clone(),
        to: message.to.clone(),
        message_id: Some(message.message_id.clone()),
        about: Some(about.to_owned()),
        event: Some(event.id),
        job: event.job,
    };
    match &event.fact {
        Fact::FileUploaded { .. } | Fact::FileRecovered { .. } | Fact::FileHeld { .. } => {
            let file = event.fact.file()?;
            let message = file.as2.as_deref()?;
            Some(of(message, Direction::In, As2State::Received, file.transfer.0, &file.path))
        }
        Fact::FileDelivered { file, .. } => {
            let message = file.as2.as_deref()?;
            Some(of(message, Direction::Out, As2State::Delivered, file.transfer.0, &file.path))
        }
        Fact::As2Rejected { rejection } => {
            let (id, about) = (rejection.transfer.0, &rejection.disposition);
            Some(of(&rejection.message, Direction::Out, As2State::Rejected, id, about))
        }
        Fact::As2Refused { refusal } => Some(As2Entry {
            id: event.id.0,
            at: event.at,
            direction: Direction::In,
            state: As2State::Refused,
            partner: refusal.partner.clone(),
            from: refusal.from.clone(),
            to: refusal.to.clone(),
            message_id: refusal.message_id.clone(),
            about: Some(refusal.disposition.clone()),
            event: Some(event.id),
            job: None,
        }),
        _ => None,
    }
}

fn push_row(site: SiteId, entry: &As2Entry, row: &mut Vec<Value>) {
    row.extend([
        entry.id.into(),
        site.0.into(),
        entry.at.into(),
        entry.direction.as_str().into(),
        entry.state.as_str().into(),
        name_filter(entry.partner.as_ref()),
        Value::text(&entry.from),
        Value::text(&entry.to),
        Value::maybe_text(entry.message_id.as_deref()),
        Value::maybe_text(entry.about.as_deref()),
        entry.event.map(|id| id.0).into(),
        entry.job.map(|id| id.0).into(),
    ]);
}

fn read_row(row: &Row<'_>) -> Result<As2Entry> {
    Ok(As2Entry {
        id: row.id(0)?,
        at: row.time(1)?,
        direction: row.word(2)?,
        state: row.word(3)?,
        partner: row.maybe_name(4)?,
        from: row.text(5)?,
        to: row.text(6)?,
        message_id: row.maybe_text(7)?,
        about: row.maybe_text(8)?,
        event: row.maybe_id(9)?.map(EventId),
        job: row.maybe_id(10)?.map(JobId),
    })
}
