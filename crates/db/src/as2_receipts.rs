//! Receipts of AS2 that travel apart from their messages (RFC 4130 §7.2, "asynchronous"): those
//! that partners want sent to an address of theirs, and which job waits for one of a partner.
//!
//! A receipt to be sent is queued by the transaction that takes over the event which has it, so it
//! is as durable as what it says. An attempt moves the row on by as long as it may take; a node
//! that dies in it leaves the row for whichever looks next. A receipt that leaves twice has the
//! same bytes, and says nothing new.

use entrepot_nouns::event::{As2Message, As2Receipt};
use entrepot_nouns::{Event, Fact, JobId, Name, SiteId, Timestamp};

use crate::error::Result;
use crate::sql::{Row, Sql, Value, sql, statements};
use crate::tx::Batch;
use crate::{Db, Dialect, Purpose};

macro_rules! columns {
    ($before:expr, $after:expr) => {
        concat!(
            $before,
            "receipt, site, partner, sender, receiver, message_id, url, content_type, body, since",
            $after
        )
    };
}

macro_rules! claim {
    ($lock:literal) => {
        sql!(
            "UPDATE as2_receipts SET due_at = $1, attempts = attempts + 1 WHERE receipt IN ",
            "(SELECT receipt FROM as2_receipts WHERE due_at <= $2 ORDER BY due_at LIMIT $3 ",
            $lock,
            ") RETURNING ",
            columns!("", ", attempts"),
        )
    };
}

statements! {
    /// Of a message that was held and is then released there are two events: the one counts by
    /// which the message is known. What is refused is not received, whatever came under its id
    /// before.
    QUEUE_SQLITE = sql!(
        columns!("INSERT INTO as2_receipts (", ", attempts, due_at) "),
        "SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 0, $10 WHERE $11 = 1 OR NOT EXISTS ",
        "(SELECT 1 FROM as2_messages AS known WHERE known.site = $2 AND known.sender = $5 ",
        "AND known.receiver = $4 AND known.message_id = $6 AND known.event_id <> $12) ",
        "ON CONFLICT (receipt) DO NOTHING",
    );
    QUEUE_AGAIN = sql!(
        columns!("INSERT INTO as2_receipts (", ", attempts, due_at) "),
        "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 0, $10) ",
        "ON CONFLICT (receipt) DO NOTHING",
    );
    CLAIM_SQLITE = claim!("");
    END = sql!("DELETE FROM as2_receipts WHERE receipt = $1");
    PUT_OFF = sql!(
        "UPDATE as2_receipts SET due_at = $1 WHERE site = $2 AND partner = $3",
    );
    NEXT = sql!("SELECT due_at FROM as2_receipts ORDER BY due_at LIMIT 1");
    SENT = sql!(
        "INSERT INTO as2_sent (site, partner, message_id, job, sent_at) ",
        "VALUES ($1, $2, $3, $4, $5) ON CONFLICT (site, partner, message_id) DO UPDATE SET ",
        "job = excluded.job, sent_at = excluded.sent_at",
    );
    FIND_SENT = sql!(
        "SELECT job FROM as2_sent WHERE site = $1 AND partner = $2 AND message_id = $3",
    );
    FORGET_SENT = sql!("DELETE FROM as2_sent WHERE sent_at < $1");
}

/// As `CLAIM_SQLITE`, beside others that claim.
pub(crate) const CLAIM_POSTGRES: Sql = claim!("FOR UPDATE SKIP LOCKED");
/// As `QUEUE_SQLITE`, an array a column.
pub(crate) const QUEUE_POSTGRES: Sql = sql!(
    columns!("INSERT INTO as2_receipts (", ", attempts, due_at) "),
    "SELECT told.receipt, told.site, told.partner, told.sender, told.receiver, told.message_id, ",
    "told.url, told.content_type, told.body, told.since, 0, told.since ",
    "FROM UNNEST($1::TEXT[], $2::UUID[], $3::TEXT[], $4::TEXT[], $5::TEXT[], $6::TEXT[], ",
    "$7::TEXT[], $8::TEXT[], $9::TEXT[], $10::BIGINT[], $11::BIGINT[], $12::UUID[]) AS told ",
    "(receipt, site, partner, sender, receiver, message_id, url, content_type, body, since, ",
    "refused, event) WHERE told.refused = 1 OR NOT EXISTS ",
    "(SELECT 1 FROM as2_messages AS known WHERE known.site = told.site ",
    "AND known.sender = told.receiver AND known.receiver = told.sender ",
    "AND known.message_id = told.message_id AND known.event_id <> told.event) ",
    "ON CONFLICT (receipt) DO NOTHING",
);
/// Receipts of events, behind [`crate::as2_messages::RECEIVED`] in the same transaction.
pub(crate) const QUEUE: Batch = Batch { sqlite: QUEUE_SQLITE, postgres: QUEUE_POSTGRES, width: 12 };

/// A receipt that goes to an address of the partner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct As2QueuedReceipt {
    /// The site that received the message.
    pub site: SiteId,
    /// The endpoint of the partner.
    pub partner: Name,
    /// `AS2-From` of the receipt: our name.
    pub sender: String,
    /// `AS2-To` of the receipt.
    pub receiver: String,
    /// The Message-ID of the message that it is for.
    pub message_id: String,
    /// The receipt; its `url` is where it goes.
    pub receipt: As2Receipt,
    /// When the message came.
    pub since: Timestamp,
    /// Attempts that were begun, counting this one.
    pub attempts: u32,
}

impl As2QueuedReceipt {
    /// Of an event that has such a receipt.
    pub fn of(event: &Event) -> Option<As2QueuedReceipt> {
        match &event.fact {
            Fact::FileUploaded { .. } | Fact::FileRecovered { .. } | Fact::FileHeld { .. } => {
                let message = event.fact.file()?.as2.as_deref()?;
                As2QueuedReceipt::of_message(event.site, message, event.at)
            }
            Fact::As2Refused { refusal } => {
                let receipt = refusal.receipt.as_deref()?;
                receipt.url.as_ref()?;
                Some(As2QueuedReceipt {
                    site: event.site,
                    partner: refusal.partner.clone()?,
                    sender: refusal.to.clone(),
                    receiver: refusal.from.clone(),
                    message_id: refusal.message_id.clone().unwrap_or_default(),
                    receipt: receipt.clone(),
                    since: event.at,
                    attempts: 0,
                })
            }
            _ => None,
        }
    }

    /// Of a message with such a receipt, which is wanted since then.
    pub fn of_message(
        site: SiteId,
        message: &As2Message,
        since: Timestamp,
    ) -> Option<As2QueuedReceipt> {
        let receipt = message.receipt.as_deref()?;
        receipt.url.as_ref()?;
        Some(As2QueuedReceipt {
            site,
            partner: message.partner.clone(),
            sender: message.to.clone(),
            receiver: message.from.clone(),
            message_id: message.message_id.clone(),
            receipt: receipt.clone(),
            since,
            attempts: 0,
        })
    }

    fn values(&self) -> Vec<Value> {
        let As2Receipt { message_id, content_type, body, url, .. } = &self.receipt;
        vec![
            Value::text(message_id),
            self.site.0.into(),
            Value::text(self.partner.as_str()),
            Value::text(&self.sender),
            Value::text(&self.receiver),
            Value::text(&self.message_id),
            Value::text(url.as_deref().unwrap_or_default()),
            Value::text(content_type),
            Value::text(body),
            self.since.into(),
        ]
    }

    fn read(row: &Row<'_>) -> Result<As2QueuedReceipt> {
        let receipt = As2Receipt {
            message_id: row.text(0)?,
            url: Some(row.text(6)?),
            content_type: row.text(7)?,
            body: row.text(8)?,
            head: None,
            certificate: None,
        };
        Ok(As2QueuedReceipt {
            site: SiteId(row.id(1)?),
            partner: row.name(2)?,
            sender: row.text(3)?,
            receiver: row.text(4)?,
            message_id: row.text(5)?,
            receipt,
            since: row.time(9)?,
            attempts: row.small(10)?,
        })
    }
}

/// What [`QUEUE`] is to be run for.
pub(crate) fn queued(events: &[(u64, Event)]) -> Vec<Value> {
    let mut values = Vec::new();
    for (_, event) in events {
        if let Some(receipt) = As2QueuedReceipt::of(event) {
            let refused = i64::from(matches!(event.fact, Fact::As2Refused { .. }));
            values.extend(receipt.values());
            values.extend([refused.into(), event.id.0.into()]);
        }
    }
    values
}

/// A message of ours that has left, whose receipt comes by itself.
#[derive(Clone, Copy, Debug)]
pub struct As2SentMessage<'a> {
    /// The site of the job.
    pub site: SiteId,
    /// The endpoint of the partner.
    pub partner: &'a Name,
    /// The Message-ID, without angle brackets.
    pub message_id: &'a str,
}

impl As2SentMessage<'_> {
    fn values(&self) -> Vec<Value> {
        let Self { site, partner, message_id } = self;
        vec![site.0.into(), Value::text(partner.as_str()), Value::text(*message_id)]
    }
}

impl Db {
    /// Queues a receipt once more, because its message came again.
    ///
    /// # Errors
    /// As everywhere; queueing it twice changes nothing.
    pub async fn queue_as2_receipt(&self, receipt: &As2QueuedReceipt) -> Result<()> {
        self.execute(QUEUE_AGAIN, receipt.values()).await.map(drop)
    }

    /// Receipts whose attempt may begin at `now`, at most `limit`; nobody else gets them before
    /// `until`.
    ///
    /// # Errors
    /// As everywhere; then they may be claimed, and come back.
    pub async fn claim_as2_receipts(
        &self,
        now: Timestamp,
        until: Timestamp,
        limit: u32,
    ) -> Result<Vec<As2QueuedReceipt>> {
        let claim = match self.dialect() {
            Dialect::Sqlite => CLAIM_SQLITE,
            Dialect::Postgres => CLAIM_POSTGRES,
        };
        let values = vec![until.into(), now.into(), i64::from(limit).into()];
        let mut work = self.work(Purpose::Other).await?;
        let claimed = work.query(claim, values, As2QueuedReceipt::read).await?;
        work.commit().await?;
        Ok(claimed)
    }

    /// A receipt was sent, or is given up.
    ///
    /// # Errors
    /// As everywhere; ending it twice changes nothing.
    pub async fn end_as2_receipt(&self, receipt: &str) -> Result<()> {
        self.execute(END, vec![Value::text(receipt)]).await.map(drop)
    }

    /// No receipt for this partner is tried before `until`.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn put_off_as2_receipts(
        &self,
        site: SiteId,
        partner: &Name,
        until: Timestamp,
    ) -> Result<()> {
        let values = vec![until.into(), site.0.into(), Value::text(partner.as_str())];
        self.execute(PUT_OFF, values).await.map(drop)
    }

    /// When the next attempt to send a receipt may begin; `None`: there is none to be sent.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn next_as2_receipt(&self) -> Result<Option<Timestamp>> {
        Ok(self.read(NEXT, Vec::new(), |row| row.time(0)).await?.pop())
    }

    /// A job sends a message whose receipt comes by itself: to be called before it leaves.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn as2_sent(
        &self,
        message: &As2SentMessage<'_>,
        job: JobId,
        now: Timestamp,
    ) -> Result<()> {
        let mut values = message.values();
        values.extend([job.0.into(), now.into()]);
        self.execute(SENT, values).await.map(drop)
    }

    /// The job that sent this message; `None`: none did, or too long ago.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn sender_of_as2(&self, message: &As2SentMessage<'_>) -> Result<Option<JobId>> {
        let found = self.read(FIND_SENT, message.values(), |row| Ok(JobId(row.id(0)?)));
        Ok(found.await?.pop())
    }

    /// Forgets what was sent before `before`.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn forget_as2_sent(&self, before: Timestamp) -> Result<u64> {
        self.execute(FORGET_SENT, vec![before.into()]).await
    }
}
