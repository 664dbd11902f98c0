//! Messages of AS2: each is published once over all nodes, whatever is sent again, to whichever
//! node, and whenever one of them dies. RFC 4130 §5.3.2 lets a sender repeat a message whose
//! receipt it did not get.
//!
//! The id of a message is claimed in the database before it is published, which is the one thing of
//! a transfer that waits for the database. What this process has published stays in memory until
//! its event is among the events, for until then the database knows only of the claim. A claim
//! of a process that has died ends when all that its node has recorded is projected: then it is
//! known whether the message was published.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use entrepot_db::{As2Claim, As2MessageKey, As2Publisher, As2QueuedReceipt, Db};
use entrepot_journal::Recorder;
use entrepot_nouns::event::As2Message;
use entrepot_nouns::{EventId, SiteId, TransferId};
use parking_lot::Mutex;

use crate::book::Book;
use crate::error::{Result, VfsError};
use crate::limits;
use crate::refusal::CommandRefusal;
use crate::uploaded::Uploaded;

/// What became of a message that was whole and right.
#[derive(Clone, Debug, PartialEq)]
pub enum As2Arrival {
    /// It is published.
    Published(Uploaded),
    /// It was received before, and nothing was published now: this is what is known of it. `None`:
    /// the event that says so was deleted by retention.
    Before(Option<Box<As2Message>>),
    /// A copy of it is being published, or a node that has stopped may have published it.
    Underway,
    /// A rule does not let it pass: nothing was published, and it may be sent again.
    Refused(CommandRefusal),
}

/// How a message stands in this process.
enum Known {
    /// It is being published.
    Publishing,
    /// Nobody knows whether it was published: a later start of the program does.
    Undecided,
    /// It is published, and may not be among the events yet.
    Published(Box<As2Message>),
    /// Nothing was published, and the claim could not be given back.
    Kept,
}

#[derive(Default)]
struct ClaimsState {
    known: HashMap<As2MessageKey, Known>,
    /// Those that are published, the oldest first.
    published: VecDeque<As2MessageKey>,
}

/// The messages that this process has claimed.
pub(crate) struct As2Claims {
    db: Db,
    recorder: Recorder,
    book: Arc<Book>,
    by: As2Publisher,
    /// The last record of the journal when all that earlier starts did was recorded; 0: it is not.
    recovered_up_to: AtomicU64,
    earlier_ended: AtomicBool,
    state: Mutex<ClaimsState>,
}

/// A message whose id is ours.
pub(crate) struct Claimed<'a> {
    claims: &'a As2Claims,
    key: As2MessageKey,
}

pub(crate) enum ClaimResult<'a> {
    Ours(Claimed<'a>),
    /// It was received before, or is had by another one.
    Not(As2Arrival),
}

impl As2Claims {
    /// Of a process that has not recovered yet.
    pub(crate) fn new(db: Db, recorder: Recorder, book: Arc<Book>) -> As2Claims {
        let start = recorder.env().new_id::<EventId>().0;
        let by = As2Publisher { node: recorder.node_id(), start };
        let (recovered_up_to, earlier_ended) = (AtomicU64::new(0), AtomicBool::new(false));
        let state = Mutex::default();
        As2Claims { db, recorder, book, by, recovered_up_to, earlier_ended, state }
    }

    /// What earlier starts left open is decided, and recorded.
    pub(crate) fn recovered(&self) {
        let appended = self.recorder.journal().usage().appended.max(1);
        // The first look counts: what comes later is of this start.
        let _ =
            self.recovered_up_to.compare_exchange(0, appended, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Claims a message, before it is published.
    pub(crate) async fn claim(&self, key: As2MessageKey) -> Result<ClaimResult<'_>> {
        let before = match self.begin(&key) {
            Ok(before) => before,
            Err(As2Arrival::Before(Some(message))) => {
                self.send_receipt_again(key.site, &message).await?;
                return Ok(ClaimResult::Not(As2Arrival::Before(Some(message))));
            }
            Err(arrival) => return Ok(ClaimResult::Not(arrival)),
        };
        let is_kept = matches!(before, Some(Known::Kept));
        let claimed = Claimed { claims: self, key };
        let now = self.recorder.env().now();
        let arrival = match self.db.claim_as2_message(&claimed.key, self.by, now).await {
            Ok(As2Claim::Ours) => return Ok(ClaimResult::Ours(claimed)),
            Ok(As2Claim::Claimed(by)) if is_kept && by == self.by => {
                return Ok(ClaimResult::Ours(claimed));
            }
            Ok(As2Claim::Claimed(_)) => Ok(As2Arrival::Underway),
            Ok(As2Claim::Received(event)) => self.known_event(claimed.key.site, event).await,
            Err(error) => {
                tracing::warn!(code = error.code(), %error, "a message cannot be claimed");
                // The answer may have been lost.
                claimed.give_back().await;
                return Err(database_away());
            }
        };
        let mut state = self.state.lock();
        match before {
            Some(before @ Known::Undecided) => drop(state.known.insert(claimed.key, before)),
            _ => drop(state.known.remove(&claimed.key)),
        }
        drop(state);
        Ok(ClaimResult::Not(arrival?))
    }

    /// From now on this process publishes it, unless it does already, or has: how it stood before.
    fn begin(&self, key: &As2MessageKey) -> std::result::Result<Option<Known>, As2Arrival> {
        let mut state = self.state.lock();
        match state.known.get(key) {
            Some(Known::Publishing) => Err(As2Arrival::Underway),
            Some(Known::Published(message)) => Err(As2Arrival::Before(Some(message.clone()))),
            Some(Known::Kept | Known::Undecided) | None => {
                Ok(state.known.insert(key.clone(), Known::Publishing))
            }
        }
    }

    /// What an event says of the message that it tells of.
    async fn known_event(&self, site: SiteId, event: EventId) -> Result<As2Arrival> {
        let row = self.db.event(event).await.map_err(|error| {
            tracing::warn!(code = error.code(), %error, "a receipt cannot be read");
            database_away()
        })?;
        let file = row.as_ref().and_then(|row| row.event.fact.file());
        let message = file.and_then(|file| file.as2.clone());
        if let Some(message) = &message {
            self.send_receipt_again(site, message).await?;
        }
        Ok(As2Arrival::Before(message))
    }

    /// The sender of a message that comes again has not got the receipt: it gets it once more where
    /// it wants it.
    async fn send_receipt_again(&self, site: SiteId, message: &As2Message) -> Result<()> {
        let now = self.recorder.env().now();
        let Some(receipt) = As2QueuedReceipt::of_message(site, message, now) else { return Ok(()) };
        self.db.queue_as2_receipt(&receipt).await.map_err(|error| {
            tracing::warn!(code = error.code(), %error, "a receipt cannot be sent again");
            database_away()
        })
    }

    /// Ends claims of earlier starts when it is known what they have published, and gives back
    /// those of this one that could not be given back before.
    pub(crate) async fn settle(&self) {
        if !self.earlier_ended.load(Ordering::Acquire) {
            match self.end_earlier().await {
                Ok(true) => self.earlier_ended.store(true, Ordering::Release),
                Ok(false) => {}
                Err(error) => {
                    tracing::debug!(code = error.code(), %error, "old claims of messages stay");
                }
            }
        }
        let kept: Vec<As2MessageKey> = {
            let state = self.state.lock();
            let is_kept = |known: &Known| matches!(known, Known::Kept);
            state.known.iter().filter(|it| is_kept(it.1)).map(|it| it.0.clone()).collect()
        };
        for key in kept {
            if self.take_kept(&key) {
                Claimed { claims: self, key }.give_back().await;
            }
        }
    }

    /// Nobody else gives it back or takes it; false: somebody does already.
    fn take_kept(&self, key: &As2MessageKey) -> bool {
        let mut state = self.state.lock();
        let is_kept = matches!(state.known.get(key), Some(Known::Kept));
        if is_kept {
            state.known.insert(key.clone(), Known::Publishing);
        }
        is_kept
    }

    /// Forgets messages that came so long ago that no copy of them is to be expected.
    pub(crate) async fn forget_old(&self) {
        let old = self.recorder.env().now().minus(limits::AS2_REMEMBERED);
        let forgotten = async {
            self.db.forget_as2_messages(old).await?;
            self.db.forget_as2_sent(old).await?;
            self.db.forget_as2_log(old).await
        };
        if let Err(error) = forgotten.await {
            tracing::debug!(code = error.code(), %error, "old messages are not forgotten");
        }
    }

    async fn end_earlier(&self) -> entrepot_db::Result<bool> {
        let written = self.recovered_up_to.load(Ordering::Acquire);
        if written == 0 || self.db.projected_up_to(self.by.node).await? < written {
            return Ok(false);
        }
        let ended = self.db.end_earlier_as2_claims(self.by).await?;
        if ended > 0 {
            tracing::info!(ended, "messages of AS2 that were not published may be sent again");
        }
        Ok(true)
    }
}

impl Claimed<'_> {
    /// Nothing was published.
    async fn give_back(self) {
        let Claimed { claims, key } = self;
        let given = claims.db.give_back_as2_message(&key, claims.by.start).await;
        let mut state = claims.state.lock();
        match given {
            Ok(()) => drop(state.known.remove(&key)),
            Err(error) => {
                tracing::warn!(code = error.code(), %error, "the claim of a message stays");
                state.known.insert(key, Known::Kept);
            }
        }
    }

    /// It is published.
    pub(crate) fn published(self, message: As2Message) {
        let mut state = self.claims.state.lock();
        state.known.insert(self.key.clone(), Known::Published(Box::new(message)));
        state.published.push_back(self.key);
        while state.published.len() > limits::AS2_PUBLISHED {
            // The database has it, or says that it is claimed.
            if let Some(oldest) = state.published.pop_front() {
                state.known.remove(&oldest);
            }
        }
    }

    /// It failed: nothing was published, unless an intent of the transfer is still open.
    pub(crate) async fn failed(self, transfer: TransferId) {
        if self.claims.book.is_undecided(transfer) {
            self.claims.state.lock().known.insert(self.key.clone(), Known::Undecided);
        } else {
            self.give_back().await;
        }
    }
}

fn database_away() -> VfsError {
    VfsError::busy("the database that knows all messages is away")
}
